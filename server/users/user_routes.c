/*
 * Users, groups and storages, from accounts (account.h).  Only administrators of an OpenPAI cluster
 * make the server list Secrets: see "lists of an OpenPAI cluster".
 */
#include "base/enc.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "jobs/store/paths.h"
#include "server/accounts/account.h"
#include "server/config/options.h"
#include "server/http/edit.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/state/server.h"
#include "server/users/users.h"
#include "server/users/users_internal.h"

/* ---- answers ---- */

void users_send(struct request *r)
{
	if (r->reply.body.full) {
		str_wipe(&r->reply.body);
		answer_refuse(r, UNKNOWN_ERROR, "this list is too large for an answer");
		return;
	}
	str_char(&r->reply.body, '\n');
	answer_json(r, 200);
}

bool users_openpai(const struct request *r)
{
	return strcmp(r->loop->server->options->users, "openpai") == 0;
}

void users_put_names(struct str *out, const char *key, const struct span *v, size_t n)
{
	json_put_open(out, key, '[');
	for (size_t i = 0; i < n; i++)
		json_put_text(out, NULL, v[i]);
	str_char(out, ']');
}

enum pai_read users_secret(struct edit *t, bool group, struct span name, struct arena *a,
                           struct store_reply *reply)
{
	const struct options *o = t->r->loop->server->options;
	char object[2 * PAI_NAME_MAX + 1];
	pai_secret_name(object, name);
	struct store_request get = { .verb = STORE_GET,
		                     .name = object,
		                     .namespace_name =
		                         group ? o->group_namespace : o->user_namespace };
	enum store_outcome outcome = edit_call(t, get, a, reply);
	return outcome == STORE_OK ? PAI_READ : outcome == STORE_NOT_FOUND ? PAI_UNFIT : PAI_BROKEN;
}

/* Begins a group, up to what it grants. */
static void users_put_group(struct str *out, struct span name, struct span description,
                            struct span external)
{
	json_put_open(out, NULL, '{');
	json_put_text(out, "groupname", name);
	json_put_text(out, "description", description);
	json_put_text(out, "externalName", external);
	str_puts(out, ",\"extension\":{\"acls\":{");
}

/* ---- lists of an OpenPAI cluster ----
 *
 * All users or groups, for administrators: pages of Secrets, read by an edit (server/http/edit.h).
 * Malformed Secrets are skipped: they grant nothing either.
 */

enum {
	USER_LIST_PAGE = 250,
	USER_LIST_PAGES = 20,
	USER_LIST_DEPTH = 64,
	USER_LIST_QUERY = 8192,
	USER_LIST_TEXT = 1024,
};

struct listed_group {
	struct span name, description, external;
	struct pai_group g;
	struct listed_group *next;
};

struct user_list {
	struct edit *t;
	struct listed_group *groups, **last; /* in the arena of the edit */
};

/* The text of a member of a Secret's data; "" if it is malformed. */
static struct span user_list_text(struct span item, const char *key, struct arena *a)
{
	struct span text = SPAN("");
	struct span encoded = scan_text(scan_path(item, "data", key), a);
	if (encoded.n > USER_LIST_TEXT || base64_decode(a, encoded, &text) < 0 ||
	    utf8_check(text) != text.n || (text.n && memchr(text.p, '\0', text.n)))
		return SPAN("");
	return text;
}

static void user_list_take_group(struct user_list *l, struct span item)
{
	struct arena *a = &l->t->arena;
	struct listed_group *g = ARENA_NEW(a, struct listed_group, 1);
	const char *why;
	g->name = user_list_text(item, "groupname", a);
	if (g->name.n == 0 || pai_group_read(item, g->name, a, &g->g, &why) != PAI_READ)
		return;
	g->description = user_list_text(item, "description", a);
	g->external = user_list_text(item, "externalName", a);
	*l->last = g;
	l->last = &g->next;
}

