/*
 * Who somebody is, and what he may use: what clients ask before they submit.  All of it comes from
 * accounts (account.h); nothing here makes the store be asked for a list.
 */
#include "server/account.h"
#include "server/answer.h"
#include "server/handlers.h"
#include "server/loop.h"

static void send_json(struct request *r)
{
	if (r->reply.body.full) {
		r->reply.body = (struct str){ .max = REPLY_MAX };
		answer_refuse(r, UNKNOWN_ERROR, "this list is too long for an answer");
		return;
	}
	str_char(&r->reply.body, '\n');
	answer_json(r, 200);
}

/* The loop may be on its way out, with answers still to be given. */
static bool has_accounts(struct request *r)
{
	if (!r->loop->accounts)
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
	return r->loop->accounts;
}

/* Is `key=value`, or for no value `key` with or without one, in the query? */
static bool query_has(const struct request *r, const char *key, const char *value)
{
	struct span rest = span_of(r->query);
	size_t n = strlen(key);
	while (rest.n) {
		const char *end = memchr(rest.p, '&', rest.n);
		struct span one = { rest.p, end ? (size_t)(end - rest.p) : rest.n };
		rest.p += one.n + (end != NULL);
		rest.n -= one.n + (end != NULL);
		if (!span_starts(one, key) || (one.n > n && one.p[n] != '='))
			continue;
		if (!value ||
		    (one.n > n && span_is((struct span){ one.p + n + 1, one.n - n - 1 }, value)))
			return true;
	}
	return false;
}

static void put_names(struct str *out, const struct span *v, size_t n)
{
	str_char(out, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			str_char(out, ',');
		str_json(out, v[i]);
	}
	str_char(out, ']');
}

/* ---- users ---- */

static void put_storage_names(struct str *out, const struct facts *f)
{
	str_char(out, '[');
	for (size_t i = 0; i < f->n_storages; i++) {
		if (i)
			str_char(out, ',');
		str_json(out, f->storages[i].name);
	}
	str_char(out, ']');
}

static void put_user(struct request *r, const struct account *a)
{
	struct str *out = &r->reply.body;
	struct span *clusters;
	size_t n = account_virtual_clusters(r->loop->accounts, a, &r->arena, &clusters);
	str_puts(out, "{\"username\":");
	str_json(out, span_of(a->name));
	str_puts(out, ",\"email\":");
	str_json(out, span_of(a->email));
	str_puts(out, ",\"grouplist\":");
	put_names(out, a->groups, a->n_groups);
	if (a == r->who || r->who->admin || strcmp(a->name, r->who->name) == 0) {
		str_puts(out, ",\"extension\":");
		account_extension(a, out);
	}
	str_printf(out, ",\"admin\":%s,\"virtualCluster\":", a->admin ? "true" : "false");
	put_names(out, clusters, n);
	str_puts(out, ",\"storageConfig\":");
	put_storage_names(out, &a->facts);
	str_char(out, '}');
}

static void show_user(struct request *r, const struct account *a)
{
	put_user(r, a);
	send_json(r);
}

static void no_user(struct request *r)
{
	answer_refuse(r, NO_USER, "there is no such user");
}

/* Why there is no account: to who asks for himself 401 says it, to others 400. */
static void refuse_user(struct request *r, const struct err *e)
{
	if (e->http == 401)
		no_user(r);
	else
		answer_error(r, e);
}

static void found(void *arg, struct account *a, const struct err *e)
{
	struct request *r = arg;
	if (a)
		show_user(r, a);
	else
		refuse_user(r, e);
	account_drop(a);
}

/* A file may let in everybody who has a token; but it says who is somebody. */
static bool may_exist(struct request *r, struct span name)
{
	struct span *users;
	if (!user_name_ok(name))
		return false;
	if (strcmp(r->loop->server->options->users, "file") != 0)
		return true;
	size_t n = account_users(r->loop->accounts, &r->arena, &users);
	for (size_t i = 0; i < n; i++)
		if (span_eq(users[i], name))
			return true;
	return false;
}

