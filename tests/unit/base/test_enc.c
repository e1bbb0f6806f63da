/* Encodings, against the vectors of their standards. */
#include "base/enc.h"

#include <math.h>

#include "tests/unit/base/cmocka.h"

/* RFC 1321, appendix A.5 */
TEST(test_md5_hex_gives_the_sums_of_rfc_1321)
{
	static const char *const CASES[][2] = {
		{ "", "d41d8cd98f00b204e9800998ecf8427e" },
		{ "a", "0cc175b9c0f1b6a831c399e269772661" },
		{ "abc", "900150983cd24fb0d6963f7d28e17f72" },
		{ "message digest", "f96b697d7cb7938d525a2f31aaf161d0" },
		{ "abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b" },
		{ "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
		  "d174ab98d277d9f5a5611c2c9f419d9f" },
		{ "1234567890123456789012345678901234567890"
		  "1234567890123456789012345678901234567890",
		  "57edf4a22be3c955ac49da2e2107b67a" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		char got[33];
		md5_hex(got, span_of(CASES[i][0]));
		assert_string_equal(got, CASES[i][1]);
	}
}

/* The texts x, xx, xxx, ...: every length around the ends of blocks.  The sums of 55 to 120, each
 * as hex, are summed up once more (by Python's hashlib). */
TEST(test_md5_hex_is_right_around_the_ends_of_blocks)
{
	char text[121];
	char got[33];
	STR_AUTO all = STR_INIT(4096);
	memset(text, 'x', sizeof(text));
	for (size_t n = 55; n <= 120; n++) {
		md5_hex(got, (struct span){ text, n });
		str_puts(&all, got);
	}
	md5_hex(got, str_view(&all));
	assert_string_equal(got, "e3e111d08f6dd02dbad69dd47177beb1");
}

/* RFC 4648, section 10 */
TEST(test_base64_gives_the_texts_of_rfc_4648)
{
	static const char *const CASES[][2] = {
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" },
		{ "\xff\xfe\xfd", "//79" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		STR_AUTO got = STR_INIT(100);
		struct span back = { NULL, 0 };
		str_base64(&got, span_of(CASES[i][0]));
		assert_string_equal(str_c(&got), CASES[i][1]);
		assert_int_equal(base64_decode(&unit.a, str_view(&got), &back), 0);
		assert_true(span_is(back, CASES[i][0]));
	}
}

TEST(test_base64_decodes_what_it_encoded_of_every_byte)
{
	char bytes[3 * 256];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 167 + i / 256);
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		STR_AUTO text = STR_INIT(2000);
		struct span back = { NULL, 0 };
		str_base64(&text, (struct span){ bytes, n });
		assert_int_equal(text.n, (n + 2) / 3 * 4);
		assert_int_equal(base64_decode(&unit.a, str_view(&text), &back), 0);
		assert_true(span_eq(back, (struct span){ bytes, n }));
	}
}

/* Each of the 256 bytes as the third digit: the 64 of the alphabet, and no other. */
TEST(test_base64_decode_takes_the_alphabet_and_no_other_byte)
{
	static const char ALPHABET[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (unsigned c = 0; c < 256; c++) {
		char text[4] = { 'A', 'A', (char)c, 'A' };
		struct span out = { NULL, 0 };
		const char *digit = c ? strchr(ALPHABET, (int)c) : NULL;
		assert_int_equal(base64_decode(&unit.a, (struct span){ text, 4 }, &out),
		                 digit ? 0 : -1);
		if (digit)
			assert_int_equal((unsigned char)out.p[1] << 2 |
			                     (unsigned char)out.p[2] >> 6,
			                 digit - ALPHABET);
	}
}

TEST(test_base64_decode_refuses_bad_padding_and_spaces)
{
	static const char *const BAD[] = {
		"Z",    "Zg",       "Zg=", "Zg===", "Zh==", "Zm9 v", "Zm9v\n", "Zm-v", "Z\xc3\xbc=",
		"=Zg=", "Zg==Zg==", "=",   "==",    "====", "A===",  "Zm9=",   "Zg=g", "Zm9v===="
	};
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
		struct span out = { NULL, 0 };
		if (base64_decode(&unit.a, span_of(BAD[i]), &out) == 0)
			fail_msg("%s", BAD[i]);
	}
}

