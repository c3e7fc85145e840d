/* test_tensor.c: shapes, zeroed and aligned memory, every way creating a tensor is refused. */
#include "check.h"

#include "core/tensor.h"

#include <stdbool.h>

static void makes(void) {
  lt_error e = {0};
  lt_tensor *t = NULL;
  if (!CHECK_INT(lt_tensor_create(LT_BF16, 3, (int64_t[]){2, 3, 5}, &t, &e), LT_OK)) return;
  CHECK_INT(t->dtype, LT_BF16);
  CHECK_INT(t->rank, 3);
  CHECK_INT(t->dim[2], 5);
  CHECK_INT(lt_tensor_count(t), 30);
  CHECK_INT(lt_tensor_bytes(t), 60);
  CHECK_INT((uintptr_t)t->data % 64, 0);
  bool zero = true;
  for (int i = 0; i < 60; i++) zero = zero && ((unsigned char *)t->data)[i] == 0;
  CHECK(zero);
  lt_tensor_free(t);
}

static void scalar_and_empty(void) {
  lt_error e = {0};
  lt_tensor *t = NULL;
  if (!CHECK_INT(lt_tensor_create(LT_F64, 0, NULL, &t, &e), LT_OK)) return;
  CHECK_INT(lt_tensor_count(t), 1);
  CHECK(t->data != NULL);
  lt_tensor_free(t);
  if (!CHECK_INT(lt_tensor_create(LT_F64, 3, (int64_t[]){INT64_MAX, 2, 0}, &t, &e), LT_OK)) return;
  CHECK_INT(lt_tensor_count(t), 0);
  CHECK_INT(lt_tensor_bytes(t), 0);
  CHECK(t->data == NULL);
  lt_tensor_free(t);
  lt_tensor_free(NULL);
}

static void refused(lt_dtype d, int rank, const int64_t *dim, lt_status code, const char *what) {
  lt_error e = {0};
  lt_tensor *t = (lt_tensor *)&e;
  CHECK_INT(lt_tensor_create(d, rank, dim, &t, &e), code);
  CHECK(t == NULL);
  CHECK_INT(e.code, code);
  CHECK_STR(e.what, what);
}

static void refusals(void) {
  int64_t dim[5] = {1, 1, 1, 1, 1};
  refused(LT_F32, 5, dim, LT_USAGE, "a tensor has 0 to 4 dimensions, not 5");
  refused(LT_F32, -1, dim, LT_USAGE, "a tensor has 0 to 4 dimensions, not -1");
  refused(LT_DTYPE_COUNT, 1, dim, LT_USAGE, "no such dtype: 6");
  dim[1] = -3;
  refused(LT_F32, 2, dim, LT_USAGE, "dimension 2 is negative: -3");
  dim[0] = 0; /* an empty shape is no excuse */
  refused(LT_F32, 2, dim, LT_USAGE, "dimension 2 is negative: -3");
  refused(LT_U8, 2, (int64_t[]){1ll << 32, 1ll << 32}, LT_USAGE, "the shape has more bytes than can be addressed");
  refused(LT_F64, 1, (int64_t[]){INT64_MAX / 4}, LT_USAGE, "the shape has more bytes than can be addressed");
  refused(LT_U8, 1, (int64_t[]){INT64_MAX / 2}, LT_FAILED, "out of memory: 4611686018427387903 bytes for a tensor");
}

int main(void) {
  makes();
  scalar_and_empty();
  refusals();
  return check_done();
}
