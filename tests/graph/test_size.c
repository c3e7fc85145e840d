/* test_size.c: extents: interning, folding, bounds that grow, localizing, even parts, evaluation, text. */
#include "check.h"

#include "graph/size.h"

#include <stdlib.h>

#define TOKENS_BOUND 100

static lt_size whole_tokens(lt_sizes *s) { return lt_size_tokens(s, -1, -1, LT_UNIT_CURRENT, TOKENS_BOUND); }

static void check_interning(void) {
  lt_sizes s;
  lt_sizes_init(&s);
  CHECK_INT(lt_size_const(&s, 0), 0);
  lt_size t = whole_tokens(&s), k = lt_size_const(&s, 4);
  CHECK_INT(lt_size_const(&s, 4), k);
  CHECK_INT(whole_tokens(&s), t);
  CHECK(lt_size_tokens(&s, 0, -1, LT_UNIT_CURRENT, 100) != t);
  CHECK(lt_size_tokens(&s, -1, -1, 0, 100) != t);
  CHECK(lt_size_late(&s, 3, 0, 0, 9) != lt_size_late(&s, 3, 1, 0, 9));
  lt_size sum = lt_size_binary(&s, LT_SIZE_ADD, t, k);
  CHECK_INT(lt_size_binary(&s, LT_SIZE_ADD, k, t), sum);
  CHECK(lt_size_binary(&s, LT_SIZE_MUL, k, t) != sum);
  CHECK(lt_size_binary(&s, LT_SIZE_CEILDIV, t, k) != lt_size_binary(&s, LT_SIZE_CEILDIV, k, t));
  CHECK(lt_size_is_const(&s, k) && !lt_size_is_const(&s, t));
  int64_t before = s.node.n;
  for (int64_t i = 0; i < 1000; i++) lt_size_const(&s, i); /* the hash table grows and still finds all */
  for (int64_t i = 0; i < 1000; i++) CHECK_INT(lt_size_value(&s, lt_size_const(&s, i)), i);
  CHECK(s.node.n <= before + 1000);
  CHECK_INT(lt_size_binary(&s, LT_SIZE_ADD, t, k), sum);
  lt_sizes_free(&s);
}

static void check_folding(void) {
  lt_sizes s;
  lt_sizes_init(&s);
  lt_size t = whole_tokens(&s), a = lt_size_const(&s, 7), b = lt_size_const(&s, 3), one = lt_size_const(&s, 1);
  CHECK_INT(lt_size_value(&s, lt_size_binary(&s, LT_SIZE_ADD, a, b)), 10);
  CHECK_INT(lt_size_value(&s, lt_size_binary(&s, LT_SIZE_MUL, a, b)), 21);
  CHECK_INT(lt_size_value(&s, lt_size_binary(&s, LT_SIZE_MIN, a, b)), 3);
  CHECK_INT(lt_size_value(&s, lt_size_binary(&s, LT_SIZE_MAX, a, b)), 7);
  CHECK_INT(lt_size_value(&s, lt_size_binary(&s, LT_SIZE_CEILDIV, a, b)), 3);
  CHECK_INT(lt_size_value(&s, lt_size_binary(&s, LT_SIZE_CEILDIV, lt_size_const(&s, -5), b)), 0);
  CHECK_INT(lt_size_binary(&s, LT_SIZE_ADD, t, 0), t);
  CHECK_INT(lt_size_binary(&s, LT_SIZE_MUL, one, t), t);
  CHECK_INT(lt_size_binary(&s, LT_SIZE_MUL, t, 0), 0);
  CHECK_INT(lt_size_binary(&s, LT_SIZE_CEILDIV, t, one), t);
  CHECK_INT(lt_size_binary(&s, LT_SIZE_MIN, t, t), t);
  lt_size plus7 = lt_size_binary(&s, LT_SIZE_ADD, t, a);
  CHECK_INT(lt_size_binary(&s, LT_SIZE_ADD, plus7, lt_size_const(&s, -7)), t);
  CHECK_INT(lt_size_binary(&s, LT_SIZE_MUL, lt_size_binary(&s, LT_SIZE_MUL, t, a), b),
            lt_size_binary(&s, LT_SIZE_MUL, t, lt_size_const(&s, 21)));
  lt_sizes_free(&s);
}

