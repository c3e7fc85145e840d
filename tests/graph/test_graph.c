/* test_graph.c: building: nodes, attributes and their defaults, states and versions, sticky errors, the text of a graph. */
#include "check.h"

#include "graph/op.h"
#include "graph/ops/table.h"

static lt_graph *make(void) {
  lt_graph *g = NULL;
  lt_error e = {0};
  CHECK_INT(lt_graph_create(LT_F32, 64, &g, &e), LT_OK);
  return g;
}

static void check_create(void) {
  lt_graph *g;
  lt_error e = {0};
  CHECK_INT(lt_graph_create(LT_I32, 64, &g, &e), LT_USAGE);
  CHECK_STR(e.got, "i32");
  CHECK(g == NULL);
  lt_error_clear(&e);
  CHECK_INT(lt_graph_create(LT_F64, -1, &g, &e), LT_USAGE);
  lt_graph_free(NULL);
}

static void check_strings(void) {
  lt_graph *g = make();
  char name[32];
  const char *first = lt_graph_intern(g, "layer 7");
  for (int i = 0; i < 500; i++) {
    snprintf(name, sizeof name, "layer %d", i * 7919 % 500);
    lt_graph_intern(g, name);
  }
  CHECK(lt_graph_intern(g, "layer 7") == first);
  CHECK_INT(g->strings.n, 501); /* and the empty one */
  for (int64_t i = 1; i < g->strings.n; i++) CHECK(strcmp(g->strings.at[i - 1], g->strings.at[i]) < 0);
  unsigned char *big = lt_graph_alloc(g, 100000), *small = lt_graph_alloc(g, 3);
  CHECK(big && small && big[99999] == 0 && small[2] == 0);
  CHECK_INT((uintptr_t)small % 16, 0);
  lt_graph_free(g);
}

static void check_states(void) {
  lt_graph *g = make();
  lt_dim dim[] = {lt_dim_static(g, 8, 4), lt_dim_static(g, 3, 0)};
  CHECK_INT(dim[1].granule, 1);
  int32_t w = lt_graph_state(g, "w", LT_F32, 2, dim, LT_ROLE_PARAM);
  int32_t b = lt_graph_state(g, "b", LT_F32, 1, dim, LT_ROLE_BUFFER);
  CHECK_INT(lt_graph_find_state(g, "b"), b);
  CHECK_INT(lt_graph_find_state(g, "c"), LT_NONE);
  CHECK(g->state.at[w].trainable && !g->state.at[b].trainable);
  lt_value v0 = lt_graph_read(g, w);
  CHECK_INT(g->value.at[v0].state, w);
  CHECK_INT(g->value.at[v0].version, 0);
  CHECK_INT(g->value.at[v0].node, LT_NONE);

  lt_value grad = lt_graph_gradient(g, w);
  int32_t gs = g->value.at[grad].state;
  CHECK_STR(g->state.at[gs].name, "grad/w");
  CHECK_INT(g->state.at[gs].owner, w);
  CHECK_INT(g->state.at[gs].role, LT_ROLE_GRAD);
  CHECK_INT(g->value.at[grad].dim[0].granule, 4);
  CHECK_INT(lt_graph_gradient(g, w), grad);

  lt_attr twice[] = {{.f = 2}, {.f = 0}};
  lt_value x = lt_emit_1(g, &lt_op_scale, v0, twice);
  CHECK_INT(g->value.at[x].state, LT_NONE);
  lt_value g1 = lt_emit_2(g, &lt_op_accumulate, grad, x, NULL); /* in place: the next version */
  CHECK_INT(g->value.at[g1].state, gs);
  CHECK_INT(g->value.at[g1].version, 1);
  CHECK_INT(lt_graph_read(g, gs), g1);
  CHECK_INT(g->state.at[gs].first, grad);
  lt_value g2 = lt_emit_2(g, &lt_op_accumulate, g1, x, NULL);
  CHECK_INT(g->value.at[g2].version, 2);
  lt_attr split[] = {{.i = 0}, {.i = 2}};
  lt_value view = lt_emit_1(g, &lt_op_split_dim, g2, split); /* a view is no new version */
  CHECK_INT(g->value.at[view].state, LT_NONE);
  CHECK_INT(lt_graph_read(g, gs), g2);
  CHECK(!g->failed);

  CHECK_INT(lt_emit_2(g, &lt_op_accumulate, g1, x, NULL), LT_NONE);
  CHECK_STR(g->error.what, "accumulate would write into an old version of \"grad/w\"");
  CHECK_STR(g->error.expected, "version 2");
  CHECK_STR(g->error.got, "version 1");
  lt_graph_free(g);
}