static void name_set_add_some(struct name_set *to, const struct name_set *from)
{
	for (size_t i = 0; i < from->n && to->n < PAI_GRANTS_MAX; i++)
		name_set_add(to, from->v[i]);
}

static void user_list_put_user(struct user_list *l, struct span item)
{
	ARENA_SECRET a = { 0 };
	struct str *out = &l->t->body;
	struct pai_user user;
	struct name_set clusters = { ARENA_NEW(&a, struct span, PAI_GRANTS_MAX), 0 };
	struct name_set storages = { ARENA_NEW(&a, struct span, PAI_GRANTS_MAX), 0 };
	bool admin = false;
	const char *why;
	struct span name = user_list_text(item, "username", &a);
	if (!user_name_ok(name) || pai_user_read(item, name, &a, &user, &why) != PAI_READ)
		return;
	for (size_t i = 0; i < user.groups.n; i++) {
		const struct listed_group *g = l->groups;
		while (g && !span_eq(g->name, user.groups.v[i]))
			g = g->next;
		if (!g)
			continue;
		admin |= g->g.admin;
		name_set_add_some(&clusters, &g->g.virtual_clusters);
		name_set_add_some(&storages, &g->g.storages);
	}
	json_put_open(out, NULL, '{');
	json_put_text(out, "username", name);
	json_put_word(out, "email", user.email);
	users_put_names(out, "grouplist", user.groups.v, user.groups.n);
	json_put_bool(out, "admin", admin);
	users_put_names(out, "virtualCluster", clusters.v, clusters.n);
	users_put_names(out, "storageConfig", storages.v, storages.n);
	str_char(out, '}');
}

/* All pages of one namespace.  -1 and the error of the edit. */
static int user_list_read(struct user_list *l, const char *namespace_name,
                          void (*take)(struct user_list *l, struct span item))
{
	STR_AUTO query = STR_INIT(USER_LIST_QUERY);
	str_printf(&query, "limit=%d", USER_LIST_PAGE);
	size_t first = query.n;
	for (int page = 0; page < USER_LIST_PAGES; page++) {
		ARENA_SECRET a = { 0 };
		struct store_reply reply = { .message = SPAN("") };
		struct span item;
		const struct store_request list = { .verb = STORE_LIST,
			                            .namespace_name = namespace_name,
			                            .query = str_c(&query) };
		if (query.full || edit_call(l->t, list, &a, &reply) != STORE_OK ||
		    !scan_valid(reply.body, USER_LIST_DEPTH))
			return edit_fail(
			    l->t,
			    "users and groups cannot be listed at the moment, or this server lacks "
			    "the right to (k8s/deploy/options/manage-users.yaml)",
			    reply.message.n ? reply.message : SPAN("no list"));
		struct scan walk = scan_begin(scan_get(reply.body, "items"));
		while (scan_item(&walk, &item))
			take(l, item);
		struct span more = scan_text(scan_path(reply.body, "metadata", "continue"), &a);
		if (!more.n)
			break;
		query.n = first;
		str_puts(&query, "&continue=");
		query_encode(&query, more);
	}
	return 0;
}

static void user_list_groups(struct edit *t)
{
	struct user_list l = { .t = t };
	struct str *out = &t->body;
	l.last = &l.groups;
	str_char(out, '[');
	if (user_list_read(&l, t->r->loop->server->options->group_namespace, user_list_take_group) <
	    0)
		return;
	for (const struct listed_group *g = l.groups; g; g = g->next) {
		users_put_group(out, g->name, g->description, g->external);
		json_put_bool(out, "admin", g->g.admin);
		users_put_names(out, "virtualClusters", g->g.virtual_clusters.v,
		                g->g.virtual_clusters.n);
		users_put_names(out, "storageConfigs", g->g.storages.v, g->g.storages.n);
		str_puts(out, "}}}");
	}
	str_char(out, ']');
}

