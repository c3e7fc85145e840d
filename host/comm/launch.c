/* launch.c: was this process started as one of many, and the door to MPI.
** The backend is a module of its own, opened only when it is needed: one rank never loads MPI, nor does it need it.
** The module lies beside the program or beside this library, or in ltrain/ of its installation, or where the build
** left it. */
#define _GNU_SOURCE /* dladdr */
#include "comm/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef LT_MODULE_DIR /* the build says where it is */
#define LT_MODULE_DIR      "."
#define LT_MODULE_FROM_BIN "."
#endif

bool lt_comm_launched(void) {
  /* How many there are, where the launcher says it (Open MPI; MPICH and its kin; Slurm): one rank is no job. */
  static const char *const SIZE[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};
  static const char *const RANK[] = {"PMIX_RANK", "PMI_RANK"};
  for (size_t i = 0; i < sizeof SIZE / sizeof SIZE[0]; i++) {
    const char *n = getenv(SIZE[i]);
    if (n) return atoi(n) > 1;
  }
  for (size_t i = 0; i < sizeof RANK / sizeof RANK[0]; i++) {
    const char *n = getenv("SLURM_NTASKS");
    if (getenv(RANK[i])) return !n || atoi(n) > 1;
  }
  return false;
}

#ifdef LT_HAVE_MPI

/* The module in the folder of `path`, or `below` that; NULL: not there, or it does not load (dlerror says why). */
static void *open_beside(const char *path, const char *below) {
  char file[1400];
  const char *slash = strrchr(path, '/');
  int folder = slash ? (int)(slash - path) : 1;
  snprintf(file, sizeof file, "%.*s/%s/" LT_MPI_MODULE, folder, slash ? path : ".", below);
  /* Global: Open MPI's own plugins look for its symbols. */
  return access(file, R_OK) == 0 ? dlopen(file, RTLD_NOW | RTLD_GLOBAL) : NULL;
}

static void *open_module(void) {
  char exe[1024];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  exe[n > 0 ? n : 0] = '\0';
  void *m = open_beside(exe, ".");
  Dl_info here;
  if (!m) m = open_beside(exe, LT_MODULE_FROM_BIN);
  if (!m && dladdr(LT_MPI_MODULE, &here) && here.dli_fname) {
    m = open_beside(here.dli_fname, ".");
    if (!m) m = open_beside(here.dli_fname, "ltrain");
  }
  return m ? m : dlopen(LT_MODULE_DIR "/" LT_MPI_MODULE, RTLD_NOW | RTLD_GLOBAL);
}

lt_status lt_comm_mpi(const lt_comm_mpi_options *o, lt_comm **out, lt_error *e) {
  lt_status status = LT_OK;
  *out = NULL;
  if (!lt_comm_launched()) {
    status = lt_fail(e, LT_COMM, "this process is not one of several ranks");
    lt_error_hint(e, "start it by mpirun -np N, mpiexec or srun");
    return status;
  }
  void *m = open_module();
  const lt_mpi_module *door = m ? dlsym(m, LT_MPI_MODULE_SYMBOL) : NULL;
  if (!door) {
    const char *why = dlerror();
    status = lt_fail(e, LT_COMM, "MPI cannot be used: %s", why ? why : LT_MPI_MODULE " is another file");
    lt_error_hint(e, "it needs libopenmpi3 (Debian: apt-get install openmpi-bin libopenmpi3)");
    return status;
  }
  if (strcmp(door->version(), lt_version()) != 0)
    return lt_fail(e, LT_COMM, "the MPI module is of version %s, the library of %s", door->version(), lt_version());
  return door->open(o, out, e); /* stays loaded: MPI does not like to be unloaded */
}

#else

lt_status lt_comm_mpi(const lt_comm_mpi_options *o, lt_comm **out, lt_error *e) {
  (void)o;
  *out = NULL;
  lt_status status = lt_fail(e, LT_COMM, "built without MPI: there is one rank only");
  lt_error_hint(e, "apt-get install libopenmpi-dev openmpi-bin (Debian) and build again");
  return status;
}

#endif
