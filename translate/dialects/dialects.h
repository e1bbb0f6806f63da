#pragma once
/*
 * The readers of the dialects, which are rows of the table in dialect.c.  Each fills r->job from a
 * document that the schema of the dialect has seen; violations go to r->e.
 *
 * Thread: any
 */
#include "translate/reader/parse_context.h"

void pai_v2_read(struct parse_context *r);
void pai_v1_read(struct parse_context *r);
void mxjob_read(struct parse_context *r);
void launcher_read(struct parse_context *r);
/* A copy of the v1 document with numbers instead of numeric texts. */
const struct node *pai_v1_numbers(struct parse_context *r);

/* `extras` of v1 and v2: gang allocation, storages, plugins. */
void extras_read(struct parse_context *r);
/* `extras.distributed` of v2 jobs, after the roles: adds ports to them. */
void distributed_read(struct parse_context *r);