/* Appends the users with the grants of their groups. */
static void user_list_users(struct edit *t)
{
	const struct options *o = t->r->loop->server->options;
	struct user_list l = { .t = t };
	l.last = &l.groups;
	str_char(&t->body, '[');
	if (user_list_read(&l, o->group_namespace, user_list_take_group) == 0 &&
	    user_list_read(&l, o->user_namespace, user_list_put_user) == 0)
		str_char(&t->body, ']');
}

static void user_list_done(struct edit *t)
{
	users_send(t->r);
}

/* ---- users ---- */

static void users_put_user(struct request *r, const struct account *a)
{
	struct str *out = &r->reply.body;
	const struct facts *f = &a->facts;
	struct name_set clusters = clusters_of(r, a);
	json_put_open(out, NULL, '{');
	json_put_word(out, "username", a->name);
	json_put_word(out, "email", a->email);
	users_put_names(out, "grouplist", a->groups, a->n_groups);
	if (r->principal->admin || strcmp(a->name, r->principal->name) == 0) {
		json_put_key(out, "extension");
		account_extension(a, out);
	}
	json_put_bool(out, "admin", a->admin);
	users_put_names(out, "virtualCluster", clusters.v, clusters.n);
	json_put_open(out, "storageConfig", '[');
	for (size_t i = 0; i < f->n_storages; i++)
		json_put_text(out, NULL, f->storages[i].name);
	str_char(out, ']');
	json_put_open(out, "overlays", '[');
	for (size_t bit = 0; bit < GRANT_BITS; bit++)
		if (f->grants >> bit & 1)
			json_put_word(out, NULL, GRANT_NAMES[bit]);
	str_puts(out, "]}");
}

static void users_refuse_unknown(struct request *r)
{
	answer_refuse(r, NO_USER, "there is no such user");
}

/* account_find answers 401 for an unknown user; here the unknown user is not the client. */
static void user_account_found(void *arg, struct account *a, const struct err *e)
{
	struct request *r = arg;
	if (a) {
		users_put_user(r, a);
		users_send(r);
	} else if (e->http == 401) {
		users_refuse_unknown(r);
	} else {
		answer_error(r, e);
	}
	account_drop(a);
}

void user_get(struct request *r)
{
	ERR_AUTO e = { 0 };
	struct accounts *all = r->loop->has->accounts;
	if (span_is(r->args[0], r->principal->name)) {
		users_put_user(r, r->principal);
		users_send(r);
		return;
	}
	bool may_exist = user_name_ok(r->args[0]);
	/* The file of --facts may accept unlisted users, but only listed users are shown. */
	if (may_exist && strcmp(r->loop->server->options->users, "file") == 0)
		may_exist = facts_find_in(&account_file(all)->users, r->args[0]);
	if (!may_exist) {
		users_refuse_unknown(r);
		return;
	}
	struct account *a = account_find(all, r->args[0].p, user_account_found, r, &e);
	if (a || e.http)
		user_account_found(r, a, &e);
	else
		request_wait(r);
}

/* Other users are listed by name only. */
void users_get(struct request *r)
{
	struct str *out = &r->reply.body;
	if (r->principal->admin && users_openpai(r)) {
		edit_start(r, user_list_users, user_list_done, NULL);
		return;
	}
	str_char(out, '[');
	users_put_user(r, r->principal);
	const struct facts_index *users = &account_file(r->loop->has->accounts)->users;
	for (size_t i = 0; i < users->n; i++) {
		struct span name = member_key(users->v[i]);
		if (span_is(name, r->principal->name))
			continue;
		json_put_open(out, NULL, '{');
		json_put_text(out, "username", name);
		str_char(out, '}');
	}
	str_char(out, ']');
	users_send(r);
}

/* ---- storages ---- */

