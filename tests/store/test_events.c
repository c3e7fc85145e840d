/* test_events.c: event files read back by a decoder of the test's own: sums by table, fields one by one.
** Cut back, torn at every byte, damaged at every byte, several in a folder, and a disk that is full. */
#include "store/events.h"

#include "check.h"
#include "scratch.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

/* ---- The decoder ---- */

static uint32_t table[256];

static void make_table(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t x = i;
    for (int k = 0; k < 8; k++) x = x & 1 ? x >> 1 ^ 0x82f63b78u : x >> 1;
    table[i] = x;
  }
}

static uint32_t crc(const unsigned char *s, size_t n) {
  uint32_t x = 0xffffffffu;
  while (n--) x = x >> 8 ^ table[(x ^ *s++) & 255];
  return x ^ 0xffffffffu;
}

static uint32_t u32(const unsigned char *s) {
  return s[0] | (uint32_t)s[1] << 8 | (uint32_t)s[2] << 16 | (uint32_t)s[3] << 24;
}

/* TFRecord's mask undone. */
static uint32_t unmask(uint32_t x) {
  x -= 0xa282ead8u;
  return x >> 17 | x << 15;
}

typedef struct field {
  int number, wire;
  uint64_t varint;
  const unsigned char *data;
  size_t n;
} field;

static uint64_t varint(const unsigned char **p, const unsigned char *end) {
  uint64_t x = 0;
  for (int shift = 0; *p < end; shift += 7) {
    x |= (uint64_t)(**p & 0x7f) << shift;
    if (!(*(*p)++ & 0x80)) return x;
  }
  CHECK(!"a number goes on beyond the message");
  return 0;
}

static field next_field(const unsigned char **p, const unsigned char *end) {
  uint64_t key = varint(p, end);
  field f = {.number = (int)(key >> 3), .wire = (int)(key & 7)};
  if (f.wire == 0) f.varint = varint(p, end);
  f.n = f.wire == 2 ? (size_t)varint(p, end) : f.wire == 1 ? 8 : f.wire == 5 ? 4 : 0;
  f.data = *p;
  if (!CHECK((size_t)(end - *p) >= f.n)) exit(1);
  *p += f.n;
  return f;
}

static void read_value(const field *value, char *out) {
  const unsigned char *p = value->data, *end = p + value->n;
  while (p < end) {
    field f = next_field(&p, end);
    if (f.number == 1) sprintf(out + strlen(out), " %.*s=", (int)f.n, (const char *)f.data);
    uint32_t bits = f.wire == 5 ? u32(f.data) : 0;
    float x;
    memcpy(&x, &bits, sizeof x);
    if (f.number == 2 && CHECK_INT(f.wire, 5)) sprintf(out + strlen(out), isnan(x) ? "nan" : "%g", (double)x);
  }
}

/* "brain.Event:2|0 loss=1 …|1 …": an event a bar. */
static void read_event(const unsigned char *p, size_t n, char *out) {
  const unsigned char *end = p + n;
  while (p < end) {
    field f = next_field(&p, end);
    double time;
    memcpy(&time, f.data, f.wire == 1 ? 8 : 0);
    if (f.number == 1) CHECK(f.wire == 1 && time > 1.7e9 && time < 1e11);
    if (f.number == 2) sprintf(out + strlen(out), "%llu", (unsigned long long)f.varint);
    if (f.number == 3) sprintf(out + strlen(out), "%.*s", (int)f.n, (const char *)f.data);
    const unsigned char *q = f.data;
    while (f.number == 5 && q < f.data + f.n) {
      field value = next_field(&q, f.data + f.n);
      if (CHECK_INT(value.number, 1)) read_value(&value, out);
    }
  }
}

/* The file as text. */
static const char *decode(const char *path) {
  static char out[8192];
  char *s;
  size_t n;
  *out = '\0';
  if (!CHECK_INT(lt_durable_read(path, &s, &n, NULL), LT_OK)) return out;
  const unsigned char *p = (const unsigned char *)s;
  for (size_t at = 0; at < n;) {
    if (!CHECK(n - at >= 16)) break;
    size_t length = u32(p + at);
    CHECK_INT(u32(p + at + 4), 0);
    CHECK_INT(unmask(u32(p + at + 8)), crc(p + at, 8));
    if (!CHECK(n - at >= 16 + length)) break;
    CHECK_INT(unmask(u32(p + at + 12 + length)), crc(p + at + 12, length));
    if (at) strcat(out, "|");
    read_event(p + at + 12, length, out);
    at += 16 + length;
  }
  free(s);
  return out;
}

/* ---- Tests ---- */

static char path[512]; /* the one event file of the folder */

static int find_file(void) {
  int found = 0;
  DIR *d = opendir(scratch_path("run"));
  for (struct dirent *x; d && (x = readdir(d));) {
    if (strncmp(x->d_name, "events.out.tfevents.", 20) != 0) continue;
    snprintf(path, sizeof path, "%s/%s", scratch_path("run"), x->d_name);
    found++;
  }
  if (d) closedir(d);
  return found;
}

static lt_events *open_events(int64_t keep) {
  lt_events *v = NULL;
  lt_error e = {0};
  if (!CHECK_INT(lt_events_open(scratch_path("run"), keep, &v, &e), LT_OK)) exit(1);
  return v;
}

