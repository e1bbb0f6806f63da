/* Reads a Secret with tokens, drops expired entries, and patches it, again after a conflict. */
#include "server/auth/token_store.h"

#include <gnutls/gnutls.h>
#include <jansson.h>
#include <time.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "jobs/store/reply.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/auth_internal.h"
#include "server/auth/token.h"
#include "server/config/options.h"
#include "server/http/edit.h"
#include "server/http/loop.h"

enum {
	TRIES = 16,   /* after each conflict another one was faster */
	LATE_S = 300, /* expired entries are kept for so long, because clocks differ */
	BODY_MAX_TEXT = 4 << 20,
	LEEWAY_MAX_S = 300, /* the longest of an issuer */
};

/* One entry of a Secret, decoded. */
struct token_store_entry {
	const char *key;
	struct span value;
	struct span user;     /* of the deny list; "" if unknown */
	int64_t iat_s, exp_s; /* -1: absent */
	bool token;           /* it parses as a token */
	bool application;
	bool drop;
};

/* A change of a Secret. */
struct token_store_change {
	struct edit *t;
	const char *namespace_name, *name;
	const char *key;      /* to add, or NULL */
	struct span value;    /* of the key */
	struct span unwanted; /* entries with this value are removed; p is NULL for none */
	bool logins, all;     /* remove all tokens but application tokens; remove all */
	const char *user;
	bool denied; /* the deny list: values are "TIME USER" */
	/* Limits entries like this one, so that application tokens leave room for logins, and one
	 * user cannot fill the deny list. */
	bool shared;
};

bool tokens_stored(const struct options *o)
{
	return strcmp(o->token_check, "stored") == 0;
}

bool secret_equal(struct span a, struct span b)
{
	return a.n == b.n && gnutls_memcmp(a.p, b.p, a.n) == 0;
}

static int token_store_fail(const struct token_store_change *c, struct span why)
{
	const char *text = arena_printf(&c->t->arena, "Secret %s/%s: %.*s", c->namespace_name,
	                                c->name, (int)why.n, why.p);
	return edit_fail(c->t, "tokens cannot be read or stored at the moment; try again",
	                 span_of(text));
}

/* ---- the entries of a Secret ---- */

static void token_store_read_entry(const struct token_store_change *c, struct arena *a,
                                   struct token_store_entry *entry, const json_t *value)
{
	struct token t;
	const char *text = json_string_value(value);
	*entry = (struct token_store_entry){ .key = entry->key, .iat_s = -1, .exp_s = -1 };
	if (!text ||
	    base64_decode(a, (struct span){ text, json_string_length(value) }, &entry->value) < 0)
		return;
	if (c->denied) {
		int64_t until;
		struct span user = entry->value;
		struct span time = span_next(&user, ' ');
		if (time.n < entry->value.n)
			entry->user = user;
		if (parse_i64(time, 1, INT64_MAX / 2, &until) == 0)
			entry->exp_s = until;
	} else if (token_times(entry->value, a, &t)) {
		entry->token = true;
		entry->iat_s = t.iat_s;
		entry->exp_s = t.exp_s;
		entry->application = t.application;
	}
}

/* The entries are in the arena, and borrow their keys from *secret, which is NULL if there is none.
 * -1 and the error of the edit. */
static int token_store_read(const struct token_store_change *c, struct arena *a, json_t **secret,
                            struct token_store_entry **out, size_t *n)
{
	struct store_reply reply;
	const struct store_request get = { .verb = STORE_GET,
		                           .name = c->name,
		                           .namespace_name = c->namespace_name };
	enum store_outcome outcome = edit_call(c->t, get, a, &reply);
	bool made_here = !c->denied || c->t->r->loop->server->local; /* with its first entry */
	*n = 0;
	if (outcome == STORE_NOT_FOUND && made_here)
		return 0;
	if (outcome != STORE_OK)
		return token_store_fail(c, reply.message);
	*secret = reply_parse(reply.body);
	json_t *data = json_object_get(*secret, "data");
	if (!*secret || (data && !json_is_object(data) && !json_is_null(data)))
		return token_store_fail(c, SPAN("is malformed"));
	struct token_store_entry *v = *out =
	    ARENA_NEW(a, struct token_store_entry, json_object_size(data) + 1);
	const char *key;
	json_t *value;
	json_object_foreach (data, key, value) {
		v[*n].key = key;
		token_store_read_entry(c, a, &v[(*n)++], value);
	}
	return 0;
}

