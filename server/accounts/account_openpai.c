/*
 * Look-ups of users of an OpenPAI cluster.  Objects are read by name, never listed.  A search goes
 * through STAGES: the user's Secret, the Secrets of the groups, then the claim and volume of each
 * storage.  The parts of a stage are read a few at a time.  A missing or malformed object grants
 * nothing; a failed request ends the search with 503.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/posix/clock.h"
#include "server/accounts/account.h"
#include "server/accounts/account_internal.h"
#include "server/config/options.h"
#include "server/state/log.h"
#include "translate/job/names.h"

enum search_stage { STAGE_USER, STAGE_GROUPS, STAGE_STORAGES, STAGE_END };

struct search_waiter {
	struct search_waiter *next;
	account_callback *done;
	void *arg;
};

/* An object that a search needs. */
struct account_object {
	struct account_search *search;
	enum object_kind kind;
	struct span name;   /* of the user, group or storage */
	const char *object; /* its Kubernetes name */
	int64_t asked_ms;
	bool found;
	bool is_default;        /* of a storage */
	struct pai_group group; /* both in the arena of the search */
	struct pai_storage storage;
};

struct account_search {
	struct account_search *next, **at; /* the pointer to this element */
	struct accounts *all;
	char name[ACCOUNT_NAME];
	struct account *account; /* under construction */
	struct search_waiter *waiters;
	struct search_waiter **last_waiter;
	bool started;
	enum search_stage stage;
	struct account_object *parts;
	size_t n_parts, next_part, pending;
	int64_t deadline_ms;
	int64_t until_ms; /* expiry of the oldest part */
	struct arena arena;
	struct err e;
};

struct stage_steps {
	enum pai_read (*read)(struct account_object *p, struct span body, const char **why);
	void (*end)(struct account_search *l); /* after the last part; plans the next stage */
	const char *skipped;                   /* log message for a missing or malformed part */
};

enum {
	LOOKUPS_ACTIVE = 16, /* at a time, per loop */
	LOOKUPS_WAITING = 1000,
	PARTS_AT_ONCE = 8,
	MINUTE_MS = 60000,
};

enum {
	STORAGES_MAX = 256, /* of a user */
	CLUSTERS_MAX = 1024,
	HOUR_MS = 3600000,
};

/* A cached group or storage. */
struct cached_object {
	struct pai_group group;
	struct pai_storage storage;
	struct arena arena;
};

/* Logs a permanent problem once per hour. */
static void search_warn(const struct account_search *l, const char *what, struct span name,
                        const char *why)
{
	if (!source_may_warn(l->all->source, what, name, HOUR_MS))
		return;
	struct line line = log_begin(LOG_WARN, what);
	log_text(&line, "name", name);
	log_text(&line, "user", span_of(l->name));
	log_text(&line, "why", span_of(why));
	log_end(&line);
}

/* ---- caches of groups and storages ---- */

static struct name_set copy_names(struct arena *a, const struct span *v, size_t n)
{
	struct name_set copy = { ARENA_NEW(a, struct span, n + 1), 0 };
	for (size_t i = 0; i < n; i++)
		copy.v[copy.n++] = arena_span(a, v[i]);
	return copy;
}

static void copy_group(struct arena *a, struct pai_group *to, const struct pai_group *from)
{
	*to = *from;
	to->virtual_clusters = copy_names(a, from->virtual_clusters.v, from->virtual_clusters.n);
	to->storages = copy_names(a, from->storages.v, from->storages.n);
}

static void copy_storage(struct arena *a, struct pai_storage *to, const struct pai_storage *from)
{
	*to = *from;
	to->volume = arena_dup(a, span_of(from->volume));
	to->data = arena_span(a, from->data);
	to->mount_options = arena_span(a, from->mount_options);
}

void cached_object_free(void *value)
{
	struct cached_object *k = value;
	arena_done(&k->arena);
	free(k);
}

static struct ttl_cache *search_cache(const struct account_search *l)
{
	return l->stage == STAGE_GROUPS ? l->all->groups : l->all->storages;
}

static bool search_recall(struct account_search *l, struct account_object *p)
{
	int64_t until_ms;
	if (l->stage == STAGE_USER)
		return false;
	const struct cached_object *k =
	    ttl_cache_get(search_cache(l), p->name, clock_ms(), &until_ms);
	if (!k)
		return false;
	if (l->stage == STAGE_GROUPS)
		copy_group(&l->arena, &p->group, &k->group);
	else
		copy_storage(&l->arena, &p->storage, &k->storage);
	p->found = true;
	if (until_ms < l->until_ms)
		l->until_ms = until_ms;
	return true;
}

