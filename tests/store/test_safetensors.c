/* test_safetensors.c: what is written is read back; every malformed file is refused with its reason, none is crashed
 * on. */
#include "store/safetensors.h"

#include "check.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "safetensors.XXXXXX";
static char path[64];

static void write_file(const void *p, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!CHECK(f != NULL)) exit(1);
  CHECK(fwrite(p, 1, n, f) == n);
  fclose(f);
}

/* Header length, header and `data` zero bytes behind it. */
static void write_raw(uint64_t length, const char *header, size_t data) {
  unsigned char bytes[4096] = {0};
  size_t n = strlen(header);
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(length >> (8 * i));
  memcpy(bytes + 8, header, n);
  write_file(bytes, 8 + n + data);
}

static void test_round_trip(void) {
  lt_safetensors_writer *w;
  lt_error e = {0};
  if (!CHECK_INT(lt_safetensors_writer_create(path, &w, &e), LT_OK)) exit(1);
  uint8_t flags[3] = {1, 2, 3};
  double x[6] = {1, -0.0, INFINITY, 1e-300, 5, 6};
  int32_t scalar = -7;
  int64_t d3 = 3, d23[2] = {2, 3}, d0[3] = {4, 0, 2}, d5[5] = {1, 1, 2, 1, 1};
  float y[2] = {0.5f, 2.5f};
  CHECK_INT(lt_safetensors_declare(w, "flags", LT_U8, 1, &d3, &e), LT_OK);
  CHECK_INT(lt_safetensors_declare(w, "layer 0/x", LT_F64, 2, d23, &e), LT_OK);
  CHECK_INT(lt_safetensors_declare(w, "scalar \"quoted\" \xc3\xa9", LT_I32, 0, NULL, &e), LT_OK);
  CHECK_INT(lt_safetensors_declare(w, "empty", LT_BF16, 3, d0, &e), LT_OK);
  CHECK_INT(lt_safetensors_declare(w, "five", LT_F32, 5, d5, &e), LT_OK);
  CHECK_INT(lt_safetensors_set_metadata(w, "config", "{\"a\": 1}", &e), LT_OK);
  CHECK_INT(lt_safetensors_set_metadata(w, "step", "12", &e), LT_OK);
  /* ranges in any order */
  CHECK_INT(lt_safetensors_write(w, "layer 0/x", 32, x + 4, 16, &e), LT_OK);
  CHECK_INT(lt_safetensors_write(w, "flags", 0, flags, 3, &e), LT_OK);
  CHECK_INT(lt_safetensors_write(w, "layer 0/x", 0, x, 8, &e), LT_OK);
  CHECK_INT(lt_safetensors_write(w, "five", 0, y, 8, &e), LT_OK);
  CHECK_INT(lt_safetensors_write(w, "scalar \"quoted\" \xc3\xa9", 0, &scalar, 4, &e), LT_OK);
  CHECK_INT(lt_safetensors_write(w, "layer 0/x", 8, x + 1, 24, &e), LT_OK);
  CHECK(access(path, F_OK) != 0); /* no name before it is whole */
  CHECK_INT(lt_safetensors_finish(w, &e), LT_OK);
  lt_safetensors_writer_free(w);

  lt_safetensors *s;
  if (!CHECK_INT(lt_safetensors_open(path, &s, &e), LT_OK)) exit(1);
  CHECK_INT(lt_safetensors_count(s), 5);
  const lt_safetensor *t = lt_safetensors_find(s, "layer 0/x");
  if (CHECK(t != NULL)) {
    CHECK_INT(t->dtype, LT_F64);
    CHECK_INT(t->rank, 2);
    CHECK_INT(t->dim[1], 3);
    CHECK_INT(t->count, 6);
    CHECK(memcmp(t->data, x, sizeof x) == 0);
    CHECK((uintptr_t)t->data % 8 == 0);
  }
  t = lt_safetensors_find(s, "scalar \"quoted\" \xc3\xa9");
  CHECK(t && t->rank == 0 && t->count == 1 && memcmp(t->data, &scalar, 4) == 0 && (uintptr_t)t->data % 4 == 0);
  t = lt_safetensors_find(s, "empty");
  CHECK(t && t->rank == 3 && t->count == 0 && t->bytes == 0 && t->dim[0] == 4);
  t = lt_safetensors_find(s, "flags");
  CHECK(t && memcmp(t->data, flags, 3) == 0);
  t = lt_safetensors_find(s, "five");
  CHECK(t && t->rank == 5 && memcmp(t->data, y, 8) == 0);
  CHECK(lt_safetensors_find(s, "no such") == NULL);
  CHECK(lt_safetensors_find(s, "__metadata__") == NULL);
  for (int64_t i = 0; i < 5; i++) {
    const lt_safetensor *a = lt_safetensors_at(s, i);
    CHECK(a == lt_safetensors_find(s, a->name));
    CHECK(i == 0 || (const char *)lt_safetensors_at(s, i - 1)->data <= (const char *)a->data);
  }
  CHECK(lt_safetensors_at(s, 5) == NULL);
  CHECK_INT(lt_safetensors_metadata_count(s), 2);
  CHECK_STR(lt_safetensors_metadata_key(s, 1), "step");
  CHECK_STR(lt_safetensors_metadata(s, "config"), "{\"a\": 1}");
  CHECK(lt_safetensors_metadata(s, "none") == NULL);
  lt_safetensors_close(s);
  lt_safetensors_close(NULL);
}