static lt_status append(lt_events *v, int64_t step, double loss) {
  lt_error e = {0};
  lt_tree *t = lt_tree_table(), *moe = lt_tree_table();
  CHECK(lt_tree_set(t, "step", lt_tree_number((double)step)) && lt_tree_set(t, "loss", lt_tree_number(loss)) &&
        lt_tree_set(t, "applied", lt_tree_boolean(false)) && lt_tree_set(t, "note", lt_tree_text("x")) &&
        lt_tree_set_index(moe, 1, lt_tree_number(0.25)) && lt_tree_set(moe, "step", lt_tree_number(3)) &&
        lt_tree_set(t, "moe", moe));
  lt_status st = lt_events_append(v, step, t, &e);
  if (st) CHECK_STR(e.hint, "free some space");
  lt_tree_free(t);
  return st;
}

#define V       "brain.Event:2"
#define E(n, x) "|" #n " loss=" #x " moe/1=0.25 moe/step=3"

static void test_write(void) {
  lt_events *v = open_events(-1);
  CHECK_INT(find_file(), 1);
  append(v, 0, 1.5);
  append(v, 1, 0.0 / 0.0);
  append(v, 300, 1e300);
  CHECK_STR(decode(path), V E(0, 1.5) E(1, nan) E(300, inf)); /* at once */
  CHECK_INT(lt_events_sync(v, NULL), LT_OK);
  lt_events_close(v);
  lt_events_close(NULL);
  char *s;
  size_t n;
  CHECK_INT(lt_durable_read(path, &s, &n, NULL), LT_OK); /* as TensorFlow begins its files */
  CHECK(n > 12 && memcmp(s, "\x18\0\0\0\0\0\0\0\xa3\x7fK\"", 12) == 0);
  free(s);
}

static void test_resume(void) {
  lt_events *v = open_events(1);
  CHECK_INT(find_file(), 1);
  CHECK_STR(decode(path), V E(0, 1.5) E(1, nan));
  append(v, 2, 0.5);
  lt_events_close(v);
  lt_events_close(open_events(100));
  CHECK_STR(decode(path), V E(0, 1.5) E(1, nan) E(2, 0.5));
  lt_events_close(open_events(-1));
  CHECK_STR(decode(path), V);
}

/* Cut at every byte, and one bit wrong in every byte: what is before it stays. */
static void test_torn(void) {
  lt_events *v = open_events(-1);
  for (int i = 0; i < 3; i++) append(v, i, i);
  lt_events_close(v);
  char *s, name[128];
  size_t n;
  CHECK_INT(lt_durable_read(path, &s, &n, NULL), LT_OK);
  snprintf(name, sizeof name, "%.100s", path + strlen(scratch) + 1);
  static const char *const kept[] = {V, V E(0, 0), V E(0, 0) E(1, 1), V E(0, 0) E(1, 1) E(2, 2)};
  size_t head = 40, event = (n - head) / 3;
  for (size_t i = 0; i < 2 * n; i += 3) {
    size_t at = i / 2, whole = at < head ? 0 : (at - head) / event;
    if (i % 2) s[at] ^= 0x10;
    scratch_write(name, s, i % 2 ? n : at);
    if (i % 2) s[at] ^= 0x10;
    lt_events_close(open_events(9));
    CHECK_STR(decode(path), kept[whole]);
  }
  scratch_write(name, s, n);
  /* an event twice, and older ones behind newer */
  char *twice = malloc(2 * n);
  memcpy(twice, s, n);
  memcpy(twice + n, s + head, n - head);
  scratch_write(name, twice, 2 * n - head);
  lt_events_close(open_events(9));
  CHECK_STR(decode(path), kept[3]);
  free(twice);
  free(s);
}

static void test_several(void) {
  char first[512];
  snprintf(first, sizeof first, "%s", path);
  char *s;
  size_t n;
  CHECK_INT(lt_durable_read(path, &s, &n, NULL), LT_OK);
  scratch_write("run/events.out.tfevents.9999999999.other", s, n);
  scratch_write("run/events.out.tfevents.0000000001.torn.tmp", s, 20);
  free(s);
  lt_events *v = open_events(0);
  append(v, 1, 7);
  lt_events_close(v);
  CHECK_STR(decode(scratch_path("run/events.out.tfevents.9999999999.other")), V E(0, 0) E(1, 7));
  CHECK_STR(decode(first), V E(0, 0));
  CHECK_INT(unlink(scratch_path("run/events.out.tfevents.9999999999.other")), 0);
  CHECK_INT(unlink(scratch_path("run/events.out.tfevents.0000000001.torn.tmp")), 0);
}

static void test_full(void) {
  lt_events *v = open_events(-1);
  struct rlimit before, tight = {300, 300};
  CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
  tight.rlim_max = before.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &tight), 0);
  int64_t step = 0;
  while (step < 100 && append(v, step, 1) == LT_OK) step++;
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
  CHECK_INT(step, 3);
  CHECK_STR(decode(path), V E(0, 1) E(1, 1) E(2, 1));
  CHECK_INT(append(v, 3, 1), LT_OK);
  CHECK_STR(decode(path), V E(0, 1) E(1, 1) E(2, 1) E(3, 1));
  lt_events_close(v);
}

static void test_errors(void) {
  lt_events *v = NULL;
  lt_error e = {0};
  CHECK_INT(lt_events_open(scratch_path("none"), 0, &v, &e), LT_DATA);
  CHECK(v == NULL);
  CHECK_STR(e.where, scratch_path("none"));
}

int main(void) {
  make_table();
  CHECK(crc((const unsigned char *)"123456789", 9) == 0xe3069283u);
  scratch_begin();
  CHECK_INT(mkdir(scratch_path("run"), 0777), 0);
  test_write();
  test_resume();
  test_torn();
  test_several();
  test_full();
  test_errors();
  scratch_end();
  return check_done();
}
