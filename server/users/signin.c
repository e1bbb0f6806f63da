/* Logging in with a password, as people of an OpenPAI cluster do (--users=openpai). */
#include <time.h>

#include "base/enc.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"
#include "server/auth/token_store.h"
#include "server/features.h"
#include "server/http/answer.h"
#include "server/http/edge.h"
#include "server/http/handlers.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/worker.h"
#include "server/users/users_internal.h"

enum { EXPIRATION_MIN_S = 60, EXPIRATION_MAX_S = 604800 };

/* An attempt, from its body to the answer; in the request's arena, which is wiped. */
struct signin {
	struct request *r;
	const char *user;
	struct span password;
	struct span stored; /* the hash in the user's Secret; "" if there is none */
	bool unknown;       /* there is no such user */
	bool good;
	char hash[PASSWORD_HEX + 1];
	struct str token;
};

/* ---- the answer ------------------------------------------------------------------------------ */

static void answer(struct signin *s)
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

static void refuse(struct signin *s, int status, const char *code, const char *message)
{
	str_wipe(&s->token);
	answer_refuse(s->r, status, code, message);
}

/* ---- the token ------------------------------------------------------------------------------- */

/* The keys may have gone since it was asked whether there are any: this request has none of its own
 * while it waits. */
static int make_token(struct signin *s, struct err *e)
{
	const struct loop *l = s->r->loop;
	s->token = STR_SECRET(TOKEN_MAX);
	return token_make(keyring_of(l), s->user, false, (int64_t)time(NULL),
	                  l->server->options->token_lifetime_s, &s->token, e);
}

/* Whoever gets a token can use it: so it is stored first. */
static void token_stored(struct request *r, const struct err *e)
{
	struct signin *s = r->state;
	if (e->http) {
		str_wipe(&s->token);
		answer_error(r, e);
	} else {
		answer(s);
	}
}

static void give_token(struct signin *s)
{
	ERR_AUTO e = { 0 };
	struct request *r = s->r;
	if (make_token(s, &e) < 0)
		answer_error(r, &e);
	else if (strcmp(r->loop->server->options->token_check, "stored") == 0)
		token_store_add(r, s->user, str_view(&s->token), NULL, token_stored);
	else
		answer(s);
}

/* ---- the account ----------------------------------------------------------------------------- */

static void account_came(void *arg, struct account *a, const struct err *e)
{
	struct signin *s = arg;
	if (!a) {
		answer_error(s->r, e);
		return;
	}
	auth_set_account(s->r, a);
	give_token(s);
}

static void find_account(struct signin *s)
{
	ERR_AUTO e = { 0 };
	struct accounts *all = s->r->loop->has->accounts;
	struct account *a = NULL;
	if (all)
		a = account_find(all, s->user, account_came, s, &e);
	else
		(void)err_set(&e, UNAVAILABLE, "this server is shutting down");
	if (a || e.http)
		account_came(s, a, &e);
}

/* ---- the password ---------------------------------------------------------------------------- */

/* On the worker's thread.  Also for users that do not exist: how long it takes tells nobody who
 * does. */
static void hash(void *arg)
{
	struct signin *s = arg;
	s->good = password_hash(span_of(s->user), s->password, s->hash) &&
	          password_same(s->hash, s->stored) && !s->unknown;
}

static void hashed(void *arg, bool ran)
{
	struct signin *s = arg;
	/* Clients of OpenPAI expect NoUserError.  Other clients never learn whether a user exists.
	 */
	bool tells = s->r->loop->server->options->compat[0];
	if (!ran)
		refuse(s, UNAVAILABLE, "this server is shutting down");
	else if (s->good)
		find_account(s);
	else if (s->unknown && tells)
		refuse(s, NO_USER, "there is no such user");
	else
		refuse(s, 400, "IncorrectPasswordError", "user name or password is wrong");
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
	if (!work || !worker_do(work, hash, hashed, s))
		refuse(s, UNAVAILABLE, "too many people log in at once; try again");
}

static void look_up(struct signin *s)
{
	ERR_AUTO e = { 0 };
	struct accounts *all = s->r->loop->has->accounts;
	if (!all)
		(void)err_set(&e, UNAVAILABLE, "this server is shutting down");
	else if (account_password(all, s->user, stored_came, s, &e) == 0)
		return;
	answer_error(s->r, &e);
}

/* ---- the door -------------------------------------------------------------------------------- */

/* OpenPAI checks it too, and then gives tokens of the server's own lifetime. */
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
		return err_set(
		    e, INVALID_PARAMETERS,
		    "username must be there, and a user's name such as alice or j.doe-2");
	if (!s->password.p || s->password.n < PASSWORD_MIN || s->password.n > PASSWORD_MAX)
		return err_set(e, INVALID_PARAMETERS,
		               "password must be there, and have %d to %d bytes", PASSWORD_MIN,
		               PASSWORD_MAX);
	s->user = arena_dup(&s->r->arena, user);
	return 0;
}

static const char *why_nobody(const struct loop *l)
{
	const struct options *o = l->server->options;
	if (o->no_auth)
		return "this server runs without logins: send no token, and it will do";
	if (strcmp(o->users, "openpai") != 0 || !keyring_has_secret(keyring_of(l)))
		return "nobody logs in with a password here: ask those who run this server for a "
		       "token (rest-lit token makes them), and send it as Authorization: Bearer "
		       "TOKEN";
	return NULL;
}

void login_post(struct request *r)
{
	ERR_AUTO e = { 0 };
	const char *nobody = why_nobody(r->loop);
	struct signin *s = ARENA_NEW(&r->arena, struct signin, 1);
	s->r = r;
	r->state = s;
	r->secret = true;
	if (nobody) {
		answer_refuse(r, NOT_IMPLEMENTED, nobody);
		return;
	}
	if (read_attempt(s, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	if (!edge_login(r, span_of(s->user)))
		return;
	request_wait(r);
	look_up(s);
}
