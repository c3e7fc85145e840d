/* verify_layout.c: --verify-layout: one step of the recipe, shortened, on one rank and on other layouts, all in double.
** The text is the recipe's own; sequences are uneven in number and length, so that ranks and units differ in what they
** hold and some have nothing. */
#include "cli/cli.h"

#include "data/reader.h"
#include "embed/plan.h"
#include "run/agree.h"

#include <stdio.h>
#include <string.h>

#define LENGTH    64 /* tokens of a sequence, at most */
#define SEQUENCES 5
#define MESHES    64

typedef struct verification {
  const cli_options *o;
  lt_recipe *recipe;
  const lt_recipe_settings *s;
  lt_corpus *corpus;
  lt_reader *reader;
  lt_step_table *table;
  lt_agree *agree;
  lt_recipe_build build; /* what `agree` builds from again for every layout */
  int32_t layouts, disagree;
  LT_VEC(lt_agree_tensor) worst; /* by parameter, of all layouts */
} verification;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The first tokens a run would read, in few short sequences; the last one is half as long. */
static lt_status read_step(verification *v, lt_error *e) {
  const lt_recipe_settings *s = v->s;
  int64_t length = least(s->length[0].length, LENGTH), tokens = least(s->tokens, SEQUENCES * length - length / 2);
  lt_status st = lt_recipe_corpus(v->recipe, &v->corpus, e);
  if (st == LT_OK) st = lt_reader_create(v->corpus, LT_CORPUS_TRAIN, s->seed, s->stretch, &v->reader, e);
  if (st == LT_OK) st = lt_step_table_create(tokens, (tokens + length - 1) / length, &v->table, e);
  return st == LT_OK ? lt_reader_step(v->reader, 0, 0, tokens, length, v->table, e) : st;
}

static lt_status run_alone(verification *v, lt_error *e) {
  const lt_recipe_settings *s = v->s;
  int64_t longest = 0;
  for (int64_t i = 0; i < v->table->sequences; i++)
    if (v->table->start[i + 1] - v->table->start[i] > longest) longest = v->table->start[i + 1] - v->table->start[i];
  int64_t block = longest / 8 > 0 ? longest / 8 : 1;
  const lt_device *device = NULL;
  if (lt_recipe_device(v->recipe, &device, e) != LT_OK) return e ? e->code : LT_USAGE;
  v->build = (lt_recipe_build){v->recipe, true};
  const lt_agree_options o = {.build = lt_recipe_graph,
                              .context = &v->build,
                              .plan = {.checkpoint = s->checkpoint,
                                       .layers = s->layers,
                                       .keep = s->keep,
                                       .drop = s->drop,
                                       .n_keep = (int32_t)s->n_keep,
                                       .n_drop = (int32_t)s->n_drop,
                                       .data = {.tokens = v->table->tokens,
                                                .sequences = v->table->sequences,
                                                .length = longest,
                                                .block = s->block > 0 ? least(s->block, block) : block,
                                                .max_share = s->max_share,
                                                .partition = &s->partition}},
                              .micro_batch = s->micro_batch,
                              .table = v->table,
                              .device = device,
                              .seed = s->seed};
  return lt_agree_create(&o, &v->agree, e);
}

/* ---- What is said ---- */

static void print_mesh(const lt_mesh *m, int32_t units) {
  printf("%d ranks: dp %d, sp %d, tp %d; %d micro-batch%s: ", (int)m->world, (int)lt_mesh_dp(m), (int)lt_mesh_sp(m),
         (int)m->size[LT_TP], (int)units, units == 1 ? "" : "es");
}

static const lt_agree_tensor *worst(const lt_agree_result *r, bool update) {
  const lt_agree_tensor *w = NULL;
  for (int64_t i = 0; i < r->tensor.n; i++) {
    const lt_agree_tensor *t = &r->tensor.at[i];
    if (!w || (update ? t->update > w->update : t->gradient > w->gradient)) w = t;
  }
  return w;
}

/* Updates are compared for equal gradients, so mostly they are equal too: a name would say nothing then. */
static void print_update(const lt_agree_tensor *worst) {
  if (worst->update == 0)
    printf(", equal gradients make equal updates");
  else
    printf(", worst update from equal gradients %.1e (%s)", worst->update, worst->name);
}

static void print_tensors(const lt_agree_tensor *t, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    printf("  %-48s gradient %.1e (largest %.1e)", t[i].name, t[i].gradient, t[i].size);
    if (t[i].update == 0)
      printf(", update equal\n");
    else
      printf(", update %.1e\n", t[i].update);
  }
}

