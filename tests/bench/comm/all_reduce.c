/* all_reduce.c: bytes a second of our all-reduce against MPI_Allreduce, taking turns in one job.
** usage: mpirun -np N bench_all_reduce [MiB, default 64]. Medians; a rank's bytes sent, 2 (n-1)/n of the data, by time.
** "shared" is memory that peers read in place, "private" any other; MPI runs before ours, as in a program that embeds us. */
#include "comm/comm.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TURNS 9

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct buffers {
  float *send, *recv;
} buffers;

static int die(const lt_error *e) {
  fprintf(stderr, "%s\n", e->what);
  MPI_Abort(MPI_COMM_WORLD, 1);
  return 1;
}

static double time_ours(lt_comm *c, const lt_group *g, buffers b, int64_t n) {
  lt_error e = {0};
  lt_transfer t = {.kind = LT_ALL_REDUCE, .group = g, .dtype = LT_F32, .send = b.send, .recv = b.recv, .count = n};
  MPI_Barrier(MPI_COMM_WORLD);
  double start = now();
  if (lt_comm_wait(c, &t, &e)) die(&e);
  return now() - start;
}

static double time_mpi(buffers b, int64_t n) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = now();
  MPI_Allreduce(b.send, b.recv, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return now() - start;
}

static double median(double *t) {
  qsort(t, TURNS, sizeof *t, by_size);
  return t[TURNS / 2];
}

static void measure(lt_comm *c, const lt_group *g, buffers shared, buffers private, int64_t n) {
  double t[3][TURNS];
  for (int turn = -1; turn < TURNS; turn++) { /* the first one touches the memory */
    int at = turn < 0 ? 0 : turn;
    t[0][at] = time_ours(c, g, shared, n);
    t[1][at] = time_ours(c, g, private, n);
    t[2][at] = time_mpi(private, n);
  }
  double bytes = 4e-9 * 2 * (double)(c->world - 1) / c->world * (double)n;
  double ours = median(t[0]), other = median(t[1]), mpi = median(t[2]);
  if (c->rank == 0)
    printf("%9.1f KiB  %8.1f us %6.2f GB/s   %8.1f us %6.2f GB/s   %8.1f us %6.2f GB/s\n", (double)n * 4 / 1024,
           ours * 1e6, bytes / ours, other * 1e6, bytes / other, mpi * 1e6, bytes / mpi);
}

int main(int argc, char **argv) {
  int level;
  lt_error e = {0};
  lt_comm *c = NULL;
  int64_t most = (argc > 1 ? atoi(argv[1]) : 64) * (int64_t)(1 << 18);
  void *shared[2];
  MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
  if (lt_comm_mpi(NULL, &c, &e)) return die(&e);
  int32_t *rank = malloc((size_t)c->world * sizeof *rank);
  for (int32_t r = 0; r < c->world; r++) rank[r] = r;
  lt_group g = {.rank = rank, .n = c->world, .self = c->rank, .id = 1};
  for (int i = 0; i < 2; i++)
    if (lt_comm_memory_create(c, (size_t)most * 4, (size_t)most * 4, &shared[i], &e)) return die(&e);
  buffers s = {shared[0], shared[1]}, p = {calloc((size_t)most, 4), calloc((size_t)most, 4)};
  for (int64_t i = 0; i < most; i++) s.send[i] = p.send[i] = (float)(i % 1000);
  if (c->rank == 0)
    printf("%d ranks        shared memory              private memory             MPI_Allreduce\n", c->world);
  for (int64_t n = 1; n <= most; n *= n < 256 ? 256 : n < 65536 ? 16 : 4) measure(c, &g, s, p, n);
  for (int i = 0; i < 2; i++) lt_comm_memory_free(c, shared[i], (size_t)most * 4);
  free(p.send);
  free(p.recv);
  lt_comm_free(c);
  MPI_Finalize();
  free(rank);
  return 0;
}
