/*
 * Users, groups and storages, from accounts (account.h).  Only administrators of an OpenPAI cluster
 * make the server list Secrets: see "lists of an OpenPAI cluster".
 */
#include "base/clock.h"
#include "base/enc.h"
#include "base/json/scan.h"
#include "k8s/transport/store.h"
#include "server/accounts/account.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/http/routes.h"
#include "server/server.h"
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

bool users_ready(struct request *r)
{
	if (!r->loop->has->accounts)
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
	return r->loop->has->accounts;
}

bool users_openpai(const struct request *r)
{
	return strcmp(r->loop->server->options->users, "openpai") == 0;
}

void users_put_names(struct str *out, const struct span *v, size_t n)
{
	str_char(out, '[');
	for (size_t i = 0; i < n; i++) {
		str_puts(out, i ? "," : "");
		str_json(out, v[i]);
	}
	str_char(out, ']');
}

void users_put_text(struct str *out, const char *key, struct span text)
{
	str_printf(out, ",\"%s\":", key);
	str_json(out, text);
}

/* ---- lists of an OpenPAI cluster ----
 *
 * All users or groups, for administrators: pages of Secrets, for a few requests of a loop at a
 * time.
 */

enum {
	USER_LIST_PAGE = 250,
	USER_LIST_PAGES = 20,
	USER_LIST_AT_ONCE = 4,
	USER_LIST_DEPTH = 64,
	USER_LIST_QUERY = 8192,
	USER_LIST_TEXT = 1024,
};

struct listed_group {
	struct span name, description, external;
	struct pai_group g;
	struct listed_group *next;
};

/* In the request's arena, which is wiped. */
struct user_list {
	struct request *r;
	bool users; /* list the users once the groups are known */
	bool listing_users;
	size_t pages, n;
	struct listed_group *groups, **last;
	struct str query;
	int64_t deadline_ms;
};

static void user_list_end(struct user_list *l)
{
	l->r->loop->has->user_lists--;
	str_done(&l->query);
}

static void user_list_fail(struct user_list *l, struct span why)
{
	struct request *r = l->r;
	user_list_end(l);
	r->why = arena_dup(&r->arena, why);
	str_wipe(&r->reply.body);
	answer_refuse(r, UNAVAILABLE,
	              "users and groups cannot be listed at the moment, or this server lacks the "
	              "right to (k8s/deploy/options/manage-users.yaml)");
}

static void user_list_put_group(struct str *out, const struct listed_group *g)
{
	str_puts(out, "{\"groupname\":");
	str_json(out, g->name);
	users_put_text(out, "description", g->description);
	users_put_text(out, "externalName", g->external);
	str_printf(out, ",\"extension\":{\"acls\":{\"admin\":%s,\"virtualClusters\":",
	           g->g.admin ? "true" : "false");
	users_put_names(out, g->g.virtual_clusters, g->g.n_virtual_clusters);
	str_puts(out, ",\"storageConfigs\":");
	users_put_names(out, g->g.storages, g->g.n_storages);
	str_puts(out, "}}}");
}

static const struct listed_group *user_list_find(const struct user_list *l, struct span name)
{
	const struct listed_group *g = l->groups;
	while (g && !span_eq(g->name, name))
		g = g->next;
	return g;
}

struct name_set {
	struct span v[PAI_GRANTS_MAX];
	size_t n;
};

static void name_set_add(struct name_set *to, const struct span *v, size_t n)
{
	for (size_t i = 0; i < n && to->n < PAI_GRANTS_MAX; i++)
		if (!names_contain(to->v, to->n, v[i]))
			to->v[to->n++] = v[i];
}

