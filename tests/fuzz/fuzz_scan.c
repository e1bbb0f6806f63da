/*
 * Any text as JSON that is read where it lies, beside jansson: what one takes, the other takes, and
 * it is the same; and walks over what is no JSON stay within it.
 */
#include <jansson.h>
#include <stdlib.h>

#include "base/json/scan.h"
#include "tests/fuzz/fuzz.h"

enum { DEPTH = 64 };

static void check_equal(struct span ours, const json_t *theirs, struct arena *a)
{
	struct span key;
	struct span value;
	struct span text = { NULL, 0 };
	int64_t number = 0;
	struct scan s = scan_begin(ours);
	switch (scan_type(ours)) {
	case SCAN_NULL:
		assert(json_is_null(theirs));
		break;
	case SCAN_BOOL:
		assert(json_is_boolean(theirs));
		assert(json_is_true(theirs) == span_is(ours, "true"));
		break;
	case SCAN_NUMBER:
		assert(json_is_number(theirs));
		if (scan_int(ours, INT64_MIN, INT64_MAX, &number))
			assert(json_number_value(theirs) == (double)number);
		else
			assert(!json_is_integer(theirs));
		break;
	case SCAN_STRING:
		assert(json_is_string(theirs));
		if (scan_string(ours, a, &text))
			assert(span_is(text, json_string_value(theirs)));
		break;
	case SCAN_ARRAY:
		assert(json_array_size(theirs) == scan_count(ours));
		for (size_t i = 0; scan_item(&s, &value); i++)
			check_equal(value, json_array_get(theirs, i), a);
		break;
	case SCAN_OBJECT:
		assert(json_object_size(theirs) == scan_count(ours));
		while (scan_member(&s, &key, &value)) {
			struct span quoted = { key.p - 1, key.n + 2 };
			if (!scan_string(quoted, a, &text))
				continue;
			check_equal(value, json_object_getn(theirs, text.p, text.n), a);
		}
		break;
	case SCAN_NONE:
	case SCAN_TYPE_MAX:
		abort();
	}
}

static void walk(struct span text, int depth)
{
	struct span key;
	struct span value;
	struct scan s = scan_begin(text);
	size_t steps = 0;
	while (scan_type(text) == SCAN_OBJECT ? scan_member(&s, &key, &value)
	                                      : scan_item(&s, &value)) {
		assert(value.n && value.p >= text.p && value.p + value.n <= text.p + text.n);
		steps++;
		assert(steps <= text.n);
		ARENA_AUTO a = { 0 };
		int64_t number = 0;
		(void)scan_text(value, &a);
		(void)scan_int(value, INT64_MIN, INT64_MAX, &number);
		(void)scan_time_ms(value, &number);
		if (depth < 8)
			walk(value, depth + 1);
	}
}

/* Escapes of what is no character, integers beyond 64 bits and reals beyond a double, of which
 * jansson has rules of its own. */
static bool is_special(struct span t)
{
	size_t digits = 0;
	for (size_t i = 0; i < t.n; i++) {
		digits = t.p[i] >= '0' && t.p[i] <= '9' ? digits + 1 : 0;
		if (digits > 18 || t.p[i] == 'e' || t.p[i] == 'E')
			return true;
	}
	return span_find(t, 0, "\\u") != SIZE_MAX;
}

FUZZ(text)
{
	ARENA_AUTO a = { 0 };
	bool valid = scan_valid(text, DEPTH);
	walk(text, 0);
	(void)scan_path(text, "a", "b");
	if (text.n && memchr(text.p, 0, text.n)) {
		assert(!valid);
		return;
	}
	json_error_t e;
	json_auto_t *theirs = json_loadb(
	    text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
	if (theirs && valid)
		check_equal(span_trim(text), theirs, &a);
	else if (theirs)
		assert(!scan_valid(text, DEPTH) && scan_valid(text, SCAN_DEPTH_MAX));
	else if (valid)
		assert(is_special(text) || json_error_code(&e) == json_error_duplicate_key);
}
