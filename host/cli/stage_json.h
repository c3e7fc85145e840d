/* stage_json.h: a stage of the compilation as JSON. */
#ifndef LT_CLI_STAGE_JSON_H
#define LT_CLI_STAGE_JSON_H

#include "compile/compile.h"

/* The program as far as the stage made it, as one object: its graph, or the schedule of a rank where there is one. */
void cli_stage_json(const lt_program *p, const char *stage, int32_t rank, lt_text *out);

#endif
