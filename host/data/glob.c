/* glob.c: walk folders with a set of pattern places, as a finite automaton over path components.
** State i: components before i are matched. `**` stays where it is on any folder and passes on without one, so
** a folder is read once however many ways lead to it. */
#include "data/glob.h"

#include "core/vec.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define MAX_PARTS 63 /* components of a pattern: states are bits of 64 */

typedef struct walk {
  const char *base, *pattern;
  char *text;            /* the pattern, cut into its components */
  char *part[MAX_PARTS]; /* those with wildcards and behind */
  int parts;
  lt_glob *found;
  lt_error *e;
} walk;

/* `[…]` at p against c; *end is behind it. An unclosed `[` is a plain byte. */
static bool match_class(const char *p, unsigned char c, const char **end) {
  const char *s = p + 1;
  bool negate = *s == '!' || *s == '^', hit = false;
  if (negate) s++;
  const char *first = s;
  for (; *s && (*s != ']' || s == first); s++) {
    unsigned char low = (unsigned char)*s, high = low;
    if (s[1] == '-' && s[2] && s[2] != ']') {
      high = (unsigned char)s[2];
      s += 2;
    }
    hit = hit || (c >= low && c <= high);
  }
  if (!*s) {
    *end = p + 1;
    return c == '[';
  }
  *end = s + 1;
  return hit != negate;
}

/* On a mismatch only the last `*` can take one byte more: at most |pattern|·|name| steps. */
bool lt_glob_match(const char *pattern, const char *name) {
  if (*name == '.' && *pattern != '.') return false;
  const char *star = NULL, *resume = NULL, *p = pattern, *s = name;
  while (*s) {
    const char *next = p + 1;
    bool hit;
    if (*p == '*') {
      star = ++p;
      resume = s;
      continue;
    }
    if (*p == '[')
      hit = match_class(p, (unsigned char)*s, &next);
    else
      hit = *p == '?' || (*p && *p == *s);
    if (hit) {
      p = next;
      s++;
    } else if (star) {
      p = star;
      s = ++resume;
    } else {
      return false;
    }
  }
  while (*p == '*') p++;
  return !*p;
}

static bool any_depth(const char *part) { return strcmp(part, "**") == 0; }

/* `**` matches no folder too: being before it is being behind it. */
static uint64_t pass_empty(const walk *w, uint64_t states) {
  for (int i = 0; i < w->parts; i++)
    if ((states >> i & 1) && any_depth(w->part[i])) states |= (uint64_t)1 << (i + 1);
  return states;
}

/* The states after `name`. Only a named or wildcard component goes through a link to a folder. */
static uint64_t advance(const walk *w, uint64_t states, const char *name, bool folder, bool link) {
  uint64_t next = 0;
  for (int i = 0; i < w->parts; i++) {
    if (!(states >> i & 1)) continue;
    if (!any_depth(w->part[i])) {
      if (lt_glob_match(w->part[i], name)) next |= (uint64_t)1 << (i + 1);
    } else if (name[0] != '.' && (folder ? !link : i + 1 == w->parts)) {
      next |= (uint64_t)1 << i;
    }
  }
  return pass_empty(w, next);
}

static char *join(const char *a, const char *b) {
  size_t n = strlen(a);
  char *s = malloc(n + strlen(b) + 2);
  if (s) sprintf(s, "%s%s%s", a, n && a[n - 1] != '/' ? "/" : "", b);
  return s;
}

static lt_status fail_path(const walk *w, const char *verb, const char *path) {
  int reason = errno;
  lt_fail(w->e, LT_DATA, "cannot %s: %s", verb, strerror(reason));
  lt_error_where(w->e, "%s", path);
  lt_error_key(w->e, "%s", w->pattern);
  return LT_DATA;
}

/* `path` as found, from the base folder; where it lies for the system is `place`, which the caller frees. */
static char *place_of(const walk *w, const char *path) {
  if (path[0] == '/') return strdup(path);
  return join(w->base, path[0] ? path : ".");
}

static lt_status add_file(walk *w, const char *path) {
  char **slot = lt_vec_grow((void **)&w->found->path, &w->found->count, &w->found->capacity, 1, sizeof *slot)
                    ? &w->found->path[w->found->count]
                    : NULL;
  if (!slot || !(*slot = strdup(path))) return lt_fail_memory(w->e, strlen(path), "a list of files");
  w->found->count++;
  return LT_OK;
}

static lt_status walk_folder(walk *w, const char *path, uint64_t states);

/* One entry of the folder `path`: a file that is accepted, a folder that may lead on, or neither. */
static lt_status visit(walk *w, const char *path, const char *name, uint64_t states) {
  struct stat about;
  lt_status st = LT_OK;
  char *full = join(path, name), *place = full ? place_of(w, full) : NULL;
  if (!place) {
    st = lt_fail_memory(w->e, strlen(name), "a file name");
  } else if (lstat(place, &about) == 0) { /* gone since it was listed: not there */
    bool link = S_ISLNK(about.st_mode);
    bool there = !link || stat(place, &about) == 0; /* a dangling link is nothing */
    bool folder = there && S_ISDIR(about.st_mode);
    uint64_t next = there ? advance(w, states, name, folder, link) : 0;
    if (folder && (next & ~((uint64_t)1 << w->parts)))
      st = walk_folder(w, full, next);
    else if (there && S_ISREG(about.st_mode) && (next >> w->parts & 1))
      st = add_file(w, full);
  }
  free(full);
  free(place);
  return st;
}

