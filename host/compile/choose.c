/* choose.c: what each layer keeps, so that a step fits its memory in the least time.
** A profile says what every option frees and costs; the search keeps, layer by layer, all pairs of (bytes freed, time)
** that none beats. The peak is looked at in every layer's backward pass: what earlier layers keep is alive there.
** Problem: Jain et al. 2020, "Checkmate", section 3; for a chain of layers the front of pairs solves it exactly. */
#include "compile/checkpoint.h"

#include "core/arena.h"

#include <stdlib.h>
#include <string.h>

struct lt_profile {
  const lt_graph *graph;
  const lt_schedule *s;
  int32_t layers;
  uint32_t may;
  int32_t in_flight; /* units whose kept values live at once at the end of the forward pass */
  int64_t *live;     /* [layers] most bytes alive while a layer runs, all layers keeping all */
  int64_t live_head; /* between the last layer's forward and its backward pass */
  int64_t live_rest; /* elsewhere: no choice changes it */
  int64_t *freed;    /* [layers][LT_KEEPS] bytes of a unit that an option does not keep */
  int64_t *time;     /* [layers][LT_KEEPS] picoseconds of a step that it takes to compute them again */
};

static int64_t align(int64_t n) { return (n + LT_ARENA_ALIGN - 1) / LT_ARENA_ALIGN * LT_ARENA_ALIGN; }

/* ---- What options free and cost ---- */

static const lt_node *node_of(const lt_profile *p, int64_t item) {
  int32_t n = p->s->item.at[item].node;
  return n == LT_NONE ? NULL : &p->graph->node.at[n];
}

/* The value whose memory v is. */
static lt_value root_of(const lt_graph *g, lt_value v) {
  while (g->value.at[v].node != LT_NONE && g->node.at[g->value.at[v].node].op->kind == LT_OP_VIEW)
    v = g->node.at[g->value.at[v].node].in[0];
  return v;
}

typedef struct reading { /* scratch of one question */
  unsigned char *wanted; /* [nodes] computed again */
  unsigned char *before; /* [buffers] kept for the backward pass when all is */
  unsigned char *after;  /* [buffers] still kept under the option */
} reading;

/* Which buffers of the first unit the backward pass reads, now and under the option. */
static void read_item(const lt_profile *p, const lt_checkpoint *c, int32_t layer, int64_t item, reading *r) {
  const lt_item *it = &p->s->item.at[item];
  const lt_node *n = node_of(p, item);
  if (!n || it->unit != 0) return;
  bool backward = n->phase == LT_BACKWARD, again = n->phase == LT_FORWARD && r->wanted[it->node];
  for (int32_t k = 0; (backward || again) && k < it->n_in; k++) {
    const lt_operand_plan *o = &p->s->operand.at[it->operand + k];
    if (o->buffer == LT_NONE || p->s->buffer.at[o->buffer].state != LT_NONE) continue;
    lt_value v = root_of(p->graph, o->value);
    if (backward) r->before[o->buffer] = 1;
    bool mine = again || lt_layer_of(n->scope) == layer;
    if (!mine || !lt_is_recomputed(p->graph, c, v, layer)) r->after[o->buffer] = 1;
  }
}

static void ask_option(lt_profile *p, const lt_checkpoint *c, int32_t layer, const int64_t *time, reading *r) {
  int64_t freed = 0, again = 0;
  memset(r->wanted, 0, (size_t)p->graph->node.n);
  memset(r->before, 0, (size_t)p->s->buffer.n);
  memset(r->after, 0, (size_t)p->s->buffer.n);
  lt_mark_recomputed(p->graph, c, layer, r->wanted);
  for (int64_t i = 0; i < p->s->item.n; i++) read_item(p, c, layer, i, r);
  for (int64_t b = 0; b < p->s->buffer.n; b++)
    if (r->before[b] != r->after[b]) freed += (r->before[b] ? 1 : -1) * align(p->s->buffer.at[b].bytes);
  for (int64_t i = 0; i < p->graph->node.n; i++)
    if (r->wanted[i]) again += time[i];
  int64_t at = (int64_t)layer * LT_KEEPS + c->option[layer];
  p->freed[at] = freed;
  p->time[at] = again;
}

