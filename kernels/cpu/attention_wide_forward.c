/* attention_wide_forward.c: the forward pass of attention.c in tiles of attention_wide.h: the same running softmax.
** Tiles: up to LT_WIDE_SIDES x LT_TILE queries of one head a task, heaviest first, over threads; each tile of keys is
** copied and turned once for them, while the next one is fetched, be it the first of the thread's next task. A panel of
** query rows meets the strips of keys it may see: scores, their exponentials and the product with v follow each other in
** the first-level cache; sums of exponentials stay a vector a row until the end. Keys come in the order of their rows, so
** no bit depends on the threads.
** Cost: 4 dim operations a pair in a strip that is looked at; k and v copied once for each task that may see them. */
#include "kernels/cpu/attention_wide.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/transcend.h"

#if LT_VECTOR_BYTES

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define TASKS_EACH 4 /* tasks a thread there should be, before one takes more sides */
#define FETCH_PACE 3 /* four strips meet a panel */

typedef struct plan {
  const lt_attention_args *a;
  lt_cut cut;
  int64_t sides, tasks; /* tiles of queries a task */
  atomic_int_least64_t taken;
} plan;

typedef struct panel { /* query rows [i, i + rows) of a side */
  int64_t i, rows;
  lt_extent extent;
  bool fresh; /* its sums are 0, its output is not written yet */
} panel;

#define PANELS ((LT_TILE + LT_WIDE_ROWS - 1) / LT_WIDE_ROWS)

typedef struct side { /* up to LT_TILE query rows, and what runs along */
  int64_t q, n, panels;
  int64_t from, to; /* the run of keys at hand */
  lt_extent extent;
  bool started, meets; /* its rows are copied; it may see keys of the tile at hand */
  bool fetched, done;  /* where its output goes; the output is there */
  panel panel[PANELS];
  lt_wide x; /* of q */
  real out[LT_TILE * LT_WIDE_LD] LT_ALIGNED;
  real sum[LT_TILE * LT_VECTOR] LT_ALIGNED;
  real top[LT_TILE];
} side;

typedef struct ahead { /* keys, and queries if they are of another task */
  int64_t key, keys, kv_head, q, n, head;
} ahead;

typedef struct task {
  const lt_attention_args *a;
  int64_t head, kv_head, sides;
  int64_t meeting, met; /* sides that meet the tile of keys at hand, those that have */
  int64_t after;        /* the task after this one, once it is taken */
  bool last, took;      /* the run of keys at hand is the last one; `after` is taken */
  ahead ahead;          /* rows that come after the tile at hand */
  lt_fetch next;        /* of these, of the side that starts next, and where the output goes */
  side side[LT_WIDE_SIDES];
  lt_keys keys;
  lt_wide k, v;
  bool copied; /* k is: the tile of keys at hand */
  real turned[LT_WIDE_DIM * LT_SIDE_LD] LT_ALIGNED;
  real s[LT_WIDE_ROWS * LT_SIDE_LD] LT_ALIGNED;
} task;
static_assert(sizeof(task) <= LT_WIDE_STACK, "a task fits a thread's stack");

/* ---- Beginning and end of a side ---- */

static void start(const task *w, side *u) {
  const lt_attention_args *a = w->a;
  const int64_t heads = a->r.heads, dim = a->r.dim;
  if (u->started) return;
  u->started = true;
  lt_wide_copy((const stored *)a->q + (u->q * heads + w->head) * dim, heads * dim, u->n, dim, LT_WIDE_LEFT, &u->x);
  memset(u->sum, 0, (size_t)(u->n * LT_VECTOR) * sizeof(real));
  for (int64_t p = 0; p < u->panels; p++) u->panel[p].fresh = a->first;
  for (int64_t i = 0; i < u->n; i++) {
    const int64_t at = (u->q + i) * heads + w->head;
    u->top[i] = -(real)INFINITY;
    if (a->first) continue;
    memset(u->out + i * LT_WIDE_LD, 0, (size_t)lt_whole_strips(dim) * sizeof(real));
    u->top[i] = ((const real *)a->carry_max)[at];
    u->sum[i * LT_VECTOR] = ((const real *)a->carry_sum)[at];
    memcpy(u->out + i * LT_WIDE_LD, (const real *)a->carry_out + at * dim, (size_t)dim * sizeof(real));
  }
}

