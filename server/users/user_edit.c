/*
 * Create, change and remove users of an OpenPAI cluster (--users=openpai): the Secrets in the
 * namespace of users.  A change is a patch with the uid and resourceVersion that it was computed
 * from, and is computed again after a conflict.
 */
#include "base/clock.h"
#include "base/enc.h"
#include "k8s/transport/store.h"
#include "server/accounts/account.h"
#include "server/auth/token.h"
#include "server/auth/token_store.h"
#include "server/http/loop.h"
#include "server/http/rate_limit.h"
#include "server/http/request.h"
#include "server/http/routes.h"
#include "server/http/worker.h"
#include "server/server.h"
#include "server/users/users_internal.h"

/* ---- the groups of a user after a change: pure ---- */

/* A group of the change, and the contents of its Secret. */
struct edit_group {
	struct span name;
	bool current; /* the user is in it now */
	bool found, admin;
	bool grants; /* grants the virtual cluster of the same name */
};

enum edit_kind { EDIT_CREATE, EDIT_CHANGE, EDIT_REMOVE };

/* Groups that OpenPAI has by default. */
#define GROUP_DEFAULT "default"
#define GROUP_ADMIN   "admingroup"

struct edit_groups {
	const struct user_change *change;
	enum edit_kind kind;
	struct edit_group *v; /* the groups to read */
	size_t n;
	struct span *list; /* the result; NULL: unchanged */
	size_t n_list;
};

static struct edit_group *edit_group_find(const struct edit_groups *g, struct span name)
{
	for (size_t i = 0; i < g->n; i++)
		if (span_eq(g->v[i].name, name))
			return &g->v[i];
	return NULL;
}

static void edit_group_add(struct edit_groups *g, struct span name, bool current)
{
	struct edit_group *group = edit_group_find(g, name);
	if (!group) {
		group = &g->v[g->n++];
		group->name = name;
	}
	group->current |= current;
}

static bool edit_changes(const struct edit_groups *g)
{
	return g->kind != EDIT_CHANGE ||
	       g->change->has & (CHANGE_CLUSTERS | CHANGE_GROUPS | CHANGE_ADMIN);
}

static bool edit_wants_default(const struct edit_groups *g)
{
	return g->kind == EDIT_CREATE || g->change->has & CHANGE_CLUSTERS;
}

static bool edit_promotes(const struct edit_groups *g)
{
	return g->change->has & CHANGE_ADMIN && g->change->admin;
}

/* Set v and n: the groups to read; none if the change does not affect groups.  now: the user's
 * current groups.  In the arena. */
static void edit_groups_plan(struct edit_groups *g, const struct pai_user *now, struct arena *a)
{
	const struct user_change *c = g->change;
	g->v = ARENA_NEW(a, struct edit_group, now->n_groups + c->n_names + 2);
	g->n = 0;
	if (!edit_changes(g))
		return;
	for (size_t i = 0; i < c->n_names; i++)
		edit_group_add(g, c->names[i], false);
	for (size_t i = 0; i < now->n_groups; i++)
		edit_group_add(g, now->groups[i], true);
	if (edit_wants_default(g))
		edit_group_add(g, SPAN(GROUP_DEFAULT), false);
	if (edit_promotes(g))
		edit_group_add(g, SPAN(GROUP_ADMIN), false);
}

static void edit_list_add(struct edit_groups *g, struct span name)
{
	if (!names_contain(g->list, g->n_list, name))
		g->list[g->n_list++] = name;
}

static int edit_no_group(struct err *e, struct span name, const char *why)
{
	char quoted[4 * QUOTE_MAX];
	return err_set(e, 404, "NoGroupError", "group \"%s\" %s", quote(quoted, name), why);
}

/* Add the groups that the body names, directly or by virtual cluster. */
static int edit_add_wanted(struct edit_groups *g, struct err *e)
{
	char quoted[4 * QUOTE_MAX];
	const struct user_change *c = g->change;
	for (size_t i = 0; i < c->n_names; i++) {
		const struct edit_group *group = edit_group_find(g, c->names[i]);
		if (c->has & CHANGE_CLUSTERS && !(group->found && group->grants))
			return err_set(e, 400, "NoVirtualClusterError",
			               "no group \"%s\" grants the virtual cluster of this name",
			               quote(quoted, c->names[i]));
		if (!group->found)
			return edit_no_group(e, c->names[i], "does not exist");
		edit_list_add(g, c->names[i]);
	}
	return 0;
}

