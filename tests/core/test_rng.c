/* test_rng.c: Philox against its published answers; streams apart, reproducible, and of the right distribution. */
#include "check.h"

#include "core/rng.h"

#include <stdbool.h>

/* From the Random123 distribution's known answers. */
static void known_answers(void) {
  static const struct {
    uint32_t c[4], k[2], out[4];
  } kat[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof kat / sizeof *kat; i++) {
    uint32_t out[4];
    lt_philox(kat[i].c, kat[i].k, out);
    for (int j = 0; j < 4; j++) CHECK_INT(out[j], kat[i].out[j]);
    memcpy(out, kat[i].c, sizeof out); /* in place too */
    lt_philox(out, kat[i].k, out);
    CHECK_INT(out[3], kat[i].out[3]);
  }
}

static bool same(lt_stream_key a, lt_stream_key b) { return memcmp(&a, &b, sizeof a) == 0; }

static void streams(void) {
  lt_stream_key a = lt_rng_stream(1, "init/a");
  CHECK(same(a, lt_rng_stream(1, "init/a")));
  CHECK(!same(a, lt_rng_stream(2, "init/a")));
  CHECK(!same(a, lt_rng_stream(1, "init/b")));
  CHECK(!same(a, lt_rng_stream(1ull << 40 | 1, "init/a"))); /* all 64 bits of the seed count */
  lt_stream_key s0 = lt_rng_stream_at(a, 0), s1 = lt_rng_stream_at(a, 1);
  CHECK(!same(a, s0) && !same(a, s1) && !same(s0, s1));
  CHECK(same(s1, lt_rng_stream_at(a, 1)));
  CHECK(s0.key[0] == a.key[0] && s0.key[1] == a.key[1]);
  CHECK(lt_rng_u32(s0, 5) != lt_rng_u32(s1, 5));
  CHECK(lt_rng_u32(a, 5) != lt_rng_u32(a, 5 + (1ull << 34))); /* all 64 bits of the index count */
}

/* Saves and recomputation rely on these staying what they are. */
static void values_stay(void) {
  lt_stream_key s = {{0, 0}, {0, 0}};
  CHECK_INT(lt_rng_u32(s, 0), 0x6627e8d5);
  CHECK_INT(lt_rng_u32(s, 3), 0x9b00dbd8);
  CHECK_NEAR(lt_rng_uniform(s, 0), (double)(0x6627e8d5e169c58du >> 11) * 0x1p-53, 0);
  CHECK_NEAR(lt_rng_uniform(s, 1), (double)(0xbc57ac4c9b00dbd8u >> 11) * 0x1p-53, 0);
  double u = lt_rng_uniform(s, 0), v = lt_rng_uniform(s, 1);
  CHECK_NEAR(lt_rng_normal(s, 0), sqrt(-2 * log(1 - u)) * cos(2 * acos(-1) * v), 1e-15);
}

/* A run of uniforms is the singles, wherever it starts and ends. */
static void runs(void) {
  enum { MOST = 200 };
  lt_stream_key s = lt_rng_stream(3, "test/runs");
  double u[MOST + 1];
  for (uint64_t first = (1ull << 33) - 5; first < (1ull << 33) + 5; first++) { /* the low counter word turns over */
    for (int n = 0; n <= MOST; n += n < 4 ? 1 : 14) {
      bool same_values = true;
      u[n] = -7;
      lt_rng_uniforms(s, first, n, u);
      for (int i = 0; i < n; i++) same_values = same_values && u[i] == lt_rng_uniform(s, first + (uint64_t)i);
      CHECK(same_values && u[n] == -7);
    }
  }
}

static void uniform_moments(void) {
  enum { N = 100000, BINS = 16 };
  lt_stream_key s = lt_rng_stream(7, "test/uniform");
  long bins[BINS] = {0};
  double sum = 0, lag = 0, before = 0;
  bool inside = true;
  for (int i = 0; i < N; i++) {
    double u = lt_rng_uniform(s, (uint64_t)i);
    inside = inside && u >= 0 && u < 1;
    bins[(int)(u * BINS)]++;
    sum += u;
    lag += (u - 0.5) * (before - 0.5);
    before = u;
  }
  CHECK(inside);
  CHECK_NEAR(sum / N, 0.5, 4 * 0.2887 / sqrt(N));
  CHECK_NEAR(lag / N, 0, 4.0 / 12 / sqrt(N));
  double chi2 = 0, expected = (double)N / BINS;
  for (int b = 0; b < BINS; b++) chi2 += ((double)bins[b] - expected) * ((double)bins[b] - expected) / expected;
  CHECK(chi2 < 37.7); /* 15 degrees of freedom, p = 0.001 */
}

static void normal_moments(void) {
  enum { N = 100000 };
  lt_stream_key s = lt_rng_stream(7, "test/normal");
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, lag = 0, before = 0;
  long beyond = 0;
  for (int i = 0; i < N; i++) {
    double x = lt_rng_normal(s, (uint64_t)i);
    m1 += x;
    m2 += x * x;
    m3 += x * x * x;
    m4 += x * x * x * x;
    lag += x * before;
    before = x;
    beyond += fabs(x) > 1.959963985;
  }
  CHECK_NEAR(m1 / N, 0, 4 / sqrt(N));
  CHECK_NEAR(m2 / N, 1, 4 * sqrt(2.0 / N));
  CHECK_NEAR(m3 / N, 0, 4 * sqrt(15.0 / N));
  CHECK_NEAR(m4 / N, 3, 4 * sqrt(96.0 / N));
  CHECK_NEAR(lag / N, 0, 4 / sqrt(N));
  CHECK_NEAR((double)beyond / N, 0.05, 4 * sqrt(0.05 * 0.95 / N));
}

int main(void) {
  known_answers();
  streams();
  values_stay();
  runs();
  uniform_moments();
  normal_moments();
  return check_done();
}
