/* gemm.h: batched matrix product, C[i] = alpha * op(A[i]) op(B[i]) + beta * C[i]. */
#ifndef LT_KERNELS_OP_GEMM_H
#define LT_KERNELS_OP_GEMM_H
#include <stdint.h>

typedef struct lt_gemm_args {
  const void *a, *b; /* narrow; op(A) is m x k, op(B) is k x n */
  void *c;           /* real, or narrow if narrow_c, m x n; read only if beta != 0 */
  int64_t m, n, k;
  int64_t lda, ldb, ldc;                       /* elements from one stored row to the next */
  int32_t trans_a, trans_b;                    /* 1: stored transposed, A as k x m, B as n x k */
  int64_t batch, stride_a, stride_b, stride_c; /* elements from one matrix to the next; 0 repeats it */
  double alpha, beta;
  int32_t narrow_c; /* beta is 0 then */
} lt_gemm_args;

#endif
