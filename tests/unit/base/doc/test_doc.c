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
		struct run r = run_doc(CASES[i].text);
		if (r.failed)
			fail_msg("%s: %s", CASES[i].text, run_result(&r));
		assert_int_equal(r.doc.json, CASES[i].json);
		run_done(&r);
	}
}

TEST(test_doc_quiet_returns_null_for_invalid_text)
{
	ARENA_AUTO a = { 0 };
	const struct node *root = doc_quiet(SPAN("a: 1"), &BUDGET_DEFAULT, &a);
	assert_true(node_is(node_get(root, "a"), NODE_INT));
	assert_null(doc_quiet(SPAN("a: ["), &BUDGET_DEFAULT, &a));
	assert_null(doc_quiet(SPAN("{\"a\":1,\"a\":2}"), &BUDGET_DEFAULT, &a));
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

TEST(test_doc_read_finds_secrets_in_block_style)
{
	assert_secrets("a: ü\nsecrets:\n  b: c\n# x\nd: e\n", ":\n  b: c\n# x\n", NULL);
	assert_secrets("secrets: {b: c}\r\nd: e\n", ": {b: c}\r\n", NULL);
	assert_secrets("secrets :\n  b: c", " :\n  b: c", NULL);
	assert_secrets("---\nsecrets:\n  b: c\n...\n", ":\n  b: c\n", NULL);
	assert_secrets("  a: 1\n  secrets:\n    b: c\n  d: e\n", ":\n    b: c\n  ", NULL);
	assert_secrets("\"\\x73ecrets\": {b: !!str c}\n&x d: e\n", ": {b: !!str c}\n", NULL);
	assert_secrets("\xef\xbb\xbfsecrets: {}\nü: e\n", ": {}\n", NULL);
	assert_secrets("b: {secrets: {a: b}}\n", "", NULL);
	assert_secrets("- secrets: {a: b}\n", "", NULL);
}

TEST(test_doc_read_finds_secrets_in_flow_style)
{
	assert_secrets("{a: 1, secrets: {b: c} , d: e}", ": {b: c} , ", NULL);
	assert_secrets("{a: 1, secrets: {b: c} }", ": {b: c} ", NULL);
}

TEST(test_doc_read_finds_secrets_in_json)
{
	assert_secrets("{\"a\": 1, \"secrets\" : {\"b\": \"c\"}, // d\n\"e\": 2}",
	               " : {\"b\": \"c\"}, // d\n", NULL);
	assert_secrets("{\"a\": {\"secrets\": 1}, \"secrets\": {\"b\": [{}]}\n}",
	               ": {\"b\": [{}]}\n", NULL);
	assert_secrets("{\"secrets\": 1}", ": 1", "`secrets` is not a mapping");
}

TEST(test_doc_read_says_why_secrets_cannot_be_cut_out)
{
	assert_secrets("secrets: &s {a: b}\n", ": &s {a: b}\n", "there is an anchor in `secrets`");
	assert_secrets("secrets: {a: &s b}\nc: *s\n", ": {a: &s b}\n",
	               "there is an anchor in `secrets`");
	assert_secrets("c: &c {a: b}\nsecrets: *c\n", ": *c\n", "there is an alias in `secrets`");
	assert_secrets("c: &c b\nsecrets: {a: *c}\n", ": {a: *c}\n",
	               "there is an alias in `secrets`");
	assert_secrets("c: &c b\nsecrets: {*c : a}\n", ": {*c : a}\n",
	               "there is an alias in `secrets`");
	assert_secrets("secrets: {&c b: a}\nd: *c\n", ": {&c b: a}\n",
	               "there is an anchor in `secrets`");
	assert_secrets("secrets: {<<: {a: b}}\n", ": {<<: {a: b}}\n",
	               "there is a merge key in `secrets`");
	assert_secrets("secrets: !!map {a: b}\n", ": !!map {a: b}\n", "`secrets` has a tag");
	assert_secrets("secrets: '******'\n", ": '******'\n", "`secrets` is not a mapping");
	assert_secrets("secrets: [a]\n", ": [a]\n", "`secrets` is not a mapping");
	assert_secrets("!!str secrets: {a: b}\n", ": {a: b}\n", "the key `secrets` has a tag");
	assert_secrets("&k secrets: {a: b}\n", ": {a: b}\n", "the key `secrets` has an anchor");
	assert_secrets("? secrets\n: {a: b}\n", "\n: {a: b}\n",
	               "the key `secrets` is written with `?`");
	assert_secrets("secrets: {a: b}\n? c\n: d\n", ": {a: b}\n? ",
	               "the key after `secrets` does not start in the same column");
	assert_secrets("a: &a secrets\n*a : {a: b}\n", " : {a: b}\n",
	               "the key `secrets` is an alias");
}

TEST(test_doc_read_notices_secrets_that_are_merged_in)
{
	assert_secrets("extras: &e {secrets: {a: b}}\n<<: *e\nname: x\n", "",
	               "`secrets` is merged in by `<<`");
	assert_secrets("<<: {secrets: {a: b}}\nsecrets: {c: d}\nname: x\n", ": {c: d}\n",
	               "`secrets` is merged in by `<<`");
}

TEST(test_doc_read_points_to_the_member_of_secrets)
{
	struct run r = run_doc("a: 1\nsecrets: {b: c}\n");
	assert_ptr_equal(r.doc.secrets_member, &r.doc.root.member[1]);
	run_done(&r);
	r = run_doc("{\"secrets\": {}}");
	assert_ptr_equal(r.doc.secrets_member, &r.doc.root.member[0]);
	run_done(&r);
	r = run_doc("<<: {secrets: {}}");
	assert_null(r.doc.secrets_member);
	run_done(&r);
}
