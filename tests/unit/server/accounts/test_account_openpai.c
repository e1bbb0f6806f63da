/* Accounts of an OpenPAI cluster, from its Secrets and claims. */
#include "tests/unit/server/account_world.h"

TEST(test_find_merges_the_grants_of_groups)
{
	WORLD_AUTO *w = cluster("");
	ACCOUNT_AUTO *a = find(w, "alice").account;
	assert_non_null(a);
	assert_false(a->admin);
	assert_int_equal(a->n_groups, 2);
	assert_int_equal(a->facts.n_virtual_clusters, 2);
	assert_true(may(a, "default") && may(a, "vc1") && !may(a, "vc2"));
	assert_int_equal(a->facts.n_storages, 3);
}

TEST(test_find_gives_the_facts_of_storages)
{
	WORLD_AUTO *w = cluster("");
	ACCOUNT_AUTO *a = find(w, "alice").account;
	const struct storage_fact *nfs = storage(a, "nfs");
	const struct storage_fact *own = storage(a, "own");
	const struct storage_fact *ro = storage(a, "ro");
	/* The first of each group is a default. */
	assert_true(nfs->is_default && !own->is_default && ro->is_default);
	assert_true(nfs->share && !own->share && ro->share);
	assert_true(!nfs->read_only && !own->read_only && ro->read_only);
	const struct account_storage *more = &a->storages[nfs - a->facts.storages];
	assert_string_equal(more->volume, "nfs-pv");
	assert_string_equal(more->type, "nfs");
	assert_true(span_is(more->data, "{\"server\":\"10.0.0.1\",\"path\":\"/data\"}"));
}

TEST(test_find_gives_an_administrator_every_cluster)
{
	WORLD_AUTO *w = admin_cluster("");
	ACCOUNT_AUTO *a = find(w, "root").account;
	assert_true(a->admin);
	assert_true(may(a, "anything") && !may(a, "../x") && !may(a, ""));
	/* The storages are those of the groups. */
	assert_int_equal(a->facts.n_storages, 1);
}

static char *file_with(const char *text)
{
	char *path = xstrdup("/tmp/rest-lit-account.XXXXXX");
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	return path;
}

TEST(test_find_limits_grants_to_existing_clusters)
{
	FREE_AUTO char *path = file_with("virtualClusters: [default, vc9]\n");
	WORLD_AUTO *w = admin_cluster(path);
	ACCOUNT_AUTO *root = find(w, "root").account;
	ACCOUNT_AUTO *alice = find(w, "alice").account;
	assert_true(may(root, "vc9") && !may(root, "vc1"));
	assert_true(may(alice, "default") && !may(alice, "vc1") && !may(alice, "vc9"));
	assert_int_equal(remove(path), 0);
}

TEST(test_find_missing_group_is_skipped)
{
	WORLD_AUTO *w = cluster("");
	USER(w, "bob", "[\"gone\",\"vision\"]");
	ACCOUNT_AUTO *a = find(w, "bob").account;
	assert_true(may(a, "vc1"));
}

TEST(test_find_refuses_a_missing_user_each_time)
{
	WORLD_AUTO *w = cluster("");
	struct client c = find(w, "nobody");
	assert_int_equal(c.http, 401);
	assert_string_equal(c.code, "UnauthorizedUserError");
	/* It is not remembered. */
	USER(w, "nobody", "[]");
	assert_int_equal(status(w, "nobody"), 0);
}

