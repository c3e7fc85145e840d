/* trainer.c: steps: the table of the cursor's text, the controls, the session, the commit.
** Everything that outlives a step is advanced in one place, commit(), after the step has run: what fails before it
** leaves the run where it was. */
#include "run/trainer_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Made once ---- */

static int64_t sequences_in(int64_t tokens, int64_t length) { return tokens / length + (tokens % length != 0); }

static int64_t eval_length(const lt_trainer_options *o) {
  int64_t longest = o->eval_length;
  for (int32_t i = 0; !o->eval_length && i < o->n_length; i++)
    if (o->length[i].length > longest) longest = o->length[i].length;
  return longest;
}

/* Room for a batch of an evaluation; of what is fed for any step too. */
static int64_t table_sequences(const lt_trainer_options *o) {
  if (o->arrays) return lt_tensors_sequences(o->arrays);
  int64_t most = sequences_in(o->tokens, o->eval_length);
  for (int32_t i = 0; o->fed && i < o->n_length; i++) {
    int64_t n = sequences_in(o->tokens, o->length[i].length);
    if (n > most) most = n;
  }
  return most;
}

lt_structure lt_trainer_structure(const lt_trainer_options *o, int64_t step) {
  lt_structure s;
  memset(&s, 0, sizeof s);
  s.length = o->arrays ? o->arrays->length : lt_length_at(o->length, o->n_length, step);
  if (!o->arrays && s.length > o->tokens) s.length = o->tokens;
  return s;
}

static lt_status check_options(const lt_trainer_options *o, lt_error *e) {
  if (!!o->corpus + !!o->arrays + o->fed != 1)
    return lt_fail(e, LT_USAGE, "a run reads text or given arrays or is fed, one of them");
  if (o->arrays) return LT_OK;
  if (o->look_ahead < 0) return lt_fail(e, LT_RECIPE, "text is read 0 steps ahead, or more");
  if (o->tokens < 1) return lt_fail(e, LT_RECIPE, "a step must have tokens");
  for (int32_t i = 0; i < o->n_length; i++)
    if (o->length[i].length < 1 || (i ? o->length[i].step <= o->length[i - 1].step : o->length[i].step != 0))
      return lt_fail(e, LT_RECIPE, "lengths by step start at step 0, ascend, and are at least 1");
  return o->n_length > 0 ? LT_OK : lt_fail(e, LT_RECIPE, "a run over text needs the length of its sequences");
}

static lt_status check_plan(const lt_program *p, int64_t tokens, int64_t sequences, lt_error *e) {
  const lt_data_bounds *plan = &p->plan.data;
  if (plan->tokens >= tokens && plan->sequences >= sequences) return LT_OK;
  lt_fail(e, LT_RECIPE, "the program is planned for less than a step of this run");
  lt_error_expected(e, "at least %lld tokens in %lld sequences", (long long)tokens, (long long)sequences);
  lt_error_got(e, "%lld tokens in %lld sequences", (long long)plan->tokens, (long long)plan->sequences);
  return LT_RECIPE;
}

/* The program of the steps from `step` on. */
static lt_status compile_at(lt_trainer *t, int64_t step, lt_error *e) {
  const lt_structure of = lt_trainer_structure(&t->o, step);
  const lt_program *p = NULL;
  lt_status st = lt_programs_get(t->programs, &of, &p, e);
  int64_t n = t->o.arrays ? lt_tensors_sequences(t->o.arrays) : sequences_in(t->o.tokens, of.length);
  return st == LT_OK ? check_plan(p, t->o.tokens, n, e) : st;
}

static lt_status compile_all(lt_trainer *t, lt_error *e) {
  lt_status st = t->o.arrays ? compile_at(t, 0, e) : LT_OK;
  for (int32_t i = 0; st == LT_OK && i < t->o.n_length && !t->o.measures; i++)
    st = compile_at(t, t->o.length[i].step, e);
  if (st != LT_OK || !t->eval || t->o.arrays) return st;
  return check_plan(lt_session_program(t->eval), t->o.tokens, sequences_in(t->o.tokens, t->o.eval_length), e);
}

