/* enter.c: a run takes its folder, and goes on from what is in it.
** Rank 0 alone has the folder; the others hear how it went. */
#include "embed/earlier.h"
#include "embed/inside.h"

#include "store/save.h"

lt_status lt_run_lock(lt_run *r, const char *path, bool resume, lt_error *e) {
  lt_error own = {0};
  if (lt_world_rank(r->world) == 0) (void)lt_folder_open(path, resume, &r->folder, &own);
  lt_status st = lt_world_tell(r->world, 0, &own, e);
  r->entered = st == LT_OK;
  return st;
}

/* From the newest whole save; a run that was ended before its first one begins anew. */
static lt_status resume(lt_run *r, lt_error *e) {
  lt_save_list saves = {0};
  bool none = false;
  lt_status st = r->folder.saves ? lt_save_find(r->folder.saves, false, &saves, e) : LT_OK;
  if (st == LT_OK) st = lt_world_any(r->world, r->folder.saves && saves.count == 0, &none, e);
  lt_save_list_free(&saves);
  if (st != LT_OK) return st;
  if (none) {
    lt_log_write(&r->watch.log, r->folder.made ? LT_LOG_WARN : LT_LOG_INFO, "%s %s: starting at step 0",
                 r->folder.path ? r->folder.path : "the folder",
                 r->folder.made ? "was not there: there is nothing to go on with" : "has no save yet");
    return LT_OK;
  }
  st = lt_steer_resume(r, r->folder.saves, e);
  if (st == LT_OK && lt_trainer_next(r->trainer) > 0) r->saved = lt_trainer_next(r->trainer);
  return st;
}

/* Before it goes on: a save that does not fit is understood by what has changed. Rank 0 alone does so: where it cannot,
** it must not leave the others waiting for it. */
static void compare(lt_run *r) {
  lt_error none = {0};
  lt_text settings = {0};
  if (r->folder.path && lt_recipe_print(r->recipe, &settings, &none) == LT_OK)
    lt_earlier_compare(r->folder.path, settings.s ? settings.s : "", &r->watch.log);
  lt_text_free(&settings);
}

static lt_status describe(lt_run *r, lt_error *e) {
  lt_text settings = {0};
  lt_status st = lt_recipe_print(r->recipe, &settings, e);
  if (st == LT_OK)
    st =
        lt_folder_describe(&r->folder, &r->from, r->text, r->bytes, r->ranks, settings.s ? settings.s : "", r->made, e);
  lt_text_free(&settings);
  return st;
}

lt_status lt_run_enter(lt_run *r, bool again, lt_error *e) {
  if (again) compare(r);
  lt_status st = again ? resume(r, e) : LT_OK;
  if (st == LT_OK) st = lt_steer_open(r, e);
  if (st != LT_OK || !r->folder.path) return st;
  st = describe(r, e);
  if (st == LT_OK) st = lt_metrics_open(r->folder.metrics, lt_trainer_next(r->trainer) - 1, &r->metrics, e);
  if (st == LT_OK) lt_steer_ran(r, lt_metrics_ran(r->metrics));
  const int64_t trace = r->s->trace, next = lt_trainer_next(r->trainer);
  if (st == LT_OK && trace > 0 && (trace < next || trace >= r->steps))
    lt_log_write(&r->watch.log, LT_LOG_WARN, "step %lld, of train.trace, is none of this run's: no trace is written",
                 (long long)trace);
  return st;
}
