#pragma once
/*
 * Forms, as web pages and many HTTP libraries send them (application/x-www-form-urlencoded), with
 * names that nest: `a=1`, `a[b]=1`, `a[0][b]=1`, `a[]=1&a[]=2`.  Of what such names could
 * mean, only that is taken which has one meaning:
 *
 *	[0], [1]      items of a list, in any order, none left out
 *	[]            the next item; at the end of a name only
 *	[name]        a member
 *
 * A value that is given twice, that is text here and a list or mapping there, or a list with names:
 * refused.  Pure.
 */
#include "base/arena.h"
#include "base/err.h"

enum {
	FORM_PAIRS = 1000, /* name=value */
	FORM_DEPTH = 5,    /* brackets of one name */
	FORM_ITEMS = 1000, /* of one list */
};

/*
 * A form has texts only.  Where a number is wanted, a text that is a whole number of up to ten
 * digits is written as one: "taskRoles[].portList[].beginAt".
 */
struct form_number {
	const char *path;
	bool empty_is_null; /* "" is written as null */
};

/*
 * Append a form to *out as the text of a JSON object.  `numbers` ends with a NULL path; NULL: none.
 * -1 and *e: 400 InvalidParametersError, which says in which pair, by its number, and by its name
 * unless that is odd; a value never stands in it.  Uses the arena, in which values stand decoded;
 * if out->full is set afterwards, it did not fit.
 */
int form_json(struct span text, const struct form_number *numbers, struct arena *a, struct str *out,
              struct err *e);
