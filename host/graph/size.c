/* size.c: extents as shared expressions.
** Operands always have smaller ids than what is made of them, so one pass in id order evaluates everything.
** Extents are never negative; only ADD with a negative constant and MUL by one may be, inside MAX or CEILDIV. */
#include "graph/size.h"

#include "core/hash.h"

void lt_sizes_init(lt_sizes *s) {
  memset(s, 0, sizeof *s);
  lt_size_const(s, 0);
}

void lt_sizes_free(lt_sizes *s) {
  lt_vec_free(&s->node);
  free(s->slot);
  memset(s, 0, sizeof *s);
}

/* ---- Arithmetic that saturates: bounds may be products of bounds. ---- */

static int64_t size_add(int64_t a, int64_t b) {
  int64_t c;
  if (__builtin_add_overflow(a, b, &c)) return a < 0 ? INT64_MIN : INT64_MAX;
  return c;
}

static int64_t size_mul(int64_t a, int64_t b) {
  int64_t c;
  if (__builtin_mul_overflow(a, b, &c)) return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
  return c;
}

static int64_t size_ceildiv(int64_t a, int64_t b) { return a <= 0 || b <= 0 ? 0 : (a - 1) / b + 1; }

static int64_t size_apply(lt_size_kind kind, int64_t a, int64_t b) {
  switch (kind) {
  case LT_SIZE_ADD: return size_add(a, b);
  case LT_SIZE_MUL: return size_mul(a, b);
  case LT_SIZE_MIN: return a < b ? a : b;
  case LT_SIZE_MAX: return a > b ? a : b;
  case LT_SIZE_BEFORE: return b;
  default: return size_ceildiv(a, b);
  }
}

static bool size_is_leaf(lt_size_kind kind) { return kind <= LT_SIZE_LATE; }

/* The bound of a binary node from its operands'. Everything grows with its operands, but a product by a negative
** constant (at most 0 of an extent) and a quotient by an extent (which is at least 1). */
static int64_t size_bound_of(const lt_sizes *s, const lt_size_node *n) {
  int64_t a = s->node.at[n->a].bound, b = s->node.at[n->b].bound;
  if (n->kind == LT_SIZE_MUL && lt_size_is_const(s, n->b) && b < 0) return 0;
  if (n->kind == LT_SIZE_CEILDIV && !lt_size_is_const(s, n->b)) b = 1;
  return size_apply(n->kind, a, b);
}

/* ---- Interning ---- */

/* A sum over parts is told by what it is a sum of; not by its terms, which would have to be found to ask for it. */
static bool size_same(const lt_size_node *x, const lt_size_node *y) {
  return x->kind == y->kind && x->a == y->a && (x->b == y->b || x->kind == LT_SIZE_BEFORE) && x->value == y->value &&
         x->dp == y->dp && x->sp == y->sp && x->unit == y->unit && x->node == y->node && x->index == y->index;
}

static uint64_t size_hash(const lt_size_node *n) {
  const lt_size b = n->kind == LT_SIZE_BEFORE ? 0 : n->b;
  const int64_t key[] = {n->kind, n->a, b, n->value, n->dp, n->sp, n->unit, n->node, n->index};
  uint64_t h = LT_HASH_START;
  for (size_t i = 0; i < sizeof key / sizeof key[0]; i++)
    h = (h ^ (uint64_t)key[i]) * 0x9e3779b97f4a7c15u, h ^= h >> 32;
  return lt_hash_finish(h);
}

static bool size_grow_slots(lt_sizes *s) {
  int64_t slots = s->slots ? s->slots * 2 : 64;
  int32_t *slot = malloc((size_t)slots * sizeof *slot);
  if (!slot) return false;
  for (int64_t i = 0; i < slots; i++) slot[i] = -1;
  for (int64_t id = 0; id < s->node.n; id++) {
    uint64_t at = size_hash(&s->node.at[id]) & (uint64_t)(slots - 1);
    while (slot[at] >= 0) at = (at + 1) & (uint64_t)(slots - 1);
    slot[at] = (int32_t)id;
  }
  free(s->slot);
  s->slot = slot;
  s->slots = slots;
  return true;
}

/* A leaf that was found again with a larger bound: what is made of it may grow too. */
static void size_raise(lt_sizes *s, lt_size x, int64_t bound) {
  if (bound <= s->node.at[x].bound) return;
  s->node.at[x].bound = bound;
  for (int64_t id = x + 1; id < s->node.n; id++) {
    lt_size_node *n = &s->node.at[id];
    if (!size_is_leaf(n->kind)) n->bound = size_bound_of(s, n);
  }
}

