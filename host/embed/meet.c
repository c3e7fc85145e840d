/* meet.c: what the ranks of a job came to, made one verdict.
** An error that all ranks share keeps its words; one of some ranks is told with the number of the first that has it. */
#include "embed/meet.h"

#include "core/hash.h"

#include <stdlib.h>
#include <string.h>

typedef struct word { /* what a rank brings */
  int64_t code;
  uint64_t text;
} word;

static uint64_t hash_error(const lt_error *e) {
  char buf[LT_ERROR_TEXT];
  lt_error_format(e, buf, sizeof buf);
  return lt_hash_finish(lt_hash_text(LT_HASH_START, buf));
}

static int32_t first_failed(const word *all, int32_t n) {
  int32_t r = 0;
  while (r < n && !all[r].code) r++;
  return r;
}

static void name_rank(lt_error *e, int32_t rank) {
  lt_error text = {0};
  lt_fail(&text, e->code, "rank %d: %s", (int)rank, e->what);
  memcpy(e->what, text.what, sizeof e->what);
}

lt_status lt_world_meet(lt_world *w, lt_status st, bool *met, lt_error *e) {
  int32_t n = lt_world_size(w), same = 1;
  const word mine = {st, st ? hash_error(e) : 0};
  if (!w) return st;
  word *all = calloc((size_t)n, sizeof *all);
  if (!all) return lt_fail_memory(e, (size_t)n * sizeof *all, "the outcome of all ranks");
  lt_error heard = {0};
  lt_status verdict = lt_world_gather(w, &mine, all, sizeof mine, &heard);
  int32_t failed = first_failed(all, n);
  for (int32_t r = 1; r < n; r++) same += all[r].code == all[0].code && all[r].text == all[0].text;
  if (!verdict && failed < n) { /* all end with the error of the first that has one */
    if (st) heard = *e;
    verdict = lt_world_broadcast(w, failed, &heard, sizeof heard, e);
    if (!verdict && same < n) name_rank(&heard, failed);
    *met = !verdict;
    verdict = heard.code;
  }
  free(all);
  if (verdict) *e = heard;
  return verdict;
}
