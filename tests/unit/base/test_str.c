/* Texts with a length: growing, taking, numbers. */
#include "base/str.h"

#include "tests/unit/base/cmocka.h"

TEST(test_str_put_fills_up_to_max)
{
	STR_AUTO s = STR_INIT(5);
	str_puts(&s, "abc");
	str_puts(&s, "de");
	assert_false(s.full);
	assert_string_equal(str_c(&s), "abcde");
}

TEST(test_str_put_stays_full_after_an_overflow)
{
	STR_AUTO s = STR_INIT(5);
	str_puts(&s, "abc");
	str_puts(&s, "def");
	assert_true(s.full);
	str_puts(&s, "");
	assert_true(s.full);
	assert_string_equal(str_c(&s), "abc");
}

TEST(test_str_c_of_an_empty_text_is_not_null)
{
	STR_AUTO s = STR_INIT(5);
	assert_string_equal(str_c(&s), "");
	assert_int_equal(str_view(&s).n, 0);
	assert_non_null(str_view(&s).p);
}

TEST(test_str_take_leaves_an_empty_text)
{
	STR_AUTO s = STR_INIT(5);
	str_puts(&s, "abc");
	FREE_AUTO char *text = str_take(&s);
	assert_string_equal(text, "abc");
	assert_int_equal(s.n, 0);
	FREE_AUTO char *nothing = str_take(&s);
	assert_string_equal(nothing, "");
	str_puts(&s, "abcde");
	assert_false(s.full);
}

TEST(test_str_secret_keeps_its_text_when_it_grows)
{
	STR_AUTO s = STR_SECRET(1000);
	str_many(&s, "0123456789", 100);
	assert_false(s.full);
	assert_int_equal(s.n, 1000);
	for (size_t i = 0; i < s.n; i++)
		assert_int_equal(s.p[i], '0' + i % 10);
}

