#pragma once
/*
 * What a request must pass before its handler runs: framing, origin, route, type and size of
 * the body.  Called by http.c as the request comes in; each step may answer.
 */
#include "server/framing.h"
#include "server/request.h"

/* All headers are there, in r->framing: is this one request?  head_end: see framing_check. */
void intake_framing(struct request *r, const char *version, const char *head_end);
/* Who asks for what, and may it come? */
void intake_header(struct request *r);
/* auth.h knows now who asks: check the rest of the header, then take the body. */
void intake_known(struct request *r);
/* Some of the body.  false: the client sends too much to be answered. */
bool intake_part(struct request *r, const char *data, size_t n);
/* All of the body: run the handler. */
void intake_end(struct request *r);
/* The line in the log, when the answer is out or the client gone. */
void intake_log(const struct request *r);
