/* Changes of the text of a job that keep the rest of it. */

#include "tests/unit/base/cmocka.h"

#include <stdlib.h>

#include "server/compose/compose.h"

struct put_row {
	const char *text, *path, *json, *wanted; /* wanted: NULL: it is refused */
};

static struct job_text text_of(const char *text)
{
	return (struct job_text){ .file = "f.yaml", .text = xstrdup(text), .n = strlen(text) };
}

static int put_at(struct job_text *t, const char *path, const char *json, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	const char *keys[10] = { 0 };
	size_t n = 0;
	for (struct span rest = span_of(path); rest.n;)
		keys[n++] = arena_dup(&arena, span_next(&rest, '.'));
	return job_text_put(t, keys, span_of(json), e);
}

/* clang-format off */
static const struct put_row PUTS[] = {
	/* a value is replaced; comments stay */
	{ "a: 1 # one\nb: 2\n", "a", "0.1", "a: 0.1 # one\nb: 2\n" },
	{ "p:\n  lr: 'it''s' # x\n  b: \"\\\"\"\n", "p.lr", "0.1", "p:\n  lr: 0.1 # x\n  b: \"\\\"\"\n" },
	{ "p:\n  lr: 1\n  b: \"a\\\"b\" # y\n", "p.b", "true", "p:\n  lr: 1\n  b: true # y\n" },
	{ "p: {lr: 1,b: two words}\n", "p.b", "\"x\"", "p: {lr: 1,b: \"x\"}\n" },
	{ "p: {lr: 1,b: two words}\n", "p.lr", "-2", "p: {lr: -2,b: two words}\n" },
	{ "a: 2001-01-01 # d\n", "a", "1", "a: 1 # d\n" },
	{ "{\"a\":true,\"b\":null}", "a", "false", "{\"a\": false,\"b\":null}" },
	{ "{\"a\":true,\"b\":null}", "b", "[1]", "{\"a\":true,\"b\": [1]}" },
	{ "a:\nb: 1\n", "a", "7", "a: 7\nb: 1\n" },
	{ "a: ~\nb: 1\n", "a.c", "7", "a: {\"c\": 7}\nb: 1\n" },
	{ "ä: {ö: é, x: 1} # ü\n", "ä.x", "\"漢\"", "ä: {ö: é, x: \"漢\"} # ü\n" },
	{ "\xef\xbb\xbf" "a: 1\r\nb: 2\r\n", "a", "3", "\xef\xbb\xbf" "a: 3\r\nb: 2\r\n" },
	{ "\xef\xbb\xbf" "{\"a\": 1}", "a", "3", "\xef\xbb\xbf" "{\"a\": 3}" },
	{ "# c\n---\na: 1\n", "a", "3", "# c\n---\na: 3\n" },
	{ "a:\t1\nb: 2\t# t\n", "b", "3", "a:\t1\nb: 3\t# t\n" },
	{ "\"a\": 1\n'b': 2\n", "b", "3", "\"a\": 1\n'b': 3\n" },
	{ "e:\n  code: {path: /a, sha: x} # c\n", "e.code.sha", "\"y\"",
	  "e:\n  code: {path: /a, sha: \"y\"} # c\n" },
	{ "a: {b: 1}\n", "a", "{\"c\":2}", NULL },
	{ "a: {b: 1}\n", "a", "2", NULL },
	{ "a: [1]\n", "a", "2", NULL },
	/* a member is added */
	{ "# top\nname: x # n\n", "a", "1", "# top\n\"a\": 1\nname: x # n\n" },
	{ "name: x\r\nb: 1\r\n", "a.b", "1", "\"a\": {\"b\": 1}\r\nname: x\r\nb: 1\r\n" },
	{ "e:\n    # c\n    x: 1\n", "e.env.A", "\"v\"", "e:\n    # c\n    \"env\": {\"A\": \"v\"}\n    x: 1\n" },
	{ "l:\n- e:\n    x: 1\n", "name", "1", "\"name\": 1\nl:\n- e:\n    x: 1\n" },
	{ "e: {x: 1}\n", "e.a", "1", "e: {\"a\": 1, x: 1}\n" },
	{ "e: {}\n", "e.a", "1", "e: {\"a\": 1}\n" },
	{ "e: { # none\n}\n", "e.a", "1", "e: {\"a\": 1 # none\n}\n" },
	{ "{}", "a.b.c", "{\"d\":[]}", "{\"a\": {\"b\": {\"c\": {\"d\":[]}}}}" },
	{ "{\n\t\"name\": 1\n}\n", "a", "1", "{\n\t\"a\": 1, \"name\": 1\n}\n" },
	{ "{\"name\": 1}", "a", "1", "{\"a\": 1, \"name\": 1}" },
	{ "---\nname: x\n...\n", "a", "1", "---\n\"a\": 1\nname: x\n...\n" },
	{ "x: 1\n", "secrets.K", "\"v\"", "secrets: {\"K\": \"v\"}\nx: 1\n" },
	{ "x: 1\n", "no", "1", "\"no\": 1\nx: 1\n" },
	{ "x: 1\n", "a b", "1", "\"a b\": 1\nx: 1\n" },
	{ "x: 1\n", "a", "\"\\u0001 \\\\ \\ud83d\\ude00\"", NULL }, /* no YAML */
	{ "x: 1\n", "a", "\"\\u0001 \\\\ 😀\"", "\"a\": \"\\u0001 \\\\ 😀\"\nx: 1\n" },
	/* what cannot be changed */
	{ "a: &x 1\nb: *x\n", "a", "2", NULL },
	{ "a: &x 1\nb: *x\n", "b", "2", NULL },
	{ "a: &x\n  k: 1\nb: *x\n", "a.l", "2", NULL },
	{ "a: &x\n  k: 1\nb:\n  <<: *x\n", "b.k", "2", NULL },
	{ "a: |\n  text\n", "a", "2", NULL },
	{ "a: !!int \"1\"\n", "a", "2", NULL },
	{ "a: two\n  lines\n", "a", "2", NULL },
	{ "a: 1\n", "a.b", "2", NULL },
	{ "a: 'x\n", "a", "2", NULL },
	{ "[1]\n", "a", "2", NULL },
	{ "", "a", "2", NULL },
	{ "a: [\n", "a", "2", NULL },
	{ "a: 1\na: 2\n", "a", "2", NULL },
	{ "a: 1\n", "a", "{", NULL },
};
/* clang-format on */

