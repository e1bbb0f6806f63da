/* Violations: their sentences and places. */
#include "kit.h"

struct row {
	const char *schema, *doc, *says;
};

static void assert_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_says(rows[i].schema, rows[i].doc, rows[i].says);
}

/* ---- one keyword each ---- */

static const struct row KEYWORDS[] = {
	{ "{'items':{'minimum':1}}", "- 1\n- 0\n", "2:3: [1]: must be at least 1, is 0\n" },
	{ "{'maximum':2.5}", "3", "1:1: must be at most 2.5, is 3\n" },
	{ "{'type':'integer'}", "\"2\"", "1:1: must be an integer, is text \"2\"\n" },
	{ "{'type':'integer'}", "1.5", "1:1: must be an integer, is the number 1.5\n" },
	{ "{'type':'array'}", "a: 1", "1:1: must be a list, is a mapping\n" },
	{ "{'type':'object'}", "~", "1:1: must be a mapping, is null\n" },
	{ "{'type':['string','number','integer','null']}", "[]",
	  "1:1: must be text or a number, is a list\n" },
	{ "{'type':['string','boolean','array']}", "{}",
	  "1:1: must be text, a boolean or a list, is a mapping\n" },
	{ "{'type':'string'}", "12", "1:1: must be text, is the number 12; put it in quotes\n" },
	{ "{'items':{'type':'string'}}", "[true]",
	  "1:2: [0]: must be text, is true; put it in quotes\n" },
	{ "{'type':'boolean'}", "no",
	  "1:1: must be a boolean, is text \"no\"; write true or false\n" },
	{ "{'type':'string'}", "2001-12-14", "1:1: looks like a date; quote it to make it text\n" },
	{ "{'type':'string'}", "\"2001-12-14\"", "" },
	{ "true", "2001-12-14", "" },
	{ "{'type':'integer'}", ".inf", "1:1: is not a finite number\n" },
	{ "{'type':'number'}", "1e400", "1:1: is not a finite number\n" },
	{ "{'minimum':1}", ".nan", "1:1: is not a finite number\n" },
	{ "{'type':'integer'}", "2.0", "" },
	{ "{'type':'integer'}", "9007199254740995", "" },
	{ "{'type':'integer'}", "1e300", "" },
	{ "{'enum':['2',2]}", "1", "1:1: must be \"2\" or 2, is 1\n" },
	{ "{'enum':['a','b',null]}", "c", "1:1: must be one of \"a\", \"b\" or null, is \"c\"\n" },
	{ "{'const':'job'}", "[]", "1:1: must be \"job\", is a list\n" },
	{ "{'pattern':'^[a-zA-Z0-9_-]+$'}", "a b",
	  "1:1: must match the pattern ^[a-zA-Z0-9_-]+$, is \"a b\"\n" },
	{ "{'pattern':'^[a-z_][a-z0-9_]*$'}", "1a",
	  "1:1: must match the pattern ^[a-z_][a-z0-9_]*$, is \"1a\"\n" },
	{ "{'pattern':'^[a-z]+$'}", "\"\"", "1:1: must not be empty\n" },
	{ "{'pattern':'^(a|b)+$','patternErrorMessage':'must be of a and b'}", "abc",
	  "1:1: must be of a and b, is \"abc\"\n" },
	{ "{'pattern':'^(a|b)+$'}", "abc", "1:1: must match the pattern ^(a|b)+$, is \"abc\"\n" },
	{ "{'maxLength':2}", "éüa", "1:1: must have at most 2 characters, has 3\n" },
	{ "{'minLength':2}", "é", "1:1: must have at least 2 characters, has 1\n" },
	{ "{'minLength':1}", "\"\"", "1:1: must not be empty\n" },
	{ "{'minItems':1}", "[]", "1:1: must have at least one item\n" },
	{ "{'minProperties':1}", "{}", "1:1: must have at least one member\n" },
	{ "{'maxItems':2}", "[1,2,3]", "1:1: must have at most 2 items, has 3\n" },
	{ "{'properties':{'a':{'required':['b','c']}}}", "a:\n  b: 1\n",
	  "2:3: a: misses the key `c`\n" },
	{ "{'not':{'const':0}}", "0", "1:1: must not be 0\n" },
	{ "{'properties':{'a':false}}", "a: 1", "1:4: a: is not allowed here\n" },
	{ "{'type':'object','errorMessage':'put it back'}", "abc",
	  "1:1: must be a mapping, is text \"abc\"; put it back\n" },
};

