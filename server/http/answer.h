#pragma once
/* The bodies of answers, as the REST contract of OpenPAI has them. */
#include "base/err.h"
#include "server/http/request.h"

/* {"code", "message", "errors"}: the first notes in words, all notes with places. */
void error_json(struct str *out, const struct err *e);
/* "line 2: a: must be ...; line 7: b: ...; and 3 more". */
void notes_text(struct str *out, const struct notes *n);
/* [{"pointer", "line", "column", "message"}, ...] */
void notes_json(struct str *out, const struct notes *n);
/* Text as it may stand in a header: printable ASCII, at most 1000 bytes; `...` at the end of what
 * was longer. */
void header_text(struct str *out, struct span text);

/* Answer with an error, a text, or JSON that was written to r->reply.body. */
void answer_error(struct request *r, const struct err *e);
void answer_refuse(struct request *r, int status, const char *code, const char *message);
/* 400 InvalidParametersError: what must be, and what was found. */
void answer_bad(struct request *r, const char *must, struct span found);
void answer_text(struct request *r, int status, const char *text);
void answer_json(struct request *r, int status);

/* Is there room on this loop for another large answer (detail-memory)?  Else r has been answered
 * 503.  Asked before each step that takes memory: others may have taken it since. */
bool answer_has_room(struct request *r);
/* Count what r takes by now, if that is much, until it ends. */
void answer_hold(struct request *r);
