/* stage.c: --stage and --check: compile the recipe and show what became of it; nothing is trained or written.
** Neither looks at the data or needs the ranks it plans for: any world fits on a laptop. */
#include "cli/cli.h"
#include "embed/plan.h"

#include <stdio.h>

lt_status cli_stage(cli_options *o, lt_error *e) {
  lt_recipe *r = NULL;
  lt_text text = {0};
  if (o->rank >= o->ranks) return lt_fail(e, LT_USAGE, "--rank %d: ranks are 0 ... %d", o->rank, o->ranks - 1);
  lt_status st = cli_read_recipe(o, &r, e);
  if (st == LT_OK) st = lt_recipe_stage(r, o->ranks, o->stage, o->rank, &text, e);
  if (st == LT_OK && text.s) fputs(text.s, stdout);
  lt_text_free(&text);
  lt_recipe_free(r);
  return st;
}

/* "dp 1, tp 0": the coordinates along the axes there are; "alone" of one rank. */
static void print_coords(const lt_mesh *m, int32_t rank, lt_text *out) {
  lt_coords c = lt_mesh_coords(m, rank);
  for (int a = 0; a < LT_AXES; a++)
    if (m->size[a] > 1) lt_text_add(out, "%s%s %d", out->n ? ", " : "", lt_axis_name((lt_axis)a), (int)c.at[a]);
  if (!out->n) lt_text_add(out, "alone");
}

/* What a rank holds, sends and takes; at the largest step. */
static void print_rank(const lt_program *p, int32_t r) {
  const lt_schedule *s = p->schedule[r];
  char memory[24], out[24], in[24];
  int64_t sent, received;
  lt_text at = {0};
  print_coords(&p->plan.mesh, r, &at);
  lt_schedule_traffic(s, &sent, &received);
  printf("rank %-6d %s: memory %s (%lld B), %.3g s a step, sends %s (%lld B), receives %s (%lld B), %lld items\n",
         (int)r, at.s ? at.s : "", lt_text_size(memory, sizeof memory, (double)s->arena_bytes),
         (long long)s->arena_bytes, lt_schedule_seconds(s), lt_text_size(out, sizeof out, (double)sent),
         (long long)sent, lt_text_size(in, sizeof in, (double)received), (long long)received, (long long)s->item.n);
  lt_text_free(&at);
}

static void print_plan(const lt_program *p) {
  lt_text mesh = {0};
  lt_mesh_print(&p->plan.mesh, &mesh);
  printf("parameters  %lld\n", (long long)lt_graph_parameters(p->graph));
  printf("mesh        %s\n", mesh.s ? mesh.s : "");
  printf("step        %lld tokens in at most %lld sequences of at most %lld; %d units\n",
         (long long)p->plan.data.tokens, (long long)p->plan.data.sequences, (long long)p->plan.data.length,
         (int)p->plan.units);
  printf("recomputed  %d layers\n", (int)p->plan.layers_recomputed);
  printf("predicted   %.3g s a step\n", p->plan.seconds);
  for (int32_t r = 0; r < p->plan.mesh.world; r++) print_rank(p, r);
  lt_text_free(&mesh);
}

lt_status cli_check(cli_options *o, lt_error *e) {
  lt_recipe *r = NULL;
  lt_program *p = NULL;
  lt_text settings = {0};
  lt_status st = cli_read_recipe(o, &r, e);
  if (st == LT_OK) st = lt_recipe_print(r, &settings, e);
  if (st == LT_OK) st = lt_recipe_compile(r, o->ranks, -1, NULL, &p, e);
  if (st == LT_OK) {
    if (settings.s) printf("%s\n", settings.s);
    print_plan(p);
  }
  lt_text_free(&settings);
  lt_program_free(p);
  lt_recipe_free(r);
  return st;
}