static lt_status ask_options(lt_profile *p, const lt_plan_options *o, lt_error *e) {
  size_t nodes = (size_t)p->graph->node.n + 1, buffers = (size_t)p->s->buffer.n + 1;
  unsigned char *option = calloc((size_t)p->layers + 1, 1);
  int64_t *time = calloc(nodes, sizeof *time);
  reading r = {malloc(nodes), malloc(buffers), malloc(buffers)};
  lt_checkpoint c = {option, p->layers, o->keep, o->drop, o->n_keep, o->n_drop};
  bool ok = option && time && r.wanted && r.before && r.after;
  for (int64_t i = 0; ok && i < p->s->item.n; i++)
    if (p->s->item.at[i].node != LT_NONE) time[p->s->item.at[i].node] += (int64_t)(p->s->item.at[i].seconds * 1e12);
  for (int32_t l = 0; ok && l < p->layers; l++)
    for (int k = 0; k < LT_KEEPS; k++) {
      option[l] = (unsigned char)k;
      if (p->may & LT_MAY(k)) ask_option(p, &c, l, time, &r);
    }
  free(option);
  free(time);
  free(r.wanted);
  free(r.before);
  free(r.after);
  return ok ? LT_OK : lt_fail_memory(e, nodes * sizeof *time, "the choice of what is kept");
}

/* ---- What is alive where ---- */

/* Bytes alive at every item. */
static lt_status live_bytes(const lt_schedule *s, int64_t **out, lt_error *e) {
  int64_t *live = calloc((size_t)s->item.n + 1, sizeof *live);
  *out = live;
  if (!live) return lt_fail_memory(e, sizeof *live * (size_t)s->item.n, "the choice of what is kept");
  for (int64_t b = 0; b < s->buffer.n; b++) {
    const lt_buffer *x = &s->buffer.at[b];
    if (x->state != LT_NONE || x->first < 0) continue;
    live[x->first] += align(x->bytes);
    live[x->last + 1] -= align(x->bytes);
  }
  int64_t sum = s->state_bytes;
  for (int64_t i = 0; i < s->item.n; i++) live[i] = sum += live[i];
  return LT_OK;
}

static void raise_to(int64_t *most, int64_t bytes) {
  if (bytes > *most) *most = bytes;
}

static lt_status look_at_peaks(lt_profile *p, lt_error *e) {
  int64_t *live, n = p->s->item.n;
  lt_status status = live_bytes(p->s, &live, e);
  bool head = false; /* between the last layer's forward and backward pass */
  if (status) return status;
  for (int64_t i = 0; i < n; i++) {
    const lt_node *x = node_of(p, i);
    bool pass = x && (x->phase == LT_FORWARD || x->phase == LT_BACKWARD);
    int32_t layer = pass ? lt_layer_of(x->scope) : -1;
    if (layer >= 0) head = layer == p->layers - 1 && x->phase == LT_FORWARD;
    if (pass && p->in_flight > 1)
      raise_to(&p->live_head, live[i]);
    else if (layer >= 0)
      raise_to(&p->live[layer], live[i]);
    else
      raise_to(pass && head ? &p->live_head : &p->live_rest, live[i]);
  }
  free(live);
  return LT_OK;
}

void lt_profile_free(lt_profile *p) {
  if (!p) return;
  free(p->live);
  free(p->freed);
  free(p->time);
  free(p);
}

lt_status lt_profile_create(const lt_program *program, int32_t rank, const lt_plan_options *o, lt_profile **out,
                            lt_error *e) {
  lt_profile *p = calloc(1, sizeof *p);
  *out = NULL;
  if (!p) return lt_fail_memory(e, sizeof *p, "the choice of what is kept");
  p->graph = program->graph;
  p->s = program->schedule[rank];
  p->layers = lt_checkpoint_layers(p->graph);
  p->may = o->checkpoint | LT_MAY(LT_KEEP_ALL);
  p->in_flight = lt_graph_carries(p->graph) ? p->s->units : 1;
  size_t cells = (size_t)p->layers * LT_KEEPS + 1;
  p->live = calloc(cells, sizeof *p->live);
  p->freed = calloc(cells, sizeof *p->freed);
  p->time = calloc(cells, sizeof *p->time);
  lt_status status = LT_OK;
  if (!p->live || !p->freed || !p->time) status = lt_fail_memory(e, cells * 24, "the choice of what is kept");
  if (!status) status = look_at_peaks(p, e);
  if (!status) status = ask_options(p, o, e);
  if (status) {
    lt_profile_free(p);
    return status;
  }
  *out = p;
  return LT_OK;
}

