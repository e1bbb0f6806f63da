/* Malformed objects of an OpenPAI cluster, and volumes of all kinds. */
#include "tests/unit/server/account_world.h"

/* ---- storages ---- */

TEST(test_find_leaves_out_storages_that_cannot_be_mounted)
{
	static const char *const CLAIMS[] = {
		"{\"spec\":{\"volumeName\":\"x\"},\"status\":{\"phase\":\"Pending\"}}",
		"{\"spec\":{},\"status\":{\"phase\":\"Bound\"}}",
		"{\"spec\":{\"volumeName\":\"../x\"},\"status\":{\"phase\":\"Bound\"}}",
		"{\"spec\":{\"volumeName\":\"gone\"},\"status\":{\"phase\":\"Bound\"}}",
		"{\"status\":7}",
	};
	for (size_t i = 0; i < sizeof(CLAIMS) / sizeof(*CLAIMS); i++) {
		WORLD_AUTO *w = cluster("");
		(void)add(w, KIND_CLAIM, "own", CLAIMS[i]);
		ACCOUNT_AUTO *a = find(w, "alice").account;
		assert_non_null(a);
		assert_null(storage(a, "own"));
		assert_int_equal(a->facts.n_storages, 2);
	}
}

TEST(test_find_reads_volumes_of_all_types)
{
	static const struct {
		const char *spec, *type, *data;
		bool read_only;
	} CASES[] = {
		{ "{\"azureFile\":{\"shareName\":\"s\",\"secretName\":\"k\",\"readOnly\":true}}",
		  "azureFile", "{\"shareName\":\"s\"}", true },
		{ "{\"flexVolume\":{\"driver\":\"azure/"
		  "blobfuse\",\"options\":{\"container\":\"c\"}}}",
		  "azureBlob", "{\"containerName\":\"c\"}", false },
		{ "{\"flexVolume\":{\"driver\":\"microsoft.com/smb\",\"options\":{\"source\":\"//h/"
		  "s\"}}}",
		  "samba", "{\"address\":\"//h/s\"}", false },
		{ "{\"flexVolume\":{\"driver\":\"x\",\"readOnly\":true}}", "other", "{}", true },
		{ "{\"csi\":{\"driver\":\"d\",\"readOnly\":true}}", "unknown", "{}", true },
		{ "{\"csi\":{\"driver\":\"d\",\"readOnly\":\"true\"}}", "unknown", "{}", false },
		{ "{\"nfs\":{\"server\":7,\"path\":\"/\\u0022\"}}", "nfs", "{\"path\":\"/\\\"\"}",
		  false },
		{ "{\"nfs\":[]}", "unknown", "{}", false },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		WORLD_AUTO *w = cluster("");
		add_storage(w, "own", "{}", CASES[i].spec);
		ACCOUNT_AUTO *a = find(w, "alice").account;
		const struct storage_fact *f = storage(a, "own");
		assert_non_null(f);
		assert_int_equal(f->read_only, CASES[i].read_only);
		const struct account_storage *more = &a->storages[f - a->facts.storages];
		assert_string_equal(more->type, CASES[i].type);
		assert_true(span_is(more->data, CASES[i].data));
	}
}

/* ---- hostile Secrets --------------------------------------------------------------- */

TEST(test_find_refuses_malformed_users)
{
	static const struct {
		const char *body;
		int http;
	} CASES[] = {
		{ "", 503 },
		{ "[]", 503 },
		{ "<html>", 503 },
		{ "{\"data\":", 503 },
		{ "{}", 401 },
		{ "{\"data\":[]}", 401 },
		{ "{\"data\":{\"username\":7}}", 401 },
		{ "{\"data\":{\"username\":\"Ym9i\"}}", 401 },     /* bob */
		{ "{\"data\":{\"username\":\"QWxpY2U=\"}}", 401 }, /* Alice */
		{ "{\"data\":{\"username\":\"YWxpY2UA\"}}", 401 }, /* with a NUL behind */
		{ "{\"data\":{\"username\":\"YWxpY2U\"}}", 401 },  /* no base64 */
		{ "{\"data\":{\"username\":\"YWxpY2U=\"}}", 0 },
		{ "{\"data\":{\"username\":\"YWxpY2U=\",\"email\":{}}}", 0 },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		WORLD_AUTO *w = cluster("");
		USER(w, "alice", "[]");
		char hex[2 * PAI_NAME_MAX + 1];
		pai_secret_name(hex, SPAN("alice"));
		add(w, KIND_SECRET, hex, CASES[i].body)->namespace_name = "pai-user-v2";
		struct client c = find(w, "alice");
		if (c.http != CASES[i].http)
			fail_msg("%s: %d", CASES[i].body, c.http);
		if (c.account)
			assert_false(c.account->admin || may(c.account, "default"));
		account_drop(c.account);
	}
}

