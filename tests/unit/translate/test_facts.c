/* The facts file. */

#include "tests/unit/base/cmocka.h"

#include "schema/schema.h"
#include "tests/unit/translate/facts_kit.h"

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

FIXTURE(set_up)
{
	schema_init();
	return 0;
}

static int read_facts(const char *text, const char *user, struct arena *a, struct facts *f)
{
	int rc = facts_read(span_of(text), user, a, f, no_err());
	assert_int_equal(unit.e.http, rc < 0 ? 500 : 0);
	return rc;
}

TEST(test_read_empty_allows_every_cluster)
{
	struct facts f;
	assert_int_equal(read_facts(" \n", "alice", &unit.a, &f), 0);
	assert_true(f.any_virtual_cluster);
	assert_int_equal(f.n_storages, 0);
}

TEST(test_read_gives_the_defaults_to_a_user_not_listed)
{
	struct facts f;
	assert_int_equal(read_facts(FILE_TEXT, "alice", &unit.a, &f), 0);
	assert_false(f.any_virtual_cluster);
	assert_int_equal(f.n_virtual_clusters, 2);
	assert_int_equal(f.n_storages, 2);
	assert_true(f.storages[0].is_default && f.storages[0].share && !f.storages[0].read_only);
	assert_true(!f.storages[1].is_default && !f.storages[1].share && f.storages[1].read_only);
	assert_null(f.extension);
}

TEST(test_read_gives_a_listed_user_its_own_facts)
{
	struct facts f;
	assert_int_equal(read_facts(FILE_TEXT, "bob", &unit.a, &f), 0);
	assert_int_equal(f.n_virtual_clusters, 1);
	assert_int_equal(f.n_storages, 1);
	assert_true(span_is(f.storages[0].name, "own"));
	assert_non_null(node_get(f.extension, "sshKeys"));
}

/* Storages that grant directories are not PersistentVolumeClaims. */
TEST(test_read_directories_are_no_claims)
{
	static const char TEXT[] = "storages:\n"
				   "- {name: pv}\n"
				   "- {name: data, hostPath: /data/x/.y, readOnly: true}\n"
				   "- {name: all, nfs: {server: 10.0.0.5, path: /}}\n"
				   "- {name: own, nfs: {server: fs, path: /home}}\n"
				   "users: {bob: {storages: [own]}}\n";
	static const char *const BAD[] = {
		"hostPath: /",    "hostPath: a",    "hostPath: /a/../b",         "hostPath: /a//b",
		"hostPath: /a/.", "nfs: {path: /}", "nfs: {server: -x, path: /}"
	};
	struct facts f;
	struct facts none;
	assert_int_equal(read_facts(TEXT, "bob", &unit.a, &f), 0);
	assert_int_equal(f.n_storages, 0);
	assert_int_equal(f.n_directories, 1);
	assert_true(span_is(f.directories[0].source, "nfs://fs/home"));
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
		FREE_AUTO char *text = xasprintf("storages: [{name: a, %s}]\n", BAD[i]);
		assert_int_equal(read_facts(text, "bob", &unit.a, &none), -1);
	}
}

TEST(test_read_takes_times_as_text_and_milliseconds)
{
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
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct facts f;
		assert_int_equal(read_facts(CASES[i].text, "alice", &unit.a, &f), 0);
		assert_int_equal(f.submitted_ms, CASES[i].ms);
	}
}

TEST(test_read_takes_facts_in_json)
{
	struct facts f;
	assert_int_equal(read_facts("{\"virtualClusters\":[]}", "alice", &unit.a, &f), 0);
	assert_false(f.any_virtual_cluster);
	assert_int_equal(f.n_virtual_clusters, 0);
}

TEST(test_read_refuses_unknown_keys_and_names)
{
	static const char *const CASES[] = { "a: [",
		                             "virtualCluster: []",
		                             "storages: [{name: ../x}]",
		                             "users: {bob: {storages: [nix]}}",
		                             "[]",
		                             "submittedAt: yesterday" };
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct facts f;
		if (read_facts(CASES[i], "bob", &unit.a, &f) == 0)
			fail_msg("taken: %s", CASES[i]);
	}
}

