/* test_convert.c: the algebra of placements: every pair of them on every small mesh, brought from one to the other by what
** lt_convert inserts, run on all ranks. What each rank then holds is compared, byte for byte and in its order, with what
** the deal, the granules and the runs say it should, computed here from nothing else; partial values by their reduction. */
#include "check.h"
#include "compile/compile.h"
#include "compile/place.h"
#include "graph/attr.h"
#include "graph/ops/table.h"
#include "run/executor.h"

#include <stdlib.h>

#define RANKS   12
#define TOKENS  19
#define D1      4 /* of the value of tokens: [TOKENS, D1, D2] in runs of GRANULE */
#define D2      6
#define GRAIN   2
#define ROWS    23 /* of the static value: [ROWS, COLUMNS] */
#define COLUMNS 9

/* ---- Two operations of this test: parts made of a whole, and a look at what a rank holds ---- */

static int like_input(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_in(g, n, 0);
  *out = (lt_value_info){.dtype = x->dtype, .rank = x->rank};
  memcpy(out->dim, x->dim, sizeof out->dim);
  return 1;
}

static int no_output(lt_graph *g, const lt_node *n, lt_value_info *out) {
  (void)g, (void)n, (void)out;
  return 0;
}

enum { REDUCE, PARTS };
static const lt_attr_def forge_attrs[] = {{.name = "reduce", .type = LT_ATTR_INT},
                                          {.name = "parts", .type = LT_ATTR_INT}};

/* Rank i of n: a share of the sum, something below the maximum, a share under the logarithm; none is the whole. */
static void forge_fill(const lt_call *c, void *args) {
  double n = (double)lt_attr_int(c->node, PARTS), i = c->axis_index, share = (i + 1) / (n * (n + 1) / 2);
  lt_unary_args *a = args;
  *a = (lt_unary_args){.kind = LT_UNARY_SCALE, .x = c->in[0].data, .y = c->out[0].data, .alpha = 1};
  a->n = lt_operand_count(&c->in[0]);
  if (lt_attr_int(c->node, REDUCE) == LT_SUM) a->alpha = share, a->beta = i - (n - 1) / 2;
  if (lt_attr_int(c->node, REDUCE) == LT_MAX) a->beta = i == n - 1 ? 0 : -1 - i;
  if (lt_attr_int(c->node, REDUCE) == LT_LSE) a->beta = log(share);
}

static const lt_op op_forge = {.name = "forge",
                               .kind = LT_OP_KERNEL,
                               .min_in = 1,
                               .max_in = 1,
                               .attr = forge_attrs,
                               .n_attr = 2,
                               .shape = like_input,
                               .kernel = LT_KERNEL_unary,
                               .args_bytes = sizeof(lt_unary_args),
                               .fill = forge_fill};

static struct { /* by index of a rank along all axes */
  double x[TOKENS * D1 * D2];
  int64_t n;
} held[RANKS];

/* Takes softcap's place in the table of this test's device. */
static void look(const void *args, lt_stream *stream) {
  const lt_softcap_args *a = args;
  (void)stream;
  held[(int)a->cap].n = a->n;
  if (a->n) memcpy(held[(int)a->cap].x, a->x, (size_t)a->n * sizeof(double));
}

static void look_fill(const lt_call *c, void *args) {
  *(lt_softcap_args *)args =
      (lt_softcap_args){.x = c->in[0].data, .n = lt_operand_count(&c->in[0]), .cap = c->axis_index};
}

static const lt_op op_look = {.name = "look",
                              .kind = LT_OP_KERNEL,
                              .min_in = 1,
                              .max_in = 1,
                              .shape = no_output,
                              .kernel = LT_KERNEL_softcap,
                              .args_bytes = sizeof(lt_softcap_args),
                              .fill = look_fill};

/* ---- What a rank should hold ---- */

typedef struct mesh_of {
  int32_t dp, sp, tp, ep;
} mesh_of;

typedef struct world {
  lt_mesh mesh;
  lt_plan plan;
  lt_step_table *table;
  lt_deal *deal;
  lt_device device;
  lt_kernel_fn kernel[LT_KERNEL_COUNT];
  lt_tensor *tokens, *fixed;
} world;

static double element(int64_t i) { return 1 + 0.01 * (double)i; }

