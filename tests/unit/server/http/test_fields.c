/* Small bodies: the same members, however they come. */

#include "tests/unit/base/cmocka.h"

#include "server/http/query.h"

static struct request request_with(const char *body, bool form)
{
	struct request r = { .form = form, .body = STR_INIT(FIELDS_BODY) };
	str_puts(&r.body, body);
	return r;
}

static void request_done(struct request *r)
{
	str_done(&r->body);
	arena_done(&r->arena);
}

static void has(const char *body, bool form, const char *name, const char *value)
{
	struct request r = request_with(body, form);
	struct fields f;
	ERR_AUTO e = { 0 };
	assert_int_equal(fields_read(&r, &f, &e), 0);
	struct span got = fields_get(&f, name);
	if (value) {
		assert_non_null(got.p);
		assert_string_equal(got.p, value);
		assert_int_equal(got.n, strlen(value));
	} else {
		assert_null(got.p);
	}
	assert_true(r.secret);
	request_done(&r);
}

static void refused(const char *body, bool form)
{
	struct request r = request_with(body, form);
	struct fields f;
	ERR_AUTO e = { 0 };
	assert_int_equal(fields_read(&r, &f, &e), -1);
	assert_int_equal(e.http, 400);
	assert_string_equal(e.code, "InvalidParametersError");
	assert_null(strstr(err_msg(&e), "secret"));
	request_done(&r);
}

TEST(test_fields_read_json)
{
	has("{\"a\": \"x\", \"b\": \"\"}", false, "a", "x");
	has("{\"a\": \"x\", \"b\": \"\"}", false, "b", "");
	has("{\"a\": \"x\"}", false, "c", NULL);
	has("  {\"a\": \"x\"}\n", false, "a", "x");
}

TEST(test_fields_read_form)
{
	has("a=x&b=y+z", true, "b", "y z");
	has("a=x", true, "c", NULL);
	/* As curl sends it. */
	has("{\"a\": \"x=y\"}", true, "a", "x=y");
}

TEST(test_fields_read_scalars)
{
	has("{\"a\": 4000}", false, "a", "4000");
	has("{\"a\": -1.5}", false, "a", "-1.5");
	has("{\"a\": true}", false, "a", "true");
	has("{\"a\": false}", false, "a", "false");
	has("{\"a\": null}", false, "a", NULL);
	has("a=4000", true, "a", "4000");
}

TEST(test_fields_read_nothing)
{
	has("", false, "a", NULL);
	has(" \n", true, "a", NULL);
	has("{}", false, "a", NULL);
}

TEST(test_fields_read_refuses)
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
	for (size_t i = 0; i < sizeof(JSON) / sizeof(JSON[0]); i++)
		refused(JSON[i], false);
	for (size_t i = 0; i < sizeof(FORMS) / sizeof(FORMS[0]); i++)
		refused(FORMS[i], true);
}

TEST(test_fields_read_limits)
{
	STR_AUTO many = STR_INIT(1000);
	for (int i = 0; i <= FIELDS_MAX; i++)
		str_printf(&many, "a%d=1&", i);
	refused(str_c(&many), true);
	refused("{\"a\":[[[[[[[[[[[[1]]]]]]]]]]]]}", false);
}
