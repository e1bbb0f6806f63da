#include "server/users/roster.h"

#include "base/clock.h"
#include "base/enc.h"
#include "base/json/scan.h"
#include "k8s/transport/store.h"
#include "server/accounts/account.h"
#include "server/accounts/account_objects.h"
#include "server/features.h"
#include "server/http/answer.h"
#include "server/http/loop.h"
#include "server/users/people.h"

enum { ROSTER_DEPTH = 64, ROSTER_QUERY = 8192, ROSTER_TEXT = 1024 };

struct roster_group {
	struct span name, description, external;
	struct pai_group g;
	struct roster_group *next; /* of the list */
};

/* In the request's arena, which is wiped. */
struct roster {
	struct request *r;
	bool users; /* to be listed when the groups are known */
	bool listing_users;
	size_t pages, n;
	struct roster_group *groups, **last;
	struct str query;
	int64_t deadline_ms;
};

/* ---- ends ------------------------------------------------------------------------------------ */

static void roster_end(struct roster *l)
{
	l->r->loop->has->rosters--;
	str_done(&l->query);
}

static void roster_fail(struct roster *l, struct span why)
{
	struct request *r = l->r;
	roster_end(l);
	r->why = arena_dup(&r->arena, why);
	str_wipe(&r->reply.body);
	answer_refuse(r, UNAVAILABLE,
	              "users and groups cannot be listed at the moment, or this server lacks the "
	              "right to (part 5 of k8s/rbac-openpai.yaml)");
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void roster_put_names(struct str *out, const struct span *v, size_t n)
{
	str_char(out, '[');
	for (size_t i = 0; i < n; i++) {
		str_puts(out, i ? "," : "");
		str_json(out, v[i]);
	}
	str_char(out, ']');
}

static void roster_put_group(struct str *out, const struct roster_group *g)
{
	str_puts(out, "{\"groupname\":");
	str_json(out, g->name);
	str_puts(out, ",\"description\":");
	str_json(out, g->description);
	str_puts(out, ",\"externalName\":");
	str_json(out, g->external);
	str_printf(out, ",\"extension\":{\"acls\":{\"admin\":%s,\"virtualClusters\":",
	           g->g.admin ? "true" : "false");
	roster_put_names(out, g->g.virtual_clusters, g->g.n_virtual_clusters);
	str_puts(out, ",\"storageConfigs\":");
	roster_put_names(out, g->g.storages, g->g.n_storages);
	str_puts(out, "}}}");
}

static const struct roster_group *roster_find(const struct roster *l, struct span name)
{
	const struct roster_group *g = l->groups;
	while (g && !span_eq(g->name, name))
		g = g->next;
	return g;
}

/* A set of names that grows. */
struct roster_names {
	struct span v[PAI_GRANTS_MAX];
	size_t n;
};

static void roster_add_names(struct roster_names *to, const struct span *v, size_t n)
{
	for (size_t i = 0; i < n && to->n < PAI_GRANTS_MAX; i++) {
		size_t k = 0;
		while (k < to->n && !span_eq(to->v[k], v[i]))
			k++;
		if (k == to->n)
			to->v[to->n++] = v[i];
	}
}

static void roster_put_user(struct roster *l, struct span name, const struct pai_user *user)
{
	struct str *out = &l->r->reply.body;
	struct roster_names clusters = { .n = 0 };
	struct roster_names storages = { .n = 0 };
	bool admin = false;
	for (size_t i = 0; i < user->n_groups; i++) {
		const struct roster_group *g = roster_find(l, user->groups[i]);
		if (!g)
			continue;
		admin |= g->g.admin;
		roster_add_names(&clusters, g->g.virtual_clusters, g->g.n_virtual_clusters);
		roster_add_names(&storages, g->g.storages, g->g.n_storages);
	}
	str_puts(out, "{\"username\":");
	str_json(out, name);
	str_puts(out, ",\"email\":");
	str_json(out, span_of(user->email));
	str_puts(out, ",\"grouplist\":");
	roster_put_names(out, user->groups, user->n_groups);
	str_printf(out, ",\"admin\":%s,\"virtualCluster\":", admin ? "true" : "false");
	roster_put_names(out, clusters.v, clusters.n);
	str_puts(out, ",\"storageConfig\":");
	roster_put_names(out, storages.v, storages.n);
	str_char(out, '}');
}

/* ---- what comes ------------------------------------------------------------------------------ */

/* The text of a member of a Secret's data; "" if it is none that is fit to be shown. */
static struct span roster_text(struct span item, const char *key, struct arena *a)
{
	struct span text = SPAN("");
	struct span encoded = scan_text(scan_path(item, "data", key), a);
	if (encoded.n > ROSTER_TEXT || base64_decode(a, encoded, &text) < 0 ||
	    utf8_check(text) != text.n || (text.n && memchr(text.p, '\0', text.n)))
		return SPAN("");
	return text;
}

static bool roster_take_group(struct roster *l, struct span item)
{
	struct arena *a = &l->r->arena;
	struct roster_group *g = ARENA_NEW(a, struct roster_group, 1);
	const char *why;
	g->name = roster_text(item, "groupname", a);
	if (g->name.n == 0 || pai_group_read(item, g->name, a, &g->g, &why) != PAI_READ)
		return false;
	g->description = roster_text(item, "description", a);
	g->external = roster_text(item, "externalName", a);
	*l->last = g;
	l->last = &g->next;
	return true;
}

static bool roster_take_user(struct roster *l, struct span item)
{
	__attribute__((cleanup(arena_wipe))) struct arena a = { 0 };
	struct pai_user user;
	const char *why;
	struct span name = roster_text(item, "username", &a);
	if (!user_name_ok(name) || pai_user_read(item, name, &a, &user, &why) != PAI_READ)
		return false;
	str_puts(&l->r->reply.body, l->n++ ? "," : "");
	roster_put_user(l, name, &user);
	return true;
}

static void roster_ask(struct roster *l, struct span more);

static void roster_finish(struct roster *l)
{
	struct str *out = &l->r->reply.body;
	if (!l->users) {
		for (const struct roster_group *g = l->groups; g; g = g->next) {
			str_puts(out, l->n++ ? "," : "");
			roster_put_group(out, g);
		}
	}
	str_char(out, ']');
	roster_end(l);
	people_send(l->r);
}

static void roster_came(void *arg, const struct store_reply *reply)
{
	struct roster *l = arg;
	struct span item;
	if (reply->outcome != STORE_OK || !scan_valid(reply->body, ROSTER_DEPTH)) {
		roster_fail(l, reply->outcome == STORE_OK ? SPAN("no list") : reply->message);
		return;
	}
	/* What is not of the right form is left out: it gives no right either. */
	struct scan walk = scan_begin(scan_get(reply->body, "items"));
	while (scan_item(&walk, &item))
		(void)(l->listing_users ? roster_take_user(l, item) : roster_take_group(l, item));
	struct span more = scan_text(scan_path(reply->body, "metadata", "continue"), &l->r->arena);
	bool enough = ++l->pages == ROSTER_PAGES;
	if (more.n && !enough) {
		roster_ask(l, more);
	} else if (l->users && !l->listing_users) {
		l->listing_users = true;
		l->pages = 0;
		roster_ask(l, SPAN(""));
	} else {
		roster_finish(l);
	}
}

static void roster_put_escaped(struct str *out, struct span text)
{
	for (size_t i = 0; i < text.n; i++)
		str_printf(out, "%%%02X", (unsigned char)text.p[i]);
}

static void roster_ask(struct roster *l, struct span more)
{
	struct loop *loop = l->r->loop;
	const struct options *o = loop->server->options;
	str_done(&l->query);
	l->query = STR_INIT(ROSTER_QUERY);
	str_printf(&l->query, "limit=%d", ROSTER_PAGE);
	if (more.n) {
		str_puts(&l->query, "&continue=");
		roster_put_escaped(&l->query, more);
	}
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
			.done = roster_came,
			.arg = l,
		    });
	else
		roster_fail(l, SPAN("shutting down"));
}

/* ---- the doors ------------------------------------------------------------------------------- */

static void roster_begin(struct request *r, bool users)
{
	if (r->loop->has->rosters == ROSTER_AT_ONCE) {
		answer_refuse(r, UNAVAILABLE, "users are being listed for others; try again");
		return;
	}
	struct roster *l = ARENA_NEW(&r->arena, struct roster, 1);
	l->r = r;
	l->users = users;
	l->last = &l->groups;
	l->deadline_ms = clock_ms() + r->loop->server->options->deadline_s * 1000;
	r->loop->has->rosters++;
	r->secret = true;
	str_char(&r->reply.body, '[');
	request_wait(r);
	roster_ask(l, SPAN(""));
}

void roster_users(struct request *r)
{
	roster_begin(r, true);
}

void roster_groups(struct request *r)
{
	roster_begin(r, false);
}
