/* safetensors_write.c: writing named tensors range by range into a file that gets its name when it is whole.
** Which bytes were written is booked, so that a hole or a range written twice is an error and not a file.
** Format: the table at the top of safetensors.c. */
#include "core/vec.h"
#include "store/durable.h"
#include "store/safetensors.h"
#include "store/safetensors_dtype.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

typedef struct range {
  int64_t begin, end;
} range;

typedef struct entry {
  json_t *json; /* the header's object; its data_offsets are set once all are declared */
  lt_dtype dtype;
  int64_t bytes, place; /* place: offset behind the header */
  LT_VEC(range) done;   /* disjoint, ascending, merged where they touch */
} entry;

struct lt_safetensors_writer {
  char *path, *temporary;
  int fd;
  json_t *header, *index; /* index: name to number of the entry */
  LT_VEC(entry) entries;
  int64_t data; /* where the tensors' bytes begin; 0: the header is not written yet */
};

static lt_status fail_writer(const lt_safetensors_writer *w, lt_error *e, const char *key, const char *what) {
  lt_fail(e, LT_USAGE, "%s", what);
  lt_error_where(e, "%s", w->path);
  if (key) lt_error_key(e, "%s", key);
  return LT_USAGE;
}

lt_status lt_safetensors_writer_create(const char *path, lt_safetensors_writer **out, lt_error *e) {
  *out = NULL;
  lt_safetensors_writer *w = calloc(1, sizeof *w);
  if (!w) return lt_fail_memory(e, sizeof *w, "a file to write");
  w->fd = -1;
  w->path = strdup(path);
  char *temporary = malloc(strlen(path) + 5);
  w->header = json_object();
  w->index = json_object();
  lt_status st = LT_OK;
  if (!w->path || !temporary || !w->header || !w->index) st = lt_fail_memory(e, sizeof *w, "a file to write");
  if (st == LT_OK) {
    sprintf(temporary, "%s.tmp", path);
    w->fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd < 0) st = lt_durable_fail(e, "create", temporary);
  }
  if (w->fd >= 0) /* only now is there a file to remove */
    w->temporary = temporary;
  else
    free(temporary);
  if (st == LT_OK)
    *out = w;
  else
    lt_safetensors_writer_free(w);
  return st;
}

void lt_safetensors_writer_free(lt_safetensors_writer *w) {
  if (!w) return;
  if (w->fd >= 0) close(w->fd);
  if (w->temporary) unlink(w->temporary);
  for (int64_t i = 0; i < w->entries.n; i++) lt_vec_free(&w->entries.at[i].done);
  lt_vec_free(&w->entries);
  json_decref(w->header);
  json_decref(w->index);
  free(w->temporary);
  free(w->path);
  free(w);
}

/* Elements of a shape, or -1 when it is none. */
static int64_t shape_count(int rank, const int64_t *dim) {
  if (rank < 0 || rank > LT_SAFETENSORS_MAX_RANK) return -1;
  int64_t n = 1;
  for (int i = 0; i < rank; i++) {
    if (dim[i] < 0 || (dim[i] && n > (INT64_MAX >> 5) / dim[i])) return -1;
    n *= dim[i];
  }
  return n;
}

lt_status lt_safetensors_declare(lt_safetensors_writer *w, const char *name, lt_dtype t, int rank, const int64_t *dim,
                                 lt_error *e) {
  if (w->data) return fail_writer(w, e, name, "a tensor is declared after the first was written");
  if (strcmp(name, "__metadata__") == 0) return fail_writer(w, e, name, "a tensor has the name of the metadata");
  if (json_object_get(w->index, name)) return fail_writer(w, e, name, "a tensor is declared twice");
  int64_t count = shape_count(rank, dim);
  if (count < 0) return fail_writer(w, e, name, "a tensor to write has a shape no file can hold");
  lt_status st = LT_OK;
  json_t *shape = json_array();
  for (int i = 0; i < rank; i++) json_array_append_new(shape, json_integer(dim[i]));
  json_t *json = json_pack("{s:s, s:o}", "dtype", lt_safetensors_dtype_name(t), "shape", shape);
  entry *n = lt_vec_push(&w->entries);
  if (!json || !n || json_array_size(shape) != (size_t)rank)
    st = lt_fail_memory(e, 64, "the header of a file");
  else if (json_object_set(w->header, name, json) != 0) /* copies the name, if it is UTF-8 */
    st = fail_writer(w, e, NULL, "the name of a tensor is not UTF-8");
  else if (json_object_set_new(w->index, name, json_integer(w->entries.n - 1)) != 0)
    st = lt_fail_memory(e, 64, "the header of a file");
  if (st == LT_OK)
    *n = (entry){.json = json, .dtype = t, .bytes = count * (int64_t)lt_dtype_bytes(t)};
  else if (n)
    w->entries.n--;
  json_decref(json); /* the header holds it */
  return st;
}

lt_status lt_safetensors_set_metadata(lt_safetensors_writer *w, const char *key, const char *value, lt_error *e) {
  if (w->data) return fail_writer(w, e, key, "metadata is set after the first tensor was written");
  json_t *meta = json_object_get(w->header, "__metadata__");
  if (!meta) {
    if (json_object_set_new(w->header, "__metadata__", json_object()) != 0)
      return lt_fail_memory(e, 64, "the header of a file");
    meta = json_object_get(w->header, "__metadata__");
  }
  if (json_object_set_new(meta, key, json_string(value)) != 0)
    return fail_writer(w, e, key, "a key or value of the metadata is not UTF-8");
  return LT_OK;
}

