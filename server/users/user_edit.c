/*
 * Creates, changes and removes users of an OpenPAI cluster (--users=openpai): the Secrets in the
 * namespace of users.  A change is an edit (server/http/edit.h): a patch with the uid and
 * resourceVersion that it was computed from, and it is computed again after a conflict.
 */
#include "base/enc.h"
#include "base/json/put.h"
#include "server/accounts/account.h"
#include "server/auth/token.h"
#include "server/auth/token_store.h"
#include "server/config/options.h"
#include "server/http/edit.h"
#include "server/http/loop.h"
#include "server/http/rate_limit.h"
#include "server/state/server.h"
#include "server/users/users.h"
#include "server/users/users_internal.h"

enum {
	EDIT_TRIES = 4,
	EDIT_BODY_MAX = 1 << 20,
	EDIT_EXTENSION_MAX = 64 << 10,
};

enum edit_kind { EDIT_CREATE, EDIT_CHANGE, EDIT_REMOVE };

/* A group of the change, and the contents of its Secret. */
struct edit_group {
	struct span name;
	bool wanted;  /* in the body */
	bool usual;   /* added if it exists */
	bool current; /* the user is in it now */
	bool found, admin;
	bool grants; /* grants the virtual cluster of the same name */
};

struct user_edit {
	/* Lives in the request's arena, which is wiped; unchanged since the start. */
	struct user_change change;
	enum edit_kind kind;
	bool check_old; /* verify the old password */
	const char *user;
	char object[2 * PAI_NAME_MAX + 1];
	/* The rest: the thread's. */
	struct edit *t;
	char hash[PASSWORD_HEX + 1], old_hash[PASSWORD_HEX + 1];
	struct pai_user now; /* read from the Secret, as the next two */
	const char *uid, *version;
	struct edit_group *groups; /* that were read */
	size_t n_groups;
	bool changes_groups;
	struct name_set list; /* the new groups; v is NULL: unchanged */
};

static int user_edit_fail(struct user_edit *u, struct span why)
{
	return edit_fail(
	    u->t, "users cannot be changed at the moment, or this server lacks the right to", why);
}

/* ---- the groups of a user after a change ---- */

/* Groups that OpenPAI has by default. */
#define GROUP_DEFAULT "default"
#define GROUP_ADMIN   "admingroup"

/* The group of this name; adds it if it is new, and there is room. */
static struct edit_group *user_edit_group(struct user_edit *u, struct span name)
{
	size_t i = 0;
	while (i < u->n_groups && !span_eq(u->groups[i].name, name))
		i++;
	if (i == u->n_groups)
		u->groups[u->n_groups++].name = name;
	return &u->groups[i];
}

static int user_edit_read_group(struct user_edit *u, struct edit_group *g)
{
	ARENA_SECRET a = { 0 };
	struct pai_group group;
	struct store_reply reply;
	enum pai_read read = users_secret(u->t, true, g->name, &a, &reply);
	const char *why = arena_dup(&a, reply.message);
	if (read == PAI_READ)
		read = pai_group_read(reply.body, g->name, &a, &group, &why);
	if (read == PAI_BROKEN)
		return user_edit_fail(u, span_of(why));
	if (read != PAI_READ)
		return 0;
	g->found = true;
	g->admin = group.admin;
	g->grants = name_set_has(&group.virtual_clusters, g->name);
	return 0;
}