/* ---- reading an object ---- */

static enum pai_read search_read_user(struct account_object *p, struct span body, const char **why)
{
	struct account_search *l = p->search;
	struct account *a = l->account;
	struct pai_user user = { 0 };
	enum pai_read read = pai_user_read(body, p->name, &a->arena, &user, why);
	if (read != PAI_READ)
		return read;
	if (user.left_out)
		search_warn(l, "invalid parts of a user's Secret are ignored", p->name, "");
	a->email = user.email;
	a->groups = user.groups.v;
	a->n_groups = user.groups.n;
	a->extension = user.extension;
	return PAI_READ;
}

static enum pai_read read_group(struct account_object *p, struct span body, const char **why)
{
	struct account_search *l = p->search;
	enum pai_read read = pai_group_read(body, p->name, &l->arena, &p->group, why);
	if (read == PAI_READ && p->group.left_out)
		search_warn(l, "invalid parts of a group's Secret are ignored", p->name, "");
	for (size_t i = 0; read == PAI_READ && i < p->group.virtual_clusters.n; i++)
		source_note_virtual_cluster(l->all->source, p->group.virtual_clusters.v[i]);
	return read;
}

static enum pai_read read_storage(struct account_object *p, struct span body, const char **why)
{
	struct arena *a = &p->search->arena;
	return p->kind == KIND_CLAIM ? pai_claim_read(body, a, &p->storage, why)
	                             : pai_volume_read(body, a, &p->storage, why);
}

/* ---- the stages ---- */

static struct account_object *search_plan_parts(struct account_search *l, size_t n,
                                                enum object_kind kind)
{
	l->parts = ARENA_NEW(&l->arena, struct account_object, n + 1);
	l->n_parts = n;
	l->next_part = 0;
	for (size_t i = 0; i < n; i++)
		l->parts[i] = (struct account_object){ .search = l, .kind = kind };
	return l->parts;
}

static void name_secret(struct account_object *p, struct span name)
{
	char *hex = arena_alloc(&p->search->arena, 2 * PAI_NAME_MAX + 1);
	pai_secret_name(hex, name);
	p->name = name;
	p->object = hex;
}

static void plan_groups(struct account_search *l)
{
	struct account_object *v = search_plan_parts(l, l->account->n_groups, KIND_SECRET);
	for (size_t i = 0; i < l->n_parts; i++)
		name_secret(&v[i], l->account->groups[i]);
}

/* An admin may use all virtual clusters, others those that groups grant; but only what the file of
 * --facts lists, if it lists any. */
static void grant_virtual_clusters(struct account_search *l)
{
	struct facts *f = &l->account->facts;
	bool admin = l->account->admin;
	bool listed;
	struct name_set exist;
	struct name_set granted = { ARENA_NEW(&l->arena, struct span, CLUSTERS_MAX), 0 };
	exist.n =
	    facts_file_virtual_clusters(l->all->shared_facts->file, &l->arena, &exist.v, &listed);
	for (size_t i = 0; i < l->n_parts && !admin; i++) {
		const struct name_set *by = &l->parts[i].group.virtual_clusters;
		for (size_t k = 0; k < by->n && granted.n < CLUSTERS_MAX; k++)
			if (!listed || name_set_has(&exist, by->v[k]))
				name_set_add(&granted, by->v[k]);
	}
	f->any_virtual_cluster = admin && !listed;
	if (admin && listed)
		granted = exist;
	granted = copy_names(&l->account->arena, granted.v, granted.n);
	f->virtual_clusters = granted.v;
	f->n_virtual_clusters = granted.n;
}

/* The first storage of each group is one of the user's defaults. */
static void plan_storages(struct account_search *l)
{
	const struct account_object *groups = l->parts;
	size_t n_groups = l->n_parts;
	struct account_object *v = search_plan_parts(l, STORAGES_MAX, KIND_CLAIM);
	size_t n = 0;
	for (size_t i = 0; i < n_groups; i++) {
		for (size_t k = 0; k < groups[i].group.storages.n; k++) {
			struct span name = groups[i].group.storages.v[k];
			struct account_object *p = v;
			while (p < v + n && !span_eq(p->name, name))
				p++;
			if (p == v + STORAGES_MAX)
				continue;
			if (p == v + n) {
				n++;
				p->name = name;
				p->object = arena_dup(&l->arena, name);
			}
			p->is_default |= k == 0;
		}
	}
	l->n_parts = n;
}