TEST(test_job_text_put_changes_one_member_only)
{
	for (size_t i = 0; i < ARRAY_SIZE(PUTS); i++) {
		const struct put_row *row = &PUTS[i];
		struct job_text t = text_of(row->text);
		int code = put_at(&t, row->path, row->json, no_err());
		if ((code == 0) != !!row->wanted ||
		    strcmp(t.text, row->wanted ? row->wanted : row->text) != 0)
			fail_msg("%s <- %s in\n%s\ngave %d %s\n%s", row->path, row->json, row->text,
			         code, err_msg(&unit.e), t.text);
		assert_int_equal(t.n, strlen(t.text));
		job_text_wipe(&t);
	}
}

/* clang-format off */
static const struct put_row ADDS[] = { /* json: a list of one */
	{ "a: 1\n", "l", "[\"K\"]", "\"l\": [\"K\"]\na: 1\n" },
	{ "e: {x: 1}\n", "e.l", "[\"K\"]", "e: {\"l\": [\"K\"], x: 1}\n" },
	{ "e: {l: [A, B]} # c\n", "e.l", "[\"K\"]", "e: {l: [\"K\", A, B]} # c\n" },
	{ "e: {l: []}\n", "e.l", "[\"K\"]", "e: {l: [\"K\"]}\n" },
	{ "{\"e\":{\"l\":[ \"A\"]}}", "e.l", "[\"K\"]", "{\"e\":{\"l\":[\"K\",  \"A\"]}}" },
	{ "e:\n  l: # c\n    - A\n    - B\n", "e.l", "[\"K\"]", "e:\n  l: # c\n    - \"K\"\n    - A\n    - B\n" },
	{ "e:\r\n  l:\r\n  - A\r\n", "e.l", "[\"K\"]", "e:\r\n  l:\r\n  - \"K\"\r\n  - A\r\n" },
	{ "e: {l: &x [A]}\nf: *x\n", "e.l", "[\"K\"]", NULL },
	{ "e: {l: !!seq [A]}\n", "e.l", "[\"K\"]", NULL },
	{ "e: [\n", "e.l", "[\"K\"]", NULL },
};
/* clang-format on */

TEST(test_job_text_add_makes_a_first_item_only)
{
	for (size_t i = 0; i < ARRAY_SIZE(ADDS); i++) {
		const struct put_row *row = &ADDS[i];
		const char *const one[] = { "l", NULL };
		const char *const two[] = { "e", "l", NULL };
		struct job_text t = text_of(row->text);
		int code = job_text_change(&t, strcmp(row->path, "l") ? two : one,
		                           span_of(row->json), true, no_err());
		if ((code == 0) != !!row->wanted ||
		    strcmp(t.text, row->wanted ? row->wanted : row->text) != 0)
			fail_msg("%s <- %s in\n%s\ngave %d %s\n%s", row->path, row->json, row->text,
			         code, err_msg(&unit.e), t.text);
		job_text_wipe(&t);
	}
}

TEST(test_job_text_secret_finds_the_names_of_placeholders)
{
	static const char TEXT[] = "$secrets.NO <% $secrets.A %><%$secrets.b-c.d[1]%> <''% "
				   "$secrets.NO %> <% \t$secrets.E[0] %> <% $parameters.NO "
				   "%><%<% $secrets.F%> <% $secrets.NO";
	static const char *const NAMES[] = { "A", "b-c", "E", "F", "", "" };
	size_t at = 0;
	for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
		assert_true(span_is(job_text_secret(SPAN(TEXT), &at), NAMES[i]));
}

TEST(test_job_text_errors_name_path_and_place_but_no_value)
{
	struct job_text t = text_of("x: 1\ns: &a {}\n");
	assert_int_equal(put_at(&t, "s.KEY", "\"geheim\"", no_err()), -1);
	assert_non_null(strstr(err_msg(&unit.e), "s.KEY cannot be changed here"));
	assert_null(strstr(err_msg(&unit.e), "geheim"));
	assert_int_equal(unit.e.notes.v[0].line, 2);
	job_text_wipe(&t);
}

TEST(test_job_text_rename_takes_quoted_names)
{
	struct job_text t = text_of("protocolVersion: 2\nname: 'a' # n\n");
	assert_int_equal(job_text_rename(&t, "b", no_err()), 0);
	assert_string_equal(t.text, "protocolVersion: 2\nname: \"b\" # n\n");
	job_text_wipe(&t);
}
