/* What a violation is told: the sentence and the place. */
#include "kit.h"

/* ---- one keyword each ---------------------------------------------------------------------- */

TEST(test_check_minimum)
{
	assert_says("{\"items\":{\"minimum\":1}}", "- 1\n- 0\n",
	            "2:3: [1]: must be at least 1, is 0\n");
}

TEST(test_check_maximum)
{
	assert_says("{\"maximum\":2.5}", "3", "1:1: must be at most 2.5, is 3\n");
}

TEST(test_check_exclusive_bounds)
{
	assert_says("{\"exclusiveMinimum\":1}", "1", "1:1: must be more than 1, is 1\n");
	assert_says("{\"exclusiveMaximum\":1}", "1", "1:1: must be less than 1, is 1\n");
}

TEST(test_check_type)
{
	assert_says("{\"type\":\"integer\"}", "\"2\"", "1:1: must be an integer, is text \"2\"\n");
	assert_says("{\"type\":\"integer\"}", "1.5",
	            "1:1: must be an integer, is the number 1.5\n");
	assert_says("{\"type\":\"array\"}", "a: 1", "1:1: must be a list, is a mapping\n");
	assert_says("{\"type\":\"object\"}", "~", "1:1: must be a mapping, is null\n");
}

TEST(test_check_type_of_several)
{
	assert_says("{\"type\":[\"string\",\"number\",\"integer\",\"null\"]}", "[]",
	            "1:1: must be text or a number, is a list\n");
	assert_says("{\"type\":[\"string\",\"boolean\",\"array\"]}", "{}",
	            "1:1: must be text, a boolean or a list, is a mapping\n");
}

TEST(test_check_type_plain_number_for_text)
{
	assert_says("{\"type\":\"string\"}", "12",
	            "1:1: must be text, is the number 12; put it in quotes\n");
	assert_says("{\"items\":{\"type\":\"string\"}}", "[true]",
	            "1:2: [0]: must be text, is true; put it in quotes\n");
}

TEST(test_check_type_words_for_booleans)
{
	assert_says("{\"type\":\"boolean\"}", "no",
	            "1:1: must be a boolean, is text \"no\"; write true or false\n");
}

TEST(test_check_date_for_text)
{
	assert_says("{\"type\":\"string\"}", "2001-12-14",
	            "1:1: looks like a date; quote it to make it text\n");
	assert_says("{\"type\":\"string\"}", "\"2001-12-14\"", "");
	assert_says("true", "2001-12-14", "");
}

TEST(test_check_not_finite)
{
	assert_says("{\"type\":\"integer\"}", ".inf", "1:1: is not a finite number\n");
	assert_says("{\"type\":\"number\"}", "1e400", "1:1: is not a finite number\n");
	assert_says("{\"minimum\":1}", ".nan", "1:1: is not a finite number\n");
}

TEST(test_check_integer_with_zero_fraction)
{
	assert_says("{\"type\":\"integer\"}", "2.0", "");
	assert_says("{\"type\":\"integer\"}", "9007199254740995", "");
	assert_says("{\"type\":\"integer\"}", "1e300", "");
}

TEST(test_check_enum)
{
	assert_says("{\"enum\":[\"2\",2]}", "1", "1:1: must be \"2\" or 2, is 1\n");
	assert_says("{\"enum\":[\"a\",\"b\",null]}", "c",
	            "1:1: must be one of \"a\", \"b\" or null, is \"c\"\n");
	assert_says("{\"const\":\"job\"}", "[]", "1:1: must be \"job\", is a list\n");
}

TEST(test_check_pattern)
{
	assert_says("{\"pattern\":\"^[a-zA-Z0-9_-]+$\"}", "a b",
	            "1:1: may only have letters, digits, - and _, is \"a b\"\n");
	assert_says("{\"pattern\":\"^[a-z_][a-z0-9_]*$\"}", "1a",
	            "1:1: may only have small letters, digits and _, and must begin with a small "
	            "letter or _, is \"1a\"\n");
}

TEST(test_check_pattern_empty)
{
	assert_says("{\"pattern\":\"^[a-z]+$\"}", "\"\"", "1:1: must not be empty\n");
}

