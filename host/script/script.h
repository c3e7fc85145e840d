/* script.h: Lua states as the command line sees them; no Lua type leaves this folder but by name.
** Two kinds: a recipe state is closed (sandbox, memory cap, watchdog, interpreter only), a script state is open.
** All Lua runs on the thread that created the state, never inside a step. */
#ifndef LT_SCRIPT_SCRIPT_H
#define LT_SCRIPT_SCRIPT_H

#include "core/error.h"
#include "core/text.h"

#include <signal.h>
#include <stdint.h>

struct lt_comm;
typedef struct lt_script lt_script;

typedef enum lt_script_kind { LT_SCRIPT_OPEN, LT_SCRIPT_RECIPE } lt_script_kind;

lt_status lt_script_create(lt_script_kind kind, lt_script **out, lt_error *e);
void lt_script_free(lt_script *s);

/* What to do, on a thread of ours, when a rank of the job this script runs in is lost: lt_comm_mpi_options.lost. */
void lt_script_on_lost(lt_script *s, void (*lost)(void *context, const lt_error *e));

/* The communicator that lt.comm.world() hands out, instead of one that the script opens; it outlives the state. */
lt_status lt_script_lend_world(lt_script *s, struct lt_comm *world, lt_error *e);

/* Run a file of ordinary Lua; a first line that starts with # is skipped. argv[0 … argc) become arg[1 …], the path
** arg[0]. A chunk that returns a number hands it back as *status (0 otherwise). Where the script is one rank of a job and
** fails because another did, which reports it: LT_OK, and *status is LT_COMM. */
lt_status lt_script_run_file(lt_script *s, const char *path, int argc, const char *const *argv, int *status,
                             lt_error *e);
/* Run a piece of text, as `-e` does; values it returns are printed into `out`, tab-separated, one line. */
lt_status lt_script_run_text(lt_script *s, const char *text, int argc, const char *const *argv, lt_text *out,
                             lt_error *e);
/* Where the last error came from, as Lua's stack tells it; "" if there was none. Valid until the next run. */
const char *lt_script_traceback(const lt_script *s);

/* The watchdog of a recipe state: whatever Lua runs from here to unwatch may take so much processor time together. What
** outlives it is ended with an LT_RECIPE error that names `what` ("the recipe", "on_step at step 50"; copied) and the
** line; nothing in the recipe can catch it. The state lives on and can be watched again. One watch at a time. */
void lt_script_watch(lt_script *s, const char *what, double cpu_seconds);
void lt_script_unwatch(lt_script *s);

/* The name and version of the Lua engine. */
const char *lt_script_engine(void);

/* The folder of our Lua modules: beside the binary, or where the build found it. Owned by the library. */
const char *lt_script_lua_dir(const lt_script *s);

/* ---- console.c: an open state that is fed line by line; code runs interpreted, so that it can be stopped ---- */

/* *stop, set by a signal handler, ends what runs; it belongs to the caller, who clears it. */
lt_status lt_console_create(volatile sig_atomic_t *stop, lt_script **out, lt_error *e);
/* One line more: runs the piece of code it completes and prints its values, unless `quiet`. *more: it is not complete yet.
** `last`: no line follows. LT_INTERRUPTED when it was stopped. */
lt_status lt_console_feed(lt_script *s, const char *line, bool last, bool quiet, bool *more, lt_error *e);
/* Forget the incomplete piece. */
void lt_console_drop(lt_script *s);
/* How the name that ends the text could go on: the names, a line each, of which the last *letters of the text are the
** beginning. */
lt_status lt_console_complete(lt_script *s, const char *text, size_t *letters, lt_text *names);

/* The nearest of a NULL-terminated list to a misspelt word, or NULL: at most a third of its letters differ, or one. */
const char *lt_script_nearest(const char *word, const char *const *list);

#endif
