/* test_hash.c: the hash is FNV-1a with fmix64, its values never change, and one bit moves about half of them. */
#include "check.h"

#include "core/hash.h"

/* Published FNV-1a 64 values, before the final mix. */
static void known_answers(void) {
  CHECK(lt_hash_bytes(LT_HASH_START, "", 0) == 0xcbf29ce484222325u);
  CHECK(lt_hash_bytes(LT_HASH_START, "a", 1) == 0xaf63dc4c8601ec8cu);
  CHECK(lt_hash_bytes(LT_HASH_START, "foobar", 6) == 0x85944171f73967e8u);
  CHECK(lt_hash_finish(0) == 0);
  CHECK(lt_hash_finish(1) == 0xb456bcfc34c2cb2cu); /* fmix64(1) */
}

static void parts(void) {
  uint64_t whole = lt_hash_bytes(LT_HASH_START, "foobar", 6);
  CHECK(lt_hash_bytes(lt_hash_bytes(LT_HASH_START, "foo", 3), "bar", 3) == whole);
  /* the NUL of a text keeps "ab" "c" and "a" "bc" apart */
  uint64_t x = lt_hash_text(lt_hash_text(LT_HASH_START, "ab"), "c");
  uint64_t y = lt_hash_text(lt_hash_text(LT_HASH_START, "a"), "bc");
  CHECK(x != y);
  CHECK(lt_hash_text(LT_HASH_START, "ab") == lt_hash_bytes(LT_HASH_START, "ab", 3));
}

static void avalanche(void) {
  long moved = 0;
  for (int i = 0; i < 64; i++) {
    uint64_t a = 0x0123456789abcdefu, b = a ^ 1ull << i;
    uint64_t d =
        lt_hash_finish(lt_hash_bytes(LT_HASH_START, &a, 8)) ^ lt_hash_finish(lt_hash_bytes(LT_HASH_START, &b, 8));
    moved += __builtin_popcountll(d);
  }
  CHECK_NEAR((double)moved / 64, 32, 2.5);
}

int main(void) {
  known_answers();
  parts();
  avalanche();
  return check_done();
}
