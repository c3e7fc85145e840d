/* compile.c: the plan loop: micro-batches × what layers keep, until the peak of every rank fits the budget.
** Candidates are tried in a fixed order with fixed costs, so every rank of a world comes to the same plan. */
#include "compile/checkpoint.h"
#include "compile/reasons.h"
#include "core/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is said of the machine, and of the rest what a plain one has. */
static lt_machine machine_of(const lt_machine *said) {
  const double flops = said->flops > 0 ? said->flops : 5e10;
  return (lt_machine){.flops = flops,
                      .narrow = said->narrow > 0 ? said->narrow : 1.6 * flops, /* with AVX-512 BF16: 1.6 to 1.9 */
                      .bytes = said->bytes > 0 ? said->bytes : 1e10,
                      .link = said->link > 0 ? said->link : 5e9,
                      .start = said->start > 0 ? said->start : 1e-6,
                      .between = said->between > 0 ? said->between : 1.25e9};
}

static const char *const stage_names[] = {"build", "differentiate", "place",     "exchange", "checkpoint", "lower",
                                          "order", "memory",        "transfers", "verify",   NULL};
enum { BUILD, DIFFERENTIATE, PLACE, EXCHANGE, CHECKPOINT, LOWER, ORDER, MEMORY, TRANSFERS, VERIFY };

const char *const *lt_stage_names(void) { return stage_names; }

void lt_program_free(lt_program *p) {
  if (!p) return;
  for (int32_t r = 0; p->schedule && r < p->plan.mesh.world; r++) lt_schedule_free(p->schedule[r]);
  free(p->schedule);
  free(p->option);
  lt_graph_free(p->graph);
  free(p);
}

/* What the loop is compiling, and how far (for --stage). */
typedef struct attempt {
  lt_dtype real;
  lt_build_fn build;
  void *context;
  const lt_plan_options *o;
  int stage;  /* the last pass to run */
  bool plain; /* whatever the options say, all is kept */
} attempt;

/* A graph without its update phase: evaluation changes nothing. */
static void forward_only(lt_graph *g) {
  int64_t kept = 0;
  for (int64_t i = 0; i < g->node.n; i++) {
    if (g->node.at[i].phase != LT_FORWARD) continue;
    for (int k = 0; k < g->node.at[i].n_out; k++) g->value.at[g->node.at[i].out + k].node = (int32_t)kept;
    g->node.at[kept++] = g->node.at[i];
  }
  g->node.n = kept;
}

static lt_status make_graph(const attempt *a, lt_program *p, lt_error *e) {
  int64_t tokens = lt_plan_token_bound(&p->plan, -1, -1, 0);
  lt_status status = lt_graph_create(a->real, tokens, &p->graph, e);
  if (status) return status;
  p->graph->reasons = a->o->reasons && a->o->reasons->places ? a->o->reasons : NULL;
  p->graph->longest = a->o->data.length;
  memcpy(p->graph->ranks, p->plan.mesh.size, sizeof p->graph->ranks);
  p->graph->exchange = lt_plan_exchange;
  p->graph->exchange_context = &p->plan;
  if ((status = a->build(a->context, p->graph, e))) return status;
  if (p->graph->failed) {
    if (e) *e = p->graph->error;
    return p->graph->error.code;
  }
  if (!a->o->backward)
    forward_only(p->graph);
  else if (a->stage >= DIFFERENTIATE && (status = lt_pass_differentiate(p->graph, e)))
    return status;
  if (a->stage < PLACE) return LT_OK;
  status = lt_pass_place(p->graph, &p->plan.mesh, a->o->shard, e);
  if (!status) status = lt_pass_precision(p->graph, e);
  if (status || a->stage < EXCHANGE) return status;
  status = lt_pass_exchange(p->graph, &p->plan.mesh, a->o->max_depth, a->o->depth, e);
  if (!status) status = lt_pass_joint(p->graph, e);
  return status ? status : lt_pass_onto(p->graph, e);
}

static lt_status make_schedule(const attempt *a, lt_program *p, int32_t rank, lt_error *e) {
  lt_schedule **s = &p->schedule[rank];
  lt_status status = lt_pass_lower(p->graph, &p->plan, rank, s, e);
  if (!status && a->stage >= ORDER) status = lt_pass_order(*s, e);
  if (!status && a->stage >= MEMORY) status = lt_pass_memory(*s, rank ? s[-1] : NULL, e);
  if (!status && a->stage >= TRANSFERS) status = lt_pass_transfers(p->graph, &p->plan, *s, e);
  return status;
}