/* Part `index` of n elements cut in granules over `parts`. */
static int64_t part(int64_t n, int64_t granule, int64_t parts, int64_t index, int64_t *first) {
  int64_t granules = (n + granule - 1) / granule, at = 0, count = 0;
  for (int64_t i = 0; i <= index; i++) {
    at += count;
    count = granules / parts + (i < granules % parts);
  }
  *first = at * granule < n ? at * granule : n;
  return count * granule < n - *first ? count * granule : n - *first;
}

static bool is_cut(lt_place p, int dim) { return p.kind == LT_SHARDED && p.dim == dim; }

/* Rows of the step a rank holds of a value of tokens, in its order. */
static int64_t rows_of(const world *w, const lt_placement *p, const lt_coords *c, int64_t *row) {
  int64_t n = 0, first;
  bool dp = is_cut(p->axis[LT_DP_O], 0) || is_cut(p->axis[LT_DP_I], 0);
  int32_t inner = w->mesh.size[LT_SP_I];
  bool outer = is_cut(p->axis[LT_SP_O], 0), within = is_cut(p->axis[LT_SP_I], 0);
  for (int32_t d = 0; d < w->deal->dp; d++)
    for (int32_t s = 0; s < w->deal->sp; s++) {
      if (dp && d != lt_coords_dp(&w->mesh, c)) continue;
      if ((outer && s / inner != c->at[LT_SP_O]) || (within && s % inner != c->at[LT_SP_I])) continue;
      int64_t i = d * w->deal->sp + s;
      for (int64_t k = w->deal->first[i]; k < w->deal->first[i + 1]; k++)
        for (int64_t t = 0; t < w->deal->segment[k].count; t++) row[n++] = w->deal->segment[k].start + t;
    }
  if (!is_cut(p->axis[LT_TP], 0)) return n;
  n = part(n, 1, w->mesh.size[LT_TP], c->at[LT_TP], &first);
  memmove(row, row + first, (size_t)n * sizeof *row);
  return n;
}

static int64_t expect_tokens(const world *w, const lt_placement *p, const lt_coords *c, double *x) {
  int64_t row[TOKENS], first1 = 0, first2 = 0, n1 = D1, n2 = D2, n = 0;
  int64_t rows = rows_of(w, p, c, row);
  if (is_cut(p->axis[LT_TP], 1)) n1 = part(D1, 1, w->mesh.size[LT_TP], c->at[LT_TP], &first1);
  static const lt_axis heads[] = {LT_TP, LT_SP_O, LT_SP_I}; /* sp cuts what tp leaves */
  for (int i = 0; i < 3; i++) {
    int64_t first;
    if (!is_cut(p->axis[heads[i]], 2)) continue;
    n2 = part(n2, GRAIN, w->mesh.size[heads[i]], c->at[heads[i]], &first);
    first2 += first;
  }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n1; i++)
      for (int64_t j = 0; j < n2; j++) x[n++] = element((row[r] * D1 + first1 + i) * D2 + first2 + j);
  return n;
}

static int64_t expect_fixed(const world *w, const lt_placement *p, const lt_coords *c, double *x) {
  int64_t first0 = 0, first1 = 0, n0 = ROWS, n1 = COLUMNS, n = 0, parts = 1, index = 0, first;
  if (is_cut(p->axis[LT_TP], 0)) n0 = part(ROWS, 1, w->mesh.size[LT_TP], c->at[LT_TP], &first0);
  if (is_cut(p->axis[LT_TP], 1)) n1 = part(COLUMNS, 1, w->mesh.size[LT_TP], c->at[LT_TP], &first1);
  for (int64_t i = 0; i < n0; i++)
    for (int64_t j = 0; j < n1; j++) x[n++] = element((first0 + i) * COLUMNS + first1 + j);
  for (int a = 0; a < LT_AXES; a++) {
    if (p->axis[a].kind != LT_FLAT) continue;
    parts *= w->mesh.size[a];
    index = index * w->mesh.size[a] + c->at[a];
  }
  n = part(n, LT_FLAT_RUN, parts, index, &first);
  memmove(x, x + first, (size_t)n * sizeof *x);
  return n;
}

/* ---- A world ---- */

static bool ok(lt_status status, const lt_error *e) {
  if (status) fprintf(stderr, "  %s (%s; %s)\n", e->what, e->expected, e->got);
  return CHECK_INT(status, LT_OK);
}

static lt_tensor *numbered(int rank, const int64_t *dim) {
  lt_tensor *t = NULL;
  lt_error e = {0};
  if (!ok(lt_tensor_create(LT_F64, rank, dim, &t, &e), &e)) exit(1);
  for (int64_t i = 0; i < lt_tensor_count(t); i++) ((double *)t->data)[i] = element(i);
  return t;
}

