/* table.h: every operation, one line each: X(name) refers to `const lt_op lt_op_<name>`. */
#ifndef LT_GRAPH_OPS_TABLE_H
#define LT_GRAPH_OPS_TABLE_H

#include "graph/op.h"

/* clang-format off */
#define LT_OPS(X)                                                                 \
  /* products */                                                                  \
  X(matmul)                                                                       \
  /* element-wise */                                                              \
  X(add) X(sub) X(mul) X(div) X(maximum) X(minimum) X(greater) X(equal)           \
  X(neg) X(abs) X(square) X(sqrt) X(rsqrt) X(reciprocal) X(exp) X(log)            \
  X(tanh) X(sigmoid) X(silu) X(relu) X(sign) X(scale) X(cast) X(fill) X(add_n)    \
  /* reductions, and their opposite */                                            \
  X(sum) X(max) X(mean) X(expand) X(spread)                                       \
  /* shape */                                                                     \
  X(split_dim) X(merge_dims) X(permute) X(concat) X(slice) X(pad)                 \
  /* layers */                                                                    \
  X(embedding) X(embedding_backward) X(embedding_backward_onto)                                              \
  X(rmsnorm) X(rmsnorm_backward)                                                  \
  X(layernorm) X(layernorm_backward)                                              \
  X(rope)                                                                         \
  X(attention_spans) X(attention) X(attention_backward) X(attention_key_sums)     \
  X(swiglu) X(swiglu_backward)                                                    \
  X(gelu) X(gelu_backward)                                                        \
  X(softcap) X(softcap_backward)                                                  \
  X(softmax) X(softmax_backward)                                                  \
  X(dropout)                                                                      \
  X(label_logits) X(label_logits_backward) X(label_logits_joint)                  \
  X(label_loss) X(label_loss_backward)                                            \
  /* choosing and moving rows */                                                  \
  X(top_k) X(take_last) X(put_last) X(sort_stable) X(gather_rows) X(scatter_rows) \
  X(write_rows)                                                                   \
  /* update */                                                                    \
  X(accumulate) X(sumsq) X(clip_scale) X(adamw)                                   \
  /* borders */                                                                   \
  X(feed) X(output) X(carry_in) X(carry_out)                                      \
  /* inserted by passes */                                                        \
  X(all_reduce) X(reduce_scatter) X(all_gather) X(all_to_all) X(shard_of) X(partial_of)      \
  X(flat_scatter) X(flat_gather) X(flat_of)                                       \
  X(hop) X(hop_home) X(row_index) X(add_rows)                                                 \
  X(attention_hop) X(attention_last) X(attention_hop_backward)
/* clang-format on */

#define LT_OP_DECLARE(name) extern const lt_op lt_op_##name;
LT_OPS(LT_OP_DECLARE)
#undef LT_OP_DECLARE

#endif