static void test_empty_file(void) {
  lt_safetensors_writer *w;
  lt_safetensors *s;
  CHECK_INT(lt_safetensors_writer_create(path, &w, NULL), LT_OK);
  CHECK_INT(lt_safetensors_finish(w, NULL), LT_OK);
  lt_safetensors_writer_free(w);
  CHECK_INT(lt_safetensors_open(path, &s, NULL), LT_OK);
  CHECK_INT(lt_safetensors_count(s), 0);
  CHECK_INT(lt_safetensors_metadata_count(s), 0);
  CHECK(lt_safetensors_metadata(s, "a") == NULL);
  lt_safetensors_close(s);
}

#define T(name, dtype, shape, offsets)                                                                                 \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void test_malformed(void) {
  static const struct {
    const char *header;
    size_t data;
    int64_t more; /* added to the true header length */
    const char *what, *key;
  } cases[] = {
      {"{}", 0, 1, "the header is longer than the file or than 100 MB", ""},
      {"{}", 0, INT64_MAX, "the header is longer than the file or than 100 MB", ""},
      {"{}", 0, -10, "the header is longer than the file or than 100 MB", ""}, /* wraps to nearly 2^64 */
      {"{}", 0, -1, "the header is not JSON", ""},
      {"{} x", 0, 0, "the header is not JSON", ""},
      {"", 0, 0, "the header is not JSON", ""},
      {"[]", 0, 0, "the header is not a JSON object", ""},
      {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[0,4]") "}", 4, 0, "the header is not JSON", ""},
      {"{\"a\":3}", 0, 0, "the entry is not an object", "a"},
      {"{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}", 4, 0, "there is no dtype", "a"},
      {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, 0, "there is no shape", "a"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, 0, "data_offsets is not a pair of whole numbers", "a"},
      {"{" T("a", "F32", "[1]", "[0,4,8]") "}", 4, 0, "data_offsets is not a pair of whole numbers", "a"},
      {"{" T("a", "F32", "[1]", "[0.0,4.0]") "}", 4, 0, "data_offsets is not a pair of whole numbers", "a"},
      {"{" T("a", "F32", "[1]", "[0,8]") "}", 4, 0, "data_offsets point outside the file", "a"},
      {"{" T("a", "F32", "[1]", "[-4,0]") "}", 4, 0, "data_offsets point outside the file", "a"},
      {"{" T("a", "F32", "[1]", "[4,0]") "}", 4, 0, "data_offsets point outside the file", "a"},
      {"{" T("a", "F32", "[1]", "[0,9223372036854775807]") "}", 4, 0, "data_offsets point outside the file", "a"},
      {"{" T("a", "F32", "[2]", "[0,4]") "}", 4, 0, "dtype and shape do not fill data_offsets", "a"},
      {"{" T("a", "F32", "[0]", "[0,4]") "}", 4, 0, "dtype and shape do not fill data_offsets", "a"},
      {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, 0, "a dimension is not a whole number of 0 or more", "a"},
      {"{" T("a", "F32", "[1.5]", "[0,4]") "}", 4, 0, "a dimension is not a whole number of 0 or more", "a"},
      {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, 0, "the tensor has more than 8 dimensions", "a"},
      {"{" T("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", 4, 0, "the shape is too large", "a"},
      {"{" T("a", "F32", "[4294967297,4294967296,4294967295]", "[0,4]") "}", 4, 0, "the shape is too large", "a"},
      {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[4,12]") "}", 12, 0,
       "the tensor overlaps another one", "b"},
      {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[0,8]") "}", 8, 0, "the tensor overlaps another one",
       "b"},
      {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[8,12]") "}", 12, 0,
       "there are bytes of no tensor before this one", "b"},
      {"{" T("a", "F32", "[1]", "[0,4]") "}", 8, 0, "there are bytes of no tensor at its end", ""},
      {"{\"__metadata__\":[]}", 0, 0, "the metadata is not an object", "__metadata__"},
      {"{\"__metadata__\":{\"k\":1}}", 0, 0, "a value of the metadata is not a string", "k"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_raw(strlen(cases[i].header) + (uint64_t)cases[i].more, cases[i].header, cases[i].data);
    lt_safetensors *s;
    lt_error e = {0};
    char what[256];
    snprintf(what, sizeof what, "not a sound safetensors file: %s", cases[i].what);
    if (!CHECK_INT(lt_safetensors_open(path, &s, &e), LT_DATA)) lt_safetensors_close(s);
    CHECK(s == NULL);
    CHECK_STR(e.what, what);
    CHECK_STR(e.where, path);
    CHECK_STR(e.key, cases[i].key);
  }
  lt_safetensors *s;
  lt_error e = {0};
  const char *header = "{" T("w", "F8_E4M3", "[1]", "[0,1]") "}";
  write_raw(strlen(header), header, 1);
  CHECK_INT(lt_safetensors_open(path, &s, &e), LT_DATA);
  CHECK_STR(e.what, "a tensor has an unsupported dtype");
  CHECK_STR(e.got, "F8_E4M3");
  CHECK_STR(e.key, "w");
  CHECK_INT(lt_safetensors_open(folder, &s, NULL), LT_DATA);
  lt_error f = {0};
  CHECK_INT(lt_safetensors_open("no/such/file", &s, &f), LT_DATA);
  CHECK_STR(f.what, "cannot open: No such file or directory");
  CHECK_STR(f.where, "no/such/file");
}

