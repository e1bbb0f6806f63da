/* The store of one machine: the answers of an API server, and durable files. */
#include "base/posix/clock.h"
#include "tests/unit/machine/local_kit.h"

/* ---- create ------------------------------------------------------------------------ */

TEST_WITH(test_create_answers_as_api_server, setup, teardown)
{
	struct kept k = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	assert_int_equal(k.outcome, STORE_OK);
	assert_int_equal(k.status, 201);
	json_auto_t *object = json_loads(k.body, 0, NULL);
	json_t *meta = json_object_get(object, "metadata");
	assert_string_equal(json_string_value(json_object_get(meta, "uid")), k.uid);
	assert_string_equal(json_string_value(json_object_get(meta, "namespace")), "jobs");
	assert_int_equal(strlen(json_string_value(json_object_get(meta, "creationTimestamp"))), 20);
	assert_string_equal(json_string_value(json_object_get(meta, "resourceVersion")), "1");
	assert_int_equal(strlen(k.uid), 36);
	assert_int_equal(k.uid[14], '4');
}

TEST_WITH(test_create_twice_is_409, setup, teardown)
{
	struct kept first = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	struct kept k = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	assert_int_equal(k.outcome, STORE_EXISTS);
	assert_int_equal(k.status, 409);
	assert_non_null(strstr(k.message, "already exists"));
	assert_string_equal(get(KIND_FRAMEWORK, "f").uid, first.uid);
}

TEST_WITH(test_create_refuses_bad_bodies, setup, teardown)
{
	assert_int_equal(create(KIND_FRAMEWORK, "f", "{").status, 400);
	assert_int_equal(create(KIND_FRAMEWORK, "f", "[]").status, 400);
	assert_int_equal(create(KIND_SECRET, "f", FRAMEWORK).status, 400);
	assert_int_equal(create(KIND_FRAMEWORK, "g", FRAMEWORK).status, 422);
}

TEST_WITH(test_create_refuses_names_that_leave_the_directory, setup, teardown)
{
	struct kept k = create(KIND_FRAMEWORK, "../x",
	                       "{\"kind\":\"Framework\",\"metadata\":{\"name\":\"../x\"}}");
	assert_int_equal(k.status, 422);
	assert_int_equal(get(KIND_FRAMEWORK, "../x").status, 422);
}

TEST_WITH(test_create_refuses_another_namespace, setup, teardown)
{
	struct kept k = create(KIND_FRAMEWORK, "f",
	                       "{\"kind\":\"Framework\",\"metadata\":{\"name\":\"f\","
	                       "\"namespace\":\"kube-system\"}}");
	assert_int_equal(k.status, 400);
}

TEST_WITH(test_create_dry_run_leaves_no_object, setup, teardown)
{
	struct kept k = ask(store, (struct store_request){ .verb = STORE_CREATE,
	                                                   .kind = KIND_FRAMEWORK,
	                                                   .name = "f",
	                                                   .body = { span_of(FRAMEWORK) },
	                                                   .dry_run = true });
	assert_int_equal(k.status, 201);
	assert_int_equal(get(KIND_FRAMEWORK, "f").outcome, STORE_NOT_FOUND);
}

TEST_WITH(test_create_of_several_is_all_or_nothing, setup, teardown)
{
	assert_true(store_is_atomic(store));
	create(KIND_CONFIGMAP, "f-c", "{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"f-c\"}}");
	struct kept k = create_with();
	assert_int_equal(k.outcome, STORE_EXISTS);
	assert_non_null(strstr(k.message, "create configmaps \"f-c\": already exists"));
	assert_int_equal(get(KIND_FRAMEWORK, "f").outcome, STORE_NOT_FOUND);
	assert_int_equal(get(KIND_SECRET, "f-s").outcome, STORE_NOT_FOUND);
	assert_int_equal(ask(store, (struct store_request){ .verb = STORE_DELETE,
	                                                    .kind = KIND_CONFIGMAP,
	                                                    .name = "f-c" })
	                     .outcome,
	                 STORE_OK);
	k = create_with();
	assert_int_equal(k.status, 201);
	assert_non_null(strstr(k.body, "\"kind\":\"Framework\""));
	assert_int_equal(get(KIND_SECRET, "f-s").outcome, STORE_OK);
	delete ("f", k.uid, NULL);
	assert_int_equal(get(KIND_SECRET, "f-s").outcome, STORE_NOT_FOUND);
	assert_int_equal(get(KIND_CONFIGMAP, "f-c").outcome, STORE_OK);
}