/* Errors of the file are logged. */
TEST(test_read_errors_do_not_quote_extensions)
{
	static const char *const CASES[] = {
		"users: {bob: {extension: MARKER}}",
		"users: {bob: {extension: [MARKER]}}",
		"users: {bob: {extension: {githubPAT: MARKER-X}, email: [MARKER-X]}}",
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct facts f;
		assert_int_equal(facts_read(span_of(CASES[i]), "bob", &unit.a, &f, no_err()), -1);
		for (size_t k = 0; k < unit.e.notes.n; k++) {
			STR_AUTO text = STR_INIT(4096);
			note_text(&text, &unit.e.notes.v[k]);
			assert_null(strstr(str_c(&text), "MARKER"));
		}
	}
}

/* translate prints what serve would send. */
TEST(test_read_merges_groups_into_their_users)
{
	static const char TEXT[] = "virtualClusters: [default, vc1, vc2]\n"
				   "storages: [{name: nfs}, {name: own}, {name: other}]\n"
				   "groups: {g: {virtualClusters: [vc1], storages: [nfs]}}\n"
				   "users: {bob: {groups: [g, g], virtualClusters: [vc2, vc1],\n"
				   "  storages: [own]}}\n"
				   "others: refuse\n";
	struct facts f;
	assert_int_equal(read_facts(TEXT, "bob", &unit.a, &f), 0);
	assert_int_equal(f.n_virtual_clusters, 2);
	assert_true(span_is(f.virtual_clusters[0], "vc2") && span_is(f.virtual_clusters[1], "vc1"));
	assert_int_equal(f.n_storages, 2);
	assert_true(span_is(f.storages[0].name, "nfs") && span_is(f.storages[1].name, "own"));
}

TEST(test_read_lets_administrators_use_every_cluster)
{
	struct facts f;
	static const char TEXT[] = "groups: {g: {admin: true}}\n"
				   "users: {bob: {groups: [g], virtualClusters: []}}\n";
	assert_int_equal(read_facts(TEXT, "bob", &unit.a, &f), 0);
	assert_true(f.any_virtual_cluster);
	assert_int_equal(f.n_storages, 0);
}

/* Errors of any user are reported, before that user submits a job. */
TEST(test_read_checks_all_users_of_the_file)
{
	struct facts f;
	struct span text = SPAN("storages: []\n"
	                        "users:\n"
	                        "  bob: {groups: [x]}\n"
	                        "  eve: {storages: [y]}\n");
	assert_int_equal(facts_read(text, "alice", &unit.a, &f, no_err()), -1);
	assert_int_equal(unit.e.notes.n, 2);
	assert_int_equal(unit.e.notes.v[0].line, 3);
	assert_int_equal(unit.e.notes.v[0].column, 18);
	assert_string_equal(unit.e.notes.v[0].msg, "group `x` is named but not defined");
	assert_int_equal(unit.e.notes.v[1].line, 4);
}

TEST(test_read_takes_30000_users)
{
	STR_AUTO text = STR_INIT(16u << 20);
	struct facts f;
	str_puts(&text, "{\"groups\":{\"g\":{\"virtualClusters\":[\"vc1\"]}},\"users\":{");
	for (int i = 0; i < 30000; i++)
		str_printf(&text, "%s\"u%d\":{\"groups\":[\"g\"]}", i ? "," : "", i);
	str_puts(&text, "}}");
	assert_int_equal(read_facts(str_c(&text), "u29999", &unit.a, &f), 0);
	assert_int_equal(f.n_virtual_clusters, 1);
}

TEST(test_read_errors_have_line_and_status)
{
	struct facts f;
	struct span text = SPAN("users: {bob: {\n  storages: [nix]}}");
	assert_int_equal(facts_read(text, "bob", &unit.a, &f, no_err()), -1);
	assert_int_equal(unit.e.http, 500);
	assert_int_equal(unit.e.notes.v[0].line, 2);
	assert_string_equal(err_msg(&unit.e), "storage `nix` is granted but not listed");
}

