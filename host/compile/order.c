/* order.c: transfers as early as they can start, gradients in buckets; who waits for whom; how long every buffer lives.
** An item waits for the last item of every lane it depends on, unless its place in its own lane or an earlier wait
** already implies it: vector clocks (Fidge 1988; Mattern 1989) tell. Buckets as in Li et al. 2020 (PyTorch DDP). */
#include "compile/compile.h"
#include "graph/ops/table.h"

#include <stdlib.h>
#include <string.h>

typedef struct touch { /* who last wrote a buffer, and who has read it since, by lane */
  int32_t writer, reader[LT_LANES];
} touch;

static void need(const lt_schedule *s, int32_t *want, int32_t item) {
  if (item < 0) return;
  lt_lane lane = s->item.at[item].lane;
  if (item > want[lane]) want[lane] = item;
}

/* The latest item of every lane that item i depends on: reads after writes, writes after reads and writes. */
static void collect(const lt_schedule *s, touch *t, int32_t i, int32_t want[LT_LANES]) {
  const lt_item *it = &s->item.at[i];
  for (int m = 0; m < LT_LANES; m++) want[m] = -1;
  for (int k = 0; k < it->n_in; k++) {
    int32_t b = s->operand.at[it->operand + k].buffer;
    if (b != LT_NONE && !lt_schedule_add_in_turn(s, t[b].writer, i)) need(s, want, t[b].writer);
  }
  for (int k = 0; k < it->n_out; k++) {
    int32_t b = s->operand.at[it->operand + it->n_in + k].buffer;
    if (b == LT_NONE || lt_schedule_add_in_turn(s, t[b].writer, i)) continue;
    need(s, want, t[b].writer);
    for (int m = 0; m < LT_LANES; m++) need(s, want, t[b].reader[m]);
  }
  for (int k = 0; k < it->n_in; k++) {
    int32_t b = s->operand.at[it->operand + k].buffer;
    if (b != LT_NONE) t[b].reader[it->lane] = i;
  }
  for (int k = 0; k < it->n_out; k++) {
    int32_t b = s->operand.at[it->operand + it->n_in + k].buffer;
    if (b == LT_NONE) continue;
    t[b].writer = i;
    for (int m = 0; m < LT_LANES; m++) t[b].reader[m] = -1;
  }
}

/* ---- Transfers as early as possible ---- */

typedef struct moved {
  int32_t item, ready; /* may start after item `ready` of the compute lane's order */
  bool last;           /* of a bucket of gradients: nothing joins it any more */
} moved;

static int by_ready(const void *a, const void *b) {
  const moved *x = a, *y = b;
  if (x->ready != y->ready) return x->ready < y->ready ? -1 : 1;
  return x->item < y->item ? -1 : x->item > y->item;
}

/* Key and value hops start where the exchange pass put them, after the kernel before: earlier ones would hold their slots
** for longer, and while one may start at any time no memory that others are done with is free. */
static bool keeps_place(const lt_schedule *s, const lt_item *it) {
  return (it->lane == LT_LANE_HOP || it->lane == LT_LANE_FAR) && it->node != LT_NONE &&
         s->graph->node.at[it->node].op == &lt_op_hop;
}

/* When every item may start, as the position of the last compute item before it. In the lanes whose transfers wait for the
** other side's time, none before one that comes first: keys before values, one attention before the next, on all ranks. */
static void find_ready(const lt_schedule *s, touch *t, int32_t *ready) {
  int32_t compute = -1, newest[LT_LANES];
  for (int m = 0; m < LT_LANES; m++) newest[m] = -1;
  memset(t, 0xff, sizeof *t * (size_t)s->buffer.n);
  for (int32_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    int32_t want[LT_LANES];
    collect(s, t, i, want);
    if (it->lane == LT_LANE_COMPUTE) compute = i;
    ready[i] = it->lane == LT_LANE_COMPUTE || keeps_place(s, it) ? compute : -1;
    for (int m = 0; m < LT_LANES; m++)
      if (want[m] >= 0 && ready[want[m]] > ready[i]) ready[i] = ready[want[m]];
    if (it->lane < LT_LANE_GIVE) continue;
    if (newest[it->lane] > ready[i]) ready[i] = newest[it->lane];
    newest[it->lane] = ready[i];
  }
}

/* May these all-reduces in place be one transfer? */
static bool same_bucket(const lt_schedule *s, const lt_item *a, const lt_item *b) {
  const lt_operand_plan *x = &s->operand.at[a->operand], *y = &s->operand.at[b->operand];
  return a->group == b->group && x->dtype == y->dtype;
}