/* Sequences of uneven lengths, one of them empty. */
static void open_world(world *w, mesh_of m) {
  static const int64_t length[] = {7, 0, 3, 8, 1};
  lt_error e = {0};
  lt_mesh_spec spec = {.dp = m.dp, .sp = m.sp, .tp = m.tp, .ep = m.ep};
  memset(w, 0, sizeof *w);
  if (!ok(lt_mesh_create(&spec, m.dp * m.sp * m.tp, &w->mesh, &e), &e) ||
      !ok(lt_step_table_create(TOKENS, 5, &w->table, &e), &e))
    exit(1);
  w->table->sequences = 5;
  w->table->tokens = TOKENS;
  for (int64_t s = 0, i = 0; s < 5; s++) {
    for (int64_t k = 0; k < length[s]; k++, i++) {
      w->table->document[i] = i ? w->table->document[i - 1] + (k == 0) : 0;
      w->table->position[i] = (int32_t)k;
      w->table->label[i] = -1;
    }
    w->table->start[s + 1] = i;
  }
  if (!ok(lt_step_table_finish(w->table, &e), &e) || !ok(lt_deal_create(m.dp, m.sp, 1, &w->deal, &e), &e) ||
      !ok(lt_deal_step(w->deal, w->table, 2, &e), &e))
    exit(1);
  w->plan = (lt_plan){.mesh = w->mesh, .units = 1};
  w->plan.data = (lt_data_bounds){.tokens = TOKENS, .sequences = 5, .length = 8, .block = 2};
  w->plan.machine = (lt_machine){1, 1, 1, 1, 1, 1};
  w->device = *lt_device_cpu();
  memcpy(w->kernel, w->device.kernels[LT_F64], sizeof w->kernel);
  w->kernel[LT_KERNEL_softcap] = look;
  w->device.kernels[LT_F64] = w->kernel;
  w->tokens = numbered(3, (int64_t[]){TOKENS, D1, D2});
  w->fixed = numbered(2, (int64_t[]){ROWS, COLUMNS});
}

static void close_world(world *w) {
  lt_step_table_free(w->table);
  lt_deal_free(w->deal);
  lt_tensor_free(w->tokens);
  lt_tensor_free(w->fixed);
}

static lt_axis_mask all_axes(void) { return (1u << LT_AXES) - 1; }

/* ---- One conversion ---- */

static lt_value feed(lt_graph *g, const lt_mesh *m, bool tokens) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_feed);
  lt_attr_set_text(g, &lt_op_feed, a, "name", "x");
  lt_attr_set_number(&lt_op_feed, a, "tokens", tokens);
  lt_attr_set_number(&lt_op_feed, a, "d1", tokens ? D1 : ROWS);
  lt_attr_set_number(&lt_op_feed, a, "d2", tokens ? D2 : COLUMNS);
  lt_attr_set_number(&lt_op_feed, a, "granule", tokens ? GRAIN : 1);
  lt_value v = lt_emit(g, &lt_op_feed, 0, NULL, a);
  for (int x = LT_DP_O; x <= LT_SP_I && tokens; x++)
    if (m->size[x] > 1) g->value.at[v].place.axis[x] = lt_place_s(0);
  return v;
}

/* x at `from`: converted there, then partial where `from` says so. */
static lt_value start_at(lt_placer *p, lt_value x, const lt_placement *from) {
  lt_placement whole = *from;
  lt_axis_mask axes = 0;
  int32_t parts = 1;
  lt_reduction reduce = LT_SUM;
  for (int a = 0; a < LT_AXES; a++) {
    if (from->axis[a].kind != LT_PARTIAL) continue;
    whole.axis[a] = lt_place_r();
    axes |= LT_MASK(a);
    parts *= p->m->size[a];
    reduce = (lt_reduction)from->axis[a].reduce;
  }
  x = lt_convert(p, x, &whole);
  if (!axes || x == LT_NONE) return x;
  lt_attr attr[] = {[REDUCE] = {.i = (int64_t)reduce}, [PARTS] = {.i = parts}};
  x = lt_emit_1(p->g, &op_forge, x, attr);
  if (x == LT_NONE) return x;
  p->g->node.at[p->g->node.n - 1].axes = axes;
  p->g->value.at[x].place = *from;
  return x;
}

