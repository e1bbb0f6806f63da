/* The facts file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "schema/check.h"
#include "translate/translate.h"

static const char FILE_TEXT[] = "virtualClusters: [default, vc1]\n"
				"storages:\n"
				"- {name: nfs, default: true}\n"
				"- {name: own, share: false, readOnly: true}\n"
				"users:\n"
				"  bob:\n"
				"    virtualClusters: [vc1]\n"
				"    storages: [own]\n"
				"    extension: {sshKeys: []}\n"
				"submittedAt: 2026-11-20T10:25:38Z\n";

static int set_up(void **state)
{
	(void)state;
	schema_init();
	return 0;
}

static int read_facts(const char *text, const char *user, struct arena *a, struct facts *f)
{
	ERR_AUTO e = { 0 };
	int rc = facts_read(span_of(text), user, a, f, &e);
	assert_int_equal(e.http, rc < 0 ? 500 : 0);
	return rc;
}

static void test_read_empty_allows_every_cluster(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	struct facts f;
	assert_int_equal(read_facts(" \n", "alice", &a, &f), 0);
	assert_true(f.any_virtual_cluster);
	assert_int_equal(f.n_storages, 0);
}

static void test_read_user_who_is_not_listed(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	struct facts f;
	assert_int_equal(read_facts(FILE_TEXT, "alice", &a, &f), 0);
	assert_false(f.any_virtual_cluster);
	assert_int_equal(f.n_virtual_clusters, 2);
	assert_int_equal(f.n_storages, 2);
	assert_true(f.storages[0].is_default && f.storages[0].share && !f.storages[0].read_only);
	assert_true(!f.storages[1].is_default && !f.storages[1].share && f.storages[1].read_only);
	assert_null(f.extension);
}

static void test_read_user_who_is_listed(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	struct facts f;
	assert_int_equal(read_facts(FILE_TEXT, "bob", &a, &f), 0);
	assert_int_equal(f.n_virtual_clusters, 1);
	assert_int_equal(f.n_storages, 1);
	assert_true(span_is(f.storages[0].name, "own"));
	assert_non_null(node_get(f.extension, "sshKeys"));
}

static void test_read_time(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t ms;
	} CASES[] = {
		{ "submittedAt: 2026-11-20T10:25:38Z", 1795170338000 },
		{ "submittedAt: \"2026-11-20T10:25:38.5Z\"", 1795170338000 },
		{ "submittedAt: \"1970-01-01T00:00:00Z\"", 0 },
		{ "submittedAt: \"2000-02-29T23:59:59Z\"", 951868799000 },
		{ "submittedAt: \"2100-03-01T00:00:00Z\"", 4107542400000 },
		{ "submittedAt: 1795170338123", 1795170338123 },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		ARENA_AUTO a = { 0 };
		struct facts f;
		assert_int_equal(read_facts(CASES[i].text, "alice", &a, &f), 0);
		assert_int_equal(f.submitted_ms, CASES[i].ms);
	}
}

static void test_read_json(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	struct facts f;
	assert_int_equal(read_facts("{\"virtualClusters\":[]}", "alice", &a, &f), 0);
	assert_false(f.any_virtual_cluster);
	assert_int_equal(f.n_virtual_clusters, 0);
}

static void test_read_refuses(void **state)
{
	(void)state;
	static const char *const CASES[] = { "a: [",
		                             "virtualCluster: []",
		                             "storages: [{name: ../x}]",
		                             "users: {bob: {storages: [nix]}}",
		                             "[]",
		                             "submittedAt: yesterday" };
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		ARENA_AUTO a = { 0 };
		struct facts f;
		if (read_facts(CASES[i], "bob", &a, &f) == 0)
			fail_msg("taken: %s", CASES[i]);
	}
}

static void test_read_says_where(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct facts f;
	struct span text = SPAN("users: {bob: {\n  storages: [nix]}}");
	assert_int_equal(facts_read(text, "bob", &a, &f, &e), -1);
	assert_int_equal(e.http, 500);
	assert_int_equal(e.notes.v[0].line, 2);
	assert_string_equal(err_msg(&e), "storage `nix` is granted but not listed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_empty_allows_every_cluster),
		cmocka_unit_test(test_read_user_who_is_not_listed),
		cmocka_unit_test(test_read_user_who_is_listed),
		cmocka_unit_test(test_read_time),
		cmocka_unit_test(test_read_json),
		cmocka_unit_test(test_read_refuses),
		cmocka_unit_test(test_read_says_where),
	};
	return cmocka_run_group_tests(tests, set_up, NULL);
}
