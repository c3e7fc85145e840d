/* reasons.c: the log of what the passes considered. */
#include "compile/reasons.h"

#include <stdio.h>
#include <string.h>

void lt_reasons_free(lt_reasons *r) {
  lt_vec_free(&r->candidate);
  lt_vec_free(&r->way);
  lt_vec_free(&r->choice);
  lt_vec_free(&r->move);
}

void lt_reasons_candidate(lt_reasons *r, const lt_candidate *c) {
  if (!r || r->places) return;
  lt_candidate *slot = lt_vec_push(&r->candidate);
  if (slot)
    *slot = *c;
  else
    r->failed = true;
}

static size_t add_places(char *out, size_t room, const lt_place *p, int32_t n) {
  size_t at = 0;
  char buf[12];
  for (int32_t k = 0; k < n && at + 14 < room; k++)
    at += (size_t)snprintf(out + at, room - at, "%s%s", k ? " " : "", lt_place_text(p[k], buf));
  return at;
}

static void describe(const lt_node *n, const lt_strategy *s, lt_way *w) {
  size_t half = sizeof w->text / 2, at = add_places(w->text, half, s->in, n->n_in);
  at += (size_t)snprintf(w->text + at, sizeof w->text - at, "%s-> ", at ? " " : "");
  add_places(w->text + at, sizeof w->text - at, s->out, n->n_out);
  w->bytes = s->cost;
}

void lt_reasons_way(lt_reasons *r, const lt_node *n, const lt_strategy *s, bool gathers) {
  if (!r || s->cost >= LT_IMPOSSIBLE) return;
  lt_way *w = lt_vec_push(&r->way);
  if (!w) {
    r->failed = true;
    return;
  }
  describe(n, s, w);
  w->gathers = gathers;
}

void lt_reasons_choice(lt_reasons *r, const lt_node *n, lt_axis a, const lt_strategy *taken, int64_t first) {
  if (!r || !n->n_out) return;
  lt_choice *c = lt_vec_push(&r->choice);
  if (!c) {
    r->failed = true;
    return;
  }
  lt_way mine = {{0}, 0, false};
  describe(n, taken, &mine);
  *c = (lt_choice){n->out, a, first, r->way.n - first, first};
  while (c->taken + 1 < r->way.n && strcmp(r->way.at[c->taken].text, mine.text) != 0) c->taken++;
}

void lt_reasons_move(lt_reasons *r, const lt_move *m) {
  if (!r) return;
  lt_move *slot = lt_vec_push(&r->move);
  if (slot)
    *slot = *m;
  else
    r->failed = true;
}
