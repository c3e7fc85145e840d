/* test_device.c: the CPU device: every kernel in the tables of both real types, memory, threads, names. */
#include "check.h"

#include "core/arena.h"
#include "kernels/kernels.h"

#include <stdlib.h>

static void test_tables(void) {
  const lt_device *d = lt_device_cpu();
  CHECK_STR(d->name, "cpu");
  CHECK(d == lt_device_cpu());
  for (int k = 0; k < LT_KERNEL_COUNT; k++) {
    CHECK(d->kernels[LT_F32][k] && d->kernels[LT_F64][k]);
    CHECK(d->kernels[LT_F32][k] != d->kernels[LT_F64][k]);
  }
  CHECK(!d->kernels[LT_I32] && !d->kernels[LT_U8]);
}

/* Every instruction set that runs here has tables of its own; a wrong name is an error that lists them. */
static void test_instruction_sets(void) {
  static const char *const sets[] = {"portable", "avx2", "avx512", "avx512_bf16", "amx"};
  const lt_device *best = NULL, *found[5];
  lt_error e = {0};
  int n = 0;
  unsetenv("LTRAIN_ISA");
  CHECK_INT(lt_device_cpu_isa("auto", &best, &e), LT_OK);
  CHECK(best == lt_device_cpu());
  for (int i = 0; i < 5; i++) {
    const lt_device *d = NULL;
    if (lt_device_cpu_isa(sets[i], &d, NULL) != LT_OK) continue;
    CHECK_STR(d->isa, sets[i]);
    CHECK_STR(d->name, "cpu");
    const bool bf16_alone = strstr(sets[i], "_bf16") || !strcmp(sets[i], "amx"); /* its reals are those of avx512 */
    for (int k = 0; k < LT_KERNEL_COUNT; k++)
      for (int other = 0; other < n; other++) {
        CHECK(bf16_alone || d->kernels[LT_F32][k] != found[other]->kernels[LT_F32][k]);
        CHECK(!d->kernels[LT_BF16][k] || d->kernels[LT_BF16][k] != found[other]->kernels[LT_BF16][k]);
      }
    setenv("LTRAIN_ISA", sets[i], 1);
    CHECK(lt_device_cpu() == d);
    found[n++] = d;
  }
  CHECK(n >= 1 && found[n - 1] == best);
  const lt_device *none = NULL;
  setenv("LTRAIN_ISA", "altivec", 1);
  CHECK_INT(lt_device_cpu_isa(NULL, &none, &e), LT_USAGE);
  CHECK(!none && strstr(e.what, "altivec") && strstr(e.what, "LTRAIN_ISA") && strstr(e.expected, "portable"));
  CHECK(strstr(e.expected, best->isa));
  CHECK(lt_device_cpu() == best); /* which cannot fail */
  CHECK_INT(lt_device_cpu_isa("", &none, NULL), LT_OK);
  unsetenv("LTRAIN_ISA");
}

/* AMX is taken where it is given, and else refused with the reason. */
static void test_tiles(void) {
  const lt_device *d = NULL;
  lt_error e = {0};
  const lt_tiles tiles = lt_cpu_tiles();
  CHECK_INT(lt_cpu_tiles(), tiles); /* however often it is asked */
  if (lt_device_cpu_isa("amx", &d, &e) == LT_OK) {
    CHECK_INT(tiles, LT_TILES_GIVEN);
    CHECK(d == lt_device_cpu());
    return;
  }
  CHECK(!d && tiles != LT_TILES_GIVEN);
  CHECK_STR(e.what, "this machine has no kernels for instruction set 'amx'");
  CHECK(strstr(e.expected, "auto, portable") && !strstr(e.expected, "amx"));
  CHECK_STR(e.got, "amx");
  CHECK(strstr(e.hint, tiles == LT_TILES_NONE ? "this processor has no AMX" : "this processor has AMX"));
  CHECK(strcmp(lt_device_cpu()->isa, "amx") != 0);
}

static void test_names(void) {
  CHECK_STR(lt_kernel_name(LT_KERNEL_gemm), "gemm");
  CHECK_STR(lt_kernel_name(LT_KERNEL_adamw), "adamw");
  CHECK_STR(lt_kernel_name(LT_KERNEL_COUNT), "?");
}

static void test_memory(void) {
  const lt_device *d = lt_device_cpu();
  static const size_t bytes[] = {0, 1, 63, 64, 100001};
  for (int i = 0; i < 5; i++) {
    void *p = NULL;
    lt_error e = {0};
    if (!CHECK_INT(d->memory_create(bytes[i], &p, &e), LT_OK)) continue;
    CHECK(p && (uintptr_t)p % LT_ARENA_ALIGN == 0);
    size_t set = 0;
    for (size_t b = 0; b < bytes[i]; b++) set += ((unsigned char *)p)[b] != 0;
    CHECK_INT(set, 0);
    d->memory_free(p, bytes[i]);
  }
  void *p = NULL;
  lt_error e = {0};
  CHECK_INT(d->memory_create(SIZE_MAX - 5, &p, &e), LT_FAILED);
  CHECK(e.what[0] && !p);
}

static void test_threads(void) {
  const int threads = lt_cpu_threads();
  CHECK(threads >= 1);
  lt_cpu_set_threads(3);
  CHECK_INT(lt_cpu_threads(), 3);
  lt_cpu_set_threads(0);
  CHECK_INT(lt_cpu_threads(), 1);
  lt_cpu_set_threads(threads);
}

/* OpenBLAS is told to use one thread, and takes that for all of OpenMP: the first call must put our number back. */
static void test_first_call(void) {
  lt_cpu_set_threads(3);
  lt_device_cpu();
  CHECK_INT(lt_cpu_threads(), 3);
}

int main(void) {
  test_first_call();
  test_tables();
  test_instruction_sets();
  test_tiles();
  test_names();
  test_memory();
  test_threads();
  return check_done();
}