static void divide(const task *w, side *u) {
  const lt_attention_rows *r = &w->a->r;
  u->started = u->fetched = u->done = false;
  u->extent = lt_extent_of(r->q_position + u->q, r->q_document + u->q, u->n);
  u->panels = lt_pieces(u->n, LT_WIDE_ROWS);
  for (int64_t p = 0; p < u->panels; p++) {
    panel *x = &u->panel[p];
    x->i = lt_start_of(u->n, u->panels, p, LT_WIDE_GRAIN);
    x->rows = lt_start_of(u->n, u->panels, p + 1, LT_WIDE_GRAIN) - x->i;
    x->extent = lt_extent_of(r->q_position + u->q + x->i, r->q_document + u->q + x->i, x->rows);
  }
}

/* to[dim] = part x. */
static void put_row(const real *x, real part, int64_t dim, stored *to) {
  int64_t d = 0;
#if LT_WIDE_PAIRS /* numbers too small for a whole significand become 0, as in products of pairs */
  for (; d + LT_STRIP <= dim; d += LT_STRIP) {
    const __m512 u = (__m512)(lt_load(x + d) * part), v = (__m512)(lt_load(x + d + LT_VECTOR) * part);
    _mm512_storeu_si512(to + d, (__m512i)_mm512_cvtne2ps_pbh(v, u));
  }
#endif
  for (; d < dim; d++) to[d] = lt_put(x[d] * part);
}

static void carry(const task *w, const side *u) {
  const lt_attention_args *a = w->a;
  const int64_t dim = a->r.dim;
  for (int64_t i = 0; i < u->n; i++) {
    const int64_t at = (u->q + i) * a->r.heads + w->head;
    ((real *)a->carry_max)[at] = u->top[i];
    ((real *)a->carry_sum)[at] = lt_vector_sum(lt_load(u->sum + i * LT_VECTOR));
    memcpy((real *)a->carry_out + at * dim, u->out + i * LT_WIDE_LD, (size_t)dim * sizeof(real));
  }
}

static void finish(const task *w, side *u) {
  const lt_attention_args *a = w->a;
  const int64_t dim = a->r.dim;
  real sum[LT_TILE];
  double lse[LT_TILE];
  if (u->done) return;
  u->done = true;
  start(w, u); /* if it has seen nothing */
  for (const panel *p = u->panel; p < u->panel + u->panels; p++)
    if (p->fresh) memset(u->out + p->i * LT_WIDE_LD, 0, (size_t)(p->rows * LT_WIDE_LD) * sizeof(real));
  if (!a->last) {
    carry(w, u);
    return;
  }
  for (int64_t i = 0; i < u->n; i++) sum[i] = lt_vector_sum(lt_load(u->sum + i * LT_VECTOR));
#pragma omp simd
  for (int64_t i = 0; i < u->n; i++) {
    const double y = (double)u->top[i] + lt_log_normal((double)sum[i]);
    lse[i] = sum[i] == 0 ? -INFINITY : y;
  }
  for (int64_t i = 0; i < u->n; i++) {
    const int64_t at = (u->q + i) * a->r.heads + w->head;
    put_row(u->out + i * LT_WIDE_LD, sum[i] == 0 ? 0 : 1 / sum[i], dim, (stored *)a->out + at * dim);
    a->lse[at] = lse[i];
  }
}

/* ---- What is fetched before its turn ---- */

static int64_t take(plan *p) { return p->tasks - 1 - atomic_fetch_add(&p->taken, 1); } /* late queries see most */

/* What comes after the keys [k, k + LT_TILE) of a run that ends at `to`: keys of the same, or the first rows of another
** task, which is taken now. */
static void look_ahead(task *w, plan *p, int64_t k, int64_t to) {
  const lt_attention_rows *r = &w->a->r;
  int64_t from = k + LT_TILE;
  w->ahead = (ahead){.kv_head = w->kv_head};
  if (from >= to) {
    if (!w->last) return;
    w->took = true;
    w->after = take(p);
    if (w->after < 0) return;
    const int64_t tile = w->after / r->heads * p->sides;
    w->ahead.head = w->after % r->heads;
    w->ahead.kv_head = lt_kv_head(r, w->ahead.head);
    w->ahead.q = lt_cut_tile(&p->cut, tile, &w->ahead.n);
    (void)lt_rows_run(r, tile / p->cut.parts, 0, &from, &to);
  }
  w->ahead.key = from;
  w->ahead.keys = to - from < LT_TILE ? to - from : LT_TILE;
  if (w->ahead.keys < 0) w->ahead.keys = 0; /* a task that sees nothing */
}

