/* row_sets.c: the rows of every hop, as intersections and unions of runs of consecutive positions.
** Index and position are different things: tokens are cut into runs of one document with consecutive positions, what a
** member's queries see becomes intervals of positions, and the one is laid over the other. All is linear in runs. */
#include "data/row_sets.h"

typedef struct held_run { /* a member's rows [row, row + count): positions [first, first + count) of a document */
  int32_t document;
  int64_t first, row, token, count;
} held_run;

typedef struct sight { /* a member's queries see positions [first, end) of a document */
  int32_t document;
  int64_t first, end;
} sight;

typedef struct row_set {
  int64_t first, n; /* of lt_row_sets.runs */
  int64_t rows;
} row_set;

typedef LT_VEC(lt_row_run) run_list;

struct lt_row_sets {
  lt_route route;
  int64_t window;                     /* INT64_MAX: none */
  int32_t *child, *next;              /* [hops + 1] the hops that hand on from one: the last such, and the one before */
  LT_VEC(held_run) held;              /* of the unit at hand, member by member, ascending in row */
  LT_VEC(sight) sights;               /* likewise, ascending in document and position, apart from each other */
  LT_VEC(sight) spare;                /* for sorting them */
  int64_t *held_first, *sights_first; /* [members + 1] */
  run_list runs, made, more;          /* of all sets; of the one being made */
  LT_VEC(row_set) sets;               /* [units * hops * members], of what comes; then as many of what goes back */
};

/* ---- Lists of runs ---- */

/* Add a run that begins no earlier than the last; what touches or overlaps it becomes one with it. */
static bool add_run(run_list *l, lt_row_run r) {
  lt_row_run *last = l->n ? &l->at[l->n - 1] : NULL;
  if (last && r.row <= last->row + last->count && r.token - r.row == last->token - last->row) {
    const int64_t end = r.row + r.count;
    if (end > last->row + last->count) last->count = end - last->row;
    return true;
  }
  if (!(last = lt_vec_push(l))) return false;
  *last = r;
  return true;
}

static bool unite(const lt_row_run *a, int64_t n, const lt_row_run *b, int64_t m, run_list *out) {
  out->n = 0;
  for (int64_t i = 0, j = 0; i < n || j < m;) {
    const bool take_a = j == m || (i < n && a[i].row <= b[j].row);
    if (!add_run(out, take_a ? a[i++] : b[j++])) return false;
  }
  return true;
}

/* ---- What a member holds, and what its queries see ---- */

static bool is_before(const sight *a, const sight *b) {
  return a->document != b->document ? a->document < b->document : a->first < b->first;
}

/* Cut a segment, whose first token is row `row`, into runs of a document with consecutive positions. */
static bool add_segment(lt_row_sets *s, const lt_step_table *t, lt_segment g, int64_t row) {
  const int32_t *document = t->document, *position = t->position;
  for (int64_t i = g.start, end; i < g.start + g.count; i = end) {
    for (end = i + 1; end < g.start + g.count;) {
      if (document[end] != document[i] || position[end] - position[end - 1] != 1) break;
      end++;
    }
    held_run *h = lt_vec_push(&s->held);
    if (!h) return false;
    *h = (held_run){document[i], position[i], row + i - g.start, i, end - i};
  }
  return true;
}

/* Of two halves of a list, each in order, one. */
static void merge(const sight *a, int64_t n, const sight *b, int64_t m, sight *out) {
  for (int64_t i = 0, j = 0; i < n || j < m;) {
    const bool take_b = i == n || (j < m && is_before(&b[j], &a[i]));
    *out++ = take_b ? b[j++] : a[i++];
  }
}

/* Sort n sights: parts of a deal laid end to end are a few lists in order, so those are found and merged. */
static bool sort(lt_row_sets *s, sight *at, int64_t n) {
  s->spare.n = 0;
  if (!lt_vec_grow((void **)&s->spare.at, &s->spare.n, &s->spare.cap, n, sizeof *at)) return false;
  for (;;) {
    int64_t lists = 0;
    for (int64_t i = 0, half, end; i < n; i = end, lists++) {
      for (half = i + 1; half < n && !is_before(&at[half], &at[half - 1]);) half++;
      for (end = half + (half < n); end < n && !is_before(&at[end], &at[end - 1]);) end++;
      merge(at + i, half - i, at + half, end - half, s->spare.at + i);
    }
    memcpy(at, s->spare.at, (size_t)n * sizeof *at);
    if (lists <= 1) return true;
  }
}