/* How the steps of every length are dealt over sp, by their programs. */
static lt_status find_dealing(lt_trainer *t, lt_error *e) {
  const lt_program *p = lt_session_program(t->train);
  if (lt_mesh_sp(&p->plan.mesh) == 1) return LT_OK;
  t->dealing = calloc((size_t)t->o.n_length, sizeof *t->dealing);
  lt_status st = t->dealing ? LT_OK : lt_fail_memory(e, sizeof *t->dealing, "a run");
  for (int32_t i = 0; i < t->o.n_length && st == LT_OK; i++) {
    const lt_structure of = lt_trainer_structure(&t->o, t->o.length[i].step);
    st = lt_programs_get(t->programs, &of, &p, e);
    if (st != LT_OK) break;
    const lt_data_bounds *d = &p->plan.data;
    t->dealing[i] = (lt_dealing){
        .max_share = d->max_share, .ranks = lt_mesh_sp(&p->plan.mesh), .block = d->block > 0 ? d->block : 1};
    if (d->partition) t->dealing[i].policy = *d->partition;
  }
  return st;
}

static lt_status create_readers(lt_trainer *t, lt_error *e) {
  lt_corpus *c = t->o.corpus;
  lt_reader *r = NULL;
  if (!c) return LT_OK;
  lt_status st = t->o.measures ? LT_OK : find_dealing(t, e);
  const lt_course course = {t->o.tokens, t->o.length, t->o.n_length, t->dealing};
  if (st == LT_OK && !t->o.measures) st = lt_reader_create(c, LT_CORPUS_TRAIN, t->o.seed, t->o.stretch, &r, e);
  if (st == LT_OK && !t->o.measures) st = lt_look_ahead_create(r, &course, t->o.look_ahead, &t->text, e);
  if (st == LT_OK && t->eval && lt_corpus_documents(c, LT_CORPUS_EVAL) > 0)
    st = lt_reader_create(c, LT_CORPUS_EVAL, t->o.seed, 0, &t->held_out, e);
  return st;
}

static lt_status copy_lengths(lt_trainer *t, const lt_length *from, lt_error *e) {
  lt_length *lengths = calloc((size_t)t->o.n_length + 1, sizeof *lengths);
  if (!lengths) return lt_fail_memory(e, sizeof *lengths, "a run");
  for (int32_t i = 0; i < t->o.n_length; i++) lengths[i] = from[i];
  t->o.length = lengths;
  return LT_OK;
}

lt_status lt_trainer_enter(lt_trainer *t, lt_error *e) {
  if (t->o.measures) return LT_OK;
  const lt_programs_place at = {.device = t->o.device, .seed = t->o.seed, .world = t->o.world};
  const lt_structure of = lt_trainer_structure(&t->o, t->next);
  return lt_programs_enter(t->programs, &at, &of, &t->train, e);
}

static lt_status create(lt_trainer *t, const lt_trainer_options *o, lt_program *eval, lt_error *e) {
  lt_status st = LT_OK;
  if (eval) st = lt_session_create_asleep(eval, o->seed, o->device, o->world, &t->eval, e);
  if (st == LT_OK && o->measures) {
    t->train = t->eval;
    st = t->eval ? lt_session_wake(t->eval, e) : lt_fail(e, LT_USAGE, "there is nothing to measure with");
  }
  if (st == LT_OK) st = check_options(o, e);
  if (st == LT_OK) st = copy_lengths(t, o->length, e);
  if (st == LT_OK && o->arrays) t->o.tokens = o->arrays->rows * o->arrays->length;
  if (st == LT_OK) t->o.eval_length = eval_length(&t->o);
  if (st == LT_OK) st = lt_step_table_create(t->o.tokens, table_sequences(&t->o), &t->table, e);
  if (st == LT_OK) st = compile_all(t, e);
  if (st == LT_OK) st = lt_trainer_enter(t, e);
  return st == LT_OK ? create_readers(t, e) : st;
}

lt_status lt_trainer_create(const lt_trainer_options *o, lt_programs *train, lt_program *eval, lt_trainer **out,
                            lt_error *e) {
  *out = NULL;
  lt_trainer *t = calloc(1, sizeof *t);
  if (!t) {
    lt_programs_free(train);
    lt_program_free(eval);
    return lt_fail_memory(e, sizeof *t, "a run");
  }
  t->o = *o;
  t->o.length = NULL; /* until it is a copy */
  t->programs = train;
  lt_status st = create(t, o, eval, e);
  if (st == LT_OK)
    *out = t;
  else
    lt_trainer_free(t);
  return st;
}