static void check_bounds(void) {
  lt_sizes s;
  lt_sizes_init(&s);
  lt_size t = whole_tokens(&s), k = lt_size_const(&s, 8);
  lt_size blocks = lt_size_binary(&s, LT_SIZE_CEILDIV, t, k);
  lt_size rows = lt_size_binary(&s, LT_SIZE_MUL, t, k);
  lt_size less = lt_size_binary(&s, LT_SIZE_ADD, t, lt_size_const(&s, -30));
  lt_size minus = lt_size_binary(&s, LT_SIZE_MUL, t, lt_size_const(&s, -1));
  CHECK_INT(lt_size_bound(&s, t), 100);
  CHECK_INT(lt_size_bound(&s, blocks), 13);
  CHECK_INT(lt_size_bound(&s, rows), 800);
  CHECK_INT(lt_size_bound(&s, less), 70);
  CHECK_INT(lt_size_bound(&s, minus), 0); /* the most it can be */
  lt_size_tokens(&s, -1, -1, LT_UNIT_CURRENT, 50);
  CHECK_INT(lt_size_bound(&s, rows), 800);
  CHECK_INT(lt_size_tokens(&s, -1, -1, LT_UNIT_CURRENT, 200), t);
  CHECK_INT(lt_size_bound(&s, t), 200); /* and all that is made of it */
  CHECK_INT(lt_size_bound(&s, rows), 1600);
  CHECK_INT(lt_size_bound(&s, blocks), 25);
  CHECK_INT(lt_size_bound(&s, less), 170);
  lt_size huge = lt_size_const(&s, INT64_MAX / 2);
  CHECK_INT(lt_size_bound(&s, lt_size_binary(&s, LT_SIZE_MUL, t, huge)), INT64_MAX);
  lt_sizes_free(&s);
}

/* Rank (dp, sp) of a 2 x 3 world holds 10 * dp + sp + unit tokens. */
static int64_t table_tokens(void *context, int32_t dp, int32_t sp, int32_t unit) {
  (void)context;
  int64_t sum = 0;
  for (int32_t d = 0; d < 2; d++)
    for (int32_t p = 0; p < 3; p++)
      if ((dp < 0 || d == dp) && (sp < 0 || p == sp)) sum += 10 * d + p + (unit < 0 ? 0 : unit);
  return sum;
}

static int64_t late(void *context, int32_t node, int32_t index, int32_t unit) {
  (void)context;
  return 1000 * node + 100 * index + unit;
}

static int64_t table_bound(void *context, int32_t dp, int32_t sp, int32_t unit) {
  return table_tokens(context, dp, sp, unit) + 5;
}

static void check_localize(void) {
  lt_sizes s;
  lt_sizes_init(&s);
  lt_size t = whole_tokens(&s), k = lt_size_const(&s, 4);
  lt_size x = lt_size_binary(&s, LT_SIZE_CEILDIV, lt_size_binary(&s, LT_SIZE_MUL, t, lt_size_const(&s, 3)), k);
  lt_size all = lt_size_tokens(&s, -1, -1, LT_UNIT_ALL, 500);
  lt_size counts = lt_size_late(&s, 7, 1, LT_UNIT_CURRENT, 40);
  lt_size mine = lt_size_localize(&s, x, 1, 2, 3, table_bound, NULL);
  CHECK_INT(lt_size_localize(&s, k, 1, 2, 3, table_bound, NULL), k);
  CHECK_INT(lt_size_bound(&s, mine), ((15 + 5) * 3 + 3) / 4);
  lt_size all_mine = lt_size_localize(&s, all, 1, 2, 3, table_bound, NULL);
  lt_size counts_mine = lt_size_localize(&s, counts, 1, 2, 3, table_bound, NULL);
  CHECK_INT(s.node.at[all_mine].unit, LT_UNIT_ALL);
  CHECK_INT(s.node.at[counts_mine].unit, 3);
  CHECK_INT(lt_size_localize(&s, x, 1, 2, 3, table_bound, NULL), mine);     /* interned */
  lt_size run = lt_size_localize_run(&s, x, 1, 1, 2, 3, table_bound, NULL); /* of parts 1 and 2 of sp */
  CHECK_INT(lt_size_bound(&s, run), ((14 + 5 + 15 + 5) * 3 + 3) / 4);
  int64_t *value = malloc((size_t)s.node.n * sizeof *value);
  lt_size_env env = {.tokens = table_tokens, .late = late};
  lt_sizes_eval(&s, &env, value);
  CHECK_INT(value[mine], (15 * 3 + 3) / 4);
  CHECK_INT(value[run], ((14 + 15) * 3 + 3) / 4);
  CHECK_INT(value[all_mine], 12);
  CHECK_INT(value[counts_mine], 7103);
  CHECK_INT(value[t], 0 + 1 + 2 + 10 + 11 + 12);
  env.late = NULL;
  lt_sizes_eval(&s, &env, value);
  CHECK_INT(value[counts_mine], 40);
  lt_sizes_eval(&s, NULL, value);
  for (int64_t i = 0; i < s.node.n; i++) CHECK_INT(value[i], lt_size_bound(&s, (lt_size)i));
  free(value);
  lt_sizes_free(&s);
}