/* ---- get, patch, delete ------------------------------------------------------------ */

TEST_WITH(test_get_of_a_missing_object_is_404, setup, teardown)
{
	struct kept k = get(KIND_FRAMEWORK, "nothing");
	assert_int_equal(k.outcome, STORE_NOT_FOUND);
	assert_int_equal(k.status, 404);
}

TEST_WITH(test_patch_merges_and_removes_members, setup, teardown)
{
	create(KIND_FRAMEWORK, "f", FRAMEWORK);
	struct kept k = patch("{\"metadata\":{\"labels\":{\"a\":\"b\"}},"
	                      "\"spec\":{\"executionType\":\"Start\",\"x\":null}}");
	assert_int_equal(k.status, 200);
	assert_string_equal(k.version, "2");
	assert_non_null(strstr(k.body, "\"executionType\":\"Start\""));
	assert_non_null(strstr(k.body, "\"labels\":{\"a\":\"b\"}"));
	k = patch("{\"metadata\":{\"labels\":null}}");
	assert_null(strstr(k.body, "labels"));
}

TEST_WITH(test_patch_that_changes_nothing_keeps_the_version, setup, teardown)
{
	create(KIND_FRAMEWORK, "f", FRAMEWORK);
	assert_string_equal(patch("{\"spec\":{\"executionType\":\"Create\"}}").version, "1");
}

TEST_WITH(test_patch_checks_uid_version_and_name, setup, teardown)
{
	create(KIND_FRAMEWORK, "f", FRAMEWORK);
	struct kept k = patch("{\"metadata\":{\"uid\":\"other\"}}");
	assert_int_equal(k.outcome, STORE_REFUSED);
	assert_int_equal(k.status, 422);
	k = patch("{\"metadata\":{\"resourceVersion\":\"7\"}}");
	assert_int_equal(k.outcome, STORE_CONFLICT);
	assert_int_equal(k.status, 409);
	assert_int_equal(patch("{\"metadata\":{\"name\":\"g\"}}").status, 400);
	assert_int_equal(patch("[]").status, 400);
}

TEST_WITH(test_patch_applies_json_patch_operations, setup, teardown)
{
	static const char BODY[] =
	    "{\"kind\":\"Framework\",\"metadata\":{\"name\":\"f\",\"annotations\":{\"a/b\":\"1\"}},"
	    "\"spec\":{\"taskRoles\":[{\"name\":\"x\"},{\"name\":\"y\",\"taskNumber\":2}],\"z\":"
	    "null}}";
#define TEST_OF(path, value) "{\"op\":\"test\",\"path\":\"" path "\",\"value\":" value "}"
#define REPLACE(path, value) "{\"op\":\"replace\",\"path\":\"" path "\",\"value\":" value "}"
#define NUMBER               "/spec/taskRoles/1/taskNumber"
	static const struct {
		const char *patch;
		int status;
		const char *version, *has;
	} ROWS[] = {
		{ "[]", 200, "1", "\"taskNumber\":2" },
		{ "[" TEST_OF(NUMBER, " 2 ") "," REPLACE(NUMBER, "7") "]", 200, "2",
		  "\"name\":\"y\",\"taskNumber\":7}" },
		{ "[" TEST_OF("/spec/taskRoles", "[{\"name\": \"x\"}, {\"name\":\"y\", "
		                                 "\"taskNumber\":7}]") "]",
		  200, "2", "" },
		{ "[" TEST_OF("/spec/z", "null") "]", 200, "2", "" },
		{ "[" REPLACE("/spec/taskRoles/0", "{}") "]", 200, "3", "\"taskRoles\":[{}," },
		/* No part of the patch is stored. */
		{ "[" REPLACE(NUMBER, "8") "," TEST_OF(NUMBER, "9") "]", 422, "", "" },
		{ "[" TEST_OF(NUMBER, "\"7\"") "]", 422, "", "" },
		{ "[" TEST_OF("/spec/taskRoles/2", "1") "]", 422, "", "" },
		{ "[" TEST_OF("/spec/z/x", "1") "]", 422, "", "" },
		{ "[" REPLACE("/spec/new", "3") "]", 422, "", "" },
		{ "[" REPLACE("/metadata/uid", "\"x\"") "]", 422, "", "" },
		{ "[{\"op\":\"remove\",\"path\":\"/spec/z\",\"value\":1}]", 422, "", "" },
		{ "[{\"op\":\"test\",\"path\":\"/spec/z\"}]", 400, "", "" },
		{ "[1]", 422, "", "" },
		{ "{}", 400, "", "" },
		{ "[" REPLACE("/metadata/annotations/a/b", "1") "]", 422, "", "" },
		{ "[" TEST_OF(NUMBER, "7") "]", 200, "3", "" },
	};
	assert_int_equal(create(KIND_FRAMEWORK, "f", BODY).status, 201);
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		struct kept k =
		    ask(store, (struct store_request){ .verb = STORE_PATCH,
		                                       .kind = KIND_FRAMEWORK,
		                                       .name = "f",
		                                       .whole = true,
		                                       .json_patch = true,
		                                       .body = { span_of(ROWS[i].patch) } });
		if (k.status != ROWS[i].status || strcmp(k.version, ROWS[i].version) != 0 ||
		    !strstr(k.body, ROWS[i].has))
			fail_msg("%s: %d, version %s: %s%s", ROWS[i].patch, k.status, k.version,
			         k.body, k.message);
	}
}

