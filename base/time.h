#pragma once
/*
 * Points in time as texts: RFC 3339 in UTC, as Kubernetes, OpenPAI and our logs write them
 * ("2026-01-31T12:00:00Z"), and the date of HTTP.  All are milliseconds since 1970; years are those
 * of the Gregorian calendar, 1 to 9999.
 *
 *	int64_t ms;
 *	char text[RFC3339_MAX];
 *	if (rfc3339_read(SPAN("2026-01-31T12:00:00Z"), &ms))
 *		use(rfc3339_put(text, ms + 500, 3)); // "2026-01-31T12:00:00.500Z"
 *
 * No time zones, no locale.  Pure.
 *
 * Thread: any
 */
#include "base/str.h"

enum { RFC3339_MAX = 80 }; /* for any int64_t; usually 21 to 28 */

/* The time as text, with 0, 3 or 6 digits of a fraction; returns out. */
const char *rfc3339_put(char out[static RFC3339_MAX], int64_t ms, int digits);

/* The whole text is such a time, with any number of digits of a fraction, of which three count.
 * false and *ms is unchanged: any other text, also one with a zone, or a 30th of February. */
bool rfc3339_read(struct span text, int64_t *ms);

/* The same for "Sun, 06 Nov 1994 08:49:37 GMT" (IMF-fixdate); the name of the day is not checked.
 */
bool http_date_read(struct span text, int64_t *ms);
