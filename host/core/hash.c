/* hash.c: a 64-bit hash of bytes, the same on every machine.
** Plans and files carry it, so its values never change; not for secrets.
** FNV-1a (Fowler, Noll, Vo) with the final mix of MurmurHash3 (Appleby). */
#include "core/hash.h"

#include <string.h>

uint64_t lt_hash_bytes(uint64_t h, const void *p, size_t n) {
  const unsigned char *s = p;
  for (size_t i = 0; i < n; i++) h = (h ^ s[i]) * 0x100000001b3u;
  return h;
}

uint64_t lt_hash_text(uint64_t h, const char *s) { return lt_hash_bytes(h, s, strlen(s) + 1); }

uint64_t lt_hash_finish(uint64_t h) {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdu;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53u;
  h ^= h >> 33;
  return h;
}
