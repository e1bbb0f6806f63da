/*
 * Cases of the JSON Schema Test Suite, and more of our own in the same form.
 * Prints each case that has another verdict.
 */
#include "base/doc/tree.h"
#include "kit.h"

struct tally {
	unsigned cases, wrong;
};

static const struct schema *compile_node(const struct node *schema)
{
	STR_AUTO text = STR_INIT(FILE_MAX);
	node_json(&text, schema);
	return schema_compile(str_view(&text), &unit.a);
}

static void run_case(const struct schema *s, const struct node *group, const struct node *test,
                     struct tally *t)
{
	bool valid = node_get(test, "valid")->boolean;
	bool got = schema_check(s, node_get(test, "data"), "X", NULL, no_err()) == 0;
	t->cases++;
	if (got == valid && (got ? unit.e.notes.n == 0 : unit.e.notes.n > 0))
		return;
	t->wrong++;
	print_error("%s: %s: should be %s: %s\n", node_get(group, "description")->text,
	            node_get(test, "description")->text, valid ? "valid" : "invalid",
	            err_msg(&unit.e));
}

static void run_group(const struct node *group, struct tally *t)
{
	const struct schema *s = compile_node(node_get(group, "schema"));
	const struct node *tests = node_get(group, "tests");
	for (uint32_t i = 0; i < tests->n; i++)
		run_case(s, group, &tests->item[i], t);
}

static struct tally run_suite(const char *path)
{
	ARENA_AUTO arena = { 0 };
	struct doc doc;
	struct tally t = { 0, 0 };
	const struct budget budget = BUDGET_DEFAULT;
	if (json_read(unit_read(path), &budget, &arena, &doc, NULL, no_err()) < 0)
		fail_msg("%s: %s", path, err_msg(&unit.e));
	const struct node *files = node_get(&doc.root, "files");
	for (uint32_t i = 0; i < files->n; i++) {
		const struct node *groups = node_get(&files->item[i], "groups");
		for (uint32_t j = 0; j < groups->n; j++)
			run_group(&groups->item[j], &t);
	}
	print_message("%s: %u cases\n", path, t.cases);
	return t;
}

TEST(test_conformance_suite_gives_the_expected_verdicts)
{
	struct tally t = run_suite("tests/data/schema/suite.json");
	assert_int_equal(t.wrong, 0);
	assert_int_equal(t.cases, 273);
}

TEST(test_conformance_own_cases_give_the_expected_verdicts)
{
	struct tally t = run_suite("tests/data/schema/own.json");
	assert_int_equal(t.wrong, 0);
	assert_int_equal(t.cases, 826);
}