/* Appends the object without the closing brace. */
static void put_storage(struct str *out, const struct account *a, size_t i)
{
	const struct storage_fact *f = &a->facts.storages[i];
	json_put_open(out, NULL, '{');
	json_put_text(out, "name", f->name);
	json_put_bool(out, "share", f->share);
	json_put_word(out, "volumeName", a->storages[i].volume);
	json_put_bool(out, "default", f->is_default);
	json_put_bool(out, "readOnly", f->read_only);
}

const struct parameter STORAGES[] = {
	{ .name = "default",
	  .values = "true|false",
	  .doc = "`true`: only those that jobs mount by default." },
	{ .name = NULL },
};

void storages_get(struct request *r)
{
	const struct account *a = r->principal;
	struct str *out = &r->reply.body;
	struct span value;
	bool defaults = parameter_find(r, STORAGES, &value) && span_is(value, "true");
	str_puts(out, "{\"storages\":[");
	for (size_t i = 0; i < a->facts.n_storages; i++) {
		if (defaults && !a->facts.storages[i].is_default)
			continue;
		put_storage(out, a, i);
		str_char(out, '}');
	}
	str_puts(out, "]}");
	users_send(r);
}

void storage_get(struct request *r)
{
	const struct account *a = r->principal;
	struct str *out = &r->reply.body;
	size_t i = 0;
	while (i < a->facts.n_storages && !span_eq(a->facts.storages[i].name, r->args[0]))
		i++;
	if (i == a->facts.n_storages) {
		answer_refuse(r, NO_STORAGE, "there is no such storage, or you may not use it");
		return;
	}
	put_storage(out, a, i);
	json_put_word(out, "type", a->storages[i].type);
	json_put_raw(out, "data", a->storages[i].data);
	if (a->storages[i].mount_options.n)
		json_put_raw(out, "mountOptions", a->storages[i].mount_options);
	str_char(out, '}');
	users_send(r);
}

/* ---- groups ---- */

static void put_group_list(struct str *out, const char *key, const struct node *list)
{
	json_put_key(out, key);
	if (node_is(list, NODE_LIST))
		node_json(out, list);
	else
		str_puts(out, "[]");
}

void groups_get(struct request *r)
{
	struct str *out = &r->reply.body;
	if (r->principal->admin && users_openpai(r)) {
		edit_start(r, user_list_groups, user_list_done, NULL);
		return;
	}
	const struct facts_file *file = account_file(r->loop->has->accounts);
	bool all = r->principal->admin;
	size_t n = all ? file->groups.n : r->principal->groups ? r->principal->n_groups : 0;
	str_char(out, '[');
	for (size_t i = 0; i < n; i++) {
		struct span name = all ? member_key(file->groups.v[i]) : r->principal->groups[i];
		const struct node *has = facts_find_in(&file->groups, name);
		const struct node *admin = node_get(has, "admin");
		users_put_group(out, name, span_of(node_text(has, "description")), SPAN(""));
		if (has) {
			json_put_bool(out, "admin", node_is(admin, NODE_BOOL) && admin->boolean);
			put_group_list(out, "virtualClusters", node_get(has, "virtualClusters"));
			put_group_list(out, "storageConfigs", node_get(has, "storages"));
		}
		str_puts(out, "}}}");
	}
	str_char(out, ']');
	users_send(r);
}

/* ---- lists that OpenPAI's portal reads, always empty here ---- */

void alerts_get(struct request *r)
{
	str_puts(&r->reply.body, "[]");
	users_send(r);
}

static void answer_empty_list(struct request *r, const char *kind)
{
	if (!r->principal->admin) {
		answer_refuse(r, FORBIDDEN, "only administrators may list nodes and pods");
		return;
	}
	str_printf(&r->reply.body,
	           "{\"apiVersion\":\"v1\",\"kind\":\"%s\",\"metadata\":{},\"items\":[]}", kind);
	users_send(r);
}

void nodes_get(struct request *r)
{
	answer_empty_list(r, "NodeList");
}

void pods_get(struct request *r)
{
	answer_empty_list(r, "PodList");
}
