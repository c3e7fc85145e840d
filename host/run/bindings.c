/* bindings.c: the feeds and outputs of a session's graph by name, and the arrays they stand for in a step.
** Columns of the step table are bound as they are, without a copy; outputs have room for the largest step. */
#include "run/inside.h"
#include "run/session_inside.h"

#include "graph/op.h"

#include <stdio.h>

/* ---- Names ---- */

/* Edits (insert, delete, replace) between two names, at most `most`; only for short ones. Levenshtein 1966. */
static int distance(const char *a, const char *b, int most) {
  int row[64];
  int n = (int)strlen(a), m = (int)strlen(b);
  if (n > 62 || m > 62) return most;
  for (int j = 0; j <= m; j++) row[j] = j;
  for (int i = 1; i <= n; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= m; j++) {
      int replace = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      int insert = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      row[j] = replace < insert ? replace : insert;
    }
  }
  return row[m] < most ? row[m] : most;
}

lt_status lt_fail_name(lt_error *e, const char *kind, const char *name, const char *const *names, int32_t n) {
  lt_text text = {0};
  int best = 1 + (int)strlen(name) / 3;
  const char *nearest = NULL;
  for (int32_t i = 0; i < n; i++) {
    int d = distance(name, names[i], 99);
    if (d <= best && (!nearest || d < best)) best = d, nearest = names[i];
    lt_text_add(&text, "%s%s", i ? ", " : "", names[i]);
  }
  lt_status status = lt_fail(e, LT_USAGE, "there is no %s '%s'", kind, name);
  lt_error_expected(e, n ? "one of %s" : "none: there are no %ss", n ? text.s : kind);
  if (nearest) lt_error_hint(e, "did you mean '%s'?", nearest);
  lt_text_free(&text);
  return status;
}

/* ---- Made once ---- */

static lt_status add_binding(lt_session *s, const lt_node *n, lt_error *e) {
  bool load = n->op->kind == LT_OP_LOAD;
  const char *name = NULL;
  for (int32_t i = 0; i < n->op->n_attr && !name; i++)
    if (!strcmp(n->op->attr[i].name, "name")) name = lt_attr_text(n, i);
  int64_t count = load ? s->feed.n : s->output.n;
  for (int64_t i = 0; i < count; i++)
    if (!strcmp(load ? s->feed.at[i].name : s->output.at[i].name, name)) return LT_OK;
  lt_binding *b = load ? lt_vec_push(&s->feed) : lt_vec_push(&s->output);
  if (!b) return lt_fail_memory(e, sizeof *b, "the feeds of a session");
  b->name = name;
  b->value = load ? n->out : n->in[0];
  lt_operand o;
  lt_operand_of(lt_session_graph(s), b->value, &o);
  if (!load) {
    int64_t factor = lt_rows_factor(lt_session_graph(s), b->value);
    if (factor) o.dim[0] = s->program->plan.data.tokens * factor;
    lt_status status = lt_tensor_create(o.dtype, o.rank, o.dim, &b->own, e);
    if (!status && factor) b->own->dim[0] = 0;
    return status;
  }
  if (!strcmp(name, "loss_scale")) return lt_tensor_create(LT_F64, 0, NULL, &b->own, e);
  return LT_OK;
}

lt_status lt_bindings_create(lt_session *s, lt_error *e) {
  const lt_graph *g = lt_session_graph(s);
  lt_status status = LT_OK;
  for (int64_t i = 0; i < g->node.n && !status; i++) {
    const lt_node *n = &g->node.at[i];
    if (!n->dead && (n->op->kind == LT_OP_LOAD || n->op->kind == LT_OP_STORE)) status = add_binding(s, n, e);
  }
  if (status) return status;
  s->feed_array = calloc((size_t)s->feed.n + 1, sizeof *s->feed_array);
  s->output_array = calloc((size_t)s->output.n + 1, sizeof *s->output_array);
  return s->feed_array && s->output_array ? LT_OK : lt_fail_memory(e, 64, "the feeds of a session");
}

void lt_bindings_free(lt_session *s) {
  for (int64_t i = 0; i < s->feed.n; i++) lt_tensor_free(s->feed.at[i].own);
  for (int64_t i = 0; i < s->output.n; i++) lt_tensor_free(s->output.at[i].own);
  lt_vec_free(&s->feed);
  lt_vec_free(&s->output);
  free(s->feed_array);
  free(s->output_array);
}