/* Give every tensor its place, widest type first, and write length and JSON, padded so that the data is aligned. */
static lt_status write_header(lt_safetensors_writer *w, lt_error *e) {
  int64_t place = 0;
  for (size_t width = 8; width; width /= 2) {
    for (int64_t i = 0; i < w->entries.n; i++) {
      entry *t = &w->entries.at[i];
      if (lt_dtype_bytes(t->dtype) != width) continue;
      t->place = place;
      if (t->bytes > INT64_MAX / 2 - place) return fail_writer(w, e, NULL, "the file would be too large");
      place += t->bytes;
      json_t *offsets = json_pack("[I, I]", (json_int_t)t->place, (json_int_t)place);
      if (!offsets || json_object_set_new(t->json, "data_offsets", offsets) != 0)
        return lt_fail_memory(e, 64, "the header of a file");
    }
  }
  char *text = json_dumps(w->header, JSON_COMPACT);
  if (!text) return lt_fail_memory(e, 64, "the header of a file");
  size_t n = strlen(text), padded = (n + 7) / 8 * 8;
  unsigned char *bytes = malloc(8 + padded);
  lt_status st = bytes ? LT_OK : lt_fail_memory(e, padded, "the header of a file");
  if (bytes) {
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    memcpy(bytes + 8, text, n);
    memset(bytes + 8 + n, ' ', padded - n);
    st = lt_durable_write_at(w->fd, w->temporary, bytes, 8 + padded, 0, e);
    w->data = (int64_t)(8 + padded);
  }
  free(bytes);
  free(text);
  return st;
}

/* Book [begin, end) as written; false when a byte of it already was. *room is false when memory is short. */
static bool book_range(entry *t, int64_t begin, int64_t end, bool *room) {
  int64_t i = t->done.n;
  while (i > 0 && t->done.at[i - 1].begin >= begin) i--;
  if (i < t->done.n && t->done.at[i].begin < end) return false;
  if (i > 0 && t->done.at[i - 1].end > begin) return false;
  bool joins_left = i > 0 && t->done.at[i - 1].end == begin, joins_right = i < t->done.n && t->done.at[i].begin == end;
  range *at = t->done.at;
  if (joins_left && joins_right) {
    at[i - 1].end = at[i].end;
    memmove(at + i, at + i + 1, (size_t)(--t->done.n - i) * sizeof *at);
  } else if (joins_left) {
    at[i - 1].end = end;
  } else if (joins_right) {
    at[i].begin = begin;
  } else {
    if (!lt_vec_push(&t->done)) return *room = false;
    at = t->done.at;
    memmove(at + i + 1, at + i, (size_t)(t->done.n - 1 - i) * sizeof *at);
    at[i] = (range){begin, end};
  }
  return true;
}

lt_status lt_safetensors_write(lt_safetensors_writer *w, const char *name, int64_t offset, const void *p, int64_t bytes,
                               lt_error *e) {
  json_t *number = json_object_get(w->index, name);
  if (!number) return fail_writer(w, e, name, "a tensor is written that was not declared");
  entry *t = &w->entries.at[json_integer_value(number)];
  if (offset < 0 || bytes < 0 || offset > t->bytes || bytes > t->bytes - offset) {
    fail_writer(w, e, name, "a range lies outside its tensor");
    lt_error_expected(e, "inside 0 to %lld", (long long)t->bytes);
    lt_error_got(e, "%lld bytes at %lld", (long long)bytes, (long long)offset);
    return LT_USAGE;
  }
  lt_status st = w->data ? LT_OK : write_header(w, e);
  if (st != LT_OK || bytes == 0) return st;
  bool room = true;
  if (!book_range(t, offset, offset + bytes, &room))
    return room ? fail_writer(w, e, name, "bytes of a tensor are written twice") : lt_fail_memory(e, 64, "a range");
  return lt_durable_write_at(w->fd, w->temporary, p, (size_t)bytes, w->data + t->place + offset, e);
}

lt_status lt_safetensors_finish(lt_safetensors_writer *w, lt_error *e) {
  if (w->fd < 0) return fail_writer(w, e, NULL, "the file was finished before");
  lt_status st = w->data ? LT_OK : write_header(w, e);
  const char *name;
  json_t *number;
  json_object_foreach(w->index, name, number) {
    const entry *t = &w->entries.at[json_integer_value(number)];
    bool whole = t->bytes == 0 || (t->done.n == 1 && t->done.at[0].begin == 0 && t->done.at[0].end == t->bytes);
    if (st == LT_OK && !whole) st = fail_writer(w, e, name, "a tensor was not written to its end");
  }
  if (st != LT_OK) return st;
  int fd = w->fd;
  w->fd = -1;
  st = lt_durable_close(fd, w->temporary, e);
  if (st == LT_OK) st = lt_durable_rename(w->temporary, w->path, e);
  if (st != LT_OK) return st;
  free(w->temporary); /* there is nothing left to remove */
  w->temporary = NULL;
  return LT_OK;
}
