/* test_row_sets.c: what every hop carries, against the double loop over queries and keys; and in closed form. */
#include "check.h"
#include "core/rng.h"
#include "data/row_sets.h"

enum { MEMBERS = 8, PARTS = 2, TOKENS = 96 };

typedef enum table_kind { PACKED, GAPS, ODD, TABLES } table_kind;

typedef struct draw {
  lt_stream_key key;
  uint64_t at;
} draw;

static int64_t below(draw *r, int64_t n) { return (int64_t)(lt_rng_u32(r->key, r->at++) % (uint64_t)n); }

/* ---- Tables and deals ---- */

/* Packed documents; documents with positions left out; or, ODD, documents that come again and positions that repeat. */
static void fill(lt_step_table *t, table_kind kind, draw *r) {
  t->tokens = 0;
  t->sequences = below(r, 4);
  for (int64_t q = 0, document = -1; q < t->sequences; q++) {
    const int64_t length = below(r, TOKENS / 3);
    t->start[q] = t->tokens;
    for (int64_t i = 0, left = 0, position = 0; i < length; i++, left--, position++) {
      if (left == 0) {
        left = 1 + below(r, below(r, 3) ? 8 : 30);
        document = kind == ODD ? below(r, 3) : document + 1;
        position = kind == ODD ? below(r, 12) : 0;
      } else if (kind == GAPS && below(r, 4) == 0) {
        position += below(r, 4);
      }
      t->document[t->tokens] = (int32_t)document;
      t->position[t->tokens++] = (int32_t)position;
    }
  }
  t->start[t->sequences] = t->tokens;
}

/* Blocks anywhere: some ranks get none. */
static lt_status anywhere(void *context, const lt_deal_sequence *s, int32_t *owner, lt_error *e) {
  (void)e;
  for (int64_t b = 0; b < s->blocks; b++) owner[b] = (int32_t)(below(context, 3) ? below(context, s->ranks) : 0);
  return LT_OK;
}

static lt_deal *deal(const lt_step_table *t, const lt_deal_policy *p, int32_t dp, int32_t sp, int32_t units,
                     int64_t block) {
  lt_deal *d = NULL;
  lt_error e = {0};
  if (!CHECK_INT(lt_deal_create(dp, sp, units, &d, &e), LT_OK)) exit(1);
  lt_deal_use(d, p, 1000 * (int64_t)LT_SHARE_FAIR);
  if (!CHECK_INT(lt_deal_step(d, t, block, &e), LT_OK)) exit(1);
  return d;
}

/* ---- The double loop ---- */

typedef struct brute {
  int64_t rows[MEMBERS], token[MEMBERS][TOKENS]; /* of every row of a member */
  bool need[MEMBERS][MEMBERS][TOKENS];           /* [owner][member][row] */
} brute;

static bool sees(const lt_step_table *t, int64_t window, int64_t query, int64_t key) {
  const int64_t d = (int64_t)t->position[query] - t->position[key];
  return t->document[query] == t->document[key] && d >= 0 && (window == 0 || d < window);
}

static void count(brute *b, const lt_step_table *t, const lt_deal *d, int32_t members, int32_t dp, int32_t unit,
                  int64_t window) {
  memset(b, 0, sizeof *b);
  for (int32_t p = 0; p < d->sp; p++) {
    const int64_t part = ((int64_t)dp * d->sp + p) * d->units + unit;
    const int32_t m = p / (d->sp / members);
    for (int64_t k = d->first[part]; k < d->first[part + 1]; k++)
      for (int64_t i = 0; i < d->segment[k].count; i++) b->token[m][b->rows[m]++] = d->segment[k].start + i;
  }
  for (int32_t o = 0; o < members; o++)
    for (int32_t m = 0; m < members; m++)
      for (int64_t i = 0; i < b->rows[o]; i++)
        for (int64_t j = 0; j < b->rows[m] && !b->need[o][m][i]; j++)
          b->need[o][m][i] = sees(t, window, b->token[m][j], b->token[o][i]);
}

/* Do the rows of `owner` come to `member` by way of hop `hop` at `at`? Looked for from the member back to the owner. */
static bool comes_by(const lt_route *r, int32_t owner, int32_t member, int32_t hop, int32_t at) {
  for (int32_t h = 1; h <= lt_route_hops(r); h++) {
    if (lt_hop_owner(r, h, member) != owner) continue;
    for (int32_t m = member; h > 0; m = lt_hop_from(r, h, m), h = lt_hop_parent(r, h))
      if (h == hop && m == at) return true;
    return false;
  }
  return false;
}