static bool edit_is_admin_now(const struct edit_groups *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->v[i].current && g->v[i].admin)
			return true;
	return false;
}

/* Keep current groups: none if the body has the list; only administrators' groups if it has virtual
 * clusters; else all. */
static void edit_add_current(struct edit_groups *g)
{
	unsigned has = g->change->has;
	for (size_t i = 0; i < g->n && !(has & CHANGE_GROUPS); i++)
		if (g->v[i].current && (g->v[i].admin || !(has & CHANGE_CLUSTERS)))
			edit_list_add(g, g->v[i].name);
}

/* Drop administrators' groups, requested ones too. */
static void edit_demote(struct edit_groups *g)
{
	size_t kept = 0;
	for (size_t i = 0; i < g->n_list; i++)
		if (!edit_group_find(g, g->list[i])->admin)
			g->list[kept++] = g->list[i];
	g->n_list = kept;
}

static int edit_promote(struct edit_groups *g, struct err *e)
{
	for (size_t i = 0; i < g->n_list; i++)
		if (edit_group_find(g, g->list[i])->admin)
			return 0;
	const struct edit_group *group = edit_group_find(g, SPAN(GROUP_ADMIN));
	if (!group->found || !group->admin)
		return edit_no_group(e, group->name,
		                     "does not exist, or is not a group of administrators");
	edit_list_add(g, group->name);
	return 0;
}

/* The new list, once all of v is read; in the arena.  -1 and *e: 400 NoVirtualClusterError, 404
 * NoGroupError, 403 RemoveAdminError. */
static int edit_groups_make(struct edit_groups *g, struct arena *a, struct err *e)
{
	const struct edit_group *ordinary = edit_group_find(g, SPAN(GROUP_DEFAULT));
	if (!edit_changes(g))
		return 0;
	if (g->kind == EDIT_REMOVE && edit_is_admin_now(g))
		return err_set(e, 403, "RemoveAdminError",
		               "an administrator cannot be removed: remove the admin right first");
	g->list = ARENA_NEW(a, struct span, g->n + 1);
	g->n_list = 0;
	if (edit_add_wanted(g, e) < 0)
		return -1;
	if (edit_wants_default(g) && ordinary->found)
		edit_list_add(g, ordinary->name);
	edit_add_current(g);
	if (edit_promotes(g))
		return edit_promote(g, e);
	if (g->change->has & CHANGE_ADMIN)
		edit_demote(g);
	return 0;
}

/* ---- a change under way ---- */

enum {
	EDIT_TRIES = 4, /* after conflicts */
	EDIT_BODY_MAX = 1 << 20,
	EDIT_EXTENSION_MAX = 64 << 10,
};

/* In the request's arena, which is wiped. */
struct user_edit {
	struct request *r;
	struct user_change change;
	bool check_old; /* verify the old password */
	const char *user;
	char object[2 * PAI_NAME_MAX + 1];
	char hash[PASSWORD_HEX + 1], old_hash[PASSWORD_HEX + 1];
	bool hashed;
	/* Read from the Secret: */
	struct pai_user now;
	const char *uid, *version;
	struct edit_groups groups;
	size_t next_group;
	unsigned tries;
	int64_t deadline_ms;
	struct str body;
};

static void edit_refuse(struct user_edit *u, const struct err *e)
{
	str_wipe(&u->body);
	answer_error(u->r, e);
}

static void edit_fail(struct user_edit *u, struct span why)
{
	str_wipe(&u->body);
	u->r->why = arena_dup(&u->r->arena, why);
	answer_refuse(u->r, UNAVAILABLE,
	              "users cannot be changed at the moment, or this server lacks the right to");
}

static void edit_no_user(struct user_edit *u)
{
	str_wipe(&u->body);
	answer_refuse(u->r, 404, "NoUserError", "there is no such user");
}

