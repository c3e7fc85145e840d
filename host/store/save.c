/* save.c: writing and reading one save.
**
**   saves/step-N/            a save; named so only when all below is on the disk
**     model.safetensors …    global tensors
**     state.json             step, cursor, controls, policy states
**     index.json             {"format": "ltrain-save", "version": 1, "step": N,
**                             "files": {name: {"bytes": …, "hash": 16 hexadecimal digits}}}
**   saves/.step-N.tmp/       being written, or left by a kill: never read
**   saves/step-N.old/        the save that step-N is about to replace; it counts while there is no step-N */
#include "store/save.h"

#include "core/hash.h"
#include "store/durable.h"
#include "store/json.h"
#include "store/save_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((int64_t)1 << 20) /* bytes moved at a time */

struct lt_save {
  char *saves, *temporary, *final, *old;
  int64_t step;
  bool begun; /* there is a hidden folder */
};

static char *name_folder(const char *saves, const char *pattern, int64_t step) {
  char name[64];
  snprintf(name, sizeof name, pattern, step);
  return lt_durable_join(saves, name);
}

lt_status lt_save_begin(const char *saves, int64_t step, lt_save **out, lt_error *e) {
  *out = NULL;
  if (step < 0) return lt_fail(e, LT_USAGE, "a save is of step 0 or later, not %lld", (long long)step);
  lt_save *s = calloc(1, sizeof *s);
  if (!s) return lt_fail_memory(e, sizeof *s, "a save");
  s->step = step;
  s->saves = strdup(saves);
  s->temporary = name_folder(saves, ".step-%" PRId64 ".tmp", step);
  s->final = name_folder(saves, "step-%" PRId64, step);
  s->old = name_folder(saves, "step-%" PRId64 ".old", step);
  lt_status st = s->saves && s->temporary && s->final && s->old ? LT_OK : lt_fail_memory(e, sizeof *s, "a save");
  if (st == LT_OK) st = lt_durable_make_folder(saves, e);
  if (st == LT_OK) st = lt_save_folder_tidy(saves, e);
  if (st == LT_OK) {
    s->begun = mkdir(s->temporary, 0777) == 0;
    if (!s->begun) st = lt_durable_fail(e, "create the folder", s->temporary);
  }
  if (st == LT_OK)
    *out = s;
  else
    lt_save_free(s);
  return st;
}

const char *lt_save_folder(const lt_save *s) { return s->temporary; }

void lt_save_free(lt_save *s) {
  if (!s) return;
  if (s->begun) lt_durable_remove_folder(s->temporary, NULL);
  free(s->saves);
  free(s->temporary);
  free(s->final);
  free(s->old);
  free(s);
}

static lt_status write_tensor(lt_safetensors_writer *w, const lt_save_source *from, int64_t index, void *buffer,
                              lt_error *e) {
  lt_save_tensor t;
  lt_status st = from->describe(from->context, index, &t, e);
  if (st != LT_OK) return st;
  int64_t bytes = (int64_t)lt_dtype_bytes(t.dtype);
  for (int i = 0; i < t.rank; i++) bytes *= t.dim[i];
  for (int64_t at = 0; st == LT_OK && at < bytes; at += CHUNK) {
    int64_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
    st = from->read(from->context, index, at, n, buffer, e);
    if (st == LT_OK) st = lt_safetensors_write(w, t.name, at, buffer, n, e);
  }
  return st;
}

lt_status lt_save_tensors(lt_save *s, const char *file, const lt_save_source *from, lt_error *e) {
  lt_safetensors_writer *w = NULL;
  char *path = lt_durable_join(s->temporary, file);
  void *buffer = malloc((size_t)CHUNK);
  lt_status st = path && buffer ? LT_OK : lt_fail_memory(e, (size_t)CHUNK, "a save");
  if (st == LT_OK) st = lt_safetensors_writer_create(path, &w, e);
  for (int64_t i = 0; st == LT_OK && i < from->count; i++) {
    lt_save_tensor t = {0};
    st = from->describe(from->context, i, &t, e);
    if (st == LT_OK) st = lt_safetensors_declare(w, t.name, t.dtype, t.rank, t.dim, e);
  }
  for (int64_t i = 0; st == LT_OK && i < from->count; i++) st = write_tensor(w, from, i, buffer, e);
  if (st == LT_OK) st = lt_safetensors_finish(w, e);
  lt_safetensors_writer_free(w);
  free(buffer);
  free(path);
  return st;
}