/* While a side meets the tile at hand, fetched are its share of what comes after that tile, the side that starts next,
** and where its output goes if the run ends soon. */
static void fetch_ahead(task *w, side *u, const side *next) {
  const lt_attention_args *a = w->a;
  const int64_t dim = a->r.dim, ld = (int64_t)a->r.heads * dim, ldk = (int64_t)a->r.kv_heads * dim;
  const int64_t i = w->ahead.keys * w->met / w->meeting, n = w->ahead.keys * (w->met + 1) / w->meeting - i;
  const int64_t keys = (w->ahead.key + i) * ldk + w->ahead.kv_head * dim, q_i = w->ahead.n * w->met / w->meeting;
  lt_fetch *f = &w->next;
  lt_fetch_start(f, u->n, FETCH_PACE);
  lt_fetch_also(f, (const stored *)a->k + keys, ldk, n, dim, sizeof(stored));
  lt_fetch_also(f, (const stored *)a->v + keys, ldk, n, dim, sizeof(stored));
  if (next)
    lt_fetch_also(f, (const stored *)a->q + next->q * ld + w->head * dim, ld, next->n, dim, sizeof(stored));
  else
    lt_fetch_also(f, (const stored *)a->q + (w->ahead.q + q_i) * ld + w->ahead.head * dim, ld,
                  w->ahead.n * (w->met + 1) / w->meeting - q_i, dim, sizeof(stored));
  if (!a->last || u->fetched || !w->last || w->keys.first + 2 * LT_TILE < u->to) return;
  u->fetched = true;
  lt_fetch_also(f, (const stored *)a->out + u->q * ld + w->head * dim, ld, u->n, dim, sizeof(stored));
}

/* ---- A panel against a tile of keys ---- */

/* The keys of the tile at hand as rows: turned, they serve but for scores. */
static void copy_keys(task *w) {
  const lt_attention_rows *r = &w->a->r;
  const int64_t ld = (int64_t)r->kv_heads * r->dim;
  if (w->copied) return;
  w->copied = true;
  lt_wide_copy((const stored *)w->a->k + w->keys.first * ld + w->kv_head * r->dim, ld, w->keys.n, r->dim, LT_WIDE_LEFT,
               &w->k);
}

/* Rows of a panel whose maxima are top: what scores are lowered by is `by`, so that a row that has seen nothing gives
** exp(-inf - 0) = 0. The running sums and outputs of those that rise follow. */
static void follow(const task *w, side *u, const panel *p, uint32_t rise, const real *by) {
  real *old = u->top + p->i, keep[LT_WIDE_ROWS];
#pragma omp simd
  for (int64_t i = 0; i < p->rows; i++) keep[i] = lt_exp(old[i] - by[i]);
  for (; rise; rise &= rise - 1) {
    const int64_t i = __builtin_ctz(rise);
    real *out = u->out + (p->i + i) * LT_WIDE_LD, *sum = u->sum + (p->i + i) * LT_VECTOR;
    lt_store(sum, lt_load(sum) * keep[i]);
    for (int64_t d = 0; d < w->a->r.dim; d += LT_VECTOR) lt_store(out + d, lt_load(out + d) * keep[i]);
  }
}

/* The maxima of a panel's rows move up to those of the scores w->s[from … to), the rest follows, if there is any; scores
** become exp(score - maximum). One step for all rows before the next one, so that rows do not wait for each other. */
static void soften(task *w, side *u, const panel *p, int64_t from, int64_t to) {
  real *old = u->top + p->i, top[LT_WIDE_ROWS], by[LT_WIDE_ROWS];
  uint32_t rise = 0, large = 0;
  for (int64_t i = 0; i < p->rows; i++) {
    const real *s = w->s + i * LT_SIDE_LD;
    lt_vector tops = (lt_vector){0} + old[i];
    for (int64_t j = from; j < to; j += LT_VECTOR) tops = lt_vector_max(lt_load(s + j), tops);
    top[i] = lt_vector_largest(tops);
    by[i] = top[i] == -(real)INFINITY ? 0 : top[i];
    rise |= (uint32_t)(top[i] != old[i]) << i;
    large |= (uint32_t)lt_large((double)by[i]) << i;
  }
  if (rise && !p->fresh) follow(w, u, p, rise, by);
  memcpy(old, top, (size_t)p->rows * sizeof *old);
  for (; large; large &= large - 1) {
    const int64_t i = __builtin_ctz(large);
    copy_keys(w);
    lt_row_exact(&u->x, p->i + i, &w->k, &w->keys, w->a->r.dim, w->a->r.scale, (double)by[i], from, to,
                 w->s + i * LT_SIDE_LD);
    by[i] = 0;
  }
  for (int64_t i = 0; i < p->rows; i++) {
    real *s = w->s + i * LT_SIDE_LD, *sums = u->sum + (p->i + i) * LT_VECTOR;
    lt_vector sum = lt_load(sums);
    lt_fetch_to(&w->next, p->i + i + 1 - 2 * FETCH_PACE);
    for (int64_t j = from; j < to; j += LT_VECTOR) {
      const lt_vector e = lt_vector_exp(lt_load(s + j) - by[i]);
      lt_store(s + j, e);
      sum += e;
    }
    lt_store(sums, sum);
  }
}