TEST_WITH(test_delete_checks_uid_and_version, setup, teardown)
{
	struct kept made = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	assert_int_equal(delete ("f", "other", NULL).outcome, STORE_CONFLICT);
	assert_int_equal(delete ("f", made.uid, "9").outcome, STORE_CONFLICT);
	assert_int_equal(delete ("f", made.uid, "1").outcome, STORE_OK);
	assert_int_equal(delete ("f", NULL, NULL).outcome, STORE_NOT_FOUND);
}

TEST_WITH(test_delete_removes_dependents, setup, teardown)
{
	struct kept made = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	create_owned("mine", made.uid);
	create_secret("free");
	delete ("f", made.uid, NULL);
	assert_int_equal(get(KIND_SECRET, "mine").outcome, STORE_NOT_FOUND);
	assert_int_equal(get(KIND_SECRET, "free").outcome, STORE_OK);
}

TEST_WITH(test_created_orphans_are_removed_at_once, setup, teardown)
{
	assert_int_equal(create_owned("s", "no-such-uid").status, 201);
	assert_int_equal(get(KIND_SECRET, "s").outcome, STORE_NOT_FOUND);
}

/* ---- opening again ----------------------------------------------------------------- */

TEST_WITH(test_open_keeps_objects_and_version_numbers, setup, teardown)
{
	struct kept made = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	close_store();
	open_store();
	assert_string_equal(get(KIND_FRAMEWORK, "f").uid, made.uid);
	struct kept k = create_secret("s");
	assert_string_equal(k.version, "2");
	delete ("f", NULL, NULL); /* has one, too */
	close_store();
	open_store();
	assert_string_equal(create(KIND_FRAMEWORK, "f", FRAMEWORK).version, "4");
}

TEST_WITH(test_open_removes_orphans_of_the_last_run, setup, teardown)
{
	struct kept made = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	create_owned("mine", made.uid);
	close_store();
	stored("DELETE FROM object WHERE name = 'f'");
	open_store();
	assert_int_equal(get(KIND_SECRET, "mine").outcome, STORE_NOT_FOUND);
}

/* Creates, changes and deletes objects with dependents until its process is killed. */
static void work_for_ever(int round)
{
	char name[32];
	char body[256];
	open_store();
	for (int i = 0;; i++) {
		(void)snprintf(name, sizeof(name), "f%d-%d", round, i);
		(void)snprintf(body, sizeof(body),
		               "{\"kind\":\"Framework\",\"metadata\":{\"name\":\"%s\"}}", name);
		struct kept made = create(KIND_FRAMEWORK, name, body);
		char secret[40];
		(void)snprintf(secret, sizeof(secret), "%s-s", name);
		create_owned(secret, made.uid);
		if (i % 2)
			delete (name, made.uid, NULL);
	}
}

TEST_WITH(test_open_succeeds_after_a_kill_at_any_moment, setup, teardown)
{
	static const char OBJECTS[] = "SELECT count(*) FROM object";
	close_store();
	/* More and longer rounds, if the machine is too slow for a change in the first ones. */
	for (int round = 0; round < 12 || (round < 300 && stored(OBJECTS) == 0); round++) {
		pid_t pid = fork();
		if (pid == 0)
			work_for_ever(round);
		assert_true(pid > 0);
		(void)usleep(20000 + 3000 * (unsigned)round);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		open_store(); /* refuses files that are not whole */
		close_store();
	}
	assert_int_equal(
	    stored("SELECT count(*) FROM object WHERE owner IS NOT NULL AND owner NOT IN "
	           "(SELECT uid FROM object)"),
	    0);
	assert_true(stored(OBJECTS) > 0);
	open_store();
}