TEST(test_check_pattern_own_words)
{
	assert_says("{\"pattern\":\"^(a|b)+$\",\"patternErrorMessage\":\"must be of a and b\"}",
	            "abc", "1:1: must be of a and b, is \"abc\"\n");
	assert_says("{\"pattern\":\"^(a|b)+$\"}", "abc",
	            "1:1: must match the pattern ^(a|b)+$, is \"abc\"\n");
}

TEST(test_check_lengths)
{
	assert_says("{\"maxLength\":2}", "éüa", "1:1: must have at most 2 characters, has 3\n");
	assert_says("{\"minLength\":2}", "é", "1:1: must have at least 2 characters, has 1\n");
	assert_says("{\"minLength\":1}", "\"\"", "1:1: must not be empty\n");
}

TEST(test_check_counts)
{
	assert_says("{\"minItems\":1}", "[]", "1:1: must have at least one item\n");
	assert_says("{\"minProperties\":1}", "{}", "1:1: must have at least one member\n");
	assert_says("{\"maxItems\":2}", "[1,2,3]", "1:1: must have at most 2 items, has 3\n");
}

TEST(test_check_required)
{
	assert_says("{\"properties\":{\"a\":{\"required\":[\"b\",\"c\"]}}}", "a:\n  b: 1\n",
	            "2:3: a: misses the key `c`\n");
}

TEST(test_check_not)
{
	assert_says("{\"not\":{\"const\":0}}", "0", "1:1: must not be 0\n");
}

TEST(test_check_false)
{
	assert_says("{\"properties\":{\"a\":false}}", "a: 1", "1:4: a: is not allowed here\n");
}

TEST(test_check_error_message)
{
	assert_says("{\"type\":\"object\",\"errorMessage\":\"put it back\"}", "abc",
	            "1:1: must be a mapping, is text \"abc\"; put it back\n");
}

/* ---- unknown keys ---------------------------------------------------------------------------- */

#define CLOSED                                                                                     \
	"{\"properties\":{\"instances\":{\"minimum\":1},\"dockerImage\":{}},"                      \
	"\"required\":[\"dockerImage\"],\"additionalProperties\":false}"

TEST(test_check_unknown_key_misspelt)
{
	assert_says(CLOSED, "dockerImage: a\n  \nintances: 2\n",
	            "3:1: intances: unknown key `intances`, did you mean `instances`?\n");
}

TEST(test_check_unknown_key_is_not_missing_too)
{
	assert_says(CLOSED, "dockerimage: a\n",
	            "1:1: dockerimage: unknown key `dockerimage`, did you mean `dockerImage`?\n");
}

TEST(test_check_unknown_key_that_is_there_is_not_suggested)
{
	assert_says(CLOSED, "{dockerImage: a, dockerImages: b}",
	            "1:18: dockerImages: unknown key `dockerImages`; allowed are `instances` and "
	            "`dockerImage`\n");
}

TEST(test_check_unknown_key_allowed_are_listed)
{
	assert_says(
	    CLOSED, "{dockerImage: a, zebra: b}",
	    "1:18: zebra: unknown key `zebra`; allowed are `instances` and `dockerImage`\n");
}

TEST(test_check_bad_name)
{
	assert_says("{\"patternProperties\":{\"^[a-z]+$\":{}},\"additionalProperties\":false}",
	            "{a: 1, 'b;c': 2}",
	            "1:8: [\"b;c\"]: bad name \"b;c\": may only have small letters\n");
}

/* ---- several mistakes, and one that could give many
 * ------------------------------------------------ */

TEST(test_check_all_violations)
{
	assert_says(CLOSED, "instances: 0\nfoo: 1\n",
	            "1:12: instances: must be at least 1, is 0\n"
	            "2:1: foo: unknown key `foo`; allowed are `instances` and `dockerImage`\n"
	            "1:1: misses the key `dockerImage`\n");
}

TEST(test_check_one_sentence_per_scalar)
{
	assert_says("{\"type\":\"string\",\"minLength\":3,\"pattern\":\"^[a-z]+$\"}", "\"1\"",
	            "1:1: must have at least 3 characters, has 1\n");
}