TEST(test_find_grants_nothing_by_malformed_group_lists)
{
	static const char *const LISTS[] = { "",
		                             "vision",
		                             "{}",
		                             "\"vision\"",
		                             "[",
		                             "[7,null,[\"vision\"],{\"a\":\"vision\"},\"\"]",
		                             "[\"vis\\u0000ion\"]",
		                             "[\"../../x\"]",
		                             "[\"vision\"],[\"vision\"]",
		                             "[\"vision\"\xff]" };
	for (size_t i = 0; i < sizeof(LISTS) / sizeof(*LISTS); i++) {
		WORLD_AUTO *w = cluster("");
		USER(w, "alice", LISTS[i]);
		ACCOUNT_AUTO *a = find(w, "alice").account;
		assert_non_null(a);
		assert_false(may(a, "vc1"));
	}
}

TEST(test_find_grants_nothing_by_malformed_groups)
{
	static const char *const EXTENSIONS[] = {
		"",
		"[]",
		"{\"acls\":[]}",
		"{\"acls\":{\"admin\":\"true\"}}",
		"{\"acls\":{\"admin\":1}}",
		"{\"acls\":{\"admin\":[true]}}",
		"{\"acls\":{\"admin\":false,\"admin\":true}}",
		"{\"admin\":true,\"virtualClusters\":[\"vc1\"]}",
		"{\"acls\":{\"virtualClusters\":\"vc1\"}}",
		"{\"acls\":{\"virtualClusters\":[\"-vc1\",7,\"vc 1\",\"vc1\\n\"]}}",
		"{\"overlays\":[\"fuse\"],\"acls\":{\"overlays\":\"fuse\"}}",
		"{\"acls\":{\"overlays\":[\"FUSE\",true,[\"fuse\"],\"root\",\"\"]}}",
		"{\"acls\":{\"storageConfigs\":[\"../nfs\",\"NFS\",\"nfs/..\",\"\",\"a..b\",{}]}}",
	};
	for (size_t i = 0; i < sizeof(EXTENSIONS) / sizeof(*EXTENSIONS); i++) {
		WORLD_AUTO *w = cluster("");
		USER(w, "alice", "[\"g\"]");
		add_secret(w, "pai-group", "g",
		           SECRET("groupname", "g", "extension", EXTENSIONS[i]));
		ACCOUNT_AUTO *a = find(w, "alice").account;
		assert_non_null(a);
		assert_false(a->admin);
		assert_int_equal(a->facts.n_virtual_clusters, 0);
		assert_int_equal(a->facts.n_storages, 0);
		assert_int_equal(a->facts.grants, 0);
	}
}

/* The overlays of all groups are merged; an administrator has none by that role. */
TEST(test_find_merges_overlays_of_all_groups)
{
	WORLD_AUTO *w = cluster("");
	USER(w, "alice", "[\"g\",\"h\",\"gone\"]");
	USER(w, "bob", "[\"admins\"]");
	add_secret(
	    w, "pai-group", "g",
	    SECRET("groupname", "g", "extension", "{\"acls\":{\"overlays\":[\"fuse\",\"sudo\"]}}"));
	add_secret(
	    w, "pai-group", "h",
	    SECRET("groupname", "h", "extension", "{\"acls\":{\"overlays\":[\"infiniband\"]}}"));
	add_secret(w, "pai-group", "admins",
	           SECRET("groupname", "admins", "extension", "{\"acls\":{\"admin\":true}}"));
	ACCOUNT_AUTO *alice = find(w, "alice").account;
	ACCOUNT_AUTO *bob = find(w, "bob").account;
	assert_non_null(alice);
	assert_non_null(bob);
	assert_int_equal(alice->facts.grants, GRANT_FUSE | GRANT_INFINIBAND);
	assert_true(bob->admin);
	assert_int_equal(bob->facts.grants, 0);
}

/* A Secret copied under another name makes no user an administrator. */
TEST(test_find_ignores_a_group_of_another_name)
{
	WORLD_AUTO *w = admin_cluster("");
	add_secret(w, "pai-group", "vision",
	           SECRET("groupname", "admins", "extension", "{\"acls\":{\"admin\":true}}"));
	ACCOUNT_AUTO *a = find(w, "alice").account;
	assert_false(a->admin);
}

