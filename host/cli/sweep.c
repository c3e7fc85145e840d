/* sweep.c: --sweep: the recipe once a point, one after another, each in a folder of its own below the sweep's.
** A point that fails is said and the others go on; under mpirun all ranks walk the points together, and only a failure
** that all of them know leaves them able to. */
#include "cli/sweep.h"

#include "embed/meet.h"
#include "store/durable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Before the first point ---- */

/* A sweep none of whose recipes can be read is a mistake in the command line or the recipe: nothing is made for it. */
static lt_status read_recipes(sweep *s, lt_error *e) {
  lt_error first = {0};
  bool any = false;
  lt_status st = LT_OK;
  for (int i = 0; st == LT_OK && i < s->points; i++) {
    cli_options o;
    lt_recipe *r = NULL;
    lt_error own = {0};
    st = sweep_options(s, &s->point[i], &o, e);
    if (st == LT_OK && cli_read_recipe(&o, &r, &own) == LT_OK) {
      s->point[i].steps = o.steps >= 0 ? o.steps : lt_recipe_get(r)->steps;
      any = true;
    } else if (!first.code) {
      first = own;
    }
    lt_recipe_free(r);
    cli_free(&o);
  }
  if (st != LT_OK || any) return st;
  *e = first;
  return first.code;
}

static bool has(const char *run, const char *name) {
  char *path = lt_durable_join(run, name);
  bool there = path && access(path, F_OK) == 0;
  free(path);
  return there;
}

static lt_status open_folder(sweep *s, lt_error *e) {
  lt_status st = cli_run_folder(s->o, &s->run, e);
  if (st != LT_OK) return st;
  if (has(s->run, "metrics.jsonl") || has(s->run, "saves")) {
    lt_fail(e, LT_USAGE, "the folder holds a run, not a sweep");
    lt_error_where(e, "%s", s->run);
    return LT_USAGE;
  }
  if (has(s->run, "sweep.jsonl")) {
    if (s->o->resume) return sweep_read(s, e);
    lt_fail(e, LT_USAGE, "the folder holds a sweep already");
    lt_error_where(e, "%s", s->run);
    lt_error_hint(e, "--resume goes on with it; another --run DIR begins a new one");
    return LT_USAGE;
  }
  st = lt_durable_make_folder(s->run, e);
  return st == LT_OK ? sweep_write(s, e) : st;
}

/* On all ranks; rank 0 has the folder, and what is known of it. */
static lt_status begin(sweep *s, lt_error *e) {
  lt_error own = {0};
  lt_world *w = s->o->world;
  lt_status st = sweep_make(s, &own);
  if (st == LT_OK) st = read_recipes(s, &own);
  st = lt_world_meet(w, st, &s->o->met, &own);
  if (st == LT_OK && lt_world_rank(w) == 0) (void)open_folder(s, &own);
  if (st == LT_OK) {
    st = lt_world_tell(w, 0, &own, e);
    s->o->met = st != LT_OK;
  } else {
    *e = own;
  }
  return st;
}

/* ---- The points ---- */

static char *first_line(const lt_error *e) {
  char text[LT_ERROR_TEXT];
  lt_error_format(e, text, sizeof text);
  text[strcspn(text, "\n")] = '\0';
  return strdup(text);
}

static lt_status train(sweep *s, sweep_point *p, cli_options *o, lt_error *e) {
  char *path = s->run ? lt_durable_join(s->run, p->folder) : NULL;
  lt_status st = sweep_options(s, p, o, e);
  if (st == LT_OK && s->run && !path) st = lt_fail_memory(e, 64, "a file name");
  o->run = path;
  if (st == LT_OK) st = cli_train(o, e);
  free(path);
  return st;
}

/* LT_OK: go on with the next one, whatever became of this one. */
static lt_status run_point(sweep *s, int index, lt_error *e) {
  sweep_point *p = &s->point[index];
  lt_world *w = s->o->world;
  cli_options o;
  lt_error own = {0}, written = {0};
  bool known = false;
  lt_status st = lt_world_any(w, lt_world_rank(w) == 0 && p->ran, &known, e);
  if (st != LT_OK || known) return st;
  if (lt_world_rank(w) == 0) {
    printf("%spoint   %s (%d of %d)\n", index ? "\n" : "", p->name, index + 1, s->points);
    fflush(stdout);
  }
  st = train(s, p, &o, &own);
  bool stop = st == LT_INTERRUPTED || (st != LT_OK && w && !o.met);
  s->o->met = o.met;
  if (st != LT_OK && !stop) cli_world_report(&o, &own);
  cli_free(&o);
  if (stop) {
    *e = own;
    return st;
  }
  p->ran = true;
  p->status = st;
  if (st != LT_OK) p->error = first_line(&own);
  if (s->run && st == LT_OK) st = sweep_measure(s, p, &written);
  if (s->run && !written.code) (void)sweep_write(s, &written);
  st = lt_world_tell(w, 0, &written, e);
  s->o->met = st != LT_OK;
  return st;
}

/* The status of the failed ones, if it is one. */
static lt_status judge(sweep *s, lt_error *e) {
  int failed = 0;
  lt_status code = LT_OK;
  for (int i = 0; i < s->points; i++) {
    lt_status st = s->point[i].status;
    if (st == LT_OK) continue;
    code = failed && code != st ? LT_FAILED : st;
    failed++;
  }
  if (!failed) return LT_OK;
  s->o->met = true;
  return lt_fail(e, code, "%d of %d points failed", failed, s->points);
}

lt_status cli_sweep(cli_options *o, lt_error *e) {
  sweep s = {.o = o};
  lt_status st = begin(&s, e);
  bool begun = st == LT_OK;
  for (int i = 0; st == LT_OK && i < s.points; i++) st = run_point(&s, i, e);
  if (begun && s.run) sweep_print(&s);
  if (st == LT_OK) st = judge(&s, e);
  if (st == LT_INTERRUPTED && s.run) { /* not the point alone */
    e->hint[0] = '\0';
    lt_error_hint(e, "the same with --run %s --resume goes on from there", s.run);
  }
  sweep_free(&s);
  return st;
}