static void check_state_refusals(void) {
  static const char *const what[] = {"there is already a parameter or buffer named \"w\"",
                                     "dimension 0 of \"t\" is not static: a state outlives the step",
                                     "\"b\" is not a parameter: it has no gradient", "a dimension of -3 elements",
                                     "a state needs a name"};
  for (int i = 0; i < 5; i++) {
    lt_graph *g = make();
    lt_dim dim[] = {lt_dim_static(g, 8, 1)}, tokens[] = {lt_dim_tokens(g)};
    int32_t b = lt_graph_state(g, "b", LT_F32, 1, dim, LT_ROLE_BUFFER), again = LT_NONE;
    lt_graph_state(g, "w", LT_F32, 1, dim, LT_ROLE_PARAM);
    CHECK(!g->failed);
    if (i == 0) again = lt_graph_state(g, "w", LT_F32, 1, dim, LT_ROLE_PARAM);
    if (i == 1) again = lt_graph_state(g, "t", LT_F32, 1, tokens, LT_ROLE_BUFFER);
    if (i == 2) again = lt_graph_gradient(g, b);
    if (i == 3) lt_dim_static(g, -3, 1);
    if (i == 4) again = lt_graph_state(g, "", LT_F32, 1, dim, LT_ROLE_BUFFER);
    CHECK_INT(again, LT_NONE);
    CHECK(g->failed);
    CHECK_STR(g->error.what, what[i]);
    lt_graph_free(g);
  }
}

static void check_controls(void) {
  lt_graph *g = make();
  int32_t lr = lt_graph_control(g, "lr", 0.1);
  CHECK_INT(lt_graph_control(g, "lr", 0.5), lr);
  CHECK_NEAR(g->control.at[lr].value, 0.1, 0);
  CHECK(lt_graph_control(g, "balance", 1) != lr);

  lt_attr named = {.i = lr}, plain = {.i = LT_NONE, .f = 7};
  lt_node node = {.attr = &named};
  double values[] = {0.25, 3};
  lt_call c = {.graph = g, .node = &node};
  CHECK_NEAR(lt_attr_control(&c, 0), 0.1, 0);
  c.control = values;
  CHECK_NEAR(lt_attr_control(&c, 0), 0.25, 0);
  node.attr = &plain;
  CHECK_NEAR(lt_attr_control(&c, 0), 7, 0);
  lt_graph_free(g);
}

/* The first failure is kept, with line and scope, and everything after it is a no-op. */
static void check_sticky(void) {
  lt_graph *g = make();
  lt_dim dim[] = {lt_dim_static(g, 8, 1)};
  lt_value x = lt_graph_read(g, lt_graph_state(g, "x", LT_F32, 1, dim, LT_ROLE_PARAM));
  lt_graph_set_scope(g, "layer 3/attention");
  lt_graph_set_where(g, "recipe.lua:41");
  lt_value y = lt_emit_1(g, &lt_op_neg, x, NULL);
  CHECK_STR(g->node.at[0].scope, "layer 3/attention");
  CHECK_STR(g->node.at[0].where, "recipe.lua:41");
  CHECK_INT(g->value.at[y].node, 0);
  lt_emit_1(g, &lt_op_neg, 99, NULL);
  CHECK_INT(g->error.code, LT_RECIPE);
  CHECK_STR(g->error.what, "input 1 of neg is not a value of this graph");
  CHECK_STR(g->error.where, "recipe.lua:41");
  CHECK_STR(g->error.key, "layer 3/attention");
  int64_t nodes = g->node.n, values = g->value.n;
  CHECK_INT(lt_emit_1(g, &lt_op_neg, x, NULL), LT_NONE);
  CHECK_INT(lt_graph_state(g, "z", LT_F32, 1, dim, LT_ROLE_PARAM), LT_NONE);
  CHECK_INT(lt_graph_control(g, "c", 0), LT_NONE);
  CHECK_INT(lt_graph_fail(g, "another"), LT_NONE);
  CHECK_STR(g->error.what, "input 1 of neg is not a value of this graph");
  CHECK_INT(g->node.n, nodes);
  CHECK_INT(g->value.n, values);
  lt_graph_free(g);
}

