/* Texts that grow; here: how they become JSON. */
#include <stdlib.h>

#include "tests/unit/base/cmocka.h"

#include "base/str.h"

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

TEST(test_json_text_escapes_neighbours)
{
	STR_AUTO got = STR_INIT(1000);
	str_json_text(&got, SPAN("\n\n\"\\ab\x01\x7f\t"));
	assert_string_equal(str_c(&got), "\\n\\n\\\"\\\\ab\\u0001\\u007f\\t");
}

TEST(test_json_puts_quotes)
{
	STR_AUTO got = STR_INIT(1000);
	str_json(&got, SPAN(""));
	str_json(&got, SPAN("plain"));
	str_json(&got, SPAN("a\"b"));
	assert_string_equal(str_c(&got), "\"\"\"plain\"\"a\\\"b\"");
}

TEST(test_json_beyond_the_maximum_is_not_written)
{
	STR_AUTO got = STR_INIT(6);
	str_json(&got, SPAN("1234"));
	assert_false(got.full);
	str_json(&got, SPAN(""));
	assert_true(got.full);
	assert_string_equal(str_c(&got), "\"1234\"");
}

TEST(test_int_all_lengths)
{
	STR_AUTO got = STR_INIT(1000);
	static const int64_t V[] = { 0, 9, 10, -1, -10, INT64_MAX, INT64_MIN };
	for (size_t i = 0; i < sizeof(V) / sizeof(*V); i++) {
		str_int(&got, V[i]);
		str_char(&got, ' ');
	}
	assert_string_equal(str_c(&got), "0 9 10 -1 -10 9223372036854775807 -9223372036854775808 ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json_text_escapes_at_every_place),
		cmocka_unit_test(test_json_text_escapes_neighbours),
		cmocka_unit_test(test_json_puts_quotes),
		cmocka_unit_test(test_json_beyond_the_maximum_is_not_written),
		cmocka_unit_test(test_int_all_lengths),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
