/* save_folder.c: all saves of a run: listing, choosing, pruning, tidying.
** Names are parsed strictly: "step-" and digits without leading zeros, nothing behind but ".old". */
#include "store/save_folder.h"

#include "core/vec.h"
#include "store/durable.h"
#include "store/save.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

typedef enum name_kind { NAME_OTHER, NAME_SAVE, NAME_OLD, NAME_HIDDEN } name_kind;

static name_kind read_name(const char *name, int64_t *step) {
  if (strncmp(name, ".step-", 6) == 0) return NAME_HIDDEN;
  int end = 0;
  char again[32];
  if (sscanf(name, "step-%" SCNd64 "%n", step, &end) != 1 || *step < 0) return NAME_OTHER;
  snprintf(again, sizeof again, "step-%" PRId64, *step);
  if (strncmp(name, again, (size_t)end) != 0 || strlen(again) != (size_t)end) return NAME_OTHER;
  if (!name[end]) return NAME_SAVE;
  return strcmp(name + end, ".old") == 0 ? NAME_OLD : NAME_OTHER;
}

typedef struct name {
  char *path;
  int64_t step;
  name_kind kind;
} name;

typedef struct names {
  name *at;
  int64_t n, cap;
} names;

static void names_free(names *l) {
  for (int64_t i = 0; i < l->n; i++) free(l->at[i].path);
  lt_vec_free(l);
}

/* Newest first; a save before the one it replaced. */
static int compare_name(const void *x, const void *y) {
  const name *a = x, *b = y;
  if (a->step != b->step) return a->step > b->step ? -1 : 1;
  return (int)a->kind - (int)b->kind;
}

/* Every folder that is ours; none when `saves` is not there. */
static lt_status names_read(const char *saves, names *out, lt_error *e) {
  *out = (names){0};
  DIR *d = opendir(saves);
  if (!d) return errno == ENOENT ? LT_OK : lt_durable_fail(e, "read the folder", saves);
  lt_status st = LT_OK;
  struct dirent *entry;
  while (st == LT_OK && (errno = 0, entry = readdir(d))) {
    struct stat about;
    int64_t step = -1;
    name_kind kind = read_name(entry->d_name, &step);
    if (kind == NAME_OTHER) continue;
    char *path = lt_durable_join(saves, entry->d_name);
    name *x = path ? lt_vec_push(out) : NULL;
    if (!x) {
      free(path);
      st = lt_fail_memory(e, sizeof *x, "the list of saves");
    } else {
      *x = (name){path, step, kind};
      if (lstat(path, &about) != 0 || !S_ISDIR(about.st_mode)) free(out->at[--out->n].path);
    }
  }
  if (st == LT_OK && errno) st = lt_durable_fail(e, "read the folder", saves);
  closedir(d);
  if (st == LT_OK && out->n) qsort(out->at, (size_t)out->n, sizeof *out->at, compare_name);
  if (st != LT_OK) names_free(out);
  return st;
}

lt_status lt_save_folder_tidy(const char *saves, lt_error *e) {
  names l;
  lt_status st = names_read(saves, &l, e);
  for (int64_t i = 0; st == LT_OK && i < l.n; i++) {
    const name *x = &l.at[i];
    bool replaced = x->kind == NAME_OLD && i && l.at[i - 1].step == x->step; /* by the one before it */
    if (x->kind == NAME_HIDDEN || replaced) {
      st = lt_durable_remove_folder(x->path, e);
    } else if (x->kind == NAME_OLD) {
      char *back = strdup(x->path);
      if (!back) st = lt_fail_memory(e, 64, "a file name");
      if (back) {
        back[strlen(back) - strlen(".old")] = '\0';
        st = lt_durable_rename(x->path, back, e);
      }
      free(back);
    }
  }
  names_free(&l);
  return st;
}

