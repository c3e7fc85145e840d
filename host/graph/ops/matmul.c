/* matmul.c: matrix product, y = op(a) op(b), batched over an equal first dimension.
** A layer's weight is [out, in] and is multiplied transposed, so the output takes the weight's dimension and granule.
** Gradient: da = dy op(b)^T, db = op(a)^T dy, transposed where the operand was. */
#include "graph/ops/shared.h"

enum { TRANS_A, TRANS_B };

static const lt_attr_def attrs[] = {
    {"trans_a", LT_ATTR_BOOL, false, 0, NULL, NULL, "a is stored [k, m]"},
    {"trans_b", LT_ATTR_BOOL, false, 0, NULL, NULL, "b is stored [n, k]"},
};

/* Where rows and columns of an operand lie: dimensions of m and k of a, of k and n of b. */
typedef struct matmul_dims {
  int m, ka, kb, n, batched;
} matmul_dims;

static matmul_dims matmul_where(const lt_node *n, int rank) {
  int first = rank - 2;
  bool ta = lt_attr_int(n, TRANS_A), tb = lt_attr_int(n, TRANS_B);
  return (matmul_dims){first + ta, first + !ta, first + tb, first + !tb, first};
}

static int matmul_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_want_real(g, n, 0) || !lt_want_real(g, n, 1) || !lt_want_rank(g, n, 0, 2, 3)) return -1;
  const lt_value_info *a = lt_in(g, n, 0), *b = lt_in(g, n, 1);
  if (!lt_want_rank(g, n, 1, a->rank, a->rank)) return -1;
  matmul_dims w = matmul_where(n, a->rank);
  if (w.batched && !lt_want_equal(g, n, 0, 0, 1, 0)) return -1;
  if (!lt_want_equal(g, n, 0, w.ka, 1, w.kb)) {
    lt_error_hint(&g->error, "a weight is [out, in]: matmul(x, w, { trans_b = true })");
    return -1;
  }
  out->dtype = a->dtype;
  out->rank = a->rank;
  if (w.batched) out->dim[0] = a->dim[0];
  out->dim[a->rank - 2] = a->dim[w.m];
  out->dim[a->rank - 1] = b->dim[w.n];
  return 1;
}

static void matmul_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  const lt_value_info *a = lt_in(g, n, 0), *b = lt_in(g, n, 1);
  matmul_dims w = matmul_where(n, a->rank);
  r->in[0][w.m] = r->out[0][a->rank - 2] = 0;
  r->in[1][w.n] = r->out[0][a->rank - 1] = 1;
  if (lt_dims_cut_alike(g, &a->dim[w.ka], &b->dim[w.kb])) r->in[0][w.ka] = r->in[1][w.kb] = 2;
  if (w.batched && lt_dims_cut_alike(g, &a->dim[0], &b->dim[0])) r->in[0][0] = r->in[1][0] = r->out[0][0] = 3;
  r->linear = LT_LINEAR_EACH;
  r->linear_in = 3;
}

static lt_value matmul_emit(lt_graph *g, lt_value a, lt_value b, bool trans_a, bool trans_b) {
  lt_attr attr[] = {[TRANS_A] = {.i = trans_a}, [TRANS_B] = {.i = trans_b}};
  return lt_emit_2(g, &lt_op_matmul, a, b, attr);
}

static void matmul_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  const lt_node *n = &g->node.at[node];
  lt_value a = n->in[0], b = n->in[1], dy = dout[0];
  bool ta = lt_attr_int(n, TRANS_A), tb = lt_attr_int(n, TRANS_B);
  din[0] = ta ? matmul_emit(g, b, dy, tb, true) : matmul_emit(g, dy, b, false, !tb);
  din[1] = tb ? matmul_emit(g, dy, a, true, ta) : matmul_emit(g, a, dy, !ta, false);
}

static void matmul_fill(const lt_call *c, void *args) {
  lt_gemm_args *p = args;
  const lt_operand *a = &c->in[0], *b = &c->in[1], *y = &c->out[0];
  matmul_dims w = matmul_where(c->node, a->rank);
  p->a = a->data;
  p->b = b->data;
  p->c = y->data;
  p->m = a->dim[w.m];
  p->n = b->dim[w.n];
  p->k = a->dim[w.ka];
  p->lda = a->dim[a->rank - 1];
  p->ldb = b->dim[b->rank - 1];
  p->ldc = p->n;
  p->trans_a = (int32_t)lt_attr_int(c->node, TRANS_A);
  p->trans_b = (int32_t)lt_attr_int(c->node, TRANS_B);
  p->batch = w.batched ? a->dim[0] : 1;
  p->stride_a = p->m * p->k;
  p->stride_b = p->k * p->n;
  p->stride_c = p->m * p->n;
  p->alpha = 1;
  p->narrow_c = y->dtype == LT_BF16;
}

static void matmul_cost(const lt_call *c, lt_cost *cost) {
  matmul_dims w = matmul_where(c->node, c->in[0].rank);
  cost->flops = 2 * (double)lt_operand_count(&c->out[0]) * (double)c->in[0].dim[w.ka];
  cost->bytes = lt_cost_bytes(c);
}

const lt_op lt_op_matmul = {
    .name = "matmul",
    .kind = LT_OP_KERNEL,
    .min_in = 2,
    .max_in = 2,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .doc = "y = op(a) op(b): matrix product of [m, k] and [k, n], or of [batch, m, k] and [batch, k, n]",
    .narrow = "nn>e",
    .shape = matmul_shape,
    .rule = matmul_rule,
    .grad = matmul_grad,
    .cost = matmul_cost,
    .kernel = LT_KERNEL_gemm,
    .args_bytes = sizeof(lt_gemm_args),
    .fill = matmul_fill,
};
