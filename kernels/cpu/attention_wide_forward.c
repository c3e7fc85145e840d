/* attention_wide_forward.c: the forward pass of attention.c in tiles of attention_wide.h: the same running softmax.
** Tiles: up to LT_WIDE_SIDES x LT_TILE queries of one head a task, heaviest first, over threads; each tile of keys is
** copied and turned once for them, while the next one is fetched. A panel of query rows meets the strips of keys it may
** see: scores, their exponentials and the product with v follow each other in the first-level cache; sums of exponentials
** stay a vector a row until the end. Keys come in the order of their rows, so no bit depends on the threads.
** Cost: 4 dim operations a pair in a strip that is looked at; k and v copied once for each task that may see them. */
#include "kernels/cpu/attention_wide.h"
#include "kernels/cpu/blocks.h"

#if LT_VECTOR_BYTES

#include <assert.h>
#include <math.h>
#include <string.h>

#define TASKS_EACH 4 /* tasks a thread there should be, before one takes more sides */

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
  panel panel[PANELS];
  lt_wide x; /* of q */
  real out[LT_TILE * LT_WIDE_LD] LT_ALIGNED;
  real sum[LT_TILE * LT_VECTOR] LT_ALIGNED;
  real top[LT_TILE];
} side;

typedef struct task {
  const lt_attention_args *a;
  int64_t head, kv_head, sides;
  int64_t meeting, met; /* sides that meet the tile of keys at hand, those that have */
  const side *next;     /* the one that starts next */
  side side[LT_WIDE_SIDES];
  lt_keys keys;
  lt_wide k, v;
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
  u->started = false;
  u->extent = lt_extent_of(r->q_position + u->q, r->q_document + u->q, u->n);
  u->panels = lt_pieces(u->n, LT_WIDE_ROWS);
  for (int64_t p = 0; p < u->panels; p++) {
    panel *x = &u->panel[p];
    x->i = lt_start_of(u->n, u->panels, p, LT_WIDE_GRAIN);
    x->rows = lt_start_of(u->n, u->panels, p + 1, LT_WIDE_GRAIN) - x->i;
    x->extent = lt_extent_of(r->q_position + u->q + x->i, r->q_document + u->q + x->i, x->rows);
  }
}

static void finish(const task *w, side *u) {
  const lt_attention_args *a = w->a;
  const int64_t dim = a->r.dim;
  for (const panel *p = u->panel; p < u->panel + u->panels; p++)
    if (p->fresh) memset(u->out + p->i * LT_WIDE_LD, 0, (size_t)(p->rows * LT_WIDE_LD) * sizeof(real));
  for (int64_t i = 0; i < u->n; i++) {
    const int64_t at = (u->q + i) * a->r.heads + w->head;
    const real *row = u->out + i * LT_WIDE_LD, sum = lt_vector_sum(lt_load(u->sum + i * LT_VECTOR));
    if (!a->last) {
      ((real *)a->carry_max)[at] = u->top[i];
      ((real *)a->carry_sum)[at] = sum;
      memcpy((real *)a->carry_out + at * dim, row, (size_t)dim * sizeof(real));
      continue;
    }
    const bool blind = sum == 0;
    const real part = blind ? 0 : 1 / sum;
    stored *out = (stored *)a->out + at * dim;
    for (int64_t d = 0; d < dim; d++) out[d] = lt_put(row[d] * part);
    a->lse[at] = blind ? -INFINITY : (double)u->top[i] + log((double)sum);
  }
}

/* ---- What is fetched before its turn ---- */

/* A row of `dim` elements. Inline, or the compiler takes a function without visible effects for one that need not be
** called. Into the second-level cache: the first one is full of the tile at hand. */
LT_ALWAYS_INLINE void fetch_row(const stored *x, int64_t dim) {
  for (int64_t d = 0; d < dim; d += 64 / (int64_t)sizeof(stored)) __builtin_prefetch(x + d, 0, 2);
}

/* With row i of a side that meets a tile of keys: its share of the next tile's, the same row of the next side, which
** starts there, and of the output where the run ends soon. Few lines at a time: a processor forgets what it is asked for
** beyond two dozen. */
LT_ALWAYS_INLINE void fetch_ahead(const task *w, const side *u, int64_t i) {
  const lt_attention_args *a = w->a;
  const int64_t dim = a->r.dim, ld = (int64_t)a->r.heads * dim, ldk = (int64_t)a->r.kv_heads * dim;
  const int64_t turn = w->met * LT_TILE + i, key = w->keys.first + w->keys.n + turn / w->meeting;
  if (turn % w->meeting == 0 && key < a->r.rows_k) {
    fetch_row((const stored *)a->k + key * ldk + w->kv_head * dim, dim);
    fetch_row((const stored *)a->v + key * ldk + w->kv_head * dim, dim);
  }
  if (w->next && i < w->next->n) fetch_row((const stored *)a->q + (w->next->q + i) * ld + w->head * dim, dim);
  if (a->last && w->keys.first + 2 * LT_TILE >= u->to)
    for (int64_t d = 0; d < dim; d += 64 / (int64_t)sizeof(stored))
      __builtin_prefetch((const stored *)a->out + (u->q + i) * ld + w->head * dim + d, 1);
}

/* ---- A panel against a tile of keys ---- */

