/* The YAML reader: values, errors and their places. */
#include "tests/unit/base/read.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "base/doc/yaml.h"

TEST(test_yaml_read_reads_scalars_like_js_yaml)
{
	json_auto_t *cases = json_load_file("tests/data/yaml/scalars.json", JSON_ALLOW_NUL, NULL);
	size_t i = 0;
	json_t *one = NULL;
	assert_int_equal(json_array_size(cases), 240);
	json_array_foreach (cases, i, one) {
		const json_t *in = json_object_get(one, "in");
		const char *want = json_string_value(json_object_get(one, "json"));
		struct span text = { json_string_value(in), json_string_length(in) };
		AUTO(run_done) struct run r = run_budget(text, BUDGET_DEFAULT);
		const char *got = run_result(&r);
		if (want ? r.failed || strcmp(got, want) != 0 : !r.failed)
			fail_msg("%s: %s", json_string_value(json_object_get(one, "name")), got);
	}
}

static struct node resolved(const char *text)
{
	struct node n = { 0 };
	yaml_resolve_plain(&n, span_of(text), &unit.a);
	return n;
}

TEST(test_yaml_resolve_plain_gives_the_types_of_scalars)
{
	static const struct {
		const char *text;
		enum node_type type;
	} CASES[] = {
		{ "9007199254740992", NODE_INT },
		{ "9007199254740993", NODE_INT }, /* the nearest double is 2^53 */
		{ "9007199254740994", NODE_REAL },
		{ "-9007199254740992", NODE_INT },
		{ "2.0", NODE_INT },
		{ "0.5", NODE_REAL },
		{ "-0", NODE_INT },
		{ "-0.0", NODE_INT },
		{ ".nan", NODE_REAL },
		{ "1e400", NODE_REAL },
		{ "+.inf", NODE_REAL },
		{ "+.nan", NODE_TEXT },
		{ "-", NODE_TEXT },
		{ "+", NODE_TEXT },
		{ "0b_", NODE_TEXT },
		{ "0_", NODE_TEXT },
		{ "0b1_", NODE_TEXT },
		{ "0b12", NODE_TEXT },
		{ "1:", NODE_TEXT },
		{ ":1", NODE_TEXT },
		{ "1:599", NODE_TEXT },
		{ "1_:5", NODE_INT },
		{ "0:30.5", NODE_REAL },
		{ "1.5.5", NODE_TEXT },
		{ "1e", NODE_TEXT },
		{ "1e+", NODE_TEXT },
		{ "._", NODE_TEXT },
		{ "1._", NODE_TEXT },
		{ "2001-1-1 1:00:00", NODE_DATE },
		{ "2001-1-1 1:00:00 -05:30", NODE_DATE },
		{ "2001-1-1 1:00:00 -05:3", NODE_TEXT },
		{ "2001-1-1T1:00:00.Z", NODE_DATE },
		{ "2001-01-01 ", NODE_TEXT },
		{ "true", NODE_BOOL },
		{ "truE", NODE_TEXT },
		{ "~", NODE_NULL },
		{ "~~", NODE_TEXT },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		if (resolved(CASES[i].text).type != CASES[i].type)
			fail_msg("%s: %d", CASES[i].text, resolved(CASES[i].text).type);
	}
}

static double real_of(const char *text)
{
	const struct node n = resolved(text);
	return node_number(&n);
}

TEST(test_yaml_resolve_plain_rounds_once)
{
	/* 2^54 + 1 and 2^54 + 3 lie between doubles; ties go to even. */
	assert_true(real_of("0x40000000000001") == 0x40000000000000p0);
	assert_true(real_of("0x40000000000003") == 0x40000000000004p0);
	/* A tie that a far-away digit decides. */
	assert_true(real_of("0x4000000000000200000001") == 0x40000000000004p32);
	assert_true(real_of("0x1FFFFFFFFFFFFFFFF") == 0x1p65);
	assert_true(real_of("0777777777777777777777777") == 0x1p72);
	assert_true(isinf(real_of("1e400")));
}

