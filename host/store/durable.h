/* durable.h: files that are whole or not there, whatever is killed or pulled when.
** Write under another name, sync, rename, sync the folder: POSIX promises that rename is atomic, and nothing else. */
#ifndef LT_STORE_DURABLE_H
#define LT_STORE_DURABLE_H

#include "core/error.h"

#include <stdint.h>

/* An LT_DATA error "cannot VERB: the system's reason" with `path` as its place; uses errno. */
lt_status lt_durable_fail(lt_error *e, const char *verb, const char *path);

/* "folder/name" in memory the caller frees; NULL when memory is short. */
char *lt_durable_join(const char *folder, const char *name);

/* All of p[n] at `offset` of fd; a short write goes on, a full disk is an error. */
lt_status lt_durable_write_at(int fd, const char *path, const void *p, size_t n, int64_t offset, lt_error *e);

/* p[n] behind the *end bytes of a file opened for appending, in one write: a reader or a kill sees all of it or nothing.
** On a full disk what was written of it is cut off again. *end counts what is whole. */
lt_status lt_durable_append(int fd, const char *path, int64_t *end, const void *p, size_t n, lt_error *e);

/* fsync of an open file and close it, also when the sync fails. */
lt_status lt_durable_close(int fd, const char *path, lt_error *e);

/* fsync of the folder itself (its names), and of the folder that holds `path`. */
lt_status lt_durable_sync_folder(const char *folder, lt_error *e);
lt_status lt_durable_sync_parent(const char *path, lt_error *e);

/* Give `from` the name `to`, atomically, and sync the folder. */
lt_status lt_durable_rename(const char *from, const char *to, lt_error *e);

/* Replace the file `path` by the n bytes at p; afterwards it holds all of them, or what it held before. */
lt_status lt_durable_replace(const char *path, const void *p, size_t n, lt_error *e);

/* The whole file in memory the caller frees, with a NUL behind it; *n is without the NUL. */
lt_status lt_durable_read(const char *path, char **out, size_t *n, lt_error *e);

/* Create the folder and those above it; an existing one is fine. */
lt_status lt_durable_make_folder(const char *folder, lt_error *e);

/* Remove a folder and what is in it. A folder that is not there is fine; links are removed, not followed. */
lt_status lt_durable_remove_folder(const char *folder, lt_error *e);

#endif
