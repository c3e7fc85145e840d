/* fuzz_safetensors.c: any bytes as a safetensors file: refused with a word, or every tensor lies inside it.
** Changes are of the header, kept as long as its length says: numbers, types and names of one tensor into another's. */
#include "fuzz/fuzz.h"
#include "store/safetensors.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "fuzz_safetensors.XXXXXX";

static bool open_file(void **context) {
  int fd = mkstemp(path);
  *context = (void *)(intptr_t)fd;
  return fd >= 0;
}

static void close_file(void *context) {
  close((int)(intptr_t)context);
  unlink(path);
}

static fuzz_result fault(const char *what) {
  fprintf(stderr, "fuzz: %s\n", what);
  return FUZZ_FAULT;
}

/* Everything that was handed out is looked at. */
static fuzz_result look(const lt_safetensors *s, size_t size) {
  const unsigned char *low = NULL;
  volatile unsigned sum = 0; /* so that every byte is read */
  int64_t all = 0;
  for (int64_t i = 0; i < lt_safetensors_count(s); i++) {
    const lt_safetensor *t = lt_safetensors_at(s, i);
    const unsigned char *data = t->data;
    int64_t count = 1;
    for (int d = 0; d < t->rank; d++) count *= t->dim[d];
    if (count != t->count || t->bytes != count * (int64_t)lt_dtype_bytes(t->dtype)) return fault("sizes do not agree");
    if (low && data < low) return fault("tensors are not in the order of their bytes");
    for (int64_t k = 0; k < t->bytes; k++) sum += data[k];
    low = data + t->bytes;
    all += t->bytes;
    if (lt_safetensors_find(s, t->name) != t) return fault("a tensor is not found by its name");
  }
  (void)sum;
  if (all > (int64_t)size - 8) return fault("there are more bytes than the file has");
  for (int64_t i = 0; i < lt_safetensors_metadata_count(s); i++)
    if (!lt_safetensors_metadata(s, lt_safetensors_metadata_key(s, i))) return fault("a key has no value");
  return FUZZ_ACCEPTED;
}

static fuzz_result run(void *context, const unsigned char *p, size_t n) {
  int fd = (int)(intptr_t)context;
  if (ftruncate(fd, (off_t)n) != 0 || pwrite(fd, p, n, 0) != (ssize_t)n) return fault("the input cannot be written");
  lt_safetensors *s = NULL;
  lt_error e = {0};
  lt_status st = lt_safetensors_open(path, &s, &e);
  if (st != LT_OK) {
    lt_safetensors_close(s);
    return st == LT_DATA && e.what[0] && e.where[0] ? FUZZ_REFUSED : fault("a refusal without a word or a place");
  }
  fuzz_result result = look(s, n);
  lt_safetensors_close(s);
  return result;
}

/* ---- Changes of the header ---- */

typedef struct piece {
  size_t at, n;
} piece;

static bool is_part(unsigned char c, bool number) {
  return number ? isdigit(c) || c == '-' || c == '.' : isalnum(c) || c == '_';
}

/* Some number (or word between quotes) of the header, from a random place on. */
static piece find(fuzz_random *r, const unsigned char *p, size_t header, bool number) {
  size_t start = fuzz_below(r, header);
  for (size_t k = 0; k < header; k++) {
    size_t at = 8 + (start + k) % header, end = at;
    if (number ? !isdigit(p[at]) : p[at] != '"') continue;
    if (!number) at = ++end;
    while (end < 8 + header && is_part(p[end], number)) end++;
    if (end > at) return (piece){at, end - at};
  }
  return (piece){8, 0};
}

static size_t mutate(void *context, fuzz_random *r, unsigned char *p, size_t n, size_t room) {
  static const char *const numbers[] = {
      "0",   "1",  "8", "-1", "2147483648", "4611686018427387904", "9223372036854775807", "99999999999999999999",
      "1e3", "0.5"};
  static const char *const words[] = {"F32", "F64", "BF16",  "I32",   "U8",           "BOOL",
                                      "F8",  "",    "shape", "dtype", "data_offsets", "__metadata__"};
  char text[64];
  (void)context;
  uint64_t header = 0;
  for (int i = 7; i >= 0 && n >= 8; i--) header = header << 8 | p[i];
  if (n < 9 || header == 0 || header > n - 8) return n;
  bool number = fuzz_below(r, 2);
  piece old = find(r, p, (size_t)header, number), other = find(r, p, (size_t)header, number);
  if (!old.n) return n;
  switch (fuzz_below(r, 3)) {
  case 0: snprintf(text, sizeof text, "%.*s", (int)(other.n < 40 ? other.n : 40), (const char *)p + other.at); break;
  case 1: snprintf(text, sizeof text, "%u", fuzz_u32(r) % 64); break;
  default:
    snprintf(text, sizeof text, "%s",
             number ? numbers[fuzz_below(r, sizeof numbers / sizeof *numbers)]
                    : words[fuzz_below(r, sizeof words / sizeof *words)]);
  }
  size_t m = strlen(text);
  if (n - old.n + m > room) return n;
  memmove(p + old.at + m, p + old.at + old.n, n - old.at - old.n);
  memcpy(p + old.at, text, m);
  header += m - old.n;
  for (int i = 0; i < 8; i++) p[i] = (unsigned char)(header >> (8 * i));
  return n - old.n + m;
}

static const char *const words[] = {"\"__metadata__\":{",
                                    "\"data_offsets\":[0,0]",
                                    "\"shape\":[]",
                                    "\"dtype\":\"F32\"",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    ",",
                                    ":",
                                    "\"",
                                    "null",
                                    "\\u0000",
                                    "\xff",
                                    NULL};

const fuzz_target fuzz_safetensors = {.name = "safetensors",
                                      .most = 4096,
                                      .seconds = 2,
                                      .word = words,
                                      .open = open_file,
                                      .close = close_file,
                                      .run = run,
                                      .mutate = mutate};
