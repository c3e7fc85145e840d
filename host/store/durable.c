/* durable.c: files that are whole or not there.
** A full disk may show only at fsync or close, so both are looked at. */
#include "store/durable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

lt_status lt_durable_fail(lt_error *e, const char *verb, const char *path) {
  int reason = errno;
  lt_fail(e, LT_DATA, "cannot %s: %s", verb, strerror(reason));
  lt_error_where(e, "%s", path);
  if (reason == ENOSPC || reason == EDQUOT || reason == EFBIG) lt_error_hint(e, "free some space");
  return LT_DATA;
}

char *lt_durable_join(const char *folder, const char *name) {
  size_t n = strlen(folder);
  char *s = malloc(n + strlen(name) + 2);
  if (!s) return NULL;
  sprintf(s, "%s%s%s", folder, n && folder[n - 1] != '/' ? "/" : "", name);
  return s;
}

lt_status lt_durable_write_at(int fd, const char *path, const void *p, size_t n, int64_t offset, lt_error *e) {
  const unsigned char *from = p;
  while (n) {
    ssize_t w = pwrite(fd, from, n, (off_t)offset);
    if (w < 0 && errno == EINTR) continue;
    if (w < 0) return lt_durable_fail(e, "write", path);
    from += w;
    offset += w;
    n -= (size_t)w;
  }
  return LT_OK;
}

lt_status lt_durable_append(int fd, const char *path, int64_t *end, const void *p, size_t n, lt_error *e) {
  ssize_t w;
  do w = write(fd, p, n);
  while (w < 0 && errno == EINTR);
  if (w == (ssize_t)n) {
    *end += w;
    return LT_OK;
  }
  if (w >= 0) errno = ENOSPC; /* a file system that takes only a part has no more room */
  lt_status st = lt_durable_fail(e, "write", path);
  if (w > 0 && ftruncate(fd, (off_t)*end) != 0) lt_error_hint(e, "what was written last is incomplete");
  return st;
}

lt_status lt_durable_close(int fd, const char *path, lt_error *e) {
  lt_status st = LT_OK;
  if (fsync(fd) != 0) st = lt_durable_fail(e, "write to the disk", path);
  if (close(fd) != 0 && st == LT_OK) st = lt_durable_fail(e, "close", path);
  return st;
}

lt_status lt_durable_sync_folder(const char *folder, lt_error *e) {
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return lt_durable_fail(e, "open the folder", folder);
  lt_status st = LT_OK;
  /* some file systems cannot sync a folder and say EINVAL: then there is nothing more to be done */
  if (fsync(fd) != 0 && errno != EINVAL) st = lt_durable_fail(e, "write the folder to the disk", folder);
  close(fd);
  return st;
}

lt_status lt_durable_sync_parent(const char *path, lt_error *e) {
  char *folder = strdup(path);
  if (!folder) return lt_fail_memory(e, strlen(path), "a file name");
  char *slash = strrchr(folder, '/');
  if (slash == folder) slash++; /* "/file" lies in "/" */
  if (slash) *slash = '\0';
  lt_status st = lt_durable_sync_folder(slash ? folder : ".", e);
  free(folder);
  return st;
}

lt_status lt_durable_rename(const char *from, const char *to, lt_error *e) {
  if (rename(from, to) != 0) return lt_durable_fail(e, "rename to its final name", from);
  return lt_durable_sync_parent(to, e);
}

lt_status lt_durable_replace(const char *path, const void *p, size_t n, lt_error *e) {
  lt_status st = LT_OK;
  char *temporary = malloc(strlen(path) + 5);
  if (!temporary) return lt_fail_memory(e, strlen(path) + 5, "a file name");
  sprintf(temporary, "%s.tmp", path);
  int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    st = lt_durable_fail(e, "create", temporary);
    goto end;
  }
  st = lt_durable_write_at(fd, temporary, p, n, 0, e);
  lt_status closed = lt_durable_close(fd, temporary, e);
  if (st == LT_OK) st = closed;
  if (st == LT_OK) st = lt_durable_rename(temporary, path, e);
  if (st != LT_OK) unlink(temporary);
end:
  free(temporary);
  return st;
}

lt_status lt_durable_read(const char *path, char **out, size_t *n, lt_error *e) {
  lt_status st = LT_OK;
  struct stat about;
  char *s = NULL;
  *out = NULL;
  *n = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return lt_durable_fail(e, "open", path);
  if (fstat(fd, &about) != 0) st = lt_durable_fail(e, "look at", path);
  if (st == LT_OK && !S_ISREG(about.st_mode)) {
    st = lt_fail(e, LT_DATA, "cannot read: not a regular file");
    lt_error_where(e, "%s", path);
  }
  size_t size = st == LT_OK ? (size_t)about.st_size : 0, got = 0;
  if (st == LT_OK && !(s = malloc(size + 1))) st = lt_fail_memory(e, size, "a file");
  while (st == LT_OK && got < size) {
    ssize_t r = read(fd, s + got, size - got);
    if (r < 0 && errno == EINTR) continue;
    if (r < 0) st = lt_durable_fail(e, "read", path);
    if (r <= 0) break; /* shorter than it said: the caller sees what is there */
    got += (size_t)r;
  }
  close(fd);
  if (st != LT_OK) {
    free(s);
    return st;
  }
  s[got] = '\0';
  *out = s;
  *n = got;
  return LT_OK;
}

lt_status lt_durable_make_folder(const char *folder, lt_error *e) {
  lt_status st = LT_OK;
  char *path = strdup(folder);
  if (!path) return lt_fail_memory(e, strlen(folder), "a file name");
  for (char *p = path + 1; st == LT_OK && *folder; p++) {
    if (*p != '/' && *p != '\0') continue;
    char end = *p;
    *p = '\0';
    if (mkdir(path, 0777) == 0)
      st = lt_durable_sync_parent(path, e); /* what lies in it is only as safe as its own name */
    else if (errno != EEXIST)
      st = lt_durable_fail(e, "create the folder", path);
    *p = end;
    if (!end) break;
  }
  struct stat about;
  if (st == LT_OK && (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode))) {
    errno = ENOTDIR;
    st = lt_durable_fail(e, "create the folder", folder);
  }
  free(path);
  return st;
}

static lt_status remove_at(int parent, const char *name, const char *path, int depth, lt_error *e) {
  lt_status st = LT_OK;
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return LT_OK;
  if (fd < 0) return lt_durable_fail(e, "open the folder", path);
  DIR *d = fdopendir(fd);
  if (!d) {
    close(fd);
    return lt_durable_fail(e, "read the folder", path);
  }
  struct dirent *entry;
  while (st == LT_OK && (entry = readdir(d))) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (unlinkat(fd, entry->d_name, 0) == 0) continue;
    if ((errno == EISDIR || errno == EPERM) && depth < 16) /* Linux says EISDIR, POSIX EPERM */
      st = remove_at(fd, entry->d_name, path, depth + 1, e);
    else if (errno != ENOENT)
      st = lt_durable_fail(e, "remove what is in the folder", path);
  }
  closedir(d);
  if (st == LT_OK && unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
    st = lt_durable_fail(e, "remove the folder", path);
  return st;
}

lt_status lt_durable_remove_folder(const char *folder, lt_error *e) {
  return remove_at(AT_FDCWD, folder, folder, 0, e);
}