static void open_fails(const char *path, const char *why)
{
	assert_null(local_open(path, "jobs", false, no_err()));
	assert_int_equal(unit.e.http, 500);
	assert_non_null(strstr(err_msg(&unit.e), why));
}

TEST_WITH(test_open_refuses_a_directory_others_can_read, setup, teardown)
{
	char path[128];
	(void)snprintf(path, sizeof(path), "%s/open", top);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0750), 0);
	open_fails(path, "0700");
}

/* Its content may be whole, so that nothing is moved or removed because of it. */
TEST_WITH(test_open_refuses_a_file_that_cannot_be_read, setup, teardown)
{
	create(KIND_FRAMEWORK, "f", FRAMEWORK);
	close_store();
	shell("mv %s/store.db %s/whole && mkdir %s/store.db", dir, top, dir);
	open_fails(dir, "store.db cannot be read: ");
	assert_false(file_exists("damaged"));
	shell("rmdir %s/store.db && mv %s/whole %s/store.db", dir, top, dir);
	open_store();
	assert_int_equal(get(KIND_FRAMEWORK, "f").outcome, STORE_OK);
}

TEST_WITH(test_open_transient_store_takes_objects, setup, teardown)
{
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	close_store();
	local = local_open(dir, "jobs", true, no_err());
	assert_string_equal(err_msg(&unit.e), "");
	store = store_local_new(local, &limits, no_err());
	assert_int_equal(create(KIND_FRAMEWORK, "f", FRAMEWORK).status, 201);
}

TEST_WITH(test_open_refuses_a_newer_version, setup, teardown)
{
	close_store();
	stored("CREATE TABLE later(x)");
	stored("PRAGMA user_version = 99");
	open_fails(dir, "newer version");
	stored("DROP TABLE later");
	open_store(); /* with the tables of this version its number is damaged */
	close_store();
	assert_int_equal(stored("PRAGMA user_version"), 2);
	open_store();
}

/* A directory whose database is lost is left as it is. */
TEST_WITH(test_open_refuses_files_of_jobs_without_a_database, setup, teardown)
{
	static const char *const PARTS[] = { "logs/u", "pods/p", "code/code-1", "results/u" };
	create(KIND_FRAMEWORK, "f", FRAMEWORK);
	close_store();
	shell("mv %s/store.db %s/whole", dir, top);
	open_store(); /* nothing shows that there was one */
	assert_false(file_exists("store.db.new-wal"));
	close_store();
	for (size_t i = 0; i < sizeof(PARTS) / sizeof(PARTS[0]); i++) {
		shell("rm -f %s/store.db* && mkdir -p %s/%s", dir, dir, PARTS[i]);
		open_fails(dir, "there is no store.db, but there are files of jobs: ");
		assert_false(file_exists("store.db"));
		shell(": >%s/store.db", dir);
		open_fails(dir, "store.db is empty, but");
		shell("cp %s/whole %s/store.db", top, dir);
		open_store();
		assert_int_equal(get(KIND_FRAMEWORK, "f").outcome, STORE_OK);
		close_store();
		shell("rm -rf %s/%s", dir, PARTS[i]);
	}
	shell("mv %s/store.db %s/whole && echo >%s/store.db-wal", dir, top, dir);
	open_fails(dir, "store.db-wal (1 bytes)");
	shell("rm %s/store.db-wal && mv %s/whole %s/store.db", dir, top, dir);
	open_store();
}

static void note_removed(void *arg, struct span uid)
{
	struct str *all = arg;
	str_span(all, uid);
	str_char(all, ' ');
}

static void note_nothing(void *arg, struct span object)
{
	(void)arg;
	(void)object;
}

