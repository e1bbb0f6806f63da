#pragma once
/*
 * Parameters of requests: the query, small bodies, and the header Range.
 *
 *	struct span rest = span_of(r->query), name, value;
 *	while (query_next(&rest, &r->arena, &name, &value))
 *		if (span_is(name, "limit") && parse_i64(value, 1, 100, &limit) < 0)
 *			answer_bad(r, "limit: must be a number from 1 to 100", value);
 *
 * Texts live in the request's arena.  Errors are 400.
 *
 * Thread: loop
 */
#include <stdbool.h>

#include "base/arena.h"
#include "base/doc/tree.h"
#include "server/http/request.h"

/*
 * Takes the next parameter off *rest; false at the end.  Name and value are percent-decoded once
 * ("+" is a blank; a broken escape stays), live in the arena and may hold any byte.  value->p is
 * NULL without "=".
 */
bool query_next(struct span *rest, struct arena *a, struct span *name, struct span *value);
/* The first parameter of this name; false if there is none. */
bool query_find(struct span query, const char *name, struct arena *a, struct span *value);

/*
 * A parameter of a route: a value in the query, or a header.  Each feature has tables of its
 * parameters, and server/serve/openapi.c names those of an answer.  A row is all: handlers read a
 * parameter by its row, and /openapi.json and docs/ROUTES.md print the rows.  A table ends with an
 * empty row.
 *
 *	const struct parameter JOB_EVENTS[] = {
 *		{ .name = "type", .values = "Warning|Normal", .doc = "Only these." },
 *		{ .name = NULL },
 *	};
 */
struct parameter {
	const char *name;
	bool header;
	const char *values; /* "a|b": those allowed; NULL: a text, or a number */
	int64_t max;        /* of a whole number from 0 on; 0: it is no number */
	const char *absent; /* the value that counts if the parameter is absent; NULL: none */
	const char *must; /* the end of "NAME must be ..."; NULL: "a whole number from 0 to MAX" */
	const char *example; /* NULL: none */
	const char *doc;     /* sentences in Markdown, without | */
	int kind;            /* for the handler: how it is read, and the offset of its member */
	size_t at;
};

/* The row of this name in a table; NULL: there is none. */
const struct parameter *parameter_named(const struct parameter *table, struct span name);
/* The first value of this parameter in the query of r; false if there is none. */
bool parameter_find(struct request *r, const struct parameter *p, struct span *value);
/* The index of the value in p->values; -1: it is none of them. */
int parameter_index(const struct parameter *p, struct span value);
/* -1 and *e: 400 with the name, p->must and the value. */
int parameter_refuse(const struct parameter *p, struct span value, struct err *e);
/* Reads a whole number from 0 to p->max; -1 and *e as above. */
int parameter_number(const struct parameter *p, struct span value, int64_t *out, struct err *e);

/* The parameter that replaces a token on routes with AUTH_LINK. */
#define LINK_PARAMETER "token"

/* The members of a small body (BODY_FIELDS): a JSON object or a form; all values as text. */
enum { FIELDS_MAX = 16, FIELDS_BODY = 8192 /* bytes; a larger body is 413 */ };

struct fields {
	struct {
		struct span name, value;
	} v[FIELDS_MAX];
	size_t n;
};

/*
 * Reads r->body.  Numbers and booleans become text, null is the same as absent, an empty body has
 * no members.  -1 and *e (400 InvalidParametersError): not an object, a member is a list or an
 * object or repeated, too many members.  Messages quote no values.  The texts live in the request's
 * arena, are wiped with it, end in NUL and hold none.
 */
int fields_read(struct request *r, struct fields *out, struct err *e);
/* Returns the body as a nested JSON object, with members of any type; in the request's arena,
 * wiped.  NULL and *e as above. */
const struct node *fields_map(struct request *r, struct err *e);
/* The member's value; p is NULL if it is absent. */
struct span fields_get(const struct fields *f, const char *name);

/* The header Range (RFC 9110 14.2). */
enum range_result {
	RANGE_WHOLE, /* everything: no header, another unit, several ranges, or malformed */
	RANGE_PART,
	RANGE_NONE /* begins after the end */
};
/* `header` may be NULL.  *from and *n are set for RANGE_PART and lie within `size` bytes. */
enum range_result range_read(const char *header, size_t size, size_t *from, size_t *n);
