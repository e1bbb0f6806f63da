/* The routes about tokens: check, list, make, revoke. */
#include <time.h>

#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"
#include "server/auth/token_store.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/http/routes.h"

enum { LIFETIME_MIN_S = 60, LIFETIME_MAX_S = 31536000 };

/* true: the request has no token (--no-auth), and has been answered. */
static bool without_tokens(struct request *r)
{
	if (r->token)
		return false;
	answer_refuse(r, NOT_IMPLEMENTED, "this server runs without logins and tokens");
	return true;
}

static void answer_body(struct request *r)
{
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
	str_puts(out, "{\"username\":");
	str_json(out, span_of(r->principal->name));
	str_puts(out, r->application ? ",\"application\":true" : ",\"application\":false");
	str_puts(out, ",\"jobSpecific\":false,\"encodedFrameworkName\":\"\"");
	if (r->token && r->token_iat_s >= 0)
		str_printf(out, ",\"iat\":%lld", (long long)r->token_iat_s);
	if (r->token && r->token_exp_s >= 0)
		str_printf(out, ",\"exp\":%lld", (long long)r->token_exp_s);
	str_puts(out, r->principal->admin ? ",\"admin\":true}\n" : ",\"admin\":false}\n");
	answer_body(r);
}

static void tokens_listed(struct request *r, const struct span *tokens, size_t n,
                          const struct err *e)
{
	struct str *out = &r->reply.body;
	if (e->http) {
		answer_error(r, e);
		return;
	}
	out->secret = true;
	str_puts(out, "{\"tokens\":[");
	for (size_t i = 0; i < n; i++) {
		str_puts(out, i ? "," : "");
		str_json(out, tokens[i]);
	}
	str_puts(out, "]}\n");
	answer_body(r);
}

void tokens_get(struct request *r)
{
	if (without_tokens(r))
		return;
	/* Without stored tokens, the list has the token of this request. */
	struct span own = span_of(r->token);
	if (tokens_stored(r->loop->server->options))
		token_store_list(r, r->principal->name, tokens_listed);
	else
		tokens_listed(r, &own, 1, &(struct err){ 0 });
}

/* ---- application tokens ---- */

struct token_request {
	int64_t lifetime_s; /* 0: does not expire */
	const char *name;   /* or NULL */
	struct str token;
};

static bool fit_for_key(struct span name)
{
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		char lower = (char)(c | 0x20);
		if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && c != '-' &&
		    c != '_' && c != '.')
			return false;
	}
	return name.n > 0 && name.n <= TOKEN_NAME_MAX;
}

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
	if (name.p && !fit_for_key(name))
		return err_set(e, INVALID_PARAMETERS,
		               "name must have 1 to %d letters, digits, -, _ and .",
		               TOKEN_NAME_MAX);
	w->name = name.p;
	return 0;
}

static void token_made(struct request *r, const struct err *e)
{
	struct token_request *w = r->state;
	if (e->http) {
		str_wipe(&w->token);
		answer_error(r, e);
		return;
	}
	r->reply.body.secret = true;
	str_puts(&r->reply.body, "{\"token\":");
	str_json(&r->reply.body, str_view(&w->token));
	str_puts(&r->reply.body, ",\"application\":true}\n");
	str_wipe(&w->token);
	answer_body(r);
}

void application_post(struct request *r)
{
	ERR_AUTO e = { 0 };
	struct token_request *w = ARENA_NEW(&r->arena, struct token_request, 1);
	w->token = STR_SECRET(TOKEN_MAX);
	r->state = w;
	if (without_tokens(r))
		return;
	bool good = read_token_request(r, w, &e) == 0 &&
	            token_make(keyring_of(r->loop), r->principal->name, true, (int64_t)time(NULL),
	                       w->lifetime_s, &w->token, &e) == 0;
	if (good && tokens_stored(r->loop->server->options))
		token_store_add(r, r->principal->name, str_view(&w->token), w->name, token_made);
	else
		token_made(r, &e);
}

/* ---- revoke ---- */

static void tokens_say(struct request *r, const char *message)
{
	str_puts(&r->reply.body, "{\"message\":");
	str_json(&r->reply.body, span_of(message));
	str_puts(&r->reply.body, "}\n");
	answer_json(r, 200);
}

static void tokens_revoked(struct request *r, const struct err *e)
{
	if (e->http)
		answer_error(r, e);
	else
		tokens_say(r, "revoke successfully");
}

static void logged_out(struct request *r, const struct err *e)
{
	if (e->http)
		answer_error(r, e);
	else
		tokens_say(r, "Logout successfully");
}

static int tokens_read_token(struct request *r, struct span text, struct token *t)
{
	ERR_AUTO e = { 0 };
	const char *why = NULL;
	r->secret = true;
	int rc = token_read(keyring_of(r->loop), text, (int64_t)time(NULL), &r->arena, t, &why, &e);
	r->why = why;
	return rc;
}

void token_delete(struct request *r)
{
	struct token t = { 0 };
	if (without_tokens(r))
		return;
	if (tokens_read_token(r, r->args[0], &t) < 0) {
		answer_refuse(r, INVALID_PARAMETERS,
		              "the path does not have a valid token of this server");
		return;
	}
	if (!r->principal->admin && t.user && strcmp(t.user, r->principal->name) != 0)
		answer_refuse(r, FORBIDDEN, "this is another user's token");
	else
		token_revoke(r, r->args[0], &t, tokens_revoked);
}

void logout_delete(struct request *r)
{
	struct token t = { 0 };
	if (without_tokens(r))
		return;
	if (tokens_read_token(r, span_of(r->token), &t) < 0)
		tokens_say(r, "Logout successfully");
	else
		token_revoke(r, span_of(r->token), &t, logged_out);
}
