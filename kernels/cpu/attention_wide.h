/* attention_wide.h: attention tiles whose products keep their sums in registers; for heads of up to LT_WIDE_DIM.
** A tile is at most LT_TILE queries by LT_TILE keys, copied out of the arrays: rows of q, k, v, dout lie LT_WIDE_LD
** apart, rows of scores, and of k and v turned, LT_SIDE_LD apart. Widths are padded to whole strips: what is beyond the
** last key is a score of -inf, what is beyond the last element of a row is 0. */
#ifndef LT_KERNELS_CPU_ATTENTION_WIDE_H
#define LT_KERNELS_CPU_ATTENTION_WIDE_H

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/panel.h"
#include "kernels/cpu/tile.h"

#if LT_VECTOR_BYTES

#define LT_WIDE_DIM 128
/* Tiles of queries that a task works on: it lies on a thread's stack, of which many have but 2 MiB (ulimit -s unlimited). */
#define LT_WIDE_SIDES  (sizeof(real) > 4 ? 4 : 8)
#define LT_WIDE_STACK  (1408 << 10)
#define LT_WIDE_LD     (LT_WIDE_DIM + LT_VECTOR) /* rows fall into different sets of the first-level cache */
#define LT_SIDE_LD     (LT_TILE + LT_VECTOR)
#define LT_SIDE_STRIPS (LT_TILE / LT_STRIP)
#define LT_ALIGNED     __attribute__((aligned(64)))
#define LT_FETCHED     4 /* arrays at once */

/* The kernels; the arguments' dim <= LT_WIDE_DIM. */
#define lt_attention_wide          LT_CPU(attention_wide)
#define lt_attention_wide_backward LT_CPU(attention_wide_backward)
void lt_attention_wide(const lt_attention_args *a);
void lt_attention_wide_backward(const lt_attention_backward_args *a);

/* Where the processor multiplies pairs of bf16, products are sums of such: q, k, v and dout are bf16 as they came,
** probabilities and their gradients are rounded once for it. */
#if LT_IS_BF16 && defined(__AVX512BF16__)
#define LT_WIDE_PAIRS 1
#define LT_PAIR_LD    (LT_WIDE_DIM / 2 + LT_VECTOR) /* pairs of a row */
#define LT_SIDE_PAIRS (LT_TILE / 2 + LT_VECTOR)     /* of a row of probabilities */
#else
#define LT_WIDE_PAIRS 0
#endif

/* With AMX whole tiles of pairs (attention_amx_bf16.c): what is missing of one is 0, and sums over queries come turned. */
#if LT_WIDE_PAIRS && defined(__AMX_BF16__)
#define LT_WIDE_TILES 1
#define LT_WIDE_ROWS  32 /* of a panel of queries at most, in multiples of LT_WIDE_GRAIN */
#define LT_WIDE_GRAIN 16
#define LT_COLLECTED  (LT_WIDE_DIM * LT_SIDE_LD) /* elements of the c of lt_wide_collect */
#else
#define LT_WIDE_TILES 0
#define LT_WIDE_ROWS  LT_PANEL_ROWS
#define LT_WIDE_GRAIN 1
#define LT_COLLECTED  (LT_TILE * LT_WIDE_LD)
#endif

typedef struct lt_wide { /* rows of one head, copied */
#if LT_WIDE_PAIRS
  int32_t pair[LT_TILE * LT_PAIR_LD] LT_ALIGNED;     /* as pairs of elements; an odd last one has a 0 beside it */
  int32_t fold[LT_TILE / 2 * LT_WIDE_LD] LT_ALIGNED; /* as pairs of rows; 0 beyond the last, to a whole strip of rows;
                                                      ** for lt_wide_collect by AMX turned: [dim][LT_TILE / 2] */
#else
  real at[LT_TILE * LT_WIDE_LD] LT_ALIGNED;
#endif
  bool finite; /* all of it, where it will be b */
} lt_wide;

typedef enum lt_wide_use { LT_WIDE_LEFT, LT_WIDE_APPLIED, LT_WIDE_COLLECTED } lt_wide_use; /* the last two: as b */

typedef struct lt_keys { /* the key side of a tile: n keys from row `first` */
  int64_t first, n, strips;
  lt_extent all, strip[LT_SIDE_STRIPS];
  real bias[LT_TILE] LT_ALIGNED;
} lt_keys;

/* Rows that will be needed next: a few are fetched with every strip of a product, so that nothing waits for memory. More
** at a time a processor forgets: it asks for some two dozen lines at once. */
typedef struct lt_fetch {
  struct {
    const char *at;
    int64_t ld, bytes, rows; /* from row to row, and of a row, in bytes */
  } array[LT_FETCHED];
  int64_t arrays, rows; /* of all of them */
  int64_t array_now, row_now, done;
  int64_t step, steps, share; /* rows are spread over all steps: so many a step, in 1 / 65536 */
  int64_t pace;               /* steps of a strip */
} lt_fetch;

/* Up to step `end`. Inline, or the compiler takes a function without visible effects for one that need not be called. Into
** the second-level cache: the first one is full of the tile at hand. */
LT_ALWAYS_INLINE void lt_fetch_to(lt_fetch *f, int64_t end) {
  if (end <= f->step) return;
  f->step = end;
  const int64_t part = end * f->share >> 16, rows = part < f->rows ? part : f->rows;
  for (; f->done < rows; f->done++) {
    const int64_t a = f->array_now, bytes = f->array[a].bytes;
    const char *at = f->array[a].at;
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, 2);
    f->array[a].at = at + f->array[a].ld;
    if (++f->row_now < f->array[a].rows) continue;
    f->array_now++;
    f->row_now = 0;
  }
}