/* Where the keys [from, to) of the tile end that a row of the panel may see: often halfway, on the diagonal. */
static int64_t end_of_seen(const lt_attention_rows *r, const lt_keys *k, const lt_extent *q, int64_t from, int64_t to) {
  const int32_t *position = r->k_position + k->first, *document = r->k_document + k->first;
  while (to > from && (position[to - 1] > q->position_high || document[to - 1] < q->document_low ||
                       document[to - 1] > q->document_high))
    to--;
  return to;
}

static void meet(task *w, side *u, panel *p) {
  const lt_attention_rows *r = &w->a->r;
  lt_sight sight[LT_SIDE_STRIPS];
  int64_t first = w->keys.strips, last = 0, odd = w->keys.n / LT_STRIP; /* strips: seen at all; not seen whole, from */
  for (int64_t t = 0; t < w->keys.strips; t++) {
    sight[t] = lt_sight_of(&p->extent, &w->keys.strip[t], r->window);
    if (sight[t] == LT_SIGHT_NONE) continue;
    if (first > t) first = t;
    last = t + 1;
  }
  for (int64_t t = last - 1; t >= first; t--)
    if (sight[t] != LT_SIGHT_ALL && odd > t) odd = t;
  const int64_t from = first * LT_STRIP, all = p->i + p->rows;
  int64_t to = last * LT_STRIP, end = to < w->keys.n ? to : w->keys.n;
  if (odd < last) end = end_of_seen(r, &w->keys, &p->extent, from, end);
  if (from >= end) {
    lt_fetch_to(&w->next, all);
    return;
  }
  lt_wide_scores(p->rows, to - from, r->dim, &u->x, p->i, w->turned + from, (real)r->scale, w->s + from, &w->next);
  if (w->a->key_bias)
    for (int64_t i = 0; i < p->rows; i++)
      for (int64_t j = from; j < to; j++) w->s[i * LT_SIDE_LD + j] += w->keys.bias[j];
  to = (end + LT_VECTOR - 1) / LT_VECTOR * LT_VECTOR;
  if (odd < last) lt_keys_hide(r, &w->keys, u->q + p->i, p->rows, odd * LT_STRIP, to, w->s);
  soften(w, u, p, from, to);
  lt_wide_apply(p->rows, r->dim, end - from, w->s + from, &w->v, from, odd < last, !p->fresh,
                u->out + p->i * LT_WIDE_LD, &w->next);
  lt_fetch_to(&w->next, all);
  p->fresh = false;
}

/* ---- Keys after keys ---- */

/* Which sides meet the tile at hand. */
static void find_meeting(task *w) {
  w->met = w->meeting = 0;
  for (int64_t i = 0; i < w->sides; i++) {
    side *u = &w->side[i];
    u->meets = w->keys.first >= u->from && w->keys.first < u->to &&
               lt_sight_of(&u->extent, &w->keys.all, w->a->r.window) != LT_SIGHT_NONE;
    w->meeting += u->meets;
  }
}