/* One set against the rows of `owner` that are wanted; and its runs: as long as can be, ascending, each on its tokens. */
static bool check_set(const brute *b, const lt_row_sets *s, int32_t unit, int32_t hop, lt_row_way way, int32_t owner,
                      const bool *want) {
  bool got[TOKENS] = {false}, ok = true;
  int64_t n, rows = 0;
  const lt_row_run *run = lt_row_sets_runs(s, unit, hop, way, &n);
  for (int64_t k = 0; k < n && ok; k++) {
    const int64_t end = run[k].row + run[k].count;
    const bool follows = k > 0 && run[k].row == run[k - 1].row + run[k - 1].count;
    ok &= CHECK(run[k].count > 0 && run[k].row >= 0 && end <= b->rows[owner]);
    if (k > 0) ok &= CHECK(run[k].row >= run[k - 1].row + run[k - 1].count);
    if (follows) ok &= CHECK(run[k].token != run[k - 1].token + run[k - 1].count);
    for (int64_t i = run[k].row; ok && i < end; i++) {
      ok &= CHECK_INT(b->token[owner][i], run[k].token + i - run[k].row);
      got[i] = true;
      rows++;
    }
  }
  return ok && CHECK_INT(memcmp(want, got, sizeof got), 0) && CHECK_INT(lt_row_sets_rows(s, unit, hop, way), rows);
}

/* What comes to a member at a hop: what it, or one that gets it by way of there, needs. Its sums go home of what it needs
** itself; with two levels of all of it. */
static bool check_member(const brute *b, const lt_row_sets *s, const lt_route *r, int32_t unit, int32_t hop, int32_t m,
                         bool goes) {
  const int32_t owner = lt_hop_owner(r, hop, m);
  bool come[TOKENS] = {false};
  for (int32_t k = 0; k < r->members; k++)
    if (comes_by(r, owner, k, hop, m))
      for (int64_t i = 0; i < b->rows[owner]; i++) come[i] |= b->need[owner][k][i];
  const bool *home = r->kind == LT_ROUTE_TWO_LEVEL ? come : b->need[owner][m];
  return check_set(b, s, unit, hop, goes ? LT_ROWS_GO : LT_ROWS_COME, owner, come) &&
         check_set(b, s, unit, hop, goes ? LT_ROWS_COME_HOME : LT_ROWS_GO_HOME, owner, home);
}

static bool check_same(const lt_row_sets *a, lt_row_way way, const lt_row_sets *b, lt_row_way other, int32_t unit,
                       int32_t hop) {
  int64_t n, m;
  const lt_row_run *x = lt_row_sets_runs(a, unit, hop, way, &n), *y = lt_row_sets_runs(b, unit, hop, other, &m);
  return CHECK_INT(n, m) && (n == 0 || CHECK_INT(memcmp(x, y, (size_t)n * sizeof *x), 0));
}

/* A member's own sets, and its senders': what goes from one is what comes to the other. */
static bool check_step(lt_row_sets **s, const lt_route *r, int64_t window, const lt_step_table *t, const lt_deal *d) {
  static brute b;
  bool ok = true;
  for (int32_t dp = 0; dp < d->dp && ok; dp++) {
    for (int32_t m = 0; m < r->members; m++) ok = ok && CHECK_INT(lt_row_sets_update(s[m], t, d, dp, NULL), LT_OK);
    for (int32_t unit = 0; unit < d->units && ok; unit++) {
      count(&b, t, d, r->members, dp, unit, window);
      for (int32_t hop = 1; hop <= lt_route_hops(r) && ok; hop++)
        for (int32_t m = 0; m < r->members && ok; m++) {
          const int32_t to = lt_hop_to(r, hop, m), back = lt_hop_back_from(r, hop, m);
          ok = check_member(&b, s[m], r, unit, hop, m, false);
          if (to == back) ok = ok && check_member(&b, s[m], r, unit, hop, to, true);
          ok = ok && check_same(s[m], LT_ROWS_GO, s[to], LT_ROWS_COME, unit, hop);
          ok = ok && check_same(s[m], LT_ROWS_COME_HOME, s[back], LT_ROWS_GO_HOME, unit, hop);
        }
    }
  }
  return ok;
}