/* ---- unknown keys, and several mistakes ---- */

#define CLOSED                                                                                     \
	"{'properties':{'instances':{'minimum':1},'dockerImage':{}},"                              \
	"'required':['dockerImage'],'additionalProperties':false}"

static const struct row KEYS[] = {
	{ CLOSED, "dockerImage: a\n  \nintances: 2\n",
	  "3:1: intances: unknown key `intances`, did you mean `instances`?\n" },
	/* It is not missing, too. */
	{ CLOSED, "dockerimage: a\n",
	  "1:1: dockerimage: unknown key `dockerimage`, did you mean `dockerImage`?\n" },
	/* Keys that the mapping already has are not suggested. */
	{ CLOSED, "{dockerImage: a, dockerImages: b}",
	  "1:18: dockerImages: unknown key `dockerImages`; allowed are `instances` and "
	  "`dockerImage`\n" },
	{ CLOSED, "{dockerImage: a, zebra: b}",
	  "1:18: zebra: unknown key `zebra`; allowed are `instances` and `dockerImage`\n" },
	{ "{'patternProperties':{'^[a-z]+$':{}},'additionalProperties':false}", "{a: 1, 'b;c': 2}",
	  "1:8: [\"b;c\"]: bad name \"b;c\": must match the pattern ^[a-z]+$\n" },
	{ CLOSED, "instances: 0\nfoo: 1\n",
	  "1:12: instances: must be at least 1, is 0\n"
	  "2:1: foo: unknown key `foo`; allowed are `instances` and `dockerImage`\n"
	  "1:1: misses the key `dockerImage`\n" },
	/* One sentence for each scalar. */
	{ "{'type':'string','minLength':3,'pattern':'^[a-z]+$'}", "\"1\"",
	  "1:1: must have at least 3 characters, has 1\n" },
};

TEST(test_check_counts_violations_beyond_the_limit)
{
	const struct schema *s = schema_compile(SPAN("{\"items\":{\"type\":\"null\"}}"), &unit.a);
	assert_int_equal(check_text(s,
	                            SPAN("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,"
	                                 "21,22,23]"),
	                            no_err()),
	                 -1);
	assert_int_equal(unit.e.notes.n, NOTES_MAX);
	assert_int_equal(unit.e.notes.dropped, 23 - NOTES_MAX);
}

TEST(test_check_reports_many_violations_quickly)
{
	STR_AUTO doc = STR_INIT(FILE_MAX);
	str_puts(&doc, "a: [");
	str_many(&doc, "x,", 40000);
	str_puts(&doc, "]\nsecrets: {a: longer secret}\n");
	const struct schema *s =
	    schema_compile(SPAN("{\"properties\":{\"a\":{\"items\":{\"enum\":[1]}}}}"), &unit.a);
	assert_int_equal(check_text(s, str_view(&doc), no_err()), -1);
	assert_int_equal(unit.e.notes.dropped, 40000 - NOTES_MAX);
}

/* ---- branches ---- */

#define KINDS                                                                                      \
	"{'oneOf':[{'properties':{'type':{'enum':['data']},'uri':{'type':'array'}},"               \
	"'required':['type']},{'properties':{'type':{'enum':['script','output']},"                 \
	"'uri':{'type':'string'}},'required':['type']}]}"
#define ANY                                                                                        \
	"{'anyOf':[{'type':'string','pattern':'^[a-z]+$'},{'type':'integer',"                      \
	"'minimum':0}]}"
#define IF                                                                                         \
	"{'if':{'properties':{'a':{'const':1}},'required':['a']},"                                 \
	"'then':{'required':['b']}}"

static const struct row BRANCHES[] = {
	{ KINDS, "{type: data, uri: x}", "1:19: uri: must be a list, is text \"x\"\n" },
	{ KINDS, "{type: script, uri: []}", "1:21: uri: must be text, is a list\n" },
	{ KINDS, "{type: file}",
	  "1:8: type: must be one of \"data\", \"script\" or \"output\", is \"file\"\n" },
	{ KINDS, "{uri: x}", "1:1: misses the key `type`\n" },
	{ ANY, "-1", "1:1: must be at least 0, is -1\n" },
	{ ANY, "A", "1:1: must match the pattern ^[a-z]+$, is \"A\"\n" },
	{ ANY, "[]", "1:1: must be text or an integer, is a list\n" },
	{ IF, "{a: 1}", "1:1: misses the key `b`\n" },
	{ IF, "{a: 2}", "" },
};