static void search_end_groups(struct account_search *l)
{
	struct account *a = l->account;
	for (size_t i = 0; i < l->n_parts; i++) {
		if (!l->parts[i].found)
			continue;
		a->admin |= l->parts[i].group.admin;
		a->facts.grants |= l->parts[i].group.grants;
	}
	grant_virtual_clusters(l);
	plan_storages(l);
}

static bool is_filled(const struct node *n)
{
	return (node_is(n, NODE_MAP) || node_is(n, NODE_LIST)) && n->n > 0;
}

static void end_storages(struct account_search *l)
{
	struct account *a = l->account;
	struct storage_fact *facts = ARENA_NEW(&a->arena, struct storage_fact, l->n_parts + 1);
	struct account_storage *more = ARENA_NEW(&a->arena, struct account_storage, l->n_parts + 1);
	size_t n = 0;
	for (size_t i = 0; i < l->n_parts; i++) {
		const struct account_object *p = &l->parts[i];
		struct pai_storage s;
		if (!p->found)
			continue;
		copy_storage(&a->arena, &s, &p->storage);
		facts[n] = (struct storage_fact){ .name = arena_span(&a->arena, p->name),
			                          .is_default = p->is_default,
			                          .share = s.share,
			                          .read_only = s.read_only };
		more[n++] = (struct account_storage){ s.volume, s.type, s.data, s.mount_options };
	}
	a->limits = facts_file_limits(l->all->shared_facts->file);
	a->facts.storages = facts;
	a->facts.n_storages = n;
	a->storages = more;
	/* Pods need a Secret only if a member is not empty. */
	if (is_filled(node_get(a->extension, "jobSSH")) ||
	    is_filled(node_get(a->extension, "sshKeys")))
		a->facts.extension = a->extension;
}

static const struct stage_steps STAGES[STAGE_END] = {
	[STAGE_USER] = { search_read_user, plan_groups, "a user's Secret is ignored" },
	[STAGE_GROUPS] = { read_group, search_end_groups, "a group is skipped" },
	[STAGE_STORAGES] = { read_storage, end_storages, "a storage is skipped" },
};

/* ---- searches ---- */

static int search_unavailable(struct err *e)
{
	return err_set(e, UNAVAILABLE,
	               "users and groups cannot be looked up at the moment; try again");
}

/* ---- from stage to stage ---- */

static void search_answered(void *arg, const struct store_reply *r);

/* Requests of later stages are urgent, so that searches finish. */
static void search_ask(struct account_object *p)
{
	struct account_search *l = p->search;
	const struct options *o = l->all->source->options;
	const char *const namespaces[] = { [STAGE_USER] = o->user_namespace,
		                           [STAGE_GROUPS] = o->group_namespace,
		                           [STAGE_STORAGES] = NULL /* the jobs' */ };
	l->pending++;
	p->asked_ms = clock_ms();
	store_request(l->all->store, &(struct store_request){
					 .verb = STORE_GET,
					 .kind = p->kind,
					 .name = p->object,
					 .namespace_name = namespaces[l->stage],
					 .whole = true,
					 .user = l->name,
					 .urgent = l->stage != STAGE_USER,
					 .deadline_ms = l->deadline_ms,
					 .done = search_answered,
					 .arg = p,
				     });
}

static void search_found(struct account_object *p)
{
	struct account_search *l = p->search;
	if (p->kind == KIND_CLAIM) {
		p->kind = KIND_VOLUME;
		p->object = p->storage.volume;
		int64_t asked_ms = p->asked_ms;
		search_ask(p);
		p->asked_ms = asked_ms;
		return;
	}
	p->found = true;
	int64_t until_ms = p->asked_ms + l->all->source->options->token_cache_s * 1000;
	if (until_ms < l->until_ms)
		l->until_ms = until_ms;
	if (l->stage == STAGE_USER || until_ms <= clock_ms())
		return;
	struct cached_object *k = xcalloc(1, sizeof(*k));
	if (l->stage == STAGE_GROUPS)
		copy_group(&k->arena, &k->group, &p->group);
	else
		copy_storage(&k->arena, &k->storage, &p->storage);
	ttl_cache_put(search_cache(l), p->name, k,
	              (struct ttl_cache_terms){ until_ms, sizeof(*k) + k->arena.used });
}