/* What every layer keeps: as given, or the first `layers` of the options the least, or all. */
static lt_status keep_what(const attempt *a, lt_program *p, const unsigned char *option, lt_error *e) {
  const lt_plan_options *o = a->o;
  int32_t n = o->backward ? lt_checkpoint_layers(p->graph) : 0;
  int least = LT_KEEP_ALL;
  for (int k = 0; k < LT_KEEPS; k++)
    if (o->checkpoint & LT_MAY(k)) least = k;
  if (option && option == o->option && n != o->n_option)
    return lt_fail(e, LT_RECIPE, "the plan is for %d layers, the model has %d", (int)o->n_option, (int)n);
  p->option = calloc((size_t)n + 1, 1);
  if (!p->option) return lt_fail_memory(e, (size_t)n, "a program");
  for (int32_t i = 0; i < n; i++) {
    p->option[i] = option ? option[i] : (unsigned char)(i < o->layers ? least : LT_KEEP_ALL);
    p->plan.keeps[p->option[i]]++;
    p->plan.layers_recomputed += p->option[i] != LT_KEEP_ALL;
  }
  if (a->stage < CHECKPOINT || !o->backward) return LT_OK;
  lt_checkpoint c = {.option = p->option, .layers = n};
  if (!a->plain) c = (lt_checkpoint){p->option, n, o->keep, o->drop, o->n_keep, o->n_drop};
  return lt_pass_checkpoint(p->graph, &c, e);
}

/* One candidate: everything for `units` units; option [layers]: what they keep, NULL: what the options say. */
static lt_status try_plan(const attempt *a, const lt_mesh *m, int32_t units, const unsigned char *option,
                          lt_program **out, lt_error *e) {
  lt_program *p = calloc(1, sizeof *p);
  lt_status status = LT_OK;
  *out = NULL;
  if (!p) return lt_fail_memory(e, sizeof *p, "a program");
  p->plan = (lt_plan){.mesh = *m, .data = a->o->data, .machine = machine_of(&a->o->machine), .units = units};
  p->schedule = calloc((size_t)m->world, sizeof *p->schedule);
  if (!p->schedule) {
    status = lt_fail_memory(e, sizeof *p->schedule * (size_t)m->world, "a program");
    goto done;
  }
  if ((status = make_graph(a, p, e)) || (status = keep_what(a, p, option, e))) goto done;
  for (int32_t r = 0; r < m->world && a->stage >= LOWER && !status; r++) {
    status = make_schedule(a, p, r, e);
    if (status) break;
    if (p->schedule[r]->arena_bytes > p->plan.peak) p->plan.peak = p->schedule[r]->arena_bytes;
    double t = lt_schedule_seconds(p->schedule[r]);
    if (t > p->plan.seconds) p->plan.seconds = t;
  }
  const lt_candidate tried = {units, p->plan.layers_recomputed, p->plan.peak, p->plan.seconds,
                              !a->o->budget || p->plan.peak <= a->o->budget};
  if (!status && !a->plain) lt_reasons_candidate(a->o->reasons, &tried);
done:
  if (status) {
    lt_program_free(p);
    return status;
  }
  *out = p;
  return LT_OK;
}

/* ---- What is kept, under a budget ---- */

typedef struct fitting {
  const attempt *a;
  const lt_mesh *m;
  int32_t units;
  int64_t budget;
  lt_profile *profile;
  lt_program *best;   /* the fastest that fits; where none does the smallest */
  int64_t fit, unfit; /* limits of the search: whose plan fits, whose does not */
  unsigned char *option;
} fitting;

static bool fits(const fitting *f, const lt_program *p) { return p->plan.peak <= f->budget; }

/* The plan for what the search finds under `limit`; peak 0: it finds nothing. */
static lt_status try_limit(fitting *f, int64_t limit, int64_t *peak, lt_error *e) {
  bool found;
  lt_program *p = NULL;
  *peak = 0;
  lt_status status = lt_profile_choose(f->profile, limit, f->option, &found, e);
  if (status) return status;
  if (!found && fits(f, f->best)) return LT_OK;
  if (!memcmp(f->option, f->best->option, (size_t)lt_checkpoint_layers(f->best->graph))) {
    *peak = found ? f->best->plan.peak : 0;
    return LT_OK;
  }
  if ((status = try_plan(f->a, f->m, f->units, f->option, &p, e))) return status;
  if (found) *peak = p->plan.peak;
  if (fits(f, p) ? !fits(f, f->best) || p->plan.seconds < f->best->plan.seconds
                 : p->plan.peak < f->best->plan.peak && !fits(f, f->best)) {
    lt_program_free(f->best);
    f->best = p;
  } else {
    lt_program_free(p);
  }
  return LT_OK;
}