static bool is_gradient(const lt_schedule *s, const lt_item *it) {
  if (it->kind != LT_ITEM_COLLECTIVE || it->lane != LT_LANE_COMM || it->n_in != 1 || it->counts != LT_NONE)
    return false;
  const lt_operand_plan *in = &s->operand.at[it->operand], *out = &s->operand.at[it->operand + 1];
  return in->buffer == out->buffer && s->buffer.at[in->buffer].state != LT_NONE;
}

#define LEAST_BUCKET (64 << 10) /* bytes: smaller ones cost their start, not their bytes */

/* Bytes of a bucket: an eighth of all gradients, so that most of them travel while the backward pass still runs. */
static int64_t bucket_bytes(const lt_schedule *s) {
  int64_t all = 0;
  for (int64_t i = 0; i < s->item.n; i++)
    if (is_gradient(s, &s->item.at[i])) all += s->buffer.at[s->operand.at[s->item.at[i].operand].buffer].bytes;
  int64_t part = all / 8, least = 256 << 10, most = 32 << 20;
  return part < least ? least : part > most ? most : part;
}

/* Merge b into a: inputs of both, then outputs of both, in fresh operands. */
static bool merge_items(lt_schedule *s, lt_item *a, const lt_item *b) {
  int32_t at = (int32_t)s->operand.n, n = a->n_in + b->n_in;
  for (int32_t k = 0; k < 2 * n; k++)
    if (!lt_vec_push(&s->operand)) return false;
  lt_operand_plan *o = s->operand.at;
  memcpy(o + at, o + a->operand, sizeof *o * (size_t)a->n_in);
  memcpy(o + at + a->n_in, o + b->operand, sizeof *o * (size_t)b->n_in);
  memcpy(o + at + n, o + a->operand + a->n_in, sizeof *o * (size_t)a->n_in);
  memcpy(o + at + n + a->n_in, o + b->operand + b->n_in, sizeof *o * (size_t)b->n_in);
  a->operand = at;
  a->n_in = a->n_out = n;
  a->bytes += b->bytes;
  a->seconds += b->seconds;
  return true;
}

/* Where buckets end, found from the last one back: after the backward pass nothing hides a transfer, so the last bucket
** is small, and those before it grow. */
static void divide(const lt_schedule *s, moved *list, int64_t n) {
  int64_t most = bucket_bytes(s), limit = most / 8 > LEAST_BUCKET ? most / 8 : LEAST_BUCKET, bytes = 0;
  const lt_item *after = NULL; /* the gradient behind */
  for (int64_t i = n - 1; i >= 0; i--) {
    const lt_item *it = &s->item.at[list[i].item];
    if (!is_gradient(s, it)) continue;
    list[i].last = !after || bytes >= limit || !same_bucket(s, it, after);
    if (after && bytes >= limit && limit < most) limit *= 2;
    if (list[i].last) bytes = 0;
    bytes += s->buffer.at[s->operand.at[it->operand].buffer].bytes;
    after = it;
  }
}

/* Neighbouring gradient reductions in order of readiness become buckets; a bucket is ready with its last member. */
static bool fill_buckets(lt_schedule *s, moved *list, int64_t *n) {
  int64_t kept = 0, open = -1; /* the bucket being filled, in list */
  divide(s, list, *n);
  for (int64_t i = 0; i < *n; i++) {
    const lt_item *it = &s->item.at[list[i].item];
    if (!is_gradient(s, it)) {
      list[kept++] = list[i];
      continue;
    }
    if (open >= 0) {
      lt_item other = *it;
      if (!merge_items(s, &s->item.at[list[open].item], &other)) return false;
      list[open].ready = list[i].ready;
    } else {
      open = kept;
      list[kept++] = list[i];
    }
    if (list[i].last) open = -1;
  }
  *n = kept;
  qsort(list, (size_t)kept, sizeof *list, by_ready);
  return true;
}

#define FEW_BYTES 4096

/* A small result that comes from other ranks and goes to the host, as a loss does: what follows need not wait for it.
** t: who touched what last in the whole schedule. */
static bool can_wait(const lt_schedule *s, const touch *t, int32_t i) {
  const lt_item *it = &s->item.at[i];
  if (it->kind != LT_ITEM_STORE || it->n_in != 1) return false;
  int32_t b = s->operand.at[it->operand].buffer, writer = b == LT_NONE ? -1 : t[b].writer;
  return writer >= 0 && writer < i && s->item.at[writer].lane == LT_LANE_COMM && s->buffer.at[b].state == LT_NONE &&
         s->buffer.at[b].bytes <= FEW_BYTES;
}

