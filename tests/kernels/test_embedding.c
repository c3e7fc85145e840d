/* test_embedding.c: rows by id and their gradient: shards add up to the whole, repeated ids add in the order of rows. */
#include "tests/check.h"
#include "tests/kernels/reals.h"

static void check_embedding(lt_dtype t, int64_t rows, int64_t vocab, int64_t width, int64_t first) {
  uint64_t seed = 3;
  void *table = noisy(t, vocab * width, 1, &seed), *y = poisoned(t, rows * width);
  void *dy = noisy(t, rows * width, 1, &seed), *dtable = poisoned(t, vocab * width);
  double *want = calloc((size_t)(vocab * width) + 1, sizeof *want);
  int32_t *id = malloc((size_t)rows * sizeof *id + 4);
  for (int64_t i = 0; i < rows; i++) id[i] = (int32_t)(first + (i * 7) % (vocab + 3) - 1); /* some lie elsewhere */
  run(t, LT_KERNEL_embedding,
      &(lt_embedding_args){
          .id = id, .table = table, .y = y, .rows = rows, .vocab = vocab, .width = width, .first = first});
  int wrong = 0;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < width; j++) {
      int64_t at = id[i] - first;
      bool here = at >= 0 && at < vocab;
      wrong += get(t, y, i * width + j) != (here ? get(t, table, at * width + j) : 0);
      if (!here) continue;
      double sum = want[at * width + j] + get(t, dy, i * width + j);
      want[at * width + j] = t == LT_F32 ? (double)(float)sum : sum; /* rounded as the kernel rounds, in its order */
    }
  CHECK_INT(wrong, 0);
  CHECK(unspilt(t, y, rows * width));
  run(t, LT_KERNEL_embedding_backward,
      &(lt_embedding_backward_args){
          .id = id, .dy = dy, .dtable = dtable, .rows = rows, .vocab = vocab, .width = width, .first = first});
  CHECK_NEAR(distance(t, dtable, want, vocab * width, 1), 0, 0);
  CHECK(unspilt(t, dtable, vocab * width));
  free(table), free(y), free(dy), free(dtable), free(want), free(id);
}

int main(void) {
  const int64_t sizes[] = {1, 3, 17, 129};
  for (int i = 0; i < 2; i++) {
    for (int a = 0; a < 4; a++)
      for (int b = 0; b < 4; b++) check_embedding(real_types[i], sizes[a], sizes[b], sizes[(a + b) % 4], a * 10);
    check_embedding(real_types[i], 0, 5, 7, 0);
    check_embedding(real_types[i], 5, 0, 7, 0);
    check_embedding(real_types[i], 5, 5, 0, 0);
  }
  return check_done();
}
