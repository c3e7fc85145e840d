/* attention_wide_backward.c: the gradients of attention_backward.c in tiles of attention_wide.h, scores computed once.
** Each tile of keys against each tile of queries gives p and ds, and from them parts of dv, dk and dq. Rows are cut into
** GROUPS of keys and of queries; in round r the keys of group g meet the queries of group g + r: no two tasks of a round
** write the same row, rounds follow each other, so every sum has one order, by the shape alone, and nothing is atomic.
** Tiles: inside a task RESIDENT tiles of queries stay in the second-level cache while tiles of keys pass by.
** Cost: 10 dim operations a pair in a tile that is looked at; q and dout copied once for every tile of keys. */
#include "kernels/cpu/attention_wide.h"

#if LT_VECTOR_BYTES

#include <math.h>
#include <string.h>

#define GROUPS_MOST 16
#define GROUP_LEAST 4 /* tiles of a group */
#define RESIDENT    8

typedef struct queries { /* a tile of queries, without its head */
  int64_t q, n, block;
  lt_extent extent;
} queries;

typedef struct task {
  const lt_attention_backward_args *a;
  int64_t kv_head, k_block;
  bool copied; /* of the keys at hand */
  lt_keys keys;
  lt_wide k, v, q, dout;
  real k_turned[LT_WIDE_DIM * LT_SIDE_LD] LT_ALIGNED, v_turned[LT_WIDE_DIM * LT_SIDE_LD] LT_ALIGNED;
  real p[LT_TILE * LT_SIDE_LD] LT_ALIGNED, ds[LT_TILE * LT_SIDE_LD] LT_ALIGNED;
  real dq[LT_TILE * LT_WIDE_LD] LT_ALIGNED, dk[LT_TILE * LT_WIDE_LD] LT_ALIGNED, dv[LT_TILE * LT_WIDE_LD] LT_ALIGNED;
  double bias[LT_TILE];
} task;

/* y[n, ld] += scale x, of rows of dim elements. */
static void add_rows(const real *x, int64_t n, int64_t dim, real scale, real *y, int64_t ld) {
  for (int64_t i = 0; i < n; i++, x += LT_WIDE_LD, y += ld)
    for (int64_t d = 0; d < dim; d++) y[d] += scale * x[d];
}

/* ---- A tile of keys against a tile of queries ---- */