/* ---- secrets ---- */

#define NUMBERS "{'additionalProperties':{'additionalProperties':{'type':'null'}}}"

static const struct row SECRETS[] = {
	{ NUMBERS, "secrets: {pw: hunter2, pin: 1234}",
	  "1:15: secrets.pw: must be null, is text\n"
	  "1:29: secrets.pin: must be null, is an integer\n" },
	{ "{'additionalProperties':" NUMBERS "}", "a: {auth: {password: hunter2}}",
	  "1:22: a.auth.password: must be null, is text\n" },
	{ NUMBERS, "{secrets: {}, a: {b: &x hunter2}, c: {auth: [*x]}}",
	  "1:22: a.b: must be null, is text\n"
	  "1:45: c.auth: must be null, is a list\n" },
	{ "{'properties':{'a':{'type':'null'}}}", "{a: curl -u hunter2, secrets: {pw: hunter2}}",
	  "1:5: a: must be null, is text\n" },
};

TEST(test_check_shortens_values_in_messages)
{
	char doc[5000];
	memset(doc, 'x', sizeof(doc));
	const struct schema *s = schema_compile(SPAN("{\"type\":\"null\"}"), &unit.a);
	assert_int_equal(check_text(s, (struct span){ doc, sizeof(doc) }, no_err()), -1);
	assert_true(strlen(err_msg(&unit.e)) < 150);
}

/* ---- patterns ---- */

static const struct row PATTERNS[] = {
	{ "{'pattern':'^[]a]\\\\.\\\\[$'}", "\"].[\"", "" },
	/* Characters are counted. */
	{ "{'pattern':'^.$'}", "\"\xc3\xa9\"", "" },
	{ "{'pattern':'^.$'}", "\"\xe6\x95\xb0\"", "" },
	{ "{'pattern':'^.{2}$'}", "\"\xc3\xa9\"",
	  "1:1: must match the pattern ^.{2}$, is \"\xc3\xa9\"\n" },
	{ "{'pattern':'^[^/]{2,3}$'}", "\"\xc3\xa9\xf0\x9f\x98\x80\"", "" },
	{ "{'pattern':'^[^/]{2,3}$'}", "\"\xc3\xa9/\"",
	  "1:1: must match the pattern ^[^/]{2,3}$, is \"\xc3\xa9/\"\n" },
	{ "{'pattern':'^[^]a]+$'}", "\"]\"", "1:1: must match the pattern ^[^]a]+$, is \"]\"\n" },
	{ "{'pattern':'^x\xc3\xa9y.*$'}", "\"x\xc3\xa9y\xc3\xa9\"", "" },
};

TEST(test_check_patterns_have_escapes_and_classes)
{
	static const struct {
		const char *pattern, *text, *other;
	} CASES[] = {
		{ "^\\\\d+$", "12", "1a" },       { "[\\\\w-]*x$", "a-x", "a-" },
		{ "^[^]\\\\n]x", "ax", "]x" },    { "^[é]$", "é", "è" },
		{ "^é+$", "éé", "é\\xc3" },       { "^[^-a]$", "b", "-" },
		{ "^(|/[^\\u0001]*)$", "", "a" }, { "^.$", "b", "\\n" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		const char *schema =
		    arena_printf(&unit.a, "{\"pattern\":\"%s\",\"patternErrorMessage\":\"no\"}",
		                 CASES[i].pattern);
		assert_says(schema, arena_printf(&unit.a, "\"%s\"", CASES[i].text), "");
		const struct schema *s = schema_compile(span_of(schema), &unit.a);
		assert_int_equal(
		    check_text(s, span_of(arena_printf(&unit.a, "\"%s\"", CASES[i].other)),
		               no_err()),
		    -1);
	}
}

TEST(test_check_gives_the_expected_sentences)
{
	assert_rows(KEYWORDS, ARRAY_SIZE(KEYWORDS));
	assert_rows(KEYS, ARRAY_SIZE(KEYS));
	assert_rows(BRANCHES, ARRAY_SIZE(BRANCHES));
	assert_rows(SECRETS, ARRAY_SIZE(SECRETS));
	assert_rows(PATTERNS, ARRAY_SIZE(PATTERNS));
}