static bool run_ranks(world *w, lt_graph *g, lt_tensor *x) {
  lt_schedule *s[RANKS] = {0};
  lt_executor *run[RANKS] = {0};
  lt_comm *comm[RANKS] = {0};
  lt_error e = {0};
  lt_host_array array = {"x", x};
  const lt_step_input in = {.table = w->table, .deal = w->deal, .feed = &array, .n_feed = 1, .shared = true};
  bool good = ok(lt_comm_local(w->mesh.world, comm, &e), &e);
  int done = 0;
  for (int32_t r = 0; r < w->mesh.world && good; r++)
    good = ok(lt_pass_lower(g, &w->plan, r, &s[r], &e), &e) && ok(lt_pass_order(s[r], &e), &e) &&
           ok(lt_pass_memory(s[r], NULL, &e), &e);
  good = good && ok(lt_pass_verify(s, w->mesh.world, &e), &e);
  for (int32_t r = 0; r < w->mesh.world && good; r++)
    good = ok(lt_executor_create(s[r], &w->device, comm[r], &run[r], &e), &e) && ok(lt_executor_wake(run[r], &e), &e) &&
           ok(lt_executor_begin(run[r], &in, &e), &e);
  for (bool moved = true; good && moved && done < w->mesh.world * LT_LANES;) {
    moved = false;
    done = 0;
    for (int32_t i = 0; i < w->mesh.world * LT_LANES && good; i++) {
      lt_progress progress = LT_BLOCKED;
      good = ok(lt_executor_advance(run[i / LT_LANES], (lt_lane)(i % LT_LANES), &progress, &e), &e);
      moved = moved || progress == LT_RAN;
      done += progress == LT_DONE;
    }
  }
  good = good && CHECK_INT(done, w->mesh.world * LT_LANES);
  for (int32_t r = 0; r < w->mesh.world; r++) {
    lt_executor_free(run[r]);
    lt_comm_free(comm[r]);
    lt_schedule_free(s[r]);
  }
  return good;
}

static int32_t index_of(const lt_mesh *m, const lt_coords *c) {
  int32_t index = 0;
  for (int a = 0; a < LT_AXES; a++) index = index * m->size[a] + c->at[a];
  return index;
}

static double joined(lt_reduction r, double a, double b) {
  if (r == LT_SUM) return a + b;
  double high = a > b ? a : b, low = a > b ? b : a;
  return r == LT_MAX ? high : high + log1p(exp(low - high));
}

/* What rank r holds, partial values reduced over the ranks that share it; -1: they do not hold alike. */
static int64_t gathered(const world *w, const lt_placement *p, int32_t rank, double *x) {
  int32_t member[RANKS], self;
  lt_axis_mask axes = 0;
  lt_reduction reduce = LT_SUM;
  for (int a = 0; a < LT_AXES; a++) {
    if (p->axis[a].kind != LT_PARTIAL || w->mesh.size[a] == 1) continue;
    axes |= LT_MASK(a);
    reduce = (lt_reduction)p->axis[a].reduce;
  }
  int32_t n = lt_mesh_group(&w->mesh, rank, axes, member, &self);
  int64_t count = -1;
  for (int32_t k = 0; k < n; k++) {
    lt_coords c = lt_mesh_coords(&w->mesh, member[k]);
    int32_t i = index_of(&w->mesh, &c);
    if (k && held[i].n != count) return -1;
    count = held[i].n;
    for (int64_t j = 0; j < count; j++) x[j] = k ? joined(reduce, x[j], held[i].x[j]) : held[i].x[j];
  }
  return count;
}

static void complain(const world *w, const lt_placement *from, const lt_placement *to, int32_t rank,
                     const lt_graph *g) {
  lt_text t = {0};
  lt_mesh_print(&w->mesh, &t);
  lt_text_add(&t, "; from ");
  lt_placement_print(from, &w->mesh, &t);
  lt_text_add(&t, " to ");
  lt_placement_print(to, &w->mesh, &t);
  lt_text_add(&t, ", rank %d\n", rank);
  lt_graph_print(g, &w->mesh, &t);
  fprintf(stderr, "  %s\n", t.s);
  lt_text_free(&t);
}

