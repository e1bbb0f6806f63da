/* Accounts: where they come from, and those that a loop knows. */
#include "server/accounts/account.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "server/accounts/account_inner.h"
#include "server/log.h"

/* ---- accounts ------------------------------------------------------------------- */

struct account *account_new(const char *name)
{
	struct account *a = xcalloc(1, sizeof(*a));
	a->refs = 1;
	a->email = "";
	assert(strlen(name) < sizeof(a->name)); /* a user's name fits */
	(void)snprintf(a->name, sizeof(a->name), "%s", name);
	return a;
}

void account_hold(struct account *a)
{
	a->refs++;
}

void account_drop(struct account *a)
{
	if (!a || --a->refs)
		return;
	arena_wipe(&a->arena);
	policy_drop(a->policy);
	free(a);
}

static void drop_known(void *value)
{
	account_drop(value);
}

/* ---- the source ----------------------------------------------------------------- */

/* The policy of the file as it is now; a new reference. */
static struct policy *read_policy(const struct account_source *s, struct err *e)
{
	const char *warning;
	struct policy *p = policy_read(s->options->facts, s->openpai, &warning, e);
	if (p && warning)
		log_event(LOG_WARN, "the file of --facts is not safe", "why", warning);
	return p;
}

static struct policy *hold_policy(struct account_source *s)
{
	(void)pthread_mutex_lock(&s->lock); /* cannot fail: nobody locks twice */
	struct policy *p = s->policy;
	policy_hold(p);
	(void)pthread_mutex_unlock(&s->lock);
	return p;
}

static bool is_let_in(const struct policy *p, const struct facts_user *u)
{
	return u->listed || facts_file_lets_others_in(policy_file(p));
}

/* The one user of --no-auth would be refused with every request. */
static int check_user(const struct options *o, const struct policy *p, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct facts_user u;
	if (!o->no_auth)
		return 0;
	facts_file_user(policy_file(p), span_of(o->user), &a, &u);
	if (is_let_in(p, &u))
		return 0;
	return err_set(e, 400, NULL, "--user %s is not listed in %s, which lets nobody else in",
	               o->user, o->facts);
}

struct account_source *account_source_new(const struct options *o, struct err *e)
{
	bool openpai = strcmp(o->users, "openpai") == 0;
	if (openpai && o->standalone[0]) {
		(void)err_set(e, 400, NULL,
		              "--users=openpai needs a cluster, in which the users are");
		return NULL;
	}
	struct account_source *s = xcalloc(1, sizeof(*s));
	s->options = o;
	s->openpai = openpai;
	(void)pthread_mutex_init(&s->lock, NULL); /* cannot fail on Linux */
	s->policy = read_policy(s, e);
	if (s->policy && check_user(o, s->policy, e) == 0)
		return s;
	account_source_free(s);
	return NULL;
}

int account_source_reload(struct account_source *s, struct err *e)
{
	struct policy *p = read_policy(s, e);
	if (!p)
		return -1;
	(void)pthread_mutex_lock(&s->lock); /* as above */
	struct policy *old = s->policy;
	s->policy = p;
	(void)pthread_mutex_unlock(&s->lock);
	atomic_fetch_add(&s->generation, 1);
	policy_drop(old);
	return 0;
}

void account_source_free(struct account_source *s)
{
	if (!s)
		return;
	policy_drop(s->policy);
	(void)pthread_mutex_destroy(&s->lock); /* nobody holds it */
	free(s);
}

static uint64_t hash_of(const char *what, struct span name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	for (; *what; what++)
		h = (h ^ (unsigned char)*what) * UINT64_C(0x100000001b3);
	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (unsigned char)name.p[i]) * UINT64_C(0x100000001b3);
	return h;
}

/* With more to say than there is room for, the log hears of the rest later. */
bool source_may_say(struct account_source *s, const char *what, struct span name, int64_t for_ms)
{
	uint64_t hash = hash_of(what, name);
	int64_t now = clock_ms();
	size_t place = SAID_MAX;
	bool said = false;
	(void)pthread_mutex_lock(&s->lock); /* as above */
	for (size_t i = 0; i < SAID_MAX; i++) {
		bool over = s->said[i].until_ms <= now;
		said |= !over && s->said[i].what == hash;
		if (over)
			place = i;
	}
	bool may = !said && place < SAID_MAX;
	if (may) {
		s->said[place].what = hash;
		s->said[place].until_ms = now + for_ms;
	}
	(void)pthread_mutex_unlock(&s->lock);
	return may;
}

