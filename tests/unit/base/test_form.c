/* Forms as JSON: accepted pairs and refused ones. */

#include "tests/unit/base/cmocka.h"

#include "base/form.h"

static const struct form_number NUMBERS[] = {
	{ "retryCount", false },
	{ "taskRoles[].taskNumber", false },
	{ "taskRoles[].minFailedTaskCount", true },
	{ "taskRoles[].portList[].beginAt", false },
	{ NULL, false },
};

static void becomes(const char *form, const char *json)
{
	STR_AUTO out = STR_INIT(1 << 20);
	int rc = form_json(span_of(form), NUMBERS, &unit.a, &out, no_err());
	if (rc < 0)
		print_error("%s: %s\n", form, err_msg(&unit.e));
	assert_int_equal(rc, 0);
	assert_string_equal(str_c(&out), json);
}

static void refused_n(struct span form, const char *words)
{
	STR_AUTO out = STR_INIT(1 << 20);
	assert_int_equal(form_json(form, NUMBERS, &unit.a, &out, no_err()), -1);
	assert_int_equal(unit.e.http, 400);
	assert_string_equal(unit.e.code, "InvalidParametersError");
	if (!strstr(err_msg(&unit.e), words))
		print_error("%.*s: %s\n", (int)form.n, form.p, err_msg(&unit.e));
	assert_non_null(strstr(err_msg(&unit.e), words));
}

static void refused(const char *form, const char *words)
{
	refused_n(span_of(form), words);
}

TEST(test_form_json_gives_the_expected_json)
{
	/* Reads pairs as members. */
	becomes("", "{}");
	becomes("a=1", "{\"a\":\"1\"}");
	becomes("a=1&b=x+y", "{\"a\":\"1\",\"b\":\"x y\"}");
	becomes("a=&b", "{\"a\":\"\",\"b\":\"\"}");
	becomes("&a=1&&b=2&", "{\"a\":\"1\",\"b\":\"2\"}");
	becomes("a=b=c", "{\"a\":\"b=c\"}");
	/* Decodes percent escapes once. */
	becomes("a=%41%2b%26%3D+%2541", "{\"a\":\"A+&= %41\"}");
	becomes("%61=1", "{\"a\":\"1\"}");
	becomes("a=%22%5C%0A", "{\"a\":\"\\\"\\\\\\n\"}");
	becomes("a=%C3%BC", "{\"a\":\"\xc3\xbc\"}");
	/* Reads brackets as nested objects. */
	becomes("a[b]=1&a[c]=2", "{\"a\":{\"b\":\"1\",\"c\":\"2\"}}");
	becomes("a[0][b]=1&a[1][b]=2", "{\"a\":[{\"b\":\"1\"},{\"b\":\"2\"}]}");
	becomes("a%5B0%5D%5Bb%5D=1", "{\"a\":[{\"b\":\"1\"}]}");
	becomes("a[b][c][d][e][f]=1", "{\"a\":{\"b\":{\"c\":{\"d\":{\"e\":{\"f\":\"1\"}}}}}}");
	/* Reads empty and numbered brackets as lists. */
	becomes("a[]=1&a[]=2", "{\"a\":[\"1\",\"2\"]}");
	becomes("a[1]=y&a[0]=x", "{\"a\":[\"x\",\"y\"]}");
	becomes("a[b][]=1", "{\"a\":{\"b\":[\"1\"]}}");
	/* Writes known numbers as numbers. */
	becomes("retryCount=-2", "{\"retryCount\":-2}");
	becomes("taskRoles[0][taskNumber]=3", "{\"taskRoles\":[{\"taskNumber\":3}]}");
	becomes("taskRoles[0][portList][0][beginAt]=0",
	        "{\"taskRoles\":[{\"portList\":[{\"beginAt\":0}]}]}");
	/* Other names, and texts that are no numbers, stay text. */
	becomes("taskNumber=3", "{\"taskNumber\":\"3\"}");
	becomes("retryCount=1.5", "{\"retryCount\":\"1.5\"}");
	becomes("retryCount=01", "{\"retryCount\":\"01\"}");
	becomes("retryCount=-", "{\"retryCount\":\"-\"}");
	becomes("retryCount=12345678901", "{\"retryCount\":\"12345678901\"}");
	/* Writes empty numbers as null. */
	becomes("taskRoles[0][minFailedTaskCount]=",
	        "{\"taskRoles\":[{\"minFailedTaskCount\":null}]}");
	becomes("retryCount=", "{\"retryCount\":\"\"}");
}

