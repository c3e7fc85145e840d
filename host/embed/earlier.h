/* earlier.h: what the folder of a run says of how it was started.
** A folder that cannot be read, or says nothing of it, is passed over: who needs it reads it and says so. */
#ifndef LT_EMBED_EARLIER_H
#define LT_EMBED_EARLIER_H

#include "core/log.h"

#include <stdbool.h>

/* Every "name=value" it was started with, in the order they were given; set: behind --set. */
void lt_earlier_words(const char *run, void (*each)(void *context, const char *word, bool set), void *context);

/* Warn of every setting that is not what it was: key, was, is. settings: "key = value" a line, as of now. */
void lt_earlier_compare(const char *run, const char *settings, const lt_log *log);

#endif
