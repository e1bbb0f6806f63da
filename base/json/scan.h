#pragma once
/*
 * JSON read where it lies: values are borrowed pieces of a text, found by walking over it, and no
 * tree is made.  For the objects of an API server, of which a few members are wanted and most
 * are not.  Text from outside goes through scan_valid first; after that, walking cannot fail, and
 * even over other text it stays within it.  Pure; no thread rule.
 */
#include "base/arena.h"
#include "base/str.h"

/* An API server takes 10000 levels; and what one object has where nobody looks must not keep others
 * from being heard of. */
enum { SCAN_DEPTH_MAX = 10240 };

/* One JSON value (RFC 8259) in UTF-8, nested at most so deep (SCAN_DEPTH_MAX), with nothing but
 * white space around it?  (Keys may be there twice: the last one counts for nobody here, the first
 * one is found.) */
bool scan_valid(struct span text, unsigned depth);

/* What a value is; NONE: it is not there (p is NULL). */
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

/* A walk over the members of an object, or the items of an array; over anything else it ends at
 * once. */
struct scan {
	const char *p, *end;
	char open; /* the bracket that began it */
};
struct scan scan_begin(struct span container);
/* The next member: its key as it stands between the quotes (with escapes, which no key has that is
 * looked for), and its value.  false at the end. */
bool scan_member(struct scan *s, struct span *key, struct span *value);
bool scan_item(struct scan *s, struct span *value);
size_t scan_count(struct span container);

/* The same in two steps, for who wants to go into a value without first looking for its end:
 * scan_key, or scan_more, which leave the walk before the next value; then scan_value, or
 * scan_enter, a walk to its end, and scan_leave. */
bool scan_key(struct scan *s, struct span *key);
bool scan_more(struct scan *s);
enum scan_type scan_peek(const struct scan *s); /* of the value that is next */
bool scan_value(struct scan *s, struct span *value);
struct scan scan_enter(const struct scan *s);
void scan_leave(struct scan *s, const struct scan *inner);

/* A member of an object; { NULL, 0 } if there is none, or it is no object. */
struct span scan_get(struct span object, const char *key);
/* The same, deeper: scan_path(v, "status", "attemptStatus", "id"). */
#define scan_path(object, ...) scan_down((object), (const char *const[]){ __VA_ARGS__, NULL })
struct span scan_down(struct span object, const char *const keys[]); /* to NULL */
/* The same without looking for the end of the value: what is behind it comes with it.  For an
 * object or array that is walked into, at whose end the walk ends. */
#define scan_inside(object, ...) scan_into((object), (const char *const[]){ __VA_ARGS__, NULL })
struct span scan_into(struct span object, const char *const keys[]);
/* Many members in one pass: values[i] is that of keys[i], or { NULL, 0 }. */
void scan_members(struct span object, const char *const keys[], struct span values[], size_t n);
/* The same of the members that are left of a walk, to its end. */
void scan_rest(struct scan *s, const char *const keys[], struct span values[], size_t n);
size_t scan_which(struct span key, const char *const keys[], size_t n); /* n: none of them */

/* Typed, strictly: false, and *out untouched, if the value is of another type or out of range. */
bool scan_int(struct span value, int64_t min, int64_t max, int64_t *out); /* 1, 1.0 */
bool scan_bool(struct span value, bool *out);
/* Without its quotes, and escapes resolved; borrowed where there are none, else in the arena.  A
 * NUL, or half of a surrogate pair, in it makes it none. */
bool scan_string(struct span value, struct arena *a, struct span *out);
/* The same as text that is there and may be shown: "" for what is no string. */
struct span scan_text(struct span value, struct arena *a);
/* A time of Kubernetes, "2026-11-22T01:34:56Z" or with a fraction, in milliseconds since 1970. */
bool scan_time_ms(struct span value, int64_t *out);