TEST(test_form_json_refuses_invalid_escapes)
{
	refused("a=%", "pair 1, a: a % must");
	refused("a=%4", "hexadecimal");
	refused("a=%zz", "hexadecimal");
	refused("x=1&%g=1", "pair 2, %g: a %");
	refused("a=%00", "NUL");
	refused_n(SPAN("a=\0"), "NUL");
	refused("a=%ff", "UTF-8");
	refused("a=%ed%a0%80", "UTF-8");
	refused("%c0%af=1", "UTF-8");
}

TEST(test_form_json_refuses_forms_beyond_the_limits)
{
	refused("a[b][c][d][e][f][g]=1", "at most 5 pairs");
	refused("a[1000]=1", "from 0 to 999");
	refused("a[999999999999999999999999]=1", "from 0 to 999");
	refused("a[00]=1", "from 0 to 999");
	STR_AUTO many = STR_INIT(100000);
	for (int i = 0; i < FORM_PAIRS; i++)
		str_printf(&many, "a[]=%d&", i);
	STR_AUTO out = STR_INIT(1 << 20);
	assert_int_equal(form_json(str_view(&many), NULL, &unit.a, &out, no_err()), 0);
	str_puts(&many, "b=1");
	refused(str_c(&many), "at most 1000 pairs");
}

TEST(test_form_json_refuses_what_is_ambiguous)
{
	/* Refuses invalid names. */
	refused("=1", "pair 1: it has no name");
	refused("[a]=1", "no name");
	refused("a[b=1", "brackets");
	refused("a]=1", "brackets");
	refused("a[b]c=1", "brackets");
	refused("a[b]]=1", "brackets");
	refused("a[[b]]=1", "brackets");
	refused("a[b[c]]=1", "brackets");
	refused("a[][b]=1", "end of a name");
	/* Refuses lists with missing items. */
	refused("a[1]=1", "item 1, but 1 items");
	refused("a[0]=1&a[999]=1", "item 999");
	/* Refuses a name with two meanings. */
	refused("a=1&a=2", "pair 2, a: it is there twice");
	refused("a[b]=1&a[b]=1", "twice");
	refused("a[0]=1&a[0]=1", "twice");
	refused("a=1&a[b]=1", "its type (text, list or names) differs");
	refused("a[b]=1&a=1", "its type (text, list or names) differs");
	refused("a[b]=1&a[0]=1", "its type (text, list or names) differs");
	refused("a[]=1&a[b]=1", "its type (text, list or names) differs");
	refused("a[]=1&a[1]=1", "mixed");
	refused("a[0]=1&a[]=1", "mixed");
}

/* A part of a password that was not escaped looks like a pair. */
TEST(test_form_json_errors_do_not_quote_values)
{
	STR_AUTO out = STR_INIT(1000);
	static const char *const FORMS[] = { "password=se%cret", "password=x&se%cret",
		                             "password=x&se%c:ret=",
		                             "password=secret&password=secret" };
	for (size_t i = 0; i < ARRAY_SIZE(FORMS); i++) {
		assert_int_equal(form_json(span_of(FORMS[i]), NULL, &unit.a, &out, no_err()), -1);
		assert_null(strstr(err_msg(&unit.e), "ret"));
	}
}

TEST(test_form_json_reports_output_that_does_not_fit)
{
	STR_AUTO out = STR_INIT(8);
	assert_int_equal(form_json(SPAN("abcdef=ghijkl"), NULL, &unit.a, &out, no_err()), 0);
	assert_true(out.full);
}
