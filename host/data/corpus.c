/* corpus.c: the list of documents, and bytes of one of them on demand.
** Reads go by pread and not by a mapping: a file cut short under a mapping is a SIGBUS, here it is an error. */
#include "data/corpus.h"

#include "core/hash.h"
#include "core/vec.h"
#include "data/glob.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

typedef struct file {
  char *path;  /* as the pattern led to it */
  char *place; /* for open */
  int64_t bytes;
  dev_t device;
  ino_t inode;
  bool lines; /* .jsonl */
} file;

typedef struct document {
  int64_t file, index; /* index: line of a .jsonl file, else 0 */
  int64_t place, raw;  /* where in the file, and how many bytes there */
  int64_t tokens;      /* bytes of text: raw, but for a JSON line */
} document;

typedef struct part {
  LT_VEC(document) docs;
  int64_t tokens;
} part;

struct lt_corpus {
  LT_VEC(file) files;
  part part[LT_CORPUS_PARTS];
};

struct lt_corpus_hand {
  int64_t file; /* fd belongs to it; -1: none */
  int fd;
  json_t *line; /* the decoded text of line_document, or NULL */
  const document *line_document;
};

static lt_status fail_file(const file *f, const char *verb, lt_error *e) {
  int reason = errno;
  lt_fail(e, LT_DATA, "cannot %s: %s", verb, strerror(reason));
  lt_error_where(e, "%s", f->path);
  return LT_DATA;
}

static bool ends_in(const char *s, const char *tail) {
  size_t n = strlen(s), m = strlen(tail);
  return n >= m && strcmp(s + n - m, tail) == 0;
}

/* A new file record for a path of the glob; takes the path. */
static lt_status add_file(lt_corpus *c, const char *base, char **path, lt_error *e) {
  file *f = lt_vec_push(&c->files);
  if (!f) return lt_fail_memory(e, sizeof *f, "the list of files");
  f->path = *path;
  *path = NULL;
  size_t n = strlen(base) + strlen(f->path) + 2;
  f->place = malloc(n);
  if (!f->place) return lt_fail_memory(e, n, "a file name");
  snprintf(f->place, n, "%s%s%s", f->path[0] == '/' ? "" : base, f->path[0] == '/' ? "" : "/", f->path);
  struct stat about;
  if (stat(f->place, &about) != 0) return fail_file(f, "look at", e);
  f->bytes = about.st_size;
  f->device = about.st_dev;
  f->inode = about.st_ino;
  f->lines = ends_in(f->path, ".jsonl");
  return LT_OK;
}

/* The same file, by whatever name. */
static int compare_file(const void *x, const void *y) {
  const file *a = x, *b = y;
  if (a->device != b->device) return a->device < b->device ? -1 : 1;
  return a->inode < b->inode ? -1 : a->inode > b->inode;
}

/* [0, 1): under the share is held out. */
static double hold_hash(const char *path, int64_t index) {
  uint64_t h = lt_hash_bytes(lt_hash_text(LT_HASH_START, path), &index, sizeof index);
  return (double)(lt_hash_finish(h) >> 11) * 0x1p-53;
}

static lt_status add_document(lt_corpus *c, lt_corpus_part to, double hold_out, document d, lt_error *e) {
  if (d.tokens == 0) return LT_OK;
  if (to == LT_CORPUS_TRAIN && hold_hash(c->files.at[d.file].path, d.index) < hold_out) to = LT_CORPUS_EVAL;
  document *slot = lt_vec_push(&c->part[to].docs);
  if (!slot) return lt_fail_memory(e, sizeof *slot, "the list of documents");
  *slot = d;
  c->part[to].tokens += d.tokens;
  return LT_OK;
}

