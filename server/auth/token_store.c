#include "server/auth/token_store.h"

#include <gnutls/gnutls.h>
#include <jansson.h>
#include <time.h>

#include "base/clock.h"
#include "base/enc.h"
#include "k8s/transport/reply.h"
#include "k8s/transport/store.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/auth_internal.h"
#include "server/auth/token.h"
#include "server/http/loop.h"

enum {
	TRIES = 4,    /* after conflicts */
	LATE_S = 300, /* expired entries are kept for so long, because clocks differ */
	BODY_MAX_TEXT = 4 << 20,
};

/* One entry of a Secret, decoded. */
struct entry {
	const char *key;
	struct span value;
	struct span user;     /* of the deny list; "" if unknown */
	int64_t iat_s, exp_s; /* -1: absent */
	bool token;           /* it parses as a token */
	bool application;
	bool drop;
};

/* A change of a Secret; in the request's arena. */
struct change {
	struct request *r;
	const char *namespace_name, *name;
	const char *key;      /* to add, or NULL */
	struct span value;    /* of the key */
	struct span unwanted; /* entries with this value are removed; p is NULL for none */
	bool logins, all;     /* remove all tokens but application tokens; remove all */
	const char *user;
	bool denied; /* the deny list: values are "TIME USER" */
	/* Limit entries like this one, so that application tokens leave room for logins, and one
	 * user cannot fill the deny list. */
	bool shared;
	unsigned tries;
	int64_t deadline_ms;
	struct str body;
	token_store_callback *done;
	token_store_list_callback *list; /* if set, nothing is changed */
};

static void token_store_finish(struct change *c, const struct err *e)
{
	str_wipe(&c->body);
	if (c->list)
		c->list(c->r, NULL, 0, e);
	else
		c->done(c->r, e);
}

static void succeed(struct change *c)
{
	token_store_finish(c, &(struct err){ 0 });
}

static void token_store_fail(struct change *c, struct span why)
{
	ERR_AUTO e = { 0 };
	c->r->why = arena_printf(&c->r->arena, "Secret %s/%s: %.*s", c->namespace_name, c->name,
	                         (int)why.n, why.p);
	(void)err_set(&e, UNAVAILABLE, "tokens cannot be read or stored at the moment; try again");
	token_store_finish(c, &e);
}

/* ---- the entries of a Secret ---- */

static void read_denied(struct entry *entry)
{
	int64_t until;
	struct span user = entry->value;
	struct span time = span_next(&user, ' ');
	if (time.n < entry->value.n)
		entry->user = user;
	if (parse_i64(time, 1, INT64_MAX / 2, &until) == 0)
		entry->exp_s = until;
}

static void token_store_read_entry(const struct change *c, struct entry *entry, const json_t *value)
{
	struct arena *a = &c->r->arena;
	struct token t;
	const char *text = json_string_value(value);
	*entry = (struct entry){ .key = entry->key, .iat_s = -1, .exp_s = -1 };
	if (!text ||
	    base64_decode(a, (struct span){ text, json_string_length(value) }, &entry->value) < 0)
		return;
	if (c->denied) {
		read_denied(entry);
	} else if (token_times(entry->value, a, &t)) {
		entry->token = true;
		entry->iat_s = t.iat_s;
		entry->exp_s = t.exp_s;
		entry->application = t.application;
	}
}

static bool token_store_expired(const struct entry *entry, int64_t late_s)
{
	return entry->exp_s >= 0 && entry->exp_s + late_s <= (int64_t)time(NULL);
}

/* Borrows the keys from `data`. */
static struct entry *read_entries(const struct change *c, json_t *data, size_t *n)
{
	struct entry *v = ARENA_NEW(&c->r->arena, struct entry, json_object_size(data) + 1);
	const char *key;
	json_t *value;
	*n = 0;
	json_object_foreach (data, key, value) {
		v[*n].key = key;
		token_store_read_entry(c, &v[(*n)++], value);
	}
	return v;
}