void lt_profile_ask(const lt_profile *p, const unsigned char *option, double *seconds, int64_t *live) {
  int64_t freed = 0, time = 0, most = p->live_rest;
  for (int32_t l = 0; l < p->layers; l++) {
    if (p->live[l]) raise_to(&most, p->live[l] - freed);
    freed += p->freed[(int64_t)l * LT_KEEPS + option[l]];
    time += p->time[(int64_t)l * LT_KEEPS + option[l]];
  }
  if (p->live_head) raise_to(&most, p->live_head - freed * p->in_flight);
  *seconds = 1e-12 * (double)time;
  *live = most;
}

/* ---- The search ---- */

typedef struct choice { /* for the layers so far */
  int64_t freed, time;
  int32_t before; /* index of the choice for the layers before */
  unsigned char option;
} choice;

typedef struct front { /* choices of all layers, one after another: those of layer l are [first[l], first[l + 1]) */
  LT_VEC(choice) at;
  LT_VEC(choice) next;
  int64_t *first;
} front;

static int by_time(const void *a, const void *b) {
  const choice *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  if (x->freed != y->freed) return x->freed > y->freed ? -1 : 1;
  if (x->before != y->before) return x->before < y->before ? -1 : 1;
  return (int)x->option - (int)y->option;
}

/* Beyond so many pairs of a layer, those that free less than a 65536th more than their neighbour are passed over. */
#define MOST_PAIRS ((int64_t)1 << 16)

/* Of the sorted candidates those that free more than all that are faster. */
static bool keep_best(front *f) {
  int64_t n = f->next.n, most = 0, step = 0;
  for (int64_t i = 0; i < n; i++) raise_to(&most, f->next.at[i].freed);
  if (n > MOST_PAIRS) step = most / MOST_PAIRS;
  int64_t last = INT64_MIN;
  for (int64_t i = 0; i < n; i++) {
    const choice *x = &f->next.at[i];
    if (last != INT64_MIN && x->freed <= last + step) continue;
    choice *slot = lt_vec_push(&f->at);
    if (!slot) return false;
    *slot = *x;
    last = x->freed;
  }
  return true;
}

/* All options of a layer after all choices before it that leave room for its own backward pass. */
static bool extend(const lt_profile *p, int64_t limit, int32_t layer, front *f) {
  f->next.n = 0;
  for (int64_t i = f->first[layer]; i < f->at.n; i++)
    for (int k = 0; k < LT_KEEPS && p->live[layer] - f->at.at[i].freed <= limit; k++) {
      if (!(p->may & LT_MAY(k))) continue;
      choice *slot = lt_vec_push(&f->next);
      if (!slot) return false;
      int64_t cell = (int64_t)layer * LT_KEEPS + k;
      *slot =
          (choice){f->at.at[i].freed + p->freed[cell], f->at.at[i].time + p->time[cell], (int32_t)i, (unsigned char)k};
    }
  f->first[layer + 1] = f->at.n;
  if (f->next.n) qsort(f->next.at, (size_t)f->next.n, sizeof *f->next.at, by_time);
  return keep_best(f);
}

/* Where no choice is enough: of each layer what frees the most. */
static void choose_least(const lt_profile *p, unsigned char *option) {
  for (int32_t l = 0; l < p->layers; l++) {
    option[l] = LT_KEEP_ALL;
    for (int k = 0; k < LT_KEEPS; k++)
      if ((p->may & LT_MAY(k)) && p->freed[(int64_t)l * LT_KEEPS + k] > p->freed[(int64_t)l * LT_KEEPS + option[l]])
        option[l] = (unsigned char)k;
  }
}

lt_status lt_profile_choose(const lt_profile *p, int64_t limit, unsigned char *option, bool *found, lt_error *e) {
  front f = {.first = calloc((size_t)p->layers + 2, sizeof *f.first)};
  choice *start = lt_vec_push(&f.at);
  bool ok = f.first && start;
  *found = false;
  if (start) *start = (choice){0};
  for (int32_t l = 0; ok && l < p->layers; l++) ok = extend(p, limit, l, &f);
  choose_least(p, option);
  for (int64_t i = ok ? f.first[p->layers] : 0; ok && i < f.at.n && !*found; i++) {
    if (p->live_rest > limit || p->live_head - f.at.at[i].freed * p->in_flight > limit) continue;
    *found = true;
    int64_t at = i;
    for (int32_t l = p->layers - 1; l >= 0; l--) {
      option[l] = f.at.at[at].option;
      at = f.at.at[at].before;
    }
  }
  free(f.first);
  lt_vec_free(&f.at);
  lt_vec_free(&f.next);
  return ok ? LT_OK : lt_fail_memory(e, sizeof(choice) * (size_t)p->layers, "the choice of what is kept");
}