/* The text of a JSON line, owned by the caller; `number` from 0. */
static lt_status decode_line(const file *f, int64_t number, const char *s, size_t n, json_t **text, lt_error *e) {
  json_error_t bad;
  json_t *object = json_loadb(s, n, JSON_ALLOW_NUL, &bad);
  *text = json_incref(json_object_get(object, "text"));
  json_decref(object);
  if (json_is_string(*text)) return LT_OK;
  json_decref(*text);
  *text = NULL;
  lt_fail(e, LT_DATA, "a line holds no text");
  lt_error_where(e, "%s:%lld", f->path, (long long)number + 1);
  lt_error_expected(e, "a JSON object with a string named \"text\"");
  if (!object) lt_error_got(e, "%s", bad.text);
  return LT_DATA;
}

/* The documents of a .jsonl file: every line is decoded once, to know how long its text is. */
static lt_status add_lines(lt_corpus *c, lt_corpus_part to, double hold_out, int64_t number, lt_error *e) {
  const file *f = &c->files.at[number];
  FILE *in = fopen(f->place, "rb");
  if (!in) return fail_file(f, "open", e);
  lt_status st = LT_OK;
  char *line = NULL;
  size_t room = 0;
  document d = {.file = number};
  for (ssize_t n; st == LT_OK && (errno = 0, n = getline(&line, &room, in)) >= 0; d.index++) {
    d.raw = n;
    if (strspn(line, " \t\r\n") < (size_t)n) {
      json_t *text;
      st = decode_line(f, d.index, line, (size_t)n, &text, e);
      d.tokens = st == LT_OK ? (int64_t)json_string_length(text) : 0;
      if (st == LT_OK) st = add_document(c, to, hold_out, d, e);
      json_decref(text);
    }
    d.place += n;
  }
  if (st == LT_OK && !feof(in)) st = fail_file(f, "read", e);
  free(line);
  fclose(in);
  return st;
}

/* All documents the patterns lead to, but for those of the `taken` files (sorted by compare_file). */
static lt_status add_part(lt_corpus *c, lt_corpus_part to, const lt_corpus_source *from, const file *taken, int64_t n,
                          lt_error *e) {
  bool train = to == LT_CORPUS_TRAIN;
  lt_glob g;
  lt_status st =
      lt_glob_find(from->base, train ? from->train : from->eval, train ? from->train_count : from->eval_count, &g, e);
  for (int64_t i = 0; st == LT_OK && i < g.count; i++) {
    st = add_file(c, from->base, &g.path[i], e);
    if (st != LT_OK) break;
    int64_t number = c->files.n - 1;
    file *f = &c->files.at[number];
    if (n && bsearch(f, taken, (size_t)n, sizeof *f, compare_file)) {
      free(f->path);
      free(f->place);
      c->files.n--;
    } else if (f->lines) {
      st = add_lines(c, to, from->hold_out, number, e);
    } else {
      st = add_document(c, to, from->hold_out, (document){number, 0, 0, f->bytes, f->bytes}, e);
    }
  }
  lt_glob_free(&g);
  return st;
}

static lt_status check_source(const lt_corpus_source *from, lt_error *e) {
  if (from->train_count < 1) return lt_fail(e, LT_USAGE, "a corpus needs a pattern for its files");
  if (!(from->hold_out >= 0.0 && from->hold_out < 1.0))
    return lt_fail(e, LT_USAGE, "the share to hold out lies between 0 and 1, not at %g", from->hold_out);
  if (from->hold_out > 0.0 && from->eval_count)
    return lt_fail(e, LT_USAGE, "held-out text comes from patterns or from a share, not from both");
  return LT_OK;
}