static void check_pair(world *w, const lt_placement *from, const lt_placement *to, bool tokens) {
  lt_graph *g = NULL;
  lt_error e = {0};
  if (!ok(lt_graph_create(LT_F64, TOKENS, &g, &e), &e)) return;
  lt_placer p = {.g = g, .m = &w->mesh};
  lt_value x = start_at(&p, feed(g, &w->mesh, tokens), from);
  lt_value y = x == LT_NONE ? LT_NONE : lt_convert(&p, x, to);
  if (!CHECK_STR(g->failed ? g->error.what : "", "")) {
    complain(w, from, to, -1, g);
    goto done;
  }
  CHECK(!memcmp(&g->value.at[y].place, to, sizeof *to));
  lt_emit_1(g, &op_look, y, NULL);
  g->node.at[g->node.n - 1].axes = all_axes();
  for (int r = 0; r < RANKS; r++) held[r].n = -1;
  if (!run_ranks(w, g, tokens ? w->tokens : w->fixed)) {
    complain(w, from, to, -1, g);
    goto done;
  }
  for (int32_t r = 0; r < w->mesh.world; r++) {
    static double want[TOKENS * D1 * D2], got[TOKENS * D1 * D2];
    lt_coords c = lt_mesh_coords(&w->mesh, r);
    int64_t n = tokens ? expect_tokens(w, to, &c, want) : expect_fixed(w, to, &c, want);
    bool same = CHECK_INT(gathered(w, to, r, got), n);
    for (int64_t i = 0; i < n && same; i++) same = CHECK_NEAR(got[i], want[i], 1e-13);
    if (same) continue;
    complain(w, from, to, r, g);
    break;
  }
done:
  lt_vec_free(&p.done);
  lt_vec_free(&p.newest);
  lt_vec_free(&p.base);
  lt_graph_free(g);
}

/* ---- All of them ---- */

typedef struct places {
  lt_placement at[128];
  int n;
} places;

static void set_axis(const lt_mesh *m, lt_placement *p, lt_axis outer, lt_axis inner, lt_place x) {
  for (int a = outer; a <= (int)inner; a++)
    if (m->size[a] > 1) p->axis[a] = x;
}

/* May a value lie so: sp cuts tokens only inside of what dp cut, one kind of reduction, flat on all data axes or on none. */
static bool makes_sense(const lt_mesh *m, lt_place dp, lt_place sp, lt_place tp) {
  bool has_dp = lt_mesh_dp(m) > 1, has_sp = lt_mesh_sp(m) > 1;
  const lt_place all[] = {dp, sp, tp};
  int reduce = -1;
  if (has_dp && has_sp && sp.kind == LT_SHARDED && dp.kind != LT_SHARDED) return false;
  if (has_dp && has_sp && (dp.kind == LT_FLAT) != (sp.kind == LT_FLAT)) return false;
  if ((!has_dp && dp.kind) || (!has_sp && sp.kind) || (m->size[LT_TP] == 1 && tp.kind)) return false; /* said once */
  for (int i = 0; i < 3; i++) {
    if (all[i].kind != LT_PARTIAL) continue;
    if (reduce >= 0 && reduce != all[i].reduce) return false;
    reduce = all[i].reduce;
  }
  return true;
}

static void list_places(const lt_mesh *m, bool tokens, places *out) {
  lt_place s0 = lt_place_s(0), r = lt_place_r(), flat = lt_place_flat();
  lt_place sum = lt_place_p(LT_SUM), max = lt_place_p(LT_MAX), lse = lt_place_p(LT_LSE);
  const lt_place data_tokens[] = {r, s0, sum}, data_fixed[] = {r, sum, flat, max};
  const lt_place tensor_tokens[] = {r, s0, lt_place_s(1), lt_place_s(2), sum, max, lse};
  const lt_place tensor_fixed[] = {r, s0, lt_place_s(1), sum};
  const lt_place *data = tokens ? data_tokens : data_fixed, *tensor = tokens ? tensor_tokens : tensor_fixed;
  int n_data = tokens ? 3 : 4, n_tensor = tokens ? 7 : 4;
  out->n = 0;
  for (int d = 0; d < n_data; d++)
    for (int s = 0; s < n_data; s++)
      for (int t = 0; t < n_tensor; t++) {
        if (!makes_sense(m, data[d], data[s], tensor[t])) continue;
        lt_placement p = {0};
        set_axis(m, &p, LT_DP_O, LT_DP_I, data[d]);
        set_axis(m, &p, LT_SP_O, LT_SP_I, data[s]);
        set_axis(m, &p, LT_TP, LT_TP, tensor[t]);
        out->at[out->n++] = p;
      }
}

