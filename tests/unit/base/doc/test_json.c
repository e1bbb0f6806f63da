/* The JSON reader: strict except for comments; its errors and their places. */
#include "tests/unit/base/read.h"

#include "base/doc/tree.h"

/* Reads the text only as JSON, not as YAML. */
static struct run run_json(const char *text)
{
	struct run r = { .json = STR_INIT(1 << 20), .sentence = STR_INIT(4096) };
	struct budget budget = BUDGET_DEFAULT;
	r.failed = json_read(span_of(text), &budget, &r.arena, &r.doc, &r.warnings, &r.err);
	return r;
}

static void assert_json(const char *text, const char *want, bool want_syntax)
{
	AUTO(run_done) struct run r = run_json(text);
	const char *got = run_result(&r);
	if (strncmp(got, want, strlen(want)) != 0)
		fail_msg("%s: expected \"%s\", got \"%s\"", text, want, got);
	assert_int_equal(r.doc.syntax, want_syntax);
}

TEST(test_json_read_refuses_numbers_that_json_does_not_have)
{
	assert_json("[0, -0, 1.0, 1e3, 0.5, -1.5E-3]", "[0,0,1,1000,0.5,-0.0015]", false);
	assert_json("[9007199254740992, 9007199254740994, 1e400]",
	            "1:38: [2]: this number is too large: not a finite number", false);
	static const char *const BAD[] = { "[01]",  "[+1]",       "[.5]",       "[1.]",
		                           "[1e]",  "[-]",        "[0x1]",      "[1_0]",
		                           "[NaN]", "[Infinity]", "[-Infinity]" };
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
		assert_json(BAD[i], "1:", true);
}

TEST(test_json_read_tells_integers_from_reals)
{
	AUTO(run_done)
	struct run r = run_json("[9007199254740992, 9007199254740994, 2.0, 2.5]");
	static const enum node_type TYPES[] = { NODE_INT, NODE_REAL, NODE_INT, NODE_REAL };
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(r.doc.root.item[i].type, TYPES[i]);
	assert_false(r.doc.root.item[0].plain);
}

TEST(test_json_read_gives_the_expected_values)
{
	/* Takes all types of values. */
	assert_json(" [true, false, null, \"\", [], {}] ", "[true,false,null,\"\",[],{}]", false);
	assert_json("{\"a\": {\"b\": [1, {\"c\": 2}]}}", "{\"a\":{\"b\":[1,{\"c\":2}]}}", false);
	assert_json("\"x\"", "\"x\"", false);
	/* Resolves escapes and refuses unknown ones. */
	assert_json("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00fc\\u20AC\\ud83d\\ude00\"",
	            "\"\\\"\\\\/\\b\\f\\n\\r\\tü€😀\"", false);
	assert_json("\"\\q\"", "1:2: not valid JSON: unknown escape", true);
	assert_json("\"\\u12g4\"", "1:2: not valid JSON: `\\u` needs four", true);
	assert_json("\"\\u12", "1:1: not valid JSON: the quote that opens here", true);
	assert_json("\"\\", "1:1: not valid JSON: the quote that opens here", true);
	assert_json("\"a\nb\"", "1:3: not valid JSON: line breaks", true);
	/* Errors in values are no syntax errors. */
	assert_json("{\"a\": \"x\\u0000\"}", "1:9: a: the character U+0000 (NUL)", false);
	assert_json("{\"\\u0000\": 1}", "1:3: the character U+0000 (NUL)", false);
	assert_json("[\"\\ud800\"]", "1:3: [0]: this escape is half of a surrogate pair", false);
	assert_json("[\"\\udc00\"]", "1:3: [0]: this escape is half", false);
	assert_json("[\"\\ud800\\u0041\"]", "1:3: [0]: this escape is half", false);
	assert_json("[\"\\ud800\\ud800\"]", "1:3: [0]: this escape is half", false);
	assert_json("{\"a\": 1,\n \"\\u0061\": 2}",
	            "2:2: a: duplicate key \"a\": it stands on line 1 and again on line 2", false);
}