/* Where an expression is in the hash table, or would be. */
static uint64_t size_slot(const lt_sizes *s, const lt_size_node *n) {
  uint64_t at = size_hash(n) & (uint64_t)(s->slots - 1);
  while (s->slot[at] >= 0 && !size_same(&s->node.at[s->slot[at]], n)) at = (at + 1) & (uint64_t)(s->slots - 1);
  return at;
}

static lt_size size_intern(lt_sizes *s, lt_size_node n) {
  if (s->failed) return 0;
  if (s->node.n * 2 >= s->slots && !size_grow_slots(s)) goto fail;
  const uint64_t at = size_slot(s, &n);
  if (s->slot[at] >= 0) {
    if (size_is_leaf(n.kind)) size_raise(s, s->slot[at], n.bound);
    return s->slot[at];
  }
  lt_size_node *made = lt_vec_push(&s->node);
  if (!made) goto fail;
  *made = n;
  return s->slot[at] = (int32_t)(s->node.n - 1);
fail:
  s->failed = true;
  return 0;
}

lt_size lt_size_const(lt_sizes *s, int64_t value) {
  return size_intern(s, (lt_size_node){.kind = LT_SIZE_CONST, .value = value, .bound = value});
}

lt_size lt_size_tokens(lt_sizes *s, int32_t dp, int32_t sp, int32_t unit, int64_t bound) {
  return size_intern(s, (lt_size_node){.kind = LT_SIZE_TOKENS, .dp = dp, .sp = sp, .unit = unit, .bound = bound});
}

lt_size lt_size_rows(lt_sizes *s, int32_t exchange, int32_t hop, bool back, int32_t dp, int32_t member, int32_t unit,
                     int64_t bound) {
  return size_intern(s, (lt_size_node){.kind = LT_SIZE_ROWS,
                                       .dp = dp,
                                       .sp = member,
                                       .unit = unit,
                                       .node = exchange,
                                       .index = 2 * hop + back,
                                       .bound = bound});
}

lt_size lt_size_late(lt_sizes *s, int32_t node, int32_t index, int32_t unit, int64_t bound) {
  return size_intern(s,
                     (lt_size_node){.kind = LT_SIZE_LATE, .node = node, .index = index, .unit = unit, .bound = bound});
}

/* x op c for a constant c, where that is x, another constant or a shorter expression; -1: none of them. */
static lt_size size_fold(lt_sizes *s, lt_size_kind kind, lt_size x, int64_t c) {
  lt_size_kind inner = s->node.at[x].kind;
  switch (kind) {
  case LT_SIZE_ADD:
    if (c == 0) return x;
    if (inner == LT_SIZE_ADD && lt_size_is_const(s, s->node.at[x].b))
      return lt_size_binary(s, LT_SIZE_ADD, s->node.at[x].a,
                            lt_size_const(s, size_add(c, lt_size_value(s, s->node.at[x].b))));
    return -1;
  case LT_SIZE_MUL:
    if (c == 1) return x;
    if (c == 0) return lt_size_const(s, 0);
    if (inner == LT_SIZE_MUL && lt_size_is_const(s, s->node.at[x].b))
      return lt_size_binary(s, LT_SIZE_MUL, s->node.at[x].a,
                            lt_size_const(s, size_mul(c, lt_size_value(s, s->node.at[x].b))));
    return -1;
  case LT_SIZE_CEILDIV: return c == 1 && inner != LT_SIZE_ADD && inner != LT_SIZE_MUL ? x : -1;
  default: return -1;
  }
}

lt_size lt_size_binary(lt_sizes *s, lt_size_kind kind, lt_size a, lt_size b) {
  if (s->failed || size_is_leaf(kind)) return 0;
  /* One order for what commutes: constants last, else by id. */
  bool swap = lt_size_is_const(s, a) != lt_size_is_const(s, b) ? lt_size_is_const(s, a) : a > b;
  if (kind != LT_SIZE_CEILDIV && swap) {
    lt_size t = a;
    a = b;
    b = t;
  }
  if (lt_size_is_const(s, b)) {
    int64_t c = lt_size_value(s, b);
    if (lt_size_is_const(s, a)) return lt_size_const(s, size_apply(kind, lt_size_value(s, a), c));
    lt_size folded = size_fold(s, kind, a, c);
    if (folded >= 0) return folded;
  }
  if (a == b && (kind == LT_SIZE_MIN || kind == LT_SIZE_MAX)) return a;
  lt_size_node n = {.kind = kind, .a = a, .b = b};
  n.bound = size_bound_of(s, &n);
  return size_intern(s, n);
}

