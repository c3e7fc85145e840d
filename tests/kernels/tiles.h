/* tiles.h: the kernels for AMX on a processor without it: its instructions trap, and are carried out here, one by one.
** So the very code that runs where there is AMX is tested, its registers, addresses and order too; what would fault
** there ends the test. What they compute is what Intel's Software Developer's Manual, volume 2, writes for each of them: of
** TDPBF16PS every sum is rounded to nearest even, denormals are 0, a row's pairs are summed before C is added. */
#ifndef LT_TESTS_KERNELS_TILES_H
#define LT_TESTS_KERNELS_TILES_H

#include "kernels/kernels.h"

#include <immintrin.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

typedef struct tile {
  uint16_t columns; /* bytes of a row */
  uint8_t rows;
  uint8_t at[16][64];
} tile;

static _Thread_local struct {
  bool configured;
  tile tile[8];
} tiles;

static atomic_long tiles_held;                            /* threads that have not released theirs */
static atomic_long tiles_dots, tiles_loads, tiles_stores; /* instructions so far */

/* What the processor would answer by a fault. */
static inline void tiles_fault(const char *what) {
  static const char end[] = ": a fault, on a processor that has AMX\n";
  (void)!write(2, what, strlen(what));
  (void)!write(2, end, sizeof end - 1);
  _exit(1);
}

/* ---- The instructions ---- */

static inline void tiles_release(void) {
  if (tiles.configured) atomic_fetch_sub(&tiles_held, 1);
  tiles.configured = false;
}

static inline void tiles_configure(const uint8_t *from) {
  tiles_release();
  if (from[0] == 0) return; /* the same as releasing them */
  if (from[0] != 1 || from[1]) tiles_fault("LDTILECFG: palette or first row");
  for (int i = 2; i < 16; i++)
    if (from[i]) tiles_fault("LDTILECFG: reserved bytes");
  for (int t = 0; t < 16; t++) {
    uint16_t columns;
    const uint8_t rows = from[48 + t];
    memcpy(&columns, from + 16 + 2 * t, sizeof columns);
    if (columns > 64 || rows > 16 || !columns != !rows || (t >= 8 && rows)) tiles_fault("LDTILECFG: shape");
    if (t >= 8) continue;
    memset(&tiles.tile[t], 0, sizeof tiles.tile[t]);
    tiles.tile[t].columns = columns;
    tiles.tile[t].rows = rows;
  }
  tiles.configured = true;
  atomic_fetch_add(&tiles_held, 1);
}

/* A configured tile. */
static inline tile *tiles_of(unsigned t) {
  if (!tiles.configured || t > 7 || !tiles.tile[t].rows) tiles_fault("a tile that is not configured");
  return &tiles.tile[t];
}

static inline void tiles_load(tile *t, const char *from, int64_t stride) {
  memset(t->at, 0, sizeof t->at);
  for (int i = 0; i < t->rows; i++) memcpy(t->at[i], from + i * stride, t->columns);
}

static inline void tiles_store(const tile *t, char *to, int64_t stride) {
  for (int i = 0; i < t->rows; i++) memcpy(to + i * stride, t->at[i], t->columns);
}

#ifdef __clang__
#define TILES_FAST __attribute__((target("avx2,fma")))
#else
#define TILES_FAST __attribute__((target("avx2,fma"), optimize("O3")))
#endif

/* sum += a b in float32, where pairs of b are 16 columns. */
TILES_FAST static inline void tiles_dot_pair(const uint8_t *a, const uint8_t *b, float *even, float *odd) {
  uint32_t pair, row[16];
  float x, y, u[16], v[16];
  memcpy(&pair, a, 4);
  memcpy(row, b, 64);
  memcpy(&x, &(uint32_t){pair << 16}, 4);
  memcpy(&y, &(uint32_t){pair & 0xffff0000u}, 4);
  for (int n = 0; n < 16; n++) {
    const uint32_t low = row[n] << 16, high = row[n] & 0xffff0000u;
    memcpy(u + n, &low, 4);
    memcpy(v + n, &high, 4);
  }
  for (int n = 0; n < 16; n++) even[n] = __builtin_fmaf(x, u[n], even[n]);
  for (int n = 0; n < 16; n++) odd[n] = __builtin_fmaf(y, v[n], odd[n]);
}

/* Denormals are 0, whatever the program's own mode is: it comes back when the signal is through. */
static inline void tiles_dot(tile *c, const tile *a, const tile *b) {
  if (c == a || c == b || a == b) tiles_fault("TDPBF16PS: a tile twice");
  if (a->columns % 4 || b->columns % 4 || c->columns % 4 || a->columns / 4 != b->rows || c->rows != a->rows ||
      c->columns != b->columns)
    tiles_fault("TDPBF16PS: shapes");
  _mm_setcsr(0x9fc0);
  for (int m = 0; m < a->rows; m++) {
    float even[16] = {0}, odd[16] = {0}, sum[16];
    for (int k = 0; k < a->columns / 4; k++) tiles_dot_pair(a->at[m] + 4 * k, b->at[k], even, odd);
    memcpy(sum, c->at[m], 64);
    for (int n = 0; n < 16; n++) sum[n] += even[n] + odd[n];
    memcpy(c->at[m], sum, c->columns);
  }
  atomic_fetch_add(&tiles_dots, 1);
}