static lt_status keep_worst(verification *v, const lt_agree_result *r, lt_error *e) {
  for (int64_t i = 0; i < r->tensor.n; i++) {
    const lt_agree_tensor *t = &r->tensor.at[i];
    lt_agree_tensor *w = i < v->worst.n ? &v->worst.at[i] : lt_vec_push(&v->worst); /* parameters keep their order */
    if (!w) return lt_fail_memory(e, sizeof *w, "a comparison of layouts");
    if (i == v->worst.n - 1 && !w->name[0]) *w = *t;
    if (t->gradient > w->gradient) w->gradient = t->gradient;
    if (t->update > w->update) w->update = t->update;
  }
  return LT_OK;
}

static void print_result(const lt_agree_result *r) {
  const lt_agree_tensor *g = worst(r, false), *u = worst(r, true);
  print_mesh(&r->mesh, r->units);
  printf("%s: loss %.12g", r->agrees ? "agrees" : "DISAGREES", r->loss);
  if (!r->agrees) printf(" (one rank: %.12g)", r->loss_of_one);
  if (g) printf(", worst gradient %.1e (%s)", g->gradient, g->name);
  if (u) print_update(u);
  printf(", %lld values compared", (long long)r->values);
  if (r->decisions)
    printf(", %lld of %lld decisions differ (margin %.1e)", (long long)r->differed, (long long)r->decisions, r->margin);
  printf("\n");
  if (r->agrees) return;
  if (r->first[0])
    printf("  the first operation that differs: %s%s%s, off by %.1e of its largest value\n", r->first,
           r->first_where[0] ? ", " : "", r->first_where, r->first_error);
  else
    printf("  no operation of the forward and backward pass differs: a gradient's sum or the update does\n");
  print_tensors(r->tensor.at, r->tensor.n);
}

/* ---- All layouts ---- */

static lt_status compare(verification *v, int32_t ranks, lt_error *e) {
  lt_mesh_spec mesh[MESHES];
  int32_t n = lt_agree_meshes(&v->s->mesh, ranks, mesh, MESHES);
  if (n == 0) printf("%d ranks: the recipe's mesh allows no such layout\n", (int)ranks);
  lt_status st = LT_OK;
  for (int32_t i = 0; i < n && st == LT_OK; i++) {
    lt_agree_result r;
    st = lt_agree_compare(v->agree, &mesh[i], ranks, &r, e);
    if (st != LT_OK) {
      lt_error_hint(e, "while comparing %d ranks: dp %d, sp %d, tp %d", (int)ranks, (int)mesh[i].dp, (int)mesh[i].sp,
                    (int)mesh[i].tp);
      break;
    }
    print_result(&r);
    fflush(stdout);
    v->layouts++;
    v->disagree += !r.agrees;
    st = keep_worst(v, &r, e);
    lt_agree_result_clear(&r);
  }
  return st;
}

static lt_status verdict(const verification *v, lt_error *e) {
  if (v->layouts == 0) return lt_fail(e, LT_USAGE, "no layout was compared");
  printf("the worst of all layouts, by parameter, as shares of the largest element:\n");
  print_tensors(v->worst.at, v->worst.n);
  for (int64_t i = 0; i < v->worst.n; i++)
    if (v->worst.at[i].size == 0) printf("note: %s got no gradient: nothing is proven of it\n", v->worst.at[i].name);
  printf("%d of %d layouts agree with one rank\n", (int)(v->layouts - v->disagree), (int)v->layouts);
  if (!v->disagree) return LT_OK;
  return lt_fail(e, LT_FAILED, "%d of %d layouts disagree with one rank", (int)v->disagree, (int)v->layouts);
}

lt_status cli_verify_layout(cli_options *o, lt_error *e) {
  verification v = {.o = o};
  lt_status st = cli_read_recipe(o, &v.recipe, e);
  if (st == LT_OK) {
    v.s = lt_recipe_get(v.recipe);
    st = read_step(&v, e);
  }
  if (st == LT_OK) st = run_alone(&v, e);
  if (st == LT_OK)
    printf("one step of %lld tokens in %lld sequences, in double\n", (long long)v.table->tokens,
           (long long)v.table->sequences);
  for (int i = 0; i < o->n_list && st == LT_OK; i++) st = compare(&v, o->list[i], e);
  if (st == LT_OK) st = verdict(&v, e);
  lt_vec_free(&v.worst);
  lt_agree_free(v.agree);
  lt_step_table_free(v.table);
  lt_reader_free(v.reader);
  lt_corpus_close(v.corpus);
  lt_recipe_free(v.recipe);
  return st;
}
