/* corpus.c: the text of a recipe.
** A pattern that matches nothing is a fault of the line that has it, not of the folder it was looked for in. */
#include "embed/plan.h"
#include "store/durable.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool blame_list(const char *const *list, int64_t n, const char *key, lt_error *e) {
  for (int64_t i = 0; i < n; i++) {
    if (strcmp(list[i], e->key) != 0) continue;
    e->where[0] = e->key[0] = 0;
    lt_error_got(e, "%s", list[i]);
    lt_error_key(e, "%s[%lld]", key, (long long)i + 1);
    return true;
  }
  return false;
}

static bool is_folder(const char *base, const char *path) {
  struct stat about;
  char *whole = path[0] == '/' ? strdup(path) : lt_durable_join(base, path);
  const bool is = whole && stat(whole, &about) == 0 && S_ISDIR(about.st_mode);
  free(whole);
  return is;
}

/* Where it was looked for, in full: who calls from elsewhere takes relative paths for those of his own folder. */
static void tell_folder(const lt_recipe_settings *s, lt_error *e) {
  char *folder = e->got[0] == '/' ? NULL : realpath(s->folder, NULL);
  if (e->got[0] && is_folder(s->folder, e->got)) {
    const int n = (int)strlen(e->got) - (e->got[strlen(e->got) - 1] == '/');
    lt_error_hint(e, "a folder is no text: %.*s/*.txt are files in it, %.*s/** all of them, in its folders too", n,
                  e->got, n, e->got);
  } else if (folder) {
    lt_error_hint(e, "looked for %s/%s: relative paths go from the recipe's folder", strcmp(folder, "/") ? folder : "",
                  e->got);
  }
  free(folder);
}

static void blame(lt_recipe *r, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(r);
  if (!e || strcmp(e->where, s->folder) != 0) return;
  const bool nothing = !e->got[0];
  if (strcmp(e->key, "hold_out") == 0) {
    e->where[0] = e->key[0] = 0;
    lt_error_key(e, "data.hold_out");
  } else if (!blame_list(s->train, s->n_train, "data.train", e) && !blame_list(s->eval, s->n_eval, "data.eval", e)) {
    return;
  }
  if (nothing) tell_folder(s, e);
  lt_recipe_place(r, e);
}

lt_status lt_recipe_corpus(lt_recipe *r, lt_corpus **out, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(r);
  const lt_corpus_source from = {.base = s->folder,
                                 .train = s->train,
                                 .eval = s->eval,
                                 .train_count = s->n_train,
                                 .eval_count = s->n_eval,
                                 .hold_out = s->hold_out};
  lt_status st = lt_corpus_open(&from, out, e);
  if (st != LT_OK) blame(r, e);
  return st;
}