void lt_trainer_free(lt_trainer *t) {
  if (!t) return;
  lt_programs_free(t->programs);
  lt_session_free(t->eval);
  lt_look_ahead_free(t->text); /* it reads in the corpus, and by the lengths */
  lt_reader_free(t->held_out);
  lt_step_table_free(t->table);
  free((void *)t->o.length);
  free(t->dealing);
  free(t);
}

int64_t lt_trainer_next(const lt_trainer *t) { return t->next; }
int64_t lt_trainer_updates(const lt_trainer *t) { return t->updates; }
int64_t lt_trainer_cursor(const lt_trainer *t) { return t->cursor; }
lt_session *lt_trainer_session(lt_trainer *t) { return t->train; }
const lt_programs *lt_trainer_programs(const lt_trainer *t) { return t->programs; }

/* ---- A step ---- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

lt_status lt_trainer_check(const lt_data_bounds *plan, const lt_tensors *a, lt_error *e) {
  int64_t sequences = lt_tensors_sequences(a);
  if (a->rows * a->length <= plan->tokens && sequences <= plan->sequences && a->length <= plan->length) return LT_OK;
  lt_fail(e, LT_USAGE, "there are more tokens than the recipe plans for");
  lt_error_expected(e, "at most %lld tokens in %lld sequences of %lld", (long long)plan->tokens,
                    (long long)plan->sequences, (long long)plan->length);
  lt_error_got(e, "%lld rows of %lld", (long long)a->rows, (long long)a->length);
  lt_error_hint(e, "train.tokens and data.length say how many a step has");
  return LT_USAGE;
}

lt_status lt_trainer_feed(lt_trainer *t, const lt_tensors *a, lt_error *e) {
  const lt_structure of = lt_trainer_structure(&t->o, t->next);
  const lt_program *p = NULL;
  t->ready = false;
  if (!t->o.fed) return lt_fail(e, LT_USAGE, "the run reads its own text");
  lt_status st = lt_programs_get(t->programs, &of, &p, e);
  if (st == LT_OK) st = lt_trainer_check(&p->plan.data, a, e);
  if (st == LT_OK) st = lt_tensors_table(a, t->next, t->table, e);
  t->ready = st == LT_OK;
  return st;
}

lt_status lt_trainer_read(lt_trainer *t, lt_error *e) {
  const lt_step_table *table;
  if (!t->text || (t->taken && t->taken->step == t->next)) return LT_OK;
  t->taken = NULL;
  lt_status st = lt_look_ahead_take(t->text, t->next, t->cursor, &table, e);
  if (st == LT_OK) t->taken = table;
  return st;
}

uint64_t lt_trainer_dealt(const lt_trainer *t) {
  bool own = t->dealing && t->dealing->policy.kind == LT_PARTITION_OWN && t->taken && t->taken->owners;
  return own ? lt_owners_hash(t->taken->owners) : 0;
}

static lt_status read_table(lt_trainer *t, const lt_step_table **out, lt_error *e) {
  *out = t->table;
  if (t->o.fed) return t->ready ? LT_OK : lt_fail(e, LT_USAGE, "no tokens were given for this step");
  if (t->o.arrays) return lt_tensors_table(t->o.arrays, t->next, t->table, e);
  lt_status st = lt_trainer_read(t, e);
  *out = t->taken;
  return st;
}

lt_status lt_trainer_control(lt_trainer *t, const char *name, double x, lt_error *e) {
  const lt_graph *g = lt_trainer_graph(t);
  for (int64_t i = 0; i < g->control.n; i++)
    if (strcmp(g->control.at[i].name, name) == 0) return lt_session_set_control(t->train, name, x, e);
  return LT_OK;
}

double lt_trainer_scalar(lt_session *s, const char *name) {
  const lt_tensor *x = lt_session_output(s, name);
  return x && lt_tensor_count(x) == 1 ? lt_dtype_load(x->dtype, x->data, 0) : NAN;
}

/* "on rank 1, in unit 0: 3 of 4096 values …": what there is to say beside the operation and its line. */
static void blame_text(const lt_trainer *t, char *buf, size_t n) {
  const lt_plan *plan = &lt_session_program(t->train)->plan;
  const lt_blame *b = &t->blame;
  char rank[32] = "", unit[32] = "";
  if (plan->mesh.world > 1) snprintf(rank, sizeof rank, "on rank %d", (int)b->rank);
  if (plan->units > 1 && b->unit >= 0) snprintf(unit, sizeof unit, "%sin unit %d", rank[0] ? ", " : "", (int)b->unit);
  snprintf(buf, n, "%s%s%s%s", rank, unit, rank[0] || unit[0] ? ": " : "", b->values);
}