TEST(test_check_counts_beyond_the_limit)
{
	ERR_AUTO e = { 0 };
	struct schema *s = schema_compile(SPAN("{\"items\":{\"type\":\"null\"}}"), &e);
	assert_int_equal(check_text(s,
	                            SPAN("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,"
	                                 "21,22,23]"),
	                            &e),
	                 -1);
	assert_int_equal(e.notes.n, NOTES_MAX);
	assert_int_equal(e.notes.dropped, 23 - NOTES_MAX);
	schema_free(s);
}

TEST(test_check_many_violations_are_quick)
{
	ERR_AUTO e = { 0 };
	STR_AUTO doc = STR_INIT(FILE_MAX);
	str_puts(&doc, "a: [");
	for (int i = 0; i < 40000; i++)
		str_puts(&doc, "x,");
	str_puts(&doc, "]\nsecrets: {a: longer secret}\n");
	struct schema *s =
	    schema_compile(SPAN("{\"properties\":{\"a\":{\"items\":{\"enum\":[1]}}}}"), &e);
	assert_int_equal(check_text(s, str_view(&doc), &e), -1);
	assert_int_equal(e.notes.dropped, 40000 - NOTES_MAX);
	schema_free(s);
}

#define KINDS                                                                                      \
	"{\"oneOf\":["                                                                             \
	"{\"properties\":{\"type\":{\"enum\":[\"data\"]},\"uri\":{\"type\":\"array\"}},"           \
	"\"required\":[\"type\"]},"                                                                \
	"{\"properties\":{\"type\":{\"enum\":[\"script\",\"output\"]},\"uri\":"                    \
	"{\"type\":\"string\"}},\"required\":[\"type\"]}]}"

TEST(test_check_branch_by_member)
{
	assert_says(KINDS, "{type: data, uri: x}", "1:19: uri: must be a list, is text \"x\"\n");
	assert_says(KINDS, "{type: script, uri: []}", "1:21: uri: must be text, is a list\n");
}

TEST(test_check_branch_unknown)
{
	assert_says(KINDS, "{type: file}",
	            "1:8: type: must be one of \"data\", \"script\" or \"output\", is \"file\"\n");
	assert_says(KINDS, "{uri: x}", "1:1: misses the key `type`\n");
}

TEST(test_check_branch_by_type)
{
	const char *schema = "{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^[a-z]+$\"},"
			     "{\"type\":\"integer\",\"minimum\":0}]}";
	assert_says(schema, "-1", "1:1: must be at least 0, is -1\n");
	assert_says(schema, "A", "1:1: may only have small letters, is \"A\"\n");
	assert_says(schema, "[]", "1:1: must be text or an integer, is a list\n");
}

TEST(test_check_if_then)
{
	const char *schema = "{\"if\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
			     "\"then\":{\"required\":[\"b\"]}}";
	assert_says(schema, "{a: 1}", "1:1: misses the key `b`\n");
	assert_says(schema, "{a: 2}", "");
}

/* ---- secrets
 * ---------------------------------------------------------------------------------------- */

#define NUMBERS "{\"additionalProperties\":{\"additionalProperties\":{\"type\":\"null\"}}}"

TEST(test_check_secret_is_not_shown)
{
	assert_says(NUMBERS, "secrets: {pw: hunter2, pin: 1234}",
	            "1:15: secrets.pw: must be null, is text\n"
	            "1:29: secrets.pin: must be null, is an integer\n");
}

TEST(test_check_auth_is_not_shown)
{
	assert_says("{\"additionalProperties\":" NUMBERS "}", "a: {auth: {password: hunter2}}",
	            "1:22: a.auth.password: must be null, is text\n");
}

TEST(test_check_secret_is_not_shown_elsewhere)
{
	assert_says(NUMBERS, "{secrets: {}, a: {b: &x hunter2}, c: {auth: [*x]}}",
	            "1:22: a.b: must be null, is text\n"
	            "1:45: c.auth: must be null, is a list\n");
	assert_says("{\"properties\":{\"a\":{\"type\":\"null\"}}}",
	            "{a: curl -u hunter2, secrets: {pw: hunter2}}",
	            "1:5: a: must be null, is text\n");
}

TEST(test_check_shown_values_are_short)
{
	ERR_AUTO e = { 0 };
	char doc[5000];
	memset(doc, 'x', sizeof(doc));
	struct schema *s = schema_compile(SPAN("{\"type\":\"null\"}"), &e);
	assert_int_equal(check_text(s, (struct span){ doc, sizeof(doc) }, &e), -1);
	assert_true(strlen(err_msg(&e)) < 150);
	schema_free(s);
}