lt_status lt_save_state(lt_save *s, const lt_tree *state, lt_error *e) {
  char *path = lt_durable_join(s->temporary, "state.json");
  lt_status st = path ? lt_json_write(path, state, e) : lt_fail_memory(e, 64, "a file name");
  free(path);
  return st;
}

/* Size and hash of a file, and its bytes on the disk when `sync`. */
static lt_status look_at_file(const char *path, bool sync, int64_t *bytes, uint64_t *hash, lt_error *e) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return lt_durable_fail(e, "open", path);
  unsigned char *buffer = malloc((size_t)CHUNK);
  lt_status st = buffer ? LT_OK : lt_fail_memory(e, (size_t)CHUNK, "a hash");
  uint64_t h = LT_HASH_START;
  *bytes = 0;
  while (st == LT_OK) {
    ssize_t n = read(fd, buffer, (size_t)CHUNK);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) st = lt_durable_fail(e, "read", path);
    if (n <= 0) break;
    h = lt_hash_bytes(h, buffer, (size_t)n);
    *bytes += n;
  }
  if (st == LT_OK && sync && fsync(fd) != 0) st = lt_durable_fail(e, "write to the disk", path);
  *hash = lt_hash_finish(h);
  free(buffer);
  close(fd);
  return st;
}

/* files[name] = {bytes, hash} */
static lt_status list_file(const char *folder, const char *name, lt_tree *files, lt_error *e) {
  char *path = lt_durable_join(folder, name), text[17];
  int64_t bytes;
  uint64_t hash;
  lt_status st = path ? look_at_file(path, true, &bytes, &hash, e) : lt_fail_memory(e, 64, "a file name");
  free(path);
  if (st != LT_OK) return st;
  snprintf(text, sizeof text, "%016" PRIx64, hash);
  lt_tree *about = lt_tree_table();
  bool ok = about && lt_tree_set(about, "bytes", lt_tree_number((double)bytes)) &&
            lt_tree_set(about, "hash", lt_tree_text(text));
  if (!ok) lt_tree_free(about);
  ok = ok && lt_tree_set(files, name, about);
  return ok ? LT_OK : lt_fail_memory(e, 64, "the list of a save");
}

static lt_status list_files(const char *folder, lt_tree *files, lt_error *e) {
  DIR *d = opendir(folder);
  if (!d) return lt_durable_fail(e, "read the folder", folder);
  lt_status st = LT_OK;
  struct dirent *entry;
  while (st == LT_OK && (errno = 0, entry = readdir(d)))
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      st = list_file(folder, entry->d_name, files, e);
  if (st == LT_OK && errno) st = lt_durable_fail(e, "read the folder", folder);
  closedir(d);
  return st;
}

static lt_status write_index(const lt_save *s, lt_error *e) {
  lt_tree *index = lt_tree_table(), *files = lt_tree_table();
  char *path = lt_durable_join(s->temporary, "index.json");
  lt_status st = index && files && path ? LT_OK : lt_fail_memory(e, 64, "the list of a save");
  if (st == LT_OK) st = list_files(s->temporary, files, e);
  if (st == LT_OK) {
    bool ok = lt_tree_set(index, "files", files); /* takes or frees it */
    files = NULL;
    ok = ok && lt_tree_set(index, "format", lt_tree_text("ltrain-save")) &&
         lt_tree_set(index, "version", lt_tree_number(1)) &&
         lt_tree_set(index, "step", lt_tree_number((double)s->step));
    st = ok ? lt_json_write(path, index, e) : lt_fail_memory(e, 64, "the list of a save");
  }
  lt_tree_free(files);
  lt_tree_free(index);
  free(path);
  return st;
}

lt_status lt_save_commit(lt_save *s, lt_error *e) {
  if (!s->begun) return lt_fail(e, LT_USAGE, "the save was committed before");
  lt_status st = write_index(s, e);
  if (st == LT_OK) st = lt_durable_sync_folder(s->temporary, e);
  if (st != LT_OK) return st;
  bool replaces = access(s->final, F_OK) == 0;
  if (replaces && rename(s->final, s->old) != 0) return lt_durable_fail(e, "rename the save it replaces", s->final);
  if (rename(s->temporary, s->final) != 0) {
    st = lt_durable_fail(e, "rename to its final name", s->temporary);
    if (replaces && rename(s->old, s->final) != 0) lt_error_hint(e, "the save it replaces is at %s", s->old);
    return st;
  }
  s->begun = false;
  st = lt_durable_sync_folder(s->saves, e);
  if (st == LT_OK && replaces) st = lt_durable_remove_folder(s->old, e);
  return st;
}