/* One route and window over many steps: the sets of a step know nothing of the step before. */
static void check_route(const lt_route *r, int64_t window, lt_step_table *t, draw *rng) {
  static const lt_partition kinds[] = {LT_PARTITION_CONTIGUOUS, LT_PARTITION_ZIGZAG, LT_PARTITION_STRIPED,
                                       LT_PARTITION_BALANCED, LT_PARTITION_OWN};
  lt_row_sets *s[MEMBERS] = {NULL};
  bool ok = true;
  for (int32_t m = 0; m < r->members; m++) ok &= CHECK_INT(lt_row_sets_create(r, m, window, &s[m], NULL), LT_OK);
  for (int k = 0; k < 5 && ok; k++)
    for (int kind = 0; kind < TABLES && ok; kind++)
      for (int32_t parts = 1; parts <= PARTS && ok; parts++) {
        const lt_deal_policy p = {.kind = kinds[k], .function = anywhere, .context = rng};
        fill(t, (table_kind)kind, rng);
        lt_deal *d =
            deal(t, &p, 1 + (int32_t)below(rng, 2), parts * r->members, 1 + (int32_t)below(rng, 2), 1 + below(rng, 5));
        ok = check_step(s, r, window, t, d);
        if (!ok)
          fprintf(stderr, "route %d of %d (%d), window %lld, partition %s, table %d, %d parts\n", (int)r->kind,
                  (int)r->members, (int)r->inner, (long long)window, lt_partition_name(kinds[k]), kind, (int)parts);
        lt_deal_free(d);
      }
  for (int32_t m = 0; m < r->members; m++) lt_row_sets_free(s[m]);
}

static void test_double_loop(void) {
  static const int64_t windows[] = {0, 1, 2, 5, 64};
  draw rng = {.key = lt_rng_stream(7, "row sets")};
  lt_step_table *t = NULL;
  if (!CHECK_INT(lt_step_table_create(TOKENS, 4, &t, NULL), LT_OK)) return;
  for (int round = 0; round < 3; round++)
    for (int w = 0; w < 5; w++)
      for (int32_t n = 1; n <= MEMBERS; n++) {
        check_route(&(lt_route){LT_ROUTE_RING, n, 1}, windows[w], t, &rng);
        check_route(&(lt_route){LT_ROUTE_DIRECT, n, 1}, windows[w], t, &rng);
        for (int32_t inner = 1; inner <= n; inner++)
          if (n % inner == 0) check_route(&(lt_route){LT_ROUTE_TWO_LEVEL, n, inner}, windows[w], t, &rng);
      }
  lt_step_table_free(t);
}

/* ---- In closed form: one document of n tokens ---- */

typedef struct document {
  lt_step_table *t;
  lt_deal *d;
  lt_row_sets *s[2 * MEMBERS];
} document;

static document open_document(int64_t n, lt_partition kind, const lt_route *r, int64_t window, int64_t block) {
  document x = {0};
  const lt_deal_policy p = {.kind = kind};
  if (!CHECK_INT(lt_step_table_create(n, 1, &x.t, NULL), LT_OK)) exit(1);
  x.t->tokens = x.t->start[1] = n;
  x.t->sequences = 1;
  for (int64_t i = 0; i < n; i++) x.t->position[i] = (int32_t)i;
  x.d = deal(x.t, &p, 1, r->members, 1, block);
  for (int32_t m = 0; m < r->members; m++) {
    if (!CHECK_INT(lt_row_sets_create(r, m, window, &x.s[m], NULL), LT_OK)) exit(1);
    CHECK_INT(lt_row_sets_update(x.s[m], x.t, x.d, 0, NULL), LT_OK);
  }
  return x;
}

static void close_document(document *x) {
  for (int32_t m = 0; m < 2 * MEMBERS; m++) lt_row_sets_free(x->s[m]);
  lt_deal_free(x->d);
  lt_step_table_free(x->t);
}

/* Shares of 100 tokens end to end: a window reaches window - 1 tokens back, into the neighbour and those before it. */
static void test_window(void) {
  const lt_route r = {LT_ROUTE_DIRECT, 8, 1};
  for (int64_t window = 1; window <= 801; window += 20) {
    document x = open_document(800, LT_PARTITION_CONTIGUOUS, &r, window, 10);
    for (int32_t m = 0; m < 8; m++) {
      int64_t left = window - 1 < 100 * m ? window - 1 : 100 * m;
      for (int32_t hop = 1; hop < 8; hop++) {
        const int64_t want = hop > m || left < 0 ? 0 : left < 100 ? left : 100;
        CHECK_INT(lt_row_sets_rows(x.s[m], 0, hop, LT_ROWS_COME), want);
        left -= want;
        int64_t n;
        const lt_row_run *run = lt_row_sets_runs(x.s[m], 0, hop, LT_ROWS_COME, &n);
        CHECK_INT(n, want > 0);
        if (n == 1) CHECK_INT(run->row, 100 - want); /* the owner's last rows */
      }
      CHECK_INT(left, 0);
    }
    close_document(&x);
  }
}

