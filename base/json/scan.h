#pragma once
/*
 * JSON in place: values are borrowed parts of the text; no tree is built (for a tree with positions
 * see json_read in base/doc/tree.h).  Meant for large objects of the API server, of which few
 * members are needed.
 *
 *	struct span item;
 *	struct scan items = scan_begin(scan_get(list, "items"));
 *	while (scan_item(&items, &item)) {
 *		struct span name = scan_text(scan_path(item, "metadata", "name"), a);
 *		int64_t port = 0;
 *		(void)scan_int(scan_path(item, "spec", "port"), 1, UINT16_MAX, &port);
 *	}
 *
 * Callers check text from outside with scan_valid; on invalid text a scan returns nothing useful,
 * but stays inside of the text.  Absent values are { NULL, 0 }.  Pure.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/str.h"

/* The API server allows 10000 levels. */
enum { SCAN_DEPTH_MAX = 10240 };

/* The text is one JSON value (RFC 8259) in UTF-8, nested at most `depth` <= SCAN_DEPTH_MAX levels.
 * Duplicate keys are allowed; look-ups find the first. */
bool scan_valid(struct span text, unsigned depth);

/* The type of a value; SCAN_NONE if it is absent (p is NULL). */
enum scan_type {
	SCAN_NONE,
	SCAN_NULL,
	SCAN_BOOL,
	SCAN_NUMBER,
	SCAN_STRING,
	SCAN_ARRAY,
	SCAN_OBJECT,
	SCAN_TYPE_MAX
};
enum scan_type scan_type(struct span value);

/* An iteration over the members of an object or the items of an array; empty for other values. */
struct scan {
	const char *p, *end;
	char open; /* the opening bracket */
};
struct scan scan_begin(struct span container);
/* The next member: its key as written between the quotes, with escapes, and its value.  false at
 * the end. */
bool scan_member(struct scan *s, struct span *key, struct span *value);
bool scan_item(struct scan *s, struct span *value);
size_t scan_count(struct span container);

/* The same in two steps, to enter a value without searching its end first: scan_key or scan_more
 * stop before the next value; then scan_value, or scan_enter, an iteration to its end, and
 * scan_leave. */
bool scan_key(struct scan *s, struct span *key);
bool scan_more(struct scan *s);
enum scan_type scan_peek(const struct scan *s); /* of the next value */
bool scan_value(struct scan *s, struct span *value);
struct scan scan_enter(const struct scan *s);
void scan_leave(struct scan *s, const struct scan *inner);

/* The end of one value whose text comes in pieces, from its first byte.  Returns how many bytes of
 * the piece belong to it; `ended` is set when the value is complete, for a number, true, false or
 * null by the byte after it. */
struct scan_tail {
	bool ended, string, escaped, scalar;
	size_t depth;
};
size_t scan_tail(struct scan_tail *t, struct span piece);

/* A member of an object; { NULL, 0 } if absent, or if the value is not an object. */
struct span scan_get(struct span object, const char *key);
/* A nested member: scan_path(v, "status", "attemptStatus", "id"). */
#define scan_path(object, ...) scan_down((object), (const char *const[]){ __VA_ARGS__, NULL })
struct span scan_down(struct span object, const char *const keys[]); /* to NULL */
/* The same without searching the end of the value: the span includes the text after it.  Use it for
 * an object or array that is then iterated. */
#define scan_inside(object, ...) scan_into((object), (const char *const[]){ __VA_ARGS__, NULL })
struct span scan_into(struct span object, const char *const keys[]);
/* Many members in one pass: values[i] is the value of keys[i], or { NULL, 0 }. */
void scan_members(struct span object, const char *const keys[], struct span values[], size_t n);
size_t scan_which(struct span key, const char *const keys[], size_t n); /* n if not found */

/* Typed values: false and *out unchanged if the type differs or the value is out of range. */
bool scan_int(struct span value, int64_t min, int64_t max, int64_t *out); /* 1, 1.0 */
/* The reverse of json_put_figure; -1 if it is no number.  Of a member or item, as something else
 * than a number must follow it. */
double scan_figure(struct span value);
/* A decoded string; borrowed if it has no escapes, else in the arena.  false if it has a NUL or
 * half of a surrogate pair. */
bool scan_string(struct span value, struct arena *a, struct span *out);
/* The same, with U+FFFD in place of these, as it is for texts of other programs that are shown; ""
 * if it is not a string. */
struct span scan_text(struct span value, struct arena *a);
/* A time of Kubernetes, "2026-11-22T01:34:56Z" or with a fraction, as milliseconds since 1970. */
bool scan_time_ms(struct span value, int64_t *out);