void user_get(struct request *r)
{
	ERR_AUTO e = { 0 };
	if (!has_accounts(r))
		return;
	if (span_is(r->args[0], r->who->name)) {
		show_user(r, r->who);
		return;
	}
	if (!may_exist(r, r->args[0])) {
		no_user(r);
		return;
	}
	struct account *a = account_find(r->loop->accounts, r->args[0].p, found, r, &e);
	if (a)
		found(r, a, &e);
	else if (e.http)
		refuse_user(r, &e);
	else
		request_wait(r);
}

/* Of others the name alone, which is all that clients read here. */
void users_get(struct request *r)
{
	struct str *out = &r->reply.body;
	struct span *users;
	if (!has_accounts(r))
		return;
	size_t n = account_users(r->loop->accounts, &r->arena, &users);
	str_char(out, '[');
	put_user(r, r->who);
	for (size_t i = 0; i < n; i++) {
		if (span_is(users[i], r->who->name))
			continue;
		str_puts(out, ",{\"username\":");
		str_json(out, users[i]);
		str_char(out, '}');
	}
	str_char(out, ']');
	send_json(r);
}

/* ---- storages ---- */

/* Without the brace at the end. */
static void put_storage(struct str *out, const struct account *a, size_t i)
{
	const struct storage_fact *f = &a->facts.storages[i];
	str_puts(out, "{\"name\":");
	str_json(out, f->name);
	str_printf(out, ",\"share\":%s,\"volumeName\":", f->share ? "true" : "false");
	str_json(out, span_of(a->storages[i].volume));
	str_printf(out, ",\"default\":%s", f->is_default ? "true" : "false");
}

void storages_get(struct request *r)
{
	const struct account *a = r->who;
	struct str *out = &r->reply.body;
	bool defaults = query_has(r, "default", "true");
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
	send_json(r);
}

void storage_get(struct request *r)
{
	const struct account *a = r->who;
	struct str *out = &r->reply.body;
	size_t i = 0;
	while (i < a->facts.n_storages && !span_eq(a->facts.storages[i].name, r->args[0]))
		i++;
	if (i == a->facts.n_storages) {
		answer_refuse(r, NO_STORAGE, "there is no such storage, or not for you");
		return;
	}
	put_storage(out, a, i);
	str_puts(out, ",\"type\":");
	str_json(out, span_of(a->storages[i].type));
	str_puts(out, ",\"data\":");
	str_span(out, a->storages[i].data);
	str_printf(out, ",\"readOnly\":%s", a->facts.storages[i].read_only ? "true" : "false");
	if (a->storages[i].mount_options.n) {
		str_puts(out, ",\"mountOptions\":");
		str_span(out, a->storages[i].mount_options);
	}
	str_char(out, '}');
	send_json(r);
}

/* ---- virtual clusters ---- */

/* Clients divide and add up; of none is it known what it has. */
#define RESOURCES "{\"cpu\":0,\"memory\":0,\"gpu\":0,\"vCores\":0,\"GPUs\":0}"
static const char CLUSTER[] =
    "{\"capacity\":0,\"usedCapacity\":0,\"dedicated\":false,\"resourcesUsed\":" RESOURCES
    ",\"resourcesGuaranteed\":" RESOURCES ",\"resourcesTotal\":" RESOURCES "}";

void clusters_get(struct request *r)
{
	struct str *out = &r->reply.body;
	struct span *names;
	if (!has_accounts(r))
		return;
	size_t n = account_virtual_clusters(r->loop->accounts, NULL, &r->arena, &names);
	if (query_has(r, "nodes", NULL))
		n = 0; /* by nodes, of which nothing is known */
	str_char(out, '{');
	for (size_t i = 0; i < n; i++) {
		str_puts(out, i ? "," : "");
		str_json(out, names[i]);
		str_char(out, ':');
		str_puts(out, CLUSTER);
	}
	str_char(out, '}');
	send_json(r);
}

void cluster_get(struct request *r)
{
	struct span *names;
	if (!has_accounts(r))
		return;
	size_t n = account_virtual_clusters(r->loop->accounts, NULL, &r->arena, &names);
	size_t i = 0;
	while (i < n && !span_eq(names[i], r->args[0]))
		i++;
	if (i == n) {
		answer_refuse(r, 404, "NoVirtualClusterError", "there is no such virtual cluster");
		return;
	}
	str_puts(&r->reply.body, CLUSTER);
	send_json(r);
}

void skus_get(struct request *r)
{
	str_puts(&r->reply.body, "{}");
	send_json(r);
}
