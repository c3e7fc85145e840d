/* session_load.h: tensors of a save become states of a session. */
#ifndef LT_RUN_SESSION_LOAD_H
#define LT_RUN_SESSION_LOAD_H

#include "run/session.h"

extern const char lt_model_file[];     /* of a save: parameters and buffers, whole, under their names */
extern const char lt_optimizer_file[]; /* moments */

/* Every tensor of one of them is a state of the session, of the same shape, and is written to it: else LT_DATA, it is a
** save of another model. keeps: which states a save holds at all. seen [states]: set for those that were there. */
lt_status lt_session_load(lt_session *s, const char *folder, const char *file, bool (*keeps)(const lt_state *),
                          bool *seen, lt_error *e);
/* LT_DATA if a state that a save holds was not seen. */
lt_status lt_session_loaded(const lt_session *s, bool (*keeps)(const lt_state *), const bool *seen, lt_error *e);

#endif
