/* The login with a password, for users of an OpenPAI cluster (--users=openpai). */
#include <time.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"
#include "server/auth/token_store.h"
#include "server/config/options.h"
#include "server/http/edit.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/rate_limit.h"
#include "server/http/request.h"
#include "server/state/server.h"
#include "server/users/users.h"
#include "server/users/users_internal.h"

enum { EXPIRATION_MIN_S = 60, EXPIRATION_MAX_S = 604800 };

/* Lives in the request's arena, which is wiped. */
struct signin {
	struct request *r;
	const char *user;
	struct span password, token;
};

/* The steps after login_post, in this order. */
static void signin_check(struct edit *t);
static void signin_checked(struct edit *t);
static void signin_account_found(void *arg, struct account *a, const struct err *e);

static int read_attempt(struct signin *s, struct err *e)
{
	struct fields f;
	int64_t seconds;
	if (fields_read(s->r, &f, e) < 0)
		return -1;
	/* The value is checked as by OpenPAI, but the token has the server's lifetime. */
	struct span expiration = fields_get(&f, "expiration");
	if (expiration.p && parse_i64(expiration, EXPIRATION_MIN_S, EXPIRATION_MAX_S, &seconds) < 0)
		return err_set(e, INVALID_PARAMETERS, "expiration must be %d to %d seconds",
		               EXPIRATION_MIN_S, EXPIRATION_MAX_S);
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

void login_post(struct request *r)
{
	ERR_AUTO e = { 0 };
	STR_AUTO token = STR_SECRET(TOKEN_MAX);
	const struct options *o = r->loop->server->options;
	struct signin *s = ARENA_NEW(&r->arena, struct signin, 1);
	s->r = r;
	r->secret = true;
	if (o->no_auth) {
		answer_refuse(r, NOT_IMPLEMENTED,
		              "this server runs without logins: send requests without a token");
		return;
	}
	if (strcmp(o->users, "openpai") != 0 || !keyring_has_secret(keyring_of(r->loop))) {
		answer_refuse(r, NOT_IMPLEMENTED,
		              "this server has no logins with a password: ask its administrator "
		              "for a token (made by `rest-lit token`), and send it as "
		              "Authorization: Bearer TOKEN");
		return;
	}
	if (read_attempt(s, &e) < 0 ||
	    token_make(keyring_of(r->loop), s->user, false, (int64_t)time(NULL),
	               o->token_lifetime_s, &token, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	s->token = arena_span(&r->arena, str_view(&token));
	if (rate_limit_login(r, span_of(s->user)))
		edit_start(r, signin_check, signin_checked, s);
}

/* Also hashes for unknown users, so that the time does not reveal which users exist.  Clients of
 * OpenPAI expect NoUserError; without --compat the answer hides whether a user exists. */
static void signin_check(struct edit *t)
{
	const struct signin *s = t->arg;
	const struct options *o = t->r->loop->server->options;
	struct span user = span_of(s->user);
	struct span stored = SPAN("");
	char hash[PASSWORD_HEX + 1];
	struct store_reply reply;
	enum pai_read read = users_secret(t, false, user, &t->arena, &reply);
	const char *why = arena_dup(&t->arena, reply.message);
	if (read == PAI_READ)
		read = pai_password_read(reply.body, user, &t->arena, &stored, &why);
	bool good = password_hash(user, s->password, hash) && password_same(hash, stored);
	memory_wipe(hash, sizeof(hash)); /* the thread's stack remains */
	if (read == PAI_BROKEN)
		(void)edit_fail(t, "passwords cannot be checked at the moment; try again",
		                span_of(why));
	else if (read == PAI_UNFIT && o->compat[0])
		(void)err_set(&t->e, NO_USER, "there is no such user");
	else if (read == PAI_UNFIT || !good)
		(void)err_set(&t->e, 400, "IncorrectPasswordError",
		              "user name or password is wrong");
	else if (tokens_stored(o)) /* before the client gets it */
		(void)token_store_add(t, s->user, s->token, NULL);
}

static void signin_checked(struct edit *t)
{
	struct signin *s = t->arg;
	ERR_AUTO e = { 0 };
	rate_limit_logged_in(s->r, span_of(s->user));
	struct account *a =
	    account_find(s->r->loop->has->accounts, s->user, signin_account_found, s, &e);
	if (a || e.http)
		signin_account_found(s, a, &e);
}

static void signin_account_found(void *arg, struct account *a, const struct err *e)
{
	const struct signin *s = arg;
	struct request *r = s->r;
	struct str *out = &r->reply.body;
	if (!a) {
		answer_error(r, e);
		return;
	}
	auth_set_account(r, a);
	const struct node *pat = node_get(a->extension, "githubPAT");
	out->secret = true;
	str_char(out, '{');
	json_put_word(out, "user", s->user);
	json_put_text(out, "token", s->token);
	json_put_bool(out, "admin", a->admin);
	if (pat)
		json_put_bool(out, "hasGitHubPAT", node_is(pat, NODE_TEXT) && pat->n);
	str_puts(out, "}\n");
	answer_json(r, 200);
}
