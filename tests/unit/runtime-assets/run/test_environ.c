/* The environment of the processes of a job. */
#include "runtime-assets/run/run_internal.h"

#include "tests/unit/base/cmocka.h"

/* The list joined by `|`. */
static const char *joined(struct environment *env)
{
	const char *text = "";
	for (char **v = environment_list(env); *v; v++)
		text = arena_printf(env->a, "%s%s%s", text, *text ? "|" : "", *v);
	return text;
}

TEST(test_environment_takes_the_last_value_of_a_name)
{
	NOTES_AUTO warnings = { 0 };
	struct environment env = { .a = &unit.a };
	environment_add(&env, "A=pod");
	environment_add(&env, "AB=pod");
	environment_add_text(&env, SPAN("B=1\0A=init\0B=2\0"), &warnings);
	environment_set(&env, "C", "run");
	assert_string_equal(joined(&env), "A=init|AB=pod|B=2|C=run");
	assert_string_equal(environment_get(&env, "B"), "2");
	assert_null(environment_get(&env, "BC"));
	assert_int_equal(warnings.n, 0);
}

TEST(test_environment_add_text_leaves_out_invalid_names)
{
	static const struct {
		struct span text;
		const char *warning;
	} CASES[] = {
		{ { "a-b=1", 6 }, "\"a-b\"" },           { { "=1", 3 }, "\"\"" },
		{ { "secret", 7 }, "without =" },        { { "9=1", 4 }, "\"9\"" },
		{ { "A=1", 3 }, "the last one is cut" }, { { "A\nB=1", 6 }, "\\n" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		NOTES_AUTO warnings = { 0 };
		struct environment env = { .a = &unit.a };
		environment_add_text(&env, CASES[i].text, &warnings);
		assert_int_equal(env.n, 0);
		assert_int_equal(warnings.n, 1);
		assert_null(strstr(warnings.v[0].msg, "secret"));
	}
}

TEST(test_environment_add_text_has_limits)
{
	NOTES_AUTO warnings = { 0 };
	struct environment env = { .a = &unit.a };
	char *text = arena_alloc(&unit.a, VARIABLE_MAX + 2);
	memset(text, 'x', VARIABLE_MAX + 2);
	text[1] = '=';
	text[VARIABLE_MAX] = '\0'; /* as long as may be */
	environment_add_text(&env, (struct span){ text, VARIABLE_MAX + 1 }, &warnings);
	assert_int_equal(env.n, 1);
	text[VARIABLE_MAX] = 'x';
	text[VARIABLE_MAX + 1] = '\0';
	environment_add_text(&env, (struct span){ text, VARIABLE_MAX + 2 }, &warnings);
	assert_int_equal(env.n, 1);
	assert_int_equal(warnings.n, 1);
}

TEST(test_environment_add_text_keeps_any_value)
{
	NOTES_AUTO warnings = { 0 };
	struct environment env = { .a = &unit.a };
	environment_add_text(&env, SPAN("A=\0B==\0C='`$\n\0"), &warnings);
	assert_string_equal(joined(&env), "A=|B==|C='`$\n");
}

/* Values of the container are kept; a different value gives a warning without the value. */
TEST(test_environment_add_absent_keeps_existing_values)
{
	NOTES_AUTO warnings = { 0 };
	struct environment env = { .a = &unit.a };
	environment_add(&env, "A=image");
	environment_add(&env, "B=same");
	environment_add_absent(&env, SPAN("A=init\0B=same\0C=new\0AB=\0cut=off"), &warnings);
	assert_string_equal(environment_get(&env, "A"), "image");
	assert_string_equal(environment_get(&env, "C"), "new");
	assert_string_equal(environment_get(&env, "AB"), "");
	assert_null(environment_get(&env, "cut"));
	assert_int_equal(warnings.n, 1);
	assert_string_equal(warnings.v[0].msg,
	                    "extras.distributed: the container has A already, which stays");
}