TEST(test_read_refuses_the_name_of_results)
{
	struct facts f;
	struct span text = SPAN("storages:\n- {name: nfs}\n- {name: rest-lit-results, path: /x}\n");
	assert_int_equal(facts_read(text, "bob", &unit.a, &f, no_err()), -1);
	assert_int_equal(unit.e.notes.v[0].line, 3);
	assert_string_equal(err_msg(&unit.e), "storage `rest-lit-results` is reserved for the "
	                                      "results of jobs: choose another name");
}

TEST(test_read_gives_capacity_and_paths_of_this_machine)
{
	struct span name;
	struct facts_capacity has;
	struct facts_directory dir;
	const struct facts_file *f =
	    facts_file_read(SPAN("capacity: {a: {gpu: 2}, b: {cpu: 3, memoryMB: 4}}\n"
	                         "storages:\n- {name: cluster}\n- {name: x, path: /srv/x}\n"
	                         "- {name: \"1\", path: /y, readOnly: true}\n"),
	                    &unit.a, no_err());
	assert_non_null(f);
	assert_true(facts_file_quota(f, 0, &name, &has) && span_is(name, "a"));
	assert_true(has.gpu == 2 && has.cpu == -1 && has.memory_mb == -1);
	assert_true(facts_file_quota(f, 1, &name, &has) && span_is(name, "b"));
	assert_true(has.gpu == -1 && has.cpu == 3 && has.memory_mb == 4);
	assert_false(facts_file_quota(f, 2, &name, &has));
	assert_true(facts_file_directory(f, 0, &dir) && !dir.read_only);
	assert_string_equal(dir.name, "x");
	assert_string_equal(dir.path, "/srv/x");
	assert_true(facts_file_directory(f, 1, &dir) && dir.read_only);
	assert_string_equal(dir.name, "1");
	assert_false(facts_file_directory(f, 2, &dir));
	assert_null(facts_file_read(SPAN("storages: [{name: x, path: srv}]"), &unit.a, no_err()));
}

TEST_GROUP(set_up, NULL)

/* Of each number the own one, else the largest of the groups, else that of all. */
TEST(test_limits_of_a_user_come_from_the_nearest_place)
{
	static const char TEXT[] = "limits: {gpu: 1, jobs: 10}\n"
				   "groups:\n"
				   "  small: {limits: {gpu: 2, cpu: 8}}\n"
				   "  large: {limits: {gpu: 4}}\n"
				   "  none: {}\n"
				   "users:\n"
				   "  alice: {groups: [small, large, none]}\n"
				   "  bob: {groups: [large], limits: {gpu: 0, memoryMB: 64}}\n"
				   "  carol: {groups: [none]}\n";
	static const struct {
		const char *user;
		struct facts_limits wanted; /* cpu, gpu, memory_mb, jobs */
	} USERS[] = { { "alice", { 8, 4, -1, 10 } },
		      { "bob", { -1, 0, 64, 10 } },
		      { "carol", { -1, 1, -1, 10 } },
		      { "dave", { -1, 1, -1, 10 } } };
	const struct facts_file *f = facts_file_read(SPAN(TEXT), &unit.a, no_err());
	assert_non_null(f);
	for (size_t i = 0; i < ARRAY_SIZE(USERS); i++) {
		struct facts_user u;
		facts_file_user(f, span_of(USERS[i].user), false, &unit.a, &u);
		assert_memory_equal(&u.limits, &USERS[i].wanted, sizeof(u.limits));
	}
	struct span user;
	struct facts_limits l;
	size_t n = 0;
	while (facts_file_limited(f, n, &user, &l))
		n++;
	assert_int_equal(n, 3);
	l = facts_file_limits(f);
	assert_memory_equal(&l, &USERS[3].wanted, sizeof(l));
}
