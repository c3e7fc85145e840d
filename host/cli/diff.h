/* diff.h: two things of --diff as lists of named values, so that all of them are compared and shown alike. */
#ifndef LT_CLI_DIFF_H
#define LT_CLI_DIFF_H

#include "cli/cli.h"
#include "core/text.h"
#include "core/vec.h"

typedef struct diff_row {
  char *key, *value, *note; /* note: where it comes from; "" */
} diff_row;

typedef struct diff_list {
  LT_VEC(diff_row) row;
  bool failed; /* memory was short: check once */
} diff_list;

void diff_add(diff_list *l, const char *key, const char *note, const char *fmt, ...) LT_PRINTF(4, 5);
void diff_free(diff_list *l);
/* Print what differs under a title, or that nothing does → does anything? */
bool diff_show(const char *title, const diff_list *a, const diff_list *b);

/* ---- diff_recipes.c, diff_runs.c ---- */

lt_status diff_recipes(const cli_options *o, bool *differs, lt_error *e);
lt_status diff_runs(const cli_options *o, bool *differs, lt_error *e);

#endif