#define ROUNDS 8 /* of tightening, and of giving back */

/* The search counts live bytes, the memory pass places them: what it needs beyond the budget is taken off the limit;
** then the limit is raised again as far as it still fits. */
static lt_status tighten(fitting *f, lt_error *e) {
  int64_t limit = f->budget, peak = 1;
  lt_status status = LT_OK;
  f->fit = -1;
  for (int round = 0; round < ROUNDS && peak && f->fit < 0; round++) {
    if ((status = try_limit(f, limit, &peak, e))) return status;
    if (peak && peak <= f->budget) {
      f->fit = limit;
    } else {
      f->unfit = limit;
      limit -= peak - f->budget;
    }
  }
  for (int round = 0; round < ROUNDS && f->fit >= 0 && f->fit < f->budget && f->unfit - f->fit > 1; round++) {
    limit = f->fit + (f->unfit - f->fit) / 2;
    if ((status = try_limit(f, limit, &peak, e))) return status;
    *(peak && peak <= f->budget ? &f->fit : &f->unfit) = limit;
  }
  return LT_OK;
}

static int32_t fullest(const lt_program *p) {
  int32_t r = 0;
  for (int32_t i = 1; i < p->plan.mesh.world; i++)
    if (p->schedule[i]->arena_bytes > p->schedule[r]->arena_bytes) r = i;
  return r;
}

/* The best plan for `units` units: all kept, or as the options fix it, or as the budget needs. */
static lt_status fit_plan(const attempt *a, const lt_mesh *m, int32_t units, lt_program **out, lt_error *e) {
  const lt_plan_options *o = a->o;
  fitting f = {.a = a, .m = m, .units = units, .budget = o->budget};
  lt_program *plain = NULL;
  lt_status status = try_plan(a, m, units, NULL, &f.best, e);
  *out = f.best;
  if (status || !o->backward || !o->checkpoint || o->layers >= 0 || !o->budget || a->stage < MEMORY || fits(&f, f.best))
    return status;
  attempt keeping = *a;
  keeping.plain = true;
  status = try_plan(&keeping, m, units, NULL, &plain, e); /* the profile's own: the search may replace the best */
  f.option = calloc((size_t)lt_checkpoint_layers(f.best->graph) + 1, 1);
  if (!status && !f.option) status = lt_fail_memory(e, 1, "the choice of what is kept");
  if (!status) status = lt_profile_create(plain, fullest(plain), o, &f.profile, e);
  if (!status) status = tighten(&f, e);
  lt_profile_free(f.profile);
  lt_program_free(plain);
  free(f.option);
  *out = f.best;
  return status;
}

/* Is x the better plan? One that fits beats one that does not; then predicted time, then peak. */
static bool is_better(const lt_program *x, const lt_program *y, int64_t budget) {
  if (!y) return true;
  bool fx = !budget || x->plan.peak <= budget, fy = !budget || y->plan.peak <= budget;
  if (fx != fy) return fx;
  if (!fx) return x->plan.peak < y->plan.peak;
  if (x->plan.seconds != y->plan.seconds) return x->plan.seconds < y->plan.seconds;
  return x->plan.peak < y->plan.peak;
}

static lt_status plan_loop(const attempt *a, const lt_mesh *m, lt_program **out, lt_error *e) {
  const lt_plan_options *o = a->o;
  int64_t part = (o->data.sequences + lt_mesh_dp(m) - 1) / lt_mesh_dp(m);
  lt_program *best = NULL;
  *out = NULL;
  if (o->option && o->units > 0) return try_plan(a, m, o->units, o->option, out, e);
  if (o->units > 0) return fit_plan(a, m, o->units, out, e);
  for (int64_t batch = part; batch >= 1; batch--) { /* sequences of a micro-batch, descending */
    if (part % batch) continue;
    lt_program *p = NULL;
    lt_status status = fit_plan(a, m, (int32_t)(part / batch), &p, e);
    if (status) {
      lt_program_free(p);
      lt_program_free(best);
      return status;
    }
    /* More units do the same work in more items: nothing is gained below the first that fits as it is. */
    bool last = (!o->budget || p->plan.peak <= o->budget) && (p->plan.layers_recomputed == 0 || o->layers >= 0);
    if (is_better(p, best, o->budget)) {
      lt_program_free(best);
      best = p;
    } else {
      lt_program_free(p);
    }
    if (last || a->stage < CHECKPOINT) break; /* printing what comes before the loop: any candidate shows it */
  }
  *out = best;
  return best ? LT_OK : lt_fail(e, LT_RECIPE, "a step has no sequences");
}

