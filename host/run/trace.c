/* trace.c: one complete event ("ph": "X") an item, with its unit and predicted time as arguments; of a transfer also how
** long the compute lane waited for it. Format: "Trace Event Format", Google, 2016. */
#include "run/trace.h"

#include "run/session_inside.h"

#include <math.h>
#include <stdlib.h>

static void print_string(const char *s, lt_text *out) {
  lt_text_bytes(out, "\"", 1);
  for (; *s; s++) {
    if (*s == '"' || *s == '\\')
      lt_text_add(out, "\\%c", *s);
    else if ((unsigned char)*s < 0x20)
      lt_text_add(out, "\\u%04x", (unsigned)(unsigned char)*s);
    else
      lt_text_bytes(out, s, 1);
  }
  lt_text_bytes(out, "\"", 1);
}

static void print_names(const lt_schedule *s, lt_text *out) {
  lt_text_add(out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}", (int)s->rank,
              (int)s->rank);
  bool used[LT_LANES] = {[LT_LANE_COMPUTE] = true, [LT_LANE_COMM] = true};
  for (int64_t i = 0; i < s->item.n; i++) used[s->item.at[i].lane] = true;
  for (int lane = 0; lane < LT_LANES; lane++)
    if (used[lane])
      lt_text_add(out, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
                  (int)s->rank, lane, lt_lane_name((lt_lane)lane));
}

static void print_item(const lt_executor *x, int32_t item, double origin, lt_text *out) {
  const lt_schedule *s = lt_executor_schedule(x);
  const lt_item *it = &s->item.at[item];
  const lt_item_span *span = &lt_executor_spans(x)[item];
  char label[128];
  lt_item_label(s, item, label, sizeof label);
  lt_text_add(out, ",\n{\"ph\":\"X\",\"name\":");
  print_string(label, out);
  lt_text_add(out, ",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,", (int)s->rank, (int)it->lane,
              1e6 * (span->begin - origin), 1e6 * (span->end - span->begin));
  lt_text_add(out, "\"args\":{\"item\":%d,\"unit\":%d,\"predicted_us\":%.3f", (int)item, (int)it->unit,
              1e6 * it->seconds);
  if (it->kind == LT_ITEM_COLLECTIVE)
    lt_text_add(out, ",\"ready_us\":%.3f,\"waited_us\":%.3f,\"sent\":%lld,\"received\":%lld,\"copied\":%lld",
                1e6 * (span->ready - origin), 1e6 * span->waited, (long long)span->sent, (long long)span->received,
                (long long)span->copied);
  lt_text_add(out, "}}");
}

static double earliest(const lt_executor *x, double than) {
  const lt_item_span *span = lt_executor_spans(x);
  for (int64_t i = 0; i < lt_executor_schedule(x)->item.n; i++)
    if (span[i].begin < than) than = span[i].begin;
  return than;
}

/* A rank's names and items. */
static void print_rank(const lt_executor *x, double origin, lt_text *out) {
  const lt_schedule *s = lt_executor_schedule(x);
  lt_text_add(out, s->rank ? ",\n" : "\n");
  print_names(s, out);
  for (int32_t i = 0; i < s->item.n; i++) print_item(x, i, origin, out);
}

/* All ranks run here. */
static void print_all(lt_session *s, lt_text *out) {
  double origin = INFINITY;
  for (int32_t r = 0; r < s->world; r++) origin = earliest(s->executor[r], origin);
  for (int32_t r = 0; r < s->world; r++) print_rank(s->executor[r], origin, out);
}

/* Rank after rank sends its text round; the first keeps it. */
static lt_status print_world(lt_session *s, lt_text *out, lt_error *e) {
  const int32_t me = lt_world_rank(s->all);
  lt_text mine = {0};
  print_rank(s->executor[me], earliest(s->executor[me], INFINITY), &mine);
  int64_t here = mine.failed ? 0 : (int64_t)mine.n, *n = calloc((size_t)s->world, sizeof *n);
  bool short_of_memory;
  lt_status st = lt_world_any(s->all, mine.failed || !n, &short_of_memory, e);
  if (st == LT_OK && short_of_memory) st = lt_fail_memory(e, mine.n, "the trace");
  if (st == LT_OK) st = lt_world_gather(s->all, &here, n, sizeof here, e);
  for (int32_t r = 0; st == LT_OK && r < s->world; r++) {
    char *text = r == me ? mine.s : malloc((size_t)n[r]);
    st = lt_world_any(s->all, !text, &short_of_memory, e);
    if (st == LT_OK && short_of_memory) st = lt_fail_memory(e, (size_t)n[r], "the trace");
    if (st == LT_OK) st = lt_world_broadcast(s->all, r, text, n[r], e);
    if (st == LT_OK && me == 0) lt_text_bytes(out, text, (size_t)n[r]);
    if (r != me) free(text);
  }
  lt_text_free(&mine);
  free(n);
  return st;
}

lt_status lt_trace_print(lt_session *s, lt_text *out, lt_error *e) {
  lt_status st = LT_OK;
  lt_text_add(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  if (s->all)
    st = print_world(s, out, e);
  else
    print_all(s, out);
  lt_text_add(out, "\n]}\n");
  return st == LT_OK && out->failed ? lt_fail_memory(e, out->n, "the trace") : st;
}