/* Of query row i of the tile: s becomes p, and dout v^T becomes ds; both 0 where a pair is hidden, whatever lies there. */
static void row_gradients(task *w, const queries *u, int64_t head, int64_t i, int64_t from, int64_t to) {
  const lt_attention_backward_args *a = w->a;
  const int64_t at = (u->q + i) * a->r.heads + head;
  const double lse = a->lse[at];
  const real delta = ((const real *)a->work)[at];
  real *p = w->p + i * LT_SIDE_LD, *ds = w->ds + i * LT_SIDE_LD;
  real less = lse == -INFINITY ? (real)INFINITY : (real)lse;
  if (lt_large(lse)) {
    lt_row_exact(&w->q, i, &w->k, &w->keys, a->r.dim, a->r.scale, lse, from, to, p);
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

/* One head of a tile of queries. */
static void meet_head(task *w, const queries *u, int64_t head, bool some) {
  const lt_attention_backward_args *a = w->a;
  const int64_t dim = a->r.dim, ld = (int64_t)a->r.heads * dim, at = u->q * ld + head * dim;
  const int64_t n = w->keys.n, wide = w->keys.strips * LT_STRIP;
  lt_wide_copy((const stored *)a->q + at, ld, u->n, dim, true, &w->q);
  lt_wide_copy((const stored *)a->dout + at, ld, u->n, dim, true, &w->dout);
  lt_wide_scores(u->n, wide, dim, &w->q, 0, w->k_turned, (real)a->r.scale, w->p);
  lt_wide_scores(u->n, wide, dim, &w->dout, 0, w->v_turned, 1, w->ds);
  if (a->key_bias)
    for (int64_t i = 0; i < u->n; i++)
      for (int64_t j = 0; j < n; j++) w->p[i * LT_SIDE_LD + j] += w->keys.bias[j];
  if (some) lt_keys_hide(&a->r, &w->keys, u->q, u->n, 0, wide, w->p);
  for (int64_t i = 0; i < u->n; i++) row_gradients(w, u, head, i, 0, wide);
  lt_wide_collect(n, dim, u->n, w->p, &w->dout, some, w->dv);
  lt_wide_collect(n, dim, u->n, w->ds, &w->q, some, w->dk);
  lt_wide_apply(u->n, dim, n, w->ds, &w->k, 0, some, false, w->dq);
  add_rows(w->dq, u->n, dim, (real)a->r.scale, (real *)a->dq + at, ld);
  if (a->dkey_bias) add_bias(w, u->n);
}

static void copy_keys(task *w) {
  const lt_attention_backward_args *a = w->a;
  const int64_t dim = a->r.dim, ld = (int64_t)a->r.kv_heads * dim, at = w->keys.first * ld + w->kv_head * dim;
  lt_wide_copy((const stored *)a->k + at, ld, w->keys.n, dim, true, &w->k);
  lt_wide_copy((const stored *)a->v + at, ld, w->keys.n, dim, false, &w->v);
  lt_wide_turn(&w->k, w->keys.n, dim, w->k_turned);
  lt_wide_turn(&w->v, w->keys.n, dim, w->v_turned);
  memset(w->dk, 0, sizeof w->dk);
  memset(w->dv, 0, sizeof w->dv);
  memset(w->bias, 0, sizeof w->bias);
  w->copied = true;
}

static void add_keys(const task *w) {
  const lt_attention_backward_args *a = w->a;
  const int64_t dim = a->r.dim, ld = (int64_t)a->r.kv_heads * dim, at = w->keys.first * ld + w->kv_head * dim;
  add_rows(w->dk, w->keys.n, dim, (real)a->r.scale, (real *)a->dk + at, ld);
  add_rows(w->dv, w->keys.n, dim, 1, (real *)a->dv + at, ld);
  for (int64_t j = 0; a->dkey_bias && j < w->keys.n; j++)
    ((real *)a->dkey_bias)[(w->keys.first + j) * a->r.kv_heads + w->kv_head] += (real)w->bias[j];
}

/* The tile of keys at hand against some tiles of queries. */
static void meet(task *w, const queries *u, int64_t n) {
  const lt_attention_rows *r = &w->a->r;
  int64_t from, to;
  lt_heads_of(r, w->kv_head, &from, &to);
  lt_keys_look(r, w->a->key_bias, w->kv_head, &w->keys);
  w->copied = false;
  for (int64_t i = 0; i < n; i++, u++) {
    const lt_sight sight = lt_sight_of(&u->extent, &w->keys.all, r->window);
    if (sight == LT_SIGHT_NONE || !lt_rows_run_holds(r, u->block, w->k_block)) continue;
    if (!w->copied) copy_keys(w);
    for (int64_t head = from; head < to; head++)
      meet_head(w, u, head, sight != LT_SIGHT_ALL || w->keys.n % LT_STRIP != 0);
  }
  if (w->copied) add_keys(w);
}

/* ---- Rounds ---- */

typedef struct plan {
  lt_cut queries, keys;
  int64_t groups;
} plan;

static inline int64_t group_start(const plan *p, const lt_cut *cut, int64_t group) {
  return cut->tiles * group / p->groups;
}

/* The keys of a group against the queries of a group. */
static void meet_group(const lt_attention_backward_args *a, const plan *p, int64_t kv_head, int64_t k_group,
                       int64_t q_group) {
  task w; /* half a megabyte: set where it is used */
  queries u[RESIDENT];
  const int64_t q_end = group_start(p, &p->queries, q_group + 1), k_end = group_start(p, &p->keys, k_group + 1);
  w.a = a;
  w.kv_head = kv_head;
  for (int64_t t = group_start(p, &p->queries, q_group); t < q_end;) {
    int64_t n = 0;
    for (; t < q_end && n < RESIDENT; t++) {
      u[n].q = lt_cut_tile(&p->queries, t, &u[n].n);
      u[n].block = t / p->queries.parts;
      if (u[n].n <= 0) continue;
      u[n].extent = lt_extent_of(a->r.q_position + u[n].q, a->r.q_document + u[n].q, u[n].n);
      n++;
    }
    for (int64_t k = group_start(p, &p->keys, k_group); k < k_end; k++) {
      w.keys.first = lt_cut_tile(&p->keys, k, &w.keys.n);
      w.k_block = k / p->keys.parts;
      if (w.keys.n > 0) meet(&w, u, n);
    }
  }
}

/* Gradients that are not carried start from 0. */
static void clear(const lt_attention_backward_args *a) {
  const int64_t keys = a->r.rows_k * a->r.kv_heads, dim = a->r.dim;
  if (a->first) memset(a->dq, 0, (size_t)(a->r.rows_q * a->r.heads * dim) * sizeof(real));
  if (!a->first_k) return;
  memset(a->dk, 0, (size_t)(keys * dim) * sizeof(real));
  memset(a->dv, 0, (size_t)(keys * dim) * sizeof(real));
  if (a->dkey_bias) memset(a->dkey_bias, 0, (size_t)keys * sizeof(real));
}

void lt_attention_wide_backward(const lt_attention_backward_args *a) {
  plan p = {.queries = lt_cut_rows(a->r.rows_q, a->r.block_q), .keys = lt_cut_rows(a->r.rows_k, a->r.block_k)};
  const int64_t tiles = p.queries.tiles > p.keys.tiles ? p.queries.tiles : p.keys.tiles;
  p.groups = (tiles + GROUP_LEAST - 1) / GROUP_LEAST;
  if (p.groups > GROUPS_MOST) p.groups = GROUPS_MOST;
  if (p.groups < 1) p.groups = 1;
  clear(a);
#pragma omp parallel if (p.groups * a->r.kv_heads > 1)
  for (int64_t round = 0; round < p.groups; round++) { /* the loop inside waits for all at its end */
#pragma omp for schedule(dynamic)
    for (int64_t t = 0; t < p.groups * a->r.kv_heads; t++) {
      const int64_t group = t / a->r.kv_heads;
      meet_group(a, &p, t % a->r.kv_heads, group, (group + round) % p.groups);
    }
  }
}

#else
typedef int lt_nothing_here; /* a file must declare something */
#endif
