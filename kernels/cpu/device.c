/* device.c: the CPU device: its kernel tables, memory, threads, and the names of the kernels.
** Compiled once, unlike its neighbours. Kernels are synchronous: a stream is always NULL here. */
#include "core/arena.h"
#include "kernels/kernels.h"

#include <cblas.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* A typed kernel behind the untyped table entry: a cast of the function pointer would be undefined. */
#define LT_ENTRY(name, suffix)                                                                                         \
  void lt_cpu_##name##_##suffix(const lt_##name##_args *a);                                                            \
  static void name##_##suffix(const void *args, lt_stream *stream) {                                                   \
    (void)stream;                                                                                                      \
    lt_cpu_##name##_##suffix(args);                                                                                    \
  }
#define LT_ENTRY_F32(name) LT_ENTRY(name, f32)
#define LT_ENTRY_F64(name) LT_ENTRY(name, f64)
LT_KERNELS(LT_ENTRY_F32)
LT_KERNELS(LT_ENTRY_F64)

#define LT_SLOT_F32(name) [LT_KERNEL_##name] = name##_f32,
#define LT_SLOT_F64(name) [LT_KERNEL_##name] = name##_f64,
static const lt_kernel_fn table_f32[LT_KERNEL_COUNT] = {LT_KERNELS(LT_SLOT_F32)};
static const lt_kernel_fn table_f64[LT_KERNEL_COUNT] = {LT_KERNELS(LT_SLOT_F64)};

#define LT_NAME(name) [LT_KERNEL_##name] = #name,
static const char *const names[LT_KERNEL_COUNT] = {LT_KERNELS(LT_NAME)};

static lt_status memory_create(size_t bytes, void **out, lt_error *e) {
  size_t whole = (bytes + LT_ARENA_ALIGN - 1) / LT_ARENA_ALIGN * LT_ARENA_ALIGN;
  if (whole < bytes) return lt_fail_memory(e, bytes, "device memory");
  if (!whole) whole = LT_ARENA_ALIGN;
  void *p = aligned_alloc(LT_ARENA_ALIGN, whole);
  if (!p) return lt_fail_memory(e, bytes, "device memory");
  memset(p, 0, whole);
  *out = p;
  return LT_OK;
}

static void memory_free(void *p, size_t bytes) {
  (void)bytes;
  free(p);
}

static const lt_device cpu = {
    .name = "cpu",
    .isa = "portable",
    .kernels = {[LT_F32] = table_f32, [LT_F64] = table_f64},
    .memory_create = memory_create,
    .memory_free = memory_free,
};

const lt_device *lt_device_cpu(void) {
  /* Threads are ours: whatever OpenBLAS is called with, it answers on the thread that called. Its OpenMP flavour sets
  ** the number for the whole process at that, so ours is put back. */
  if (openblas_get_num_threads() != 1) {
    int threads = omp_get_max_threads();
    openblas_set_num_threads(1);
    omp_set_num_threads(threads);
  }
  return &cpu;
}

const char *lt_kernel_name(lt_kernel k) { return (unsigned)k < LT_KERNEL_COUNT ? names[k] : "?"; }

int lt_cpu_threads(void) { return omp_get_max_threads(); }

void lt_cpu_set_threads(int n) { omp_set_num_threads(n < 1 ? 1 : n); }
