/* Accounts of the file of --facts, and reloads of a changed file. */
#include "tests/unit/server/account_world.h"

#include <sys/stat.h>
#include <unistd.h>

static const char POLICY[] = "virtualClusters: [default, vc1, vc2]\n"
			     "storages: [{name: nfs, default: true}, {name: own}]\n"
			     "groups:\n"
			     "  staff: {virtualClusters: [vc1], storages: [nfs]}\n"
			     "  root: {admin: true, storages: [own]}\n"
			     "users:\n"
			     "  alice: {groups: [staff], virtualClusters: [vc2], email: a@b}\n"
			     "  bob: {}\n"
			     "  chief: {groups: [staff, root]}\n"
			     "  none: {groups: []}\n"
			     "  keys: {extension: {jobSSH: {key: MARKER, pubKey: P}}}\n";

static char path[64];

static void write_file(const char *text)
{
	(void)snprintf(path, sizeof(path), "%s", unit_file("facts.yaml", span_of(text)));
}

static struct world *with(const char *text)
{
	write_file(text);
	return world_new("file", path);
}

TEST(test_find_without_a_file_accepts_every_user)
{
	WORLD_AUTO *w = world_new("file", "");
	ACCOUNT_AUTO *a = find(w, "anybody").account;
	assert_true(may(a, "vc") && !may(a, "v c"));
	assert_int_equal(a->facts.n_storages, 0);
	assert_false(a->admin);
}

TEST(test_find_merges_own_grants_and_groups)
{
	WORLD_AUTO *w = with(POLICY);
	ACCOUNT_AUTO *a = find(w, "alice").account;
	assert_true(may(a, "vc1") && may(a, "vc2") && !may(a, "default"));
	assert_int_equal(a->facts.n_storages, 1);
	assert_non_null(storage(a, "nfs"));
	assert_string_equal(a->email, "a@b");
	assert_int_equal(a->n_groups, 1);
	assert_string_equal(a->storages[0].type, "unknown");
}

TEST(test_find_gives_an_administrator_every_cluster)
{
	WORLD_AUTO *w = with(POLICY);
	ACCOUNT_AUTO *a = find(w, "chief").account;
	assert_true(a->admin);
	assert_true(may(a, "default") && may(a, "vc2") && !may(a, "vc3"));
	assert_int_equal(a->facts.n_storages, 2);
}

TEST(test_find_gives_defaults_to_a_user_without_grants)
{
	WORLD_AUTO *w = with(POLICY);
	ACCOUNT_AUTO *bob = find(w, "bob").account;
	ACCOUNT_AUTO *none = find(w, "none").account;
	assert_int_equal(bob->facts.n_virtual_clusters, 3);
	assert_int_equal(bob->facts.n_storages, 2);
	/* The user has no group and no own grants. */
	assert_int_equal(none->facts.n_virtual_clusters, 0);
	assert_int_equal(none->facts.n_storages, 0);
}

TEST(test_find_accepts_or_refuses_other_users)
{
	struct world *w = with("users: {bob: {}}\nothers: allow\n");
	assert_int_equal(status(w, "eve"), 0);
	world_free(w);
	w = with("users: {bob: {}}\nothers: refuse\n");
	struct client c = find(w, "eve");
	assert_int_equal(c.http, 401);
	assert_string_equal(c.code, "UnauthorizedUserError");
	assert_int_equal(status(w, "Bob"), 401);
	assert_int_equal(status(w, "bob"), 0);
	world_free(w);
}

TEST(test_source_checks_the_user_of_no_auth)
{
	WORLD_AUTO *w = with("users: {bob: {}}\nothers: refuse\n");
	w->options.no_auth = true;
	w->options.user = "eve";
	assert_null(account_source_new(&w->options, no_err()));
	assert_int_equal(unit.e.http, 400);
}

TEST(test_source_errors_have_their_line)
{
	static const struct {
		const char *text, *says;
		unsigned line;
	} CASES[] = {
		{ "users:\n  bob: {groups: [nix]}\n", "group `nix` is named but not defined", 2 },
		{ "groups:\n  g: {storages: [nix]}\n", "storage `nix` is granted but not listed",
		  2 },
		{ "virtualClusters: [a]\n\nusers: {bob: {virtualClusters: [b]}}\n",
		  "virtual cluster `b` is granted but not listed", 3 },
		{ "others: maybe\n", "", 1 },
		{ "groups: {g: {admin: 1}}\n", "", 1 },
		{ "a: [\n", "", 0 },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		WORLD_AUTO *w = world_new("file", "");
		write_file(CASES[i].text);
		w->options.facts = path;
		assert_null(account_source_new(&w->options, no_err()));
		assert_int_equal(unit.e.http, 500);
		if (CASES[i].says[0])
			assert_string_equal(err_msg(&unit.e), CASES[i].says);
		if (CASES[i].line)
			assert_int_equal(unit.e.notes.v[0].line, CASES[i].line);
		w->options.facts = "";
	}
}

TEST(test_source_takes_regular_files_only)
{
	static const char *const OTHERS[] = { "fifo", "", "gone" };
	WORLD_AUTO *w = world_new("file", "");
	assert_int_equal(mkfifo(unit_path("fifo"), 0600), 0);
	for (size_t i = 0; i < ARRAY_SIZE(OTHERS); i++) {
		w->options.facts = unit_path(OTHERS[i]);
		assert_null(account_source_new(&w->options, no_err()));
		assert_non_null(strstr(err_msg(&unit.e), unit_path("")));
	}
	w->options.facts = "";
}