/* A failed request never grants access. */
TEST(test_find_failures_never_let_a_user_in)
{
	static const enum store_outcome OUTCOMES[] = { STORE_REFUSED, STORE_BUSY, STORE_AMBIGUOUS,
		                                       STORE_FULL };
	static const struct {
		enum object_kind kind;
		const char *about;
	} CASES[] = { { KIND_SECRET, "alice" },
		      { KIND_SECRET, "vision" },
		      { KIND_CLAIM, "own" },
		      { KIND_VOLUME, "own-pv" } };
	for (size_t i = 0; i < 16; i++) {
		WORLD_AUTO *w = cluster("");
		char hex[2 * PAI_NAME_MAX + 1];
		const char *name = CASES[i / 4].about;
		pai_secret_name(hex, span_of(name));
		struct thing *t = thing_find(w, CASES[i / 4].kind, i / 4 < 2 ? hex : name);
		t->outcome = OUTCOMES[i % 4];
		struct client c = find(w, "alice");
		assert_int_equal(c.http, 503);
		assert_string_equal(c.code, "UnavailableError");
		/* Nor is that remembered. */
		t->outcome = STORE_OK;
		assert_int_equal(status(w, "alice"), 0);
	}
}

/* ---- remembering ------------------------------------------------------------------- */

TEST(test_find_results_are_cached)
{
	WORLD_AUTO *w = cluster("");
	assert_int_equal(status(w, "alice"), 0);
	size_t asked = w->asked;
	assert_int_equal(asked, 1 + 2 + 2 * 3);
	assert_int_equal(status(w, "alice"), 0);
	assert_int_equal(w->asked, asked);
	/* Another user of the same groups. */
	USER(w, "bob", "[\"vision\",\"default\"]");
	assert_int_equal(status(w, "bob"), 0);
	assert_int_equal(w->asked, asked + 1);
}

TEST(test_find_without_cache_asks_each_time)
{
	WORLD_AUTO *w = cluster("");
	w->options.token_cache_s = 0;
	assert_int_equal(status(w, "alice"), 0);
	size_t asked = w->asked;
	assert_int_equal(status(w, "alice"), 0);
	assert_int_equal(w->asked, 2 * asked);
}

/* Parts of an account may be older than the account; it expires with its oldest part. */
TEST(test_find_result_expires_with_its_oldest_part)
{
	bool shared = false;
	for (int64_t s = 1; !shared; s *= 2) { /* after a stall, once more with more time */
		assert_true(s < 64);
		WORLD_AUTO *w = cluster("");
		w->options.token_cache_s = s;
		assert_int_equal(status(w, "bob"), 401);
		USER(w, "bob", "[\"vision\"]");
		assert_int_equal(status(w, "alice"), 0);
		clock_sleep(600 * s);
		size_t asked = w->asked;
		assert_int_equal(status(w, "bob"), 0);
		shared = w->asked == asked + 1; /* of the group that was read for alice */
		GROUP(w, "vision", "{}");
		clock_sleep(500 * s);
		ACCOUNT_AUTO *bob = find(w, "bob").account;
		assert_true(!shared || !may(bob, "vc1"));
	}
}

TEST(test_find_shares_requests_of_the_same_user)
{
	WORLD_AUTO *w = cluster("");
	struct client c[50];
	for (size_t i = 0; i < 50; i++)
		begin(w, "alice", &c[i]);
	run(w);
	assert_int_equal(w->asked, 1 + 2 + 2 * 3);
	for (size_t i = 0; i < 50; i++) {
		assert_int_equal(c[i].calls, 1);
		assert_ptr_equal(c[i].account, c[0].account);
		account_drop(c[i].account);
	}
}

TEST(test_find_serves_1100_users_at_once)
{
	enum { MANY = 1100 };
	WORLD_AUTO *w = cluster("");
	FREE_AUTO struct client *c = xcalloc(MANY, sizeof(*c));
	w->still = true;
	for (size_t i = 0; i < MANY; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "u%zu", i);
		begin(w, name, &c[i]);
	}
	run(w);
	assert_int_equal(w->n_flying, 16);
	/* 16 are asked for, 1000 wait, the others are refused at once. */
	assert_int_equal(c[1015].calls, 0);
	assert_int_equal(c[1016].http, 503);
	w->still = false;
	for (int i = 0; i < 10; i++)
		run(w);
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(c[i].calls, 1);
		assert_int_equal(c[i].http, i < 1016 ? 401 : 503);
	}
	assert_true(w->most_at_once <= 16);
}