/* ---- Asked from outside ---- */

static lt_binding *find(lt_binding *b, int64_t n, const char *name) {
  for (int64_t i = 0; i < n; i++)
    if (!strcmp(b[i].name, name)) return &b[i];
  return NULL;
}

lt_status lt_session_bind(lt_session *s, const char *name, lt_tensor *t, lt_error *e) {
  lt_binding *b = find(s->feed.at, s->feed.n, name);
  if (!b) b = find(s->output.at, s->output.n, name);
  if (b) {
    b->bound = t;
    return LT_OK;
  }
  const char *names[64];
  int32_t n = 0;
  for (int64_t i = 0; i < s->feed.n && n < 64; i++) names[n++] = s->feed.at[i].name;
  for (int64_t i = 0; i < s->output.n && n < 64; i++) names[n++] = s->output.at[i].name;
  return lt_fail_name(e, "feed or output", name, names, n);
}

const lt_tensor *lt_session_output(lt_session *s, const char *name) {
  const lt_binding *b = find(s->output.at, s->output.n, name);
  return !b ? NULL : b->bound ? b->bound : b->own;
}

const char *lt_session_output_name(const lt_session *s, int32_t i) {
  return i < s->output.n ? s->output.at[i].name : NULL;
}

/* ---- A step ---- */

/* The column of the step table a feed is named after, or NULL. */
static void *column(const lt_step_table *t, const char *name, lt_dtype *type) {
  *type = LT_I32;
  if (!strcmp(name, "token")) return t->token;
  if (!strcmp(name, "label")) return t->label;
  if (!strcmp(name, "document")) return t->document;
  if (!strcmp(name, "position")) return t->position;
  if (!strcmp(name, "ordinal")) return t->ordinal;
  *type = LT_F32;
  return strcmp(name, "weight") ? NULL : t->weight;
}

static lt_status begin_feed(lt_session *s, lt_binding *b, const lt_step_table *t, lt_error *e) {
  lt_dtype type;
  if (b->bound && lt_session_graph(s)->hops.n && (!strcmp(b->name, "position") || !strcmp(b->name, "document"))) {
    lt_fail(e, LT_USAGE, "feed '%s' is bound, but hops carry the rows that the step table's %ss ask for", b->name,
            b->name);
    lt_error_hint(e, "give them to the step table");
    return LT_USAGE;
  }
  if (b->bound) return LT_OK;
  if (b->own) {
    *(double *)b->own->data = t->weight_sum != 0 ? 1 / t->weight_sum : 0;
    return LT_OK;
  }
  void *data = column(t, b->name, &type);
  if (data) {
    b->view = (lt_tensor){.dtype = type, .rank = 1, .dim = {t->tokens}, .data = data};
    return LT_OK;
  }
  lt_status status = lt_fail(e, LT_USAGE, "no array is bound to feed '%s'", b->name);
  lt_error_where(e, "step %lld", (long long)s->step);
  return status;
}

lt_status lt_bindings_begin(lt_session *s, const lt_step_table *t, lt_error *e) {
  int64_t bound = s->program->plan.data.tokens;
  if (t->tokens > bound) {
    lt_status status = lt_fail(e, LT_DATA, "step %lld has more tokens than was planned for", (long long)s->step);
    lt_error_expected(e, "at most %lld", (long long)bound);
    lt_error_got(e, "%lld", (long long)t->tokens);
    return status;
  }
  for (int64_t i = 0; i < s->feed.n; i++) {
    lt_binding *b = &s->feed.at[i];
    lt_status status = begin_feed(s, b, t, e);
    if (status) return status;
    s->feed_array[i] = (lt_host_array){b->name, b->bound ? b->bound : b->own ? b->own : &b->view};
  }
  for (int64_t i = 0; i < s->output.n; i++) {
    lt_binding *b = &s->output.at[i];
    int64_t factor = lt_rows_factor(lt_session_graph(s), b->value);
    if (factor) b->own->dim[0] = t->tokens * factor;
    s->output_array[i] = (lt_host_array){b->name, b->bound ? b->bound : b->own};
  }
  return LT_OK;
}
