/* row_sets.c: the rows of a member's hops, as intersections and unions of runs of consecutive positions.
** Index and position are different things: tokens are cut into runs of one document with consecutive positions, what
** members' queries see becomes intervals of positions, and the one is laid over the other: once by each owner's runs. */
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

typedef LT_VEC(sight) sight_list;

struct lt_row_sets {
  lt_route route;
  int32_t self;
  int64_t window;                     /* INT64_MAX: none */
  LT_VEC(held_run) held;              /* of the unit at hand, member by member, ascending in row */
  sight_list sights;                  /* likewise, ascending in document and position, apart from each other */
  int64_t *held_first, *sights_first; /* [members + 1] */
  int32_t line_first, line_n; /* the members whose sights `line` has: so many from the first on, round the ring */
  sight_list line, spare;     /* spare: for sorting and uniting */
  run_list runs, made;        /* of all sets; of the one being made */
  LT_VEC(row_set) sets;       /* [units * hops * LT_ROW_WAYS] */
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

/* Intervals in order, those that touch or overlap made one: how many are left. */
static int64_t join_up(sight *at, int64_t n) {
  int64_t kept = 0;
  for (int64_t i = 1; i < n; i++) {
    sight *last = &at[kept];
    if (at[i].document != last->document || at[i].first > last->end)
      at[++kept] = at[i];
    else if (at[i].end > last->end)
      last->end = at[i].end;
  }
  return n ? kept + 1 : 0;
}

/* What the queries of held runs [first, held.n) see. */
static bool add_sights(lt_row_sets *s, int64_t first) {
  const int64_t begin = s->sights.n;
  for (int64_t i = first; i < s->held.n; i++) {
    const held_run *h = &s->held.at[i];
    sight *v = lt_vec_push(&s->sights);
    if (!v) return false;
    *v = (sight){h->document, h->first - s->window + 1, h->first + h->count};
  }
  const int64_t n = s->sights.n - begin;
  if (n == 0) return true;
  if (!sort(s, s->sights.at + begin, n)) return false;
  s->sights.n = begin + join_up(s->sights.at + begin, n);
  return true;
}

/* All members of a unit. */
static bool read_unit(lt_row_sets *s, const lt_step_table *t, const lt_deal *d, int32_t dp, int32_t unit) {
  const int32_t parts = d->sp / s->route.members;
  s->held.n = s->sights.n = 0;
  s->line_n = 0;
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

/* `line` becomes what `n` members from `first` on see; where it has the first of them, the others are added. */
static bool look(lt_row_sets *s, int32_t first, int32_t n) {
  if (s->line_first != first || s->line_n > n) s->line_n = 0;
  if (s->line_n == 0) s->line.n = 0;
  s->line_first = first;
  for (; s->line_n < n; s->line_n++) {
    const int32_t m = (first + s->line_n) % s->route.members;
    const int64_t more = s->sights_first[m + 1] - s->sights_first[m], all = s->line.n + more;
    s->spare.n = 0;
    if (!lt_vec_grow((void **)&s->spare.at, &s->spare.n, &s->spare.cap, all, sizeof *s->spare.at)) return false;
    merge(s->line.at, s->line.n, s->sights.at + s->sights_first[m], more, s->spare.at);
    const sight_list swap = s->line;
    s->line = s->spare;
    s->line.n = join_up(s->line.at, all);
    s->spare = swap;
  }
  return true;
}

/* The rows of `owner` that the line at hand sees become a set. The owner's runs mostly ascend in position as they do in
** row: then the next interval is the last or comes soon after it; else it is searched. */
static bool keep_seen(lt_row_sets *s, int32_t owner, row_set *set) {
  const sight *at = s->line.at;
  const int64_t n = s->line.n;
  const held_run *h = s->held.at + s->held_first[owner], *end = s->held.at + s->held_first[owner + 1], *before = NULL;
  const int64_t first = s->runs.n;
  s->made.n = 0;
  for (int64_t j = 0; h < end; before = h++) {
    const int64_t h_end = h->first + h->count;
    if (!before || h->document < before->document || (h->document == before->document && h->first < before->first))
      j = search(at, n, h);
    while (j < n && (at[j].document < h->document || (at[j].document == h->document && at[j].end <= h->first))) j++;
    for (int64_t k = j; k < n && at[k].document == h->document && at[k].first < h_end; k++) {
      const int64_t low = at[k].first > h->first ? at[k].first : h->first, high = at[k].end < h_end ? at[k].end : h_end;
      const int64_t skip = low - h->first;
      if (!add_run(&s->made, (lt_row_run){h->row + skip, h->token + skip, high - low})) return false;
    }
  }
  *set = (row_set){.first = first, .n = s->made.n};
  if (set->n == 0) return true;
  if (!lt_vec_grow((void **)&s->runs.at, &s->runs.n, &s->runs.cap, set->n, sizeof *s->runs.at)) return false;
  memcpy(s->runs.at + first, s->made.at, (size_t)set->n * sizeof *s->runs.at);
  s->runs.n += set->n;
  for (int64_t i = 0; i < set->n; i++) set->rows += s->made.at[i].count;
  return true;
}

static row_set *set_of(const lt_row_sets *s, int32_t unit, int32_t hop, lt_row_way way) {
  return &s->sets.at[((int64_t)unit * lt_route_hops(&s->route) + hop - 1) * LT_ROW_WAYS + way];
}

/* The rows that come to a member at a hop: those that it sees, and those it hands them on to. */
static bool keep_coming(lt_row_sets *s, int32_t hop, int32_t member, row_set *set) {
  const lt_route *r = &s->route;
  bool ok;
  if (r->kind == LT_ROUTE_RING)
    ok = look(s, member, r->members - hop);
  else if (lt_hop_is_far(r, hop))
    ok = look(s, member / r->inner * r->inner, r->inner);
  else
    ok = look(s, member, 1);
  return ok && keep_seen(s, lt_hop_owner(r, hop, member), set);
}

/* Of one way all hops, the last one first: what a line of them sees grows. */
static bool make_way(lt_row_sets *s, int32_t unit, lt_row_way way) {
  const lt_route *r = &s->route;
  bool ok = true;
  for (int32_t hop = lt_route_hops(r); ok && hop > 0; hop--) {
    row_set *set = set_of(s, unit, hop, way);
    switch (way) {
    case LT_ROWS_COME: ok = keep_coming(s, hop, s->self, set); break;
    case LT_ROWS_GO: ok = keep_coming(s, hop, lt_hop_to(r, hop, s->self), set); break;
    case LT_ROWS_GO_HOME:
      if (r->kind == LT_ROUTE_RING) /* what it only hands on others send back */
        ok = look(s, s->self, 1) && keep_seen(s, lt_hop_owner(r, hop, s->self), set);
      else
        *set = *set_of(s, unit, hop, LT_ROWS_COME);
      break;
    case LT_ROWS_COME_HOME:
      if (r->kind == LT_ROUTE_RING)
        ok = look(s, lt_hop_back_from(r, hop, s->self), 1) && keep_seen(s, s->self, set);
      else
        *set = *set_of(s, unit, hop, LT_ROWS_GO);
      break;
    }
  }
  return ok;
}

lt_status lt_row_sets_update(lt_row_sets *s, const lt_step_table *t, const lt_deal *d, int32_t dp, lt_error *e) {
  const int32_t members = s->route.members, hops = lt_route_hops(&s->route);
  if (d->sp % members != 0) {
    lt_fail(e, LT_USAGE, "the members of a route do not divide the ranks that a sequence is dealt over");
    lt_error_expected(e, "a divisor of %d", (int)d->sp);
    lt_error_got(e, "%d members", (int)members);
    return LT_USAGE;
  }
  const int64_t sets = (int64_t)d->units * hops * LT_ROW_WAYS;
  s->runs.n = s->sets.n = 0;
  bool ok = lt_vec_grow((void **)&s->sets.at, &s->sets.n, &s->sets.cap, sets, sizeof *s->sets.at);
  if (ok) s->sets.n = sets;
  for (int32_t unit = 0; ok && unit < d->units; unit++) {
    ok = read_unit(s, t, d, dp, unit);
    for (int way = 0; ok && way < LT_ROW_WAYS; way++) ok = make_way(s, unit, (lt_row_way)way);
  }
  return ok ? LT_OK : lt_fail_memory(e, (size_t)s->runs.n * 2 * sizeof *s->runs.at, "the rows of an exchange");
}

/* ---- Life, and what others ask ---- */

lt_status lt_row_sets_create(const lt_route *route, int32_t member, int64_t window, lt_row_sets **out, lt_error *e) {
  *out = NULL;
  const int32_t inner = route->kind == LT_ROUTE_TWO_LEVEL ? route->inner : 1;
  if (route->members < 1 || inner < 1 || route->members % inner != 0 || window < 0) {
    lt_fail(e, LT_USAGE, "a route needs members, in whole inner groups, and a window of 0 or more");
    lt_error_got(e, "%d members, %d inner, window %lld", (int)route->members, (int)route->inner, (long long)window);
    return LT_USAGE;
  }
  if (member < 0 || member >= route->members) {
    lt_fail(e, LT_USAGE, "the rows of an exchange are asked for by somebody who is not a member");
    lt_error_expected(e, "0 to %d", (int)route->members - 1);
    lt_error_got(e, "%d", (int)member);
    return LT_USAGE;
  }
  const size_t bounds = (size_t)route->members + 1;
  lt_row_sets *s = calloc(1, sizeof *s);
  if (!s) return lt_fail_memory(e, sizeof *s, "the rows of an exchange");
  s->route = *route;
  s->self = member;
  s->window = window > 0 ? window : INT64_MAX;
  s->held_first = calloc(bounds, sizeof *s->held_first);
  s->sights_first = calloc(bounds, sizeof *s->sights_first);
  if (!s->held_first || !s->sights_first) {
    lt_row_sets_free(s);
    return lt_fail_memory(e, bounds * 2 * sizeof *s->held_first, "the rows of an exchange");
  }
  *out = s;
  return LT_OK;
}

void lt_row_sets_free(lt_row_sets *s) {
  if (!s) return;
  free(s->held_first);
  free(s->sights_first);
  lt_vec_free(&s->held);
  lt_vec_free(&s->sights);
  lt_vec_free(&s->line);
  lt_vec_free(&s->spare);
  lt_vec_free(&s->runs);
  lt_vec_free(&s->made);
  lt_vec_free(&s->sets);
  free(s);
}

int64_t lt_row_sets_rows(const lt_row_sets *s, int32_t unit, int32_t hop, lt_row_way way) {
  return set_of(s, unit, hop, way)->rows;
}

const lt_row_run *lt_row_sets_runs(const lt_row_sets *s, int32_t unit, int32_t hop, lt_row_way way, int64_t *n) {
  const row_set *set = set_of(s, unit, hop, way);
  *n = set->n;
  return s->runs.at + set->first;
}
