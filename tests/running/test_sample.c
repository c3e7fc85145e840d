/* test_sample.c: the draw of a token: shares, temperature, the largest k, ties, seeds, what is not finite. */
#include "check.h"
#include "run/sample.h"

#include <stdlib.h>

enum { N = 5 };
static double work[2 * N];

static int32_t draw(const lt_sampling *how, const double *l, uint64_t index) {
  lt_error e = {0};
  int32_t token = -1;
  const lt_tensor t = {.dtype = LT_F64, .rank = 2, .dim = {1, N}, .data = (void *)(uintptr_t)l};
  CHECK_INT(lt_sample(how, &t, index, work, &token, &e), LT_OK);
  return token;
}

static void shares(const lt_sampling *how, const double *l, double *share) {
  enum { DRAWS = 20000 };
  for (int i = 0; i < N; i++) share[i] = 0;
  for (uint64_t i = 0; i < DRAWS; i++) share[draw(how, l, i)] += 1.0 / DRAWS;
}

static void test_shares(void) {
  const double l[N] = {log(0.1), log(0.4), log(0.2), log(0.3), -INFINITY};
  double share[N], flat = 0;
  shares(&(lt_sampling){.temperature = 1}, l, share);
  for (int i = 0; i < N; i++) CHECK_NEAR(share[i], exp(l[i]), 0.015);
  shares(&(lt_sampling){.temperature = 2}, l, share);
  for (int i = 0; i < N; i++) flat += exp(l[i] / 2);
  for (int i = 0; i < N; i++) CHECK_NEAR(share[i], exp(l[i] / 2) / flat, 0.015);
  shares(&(lt_sampling){.temperature = 1, .top_k = 2}, l, share);
  CHECK_NEAR(share[1], 4.0 / 7, 0.015);
  CHECK_NEAR(share[1] + share[3], 1, 1e-9);
  shares(&(lt_sampling){.temperature = 1, .below = 2}, l, share);
  CHECK_NEAR(share[0], 0.2, 0.015);
  CHECK_NEAR(share[0] + share[1], 1, 1e-9);
  CHECK_INT(draw(&(lt_sampling){.temperature = 1e-300}, l, 3), 1);
}

static void test_ties(void) {
  const double l[N] = {1, 3, 3, 3, -2};
  double share[N];
  CHECK_INT(draw(&(lt_sampling){0}, l, 0), 1);
  CHECK_INT(draw(&(lt_sampling){.temperature = 5, .top_k = 1}, l, 9), 1);
  shares(&(lt_sampling){.temperature = 1, .top_k = 2}, l, share);
  CHECK_NEAR(share[1], 0.5, 0.015);
  CHECK_NEAR(share[1] + share[2], 1, 1e-9);
}

static void test_seeds(void) {
  const double l[N] = {0, 0, 0, 0, 0};
  const lt_sampling a = {.temperature = 1, .seed = 7}, b = {.temperature = 1, .seed = 8};
  int same = 0, again = 0;
  for (uint64_t i = 0; i < 100; i++) {
    same += draw(&a, l, i) == draw(&b, l, i);
    again += draw(&a, l, i) == draw(&a, l, i);
  }
  CHECK_INT(again, 100);
  CHECK(same < 50);
}

static void test_refusals(void) {
  double l[N] = {0, 1, NAN, 2, 3};
  lt_error e = {0};
  int32_t token;
  const lt_tensor t = {.dtype = LT_F64, .rank = 1, .dim = {N}, .data = l};
  CHECK_INT(lt_sample(&(lt_sampling){0}, &t, 4, work, &token, &e), LT_FAILED);
  CHECK_STR(e.what, "the logit of token 2 is no finite number");
  CHECK_STR(e.where, "token 5 of the new text");
  CHECK_STR(e.got, "NaN");
  CHECK_INT(lt_sample(&(lt_sampling){.below = 2}, &t, 4, work, &token, NULL), LT_OK);
  l[2] = INFINITY;
  CHECK_INT(lt_sample(&(lt_sampling){.temperature = 1}, &t, 4, work, &token, NULL), LT_FAILED);
  for (int i = 0; i < N; i++) l[i] = -INFINITY;
  CHECK_INT(lt_sample(&(lt_sampling){.temperature = 1}, &t, 4, work, &token, NULL), LT_FAILED);
}

int main(void) {
  test_shares();
  test_ties();
  test_seeds();
  test_refusals();
  return check_done();
}
