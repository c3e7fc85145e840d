/* public.c: ltrain.h over a run: callers' structs in and out, the world of a job, one error out of every call.
** An error that one rank has reaches the others here: what fails in a call all ranks make ends the job. */
#include "embed/inside.h"
#include "embed/structs.h"

#include <stdlib.h>

const char *lt_error_text(const lt_error *e, char *buf, size_t n) {
  lt_error own = {0};
  if (!n) return buf;
  buf[0] = '\0';
  if (e) memcpy(&own, e, e->size && e->size < sizeof own ? e->size : sizeof own);
  if (e) lt_error_format(&own, buf, n);
  return buf;
}

/* The end of a call that all ranks make. Who brought the world along (the command) tells the others itself. */
static lt_status end_all(lt_run *r, lt_status st, const lt_error *own, lt_error *e) {
  if (st != LT_OK && r->joined && !*r->met) (void)lt_comm_abort(r->joined, own);
  return lt_error_give(st, own, e);
}

/* ---- Opening ---- */

static lt_status join(lt_comm **comm, lt_world **world, lt_error *e) {
  const lt_comm_mpi_options how = {0};
  if (!lt_comm_launched()) return LT_OK;
  lt_status st = lt_comm_mpi(&how, comm, e);
  if (st == LT_OK) st = lt_world_create(*comm, world, e);
  if (st != LT_OK) {
    lt_comm_free(*comm);
    *comm = NULL;
  }
  return st;
}

static lt_status check_options(const lt_run_options *o, lt_error *e) {
  if (!o->recipe) return lt_fail(e, LT_USAGE, "a run needs a recipe, or a name for its text");
  if (o->n_arg < 0 || o->n_set < 0 || (o->n_arg && !o->arg) || (o->n_set && !o->set))
    return lt_fail(e, LT_USAGE, "arg and set are arrays of n_arg and n_set strings");
  if (o->ranks < 0 || o->steps < 0) return lt_fail(e, LT_USAGE, "ranks and steps are not negative");
  if (o->flags & ~(uint32_t)(LT_RUN_FED | LT_RUN_JOIN)) {
    lt_fail(e, LT_USAGE, "there is no such flag");
    lt_error_got(e, "%#x", (unsigned)o->flags);
    return LT_USAGE;
  }
  return LT_OK;
}

static lt_status open_in(const lt_run_options *o, lt_comm *comm, lt_world *world, lt_run **out, lt_error *e) {
  int32_t ranks = world ? comm->world : o->ranks ? o->ranks : 1;
  if (world && o->ranks && o->ranks != ranks)
    return lt_fail(e, LT_USAGE, "%d ranks asked for in a job of %d", (int)o->ranks, (int)ranks);
  const lt_run_from from = {
      .recipe =
          {.path = o->recipe, .text = o->text, .arg = o->arg, .n_arg = o->n_arg, .set = o->set, .n_set = o->n_set},
      .ranks = ranks,
      .steps = o->steps ? o->steps : -1,
      .world = world,
      .plan = o->plan,
      .fed = o->flags & LT_RUN_FED,
      .watch = {.event = o->event, .context = o->context, .log = {o->log, o->context}}};
  lt_status st = lt_run_load(&from, out, e);
  return st == LT_OK ? lt_run_start(*out, e) : st;
}

lt_status lt_run_open(const lt_run_options *options, lt_run **out, lt_error *e) {
  lt_run_options o;
  lt_error own = {0};
  lt_comm *comm = NULL;
  lt_world *world = NULL;
  lt_run *r = NULL;
  if (!out) return lt_error_give(LT_USAGE, &own, e);
  *out = NULL;
  lt_status st = lt_struct_take(options, &o, sizeof o, "lt_run_options", &own);
  if (st == LT_OK) st = check_options(&o, &own);
  if (st == LT_OK && o.flags & LT_RUN_JOIN) st = join(&comm, &world, &own);
  if (st == LT_OK) st = open_in(&o, comm, world, &r, &own);
  if (st == LT_OK) {
    r->joined = comm;
    *out = r;
    return LT_OK;
  }
  if (world) (void)lt_comm_abort(comm, &own);
  lt_run_close(r);
  lt_world_free(world);
  lt_comm_free(comm);
  return lt_error_give(st, &own, e);
}

lt_status lt_run_folder(lt_run *r, const char *path, int resume, lt_error *e) {
  lt_error own = {0};
  lt_status st = LT_OK;
  if (!path && lt_world_rank(r->world) == 0) return lt_error_give(LT_USAGE, &own, e);
  if (r->entered || lt_trainer_next(r->trainer) > 0)
    st = lt_fail(&own, LT_USAGE, "a run takes its folder once, before its first step");
  if (st == LT_OK) st = lt_run_lock(r, path, resume, &own);
  if (st == LT_OK) st = lt_run_enter(r, resume, &own);
  return end_all(r, st, &own, e);
}

