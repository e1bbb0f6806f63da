#pragma once
/*
 * Members of a JSON object into a struct, by a table of at most 63 fields: one pass over the text,
 * also of inner objects; no tree.  A struct
 * that is described once is read in the same way wherever it occurs.
 *
 *	#define AT(member) offsetof(struct point, member)
 *	static const struct scan_field POINT[] = {
 *		{ "x", SCAN_TO_INT, AT(x), NULL }, { "name", SCAN_TO_TEXT, AT(name), NULL }, { 0 }
 * };
 *
 * Thread: any
 */
#include "base/json/scan.h"

enum scan_to {
	SCAN_TO_RAW,  /* struct span: the value as it stands; absent or null: { NULL, 0 } */
	SCAN_TO_TEXT, /* struct span, decoded, in the document or the arena; absent: { NULL, 0 } */
	SCAN_TO_INT,  /* int64_t from 0 to INT32_MAX; absent: -1 */
	SCAN_TO_TIME, /* int64_t, milliseconds since 1970; absent: -1 */
	SCAN_TO_MEMBERS /* the members of this object, by the table `of`, into the same struct */
};

struct scan_field {
	const char *key; /* NULL: the end of the table */
	enum scan_to to;
	size_t at;
	const struct scan_field *of;
};

/* Sets all fields of the table; of a repeated key the first counts.  false: a member has another
 * type or is out of range; it counts as absent, and the others are read. */
bool scan_fields(struct span object, const struct scan_field *fields, void *base, struct arena *a);
/* The same for the next item of a list, before which scan_more has stopped.  false: it is no
 * object, and passed over. */
bool scan_next_fields(struct scan *list, const struct scan_field *fields, void *base,
                      struct arena *a, bool *odd);