/* So the files of a removed job go, and those of a lost one stay. */
TEST_WITH(test_open_tells_the_uids_of_removed_frameworks, setup, teardown)
{
	static const struct local_follower FOLLOWER = { .put = note_nothing,
		                                        .remove = note_nothing,
		                                        .removed = note_removed };
	STR_AUTO told = STR_INIT(1 << 20);
	STR_AUTO wanted = STR_INIT(1 << 20);
	for (int i = 0; i < 3; i++) {
		struct kept made = create(KIND_FRAMEWORK, "f", FRAMEWORK);
		if (i < 2)
			delete ("f", NULL, NULL);
		if (i < 2)
			str_printf(&wanted, "%s ", made.uid);
	}
	close_store();
	open_store();
	follow(&FOLLOWER, &told);
	struct span rest = str_view(&wanted);
	while (rest.n > 0)
		assert_int_not_equal(
		    span_find(str_view(&told), 0, arena_dup(&unit.a, span_next(&rest, ' '))),
		    SIZE_MAX);
	assert_int_equal(told.n, wanted.n);
}

/* ---- the queue --------------------------------------------------------------------- */

TEST_WITH(test_store_request_refuses_beyond_the_bound, setup, teardown)
{
	struct store_limits limits = { 1, 2, 1 << 20, 100 };
	struct store *small = store_local_new(local, &limits, no_err());
	const struct store_request r = { .verb = STORE_GET, .kind = KIND_SECRET, .name = "x" };
	const struct kept *k[3];
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(store_has_room(small, NULL), i < 2);
		k[i] = send_off(small, r, 1);
	}
	assert_int_equal(store_pending(small), 3);
	settle(small);
	assert_int_equal(k[0]->outcome, STORE_NOT_FOUND);
	assert_int_equal(k[1]->outcome, STORE_NOT_FOUND);
	assert_int_equal(k[2]->outcome, STORE_FULL);
	store_free(small);
}

TEST_WITH(test_store_request_waits_for_its_time, setup, teardown)
{
	int64_t from = clock_ms();
	struct kept k = ask(
	    store,
	    (struct store_request){ .verb = STORE_READY, .name = "", .not_before_ms = from + 50 });
	assert_int_equal(k.outcome, STORE_OK);
	assert_true(clock_ms() - from >= 50);
}

TEST_WITH(test_store_request_gives_up_at_the_deadline, setup, teardown)
{
	int64_t from = clock_ms();
	struct kept k = ask(store, (struct store_request){ .verb = STORE_READY,
	                                                   .name = "",
	                                                   .deadline_ms = from + 50,
	                                                   .not_before_ms = from + 60000 });
	assert_int_equal(k.outcome, STORE_BUSY);
	assert_true(clock_ms() - from >= 50);
}

TEST_WITH(test_store_free_answers_all_requests, setup, teardown)
{
	struct store_request r = { .verb = STORE_GET, .kind = KIND_SECRET, .name = "x" };
	struct kept *k[] = { send_off(store, r, 2), NULL, NULL };
	store_start(store);
	k[1] = send_off(store, r, 1);
	r.not_before_ms = clock_ms() + 50000;
	k[2] = send_off(store, r, 2);
	close_store();
	for (size_t i = 0; i < 5; i++) {
		const struct kept *one = i < 2 ? &k[0][i] : i < 3 ? k[1] : &k[2][i - 3];
		assert_int_equal(one->calls, 1);
		assert_int_equal(one->outcome, i < 2 ? STORE_NOT_FOUND : STORE_BUSY);
	}
	open_store();
}

/* ---- a thread that waits ------------------------------------------------------------ */

struct seen {
	int puts, removals, states;
	int64_t version;
};

static void seen_put(void *arg, struct span object)
{
	(void)object;
	((struct seen *)arg)->puts++;
}

static void seen_remove(void *arg, struct span object)
{
	(void)object;
	((struct seen *)arg)->removals++;
}

TEST_WITH(test_local_request_answers_at_once, setup, teardown)
{
	static const struct local_follower FOLLOWER = { .put = seen_put, .remove = seen_remove };
	struct seen seen = { 0 };
	struct local_answer a;
	follow(&FOLLOWER, &seen);
	const struct store_request read = { .verb = STORE_GET,
		                            .kind = KIND_FRAMEWORK,
		                            .name = "f" };
	const struct kept *k = send_off(store, read, 50);
	store_start(store);
	const struct store_request create = { .verb = STORE_CREATE,
		                              .kind = KIND_FRAMEWORK,
		                              .name = "f",
		                              .body = { span_of(FRAMEWORK) } };
	local_request(local, &create, &a);
	assert_int_equal(a.outcome, STORE_OK);
	assert_int_equal(a.uid[8], '-');
	assert_null(a.message);
	assert_int_equal(seen.puts, 1);
	local_answer_done(&a);
	local_request(local, &create, &a);
	assert_int_equal(a.outcome, STORE_EXISTS);
	assert_non_null(strstr(a.message, "already exists"));
	assert_int_equal(seen.puts, 1);
	local_answer_done(&a);
	const struct store_request gone = { .verb = STORE_DELETE,
		                            .kind = KIND_FRAMEWORK,
		                            .name = "f" };
	local_request(local, &gone, &a);
	assert_int_equal(a.outcome, STORE_OK);
	assert_int_equal(seen.removals, 1);
	local_answer_done(&a);
	settle(store);
	for (size_t i = 0; i < 50; i++)
		assert_int_equal(k[i].calls, 1);
}