/* ---- Training ---- */

lt_status lt_run_step(lt_run *r, const lt_batch *batch, lt_run_stats *out, lt_error *e) {
  lt_error own = {0}, why = {0};
  lt_run_stats stats;
  lt_status st = lt_struct_check(out, "lt_run_stats", &own);
  if (st == LT_OK) st = lt_run_feed(r, batch, &own);
  if (st == LT_OK) st = lt_run_advance(r, &stats, &why, &own);
  if (st == LT_OK && why.code) { /* of the text or a policy: the same on all ranks, and the run is as it was */
    own = why;
    st = why.code;
    *r->met = true;
  }
  if (st == LT_OK) lt_struct_give(out, &stats, sizeof stats);
  return end_all(r, st, &own, e);
}

lt_status lt_run_train(lt_run *r, lt_error *e) {
  lt_error own = {0};
  lt_status st = r->fed ? lt_fail(&own, LT_USAGE, "this run is fed: lt_run_step takes the tokens of a step")
                        : lt_run_loop(r, &own);
  return end_all(r, st, &own, e);
}

void lt_run_stop(lt_run *r) { atomic_store(&r->stop, 1); }

lt_status lt_run_evaluate(lt_run *r, const lt_batch *batch, lt_run_eval *out, lt_error *e) {
  lt_error own = {0};
  lt_run_eval eval = {0};
  lt_status st = lt_struct_check(out, "lt_run_eval", &own);
  if (st == LT_OK) st = lt_run_measure(r, batch, &eval, &own);
  if (st == LT_OK) lt_struct_give(out, &eval, sizeof eval);
  return end_all(r, st, &own, e);
}

/* ---- Generating ---- */

/* Compiled when it is first asked for, and again when it is to see another number of tokens. */
static lt_status find_writer(lt_run *r, int64_t slots, lt_error *e) {
  if (r->writer && lt_generation_sees(r->writer, slots)) return LT_OK;
  lt_generation_free(r->writer);
  r->writer = NULL;
  return lt_generation_create(r->recipe, slots, &r->writer, e);
}

static lt_status generate(lt_run *r, const lt_generate_options *o, lt_error *e) {
  lt_status st = find_writer(r, o->slots, e);
  lt_session *s = st == LT_OK ? lt_generation_session(r->writer) : NULL;
  if (st == LT_OK) st = lt_session_wake(s, e);
  if (st == LT_OK) st = lt_trainer_copy(r->trainer, s, lt_generator_keeps, e);
  if (st == LT_OK) st = lt_generation_run(r->writer, o, e);
  if (s) lt_session_sleep(s);
  return st;
}

lt_status lt_run_generate(lt_run *r, const lt_generate_options *options, lt_error *e) {
  lt_error own = {0};
  lt_generate_options o;
  lt_status st = lt_struct_take(options, &o, sizeof o, "lt_generate_options", &own);
  if (st == LT_OK) st = lt_generation_check(&o, &own);
  if (st == LT_OK) st = generate(r, &o, &own);
  return end_all(r, st, &own, e);
}

/* ---- Saves ---- */

lt_status lt_run_save(lt_run *r, const char *saves, lt_error *e) {
  lt_error own = {0};
  lt_status st = saves || r->entered
                     ? lt_run_keep(r, saves, &own)
                     : lt_fail(&own, LT_USAGE, "the run has no folder: say below which the save is to be");
  return end_all(r, st, &own, e);
}

lt_status lt_run_resume(lt_run *r, const char *saves, lt_error *e) {
  lt_error own = {0};
  lt_status st = LT_OK;
  if (r->entered || !saves)
    st = lt_fail(&own, LT_USAGE, "a run without a folder of its own resumes from a folder that is named");
  else
    st = lt_steer_resume(r, saves, &own);
  return end_all(r, st, &own, e);
}

/* ---- What it is ---- */

lt_status lt_run_describe(const lt_run *r, lt_run_info *out, lt_error *e) {
  lt_error own = {0};
  const lt_program *p = lt_session_program(lt_trainer_session(r->trainer));
  const lt_run_info info = {.next = lt_trainer_next(r->trainer),
                            .steps = r->steps,
                            .updates = lt_trainer_updates(r->trainer),
                            .tokens = lt_trainer_cursor(r->trainer),
                            .saved = r->saved,
                            .parameters = lt_graph_parameters(p->graph),
                            .memory = p->plan.peak,
                            .rank = lt_world_rank(r->world),
                            .ranks = r->ranks};
  lt_status st = lt_struct_check(out, "lt_run_info", &own);
  if (st == LT_OK) lt_struct_give(out, &info, sizeof info);
  return lt_error_give(st, &own, e);
}
