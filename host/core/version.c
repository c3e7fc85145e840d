/* version.c: the library's version as text.
** The numbers live in ltrain.h only; the build checks that its own agree. */
#include "ltrain.h"

#define VERSION_TEXT(a, b, c)   #a "." #b "." #c
#define VERSION_EXPAND(a, b, c) VERSION_TEXT(a, b, c)

const char *lt_version(void) { return VERSION_EXPAND(LT_VERSION_MAJOR, LT_VERSION_MINOR, LT_VERSION_PATCH); }
