/* kernels.h: the contract between the host and a device: argument structs, the list of kernels, the device table.
** Kernels know pointers, sizes and streams, never graphs. All arrays are dense row-major unless a stride is given;
** `real` below is the table's element type (float or double), and so is `narrow`, but in the table for bf16: there real
** is float and narrow is bf16, of which a kernel makes floats, computes, and rounds once. Counts and strides are in elements.
** A kernel writes every element of its outputs, never reads an output it was not told to carry, accepts empty extents,
** and gives the same bits for the same arguments and thread count: sums have a fixed order. */
#ifndef LT_KERNELS_H
#define LT_KERNELS_H

#include "core/dtype.h"
#include "core/error.h"

#include "kernels/op/attention.h"
#include "kernels/op/dropout.h"
#include "kernels/op/elementwise.h"
#include "kernels/op/embedding.h"
#include "kernels/op/gemm.h"
#include "kernels/op/glu.h"
#include "kernels/op/join.h"
#include "kernels/op/loss.h"
#include "kernels/op/norm.h"
#include "kernels/op/optim.h"
#include "kernels/op/reduce.h"
#include "kernels/op/rope.h"
#include "kernels/op/route.h"
#include "kernels/op/slots.h"
#include "kernels/op/softmax.h"

/* Every kernel, one line each: X(name) has the argument struct lt_<name>_args. */
#define LT_KERNELS(X)                                                                                                  \
  X(gemm)                                                                                                              \
  X(unary)                                                                                                             \
  X(binary)                                                                                                            \
  X(copy)                                                                                                              \
  X(fill)                                                                                                              \
  X(cast)                                                                                                              \
  X(accumulate)                                                                                                        \
  X(add_n)                                                                                                             \
  X(concat)                                                                                                            \
  X(reduce)                                                                                                            \
  X(rmsnorm)                                                                                                           \
  X(rmsnorm_backward)                                                                                                  \
  X(layernorm)                                                                                                         \
  X(layernorm_backward)                                                                                                \
  X(rope)                                                                                                              \
  X(attention_spans)                                                                                                   \
  X(attention)                                                                                                         \
  X(attention_backward)                                                                                                \
  X(attention_key_sums)                                                                                                \
  X(swiglu)                                                                                                            \
  X(swiglu_backward)                                                                                                   \
  X(gelu)                                                                                                              \
  X(gelu_backward)                                                                                                     \
  X(softcap)                                                                                                           \
  X(softcap_backward)                                                                                                  \
  X(softmax)                                                                                                           \
  X(softmax_backward)                                                                                                  \
  X(dropout)                                                                                                           \
  X(embedding)                                                                                                         \
  X(embedding_backward)                                                                                                \
  X(label_logits)                                                                                                      \
  X(label_logits_backward)                                                                                             \
  X(label_logits_joint)                                                                                                \
  X(label_loss)                                                                                                        \
  X(label_loss_backward)                                                                                               \
  X(top_k)                                                                                                             \
  X(take_last)                                                                                                         \
  X(put_last)                                                                                                          \
  X(sort_stable)                                                                                                       \
  X(gather_rows)                                                                                                       \
  X(scatter_rows)                                                                                                      \
  X(write_rows)                                                                                                        \
  X(add_rows)                                                                                                          \
  X(sumsq)                                                                                                             \
  X(clip_scale)                                                                                                        \
  X(adamw)

/* Those that a table for bf16 has too; of the others its graph uses the kernels for float. */
#define LT_KERNELS_BF16(X)                                                                                             \
  X(gemm)                                                                                                              \
  X(unary)                                                                                                             \
  X(binary)                                                                                                            \
  X(rmsnorm)                                                                                                           \
  X(rmsnorm_backward)                                                                                                  \
  X(layernorm)                                                                                                         \
  X(layernorm_backward)                                                                                                \
  X(rope)                                                                                                              \
  X(attention)                                                                                                         \
  X(attention_backward)                                                                                                \
  X(swiglu)                                                                                                            \
  X(swiglu_backward)                                                                                                   \
  X(gelu)                                                                                                              \
  X(gelu_backward)                                                                                                     \
  X(softcap)                                                                                                           \
  X(softcap_backward)                                                                                                  \
  X(dropout)                                                                                                           \
  X(label_logits)                                                                                                      \
  X(label_logits_backward)                                                                                             \
  X(label_logits_joint)                                                                                                \
  X(write_rows)

typedef enum lt_kernel {
#define LT_KERNEL_ENUM(name) LT_KERNEL_##name,
  LT_KERNELS(LT_KERNEL_ENUM)
#undef LT_KERNEL_ENUM
      LT_KERNEL_COUNT
} lt_kernel;

typedef struct lt_stream lt_stream; /* NULL on the CPU: the call has finished when it returns */

typedef void (*lt_kernel_fn)(const void *args, lt_stream *stream);

/* A device: its kernels for each real type, and its memory. */
typedef struct lt_device {
  const char *name; /* "cpu", "cuda" */
  const char *isa;  /* "portable", "avx2", "avx512", "avx512_bf16", "amx" */
  const lt_kernel_fn
      *kernels[LT_DTYPE_COUNT]; /* by real type: an array of LT_KERNEL_COUNT, or NULL: none for that type */
  lt_status (*memory_create)(size_t bytes, void **out, lt_error *e); /* zeroed, 64-byte aligned */
  void (*memory_free)(void *p, size_t bytes);
} lt_device;

/* The CPU device with the best kernels this processor runs, or those that LTRAIN_ISA names if it runs them; never NULL,
** valid for the life of the process. */
const lt_device *lt_device_cpu(void);

/* The CPU device of an instruction set; "auto": the best. NULL: what the environment's LTRAIN_ISA names, else the best.
** A name that is unknown, or that this processor does not run, is an error that lists those it does. */
lt_status lt_device_cpu_isa(const char *isa, const lt_device **out, lt_error *e);

const char *lt_kernel_name(lt_kernel k);

/* Whether this process may use AMX tiles. Asks the system for them, which counts for all threads: choosing a device does. */
typedef enum lt_tiles {
  LT_TILES_NONE,      /* the processor has none */
  LT_TILES_NOT_SAVED, /* the system does not save them: it is too old, or told so */
  LT_TILES_REFUSED,   /* the system does not permit them */
  LT_TILES_GIVEN,
} lt_tiles;
lt_tiles lt_cpu_tiles(void);
const char *lt_cpu_tiles_text(lt_tiles tiles); /* a sentence */

/* Threads a CPU kernel will use, and a way to set it (OpenMP's); results depend on this number only through it. */
/* Version and core type of the library that multiplies matrices where our own kernels do not. */
const char *lt_cpu_library(void);
const char *lt_cpu_library_core(void); /* the processor it takes this one for */

int lt_cpu_threads(void);
void lt_cpu_set_threads(int n);

#endif
