/* test_save_kill.c: a run that saves, prunes and saves again is killed at random moments: nothing it was told is saved
** is ever lost, and the newest save that is listed is whole. */
#include "store/save.h"

#include "check.h"
#include "core/rng.h"
#include "save_fixture.h"
#include "scratch.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { KILLS = 30 };

/* Save step after step, each of them twice (the second replaces the first), and tell each committed step. */
static void run_child(const char *saves, int64_t step, int tell) {
  for (;; step++) {
    for (int twice = 0; twice < 2; twice++) {
      if (fixture_save(saves, step, NULL) != LT_OK) _exit(1);
      if (write(tell, &step, sizeof step) != sizeof step) _exit(2);
    }
    if (lt_save_prune(saves, 2, NULL) != LT_OK) _exit(3);
  }
}

int main(void) {
  scratch_begin();
  SCRATCH_PATH(saves, "saves");
  int64_t told = 0, found = 0, before = 0, moved = 0, began = 0;
  for (int kill_number = 0; kill_number < KILLS; kill_number++) {
    int ends[2];
    if (!CHECK_INT(pipe(ends), 0)) return 1;
    pid_t child = fork();
    if (child == 0) run_child(saves, found + 1, ends[1]);
    close(ends[1]);
    /* two saves there must be, however slow the machine is */
    while (told < 2)
      if (!CHECK_INT(read(ends[0], &told, sizeof told), sizeof told)) return 1;
    double wait = lt_rng_uniform(lt_rng_stream(7, "kill"), (uint64_t)kill_number) * 0.08;
    nanosleep(&(struct timespec){0, (long)(wait * 1e9)}, NULL);
    CHECK_INT(kill(child, SIGKILL), 0);
    int status = 0;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (int64_t step; read(ends[0], &step, sizeof step) == sizeof step;) told = step;
    close(ends[0]);
    /* a hidden folder left behind shows that the kill hit a save under way */
    char hidden[64];
    snprintf(hidden, sizeof hidden, "saves/.step-%lld.tmp", (long long)told + 1);
    began += access(scratch_path(hidden), F_OK) == 0;
    snprintf(hidden, sizeof hidden, "saves/.step-%lld.tmp", (long long)told);
    began += access(scratch_path(hidden), F_OK) == 0;

    lt_save_list l;
    lt_error e = {0};
    CHECK_INT(lt_save_find(saves, true, &l, &e), LT_OK);
    CHECK(l.count >= 1);
    for (int64_t i = 0; i < l.count; i++) {
      if (!CHECK(l.at[i].whole)) fprintf(stderr, "  step %lld: %s\n", (long long)l.at[i].step, l.at[i].why);
    }
    lt_save_list_free(&l);
    char *folder = NULL;
    if (!CHECK_INT(lt_save_newest(saves, &folder, NULL, &e), LT_OK)) return 1;
    before = found;
    found = fixture_check(folder);
    free(folder);
    CHECK(found >= told); /* told is kept */
    CHECK(found >= before);
    moved += found > before;
  }
  /* what the kills kept from being pruned is pruned now */
  lt_save_list l;
  CHECK_INT(lt_save_prune(saves, 2, NULL), LT_OK);
  CHECK_INT(lt_save_find(saves, true, &l, NULL), LT_OK);
  CHECK_INT(l.count, 2);
  CHECK_INT(l.at[0].step, found);
  lt_save_list_free(&l);
  CHECK(moved > 0); /* the child did work between kills */
  CHECK(began > 0); /* and some kills interrupted it */
  scratch_end();
  return check_done();
}