lt_status lt_save_find(const char *saves, bool hashes, lt_save_list *out, lt_error *e) {
  names l;
  *out = (lt_save_list){0};
  lt_status st = names_read(saves, &l, e);
  for (int64_t i = 0; st == LT_OK && i < l.n; i++) {
    name *x = &l.at[i];
    if (x->kind == NAME_HIDDEN) continue;
    if (x->kind == NAME_OLD && out->count && out->at[out->count - 1].step == x->step) continue;
    if (!lt_vec_grow((void **)&out->at, &out->count, &out->capacity, 1, sizeof *out->at)) {
      st = lt_fail_memory(e, sizeof *out->at, "the list of saves");
      break;
    }
    lt_save_entry *s = &out->at[out->count++];
    lt_error why = {0};
    *s = (lt_save_entry){.step = x->step, .folder = x->path};
    x->path = NULL;
    s->whole = lt_save_folder_check(s->folder, s->step, hashes, &why) == LT_OK;
    if (!s->whole) snprintf(s->why, sizeof s->why, "%.200s%s%.50s", why.what, why.key[0] ? ": " : "", why.key);
  }
  names_free(&l);
  if (st != LT_OK) lt_save_list_free(out);
  return st;
}

void lt_save_list_free(lt_save_list *l) {
  for (int64_t i = 0; i < l->count; i++) free(l->at[i].folder);
  free(l->at);
  *l = (lt_save_list){0};
}

/* Look at every byte of saves from the newest on until one is whole; its place in the list, or -1. */
static int64_t first_whole(lt_save_list *l) {
  for (int64_t i = 0; i < l->count; i++) {
    lt_save_entry *s = &l->at[i];
    if (!s->whole) continue;
    lt_error why = {0};
    s->whole = lt_save_folder_check(s->folder, s->step, true, &why) == LT_OK;
    if (s->whole) return i;
    snprintf(s->why, sizeof s->why, "%.200s%s%.50s", why.what, why.key[0] ? ": " : "", why.key);
  }
  return -1;
}

lt_status lt_save_newest(const char *saves, char **folder, lt_text *refused, lt_error *e) {
  *folder = NULL;
  lt_save_list l;
  lt_status st = lt_save_find(saves, false, &l, e);
  if (st != LT_OK) return st;
  int64_t first = first_whole(&l);
  for (int64_t i = 0; refused && i < (first < 0 ? l.count : first); i++)
    lt_text_add(refused, "step %" PRId64 ": %s\n", l.at[i].step, l.at[i].why);
  if (first >= 0) {
    *folder = l.at[first].folder;
    l.at[first].folder = NULL;
  } else {
    st = lt_fail(e, LT_DATA, l.count ? "no save is whole" : "there is no save");
    lt_error_where(e, "%s", saves);
    if (l.count) lt_error_got(e, "step %" PRId64 ": %.120s", l.at[0].step, l.at[0].why);
  }
  lt_save_list_free(&l);
  return st;
}

/* A hidden name first: a kill while files go leaves nothing that looks like a save. */
static lt_status remove_save(const char *saves, const lt_save_entry *s, lt_error *e) {
  char hidden[40];
  snprintf(hidden, sizeof hidden, ".step-%" PRId64 ".trash", s->step);
  char *path = lt_durable_join(saves, hidden);
  lt_status st = path ? lt_durable_remove_folder(path, e) : lt_fail_memory(e, 64, "a file name");
  if (st == LT_OK) st = lt_durable_rename(s->folder, path, e);
  if (st == LT_OK) st = lt_durable_remove_folder(path, e);
  free(path);
  return st;
}

lt_status lt_save_prune(const char *saves, int64_t keep, lt_error *e) {
  if (keep < 1) return lt_fail(e, LT_USAGE, "at least one save is kept, not %lld", (long long)keep);
  lt_save_list l;
  lt_status st = lt_save_find(saves, false, &l, e);
  if (st != LT_OK) return st;
  int64_t first = first_whole(&l), kept = 0;
  for (int64_t i = first; st == LT_OK && first >= 0 && i < l.count; i++) {
    if (l.at[i].whole && kept < keep)
      kept++;
    else
      st = remove_save(saves, &l.at[i], e);
  }
  lt_save_list_free(&l);
  return st;
}