static void user_list_put_user(struct user_list *l, struct span name, const struct pai_user *user)
{
	struct str *out = &l->r->reply.body;
	struct name_set clusters = { .n = 0 };
	struct name_set storages = { .n = 0 };
	bool admin = false;
	for (size_t i = 0; i < user->n_groups; i++) {
		const struct listed_group *g = user_list_find(l, user->groups[i]);
		if (!g)
			continue;
		admin |= g->g.admin;
		name_set_add(&clusters, g->g.virtual_clusters, g->g.n_virtual_clusters);
		name_set_add(&storages, g->g.storages, g->g.n_storages);
	}
	str_puts(out, "{\"username\":");
	str_json(out, name);
	users_put_text(out, "email", span_of(user->email));
	str_puts(out, ",\"grouplist\":");
	users_put_names(out, user->groups, user->n_groups);
	str_printf(out, ",\"admin\":%s,\"virtualCluster\":", admin ? "true" : "false");
	users_put_names(out, clusters.v, clusters.n);
	str_puts(out, ",\"storageConfig\":");
	users_put_names(out, storages.v, storages.n);
	str_char(out, '}');
}

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
	struct arena *a = &l->r->arena;
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

static void user_list_take_user(struct user_list *l, struct span item)
{
	__attribute__((cleanup(arena_wipe))) struct arena a = { 0 };
	struct pai_user user;
	const char *why;
	struct span name = user_list_text(item, "username", &a);
	if (!user_name_ok(name) || pai_user_read(item, name, &a, &user, &why) != PAI_READ)
		return;
	str_puts(&l->r->reply.body, l->n++ ? "," : "");
	user_list_put_user(l, name, &user);
}

static void user_list_finish(struct user_list *l)
{
	struct str *out = &l->r->reply.body;
	for (const struct listed_group *g = l->users ? NULL : l->groups; g; g = g->next) {
		str_puts(out, l->n++ ? "," : "");
		user_list_put_group(out, g);
	}
	str_char(out, ']');
	user_list_end(l);
	users_send(l->r);
}

static void user_list_ask(struct user_list *l, struct span more);

/* Malformed Secrets are skipped: they grant nothing either. */
static void user_list_came(void *arg, const struct store_reply *reply)
{
	struct user_list *l = arg;
	struct span item;
	if (reply->outcome != STORE_OK || !scan_valid(reply->body, USER_LIST_DEPTH)) {
		user_list_fail(l, reply->outcome == STORE_OK ? SPAN("no list") : reply->message);
		return;
	}
	struct scan walk = scan_begin(scan_get(reply->body, "items"));
	while (scan_item(&walk, &item))
		(l->listing_users ? user_list_take_user : user_list_take_group)(l, item);
	struct span more = scan_text(scan_path(reply->body, "metadata", "continue"), &l->r->arena);
	bool enough = ++l->pages == USER_LIST_PAGES;
	if (more.n && !enough) {
		user_list_ask(l, more);
	} else if (l->users && !l->listing_users) {
		l->listing_users = true;
		l->pages = 0;
		user_list_ask(l, SPAN(""));
	} else {
		user_list_finish(l);
	}
}

static void user_list_ask(struct user_list *l, struct span more)
{
	struct loop *loop = l->r->loop;
	const struct options *o = loop->server->options;
	str_done(&l->query);
	l->query = STR_INIT(USER_LIST_QUERY);
	str_printf(&l->query, "limit=%d%s", USER_LIST_PAGE, more.n ? "&continue=" : "");
	for (size_t i = 0; i < more.n; i++)
		str_printf(&l->query, "%%%02X", (unsigned char)more.p[i]);
	if (loop->store && !l->query.full)
		store_request(
		    loop->store,
		    &(struct store_request){
			.verb = STORE_LIST,
			.kind = KIND_SECRET,
			.namespace_name = l->listing_users ? o->user_namespace : o->group_namespace,
			.query = str_c(&l->query),
			.whole = true,
			.user = l->r->principal->name,
			.deadline_ms = l->deadline_ms,
			.done = user_list_came,
			.arg = l,
		    });
	else
		user_list_fail(l, SPAN("shutting down"));
}

