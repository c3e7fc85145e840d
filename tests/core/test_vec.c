/* test_vec.c: a growing array keeps what it holds and hands out zeroed elements. */
#include "check.h"

#include "core/vec.h"

typedef struct pair {
  int64_t a;
  char b;
} pair;

int main(void) {
  LT_VEC(pair) v = {0};
  for (int i = 0; i < 1000; i++) {
    pair *p = lt_vec_push(&v);
    if (!CHECK(p != NULL)) return check_done();
    CHECK(p->a == 0 && p->b == 0);
    p->a = i;
    p->b = (char)(i % 100);
  }
  CHECK_INT(v.n, 1000);
  CHECK(v.cap >= v.n);
  CHECK_INT(v.at[0].a, 0);
  CHECK_INT(v.at[999].a, 999);
  CHECK_INT(v.at[517].b, 17);
  lt_vec_free(&v);
  CHECK(v.at == NULL && v.n == 0 && v.cap == 0);
  return check_done();
}
