/* Documents: the choice of JSON or YAML, invalid bytes, and the place of the secrets. */
#include "tests/unit/base/read.h"

TEST(test_doc_read_chooses_between_json_and_yaml)
{
	static const struct {
		const char *text;
		bool json;
	} CASES[] = {
		{ "{\"a\": 1}", true },
		{ "\xef\xbb\xbf \r\n\t{\"a\": 1}", true },
		{ "// c\n/* d */ {\"a\": 1}", true },
		{ "{a: 1}", false },
		{ "{\"a\": 'b'}", false },
		{ "a: 1", false },
		{ "[1]", false },
		{ "// c", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		AUTO(run_done) struct run r = run_doc(CASES[i].text);
		if (r.failed)
			fail_msg("%s: %s", CASES[i].text, run_result(&r));
		assert_int_equal(r.doc.json, CASES[i].json);
	}
}

TEST(test_doc_quiet_returns_null_for_invalid_text)
{
	const struct node *root = doc_quiet(SPAN("a: 1"), &BUDGET_DEFAULT, &unit.a);
	assert_true(node_is(node_get(root, "a"), NODE_INT));
	assert_null(doc_quiet(SPAN("a: ["), &BUDGET_DEFAULT, &unit.a));
	assert_null(doc_quiet(SPAN("{\"a\":1,\"a\":2}"), &BUDGET_DEFAULT, &unit.a));
}

TEST(test_doc_read_gives_the_error_of_the_better_reader)
{
	assert_refuses("{\"a\": 1 \"b\": 2}", "1:9: not valid JSON: a `,` or `}` is expected here");
	assert_refuses("{\"a\": 1, b: *x}", "1:13: b: unknown alias `x`");
	assert_refuses("{\"a\": \"\\ud800\"}", "1:8: a: this escape is half of a surrogate pair");
}

TEST(test_doc_read_refuses_invalid_utf8)
{
	assert_refuses("a: ü\nb: \xff", "2:4: invalid UTF-8 at byte 9");
	assert_refuses("a: \xc0\xaf",
	               "1:4: invalid UTF-8 (overlong form of a character) at byte 3");
	assert_refuses("a: \xe0\x80\xaf", "1:4: invalid UTF-8 (overlong form of a character)");
	assert_refuses("a: \xed\xa0\x80", "1:4: invalid UTF-8 (half of a surrogate pair)");
	assert_refuses("a: \xf0\x9f\x98", "1:4: invalid UTF-8 (truncated character)");
	assert_refuses("a: \xf4\x90\x80\x80", "1:4: invalid UTF-8 at byte 3");
	assert_refuses("a: \x80", "1:4: invalid UTF-8 at byte 3");
	assert_refuses("\xff\xfe"
	               "a",
	               "1:1: this is UTF-16");
	assert_refuses_span(SPAN("a\0:\0"),
	                    "1:2: control character U+0000 (NUL) is not allowed (is");
	assert_refuses_span(SPAN("{\"a\": \"\0\"}"), "1:8: control character U+0000 (NUL)");
}

/* The flags of the member `s` of the top level. */
static unsigned flags_of(const char *text)
{
	AUTO(run_done) struct run r = run_doc(text);
	if (r.failed)
		fail_msg("%s", run_result(&r));
	const struct node *n = node_get(&r.doc.root, "s");
	assert_non_null(n);
	unsigned flags = n->flags;
	return flags;
}

TEST(test_doc_read_marks_values_that_others_can_share)
{
	static const struct {
		const char *text;
		unsigned flags;
	} ROWS[] = {
		{ "s: {a: b, c: [d]}\n", 0 },
		{ "a: &a b\ns: c\nd: *a\n", 0 },
		{ "s: {<<: {a: b}}\n", 0 },
		{ "&k s: {a: b}\n", 0 },
		{ "a: &a s\n*a : {a: b}\n", 0 },
		{ "<<: {s: a}\n", 0 },
		{ "s: &s a\n", NODE_SHARED | NODE_SHARES },
		{ "s: &s {a: b}\n", NODE_SHARED | NODE_SHARES },
		{ "a: &a b\ns: *a\n", NODE_SHARED | NODE_SHARES },
		{ "s: {a: [&s b]}\n", NODE_SHARES },
		{ "a: &a b\ns: [{c: *a}]\n", NODE_SHARES },
		{ "s: {&a a: b}\n", NODE_SHARES },
		{ "a: &a b\ns: {*a : c}\n", NODE_SHARES },
		{ "a: &a {b: c}\ns: {<<: *a}\n", NODE_SHARES },
		{ "a: &a [{b: c}]\ns: {<<: *a}\n", NODE_SHARES },
		{ "s: {<<: [&a {b: c}]}\n", NODE_SHARES },
		{ "s: {<<: {&a b: c}}\n", NODE_SHARES },
		{ "s: {<<: {b: &a c}, b: d}\n", NODE_SHARES },
		{ "a: &a {s: b}\n<<: *a\n", NODE_SHARED | NODE_SHARES },
		{ "a: &a [{s: b}]\n<<: *a\n", NODE_SHARED | NODE_SHARES },
		{ "<<: {s: a}\ns: b\n", NODE_OVERRIDES },
		{ "s: b\n<<: {s: a}\n", NODE_OVERRIDES },
		{ "<<: [{s: a}, {s: b}]\n", NODE_OVERRIDES },
		{ "<<: {s: {a: &a b}}\ns: c\n", NODE_OVERRIDES | NODE_SHARED | NODE_SHARES },
		{ "s: c\n<<: {s: [&a b]}\n", NODE_OVERRIDES | NODE_SHARED | NODE_SHARES },
		{ "{\"s\": {\"a\": [\"&a\"]}}", 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++)
		if (flags_of(ROWS[i].text) != ROWS[i].flags)
			fail_msg("%s: %#x", ROWS[i].text, flags_of(ROWS[i].text));
}
