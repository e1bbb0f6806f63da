/* What is told of a certificate. */
#include "runtime-assets/net/certificate.h"

#include "tests/unit/base/cmocka.h"
#include "tests/unit/runtime-assets/authority.h"

#include "base/enc.h"

static void test_certificate_read_common_name(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	struct certificate c;
	assert_int_equal(certificate_read(span_of(UTC_PEM), &a, &c), 0);
	assert_string_equal(c.name, "a-test-authority");
	assert_int_equal(c.not_after_s, UTC_UNTIL);
	assert_int_equal(c.n, 1);
}

static void test_certificate_read_organisation_and_far_year(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	struct certificate c;
	assert_int_equal(certificate_read(span_of(GENERAL_PEM), &a, &c), 0);
	assert_string_equal(c.name, "only-an-organisation");
	assert_int_equal(c.not_after_s, GENERAL_UNTIL);
}

static void test_certificate_read_counts(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	STR_AUTO two = STR_INIT(10000);
	struct certificate c;
	str_printf(&two, "# first\n%s\n# second\n%s", UTC_PEM, GENERAL_PEM);
	assert_int_equal(certificate_read(str_view(&two), &a, &c), 0);
	assert_string_equal(c.name, "a-test-authority");
	assert_int_equal(c.n, 2);
}

static void test_certificate_read_refuses(void **state)
{
	(void)state;
	static const char *const NONE[] = {
		"",
		"-----BEGIN CERTIFICATE-----",
		"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\nMIQAAAAA\n-----END CERTIFICATE-----\n",
	};
	for (size_t i = 0; i < sizeof(NONE) / sizeof(NONE[0]); i++) {
		ARENA_AUTO a = { 0 };
		struct certificate c;
		assert_int_equal(certificate_read(span_of(NONE[i]), &a, &c), -1);
	}
}

/* DER cut anywhere, and each byte of it another: no crash, and names stay printable. */
static void test_certificate_read_damaged(void **state)
{
	(void)state;
	ARENA_AUTO whole = { 0 };
	struct span der;
	const char *begin = strchr(UTC_PEM, '\n') + 1;
	STR_AUTO text = STR_INIT(4096);
	for (const char *p = begin; strncmp(p, "-----", 5) != 0; p++) {
		if (*p != '\n')
			str_char(&text, *p);
	}
	assert_int_equal(base64_decode(&whole, str_view(&text), &der), 0);
	for (size_t i = 0; i < 2 * der.n; i++) {
		ARENA_AUTO a = { 0 };
		struct certificate c;
		STR_AUTO pem = STR_INIT(8192);
		char *copy = arena_dup(&a, der);
		struct span bytes = { copy, der.n };
		if (i < der.n)
			bytes.n = i;
		else
			copy[i - der.n] ^= (char)0xff;
		str_puts(&pem, "-----BEGIN CERTIFICATE-----\n");
		str_base64(&pem, bytes);
		str_puts(&pem, "\n-----END CERTIFICATE-----\n");
		if (certificate_read(str_view(&pem), &a, &c) != 0)
			continue;
		for (const char *p = c.name; *p; p++)
			assert_in_range(*p, ' ', '~');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_certificate_read_common_name),
		cmocka_unit_test(test_certificate_read_organisation_and_far_year),
		cmocka_unit_test(test_certificate_read_counts),
		cmocka_unit_test(test_certificate_read_refuses),
		cmocka_unit_test(test_certificate_read_damaged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
