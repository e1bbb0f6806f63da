#include "server/auth/revoke.h"

#include "server/auth/auth.h"
#include "server/http/loop.h"

/* The longest leeway of an issuer: so much later a token of his is still good. */
enum { LEEWAY_MAX_S = 300 };

struct revocation {
	char id[sizeof(((struct token *)NULL)->id)];
	stored_callback *done;
};

static void revoked(struct request *r, const struct err *e)
{
	const struct revocation *v = r->state;
	/* Also if it is not known whether it happened: then the store is asked again. */
	auth_forget(r->loop, v->id);
	v->done(r, e);
}

static int may(const struct options *o, const struct token *t, struct err *e)
{
	if (t->kind == TOKEN_REVIEW)
		return err_set(e, NOT_IMPLEMENTED,
		               "tokens of service accounts are revoked in the cluster: delete the "
		               "account, or the object that the token is bound to");
	if (t->kind == TOKEN_OWN && strcmp(o->token_check, "stored") == 0)
		return 0;
	if (!o->deny_list[0])
		return err_set(e, NOT_IMPLEMENTED,
		               "tokens cannot be revoked here: this server has no --deny-list");
	return 0;
}

void revoke(struct request *r, struct span text, const struct token *t, stored_callback *done)
{
	ERR_AUTO e = { 0 };
	const struct options *o = r->loop->server->options;
	struct revocation *v = ARENA_NEW(&r->arena, struct revocation, 1);
	memcpy(v->id, t->id, sizeof(v->id));
	v->done = done;
	if (may(o, t, &e) < 0) {
		done(r, &e);
		return;
	}
	r->state = v;
	if (t->kind == TOKEN_OWN && strcmp(o->token_check, "stored") == 0)
		stored_remove(r, t->user, text, revoked);
	else
		stored_deny(r, t, t->exp_s < 0 ? -1 : t->exp_s + LEEWAY_MAX_S, revoked);
}
