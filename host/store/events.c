/* events.c: TensorBoard's event files, written and cut back; no library is needed for so little.
**
**   a record       size   what
**     length       8      n, little-endian
**     its sum      4      masked CRC-32C of these 8 bytes
**     event        n      a protobuf message: 1 wall time (double), 2 step (varint), 3 version (text, in the first only),
**                         5 summary: { 1 value: { 1 tag (text), 2 number (float) } … }
**     its sum      4      masked CRC-32C of the event
**
** CRC-32C: Castagnoli et al. 1993, reflected 0x82f63b78; masked: rotated right by 15, plus 0xa282ead8, as TFRecord does. */
#include "store/events.h"

#include "core/text.h"
#include "core/vec.h"
#include "store/durable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PREFIX  "events.out.tfevents."
#define VERSION "brain.Event:2"

enum { HEAD = 12, TAIL = 4, VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* parts of a record; wire types */

struct lt_events {
  char *path;
  int fd;
  int64_t bytes; /* of whole records */
};

/* ---- Bytes ---- */

static uint32_t masked_sum(const void *p, size_t n) {
  const unsigned char *s = p;
  uint32_t c = ~0u;
  for (size_t i = 0; i < n; i++) {
    c ^= s[i];
    for (int bit = 0; bit < 8; bit++) c = c >> 1 ^ (0x82f63b78u & (0u - (c & 1)));
  }
  c = ~c;
  return (c >> 15 | c << 17) + 0xa282ead8u;
}

static void put_fixed(lt_text *t, uint64_t x, int bytes) {
  char s[8];
  for (int i = 0; i < bytes; i++) s[i] = (char)(x >> (8 * i));
  lt_text_bytes(t, s, (size_t)bytes);
}

static uint64_t get_fixed(const char *s, int bytes) {
  uint64_t x = 0;
  for (int i = bytes - 1; i >= 0; i--) x = x << 8 | (unsigned char)s[i];
  return x;
}

static void put_varint(lt_text *t, uint64_t x) {
  for (; x > 127; x >>= 7) put_fixed(t, 128 | (x & 127), 1);
  put_fixed(t, x, 1);
}

static void put_key(lt_text *t, int field, int wire) { put_varint(t, (uint64_t)(field << 3 | wire)); }

static void put_bytes(lt_text *t, int field, const char *s, size_t n) {
  put_key(t, field, BYTES);
  put_varint(t, n);
  lt_text_bytes(t, s, n);
}

static void put_double(lt_text *t, int field, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  put_key(t, field, FIXED64);
  put_fixed(t, bits, 8);
}

static void put_float(lt_text *t, int field, float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  put_key(t, field, FIXED32);
  put_fixed(t, bits, 4);
}

static bool get_varint(const char *s, size_t n, size_t *at, uint64_t *x) {
  *x = 0;
  for (int shift = 0; *at < n && shift < 64; shift += 7) {
    unsigned char c = (unsigned char)s[(*at)++];
    *x |= (uint64_t)(c & 127) << shift;
    if (c < 128) return true;
  }
  return false;
}

/* ---- Events ---- */

static double wall_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void put_record(lt_text *out, const lt_text *event) {
  char head[8];
  for (int i = 0; i < 8; i++) head[i] = (char)((uint64_t)event->n >> (8 * i));
  lt_text_bytes(out, head, sizeof head);
  put_fixed(out, masked_sum(head, sizeof head), 4);
  lt_text_bytes(out, event->s, event->n);
  put_fixed(out, masked_sum(event->s, event->n), 4);
}

static void put_version(lt_text *out) {
  lt_text event = {0};
  put_double(&event, 1, wall_time());
  put_bytes(&event, 3, VERSION, strlen(VERSION));
  if (!event.failed) put_record(out, &event);
  out->failed = out->failed || event.failed;
  lt_text_free(&event);
}

static void put_value(lt_text *summary, const char *tag, double x) {
  lt_text value = {0};
  put_bytes(&value, 1, tag, strlen(tag));
  put_float(&value, 2, (float)x);
  if (!value.failed) put_bytes(summary, 1, value.s, value.n);
  summary->failed = summary->failed || value.failed;
  lt_text_free(&value);
}

/* Every number of a table; `way`: the names of the tables it is in, each with a slash. */
static void put_values(lt_text *summary, const lt_tree *t, const char *way, int depth) {
  for (int64_t i = 0; i < t->count && depth < LT_TREE_DEPTH; i++) {
    const lt_tree_entry *x = &t->entry[i];
    lt_text tag = {0};
    if (x->name)
      lt_text_add(&tag, "%s%s", way, x->name);
    else
      lt_text_add(&tag, "%s%lld", way, (long long)x->index);
    if (x->value->kind == LT_TREE_TABLE) lt_text_add(&tag, "/");
    summary->failed = summary->failed || tag.failed;
    if (!tag.failed && x->value->kind == LT_TREE_TABLE) put_values(summary, x->value, tag.s, depth + 1);
    if (!tag.failed && x->value->kind == LT_TREE_NUMBER && (depth || strcmp(tag.s, "step") != 0))
      put_value(summary, tag.s, x->value->number);
    lt_text_free(&tag);
  }
}

static void put_step(lt_text *out, int64_t step, const lt_tree *record) {
  lt_text event = {0}, summary = {0};
  put_values(&summary, record, "", 0);
  put_double(&event, 1, wall_time());
  put_key(&event, 2, VARINT);
  put_varint(&event, (uint64_t)step);
  put_bytes(&event, 5, summary.n ? summary.s : "", summary.n);
  if (!event.failed && !summary.failed) put_record(out, &event);
  out->failed = out->failed || event.failed || summary.failed;
  lt_text_free(&event);
  lt_text_free(&summary);
}

/* ---- Cutting back ---- */

/* The size of the whole record at s[n], 0: it is torn or damaged. */
static size_t record_bytes(const char *s, size_t n) {
  if (n < HEAD + TAIL || get_fixed(s + 8, 4) != masked_sum(s, 8)) return 0;
  uint64_t length = get_fixed(s, 8);
  if (length > n - HEAD - TAIL) return 0;
  if (get_fixed(s + HEAD + length, 4) != masked_sum(s + HEAD, (size_t)length)) return 0;
  return (size_t)length + HEAD + TAIL;
}

/* The step of an event, -1 of the one that says the version; false: it is none. */
static bool read_event(const char *s, size_t n, int64_t *step) {
  *step = 0; /* what is zero may be left out */
  for (size_t at = 0; at < n;) {
    uint64_t key, x = 0;
    if (!get_varint(s, n, &at, &key)) return false;
    int wire = (int)(key & 7);
    if ((wire == VARINT || wire == BYTES) && !get_varint(s, n, &at, &x)) return false;
    size_t skip = wire == BYTES ? (size_t)x : wire == FIXED64 ? 8 : wire == FIXED32 ? 4 : 0;
    if (skip > n - at || wire == 3 || wire == 4 || wire > 5) return false;
    if (key >> 3 == 2 && wire == VARINT) *step = (int64_t)x;
    if (key >> 3 == 3 && wire == BYTES) *step = -1;
    at += skip;
  }
  return true;
}

/* Keep the events of a file up to `keep`; it is replaced only when something else is in it. *bytes: what it has then. */
static lt_status cut_back(const char *path, int64_t keep, int64_t *bytes, lt_error *e) {
  char *s;
  size_t n;
  lt_text kept = {0};
  int64_t last = -1;
  lt_status st = lt_durable_read(path, &s, &n, e);
  if (st != LT_OK) return st;
  for (size_t at = 0, size; at < n && (size = record_bytes(s + at, n - at)) > 0; at += size) {
    int64_t step;
    if (!read_event(s + at + HEAD, size - HEAD - TAIL, &step)) break;
    if (step >= 0 && (step <= last || step > keep)) continue;
    if (step >= 0) last = step;
    if (step >= 0 || at == 0) lt_text_bytes(&kept, s + at, size);
  }
  if (!kept.n) put_version(&kept);
  *bytes = (int64_t)kept.n;
  if (kept.failed)
    st = lt_fail_memory(e, n, "the events of the run");
  else if (kept.n != n || memcmp(kept.s, s, n) != 0)
    st = lt_durable_replace(path, kept.s, kept.n, e);
  lt_text_free(&kept);
  free(s);
  return st;
}

typedef struct names {
  LT_VEC(char *) path;
} names;

static int compare_path(const void *x, const void *y) { return strcmp(*(char *const *)x, *(char *const *)y); }

static lt_status find_files(const char *folder, names *out, lt_error *e) {
  DIR *d = opendir(folder);
  if (!d) return lt_durable_fail(e, "read the folder", folder);
  lt_status st = LT_OK;
  struct dirent *entry;
  while (st == LT_OK && (errno = 0, entry = readdir(d))) {
    size_t n = strlen(entry->d_name);
    bool ours = strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 && (n < 4 || strcmp(entry->d_name + n - 4, ".tmp"));
    if (!ours) continue;
    char *path = lt_durable_join(folder, entry->d_name), **slot = path ? lt_vec_push(&out->path) : NULL;
    if (slot)
      *slot = path;
    else
      st = lt_fail_memory(e, 64, "the events of the run");
    if (!slot) free(path);
  }
  if (st == LT_OK && errno) st = lt_durable_fail(e, "read the folder", folder);
  closedir(d);
  if (out->path.n) qsort(out->path.at, (size_t)out->path.n, sizeof *out->path.at, compare_path);
  return st;
}

/* ---- Opening and writing ---- */

static lt_status begin_file(lt_events *v, const char *folder, lt_error *e) {
  char host[128] = "", name[192];
  lt_text first = {0};
  if (gethostname(host, sizeof host - 1) != 0 || !host[0] || strchr(host, '/')) snprintf(host, sizeof host, "host");
  snprintf(name, sizeof name, PREFIX "%010lld.%s", (long long)time(NULL), host);
  v->path = lt_durable_join(folder, name);
  put_version(&first);
  lt_status st = v->path && !first.failed ? LT_OK : lt_fail_memory(e, 64, "the events of the run");
  if (st == LT_OK) st = lt_durable_replace(v->path, first.s, first.n, e);
  v->bytes = (int64_t)first.n;
  lt_text_free(&first);
  return st;
}

lt_status lt_events_open(const char *folder, int64_t keep, lt_events **out, lt_error *e) {
  names found = {.path = {0}};
  *out = NULL;
  lt_events *v = calloc(1, sizeof *v);
  if (!v) return lt_fail_memory(e, sizeof *v, "the events of the run");
  v->fd = -1;
  lt_status st = find_files(folder, &found, e);
  for (int64_t i = 0; st == LT_OK && i < found.path.n; i++) st = cut_back(found.path.at[i], keep, &v->bytes, e);
  if (st == LT_OK && found.path.n)
    v->path = found.path.at[--found.path.n];
  else if (st == LT_OK)
    st = begin_file(v, folder, e);
  if (st == LT_OK && (v->fd = open(v->path, O_WRONLY | O_APPEND | O_CLOEXEC)) < 0)
    st = lt_durable_fail(e, "open", v->path);
  for (int64_t i = 0; i < found.path.n; i++) free(found.path.at[i]);
  lt_vec_free(&found.path);
  if (st == LT_OK)
    *out = v;
  else
    lt_events_close(v);
  return st;
}

void lt_events_close(lt_events *v) {
  if (!v) return;
  if (v->fd >= 0) close(v->fd);
  free(v->path);
  free(v);
}

lt_status lt_events_append(lt_events *v, int64_t step, const lt_tree *record, lt_error *e) {
  lt_text t = {0};
  put_step(&t, step, record);
  lt_status st =
      t.failed ? lt_fail_memory(e, 64, "an event") : lt_durable_append(v->fd, v->path, &v->bytes, t.s, t.n, e);
  lt_text_free(&t);
  return st;
}

lt_status lt_events_sync(lt_events *v, lt_error *e) {
  return fsync(v->fd) == 0 ? LT_OK : lt_durable_fail(e, "write to the disk", v->path);
}