/* ---- reading it again -------------------------------------------------------------- */

static int reload(struct world *w)
{
	int rc = account_source_reload(w->source, no_err());
	assert_int_equal(unit.e.http != 0, rc < 0);
	return rc;
}

TEST(test_reload_takes_effect_at_once)
{
	WORLD_AUTO *w = with(POLICY);
	ACCOUNT_AUTO *before = find(w, "alice").account;
	write_file("users: {alice: {virtualClusters: [x]}}\n");
	assert_false(may(before, "x"));
	assert_int_equal(reload(w), 0);
	ACCOUNT_AUTO *after = find(w, "alice").account;
	assert_true(may(after, "x") && !may(after, "vc1"));
	/* Holders of the old account keep it. */
	assert_true(may(before, "vc1"));
}

TEST(test_reload_keeps_the_old_accounts_on_any_error)
{
	static const char *const BAD[] = { "users: {alice: {groups: [nix]}}\n",
		                           "users: {alice: {virtualClusters: [x]\n",
		                           "nonsense: 1\n", "\xff\xfe" };
	WORLD_AUTO *w = with(POLICY);
	for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++) {
		write_file(BAD[i]);
		assert_int_equal(reload(w), -1);
		ACCOUNT_AUTO *a = find(w, "alice").account;
		assert_true(may(a, "vc1"));
	}
	assert_int_equal(remove(path), 0);
	assert_int_equal(reload(w), -1);
	write_file(POLICY);
	assert_int_equal(truncate(path, SHARED_FACTS_MAX + 1), 0);
	assert_int_equal(reload(w), -1);
	assert_int_equal(status(w, "alice"), 0);
}

TEST(test_reload_without_a_file_succeeds)
{
	WORLD_AUTO *w = world_new("file", "");
	assert_int_equal(reload(w), 0);
	assert_int_equal(status(w, "alice"), 0);
}

/* A loop: it finds users while the main thread reads the file again. */
static void *find_often(void *arg)
{
	struct world *w = arg;
	struct accounts *all = accounts_new(w->source, NULL);
	for (int i = 0; i < 3000; i++) {
		struct account *a =
		    account_find(all, i % 2 ? "alice" : "bob", NULL, NULL, no_err());
		assert_non_null(a);
		assert_true(may(a, "vc1"));
		account_drop(a);
	}
	accounts_free(all);
	return NULL;
}

TEST(test_reload_is_safe_while_loops_look_up_users)
{
	pthread_t loops[2];
	WORLD_AUTO *w = with(POLICY);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&loops[i], NULL, find_often, w), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(reload(w), 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_join(loops[i], NULL), 0);
}

/* ---- answers ------------------------------------------------------------------------------ */

TEST(test_extension_shows_no_secret)
{
	WORLD_AUTO *w = with(POLICY);
	STR_AUTO out = STR_INIT(1000);
	ACCOUNT_AUTO *a = find(w, "keys").account;
	account_extension(a, &out);
	assert_string_equal(str_c(&out), "{\"jobSSH\":{\"pubKey\":\"P\"}}");
	assert_non_null(a->facts.extension);
}

TEST(test_extension_of_a_user_without_one_is_empty)
{
	WORLD_AUTO *w = with(POLICY);
	STR_AUTO out = STR_INIT(1000);
	ACCOUNT_AUTO *a = find(w, "bob").account;
	account_extension(a, &out);
	assert_string_equal(str_c(&out), "{}");
}

TEST(test_users_and_virtual_clusters_are_sorted)
{
	WORLD_AUTO *w = with(POLICY);
	ARENA_AUTO arena = { 0 };
	bool listed;
	const struct facts_index *users = &account_file(w->all)->users;
	assert_int_equal(users->n, 5);
	assert_string_equal(users->v[0]->key, "alice");
	assert_string_equal(users->v[4]->key, "none");
	assert_int_equal(account_virtual_clusters(w->all, NULL, &arena, &listed).n, 3);
	assert_true(listed);
	ACCOUNT_AUTO *a = find(w, "alice").account;
	assert_int_equal(account_virtual_clusters(w->all, a, &arena, &listed).n, 2);
}

TEST(test_virtual_clusters_include_those_named_in_grants)
{
	WORLD_AUTO *w = with("groups: {g: {virtualClusters: [z, b]}}\n"
	                     "users: {u: {groups: [g], virtualClusters: [b]}}\n");
	ARENA_AUTO arena = { 0 };
	bool listed;
	struct name_set all = account_virtual_clusters(w->all, NULL, &arena, &listed);
	assert_true(all.n == 3 && !listed && span_is(all.v[0], "b") &&
	            span_is(all.v[1], "default") && span_is(all.v[2], "z"));
}

TEST(test_file_warning_depends_on_mode_and_owner)
{
	struct stat st = { .st_uid = geteuid(), .st_mode = S_IFREG | 0644 };
	set_env("KUBERNETES_SERVICE_HOST", NULL);
	assert_null(file_warning(&st, false));
	assert_non_null(file_warning(&st, true));
	st.st_mode = S_IFREG | 0600;
	assert_null(file_warning(&st, true));
	st.st_mode = S_IFREG | 0666;
	assert_non_null(file_warning(&st, false));
	st.st_mode = S_IFREG | 0600;
	st.st_uid = 12345;
	assert_non_null(file_warning(&st, false));
	set_env("KUBERNETES_SERVICE_HOST", "10.0.0.1");
	assert_null(file_warning(&st, true));
	set_env("KUBERNETES_SERVICE_HOST", NULL);
}

TEST_GROUP(set_up, NULL)
