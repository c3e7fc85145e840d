/* size.h: extents as shared expressions: static, step (a function of the step table), late (produced by an item).
** Expressions are interned: equal expressions are the same id, so two transfers match when they name the same id.
** Every expression has a bound; memory is planned by it. */
#ifndef LT_GRAPH_SIZE_H
#define LT_GRAPH_SIZE_H

#include "core/error.h"
#include "core/text.h"
#include "core/vec.h"

#include <stdbool.h>
#include <stdint.h>

typedef int32_t lt_size; /* index of an expression in lt_sizes */

typedef enum lt_size_kind {
  LT_SIZE_CONST,
  LT_SIZE_TOKENS, /* step: tokens of part (dp, sp, unit); -1 sums over it; unit LT_UNIT_CURRENT: of the unit at hand */
  LT_SIZE_ROWS,   /* step: rows that `member` of an exchange gets at a hop, in part dp of a unit */
  LT_SIZE_LATE,   /* late: element `index` of the integer output of `node` in `unit` */
  LT_SIZE_ADD,
  LT_SIZE_MUL,
  LT_SIZE_MIN,
  LT_SIZE_MAX,
  LT_SIZE_CEILDIV, /* ceil(a / b), never below 0 */
  LT_SIZE_BEFORE   /* what `a` comes to over the parts before part (dp, sp) of a unit: b, found once for all who ask */
} lt_size_kind;

#define LT_UNIT_ALL     (-1)
#define LT_UNIT_CURRENT (-2)

typedef struct lt_size_node {
  lt_size_kind kind;
  lt_size a, b;         /* operands */
  int64_t value;        /* CONST */
  int32_t dp, sp, unit; /* TOKENS, BEFORE; ROWS: sp is the member; LATE: unit */
  int32_t node, index;  /* LATE; ROWS: the exchange, and twice the hop, one more for the way back */
  int64_t bound;
} lt_size_node;

typedef struct lt_sizes {
  LT_VEC(lt_size_node) node;
  int32_t *slot; /* hash table of ids, -1 empty */
  int64_t slots;
  bool failed; /* out of memory at some point: results are id 0 */
} lt_sizes;

void lt_sizes_init(lt_sizes *s); /* id 0 is the constant 0 */
void lt_sizes_free(lt_sizes *s);

lt_size lt_size_const(lt_sizes *s, int64_t value);
/* bound: the most tokens that part can hold. An expression asked for again keeps the larger bound. */
lt_size lt_size_tokens(lt_sizes *s, int32_t dp, int32_t sp, int32_t unit, int64_t bound);
/* back: the rows that come back to the member, of those that it sent at the hop. */
lt_size lt_size_rows(lt_sizes *s, int32_t exchange, int32_t hop, bool back, int32_t dp, int32_t member, int32_t unit,
                     int64_t bound);
lt_size lt_size_late(lt_sizes *s, int32_t node, int32_t index, int32_t unit, int64_t bound);
lt_size lt_size_binary(lt_sizes *s, lt_size_kind kind, lt_size a, lt_size b); /* folds constants */

bool lt_size_is_const(const lt_sizes *s, lt_size x);
int64_t lt_size_value(const lt_sizes *s, lt_size x); /* of a constant */
int64_t lt_size_bound(const lt_sizes *s, lt_size x);

/* The same expression with every TOKENS node moved to owner (dp, sp) and, where it says CURRENT, to `unit`.
** bound(context, dp, sp, unit) gives the bound of a moved node. */
typedef int64_t (*lt_token_bound_fn)(void *context, int32_t dp, int32_t sp, int32_t unit);
lt_size lt_size_localize(lt_sizes *s, lt_size x, int32_t dp, int32_t sp, int32_t unit, lt_token_bound_fn bound,
                         void *context);
/* The same of a run of `n` parts of sp, from part `sp` on. */
lt_size lt_size_localize_run(lt_sizes *s, lt_size x, int32_t dp, int32_t sp, int32_t n, int32_t unit,
                             lt_token_bound_fn bound, void *context);
/* Where part (dp, sp) of x starts when all parts are laid end to end, dp outer; -1: that axis does not cut. */
lt_size lt_size_before(lt_sizes *s, lt_size x, int32_t dp, int32_t sp, int32_t unit, lt_token_bound_fn bound,
                       void *context);

/* Part `index` of `parts` of an extent cut evenly in granules: the first (count mod parts) parts get one granule more.
** *first receives the expression of the part's first element. */
lt_size lt_size_part(lt_sizes *s, lt_size whole, int64_t granule, int32_t parts, int32_t index, lt_size *first);

/* What evaluation asks for. */
typedef struct lt_size_env {
  int64_t (*tokens)(void *context, int32_t dp, int32_t sp, int32_t unit);
  int64_t (*rows)(void *context, int32_t exchange, int32_t hop, bool back, int32_t dp, int32_t member, int32_t unit);
  int64_t (*late)(void *context, int32_t node, int32_t index, int32_t unit); /* of these two NULL: the bound */
  void *context;
} lt_size_env;

/* Values of all expressions, value[0 … s->node.n); one pass, no allocation. env NULL: the bounds. */
void lt_sizes_eval(const lt_sizes *s, const lt_size_env *env, int64_t *value);

void lt_size_print(const lt_sizes *s, lt_size x, lt_text *out);

#endif
