/* hash.h: a 64-bit hash of bytes, stable across machines and builds (plans, controls, files).
** FNV-1a with a final avalanche (MurmurHash3's fmix64); not for secrets. */
#ifndef LT_CORE_HASH_H
#define LT_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define LT_HASH_START 0xcbf29ce484222325u

uint64_t lt_hash_bytes(uint64_t h, const void *p, size_t n); /* continue h */
uint64_t lt_hash_text(uint64_t h, const char *s);            /* the NUL is part of it */
uint64_t lt_hash_finish(uint64_t h);

#endif
