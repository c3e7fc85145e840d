/* safetensors.h: named tensors in one file: 8 bytes of header length, a JSON header, the bytes.
** A file read is mapped and checked before anything is handed out; a file written has its name only once it is whole.
** Format: github.com/huggingface/safetensors, "Format"; the table is at the top of safetensors.c. */
#ifndef LT_STORE_SAFETENSORS_H
#define LT_STORE_SAFETENSORS_H

#include "core/dtype.h"
#include "core/error.h"

#define LT_SAFETENSORS_MAX_RANK 8

typedef struct lt_safetensor {
  const char *name;
  lt_dtype dtype;
  int rank;
  int64_t dim[LT_SAFETENSORS_MAX_RANK];
  int64_t count;    /* elements */
  int64_t bytes;    /* count * lt_dtype_bytes(dtype) */
  const void *data; /* into the mapped file, until it is closed; other programs' files may not align it: copy */
} lt_safetensor;

typedef struct lt_safetensors lt_safetensors;

/* Map and check a file. Every malformed one is LT_DATA with the file as `where` and the tensor as `key`. */
lt_status lt_safetensors_open(const char *path, lt_safetensors **out, lt_error *e);
void lt_safetensors_close(lt_safetensors *s);

int64_t lt_safetensors_count(const lt_safetensors *s);
const lt_safetensor *lt_safetensors_at(const lt_safetensors *s, int64_t index);      /* in order of their bytes */
const lt_safetensor *lt_safetensors_find(const lt_safetensors *s, const char *name); /* NULL: not there */
int64_t lt_safetensors_metadata_count(const lt_safetensors *s);
const char *lt_safetensors_metadata_key(const lt_safetensors *s, int64_t index); /* in order of the file */
const char *lt_safetensors_metadata(const lt_safetensors *s, const char *key);   /* NULL: not there */

/* Writing: create, declare every tensor, write ranges in any order, finish. The file has a temporary name (".tmp"
** behind its own) until finish has seen every byte written once, synced it and renamed it; free without finish
** removes it. The bytes lie widest type first, so that every tensor is aligned in a mapped file. */
typedef struct lt_safetensors_writer lt_safetensors_writer;

lt_status lt_safetensors_writer_create(const char *path, lt_safetensors_writer **out, lt_error *e);
lt_status lt_safetensors_declare(lt_safetensors_writer *w, const char *name, lt_dtype t, int rank, const int64_t *dim,
                                 lt_error *e);
lt_status lt_safetensors_set_metadata(lt_safetensors_writer *w, const char *key, const char *value, lt_error *e);
/* Bytes [offset, offset + bytes) of the tensor. The first write ends the declarations. */
lt_status lt_safetensors_write(lt_safetensors_writer *w, const char *name, int64_t offset, const void *p, int64_t bytes,
                               lt_error *e);
lt_status lt_safetensors_finish(lt_safetensors_writer *w, lt_error *e);
void lt_safetensors_writer_free(lt_safetensors_writer *w);

#endif
