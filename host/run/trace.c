/* trace.c: one complete event ("ph": "X") an item, with its unit and predicted time as arguments; of a transfer also how
** long the compute lane waited for it. Format: "Trace Event Format", Google, 2016. */
#include "run/trace.h"

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

lt_status lt_trace_print(lt_executor *const *x, int32_t n, lt_text *out, lt_error *e) {
  double origin = 0;
  bool any = false;
  for (int32_t r = 0; r < n; r++)
    for (int64_t i = 0; i < lt_executor_schedule(x[r])->item.n; i++) {
      double begin = lt_executor_spans(x[r])[i].begin;
      if (!any || begin < origin) origin = begin;
      any = true;
    }
  lt_text_add(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  for (int32_t r = 0; r < n; r++) {
    lt_text_add(out, r ? ",\n" : "\n");
    print_names(lt_executor_schedule(x[r]), out);
    for (int32_t i = 0; i < lt_executor_schedule(x[r])->item.n; i++) print_item(x[r], i, origin, out);
  }
  lt_text_add(out, "\n]}\n");
  return out->failed ? lt_fail_memory(e, out->n, "the trace") : LT_OK;
}