static bool token_store_expired(const struct token_store_entry *entry, int64_t late_s)
{
	return entry->exp_s >= 0 && entry->exp_s + late_s <= (int64_t)time(NULL);
}

/* ---- making room ---- */

/* The limit for entries like the new one. */
static int check_share(const struct token_store_change *c, const struct token_store_entry *v,
                       size_t n, struct err *e)
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

/* Marks the entries to remove.  -1 and *e: no room for the new one. */
static int token_store_mark(const struct token_store_change *c, struct token_store_entry *v,
                            size_t n, struct err *e)
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
		struct token_store_entry *oldest = NULL;
		if (c->denied)
			return err_set(e, UNAVAILABLE,
			               "the list of revoked tokens is full (%d that have not "
			               "expired)",
			               DENIED_MAX);
		for (size_t i = 0; i < n; i++)
			if (!v[i].drop && !v[i].application &&
			    (!oldest || v[i].iat_s < oldest->iat_s))
				oldest = &v[i];
		if (!oldest)
			return err_set(e, INVALID_PARAMETERS,
			               "you have %d application tokens: revoke some first",
			               TOKENS_PER_USER);
		oldest->drop = true;
	}
	return 0;
}

/* ---- the change ---- */

/*
 * Appends the new Secret, or a patch without entries that are dropped.  false: nothing to change.
 * The patch is of the version that was read: a late one adds no token that was revoked meanwhile.
 * One of the deny list, which many change, takes back nothing: only what has expired is dropped.
 */
static bool token_store_write(const struct token_store_change *c, const json_t *there,
                              const struct token_store_entry *v, size_t n, struct str *out)
{
	bool some = c->key != NULL;
	str_puts(out, there ? "{\"metadata\":{"
	                    : "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"type\":\"Opaque\","
	                      "\"metadata\":{");
	if (!there) {
		json_put_word(out, "name", c->name);
		json_put_word(out, "namespace", c->namespace_name);
	} else if (!c->denied) {
		json_put_word(out, "resourceVersion",
		              reply_text(json_object_get(there, "metadata"), "resourceVersion"));
	}
	str_puts(out, "},\"data\":{");
	if (c->key) {
		str_json(out, span_of(c->key));
		str_puts(out, ":\"");
		str_base64(out, c->value);
		str_char(out, '"');
	}
	for (size_t i = 0; i < n; i++) {
		if (!v[i].drop)
			continue;
		str_puts(out, some ? "," : "");
		str_json(out, span_of(v[i].key));
		str_puts(out, ":null");
		some = true;
	}
	str_puts(out, "}}");
	return some;
}

/* Reads, then patches or creates; again after a conflict.  0, or -1 and the error of the edit. */
static int token_store_change(const struct token_store_change *c)
{
	for (unsigned tries = 1;; tries++) {
		ARENA_SECRET a = { 0 };
		STR_AUTO body = STR_SECRET(BODY_MAX_TEXT);
		struct store_reply reply;
		struct token_store_entry *v = NULL;
		size_t n;
		json_auto_t *secret = NULL;
		if (token_store_read(c, &a, &secret, &v, &n) < 0)
			return -1;
		c->t->unknown = false; /* the entries tell */
		/* An earlier request without an answer may have added it. */
		for (size_t i = 0; c->key && i < n; i++)
			if (strcmp(v[i].key, c->key) == 0 &&
			    (c->denied || secret_equal(v[i].value, c->value)))
				return 0;
		if (token_store_mark(c, v, n, &c->t->e) < 0)
			return -1;
		if (!token_store_write(c, secret, v, n, &body))
			return 0;
		struct store_request write = { .verb = secret ? STORE_PATCH : STORE_CREATE,
			                       .name = c->name,
			                       .namespace_name = c->namespace_name,
			                       .body = { str_view(&body) } };
		enum store_outcome outcome = edit_call(c->t, write, &a, &reply);
		if (outcome == STORE_OK)
			return 0;
		if (!store_is_outdated(outcome) || tries == TRIES)
			return token_store_fail(c, reply.message);
	}
}