TEST(test_yaml_read_refuses_more_than_64_levels)
{
	char deep[130] = { 0 };
	memset(deep, '[', 64);
	memset(deep + 64, ']', 64);
	struct run r = run_doc(deep);
	assert_int_equal(r.failed, 0);
	run_done(&r);
	memset(deep, '[', 65);
	memset(deep + 65, ']', 64);
	assert_refuses(deep, "1:65: lists and mappings are nested more than 64 levels deep");
}

TEST(test_yaml_read_refuses_documents_beyond_the_budget)
{
#define ALIAS_TOO_DEEP "with this alias, lists and mappings are nested more than 4 levels deep"
	static const struct {
		struct budget budget;
		const char *text, *says;
	} CASES[] = {
		{ { 4, 99, 99, 99 }, "a: &a [[1]]\nb: [*a]\n", "{\"a\":[[1]],\"b\":[[[1]]]}" },
		{ { 4, 99, 99, 99 }, "a: &a [[1]]\nb: [[*a]]\n", "2:6: b[0][0]: " ALIAS_TOO_DEEP },
		{ { 4, 99, 99, 99 },
		  "a: &a [1]\nb: &b [*a]\nc: &c [*b]\nd: [*c]\n",
		  "4:5: d[0]: " ALIAS_TOO_DEEP },
		{ { 9, 5, 99, 99 }, "[1, 2, 3, 4]", "[1,2,3,4]" },
		{ { 9, 5, 99, 99 },
		  "[1, 2, 3, [4]]",
		  "1:12: the document has more than 5 values (aliases count as what they stand "
		  "for)" },
		{ { 9, 99, 8, 99 }, "a: &a bcd\nb: *a\n", "{\"a\":\"bcd\",\"b\":\"bcd\"}" },
		{ { 9, 99, 8, 99 },
		  "a: &a bcde\nb: *a\n",
		  "2:4: b: the document has more than 8 bytes of text (aliases count as what they "
		  "stand for)" },
		{ { 9, 12, 99, 99 },
		  "a: &a {x: 1, y: 2, z: 3}\nb: {<<: *a}\nc: {<<: *a}\n",
		  "3:9: c[\"<<\"]: the document has more than 12 values (aliases count as what "
		  "they "
		  "stand for)" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		AUTO(run_done) struct run r = run_budget(span_of(CASES[i].text), CASES[i].budget);
		assert_string_equal(run_result(&r), CASES[i].says);
	}
}

TEST(test_yaml_read_refuses_a_bomb_of_aliases)
{
	STR_AUTO bomb = STR_INIT(4096);
	str_puts(&bomb, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
	for (int i = 1; i < 40; i++) {
		str_printf(&bomb, "a%d: &a%d [", i, i);
		for (int k = 0; k < 10; k++)
			str_printf(&bomb, "*a%d,", i - 1);
		str_puts(&bomb, "]\n");
	}
	assert_refuses(str_c(&bomb), "5:38: a4[7]: the document has more than 100000 values");
}

TEST(test_yaml_read_refuses_more_than_8_directives)
{
	STR_AUTO in = STR_INIT(4096);
	for (int i = 0; i < 8; i++)
		str_printf(&in, "# a comment\n\n%%TAG !t%d! tag:x,2000:\r\n", i);
	STR_AUTO good = STR_INIT(4096);
	str_printf(&good, "%s--- 'x\n%%TAG'\n", str_c(&in));
	assert_reads(str_c(&good), "\"x %TAG\"");
	STR_AUTO bad = STR_INIT(4096);
	str_printf(&bad, "%s%%TAG !x! x:\n---\na: 1\n", str_c(&in));
	assert_refuses(str_c(&bad), "25:1: more than 8 lines begin with `%`");
	STR_AUTO behind = STR_INIT(4096);
	str_printf(&behind, "a: 1\n...\n%s%%TAG !x! x:\n", str_c(&in));
	assert_refuses(str_c(&behind), "27:1: more than 8 lines begin with `%`");
}

TEST(test_yaml_read_merge_keeps_own_keys_of_a_large_mapping)
{
	STR_AUTO in = STR_INIT(4096);
	STR_AUTO want = STR_INIT(4096);
	str_puts(&in, "<<: {k5: merged, other: merged}\n");
	str_puts(&want, "{\"k5\":5,\"other\":\"merged\"");
	for (int i = 0; i < 30; i++) {
		str_printf(&in, "k%d: %d\n", i, i);
		if (i != 5)
			str_printf(&want, ",\"k%d\":%d", i, i);
	}
	str_puts(&want, "}");
	assert_reads(str_c(&in), str_c(&want));
	str_puts(&in, "k7: 1\n");
	assert_refuses(str_c(&in), "32:1: k7: duplicate key \"k7\": it stands on line 9 and again "
	                           "on line 32");
}

TEST(test_yaml_read_alias_shares_the_value_of_its_anchor)
{
	AUTO(run_done) struct run r = run_doc("a: &x {b: [1]}\nc:\n  *x\n");
	assert_int_equal(r.failed, 0);
	const struct node *a = node_get(&r.doc.root, "a");
	const struct node *c = node_get(&r.doc.root, "c");
	assert_ptr_equal(a->member, c->member);
	assert_int_equal(c->line, 3);
	assert_int_equal(c->column, 3);
}

TEST(test_yaml_read_counts_columns_in_characters)
{
	AUTO(run_done) struct run r = run_doc("\xef\xbb\xbf# c\nü: {ключ: 'x', b: [ 1, 2]}\n");
	assert_int_equal(r.failed, 0);
	const struct member *m = node_member(&r.doc.root, SPAN("ü"));
	assert_int_equal(m->key_line, 2);
	assert_int_equal(m->key_column, 1);
	const struct member *k = node_member(&m->value, SPAN("ключ"));
	assert_int_equal(k->key_column, 5);
	assert_int_equal(k->value.column, 11);
	const struct node *b = node_get(&m->value, "b");
	assert_int_equal(b->item[0].column, 21);
}

TEST(test_yaml_read_marks_plain_scalars)
{
	AUTO(run_done) struct run r = run_doc("[a, 'a', \"a\", 1, !!str 1, [], &x b, *x]");
	static const bool PLAIN[] = { true, false, false, true, false, false, true, true };
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(r.doc.root.item[i].plain, PLAIN[i]);
}

TEST(test_yaml_read_refuses_control_characters)
{
	assert_refuses("a: b\n\xc3\xbc: \x01\n", "2:4: control character U+0001 is not allowed");
	assert_refuses("a: b\nc: \x7f\n", "2:4: control character U+007F is not allowed");
	assert_refuses("a: \"x\\0\"", "1:4: a: the character U+0000 (NUL) is not allowed in text");
	assert_refuses_span(SPAN("a: b\0"), "1:5: control character U+0000 (NUL) is not allowed");
	assert_refuses("a: b\n\xef\xbb\xbf"
	               "c: d\n",
	               "2:1: a byte-order mark");
	assert_refuses("\xef\xbb\xbf\xef\xbb\xbf"
	               "c: d\n",
	               "1:1: a byte-order mark");
}

TEST(test_yaml_read_explains_syntax_errors)
{
	static const struct {
		const char *text, *says;
	} CASES[] = {
		{ "a: b: c\n", "1:5: a `:` with a value is not allowed here" },
		{ "a: 1\nb\nc: 2\n", "2:1: this line should be a key with a `:`" },
		{ "a:\n    b: 1\n  c: 2\n", "3:3: a key is expected here: the indentation" },
		{ "a:\n  - b\n c: 1\n", "3:2: a key is expected here" },
		{ "- a\nb: 1\n", "2:1: a list item with `- ` is expected here" },
		{ "a: {b: 1\nc: 2\n", "2:2: a `,` or `}` is expected here" },
		{ "a: [1, 2\n", "2:1: a `,` or `]` is expected here" },
		{ "a: \"x\n", "1:4: the quote that opens here is never closed" },
		{ "a: \"\\q\"\n", "1:5: unknown escape after a backslash" },
		{ "a:\n\tb: 1\n", "2:1: tabs cannot be used for indentation" },
		{ "a: @x\n", "1:4: text that begins with `@` needs quotes" },
		{ "a: %x\n", "1:4: text that begins with `%` needs quotes" },
		{ "a: *\n", "1:4: an alias needs a name" },
		{ "a: - b\n", "1:4: a list item with `- ` is not allowed here" },
		{ "%YAML 2.0\n---\na: 1\n", "1:1: only %YAML 1.1 and 1.2 can be read" },
		{ "a: 1\n---\nb: 1\n", "2:1: a second document begins here" },
		{ "a: |x\n  b\n", "1:5: nothing but a comment may follow" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_refuses(CASES[i].text, CASES[i].says);
}

TEST(test_yaml_read_refuses_an_empty_document)
{
	static const char *const CASES[] = { "",      "\n\n",           "# x\n",
		                             "---\n", "--- # x\n...\n", "\xef\xbb\xbf" };
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_refuses(CASES[i], "1:1: empty document");
	assert_reads("''", "\"\"");
	assert_reads("~", "null");
}

TEST(test_yaml_read_warns_of_two_merge_keys)
{
	assert_warns("{<<: {a: 1}, <<: {a: 2}}", "1:14: `<<` stands twice in this mapping");
}

static void assert_spelling(const char *scalar, enum spelling want)
{
	FREE_AUTO char *text = xasprintf("a: %s\nb: &x %s\nc: *x\n", scalar, scalar);
	AUTO(run_done) struct run r = run_budget(span_of(text), BUDGET_DEFAULT);
	assert_int_equal(r.failed, 0);
	assert_int_equal(r.warnings.n, 0);
	for (uint32_t i = 0; i < 3; i++) {
		unsigned flags = r.doc.root.member[i].value.flags;
		if ((flags >> SPELLING_SHIFT & SPELLING_BITS) != want)
			fail_msg("%s: %x", scalar, flags);
	}
	assert_int_equal(r.doc.root.flags & NODE_ODD, want == SPELT_PLAINLY ? 0 : NODE_ODD);
}

TEST(test_yaml_read_keeps_how_scalars_were_spelt)
{
	static const struct {
		enum spelling spelling;
		const char *scalars[24];
	} CASES[] = {
		{ SPELT_PLAINLY,
		  { "0",
		    "1",
		    "-1",
		    "12",
		    "0.5",
		    "0.001",
		    "1e3",
		    "1E-3",
		    ".5",
		    "1e30",
		    "-0.25",
		    "3.14159265",
		    "9007199254740992",
		    "true",
		    "false",
		    "~",
		    "x",
		    "'017'",
		    "'yes'",
		    "y",
		    "n",
		    "0:30",
		    "1_" } },
		{ SPELT_OCTAL, { "017", "-017", "00", "0777" } },
		{ SPELT_SIXTY, { "1:30", "190:20:30.15" } },
		{ SPELT_ROUNDED, { "9007199254740993", "12345678901234567890" } },
		{ SPELT_DATE, { "2001-01-01", "2001-12-14 21:59:43" } },
		{ SPELT_BOOLEAN, { "yes", "No", "ON", "off" } },
		{ SPELT_NUMBER, { "08", "019", "0o17" } },
		{ SPELT_OTHERWISE,
		  { "1.10", "2.0", "5.", "+5", "0x10", "0x1E", "0b11", "1_000", ".inf", ".nan",
		    "True", "FALSE", "-0" } },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		for (const char *const *s = CASES[i].scalars; *s; s++)
			assert_spelling(*s, CASES[i].spelling);
}

TEST(test_yaml_read_takes_tabs_as_js_yaml)
{
	/* Takes tabs like js yaml.  The expected values are those of js-yaml 3.13. */
	assert_reads("a: 1\n\t\nb: 2\n \t \n\t# c\n\t", "{\"a\":1,\"b\":2}");
	assert_reads("a:\n  - b\n\t\n  - c\n \t# d\n", "{\"a\":[\"b\",\"c\"]}");
	assert_reads("a: |\n  \tx\n  y\n", "{\"a\":\"\\tx\\ny\\n\"}");
	assert_reads("a: |\n\n  \t\n  y\nb: |-\n  \t\tz\n",
	             "{\"a\":\"\\n\\t\\ny\\n\",\"b\":\"\\t\\tz\"}");
	assert_reads("- |2\n  \tx\n- |\n  y\n  \t\n  \t# z\n",
	             "[\"\\tx\\n\",\"y\\n\\t\\n\\t# z\\n\"]");
	assert_reads("- |\n  y\n\t\n\t# z\n- ü\n\t\n- |\n \tü\n", "[\"y\\n\",\"ü\",\"\\tü\\n\"]");
	assert_reads("- \"a\n\t b\"\n- 'c\n\t\n\td'\n", "[\"a b\",\"c\\nd\"]");
	assert_reads("a: |\n\t\nb: c\n", "{\"a\":\"\",\"b\":\"c\"}");
	assert_refuses("a: |\n\t\n  b\n", "2:1: tabs cannot be used for indentation");
	assert_reads("a: | # b\n  \tTx\n", "{\"a\":\"\\tTx\\n\"}");
	assert_reads("a: b # c: |\n \t# d\ne: f\n", "{\"a\":\"b\",\"e\":\"f\"}");
	/* Ends a block at a comment behind a tab.  A comment behind a tab of any width ends a block
	 * scalar, as in js-yaml. */
	assert_reads("a: |\n\t# x\nb: c\n", "{\"a\":\"\",\"b\":\"c\"}");
	assert_reads("- |\n\t\t# x\n\t# y\n- >\n\t#\n", "[\"\",\"\"]");
	assert_reads("a: |\n x\n\t\t# y\nb: c\n", "{\"a\":\"x\\n\",\"b\":\"c\"}");
	assert_reads("a: |+\n x\n\t\t\n\n", "{\"a\":\"x\\n\"}");
	assert_reads("- a: |\n  \t# x\n  b: c\n", "[{\"a\":\"\",\"b\":\"c\"}]");
	assert_reads("- - |\n   \t# x\n", "[[\"\\t# x\\n\"]]");
	assert_reads("a:  |\n \t# x\nb:\t|\n \t# y\n", "{\"a\":\"\\t# x\\n\",\"b\":\"\\t# y\\n\"}");
	assert_refuses(
	    "a: |\n\t# x\n  b\n",
	    "3:3: a key is expected here: the indentation does not fit that of the keys before");
	assert_refuses("a: 'x\n b: |\n\t# c'\n", "3:1: a tab is not allowed here");
	/* Refuses tabs as indentation. */
	assert_refuses("a:\n\tb: 1\n", "2:1: tabs cannot be used for indentation");
	assert_refuses("a:\n \tb: 1\n c: 1\n", "2:2: tabs cannot be used for indentation");
	assert_refuses("a: |\n\tb\n", "2:1: tabs cannot be used for indentation");
	assert_refuses("a: |\n  x\n\t\n  y\n", "3:1: tabs cannot be used for indentation");
	assert_refuses("a: >\n  \tb\n", "2:3: tabs cannot be used for indentation");
	assert_refuses("a: 'x\n  b: |\n   \tc'\n", "3:4: a tab is not allowed here");
	assert_refuses("a: b # c: |\n \td: 1\n", "2:2: tabs cannot be used for indentation");
}

TEST(test_yaml_read_takes_keys_aliases_and_tags_as_js_yaml)
{
	/* Merges mappings without overriding. */
	assert_reads("a: &a {x: 1, y: 2}\nb: {y: 3, <<: *a}\n",
	             "{\"a\":{\"x\":1,\"y\":2},\"b\":{\"y\":3,\"x\":1}}");
	assert_reads("a: &a {x: 1}\nb: &b {x: 2, z: 3}\nc: {<<: [*a, *b], z: 4}\n",
	             "{\"a\":{\"x\":1},\"b\":{\"x\":2,\"z\":3},\"c\":{\"x\":1,\"z\":4}}");
	assert_reads("{<<: {a: 1}, b: 2, a: 3}", "{\"a\":3,\"b\":2}");
	assert_reads("{<<: []}", "{}");
	assert_refuses("{<<: [1]}", "1:6: [\"<<\"]: the merge key `<<` needs a mapping");
	assert_refuses("{<<: {a: 1}, a: 2, a: 3}",
	               "1:20: a: duplicate key \"a\": it stands on line 1");
	/* Compares keys as text. */
	assert_refuses("{1: a, \"1\": b}", "1:8: [1]: duplicate key \"1\"");
	assert_refuses("{0x10: a, 16.0: b}", "1:11: [16]: duplicate key \"16\"");
	assert_refuses("a: &x k\n*x : 1\nk: 2\n",
	               "3:1: k: duplicate key \"k\": it stands on line 2");
	/* Refuses aliases to their own parent. */
	assert_refuses("&a [*a]", "1:5: [0]: the alias refers to a value that contains it");
	assert_refuses("a: &a\n  b: *a\n",
	               "2:6: a.b: the alias refers to a value that contains it");
	assert_refuses("a: &a\n  <<: *a\n", "2:7: a[\"<<\"]: the merge key refers to its own");
	assert_refuses("a: &a 1\nb: &a [*a]\n", "2:8: b[0]: the alias refers to a value that");
	/* Takes the non specific tag. */
	assert_reads("[! 12, ! , &a ! 1, &a # c!\n  2, ! '3', &b ! # c\n 4, ! [], ! {}]",
	             "[\"12\",null,\"1\",2,\"3\",\"4\",[],{}]");
	assert_reads("ü: ! 12\nb: hi! there\n", "{\"ü\":\"12\",\"b\":\"hi! there\"}");
	/* Takes core tags and refuses others. */
	assert_reads("[!!null , !!str , !!bool true, !!float 1, !!int 0x10, !!seq [], !!map {}]",
	             "[null,\"\",true,1,16,[],{}]");
	assert_refuses("a: !!int ''",
	               "1:4: a: the tag `!!int` says so, but this is not an integer");
	assert_refuses("a: !!null ''", "1:4: a: the tag `!!null` says so");
	assert_refuses("a: !!map []", "1:4: a: the tag `!!map` is not supported");
	assert_refuses("a: !x 1", "1:4: a: unknown tag `!x`");
	assert_refuses("a: !x!y 1", "1:4: the prefix of this tag is not defined");
	/* Refuses line breaks of unicode in values. */
	assert_reads("a: b # x\xe2\x80\xa8"
	             "c: d\n",
	             "{\"a\":\"b\"}");
	assert_reads("# \xc2\x85"
	             "c: d\na: \"\\u2028\\N\"\n",
	             "{\"a\":\"\xe2\x80\xa8\xc2\x85\"}");
	assert_refuses("a: 'x\xe2\x80\xa9y'\n", "1:6: the line break U+2029 is not allowed");
	assert_refuses("a: |\n  ü\xc2\x85\n", "2:4: the line break U+0085 is not allowed");
	assert_refuses("a:\n\xe2\x80\xa8  b: c\n", "2:1: the line break U+2028 is not allowed");
	/* Errors do not quote secrets. */
	assert_refuses("secrets: {a: *hunter2}", "1:14: secrets: unknown alias (text that begins");
	assert_refuses("secrets: {a: !hunter2 x}", "1:14: secrets: this tag is not supported");
	assert_refuses("secrets: {hunter2: 1, hunter2: 2}",
	               "1:23: secrets: duplicate key: it stands on line 1 and again on line 1");
	assert_refuses("x: [{auth: {password: !!hunter2 x}}]",
	               "1:23: x[0].auth: this tag is not supported");
}
