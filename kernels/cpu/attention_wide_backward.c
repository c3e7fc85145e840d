/* attention_wide_backward.c: the gradients of attention_backward.c in tiles of attention_wide.h, scores computed once.
** Each tile of keys against each tile of queries gives p and ds, and from them parts of dv, dk and dq. Rows are cut into
** GROUPS of keys and of queries; in round r the keys of group g meet the queries of group g + r: no two tasks of a round
** write the same row. A task waits for the two of the round before that wrote its rows, not for all: every sum has one
** order, by the shape alone. Groups that do not see each other are passed over.
** Tiles: inside a task LT_WIDE_SIDES tiles of queries stay in the second-level cache, with their dq, while tiles of keys
** pass by.
** Cost: 10 dim operations a pair in a tile that is looked at; q and dout copied once for each group of keys they see, k
** and v once for every LT_WIDE_SIDES tiles of queries. */
#include "kernels/cpu/attention_wide.h"

#if LT_VECTOR_BYTES

#include <assert.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define GROUPS_MOST   16
#define GROUP_LEAST   4  /* tiles of queries */
#define TASKS_LEAST   16 /* of a round, where groups of GROUP_LEAST make as many */
#define HEADS_AT_ONCE 64
#define FETCH_PACE    2    /* 50 strips meet two tiles */
#define LOOKS         1000 /* at a task under way, before the processor is lent to others */

typedef struct side { /* a tile of queries of one head */
  int64_t q, n, block, head;
  lt_extent extent;
  bool met; /* a key it sees: it is copied */
  lt_wide x, dout;
  real dq[LT_TILE * LT_WIDE_LD] LT_ALIGNED;
} side;

typedef struct task {
  const lt_attention_backward_args *a;
  int64_t kv_head, k_block, sides;
  bool first_q, first_k, products; /* dq, and dk and dv, are written, not added to; work is to be made */
  side side[LT_WIDE_SIDES];
  lt_fetch next;
  lt_keys keys;
  lt_wide k, v;
  real k_turned[LT_WIDE_DIM * LT_SIDE_LD] LT_ALIGNED, v_turned[LT_WIDE_DIM * LT_SIDE_LD] LT_ALIGNED;
  real p[LT_TILE * LT_SIDE_LD] LT_ALIGNED, ds[LT_TILE * LT_SIDE_LD] LT_ALIGNED;
  real dk[LT_COLLECTED] LT_ALIGNED, dv[LT_COLLECTED] LT_ALIGNED;
  double bias[LT_TILE];
} task;
static_assert(sizeof(task) <= LT_WIDE_STACK, "a task fits a thread's stack");

/* y[n][width] = 0, rows ld apart. */
static void zero_rows(real *y, int64_t n, int64_t width, int64_t ld) {
  for (int64_t i = 0; i < n; i++) memset(y + i * ld, 0, (size_t)width * sizeof(real));
}

/* y[n, ld] = scale x, of rows of dim elements, or plus that. */
static void put_rows(const real *x, int64_t n, int64_t dim, real scale, bool add, real *y, int64_t ld) {
  for (int64_t i = 0; i < n; i++, x += LT_WIDE_LD, y += ld) {
    if (add)
      for (int64_t d = 0; d < dim; d++) y[d] += scale * x[d];
    else
      for (int64_t d = 0; d < dim; d++) y[d] = scale * x[d];
  }
}

/* Sums of lt_wide_collect: 0, and into y like rows. */
#if LT_WIDE_TILES
static void clear_collected(real *c, int64_t n, int64_t dim) {
  zero_rows(c, lt_whole_strips(dim), lt_whole_strips(n), LT_SIDE_LD);
}
#define put_collected lt_wide_put_turned
#else
static void clear_collected(real *c, int64_t n, int64_t dim) { zero_rows(c, n, lt_whole_strips(dim), LT_WIDE_LD); }
#define put_collected put_rows
#endif

