/* sort_stable.c: the stable order of integer keys by bucket, and where each bucket starts.
** Whole on every axis: a bucket's rows follow the global order, and `offset` counts all of them.
** Counting sort; Knuth, TAOCP vol. 3, 5.2 algorithm D. */
#include "graph/ops/shared.h"

enum { KEY };
enum { BUCKETS };
static const lt_attr_def attrs[] = {
    {.name = "buckets", .type = LT_ATTR_INT, .required = true, .doc = "keys lie in [0, buckets); others go last"},
};

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *key = lt_want_input(g, n, KEY, LT_I32, 1, LT_MAX_RANK);
  if (!key) return -1;
  int64_t buckets = lt_attr_int(n, BUCKETS);
  if (!lt_want_that(g, n, buckets >= 1 && buckets < INT32_MAX, "there is no bucket", "buckets >= 1", (double)buckets))
    return -1;
  lt_out_like(&out[0], key);
  out[0].rank = 1;
  for (int d = 1; d < key->rank; d++)
    out[0].dim[0].size = lt_size_binary(&g->sizes, LT_SIZE_MUL, out[0].dim[0].size, key->dim[d].size);
  out[0].dim[0].granule = 1;
  out[1] = out[0];
  out[1].dim[0] = lt_dim_static(g, buckets + 1, 1);
  return 2;
}

static void cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.flops = 0, .bytes = lt_operand_bytes(&c->in[KEY]) + lt_cost_bytes(c)};
}

static void fill(const lt_call *c, void *args) {
  *(lt_sort_stable_args *)args = (lt_sort_stable_args){.key = c->in[KEY].data,
                                                       .source = c->out[0].data,
                                                       .offset = c->out[1].data,
                                                       .n = lt_operand_count(&c->in[KEY]),
                                                       .buckets = lt_attr_int(c->node, BUCKETS)};
}

const lt_op lt_op_sort_stable = {
    .name = "sort_stable",
    .kind = LT_OP_KERNEL,
    .min_in = 1,
    .max_in = 1,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "key",
    .doc = "source i32 [n], offset i32 [buckets + 1] = the stable order of the n keys (i32, flattened): row i of the "
           "order comes from source[i]; bucket b starts at offset[b], keys outside at the last offset",
    .shape = shape,
    .cost = cost,
    .kernel = LT_KERNEL_sort_stable,
    .args_bytes = sizeof(lt_sort_stable_args),
    .fill = fill,
};
