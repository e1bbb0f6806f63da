/* Small bodies as JSON or forms, and ranges of an answer. */

#include "tests/unit/base/cmocka.h"

#include "server/http/query.h"

/* Returns the result of fields_read for a body; *value is that of the member. */
static int read_body(const char *body, bool form, const char *name, char value[static 64])
{
	ERR_AUTO e = { 0 };
	struct request r = { .form = form, .body = STR_INIT(FIELDS_BODY) };
	struct fields f;
	str_puts(&r.body, body);
	int rc = fields_read(&r, &f, &e);
	struct span got = rc == 0 ? fields_get(&f, name) : SPAN("");
	(void)snprintf(value, 64, "%.*s", got.p ? (int)got.n : 6, got.p ?: "(null)");
	assert_true(!got.p || rc < 0 || got.n == strlen(got.p));
	assert_true(r.secret);
	if (rc < 0) {
		assert_int_equal(e.http, 400);
		assert_string_equal(e.code, "InvalidParametersError");
		assert_null(strstr(err_msg(&e), "secret"));
	}
	str_done(&r.body);
	arena_done(&r.arena);
	return rc;
}

TEST(test_fields_read_takes_json_and_forms)
{
	static const struct {
		const char *body;
		bool form;
		const char *name, *value;
	} CASES[] = {
		{ "{\"a\": \"x\", \"b\": \"\"}", false, "a", "x" },
		{ "{\"a\": \"x\", \"b\": \"\"}", false, "b", "" },
		{ "{\"a\": \"x\"}", false, "c", NULL },
		{ "  {\"a\": \"x\"}\n", false, "a", "x" },
		{ "a=x&b=y+z", true, "b", "y z" },
		{ "a=x", true, "c", NULL },
		{ "{\"a\": \"x=y\"}", true, "a", "x=y" }, /* as curl sends it */
		{ "{\"a\": 4000}", false, "a", "4000" },
		{ "{\"a\": -1.5}", false, "a", "-1.5" },
		{ "{\"a\": true}", false, "a", "true" },
		{ "{\"a\": false}", false, "a", "false" },
		{ "{\"a\": null}", false, "a", NULL },
		{ "a=4000", true, "a", "4000" },
		{ "", false, "a", NULL },
		{ " \n", true, "a", NULL },
		{ "{}", false, "a", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		char value[64];
		assert_int_equal(read_body(CASES[i].body, CASES[i].form, CASES[i].name, value), 0);
		assert_string_equal(value, CASES[i].value ?: "(null)");
	}
}

static void refused(const char *body, bool form)
{
	char value[64];
	assert_int_equal(read_body(body, form, "a", value), -1);
}

TEST(test_fields_read_errors_do_not_quote_the_body)
{
	static const char *const JSON[] = {
		"secret",
		"[\"secret\"]",
		"\"secret\"",
		"{\"password\": \"secret\"",
		"{\"password\": \"secret\"} x",
		"{\"password\": [\"secret\"]}",
		"{\"password\": {\"secret\": 1}}",
		"{\"secret\": 1, \"secret\": 2}",
		"{\"password\": \"secret\\u0000\"}",
		"{\"password\": \"secret\xff\"}",
		"password: secret",
	};
	static const char *const FORMS[] = { "password[x]=secret", "password[]=secret",
		                             "password=secret&password=secret", "a=%00secret" };
	for (size_t i = 0; i < ARRAY_SIZE(JSON); i++)
		refused(JSON[i], false);
	for (size_t i = 0; i < ARRAY_SIZE(FORMS); i++)
		refused(FORMS[i], true);
}

TEST(test_fields_read_refuses_many_members_and_deep_nesting)
{
	STR_AUTO many = STR_INIT(1000);
	for (int i = 0; i <= FIELDS_MAX; i++)
		str_printf(&many, "a%d=1&", i);
	refused(str_c(&many), true);
	refused("{\"a\":[[[[[[[[[[[[1]]]]]]]]]]]]}", false);
}

/* ---- the header Range ---- */

#define HUGE "99999999999999999999999999"

static const struct {
	const char *header;
	size_t size;
	enum range_result range;
	size_t from, n;
} RANGES[] = {
	{ "bytes=0-0", 10, RANGE_PART, 0, 1 },
	{ "bytes=0-9", 10, RANGE_PART, 0, 10 },
	{ "bytes=2-4", 10, RANGE_PART, 2, 3 },
	{ "bytes=2-400", 10, RANGE_PART, 2, 8 },
	{ "bytes=2-" HUGE, 10, RANGE_PART, 2, 8 },
	{ "bytes=2-18446744073709551615", 10, RANGE_PART, 2, 8 },
	{ "bytes=9-", 10, RANGE_PART, 9, 1 },
	{ "bytes=0-", 10, RANGE_PART, 0, 10 },
	{ "bytes=-3", 10, RANGE_PART, 7, 3 },
	{ "bytes=-10", 10, RANGE_PART, 0, 10 },
	{ "bytes=-" HUGE, 10, RANGE_PART, 0, 10 },
	{ " BYTES= 1-2 ", 10, RANGE_PART, 1, 2 },
	{ "bytes=007-08", 10, RANGE_PART, 7, 2 },
	{ "bytes=10-", 10, RANGE_NONE, 0, 0 },
	{ "bytes=10-20", 10, RANGE_NONE, 0, 0 },
	{ "bytes=" HUGE "-", 10, RANGE_NONE, 0, 0 },
	{ "bytes=-0", 10, RANGE_NONE, 0, 0 },
	{ "bytes=0-", 0, RANGE_NONE, 0, 0 },
	{ "bytes=-0", 0, RANGE_NONE, 0, 0 },
	{ "bytes=-5", 0, RANGE_WHOLE, 0, 0 },
	{ NULL, 10, RANGE_WHOLE, 0, 0 },
	{ "", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=-", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=5", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=5-4", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=50-40", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=0-1,3-4", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=0-1-2", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=--1", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=+1-2", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=a-b", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes 0-1", 10, RANGE_WHOLE, 0, 0 },
	{ "lines=0-1", 10, RANGE_WHOLE, 0, 0 },
};

TEST(test_range_read_gives_first_byte_and_length)
{
	for (size_t i = 0; i < ARRAY_SIZE(RANGES); i++) {
		size_t from = 0;
		size_t n = 0;
		enum range_result range = range_read(RANGES[i].header, RANGES[i].size, &from, &n);
		if (range != RANGES[i].range || from != RANGES[i].from || n != RANGES[i].n)
			fail_msg("%s of %zu: %d, %zu, %zu", RANGES[i].header, RANGES[i].size,
			         (int)range, from, n);
	}
}
