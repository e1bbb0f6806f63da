#pragma once
/*
 * Server-sent events as text (HTML Living Standard, section 9.2).  Pure; all append.
 */
#include "k8s/cache/cached.h"

/* How long clients are asked to wait before they come again. */
#define SSE_RETRY "retry: 2000\n"
#define SSE_PING  ": ping\n\n"

/* `data`: one line.  id: from where to go on after this; 0: not said. */
void sse_event(struct str *out, const char *event, int64_t id, struct span data);
/* gone: {"name", "username"} of a job that was deleted. */
void sse_gone(struct str *out, const struct cached *job);
/* end: {"reason"}; static text. */
void sse_end(struct str *out, const char *reason);