/* ---- reading ---- */

static lt_status fail_save(const char *folder, const char *file, const char *what, lt_error *e) {
  lt_fail(e, LT_DATA, "the save is not whole: %s", what);
  lt_error_where(e, "%s", folder);
  if (file) lt_error_key(e, "%s", file);
  return LT_DATA;
}

static lt_status check_file(const char *folder, const lt_tree_entry *x, bool hashes, lt_error *e) {
  struct stat about;
  int64_t bytes = -1, got = 0;
  uint64_t hash = 0;
  const char *text = NULL;
  if (!x->name || strchr(x->name, '/')) return fail_save(folder, "index.json", "its list names no file", e);
  lt_status st = lt_tree_need_whole(x->value, "bytes", &bytes, NULL);
  if (st == LT_OK) st = lt_tree_need_text(x->value, "hash", &text, NULL);
  if (st != LT_OK) return fail_save(folder, x->name, "its list is damaged", e);
  char *path = lt_durable_join(folder, x->name), now[17] = "";
  if (!path) return lt_fail_memory(e, 64, "a file name");
  if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) {
    st = fail_save(folder, x->name, "a file is missing", e);
  } else if (about.st_size != bytes) {
    st = fail_save(folder, x->name, "a file has another length", e);
    lt_error_expected(e, "%lld bytes", (long long)bytes);
    lt_error_got(e, "%lld bytes", (long long)about.st_size);
  } else if (hashes && (st = look_at_file(path, false, &got, &hash, e)) == LT_OK) {
    snprintf(now, sizeof now, "%016" PRIx64, hash);
    if (strcmp(now, text) != 0) {
      st = fail_save(folder, x->name, "a file has changed", e);
      lt_error_expected(e, "hash %s", text);
      lt_error_got(e, "%s", now);
    }
  }
  free(path);
  return st;
}

lt_status lt_save_folder_check(const char *folder, int64_t step, bool hashes, lt_error *e) {
  lt_tree *index = NULL;
  const char *format = "";
  int64_t version = 0, says = -1;
  char *path = lt_durable_join(folder, "index.json");
  if (!path) return lt_fail_memory(e, 64, "a file name");
  lt_status st = LT_OK;
  lt_error inner = {0};
  if (lt_json_read(path, &index, &inner) != LT_OK) {
    st = fail_save(folder, "index.json", "its list cannot be read", e);
    lt_error_got(e, "%s", inner.what);
  } else if (lt_tree_need_text(index, "format", &format, NULL) != LT_OK || strcmp(format, "ltrain-save") != 0) {
    st = fail_save(folder, "index.json", "its list is none of ours", e);
  } else if (lt_tree_need_whole(index, "version", &version, NULL) != LT_OK || version != 1) {
    st = fail_save(folder, "index.json", "it was written by another version", e);
  } else if (lt_tree_need_whole(index, "step", &says, NULL) != LT_OK || (step >= 0 && says != step)) {
    st = fail_save(folder, "index.json", "its list is of another step", e);
  }
  const lt_tree *files = lt_tree_get(index, "files");
  if (st == LT_OK && (!files || files->kind != LT_TREE_TABLE || files->count == 0))
    st = fail_save(folder, "index.json", "its list is damaged", e);
  for (int64_t i = 0; st == LT_OK && i < files->count; i++) st = check_file(folder, &files->entry[i], hashes, e);
  lt_tree_free(index);
  free(path);
  return st;
}

lt_status lt_save_verify(const char *folder, lt_error *e) { return lt_save_folder_check(folder, -1, true, e); }

lt_status lt_save_load_tensors(const char *folder, const char *file, const lt_save_sink *to, lt_error *e) {
  lt_safetensors *s = NULL;
  char *path = lt_durable_join(folder, file);
  lt_status st = path ? lt_safetensors_open(path, &s, e) : lt_fail_memory(e, 64, "a file name");
  for (int64_t i = 0; st == LT_OK && i < lt_safetensors_count(s); i++)
    st = to->put(to->context, lt_safetensors_at(s, i), e);
  lt_safetensors_close(s);
  free(path);
  return st;
}

lt_status lt_save_load_state(const char *folder, lt_tree **state, lt_error *e) {
  *state = NULL;
  char *path = lt_durable_join(folder, "state.json");
  lt_status st = path ? lt_json_read(path, state, e) : lt_fail_memory(e, 64, "a file name");
  free(path);
  return st;
}