/* Whatever a byte is changed to and wherever a file ends: refused or sound, and nothing outside is touched (asan). */
static void test_every_damage(void) {
  const char *header =
      "{" T("a", "F32", "[2,3]", "[0,24]") ",\"__metadata__\":{\"k\":\"v\"}," T("b", "I64", "[2]", "[24,40]") "}";
  unsigned char good[512] = {0}, bad[512];
  size_t n = 8 + strlen(header) + 40;
  good[0] = (unsigned char)strlen(header);
  memcpy(good + 8, header, strlen(header));
  lt_safetensors *s;
  write_file(good, n);
  CHECK_INT(lt_safetensors_open(path, &s, NULL), LT_OK);
  lt_safetensors_close(s);
  for (size_t cut = 0; cut < n; cut++) {
    write_file(good, cut);
    CHECK_INT(lt_safetensors_open(path, &s, NULL), LT_DATA);
  }
  for (size_t at = 0; at < 8 + strlen(header); at++) {
    for (int bit = 0; bit < 8; bit++) {
      memcpy(bad, good, n);
      bad[at] ^= (unsigned char)(1 << bit);
      write_file(bad, n);
      lt_status st = lt_safetensors_open(path, &s, NULL);
      CHECK(st == LT_OK || st == LT_DATA);
      if (st != LT_OK) continue;
      unsigned char sum = 0;
      for (int64_t i = 0; i < lt_safetensors_count(s); i++) {
        const lt_safetensor *t = lt_safetensors_at(s, i);
        for (int64_t b = 0; b < t->bytes; b++) sum |= ((const unsigned char *)t->data)[b];
      }
      CHECK_INT(sum, 0);
      lt_safetensors_close(s);
    }
  }
}

