/* test_dtype.c: names, sizes, loading and storing every type; bf16 rounding checked against neighbours. */
#include "check.h"

#include "core/dtype.h"

static void names(void) {
  static const struct {
    lt_dtype t;
    const char *name;
    size_t bytes;
    bool is_float;
  } want[] = {{LT_F32, "f32", 4, true},  {LT_F64, "f64", 8, true},  {LT_BF16, "bf16", 2, true},
              {LT_I32, "i32", 4, false}, {LT_I64, "i64", 8, false}, {LT_U8, "u8", 1, false}};
  CHECK_INT(sizeof want / sizeof *want, LT_DTYPE_COUNT);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    lt_dtype found = LT_DTYPE_COUNT;
    CHECK_STR(lt_dtype_name(want[i].t), want[i].name);
    CHECK_INT(lt_dtype_bytes(want[i].t), want[i].bytes);
    CHECK_INT(lt_dtype_is_float(want[i].t), want[i].is_float);
    CHECK(lt_dtype_find(want[i].name, &found));
    CHECK_INT(found, want[i].t);
  }
  lt_dtype untouched = LT_I64;
  CHECK(!lt_dtype_find("f16", &untouched));
  CHECK(!lt_dtype_find("", &untouched));
  CHECK_INT(untouched, LT_I64);
}

/* Store at index 1 of two; index 0 must not move. */
static double round_trip(lt_dtype t, double x) {
  uint64_t buffer[4] = {0};
  lt_dtype_store(t, buffer, 0, 1);
  lt_dtype_store(t, buffer, 1, x);
  CHECK_NEAR(lt_dtype_load(t, buffer, 0), 1, 0);
  return lt_dtype_load(t, buffer, 1);
}

static void values(void) {
  CHECK_NEAR(round_trip(LT_F64, 0.1), 0.1, 0);
  CHECK_NEAR(round_trip(LT_F32, 0.1), (double)0.1f, 0);
  CHECK_NEAR(round_trip(LT_I32, -7.9), -7, 0);
  CHECK_NEAR(round_trip(LT_I32, 3e9), INT32_MAX, 0);
  CHECK_NEAR(round_trip(LT_I32, -INFINITY), INT32_MIN, 0);
  CHECK_NEAR(round_trip(LT_I64, 1LL << 52), 1LL << 52, 0);
  CHECK_NEAR(round_trip(LT_I64, 1e300), 9223372036854775807.0, 0);
  CHECK_NEAR(round_trip(LT_U8, 255.9), 255, 0);
  CHECK_NEAR(round_trip(LT_U8, -1), 0, 0);
  CHECK_NEAR(round_trip(LT_U8, NAN), 0, 0);
  CHECK(isnan(round_trip(LT_F32, NAN)));
}

static void bf16_rounding(void) {
  double step = 0x1p-7; /* of bf16 in [1, 2) */
  CHECK_NEAR(round_trip(LT_BF16, 1 + step), 1 + step, 0);
  CHECK_NEAR(round_trip(LT_BF16, 1 + step * 0.49), 1, 0);
  CHECK_NEAR(round_trip(LT_BF16, 1 + step * 0.51), 1 + step, 0);
  CHECK_NEAR(round_trip(LT_BF16, 1 + step * 0.5), 1, 0); /* ties to even */
  CHECK_NEAR(round_trip(LT_BF16, 1 + step * 1.5), 1 + 2 * step, 0);
  CHECK_NEAR(round_trip(LT_BF16, -1 - step * 1.5), -1 - 2 * step, 0);
  /* a hair beside a tie: rounding to float32 first would call it a tie */
  CHECK_NEAR(round_trip(LT_BF16, 1 + step * 0.5 + 0x1p-40), 1 + step, 0);
  CHECK_NEAR(round_trip(LT_BF16, 1 + step * 1.5 - 0x1p-40), 1 + step, 0);
  CHECK_NEAR(round_trip(LT_BF16, -1 - step * 0.5 - 0x1p-40), -1 - step, 0);
  CHECK_NEAR(round_trip(LT_BF16, INFINITY), INFINITY, 0);
  CHECK_NEAR(round_trip(LT_BF16, 1e300), INFINITY, 0);
  CHECK_NEAR(round_trip(LT_BF16, 3.3895e38), 3.3895313892515355e38, 0); /* the largest one */
  CHECK_NEAR(round_trip(LT_BF16, 0), 0, 0);
  CHECK(isnan(round_trip(LT_BF16, NAN)));
}

int main(void) {
  names();
  values();
  bf16_rounding();
  return check_done();
}
