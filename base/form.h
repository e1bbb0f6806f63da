#pragma once
/*
 * Forms (application/x-www-form-urlencoded) with nested names: `a=1`, `a[b]=1`, `a[0][b]=1`,
 * `a[]=1&a[]=2`.  Only names with a single meaning are accepted:
 *
 *	[0], [1]      items of a list, in any order, without gaps
 *	[]            the next item; only at the end of a name
 *	[name]        a member
 *
 * A duplicate value, and a value of two shapes (text, list, mapping), are refused.  Pure.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/err.h"

enum {
	FORM_PAIRS = 1000, /* name=value */
	FORM_DEPTH = 5,    /* brackets of one name */
	FORM_ITEMS = 1000, /* of one list */
};

/* Values of a form are text.  At these paths ("taskRoles[].portList[].beginAt"), an integer of up
 * to ten digits is written as a number. */
struct form_number {
	const char *path;
	bool empty_is_null; /* "" is written as null */
};

/*
 * Appends a form to *out as a JSON object.  `numbers` ends with a NULL path, or is NULL.  -1 and
 * *e: 400 InvalidParametersError with the number of the pair, and its name if that is plain; never
 * with a value.  Decoded values are kept in the arena.  The caller checks out->full.
 */
int form_json(struct span text, const struct form_number *numbers, struct arena *a, struct str *out,
              struct err *e);