/* ---- A tile of keys against a tile of queries ---- */

/* Of query row i of the tile: s becomes p, and dout v^T becomes ds; both 0 where a pair is hidden, whatever lies there. */
static void row_gradients(task *w, const side *u, int64_t i, int64_t from, int64_t to) {
  const lt_attention_backward_args *a = w->a;
  const int64_t at = (u->q + i) * a->r.heads + u->head;
  const double lse = a->lse[at];
  const real delta = ((const real *)a->work)[at];
  real *p = w->p + i * LT_SIDE_LD, *ds = w->ds + i * LT_SIDE_LD;
  real less = lse == -INFINITY ? (real)INFINITY : (real)lse;
  if (lt_large(lse)) {
    lt_row_exact(&u->x, i, &w->k, &w->keys, a->r.dim, a->r.scale, lse, from, to, p);
    less = 0;
  }
  for (int64_t j = from; j < to; j += LT_VECTOR) {
    const lt_vector s = lt_load(p + j);
    const lt_mask seen = s != -(real)INFINITY;
    const lt_vector e = lt_vector_where(seen, lt_vector_exp(s - less));
    lt_store(p + j, e);
    lt_store(ds + j, lt_vector_where(seen, e * (lt_load(ds + j) - delta)));
  }
}

static void add_bias(task *w, int64_t rows) {
  real part[LT_TILE] = {0};
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < w->keys.n; j++) part[j] += w->ds[i * LT_SIDE_LD + j];
  for (int64_t j = 0; j < w->keys.n; j++) w->bias[j] += (double)part[j];
}

/* What a side takes from memory is fetched while the one before is met. */
static void fetch_side(task *w, const side *u) {
  const lt_attention_backward_args *a = w->a;
  const int64_t dim = a->r.dim, ld = (int64_t)a->r.heads * dim, at = u->q * ld + u->head * dim;
  lt_fetch_start(&w->next, u->n, FETCH_PACE);
  lt_fetch_also(&w->next, (const stored *)a->q + at, ld, u->n, dim, sizeof(stored));
  lt_fetch_also(&w->next, (const stored *)a->dout + at, ld, u->n, dim, sizeof(stored));
  lt_fetch_also(&w->next, (const real *)a->dq + at, ld, u->n, dim, sizeof(real));
  if (w->products) lt_fetch_also(&w->next, (const stored *)a->out + at, ld, u->n, dim, sizeof(stored));
}

/* And the next tile of keys, with its gradients. */
static void fetch_keys(task *w) {
  const lt_attention_backward_args *a = w->a;
  const int64_t dim = a->r.dim, ld = (int64_t)a->r.kv_heads * dim, row = w->keys.first + w->keys.n;
  const int64_t at = row * ld + w->kv_head * dim;
  const int64_t n = a->r.rows_k - row < LT_TILE ? a->r.rows_k - row : LT_TILE;
  lt_fetch_start(&w->next, n, FETCH_PACE);
  lt_fetch_also(&w->next, (const stored *)a->k + at, ld, n, dim, sizeof(stored));
  lt_fetch_also(&w->next, (const stored *)a->v + at, ld, n, dim, sizeof(stored));
  lt_fetch_also(&w->next, (const real *)a->dk + at, ld, n, dim, sizeof(real));
  lt_fetch_also(&w->next, (const real *)a->dv + at, ld, n, dim, sizeof(real));
}

static void enter(const task *w, side *u) {
  const lt_attention_backward_args *a = w->a;
  const int64_t dim = a->r.dim, ld = (int64_t)a->r.heads * dim, at = u->q * ld + u->head * dim;
  if (w->products) lt_row_products(a, u->q, u->n, u->head, u->head + 1);
  lt_wide_copy((const stored *)a->q + at, ld, u->n, dim, LT_WIDE_COLLECTED, &u->x);
  lt_wide_copy((const stored *)a->dout + at, ld, u->n, dim, LT_WIDE_COLLECTED, &u->dout);
  zero_rows(u->dq, u->n, lt_whole_strips(dim), LT_WIDE_LD);
  u->met = true;
}