static void check_attributes(void) {
  lt_graph *g = make();
  lt_dim dim[] = {lt_dim_static(g, 8, 1)};
  lt_value x = lt_graph_read(g, lt_graph_state(g, "x", LT_F32, 1, dim, LT_ROLE_PARAM));
  lt_emit_1(g, &lt_op_scale, x, NULL);
  CHECK_NEAR(lt_attr_float(&g->node.at[0], 0), 1, 0); /* defaults */
  CHECK_NEAR(lt_attr_float(&g->node.at[0], 1), 0, 0);
  char text[] = "f64";
  lt_attr cast[] = {{.s = text}};
  lt_emit_1(g, &lt_op_cast, x, cast);
  text[0] = 'x'; /* the node has its own */
  CHECK_STR(lt_attr_text(&g->node.at[1], 0), "f64");
  CHECK_INT(lt_emit_1(g, &lt_op_expand, x, NULL), LT_NONE);
  CHECK_STR(g->error.what, "expand needs its attribute `dim`: the dimension to repeat; it has one element");
  lt_graph_free(g);
}

static void check_registry(void) {
  CHECK(lt_op_count() > 60);
  CHECK(lt_op_find("matmul") == &lt_op_matmul);
  CHECK(lt_op_find("matmull") == NULL);
  for (int i = 0; i < lt_op_count(); i++) {
    const lt_op *op = lt_op_at(i);
    CHECK(lt_op_find(op->name) == op); /* names are unique */
    CHECK(op->doc && op->doc[0] && op->shape);
    CHECK(op->kind != LT_OP_KERNEL || (op->fill && op->args_bytes && op->kernel < LT_KERNEL_COUNT));
    CHECK(op->min_in >= 0 && (op->max_in < 0 || op->max_in >= op->min_in));
    for (int a = 0; a < op->n_attr; a++) CHECK(op->attr[a].name && op->attr[a].doc && op->attr[a].doc[0]);
  }
}

static void check_text(void) {
  lt_graph *g = make();
  lt_dim dim[] = {lt_dim_static(g, 8, 4), lt_dim_static(g, 3, 1)};
  lt_attr feed[] = {{.s = "x"}, {.s = "real"}, {.i = 1}, {.i = 3}, {.i = 0}, {.i = 0}, {.i = 1}};
  lt_attr transposed[] = {{.i = 0}, {.i = 1}};
  lt_value w = lt_graph_read(g, lt_graph_state(g, "w", LT_F32, 2, dim, LT_ROLE_PARAM));
  lt_value x = lt_emit(g, &lt_op_feed, 0, NULL, feed);
  lt_graph_set_scope(g, "layer 0");
  lt_graph_set_where(g, "recipe.lua:9");
  lt_value y = lt_emit_2(g, &lt_op_matmul, x, w, transposed);
  g->loss = lt_emit_1(g, &lt_op_sum, y, NULL);
  g->node.at[2].dead = true;
  lt_mesh_spec spec = {.dp = 2};
  lt_mesh m;
  lt_error e = {0};
  lt_mesh_create(&spec, 2, &m, &e);
  g->value.at[y].place.axis[LT_DP_O] = lt_place_s(0);
  lt_text text = {0};
  lt_graph_print(g, NULL, &text);
  CHECK_STR(text.s, "states\n"
                    "  %0 parameter \"w\" f32[8:4, 3]\n"
                    "forward\n"
                    "  %1 f32[tokens, 3] = feed(name=\"x\", dtype=\"real\", tokens=true, d1=3, d2=0, d3=0, granule=1)\n"
                    "forward layer 0\n"
                    "  %2 f32[tokens, 8:4] = matmul(%1, %0 w; trans_a=false, trans_b=true)  -- recipe.lua:9\n"
                    "loss %3\n");
  lt_text_free(&text);
  lt_graph_print_value(g, y, &m, &text);
  CHECK_STR(text.s, "%2 f32[tokens, 8:4] dp_o:S0");
  lt_text_free(&text);
  lt_operand o;
  lt_operand_of(g, y, &o);
  CHECK_INT(o.rank, 2);
  CHECK_INT(o.dim[0], 64);
  CHECK_INT(lt_operand_count(&o), 512);
  lt_operand_of(g, LT_NONE, &o);
  CHECK_INT(o.rank, -1);
  CHECK_INT(lt_operand_count(&o), 0);
  lt_graph_free(g);
}

int main(void) {
  check_create();
  check_strings();
  check_states();
  check_state_refusals();
  check_controls();
  check_sticky();
  check_attributes();
  check_registry();
  check_text();
  return check_done();
}
