/*
 * Users of an OpenPAI cluster.  Objects are read one by one, by name: no client makes us list
 * anything.  A look-up goes through STAGES; in each there are parts, of which a few are asked for
 * at a time.  Whatever cannot be found out ends it with 503.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "server/accounts/account_search.h"
#include "server/log.h"

enum {
	LOOKUPS_ACTIVE = 16, /* at a time, per loop */
	LOOKUPS_WAITING = 1000,
	PARTS_AT_ONCE = 8,
	MINUTE_MS = 60000,
};

/* ---- what the log is told ------------------------------------------------------- */

static int unavailable(struct err *e)
{
	return err_set(e, UNAVAILABLE,
	               "users and groups cannot be looked up at the moment; try again");
}

/* It could not be found out. */
static void fail(struct search *l, struct span reason)
{
	(void)unavailable(&l->e);
	if (!source_may_say(l->in->all->source, "failed", SPAN(""), MINUTE_MS))
		return;
	struct line line = log_begin(LOG_WARN, "users cannot be looked up");
	log_text(&line, "user", span_of(l->name));
	log_text(&line, "why", reason);
	log_end(&line);
}

/* ---- going through the stages --------------------------------------------------- */

static void answered(void *arg, const struct store_reply *r);

static const char *namespace_of(const struct search *l)
{
	const struct options *o = l->in->all->source->options;
	if (l->stage == STAGE_USER)
		return o->user_namespace;
	return l->stage == STAGE_GROUPS ? o->group_namespace : NULL; /* the jobs' */
}

/* Once a look-up has begun, it goes before what is new. */
static void ask(struct part *p)
{
	struct search *l = p->search;
	l->pending++;
	p->asked_ms = clock_ms();
	store_request(l->in->store, &(struct store_request){
					.verb = STORE_GET,
					.kind = p->kind,
					.name = p->object,
					.namespace_name = namespace_of(l),
					.whole = true,
					.user = l->name,
					.urgent = l->stage != STAGE_USER,
					.deadline_ms = l->deadline_ms,
					.done = answered,
					.arg = p,
				    });
}

static void no_user(struct search *l)
{
	(void)err_set(&l->e, UNAUTHORIZED, "there is no user %s in this cluster", l->name);
}

/* It is not there, or not of the right form. */
static void skip(struct part *p, const char *why)
{
	struct search *l = p->search;
	if (l->stage == STAGE_USER)
		no_user(l);
	if (l->stage != STAGE_USER || why[0])
		search_tell(l, STAGES[l->stage].skipped, p->name, why[0] ? why : "it is not there");
}

static void found(struct part *p)
{
	struct search *l = p->search;
	if (p->kind == KIND_CLAIM) {
		p->kind = KIND_VOLUME;
		p->object = p->storage.volume;
		int64_t asked_ms = p->asked_ms;
		ask(p);
		p->asked_ms = asked_ms;
		return;
	}
	p->found = true;
	if (l->stage != STAGE_USER && search_believed_until(l, p) > clock_ms())
		search_remember(l, p);
	if (search_believed_until(l, p) < l->until_ms)
		l->until_ms = search_believed_until(l, p);
}

static void take_answer(struct part *p, const struct store_reply *r)
{
	struct search *l = p->search;
	const char *why = "";
	enum pai_read read = PAI_UNFIT;
	if (r->outcome == STORE_OK)
		read = STAGES[l->stage].read(p, r->body, &why);
	else if (r->outcome != STORE_NOT_FOUND)
		read = PAI_BROKEN;
	switch (read) {
	case PAI_READ:
		found(p);
		break;
	case PAI_UNFIT:
		skip(p, why);
		break;
	case PAI_BROKEN:
		fail(l, r->outcome == STORE_OK ? span_of(why) : r->message);
		break;
	}
}

static void ask_some(struct search *l)
{
	while (l->next_part < l->n_parts && l->pending < PARTS_AT_ONCE) {
		struct part *p = &l->parts[l->next_part++];
		if (!search_recall(l, p))
			ask(p);
	}
}

static void free_search(struct search *l)
{
	account_drop(l->account);
	arena_wipe(&l->arena);
	err_done(&l->e);
	free(l);
}

