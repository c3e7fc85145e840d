/* generator.h: a model reading one text: tokens in, some a step, and the logits of what follows the last.
** Keys and values of earlier tokens are states of its session (run/slots.h), so a token costs what it sees, not what was
** read. However a text is cut into calls, it is read as the same text. */
#ifndef LT_RUN_GENERATOR_H
#define LT_RUN_GENERATOR_H

#include "run/session.h"

typedef struct lt_generator lt_generator;

/* Takes over a program of lua/ltrain/nn.lua's build_generate, forward only, on one rank; on failure too. vocab: of its
** tokens. It sleeps until it is woken: lt_session_wake on its session, whose parameters are then to be written. */
lt_status lt_generator_create(lt_program *p, const lt_device *d, int64_t vocab, lt_generator **out, lt_error *e);
void lt_generator_free(lt_generator *g);
lt_session *lt_generator_session(lt_generator *g);
/* Is it a state that a save holds, not one of keys and values? */
bool lt_generator_keeps(const lt_state *s);

/* The text goes on with n tokens. LT_USAGE if one is no token of the vocabulary, or the text grows too long to be
** counted: 2^31 - 1 tokens. */
lt_status lt_generator_read(lt_generator *g, const int32_t *token, int64_t n, lt_error *e);
/* [1, vocab], of what follows; the generator's, until it reads on. */
const lt_tensor *lt_generator_logits(lt_generator *g);
int64_t lt_generator_length(const lt_generator *g); /* tokens read */
/* Another text begins. */
void lt_generator_clear(lt_generator *g);

#endif