static void seen_state(void *arg, const struct local_state *state, int64_t version)
{
	struct seen *seen = arg;
	assert_string_equal(state->name, "f");
	seen->states++;
	seen->version = version;
}

static const struct local_follower STATE_FOLLOWER = { .put = seen_put,
	                                              .remove = seen_remove,
	                                              .stated = seen_state };

/* NOLINTNEXTLINE(readability-function-size): a table */
TEST_WITH(test_put_status_needs_the_uid_of_the_framework, setup, teardown)
{
	struct seen seen = { 0 };
	follow(&STATE_FOLLOWER, &seen);
	struct kept made = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	enum { LARGE = (4 << 20) + 1 }; /* more than any object */
	FREE_AUTO char *large = calloc(1, LARGE + 1);
	memset(large, ' ', LARGE);
	const struct local_state ROWS[] = {
		{ .name = "f",
		  .uid = made.uid,
		  .status = SPAN("{\"state\":\"Running\"}"),
		  .launched = "",
		  .gpu_idle = "5 6 b 7" },
		{ .name = "f", .uid = "another", .status = SPAN("{}"), .launched = "" },
		{ .name = "g", .uid = made.uid, .status = SPAN("{}"), .launched = "" },
		{ .name = "f", .uid = made.uid, .status = span_of(large), .launched = "boot 16" },
		{ .name = "f",
		  .uid = made.uid,
		  .status = SPAN("{\"state\":\"Done\"}"),
		  .launched = "boot 17" },
		{ .name = "f",
		  .uid = "another",
		  .status = SPAN("{}"),
		  .launched = "",
		  .gpu_idle = "8" },
	};
	static const enum store_outcome IS[ARRAY_SIZE(ROWS)] = { STORE_OK,        STORE_NOT_FOUND,
		                                                 STORE_NOT_FOUND, STORE_REFUSED,
		                                                 STORE_OK,        STORE_NOT_FOUND };
	struct local_answer s[ARRAY_SIZE(ROWS)];
	local_request_states(local, ROWS, ARRAY_SIZE(ROWS), s);
	assert_int_equal(s[0].before, 1);
	assert_int_equal(s[4].before, s[0].version);
	assert_int_equal(seen.puts, 1);
	assert_int_equal(seen.states, 2);
	int64_t last = s[4].version;
	assert_int_equal(seen.version, last);
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		assert_int_equal(s[i].outcome, IS[i]);
		assert_true((s[i].message == NULL) == (s[i].outcome == STORE_OK));
		local_answer_done(&s[i]);
	}
	close_store();
	open_store();
	struct kept k = patch("{\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
	assert_int_equal(strtoll(k.version, NULL, 10), last + 1);
	assert_non_null(strstr(k.body, "\"status\":{\"state\":\"Done\"}"));
	assert_non_null(strstr(k.body, "\"rest-lit/launched\":\"boot 17\""));
	/* It stays until it is removed, and only it is. */
	assert_non_null(strstr(k.body, "\"rest-lit/gpu-idle\":\"5 6 b 7\""));
	const struct local_state none = { .name = "f",
		                          .uid = made.uid,
		                          .status = SPAN("{\"state\":\"Done\"}"),
		                          .launched = "",
		                          .gpu_idle = "" };
	local_request_states(local, &none, 1, s);
	assert_int_equal(s[0].outcome, STORE_OK);
	local_answer_done(&s[0]);
	k = patch("{\"metadata\":{\"labels\":{\"a\":\"c\"}}}");
	assert_null(strstr(k.body, "gpu-idle"));
	assert_non_null(strstr(k.body, "\"rest-lit/launched\":\"boot 17\""));
}

/* clang-format on */
