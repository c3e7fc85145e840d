/* stage.c: --stage and --check: compile the recipe and show what became of it; nothing is trained or written.
** Neither looks at the data or needs the ranks it plans for: any world fits on a laptop. */
#include "cli/cli.h"

#include <stdio.h>

lt_status cli_stage(cli_options *o, lt_error *e) {
  lt_recipe *r = NULL;
  lt_text text = {0};
  if (o->rank >= o->ranks) return lt_fail(e, LT_USAGE, "--rank %d: ranks are 0 ... %d", o->rank, o->ranks - 1);
  lt_status st = cli_read_recipe(o, &r, e);
  if (st == LT_OK) st = cli_print_stage(r, o->ranks, o->stage, o->rank, &text, e);
  if (st == LT_OK && text.s) fputs(text.s, stdout);
  lt_text_free(&text);
  lt_recipe_free(r);
  return st;
}

static void print_plan(const lt_program *p) {
  char size[24];
  lt_text mesh = {0};
  lt_mesh_print(&p->plan.mesh, &mesh);
  printf("parameters  %lld\n", (long long)cli_count_parameters(p->graph));
  printf("mesh        %s\n", mesh.s ? mesh.s : "");
  printf("step        %lld tokens in at most %lld sequences of at most %lld; %d units\n",
         (long long)p->plan.data.tokens, (long long)p->plan.data.sequences, (long long)p->plan.data.length,
         (int)p->plan.units);
  printf("recomputed  %d layers\n", (int)p->plan.layers_recomputed);
  for (int32_t r = 0; r < p->plan.mesh.world; r++)
    printf("rank %-6d %s, %lld items\n", (int)r, lt_text_size(size, sizeof size, (double)p->schedule[r]->arena_bytes),
           (long long)p->schedule[r]->item.n);
  printf("predicted   %.3g s a step\n", p->plan.seconds);
  lt_text_free(&mesh);
}

lt_status cli_check(cli_options *o, lt_error *e) {
  lt_recipe *r = NULL;
  lt_program *p = NULL;
  lt_text settings = {0};
  lt_status st = cli_read_recipe(o, &r, e);
  if (st == LT_OK) st = lt_recipe_print(r, &settings, e);
  if (st == LT_OK) st = cli_compile(r, o->ranks, -1, NULL, &p, e);
  if (st == LT_OK) {
    if (settings.s) printf("%s\n", settings.s);
    print_plan(p);
  }
  lt_text_free(&settings);
  lt_program_free(p);
  lt_recipe_free(r);
  return st;
}