static void edit_wrong_password(struct user_edit *u)
{
	str_wipe(&u->body); /* of an attempt before a conflict */
	answer_refuse(u->r, FORBIDDEN, "the old password is wrong");
}

static void edit_answer(struct request *r, const struct err *e)
{
	const struct user_edit *u = r->state;
	if (e->http) {
		answer_error(r, e);
		return;
	}
	static const char *const WORDS[] = { [EDIT_CREATE] = "is created",
		                             [EDIT_CHANGE] = "is changed",
		                             [EDIT_REMOVE] = "is removed" };
	str_puts(&r->reply.body, "{\"message\":\"User ");
	str_json_text(&r->reply.body, span_of(u->user));
	str_printf(&r->reply.body, " %s successfully.\"}\n", WORDS[u->groups.kind]);
	answer_json(r, u->groups.kind == EDIT_REMOVE ? 200 : 201);
}

/* Revoke tokens that an old password, or an earlier user of this name, has created. */
static void edit_done(struct user_edit *u)
{
	struct request *r = u->r;
	bool stored = tokens_stored(r->loop->server->options);
	str_wipe(&u->body);
	if (r->loop->has->accounts)
		accounts_forget(r->loop->has->accounts);
	if (stored && (u->groups.kind != EDIT_CHANGE || u->change.has & CHANGE_PASSWORD))
		token_store_remove_all(r, u->user, u->groups.kind == EDIT_CHANGE, edit_answer);
	else
		edit_answer(r, &(struct err){ 0 });
}

/* ---- requests to the store ---- */

static void edit_ask(struct user_edit *u, struct store_request q)
{
	struct loop *l = u->r->loop;
	q.kind = KIND_SECRET;
	q.user = u->r->principal->name;
	q.deadline_ms = u->deadline_ms;
	q.arg = u;
	if (!q.namespace_name)
		q.namespace_name = l->server->options->user_namespace;
	if (!q.name)
		q.name = u->object;
	if (l->store)
		store_request(l->store, &q);
	else
		edit_fail(u, SPAN("shutting down"));
}

static void edit_look(struct user_edit *u);

static void edit_written(void *arg, const struct store_reply *reply)
{
	struct user_edit *u = arg;
	enum store_outcome o = reply->outcome;
	enum edit_kind kind = u->groups.kind;
	if (o == STORE_OK || (o == STORE_NOT_FOUND && kind == EDIT_REMOVE)) {
		edit_done(u);
	} else if (o == STORE_EXISTS) {
		str_wipe(&u->body);
		answer_refuse(u->r, 409, "ConflictUserError",
		              "there is a user of this name already");
	} else if (store_is_outdated(o) && kind != EDIT_CREATE && u->tries < EDIT_TRIES) {
		edit_look(u);
	} else {
		edit_fail(u, reply->message);
	}
}

static void edit_put(struct str *out, const char *key, struct span value)
{
	if (str_view(out).p[out->n - 1] != '{')
		str_char(out, ',');
	str_json(out, span_of(key));
	str_puts(out, ":\"");
	str_base64(out, value);
	str_char(out, '"');
}

static void edit_put_groups(struct user_edit *u, struct str *out)
{
	STR_AUTO text = STR_INIT(EDIT_BODY_MAX);
	users_put_names(&text, u->groups.list, u->groups.n_list);
	edit_put(out, "grouplist", str_view(&text));
}

/* -1 and *e: too large. */
static int edit_put_extension(struct user_edit *u, struct str *out, struct err *e)
{
	struct str text = STR_SECRET(EDIT_EXTENSION_MAX);
	int rc = 0;
	if (u->change.has & CHANGE_EXTENSION)
		user_extension_merge(&text, u->now.extension, u->change.extension);
	else
		str_puts(&text, "{}");
	if (text.full)
		rc = err_set(e, INVALID_PARAMETERS, "the extension would have more than %d bytes",
		             EDIT_EXTENSION_MAX);
	else
		edit_put(out, "extension", str_view(&text));
	str_wipe(&text);
	return rc;
}