static lt_status check_parts(const lt_corpus *c, const lt_corpus_source *from, lt_error *e) {
  bool eval = from->eval_count || from->hold_out > 0.0;
  if (c->part[LT_CORPUS_TRAIN].docs.n && (c->part[LT_CORPUS_EVAL].docs.n || !eval)) return LT_OK;
  bool train = c->part[LT_CORPUS_TRAIN].docs.n > 0;
  lt_fail(e, LT_DATA, train ? "no text is held out" : "there is no text to train on");
  lt_error_key(e, "%s", !train ? from->train[0] : from->eval_count ? from->eval[0] : "hold_out");
  lt_error_where(e, "%s", from->base);
  lt_error_got(e, "%lld documents to train on, %lld held out", (long long)c->part[LT_CORPUS_TRAIN].docs.n,
               (long long)c->part[LT_CORPUS_EVAL].docs.n);
  if (!train && !c->part[LT_CORPUS_EVAL].docs.n)
    lt_error_hint(e, "the files that were found are empty");
  else if (from->hold_out > 0.0)
    lt_error_hint(e, "whole documents are held out; with few of them name files instead");
  return LT_DATA;
}

/* The held-out files first: training leaves them out, by whatever name it finds them. */
static lt_status add_parts(lt_corpus *c, const lt_corpus_source *from, lt_error *e) {
  if (!from->eval_count) return add_part(c, LT_CORPUS_TRAIN, from, NULL, 0, e);
  lt_status st = add_part(c, LT_CORPUS_EVAL, from, NULL, 0, e);
  if (st != LT_OK) return st;
  size_t n = (size_t)c->files.n;
  file *taken = malloc(n * sizeof *taken);
  if (!taken) return lt_fail_memory(e, n * sizeof *taken, "the list of files");
  memcpy(taken, c->files.at, n * sizeof *taken);
  qsort(taken, n, sizeof *taken, compare_file);
  st = add_part(c, LT_CORPUS_TRAIN, from, taken, (int64_t)n, e);
  free(taken);
  return st;
}

lt_status lt_corpus_open(const lt_corpus_source *from, lt_corpus **out, lt_error *e) {
  *out = NULL;
  lt_status st = check_source(from, e);
  if (st != LT_OK) return st;
  lt_corpus *c = calloc(1, sizeof *c);
  if (!c) return lt_fail_memory(e, sizeof *c, "a corpus");
  st = add_parts(c, from, e);
  if (st == LT_OK) st = check_parts(c, from, e);
  if (st != LT_OK) {
    lt_corpus_close(c);
    return st;
  }
  *out = c;
  return LT_OK;
}

void lt_corpus_close(lt_corpus *c) {
  if (!c) return;
  for (int64_t i = 0; i < c->files.n; i++) {
    free(c->files.at[i].path);
    free(c->files.at[i].place);
  }
  lt_vec_free(&c->files);
  for (int p = 0; p < LT_CORPUS_PARTS; p++) lt_vec_free(&c->part[p].docs);
  free(c);
}

static void release(lt_corpus_hand *h) {
  if (h->fd >= 0) close(h->fd);
  json_decref(h->line);
}

lt_status lt_corpus_hand_create(lt_corpus_hand **out, lt_error *e) {
  *out = malloc(sizeof **out);
  if (!*out) return lt_fail_memory(e, sizeof **out, "a reader of text");
  **out = (lt_corpus_hand){.file = -1, .fd = -1};
  return LT_OK;
}

void lt_corpus_hand_free(lt_corpus_hand *h) {
  if (h) release(h);
  free(h);
}

int64_t lt_corpus_documents(const lt_corpus *c, lt_corpus_part p) { return c->part[p].docs.n; }

int64_t lt_corpus_tokens(const lt_corpus *c, lt_corpus_part p) { return c->part[p].tokens; }

int64_t lt_corpus_document_tokens(const lt_corpus *c, lt_corpus_part p, int64_t n) {
  return c->part[p].docs.at[n].tokens;
}

const char *lt_corpus_document_path(const lt_corpus *c, lt_corpus_part p, int64_t n) {
  return c->files.at[c->part[p].docs.at[n].file].path;
}

int64_t lt_corpus_document_index(const lt_corpus *c, lt_corpus_part p, int64_t n) {
  return c->part[p].docs.at[n].index;
}