bool lt_size_is_const(const lt_sizes *s, lt_size x) { return s->node.at[x].kind == LT_SIZE_CONST; }
int64_t lt_size_value(const lt_sizes *s, lt_size x) { return s->node.at[x].value; }
int64_t lt_size_bound(const lt_sizes *s, lt_size x) { return s->node.at[x].bound; }

lt_size lt_size_localize(lt_sizes *s, lt_size x, int32_t dp, int32_t sp, int32_t unit, lt_token_bound_fn bound,
                         void *context) {
  return lt_size_localize_run(s, x, dp, sp, 1, unit, bound, context);
}

lt_size lt_size_localize_run(lt_sizes *s, lt_size x, int32_t dp, int32_t sp, int32_t run, int32_t unit,
                             lt_token_bound_fn bound, void *context) {
  if (s->failed) return 0;
  lt_size_node n = s->node.at[x]; /* a copy: the array grows below */
  switch (n.kind) {
  case LT_SIZE_CONST:
  case LT_SIZE_BEFORE:
  case LT_SIZE_ROWS: return x; /* one member's already */
  case LT_SIZE_TOKENS:
    if (n.unit == LT_UNIT_CURRENT) n.unit = unit;
    x = lt_size_tokens(s, dp, sp, n.unit, bound(context, dp, sp, n.unit));
    for (int32_t i = 1; i < run; i++) {
      lt_size part = lt_size_tokens(s, dp, sp + i, n.unit, bound(context, dp, sp + i, n.unit));
      x = lt_size_binary(s, LT_SIZE_ADD, x, part);
    }
    return x;
  case LT_SIZE_LATE: return lt_size_late(s, n.node, n.index, n.unit == LT_UNIT_CURRENT ? unit : n.unit, n.bound);
  default: {
    lt_size a = lt_size_localize_run(s, n.a, dp, sp, run, unit, bound, context);
    lt_size b = lt_size_localize_run(s, n.b, dp, sp, run, unit, bound, context);
    return lt_size_binary(s, n.kind, a, b);
  }
  }
}

lt_size lt_size_before(lt_sizes *s, lt_size x, int32_t dp, int32_t sp, int32_t unit, lt_token_bound_fn bound,
                       void *context) {
  if (s->failed || (dp <= 0 && sp <= 0)) return 0;
  lt_size_node n = {.kind = LT_SIZE_BEFORE, .a = x, .dp = dp, .sp = sp > 0 ? sp : 0, .unit = unit};
  const lt_size known = s->slot[size_slot(s, &n)];
  if (known >= 0) return known;
  const bool inner = sp > 0;
  lt_size before = lt_size_before(s, x, inner ? dp : dp - 1, inner ? sp - 1 : -1, unit, bound, context);
  lt_size part = lt_size_localize(s, x, inner ? dp : dp - 1, inner ? sp - 1 : -1, unit, bound, context);
  n.b = lt_size_binary(s, LT_SIZE_ADD, before, part);
  n.bound = lt_size_bound(s, n.b);
  return size_intern(s, n);
}

/* The first i parts of G granules have i * floor(G / parts) + min(i, G mod parts) of them. */
static lt_size part_of_const(lt_sizes *s, int64_t whole, int64_t granule, int32_t parts, int32_t index,
                             lt_size *first) {
  const int64_t n = size_ceildiv(whole, granule), each = n / parts, more = n % parts;
  int64_t at[2];
  for (int i = 0; i < 2; i++) {
    const int64_t before = index + i;
    at[i] = (before * each + (before < more ? before : more)) * granule;
    if (at[i] > whole) at[i] = whole;
  }
  *first = lt_size_const(s, at[0]);
  return lt_size_const(s, at[1] - at[0]);
}