static void test_writer_misuse(void) {
  lt_safetensors_writer *w;
  lt_error e = {0};
  int64_t four = 4, negative = -1, huge[2] = {INT64_MAX / 2, 3};
  char p[16] = {0};
  CHECK_INT(lt_safetensors_writer_create(path, &w, &e), LT_OK);
  CHECK_INT(lt_safetensors_declare(w, "a", LT_F32, 1, &four, &e), LT_OK);
  CHECK_INT(lt_safetensors_declare(w, "b", LT_U8, 1, &four, &e), LT_OK);
#define FAILS(call, text)                                                                                              \
  do {                                                                                                                 \
    lt_error f = {0};                                                                                                  \
    lt_error *fe = &f;                                                                                                 \
    CHECK_INT(call, LT_USAGE);                                                                                         \
    CHECK_STR(f.what, text);                                                                                           \
  } while (0)
  FAILS(lt_safetensors_declare(w, "a", LT_F32, 1, &four, fe), "a tensor is declared twice");
  FAILS(lt_safetensors_declare(w, "__metadata__", LT_F32, 1, &four, fe), "a tensor has the name of the metadata");
  FAILS(lt_safetensors_declare(w, "c", LT_F32, 1, &negative, fe), "a tensor to write has a shape no file can hold");
  FAILS(lt_safetensors_declare(w, "c", LT_F32, 2, huge, fe), "a tensor to write has a shape no file can hold");
  FAILS(lt_safetensors_declare(w, "c", LT_F32, 9, huge, fe), "a tensor to write has a shape no file can hold");
  FAILS(lt_safetensors_declare(w, "\xff", LT_F32, 1, &four, fe), "the name of a tensor is not UTF-8");
  FAILS(lt_safetensors_write(w, "zz", 0, p, 4, fe), "a tensor is written that was not declared");
  CHECK_INT(lt_safetensors_write(w, "a", 4, p, 4, &e), LT_OK);
  FAILS(lt_safetensors_write(w, "a", 12, p, 8, fe), "a range lies outside its tensor");
  FAILS(lt_safetensors_write(w, "a", -4, p, 4, fe), "a range lies outside its tensor");
  FAILS(lt_safetensors_write(w, "a", 0, p, 5, fe), "bytes of a tensor are written twice");
  FAILS(lt_safetensors_write(w, "a", 7, p, 5, fe), "bytes of a tensor are written twice");
  FAILS(lt_safetensors_write(w, "a", 4, p, 4, fe), "bytes of a tensor are written twice");
  CHECK_INT(lt_safetensors_write(w, "a", 12, p, 4, &e), LT_OK);
  CHECK_INT(lt_safetensors_write(w, "a", 0, p, 4, &e), LT_OK);
  CHECK_INT(lt_safetensors_write(w, "b", 0, p, 4, &e), LT_OK);
  FAILS(lt_safetensors_declare(w, "late", LT_F32, 1, &four, fe), "a tensor is declared after the first was written");
  FAILS(lt_safetensors_set_metadata(w, "k", "v", fe), "metadata is set after the first tensor was written");
  FAILS(lt_safetensors_finish(w, fe), "a tensor was not written to its end");
  CHECK_INT(lt_safetensors_write(w, "a", 8, p, 4, &e), LT_OK); /* the hole, and all ranges join */
  CHECK_INT(lt_safetensors_finish(w, &e), LT_OK);
  FAILS(lt_safetensors_finish(w, fe), "the file was finished before");
  lt_safetensors_writer_free(w);
}

/* An unfinished file leaves the old one and no litter; so does one that cannot be created. */
static void test_abandoned(void) {
  write_file("old", 3);
  lt_safetensors_writer *w;
  lt_error e = {0};
  int64_t one = 1;
  float x = 1;
  CHECK_INT(lt_safetensors_writer_create(path, &w, &e), LT_OK);
  CHECK_INT(lt_safetensors_declare(w, "a", LT_F32, 1, &one, &e), LT_OK);
  CHECK_INT(lt_safetensors_write(w, "a", 0, &x, 4, &e), LT_OK);
  lt_safetensors_writer_free(w);
  lt_safetensors_writer_free(NULL);
  struct stat about;
  CHECK(stat(path, &about) == 0 && about.st_size == 3);
  char temporary[80];
  snprintf(temporary, sizeof temporary, "%s.tmp", path);
  CHECK(access(temporary, F_OK) != 0);
  CHECK_INT(lt_safetensors_writer_create("no/such/folder/x", &w, &e), LT_DATA);
  CHECK(w == NULL);
  CHECK_STR(e.what, "cannot create: No such file or directory");
}

int main(void) {
  if (!CHECK(mkdtemp(folder) != NULL)) return 1;
  snprintf(path, sizeof path, "%s/file.safetensors", folder);
  test_round_trip();
  unlink(path);
  test_empty_file();
  test_malformed();
  test_every_damage();
  test_writer_misuse();
  test_abandoned();
  unlink(path);
  rmdir(folder);
  return check_done();
}
