/* test_slots.c: rows written into a buffer that lasts: those that go nowhere, and those that go to one row. */
#include "kernels/harness.h"

static void write_rows(lt_dtype t, int64_t rows, int64_t rows_y, int64_t width) {
  array x = array_normal(t, rows * width, "x", 1, 0), row = array_integers(rows, "row", -2, rows_y + 4);
  array y = array_normal(t, rows_y * width, "y", 1, 0), want = array_copy(y);
  lt_write_rows_args a = {x.p, row.p, y.p, rows, rows_y, width};
  for (int64_t i = 0; i < rows; i++) {
    const int64_t to = (int64_t)get(row, i);
    for (int64_t k = 0; to >= 0 && to < rows_y && k < width; k++) put(want, to * width + k, get(x, i * width + k));
  }
  run(t, LT_KERNEL_write_rows, &a);
  CHECK(same_bits(y, want));
  arrays_free();
}

int main(void) {
  static const lt_dtype types[] = {LT_F32, LT_F64, LT_BF16};
  for (int t = 0; t < COUNT(types); t++) {
    write_rows(types[t], 0, 5, 7);
    write_rows(types[t], 3, 0, 7);
    write_rows(types[t], 3, 5, 0);
    write_rows(types[t], 1, 1, 1);
    write_rows(types[t], 17, 5, 300); /* rows meet, and columns are shared out */
    write_rows(types[t], 64, 129, 1000);
  }
  return check_done();
}
