/* corpus.h: the documents of a run: bytes of text files, or the "text" of the lines of .jsonl files.
** Files are looked at once, when the corpus opens; their bytes are read when a step asks for them, never before.
** What is read does not change it: threads may share it, each with a hand of its own. */
#ifndef LT_DATA_CORPUS_H
#define LT_DATA_CORPUS_H

#include "core/error.h"

#include <stdint.h>

#define LT_CORPUS_VOCAB 256 /* a token is a byte */

typedef enum lt_corpus_part { LT_CORPUS_TRAIN, LT_CORPUS_EVAL, LT_CORPUS_PARTS } lt_corpus_part;

typedef struct lt_corpus_source {
  const char *base;                       /* the folder relative patterns start from: the recipe's */
  const char *const *train, *const *eval; /* patterns, as in data/glob.h; no eval: NULL and 0 */
  int64_t train_count, eval_count;
  /* The share of training documents held out instead: those whose hash of (path, index in the file) falls under it.
  ** The choice stays the same when documents are added. 0: none. */
  double hold_out;
} lt_corpus_source;

typedef struct lt_corpus lt_corpus;

/* Find the documents. Empty ones are skipped; a file that is in both parts is held out. LT_DATA when a pattern matches
** nothing, a part that was asked for has no text, or a line of a .jsonl file has none. */
lt_status lt_corpus_open(const lt_corpus_source *from, lt_corpus **out, lt_error *e);
void lt_corpus_close(lt_corpus *c);

int64_t lt_corpus_documents(const lt_corpus *c, lt_corpus_part part);
int64_t lt_corpus_tokens(const lt_corpus *c, lt_corpus_part part); /* bytes of all of them */
int64_t lt_corpus_document_tokens(const lt_corpus *c, lt_corpus_part part, int64_t document);
const char *lt_corpus_document_path(const lt_corpus *c, lt_corpus_part part, int64_t document);
int64_t lt_corpus_document_index(const lt_corpus *c, lt_corpus_part part,
                                 int64_t document); /* line in its file, from 0 */

/* A hash of every document's part, path, index and length: a resumed run compares it. */
uint64_t lt_corpus_hash(const lt_corpus *c);

/* What is kept between two reads: an open file, a decoded line. For one thread and one corpus. */
typedef struct lt_corpus_hand lt_corpus_hand;
lt_status lt_corpus_hand_create(lt_corpus_hand **out, lt_error *e);
void lt_corpus_hand_free(lt_corpus_hand *h);

/* Bytes [offset, offset + n) of a document into `to`. h may be NULL: nothing is kept. LT_DATA when the file is not what
** it was. */
lt_status lt_corpus_read(const lt_corpus *c, lt_corpus_hand *h, lt_corpus_part part, int64_t document, int64_t offset,
                         int64_t n, void *to, lt_error *e);

#endif
