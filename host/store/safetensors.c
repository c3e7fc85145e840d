/* safetensors.c: reading named tensors; nothing in a file is believed before it was checked.
**
**   offset   size   what
**   0        8      n: bytes of the header, little-endian
**   8        n      JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …,
**                   "__metadata__": {"key": "text", …}}; may end in spaces
**   8 + n    rest   the tensors' bytes, row-major, little-endian; offsets count from here; no holes, no overlap */
#include "store/safetensors.h"

#include "store/durable.h"
#include "store/safetensors_dtype.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_HEADER 100000000 /* bytes; the limit of the reference implementation */
#define INDEX_KEY  "index"   /* ours, added to the parsed entries */

struct lt_safetensors {
  char *path;
  unsigned char *map;
  size_t map_bytes;
  json_t *header; /* owns the names and the metadata */
  lt_safetensor *tensor;
  int64_t count;
};

static lt_status fail_file(const lt_safetensors *s, lt_error *e, const char *key, const char *what) {
  lt_fail(e, LT_DATA, "not a sound safetensors file: %s", what);
  lt_error_where(e, "%s", s->path);
  if (key) lt_error_key(e, "%s", key);
  return LT_DATA;
}

static lt_status map_file(lt_safetensors *s, lt_error *e) {
  struct stat about;
  int fd = open(s->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return lt_durable_fail(e, "open", s->path);
  lt_status st = LT_OK;
  if (fstat(fd, &about) != 0)
    st = lt_durable_fail(e, "look at", s->path);
  else if (!S_ISREG(about.st_mode))
    st = fail_file(s, e, NULL, "it is not a regular file");
  else if (about.st_size < 8)
    st = fail_file(s, e, NULL, "it is shorter than 8 bytes");
  if (st == LT_OK) {
    s->map_bytes = (size_t)about.st_size;
    void *p = mmap(NULL, s->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
      st = lt_durable_fail(e, "map", s->path);
    else
      s->map = p;
  }
  close(fd);
  return st;
}

/* Parse the JSON; *data is where the tensors' bytes begin. */
static lt_status read_header(lt_safetensors *s, size_t *data, lt_error *e) {
  uint64_t n = 0;
  for (int i = 7; i >= 0; i--) n = n << 8 | s->map[i];
  if (n > MAX_HEADER || n > s->map_bytes - 8) {
    fail_file(s, e, NULL, "the header is longer than the file or than 100 MB");
    lt_error_got(e, "a header of %llu bytes in a file of %zu", (unsigned long long)n, s->map_bytes);
    return LT_DATA;
  }
  json_error_t bad;
  s->header = json_loadb((const char *)s->map + 8, (size_t)n, JSON_REJECT_DUPLICATES, &bad);
  if (!s->header) {
    fail_file(s, e, NULL, "the header is not JSON");
    lt_error_got(e, "%s at byte %d", bad.text, bad.position);
    return LT_DATA;
  }
  if (!json_is_object(s->header)) return fail_file(s, e, NULL, "the header is not a JSON object");
  *data = 8 + (size_t)n;
  return LT_OK;
}

static lt_status read_metadata(lt_safetensors *s, json_t *meta, lt_error *e) {
  const char *key;
  json_t *value;
  if (!json_is_object(meta)) return fail_file(s, e, "__metadata__", "the metadata is not an object");
  json_object_foreach(meta, key, value) {
    if (!json_is_string(value)) return fail_file(s, e, key, "a value of the metadata is not a string");
  }
  return LT_OK;
}

/* Shape and the number of elements; a product beyond 2^62 is refused before it is made. */
static lt_status read_shape(lt_safetensors *s, const char *name, json_t *shape, lt_safetensor *t, lt_error *e) {
  if (!json_is_array(shape)) return fail_file(s, e, name, "there is no shape");
  if (json_array_size(shape) > LT_SAFETENSORS_MAX_RANK)
    return fail_file(s, e, name, "the tensor has more than 8 dimensions");
  t->rank = (int)json_array_size(shape);
  t->count = 1;
  bool empty = false;
  for (int i = 0; i < t->rank; i++) {
    json_t *d = json_array_get(shape, (size_t)i);
    if (!json_is_integer(d) || json_integer_value(d) < 0)
      return fail_file(s, e, name, "a dimension is not a whole number of 0 or more");
    t->dim[i] = json_integer_value(d);
    empty = empty || t->dim[i] == 0;
  }
  for (int i = 0; i < t->rank && !empty; i++) {
    if (t->count > (INT64_MAX >> 5) / t->dim[i]) return fail_file(s, e, name, "the shape is too large");
    t->count *= t->dim[i];
  }
  if (empty) t->count = 0;
  return LT_OK;
}

/* One entry of the header; `bytes` and `data` of the tensor are checked against the file. */
static lt_status read_tensor(lt_safetensors *s, size_t data, const char *name, json_t *entry, lt_safetensor *t,
                             lt_error *e) {
  if (!json_is_object(entry)) return fail_file(s, e, name, "the entry is not an object");
  const char *dtype = json_string_value(json_object_get(entry, "dtype"));
  if (!dtype) return fail_file(s, e, name, "there is no dtype");
  if (!lt_safetensors_dtype_find(dtype, &t->dtype)) {
    lt_fail(e, LT_DATA, "a tensor has an unsupported dtype");
    lt_error_where(e, "%s", s->path);
    lt_error_key(e, "%s", name);
    lt_error_expected(e, "F32, F64, BF16, I32, I64 or U8");
    lt_error_got(e, "%s", dtype);
    return LT_DATA;
  }
  lt_status st = read_shape(s, name, json_object_get(entry, "shape"), t, e);
  if (st != LT_OK) return st;
  json_t *offsets = json_object_get(entry, "data_offsets"), *a = json_array_get(offsets, 0),
         *b = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(a) || !json_is_integer(b))
    return fail_file(s, e, name, "data_offsets is not a pair of whole numbers");
  int64_t begin = json_integer_value(a), end = json_integer_value(b), room = (int64_t)(s->map_bytes - data);
  if (begin < 0 || end < begin || end > room) {
    fail_file(s, e, name, "data_offsets point outside the file");
    lt_error_expected(e, "0 <= begin <= end <= %lld", (long long)room);
    lt_error_got(e, "[%lld, %lld]", (long long)begin, (long long)end);
    return LT_DATA;
  }
  t->name = name;
  t->bytes = t->count * (int64_t)lt_dtype_bytes(t->dtype);
  t->data = s->map + data + begin;
  if (t->bytes == end - begin) return LT_OK;
  fail_file(s, e, name, "dtype and shape do not fill data_offsets");
  lt_error_expected(e, "%lld bytes", (long long)t->bytes);
  lt_error_got(e, "%lld bytes", (long long)(end - begin));
  return LT_DATA;
}

static int compare_place(const void *x, const void *y) {
  const lt_safetensor *a = x, *b = y;
  if (a->data != b->data) return a->data < b->data ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1; /* an empty one comes before what begins there */
  return strcmp(a->name, b->name);
}

/* Sorted by place, each tensor begins where the one before ends: no overlap, no holes. */
static lt_status check_cover(lt_safetensors *s, size_t data, lt_error *e) {
  if (s->count) qsort(s->tensor, (size_t)s->count, sizeof *s->tensor, compare_place);
  const unsigned char *at = s->map + data;
  for (int64_t i = 0; i < s->count; i++) {
    const unsigned char *begin = s->tensor[i].data;
    if (begin < at) return fail_file(s, e, s->tensor[i].name, "the tensor overlaps another one");
    if (begin > at) return fail_file(s, e, s->tensor[i].name, "there are bytes of no tensor before this one");
    at = begin + s->tensor[i].bytes;
  }
  if (at != s->map + s->map_bytes) return fail_file(s, e, NULL, "there are bytes of no tensor at its end");
  return LT_OK;
}

static lt_status read_tensors(lt_safetensors *s, size_t data, lt_error *e) {
  size_t n = json_object_size(s->header);
  s->tensor = calloc(n + 1, sizeof *s->tensor);
  if (!s->tensor) return lt_fail_memory(e, n * sizeof *s->tensor, "the list of a file's tensors");
  const char *name;
  json_t *entry;
  json_object_foreach(s->header, name, entry) {
    bool meta = strcmp(name, "__metadata__") == 0;
    lt_status st = meta ? read_metadata(s, entry, e) : read_tensor(s, data, name, entry, &s->tensor[s->count], e);
    if (st != LT_OK) return st;
    if (!meta) s->count++;
  }
  return check_cover(s, data, e);
}

/* The parsed header is a hash of the names already: each entry learns the place of its tensor. */
static lt_status note_indices(lt_safetensors *s, lt_error *e) {
  for (int64_t i = 0; i < s->count; i++) {
    json_t *entry = json_object_get(s->header, s->tensor[i].name);
    if (json_object_set_new(entry, INDEX_KEY, json_integer(i)) != 0)
      return lt_fail_memory(e, 64, "the list of a file's tensors");
  }
  return LT_OK;
}

lt_status lt_safetensors_open(const char *path, lt_safetensors **out, lt_error *e) {
  *out = NULL;
  lt_safetensors *s = calloc(1, sizeof *s);
  if (!s || !(s->path = strdup(path))) {
    free(s);
    return lt_fail_memory(e, sizeof *s, "an open file");
  }
  size_t data = 0;
  lt_status st = map_file(s, e);
  if (st == LT_OK) st = read_header(s, &data, e);
  if (st == LT_OK) st = read_tensors(s, data, e);
  if (st == LT_OK) st = note_indices(s, e);
  if (st != LT_OK) {
    lt_safetensors_close(s);
    return st;
  }
  *out = s;
  return LT_OK;
}

void lt_safetensors_close(lt_safetensors *s) {
  if (!s) return;
  if (s->map) munmap(s->map, s->map_bytes);
  json_decref(s->header);
  free(s->tensor);
  free(s->path);
  free(s);
}

int64_t lt_safetensors_count(const lt_safetensors *s) { return s->count; }

const lt_safetensor *lt_safetensors_at(const lt_safetensors *s, int64_t index) {
  return index >= 0 && index < s->count ? &s->tensor[index] : NULL;
}

const lt_safetensor *lt_safetensors_find(const lt_safetensors *s, const char *name) {
  json_t *index = json_object_get(json_object_get(s->header, name), INDEX_KEY);
  return json_is_integer(index) ? &s->tensor[json_integer_value(index)] : NULL; /* metadata holds strings only */
}

int64_t lt_safetensors_metadata_count(const lt_safetensors *s) {
  return (int64_t)json_object_size(json_object_get(s->header, "__metadata__"));
}

const char *lt_safetensors_metadata_key(const lt_safetensors *s, int64_t index) {
  void *at = json_object_iter(json_object_get(s->header, "__metadata__"));
  while (at && index-- > 0) at = json_object_iter_next(json_object_get(s->header, "__metadata__"), at);
  return at ? json_object_iter_key(at) : NULL;
}

const char *lt_safetensors_metadata(const lt_safetensors *s, const char *key) {
  return json_string_value(json_object_get(json_object_get(s->header, "__metadata__"), key));
}
