/* test_traffic.c: bytes of every collective equal the predicted ones, on many layouts, for steps of uneven sizes.
** The prediction is made by the compiler from size expressions, the count by the communicator from what it is handed; a
** prediction that is off by one element ends the step. */
#include "net.h"
#include "run/inside.h"

static const net plain = {.layers = 2, .train = true, .outputs = true, .clip = 0.5};
static const net cut = {.layers = 2, .train = true, .outputs = true, .clip = 0.5, .tp = true};
static const int64_t lengths[][8] = {{7, 3, 12, 1, 5, 24, 2, 9}, {5, 1}, {0}, {9, 2, 2, 2, 11}};
static const int64_t sequences[] = {8, 2, 1, 5};
#define STEPS 4

static lt_session *session_of(int32_t dp, int32_t sp, int32_t tp, int32_t units, int32_t shard) {
  lt_plan_options o = {.mesh = {.dp = dp, .sp = sp, .tp = tp},
                       .world = dp * sp * tp,
                       .units = units,
                       .shard = shard,
                       .backward = true,
                       .data = {.tokens = 96, .sequences = 8, .length = 24, .block = 4}};
  lt_program *p = NULL;
  lt_session *s = NULL;
  lt_error e = {0};
  if (!net_ok(lt_compile(LT_F32, net_build, (void *)(tp > 1 ? &cut : &plain), &o, -1, &p, &e), &e)) exit(1);
  if (!net_ok(lt_session_create(p, 5, lt_device_cpu(), &s, &e), &e)) exit(1);
  return s;
}

/* One step; every rank's bytes as counted and as predicted. Returns all that were sent. */
static int64_t step(lt_session *s, int i) {
  lt_error e = {0};
  int32_t world = lt_session_program(s)->plan.mesh.world;
  lt_comm_stats before[8];
  int64_t all_sent = 0, all_received = 0;
  lt_step_table *t = net_step(lengths[i], sequences[i], 77 + (uint64_t)i);
  for (int32_t r = 0; r < world; r++) before[r] = lt_session_executor(s, r)->comm->stats;
  CHECK(net_ok(lt_session_step(s, t, &e), &e));
  for (int32_t r = 0; r < world; r++) {
    const lt_comm_stats *now = &lt_session_executor(s, r)->comm->stats;
    int64_t sent, received, most_sent, most_received;
    lt_executor_traffic(lt_session_executor(s, r), &sent, &received);
    lt_schedule_traffic(lt_session_program(s)->schedule[r], &most_sent, &most_received);
    CHECK_INT(now->bytes_sent - before[r].bytes_sent, sent);
    CHECK_INT(now->bytes_received - before[r].bytes_received, received);
    CHECK(sent <= most_sent && received <= most_received);
    all_sent += sent;
    all_received += received;
  }
  CHECK_INT(all_sent, all_received); /* what one sends another receives */
  lt_step_table_free(t);
  return all_sent;
}

static void test_layouts(void) {
  int layouts = 0;
  for (int32_t dp = 1; dp <= 4; dp++)
    for (int32_t sp = 1; sp <= 3; sp++)
      for (int32_t tp = 1; tp <= 3; tp++) {
        if (dp * sp * tp > 6) continue;
        int32_t shard = (dp + 2 * sp + tp) % 4;
        lt_session *s = session_of(dp, sp, tp, 1 + (dp + sp) % 3, shard);
        CHECK((step(s, 0) > 0) == (dp * sp * tp > 1));
        for (int i = 1; i < STEPS; i++) step(s, i);
        layouts++;
        lt_session_free(s);
      }
  CHECK(layouts > 15);
}

/* Fewer tokens move fewer bytes where tokens travel; gradients travel always. */
static void test_sizes(void) {
  lt_session *s = session_of(1, 1, 3, 1, 0);
  int64_t large = step(s, 0), small = step(s, 1), empty = step(s, 2);
  CHECK(large > small && small > empty);
  lt_session_free(s);
  s = session_of(3, 1, 1, 1, 0);
  CHECK_INT(step(s, 0), step(s, 2));
  lt_session_free(s);
}

static void test_fault(void) {
  lt_session *s = session_of(2, 1, 1, 1, 0);
  lt_program *p = (lt_program *)lt_session_program(s);
  lt_error e = {0};
  lt_item *it = p->schedule[1]->item.at;
  while (it->kind != LT_ITEM_COLLECTIVE) it++;
  it->sent = it->received; /* the same expression here, */
  CHECK(step(s, 0) > 0);
  lt_step_table *t = net_step(lengths[0], sequences[0], 77);
  it->sent = 0; /* the constant 0 */
  CHECK_INT(lt_session_step(s, t, &e), LT_FAILED);
  CHECK(strstr(e.what, "other bytes than were predicted") && e.key[0] && strstr(e.expected, "0 sent"));
  lt_step_table_free(t);
  lt_session_free(s);
}

int main(void) {
  test_layouts();
  test_sizes();
  test_fault();
  return check_done();
}