/* ---- schemas that are none
 * ----------------------------------------------------------------------- */

static void assert_no_schema(const char *text, const char *start)
{
	ERR_AUTO e = { 0 };
	STR_AUTO got = STR_INIT(FILE_MAX);
	struct schema *s = schema_compile(span_of(text), &e);
	assert_null(s);
	assert_int_equal(e.http, 500);
	put_notes(&got, &e);
	if (strncmp(str_c(&got), start, strlen(start)) != 0)
		fail_msg("expected \"%s...\", got \"%s\"", start, str_c(&got));
}

TEST(test_compile_unknown_keyword)
{
	assert_no_schema("{\"properties\":{\"a\":{\"minimun\":1}}}",
	                 "1:31: properties.a.minimun: schema: the keyword is not supported");
}

TEST(test_compile_bad_values)
{
	assert_no_schema("{\"type\":\"text\"}", "1:9: type: schema: unknown type");
	assert_no_schema("{\"pattern\":\"(\"}", "1:1: pattern: schema: no regular expression");
	assert_no_schema("{\"minLength\":-1}", "1:14: minLength: schema: must be a count");
	assert_no_schema("{\"required\":\"a\"}", "1:13: required: schema: must be a list");
	assert_no_schema("[]", "1:1: schema: a schema must be");
}

TEST(test_compile_unknown_escapes)
{
	assert_no_schema("{\"pattern\":\"\\\\p{L}\"}", "1:1: pattern: schema: no regular");
	assert_no_schema("{\"pattern\":\"x\\\\\"}", "1:1: pattern: schema: no regular");
	assert_no_schema("{\"pattern\":\"(?=a)\"}",
	                 "1:1: pattern: schema: no regular expression: (?=a): look-ahead is not "
	                 "supported, at byte 1");
}