void source_saw(struct account_source *s, struct span virtual_cluster)
{
	(void)pthread_mutex_lock(&s->lock); /* as above */
	bool seen = s->n_seen == SEEN_MAX || virtual_cluster.n >= sizeof(s->seen[0]);
	for (size_t i = 0; !seen && i < s->n_seen; i++)
		seen = span_is(virtual_cluster, s->seen[i]);
	if (!seen)
		memcpy(s->seen[s->n_seen++], virtual_cluster.p, virtual_cluster.n);
	(void)pthread_mutex_unlock(&s->lock);
}

/* ---- those that a loop knows ---------------------------------------------------- */

struct accounts *accounts_new(struct account_source *s, struct store *store)
{
	struct accounts *all = xcalloc(1, sizeof(*all));
	all->source = s;
	all->generation = atomic_load(&s->generation);
	all->policy = hold_policy(s);
	all->known = memo_new(KEPT_LIMITS, drop_known);
	if (s->openpai) {
		assert(store);
		all->searches = searches_new(all, store);
		all->passwords = password_asks_new(s, store);
	}
	return all;
}

void accounts_free(struct accounts *all)
{
	if (!all)
		return;
	searches_free(all->searches);
	password_asks_free(all->passwords);
	memo_free(all->known);
	policy_drop(all->policy);
	free(all);
}

void account_remember(struct accounts *all, struct account *a, int64_t until_ms)
{
	account_hold(a);
	memo_put(all->known, span_of(a->name), a,
	         (struct memo_terms){ until_ms, sizeof(*a) + a->arena.used });
}

/* The file was read again: what was made from the old one is not believed any more. */
static void look_at_policy(struct accounts *all)
{
	unsigned now = atomic_load(&all->source->generation);
	if (now == all->generation)
		return;
	all->generation = now;
	policy_drop(all->policy);
	all->policy = hold_policy(all->source);
	memo_clear(all->known);
	if (all->searches)
		searches_forget(all->searches);
}

void accounts_forget(struct accounts *all)
{
	atomic_fetch_add(&all->source->generation, 1);
}

/* From the file; all->policy is what it says. */
static struct account *make(struct accounts *all, const char *name, struct err *e)
{
	struct account *a = account_new(name);
	struct facts_user u;
	facts_file_user(policy_file(all->policy), span_of(a->name), &a->arena, &u);
	if (!is_let_in(all->policy, &u)) {
		account_drop(a);
		(void)err_set(e, UNAUTHORIZED, "there is no user %s here", name);
		return NULL;
	}
	policy_hold(all->policy);
	a->policy = all->policy;
	a->admin = u.admin;
	a->email = u.email;
	a->groups = u.groups;
	a->n_groups = u.n_groups;
	a->facts = u.facts;
	a->extension = u.facts.extension;
	struct account_storage *v =
	    ARENA_NEW(&a->arena, struct account_storage, u.facts.n_storages + 1);
	for (size_t i = 0; i < u.facts.n_storages; i++)
		v[i] = (struct account_storage){ "", "unknown", SPAN("{}"), SPAN("") };
	a->storages = v;
	account_remember(all, a, INT64_MAX);
	return a;
}

struct account *account_find(struct accounts *all, const char *name, account_callback *done,
                             void *arg, struct err *e)
{
	look_at_policy(all);
	struct account *a = memo_get(all->known, span_of(name), clock_ms(), NULL);
	if (a)
		account_hold(a);
	else if (!all->searches)
		a = make(all, name, e);
	else
		searches_find(all->searches, name, done, arg, e);
	return a;
}

const struct facts_file *account_file(struct accounts *all)
{
	look_at_policy(all);
	return policy_file(all->policy);
}

size_t account_users(struct accounts *all, struct arena *arena, struct span **out)
{
	look_at_policy(all);
	size_t n = facts_file_users(policy_file(all->policy), arena, out);
	for (size_t i = 0; i < n; i++)
		(*out)[i] = arena_span(arena, (*out)[i]);
	return n;
}
