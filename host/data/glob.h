/* glob.h: the files that patterns name, in an order that no file system, locale or machine can change.
** `*` and `?` match inside a name, `[a-z]` and `[!a-z]` one byte, `**` any folders. Wildcards do not match a leading
** dot; `**` does not follow links to folders, so links cannot loop. Ours, since glob(3) sorts by locale and has no
*`**`. */
#ifndef LT_DATA_GLOB_H
#define LT_DATA_GLOB_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lt_glob {
  char **path; /* [count] as the patterns lead to them (relative patterns: from the base folder), ascending by bytes */
  int64_t count, capacity;
} lt_glob;

/* All regular files any of the n patterns matches, each once. Relative patterns start at `base`. A pattern that
** matches nothing is LT_DATA naming it; so is a folder on the way that cannot be read. Free with lt_glob_free. */
lt_status lt_glob_find(const char *base, const char *const *pattern, int64_t n, lt_glob *out, lt_error *e);
void lt_glob_free(lt_glob *g);

/* Does a name (no `/` in it) match one component of a pattern? */
bool lt_glob_match(const char *pattern, const char *name);

#endif
