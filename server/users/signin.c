/* The login with a password, for users of an OpenPAI cluster (--users=openpai). */
#include <time.h>

#include "base/enc.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"
#include "server/auth/token_store.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/rate_limit.h"
#include "server/http/request.h"
#include "server/http/routes.h"
#include "server/http/worker.h"
#include "server/server.h"
#include "server/users/users_internal.h"

enum { EXPIRATION_MIN_S = 60, EXPIRATION_MAX_S = 604800 };

/* In the request's arena, which is wiped. */
struct signin {
	struct request *r;
	const char *user;
	struct span password;
	struct span stored; /* the hash in the user's Secret; "" if absent */
	bool unknown;       /* no such user */
	bool good;
	char hash[PASSWORD_HEX + 1];
	struct str token;
};

static void signin_answer(struct signin *s)
{
	struct request *r = s->r;
	struct str *out = &r->reply.body;
	const struct node *pat = node_get(r->principal->extension, "githubPAT");
	out->secret = true;
	str_puts(out, "{\"user\":");
	str_json(out, span_of(s->user));
	str_puts(out, ",\"token\":");
	str_json(out, str_view(&s->token));
	str_puts(out, r->principal->admin ? ",\"admin\":true" : ",\"admin\":false");
	if (pat)
		str_puts(out, node_is(pat, NODE_TEXT) && pat->n ? ",\"hasGitHubPAT\":true"
		                                                : ",\"hasGitHubPAT\":false");
	str_puts(out, "}\n");
	str_wipe(&s->token);
	answer_json(r, 200);
}

static void signin_refuse(struct signin *s, int status, const char *code, const char *message)
{
	str_wipe(&s->token);
	answer_refuse(s->r, status, code, message);
}

/* Fails if a reload has removed the secret while the request was waiting. */
static int signin_make_token(struct signin *s, struct err *e)
{
	const struct loop *l = s->r->loop;
	s->token = STR_SECRET(TOKEN_MAX);
	return token_make(keyring_of(l), s->user, false, (int64_t)time(NULL),
	                  l->server->options->token_lifetime_s, &s->token, e);
}

/* The token is stored before the client gets it. */
static void token_stored(struct request *r, const struct err *e)
{
	struct signin *s = r->state;
	if (e->http) {
		str_wipe(&s->token);
		answer_error(r, e);
	} else {
		signin_answer(s);
	}
}

static void give_token(struct signin *s)
{
	ERR_AUTO e = { 0 };
	struct request *r = s->r;
	if (signin_make_token(s, &e) < 0)
		answer_error(r, &e);
	else if (tokens_stored(r->loop->server->options))
		token_store_add(r, s->user, str_view(&s->token), NULL, token_stored);
	else
		signin_answer(s);
}

static void signin_account_came(void *arg, struct account *a, const struct err *e)
{
	struct signin *s = arg;
	if (!a) {
		answer_error(s->r, e);
		return;
	}
	auth_set_account(s->r, a);
	give_token(s);
}

static void signin_find_account(struct signin *s)
{
	ERR_AUTO e = { 0 };
	struct accounts *all = s->r->loop->has->accounts;
	struct account *a = NULL;
	if (all)
		a = account_find(all, s->user, signin_account_came, s, &e);
	else
		(void)err_set(&e, UNAVAILABLE, "this server is shutting down");
	if (a || e.http)
		signin_account_came(s, a, &e);
}

/* On the worker's thread.  Also for unknown users, so that the time does not reveal which users
 * exist. */
static void signin_hash(void *arg)
{
	struct signin *s = arg;
	s->good = password_hash(span_of(s->user), s->password, s->hash) &&
	          password_same(s->hash, s->stored) && !s->unknown;
}

static void signin_hashed(void *arg, bool ran)
{
	struct signin *s = arg;
	/* Clients of OpenPAI expect NoUserError; without --compat the answer hides whether a user
	 * exists. */
	bool tells = s->r->loop->server->options->compat[0];
	if (!ran) {
		signin_refuse(s, UNAVAILABLE, "this server is shutting down");
	} else if (s->good) {
		rate_limit_logged_in(s->r, span_of(s->user));
		signin_find_account(s);
	} else if (s->unknown && tells) {
		signin_refuse(s, NO_USER, "there is no such user");
	} else {
		signin_refuse(s, 400, "IncorrectPasswordError", "user name or password is wrong");
	}
}

static void stored_came(void *arg, struct span stored, const struct err *e)
{
	struct signin *s = arg;
	struct worker_inbox *work = s->r->loop->has->work;
	if (e->http && e->http != 400) {
		answer_error(s->r, e);
		return;
	}
	s->unknown = e->http != 0;
	s->stored = arena_span(&s->r->arena, stored);
	if (!work || !worker_do(work, signin_hash, signin_hashed, s))
		signin_refuse(s, UNAVAILABLE, "too many users are logging in; try again");
}

static void signin_look_up(struct signin *s)
{
	ERR_AUTO e = { 0 };
	struct accounts *all = s->r->loop->has->accounts;
	if (!all)
		(void)err_set(&e, UNAVAILABLE, "this server is shutting down");
	else if (account_password(all, s->user, stored_came, s, &e) == 0)
		return;
	answer_error(s->r, &e);
}

/* As OpenPAI: the value is checked, but the token has the server's lifetime. */
static int check_expiration(struct span text, struct err *e)
{
	int64_t s;
	if (!text.p || parse_i64(text, EXPIRATION_MIN_S, EXPIRATION_MAX_S, &s) == 0)
		return 0;
	return err_set(e, INVALID_PARAMETERS, "expiration must be %d to %d seconds",
	               EXPIRATION_MIN_S, EXPIRATION_MAX_S);
}

static int read_attempt(struct signin *s, struct err *e)
{
	struct fields f;
	if (fields_read(s->r, &f, e) < 0 || check_expiration(fields_get(&f, "expiration"), e) < 0)
		return -1;
	struct span user = fields_get(&f, "username");
	s->password = fields_get(&f, "password");
	if (!user.p || !user_name_ok(user))
		return err_set(e, INVALID_PARAMETERS,
		               "username is required, a user's name such as alice or j.doe-2");
	if (!s->password.p || s->password.n < PASSWORD_MIN || s->password.n > PASSWORD_MAX)
		return err_set(e, INVALID_PARAMETERS, "password is required, with %d to %d bytes",
		               PASSWORD_MIN, PASSWORD_MAX);
	s->user = arena_dup(&s->r->arena, user);
	return 0;
}

static const char *login_unavailable(const struct loop *l)
{
	const struct options *o = l->server->options;
	if (o->no_auth)
		return "this server runs without logins: send requests without a token";
	if (strcmp(o->users, "openpai") != 0 || !keyring_has_secret(keyring_of(l)))
		return "this server has no logins with a password: ask its administrator for a "
		       "token "
		       "(made by `rest-lit token`), and send it as Authorization: Bearer TOKEN";
	return NULL;
}

void login_post(struct request *r)
{
	ERR_AUTO e = { 0 };
	const char *unavailable = login_unavailable(r->loop);
	struct signin *s = ARENA_NEW(&r->arena, struct signin, 1);
	s->r = r;
	r->state = s;
	r->secret = true;
	if (unavailable) {
		answer_refuse(r, NOT_IMPLEMENTED, unavailable);
		return;
	}
	if (read_attempt(s, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	if (!rate_limit_login(r, span_of(s->user)))
		return;
	request_wait(r);
	signin_look_up(s);
}