/* Rewrite the array: compute items in their order, each transfer right after what it needs, at the end what can wait. */
static lt_status hoist(lt_schedule *s, touch *t, lt_error *e) {
  int64_t n = s->item.n, transfers = 0, late = 0, skipped = 0, at = 0, next = 0;
  int32_t *ready = malloc(sizeof *ready * (size_t)(n ? n : 1));
  moved *list = malloc(sizeof *list * (size_t)(n ? n : 1));
  lt_item *old = malloc(sizeof *old * (size_t)(n ? n : 1));
  lt_status status = LT_OK;
  if (!ready || !list || !old) {
    status = lt_fail_memory(e, sizeof *old * (size_t)n, "the order pass");
    goto done;
  }
  find_ready(s, t, ready);
  for (int32_t i = 0; i < n; i++)
    if (s->item.at[i].lane != LT_LANE_COMPUTE) list[transfers++] = (moved){.item = i, .ready = ready[i]};
  for (int32_t i = 0; i < n; i++) /* `ready` is done with: it takes them */
    if (can_wait(s, t, i)) ready[late++] = i;
  qsort(list, (size_t)transfers, sizeof *list, by_ready);
  if (!fill_buckets(s, list, &transfers)) {
    status = lt_fail_memory(e, sizeof(lt_operand_plan), "the order pass");
    goto done;
  }
  if (n) memcpy(old, s->item.at, sizeof *old * (size_t)n);
  while (next < transfers && list[next].ready < 0) s->item.at[at++] = old[list[next++].item];
  for (int32_t i = 0; i < n; i++) {
    if (old[i].lane != LT_LANE_COMPUTE) continue;
    if (skipped < late && ready[skipped] == i)
      skipped++;
    else
      s->item.at[at++] = old[i];
    while (next < transfers && list[next].ready <= i) s->item.at[at++] = old[list[next++].item];
  }
  for (int64_t i = 0; i < late; i++) s->item.at[at++] = old[ready[i]];
  s->item.n = at;
done:
  free(ready);
  free(list);
  free(old);
  return status;
}

/* ---- Chains ---- */

/* The compute items of every chain, by place, where they lie now. */
static lt_status collect_chains(lt_schedule *s, lt_error *e) {
  int32_t chains = 0, at = 0;
  s->chain.n = s->chain_item.n = 0;
  for (int64_t i = 0; i < s->item.n; i++)
    if (s->item.at[i].chain >= chains) chains = s->item.at[i].chain + 1;
  for (int32_t c = 0; c < chains; c++) {
    lt_chain *slot = lt_vec_push(&s->chain);
    if (!slot) return lt_fail_memory(e, sizeof *slot, "the order pass");
    slot->give = slot->home = LT_NONE;
  }
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    lt_chain *c = it->chain == LT_NONE || it->lane != LT_LANE_COMPUTE ? NULL : &s->chain.at[it->chain];
    if (c && it->place >= c->n) c->n = it->place + 1;
  }
  for (int32_t c = 0; c < chains; c++) {
    s->chain.at[c].first = at;
    at += s->chain.at[c].n;
  }
  for (int32_t k = 0; k < at; k++) {
    int32_t *slot = lt_vec_push(&s->chain_item);
    if (!slot) return lt_fail_memory(e, sizeof *slot, "the order pass");
    *slot = LT_NONE;
  }
  for (int32_t i = 0; i < s->item.n; i++) { /* of several of one place the last */
    const lt_item *it = &s->item.at[i];
    lt_chain *c = it->chain == LT_NONE ? NULL : &s->chain.at[it->chain];
    if (c && it->lane == LT_LANE_COMPUTE) s->chain_item.at[c->first + it->place] = i;
    if (c && it->lane == LT_LANE_GIVE) c->give = i;
    if (c && it->lane == LT_LANE_HOME) c->home = i;
  }
  return LT_OK;
}

int32_t lt_schedule_credit(const lt_schedule *s, int32_t item, int32_t depth) {
  const lt_item *it = &s->item.at[item];
  if (depth <= 0 || it->chain == LT_NONE || it->lane != LT_LANE_HOP || it->chain >= s->chain.n) return LT_NONE;
  const lt_chain *c = &s->chain.at[it->chain];
  int64_t place = (int64_t)it->place - 1 - depth;
  return place < 0 || place >= c->n ? LT_NONE : s->chain_item.at[c->first + place];
}

