/* JSON read where it lies. */

#include "tests/unit/base/cmocka.h"

#include "base/json/scan.h"
#include "tests/unit/base/dice.h"

static void assert_span(struct span got, const char *wanted)
{
	assert_int_equal(got.n, strlen(wanted));
	if (got.n)
		assert_memory_equal(got.p, wanted, got.n);
}

/* Checks a copy in memory of exactly its size, so that sanitizers report reads behind it. */
static bool valid(struct span text, unsigned depth)
{
	FREE_AUTO char *p = xmalloc(text.n ? text.n : 1);
	if (text.n)
		memcpy(p, text.p, text.n);
	bool is = scan_valid((struct span){ p, text.n }, depth);
	return is;
}

TEST(test_scan_valid_takes_all_kinds_of_values)
{
	static const char *const GOOD[] = {
		"{}",
		"[]",
		" \t\r\n[ ] ",
		"null",
		"true",
		"false",
		"0",
		"-0",
		"-12.50e+10",
		"1E-2",
		"10e1",
		"\"\"",
		"\"abc\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83d\\ude00\"",
		"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 and eight more bytes\"",
		"{\"a\":1,\"a\":{\"b\":[{},[],\"\",null]}}",
		"[1,2 , 3\n,[4]]",
		"\"\\ud800\"", /* the grammar allows it */
	};
	for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++) {
		if (!valid(span_of(GOOD[i]), 64))
			fail_msg("refused: %s", GOOD[i]);
	}
}

static const char *const REFUSED[] = {
	"",
	" ",
	"{",
	"[",
	"}",
	"]",
	"[1",
	"[1,",
	"[1,]",
	"[,1]",
	"[1 2]",
	"{,}",
	"{\"a\"}",
	"{\"a\":}",
	"{\"a\":1,}",
	"{\"a\":1 \"b\":2}",
	"{a:1}",
	"{1:1}",
	"{\"a\":1]",
	"[1}",
	"{}{}",
	"1 2",
	"01",
	"-",
	"+1",
	".5",
	"1.",
	"1.e2",
	"1e",
	"1e+",
	"0x1",
	"tru",
	"nul",
	"nulll",
	"True",
	"NaN",
	"\"",
	"\"abc",
	"\"\\",
	"\"\\x\"",
	"\"\\u12\"",
	"\"\\u12g4\"",
	"\"a\tb\"",
	"\"seven..\x01\"",
	"\"\xff\"",
	"\"\xc3\"",
	"\"\xed\xa0\x80\"",
	"\"\xc0\x80\"",
	"\xef\xbb\xbf{}",
	"{}\v",
	"[\"a\",'b']",
	"/**/1",
};

TEST(test_scan_valid_refuses_text_that_is_no_json)
{
	for (size_t i = 0; i < ARRAY_SIZE(REFUSED); i++) {
		if (valid(span_of(REFUSED[i]), 64))
			fail_msg("taken: %s", REFUSED[i]);
	}
	assert_false(valid(SPAN("\"a\0b\""), 64));
	assert_false(valid(SPAN("\"\\\0\""), 64));
	assert_false(valid(SPAN("{}\0"), 64));
}

TEST(test_scan_valid_refuses_too_many_levels)
{
	assert_true(valid(SPAN("1"), 0));
	assert_false(valid(SPAN("[]"), 0));
	assert_true(valid(SPAN("[[{\"a\":[]}]]"), 4));
	assert_false(valid(SPAN("[[{\"a\":[]}]]"), 3));
	STR_AUTO deep = STR_INIT(1 << 20);
	for (int i = 0; i < SCAN_DEPTH_MAX; i++)
		str_puts(&deep, i % 2 ? "{\"a\":" : "[");
	str_puts(&deep, "1");
	for (int i = SCAN_DEPTH_MAX - 1; i >= 0; i--)
		str_puts(&deep, i % 2 ? "}" : "]");
	assert_true(valid(str_view(&deep), SCAN_DEPTH_MAX));
	assert_false(valid(str_view(&deep), SCAN_DEPTH_MAX - 1));
}

