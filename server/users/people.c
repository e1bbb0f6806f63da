/*
 * Who somebody is, and what he may use: what clients ask before they submit.  All of it comes from
 * accounts (account.h); nothing here makes the store be asked for a list.
 */
#include "server/users/people.h"

#include "server/accounts/account.h"
#include "server/features.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/users/roster.h"

void people_send(struct request *r)
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
bool people_ready(struct request *r)
{
	if (!r->loop->has->accounts)
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
	return r->loop->has->accounts;
}

/* Is `key=value`, or for no value `key` with or without one, in the query? */
static bool query_has(struct request *r, const char *key, const char *value)
{
	struct span rest = span_of(r->query);
	struct span name;
	struct span has;
	while (query_next(&rest, &r->arena, &name, &has))
		if (span_is(name, key) && (!value || (has.p && span_is(has, value))))
			return true;
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

static void put_grants(struct str *out, unsigned grants)
{
	struct span names[GRANT_BITS];
	size_t n = 0;
	for (size_t bit = 0; bit < GRANT_BITS; bit++)
		if (grants >> bit & 1)
			names[n++] = span_of(GRANT_NAMES[bit]);
	put_names(out, names, n);
}

static void put_user(struct request *r, const struct account *a)
{
	struct str *out = &r->reply.body;
	struct span *clusters;
	size_t n = clusters_of(r, a, &clusters);
	str_puts(out, "{\"username\":");
	str_json(out, span_of(a->name));
	str_puts(out, ",\"email\":");
	str_json(out, span_of(a->email));
	str_puts(out, ",\"grouplist\":");
	put_names(out, a->groups, a->n_groups);
	if (a == r->principal || r->principal->admin || strcmp(a->name, r->principal->name) == 0) {
		str_puts(out, ",\"extension\":");
		account_extension(a, out);
	}
	str_printf(out, ",\"admin\":%s,\"virtualCluster\":", a->admin ? "true" : "false");
	put_names(out, clusters, n);
	str_puts(out, ",\"storageConfig\":");
	put_storage_names(out, &a->facts);
	str_puts(out, ",\"overlays\":");
	put_grants(out, a->facts.grants);
	str_char(out, '}');
}

static void show_user(struct request *r, const struct account *a)
{
	put_user(r, a);
	people_send(r);
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
	size_t n = account_users(r->loop->has->accounts, &r->arena, &users);
	for (size_t i = 0; i < n; i++)
		if (span_eq(users[i], name))
			return true;
	return false;
}

void user_get(struct request *r)
{
	ERR_AUTO e = { 0 };
	if (!people_ready(r))
		return;
	if (span_is(r->args[0], r->principal->name)) {
		show_user(r, r->principal);
		return;
	}
	if (!may_exist(r, r->args[0])) {
		no_user(r);
		return;
	}
	struct account *a = account_find(r->loop->has->accounts, r->args[0].p, found, r, &e);
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
	if (!people_ready(r))
		return;
	if (r->principal->admin && strcmp(r->loop->server->options->users, "openpai") == 0) {
		roster_users(r);
		return;
	}
	size_t n = account_users(r->loop->has->accounts, &r->arena, &users);
	str_char(out, '[');
	put_user(r, r->principal);
	for (size_t i = 0; i < n; i++) {
		if (span_is(users[i], r->principal->name))
			continue;
		str_puts(out, ",{\"username\":");
		str_json(out, users[i]);
		str_char(out, '}');
	}
	str_char(out, ']');
	people_send(r);
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
	const struct account *a = r->principal;
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
	people_send(r);
}

void storage_get(struct request *r)
{
	const struct account *a = r->principal;
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
	people_send(r);
}