TEST(test_find_reads_a_limited_number_of_groups)
{
	WORLD_AUTO *w = cluster("");
	STR_AUTO groups = STR_INIT(1u << 20);
	for (int i = 0; i < 300; i++)
		str_printf(&groups, "%s\"g%d\"", i ? "," : "[", i);
	str_puts(&groups, "]");
	USER(w, "alice", str_c(&groups));
	GROUP(w, "g299", "{\"admin\":true}");
	ACCOUNT_AUTO *a = find(w, "alice").account;
	assert_int_equal(a->n_groups, PAI_GROUPS_MAX);
	assert_false(a->admin);
	assert_true(w->most_at_once <= 8);
}

TEST(test_find_refuses_a_user_that_is_too_large)
{
	WORLD_AUTO *w = cluster("");
	STR_AUTO mail = STR_INIT(4u << 20);
	while (mail.n < PAI_SECRET_MAX)
		str_puts(&mail, "aaaaaaaaaaaaaaaa");
	add_secret(w, "pai-user-v2", "alice", SECRET("username", "alice", "email", str_c(&mail)));
	assert_int_equal(status(w, "alice"), 503);
}

/* ---- answers ------------------------------------------------------------------------------ */

static const char EXTENSION[] =
    "{\"jobSSH\":{\"key\":\"MARKER\",\"pubKey\":\"ssh-rsa P\",\"x\":\"MARKER\"},"
    "\"githubPAT\":\"MARKER\",\"other\":{\"token\":\"MARKER\"},"
    "\"sshKeys\":[{\"title\":\"t\",\"value\":\"ssh-rsa Q\",\"secret\":\"MARKER\"},7,"
    "{\"title\":\"-----BEGIN OPENSSH PRIVATE KEY----- MARKER\",\"value\":[\"MARKER\"]}],"
    "\"boundedClusters\":{\"b\":{\"alias\":\"b\",\"uri\":\"https://b\",\"token\":\"MARKER\"}}}";

TEST(test_extension_shows_no_secret)
{
	WORLD_AUTO *w = cluster("");
	STR_AUTO out = STR_INIT(1u << 20);
	add_secret(w, "pai-user-v2", "alice", SECRET("username", "alice", "extension", EXTENSION));
	ACCOUNT_AUTO *a = find(w, "alice").account;
	assert_non_null(node_get(a->extension, "githubPAT"));
	account_extension(a, &out);
	assert_string_equal(str_c(&out),
	                    "{\"jobSSH\":{\"pubKey\":\"ssh-rsa P\"},"
	                    "\"sshKeys\":[{\"title\":\"t\",\"value\":\"ssh-rsa Q\"},{},{}],"
	                    "\"boundedClusters\":{\"b\":{\"alias\":\"b\",\"uri\":\"https://b\"}}}");
	assert_ptr_equal(a->facts.extension, a->extension);
}

/* OpenPAI gives every user `{}`; this alone does not create a Secret for each job. */
TEST(test_extension_without_use_for_pods_is_left_out)
{
	static const char *const CASES[] = { "{}", "{\"githubPAT\":\"x\",\"sshKeys\":[]}", "[]" };
	for (size_t i = 0; i < 3; i++) {
		WORLD_AUTO *w = cluster("");
		add_secret(w, "pai-user-v2", "alice",
		           SECRET("username", "alice", "extension", CASES[i]));
		ACCOUNT_AUTO *a = find(w, "alice").account;
		assert_null(a->facts.extension);
	}
}

/* ---- the log ---- */

TEST(test_log_has_no_secret)
{
	static const char *const EXTENSIONS[] = { "{\"jobSSH\":{\"key\":\"MARKER\"}}",
		                                  "[\"MARKER\"]", "{\"MARKER\":1,\"MARKER\":2}",
		                                  "MARKER" };
	FILE *f = log_here();
	for (size_t i = 0; i < sizeof(EXTENSIONS) / sizeof(*EXTENSIONS); i++) {
		WORLD_AUTO *w = cluster("");
		add_secret(w, "pai-user-v2", "alice",
		           SECRET("username", "alice", "extension", EXTENSIONS[i], "password",
		                  "MARKER\xff"));
		assert_int_equal(status(w, "alice"), 0);
	}
	assert_int_equal(count_in_log(f, "MARKER"), 0);
	assert_true(count_in_log(f, "invalid parts") > 0);
	log_init(-1);
	(void)fclose(f);
}

TEST_GROUP(set_up, NULL)