static const char OBJECT[] = " { \"a\" : 1 , \"b\":{\"c\":[1,\"]}\\\"\",{\"d\":null}],\"e\":\"x\"},"
			     "\"long key of many bytes\":\"\\\\\",\"a\":2,\"last\":true}";

TEST(test_scan_get_finds_the_first_of_a_key)
{
	struct span object = SPAN(OBJECT);
	assert_span(scan_get(object, "a"), "1"); /* the first one */
	assert_span(scan_get(object, "last"), "true");
	assert_span(scan_get(object, "long key of many bytes"), "\"\\\\\"");
	assert_span(scan_path(object, "b", "e"), "\"x\"");
	assert_span(scan_path(object, "b", "c"), "[1,\"]}\\\"\",{\"d\":null}]");
	assert_null(scan_path(object, "b", "d").p);
	assert_null(scan_path(object, "a", "d").p);
	assert_null(scan_get(object, "").p);
	assert_null(scan_get((struct span){ NULL, 0 }, "a").p);
	assert_null(scan_get(SPAN("[\"a\",1]"), "a").p);
	assert_null(scan_get(SPAN("\"a\""), "a").p);
}

TEST(test_scan_members_finds_several_keys_at_once)
{
	static const char *const KEYS[] = { "last", "nothing", "a" };
	struct span values[3];
	scan_members(SPAN(OBJECT), KEYS, values, 3);
	assert_span(values[0], "true");
	assert_null(values[1].p);
	assert_span(values[2], "1");
	scan_members(SPAN("[]"), KEYS, values, 3);
	for (size_t i = 0; i < 3; i++)
		assert_null(values[i].p);
}

TEST(test_scan_inside_does_not_read_to_the_end)
{
	struct span object = SPAN(OBJECT);
	struct span b = scan_inside(object, "b");
	assert_ptr_equal(b.p + b.n, object.p + object.n);
	assert_span(scan_get(b, "e"), "\"x\"");
	assert_null(scan_get(b, "last").p); /* is behind it */
	assert_int_equal(scan_count(scan_inside(object, "b", "c")), 3);
	assert_int_equal(scan_count(scan_inside(object, "a")), 0);
	assert_null(scan_inside(object, "b", "d").p);
	assert_null(scan_inside(object, "e").p);
	assert_null(scan_inside(object, "a", "d").p);
}

TEST(test_scan_which_gives_the_index_of_a_key)
{
	static const char *const KEYS[] = { "b", "a", "aa" };
	assert_int_equal(scan_which(SPAN("aa"), KEYS, 3), 2);
	assert_int_equal(scan_which(SPAN("a\0"), KEYS, 3), 3);
	assert_int_equal(scan_which(SPAN(""), KEYS, 3), 3);
}

TEST(test_scan_walks_through_items_and_members)
{
	struct span key;
	struct span value;
	struct scan s = scan_begin(SPAN(" [ 1 , \"a,]\" ,{\"b\":[2]}, [ ] ]"));
	static const char *const ITEMS[] = { "1", "\"a,]\"", "{\"b\":[2]}", "[ ]" };
	for (size_t i = 0; i < 4; i++) {
		assert_true(scan_item(&s, &value));
		assert_span(value, ITEMS[i]);
	}
	assert_false(scan_item(&s, &value));
	assert_false(scan_item(&s, &value));
	assert_int_equal(scan_count(SPAN(OBJECT)), 5);
	assert_int_equal(scan_count(SPAN("[1,[2,3],{}]")), 3);
	assert_int_equal(scan_count(SPAN("{}")), 0);
	assert_int_equal(scan_count(SPAN("12")), 0);
	/* A list has no members, and an object has no items. */
	s = scan_begin(SPAN("[\"a\",1]"));
	assert_false(scan_member(&s, &key, &value));
	s = scan_begin(SPAN("{\"a\":1}"));
	assert_false(scan_item(&s, &value));
	s = scan_begin(SPAN("\"a\""));
	assert_false(scan_item(&s, &value));
	s = scan_begin((struct span){ NULL, 0 });
	assert_false(scan_member(&s, &key, &value));
}

