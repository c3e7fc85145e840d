/* choose_exchange.c: "auto": the exchange with which an attention takes the least time, forward and backward, by the plan's
** machine: its bytes over the slowest link they cross and what its messages cost to start, behind the kernels where they
** hop, before them where they do not.
** Ties go to the earlier of: direct, ring, two_level, ulysses, all_gather, two_level_ulysses; the first three hold no more
** than a few shares of keys at once. Rows are counted as for one document a sequence, and a window as one border. */
#include "compile/compile.h"
#include "graph/ops/attention_rows.h"

#include <math.h>

typedef struct question {
  const lt_plan *plan;
  const lt_attention_facts *f;
  double heads, kv_heads; /* that a rank of tp has */
  double ranks, share;    /* of sp; rows a rank holds */
  double near, inner;     /* ranks of sp on this machine; of an inner group */
  double link, between;
} question;

static double more(double a, double b) { return a > b ? a : b; }
static double less(double a, double b) { return a < b ? a : b; }

/* Bytes of a row of heads, read as they are computed in, and as the float32 sum of a gradient (double in double). */
static double values(const question *q, double heads) { return heads * (double)q->f->head_dim * q->f->bytes; }
static double sums(const question *q, double heads) { return heads * (double)q->f->head_dim * more(q->f->bytes, 4); }
static double part_of(int64_t heads, int32_t ranks) { return ceil((double)heads / ranks); }

/* Seconds for bytes that `crossing` ranks of a machine send to others at once; 0: none does. */
static double seconds(const question *q, double bytes, double crossing) {
  return more(bytes / q->link, crossing > 0 ? bytes * crossing / q->between : 0);
}

/* Scores and what follows from them: of the most a query can see. */
static double compute(const question *q) {
  double length = (double)q->plan->data.length, window = (double)q->f->window;
  double pairs = q->share * (window > 0 ? less(window, length / 2) : length / 2);
  return 14 * q->heads * (double)q->f->head_dim * pairs / q->plan->machine.flops;
}

/* Rows a rank gets of others, where only what is seen travels. */
static double rows(const question *q) {
  double all = (q->ranks - 1) * q->share;
  return q->f->window > 0 ? less(all, (double)q->f->window) : all;
}

/* Keys and values twice, and their gradients back, over all hops. */
static double hop_bytes(const question *q) {
  double kv = 2 * q->kv_heads;
  return rows(q) * (2 * values(q, kv) + sums(q, kv));
}

/* Beside them every hop has kernels of its own, forward, backward and, but where transfers add by themselves, two that add
** what comes back; and six transfers. */
static double hop_seconds(const question *q, lt_exchange x) {
  double bytes = hop_bytes(q), hops = ceil(rows(q) / q->share), apart = q->ranks - q->near;
  double back = rows(q) * sums(q, 2 * q->kv_heads), start = q->plan->machine.start, time;
  const double kernels = x == LT_EXCHANGE_DIRECT ? 2 : 4;
  if (apart <= 0)
    time = seconds(q, bytes, 0);
  else if (x == LT_EXCHANGE_RING) /* one rank a machine hands on to the next; sums go straight home */
    time = seconds(q, bytes - back, 1) + seconds(q, back, less(hops, q->near));
  else if (x == LT_EXCHANGE_DIRECT)
    time = seconds(q, bytes, less(hops, q->near));
  else { /* each row crosses once for all ranks of an inner group, while others go round it */
    double far = bytes * (q->ranks / q->inner - 1) / (q->ranks - 1);
    time = more(seconds(q, bytes - far, 0), seconds(q, far, less(hops, q->near)));
  }
  return more(compute(q) + kernels * hops * start, time + 6 * hops * start);
}

/* Of collectives that send something to every other one of `ranks`. */
static double starts(const question *q, double collectives, double ranks) {
  return collectives * (ranks - 1) * q->plan->machine.start;
}