/* Reads the groups that the new list depends on: none if the change does not affect groups. */
static int user_edit_read_groups(struct user_edit *u)
{
	const struct user_change *c = &u->change;
	u->n_groups = 0;
	u->changes_groups =
	    u->kind != EDIT_CHANGE || c->has & (CHANGE_CLUSTERS | CHANGE_GROUPS | CHANGE_ADMIN);
	if (!u->changes_groups)
		return 0;
	u->groups = ARENA_NEW(&u->t->arena, struct edit_group, u->now.groups.n + c->names.n + 2);
	for (size_t i = 0; i < c->names.n; i++)
		user_edit_group(u, c->names.v[i])->wanted = true;
	if (u->kind == EDIT_CREATE || c->has & CHANGE_CLUSTERS)
		user_edit_group(u, SPAN(GROUP_DEFAULT))->usual = true;
	for (size_t i = 0; i < u->now.groups.n; i++)
		user_edit_group(u, u->now.groups.v[i])->current = true;
	if (c->has & CHANGE_ADMIN && c->admin)
		(void)user_edit_group(u, SPAN(GROUP_ADMIN));
	for (size_t i = 0; i < u->n_groups; i++)
		if (user_edit_read_group(u, &u->groups[i]) < 0)
			return -1;
	return 0;
}

static int user_edit_no_group(struct user_edit *u, struct span name, const char *why)
{
	char quoted[4 * QUOTE_MAX];
	return err_set(&u->t->e, 404, "NoGroupError", "group \"%s\" %s", quote(quoted, name), why);
}

/* The new list.  -1 and the error: 400 NoVirtualClusterError, 404 NoGroupError, 403
 * RemoveAdminError. */
static int user_edit_list(struct user_edit *u)
{
	const struct user_change *c = &u->change;
	bool by_clusters = c->has & CHANGE_CLUSTERS;
	bool sets_admin = c->has & CHANGE_ADMIN;
	bool admin = false;
	char quoted[4 * QUOTE_MAX];
	if (!u->changes_groups)
		return 0;
	u->list = (struct name_set){ ARENA_NEW(&u->t->arena, struct span, u->n_groups + 1), 0 };
	for (const struct edit_group *g = u->groups; g < u->groups + u->n_groups; g++) {
		if (u->kind == EDIT_REMOVE && g->current && g->admin)
			return err_set(
			    &u->t->e, 403, "RemoveAdminError",
			    "an administrator cannot be removed: remove the admin right first");
		if (g->wanted && by_clusters && !(g->found && g->grants))
			return err_set(&u->t->e, 400, "NoVirtualClusterError",
			               "no group \"%s\" grants the virtual cluster of this name",
			               quote(quoted, g->name));
		if (g->wanted && !g->found)
			return user_edit_no_group(u, g->name, "does not exist");
		/* Current groups stay: none if the body has the list; only administrators' groups
		 * if it has virtual clusters; else all. */
		bool stays =
		    g->wanted || (g->usual && g->found) ||
		    (g->current && !(c->has & CHANGE_GROUPS) && (g->admin || !by_clusters));
		if (!stays || (g->admin && sets_admin && !c->admin)) /* requested ones, too */
			continue;
		name_set_add(&u->list, g->name);
		admin |= g->admin;
	}
	if (admin || !sets_admin || !c->admin)
		return 0;
	const struct edit_group *g = user_edit_group(u, SPAN(GROUP_ADMIN));
	if (!g->found || !g->admin)
		return user_edit_no_group(u, g->name,
		                          "does not exist, or is not a group of administrators");
	name_set_add(&u->list, g->name);
	return 0;
}

/* ---- the user's Secret ---- */

static void user_edit_put(struct str *out, const char *key, struct span value)
{
	json_put_open(out, key, '"');
	str_base64(out, value);
	str_char(out, '"');
}

/* Appends the new Secret, or a patch with the changed members.  -1 and the error: 400, too large.
 */