/* Could `name` lead anywhere, whatever it is? Spares the look at most entries. */
static bool promising(const walk *w, uint64_t states, const char *name) {
  return advance(w, states, name, true, false) || advance(w, states, name, false, false);
}

/* Recursion ends where paths do: real folders only grow the path, links use up a component each. */
static lt_status walk_folder(walk *w, const char *path, uint64_t states) {
  char *place = place_of(w, path);
  if (!place) return lt_fail_memory(w->e, strlen(path), "a file name");
  lt_status st = LT_OK;
  DIR *d = opendir(place);
  if (!d && (errno == ENOENT || errno == ENOTDIR))
    ; /* nothing there: the pattern matches nothing, said at the end */
  else if (!d)
    st = fail_path(w, "read the folder", place);
  struct dirent *entry;
  while (d && st == LT_OK && (errno = 0, entry = readdir(d))) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || !promising(w, states, entry->d_name)) continue;
    st = visit(w, path, entry->d_name, states);
  }
  if (d && st == LT_OK && errno) st = fail_path(w, "read the folder", place);
  if (d) closedir(d);
  free(place);
  return st;
}

/* Cut the pattern: *start is the folder its plain leading components name, w->part the rest (the last is always there).
 */
static lt_status cut_pattern(walk *w, char **start) {
  *start = calloc(strlen(w->pattern) + 2, 1);
  w->text = strdup(w->pattern);
  if (!*start || !w->text) return lt_fail_memory(w->e, strlen(w->pattern), "a pattern");
  if (w->text[0] == '/') strcpy(*start, "/");
  char *save = NULL;
  for (char *p = strtok_r(w->text, "/", &save); p; p = strtok_r(NULL, "/", &save)) {
    if (w->parts && any_depth(p) && any_depth(w->part[w->parts - 1])) continue;
    if (w->parts == MAX_PARTS) {
      lt_fail(w->e, LT_DATA, "a pattern has more than %d components", MAX_PARTS);
      lt_error_key(w->e, "%s", w->pattern);
      return LT_DATA;
    }
    /* the component before was plain, and it is not the last: it belongs to the folder */
    if (w->parts == 1 && !strpbrk(w->part[0], "*?[")) {
      if (**start && (*start)[strlen(*start) - 1] != '/') strcat(*start, "/");
      strcat(*start, w->part[0]);
      w->parts = 0;
    }
    w->part[w->parts++] = p;
  }
  return LT_OK;
}

/* A pattern without wildcards names its file; "." and ".." are no entries a walk would meet. */
static lt_status find_plain(walk *w) {
  struct stat about;
  char *place = place_of(w, w->pattern);
  if (!place) return lt_fail_memory(w->e, strlen(w->pattern), "a file name");
  lt_status st = LT_OK;
  if (stat(place, &about) == 0 && S_ISREG(about.st_mode)) st = add_file(w, w->pattern);
  free(place);
  return st;
}

static lt_status find_one(const char *base, const char *pattern, lt_glob *found, lt_error *e) {
  walk w = {.base = base, .pattern = pattern, .found = found, .e = e};
  char *start = NULL;
  int64_t before = found->count;
  lt_status st = cut_pattern(&w, &start);
  if (st == LT_OK && !strpbrk(pattern, "*?["))
    st = find_plain(&w);
  else if (st == LT_OK && w.parts)
    st = walk_folder(&w, start, pass_empty(&w, 1));
  if (st == LT_OK && found->count == before) {
    st = lt_fail(e, LT_DATA, "no file matches");
    lt_error_key(e, "%s", pattern);
    lt_error_where(e, "%s", base);
  }
  free(start);
  free(w.text);
  return st;
}

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

lt_status lt_glob_find(const char *base, const char *const *pattern, int64_t n, lt_glob *out, lt_error *e) {
  *out = (lt_glob){0};
  lt_status st = LT_OK;
  for (int64_t i = 0; st == LT_OK && i < n; i++) st = find_one(base, pattern[i], out, e);
  if (st != LT_OK) {
    lt_glob_free(out);
    return st;
  }
  if (out->count) qsort(out->path, (size_t)out->count, sizeof *out->path, compare);
  int64_t kept = 0;
  for (int64_t i = 0; i < out->count; i++) {
    if (kept && strcmp(out->path[kept - 1], out->path[i]) == 0)
      free(out->path[i]);
    else
      out->path[kept++] = out->path[i];
  }
  out->count = kept;
  return LT_OK;
}

void lt_glob_free(lt_glob *g) {
  for (int64_t i = 0; i < g->count; i++) free(g->path[i]);
  free(g->path);
  *g = (lt_glob){0};
}
