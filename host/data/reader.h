/* reader.h: which bytes a step reads, and the step table they make.
** Training: epoch e lays the documents end to end in Philox(seed, e) order, epoch follows epoch, and a cursor counts
** the tokens of earlier steps. A step is a pure function of its arguments: resuming is asking for the next one. */
#ifndef LT_DATA_READER_H
#define LT_DATA_READER_H

#include "data/corpus.h"
#include "data/step_table.h"

typedef struct lt_reader lt_reader;

/* A reader of one part; the corpus stays the caller's and outlives it. A part without documents is LT_DATA.
** stretch: what is shuffled and laid end to end: 0 whole documents; else their parts of so many tokens, the last one
** shorter. A step of few tokens then reads from many documents, not from a part of one. */
lt_status lt_reader_create(const lt_corpus *c, lt_corpus_part part, uint64_t seed, int64_t stretch, lt_reader **out,
                           lt_error *e);
/* Another that reads the same, for another thread. */
lt_status lt_reader_again(const lt_reader *r, lt_reader **out, lt_error *e);
void lt_reader_free(lt_reader *r);

/* Tokens of one epoch: cursor / this is the epoch. */
int64_t lt_reader_epoch_tokens(const lt_reader *r);

/* The `tokens` tokens from `cursor` on, as sequences of `length` (the last may be shorter), into `t`, finished. Every
** piece of a document is a document of its own: positions from 0, the last token's label is the next byte of the text,
** or -1 where the text ends. The table must have room for tokens and ceil(tokens / length) sequences. */
lt_status lt_reader_step(lt_reader *r, int64_t step, int64_t cursor, int64_t tokens, int64_t length, lt_step_table *t,
                         lt_error *e);

/* The same without a byte read: only the sequences and documents of the table. */
lt_status lt_reader_outline(lt_reader *r, int64_t step, int64_t cursor, int64_t tokens, int64_t length,
                            lt_step_table *t, lt_error *e);

/* Evaluation: batch b = 0, 1, … of one pass over every document, in an order of its own that no seed and no run
** changes, so that losses of different runs compare. Ends after `limit` tokens (0: none), the last batch is shorter.
** `batches` counts them. */
int64_t lt_reader_eval_batches(const lt_reader *r, int64_t tokens, int64_t limit);
lt_status lt_reader_eval(lt_reader *r, int64_t batch, int64_t tokens, int64_t length, int64_t limit, lt_step_table *t,
                         lt_error *e);

#endif
