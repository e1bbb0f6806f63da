/* The hash of a user's password, out of his Secret, for one login; see account.h. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "server/accounts/account_inner.h"
#include "server/accounts/account_objects.h"
#include "server/log.h"

/* Each comes from a client that has not said who it is: few at a time. */
enum { ASKS_MAX = 16, MINUTE_MS = 60000 };

struct ask {
	struct ask *next, **at;   /* in the list: what points here */
	struct password_asks *in; /* NULL: nobody waits any more */
	account_password_callback *done;
	void *arg;
	char name[ACCOUNT_NAME];
	char object[2 * PAI_NAME_MAX + 1];
};

struct password_asks {
	struct account_source *source;
	struct store *store;
	struct ask *head;
	size_t n;
};

struct password_asks *password_asks_new(struct account_source *s, struct store *store)
{
	struct password_asks *all = xcalloc(1, sizeof(*all));
	all->source = s;
	all->store = store;
	return all;
}

static int unavailable(struct err *e)
{
	return err_set(e, UNAVAILABLE, "passwords cannot be checked at the moment; try again");
}

static void add(struct password_asks *in, struct ask *k)
{
	k->in = in;
	k->next = in->head;
	k->at = &in->head;
	if (k->next)
		k->next->at = &k->next;
	in->head = k;
	in->n++;
}

static void take_out(struct ask *k)
{
	*k->at = k->next;
	if (k->next)
		k->next->at = k->at;
	k->in->n--;
	k->in = NULL;
}

/* A user without a Secret, and one whose Secret is not his, are the same to the client. */
static void read_hash(const struct ask *k, const struct store_reply *r, struct arena *a,
                      struct span *hash, struct err *e)
{
	const char *why;
	enum pai_read read = PAI_UNFIT;
	if (r->outcome == STORE_OK)
		read = pai_password_read(r->body, span_of(k->name), a, hash, &why);
	else if (r->outcome != STORE_NOT_FOUND)
		read = PAI_BROKEN;
	if (read == PAI_BROKEN)
		(void)unavailable(e);
	else if (read == PAI_UNFIT)
		(void)err_set(e, NO_USER, "user %s is not found", k->name);
}

static void tell(const struct ask *k, const struct store_reply *r)
{
	if (!source_may_say(k->in->source, "passwords", SPAN(""), MINUTE_MS))
		return;
	struct line line = log_begin(LOG_WARN, "passwords cannot be looked up");
	log_text(&line, "why",
	         r->outcome == STORE_OK ? SPAN("the answer is no object") : r->message);
	log_end(&line);
}

static void answered(void *arg, const struct store_reply *r)
{
	struct ask *k = arg;
	ERR_AUTO e = { 0 };
	struct arena a = { 0 };
	struct span hash = SPAN("");
	if (k->in) {
		read_hash(k, r, &a, &hash, &e);
		if (e.http == 503)
			tell(k, r);
		take_out(k);
		k->done(k->arg, hash, &e);
	}
	arena_wipe(&a);
	free(k);
}

int account_password(struct accounts *accounts, const char *name, account_password_callback *done,
                     void *arg, struct err *e)
{
	struct password_asks *all = accounts->passwords;
	if (!all)
		return err_set(e, NO_USER, "user %s has no password here", name);
	if (all->n == ASKS_MAX)
		return unavailable(e);
	struct ask *k = xcalloc(1, sizeof(*k));
	*k = (struct ask){ .done = done, .arg = arg };
	(void)snprintf(k->name, sizeof(k->name), "%s", name); /* a user's name fits */
	pai_secret_name(k->object, span_of(k->name));
	add(all, k);
	store_request(all->store,
	              &(struct store_request){
			  .verb = STORE_GET,
			  .kind = KIND_SECRET,
			  .name = k->object,
			  .namespace_name = all->source->options->user_namespace,
			  .whole = true,
			  .user = k->name,
			  .deadline_ms = clock_ms() + all->source->options->deadline_s * 1000,
			  .done = answered,
			  .arg = k,
		      });
	return 0;
}

void password_asks_free(struct password_asks *all)
{
	if (!all)
		return;
	struct ask *next = TAKE(all->head);
	while (next) {
		ERR_AUTO e = { 0 };
		struct ask *k = next;
		next = k->next;
		(void)unavailable(&e);
		k->in = NULL; /* its memory goes when the store has answered */
		k->done(k->arg, SPAN(""), &e);
	}
	free(all);
}