/* Part i of G granules has ceil((G - i) / parts) of them; the last granule of the whole may be short. */
lt_size lt_size_part(lt_sizes *s, lt_size whole, int64_t granule, int32_t parts, int32_t index, lt_size *first) {
  *first = lt_size_const(s, 0);
  if (s->failed || parts <= 1) return whole;
  if (granule < 1) granule = 1;
  if (lt_size_is_const(s, whole)) return part_of_const(s, lt_size_value(s, whole), granule, parts, index, first);
  lt_size n = lt_size_const(s, parts), unit = lt_size_const(s, granule), before = *first, here = *first;
  lt_size granules = lt_size_binary(s, LT_SIZE_CEILDIV, whole, unit);
  for (int32_t i = 0; i <= index; i++) { /* sums of the parts before: shared by all parts */
    if (i) before = lt_size_binary(s, LT_SIZE_ADD, before, here);
    here =
        lt_size_binary(s, LT_SIZE_CEILDIV, lt_size_binary(s, LT_SIZE_ADD, granules, lt_size_const(s, -(int64_t)i)), n);
  }
  if (granule == 1) {
    *first = before;
    return here;
  }
  *first = lt_size_binary(s, LT_SIZE_MIN, whole, lt_size_binary(s, LT_SIZE_MUL, before, unit));
  lt_size minus = lt_size_binary(s, LT_SIZE_MUL, *first, lt_size_const(s, -1));
  lt_size rest = lt_size_binary(s, LT_SIZE_ADD, whole, minus);
  return lt_size_binary(s, LT_SIZE_MIN, rest, lt_size_binary(s, LT_SIZE_MUL, here, unit));
}

void lt_sizes_eval(const lt_sizes *s, const lt_size_env *env, int64_t *value) {
  for (int64_t id = 0; id < s->node.n; id++) {
    const lt_size_node *n = &s->node.at[id];
    if (!env || n->kind == LT_SIZE_CONST || (n->kind == LT_SIZE_LATE && !env->late) ||
        (n->kind == LT_SIZE_ROWS && !env->rows)) {
      value[id] = n->bound;
    } else if (n->kind == LT_SIZE_TOKENS) {
      value[id] = env->tokens(env->context, n->dp, n->sp, n->unit);
    } else if (n->kind == LT_SIZE_ROWS) {
      value[id] = env->rows(env->context, n->node, n->index / 2, n->index % 2, n->dp, n->sp, n->unit);
    } else if (n->kind == LT_SIZE_LATE) {
      value[id] = env->late(env->context, n->node, n->index, n->unit);
    } else {
      value[id] = size_apply(n->kind, value[n->a], value[n->b]);
    }
  }
}

/* ---- Printing ---- */

static void size_print_unit(int32_t unit, lt_text *out) {
  if (unit == LT_UNIT_ALL)
    lt_text_add(out, "all units");
  else if (unit == LT_UNIT_CURRENT)
    lt_text_add(out, "this unit");
  else
    lt_text_add(out, "unit %d", unit);
}

static void size_print_part(const lt_size_node *n, lt_text *out) {
  if (n->dp >= 0) lt_text_add(out, "dp %d, ", n->dp);
  if (n->sp >= 0) lt_text_add(out, "sp %d, ", n->sp);
  size_print_unit(n->unit, out);
}

static void size_print_tokens(const lt_size_node *n, lt_text *out) {
  lt_text_add(out, "tokens");
  if (n->dp < 0 && n->sp < 0 && n->unit == LT_UNIT_CURRENT) return;
  lt_text_add(out, "(");
  size_print_part(n, out);
  lt_text_add(out, ")");
}

void lt_size_print(const lt_sizes *s, lt_size x, lt_text *out) {
  const lt_size_node *n = &s->node.at[x];
  const char *infix = n->kind == LT_SIZE_ADD ? " + " : n->kind == LT_SIZE_MUL ? "*" : ", ";
  switch (n->kind) {
  case LT_SIZE_CONST: lt_text_add(out, "%lld", (long long)n->value); return;
  case LT_SIZE_TOKENS: size_print_tokens(n, out); return;
  case LT_SIZE_ROWS:
    lt_text_add(out, "rows(exchange %d, hop %d%s, dp %d, member %d, ", n->node, n->index / 2,
                n->index % 2 ? " back" : "", n->dp, n->sp);
    size_print_unit(n->unit, out);
    break;
  case LT_SIZE_LATE:
    lt_text_add(out, "late(node %d[%d], ", n->node, n->index);
    size_print_unit(n->unit, out);
    break;
  case LT_SIZE_BEFORE:
    lt_text_add(out, "before(");
    lt_size_print(s, n->a, out);
    lt_text_add(out, ", ");
    size_print_part(n, out);
    lt_text_add(out, ")");
    return;
  case LT_SIZE_MIN: lt_text_add(out, "min("); break;
  case LT_SIZE_MAX: lt_text_add(out, "max("); break;
  case LT_SIZE_CEILDIV: lt_text_add(out, "ceildiv("); break;
  default: lt_text_add(out, "("); break;
  }
  if (!size_is_leaf(n->kind)) {
    lt_size_print(s, n->a, out);
    lt_text_add(out, "%s", infix);
    lt_size_print(s, n->b, out);
  }
  lt_text_add(out, ")");
}