static void leave(const task *w, const side *u) {
  const lt_attention_backward_args *a = w->a;
  const int64_t dim = a->r.dim, ld = (int64_t)a->r.heads * dim;
  real *dq = (real *)a->dq + u->q * ld + u->head * dim;
  if (u->met)
    put_rows(u->dq, u->n, dim, (real)a->r.scale, !w->first_q, dq, ld);
  else if (w->first_q)
    zero_rows(dq, u->n, dim, ld);
  if (w->products && !u->met) lt_row_products(a, u->q, u->n, u->head, u->head + 1);
}

/* A side against the tile of keys at hand; some: not all of these pairs are seen. */
static void meet_side(task *w, side *u, bool some) {
  const lt_attention_backward_args *a = w->a;
  const int64_t dim = a->r.dim, n = w->keys.n, wide = w->keys.strips * LT_STRIP;
  lt_wide_scores(u->n, wide, dim, &u->x, 0, w->k_turned, (real)a->r.scale, w->p, &w->next);
  lt_wide_scores(u->n, wide, dim, &u->dout, 0, w->v_turned, 1, w->ds, &w->next);
  if (a->key_bias)
    for (int64_t i = 0; i < u->n; i++)
      for (int64_t j = 0; j < n; j++) w->p[i * LT_SIDE_LD + j] += w->keys.bias[j];
  if (some) lt_keys_hide(&a->r, &w->keys, u->q, u->n, 0, wide, w->p);
  for (int64_t i = 0; i < u->n; i++) row_gradients(w, u, i, 0, wide);
  lt_wide_collect(n, dim, u->n, w->p, &u->dout, some, w->dv, &w->next);
  lt_wide_collect(n, dim, u->n, w->ds, &u->x, some, w->dk, &w->next);
  lt_wide_apply(u->n, dim, n, w->ds, &w->k, 0, some, true, u->dq, &w->next);
  if (a->dkey_bias) add_bias(w, u->n);
}

static void copy_keys(task *w) {
  const lt_attention_backward_args *a = w->a;
  const int64_t dim = a->r.dim, ld = (int64_t)a->r.kv_heads * dim, at = w->keys.first * ld + w->kv_head * dim;
  lt_keys_look(&a->r, a->key_bias, w->kv_head, &w->keys);
  lt_wide_copy((const stored *)a->k + at, ld, w->keys.n, dim, LT_WIDE_APPLIED, &w->k);
  lt_wide_copy((const stored *)a->v + at, ld, w->keys.n, dim, LT_WIDE_LEFT, &w->v);
  lt_wide_turn(&w->k, w->keys.n, dim, w->k_turned);
  lt_wide_turn(&w->v, w->keys.n, dim, w->v_turned);
  clear_collected(w->dk, w->keys.n, dim);
  clear_collected(w->dv, w->keys.n, dim);
  memset(w->bias, 0, sizeof w->bias);
}

static void leave_keys(const task *w, bool met) {
  const lt_attention_backward_args *a = w->a;
  const int64_t dim = a->r.dim, heads = a->r.kv_heads, ld = heads * dim, n = w->keys.n;
  const int64_t at = w->keys.first * ld + w->kv_head * dim;
  real *dk = (real *)a->dk + at, *dv = (real *)a->dv + at;
  real *bias = a->dkey_bias ? (real *)a->dkey_bias + w->keys.first * heads + w->kv_head : NULL;
  if (met) {
    put_collected(w->dk, n, dim, (real)a->r.scale, !w->first_k, dk, ld);
    put_collected(w->dv, n, dim, 1, !w->first_k, dv, ld);
  } else if (w->first_k) {
    zero_rows(dk, n, dim, ld);
    zero_rows(dv, n, dim, ld);
  }
  for (int64_t j = 0; bias && j < n; j++) {
    const real kept = w->first_k ? 0 : bias[j * heads];
    bias[j * heads] = kept + (met ? (real)w->bias[j] : 0);
  }
}