/* Without a window. Contiguous: a ring hop carries a share whole as long as somebody after it sees it. Zigzag: the early
** half of a share is seen by all, the late half by those before its owner, whose late halves lie after it. */
static void test_ring(void) {
  const lt_route r = {LT_ROUTE_RING, 8, 1};
  int64_t all = 0;
  document x = open_document(1600, LT_PARTITION_CONTIGUOUS, &r, 0, 10);
  for (int32_t hop = 1; hop < 8; hop++)
    for (int32_t m = 0; m < 8; m++) CHECK_INT(lt_row_sets_rows(x.s[m], 0, hop, LT_ROWS_COME), m >= hop ? 200 : 0);
  close_document(&x);
  x = open_document(1600, LT_PARTITION_ZIGZAG, &r, 0, 10);
  for (int32_t m = 0; m < 8; m++)
    for (int32_t hop = 1; hop < 8; hop++) {
      const int32_t owner = (m - hop + 8) % 8;
      bool late = false; /* does the ring come by a member before the owner, from here on? */
      for (int32_t h = hop; h < 8; h++) late |= (owner + h) % 8 < owner;
      CHECK_INT(lt_row_sets_rows(x.s[m], 0, hop, LT_ROWS_COME), late ? 200 : 100);
      all += lt_row_sets_rows(x.s[m], 0, hop, LT_ROWS_COME);
    }
  CHECK(all <= 7 * 1600 && all > 7 * 1600 / 2);
  close_document(&x);
}

/* Two levels of 4 and 4: what crosses a border between groups crosses it once for all of a group. */
static void test_two_levels(void) {
  const lt_route r = {LT_ROUTE_TWO_LEVEL, 16, 4}, direct = {LT_ROUTE_DIRECT, 16, 1};
  document x = open_document(1600, LT_PARTITION_CONTIGUOUS, &r, 0, 10);
  document y = open_document(1600, LT_PARTITION_CONTIGUOUS, &direct, 0, 10);
  int64_t far = 0, far_direct = 0;
  for (int32_t hop = 1; hop < 16; hop++)
    for (int32_t m = 0; m < 16; m++) {
      far += lt_hop_is_far(&r, hop) ? lt_row_sets_rows(x.s[m], 0, hop, LT_ROWS_COME) : 0;
      far_direct += (m - hop + 16) % 16 / 4 != m / 4 ? lt_row_sets_rows(y.s[m], 0, hop, LT_ROWS_COME) : 0;
    }
  CHECK_INT(far, (0 + 1 + 2 + 3) * 400);
  CHECK_INT(far_direct, 4 * far);
  close_document(&x);
  close_document(&y);
}

/* Buffers are those of the step before. */
static void test_memory_is_kept(void) {
  const lt_route r = {LT_ROUTE_RING, 4, 1};
  int64_t n;
  document x = open_document(4000, LT_PARTITION_STRIPED, &r, 64, 10);
  const lt_row_run *before = lt_row_sets_runs(x.s[0], 0, 3, LT_ROWS_COME, &n);
  for (int i = 0; i < 3; i++) {
    CHECK_INT(lt_row_sets_update(x.s[0], x.t, x.d, 0, NULL), LT_OK);
    CHECK(lt_row_sets_runs(x.s[0], 0, 3, LT_ROWS_COME, &n) == before);
  }
  CHECK(n > 0);
  close_document(&x);
}

static void test_misuse(void) {
  const lt_route r = {LT_ROUTE_RING, 4, 1}, uneven = {LT_ROUTE_TWO_LEVEL, 6, 4};
  lt_error e = {0}, f = {0}, g = {0}, h = {0};
  lt_row_sets *s = NULL;
  CHECK_INT(lt_row_sets_create(&uneven, 0, 0, &s, &e), LT_USAGE);
  CHECK(s == NULL);
  CHECK_STR(e.got, "6 members, 4 inner, window 0");
  CHECK_INT(lt_row_sets_create(&r, 0, -1, &s, &f), LT_USAGE);
  CHECK_INT(lt_row_sets_create(&r, 4, 0, &s, &h), LT_USAGE);
  CHECK_STR(h.expected, "0 to 3");
  const lt_route two = {LT_ROUTE_RING, 2, 1};
  document x = open_document(10, LT_PARTITION_CONTIGUOUS, &two, 0, 1);
  CHECK_INT(lt_row_sets_create(&r, 0, 0, &s, NULL), LT_OK);
  CHECK_INT(lt_row_sets_update(s, x.t, x.d, 0, &g), LT_USAGE);
  CHECK_STR(g.expected, "a divisor of 2");
  CHECK_STR(g.got, "4 members");
  lt_row_sets_free(s);
  lt_row_sets_free(NULL);
  close_document(&x);
}

int main(void) {
  test_double_loop();
  test_window();
  test_ring();
  test_two_levels();
  test_memory_is_kept();
  test_misuse();
  return check_done();
}