TEST(test_check_pattern_escapes_and_classes)
{
	static const struct {
		const char *pattern, *text, *other;
	} CASES[] = {
		{ "^\\\\d+$", "12", "1a" },       { "[\\\\w-]*x$", "a-x", "a-" },
		{ "^[^]\\\\n]x", "ax", "]x" },    { "^[é]$", "é", "è" },
		{ "^é+$", "éé", "é\\xc3" },       { "^[^-a]$", "b", "-" },
		{ "^(|/[^\\u0001]*)$", "", "a" }, { "^.$", "b", "\\n" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		ARENA_AUTO a = { 0 };
		const char *schema = arena_printf(
		    &a, "{\"pattern\":\"%s\",\"patternErrorMessage\":\"no\"}", CASES[i].pattern);
		assert_says(schema, arena_printf(&a, "\"%s\"", CASES[i].text), "");
		ERR_AUTO e = { 0 };
		struct schema *s = schema_compile(span_of(schema), &e);
		assert_int_equal(
		    check_text(s, span_of(arena_printf(&a, "\"%s\"", CASES[i].other)), &e), -1);
		schema_free(s);
	}
}

TEST(test_compile_escaped_punctuation)
{
	assert_says("{\"pattern\":\"^[]a]\\\\.\\\\[$\"}", "\"].[\"", "");
}

TEST(test_check_pattern_counts_characters)
{
	assert_says("{\"pattern\":\"^.$\"}", "\"\xc3\xa9\"", "");
	assert_says("{\"pattern\":\"^.$\"}", "\"\xe6\x95\xb0\"", "");
	assert_says("{\"pattern\":\"^.{2}$\"}", "\"\xc3\xa9\"",
	            "1:1: must match the pattern ^.{2}$, is \"\xc3\xa9\"\n");
	assert_says("{\"pattern\":\"^[^/]{2,3}$\"}", "\"\xc3\xa9\xf0\x9f\x98\x80\"", "");
	assert_says("{\"pattern\":\"^[^/]{2,3}$\"}", "\"\xc3\xa9/\"",
	            "1:1: must match the pattern ^[^/]{2,3}$, is \"\xc3\xa9/\"\n");
	assert_says("{\"pattern\":\"^[^]a]+$\"}", "\"]\"",
	            "1:1: must match the pattern ^[^]a]+$, is \"]\"\n");
	assert_says("{\"pattern\":\"^x\xc3\xa9y.*$\"}", "\"x\xc3\xa9y\xc3\xa9\"", "");
}

TEST(test_compile_ref_leads_nowhere)
{
	assert_no_schema("{\"items\":{\"$ref\":\"#/definitions/a\"}}",
	                 "1:18: items: schema: $ref leads nowhere");
	assert_no_schema("{\"$ref\":\"#\"}", "1:9: schema: $ref leads nowhere");
	assert_no_schema("{\"$ref\":\"other.json\"}", "1:9: schema: $ref leads nowhere");
}

TEST(test_check_schema_in_circles)
{
	assert_says("{\"allOf\":[{\"$ref\":\"#\"}]}", "1",
	            "1:1: cannot be checked: the schema is circular\n");
	assert_says("{\"allOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}],\"not\":{\"$ref\":\"#\"}}", "1",
	            "1:1: cannot be checked: the schema is circular\n");
}

TEST(test_check_circle_in_not)
{
	assert_says("{\"not\":{\"$ref\":\"#\"}}", "1",
	            "1:1: cannot be checked: the schema is circular\n");
}

TEST(test_check_circle_in_condition)
{
	assert_says("{\"items\":{\"if\":{\"$ref\":\"#/items\"}}}", "[1]",
	            "1:2: [0]: cannot be checked: the schema is circular\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check_minimum),
		cmocka_unit_test(test_check_maximum),
		cmocka_unit_test(test_check_exclusive_bounds),
		cmocka_unit_test(test_check_type),
		cmocka_unit_test(test_check_type_of_several),
		cmocka_unit_test(test_check_type_plain_number_for_text),
		cmocka_unit_test(test_check_type_words_for_booleans),
		cmocka_unit_test(test_check_date_for_text),
		cmocka_unit_test(test_check_not_finite),
		cmocka_unit_test(test_check_integer_with_zero_fraction),
		cmocka_unit_test(test_check_enum),
		cmocka_unit_test(test_check_pattern),
		cmocka_unit_test(test_check_pattern_empty),
		cmocka_unit_test(test_check_pattern_own_words),
		cmocka_unit_test(test_check_lengths),
		cmocka_unit_test(test_check_counts),
		cmocka_unit_test(test_check_required),
		cmocka_unit_test(test_check_not),
		cmocka_unit_test(test_check_false),
		cmocka_unit_test(test_check_error_message),
		cmocka_unit_test(test_check_unknown_key_misspelt),
		cmocka_unit_test(test_check_unknown_key_is_not_missing_too),
		cmocka_unit_test(test_check_unknown_key_that_is_there_is_not_suggested),
		cmocka_unit_test(test_check_unknown_key_allowed_are_listed),
		cmocka_unit_test(test_check_bad_name),
		cmocka_unit_test(test_check_all_violations),
		cmocka_unit_test(test_check_one_sentence_per_scalar),
		cmocka_unit_test(test_check_counts_beyond_the_limit),
		cmocka_unit_test(test_check_many_violations_are_quick),
		cmocka_unit_test(test_check_branch_by_member),
		cmocka_unit_test(test_check_branch_unknown),
		cmocka_unit_test(test_check_branch_by_type),
		cmocka_unit_test(test_check_if_then),
		cmocka_unit_test(test_check_secret_is_not_shown),
		cmocka_unit_test(test_check_auth_is_not_shown),
		cmocka_unit_test(test_check_secret_is_not_shown_elsewhere),
		cmocka_unit_test(test_check_shown_values_are_short),
		cmocka_unit_test(test_compile_unknown_keyword),
		cmocka_unit_test(test_compile_bad_values),
		cmocka_unit_test(test_compile_unknown_escapes),
		cmocka_unit_test(test_check_pattern_escapes_and_classes),
		cmocka_unit_test(test_compile_escaped_punctuation),
		cmocka_unit_test(test_check_pattern_counts_characters),
		cmocka_unit_test(test_compile_ref_leads_nowhere),
		cmocka_unit_test(test_check_schema_in_circles),
		cmocka_unit_test(test_check_circle_in_not),
		cmocka_unit_test(test_check_circle_in_condition),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
