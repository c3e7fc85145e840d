/* rng.c: counter-based random numbers.
** Nothing here has state: element `index` of a stream is the same whoever computes it, in whatever order.
** Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, section 3.3. */
#include "core/rng.h"

#include "core/hash.h"

#include <math.h>

void lt_philox(const uint32_t c[4], const uint32_t k[2], uint32_t out[4]) {
  uint32_t c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], k0 = k[0], k1 = k[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xd2511f53u * c0;
    uint64_t p1 = (uint64_t)0xcd9e8d57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    k0 += 0x9e3779b9u; /* golden ratio */
    k1 += 0xbb67ae85u; /* sqrt(3) - 1 */
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

static uint64_t hash_seed(uint64_t start, uint64_t seed, const char *name) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(seed >> 8 * i); /* the same on any byte order */
  return lt_hash_finish(lt_hash_text(lt_hash_bytes(start, bytes, sizeof bytes), name));
}

lt_stream_key lt_rng_stream(uint64_t seed, const char *name) {
  /* two hashes of unlike starts: 128 bits keep streams of one seed apart */
  uint64_t key = hash_seed(LT_HASH_START, seed, name);
  uint64_t high = hash_seed(~LT_HASH_START, seed, name);
  return (lt_stream_key){{(uint32_t)key, (uint32_t)(key >> 32)}, {(uint32_t)high, (uint32_t)(high >> 32)}};
}

lt_stream_key lt_rng_stream_at(lt_stream_key s, uint64_t step) {
  /* a bijection of step: two steps of one stream never share their counters */
  uint64_t high = (uint64_t)s.high[1] << 32 | s.high[0];
  high = lt_hash_finish(high + (step + 1) * 0x9e3779b97f4a7c15u);
  s.high[0] = (uint32_t)high;
  s.high[1] = (uint32_t)(high >> 32);
  return s;
}

static void stream_block(lt_stream_key s, uint64_t block, uint32_t out[4]) {
  uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), s.high[0], s.high[1]};
  lt_philox(counter, s.key, out);
}

/* [0, 1) in steps of 2^-53. */
static double to_unit(uint32_t high, uint32_t low) { return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53; }

uint32_t lt_rng_u32(lt_stream_key s, uint64_t index) {
  uint32_t r[4];
  stream_block(s, index / 4, r);
  return r[index % 4];
}

double lt_rng_uniform(lt_stream_key s, uint64_t index) {
  uint32_t r[4];
  stream_block(s, index / 2, r);
  return index % 2 ? to_unit(r[2], r[3]) : to_unit(r[0], r[1]);
}

/* to_unit by conversions that every vector unit has, signed 32-bit ones: 27 high bits, 26 low, every step exact. */
static inline double to_unit_vector(uint32_t high, uint32_t low) {
  double top = (double)(int32_t)(high >> 5), rest = (double)(int32_t)((high & 31u) << 21 | low >> 11);
  return (top * 0x1p26 + rest) * 0x1p-53;
}

#define LT_RNG_LANES 32

/* 2 * LT_RNG_LANES uniforms from as many blocks side by side: lt_philox with its rounds outside, lanes inside. */
static void uniforms_of_blocks(lt_stream_key s, uint64_t block, double *out) {
  uint32_t c0[LT_RNG_LANES], c1[LT_RNG_LANES], c2[LT_RNG_LANES], c3[LT_RNG_LANES], k0 = s.key[0], k1 = s.key[1];
  for (int l = 0; l < LT_RNG_LANES; l++) {
    c0[l] = (uint32_t)(block + (uint64_t)l);
    c1[l] = (uint32_t)((block + (uint64_t)l) >> 32);
    c2[l] = s.high[0];
    c3[l] = s.high[1];
  }
  for (int round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
#pragma omp simd
    for (int l = 0; l < LT_RNG_LANES; l++) {
      uint64_t p0 = (uint64_t)0xd2511f53u * c0[l], p1 = (uint64_t)0xcd9e8d57u * c2[l];
      c0[l] = (uint32_t)(p1 >> 32) ^ c1[l] ^ k0;
      c2[l] = (uint32_t)(p0 >> 32) ^ c3[l] ^ k1;
      c1[l] = (uint32_t)p1;
      c3[l] = (uint32_t)p0;
    }
  }
#pragma omp simd
  for (int l = 0; l < LT_RNG_LANES; l++) {
    out[2 * l] = to_unit_vector(c0[l], c1[l]);
    out[2 * l + 1] = to_unit_vector(c2[l], c3[l]);
  }
}

void lt_rng_uniforms(lt_stream_key s, uint64_t first, int64_t n, double *out) {
  int64_t i = 0;
  if (n > 0 && first % 2) out[i++] = lt_rng_uniform(s, first); /* the second half of its block */
  for (; i + 2 * LT_RNG_LANES <= n; i += 2 * LT_RNG_LANES) uniforms_of_blocks(s, (first + (uint64_t)i) / 2, out + i);
  for (; i < n; i++) out[i] = lt_rng_uniform(s, first + (uint64_t)i);
}

double lt_rng_normal(lt_stream_key s, uint64_t index) {
  uint32_t r[4];
  stream_block(s, index, r);
  double u = 1.0 - to_unit(r[0], r[1]); /* (0, 1]: its logarithm is finite */
  double turn = 6.283185307179586476925 * to_unit(r[2], r[3]);
  return sqrt(-2.0 * log(u)) * cos(turn);
}
