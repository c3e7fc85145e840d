/* test_embedding.c: rows by id and their gradient: ids of other shards give zeros and nothing, repeated ids add in the
** order of rows, to the bit. */
#include "kernels/harness.h"

static void check_embedding(lt_dtype t, int64_t rows, int64_t vocab, int64_t width, int64_t first) {
  array table = array_normal(t, vocab * width, "table", 1, 0), dy = array_normal(t, rows * width, "dy", 1, 0);
  array y = array_new(t, rows * width), dtable = array_new(t, vocab * width);
  array id = array_integers(rows, "id", first - 1, vocab + 3); /* some lie elsewhere */
  array y_want = array_new(t, rows * width), dtable_want = array_new(t, vocab * width);
  for (int64_t i = 0; i < vocab * width; i++) put(dtable_want, i, 0);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < width; j++) {
      const int64_t row = (int64_t)get(id, i) - first, at = row * width + j;
      const bool here = row >= 0 && row < vocab;
      put(y_want, i * width + j, here ? get(table, at) : 0);
      if (here) put(dtable_want, at, get(dtable_want, at) + get(dy, i * width + j)); /* rounded as it is stored */
    }
  lt_embedding_args a = {
      .id = id.p, .table = table.p, .y = y.p, .rows = rows, .vocab = vocab, .width = width, .first = first};
  RUN(t, embedding, &a, y);
  CHECK(same_bits(y, y_want));
  lt_embedding_backward_args b = {
      .id = id.p, .dy = dy.p, .dtable = dtable.p, .rows = rows, .vocab = vocab, .width = width, .first = first};
  RUN(t, embedding_backward, &b, dtable);
  CHECK(same_bits(dtable, dtable_want));
  for (int64_t i = 0; i < rows; i++) /* and once more, onto that */
    for (int64_t j = 0; j < width; j++) {
      const int64_t row = (int64_t)get(id, i) - first, at = row * width + j;
      if (row >= 0 && row < vocab) put(dtable_want, at, get(dtable_want, at) + get(dy, i * width + j));
    }
  b.add = 1;
  run(t, LT_KERNEL_embedding_backward, &b);
  CHECK(same_bits(dtable, dtable_want));
  CHECK(array_guard_whole(dtable));
  arrays_free();
}

int main(void) {
  static const int64_t sizes[] = {1, 3, 17, 129};
  for (int t = 0; t < COUNT(reals); t++) {
    for (int a = 0; a < COUNT(sizes); a++)
      for (int b = 0; b < COUNT(sizes); b++)
        check_embedding(reals[t], sizes[a], sizes[b], sizes[(a + b) % COUNT(sizes)], a * 10);
    check_embedding(reals[t], 2000, 17, 50, 3); /* enough for several threads */
    check_embedding(reals[t], 0, 5, 7, 0);
    check_embedding(reals[t], 5, 0, 7, 0);
    check_embedding(reals[t], 5, 5, 0, 0);
  }
  return check_done();
}