uint64_t lt_corpus_hash(const lt_corpus *c) {
  uint64_t h = LT_HASH_START;
  for (int p = 0; p < LT_CORPUS_PARTS; p++) {
    for (int64_t i = 0; i < c->part[p].docs.n; i++) {
      const document *d = &c->part[p].docs.at[i];
      int64_t numbers[3] = {p, d->index, d->tokens};
      h = lt_hash_bytes(lt_hash_text(h, c->files.at[d->file].path), numbers, sizeof numbers);
    }
  }
  return lt_hash_finish(h);
}

static lt_status fail_changed(const file *f, int64_t got, lt_error *e) {
  lt_fail(e, LT_DATA, "a text file changed while it was in use");
  lt_error_where(e, "%s", f->path);
  lt_error_expected(e, "%lld bytes", (long long)f->bytes);
  lt_error_got(e, "%lld", (long long)got);
  return LT_DATA;
}

/* Make h->fd the file; it must still have the length the documents were counted by. */
static lt_status open_file(const lt_corpus *c, lt_corpus_hand *h, int64_t number, lt_error *e) {
  const file *f = &c->files.at[number];
  if (h->file != number) {
    if (h->fd >= 0) close(h->fd);
    h->file = -1;
    h->fd = open(f->place, O_RDONLY | O_CLOEXEC);
    if (h->fd < 0) return fail_file(f, "open", e);
    h->file = number;
  }
  struct stat about;
  if (fstat(h->fd, &about) != 0) return fail_file(f, "look at", e);
  return about.st_size == f->bytes ? LT_OK : fail_changed(f, about.st_size, e);
}

static lt_status read_file(const lt_corpus *c, lt_corpus_hand *h, int64_t number, int64_t place, int64_t n, void *to,
                           lt_error *e) {
  lt_status st = open_file(c, h, number, e);
  for (int64_t got = 0; st == LT_OK && got < n;) {
    ssize_t r = pread(h->fd, (char *)to + got, (size_t)(n - got), (off_t)(place + got));
    if (r < 0 && errno == EINTR) continue;
    if (r < 0) st = fail_file(&c->files.at[number], "read", e);
    if (r == 0) st = fail_changed(&c->files.at[number], place + got, e);
    if (r > 0) got += r;
  }
  return st;
}

/* Decode the line of a document, unless it is the one of the last read. */
static lt_status read_line(const lt_corpus *c, lt_corpus_hand *h, const document *d, lt_error *e) {
  if (h->line_document == d) return LT_OK;
  json_decref(h->line);
  h->line = NULL;
  h->line_document = NULL;
  char *raw = malloc((size_t)d->raw);
  if (!raw) return lt_fail_memory(e, (size_t)d->raw, "a line of text");
  const file *f = &c->files.at[d->file];
  lt_status st = read_file(c, h, d->file, d->place, d->raw, raw, e);
  if (st == LT_OK) st = decode_line(f, d->index, raw, (size_t)d->raw, &h->line, e);
  free(raw);
  if (st == LT_OK && (int64_t)json_string_length(h->line) != d->tokens) st = fail_changed(f, f->bytes, e);
  if (st == LT_OK) h->line_document = d;
  return st;
}

lt_status lt_corpus_read(const lt_corpus *c, lt_corpus_hand *h, lt_corpus_part p, int64_t n, int64_t offset,
                         int64_t count, void *to, lt_error *e) {
  const document *d = &c->part[p].docs.at[n];
  lt_corpus_hand own = {.file = -1, .fd = -1}, *hand = h ? h : &own;
  if (offset < 0 || count < 0 || offset > d->tokens || count > d->tokens - offset)
    return lt_fail(e, LT_USAGE, "%lld bytes at %lld of a document of %lld", (long long)count, (long long)offset,
                   (long long)d->tokens);
  lt_status st = LT_OK;
  if (c->files.at[d->file].lines) {
    st = read_line(c, hand, d, e);
    if (st == LT_OK) memcpy(to, json_string_value(hand->line) + offset, (size_t)count);
  } else {
    st = read_file(c, hand, d->file, d->place + offset, count, to, e);
  }
  release(&own);
  return st;
}