static void take_out(struct search *l)
{
	struct searches *in = l->in;
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
	else
		in->last = l->at;
	*(l->started ? &in->active : &in->waiting) -= 1;
	l->in = NULL;
}

static void call(struct search *l, struct account *a)
{
	struct waiter *w = l->waiters;
	l->waiters = NULL;
	while (w) {
		struct waiter *next = w->next;
		if (a)
			account_hold(a);
		w->done(w->arg, a, &l->e);
		free(w);
		w = next;
	}
}

/* Those that wait, when there is room. */
static void begin_some(struct searches *in)
{
	for (struct search *l = in->head; l && in->active < LOOKUPS_ACTIVE; l = l->next) {
		if (l->started)
			continue;
		l->started = true;
		in->waiting--;
		in->active++;
		search_plan_user(l);
		ask_some(l);
	}
}

static void finish(struct search *l)
{
	struct searches *in = l->in;
	struct account *a = l->e.http ? NULL : TAKE(l->account);
	take_out(l);
	if (a && l->until_ms > clock_ms())
		account_remember(in->all, a, l->until_ms);
	begin_some(in);
	call(l, a);
	account_drop(a);
	free_search(l);
}

static void advance(struct search *l)
{
	while (l->stage != STAGE_END && !l->e.http) {
		ask_some(l);
		if (l->pending)
			return;
		STAGES[l->stage].end(l);
		l->stage++;
	}
	if (!l->pending)
		finish(l);
}

static void answered(void *arg, const struct store_reply *r)
{
	struct part *p = arg;
	struct search *l = p->search;
	l->pending--;
	if (l->in) {
		if (!l->e.http)
			take_answer(p, r);
		advance(l);
	} else if (!l->pending) {
		free_search(l);
	}
}

/* ---- the door ------------------------------------------------------------------- */

struct searches *searches_new(struct accounts *all, struct store *store)
{
	struct searches *in = xcalloc(1, sizeof(*in));
	in->all = all;
	in->store = store;
	in->last = &in->head;
	in->groups = memo_new(KEPT_LIMITS, search_forget);
	in->storages = memo_new(KEPT_LIMITS, search_forget);
	return in;
}

static struct search *under_way(const struct searches *in, const char *name)
{
	for (struct search *l = in->head; l; l = l->next)
		if (strcmp(l->name, name) == 0)
			return l;
	return NULL;
}

static struct search *add(struct searches *in, const char *name)
{
	struct search *l = xcalloc(1, sizeof(*l));
	l->in = in;
	l->account = account_new(name);
	(void)snprintf(l->name, sizeof(l->name), "%s", name); /* a user's name fits */
	l->last_waiter = &l->waiters;
	l->deadline_ms = clock_ms() + in->all->source->options->deadline_s * 1000;
	l->until_ms = INT64_MAX;
	l->at = in->last;
	*in->last = l;
	in->last = &l->next;
	in->waiting++;
	return l;
}

void searches_find(struct searches *in, const char *name, account_callback *done, void *arg,
                   struct err *e)
{
	struct search *l = under_way(in, name);
	if (in->closing || (!l && in->waiting >= LOOKUPS_WAITING)) {
		(void)unavailable(e);
		return;
	}
	if (!l)
		l = add(in, name);
	struct waiter *w = xcalloc(1, sizeof(*w));
	*w = (struct waiter){ .done = done, .arg = arg };
	*l->last_waiter = w;
	l->last_waiter = &w->next;
	begin_some(in);
}

void searches_forget(struct searches *in)
{
	memo_clear(in->groups);
	memo_clear(in->storages);
	for (struct search *l = in->head; l; l = l->next)
		l->until_ms = 0;
}

void searches_free(struct searches *in)
{
	if (!in)
		return;
	in->closing = true;
	struct search *next = TAKE(in->head);
	while (next) {
		struct search *l = next;
		next = l->next;
		l->in = NULL;
		if (!l->e.http)
			(void)unavailable(&l->e);
		call(l, NULL);
		if (!l->pending)
			free_search(l);
	}
	memo_free(in->groups);
	memo_free(in->storages);
	free(in);
}
