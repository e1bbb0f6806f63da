/* Errors and warnings with places. */
#include "base/err.h"

#include "tests/unit/base/cmocka.h"

TEST(test_err_set_replaces_the_earlier_error)
{
	ERR_AUTO e = { 0 };
	assert_int_equal(err_set(&e, INVALID_PROTOCOL, "one"), -1);
	assert_int_equal(err_set(&e, UNAVAILABLE, "two, not %s", err_msg(&e)), -1);
	assert_int_equal(e.http, 503);
	assert_string_equal(e.code, "UnavailableError");
	assert_int_equal(e.notes.n, 1);
	assert_string_equal(err_msg(&e), "two, not one");
}

TEST(test_err_at_keeps_the_status_of_the_first_error)
{
	ERR_AUTO e = { 0 };
	err_at(&e, INVALID_PROTOCOL, (struct place){ "/a", 1, 2 }, "x");
	err_at(&e, FORBIDDEN, NOWHERE, "y");
	assert_int_equal(e.http, 400);
	assert_int_equal(e.notes.n, 2);
	assert_string_equal(e.notes.v[0].at, "/a");
	assert_null(e.notes.v[1].at);
}

TEST(test_notes_add_counts_notes_that_do_not_fit)
{
	NOTES_AUTO n = { 0 };
	for (int i = 0; i < 25; i++)
		notes_add(&n, NOWHERE, "%d", i);
	assert_int_equal(n.n, NOTES_MAX);
	assert_int_equal(n.dropped, 5);
}

TEST(test_notes_add_shortens_pointers)
{
	char at[AT_MAX + 8];
	NOTES_AUTO n = { 0 };
	memset(at, 'k', sizeof(at));
	at[0] = at[AT_MAX - 1] = '/';
	at[AT_MAX] = '\0';
	notes_add(&n, (struct place){ at, 1, 2 }, "x");
	assert_string_equal(n.v[0].at, at);
	at[AT_MAX] = 'k';
	at[AT_MAX + 1] = '\0';
	notes_add(&n, (struct place){ at, 1, 2 }, "x");
	at[AT_MAX - 1] = '\0';
	assert_string_equal(n.v[1].at, at);
	at[AT_MAX - 1] = 'k';
	notes_add(&n, (struct place){ at, 1, 2 }, "x");
	assert_string_equal(n.v[2].at, "");
	assert_int_equal(n.v[2].line, 1);
}

TEST(test_err_wrap_puts_text_before_the_first_note)
{
	ERR_AUTO e = { 0 };
	assert_string_equal(err_msg(&e), "");
	err_wrap(&e, "nothing");
	err_set(&e, UNKNOWN_ERROR, "broken");
	err_wrap(&e, "posting %s", "x");
	assert_string_equal(err_msg(&e), "posting x: broken");
}

TEST(test_err_move_appends_the_notes)
{
	ERR_AUTO e = { 0 };
	ERR_AUTO from = { 0 };
	err_at(&from, INVALID_PROTOCOL, (struct place){ "/a", 1, 2 }, "x");
	err_move(&e, &from);
	assert_int_equal(e.http, 400);
	assert_string_equal(e.notes.v[0].at, "/a");
	assert_int_equal(from.http, 0);
	assert_int_equal(from.notes.n, 0);
	for (int i = 0; i < 25; i++)
		err_at(&from, FORBIDDEN, NOWHERE, "y");
	err_move(&e, &from);
	assert_int_equal(e.http, 400);
	assert_int_equal(e.notes.n, NOTES_MAX);
	assert_int_equal(e.notes.dropped, 6);
}

static void assert_sentence(const char *at, const char *want)
{
	char msg[] = "m";
	char pointer[64];
	STR_AUTO out = STR_INIT(1000);
	strncpy(pointer, at ? at : "", sizeof(pointer) - 1);
	pointer[sizeof(pointer) - 1] = '\0';
	struct note n = { .msg = msg, .at = at ? pointer : NULL };
	note_text(&out, &n);
	assert_string_equal(str_c(&out), want);
}

TEST(test_note_text_writes_places_as_people_read_them)
{
	assert_sentence(NULL, "m");
	assert_sentence("", "m");
	assert_sentence("/a", "a: m");
	assert_sentence("/taskRoles/w-1/ports/0/x", "taskRoles.w-1.ports[0].x: m");
	assert_sentence("/a/b~1c~0d/e f", "a[\"b/c~d\"][\"e f\"]: m");
	assert_sentence("/", "[\"\"]: m");
	assert_sentence("/a\nb", "[\"a\\nb\"]: m");
}

static void assert_quoted(struct span text, const char *want)
{
	char buf[4 * QUOTE_MAX];
	assert_string_equal(quote(buf, text), want);
}

TEST(test_quote_escapes_control_and_direction_characters)
{
	assert_quoted(SPAN("a\"b\\c"), "a\"b\\c");
	assert_quoted(SPAN("\x1b[2J\n\x7f"), "\\u001b[2J\\n\\u007f");
	/* A control of C1, two that turn the direction of writing; then two that only look odd. */
	static const char odd[] = { '\xc2', '\x9b', '\xe2', '\x80', '\xae', '\xe2', '\x81',
		                    '\xa6', '\xc3', '\xbc', '\xe2', '\x82', '\xac' };
	assert_quoted((struct span){ odd, sizeof(odd) }, "\\u009b\\u202e\\u2066ü€");
	assert_quoted(SPAN(""), "");
}

TEST(test_quote_never_cuts_within_a_character)
{
	char text[400];
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = i % 2 ? '\xbc' : '\xc3'; /* ü */
	char buf[4 * QUOTE_MAX];
	const char *got = quote(buf, (struct span){ text, sizeof(text) });
	assert_int_equal(strlen(got), 76 + 3);
	assert_memory_equal(got + 74, "ü...", 6);
	memset(text, 1, sizeof(text));
	got = quote(buf, (struct span){ text, sizeof(text) });
	assert_true(strlen(got) < 90);
}