TEST(test_reload_forgets_all_accounts)
{
	WORLD_AUTO *w = cluster("");
	assert_int_equal(status(w, "alice"), 0);
	size_t asked = w->asked;
	assert_int_equal(account_source_reload(w->source, no_err()), 0);
	assert_int_equal(status(w, "alice"), 0);
	assert_int_equal(w->asked, 2 * asked);
}

/* ---- the log ----------------------------------------------------------------------- */

TEST(test_log_reports_a_problem_once)
{
	WORLD_AUTO *w = cluster("");
	FILE *f = log_here();
	w->options.token_cache_s = 0;
	USER(w, "alice", "[\"gone\",\"vision\"]");
	for (int i = 0; i < 3; i++)
		assert_int_equal(status(w, "alice"), 0);
	assert_int_equal(count_in_log(f, "\"name\":\"gone\""), 1);
	assert_int_equal(count_in_log(f, "a group is skipped"), 1);
	/* The log has the reason why look-ups fail, too. */
	GROUP(w, "vision", "{}")->outcome = STORE_REFUSED;
	for (int i = 0; i < 3; i++)
		assert_int_equal(status(w, "alice"), 503);
	assert_int_equal(count_in_log(f, "\"why\":\"reason\""), 1);
	log_init(-1);
	(void)fclose(f);
}

/* The log has at most 64 messages an hour about the objects of a cluster. */
TEST(test_log_is_bounded)
{
	WORLD_AUTO *w = cluster("");
	FILE *f = log_here();
	STR_AUTO groups = STR_INIT(1u << 20);
	for (int i = 0; i < 200; i++)
		str_printf(&groups, "%s\"g%d\"", i ? "," : "[", i);
	str_puts(&groups, "]");
	USER(w, "alice", str_c(&groups));
	assert_int_equal(status(w, "alice"), 0);
	assert_int_equal(count_in_log(f, "a group is skipped"), SAID_MAX);
	log_init(-1);
	(void)fclose(f);
}

/* ---- the end ----------------------------------------------------------------------- */

TEST(test_free_ends_look_ups_in_progress)
{
	struct world *w = cluster("");
	struct client c[3];
	w->still = true;
	begin(w, "alice", &c[0]);
	begin(w, "alice", &c[1]);
	begin(w, "bob", &c[2]);
	run(w);
	world_free(w);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(c[i].calls, 1);
		assert_int_equal(c[i].http, 503);
	}
}

/* ---- answers ------------------------------------------------------------------------------ */

TEST(test_virtual_clusters_include_those_of_seen_accounts)
{
	WORLD_AUTO *w = admin_cluster("");
	ARENA_AUTO arena = { 0 };
	bool listed;
	account_drop(find(w, "alice").account);
	ACCOUNT_AUTO *root = find(w, "root").account;
	struct name_set all = account_virtual_clusters(w->all, root, &arena, &listed);
	assert_true(all.n == 2 && span_is(all.v[0], "default") && span_is(all.v[1], "vc1"));
	assert_false(listed);
}

TEST(test_source_needs_a_cluster)
{
	WORLD_AUTO *w = world_new("openpai", "");
	w->options.local = "dir";
	assert_null(account_source_new(&w->options, no_err()));
	assert_int_equal(unit.e.http, 400);
	w->options.local = "";
}

/* Users in a file that is not searched for users are a mistake. */
TEST(test_source_refuses_users_in_the_file)
{
	FREE_AUTO char *path = file_with("virtualClusters: [a]\nusers: {bob: {}}\n");
	WORLD_AUTO *w = world_new("openpai", "");
	w->options.facts = path;
	assert_null(account_source_new(&w->options, no_err()));
	assert_int_equal(unit.e.notes.v[0].line, 2);
	assert_int_equal(remove(path), 0);
}

TEST_GROUP(set_up, NULL)