/* The changed members; all members of a new user. */
static int edit_put_data(struct user_edit *u, struct str *out, struct err *e)
{
	bool all = u->groups.kind == EDIT_CREATE;
	str_puts(out, "\"data\":{");
	if (all)
		edit_put(out, "username", span_of(u->user));
	if (u->change.has & CHANGE_PASSWORD)
		edit_put(out, "password", span_of(u->hash));
	if (all || u->change.has & CHANGE_EMAIL)
		edit_put(out, "email", u->change.email.p ? u->change.email : SPAN(""));
	if (u->groups.list)
		edit_put_groups(u, out);
	if ((all || u->change.has & CHANGE_EXTENSION) && edit_put_extension(u, out, e) < 0)
		return -1;
	str_char(out, '}');
	return 0;
}

static void edit_put_metadata(const struct user_edit *u, struct str *out)
{
	str_puts(out, "\"metadata\":{");
	if (u->groups.kind == EDIT_CREATE) {
		str_puts(out, "\"name\":");
		str_json(out, span_of(u->object));
		str_puts(out, ",\"namespace\":");
		str_json(out, span_of(u->r->loop->server->options->user_namespace));
	} else {
		str_puts(out, "\"uid\":");
		str_json(out, span_of(u->uid));
		str_puts(out, ",\"resourceVersion\":");
		str_json(out, span_of(u->version));
	}
	str_puts(out, "},");
}

static void edit_write(struct user_edit *u)
{
	ERR_AUTO e = { 0 };
	bool create = u->groups.kind == EDIT_CREATE;
	str_wipe(&u->body);
	u->body = STR_SECRET(EDIT_BODY_MAX);
	str_char(&u->body, '{');
	if (create)
		str_puts(&u->body,
		         "\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"type\":\"Opaque\",");
	edit_put_metadata(u, &u->body);
	if (edit_put_data(u, &u->body, &e) < 0) {
		edit_refuse(u, &e);
		return;
	}
	str_char(&u->body, '}');
	edit_ask(u, (struct store_request){ .verb = create ? STORE_CREATE : STORE_PATCH,
	                                    .body = { str_view(&u->body) },
	                                    .urgent = true,
	                                    .done = edit_written });
}

static void edit_remove(struct user_edit *u)
{
	edit_ask(u, (struct store_request){ .verb = STORE_DELETE,
	                                    .uid = u->uid,
	                                    .resource_version = u->version,
	                                    .urgent = true,
	                                    .done = edit_written });
}

/* ---- groups ---- */

static void edit_decide(struct user_edit *u)
{
	ERR_AUTO e = { 0 };
	if (edit_groups_make(&u->groups, &u->r->arena, &e) < 0)
		edit_refuse(u, &e);
	else if (u->groups.kind == EDIT_REMOVE)
		edit_remove(u);
	else
		edit_write(u);
}

static void edit_next_group(struct user_edit *u);

static void edit_group_came(void *arg, const struct store_reply *reply)
{
	struct user_edit *u = arg;
	struct edit_group *g = &u->groups.v[u->next_group++];
	ARENA_AUTO scratch = { 0 };
	struct pai_group group;
	const char *why;
	enum pai_read read = PAI_UNFIT;
	if (reply->outcome == STORE_OK)
		read = pai_group_read(reply->body, g->name, &scratch, &group, &why);
	else if (reply->outcome != STORE_NOT_FOUND)
		read = PAI_BROKEN;
	if (read == PAI_BROKEN) {
		edit_fail(u, reply->message);
		return;
	}
	g->found = read == PAI_READ;
	g->admin = g->found && group.admin;
	g->grants =
	    g->found && names_contain(group.virtual_clusters, group.n_virtual_clusters, g->name);
	edit_next_group(u);
}

static void edit_next_group(struct user_edit *u)
{
	if (u->next_group == u->groups.n) {
		edit_decide(u);
		return;
	}
	char *name = arena_alloc(&u->r->arena, (size_t)2 * PAI_NAME_MAX + 1);
	pai_secret_name(name, u->groups.v[u->next_group].name);
	edit_ask(u, (struct store_request){ .verb = STORE_GET,
	                                    .name = name,
	                                    .namespace_name =
	                                        u->r->loop->server->options->group_namespace,
	                                    .whole = true,
	                                    .urgent = true,
	                                    .done = edit_group_came });
}

/* ---- the user ---- */

