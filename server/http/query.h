#pragma once
/* The query of a request: what follows the `?`. */
#include <stdbool.h>

#include "base/arena.h"
#include "base/tree.h"
#include "server/http/request.h"

/*
 * Take the next parameter off *rest; false at the end.  Name and value are decoded, once (`+` is a
 * blank; a broken escape stays as it is), and live in the arena; they may hold any byte.  value->p
 * is NULL if there is no `=`.
 */
bool query_next(struct span *rest, struct arena *a, struct span *name, struct span *value);
/* The first parameter of this name, as query_next has it; false if there is none. */
bool query_find(struct span query, const char *name, struct arena *a, struct span *value);

/*
 * The members of a small body, for routes that take BODY_FIELDS: a JSON object (also as text/plain,
 * as web pages send it) or a form; all values as text.
 */
enum { FIELDS_MAX = 16, FIELDS_BODY = 8192 /* bytes; more is answered 413 */ };

struct fields {
	struct {
		struct span name, value;
	} v[FIELDS_MAX];
	size_t n;
};

/*
 * Read r->body.  Numbers and booleans come as their text, null as if the member were not there; an
 * empty body has no members.  -1 and *e (400 InvalidParametersError): it is no object, a member is
 * a list or an object or there twice, there are too many.  No value stands in a message.  The texts
 * live in the request's arena, and are wiped with it; each is followed by a NUL, and holds none.
 */
int fields_read(struct request *r, struct fields *out, struct err *e);

/*
 * The whole of r->body, which may be nested: a JSON object, whatever type it is said to be.  Lives
 * in the request's arena, which is wiped.  NULL and *e as above.
 */
const struct node *fields_map(struct request *r, struct err *e);

/* The member's value; p is NULL if it is not there. */
struct span fields_get(const struct fields *f, const char *name);