TEST(test_scan_enters_and_leaves_nested_values)
{
	struct span key;
	struct span value;
	struct scan s = scan_begin(SPAN("{\"a\":[{},[1]],\"b\":{},\"c\":3}"));
	assert_true(scan_key(&s, &key));
	assert_span(key, "a");
	assert_int_equal(scan_peek(&s), SCAN_ARRAY);
	struct scan in = scan_enter(&s);
	assert_true(scan_item(&in, &value));
	assert_span(value, "{}");
	assert_true(scan_more(&in));
	struct scan deeper = scan_enter(&in);
	assert_true(scan_item(&deeper, &value));
	assert_span(value, "1");
	assert_false(scan_item(&deeper, &value));
	scan_leave(&in, &deeper);
	assert_false(scan_item(&in, &value));
	scan_leave(&s, &in);
	assert_true(scan_key(&s, &key));
	assert_span(key, "b");
	in = scan_enter(&s);
	assert_false(scan_key(&in, &key));
	scan_leave(&s, &in);
	assert_true(scan_member(&s, &key, &value));
	assert_span(key, "c");
	assert_span(value, "3");
	assert_false(scan_key(&s, &key));
}

/* Everything that can be asked, over text that is no JSON: it stays within it, and ends. */
static void walk(struct span text, int depth)
{
	struct span key;
	struct span value;
	size_t steps = 0;
	struct scan s = scan_begin(text);
	while (scan_type(text) == SCAN_OBJECT ? scan_member(&s, &key, &value)
	                                      : scan_item(&s, &value)) {
		assert_true(value.n > 0 && value.p >= text.p &&
		            value.p + value.n <= text.p + text.n);
		assert_true(++steps <= text.n);
		if (depth < 4)
			walk(value, depth + 1);
	}
}

TEST(test_scan_of_invalid_text_stays_within_its_bounds)
{
	static const char BYTES[] = "{}[]\":,\\ 1tn";
	struct dice dice = { 1 };
	for (int i = 0; i < 50000; i++) {
		size_t n = dice_roll(&dice, 24);
		FREE_AUTO char *p = xmalloc(n ? n : 1);
		for (size_t k = 0; k < n; k++)
			p[k] = BYTES[dice_roll(&dice, sizeof(BYTES) - 1)];
		struct span text = { p, n };
		(void)scan_valid(text, 8);
		walk(text, 0);
		(void)scan_path(text, "a", "b");
		int64_t number = 0;
		struct span out;
		(void)scan_string(text, &unit.a, &out);
		(void)scan_int(text, 0, 10, &number);
		(void)scan_time_ms(text, &number);
		(void)scan_count(text);
	}
}

TEST(test_scan_type_tells_all_types_apart)
{
	assert_int_equal(scan_type((struct span){ NULL, 0 }), SCAN_NONE);
	assert_int_equal(scan_type(SPAN("null")), SCAN_NULL);
	assert_int_equal(scan_type(SPAN("false")), SCAN_BOOL);
	assert_int_equal(scan_type(SPAN("-1")), SCAN_NUMBER);
	assert_int_equal(scan_type(SPAN("\"1\"")), SCAN_STRING);
	assert_int_equal(scan_type(SPAN(" []")), SCAN_ARRAY);
	assert_int_equal(scan_type(SPAN("{}")), SCAN_OBJECT);
	assert_int_equal(scan_type(SPAN("  ")), SCAN_NONE);
}

TEST(test_scan_int_takes_only_integers_in_the_range)
{
	int64_t v = 7;
	assert_true(scan_int(SPAN("-12"), -12, 0, &v));
	assert_int_equal(v, -12);
	assert_true(scan_int(SPAN("3.00"), 0, 3, &v));
	assert_int_equal(v, 3);
	assert_true(scan_int(SPAN("-9223372036854775808"), INT64_MIN, INT64_MAX, &v));
	assert_true(v == INT64_MIN);
	v = 7;
	static const char *const BAD[] = { "4",  "-1",   "1.5", "1e2", "\"1\"",
		                           "",   "null", "[1]", "-",   "9223372036854775808",
		                           ".0", "1.0e1" };
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
		assert_false(scan_int(span_of(BAD[i]), 0, 3, &v));
	assert_int_equal(v, 7);
}