static void edit_plan(struct user_edit *u)
{
	u->next_group = 0;
	edit_groups_plan(&u->groups, &u->now, &u->r->arena);
	edit_next_group(u);
}

/* false: not the user's Secret, or a wrong old password; the request has been answered. */
static bool edit_take(struct user_edit *u, const struct store_reply *reply)
{
	struct arena *a = &u->r->arena;
	struct span stored = SPAN("");
	const char *why = "";
	enum pai_read read = pai_user_read(reply->body, span_of(u->user), a, &u->now, &why);
	if (read == PAI_READ && u->check_old)
		read = pai_password_read(reply->body, span_of(u->user), a, &stored, &why);
	if (read == PAI_UNFIT)
		edit_no_user(u);
	else if (read == PAI_BROKEN)
		edit_fail(u, span_of(why));
	else if (u->check_old && !password_same(u->old_hash, stored))
		edit_wrong_password(u);
	else
		return true;
	return false;
}

static void edit_looked(void *arg, const struct store_reply *reply)
{
	struct user_edit *u = arg;
	if (reply->outcome == STORE_NOT_FOUND) {
		edit_no_user(u);
		return;
	}
	if (reply->outcome != STORE_OK) {
		edit_fail(u, reply->message);
		return;
	}
	u->uid = arena_dup(&u->r->arena, reply->uid);
	u->version = arena_dup(&u->r->arena, reply->resource_version);
	if (edit_take(u, reply))
		edit_plan(u);
}

static void edit_look(struct user_edit *u)
{
	u->tries++;
	edit_ask(u,
	         (struct store_request){ .verb = STORE_GET, .whole = true, .done = edit_looked });
}

static void edit_start(struct user_edit *u)
{
	u->deadline_ms = clock_ms() + u->r->loop->server->options->deadline_s * 1000;
	if (u->groups.kind == EDIT_CREATE)
		edit_plan(u);
	else
		edit_look(u);
}

/* ---- passwords; on the worker's thread ---- */

static void edit_hash(void *arg)
{
	struct user_edit *u = arg;
	struct span user = span_of(u->user);
	u->hashed = password_hash(user, u->change.password, u->hash) &&
	            (!u->check_old || password_hash(user, u->change.old_password, u->old_hash));
}

static void edit_hashed(void *arg, bool ran)
{
	struct user_edit *u = arg;
	if (ran && u->hashed)
		edit_start(u);
	else
		edit_fail(u, SPAN("the password was not hashed"));
}

/* ---- routes ---- */

void users_may(struct request *r)
{
	if (users_openpai(r))
		return;
	answer_header(r, "Allow", "GET, HEAD, OPTIONS");
	answer_refuse(r, 405, "NotImplementedError",
	              "users are in the file of --facts, which the administrator of this server "
	              "edits; this route needs --users=openpai");
}

void users_may_admin(struct request *r)
{
	users_may(r);
	if (!r->answered && !r->principal->admin)
		answer_refuse(r, FORBIDDEN, "only administrators may manage users");
}

static void edit_begin(struct user_edit *u)
{
	struct request *r = u->r;
	bool self = strcmp(u->user, r->principal->name) == 0;
	struct worker_inbox *work = r->loop->has->work;
	u->check_old = u->change.has & CHANGE_PASSWORD && !r->principal->admin;
	if (u->check_old && !(u->change.has & CHANGE_OLD_PASSWORD)) {
		answer_refuse(r, INVALID_PARAMETERS, "oldPassword is required");
		return;
	}
	/* Limits guesses of passwords, and clearing of the account caches of all loops. */
	if (self && !r->principal->admin && !rate_limit_login(r, span_of(u->user)))
		return;
	request_wait(r);
	if (!(u->change.has & CHANGE_PASSWORD))
		edit_start(u);
	else if (!work || !worker_do(work, edit_hash, edit_hashed, u))
		answer_refuse(r, UNAVAILABLE, "too many passwords are being checked; try again");
}

static struct user_edit *edit_new(struct request *r, enum edit_kind kind, struct span user)
{
	struct user_edit *u = ARENA_NEW(&r->arena, struct user_edit, 1);
	u->r = r;
	u->groups = (struct edit_groups){ .change = &u->change, .kind = kind };
	u->user = arena_dup(&r->arena, user);
	pai_secret_name(u->object, user);
	r->state = u;
	r->secret = true;
	return u;
}

