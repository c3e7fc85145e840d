/* device.c: the CPU device: its kernel tables, one for each instruction set, memory, threads, names of the kernels.
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

/* Instruction sets, slowest first: their kernels are the same sources, compiled once more (CMakeLists.txt). */
#define LT_ENTRY_PORTABLE_F32(name) LT_ENTRY(name, f32_portable)
#define LT_ENTRY_PORTABLE_F64(name) LT_ENTRY(name, f64_portable)
LT_KERNELS(LT_ENTRY_PORTABLE_F32)
LT_KERNELS(LT_ENTRY_PORTABLE_F64)
#define LT_ENTRY_PORTABLE_BF16(name) LT_ENTRY(name, bf16_portable)
LT_KERNELS_BF16(LT_ENTRY_PORTABLE_BF16)
#define LT_SLOT_PORTABLE_F32(name) [LT_KERNEL_##name] = name##_f32_portable,
#define LT_SLOT_PORTABLE_F64(name) [LT_KERNEL_##name] = name##_f64_portable,
static const lt_kernel_fn portable_f32[LT_KERNEL_COUNT] = {LT_KERNELS(LT_SLOT_PORTABLE_F32)};
static const lt_kernel_fn portable_f64[LT_KERNEL_COUNT] = {LT_KERNELS(LT_SLOT_PORTABLE_F64)};
#define LT_SLOT_PORTABLE_BF16(name) [LT_KERNEL_##name] = name##_bf16_portable,
static const lt_kernel_fn portable_bf16[LT_KERNEL_COUNT] = {LT_KERNELS_BF16(LT_SLOT_PORTABLE_BF16)};

#ifdef LT_HAVE_X86
#define LT_ENTRY_AVX2_F32(name) LT_ENTRY(name, f32_avx2)
#define LT_ENTRY_AVX2_F64(name) LT_ENTRY(name, f64_avx2)
LT_KERNELS(LT_ENTRY_AVX2_F32)
LT_KERNELS(LT_ENTRY_AVX2_F64)
#define LT_ENTRY_AVX2_BF16(name) LT_ENTRY(name, bf16_avx2)
LT_KERNELS_BF16(LT_ENTRY_AVX2_BF16)
#define LT_SLOT_AVX2_F32(name) [LT_KERNEL_##name] = name##_f32_avx2,
#define LT_SLOT_AVX2_F64(name) [LT_KERNEL_##name] = name##_f64_avx2,
static const lt_kernel_fn avx2_f32[LT_KERNEL_COUNT] = {LT_KERNELS(LT_SLOT_AVX2_F32)};
static const lt_kernel_fn avx2_f64[LT_KERNEL_COUNT] = {LT_KERNELS(LT_SLOT_AVX2_F64)};
#define LT_SLOT_AVX2_BF16(name) [LT_KERNEL_##name] = name##_bf16_avx2,
static const lt_kernel_fn avx2_bf16[LT_KERNEL_COUNT] = {LT_KERNELS_BF16(LT_SLOT_AVX2_BF16)};

#define LT_ENTRY_AVX512_F32(name) LT_ENTRY(name, f32_avx512)
#define LT_ENTRY_AVX512_F64(name) LT_ENTRY(name, f64_avx512)
LT_KERNELS(LT_ENTRY_AVX512_F32)
LT_KERNELS(LT_ENTRY_AVX512_F64)
#define LT_ENTRY_AVX512_BF16(name) LT_ENTRY(name, bf16_avx512)
LT_KERNELS_BF16(LT_ENTRY_AVX512_BF16)
#define LT_SLOT_AVX512_F32(name) [LT_KERNEL_##name] = name##_f32_avx512,
#define LT_SLOT_AVX512_F64(name) [LT_KERNEL_##name] = name##_f64_avx512,
static const lt_kernel_fn avx512_f32[LT_KERNEL_COUNT] = {LT_KERNELS(LT_SLOT_AVX512_F32)};
static const lt_kernel_fn avx512_f64[LT_KERNEL_COUNT] = {LT_KERNELS(LT_SLOT_AVX512_F64)};
#define LT_SLOT_AVX512_BF16(name) [LT_KERNEL_##name] = name##_bf16_avx512,
static const lt_kernel_fn avx512_bf16[LT_KERNEL_COUNT] = {LT_KERNELS_BF16(LT_SLOT_AVX512_BF16)};

