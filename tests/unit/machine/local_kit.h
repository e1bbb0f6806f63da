#pragma once
/* Shared by the tests of the store of one machine: a directory, and requests to it. */
#include "tests/unit/jobs/kit.h"

#include "machine/store/local.h"
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__attribute__((unused)) static char top[64];  /* a directory of this test's own */
__attribute__((unused)) static char dir[128]; /* the store's, below it */
__attribute__((unused)) static struct local *local;
__attribute__((unused)) static struct store *store;

static inline void open_store(void)
{
	ERR_AUTO e = { 0 };
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	local = local_open(dir, "jobs", false, &e);
	assert_string_equal(err_msg(&e), "");
	store = store_local_new(local, &limits, &e);
	assert_non_null(store);
}

static inline void close_store(void)
{
	store_free(store);
	local_close(local);
	store = NULL;
	local = NULL;
}

static inline int setup(void **state)
{
	(void)state;
	(void)snprintf(top, sizeof(top), "%s", unit_path(""));
	(void)snprintf(dir, sizeof(dir), "%s", unit_path("store"));
	open_store();
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	close_store();
	return 0;
}

static inline void follow(const struct local_follower *f, void *arg)
{
	ERR_AUTO e = { 0 };
	assert_int_equal(local_follow(local, f, arg, &e), 0);
}

/* ---- requests ---------------------------------------------------------------------- */

static const char FRAMEWORK[] =
    "{\"apiVersion\":\"frameworkcontroller.microsoft.com/v1\",\"kind\":\"Framework\","
    "\"metadata\":{\"name\":\"f\"},\"spec\":{\"executionType\":\"Create\"}}";

static inline struct kept create(enum object_kind kind, const char *name, const char *body)
{
	return ask(store, (struct store_request){ .verb = STORE_CREATE,
	                                          .kind = kind,
	                                          .name = name,
	                                          .whole = true,
	                                          .body = { span_of(body) } });
}

static inline struct kept create_secret(const char *name)
{
	FREE_AUTO char *body =
	    xasprintf("{\"kind\":\"Secret\",\"metadata\":{\"name\":\"%s\"}}", name);
	return create(KIND_SECRET, name, body);
}

static inline struct kept create_owned(const char *name, const char *uid)
{
	FREE_AUTO char *head =
	    xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"%s\","
	              "\"ownerReferences\":[{\"uid\":\"",
	              name);
	return ask(store, (struct store_request){
			      .verb = STORE_CREATE,
			      .kind = KIND_SECRET,
			      .name = name,
			      .body = { span_of(head), span_of(uid), SPAN("\"}]}}") } });
}

__attribute__((unused)) static const struct object DEPENDENTS[] = {
	{ KIND_SECRET, "f-s",
	  SPAN("{\"kind\":\"Secret\",\"metadata\":{\"name\":\"f-s\",\"ownerReferences\":[{\"uid\":"
	       "\"\"}]}}"),
	  69 },
	{ KIND_CONFIGMAP, "f-c", SPAN("{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"f-c\"}}"),
	  0 },
};

/* Creates a job with the objects that it owns, in one request. */
static inline struct kept create_with(void)
{
	return ask(store, (struct store_request){ .verb = STORE_CREATE,
	                                          .kind = KIND_FRAMEWORK,
	                                          .name = "f",
	                                          .whole = true,
	                                          .body = { span_of(FRAMEWORK) },
	                                          .with = DEPENDENTS,
	                                          .n_with = 2 });
}

static inline struct kept get_whole(struct store *s, enum object_kind kind, const char *name)
{
	return ask(s, (struct store_request){
			  .verb = STORE_GET, .kind = kind, .name = name, .whole = true });
}

static inline struct kept get(enum object_kind kind, const char *name)
{
	return ask(store, (struct store_request){ .verb = STORE_GET, .kind = kind, .name = name });
}

static inline struct kept patch(const char *body)
{
	return ask(store, (struct store_request){ .verb = STORE_PATCH,
	                                          .kind = KIND_FRAMEWORK,
	                                          .name = "f",
	                                          .whole = true,
	                                          .body = { span_of(body) } });
}

/* Sends a request about a Secret of another namespace; the answer has the whole object. */
static inline struct kept elsewhere(enum store_verb verb, const char *name, const char *body)
{
	return ask(store, (struct store_request){ .verb = verb,
	                                          .kind = KIND_SECRET,
	                                          .namespace_name = "pai-user",
	                                          .name = name,
	                                          .whole = true,
	                                          .body = { span_of(body) } });
}

static inline struct kept list(enum object_kind kind, const char *query)
{
	return ask(store,
	           (struct store_request){ .verb = STORE_LIST, .kind = kind, .query = query });
}

static inline struct kept delete (const char *name, const char *uid, const char *version)
{
	return ask(store, (struct store_request){ .verb = STORE_DELETE,
	                                          .kind = KIND_FRAMEWORK,
	                                          .name = name,
	                                          .uid = uid,
	                                          .resource_version = version });
}

/* Stores a status as the engine does. */
static inline enum store_outcome put_status(const char *name, const char *uid, struct span status)
{
	AUTO(local_answer_done) struct local_answer a;
	const struct local_state state = {
		.name = name, .uid = uid, .status = status, .launched = ""
	};
	local_request_states(local, &state, 1, &a);
	enum store_outcome outcome = a.outcome;
	return outcome;
}

static inline bool file_exists(const char *relative)
{
	char path[256];
	struct stat st;
	(void)snprintf(path, sizeof(path), "%s/%s", dir, relative);
	return stat(path, &st) == 0;
}

/* Asks the database of a store that is closed, or changes it: the first column of the first row. */
static inline int64_t stored(const char *sql)
{
	char path[256];
	sqlite3 *db;
	sqlite3_stmt *s;
	int64_t value = 0;
	(void)snprintf(path, sizeof(path), "%s/store.db", dir);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
	int code = sqlite3_step(s);
	if (code == SQLITE_ROW)
		value = sqlite3_column_int64(s, 0);
	else
		assert_int_equal(code, SQLITE_DONE);
	(void)sqlite3_finalize(s);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	return value;
}