static uint64_t hash_schedule(uint64_t h, const lt_schedule *s) {
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    int32_t head[] = {(int32_t)it->kind, (int32_t)it->lane, it->node,  it->unit, it->n_in,
                      it->n_out,         it->n_wait,        it->chain, it->place};
    h = lt_hash_bytes(h, head, sizeof head);
    if (it->kind == LT_ITEM_COLLECTIVE) { /* the transfer and its match */
      const lt_group_plan *g = &s->group.at[it->group];
      lt_size volume[] = {it->sent, it->received};
      h = lt_hash_bytes(h, g->rank, (size_t)g->n * sizeof *g->rank);
      h = lt_hash_bytes(h, volume, sizeof volume);
    }
    for (int k = 0; k < it->n_in + it->n_out; k++) {
      const lt_operand_plan *o = &s->operand.at[it->operand + k];
      int64_t at = o->buffer == LT_NONE ? -1 : s->buffer.at[o->buffer].offset;
      h = lt_hash_bytes(h, &at, sizeof at);
      h = lt_hash_bytes(h, o->dim, sizeof o->dim);
    }
  }
  return h;
}

static uint64_t hash_program(const lt_program *p) {
  uint64_t h = lt_graph_hash(p->graph, &p->plan.mesh);
  for (int32_t r = 0; r < p->plan.mesh.world; r++) h = hash_schedule(h, p->schedule[r]);
  return lt_hash_finish(h);
}

static lt_status fail_budget(const lt_program *p, const lt_plan_options *o, lt_error *e) {
  char need[24], have[24];
  lt_fail(e, LT_RECIPE, "no plan fits the memory budget of a rank");
  lt_error_key(e, "checkpoint.budget");
  lt_error_expected(e, "at most %s", lt_text_size(have, sizeof have, (double)o->budget));
  lt_error_got(e, "%s at least (%d unit%s, %d layers recomputed)",
               lt_text_size(need, sizeof need, (double)p->plan.peak), p->plan.units, p->plan.units == 1 ? "" : "s",
               p->plan.layers_recomputed);
  lt_error_hint(e, "raise the budget, shorten the sequences, or allow recomputation and more micro-batches");
  return LT_RECIPE;
}

lt_status lt_compile(lt_dtype real, lt_build_fn build, void *context, const lt_plan_options *o, int32_t keep,
                     lt_program **out, lt_error *e) {
  attempt a = {real, build, context, o, VERIFY, false};
  lt_mesh m;
  lt_program *p = NULL;
  *out = NULL;
  lt_status status = lt_mesh_create(&o->mesh, o->world, &m, e);
  if (!status) status = plan_loop(&a, &m, &p, e);
  if (status) {
    lt_program_free(p);
    return status;
  }
  if (o->budget && p->plan.peak > o->budget) {
    status = fail_budget(p, o, e);
  } else {
    status = lt_pass_verify(p->schedule, m.world, e);
  }
  if (status) {
    lt_program_free(p);
    return status;
  }
  p->plan.hash = hash_program(p);
  for (int32_t r = 0; r < m.world; r++) {
    if (keep < 0 || r == keep) continue;
    lt_schedule_free(p->schedule[r]);
    p->schedule[r] = NULL;
  }
  *out = p;
  return LT_OK;
}

lt_status lt_compile_explained(lt_dtype real, lt_build_fn build, void *context, const lt_plan_options *o,
                               lt_reasons *why, lt_program **out, lt_error *e) {
  lt_plan_options asked = *o;
  const attempt a = {real, build, context, &asked, VERIFY, false};
  lt_program *p = NULL;
  asked.reasons = why;
  why->places = false;
  *out = NULL;
  lt_status status = lt_compile(real, build, context, &asked, -1, &p, e);
  why->places = true; /* once more, of the plan that was taken alone */
  if (!status) status = try_plan(&a, &p->plan.mesh, p->plan.units, p->option, out, e);
  if (!status && why->failed) status = lt_fail_memory(e, sizeof *why, "the reasons of a plan");
  lt_program_free(p);
  if (!status) return LT_OK;
  lt_program_free(*out);
  *out = NULL;
  return status;
}