LT_ALWAYS_INLINE void lt_fetch_start(lt_fetch *f, int64_t steps, int64_t pace) {
  f->arrays = f->rows = f->array_now = f->row_now = f->done = f->step = f->share = 0;
  f->steps = steps;
  f->pace = pace;
}

/* And x[rows, ld] of dim elements a row. */
LT_ALWAYS_INLINE void lt_fetch_also(lt_fetch *f, const void *x, int64_t ld, int64_t rows, int64_t dim, size_t element) {
  if (rows <= 0) return;
  f->array[f->arrays].at = x;
  f->array[f->arrays].ld = ld * (int64_t)element;
  f->array[f->arrays].bytes = dim * (int64_t)element;
  f->array[f->arrays++].rows = rows;
  f->rows += rows;
  f->share = ((f->rows << 16) + f->steps - 1) / f->steps;
}

#define lt_wide_copy        LT_CPU(wide_copy)
#define lt_wide_turn        LT_CPU(wide_turn)
#define lt_wide_turn_stored LT_CPU(wide_turn_stored)
#define lt_wide_scores      LT_CPU(wide_scores)
#define lt_wide_apply       LT_CPU(wide_apply)
#define lt_wide_collect     LT_CPU(wide_collect)
#define lt_keys_look        LT_CPU(keys_look)
#define lt_keys_hide        LT_CPU(keys_hide)
#define lt_row_exact        LT_CPU(row_exact)

static inline int64_t lt_whole_strips(int64_t n) { return (n + LT_STRIP - 1) / LT_STRIP * LT_STRIP; }

/* to[n][dim, padded] = x[n, ld]; use: as b in lt_wide_apply or _collect, or neither. */
void lt_wide_copy(const stored *x, int64_t ld, int64_t n, int64_t dim, lt_wide_use use, lt_wide *to);

/* to[dim][n, padded] = the rows of x, turned; or pairs of them, [dim / 2, rounded up][n, padded]. */
void lt_wide_turn(const lt_wide *x, int64_t n, int64_t dim, real *to);

/* The same of x[n, ld] itself; false: it does not lie as a copy does, so one must be made. */
bool lt_wide_turn_stored(const stored *x, int64_t ld, int64_t n, int64_t dim, real *to);

/* s[m][n] = alpha x[m][dim] turned[dim][n], x from row `first` on; n whole strips. Here and below f may be NULL. */
void lt_wide_scores(int64_t m, int64_t n, int64_t dim, const lt_wide *x, int64_t first, const real *turned, real alpha,
                    real *s, lt_fetch *f);

/* c[m][dim, padded] (+)= p[m][k] b[k][dim]; of an odd k, p[m][k] is 0 too. With some pairs hidden, what is not finite
** in b counts only where p != 0. */
void lt_wide_apply(int64_t m, int64_t dim, int64_t k, const real *p, const lt_wide *b, int64_t first, bool some,
                   bool add, real *c, lt_fetch *f);

/* c[m][dim, padded] += p[k][m] turned, times b[k][dim]; as above. By AMX c is turned: [dim, padded][m, padded], rows
** LT_SIDE_LD apart. */
void lt_wide_collect(int64_t m, int64_t dim, int64_t k, const real *p, const lt_wide *b, bool some, real *c,
                     lt_fetch *f);

/* Around all products of a task, on its thread. */
#if LT_WIDE_TILES
static inline void lt_wide_begin(void) { lt_tiles_begin(); }
static inline void lt_wide_end(void) { lt_tiles_end(); }

#define lt_wide_fold_turned   LT_CPU(wide_fold_turned)
#define lt_wide_apply_tiles   LT_CPU(wide_apply_tiles)
#define lt_wide_collect_tiles LT_CPU(wide_collect_tiles)
#define lt_wide_put_turned    LT_CPU(wide_put_turned)

/* x->fold, turned, and x->finite, of the n rows in x->pair, which are filled up with 0. */
void lt_wide_fold_turned(int64_t n, int64_t dim, lt_wide *x);

/* Those products with whatever is in b; of apply, fold is that of b's first row. */
void lt_wide_apply_tiles(int64_t m, int64_t dim, int64_t k, const real *p, const int32_t *fold, bool add, real *c,
                         lt_fetch *f);
void lt_wide_collect_tiles(int64_t m, int64_t dim, int64_t k, const real *p, const int32_t *turned, real *c,
                           lt_fetch *f);

/* y[m][dim], rows ld apart, = scale times the c of lt_wide_collect, or plus that. */
void lt_wide_put_turned(const real *c, int64_t m, int64_t dim, real scale, bool add, real *y, int64_t ld);
#else
static inline void lt_wide_begin(void) {}
static inline void lt_wide_end(void) {}
#endif

/* The keys [k->first, k->first + k->n): extents by strips, and biases. */
void lt_keys_look(const lt_attention_rows *r, const real *key_bias, int64_t kv_head, lt_keys *k);

/* Scores s[n][strips from `from` to `to`] of queries from row q: -inf where hidden, or beyond the last key. */
void lt_keys_hide(const lt_attention_rows *r, const lt_keys *k, int64_t q, int64_t n, int64_t from, int64_t to,
                  real *s);

/* Row s[from … to) of scores of row i of x becomes what is seen of scale x k^T + bias - shift, computed in double. */
void lt_row_exact(const lt_wide *x, int64_t i, const lt_wide *keys, const lt_keys *k, int64_t dim, double scale,
                  double shift, int64_t from, int64_t to, real *s);

#endif
#endif
