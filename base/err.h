#pragma once
/*
 * An error as the server replies it: an HTTP status, an error code of the OpenPAI REST contract,
 * and up to NOTES_MAX notes, each with its place in the job file.
 *
 * A function that can fail takes `struct err *e` as its last parameter, leaves *e unchanged on
 * success and fills it on failure.  Callers decide by http and code, never by the text.
 *
 *	int port_read(struct span text, int64_t *port, struct err *e)
 *	{
 *		char shown[4 * QUOTE_MAX];
 *		if (parse_i64(text, 1, UINT16_MAX, port) == 0)
 *			return 0;
 *		return err_set(e, INVALID_PARAMETERS, "port: is \"%s\"", quote(shown, text));
 *	}
 *
 * The caller has ERR_AUTO e = { 0 }, which frees the notes.
 *
 * Thread: own
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

/* One sentence about one place.  Owns msg and at.  If the pointer is longer than AT_MAX, at is that
 * of an enclosing value. */
struct note {
	char *msg;
	char *at;
	unsigned line, column;
};

/* A list of notes: the violations in an error, or the warnings of a job. */
struct notes {
	struct note *v;
	size_t n;
	size_t dropped; /* number of notes that did not fit */
};

struct err {
	int http;         /* status of the reply; 0: no error */
	const char *code; /* static text, e.g. "InvalidProtocolError"; may be NULL */
	struct notes notes;
};

/* Pairs of status and code of the REST contract. */
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

/* Replaces *e by this error.  Returns -1, for `return err_set(...)`. */
int err_set(struct err *e, int http, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Adds a violation with its place.  The first one sets http and code.  Returns -1. */
int err_at(struct err *e, int http, const char *code, struct place where, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Puts "text: " before the first note, e.g. err_wrap(e, "posting secret %s", name).  Returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The first note's text, or "" if there is none.  Borrowed until *e changes. */
const char *err_msg(const struct err *e);

void err_done(struct err *e);

/* Appends a note; beyond NOTES_MAX, notes are only counted.  n can be NULL: then nothing is kept.
 */
void notes_add(struct notes *n, struct place where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void notes_done(struct notes *n);
/* Sorts by place; stable. */
void notes_sort(struct notes *n);
/* Moves the notes of `from` to the end of n, which can be NULL; `from` is empty afterwards. */
void notes_move(struct notes *n, struct notes *from);
void err_move(struct err *e, struct err *from);

/* The sentence for users: "taskRoles.worker.instances: must be at least 1, is 0".  Keys that are
 * not plain names are quoted: taskRoles["a;b"].ports[0]. */
void note_text(struct str *out, const struct note *n);

/* Text from outside for a message, which adds the quotes: control characters are escaped, and at
 * most QUOTE_MAX bytes are shown.  Returns buf. */
const char *quote(char buf[static 4 * QUOTE_MAX], struct span text);

/* ---- "did you mean ...?" ---- */

/* The distance of two texts in half steps: an insertion, deletion, replacement or swap of
 * neighbours is 2, a change of case 1.  limit + 1 if it exceeds limit. */
unsigned edit_distance(struct span a, struct span b, unsigned limit);

/* The first of the candidates that are nearest to a name, or (unless whole) begin with it; best is
 * NULL if none is near. */
struct guess {
	struct span name;
	const char *best;
	unsigned distance;
	bool whole; /* a candidate that only begins with the name is not near */
};
void guess_try(struct guess *g, const char *candidate);
