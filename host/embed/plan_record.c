/* plan_record.c: what was chosen, as a tree: {"train 256": {"asked": 16 hexadecimal digits, "units": …, "block": …,
** "keeps": a digit of lt_keep for every layer, "machine": {…}}, "evaluate 256": {…}}.
** A file that was written by hand is checked as much as it takes to be safe: the pass that uses it does the rest. */
#include "embed/plan_record.h"

#include "core/hash.h"
#include "data/deal_policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct figure {
  const char *name;
  size_t at;
} figures[] = {{"flops", offsetof(lt_machine, flops)},     {"bytes", offsetof(lt_machine, bytes)},
               {"link", offsetof(lt_machine, link)},       {"start", offsetof(lt_machine, start)},
               {"between", offsetof(lt_machine, between)}, {"narrow", offsetof(lt_machine, narrow)}};
#define FIGURES (sizeof figures / sizeof *figures)

/* ---- The question ---- */

static uint64_t hash_int(uint64_t h, int64_t x) { return lt_hash_bytes(h, &x, sizeof x); }
static uint64_t hash_number(uint64_t h, double x) { return lt_hash_bytes(h, &x, sizeof x); }

static uint64_t hash_mesh(uint64_t h, const lt_mesh_spec *m) {
  const int64_t x[] = {m->pp, m->dp, m->sp, m->tp, m->ep, m->automatic, m->nodes, m->per_node, m->inner};
  h = lt_hash_bytes(h, x, sizeof x);
  for (int i = 0; i < 4; i++) h = lt_hash_text(h, m->order[i]);
  return h;
}

static uint64_t hash_words(uint64_t h, const char *const *word, int32_t n) {
  for (int32_t i = 0; i < n; i++) h = lt_hash_text(h, word[i]);
  return hash_int(h, n);
}

static bool makes_graph(const char *line) {
  static const char *const keys[] = {"dtype ", "model", "layout.exchange "};
  bool found = false;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) found = found || !strncmp(line, keys[i], strlen(keys[i]));
  return found;
}

static uint64_t hash_settings(uint64_t h, const char *line) {
  for (size_t n; *line; line += n) {
    n = strcspn(line, "\n");
    n += line[n] == '\n';
    if (makes_graph(line)) h = lt_hash_bytes(h, line, n);
  }
  return h;
}

uint64_t lt_plan_asked(const lt_plan_options *o, int64_t block, int64_t budget, const char *settings) {
  const lt_data_bounds *d = &o->data;
  uint64_t h = hash_mesh(LT_HASH_START, &o->mesh);
  const int64_t x[] = {o->world,     o->units,
                       budget,       o->checkpoint,
                       o->layers,    o->shard,
                       d->tokens,    d->sequences,
                       d->length,    d->max_share,
                       o->max_depth, block,
                       o->backward,  d->partition ? (int64_t)d->partition->kind : -1};
  h = lt_hash_bytes(h, x, sizeof x);
  h = hash_settings(h, settings);
  h = hash_words(h, o->keep, o->n_keep);
  h = hash_words(h, o->drop, o->n_drop);
  for (size_t i = 0; i < FIGURES; i++) h = hash_number(h, *(const double *)((const char *)&o->machine + figures[i].at));
  return lt_hash_finish(h);
}

/* ---- The answer ---- */

static void name_of(char *buf, size_t n, int64_t length, bool training) {
  snprintf(buf, n, "%s %lld", training ? "train" : "evaluate", (long long)length);
}

static lt_tree *machine_tree(const lt_machine *m) {
  lt_tree *t = lt_tree_table();
  bool ok = t != NULL;
  for (size_t i = 0; ok && i < FIGURES; i++)
    ok = lt_tree_set(t, figures[i].name, lt_tree_number(*(const double *)((const char *)m + figures[i].at)));
  if (ok) return t;
  lt_tree_free(t);
  return NULL;
}

static lt_tree *keeps_tree(const lt_program *p) {
  lt_text text = {0};
  const int32_t n = lt_checkpoint_layers(p->graph);
  for (int32_t i = 0; p->option && i < n; i++) lt_text_add(&text, "%d", (int)p->option[i]);
  lt_tree *t = text.failed ? NULL : lt_tree_text(text.s ? text.s : "");
  lt_text_free(&text);
  return t;
}

lt_status lt_plan_note(lt_tree *record, const lt_program *p, bool training, uint64_t asked, lt_error *e) {
  char name[48], digits[17];
  lt_tree *t = lt_tree_table();
  name_of(name, sizeof name, p->plan.data.length, training);
  snprintf(digits, sizeof digits, "%016" PRIx64, asked);
  bool ok = t && lt_tree_set(t, "asked", lt_tree_text(digits)) &&
            lt_tree_set(t, "units", lt_tree_number(p->plan.units)) &&
            lt_tree_set(t, "block", lt_tree_number((double)p->plan.data.block)) &&
            lt_tree_set(t, "keeps", training ? keeps_tree(p) : lt_tree_text("")) &&
            lt_tree_set(t, "machine", machine_tree(&p->plan.machine));
  if (ok) {
    ok = lt_tree_set(record, name, t);
    t = NULL; /* the record's, whatever it came to */
  }
  lt_tree_free(t);
  return ok ? LT_OK : lt_fail_memory(e, 256, "the record of the plan");
}

static bool read_machine(const lt_tree *t, lt_machine *out) {
  for (size_t i = 0; i < FIGURES; i++) {
    double x;
    if (lt_tree_need_number(t, figures[i].name, &x, NULL) != LT_OK || !(x > 0)) return false;
    *(double *)((char *)out + figures[i].at) = x;
  }
  return true;
}

static bool read_keeps(const char *digits, lt_plan_choice *out) {
  const size_t n = strlen(digits);
  out->option = calloc(n + 1, 1);
  for (size_t i = 0; out->option && i < n; i++) {
    if (digits[i] < '0' || digits[i] >= '0' + LT_KEEPS) return false;
    out->option[i] = (unsigned char)(digits[i] - '0');
  }
  out->n_option = (int32_t)n;
  return out->option != NULL;
}

bool lt_plan_recall(const lt_tree *record, int64_t length, bool training, uint64_t asked, lt_plan_choice *out) {
  char name[48];
  const char *digits, *keeps;
  int64_t units;
  *out = (lt_plan_choice){0};
  name_of(name, sizeof name, length, training);
  const lt_tree *t = lt_tree_get(record, name);
  bool ok = t && lt_tree_need_text(t, "asked", &digits, NULL) == LT_OK && strtoull(digits, NULL, 16) == asked &&
            lt_tree_need_whole(t, "units", &units, NULL) == LT_OK && units > 0 && units <= INT32_MAX &&
            lt_tree_need_whole(t, "block", &out->block, NULL) == LT_OK && out->block > 0 &&
            lt_tree_need_text(t, "keeps", &keeps, NULL) == LT_OK && read_keeps(keeps, out) &&
            read_machine(lt_tree_get(t, "machine"), &out->machine);
  if (ok) {
    out->units = (int32_t)units;
    return true;
  }
  free(out->option);
  *out = (lt_plan_choice){0};
  return false;
}