/* Of `ranks` ranks: queries and outputs travel by heads, keys too, or whole where there are too few heads. */
static double ulysses_seconds(const question *q, double ranks, double crossing) {
  double h = q->heads, kv = 2 * q->kv_heads, moved = q->share * (ranks - 1) / ranks;
  bool part = q->kv_heads >= ranks;
  double there = moved * (2 * values(q, h) + sums(q, h) + values(q, h)); /* q, out; dq, dout */
  double keys = moved * (part ? 1 : ranks) * (values(q, kv) + sums(q, kv));
  return seconds(q, there + keys, crossing) + starts(q, 8, ranks);
}

static double time_of(const question *q, lt_exchange x) {
  double kv = 2 * q->kv_heads, crossing = q->near < q->ranks ? q->near : 0;
  double uneven = ceil(q->heads / q->ranks) * q->ranks / q->heads;
  switch (x) {
  case LT_EXCHANGE_ULYSSES: return compute(q) * more(uneven, 1) + ulysses_seconds(q, q->ranks, crossing);
  case LT_EXCHANGE_TWO_LEVEL_ULYSSES: {
    question outer = *q;
    outer.ranks /= q->inner; /* rings of what an inner group holds, for a part of the heads each */
    outer.near = more(floor(q->near / q->inner), 1);
    outer.between /= less(q->near, q->inner);               /* as many rings share a machine's link */
    if (q->kv_heads < q->inner) outer.kv_heads *= q->inner; /* too few to be shared out: each ring moves all */
    return hop_seconds(&outer, LT_EXCHANGE_DIRECT) + ulysses_seconds(q, q->inner, q->near < q->inner ? q->near : 0);
  }
  case LT_EXCHANGE_ALL_GATHER:
    return compute(q) + seconds(q, (q->ranks - 1) * q->share * (values(q, kv) + sums(q, kv)), crossing) +
           starts(q, 4, q->ranks);
  default: return hop_seconds(q, x);
  }
}

int lt_plan_exchange(void *plan, const lt_attention_facts *f) {
  static const lt_exchange order[LT_EXCHANGES] = {LT_EXCHANGE_DIRECT,     LT_EXCHANGE_RING,
                                                  LT_EXCHANGE_TWO_LEVEL,  LT_EXCHANGE_ULYSSES,
                                                  LT_EXCHANGE_ALL_GATHER, LT_EXCHANGE_TWO_LEVEL_ULYSSES};
  const lt_plan *p = plan;
  const lt_mesh *m = &p->mesh;
  question q = {.plan = p, .f = f, .ranks = lt_mesh_sp(m), .inner = m->size[LT_SP_I]};
  if (q.ranks == 1) return LT_EXCHANGE_ALL_GATHER;
  q.heads = part_of(f->heads, m->size[LT_TP]);
  q.kv_heads = part_of(f->kv_heads, m->size[LT_TP]);
  q.share = (double)lt_plan_token_bound(plan, 0, 0, 0);
  lt_coords c = lt_mesh_coords(m, 0);
  for (int32_t i = 0; i < (int32_t)q.ranks; i++) {
    c.at[LT_SP_O] = i / m->size[LT_SP_I];
    c.at[LT_SP_I] = i % m->size[LT_SP_I];
    q.near += lt_mesh_node(m, lt_mesh_rank(m, &c)) == lt_mesh_node(m, 0);
  }
  q.link = p->machine.link;
  q.between = p->machine.between;
  bool levels = m->size[LT_SP_O] > 1 && m->size[LT_SP_I] > 1;
  lt_exchange best = order[0];
  for (int i = 1; i < LT_EXCHANGES; i++) {
    bool two = order[i] == LT_EXCHANGE_TWO_LEVEL || order[i] == LT_EXCHANGE_TWO_LEVEL_ULYSSES;
    if ((!two || levels) && time_of(&q, order[i]) < 0.99 * time_of(&q, best)) best = order[i];
  }
  return (int)best;
}