/* The tile of keys at hand against all sides. */
static void meet(task *w) {
  const lt_attention_rows *r = &w->a->r;
  const lt_extent keys = lt_extent_of(r->k_position + w->keys.first, r->k_document + w->keys.first, w->keys.n);
  bool met = false;
  for (int64_t i = 0; i < w->sides; i++) {
    side *u = &w->side[i];
    const lt_sight sight = lt_sight_of(&u->extent, &keys, r->window);
    if (sight == LT_SIGHT_NONE || !lt_rows_run_holds(r, u->block, w->k_block)) continue;
    if (!met) copy_keys(w);
    met = true;
    if (!u->met) enter(w, u);
    if (i + 1 == w->sides)
      fetch_keys(w);
    else if (!u[1].met)
      fetch_side(w, u + 1);
    meet_side(w, u, sight != LT_SIGHT_ALL || w->keys.n % LT_STRIP != 0);
  }
  leave_keys(w, met);
}

/* ---- Groups ---- */

typedef struct plan {
  const lt_attention_backward_args *a;
  lt_cut queries, keys;
  int64_t groups;
  lt_extent q[GROUPS_MOST], k[GROUPS_MOST]; /* of a group's rows */
} plan;

static inline int64_t group_start(const plan *p, const lt_cut *cut, int64_t group) {
  return cut->tiles * group / p->groups;
}

/* First row of a group, and in *n the number of its rows. */
static int64_t group_rows(const plan *p, const lt_cut *cut, int64_t group, int64_t *n) {
  int64_t rest, from = lt_cut_tile(cut, group_start(p, cut, group), &rest);
  int64_t to = lt_cut_tile(cut, group_start(p, cut, group + 1), &rest);
  if (from > cut->rows) from = cut->rows;
  if (to > cut->rows) to = cut->rows;
  *n = to - from;
  return from;
}

/* The fewest groups, for each costs copies, of which the queries fill whole LT_WIDE_SIDES; but for some tasks a round. */
static int64_t count_groups(const lt_attention_rows *r, int64_t tiles) {
  const int64_t sides = tiles * (r->heads > r->kv_heads ? r->heads / r->kv_heads : 1), full = LT_WIDE_SIDES;
  const int64_t times = (sides + full * GROUPS_MOST - 1) / (full * GROUPS_MOST);
  const int64_t filled = times ? (sides + full * times - 1) / (full * times) : 1;
  const int64_t tasks = (TASKS_LEAST + r->kv_heads - 1) / r->kv_heads, most = (tiles + GROUP_LEAST - 1) / GROUP_LEAST;
  const int64_t least = tasks < most ? tasks : most;
  return filled > least ? filled : least < GROUPS_MOST ? least : GROUPS_MOST;
}

static plan plan_of(const lt_attention_backward_args *a) {
  const lt_attention_rows *r = &a->r;
  plan p = {.a = a, .queries = lt_cut_rows(r->rows_q, r->block_q), .keys = lt_cut_rows(r->rows_k, r->block_k)};
  p.groups = count_groups(r, p.queries.tiles);
  for (int64_t g = 0; g < p.groups; g++) {
    int64_t n, at = group_rows(&p, &p.queries, g, &n);
    p.q[g] = lt_extent_of(r->q_position + at, r->q_document + at, n);
    at = group_rows(&p, &p.keys, g, &n);
    p.k[g] = lt_extent_of(r->k_position + at, r->k_document + at, n);
  }
  return p;
}

/* The sides at hand against the keys of a group. */
static void meet_keys(task *w, const plan *p, int64_t group) {
  const int64_t end = group_start(p, &p->keys, group + 1);
  for (int64_t k = group_start(p, &p->keys, group); k < end; k++) {
    w->keys.first = lt_cut_tile(&p->keys, k, &w->keys.n);
    w->k_block = k / p->keys.parts;
    if (w->keys.n > 0) meet(w);
  }
  for (int64_t i = 0; i < w->sides; i++) leave(w, &w->side[i]);
  w->sides = 0;
  w->first_k = false;
}