/* ---- interface ---- */

static struct token_store_change change_of(struct edit *t, const char *user)
{
	char *name = arena_alloc(&t->arena, (size_t)2 * PAI_NAME_MAX + 1);
	pai_secret_name(name, span_of(user));
	return (struct token_store_change){
		.t = t,
		.namespace_name = t->r->loop->server->options->token_namespace,
		.name = name,
		.user = user,
	};
}

/* Keys are UUID, NAME.UUID, or anything by other programs and by hand. */
static struct span token_name(struct edit *t, const char *key)
{
	struct span s = span_of(arena_dup(&t->arena, span_of(key)));
	if (s.n < UUID_TEXT - 1)
		return s;
	struct span uuid = span_from(s, s.n - (UUID_TEXT - 1));
	if (uuid.p[8] != '-' || uuid.p[13] != '-' || uuid.p[18] != '-' || uuid.p[23] != '-')
		return s;
	return span_to(s, s.n > uuid.n ? s.n - uuid.n - 1 : 0);
}

int token_store_list(struct edit *t, const char *user, struct named_token **tokens, size_t *n)
{
	struct token_store_change c = change_of(t, user);
	json_auto_t *secret = NULL;
	struct token_store_entry *v = NULL;
	size_t all;
	if (token_store_read(&c, &t->arena, &secret, &v, &all) < 0)
		return -1;
	*tokens = ARENA_NEW(&t->arena, struct named_token, all + 1);
	*n = 0;
	for (size_t i = 0; i < all; i++)
		if (v[i].token && !token_store_expired(&v[i], 0))
			(*tokens)[(*n)++] =
			    (struct named_token){ v[i].value, token_name(t, v[i].key) };
	return 0;
}

int token_store_add(struct edit *t, const char *user, struct span token, const char *name)
{
	struct token times;
	char uuid[UUID_TEXT]; /* as OpenPAI's keys */
	struct token_store_change c = change_of(t, user);
	random_uuid(uuid);
	c.shared = token_times(token, &t->arena, &times) && times.application;
	c.key = arena_printf(&t->arena, "%s%s%s", name ? name : "", name ? "." : "", uuid);
	c.value = token;
	return token_store_change(&c);
}

int token_store_remove_all(struct edit *t, const char *user, bool logins)
{
	struct token_store_change c = change_of(t, user);
	c.logins = logins;
	c.all = !logins;
	return token_store_change(&c);
}

int token_check_revocable(const struct options *o, const struct token *token, struct err *e)
{
	if (token->kind == TOKEN_REVIEW)
		return err_set(e, NOT_IMPLEMENTED,
		               "tokens of service accounts are revoked in the cluster: delete the "
		               "account or the object that the token is bound to");
	if (token->kind == TOKEN_OWN && tokens_stored(o))
		return 0;
	if (!o->deny_list[0])
		return err_set(e, NOT_IMPLEMENTED,
		               "tokens cannot be revoked here: this server has no --deny-list");
	return 0;
}

int token_revoke(struct edit *t, struct span text, const struct token *token)
{
	const struct options *o = t->r->loop->server->options;
	struct token_store_change c;
	if (token->kind == TOKEN_OWN && tokens_stored(o)) {
		c = change_of(t, token->user);
		c.unwanted = text;
	} else {
		struct span list = span_of(o->deny_list);
		int64_t until_s = token->exp_s < 0 ? 0 : token->exp_s + LEEWAY_MAX_S;
		const char *value =
		    arena_printf(&t->arena, "%lld %s", (long long)until_s, token->user);
		c = (struct token_store_change){
			.t = t,
			.namespace_name = arena_dup(&t->arena, span_next(&list, '/')),
			.name = list.p,
			.key = token->id,
			.value = span_of(value),
			.user = token->user,
			.denied = true,
			.shared = !t->r->principal->admin,
		};
	}
	int rc = token_store_change(&c);
	/* The revocation counts on errors too: the next request then asks the store. */
	revocations_add(t->r->loop->server->revoked, token->id);
	return rc;
}
