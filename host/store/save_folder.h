/* save_folder.h: what save.c (one save) and save_folder.c (all of them) know of each other. */
#ifndef LT_STORE_SAVE_FOLDER_H
#define LT_STORE_SAVE_FOLDER_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Is the save whole, and of this step (-1: of any)? */
lt_status lt_save_folder_check(const char *folder, int64_t step, bool hashes, lt_error *e);

/* Clear what killed writers left: hidden folders go, a replaced save goes or takes its name back. */
lt_status lt_save_folder_tidy(const char *saves, lt_error *e);

#endif