/* The keys of a group against the queries of a group; first: nothing was written to them yet. */
static void meet_group(const plan *p, int64_t kv_head, int64_t k_group, int64_t q_group, bool first) {
  const lt_attention_rows *r = &p->a->r;
  const int64_t end = group_start(p, &p->queries, q_group + 1);
  int64_t from, to;
  task w; /* a megabyte: set where it is used */
  lt_wide_begin();
  w.a = p->a;
  w.kv_head = kv_head;
  w.sides = 0;
  lt_fetch_start(&w.next, 0, FETCH_PACE);
  w.products = first;
  w.first_q = first && p->a->first;
  w.first_k = first && p->a->first_k;
  lt_heads_of(r, kv_head, &from, &to);
  for (int64_t t = group_start(p, &p->queries, q_group); t < end; t++)
    for (int64_t head = from; head < to; head++) {
      side *u = &w.side[w.sides];
      u->q = lt_cut_tile(&p->queries, t, &u->n);
      if (u->n <= 0) continue;
      u->block = t / p->queries.parts;
      u->head = head;
      u->extent = lt_extent_of(r->q_position + u->q, r->q_document + u->q, u->n);
      u->met = false;
      if (++w.sides == LT_WIDE_SIDES) meet_keys(&w, p, k_group);
    }
  if (w.sides || w.first_k) meet_keys(&w, p, k_group);
  lt_wide_end();
}

/* ---- Rounds ---- */

/* Returns when a group of keys is through with `rounds` rounds. */
static void wait_for(const atomic_int *group, int rounds) {
  for (int looks = 0; atomic_load_explicit(group, memory_order_acquire) < rounds; looks++)
    if (looks >= LOOKS) sched_yield();
}

/* Task t of these heads: rounds one after another, in each the groups of keys. Its keys are written by the task of the
** round before, its queries by that of the next group there: those two it waits for. They were taken earlier. */
static void take(const plan *p, int64_t first_head, int64_t heads, int64_t t, atomic_int done[][HEADS_AT_ONCE]) {
  const int64_t head = t % heads, group = t / heads % p->groups, round = t / heads / p->groups;
  const int64_t q_group = (group + round) % p->groups;
  wait_for(&done[group][head], (int)round);
  wait_for(&done[(group + 1) % p->groups][head], (int)round);
  if (!round || lt_sight_of(&p->q[q_group], &p->k[group], p->a->r.window) != LT_SIGHT_NONE)
    meet_group(p, first_head + head, group, q_group, round == 0);
  atomic_store_explicit(&done[group][head], (int)round + 1, memory_order_release);
}

void lt_attention_wide_backward(const lt_attention_backward_args *a) {
  if (a->r.kv_heads == 0) return;
  const plan p = plan_of(a);
  for (int64_t first = 0; first < a->r.kv_heads; first += HEADS_AT_ONCE) {
    const int64_t heads = a->r.kv_heads - first < HEADS_AT_ONCE ? a->r.kv_heads - first : HEADS_AT_ONCE;
    const int64_t tasks = p.groups * p.groups * heads;
    atomic_int done[GROUPS_MOST][HEADS_AT_ONCE];
    atomic_int_least64_t next;
    for (int64_t g = 0; g < p.groups; g++)
      for (int64_t h = 0; h < heads; h++) atomic_init(&done[g][h], 0);
    atomic_init(&next, 0);
#pragma omp parallel if (tasks > 1)
    for (int64_t t; (t = atomic_fetch_add(&next, 1)) < tasks;) take(&p, first, heads, t, done);
  }
}

#else
typedef int lt_nothing_here; /* a file must declare something */
#endif
