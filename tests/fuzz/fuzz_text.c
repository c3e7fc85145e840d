/* fuzz_text.c: any bytes as text to learn from: a plain file (after a first T), or lines of JSON.
** Refused with a word, or steps that hold exactly its documents, whatever the length of a sequence.
** Changes are of lines and strings: escapes, keys, lines doubled and joined. */
#include "data/reader.h"
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOKENS 64 /* a step */

static char folder[] = "fuzz_text.XXXXXX";

typedef struct files {
  lt_step_table *table;
} files;

static bool open_folder(void **context) {
  files *f = calloc(1, sizeof *f);
  *context = f;
  return f && mkdtemp(folder) && lt_step_table_create(TOKENS, TOKENS, &f->table, NULL) == LT_OK;
}

static void remove_files(void) {
  char path[64];
  snprintf(path, sizeof path, "%s/t.txt", folder);
  unlink(path);
  snprintf(path, sizeof path, "%s/t.jsonl", folder);
  unlink(path);
}

static void close_folder(void *context) {
  files *f = context;
  remove_files();
  rmdir(folder);
  lt_step_table_free(f->table);
  free(f);
}

static fuzz_result fault(const char *what) {
  fprintf(stderr, "fuzz: %s\n", what);
  return FUZZ_FAULT;
}

/* One step: labels are the next tokens, and every piece has the bytes of its document. */
static fuzz_result check_table(const lt_step_table *t) {
  for (int64_t i = 0; i + 1 < t->tokens; i++)
    if (t->document[i] == t->document[i + 1] && t->label[i] != t->token[i + 1])
      return fault("a label is not the next token");
  for (int64_t i = 0; i < t->tokens; i++)
    if (t->token[i] < 0 || t->token[i] >= LT_CORPUS_VOCAB) return fault("a token is no byte");
  return FUZZ_ACCEPTED;
}

static fuzz_result read_steps(const files *f, const lt_corpus *c, int64_t stretch, const unsigned char *plain) {
  lt_reader *r = NULL;
  lt_error e = {0};
  fuzz_result result = FUZZ_ACCEPTED;
  int64_t all = lt_corpus_tokens(c, LT_CORPUS_TRAIN), cursor = 0;
  if (lt_reader_create(c, LT_CORPUS_TRAIN, 3, stretch, &r, &e) != LT_OK) return fault("there is text, and no reader");
  for (int64_t s = 0; s < 3 && result == FUZZ_ACCEPTED; s++, cursor += TOKENS) {
    if (lt_reader_step(r, s, cursor, TOKENS, 1 + (all + s) % 40, f->table, &e) != LT_OK) {
      result = fault(e.what);
      break;
    }
    result = check_table(f->table);
    for (int64_t i = 0; plain && !stretch && i < TOKENS; i++) /* one document, again and again */
      if (f->table->token[i] != plain[(cursor + i) % all]) result = fault("a token is not the byte of the file");
  }
  lt_reader_free(r);
  return result;
}

static fuzz_result run(void *context, const unsigned char *p, size_t n) {
  bool plain = n && p[0] == 'T';
  char path[64];
  snprintf(path, sizeof path, "%s/t.%s", folder, plain ? "txt" : "jsonl");
  remove_files();
  FILE *out = fopen(path, "wb");
  if (!out || fwrite(p + plain, 1, n - plain, out) != n - plain || fclose(out) != 0) return fault("no file");
  const char *pattern = "t.*";
  const lt_corpus_source from = {.base = folder, .train = &pattern, .train_count = 1};
  lt_corpus *c = NULL;
  lt_error e = {0};
  lt_status st = lt_corpus_open(&from, &c, &e);
  if (st != LT_OK) {
    if (plain && n > 1) return fault("plain text is refused");
    return st == LT_DATA && e.what[0] ? FUZZ_REFUSED : fault("a refusal without a word");
  }
  fuzz_result result = FUZZ_ACCEPTED;
  if (plain && lt_corpus_tokens(c, LT_CORPUS_TRAIN) != (int64_t)n - 1) result = fault("bytes of the file are lost");
  if (result == FUZZ_ACCEPTED) result = read_steps(context, c, 0, plain ? p + 1 : NULL);
  if (result == FUZZ_ACCEPTED) result = read_steps(context, c, 5, NULL);
  lt_corpus_close(c);
  return result;
}

/* ---- Changes of lines ---- */

static size_t put(unsigned char *p, size_t n, size_t room, size_t at, const char *s, size_t m) {
  if (n + m > room) return n;
  memmove(p + at + m, p + at, n - at);
  memcpy(p + at, s, m);
  return n + m;
}

/* Something into a string, or a whole line before another. */
static size_t mutate(void *context, fuzz_random *r, unsigned char *p, size_t n, size_t room) {
  static const char *const inside[] = {"\\u0000", "\\ud83d\\ude00", "\\ud800", "\\n", "\\\"", "\xc3\xa9", "\xff", "a"};
  static const char *const lines[] = {"{\"text\":\"\"}\n",
                                      "{\"text\":\"one\"}\n",
                                      "{\"text\":7}\n",
                                      "\n",
                                      " \t\r\n",
                                      "{\"text\":\"a\",\"text\":\"b\"}\n",
                                      "{\"id\":1,\"text\":\"last\"}",
                                      "[\"text\"]\n"};
  (void)context;
  if (!n) return n;
  bool line = fuzz_below(r, 2);
  const char *s =
      line ? lines[fuzz_below(r, sizeof lines / sizeof *lines)] : inside[fuzz_below(r, sizeof inside / sizeof *inside)];
  size_t start = fuzz_below(r, n);
  for (size_t k = 0; k < n; k++) {
    size_t at = (start + k) % n;
    if (p[at] == (line ? '\n' : '"')) return put(p, n, room, at + 1, s, strlen(s));
  }
  return n;
}

static const char *const words[] = {"{\"text\":\"", "\"}\n", "\"text\"", "\\u0000", "\n", "\r\n", "T", "null", NULL};

const fuzz_target fuzz_text = {.name = "text",
                               .most = 2048,
                               .seconds = 2,
                               .word = words,
                               .open = open_folder,
                               .close = close_folder,
                               .run = run,
                               .mutate = mutate};
