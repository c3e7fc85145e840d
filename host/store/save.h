/* save.h: saves/step-N/: tensors, state and a list of what belongs to them; there as a whole or not at all.
** Written under a hidden name, every file synced and hashed, then renamed: whatever is killed when, the newest save that
** is listed is whole. What the tensors are is the caller's business. */
#ifndef LT_STORE_SAVE_H
#define LT_STORE_SAVE_H

#include "core/text.h"
#include "store/safetensors.h"
#include "store/tree.h"

/* ---- writing ---- */

typedef struct lt_save_tensor {
  const char *name; /* good until the next call */
  lt_dtype dtype;
  int rank;
  int64_t dim[LT_SAFETENSORS_MAX_RANK];
} lt_save_tensor;

/* Where the tensors of a file come from, in the order they are to be asked for. */
typedef struct lt_save_source {
  void *context;
  int64_t count;
  lt_status (*describe)(void *context, int64_t index, lt_save_tensor *out, lt_error *e);
  /* bytes [offset, offset + bytes) of tensor `index`; asked once each, ascending */
  lt_status (*read)(void *context, int64_t index, int64_t offset, int64_t bytes, void *to, lt_error *e);
} lt_save_source;

typedef struct lt_save lt_save;

/* Begin the save of a step in the folder `saves`, which is made when it is not there; what killed runs left is cleared. */
lt_status lt_save_begin(const char *saves, int64_t step, lt_save **out, lt_error *e);
/* The hidden folder; any file put into it before the commit becomes part of the save. */
const char *lt_save_folder(const lt_save *s);
lt_status lt_save_tensors(lt_save *s, const char *file, const lt_save_source *from,
                          lt_error *e);                                 /* "model.safetensors" */
lt_status lt_save_state(lt_save *s, const lt_tree *state, lt_error *e); /* state.json */
/* Hash, sync and name it. A save of the same step is replaced, and stays if this fails. */
lt_status lt_save_commit(lt_save *s, lt_error *e);
void lt_save_free(lt_save *s); /* without commit: nothing stays */

/* ---- finding ---- */

typedef struct lt_save_entry {
  int64_t step;
  char *folder; /* "saves/step-12" */
  bool whole;
  char why[256]; /* it is not */
} lt_save_entry;

typedef struct lt_save_list {
  lt_save_entry *at; /* newest first */
  int64_t count, capacity;
} lt_save_list;

/* All saves in the folder; none when it is not there. Looks at the list of files and their sizes; with `hashes` also at
** every byte. */
lt_status lt_save_find(const char *saves, bool hashes, lt_save_list *out, lt_error *e);
void lt_save_list_free(lt_save_list *l);

/* The newest whole save (every byte looked at), into *folder, which the caller frees; LT_DATA when there is none.
** `refused` gets a line for each newer one that is not whole: "step 12: why". May be NULL. */
lt_status lt_save_newest(const char *saves, char **folder, lt_text *refused, lt_error *e);

/* Is it whole? LT_DATA naming the file that is missing, short or changed. */
lt_status lt_save_verify(const char *folder, lt_error *e);

/* Remove all but the newest `keep` (at least 1) whole saves. One whose every byte was looked at always stays; broken
** ones go when a whole one is newer. */
lt_status lt_save_prune(const char *saves, int64_t keep, lt_error *e);

/* ---- reading; neither looks at the hashes again ---- */

typedef struct lt_save_sink {
  void *context;
  lt_status (*put)(void *context, const lt_safetensor *t, lt_error *e); /* t and its data are good during the call */
} lt_save_sink;

lt_status lt_save_load_tensors(const char *folder, const char *file, const lt_save_sink *to, lt_error *e);
lt_status lt_save_load_state(const char *folder, lt_tree **state, lt_error *e);

#endif