/* What lies before a part: all of the dp before it, then the sp before it of its own; of a quotient, the sum of quotients. */
static void check_before(void) {
  lt_sizes s;
  lt_sizes_init(&s);
  lt_size t = whole_tokens(&s), blocks = lt_size_binary(&s, LT_SIZE_CEILDIV, t, lt_size_const(&s, 4));
  lt_size one = lt_size_before(&s, t, 1, 2, 3, table_bound, NULL);
  lt_size of_blocks = lt_size_before(&s, blocks, 1, 2, 3, table_bound, NULL);
  lt_size dp = lt_size_before(&s, t, 1, -1, 3, table_bound, NULL);
  lt_size sp = lt_size_before(&s, t, -1, 2, 3, table_bound, NULL);
  CHECK_INT(lt_size_before(&s, t, 0, 0, 3, table_bound, NULL), 0); /* the first: the constant 0 */
  CHECK_INT(lt_size_before(&s, t, -1, -1, 3, table_bound, NULL), 0);
  CHECK_INT(lt_size_before(&s, t, 1, 0, 3, table_bound, NULL), dp);
  const int64_t n = s.node.n;
  CHECK_INT(lt_size_before(&s, t, 1, 2, 3, table_bound, NULL), one);
  (void)lt_size_before(&s, t, 1, 3, 3, table_bound, NULL);
  CHECK_INT(s.node.n, n + 3); /* the next part's: its own tokens, and one sum more */
  int64_t *value = malloc((size_t)s.node.n * sizeof *value);
  const lt_size_env env = {.tokens = table_tokens};
  lt_sizes_eval(&s, &env, value);
  CHECK_INT(value[dp], 3 + 4 + 5);
  CHECK_INT(value[one], (3 + 4 + 5) + (13 + 14));
  CHECK_INT(value[of_blocks], (3 /* 12 */) + (4 + 4));
  CHECK_INT(value[sp], (3 + 13) + (4 + 14));
  CHECK_INT(lt_size_bound(&s, one), value[one] + 3 * 5);
  lt_text text = {0};
  lt_size_print(&s, one, &text);
  CHECK_STR(text.s, "before(tokens, dp 1, sp 2, unit 3)");
  lt_text_free(&text);
  free(value);
  lt_sizes_free(&s);
}

static int64_t parts_tokens;
static int64_t given_tokens(void *context, int32_t dp, int32_t sp, int32_t unit) {
  (void)context, (void)dp, (void)sp, (void)unit;
  return parts_tokens;
}

/* Parts follow each other without gap, are cut at granules, differ by at most one granule, and stay within their bound
** for every number of tokens up to the bound: a bound is for all steps, not the largest only. */
static void check_parts(int64_t granule, int32_t parts) {
  lt_sizes s;
  lt_sizes_init(&s);
  lt_size t = lt_size_tokens(&s, -1, -1, 0, 41), size[8], first[8];
  for (int32_t i = 0; i < parts; i++) size[i] = lt_size_part(&s, t, granule, parts, i, &first[i]);
  int64_t *value = malloc((size_t)s.node.n * sizeof *value), n = s.node.n;
  for (parts_tokens = 0; parts_tokens <= 41; parts_tokens++) {
    lt_size_env env = {.tokens = given_tokens};
    int64_t at = 0, granules = (parts_tokens + granule - 1) / granule;
    lt_sizes_eval(&s, &env, value);
    for (int32_t i = 0; i < parts; i++) {
      int64_t own = granules / parts + (i < granules % parts), end = at + own * granule;
      end = end < parts_tokens ? end : parts_tokens;
      CHECK_INT(value[first[i]], at);
      CHECK_INT(value[size[i]], end - at);
      CHECK(value[size[i]] <= lt_size_bound(&s, size[i]));
      lt_size whole = lt_size_const(&s, parts_tokens), constant_first; /* constants give the same */
      CHECK_INT(lt_size_value(&s, lt_size_part(&s, whole, granule, parts, i, &constant_first)), end - at);
      CHECK_INT(lt_size_value(&s, constant_first), at);
      at = end;
    }
    CHECK_INT(at, parts_tokens);
    if (s.node.n > n) {
      n = s.node.n;
      value = realloc(value, (size_t)n * sizeof *value);
    }
  }
  free(value);
  lt_sizes_free(&s);
}

static void check_text(void) {
  lt_sizes s;
  lt_sizes_init(&s);
  lt_text text = {0};
  lt_size t = whole_tokens(&s), k = lt_size_const(&s, 128);
  lt_size_print(&s, lt_size_binary(&s, LT_SIZE_CEILDIV, t, k), &text);
  lt_text_add(&text, "; ");
  lt_size_print(&s, lt_size_binary(&s, LT_SIZE_MUL, lt_size_tokens(&s, 1, 2, 3, 10), lt_size_const(&s, 2)), &text);
  lt_text_add(&text, "; ");
  lt_size_print(&s, lt_size_binary(&s, LT_SIZE_MIN, lt_size_late(&s, 5, 2, 0, 9), lt_size_const(&s, 4)), &text);
  CHECK_STR(text.s, "ceildiv(tokens, 128); (tokens(dp 1, sp 2, unit 3)*2); min(late(node 5[2], unit 0), 4)");
  lt_text_free(&text);
  lt_sizes_free(&s);
}

int main(void) {
  check_interning();
  check_folding();
  check_bounds();
  check_localize();
  check_before();
  for (int32_t parts = 1; parts <= 8; parts++) {
    check_parts(1, parts);
    check_parts(4, parts);
    check_parts(7, parts);
  }
  check_text();
  return check_done();
}