static void user_list_begin(struct request *r, bool users)
{
	if (r->loop->has->user_lists == USER_LIST_AT_ONCE) {
		answer_refuse(r, UNAVAILABLE, "too many lists of users are being read; try again");
		return;
	}
	struct user_list *l = ARENA_NEW(&r->arena, struct user_list, 1);
	l->r = r;
	l->users = users;
	l->last = &l->groups;
	l->deadline_ms = clock_ms() + r->loop->server->options->deadline_s * 1000;
	r->loop->has->user_lists++;
	r->secret = true;
	str_char(&r->reply.body, '[');
	request_wait(r);
	user_list_ask(l, SPAN(""));
}

/* ---- users ---- */

static void users_put_user(struct request *r, const struct account *a)
{
	struct str *out = &r->reply.body;
	const struct facts *f = &a->facts;
	struct span grants[GRANT_BITS];
	size_t n_grants = 0;
	struct span *clusters;
	struct span *storages = ARENA_NEW(&r->arena, struct span, f->n_storages + 1);
	size_t n = clusters_of(r, a, &clusters);
	for (size_t i = 0; i < f->n_storages; i++)
		storages[i] = f->storages[i].name;
	for (size_t bit = 0; bit < GRANT_BITS; bit++)
		if (f->grants >> bit & 1)
			grants[n_grants++] = span_of(GRANT_NAMES[bit]);
	str_puts(out, "{\"username\":");
	str_json(out, span_of(a->name));
	users_put_text(out, "email", span_of(a->email));
	str_puts(out, ",\"grouplist\":");
	users_put_names(out, a->groups, a->n_groups);
	if (r->principal->admin || strcmp(a->name, r->principal->name) == 0) {
		str_puts(out, ",\"extension\":");
		account_extension(a, out);
	}
	str_printf(out, ",\"admin\":%s,\"virtualCluster\":", a->admin ? "true" : "false");
	users_put_names(out, clusters, n);
	str_puts(out, ",\"storageConfig\":");
	users_put_names(out, storages, f->n_storages);
	str_puts(out, ",\"overlays\":");
	users_put_names(out, grants, n_grants);
	str_char(out, '}');
}

static void show_user(struct request *r, const struct account *a)
{
	users_put_user(r, a);
	users_send(r);
}

static void refuse_no_user(struct request *r)
{
	answer_refuse(r, NO_USER, "there is no such user");
}

/* account_find answers 401 for an unknown user; here the unknown user is not the client. */
static void user_came(void *arg, struct account *a, const struct err *e)
{
	struct request *r = arg;
	if (a)
		show_user(r, a);
	else if (e->http == 401)
		refuse_no_user(r);
	else
		answer_error(r, e);
	account_drop(a);
}

/* The file of --facts may accept unlisted users, but only listed users are shown. */
static bool may_exist(struct request *r, struct span name)
{
	struct span *users;
	if (!user_name_ok(name))
		return false;
	if (strcmp(r->loop->server->options->users, "file") != 0)
		return true;
	size_t n = account_users(r->loop->has->accounts, &r->arena, &users);
	return names_contain(users, n, name);
}

void user_get(struct request *r)
{
	ERR_AUTO e = { 0 };
	if (!users_ready(r))
		return;
	if (span_is(r->args[0], r->principal->name)) {
		show_user(r, r->principal);
		return;
	}
	if (!may_exist(r, r->args[0])) {
		refuse_no_user(r);
		return;
	}
	struct account *a = account_find(r->loop->has->accounts, r->args[0].p, user_came, r, &e);
	if (a || e.http)
		user_came(r, a, &e);
	else
		request_wait(r);
}

/* Other users are listed by name only. */
void users_get(struct request *r)
{
	struct str *out = &r->reply.body;
	struct span *users;
	if (!users_ready(r))
		return;
	if (r->principal->admin && users_openpai(r)) {
		user_list_begin(r, true);
		return;
	}
	size_t n = account_users(r->loop->has->accounts, &r->arena, &users);
	str_char(out, '[');
	users_put_user(r, r->principal);
	for (size_t i = 0; i < n; i++) {
		if (span_is(users[i], r->principal->name))
			continue;
		str_puts(out, ",{\"username\":");
		str_json(out, users[i]);
		str_char(out, '}');
	}
	str_char(out, ']');
	users_send(r);
}

