/* Trees: look-up, comparison, JSON, places. */
#include "tests/unit/base/read.h"

static bool same(const char *x, const char *y)
{
	struct run a = run_doc(x);
	AUTO(run_done) struct run b = run_doc(y);
	bool equal = node_equal(&a.doc.root, &b.doc.root);
	assert_int_equal(node_equal(&b.doc.root, &a.doc.root), equal);
	run_done(&a);
	return equal;
}

TEST(test_node_equal_ignores_order_and_spelling)
{
	assert_true(same("{a: 1, b: [x, null]}", "b: ['x', ~]\na: 1.0\n"));
	assert_true(same("9007199254740994", "9007199254740994.0"));
	assert_true(same("[.nan, .inf]", "[.NaN, .Inf]"));
	assert_false(same("{a: 1}", "{b: 1}"));
	assert_false(same("{a: 1}", "{a: 1, b: 1}"));
	assert_false(same("[1, 2]", "[2, 1]"));
	assert_false(same("[1]", "[1, 1]"));
	assert_false(same("1", "'1'"));
	assert_false(same("true", "false"));
	assert_false(same("null", "''"));
	assert_false(same("[]", "{}"));
	assert_false(same("2001-01-01", "'2001-01-01'"));
}

TEST(test_node_get_finds_members_by_key)
{
	AUTO(run_done) struct run r = run_doc("{a: 1, ab: 2, '': 3}");
	assert_int_equal(node_get(&r.doc.root, "ab")->integer, 2);
	assert_int_equal(node_get(&r.doc.root, "")->integer, 3);
	assert_null(node_get(&r.doc.root, "b"));
	assert_null(node_get(node_get(&r.doc.root, "a"), "a"));
	assert_null(node_get(NULL, "a"));
}

TEST(test_node_type_name_names_all_types)
{
	AUTO(run_done) struct run r = run_doc("[null, true, 1, 1.5, a, 2001-01-01, [], {}]");
	static const char *const NAMES[] = { "null", "a boolean", "an integer", "a number",
		                             "text", "a date",    "a list",     "a mapping" };
	for (size_t i = 0; i < 8; i++)
		assert_string_equal(node_type_name(&r.doc.root.item[i]), NAMES[i]);
}

TEST(test_node_json_writes_json)
{
	assert_reads(
	    "[null, true, -1, 1.5, \"a\\\"\\n\", 2001-01-01, .nan, -.inf, {\"b\\\\\": []}]",
	    "[null,true,-1,1.5,\"a\\\"\\n\",\"2001-01-01\",null,null,{\"b\\\\\":[]}]");
}

TEST(test_path_place_gives_pointer_line_and_column)
{
	AUTO(run_done) struct run r = run_doc("a:\n  - b~/c: 1\n");
	const struct node *list = node_get(&r.doc.root, "a");
	const struct member *m = &list->item[0].member[0];
	struct path first = PATH_KEY(NULL, SPAN("a"));
	struct path second = PATH_INDEX(&first, 0);
	struct path third = PATH_KEY(&second, member_key(m));
	struct place at = path_place(&unit.a, &third, &m->value);
	assert_string_equal(at.at, "/a/0/b~0~1c");
	assert_int_equal(at.line, 2);
	assert_int_equal(at.column, 11);
	at = path_place_key(&unit.a, &second, m);
	assert_string_equal(at.at, "/a/0/b~0~1c");
	assert_int_equal(at.column, 5);
	at = path_place(&unit.a, NULL, NULL);
	assert_string_equal(at.at, "");
	assert_int_equal(at.line, 0);
}
