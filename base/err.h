#pragma once
/*
 * What went wrong, in a form fit for a reply: an HTTP status, an error code of
 * the OpenPAI REST contract, and up to NOTES_MAX notes, each with the place in
 * the job file that it is about.
 *
 * A function that can fail takes `struct err *e` as its last parameter.  On
 * success it leaves *e alone; on failure it fills *e.  Decide on http and code,
 * never on the text.  No thread rule: an err belongs to whoever declared it.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

enum { NOTES_MAX = 20, QUOTE_MAX = 80, AT_MAX = 2048 };

/* A place in a job file.  `at` is a JSON pointer (RFC 6901), "" for the whole
 * document, NULL if unknown; line and column count from 1, 0 if unknown; the
 * column counts characters, not bytes. */
struct place {
	const char *at;
	unsigned line, column;
};

#define NOWHERE ((struct place){ NULL, 0, 0 })

/* One sentence about one place.  Owns msg and at; of a pointer longer than AT_MAX, at is what
 * that stands in. */
struct note {
	char *msg;
	char *at;
	unsigned line, column;
};

/* A list of notes: the violations in an error, or the warnings of a job. */
struct notes {
	struct note *v;
	size_t n;
	size_t dropped; /* how many did not fit */
};

struct err {
	int http;         /* status of the reply; 0 while nothing went wrong */
	const char *code; /* static text, e.g. "InvalidProtocolError"; may be NULL */
	struct notes notes;
};

/* Pairs of status and code, as the REST contract has them. */
#define INVALID_PROTOCOL   400, "InvalidProtocolError"
#define INVALID_PARAMETERS 400, "InvalidParametersError"
#define NO_USER            400, "NoUserError"
#define NOT_IMPLEMENTED    400, "NotImplementedError"
#define UNAUTHORIZED       401, "UnauthorizedUserError"
#define FORBIDDEN          403, "ForbiddenUserError"
#define NO_STORAGE         404, "NoStorageError"
#define CONFLICT_JOB       409, "ConflictJobError"
#define TOO_LARGE          413, "PayloadTooLargeError"
#define UNKNOWN_ERROR      500, "UnknownError"
#define UNAVAILABLE        503, "UnavailableError"
#define OUTCOME_UNKNOWN    504, "OutcomeUnknown"

#define ERR_AUTO   __attribute__((cleanup(err_done))) struct err
#define NOTES_AUTO __attribute__((cleanup(notes_done))) struct notes

/* Make *e this one error, whatever it was before.  Returns -1, for `return err_set(...)`. */
int err_set(struct err *e, int http, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Add a violation with its place.  The first one decides http and code.  Returns -1. */
int err_at(struct err *e, int http, const char *code, struct place where, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Put "text: " before the first note, e.g. err_wrap(e, "posting secret %s", name).  Returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The first note's text, or "" if there is none.  Borrowed until *e changes. */
const char *err_msg(const struct err *e);

void err_done(struct err *e);

/* Append a note (a warning, say); beyond NOTES_MAX it is only counted. */
void notes_add(struct notes *n, struct place where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void notes_done(struct notes *n);
/* In the order of their places; those of one place as they came. */
void notes_sort(struct notes *n);
/* Move what is in `from` to the end of the other; `from` is empty afterwards. */
void notes_move(struct notes *n, struct notes *from);
void err_move(struct err *e, struct err *from);

/* The sentence for people: "taskRoles.worker.instances: must be at least 1, is 0".
 * Members that are not plain names stand quoted: taskRoles["a;b"].ports[0]. */
void note_text(struct str *out, const struct note *n);

/* Text from outside as it may stand in a message, which puts the quotes around it: control
 * characters escaped, at most QUOTE_MAX bytes of it.  Returns buf. */
const char *quote(char buf[static 4 * QUOTE_MAX], struct span text);

/* "Did you mean ...?"  Also for a query that looks like another one. */
/* How many letters must be inserted, deleted, replaced or swapped with their
 * neighbour to turn a into b; `limit` + 1 if more than limit.  Case counts half:
 * returned are halves of such steps. */
unsigned edit_distance(struct span a, struct span b, unsigned limit);

/* The largest distance at which a key of n bytes is taken for a misspelt one. */
unsigned edit_limit(size_t n);

/* The candidate that was probably meant by a name, which may also be its beginning only: best is
 * NULL if none is near. */
struct guess {
	struct span name;
	const char *best;
	unsigned distance;
};
void guess_try(struct guess *g, const char *candidate);