bool lt_schedule_add_in_turn(const lt_schedule *s, int32_t a, int32_t b) {
  return a >= 0 && s->item.at[a].lane == LT_LANE_SUM && s->item.at[b].lane == LT_LANE_SUM;
}

/* ---- Waits and lifetimes ---- */

static void extend(lt_buffer *b, int32_t i) {
  if (b->first < 0) b->first = i;
  b->last = i;
}

static void lifetimes(lt_schedule *s, int32_t i) {
  const lt_item *it = &s->item.at[i];
  for (int k = 0; k < it->n_in + it->n_out; k++) {
    int32_t b = s->operand.at[it->operand + k].buffer;
    if (b != LT_NONE) extend(&s->buffer.at[b], i);
  }
  if (it->work != LT_NONE) extend(&s->buffer.at[it->work], i);
}

typedef struct lane_end { /* of a lane, the items so far */
  int32_t newest;
  int32_t recent[LT_MOST_UNDER_WAY]; /* a ring */
  int64_t n;
} lane_end;

/* What has ended when the next item of a lane starts, by its place alone. */
static void begin_clock(const lt_schedule *s, const lane_end *l, lt_lane lane, int32_t *clock) {
  for (int m = 0; m < LT_LANES; m++) clock[m] = l->newest < 0 ? -1 : s->clock[(int64_t)l->newest * LT_LANES + m];
  int32_t ended = lane == LT_LANE_COMPUTE      ? l->newest
                  : l->n < lt_lane_depth(lane) ? -1
                                               : l->recent[l->n % lt_lane_depth(lane)];
  if (ended > clock[lane]) clock[lane] = ended;
}

/* What is given waits for nobody, and nothing that is computed needs it: behind the last place of its chain, which `done`
** is, it is waited for, as its memory is then used again. */
static void wait_for_given(const lt_schedule *s, int32_t done, int32_t *want) {
  const int32_t chain = done < 0 ? LT_NONE : s->item.at[done].chain;
  const lt_chain *c = chain == LT_NONE ? NULL : &s->chain.at[chain];
  if (!c || done != s->chain_item.at[c->first + c->n - 1]) return;
  need(s, want, c->give);
  need(s, want, c->home);
}

lt_status lt_pass_order(lt_schedule *s, lt_error *e) {
  touch *t = malloc(sizeof *t * (size_t)(s->buffer.n ? s->buffer.n : 1));
  lane_end lane[LT_LANES];
  lt_status status = LT_OK;
  s->clock = malloc(sizeof *s->clock * (size_t)(s->item.n ? s->item.n : 1) * LT_LANES);
  if (!t || !s->clock) {
    status = lt_fail_memory(e, sizeof *t * (size_t)s->buffer.n, "the order pass");
    goto done;
  }
  if ((status = hoist(s, t, e)) || (status = collect_chains(s, e))) goto done;
  memset(t, 0xff, sizeof *t * (size_t)s->buffer.n); /* all -1 */
  for (int m = 0; m < LT_LANES; m++) lane[m] = (lane_end){.newest = -1};
  for (int32_t i = 0; i < s->item.n; i++) {
    lt_item *it = &s->item.at[i];
    int32_t want[LT_LANES], *clock = s->clock + (int64_t)i * LT_LANES;
    collect(s, t, i, want);
    if (keeps_place(s, it)) need(s, want, lane[LT_LANE_COMPUTE].newest);
    if (it->lane == LT_LANE_COMPUTE) wait_for_given(s, lane[LT_LANE_COMPUTE].newest, want);
    lifetimes(s, i);
    begin_clock(s, &lane[it->lane], it->lane, clock);
    it->wait = (int32_t)s->wait.n;
    for (int m = 0; m < LT_LANES; m++) {
      if (want[m] <= clock[m]) continue;
      int32_t *slot = lt_vec_push(&s->wait);
      if (!slot) {
        status = lt_fail_memory(e, sizeof *slot, "the order pass");
        goto done;
      }
      *slot = want[m];
      it->n_wait++;
      for (int l = 0; l < LT_LANES; l++) {
        int32_t c = s->clock[(int64_t)want[m] * LT_LANES + l];
        if (c > clock[l]) clock[l] = c;
      }
      if (want[m] > clock[m]) clock[m] = want[m];
    }
    lane_end *l = &lane[it->lane];
    l->newest = l->recent[l->n++ % lt_lane_depth(it->lane)] = i;
  }
done:
  free(t);
  return status;
}