bool tokens_stored(const struct options *o)
{
	return strcmp(o->token_check, "stored") == 0;
}

bool secret_equal(struct span a, struct span b)
{
	return a.n == b.n && gnutls_memcmp(a.p, b.p, a.n) == 0;
}

/* ---- making room ---- */

static struct entry *oldest(struct entry *v, size_t n)
{
	struct entry *found = NULL;
	for (size_t i = 0; i < n; i++)
		if (!v[i].drop && !v[i].application && (!found || v[i].iat_s < found->iat_s))
			found = &v[i];
	return found;
}

/* The limit for entries like the new one. */
static int check_share(const struct change *c, const struct entry *v, size_t n, struct err *e)
{
	size_t like = 0;
	size_t max = c->denied ? DENIED_PER_USER : APPLICATION_TOKENS_PER_USER;
	for (size_t i = 0; i < n; i++)
		like += !v[i].drop && (c->denied ? span_is(v[i].user, c->user) : v[i].application);
	if (like < max)
		return 0;
	return err_set(e, INVALID_PARAMETERS,
	               c->denied ? "%zu of your tokens are revoked and have not expired, which is "
	                           "the limit; ask an administrator to revoke more"
	                         : "you have %zu application tokens: revoke some first",
	               like);
}

/* Mark the entries to remove.  -1 and *e: no room for the new one. */
static int token_store_mark(const struct change *c, struct entry *v, size_t n, struct err *e)
{
	size_t kept = 0;
	size_t max = c->denied ? DENIED_MAX : TOKENS_PER_USER;
	for (size_t i = 0; i < n; i++) {
		v[i].drop = token_store_expired(&v[i], LATE_S) || c->all ||
		            (c->logins && v[i].token && !v[i].application) ||
		            (c->unwanted.p && secret_equal(v[i].value, c->unwanted));
		kept += !v[i].drop;
	}
	if (c->shared && check_share(c, v, n, e) < 0)
		return -1;
	for (; c->key && kept >= max; kept--) {
		struct entry *first = c->denied ? NULL : oldest(v, n);
		if (!first && c->denied)
			return err_set(e, UNAVAILABLE,
			               "the list of revoked tokens is full (%d that have not "
			               "expired)",
			               DENIED_MAX);
		if (!first)
			return err_set(e, INVALID_PARAMETERS,
			               "you have %d application tokens: revoke some first",
			               TOKENS_PER_USER);
		first->drop = true;
	}
	return 0;
}

/* ---- bodies ---- */

static void token_store_put_value(struct change *c)
{
	str_json(&c->body, span_of(c->key));
	str_puts(&c->body, ":\"");
	str_base64(&c->body, c->value);
	str_char(&c->body, '"');
}

static void start_body(struct change *c)
{
	str_wipe(&c->body);
	c->body = STR_SECRET(BODY_MAX_TEXT);
}

