/* stage_json.c: --stage NAME --json: a graph or a schedule as one JSON value; host/README.md has the table of its fields.
** Names of fields are kept from version to version; new ones may come. Sizes are at their bounds. */
#include "cli/stage_json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- JSON ---- */

static void add_string(lt_text *out, const char *s) {
  lt_text_bytes(out, "\"", 1);
  for (; *s; s++) {
    if (*s == '"' || *s == '\\')
      lt_text_add(out, "\\%c", *s);
    else if ((unsigned char)*s < 32)
      lt_text_add(out, "\\u%04x", (unsigned)*s);
    else
      lt_text_bytes(out, s, 1);
  }
  lt_text_bytes(out, "\"", 1);
}

/* ,"key": unless it is the first of its object. */
static void add_key(lt_text *out, const char *key) {
  char last = out->n ? out->s[out->n - 1] : '{';
  lt_text_add(out, "%s\"%s\":", last == '{' ? "" : ",", key);
}

static void add_comma(lt_text *out) {
  char last = out->n ? out->s[out->n - 1] : '[';
  if (last != '[') lt_text_add(out, ",");
}

static void set_text(lt_text *out, const char *key, const char *s) {
  add_key(out, key);
  add_string(out, s ? s : "");
}

static void set_int(lt_text *out, const char *key, int64_t x) {
  add_key(out, key);
  lt_text_add(out, "%" PRId64, x);
}

static void set_number(lt_text *out, const char *key, double x) {
  add_key(out, key);
  lt_text_add(out, "%.17g", isfinite(x) ? x : 0);
}

/* ---- Graphs ---- */

static void set_shape(lt_text *out, const lt_graph *g, int32_t rank, const lt_dim *dim) {
  add_key(out, "shape");
  lt_text_add(out, "[");
  for (int d = 0; d < rank; d++) lt_text_add(out, "%s%" PRId64, d ? "," : "", lt_size_bound(&g->sizes, dim[d].size));
  lt_text_add(out, "]");
}

static void set_axes(lt_text *out, lt_axis_mask axes) {
  add_key(out, "axes");
  lt_text_add(out, "[");
  for (int a = 0; a < LT_AXES; a++) {
    if (!(axes & LT_MASK(a))) continue;
    add_comma(out);
    add_string(out, lt_axis_name((lt_axis)a));
  }
  lt_text_add(out, "]");
}

static void add_value(lt_text *out, const lt_graph *g, lt_value v, const lt_mesh *m) {
  const lt_value_info *x = &g->value.at[v];
  lt_text place = {0};
  add_comma(out);
  lt_text_add(out, "{");
  set_int(out, "id", v);
  set_text(out, "dtype", lt_dtype_name(x->dtype));
  set_shape(out, g, x->rank, x->dim);
  if (x->state != LT_NONE) set_text(out, "state", g->state.at[x->state].name);
  if (m) {
    lt_placement_print(&x->place, m, &place);
    set_text(out, "placement", place.s);
  }
  lt_text_add(out, "}");
  lt_text_free(&place);
}

static void add_node(lt_text *out, const lt_graph *g, const lt_node *n, const lt_mesh *m) {
  static const char *const phases[] = {"prepare", "forward", "backward", "update"};
  add_comma(out);
  lt_text_add(out, "{");
  set_text(out, "op", n->op->name);
  set_text(out, "phase", phases[n->phase]);
  set_text(out, "scope", n->scope);
  set_text(out, "where", n->where);
  add_key(out, "inputs");
  lt_text_add(out, "[");
  for (int k = 0; k < n->n_in; k++) lt_text_add(out, "%s%d", k ? "," : "", (int)n->in[k]);
  lt_text_add(out, "]");
  add_key(out, "outputs");
  lt_text_add(out, "[");
  for (int k = 0; k < n->n_out; k++) add_value(out, g, n->out + k, m);
  lt_text_add(out, "]");
  set_axes(out, n->axes);
  add_key(out, "again");
  lt_text_add(out, n->recompute_of != LT_NONE ? "true}" : "false}");
}

