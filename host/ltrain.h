/* ltrain.h: the public interface of libltrain.
** The only header an embedding program includes; no Lua, MPI or CUDA type appears in it.
** Every call that can fail returns an lt_status and fills the caller's lt_error; nothing prints or exits. */
#ifndef LT_LTRAIN_H
#define LT_LTRAIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LT_VERSION_MAJOR 0
#define LT_VERSION_MINOR 1
#define LT_VERSION_PATCH 0

/* The library's version, "major.minor.patch". Never NULL, never freed. */
const char *lt_version(void);

/* What a call came to. The values are also the exit statuses of ltrain-lua. */
typedef enum lt_status {
  LT_OK = 0,
  LT_FAILED = 1,       /* failed while running */
  LT_USAGE = 2,        /* the call or the command line is wrong */
  LT_RECIPE = 3,       /* the recipe is wrong, or cannot be compiled */
  LT_DATA = 4,         /* data or a save could not be read or written */
  LT_COMM = 5,         /* a peer or the communication failed */
  LT_INTERRUPTED = 130 /* stopped by SIGINT or SIGTERM, after a save */
} lt_status;

/* An error as a value. Empty strings mean "does not apply"; all are NUL-terminated UTF-8. */
typedef struct lt_error {
  lt_status code;
  char what[512];  /* one sentence: what is wrong */
  char where[192]; /* "recipe.lua:41", a file name, a rank */
  char key[128];   /* "model.ffn.experts" */
  char expected[192];
  char got[192];
  char hint[256];
  char more[6144]; /* further faults found with it, as the lines a person reads; "" when it is alone */
} lt_error;

#ifdef __cplusplus
}
#endif
#endif
