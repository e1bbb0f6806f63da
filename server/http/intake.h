#pragma once
/*
 * What a request must pass before its handler runs: framing, origin, route, type and size of
 * the body.  Called by http.c as the request comes in; each step may answer.
 */
#include "server/http/framing.h"
#include "server/http/request.h"

enum { BODIES_MAX = 64 << 20 };

/* All headers are there, in r->framing: is this one request?  head_end: see framing_check. */
void intake_framing(struct request *r, const char *version, const char *head_end);
/* Who asks for what, and may it come? */
void intake_header(struct request *r);
/* auth.h knows now who asks: check the rest of the header, then take the body. */
void intake_known(struct request *r);
/* Some of the body.  false: the client sends too much to be answered.  What it holds counts among
 * the bodies under way of this loop, which hold BODIES_MAX bytes at most; beyond them, 503. */
bool intake_part(struct request *r, const char *data, size_t n);
/* It is not under way any more. */
void intake_uncount(struct request *r);
/* All of the body: run the handler. */
void intake_end(struct request *r);
/* The line in the log, when the answer is out or the client gone. */
void intake_log(const struct request *r);