static int user_edit_put_secret(struct user_edit *u, struct str *out)
{
	const struct user_change *c = &u->change;
	bool all = u->kind == EDIT_CREATE;
	STR_AUTO text = STR_SECRET(EDIT_EXTENSION_MAX);
	STR_AUTO groups = STR_INIT(EDIT_BODY_MAX);
	str_char(out, '{');
	if (all)
		str_puts(out, "\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"type\":\"Opaque\"");
	json_put_open(out, "metadata", '{');
	json_put_word(out, all ? "name" : "uid", all ? u->object : u->uid);
	json_put_word(out, all ? "namespace" : "resourceVersion",
	              all ? u->t->r->loop->server->options->user_namespace : u->version);
	str_puts(out, "},\"data\":{");
	if (all)
		user_edit_put(out, "username", span_of(u->user));
	if (c->has & CHANGE_PASSWORD)
		user_edit_put(out, "password", span_of(u->hash));
	if (all || c->has & CHANGE_EMAIL)
		user_edit_put(out, "email", c->email.p ? c->email : SPAN(""));
	if (u->list.v) {
		users_put_names(&groups, NULL, u->list.v, u->list.n);
		user_edit_put(out, "grouplist", str_view(&groups));
	}
	if (c->has & CHANGE_EXTENSION)
		user_extension_merge(&text, u->now.extension, c->extension);
	else
		str_puts(&text, "{}");
	if (text.full)
		return err_set(&u->t->e, INVALID_PARAMETERS,
		               "the extension would have more than %d bytes", EDIT_EXTENSION_MAX);
	if (all || c->has & CHANGE_EXTENSION)
		user_edit_put(out, "extension", str_view(&text));
	str_puts(out, "}}");
	return 0;
}

/* Reads the user, and checks the old password. */
static int user_edit_look(struct user_edit *u)
{
	struct edit *t = u->t;
	struct span stored = SPAN("");
	struct store_reply reply;
	enum pai_read read = users_secret(t, false, span_of(u->user), &t->arena, &reply);
	const char *why = arena_dup(&t->arena, reply.message);
	if (read == PAI_READ)
		read = pai_user_read(reply.body, span_of(u->user), &t->arena, &u->now, &why);
	if (read == PAI_READ && u->check_old)
		read = pai_password_read(reply.body, span_of(u->user), &t->arena, &stored, &why);
	if (read == PAI_UNFIT)
		return err_set(&t->e, 404, "NoUserError", "there is no such user");
	if (read == PAI_BROKEN)
		return user_edit_fail(u, span_of(why));
	if (u->check_old && !password_same(u->old_hash, stored))
		return err_set(&t->e, FORBIDDEN, "the old password is wrong");
	u->uid = arena_dup(&t->arena, reply.uid);
	u->version = arena_dup(&t->arena, reply.resource_version);
	return 0;
}

/* ---- the steps ---- */

/* Reads, computes and writes, again after a conflict.  -1 and the error of the edit. */
static int user_edit_apply(struct user_edit *u)
{
	static const enum store_verb VERBS[] = { [EDIT_CREATE] = STORE_CREATE,
		                                 [EDIT_CHANGE] = STORE_PATCH,
		                                 [EDIT_REMOVE] = STORE_DELETE };
	for (unsigned tries = 1;; tries++) {
		STR_AUTO body = STR_SECRET(EDIT_BODY_MAX);
		struct store_reply reply;
		if (u->kind != EDIT_CREATE && user_edit_look(u) < 0)
			return -1;
		if (user_edit_read_groups(u) < 0 || user_edit_list(u) < 0)
			return -1;
		struct store_request write = {
			.verb = VERBS[u->kind],
			.name = u->object,
			.namespace_name = u->t->r->loop->server->options->user_namespace,
		};
		if (u->kind == EDIT_REMOVE) {
			write.uid = u->uid;
			write.resource_version = u->version;
		} else if (user_edit_put_secret(u, &body) < 0) {
			return -1;
		}
		write.body[0] = str_view(&body);
		enum store_outcome outcome = edit_call(u->t, write, &u->t->arena, &reply);
		if (outcome == STORE_OK || (outcome == STORE_NOT_FOUND && u->kind == EDIT_REMOVE))
			return 0;
		if (outcome == STORE_EXISTS)
			return err_set(&u->t->e, 409, "ConflictUserError",
			               "there is a user of this name already");
		if (!store_is_outdated(outcome) || u->kind == EDIT_CREATE || tries == EDIT_TRIES)
			return user_edit_fail(u, reply.message);
	}
}

