#pragma once
/* A store with the objects of the test, which counts its requests; options of a server; a client
 * that waits for an account. */
#include "tests/unit/jobs/kit.h"

#include "base/enc.h"
#include "jobs/store/store_internal.h"
#include "schema/schema.h"
#include "server/accounts/account.h"
#include "server/accounts/account_internal.h"
#include "server/config/options.h"
#include "server/config/system.h"
#include "server/state/log.h"
#include "translate/job/names.h"

enum { THINGS = 512, FLYING = 512 };

struct thing {
	enum object_kind kind;
	const char *namespace_name; /* NULL: the jobs', or none */
	char name[2 * PAI_NAME_MAX + 1];
	char *body;
	enum store_outcome outcome;
	size_t asked;
};

struct world {
	struct store s; /* first */
	struct options options;
	struct account_source *source;
	struct accounts *all;
	struct thing things[THINGS];
	size_t n_things, asked, most_at_once;
	struct pending *flying[FLYING];
	size_t n_flying;
	bool still; /* nothing is answered */
};

static struct thing *thing_find(struct world *w, enum object_kind kind, const char *name)
{
	for (size_t i = 0; i < w->n_things; i++)
		if (w->things[i].kind == kind && strcmp(w->things[i].name, name) == 0)
			return &w->things[i];
	return NULL;
}