/* All sides whose run holds the keys [first, first + n) meet them. */
static void look_at_keys(task *w, int64_t first, int64_t n) {
  const lt_attention_args *a = w->a;
  const int64_t dim = a->r.dim, ld = (int64_t)a->r.kv_heads * dim, at = first * ld + w->kv_head * dim;
  w->keys.first = first;
  w->keys.n = n;
  lt_keys_look(&a->r, a->key_bias, w->kv_head, &w->keys);
  find_meeting(w);
  if (!w->meeting) return;
  w->copied = false;
  if (!lt_wide_turn_stored((const stored *)a->k + at, ld, n, dim, w->turned)) {
    copy_keys(w);
    lt_wide_turn(&w->k, n, dim, w->turned);
  }
  lt_wide_copy((const stored *)a->v + at, ld, n, dim, LT_WIDE_APPLIED, &w->v);
  for (int64_t i = 0; i < w->sides; i++) {
    side *u = &w->side[i];
    if (!u->meets) continue;
    start(w, u);
    fetch_ahead(w, u, i + 1 < w->sides && !u[1].started ? u + 1 : NULL);
    for (int64_t p = 0; p < u->panels; p++) meet(w, u, &u->panel[p]);
    w->met++;
  }
}

/* Run s of every side's block, and in [*from, *to) what holds them all; false after the last one. */
static bool next_run(task *w, const lt_cut *cut, int64_t tile, int s, int64_t *from, int64_t *to) {
  *from = INT64_MAX;
  *to = 0;
  for (int64_t i = 0; i < w->sides; i++) {
    side *u = &w->side[i];
    if (!lt_rows_run(&w->a->r, (tile + i) / cut->parts, s, &u->from, &u->to)) return false;
    if (u->from >= u->to) continue;
    if (u->from < *from) *from = u->from;
    if (u->to > *to) *to = u->to;
  }
  return true;
}

/* The sides whose last keys lie before row k are written, while the cache still holds them. */
static void leave(task *w, int64_t k) {
  for (int64_t i = 0; i < w->sides && w->last; i++)
    if (w->side[i].to <= k) finish(w, &w->side[i]);
}

/* Task t; returns the next one of this thread. */
static int64_t attend(plan *p, int64_t t) {
  const lt_attention_args *a = p->a;
  const int64_t runs = a->r.spans ? a->r.max_spans : 1, tile = t / a->r.heads * p->sides;
  task w; /* a megabyte: set where it is used */
  int64_t from, to;
  w.a = a;
  w.head = t % a->r.heads;
  w.kv_head = lt_kv_head(&a->r, w.head);
  w.took = false;
  for (w.sides = 0; w.sides < p->sides && tile + w.sides < p->cut.tiles; w.sides++) {
    side *u = &w.side[w.sides];
    u->q = lt_cut_tile(&p->cut, tile + w.sides, &u->n);
    if (u->n <= 0) break;
    divide(&w, u);
  }
  lt_wide_begin();
  for (int run = 0; w.sides && next_run(&w, &p->cut, tile, run, &from, &to); run++) {
    w.last = run + 1 == runs;
    for (int64_t k = from; k < to; k += LT_TILE) {
      look_ahead(&w, p, k, to);
      look_at_keys(&w, k, to - k < LT_TILE ? to - k : LT_TILE);
      leave(&w, k + LT_TILE);
    }
  }
  for (int64_t i = 0; i < w.sides; i++) finish(&w, &w.side[i]);
  lt_wide_end();
  return w.took ? w.after : take(p);
}

/* Query tiles a task takes. Those of several blocks only if their runs start and end between the same tiles of keys. */
static int64_t sides_of(const lt_attention_args *a, const lt_cut *cut) {
  const lt_attention_rows *r = &a->r;
  const int64_t wished = lt_cpu_threads() * TASKS_EACH;
  const bool together = !r->spans || (r->max_spans == 1 && r->block_k % LT_TILE == 0);
  if (cut->block % LT_TILE != 0) return 1;
  int64_t sides = together ? LT_WIDE_SIDES : cut->parts < LT_WIDE_SIDES ? cut->parts : LT_WIDE_SIDES;
  if (!together)
    while (cut->parts % sides) sides--;
  while (sides > 1 && (cut->tiles + sides - 1) / sides * r->heads < wished) sides = together ? sides / 2 : 1;
  return sides;
}

void lt_attention_wide(const lt_attention_args *a) {
  plan p = {.a = a, .cut = lt_cut_rows(a->r.rows_q, a->r.block_q)};
  p.sides = sides_of(a, &p.cut);
  p.tasks = (p.cut.tiles + p.sides - 1) / p.sides * a->r.heads;
  atomic_init(&p.taken, 0);
#pragma omp parallel if (p.tasks > 1)
  for (int64_t t = take(&p); t >= 0;) t = attend(&p, t);
}

#else
typedef int lt_nothing_here; /* a file must declare something */
#endif