static void set_graph(lt_text *out, const lt_graph *g, const lt_mesh *m) {
  static const char *const roles[] = {"parameter", "moment", "gradient", "buffer"};
  add_key(out, "states");
  lt_text_add(out, "[");
  for (int64_t i = 0; i < g->state.n; i++) {
    const lt_state *s = &g->state.at[i];
    add_comma(out);
    lt_text_add(out, "{");
    set_text(out, "name", s->name);
    set_text(out, "role", roles[s->role]);
    set_text(out, "dtype", lt_dtype_name(s->dtype));
    set_shape(out, g, s->rank, s->dim);
    lt_text_add(out, "}");
  }
  lt_text_add(out, "]");
  add_key(out, "nodes");
  lt_text_add(out, "[");
  for (int64_t i = 0; i < g->node.n; i++)
    if (!g->node.at[i].dead) add_node(out, g, &g->node.at[i], m);
  lt_text_add(out, "]");
  set_int(out, "loss", g->loss);
}

/* ---- Schedules ---- */

static void add_item(lt_text *out, const lt_schedule *s, int32_t i) {
  static const char *const kinds[] = {"kernel", "load", "store", "collective", "index", "zero"};
  const lt_item *it = &s->item.at[i];
  char label[160];
  lt_item_label(s, i, label, sizeof label);
  add_comma(out);
  lt_text_add(out, "{");
  set_text(out, "lane", lt_lane_name(it->lane));
  set_text(out, "kind", kinds[it->kind]);
  set_text(out, "label", label);
  set_int(out, "unit", it->unit);
  for (int half = 0; half < 2; half++) {
    int from = half ? it->n_in : 0, to = half ? it->n_in + it->n_out : it->n_in;
    add_key(out, half ? "writes" : "reads");
    lt_text_add(out, "[");
    for (int k = from; k < to; k++)
      lt_text_add(out, "%s%d", k > from ? "," : "", (int)s->operand.at[it->operand + k].buffer);
    lt_text_add(out, "]");
  }
  add_key(out, "waits");
  lt_text_add(out, "[");
  for (int32_t k = 0; k < it->n_wait; k++) lt_text_add(out, "%s%d", k ? "," : "", (int)s->wait.at[it->wait + k]);
  lt_text_add(out, "]");
  if (it->kind == LT_ITEM_COLLECTIVE && it->sent != LT_NONE) {
    set_int(out, "sends", lt_size_bound(&s->graph->sizes, it->sent));
    set_int(out, "receives", lt_size_bound(&s->graph->sizes, it->received));
  }
  set_number(out, "flops", it->flops);
  set_number(out, "bytes", it->bytes);
  set_number(out, "seconds", it->seconds);
  lt_text_add(out, "}");
}

static void set_schedule(lt_text *out, const lt_schedule *s) {
  set_int(out, "rank", s->rank);
  set_int(out, "arena_bytes", s->arena_bytes);
  set_int(out, "state_bytes", s->state_bytes);
  set_int(out, "live_bytes", s->live_bytes);
  add_key(out, "buffers");
  lt_text_add(out, "[");
  for (int64_t i = 0; i < s->buffer.n; i++) {
    const lt_buffer *b = &s->buffer.at[i];
    add_comma(out);
    lt_text_add(out, "{");
    set_int(out, "value", b->value);
    if (b->state != LT_NONE) set_text(out, "state", s->graph->state.at[b->state].name);
    set_int(out, "offset", b->offset);
    set_int(out, "bytes", b->bytes);
    set_int(out, "first", b->first);
    set_int(out, "last", b->last);
    lt_text_add(out, "}");
  }
  lt_text_add(out, "]");
  add_key(out, "items");
  lt_text_add(out, "[");
  for (int32_t i = 0; i < s->item.n; i++) add_item(out, s, i);
  lt_text_add(out, "]");
}

void cli_stage_json(const lt_program *p, const char *stage, int32_t rank, lt_text *out) {
  const lt_plan *plan = &p->plan;
  lt_text_add(out, "{");
  set_text(out, "stage", stage);
  set_int(out, "length", plan->data.length);
  set_int(out, "tokens", plan->data.tokens);
  set_int(out, "ranks", plan->mesh.world);
  add_key(out, "mesh");
  lt_text_add(out, "{");
  for (int a = 0; a < LT_AXES; a++) set_int(out, lt_axis_name((lt_axis)a), plan->mesh.size[a]);
  lt_text_add(out, "}");
  set_int(out, "units", plan->units);
  set_int(out, "layers_recomputed", plan->layers_recomputed);
  set_int(out, "peak", plan->peak);
  set_number(out, "seconds", plan->seconds);
  if (p->schedule[rank])
    set_schedule(out, p->schedule[rank]);
  else
    set_graph(out, p->graph, strcmp(stage, "build") && strcmp(stage, "differentiate") ? &plan->mesh : NULL);
  lt_text_add(out, "}");
}