/* Nothing was applied: run the step again to see which operation it was, and say so. */
static lt_status report_skipped(lt_trainer *t, const lt_step_table *table, const lt_step_stats *stats, lt_error *e) {
  char blame[300], where[200] = "";
  const lt_blame *b = &t->blame;
  lt_text said = {0};
  lt_session_set_steps(t->train, stats->step);
  t->blame = (lt_blame){0};
  lt_status st = lt_session_blame(t->train, table, &t->blame, e);
  if (st != LT_OK) return st;
  blame_text(t, blame, sizeof blame);
  if (b->where[0]) snprintf(where, sizeof where, " (%s)", b->where);
  lt_text_add(&said, "step %lld is not applied: loss %g, norm of all gradients %g; ", (long long)stats->step,
              lt_text_nan(stats->loss), lt_text_nan(stats->grad_norm));
  if (b->found)
    lt_text_add(&said, "first in %s%s: %s", b->what, where, blame);
  else
    lt_text_add(&said, "run again it is finite: this machine does not compute alike twice");
  lt_log_write(&t->o.log, LT_LOG_WARN, "%s", said.s ? said.s : "a step is not applied");
  lt_text_free(&said);
  return LT_OK;
}

static void commit(lt_trainer *t, const lt_step_stats *stats) {
  t->ready = false;
  t->taken = NULL;
  t->next++;
  t->cursor += stats->tokens;
  t->updates += stats->applied;
  t->bad = stats->bad;
}

lt_status lt_trainer_step(lt_trainer *t, double lr, lt_step_stats *stats, lt_error *e) {
  double begin = now();
  const lt_step_table *table;
  if (t->o.measures) return lt_fail(e, LT_USAGE, "a run that only measures takes no step");
  lt_status st = read_table(t, &table, e);
  if (st == LT_OK) st = lt_trainer_enter(t, e);
  if (st == LT_OK) st = lt_trainer_control(t, "lr", lr, e);
  if (st == LT_OK) st = lt_trainer_control(t, "optim_t", (double)(t->updates + 1), e);
  if (st != LT_OK) return st;
  lt_session_set_steps(t->train, t->next);
  st = lt_session_step(t->train, table, e);
  if (st != LT_OK) return st;
  *stats = (lt_step_stats){.step = t->next,
                           .loss = lt_trainer_scalar(t->train, "loss"),
                           .count = table->weight_sum,
                           .tokens = table->tokens,
                           .seconds = now() - begin,
                           .grad_norm = lt_trainer_scalar(t->train, "grad_norm"),
                           .lr = lr,
                           .memory = lt_session_program(t->train)->plan.peak,
                           .applied = lt_session_applied(t->train)};
  stats->bad = stats->applied ? 0 : (int32_t)t->bad + 1;
  st = lt_session_comm(t->train, &stats->comm, e);
  if (st == LT_OK && !stats->applied) st = report_skipped(t, table, stats, e);
  if (st == LT_OK) commit(t, stats);
  return st;
}

lt_status lt_trainer_give_up(lt_trainer *t, lt_error *e) {
  char blame[300];
  int64_t bad = t->bad;
  if (t->o.bad_steps <= 0 || bad < t->o.bad_steps) return LT_OK;
  t->bad = 0;
  lt_fail(e, LT_FAILED, "%lld steps in a row were not applied: their loss or gradients are not finite", (long long)bad);
  if (t->blame.where[0]) lt_error_where(e, "%s", t->blame.where);
  if (t->blame.found) {
    blame_text(t, blame, sizeof blame);
    lt_error_key(e, "%s", t->blame.what);
    lt_error_got(e, "%s", blame);
  }
  lt_error_hint(e, "a lower learning rate, a clip, other data; train.bad_steps is how many are borne");
  return LT_FAILED;
}