TEST(test_scan_string_resolves_escapes)
{
	static const struct {
		const char *json, *text;
	} CASES[] = {
		{ "\"\"", "" },
		{ "\"plain\"", "plain" },
		{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t" },
		{ "\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00.\"",
		  "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80." },
	};
	struct span out;
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		assert_true(scan_string(span_of(CASES[i].json), &unit.a, &out));
		assert_span(out, CASES[i].text);
	}
	/* What another program wrote is shown without the characters that are none. */
	static const char *const BROKEN[][2] = {
		{ "\"a\\u0000b\"", "a\uFFFDb" },
		{ "\"\\ud800\"", "\uFFFD" },
		{ "\"\\udc00z\"", "\uFFFDz" },
		{ "\"\\ud800\\u0041\"", "\uFFFDA" },
		{ "\"\\ud800\\n\"", "\uFFFD\n" },
		{ "\"\\ud83d\\ud83d\\ude00\"", "\uFFFD\U0001F600" },
	};
	out = SPAN("untouched");
	for (size_t i = 0; i < ARRAY_SIZE(BROKEN); i++) {
		assert_false(scan_string(span_of(BROKEN[i][0]), &unit.a, &out));
		assert_span(scan_text(span_of(BROKEN[i][0]), &unit.a), BROKEN[i][1]);
	}
	static const char *const NONE[] = {
		"\"\\x\"", "\"\\u00g0\"", "1", "null", "\"", "", "[\"a\"]",
	};
	out = SPAN("untouched");
	for (size_t i = 0; i < ARRAY_SIZE(NONE); i++) {
		assert_false(scan_string(span_of(NONE[i]), &unit.a, &out));
		assert_span(scan_text(span_of(NONE[i]), &unit.a), "");
	}
	assert_span(out, "untouched");
}

TEST(test_scan_time_ms_reads_rfc3339_times)
{
	static const struct {
		const char *json;
		int64_t ms;
	} CASES[] = {
		{ "\"1970-01-01T00:00:00Z\"", 0 },
		{ "\"2026-11-22T01:34:56Z\"", INT64_C(1795311296000) },
		{ "\"2024-02-29T23:59:59.5Z\"", INT64_C(1709251199500) },
		{ "\"2000-03-01T00:00:00.123456789Z\"", INT64_C(951868800123) },
		{ "\"0001-01-01T00:00:00Z\"", INT64_C(-62135596800000) },
		{ "\"9999-12-31T23:59:59Z\"", INT64_C(253402300799000) },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		int64_t ms = 0;
		if (!scan_time_ms(span_of(CASES[i].json), &ms) || ms != CASES[i].ms)
			fail_msg("%s is %lld", CASES[i].json, (long long)ms);
	}
	static const char *const NONE[] = {
		"null",
		"\"",
		"\"\"",
		"0",
		"\"2026-11-22\"",
		"\"2026-11-22T01:34:56\"",
		"\"2026-11-22T01:34:56+01:00\"",
		"\"2026-11-22 01:34:56Z\"",
		"\"2026-02-29T00:00:00Z\"",
		"\"2026-13-01T00:00:00Z\"",
		"\"2026-00-01T00:00:00Z\"",
		"\"2026-11-22T24:00:00Z\"",
		"\"2026-11-22T01:34:5xZ\"",
		"\"2026-11-22T01:34:56.Z\"",
		"\"2026-11-22T01:34:56.1xZ\"",
		"\"-026-11-22T01:34:56Z\"",
	};
	int64_t ms = 5;
	for (size_t i = 0; i < ARRAY_SIZE(NONE); i++) {
		if (scan_time_ms(span_of(NONE[i]), &ms))
			fail_msg("%s is %lld", NONE[i], (long long)ms);
	}
	assert_int_equal(ms, 5);
}