static void write_new(struct change *c)
{
	start_body(c);
	str_puts(&c->body, "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":");
	str_json(&c->body, span_of(c->name));
	str_puts(&c->body, ",\"namespace\":");
	str_json(&c->body, span_of(c->namespace_name));
	str_puts(&c->body, "},\"type\":\"Opaque\",\"data\":{");
	token_store_put_value(c);
	str_puts(&c->body, "}}");
}

/* false: nothing to change. */
static bool write_patch(struct change *c, const struct entry *v, size_t n)
{
	bool some = c->key != NULL;
	start_body(c);
	str_puts(&c->body, "{\"data\":{");
	if (c->key)
		token_store_put_value(c);
	for (size_t i = 0; i < n; i++) {
		if (!v[i].drop)
			continue;
		str_puts(&c->body, some ? "," : "");
		str_json(&c->body, span_of(v[i].key));
		str_puts(&c->body, ":null");
		some = true;
	}
	str_puts(&c->body, "}}");
	return some;
}

/* ---- the steps: read, then patch or create; again after a conflict ---- */

static void token_store_look(struct change *c);

static void token_store_ask(struct change *c, enum store_verb verb, store_callback *done)
{
	struct loop *l = c->r->loop;
	const struct store_request request = {
		.verb = verb,
		.kind = KIND_SECRET,
		.name = c->name,
		.namespace_name = c->namespace_name,
		.whole = verb == STORE_GET,
		.body = { str_view(&c->body) },
		.deadline_ms = c->deadline_ms,
		.done = done,
		.arg = c,
	};
	if (l->store)
		store_request(l->store, &request);
	else
		token_store_fail(c, SPAN("shutting down"));
}

static void token_store_changed(void *arg, const struct store_reply *reply)
{
	struct change *c = arg;
	if (reply->outcome == STORE_OK)
		succeed(c);
	else if (store_is_outdated(reply->outcome) && c->tries < TRIES)
		token_store_look(c);
	else
		token_store_fail(c, reply->message);
}

/* An earlier request without an answer may have added it. */
static bool is_present(const struct change *c, const struct entry *v, size_t n)
{
	for (size_t i = 0; c->key && i < n; i++)
		if (strcmp(v[i].key, c->key) == 0 &&
		    (c->denied || secret_equal(v[i].value, c->value)))
			return true;
	return false;
}

static void token_store_answer_list(struct change *c, const struct entry *v, size_t n)
{
	struct span *tokens = ARENA_NEW(&c->r->arena, struct span, n + 1);
	size_t found = 0;
	for (size_t i = 0; i < n; i++)
		if (v[i].token && !token_store_expired(&v[i], 0))
			tokens[found++] = v[i].value;
	c->list(c->r, tokens, found, &(struct err){ 0 });
}

static void change(struct change *c, json_t *data)
{
	ERR_AUTO e = { 0 };
	size_t n;
	struct entry *v = read_entries(c, data, &n);
	if (c->list)
		token_store_answer_list(c, v, n);
	else if (!is_present(c, v, n) && token_store_mark(c, v, n, &e) < 0)
		token_store_finish(c, &e);
	else if (!is_present(c, v, n) && write_patch(c, v, n))
		token_store_ask(c, STORE_PATCH, token_store_changed);
	else
		succeed(c);
}

static void absent(struct change *c, struct span why)
{
	if (c->denied) {
		token_store_fail(c, why);
	} else if (c->list) {
		token_store_answer_list(c, NULL, 0);
	} else if (c->key) {
		write_new(c);
		token_store_ask(c, STORE_CREATE, token_store_changed);
	} else {
		succeed(c);
	}
}

static void token_store_looked(void *arg, const struct store_reply *reply)
{
	struct change *c = arg;
	if (reply->outcome == STORE_NOT_FOUND) {
		absent(c, reply->message);
		return;
	}
	if (reply->outcome != STORE_OK) {
		token_store_fail(c, reply->message);
		return;
	}
	json_auto_t *secret = reply_parse(reply->body);
	json_t *data = json_object_get(secret, "data");
	if (!secret || (data && !json_is_object(data) && !json_is_null(data)))
		token_store_fail(c, SPAN("is malformed"));
	else
		change(c, data);
}

static void token_store_look(struct change *c)
{
	c->tries++;
	start_body(c);
	token_store_ask(c, STORE_GET, token_store_looked);
}

/* ---- interface ---- */

static struct change *token_store_change_new(struct request *r)
{
	struct change *c = ARENA_NEW(&r->arena, struct change, 1);
	c->r = r;
	c->deadline_ms = clock_ms() + r->loop->server->options->deadline_s * 1000;
	r->secret = true;
	if (!r->waiting)
		request_wait(r);
	return c;
}

static struct change *change_of(struct request *r, const char *user)
{
	struct change *c = token_store_change_new(r);
	char *name = arena_alloc(&r->arena, (size_t)2 * PAI_NAME_MAX + 1);
	pai_secret_name(name, span_of(user));
	c->namespace_name = r->loop->server->options->token_namespace;
	c->name = name;
	c->user = user;
	return c;
}

void token_store_list(struct request *r, const char *user, token_store_list_callback *done)
{
	struct change *c = change_of(r, user);
	c->list = done;
	token_store_look(c);
}

/* OpenPAI's keys are UUIDs. */
static const char *new_key(struct arena *a, const char *name)
{
	char uuid[UUID_TEXT];
	random_uuid(uuid);
	return arena_printf(a, "%s%s%s", name ? name : "", name ? "." : "", uuid);
}

void token_store_add(struct request *r, const char *user, struct span token, const char *name,
                     token_store_callback *done)
{
	struct token t;
	struct change *c = change_of(r, user);
	c->shared = token_times(token, &r->arena, &t) && t.application;
	c->key = new_key(&r->arena, name);
	c->value = token;
	c->done = done;
	token_store_look(c);
}

static void token_store_remove(struct request *r, const char *user, struct span token,
                               token_store_callback *done)
{
	struct change *c = change_of(r, user);
	c->unwanted = token;
	c->done = done;
	token_store_look(c);
}

void token_store_remove_all(struct request *r, const char *user, bool logins,
                            token_store_callback *done)
{
	struct change *c = change_of(r, user);
	c->logins = logins;
	c->all = !logins;
	c->done = done;
	token_store_look(c);
}

static void token_store_deny(struct request *r, const struct token *t, int64_t exp_s,
                             token_store_callback *done)
{
	struct change *c = token_store_change_new(r);
	struct span list = span_of(r->loop->server->options->deny_list);
	c->namespace_name = arena_dup(&r->arena, span_next(&list, '/'));
	c->name = list.p;
	c->denied = true;
	c->user = t->user;
	c->shared = !r->principal->admin;
	c->key = arena_dup(&r->arena, span_of(t->id));
	c->value = span_of(
	    arena_printf(&r->arena, "%lld %s", exp_s < 0 ? 0LL : (long long)exp_s, t->user));
	c->done = done;
	token_store_look(c);
}

/* The longest leeway of an issuer. */
enum { LEEWAY_MAX_S = 300 };

struct revocation {
	char id[sizeof(((struct token *)NULL)->id)];
	token_store_callback *done;
};

static void token_store_revoked(struct request *r, const struct err *e)
{
	const struct revocation *v = r->state;
	/* On errors too: the next request then asks the store. */
	auth_forget(r->loop, v->id);
	v->done(r, e);
}

static int revoke_may(const struct options *o, const struct token *t, struct err *e)
{
	if (t->kind == TOKEN_REVIEW)
		return err_set(e, NOT_IMPLEMENTED,
		               "tokens of service accounts are revoked in the cluster: delete the "
		               "account or the object that the token is bound to");
	if (t->kind == TOKEN_OWN && tokens_stored(o))
		return 0;
	if (!o->deny_list[0])
		return err_set(e, NOT_IMPLEMENTED,
		               "tokens cannot be revoked here: this server has no --deny-list");
	return 0;
}

void token_revoke(struct request *r, struct span text, const struct token *t,
                  token_store_callback *done)
{
	ERR_AUTO e = { 0 };
	const struct options *o = r->loop->server->options;
	struct revocation *v = ARENA_NEW(&r->arena, struct revocation, 1);
	memcpy(v->id, t->id, sizeof(v->id));
	v->done = done;
	if (revoke_may(o, t, &e) < 0) {
		done(r, &e);
		return;
	}
	r->state = v;
	if (t->kind == TOKEN_OWN && tokens_stored(o))
		token_store_remove(r, t->user, text, token_store_revoked);
	else
		token_store_deny(r, t, t->exp_s < 0 ? -1 : t->exp_s + LEEWAY_MAX_S,
		                 token_store_revoked);
}
