/* Errors as text and as JSON. */

#include "tests/unit/base/cmocka.h"
#include <jansson.h>

#include "server/http/request.h"

enum { TEXT_MAX = 65536 };

static struct place at(const char *pointer, unsigned line)
{
	return (struct place){ pointer, line, 3 };
}

TEST(test_error_json_has_code_message_and_notes)
{
	ERR_AUTO e = { 0 };
	STR_AUTO out = STR_INIT(TEXT_MAX);
	(void)err_at(&e, INVALID_PROTOCOL, at("/taskRoles/a~1b", 4), "must be \"x\"");
	error_json(&out, &e);
	json_auto_t *json = json_loads(str_c(&out), 0, NULL);
	const char *code;
	const char *message;
	const char *pointer;
	int line;
	int column;
	assert_int_equal(json_unpack(json, "{s:s, s:s, s:[{s:s, s:i, s:i, s:s}]}", "code", &code,
	                             "message", &message, "errors", "pointer", &pointer, "line",
	                             &line, "column", &column, "message", &message),
	                 0);
	assert_string_equal(code, "InvalidProtocolError");
	assert_string_equal(pointer, "/taskRoles/a~1b");
	assert_int_equal(line, 4);
	assert_int_equal(column, 3);
	ERR_AUTO other = { 0 };
	out.n = 0; /* without places */
	(void)err_set(&other, CONFLICT_JOB, "there");
	error_json(&out, &other);
	assert_string_equal(str_c(&out), "{\"code\":\"ConflictJobError\",\"message\":\"there\"}\n");
}

TEST(test_notes_text_joins_notes_and_counts_the_rest)
{
	NOTES_AUTO few = { 0 };
	NOTES_AUTO many = { 0 };
	STR_AUTO out = STR_INIT(TEXT_MAX);
	notes_add(&few, at("/a/b", 2), "is bad");
	notes_add(&few, NOWHERE, "is worse");
	for (int i = 0; i < 25; i++)
		notes_add(&many, NOWHERE, "n%d", i);
	notes_text(&out, &few);
	notes_text(&out, &many);
	assert_string_equal(str_c(&out), "line 2: a.b: is bad; is worse"
	                                 "n0; n1; n2; and 22 more");
}

TEST(test_header_text_is_printable)
{
	STR_AUTO out = STR_INIT(TEXT_MAX);
	header_text(&out, SPAN("a\r\nX: y\t\xc3\xa4"));
	assert_string_equal(str_c(&out), "a??X: y???");
	char text[1001];
	memset(text, 'x', sizeof(text));
	out.n = 0;
	header_text(&out, (struct span){ text, 1000 });
	assert_int_equal(out.n, 1000);
	assert_true(out.p[999] == 'x');
	out.n = 0;
	header_text(&out, (struct span){ text, 1001 });
	assert_int_equal(out.n, 1000);
	assert_string_equal(str_c(&out) + 995, "xx...");
}
