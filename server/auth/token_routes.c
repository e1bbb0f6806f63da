/* The routes about tokens: check, list, make, revoke. */
#include <time.h>

#include "base/json/put.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"
#include "server/auth/token_store.h"
#include "server/config/options.h"
#include "server/http/edit.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/request.h"

enum { LIFETIME_MIN_S = 60, LIFETIME_MAX_S = 31536000 };

/* true: there are no tokens (--no-auth), and the request has been answered. */
static bool without_tokens(struct request *r)
{
	if (!r->loop->server->options->no_auth)
		return false;
	answer_refuse(r, NOT_IMPLEMENTED, "this server runs without logins and tokens");
	return true;
}

/* Ends the object in the reply's body, and sends it. */
static void token_answer(struct request *r)
{
	str_puts(&r->reply.body, "}\n");
	if (r->reply.body.full) {
		str_wipe(&r->reply.body);
		answer_refuse(r, UNKNOWN_ERROR, "the answer would be too large");
	} else {
		answer_json(r, 200);
	}
}

void token_check_get(struct request *r)
{
	struct str *out = &r->reply.body;
	str_char(out, '{');
	json_put_word(out, "username", r->principal->name);
	json_put_bool(out, "application", r->application);
	str_puts(out, ",\"jobSpecific\":false,\"encodedFrameworkName\":\"\"");
	if (r->token && r->token_iat_s >= 0)
		json_put_int(out, "iat", r->token_iat_s);
	if (r->token && r->token_exp_s >= 0)
		json_put_int(out, "exp", r->token_exp_s);
	json_put_bool(out, "admin", r->principal->admin);
	token_answer(r);
}

/* ---- the tokens of a user ---- */

static void tokens_put(const struct request *r, struct str *out, const struct named_token *tokens,
                       size_t n)
{
	const struct options *o = r->loop->server->options;
	out->secret = true;
	str_puts(out, "{\"tokens\":[");
	for (size_t i = 0; i < n; i++)
		json_put_text(out, NULL, tokens[i].text);
	str_puts(out, "],\"names\":[");
	for (size_t i = 0; i < n; i++)
		json_put_text(out, NULL, tokens[i].name);
	str_char(out, ']');
	json_put_bool(out, "stored", tokens_stored(o));
	json_put_bool(out, "revocable", tokens_stored(o) || o->deny_list[0]);
}

static void tokens_list(struct edit *t)
{
	struct named_token *tokens;
	size_t n;
	if (token_store_list(t, t->r->principal->name, &tokens, &n) == 0)
		tokens_put(t->r, &t->body, tokens, n);
}

static void tokens_send(struct edit *t)
{
	token_answer(t->r);
}

void tokens_get(struct request *r)
{
	if (without_tokens(r))
		return;
	if (tokens_stored(r->loop->server->options)) {
		edit_start(r, tokens_list, tokens_send, NULL);
		return;
	}
	/* The list has the token of this request, if any, because tokens are not stored. */
	struct named_token own = { span_of(r->token ?: ""), SPAN("") };
	tokens_put(r, &r->reply.body, &own, r->token != NULL);
	token_answer(r);
}

/* ---- application tokens ---- */

/* Lives in the request's arena, which is wiped. */
struct token_request {
	int64_t lifetime_s; /* 0: does not expire */
	const char *name;   /* or NULL */
	struct span token;
};

static int read_token_request(struct request *r, struct token_request *w, struct err *e)
{
	struct fields f;
	if (fields_read(r, &f, e) < 0)
		return -1;
	struct span lifetime = fields_get(&f, "expiration");
	struct span name = fields_get(&f, "name");
	if (lifetime.p && parse_i64(lifetime, LIFETIME_MIN_S, LIFETIME_MAX_S, &w->lifetime_s) < 0)
		return err_set(
		    e, INVALID_PARAMETERS,
		    "expiration must be %d to %d seconds; without it, the token does not "
		    "expire",
		    LIFETIME_MIN_S, LIFETIME_MAX_S);
	if (name.p && (name.n == 0 || name.n > TOKEN_NAME_MAX || !span_only_alnum_or(name, "-_.")))
		return err_set(e, INVALID_PARAMETERS,
		               "name must have 1 to %d letters, digits, -, _ and .",
		               TOKEN_NAME_MAX);
	w->name = name.p;
	return 0;
}

static void application_put(struct str *out, struct span token)
{
	out->secret = true;
	str_char(out, '{');
	json_put_text(out, "token", token);
	json_put_bool(out, "application", true);
}

static void application_store(struct edit *t)
{
	const struct token_request *w = t->arg;
	if (token_store_add(t, t->r->principal->name, w->token, w->name) == 0)
		application_put(&t->body, w->token);
}

void application_post(struct request *r)
{
	ERR_AUTO e = { 0 };
	STR_AUTO token = STR_SECRET(TOKEN_MAX);
	struct token_request *w = ARENA_NEW(&r->arena, struct token_request, 1);
	r->secret = true;
	if (without_tokens(r))
		return;
	if (read_token_request(r, w, &e) < 0 ||
	    token_make(keyring_of(r->loop), r->principal->name, true, (int64_t)time(NULL),
	               w->lifetime_s, &token, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	w->token = arena_span(&r->arena, str_view(&token));
	if (tokens_stored(r->loop->server->options)) {
		edit_start(r, application_store, tokens_send, w);
		return;
	}
	application_put(&r->reply.body, w->token);
	token_answer(r);
}

/* ---- revoke ---- */

/* Lives in the request's arena, which is wiped. */
struct revocation {
	struct span text;
	struct token token;
	const char *said; /* the answer */
};

static void token_revoke_run(struct edit *t)
{
	const struct revocation *v = t->arg;
	str_char(&t->body, '{');
	json_put_word(&t->body, "message", v->said);
	(void)token_revoke(t, v->text, &v->token);
}

/* false: it is not a valid token; else the request has been answered, or waits. */
static bool token_begin_revoke(struct request *r, struct span text, const char *said)
{
	ERR_AUTO e = { 0 };
	struct revocation *v = ARENA_NEW(&r->arena, struct revocation, 1);
	v->text = text;
	v->said = said;
	r->secret = true;
	if (token_read(keyring_of(r->loop), text, (int64_t)time(NULL), &r->arena, &v->token,
	               &r->why, &e) < 0)
		return false;
	if (!r->principal->admin && v->token.user[0] &&
	    strcmp(v->token.user, r->principal->name) != 0)
		answer_refuse(r, FORBIDDEN, "this is another user's token");
	else if (token_check_revocable(r->loop->server->options, &v->token, &e) < 0)
		answer_error(r, &e);
	else
		edit_start(r, token_revoke_run, tokens_send, v);
	return true;
}

void token_delete(struct request *r)
{
	if (!without_tokens(r) && !token_begin_revoke(r, r->args[0], "revoke successfully"))
		answer_refuse(r, INVALID_PARAMETERS,
		              "the path does not have a valid token of this server");
}

void logout_delete(struct request *r)
{
	static const char SAID[] = "Logout successfully";
	if (without_tokens(r) || (r->token && token_begin_revoke(r, span_of(r->token), SAID)))
		return;
	str_char(&r->reply.body, '{');
	json_put_word(&r->reply.body, "message", SAID);
	token_answer(r);
}