/* ---- Decoding: three bytes of VEX, the operation, its operands ---- */

typedef struct decoded {
  unsigned prefix, operation, reg, vvvv; /* prefix: 0 none, 1 66, 2 F3, 3 F2 */
  bool memory;
  unsigned rm;
  char *base;
  int64_t stride;
  int64_t length; /* bytes of the instruction */
} decoded;

static inline int64_t tiles_register(const ucontext_t *u, unsigned r) {
  static const int place[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return u->uc_mcontext.gregs[place[r]];
}

static inline bool tiles_decode(const ucontext_t *u, decoded *d) {
  const uint8_t *at = (const uint8_t *)u->uc_mcontext.gregs[REG_RIP], *p = at;
  if (p[0] != 0xc4 || (p[1] & 0x1f) != 2 || (p[2] & 0x84)) return false; /* map 0F38, W 0, 128 bits */
  const unsigned x = p[1] & 0x40 ? 0 : 8, b = p[1] & 0x20 ? 0 : 8, mod = p[4] >> 6, rm = p[4] & 7;
  *d = (decoded){.prefix = p[2] & 3, .vvvv = ~(unsigned)(p[2] >> 3) & 15, .operation = p[3], .memory = mod != 3};
  d->reg = (p[4] >> 3 & 7) | (p[1] & 0x80 ? 0 : 8);
  d->rm = rm | b;
  p += 5;
  int32_t far = 0;
  int64_t base = 0;
  bool by_rip = false, no_base = false;
  if (d->memory && rm == 4) { /* base + (index << scale) */
    const unsigned index = (*p >> 3 & 7) | x, low = *p & 7;
    d->stride = index == 4 ? 0 : tiles_register(u, index) * (1 << (*p >> 6));
    no_base = low == 5 && mod == 0;
    base = no_base ? 0 : tiles_register(u, low | b);
    p++;
  } else if (d->memory) {
    by_rip = mod == 0 && rm == 5;
    base = by_rip ? 0 : tiles_register(u, d->rm);
  }
  if (d->memory && mod == 1) far = (int8_t)*p, p++;
  if (d->memory && (mod == 2 || by_rip || no_base)) memcpy(&far, p, 4), p += 4;
  d->length = p - at;
  d->base = (char *)(base + far + (by_rip ? (int64_t)p : 0));
  return true;
}

static void tiles_trap(int signal_number, siginfo_t *info, void *context) {
  ucontext_t *u = context;
  decoded d;
  (void)info;
  if (!tiles_decode(u, &d)) {
    signal(signal_number, SIG_DFL); /* not ours: it ends the test */
    return;
  }
  if (d.operation == 0x49 && d.prefix == 0 && d.memory)
    tiles_configure((const uint8_t *)d.base + d.stride);
  else if (d.operation == 0x49 && d.prefix == 0 && d.reg == 0 && d.rm == 0)
    tiles_release();
  else if (d.operation == 0x49 && d.prefix == 3 && !d.memory && d.rm == 0)
    memset(tiles_of(d.reg)->at, 0, sizeof tiles.tile[0].at);
  else if (d.operation == 0x4b && (d.prefix == 3 || d.prefix == 1) && d.memory)
    tiles_load(tiles_of(d.reg), d.base, d.stride), atomic_fetch_add(&tiles_loads, 1);
  else if (d.operation == 0x4b && d.prefix == 2 && d.memory)
    tiles_store(tiles_of(d.reg), d.base, d.stride), atomic_fetch_add(&tiles_stores, 1);
  else if (d.operation == 0x5c && d.prefix == 2 && !d.memory)
    tiles_dot(tiles_of(d.reg), tiles_of(d.rm), tiles_of(d.vvvv));
  else
    tiles_fault("an instruction that is not known here");
  u->uc_mcontext.gregs[REG_RIP] += d.length;
}

/* ---- The kernels ---- */

#define TILES_ENTRY(name)                                                                                              \
  void lt_cpu_##name##_bf16_amx(const lt_##name##_args *a);                                                            \
  static inline void name##_tiles(const void *args, lt_stream *stream) {                                               \
    (void)stream;                                                                                                      \
    lt_cpu_##name##_bf16_amx(args);                                                                                    \
  }
LT_KERNELS_BF16(TILES_ENTRY)
#define TILES_SLOT(name) [LT_KERNEL_##name] = name##_tiles,
static const lt_kernel_fn tiles_kernels[LT_KERNEL_COUNT] = {LT_KERNELS_BF16(TILES_SLOT)};

/* As lt_device_cpu_isa("amx") would give it; false: the rest of those kernels does not run here. */
static inline bool tiles_emulate(lt_device *out) {
  struct sigaction trap = {.sa_flags = SA_SIGINFO | SA_NODEFER};
  const lt_device *rest = NULL;
  if (lt_device_cpu_isa("avx512_bf16", &rest, NULL) != LT_OK) return false;
  trap.sa_sigaction = tiles_trap;
  if (sigaction(SIGILL, &trap, NULL) != 0) return false;
  *out = *rest;
  out->isa = "amx";
  out->kernels[LT_BF16] = tiles_kernels;
  return true;
}

#endif
