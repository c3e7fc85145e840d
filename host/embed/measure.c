/* measure.c: tokens a program gives, for a step or to be measured, and what a measurement tells.
** The arrays are looked at during the call alone: the step table takes what it needs. */
#include "embed/inside.h"
#include "embed/structs.h"

#include <math.h>

static lt_status read_batch(const lt_run *r, const lt_batch *batch, lt_tensors *out, lt_error *e) {
  lt_batch b;
  lt_status st = lt_struct_take(batch, &b, sizeof b, "lt_batch", e);
  if (st != LT_OK) return st;
  if (b.rows < 1 || b.length < 1 || b.rows > INT32_MAX / b.length || !b.tokens) {
    lt_fail(e, LT_USAGE, "a batch has at least one row of at least one token");
    lt_error_got(e, "%lld rows of %lld", (long long)b.rows, (long long)b.length);
    return LT_USAGE;
  }
  *out = (lt_tensors){.rows = b.rows,
                      .length = b.length,
                      .tokens = b.tokens,
                      .labels = b.labels,
                      .documents = b.documents,
                      .positions = b.positions,
                      .weights = b.weights,
                      .vocab = r->s->vocab > 0 ? r->s->vocab : INT32_MAX};
  return LT_OK;
}

lt_status lt_run_feed(lt_run *r, const lt_batch *batch, lt_error *e) {
  lt_tensors t;
  if (!batch && !r->fed) return LT_OK;
  if (!r->fed) return lt_fail(e, LT_USAGE, "the run reads its recipe's text: no tokens can be given to its steps");
  if (!batch) return lt_fail(e, LT_USAGE, "this run is fed: a step needs its tokens");
  lt_status st = read_batch(r, batch, &t, e);
  return st == LT_OK ? lt_trainer_feed(r->trainer, &t, e) : st;
}

lt_status lt_run_measure(lt_run *r, const lt_batch *batch, lt_run_eval *out, lt_error *e) {
  lt_tensors t;
  lt_eval v;
  lt_status st = batch ? read_batch(r, batch, &t, e) : LT_OK;
  if (st == LT_OK) st = lt_trainer_measure(r->trainer, batch ? &t : NULL, true, &v, e);
  if (st != LT_OK) return st;
  *out = (lt_run_eval){
      .loss = v.loss, .perplexity = exp(v.loss), .count = v.count, .tokens = v.tokens, .buckets = v.buckets};
  memcpy(out->bucket_loss, v.bucket_loss, sizeof out->bucket_loss);
  memcpy(out->bucket_count, v.bucket_count, sizeof out->bucket_count);
  return LT_OK;
}
