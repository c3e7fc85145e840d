/* module.h: the door of the MPI module, a shared object that the library opens when a job has more than one rank.
** It holds all that knows MPI, and copies of the few files of ours that it calls: nothing else is exported. */
#ifndef LT_COMM_MODULE_H
#define LT_COMM_MODULE_H

#include "comm/comm.h"

#define LT_MPI_MODULE        "libltrain-mpi.so"
#define LT_MPI_MODULE_SYMBOL "lt_mpi_door"

typedef struct lt_mpi_module {
  const char *(*version)(void); /* of the library it was built with */
  lt_status (*open)(const lt_comm_mpi_options *o, lt_comm **out, lt_error *e);
} lt_mpi_module;

#endif
