/* Splitting bytes into lines, and texts that are safe for a terminal. */

#include "tests/unit/base/cmocka.h"

#include "server/cli/cli_internal.h"

static void note(void *arg, struct span line, bool cut)
{
	struct str *out = arg;
	str_char(out, '<');
	str_span(out, line);
	str_puts(out, cut ? ">+" : ">");
}

/* All of it, in pieces of so many bytes. */
static void assert_lines(const char *text, size_t piece, size_t max, const char *wanted)
{
	struct line_splitter l = LINES_INIT(max);
	STR_AUTO out = STR_INIT(4096);
	size_t all = strlen(text);
	for (size_t i = 0; i < all; i += piece)
		lines_feed(&l, (struct span){ text + i, all - i < piece ? all - i : piece }, note,
		           &out);
	lines_end(&l, note, &out);
	str_done(&l.line);
	assert_string_equal(str_c(&out), wanted);
}

TEST(test_lines_feed_splits_and_cuts_lines)
{
	for (size_t piece = 1; piece < 12; piece++) {
		assert_lines("", piece, 80, "");
		assert_lines("a\nbc\r\n\nd", piece, 80, "<a><bc><><d>");
		assert_lines("a\rb\n", piece, 80, "<a\rb>");
		assert_lines("12345\n123456\n1234567890\nx\n", piece, 5,
		             "<12345><12345>+<12345>+<x>");
		assert_lines("123456", piece, 5, "<12345>+");
	}
}

static void assert_visible(struct span text, const char *wanted)
{
	STR_AUTO out = STR_INIT(4096);
	visible_text(&out, text);
	assert_string_equal(str_c(&out), wanted);
}

TEST(test_visible_text_escapes_control_characters)
{
	assert_visible(SPAN("plain\ttext, äöü, 漢字"), "plain\ttext, äöü, 漢字");
	assert_visible(SPAN("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
	assert_visible(SPAN("a\nb\r\x7f\0c"), "a\\x0ab\\x0d\\x7f\\x00c");
	/* CSI as one character, and as one byte that is no UTF-8 */
	assert_visible(SPAN("\xc2\x9b"
	                    "2J"),
	               "\\u{9b}2J");
	assert_visible(SPAN("\x9b"
	                    "2J\xff\xc3"),
	               "\\x9b2J\\xff\\xc3");
	/* direction overrides: the shown text would differ from the real one */
	static const unsigned char TURNED[] = { 'a', 0xe2, 0x80, 0xae, 'b', 0xe2, 0x81, 0xa6, 'c' };
	assert_visible((struct span){ (const char *)TURNED, sizeof(TURNED) },
	               "a\\u{202e}b\\u{2066}c");
}

static void assert_part(const char *line, const char *wanted)
{
	struct span part = visible_part(span_of(line));
	assert_true(span_is(part, wanted));
}

TEST(test_visible_part_keeps_the_text_behind_the_last_return)
{
	assert_part("", "");
	assert_part("\r", "");
	assert_part("plain", "plain");
	assert_part("10%\r20%\r30%", "30%");
	assert_part("10%\r20%\r\r", "20%");
	assert_part("10%\rError: bad\r        \r", "Error: bad");
	assert_part("   \r  ", "");
}

TEST(test_visible_width_counts_columns)
{
	assert_int_equal(visible_width(SPAN("")), 0);
	assert_int_equal(visible_width(SPAN("abc")), 3);
	assert_int_equal(visible_width(SPAN("äöü")), 3);
	assert_int_equal(visible_width(SPAN("漢字")), 4);
	assert_true(span_is(visible_cut(SPAN("a漢字b"), 4), "a漢"));
	assert_true(span_is(visible_cut(SPAN("a漢字b"), 5), "a漢字"));
	assert_true(span_is(visible_cut(SPAN("a漢字b"), 80), "a漢字b"));
	assert_true(span_is(visible_cut(SPAN("abc"), 0), ""));
}

TEST(test_log_task_named_accepts_all_forms_of_a_task)
{
	static const char *const GOOD[] = { "worker", "worker[12]", "worker-12", "12" };
	static const char *const BAD[] = { "",          "work",        "worker[1]", "worker-1",
		                           "worker[12", "worker[12]x", "worker-",   "worker12",
		                           "1",         "worker-012",  "worker[]",  "workers[12]" };
	for (size_t i = 0; i < sizeof(GOOD) / sizeof(GOOD[0]); i++)
		assert_true(log_task_named(GOOD[i], SPAN("worker"), 12));
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		assert_false(log_task_named(BAD[i], SPAN("worker"), 12));
	assert_true(log_task_named("worker-12", SPAN("worker-12"), 0));
}

TEST(test_table_csv_quotes_what_needs_it)
{
	struct table t;
	STR_AUTO out = STR_INIT(1024);
	table_begin(&t, (const char *[]){ "name", "a,b" }, 2);
	table_cell(&t, SPAN("x\"y\""));
	table_cell(&t, SPAN(""));
	table_cell(&t, SPAN("-1"));
	table_cell(&t, SPAN("a b"));
	table_csv(&out, &t);
	table_done(&t);
	assert_string_equal(str_c(&out), "name,\"a,b\"\n\"x\"\"y\"\"\",\n-1,a b\n");
}