/* What the queries of held runs [first, held.n) see, as intervals in order that do not touch. */
static bool add_sights(lt_row_sets *s, int64_t first) {
  const int64_t begin = s->sights.n;
  for (int64_t i = first; i < s->held.n; i++) {
    const held_run *h = &s->held.at[i];
    sight *v = lt_vec_push(&s->sights);
    if (!v) return false;
    *v = (sight){h->document, h->first - s->window + 1, h->first + h->count};
  }
  sight *at = s->sights.at + begin;
  const int64_t n = s->sights.n - begin;
  if (n == 0) return true;
  if (!sort(s, at, n)) return false;
  int64_t kept = 0;
  for (int64_t i = 1; i < n; i++) {
    sight *last = &at[kept];
    if (at[i].document != last->document || at[i].first > last->end)
      at[++kept] = at[i];
    else if (at[i].end > last->end)
      last->end = at[i].end;
  }
  s->sights.n = begin + kept + 1;
  return true;
}

/* All members of a unit. */
static bool read_unit(lt_row_sets *s, const lt_step_table *t, const lt_deal *d, int32_t dp, int32_t unit) {
  const int32_t parts = d->sp / s->route.members;
  s->held.n = s->sights.n = 0;
  for (int32_t m = 0; m < s->route.members; m++) {
    int64_t row = 0;
    s->held_first[m] = s->held.n;
    s->sights_first[m] = s->sights.n;
    for (int32_t p = m * parts; p < (m + 1) * parts; p++) {
      const int64_t part = ((int64_t)dp * d->sp + p) * d->units + unit;
      for (int64_t k = d->first[part]; k < d->first[part + 1]; k++) {
        if (!add_segment(s, t, d->segment[k], row)) return false;
        row += d->segment[k].count;
      }
    }
    if (!add_sights(s, s->held_first[m])) return false;
  }
  s->held_first[s->route.members] = s->held.n;
  s->sights_first[s->route.members] = s->sights.n;
  return true;
}

/* ---- Sets ---- */

/* The first of n intervals of which a position of `h` or a later one may be part. */
static int64_t search(const sight *at, int64_t n, const held_run *h) {
  int64_t low = 0;
  while (low < n) {
    const int64_t mid = low + (n - low) / 2;
    const bool ends_before = at[mid].document != h->document ? at[mid].document < h->document : at[mid].end <= h->first;
    if (ends_before)
      low = mid + 1;
    else
      n = mid;
  }
  return low;
}

/* The rows of `owner` that queries of `member` see. The owner's runs mostly ascend in position as they do in row: then
** the next interval is the last or comes soon after it; else it is searched. */
static bool see(const lt_row_sets *s, int32_t owner, int32_t member, run_list *out) {
  const sight *at = s->sights.at + s->sights_first[member];
  const int64_t n = s->sights_first[member + 1] - s->sights_first[member];
  const held_run *h = s->held.at + s->held_first[owner], *end = s->held.at + s->held_first[owner + 1], *before = NULL;
  out->n = 0;
  for (int64_t j = 0; h < end; before = h++) {
    const int64_t h_end = h->first + h->count;
    if (before && (h->document < before->document || (h->document == before->document && h->first < before->first)))
      j = search(at, n, h);
    while (j < n && (at[j].document < h->document || (at[j].document == h->document && at[j].end <= h->first))) j++;
    for (int64_t k = j; k < n && at[k].document == h->document && at[k].first < h_end; k++) {
      const int64_t low = at[k].first > h->first ? at[k].first : h->first, high = at[k].end < h_end ? at[k].end : h_end;
      const int64_t skip = low - h->first;
      if (!add_run(out, (lt_row_run){h->row + skip, h->token + skip, high - low})) return false;
    }
  }
  return true;
}

static row_set *set_of(const lt_row_sets *s, int32_t unit, int32_t hop, int32_t member, bool back) {
  const int64_t at = ((int64_t)unit * lt_route_hops(&s->route) + hop - 1) * s->route.members + member;
  return &s->sets.at[at + (back ? s->sets.n / 2 : 0)];
}

/* The rows at hand become a set. */
static bool keep_set(lt_row_sets *s, row_set *set) {
  *set = (row_set){.first = s->runs.n, .n = s->made.n};
  if (set->n == 0) return true;
  if (!lt_vec_grow((void **)&s->runs.at, &s->runs.n, &s->runs.cap, set->n, sizeof *s->runs.at)) return false;
  for (int64_t i = 0; i < set->n; i++) set->rows += s->made.at[i].count;
  memcpy(s->runs.at + s->runs.n, s->made.at, (size_t)set->n * sizeof *s->runs.at);
  s->runs.n += set->n;
  return true;
}

/* The sets of a hop at a member; those of all hops that hand on from it are there. */
static bool make_sets(lt_row_sets *s, int32_t unit, int32_t hop, int32_t member) {
  row_set *set = set_of(s, unit, hop, member, false), *back = set_of(s, unit, hop, member, true);
  if (!see(s, lt_hop_owner(&s->route, hop, member), member, &s->made)) return false;
  const bool sums = s->route.kind == LT_ROUTE_TWO_LEVEL, apart = s->child[hop] && !sums;
  if (apart && !keep_set(s, back)) return false;
  for (int32_t c = s->child[hop]; c; c = s->next[c]) {
    const row_set *further = set_of(s, unit, c, lt_hop_to(&s->route, c, member), false);
    if (further->n == 0) continue;
    if (!unite(s->made.at, s->made.n, s->runs.at + further->first, further->n, &s->more)) return false;
    const run_list swap = s->made;
    s->made = s->more;
    s->more = swap;
  }
  if (!keep_set(s, set)) return false;
  if (!apart) *back = *set;
  return true;
}