/* ---- storages ---- */

/* Without the closing brace. */
static void put_storage(struct str *out, const struct account *a, size_t i)
{
	const struct storage_fact *f = &a->facts.storages[i];
	str_puts(out, "{\"name\":");
	str_json(out, f->name);
	str_printf(out, ",\"share\":%s", f->share ? "true" : "false");
	users_put_text(out, "volumeName", span_of(a->storages[i].volume));
	str_printf(out, ",\"default\":%s", f->is_default ? "true" : "false");
}

static bool wants_defaults(struct request *r)
{
	struct span rest = span_of(r->query);
	struct span name;
	struct span value;
	while (query_next(&rest, &r->arena, &name, &value))
		if (span_is(name, "default") && value.p && span_is(value, "true"))
			return true;
	return false;
}

void storages_get(struct request *r)
{
	const struct account *a = r->principal;
	struct str *out = &r->reply.body;
	bool defaults = wants_defaults(r);
	bool first = true;
	str_puts(out, "{\"storages\":[");
	for (size_t i = 0; i < a->facts.n_storages; i++) {
		if (defaults && !a->facts.storages[i].is_default)
			continue;
		str_puts(out, first ? "" : ",");
		put_storage(out, a, i);
		str_char(out, '}');
		first = false;
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
	users_put_text(out, "type", span_of(a->storages[i].type));
	str_puts(out, ",\"data\":");
	str_span(out, a->storages[i].data);
	str_printf(out, ",\"readOnly\":%s", a->facts.storages[i].read_only ? "true" : "false");
	if (a->storages[i].mount_options.n) {
		str_puts(out, ",\"mountOptions\":");
		str_span(out, a->storages[i].mount_options);
	}
	str_char(out, '}');
	users_send(r);
}

/* ---- groups ---- */

static void put_group_list(struct str *out, const char *key, const struct node *list)
{
	str_puts(out, key);
	if (node_is(list, NODE_LIST))
		node_json(out, list);
	else
		str_puts(out, "[]");
}

/* has: the group in the file of --facts, or NULL. */
static void put_group(struct str *out, struct span name, const struct node *has)
{
	const struct node *description = node_get(has, "description");
	const struct node *admin = node_get(has, "admin");
	str_puts(out, "{\"groupname\":");
	str_json(out, name);
	users_put_text(out, "description",
	               node_is(description, NODE_TEXT) ? node_span(description) : SPAN(""));
	str_puts(out, ",\"externalName\":\"\",\"extension\":{\"acls\":{");
	if (has) {
		bool is_admin = node_is(admin, NODE_BOOL) && admin->boolean;
		str_printf(out, "\"admin\":%s", is_admin ? "true" : "false");
		put_group_list(out, ",\"virtualClusters\":", node_get(has, "virtualClusters"));
		put_group_list(out, ",\"storageConfigs\":", node_get(has, "storages"));
	}
	str_puts(out, "}}}");
}

void groups_get(struct request *r)
{
	struct str *out = &r->reply.body;
	if (!users_ready(r))
		return;
	if (r->principal->admin && users_openpai(r)) {
		user_list_begin(r, false);
		return;
	}
	const struct facts_file *file = account_file(r->loop->has->accounts);
	const struct span *names = r->principal->groups;
	size_t n = r->principal->n_groups;
	struct span *all = NULL;
	if (r->principal->admin) {
		n = facts_file_groups(file, &r->arena, &all);
		names = all;
	}
	str_char(out, '[');
	for (size_t i = 0; names && i < n; i++) {
		str_puts(out, i ? "," : "");
		put_group(out, names[i], facts_file_group(file, names[i]));
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

static void empty_list(struct request *r, const char *kind)
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
	empty_list(r, "NodeList");
}

void pods_get(struct request *r)
{
	empty_list(r, "PodList");
}