/* Sets that add instructions for bf16 alone: the kernels of float and double are those of avx512. */
#define LT_ENTRY_AVX512_BF16_BF16(name) LT_ENTRY(name, bf16_avx512_bf16)
LT_KERNELS_BF16(LT_ENTRY_AVX512_BF16_BF16)
#define LT_SLOT_AVX512_BF16_BF16(name) [LT_KERNEL_##name] = name##_bf16_avx512_bf16,
static const lt_kernel_fn avx512_bf16_bf16[LT_KERNEL_COUNT] = {LT_KERNELS_BF16(LT_SLOT_AVX512_BF16_BF16)};
#define LT_ENTRY_AMX_BF16(name) LT_ENTRY(name, bf16_amx)
LT_KERNELS_BF16(LT_ENTRY_AMX_BF16)
#define LT_SLOT_AMX_BF16(name) [LT_KERNEL_##name] = name##_bf16_amx,
static const lt_kernel_fn amx_bf16[LT_KERNEL_COUNT] = {LT_KERNELS_BF16(LT_SLOT_AMX_BF16)};
#endif

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

/* ---- Instruction sets ---- */

/* A set, and the one whose kernels of float and double it has. */
#define LT_DEVICE(set, reals)                                                                                          \
  {                                                                                                                    \
    .name = "cpu", .isa = #set, .kernels = {[LT_F32] = reals##_f32, [LT_F64] = reals##_f64, [LT_BF16] = set##_bf16},   \
    .memory_create = memory_create, .memory_free = memory_free,                                                        \
  }
static const lt_device devices[] = {
    LT_DEVICE(portable, portable),
#ifdef LT_HAVE_X86
    LT_DEVICE(avx2, avx2),         LT_DEVICE(avx512, avx512), LT_DEVICE(avx512_bf16, avx512), LT_DEVICE(amx, avx512),
#endif
};
#define DEVICES ((int)(sizeof devices / sizeof *devices))

/* Whether processor and system give what the flags of an instruction set let the compiler use. */
static bool runs_here(const lt_device *d) {
#ifdef LT_HAVE_X86
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (strcmp(d->isa, "avx2") == 0) return avx2;
  if (strcmp(d->isa, "avx512") == 0) return avx512;
  if (strcmp(d->isa, "avx512_bf16") == 0) return avx512 && __builtin_cpu_supports("avx512bf16");
  if (strcmp(d->isa, "amx") == 0)
    return avx512 && __builtin_cpu_supports("avx512bf16") && lt_cpu_tiles() == LT_TILES_GIVEN;
#endif
  return d == &devices[0];
}

/* Threads are ours: whatever OpenBLAS is called with, it answers on the thread that called. Its OpenMP flavour sets
** the number for the whole process at that, so ours is put back. */
static void quiet_library(void) {
  if (openblas_get_num_threads() == 1) return;
  int threads = omp_get_max_threads();
  openblas_set_num_threads(1);
  omp_set_num_threads(threads);
}

static const lt_device *best(void) {
  int i = DEVICES - 1;
  while (!runs_here(&devices[i])) i--;
  return &devices[i];
}

lt_status lt_device_cpu_isa(const char *isa, const lt_device **out, lt_error *e) {
  char known[128] = "";
  quiet_library();
  const bool asked = isa != NULL;
  if (!asked) isa = getenv("LTRAIN_ISA");
  if (!isa || !isa[0] || strcmp(isa, "auto") == 0) {
    *out = best();
    return LT_OK;
  }
  for (int i = 0; i < DEVICES; i++) {
    if (!runs_here(&devices[i])) continue;
    if (strcmp(devices[i].isa, isa) == 0) {
      *out = &devices[i];
      return LT_OK;
    }
    strcat(strcat(known, known[0] ? ", " : ""), devices[i].isa);
  }
  lt_fail(e, LT_USAGE, "this machine has no kernels for instruction set '%s'%s", isa, asked ? "" : " (LTRAIN_ISA)");
  lt_error_expected(e, "auto, %s", known);
  lt_error_got(e, "%s", isa);
  if (strcmp(isa, "amx") == 0) lt_error_hint(e, "%s", lt_cpu_tiles_text(lt_cpu_tiles()));
  return LT_USAGE;
}

const lt_device *lt_device_cpu(void) {
  const lt_device *d = NULL;
  return lt_device_cpu_isa(NULL, &d, NULL) == LT_OK ? d : best();
}

const char *lt_kernel_name(lt_kernel k) { return (unsigned)k < LT_KERNEL_COUNT ? names[k] : "?"; }

const char *lt_cpu_library(void) { return openblas_get_config(); }

const char *lt_cpu_library_core(void) { return openblas_get_corename(); }

int lt_cpu_threads(void) { return omp_get_max_threads(); }

void lt_cpu_set_threads(int n) { omp_set_num_threads(n < 1 ? 1 : n); }
