/* moves.c: the collectives of a plan, and who asked for them.
** Alike ones are one line with their number: layers do the same, and of a long list nobody reads the end. */
#include "cli/explain.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct alike { /* collectives that differ in their layer alone */
  const lt_node *node;
  const lt_move *move;
  double sent; /* by all of them, in a step; 0: they travel as one with others */
  int64_t n;
  bool layers; /* of several */
} alike;

typedef struct alikes {
  LT_VEC(alike) list;
} alikes;

/* "layer 3/attention" → "layer ", "/attention" behind its number; of other scopes all, and an end. */
static size_t before_number(const char *scope, const char **behind) {
  const size_t n = strncmp(scope, "layer ", 6) == 0 ? 6 : strlen(scope);
  *behind = scope + n + strspn(scope + n, "0123456789");
  return n;
}

static bool same_scope(const char *a, const char *b) {
  const char *end_a, *end_b;
  const size_t n = before_number(a, &end_a);
  return n == before_number(b, &end_b) && strncmp(a, b, n) == 0 && strcmp(end_a, end_b) == 0;
}

static bool is_alike(const alike *a, const alike *b) {
  return a->node->op == b->node->op && a->node->axes == b->node->axes && lt_place_equal(a->move->from, b->move->from) &&
         lt_place_equal(a->move->to, b->move->to) && strcmp(a->move->reader, b->move->reader) == 0 &&
         same_scope(a->node->scope, b->node->scope) && same_scope(a->move->scope, b->move->scope);
}

/* Bytes by node: what the rank sends in a step; the caller frees them. */
static double *sent_by_node(const lt_program *p, int32_t rank) {
  const lt_schedule *s = p->schedule[rank];
  double *sent = calloc((size_t)p->graph->node.n + 1, sizeof *sent);
  for (int64_t i = 0; sent && i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    if (it->kind == LT_ITEM_COLLECTIVE && it->node != LT_NONE && it->sent != LT_NONE)
      sent[it->node] += (double)lt_size_bound(&s->graph->sizes, it->sent);
  }
  return sent;
}

static lt_status add(alikes *all, alike one, lt_error *e) {
  for (int64_t i = 0; i < all->list.n; i++) {
    alike *a = &all->list.at[i];
    if (!is_alike(a, &one)) continue;
    a->n++;
    a->sent += one.sent;
    a->layers = a->layers || strcmp(a->node->scope, one.node->scope) || strcmp(a->move->scope, one.move->scope);
    return LT_OK;
  }
  alike *a = lt_vec_push(&all->list);
  if (!a) return lt_fail_memory(e, sizeof *a, "a list of collectives");
  *a = one;
  return LT_OK;
}

/* ---- What is said ---- */

static void print_scope(const char *scope, bool layers) {
  const char *behind;
  const size_t n = before_number(scope, &behind);
  if (layers && scope[n])
    printf("%.*s*%s", (int)n, scope, behind);
  else
    printf("%s", scope[0] ? scope : "(outside of layers)");
}

static void print(const alike *a) {
  char from[12], to[12], size[24];
  const char *gap = " over ";
  printf("  %-15s", a->node->op->name);
  for (int axis = 0; axis < LT_AXES; axis++) {
    if (!(a->node->axes & LT_MASK(axis))) continue;
    printf("%s%s", gap, lt_axis_name((lt_axis)axis));
    gap = ", ";
  }
  printf(" in ");
  print_scope(a->node->scope, a->layers);
  printf(": was %s, is needed %s by %s", lt_place_text(a->move->from, from), lt_place_text(a->move->to, to),
         a->move->reader);
  if (a->move->scope[0]) {
    printf(" in ");
    print_scope(a->move->scope, a->layers);
  }
  if (a->n > 1) printf(", %lld times", (long long)a->n);
  if (a->sent > 0)
    printf("; sends %s\n", lt_text_size(size, sizeof size, a->sent));
  else
    printf("; sent together with others\n");
}

lt_status explain_moves(const lt_program *p, int32_t rank, const lt_reasons *why, const char *pattern, lt_error *e) {
  alikes all = {0};
  double *sent = sent_by_node(p, rank);
  lt_status st = sent ? LT_OK : lt_fail_memory(e, (size_t)p->graph->node.n * sizeof *sent, "a list of collectives");
  for (int64_t i = 0; st == LT_OK && i < why->move.n; i++) {
    const lt_move *m = &why->move.at[i];
    const lt_node *n = explain_maker(p, m->value);
    if (!n || n->dead || n->op->kind != LT_OP_COLLECTIVE) continue;
    if (pattern && !explain_is_meant(pattern, n) && fnmatch(pattern, m->scope, 0) != 0) continue;
    st = add(&all, (alike){n, m, sent[n - p->graph->node.at], 1, false}, e);
  }
  if (st == LT_OK && all.list.n)
    printf("collectives, who asked for them, and what rank %d sends in a step:\n", (int)rank);
  for (int64_t i = 0; st == LT_OK && i < all.list.n; i++) print(&all.list.at[i]);
  if (st == LT_OK && !all.list.n && p->plan.mesh.world > 1) printf("no collectives%s\n", pattern ? " there" : "");
  lt_vec_free(&all.list);
  free(sent);
  return st;
}
