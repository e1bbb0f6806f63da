/* Is a text the document of a tree? */
#include "base/yaml/yaml.h"
#include "tests/unit/base/cmocka.h"

/* The values of `hide`, members at the top of `before` in their order, are hidden as "***". */
static bool same(const char *before, const char *after, const char *const *hide)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO w = { 0 };
	struct doc doc = { 0 };
	const struct node *v[4] = { NULL };
	struct hidden hidden = { v, 0, "***" };
	assert_int_equal(doc_read(span_of(before), &BUDGET_DEFAULT, &a, &doc, &w, &e), 0);
	for (; hide && *hide; hide++)
		v[hidden.n++] = node_get(&doc.root, *hide);
	return yaml_same(span_of(after), &doc.root, &hidden, &a);
}

TEST(test_yaml_same_is)
{
	static const char *const TEXTS[] = {
		"a: 1\nb: [x, 'y', {z: ~}]\nc: |\n  text\n",
		"- 1\n- -1.5\n- 0x10\n- .nan\n- true\n- 2001-01-01\n- \"1\"\n-\n",
		"type: x\nname: n\ntrue1: []\nempty: {}\n",
		"x: hello!\ny: \"!z\"\n",
		"# \xc3\xa4\na: \xc3\xa4\n",
		"just text",
	};
	for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++)
		assert_true(same(TEXTS[i], TEXTS[i], NULL));
	assert_true(same("a: 1\nb: x\n", "{a: 1, 'b': x} # written otherwise", NULL));
	assert_true(same("a: 17\n", "a: 021\n", NULL));
}

TEST(test_yaml_same_is_not)
{
	static const char *const PAIRS[][2] = {
		{ "a: 1\n", "a: 2\n" },
		{ "a: 1\n", "a: '1'\n" },
		{ "a: '1'\n", "a: 1\n" },
		{ "a: x\n", "b: x\n" },
		{ "a: x\n", "a: X\n" },
		{ "a: x\n", "a: 'x'\n" }, /* the same, but that is left to the reader */
		{ "a: true\n", "a: false\n" },
		{ "a: ~\n", "a: false\n" },
		{ "a: 1\nb: 2\n", "a: 1\n" },
		{ "a: 1\n", "a: 1\nb: 2\n" },
		{ "a: 1\nb: 2\n", "b: 2\na: 1\n" },
		{ "a: [1, 2]\n", "a: [1]\n" },
		{ "a: [1]\n", "a: [1, 2]\n" },
		{ "a: [1]\n", "a: {x: 1}\n" },
		{ "a: []\n", "a: {}\n" },
		{ "a: []\n", "a: x\n" },
		{ "a: x\n", "a: []\n" },
		{ "a: [[1]]\n", "a: [1]\n" },
		{ "a: 1\n", "a: 1\n--- b\n" },
		{ "a: 1\n", "a: 1\n}\n" },
		{ "a: 1\n", "" },
		{ "'1.0': x\n", "1.0: x\n" }, /* would be the key 1 */
		{ "'true': x\n", "true: x\n" },
		{ "'<<': {b: 1}\n", "<<: {b: 1}\n" },
	};
	for (size_t i = 0; i < sizeof(PAIRS) / sizeof(*PAIRS); i++)
		if (same(PAIRS[i][0], PAIRS[i][1], NULL))
			fail_msg("%s = %s", PAIRS[i][0], PAIRS[i][1]);
}

/* What only the reader understands: then it is asked. */
TEST(test_yaml_same_leaves_to_the_reader)
{
	static const char *const TEXTS[] = {
		"a: &x 1\n",
		"&x a: 1\n",
		"a: &x 1\nb: *x\n",
		"a: &x [1]\n",
		"a: &x {b: 1}\nc: {<<: *x}\n",
		"a: !!str 1\n",
		"a: !!seq [1]\n",
		"a: ! x\n",
		"1: x\n",
		"a: b\n# \xe2\x80\xa8\n",
		"a: \xc3\xa4!\n",
		"\357\273\277a: b\n", /* a byte-order mark */
	};
	for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++)
		if (same(TEXTS[i], TEXTS[i], NULL))
			fail_msg("%s", TEXTS[i]);
}

TEST(test_yaml_same_hides)
{
	static const char *const B[] = { "b", NULL };
	static const char *const AB[] = { "a", "b", NULL };
	static const char WAS[] = "a: x\nb: {c: 1}\nd: 2\n";
	assert_true(same(WAS, "a: x\nb: '***'\nd: 2\n", B));
	assert_true(same(WAS, "a: \"***\"\nb: \"***\"\nd: 2\n", AB));
	assert_false(same(WAS, WAS, B));
	assert_false(same(WAS, WAS, AB));
	assert_false(same(WAS, "a: x\nb: ***\nd: 2\n", B));
	assert_false(same(WAS, "a: x\nb: '**'\nd: 2\n", B));
	assert_false(same(WAS, "a: x\nb: ['***']\nd: 2\n", B));
	assert_false(same(WAS, "a: x\nb: '***'\nd: 3\n", B));
	assert_false(same(WAS, "a: x\nb: '***'\n", B));
	assert_false(same(WAS, "a: x\nb: '***'\nd: 2\n", AB));
	assert_false(same(WAS, "a: '***'\nb: '***'\nd: 2\n", B));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_yaml_same_is),
		cmocka_unit_test(test_yaml_same_is_not),
		cmocka_unit_test(test_yaml_same_leaves_to_the_reader),
		cmocka_unit_test(test_yaml_same_hides),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