/* The running sum and output of row i follow its maximum from u->top[i] to `top`; by: what scores are lowered by now. */
static void follow(const task *w, side *u, int64_t i, real top, real by) {
  const real keep = lt_exp(u->top[i] - by);
  real *out = u->out + i * LT_WIDE_LD, *sum = u->sum + i * LT_VECTOR;
  lt_store(sum, lt_load(sum) * keep);
  for (int64_t d = 0; d < w->a->r.dim; d += LT_VECTOR) lt_store(out + d, lt_load(out + d) * keep);
  u->top[i] = top;
}

/* Row i of a side: its maximum moves up to that of s[from … to), the rest follows, if there is any; s becomes
** exp(s - maximum). */
static void soften_row(const task *w, side *u, int64_t i, bool fresh, int64_t from, int64_t to, real *s) {
  lt_vector tops = (lt_vector){0} + u->top[i];
  for (int64_t j = from; j < to; j += LT_VECTOR) tops = lt_vector_max(lt_load(s + j), tops);
  const real top = lt_vector_largest(tops);
  real by = top == -(real)INFINITY ? 0 : top; /* nothing seen yet: exp(-inf - 0) is 0 */
  if (fresh)
    u->top[i] = top;
  else if (top != u->top[i])
    follow(w, u, i, top, by);
  if (lt_large((double)by)) {
    lt_row_exact(&u->x, i, &w->k, &w->keys, w->a->r.dim, w->a->r.scale, (double)by, from, to, s);
    by = 0;
  }
  lt_vector sum = lt_load(u->sum + i * LT_VECTOR);
  for (int64_t j = from; j < to; j += LT_VECTOR) {
    const lt_vector e = lt_vector_exp(lt_load(s + j) - by);
    lt_store(s + j, e);
    sum += e;
  }
  lt_store(u->sum + i * LT_VECTOR, sum);
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
  const int64_t from = first * LT_STRIP;
  int64_t to = last * LT_STRIP, end = to < w->keys.n ? to : w->keys.n;
  if (odd < last) end = end_of_seen(r, &w->keys, &p->extent, from, end);
  if (from >= end) return;
  lt_wide_scores(p->rows, to - from, r->dim, &u->x, p->i, w->turned + from, (real)r->scale, w->s + from, NULL);
  if (w->a->key_bias)
    for (int64_t i = 0; i < p->rows; i++)
      for (int64_t j = from; j < to; j++) w->s[i * LT_SIDE_LD + j] += w->keys.bias[j];
  to = (end + LT_VECTOR - 1) / LT_VECTOR * LT_VECTOR;
  if (odd < last) lt_keys_hide(r, &w->keys, u->q + p->i, p->rows, odd * LT_STRIP, to, w->s);
  for (int64_t i = 0; i < p->rows; i++) {
    fetch_ahead(w, u, p->i + i);
    soften_row(w, u, p->i + i, p->fresh, from, to, w->s + i * LT_SIDE_LD);
  }
  lt_wide_apply(p->rows, r->dim, end - from, w->s + from, &w->v, from, odd < last, !p->fresh,
                u->out + p->i * LT_WIDE_LD, NULL);
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
  lt_wide_copy((const stored *)a->k + at, ld, n, dim, LT_WIDE_LEFT, &w->k);
  lt_wide_turn(&w->k, n, dim, w->turned);
  lt_wide_copy((const stored *)a->v + at, ld, n, dim, LT_WIDE_APPLIED, &w->v);
  for (int64_t i = 0; i < w->sides; i++) {
    side *u = &w->side[i];
    if (!u->meets) continue;
    start(w, u);
    w->next = i + 1 < w->sides && !u[1].started ? u + 1 : NULL;
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

/* The sides of a task: tiles from `tile` on, `most` of them. */
static void attend(const lt_attention_args *a, const lt_cut *cut, int64_t tile, int64_t most, int64_t head) {
  task w; /* a megabyte: set where it is used */
  int64_t from, to;
  w.a = a;
  w.head = head;
  w.kv_head = lt_kv_head(&a->r, head);
  for (w.sides = 0; w.sides < most && tile + w.sides < cut->tiles; w.sides++) {
    side *u = &w.side[w.sides];
    u->q = lt_cut_tile(cut, tile + w.sides, &u->n);
    if (u->n <= 0) break;
    divide(&w, u);
  }
  if (!w.sides) return;
  lt_wide_begin();
  for (int run = 0; next_run(&w, cut, tile, run, &from, &to); run++)
    for (int64_t k = from; k < to; k += LT_TILE) look_at_keys(&w, k, to - k < LT_TILE ? to - k : LT_TILE);
  for (int64_t i = 0; i < w.sides; i++) {
    start(&w, &w.side[i]); /* if it has seen nothing */
    finish(&w, &w.side[i]);
  }
  lt_wide_end();
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
  const lt_cut cut = lt_cut_rows(a->r.rows_q, a->r.block_q);
  const int64_t sides = sides_of(a, &cut), groups = (cut.tiles + sides - 1) / sides, tasks = groups * a->r.heads;
#pragma omp parallel for schedule(dynamic) if (tasks > 1)
  for (int64_t t = tasks - 1; t >= 0; t--) /* late queries see most */
    attend(a, &cut, t / a->r.heads * sides, sides, t % a->r.heads);
}

#else
typedef int lt_nothing_here; /* a file must declare something */
#endif
