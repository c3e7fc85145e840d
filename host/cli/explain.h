/* explain.h: what the files of --explain share. */
#ifndef LT_CLI_EXPLAIN_H
#define LT_CLI_EXPLAIN_H

#include "compile/reasons.h"
#include "run/programs.h"

/* Is the node meant by a pattern: of a scope (* is anything), of what lies below it, or the name of an operation? */
bool explain_is_meant(const char *pattern, const lt_node *n);
/* The node that makes a value; NULL: none does. */
const lt_node *explain_maker(const lt_program *p, lt_value v);

/* moves.c: print the collectives of a plan, who asked for them, and what a rank sends. pattern: NULL, all. */
lt_status explain_moves(const lt_program *p, int32_t rank, const lt_reasons *why, const char *pattern, lt_error *e);

#endif