TEST(test_str_int_writes_the_smallest_and_largest_numbers)
{
	static const struct {
		int64_t v;
		const char *text;
	} CASES[] = {
		{ 0, "0" },
		{ 9, "9" },
		{ 10, "10" },
		{ -1, "-1" },
		{ -10, "-10" },
		{ INT64_MAX, "9223372036854775807" },
		{ INT64_MIN, "-9223372036854775808" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		STR_AUTO s = STR_INIT(30);
		str_int(&s, CASES[i].v);
		assert_string_equal(str_c(&s), CASES[i].text);
	}
}

/* Byte by byte, as one would write it without caring for speed. */
static void escape_slowly(struct str *out, struct span t)
{
	static const char from[] = "\"\\\b\t\n\f\r";
	static const char to[] = "\"\\btnfr";
	for (size_t i = 0; i < t.n; i++) {
		unsigned char c = (unsigned char)t.p[i];
		const char *known = c ? strchr(from, c) : NULL;
		if (known)
			str_printf(out, "\\%c", to[known - from]);
		else if (c < 0x20 || c == 0x7f)
			str_printf(out, "\\u%04x", c);
		else
			str_char(out, (char)c);
	}
}

TEST(test_json_text_escapes_at_every_place)
{
	for (unsigned c = 0; c < 256; c++)
		for (size_t n = 1; n < 20; n++)
			for (size_t at = 0; at < n; at++) {
				char text[20];
				memset(text, at % 2 ? 0xc3 : 'x', n);
				text[at] = (char)c;
				STR_AUTO got = STR_INIT(1000);
				STR_AUTO want = STR_INIT(1000);
				str_json_text(&got, (struct span){ text, n });
				escape_slowly(&want, (struct span){ text, n });
				assert_string_equal(str_c(&got), str_c(&want));
			}
}

TEST(test_str_json_escapes_quotes_and_control_characters)
{
	STR_AUTO s = STR_INIT(100);
	str_json(&s, SPAN(""));
	str_json(&s, SPAN("plain"));
	str_json(&s, SPAN("a\n\n\"\\\n\x1f\x7f\xc3\xa9"));
	assert_string_equal(str_c(&s), "\"\"\"plain\"\"a\\n\\n\\\"\\\\\\n\\u001f\\u007f\xc3\xa9\"");
}

TEST(test_str_json_writes_nothing_beyond_the_maximum)
{
	STR_AUTO got = STR_INIT(6);
	str_json(&got, SPAN("1234"));
	assert_false(got.full);
	str_json(&got, SPAN(""));
	assert_true(got.full);
	assert_string_equal(str_c(&got), "\"1234\"");
}

TEST(test_span_trim_removes_all_white_space)
{
	assert_true(span_is(span_trim(SPAN(" \t\r\n\v\fa b\f\v\n\r\t ")), "a b"));
	assert_int_equal(span_trim(SPAN(" \t\r\n\v\f")).n, 0);
	assert_int_equal(span_trim(SPAN("")).n, 0);
}

TEST(test_span_starts_compares_the_beginning)
{
	assert_true(span_starts(SPAN("abc"), "ab"));
	assert_true(span_starts(SPAN("abc"), ""));
	assert_false(span_starts(SPAN("ab"), "abc"));
	assert_false(span_starts(SPAN("xbc"), "ab"));
}

TEST(test_span_class_accepts_ranges_and_negation)
{
	static const struct {
		const char *class, *in, *out;
	} CASES[] = {
		{ "a-c_-", "abc_-", "dA`" },    { "-a", "-a", "b" },
		{ "\r\n", "\r\n", " \t" },      { "^\r\n", "a ^\x80", "\r\n" },
		{ "!-~", "!~a-", " \x7f\x80" }, { "\x80-\xff", "\x80\xc3\xff", "a\x7f" },
		{ "0-9a-f^", "09af^", "g-" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct span out = span_of(CASES[i].out);
		if (!span_all(span_of(CASES[i].in), CASES[i].class))
			fail_msg("%s", CASES[i].class);
		for (size_t k = 0; k < out.n; k++)
			if (class_has_char(out.p[k], CASES[i].class))
				fail_msg("%s has %c", CASES[i].class, out.p[k]);
	}
	assert_false(class_has_char('\0', "\r\n"));
	assert_true(class_has_char('\0', "^\r\n"));
	assert_true(span_all(SPAN(""), "a"));
	assert_int_equal(span_skip_class(SPAN("xaab"), 1, "a"), 3);
	assert_int_equal(span_skip_class(SPAN("xaa"), 1, "a"), 3);
	assert_true(span_is_token(SPAN("X-a!#$%&'*+.^_`|~9")));
	assert_false(span_is_token(SPAN("")));
	for (const char *p = "\"(),/:;<=>?@[\\]{} \t\x7f\x80"; *p; p++)
		assert_false(span_is_token((struct span){ p, 1 }));
}

TEST(test_span_among_compares_whole_texts)
{
	static const char *const TEXTS[] = { "a", "", "bc", NULL };
	assert_true(span_among(SPAN(""), TEXTS));
	assert_true(span_among(SPAN("bc"), TEXTS));
	assert_false(span_among(SPAN("b"), TEXTS));
}

TEST(test_span_compare_orders_a_prefix_first)
{
	assert_true(span_compare(SPAN("a"), SPAN("ab")) < 0 &&
	            span_compare(SPAN("b"), SPAN("ab")) > 0);
	assert_int_equal(span_compare(SPAN(""), (struct span){ NULL, 0 }), 0);
	assert_true(span_equals_lower_alnum(SPAN("Work_er-1."), SPAN("worker1")));
	assert_true(span_equals_lower_alnum(SPAN("_-"), SPAN("")));
	assert_false(span_equals_lower_alnum(SPAN("worker"), SPAN("worke")));
	assert_false(span_equals_lower_alnum(SPAN("worke"), SPAN("worker")));
	assert_false(span_equals_lower_alnum(SPAN("Worker"), SPAN("Worker")));
}

TEST(test_parse_i64_refuses_other_text_and_numbers_out_of_range)
{
	static const char *const REFUSED[] = { "",   "-",   "+1",  " 1",  "1 ",
		                               "1x", "0x1", "101", "-11", "9223372036854775808" };
	int64_t v = 7;
	for (size_t i = 0; i < ARRAY_SIZE(REFUSED); i++) {
		assert_int_equal(parse_i64(span_of(REFUSED[i]), -10, 100, &v), -1);
		assert_int_equal(v, 7);
	}
	assert_int_equal(parse_i64(SPAN("-10"), -10, 100, &v), 0);
	assert_int_equal(v, -10);
	assert_int_equal(parse_i64(SPAN("-9223372036854775808"), INT64_MIN, INT64_MAX, &v), 0);
	assert_true(v == INT64_MIN);
}

TEST(test_xstrndup_and_xasprintf_return_copies)
{
	FREE_AUTO char *part = xstrndup("abcdef", 3);
	FREE_AUTO char *text = xasprintf("%s-%d", part, 4);
	assert_string_equal(part, "abc");
	assert_string_equal(text, "abc-4");
}
