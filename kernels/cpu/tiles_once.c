/* tiles_once.c: whether this process may use AMX tiles: what the processor has, what the system saves, what it permits.
** Tiles are 8 KiB of state a thread. Linux gives them to a process that asks, once, for all of its threads: since 5.16,
** Documentation/arch/x86/xstate.rst. Compiled once: no instruction set is assumed. */
#include "kernels/kernels.h"

#if defined(LT_HAVE_X86) && defined(__linux__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM */
#define TILE_DATA          18     /* the number of the state, and its bit in XCR0 */
#define TILE_STATES        (3u << 17)
#define BITS_AMX           (1u << 22 | 1u << 24) /* AMX-BF16, AMX-TILE */
#define BIT_OSXSAVE        (1u << 27)

lt_tiles lt_cpu_tiles(void) {
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & BITS_AMX) != BITS_AMX) return LT_TILES_NONE;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & BIT_OSXSAVE)) return LT_TILES_NOT_SAVED;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & TILE_STATES) != TILE_STATES) return LT_TILES_NOT_SAVED;
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0 ? LT_TILES_GIVEN : LT_TILES_REFUSED;
}

#else
lt_tiles lt_cpu_tiles(void) { return LT_TILES_NONE; }
#endif

const char *lt_cpu_tiles_text(lt_tiles tiles) {
  static const char *const text[] = {
      [LT_TILES_NONE] = "this processor has no AMX for bf16",
      [LT_TILES_NOT_SAVED] = "this processor has AMX, but the system does not support it; Linux does since 5.16",
      [LT_TILES_REFUSED] = "this processor has AMX, but the system refuses it: Linux before 5.16, or a filter of calls",
      [LT_TILES_GIVEN] = "this processor has AMX, and the system gives it",
  };
  return text[tiles];
}