TEST(test_str_base64_writes_nothing_beyond_the_maximum)
{
	STR_AUTO s = STR_INIT(3);
	str_base64(&s, SPAN("abc"));
	assert_true(s.full);
	assert_int_equal(s.n, 0);
}

/* Number.prototype.toString of ECMAScript */
TEST(test_number_text_writes_numbers_as_ecmascript)
{
	static const struct {
		double v;
		const char *text;
	} CASES[] = {
		{ 0, "0" },
		{ -0.0, "0" },
		{ 1, "1" },
		{ -1.5, "-1.5" },
		{ 0.1, "0.1" },
		{ 0.1 + 0.2, "0.30000000000000004" },
		{ 1e-6, "0.000001" },
		{ 1.5e-6, "0.0000015" },
		{ 1e-7, "1e-7" },
		{ 1.5e-7, "1.5e-7" },
		{ 1e20, "100000000000000000000" },
		{ 123456789012345680000.0, "123456789012345680000" },
		{ 1e21, "1e+21" },
		{ 1.5e300, "1.5e+300" },
		{ 9007199254740993.0, "9007199254740992" },
		{ 5e-324, "5e-324" },
		{ 1.7976931348623157e308, "1.7976931348623157e+308" },
		{ 4.35, "4.35" },
		{ 100, "100" },
		{ 1e5, "100000" },
		{ 123.456, "123.456" },
		{ -1e-7, "-1e-7" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		char got[NUMBER_MAX];
		assert_int_equal(number_text(got, CASES[i].v), strlen(CASES[i].text));
		assert_string_equal(got, CASES[i].text);
	}
}

TEST(test_number_text_writes_nan_and_infinity)
{
	char got[NUMBER_MAX];
	(void)number_text(got, (double)NAN);
	assert_string_equal(got, "NaN");
	(void)number_text(got, -(double)INFINITY);
	assert_string_equal(got, "-Infinity");
}

TEST(test_number_text_is_read_back_as_the_same_number)
{
	uint64_t bits = 88172645463325252u;
	for (int i = 0; i < 20000; i++) {
		bits ^= bits << 13; /* xorshift */
		bits ^= bits >> 7;
		bits ^= bits << 17;
		double v = 0;
		char got[NUMBER_MAX];
		memcpy(&v, &bits, sizeof(v));
		(void)number_text(got, v);
		if (isfinite(v) && strtod(got, NULL) != v)
			fail_msg("%s", got);
	}
}

TEST(test_utf8_check_gives_the_place_of_the_first_bad_byte)
{
	static const struct {
		const char *text;
		size_t bad;
	} CASES[] = {
		{ "", 0 },
		{ "12345678ü90123456789", 21 },
		{ "\x7f\xc2\x80\xdf\xbf", 5 },
		{ "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", 12 },
		{ "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8 },
		{ "1234567\x80", 7 },
		{ "12345678\xc1\xbf", 8 },
		{ "\xe0\x9f\xbf", 0 },
		{ "\xed\xa0\x80", 0 },
		{ "\xf0\x8f\xbf\xbf", 0 },
		{ "\xf4\x90\x80\x80", 0 },
		{ "a\xe2\x82", 1 },
		{ "a\xe2\x82z", 1 },
		{ "\xff", 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_int_equal(utf8_check(span_of(CASES[i].text)), CASES[i].bad);
}

TEST(test_utf8_plain_refuses_control_characters)
{
	static const char *const GOOD[] = { "",
		                            "a b",
		                            "caf\xc3\xa9",
		                            "\xe6\x95\xb0\xe6\x8d\xae",
		                            "\xf0\x9f\x98\x80",
		                            "\xe2\x80\x8d",
		                            "\xc2\xa0" };
	static const char *const BAD[] = { "\n",
		                           "a\x7f",
		                           "\xc2\x85",
		                           "\xd8\x9c",
		                           "\xe2\x80\x8e",
		                           "\xe2\x80\xa8",
		                           "\xe2\x80\xae\xe2\x80\xac",
		                           "\xe2\x81\xa9" };
	for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++)
		assert_true(utf8_plain(span_of(GOOD[i])));
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
		assert_false(utf8_plain(span_of(BAD[i])));
}

TEST(test_random_hex_gives_different_texts)
{
	char a[33];
	char b[33];
	random_hex(a, 16);
	random_hex(b, 16);
	assert_int_equal(strlen(a), 32);
	assert_int_equal(strspn(a, "0123456789abcdef"), 32);
	assert_string_not_equal(a, b);
}