static void user_edit_run(struct edit *t)
{
	struct user_edit *u = t->arg;
	const struct user_change *c = &u->change;
	const struct span user = span_of(u->user);
	u->t = t;
	if ((c->has & CHANGE_PASSWORD && !password_hash(user, c->password, u->hash)) ||
	    (u->check_old && !password_hash(user, c->old_password, u->old_hash))) {
		(void)user_edit_fail(u, SPAN("the password was not hashed"));
		return;
	}
	if (user_edit_apply(u) < 0)
		return;
	accounts_forget(t->r->loop->has->accounts);
	/* Revoke tokens that an old password, or an earlier user of this name, has created. */
	if (tokens_stored(t->r->loop->server->options) &&
	    (u->kind != EDIT_CHANGE || c->has & CHANGE_PASSWORD))
		(void)token_store_remove_all(t, u->user, u->kind == EDIT_CHANGE);
}

static void user_edit_done(struct edit *t)
{
	static const char *const WORDS[] = { [EDIT_CREATE] = "is created",
		                             [EDIT_CHANGE] = "is changed",
		                             [EDIT_REMOVE] = "is removed" };
	const struct user_edit *u = t->arg;
	struct str *out = &t->r->reply.body;
	str_puts(out, "{\"message\":\"User ");
	str_json_text(out, span_of(u->user));
	str_printf(out, " %s successfully.\"}\n", WORDS[u->kind]);
	answer_json(t->r, u->kind == EDIT_REMOVE ? 200 : 201);
}

/* ---- routes ---- */

void users_check_profile(struct request *r)
{
	if (users_openpai(r))
		return;
	answer_header(r, "Allow", "GET, HEAD, OPTIONS");
	answer_refuse(r, 405, "NotImplementedError",
	              "users are in the file of --facts, which the administrator of this server "
	              "edits; this route needs --users=openpai");
}

void users_check_admin(struct request *r)
{
	users_check_profile(r);
	if (!request_answered(r) && !r->principal->admin)
		answer_refuse(r, FORBIDDEN, "only administrators may manage users");
}

static void user_edit_begin(struct request *r, enum edit_kind kind, struct span user,
                            const struct user_change *change)
{
	struct user_edit *u = ARENA_NEW(&r->arena, struct user_edit, 1);
	u->change = *change;
	u->kind = kind;
	u->user = arena_dup(&r->arena, user);
	pai_secret_name(u->object, user);
	r->secret = true;
	u->check_old = change->has & CHANGE_PASSWORD && !r->principal->admin;
	if (u->check_old && !(change->has & CHANGE_OLD_PASSWORD)) {
		answer_refuse(r, INVALID_PARAMETERS, "oldPassword is required");
		return;
	}
	/* Limits guesses of passwords, and clearing of the account caches of all loops. */
	if (!r->principal->admin && !rate_limit_login(r, user))
		return;
	edit_start(r, user_edit_run, user_edit_done, u);
}

/* A user's own account; a name in the body must match. */
static const struct change_rules EDIT_SELF = { true,
	                                       CHANGE_USERNAME | CHANGE_EMAIL | CHANGE_PASSWORD |
	                                           CHANGE_OLD_PASSWORD | CHANGE_EXTENSION,
	                                       0 };

/* Reads the body and begins.  user: from the path; p is NULL if the body has it. */
static void edit_by_body(struct request *r, enum edit_kind kind, struct span user,
                         const struct change_rules *rules)
{
	ERR_AUTO e = { 0 };
	struct user_change c;
	bool self = rules == &EDIT_SELF;
	r->secret = true;
	if (user_change_read(r, rules, &c, &e) < 0)
		answer_error(r, &e);
	else if (self && c.has & CHANGE_USERNAME && !span_eq(c.username, user))
		answer_refuse(
		    r, FORBIDDEN,
		    "this route changes your own user only, but username is another user");
	else
		user_edit_begin(r, kind, user.p ? user : c.username, &c);
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
	if (!user_name_ok(r->args[0]))
		answer_refuse(r, 404, "NoUserError", "there is no such user");
	else
		user_edit_begin(r, EDIT_REMOVE, r->args[0], &(struct user_change){ 0 });
}
