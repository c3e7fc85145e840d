/* vec.h: a growing array as three fields, for arrays of plain structs.
** LT_VEC(T) declares the fields; lt_vec_push makes room for one more element and yields its address, or NULL. */
#ifndef LT_CORE_VEC_H
#define LT_CORE_VEC_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LT_VEC(T)                                                                                                      \
  struct {                                                                                                             \
    T *at;                                                                                                             \
    int64_t n, cap;                                                                                                    \
  }

/* Room for `want` more elements of `size` bytes behind *at; returns 0 when memory is short. */
static inline int lt_vec_grow(void **at, const int64_t *n, int64_t *cap, int64_t want, size_t size) {
  if (*n + want <= *cap) return 1;
  int64_t c = *cap ? *cap * 2 : 16;
  while (c < *n + want) c *= 2;
  void *p = realloc(*at, (size_t)c * size);
  if (!p) return 0;
  *at = p;
  *cap = c;
  return 1;
}

/* Address of a new zeroed element at the end, or NULL. */
#define lt_vec_push(v)                                                                                                 \
  (lt_vec_grow((void **)&(v)->at, &(v)->n, &(v)->cap, 1, sizeof *(v)->at)                                              \
       ? memset(&(v)->at[(v)->n++], 0, sizeof *(v)->at)                                                                \
       : NULL)

#define lt_vec_free(v) (free((v)->at), (v)->at = NULL, (v)->n = (v)->cap = 0)

#endif
