/* rng.h: counter-based random numbers, a pure function of (seed, stream name, index).
** The same on every layout: nothing carries state, so any rank computes any element alone.
** Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, section 3. */
#ifndef LT_CORE_RNG_H
#define LT_CORE_RNG_H

#include <stdint.h>

/* Ten rounds of Philox4x32 on counter c with key k. */
void lt_philox(const uint32_t c[4], const uint32_t k[2], uint32_t out[4]);

/* A stream: seed and a name ("init/layer 0/attention.q") hashed to the key and the upper counter words. */
typedef struct lt_stream_key {
  uint32_t key[2];
  uint32_t high[2]; /* counter words 2 and 3 */
} lt_stream_key;

lt_stream_key lt_rng_stream(uint64_t seed, const char *name);
/* The same stream at step `step`: dropout masks of different steps are independent. */
lt_stream_key lt_rng_stream_at(lt_stream_key s, uint64_t step);

uint32_t lt_rng_u32(lt_stream_key s, uint64_t index);
double lt_rng_uniform(lt_stream_key s, uint64_t index); /* [0, 1), 53 bits */
/* out[i] = lt_rng_uniform(s, first + i), several Philox blocks at a time. */
void lt_rng_uniforms(lt_stream_key s, uint64_t first, int64_t n, double *out);
double lt_rng_normal(lt_stream_key s, uint64_t index); /* Box-Muller on one Philox block: standard normal */

#endif