static void print_stage(const lt_program *p, int stage, int32_t rank, lt_text *out) {
  char buf[24];
  switch (stage) {
  case BUILD:
  case DIFFERENTIATE: lt_graph_print(p->graph, NULL, out); break;
  case PLACE:
  case EXCHANGE:
    lt_mesh_print(&p->plan.mesh, out);
    lt_text_add(out, "\n");
    lt_graph_print(p->graph, &p->plan.mesh, out);
    lt_graph_legend(p->graph, &p->plan.mesh, true, out);
    break;
  case CHECKPOINT:
    lt_text_add(out, "%d unit%s; ", p->plan.units, p->plan.units == 1 ? "" : "s");
    lt_checkpoint_print(p, out);
    lt_text_add(out, "\n");
    lt_graph_print(p->graph, &p->plan.mesh, out);
    lt_graph_legend(p->graph, &p->plan.mesh, true, out);
    break;
  case LOWER:
  case ORDER:
  case TRANSFERS: lt_schedule_print(p->schedule[rank], out); break;
  case MEMORY: lt_schedule_print_memory(p->schedule[rank], out); break;
  default:
    lt_text_add(out,
                "%d ranks verified: %d unit%s, %d layers recomputed, peak %s, predicted %.3g s a step, hash %016" PRIx64
                "\n",
                p->plan.mesh.world, p->plan.units, p->plan.units == 1 ? "" : "s", p->plan.layers_recomputed,
                lt_text_size(buf, sizeof buf, (double)p->plan.peak), p->plan.seconds, hash_program(p));
  }
}

/* The plan that would run, as far as the stage asked for. The loop chooses by peaks, so it always goes to the end. */
static lt_status plan_to_stage(const attempt *a, const lt_mesh *m, lt_program **out, lt_error *e) {
  attempt whole = *a;
  lt_program *p = NULL;
  *out = NULL;
  if (a->stage < CHECKPOINT || a->stage >= MEMORY) return plan_loop(a, m, out, e);
  whole.stage = MEMORY;
  lt_status status = plan_loop(&whole, m, &p, e);
  if (!status) status = try_plan(a, m, p->plan.units, p->option, out, e);
  lt_program_free(p);
  return status;
}

static lt_status find_stage(const char *stage, int *at, lt_error *e) {
  for (*at = 0; stage_names[*at]; ++*at)
    if (strcmp(stage_names[*at], stage) == 0) return LT_OK;
  lt_fail(e, LT_USAGE, "no such stage: '%s'", stage);
  lt_error_expected(e, "build, differentiate, place, exchange, checkpoint, lower, order, memory, transfers or verify");
  return LT_USAGE;
}

lt_status lt_compile_to(lt_dtype real, lt_build_fn build, void *context, const lt_plan_options *o, const char *stage,
                        lt_program **out, lt_error *e) {
  attempt a = {real, build, context, o, 0, false};
  lt_mesh m;
  *out = NULL;
  lt_status status = find_stage(stage, &a.stage, e);
  if (!status) status = lt_mesh_create(&o->mesh, o->world, &m, e);
  if (!status) status = plan_to_stage(&a, &m, out, e);
  if (!status && a.stage == VERIFY) status = lt_pass_verify((*out)->schedule, m.world, e);
  if (!status) return LT_OK;
  lt_program_free(*out);
  *out = NULL;
  return status;
}

lt_status lt_compile_stage(lt_dtype real, lt_build_fn build, void *context, const lt_plan_options *o, const char *stage,
                           int32_t rank, lt_text *out, lt_error *e) {
  int at = 0;
  lt_program *p = NULL;
  lt_status status = find_stage(stage, &at, e);
  if (!status && (rank < 0 || rank >= o->world))
    status = lt_fail(e, LT_USAGE, "rank %d is not in a world of %d", rank, o->world);
  if (!status) status = lt_compile_to(real, build, context, o, stage, &p, e);
  if (!status) print_stage(p, at, rank, out);
  lt_program_free(p);
  return status;
}