static bool same_namespace(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static void world_answer(struct world *w, struct pending *p)
{
	struct thing *t = thing_find(w, p->r.kind, p->r.name);
	struct store_reply reply = { .outcome = STORE_NOT_FOUND, .message = SPAN("reason") };
	reply.body = reply.uid = reply.resource_version = SPAN("");
	assert_true(p->r.verb == STORE_GET && p->r.whole);
	if (t) {
		assert_true(same_namespace(t->namespace_name, p->r.namespace_name));
		t->asked++;
		reply.outcome = t->outcome;
		reply.body = span_of(t->body);
	}
	store_finish(&w->s, p, &reply);
}

static void world_begin(struct store *s, struct pending *p)
{
	struct world *w = (struct world *)s;
	assert_true(w->n_flying < FLYING);
	w->flying[w->n_flying++] = p;
	w->asked++;
	if (w->n_flying > w->most_at_once)
		w->most_at_once = w->n_flying;
}

static void world_abort(struct store *s)
{
	struct world *w = (struct world *)s;
	while (w->n_flying)
		store_fail(s, w->flying[--w->n_flying], STORE_BUSY, "shutting down");
}

static void world_poll(struct store *s)
{
	struct world *w = (struct world *)s;
	struct pending *now[FLYING];
	size_t n = w->still ? 0 : w->n_flying;
	memcpy(now, w->flying, n * sizeof(*now));
	w->n_flying -= n;
	for (size_t i = 0; i < n; i++)
		world_answer(w, now[i]);
}

static int world_fd(const struct store *s)
{
	(void)s;
	return -1;
}

static void world_done(struct store *s)
{
	store_done(s);
}

/* ---- its objects -------------------------------------------------------------------------- */

static inline struct thing *add(struct world *w, enum object_kind kind, const char *name,
                                const char *body)
{
	struct thing *t = thing_find(w, kind, name);
	if (!t)
		t = &w->things[w->n_things++];
	assert_true(w->n_things <= THINGS);
	free(t->body);
	*t = (struct thing){ .kind = kind, .body = xstrdup(body), .outcome = STORE_OK };
	(void)snprintf(t->name, sizeof(t->name), "%s", name);
	return t;
}

/* A Secret about `about`, with up to two more members. */
static inline struct thing *add_secret(struct world *w, const char *namespace_name,
                                       const char *about, const char *const members[static 6])
{
	char hex[2 * PAI_NAME_MAX + 1];
	STR_AUTO body = STR_INIT(64u << 20);
	str_puts(&body, "{\"kind\":\"Secret\",\"data\":{");
	for (size_t i = 0; i < 6 && members[i]; i += 2) {
		str_printf(&body, "%s\"%s\":\"", i ? "," : "", members[i]);
		str_base64(&body, span_of(members[i + 1]));
		str_char(&body, '"');
	}
	str_puts(&body, "}}");
	pai_secret_name(hex, span_of(about));
	struct thing *t = add(w, KIND_SECRET, hex, str_c(&body));
	t->namespace_name = namespace_name;
	return t;
}

/* clang-format off */
#define SECRET(...) ((const char *const[6]){ __VA_ARGS__ })
#define USER(w, name, groups) \
	add_secret(w, "pai-user-v2", name, SECRET("username", name, "grouplist", groups))
#define GROUP(w, name, acls) \
	add_secret(w, "pai-group", name, SECRET("groupname", name, "extension", "{\"acls\":" acls "}"))
/* clang-format on */

/* A claim of this name, bound to a volume `NAME-pv`. */
static inline void add_storage(struct world *w, const char *name, const char *labels,
                               const char *spec)
{
	FREE_AUTO char *claim =
	    xasprintf("{\"metadata\":{\"labels\":%s},\"spec\":{\"volumeName\":\"%s-pv\"},"
	              "\"status\":{\"phase\":\"Bound\"}}",
	              labels, name);
	FREE_AUTO char *volume = xasprintf("{\"spec\":%s}", spec);
	FREE_AUTO char *volume_name = xasprintf("%s-pv", name);
	(void)add(w, KIND_CLAIM, name, claim);
	(void)add(w, KIND_VOLUME, volume_name, volume);
}

/* ---- a server ---------------------------------------------------------------------- */

static void world_open(struct world *w)
{
	ERR_AUTO e = { 0 };
	w->source = account_source_new(&w->options, &e);
	if (!w->source)
		fail_msg("%s", err_msg(&e));
	w->all = accounts_new(w->source, &w->s);
}

static inline struct world *world_new(const char *users, const char *facts)
{
	static const struct store_ops OPS = {
		.begin = world_begin,
		.poll = world_poll,
		.fd = world_fd,
		.timeout_ms = world_fd,
		.abort = world_abort,
		.free = world_done,
	};
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	limits.in_flight = limits.queue = limits.per_user = 10000;
	struct world *w = xcalloc(1, sizeof(*w));
	store_init(&w->s, &OPS, "jobs", &limits);
	w->options = (struct options){
		.users = users,
		.facts = facts,
		.local = "",
		.user = "",
		.user_namespace = "pai-user-v2",
		.group_namespace = "pai-group",
		.token_cache_s = 30,
		.deadline_s = 30,
	};
	world_open(w);
	return w;
}

static inline void world_free(struct world *w)
{
	store_free(&w->s);
	accounts_free(w->all);
	account_source_free(w->source);
	for (size_t i = 0; i < w->n_things; i++)
		free(w->things[i].body);
	free(w);
}

static inline void world_end(struct world **w)
{
	world_free(*w);
}
#define WORLD_AUTO __attribute__((cleanup(world_end))) struct world

static inline void account_end(struct account **a)
{
	account_drop(*a);
}
#define ACCOUNT_AUTO __attribute__((cleanup(account_end))) struct account

static inline void run(struct world *w)
{
	for (int i = 0; i < 100; i++) {
		store_reap(&w->s);
		store_start(&w->s);
	}
}

/* ---- an OpenPAI cluster ------------------------------------------------------------- */

#define NFS    "{\"nfs\":{\"server\":\"10.0.0.1\",\"path\":\"/data\"}}"
#define NFS_RO "{\"nfs\":{\"server\":\"10.0.0.1\",\"path\":\"/data\",\"readOnly\":true}}"

/* Alice is in two groups and has three storages. */
static inline struct world *cluster(const char *facts)
{
	struct world *w = world_new("openpai", facts);
	USER(w, "alice", "[\"default\",\"vision\"]");
	GROUP(w, "default",
	      "{\"virtualClusters\":[\"default\"],\"storageConfigs\":[\"nfs\",\"own\"]}");
	GROUP(w, "vision",
	      "{\"virtualClusters\":[\"vc1\",\"default\"],\"storageConfigs\":[\"ro\",\"nfs\"]}");
	add_storage(w, "nfs", "{}", NFS);
	add_storage(w, "own", "{\"share\":\"false\"}", NFS);
	add_storage(w, "ro", "{\"share\":\"true\"}", NFS_RO);
	return w;
}

static inline struct world *admin_cluster(const char *facts)
{
	struct world *w = cluster(facts);
	USER(w, "root", "[\"admins\"]");
	GROUP(w, "admins", "{\"admin\":true,\"storageConfigs\":[\"own\"]}");
	return w;
}

/* ---- a client ---------------------------------------------------------------------- */

struct client {
	struct account *account;
	int calls, http;
	char code[32];
};

static void client_take(struct client *c, struct account *a, const struct err *e)
{
	c->calls++;
	c->account = a;
	c->http = e->http;
	(void)snprintf(c->code, sizeof(c->code), "%s", e->code ? e->code : "");
	assert_true((a != NULL) == (e->http == 0));
}

static void client_called(void *arg, struct account *a, const struct err *e)
{
	client_take(arg, a, e);
}

/* Ask; the answer may come later. */
static inline void begin(struct world *w, const char *name, struct client *c)
{
	ERR_AUTO e = { 0 };
	*c = (struct client){ .calls = 0 };
	struct account *a = account_find(w->all, name, client_called, c, &e);
	if (a || e.http)
		client_take(c, a, &e);
}

static inline struct client find(struct world *w, const char *name)
{
	struct client c;
	begin(w, name, &c);
	run(w);
	assert_int_equal(c.calls, 1);
	return c;
}

/* Finds an account and returns only the HTTP status. */
static inline int status(struct world *w, const char *name)
{
	struct client c = find(w, name);
	account_drop(c.account);
	return c.http;
}

static inline bool may(const struct account *a, const char *virtual_cluster)
{
	const struct facts *f = &a->facts;
	for (size_t i = 0; i < f->n_virtual_clusters; i++)
		if (span_is(f->virtual_clusters[i], virtual_cluster))
			return true;
	return f->any_virtual_cluster && names_label_value_ok(span_of(virtual_cluster));
}

static inline const struct storage_fact *storage(const struct account *a, const char *name)
{
	for (size_t i = 0; i < a->facts.n_storages; i++)
		if (span_is(a->facts.storages[i].name, name))
			return &a->facts.storages[i];
	return NULL;
}

/* Prepares the schemas and discards the log. */
static inline int set_up(void **state)
{
	(void)state;
	schema_init();
	log_init(-1);
	return 0;
}

/* Sends the log to a new file from now on, and returns it. */
static inline FILE *log_here(void)
{
	FILE *f = tmpfile();
	assert_non_null(f);
	log_init(fileno(f));
	return f;
}

static inline size_t count_in_log(FILE *f, const char *text)
{
	char line[4096];
	size_t n = 0;
	rewind(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, text) != NULL;
	return n;
}
