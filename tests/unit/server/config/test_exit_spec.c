/* Meanings of exit codes: the built-in table, and errors of a file. */
#include <unistd.h>

#include "tests/unit/base/cmocka.h"
#include <jansson.h>

#include "base/doc/tree.h"
#include "base/embed.h"
#include "server/config/exit_spec.h"

EMBED(spec, "runtime-assets/k8s-job-exit-spec.yaml");

enum { CODES = 62 }; /* of OpenPAI */

static void spec_done(struct exit_spec **s)
{
	exit_spec_free(*s);
}
#define SPEC_AUTO __attribute__((cleanup(spec_done))) struct exit_spec

static json_t *entry(const struct exit_spec *s, int64_t code)
{
	STR_AUTO text = STR_INIT(1 << 16);
	exit_spec_json(&text, s, code, false);
	json_t *v = json_loads(str_c(&text), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(v);
	assert_int_equal(json_integer_value(json_object_get(v, "code")), code);
	return v;
}

/* The test compares every member of every entry of the file. */
TEST(test_built_in_entries_equal_the_file)
{
	struct doc doc;
	assert_int_equal(doc_read(EMBEDDED(spec), &BUDGET_DEFAULT, &unit.a, &doc, NULL, no_err()),
	                 0);
	const struct node *list = node_get(&doc.root, "spec");
	assert_true(list->n >= CODES);
	SPEC_AUTO *s = exit_spec_new("", no_err());
	assert_non_null(s);
	for (uint32_t i = 0; i < list->n; i++) {
		STR_AUTO want = STR_INIT(1 << 16);
		node_json(&want, &list->item[i]);
		json_auto_t *wanted = json_loads(str_c(&want), 0, NULL);
		json_auto_t *got = entry(s, node_get(&list->item[i], "code")->integer);
		assert_true(json_equal(wanted, got));
	}
}

/* A job without another attempt has no advice to wait for one. */
TEST(test_final_exit_codes_do_not_advise_to_wait)
{
	SPEC_AUTO *s = exit_spec_new("", no_err());
	assert_non_null(s);
	for (int final = 0; final < 2; final++) {
		STR_AUTO text = STR_INIT(1 << 16);
		exit_spec_json(&text, s, 251, final);
		json_auto_t *v = json_loads(str_c(&text), JSON_REJECT_DUPLICATES, NULL);
		assert_int_equal(json_array_size(json_object_get(v, "solution")), 3 - final);
		assert_int_equal(strstr(str_c(&text), "Wait for the next attempt") == NULL, final);
		assert_non_null(strstr(str_c(&text), "Use fewer instances"));
	}
}

/* Codes without an entry are shown like 256 or -8000. */
TEST(test_unknown_codes_get_the_general_entries)
{
	static const struct {
		int64_t code;
		const char *phrase;
	} CASES[] = {
		{ 0, "Succeeded" },
		{ 137, "ContainerSigKillReceived" },
		{ 7, NULL },
		{ 255, "ContainerUnknownFailed" },
		{ INT32_MAX, NULL },
		{ -7, NULL },
		{ -1, NULL },
		{ INT32_MIN, NULL },
		{ -210, "StopFrameworkRequested" },
	};
	SPEC_AUTO *s = exit_spec_new("", no_err());
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		json_auto_t *got = entry(s, CASES[i].code);
		json_auto_t *other = entry(s, CASES[i].code > 0 ? 256 : -8000);
		const char *phrase = json_string_value(json_object_get(got, "phrase"));
		if (CASES[i].phrase && CASES[i].code != 255)
			assert_string_equal(phrase, CASES[i].phrase);
		(void)json_object_set_new(other, "code", json_integer(CASES[i].code));
		if (!CASES[i].phrase)
			assert_true(json_equal(got, other));
	}
}

#define TWO "- {code: 256, phrase: U}\n- {code: -8000, phrase: V}\n"

static struct exit_spec *from_text(const char *text, struct err *e)
{
	char path[] = "/tmp/exit-spec-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	struct exit_spec *s = exit_spec_new(path, e);
	unlink(path);
	return s;
}

TEST(test_file_of_the_administrator_replaces_the_table)
{
	SPEC_AUTO *s = from_text(
	    "spec:\n" TWO "- {phrase: Mine, code: 9, type: USER_FAILURE, more: [1]}\n", no_err());
	assert_non_null(s);
	STR_AUTO out = STR_INIT(1000);
	exit_spec_json(&out, s, 9, false);
	exit_spec_json(&out, s, 8, false);
	exit_spec_json(&out, s, 0, false);
	assert_string_equal(
	    str_c(&out), "{\"code\":9,\"phrase\":\"Mine\",\"type\":\"USER_FAILURE\",\"more\":[1]}"
			 "{\"code\":8,\"phrase\":\"U\"}{\"code\":0,\"phrase\":\"V\"}");
}

TEST(test_file_errors_have_their_line)
{
	static const struct {
		const char *text, *message;
		unsigned line;
	} CASES[] = {
		{ "spec: 7", "must be a mapping with a list named spec", 1 },
		{ "- code: 1", "must be a mapping with a list named spec", 1 },
		{ "spec:\n" TWO "- 1\n", "must be a mapping, is an integer", 4 },
		{ "spec:\n" TWO "- {phrase: x}\n", "code is missing", 4 },
		{ "spec:\n" TWO "- {code: 1}\n", "phrase is missing", 4 },
		{ "spec:\n" TWO "- code: x\n  phrase: y\n", "must be an integer, is text", 4 },
		{ "spec:\n" TWO "- code: 1\n  phrase: 2\n", "must be text, is an integer", 5 },
		{ "spec:\n" TWO "- code: 1\n  phrase: y\n  solution: [1]\n",
		  "must be a list of texts", 6 },
		{ "spec:\n" TWO "- {code: 256, phrase: y}\n", "the code 256 is repeated", 2 },
		{ "spec:\n- {code: 256, phrase: y}\n", "has no entry for code -8000", 2 },
		{ "spec: []\n", "has no entry for code 256", 1 },
		{ "spec: [\n", "", 2 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		assert_null(from_text(CASES[i].text, no_err()));
		assert_int_equal(unit.e.http, 400);
		assert_true(strstr(err_msg(&unit.e), CASES[i].message) != NULL);
		assert_int_equal(unit.e.notes.v[0].line, CASES[i].line);
	}
	assert_null(exit_spec_new("/nonexistent/file", no_err()));
	assert_true(strstr(err_msg(&unit.e), "/nonexistent/file") != NULL);
}