static void take_answer(struct account_object *p, const struct store_reply *r)
{
	struct account_search *l = p->search;
	const char *why = "";
	enum pai_read read = PAI_UNFIT;
	if (r->outcome == STORE_OK)
		read = STAGES[l->stage].read(p, r->body, &why);
	else if (r->outcome != STORE_NOT_FOUND)
		read = PAI_BROKEN;
	if (read == PAI_READ) {
		search_found(p);
		return;
	}
	if (read == PAI_UNFIT) { /* missing or malformed */
		if (l->stage == STAGE_USER)
			(void)err_set(&l->e, UNAUTHORIZED, "there is no user %s in this cluster",
			              l->name);
		if (l->stage != STAGE_USER || why[0])
			search_warn(l, STAGES[l->stage].skipped, p->name,
			            why[0] ? why : "it does not exist");
		return;
	}
	(void)search_unavailable(&l->e);
	if (!source_may_warn(l->all->source, "failed", SPAN(""), MINUTE_MS))
		return;
	struct line line = log_begin(LOG_WARN, "users cannot be looked up");
	log_text(&line, "user", span_of(l->name));
	log_text(&line, "why", r->outcome == STORE_OK ? span_of(why) : r->message);
	log_end(&line);
}

static void ask_some(struct account_search *l)
{
	while (l->next_part < l->n_parts && l->pending < PARTS_AT_ONCE) {
		struct account_object *p = &l->parts[l->next_part++];
		if (!search_recall(l, p))
			search_ask(p);
	}
}

/* Starts waiting searches up to the limit. */
static void begin_some(struct accounts *all)
{
	for (struct account_search *l = all->head; l && all->active < LOOKUPS_ACTIVE; l = l->next) {
		if (l->started)
			continue;
		l->started = true;
		all->waiting--;
		all->active++;
		name_secret(search_plan_parts(l, 1, KIND_SECRET), span_of(l->name));
		ask_some(l);
	}
}

static void search_finish(struct account_search *l)
{
	struct accounts *all = l->all;
	struct account *a = l->e.http ? NULL : TAKE(l->account);
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
	else
		all->last = l->at;
	*(l->started ? &all->active : &all->waiting) -= 1;
	if (a && l->until_ms > clock_ms())
		account_remember(all, a, l->until_ms);
	begin_some(all);
	for (struct search_waiter *w = l->waiters, *next; w; w = next) {
		next = w->next;
		if (a)
			account_hold(a);
		w->done(w->arg, a, &l->e);
		free(w);
	}
	account_drop(a);
	account_drop(l->account);
	arena_wipe(&l->arena);
	err_done(&l->e);
	free(l);
}

static void search_advance(struct account_search *l)
{
	while (l->stage != STAGE_END && !l->e.http) {
		ask_some(l);
		if (l->pending)
			return;
		STAGES[l->stage].end(l);
		l->stage++;
	}
	if (!l->pending)
		search_finish(l);
}

static void search_answered(void *arg, const struct store_reply *r)
{
	struct account_object *p = arg;
	struct account_search *l = p->search;
	l->pending--;
	if (!l->e.http)
		take_answer(p, r);
	search_advance(l);
}

/* ---- interface ---- */

static struct account_search *search_add(struct accounts *all, const char *name)
{
	struct account_search *l = xcalloc(1, sizeof(*l));
	l->all = all;
	l->account = account_new(name);
	(void)snprintf(l->name, sizeof(l->name), "%s", name);
	l->last_waiter = &l->waiters;
	l->deadline_ms = clock_ms() + all->source->options->deadline_s * 1000;
	l->until_ms = INT64_MAX;
	l->at = all->last;
	*all->last = l;
	all->last = &l->next;
	all->waiting++;
	return l;
}

void searches_find(struct accounts *all, const char *name, account_callback *done, void *arg,
                   struct err *e)
{
	struct account_search *l = all->head;
	while (l && strcmp(l->name, name) != 0)
		l = l->next;
	if (!l && all->waiting >= LOOKUPS_WAITING) {
		(void)search_unavailable(e);
		return;
	}
	if (!l)
		l = search_add(all, name);
	struct search_waiter *w = xcalloc(1, sizeof(*w));
	*w = (struct search_waiter){ .done = done, .arg = arg };
	*l->last_waiter = w;
	l->last_waiter = &w->next;
	begin_some(all);
}

/* Data that look-ups under way have read may be old: it is used, but not remembered. */
void searches_forget(struct accounts *all)
{
	ttl_cache_forget(all->groups, NULL, NULL);
	ttl_cache_forget(all->storages, NULL, NULL);
	for (struct account_search *l = all->head; l; l = l->next)
		l->until_ms = 0;
}