TEST(test_json_read_refuses_more_than_64_levels)
{
	char deep[140] = { 0 };
	memset(deep, '[', 64);
	memset(deep + 64, ']', 64);
	assert_json(deep, "[[[[", false);
	memset(deep, '[', 65);
	assert_json(deep, "1:65: lists and mappings are nested more than 64 levels deep", false);
}

TEST(test_json_read_says_where_a_mistake_is)
{
	static const struct {
		const char *text, *says;
	} CASES[] = {
		{ "", "1:1: not valid JSON: a value is expected here" },
		{ "{", "1:2: not valid JSON: a key in double quotes" },
		{ "{\"a\"", "1:5: not valid JSON: a `:` is expected here" },
		{ "{\"a\":", "1:6: not valid JSON: a value is expected here" },
		{ "{\"a\": 1", "1:8: not valid JSON: a `,` or `}` is expected here" },
		{ "[1 2]", "1:4: not valid JSON: a `,` or `]` is expected here" },
		{ "[1,]", "1:4: not valid JSON: a value is expected here" },
		{ "{\"a\": 1,}", "1:9: not valid JSON: a key in double quotes" },
		{ "{\"ü\": x}", "1:7: not valid JSON: a value is expected here" },
		{ "[1}", "1:3: not valid JSON: a `,` or `]` is expected here" },
		{ "[1] 2", "1:5: not valid JSON: there is text after the end" },
		{ "[truex]", "1:6: not valid JSON: a `,` or `]`" },
		{ "{\"a\"\r\n: 1\r, x}", "3:3: not valid JSON: a key in double quotes" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_json(CASES[i].text, CASES[i].says, true);
}

TEST(test_json_read_accepts_comments_with_a_warning)
{
	assert_json("// a\n{/*b*/\"c\"/**/:/* \" */1//\n,\"//\":\"/*\"}//",
	            "{\"c\":1,\"//\":\"/*\"}", false);
	assert_json("[1, /* x\n", "1:5: not valid JSON: the comment that begins here is never",
	            true);
	assert_json("[1, /x/]", "1:5: not valid JSON: a `/` may only begin a comment", true);
	assert_json("[1, /*/]", "1:5: not valid JSON: the comment that begins here", true);
	assert_json("[1] /", "1:5: not valid JSON: a `/` may only begin a comment", true);
	assert_warns("{\"a\": 1, // x\n /* y */ \"b\": 2}", "1:10: comments are not part of JSON");
}

TEST(test_json_read_keeps_lines_and_columns)
{
	AUTO(run_done) struct run r = run_json("{\"ü\": [1,\r\n\t\"x\", {}], \"b\":\r2}");
	const struct member *m = r.doc.root.member;
	assert_int_equal(m[0].key_column, 2);
	assert_int_equal(m[0].value.column, 7);
	assert_int_equal(m[0].value.item[1].line, 2);
	assert_int_equal(m[0].value.item[1].column, 2);
	assert_int_equal(m[0].value.item[2].column, 7);
	assert_int_equal(m[1].key_line, 2);
	assert_int_equal(m[1].value.line, 3);
	assert_int_equal(m[1].value.column, 1);
}

TEST(test_json_read_takes_20000_keys)
{
	STR_AUTO text = STR_INIT(1 << 20);
	str_char(&text, '{');
	for (int i = 0; i < 20000; i++)
		str_printf(&text, "\"k%d\":1,", i);
	size_t n = text.n;
	str_puts(&text, "\"z\":1}");
	struct run r = run_doc(str_c(&text));
	assert_int_equal(r.failed, 0);
	assert_int_equal(r.doc.root.n, 20001);
	run_done(&r);
	text.n = n;
	str_puts(&text, "\"k123\":1}");
	assert_refuses(str_c(&text), "1:208892: k123: duplicate key \"k123\"");
}
