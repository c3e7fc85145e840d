/* folder.h: the folder of a run: that nobody else trains in it, the recipe as it is run, its files. */
#ifndef LT_EMBED_FOLDER_H
#define LT_EMBED_FOLDER_H

#include "script/recipe.h"
#include "store/tree.h"

#define LT_FOLDER_PLAN "plan.json"

typedef struct lt_folder {
  char *path, *saves, *metrics;
  int lock;  /* the folder, held open and locked; -1 */
  bool made; /* it was not there */
} lt_folder;

/* The folder at `path`, made if need be. One that holds a run already is LT_USAGE without `resume`; one that another
** process trains in is LT_DATA. Close it on failure too. */
lt_status lt_folder_check_unused(const char *path, lt_error *e); /* the first of these alone, without a lock */
lt_status lt_folder_open(const char *path, bool resume, lt_folder *f, lt_error *e);
void lt_folder_close(lt_folder *f);

/* Write down what is run in it: recipe.lua, in settings.txt with what, in plan.json as what it was planned. On the disk
** before it returns, so before the first step. */
lt_status lt_folder_describe(const lt_folder *f, const lt_recipe_source *from, const char *recipe, size_t bytes,
                             int32_t ranks, const char *settings, const lt_tree *plan, lt_error *e);
/* The n bytes at s are what its file `name` holds. */
lt_status lt_folder_put(const lt_folder *f, const char *name, const char *s, size_t n, lt_error *e);

#endif