lt_status lt_row_sets_update(lt_row_sets *s, const lt_step_table *t, const lt_deal *d, int32_t dp, lt_error *e) {
  const int32_t members = s->route.members, hops = lt_route_hops(&s->route);
  if (d->sp % members != 0) {
    lt_fail(e, LT_USAGE, "the members of a route do not divide the ranks that a sequence is dealt over");
    lt_error_expected(e, "a divisor of %d", (int)d->sp);
    lt_error_got(e, "%d members", (int)members);
    return LT_USAGE;
  }
  const int64_t sets = 2 * (int64_t)d->units * hops * members;
  s->runs.n = s->sets.n = 0;
  bool ok = lt_vec_grow((void **)&s->sets.at, &s->sets.n, &s->sets.cap, sets, sizeof *s->sets.at);
  if (ok) s->sets.n = sets;
  for (int32_t unit = 0; ok && unit < d->units; unit++) {
    ok = read_unit(s, t, d, dp, unit);
    for (int32_t hop = hops; ok && hop > 0; hop--)
      for (int32_t m = 0; ok && m < members; m++) ok = make_sets(s, unit, hop, m);
  }
  return ok ? LT_OK : lt_fail_memory(e, (size_t)s->runs.n * 2 * sizeof *s->runs.at, "the rows of an exchange");
}

/* ---- Life, and what others ask ---- */

lt_status lt_row_sets_create(const lt_route *route, int64_t window, lt_row_sets **out, lt_error *e) {
  *out = NULL;
  const int32_t inner = route->kind == LT_ROUTE_TWO_LEVEL ? route->inner : 1;
  if (route->members < 1 || inner < 1 || route->members % inner != 0 || window < 0) {
    lt_fail(e, LT_USAGE, "a route needs members, in whole inner groups, and a window of 0 or more");
    lt_error_got(e, "%d members, %d inner, window %lld", (int)route->members, (int)route->inner, (long long)window);
    return LT_USAGE;
  }
  const size_t members = (size_t)route->members;
  lt_row_sets *s = calloc(1, sizeof *s);
  if (!s) return lt_fail_memory(e, sizeof *s, "the rows of an exchange");
  s->route = *route;
  s->window = window > 0 ? window : INT64_MAX;
  s->child = calloc(members, sizeof *s->child);
  s->next = calloc(members, sizeof *s->next);
  s->held_first = calloc(members + 1, sizeof *s->held_first);
  s->sights_first = calloc(members + 1, sizeof *s->sights_first);
  if (!s->child || !s->next || !s->held_first || !s->sights_first) {
    lt_row_sets_free(s);
    return lt_fail_memory(e, (members + 1) * 24, "the rows of an exchange");
  }
  for (int32_t hop = 1; hop <= lt_route_hops(route); hop++) {
    const int32_t parent = lt_hop_parent(route, hop);
    s->next[hop] = s->child[parent];
    s->child[parent] = hop;
  }
  *out = s;
  return LT_OK;
}

void lt_row_sets_free(lt_row_sets *s) {
  if (!s) return;
  free(s->child);
  free(s->next);
  free(s->held_first);
  free(s->sights_first);
  lt_vec_free(&s->held);
  lt_vec_free(&s->sights);
  lt_vec_free(&s->spare);
  lt_vec_free(&s->runs);
  lt_vec_free(&s->made);
  lt_vec_free(&s->more);
  lt_vec_free(&s->sets);
  free(s);
}

int64_t lt_row_sets_rows(const lt_row_sets *s, int32_t unit, int32_t hop, int32_t member) {
  return set_of(s, unit, hop, member, false)->rows;
}

const lt_row_run *lt_row_sets_runs(const lt_row_sets *s, int32_t unit, int32_t hop, int32_t member, int64_t *n) {
  const row_set *set = set_of(s, unit, hop, member, false);
  *n = set->n;
  return s->runs.at + set->first;
}

int64_t lt_row_sets_rows_back(const lt_row_sets *s, int32_t unit, int32_t hop, int32_t member) {
  return set_of(s, unit, hop, member, true)->rows;
}

const lt_row_run *lt_row_sets_runs_back(const lt_row_sets *s, int32_t unit, int32_t hop, int32_t member, int64_t *n) {
  const row_set *set = set_of(s, unit, hop, member, true);
  *n = set->n;
  return s->runs.at + set->first;
}