/* A user's own account; a name in the body must match. */
static const struct change_rules EDIT_SELF = { true,
	                                       CHANGE_USERNAME | CHANGE_EMAIL | CHANGE_PASSWORD |
	                                           CHANGE_OLD_PASSWORD | CHANGE_EXTENSION,
	                                       0 };

/* Read the body and begin.  user: from the path; p is NULL if the body has it. */
static void edit_by_body(struct request *r, enum edit_kind kind, struct span user,
                         const struct change_rules *rules)
{
	ERR_AUTO e = { 0 };
	struct user_change c;
	bool self = rules == &EDIT_SELF;
	r->secret = true;
	if (!users_ready(r))
		return;
	if (user_change_read(r, rules, &c, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	if (self && c.has & CHANGE_USERNAME && !span_eq(c.username, user)) {
		answer_refuse(
		    r, FORBIDDEN,
		    "this route changes your own user only, but username is another user");
		return;
	}
	struct user_edit *u = edit_new(r, kind, user.p ? user : c.username);
	u->change = c;
	edit_begin(u);
}

enum {
	EDIT_ALL = CHANGE_USERNAME | CHANGE_EMAIL | CHANGE_PASSWORD | CHANGE_ADMIN |
	           CHANGE_CLUSTERS | CHANGE_GROUPS | CHANGE_EXTENSION
};

static const struct span NOT_IN_PATH = { NULL, 0 };

void users_post(struct request *r)
{
	edit_by_body(r, EDIT_CREATE, NOT_IN_PATH,
	             &(struct change_rules){ false, EDIT_ALL, CHANGE_USERNAME | CHANGE_PASSWORD });
}

void users_put(struct request *r)
{
	edit_by_body(r, EDIT_CHANGE, NOT_IN_PATH,
	             &(struct change_rules){ true, EDIT_ALL, CHANGE_USERNAME });
}

void users_me_put(struct request *r)
{
	edit_by_body(r, EDIT_CHANGE, span_of(r->principal->name), &EDIT_SELF);
}

static const struct {
	const char *name;
	struct change_rules rules;
	bool self; /* users may change their own */
} EDIT_MEMBERS[] = {
	{ "email", { false, CHANGE_EMAIL, CHANGE_EMAIL }, true },
	{ "password", { false, CHANGE_PASSWORD | CHANGE_OLD_PASSWORD, CHANGE_PASSWORD }, true },
	{ "extension", { false, CHANGE_EXTENSION, CHANGE_EXTENSION }, true },
	{ "admin", { false, CHANGE_ADMIN, CHANGE_ADMIN }, false },
	{ "virtualcluster", { false, CHANGE_CLUSTERS, CHANGE_CLUSTERS }, false },
	{ "grouplist", { false, CHANGE_GROUPS, CHANGE_GROUPS }, false },
};

void user_member_put(struct request *r)
{
	size_t n = ARRAY_SIZE(EDIT_MEMBERS);
	size_t i = 0;
	while (i < n && !span_is(r->args[1], EDIT_MEMBERS[i].name))
		i++;
	if (i == n)
		answer_refuse(r, 404, "NoApiError",
		              "the members of a user are email, password, extension, "
		              "admin, virtualcluster and grouplist");
	else if (!r->principal->admin &&
	         !(EDIT_MEMBERS[i].self && span_is(r->args[0], r->principal->name)))
		answer_refuse(r, FORBIDDEN, "only administrators may do this");
	else if (!user_name_ok(r->args[0]))
		answer_refuse(r, 404, "NoUserError", "there is no such user");
	else
		edit_by_body(r, EDIT_CHANGE, r->args[0], &EDIT_MEMBERS[i].rules);
}

void user_delete(struct request *r)
{
	if (!users_ready(r))
		return;
	if (!user_name_ok(r->args[0]))
		answer_refuse(r, 404, "NoUserError", "there is no such user");
	else
		edit_begin(edit_new(r, EDIT_REMOVE, r->args[0]));
}