/* What exchanges make: heads on sp, or on sp_i and rows on sp_o, or all rows of an outer part. */
static void list_exchanges(const lt_mesh *m, places *out) {
  lt_place s0 = lt_place_s(0), heads = lt_place_s(2), r = lt_place_r(), sum = lt_place_p(LT_SUM);
  const lt_place sp[][2] = {{s0, s0},     {heads, heads}, {s0, heads}, {s0, r},  {r, heads},
                            {sum, heads}, {heads, r},     {sum, sum},  {s0, sum}};
  const lt_place tensor[] = {r, s0, lt_place_s(1), heads, sum};
  out->n = 0;
  for (size_t s = 0; s < sizeof sp / sizeof *sp; s++)
    for (size_t t = 0; t < (m->size[LT_TP] > 1 ? sizeof tensor / sizeof *tensor : 1); t++) {
      if (m->size[LT_SP_I] == 1 && !lt_place_equal(sp[s][0], sp[s][1])) continue;
      lt_placement p = {0};
      set_axis(m, &p, LT_DP_O, LT_DP_I, s0);
      set_axis(m, &p, LT_SP_O, LT_SP_O, sp[s][0]);
      set_axis(m, &p, LT_SP_I, LT_SP_I, sp[s][1]);
      set_axis(m, &p, LT_TP, LT_TP, tensor[t]);
      out->at[out->n++] = p;
    }
}

/* Nothing becomes partial that was not; what is flat is what the optimizer shares out: it comes of R or of P. */
static bool is_asked(const lt_mesh *m, const lt_placement *from, const lt_placement *to) {
  for (int a = 0; a < LT_AXES; a++)
    if (m->size[a] > 1 && to->axis[a].kind == LT_PARTIAL && !lt_place_equal(from->axis[a], to->axis[a])) return false;
  return true;
}

static int check_places(world *w, const places *p, bool tokens) {
  int pairs = 0;
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < p->n; k++) {
      if (!is_asked(&w->mesh, &p->at[i], &p->at[k])) continue;
      check_pair(w, &p->at[i], &p->at[k], tokens);
      pairs++;
    }
  return pairs;
}

static int check_mesh(mesh_of m) {
  world w;
  places p;
  int pairs = 0;
  open_world(&w, m);
  for (int tokens = 0; tokens < 2; tokens++) {
    list_places(&w.mesh, tokens, &p);
    pairs += check_places(&w, &p, tokens);
  }
  close_world(&w);
  return pairs;
}

static int check_exchanges(mesh_of m) {
  world w;
  places p;
  open_world(&w, m);
  list_exchanges(&w.mesh, &p);
  int pairs = check_places(&w, &p, true);
  close_world(&w);
  return pairs;
}

/* Where dp holds all tokens, sp cannot cut them: refused, not wrong. */
static void check_refused(void) {
  world w;
  lt_graph *g = NULL;
  lt_error e = {0};
  open_world(&w, (mesh_of){2, 2, 1, 1});
  if (!ok(lt_graph_create(LT_F64, TOKENS, &g, &e), &e)) return;
  lt_placer p = {.g = g, .m = &w.mesh};
  lt_placement want = {0};
  set_axis(&w.mesh, &want, LT_SP_O, LT_SP_I, lt_place_s(0));
  CHECK_INT(lt_convert(&p, feed(g, &w.mesh, true), &want), LT_NONE);
  CHECK_STR(g->error.what, "tokens cannot be dealt over sp where every rank of dp holds all of them");
  lt_vec_free(&p.done);
  lt_vec_free(&p.newest);
  lt_vec_free(&p.base);
  lt_graph_free(g);
  close_world(&w);
}

int main(void) {
  static const mesh_of meshes[] = {{2, 1, 1, 1}, {3, 1, 1, 1}, {1, 2, 1, 1}, {1, 3, 1, 1}, {1, 1, 2, 1},
                                   {1, 1, 3, 1}, {2, 2, 1, 1}, {2, 1, 2, 1}, {1, 2, 3, 1}, {4, 1, 1, 2},
                                   {2, 2, 1, 2}, {2, 2, 2, 1}, {2, 3, 2, 1}};
  int pairs = 0;
  for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) pairs += check_mesh(meshes[i]);
  CHECK(pairs > 1500);
  static const mesh_of exchanges[] = {{1, 3, 1, 1}, {1, 2, 2, 1}, {1, 3, 2, 1}, {1, 4, 1, 2}, /* the last: sp_i */
                                      {2, 4, 1, 2}, {1, 4, 2, 2}, {1, 6, 2, 3}};
  for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++) pairs += check_exchanges(exchanges[i]);
  CHECK(pairs > 5000);
  check_refused();
  return check_done();
}
