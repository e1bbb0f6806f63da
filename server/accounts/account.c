/* The source of accounts, the cache of a loop, and the file of --facts. */
#include "server/accounts/account.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/json/put.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "server/accounts/account_internal.h"
#include "server/config/options.h"
#include "server/config/system.h"
#include "server/state/log.h"

/* ---- sets of names ---- */

bool name_set_has(const struct name_set *s, struct span name)
{
	size_t i = 0;
	while (i < s->n && !span_eq(s->v[i], name))
		i++;
	return i < s->n;
}

void name_set_add(struct name_set *s, struct span name)
{
	if (!name_set_has(s, name))
		s->v[s->n++] = name;
}

/* The order of the others stays. */
/* ---- accounts ---- */

/* The last reference wipes it; p may be NULL. */
static void shared_facts_drop(struct shared_facts *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	arena_wipe(&p->arena);
	free(p);
}

struct account *account_new(const char *name)
{
	struct account *a = xcalloc(1, sizeof(*a));
	a->refs = 1;
	a->limits = (struct facts_limits){ -1, -1, -1, -1 };
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
	shared_facts_drop(a->shared_facts);
	free(a);
}

static void account_drop_value(void *value)
{
	account_drop(value);
}

/* ---- the source ---- */

/* Somebody has a limit that only the engine of one machine applies. */
static bool facts_limit_machine(const struct facts_file *f)
{
	struct facts_limits l = facts_file_limits(f);
	struct span user;
	bool some = false;
	size_t i = 0;
	do
		some = l.cpu >= 0 || l.gpu >= 0 || l.memory_mb >= 0;
	while (!some && facts_file_limited(f, i++, &user, &l));
	return some;
}

/* Reads the file of --facts, or the defaults without one; returns a reference.  NULL and *e: 500,
 * with a place for a mistake in the file. */
static struct shared_facts *shared_facts_read(const struct account_source *s, struct err *e)
{
	const char *path = s->options->facts;
	STR_AUTO text = STR_SECRET(SHARED_FACTS_MAX);
	struct stat st;
	if (path[0] && file_read_regular(path, &text, &st, e) < 0)
		return NULL;
	struct shared_facts *p = xcalloc(1, sizeof(*p));
	atomic_init(&p->refs, 1);
	p->file = facts_file_read(str_view(&text), &p->arena, e);
	const struct member *m = p->file && s->openpai ? p->file->about_users : NULL;
	if (m) {
		struct place where = { NULL, m->key_line, m->key_column };
		(void)err_at(e, UNKNOWN_ERROR, where,
		             "with --users=openpai, `%s` come from the cluster, not from this file",
		             m->key);
	}
	if (!p->file || m) {
		shared_facts_drop(p);
		return NULL;
	}
	const char *warning = path[0] ? file_warning(&st, p->file->is_secret) : NULL;
	if (warning)
		log_event(LOG_WARN, "the file of --facts has unsafe owner or mode", "why", warning);
	if (!s->options->local[0] && facts_limit_machine(p->file))
		log_event(
		    LOG_WARN,
		    "limits of gpu, cpu and memoryMB in the file of --facts limit nothing on a "
		    "cluster; jobs does",
		    "file", path);
	return p;
}

static struct shared_facts *source_hold_facts(struct account_source *s)
{
	LOCK_AUTO(&s->lock);
	struct shared_facts *p = s->shared_facts;
	atomic_fetch_add(&p->refs, 1);
	return p;
}

static bool facts_admit_user(const struct shared_facts *p, const struct facts_user *u)
{
	return u->listed || p->file->lets_others_in;
}

/* Refuses an unknown --user with --no-auth: every request would fail. */
static int check_user(const struct options *o, const struct shared_facts *p, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct facts_user u;
	if (!o->no_auth)
		return 0;
	facts_file_user(p->file, span_of(o->user), false, &a, &u);
	if (facts_admit_user(p, &u))
		return 0;
	return err_set(e, 400, NULL, "--user %s is not listed in %s, which refuses other users",
	               o->user, o->facts);
}

struct account_source *account_source_new(const struct options *o, struct err *e)
{
	bool openpai = strcmp(o->users, "openpai") == 0;
	if (openpai && o->local[0]) {
		(void)err_set(e, 400, NULL, "--users=openpai needs a cluster");
		return NULL;
	}
	struct account_source *s = xcalloc(1, sizeof(*s));
	s->options = o;
	s->openpai = openpai;
	(void)pthread_mutex_init(&s->lock, NULL);
	s->shared_facts = shared_facts_read(s, e);
	if (s->shared_facts && check_user(o, s->shared_facts, e) == 0)
		return s;
	account_source_free(s);
	return NULL;
}

int account_source_reload(struct account_source *s, struct err *e)
{
	struct shared_facts *p = shared_facts_read(s, e);
	if (!p)
		return -1;
	(void)pthread_mutex_lock(&s->lock);
	struct shared_facts *old = s->shared_facts;
	s->shared_facts = p;
	(void)pthread_mutex_unlock(&s->lock);
	atomic_fetch_add(&s->generation, 1);
	shared_facts_drop(old);
	return 0;
}

void account_source_use(struct account_source *s,
                        void (*use)(void *arg, const struct facts_file *f), void *arg)
{
	struct shared_facts *p = source_hold_facts(s);
	use(arg, p->file);
	shared_facts_drop(p);
}

void account_source_free(struct account_source *s)
{
	if (!s)
		return;
	shared_facts_drop(s->shared_facts);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

bool source_may_warn(struct account_source *s, const char *what, struct span name, int64_t for_ms)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
	for (const char *c = what; *c; c++)
		hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
	for (size_t i = 0; i < name.n; i++)
		hash = (hash ^ (unsigned char)name.p[i]) * UINT64_C(0x100000001b3);
	int64_t now = clock_ms();
	size_t place = SAID_MAX;
	bool said = false;
	LOCK_AUTO(&s->lock);
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
	return may;
}

void source_note_virtual_cluster(struct account_source *s, struct span virtual_cluster)
{
	LOCK_AUTO(&s->lock);
	bool seen = s->n_seen == SEEN_MAX || virtual_cluster.n >= sizeof(s->seen[0]);
	for (size_t i = 0; !seen && i < s->n_seen; i++)
		seen = span_is(virtual_cluster, s->seen[i]);
	if (!seen)
		memcpy(s->seen[s->n_seen++], virtual_cluster.p, virtual_cluster.n);
}

/* ---- the cache of a loop ---- */

struct accounts *accounts_new(struct account_source *s, struct store *store)
{
	struct accounts *all = xcalloc(1, sizeof(*all));
	all->source = s;
	all->generation = atomic_load(&s->generation);
	all->shared_facts = source_hold_facts(s);
	all->known = ttl_cache_new(KEPT_LIMITS, account_drop_value);
	if (s->openpai) {
		assert(store);
		all->store = store;
		all->last = &all->head;
		all->groups = ttl_cache_new(KEPT_LIMITS, cached_object_free);
		all->storages = ttl_cache_new(KEPT_LIMITS, cached_object_free);
	}
	return all;
}

void accounts_free(struct accounts *all)
{
	if (!all)
		return;
	assert(!all->head); /* the end of the store has ended all look-ups */
	ttl_cache_free(all->groups);
	ttl_cache_free(all->storages);
	ttl_cache_free(all->known);
	shared_facts_drop(all->shared_facts);
	free(all);
}

void account_remember(struct accounts *all, struct account *a, int64_t until_ms)
{
	account_hold(a);
	ttl_cache_put(all->known, span_of(a->name), a,
	              (struct ttl_cache_terms){ until_ms, sizeof(*a) + a->arena.used });
}

/* Drops accounts made from the old file, after a reload. */
static void apply_reload(struct accounts *all)
{
	unsigned now = atomic_load(&all->source->generation);
	if (now == all->generation)
		return;
	all->generation = now;
	shared_facts_drop(all->shared_facts);
	all->shared_facts = source_hold_facts(all->source);
	ttl_cache_forget(all->known, NULL, NULL);
	if (all->store)
		searches_forget(all);
}

/* Each loop sees the new generation before its next look-up, and drops what it knows. */
void accounts_forget(struct accounts *all)
{
	atomic_fetch_add(&all->source->generation, 1);
}

/* Makes an account from the file. */
static struct account *account_make(struct accounts *all, const char *name, bool admin,
                                    struct err *e)
{
	struct account *a = account_new(name);
	struct facts_user u;
	facts_file_user(all->shared_facts->file, span_of(a->name), admin, &a->arena, &u);
	if (!admin && !facts_admit_user(all->shared_facts, &u)) {
		account_drop(a);
		(void)err_set(e, UNAUTHORIZED, "this server has no user %s", name);
		return NULL;
	}
	atomic_fetch_add(&all->shared_facts->refs, 1);
	a->shared_facts = all->shared_facts;
	a->admin = u.admin;
	a->email = u.email;
	a->groups = u.groups;
	a->n_groups = u.n_groups;
	a->facts = u.facts;
	a->limits = u.limits;
	a->extension = u.facts.extension;
	struct account_storage *v =
	    ARENA_NEW(&a->arena, struct account_storage, u.facts.n_storages + 1);
	for (size_t i = 0; i < u.facts.n_storages; i++)
		v[i] = (struct account_storage){ "", "unknown", SPAN("{}"), SPAN("") };
	a->storages = v;
	return a;
}

struct account *account_find(struct accounts *all, const char *name, account_callback *done,
                             void *arg, struct err *e)
{
	apply_reload(all);
	struct account *a = ttl_cache_get(all->known, span_of(name), clock_ms(), NULL);
	if (a)
		account_hold(a);
	else if (all->store)
		searches_find(all, name, done, arg, e);
	else if ((a = account_make(all, name, false, e)))
		account_remember(all, a, INT64_MAX);
	return a;
}

struct account *account_administrator(struct accounts *all, const char *name)
{
	apply_reload(all);
	return account_make(all, name, true, NULL);
}

const struct facts_file *account_file(struct accounts *all)
{
	apply_reload(all);
	return all->shared_facts->file;
}

/* ---- virtual clusters ---- */

struct name_set account_virtual_clusters(struct accounts *all, const struct account *a,
                                         struct arena *arena, bool *listed)
{
	struct account_source *s = all->source;
	struct span *exist;
	size_t n_exist;
	const struct span *from;
	*listed = true;
	if (a && !a->facts.any_virtual_cluster) {
		from = a->facts.virtual_clusters;
		n_exist = a->facts.n_virtual_clusters;
	} else {
		n_exist =
		    facts_file_virtual_clusters(all->shared_facts->file, arena, &exist, listed);
		from = exist;
	}
	struct name_set set = { ARENA_NEW(arena, struct span, n_exist + (*listed ? 1 : SEEN_MAX)),
		                0 };
	for (size_t i = 0; i < n_exist; i++)
		set.v[set.n++] = arena_span(arena, from[i]);
	LOCK_AUTO(&s->lock);
	for (size_t i = 0; !*listed && i < s->n_seen; i++) /* that groups of a cluster have named */
		name_set_add(&set, span_of(arena_dup(arena, span_of(s->seen[i]))));
	return set;
}

/* ---- the extension ---- */

enum { SHOWN_MEMBERS = 4 };

enum member_shape { SHAPE_MAP, SHAPE_LIST_OF_MAPS, SHAPE_MAP_OF_MAPS };

/* Public members of an extension.  Others, such as jobSSH.key, githubPAT and tokens of bounded
 * clusters, are never shown. */
static const struct {
	const char *key;
	enum member_shape shape;
	const char *members[SHOWN_MEMBERS];
} SHOWN[] = {
	{ "jobSSH", SHAPE_MAP, { "pubKey" } },
	{ "sshKeys", SHAPE_LIST_OF_MAPS, { "title", "value", "time" } },
	{ "boundedClusters", SHAPE_MAP_OF_MAPS, { "alias", "uri", "username" } },
};

/* Scalars only; never a private key in place of a public key. */
static bool account_may_show(const struct node *n)
{
	if (!n || n->type == NODE_LIST || n->type == NODE_MAP)
		return false;
	return n->type != NODE_TEXT ||
	       !(n->n && memmem(n->text, n->n, "PRIVATE KEY", strlen("PRIVATE KEY")));
}

bool account_shows(struct span extension_member, const struct member *scalar)
{
	for (size_t i = 0; i < ARRAY_SIZE(SHOWN); i++)
		for (size_t k = 0; k < SHOWN_MEMBERS && SHOWN[i].members[k]; k++)
			if (span_is(extension_member, SHOWN[i].key) &&
			    span_is(member_key(scalar), SHOWN[i].members[k]))
				return account_may_show(&scalar->value);
	return false;
}

static void put_map(struct str *out, const struct node *map, const char *const *members)
{
	str_char(out, '{');
	for (size_t i = 0; i < SHOWN_MEMBERS && members[i]; i++) {
		const struct node *v = node_get(map, members[i]);
		if (!account_may_show(v))
			continue;
		json_put_key(out, members[i]);
		node_json(out, v);
	}
	str_char(out, '}');
}

void account_extension(const struct account *a, struct str *out)
{
	str_char(out, '{');
	for (size_t i = 0; i < ARRAY_SIZE(SHOWN); i++) {
		const struct node *v = node_get(a->extension, SHOWN[i].key);
		bool list = SHOWN[i].shape == SHAPE_LIST_OF_MAPS;
		if (!node_is(v, list ? NODE_LIST : NODE_MAP))
			continue;
		json_put_key(out, SHOWN[i].key);
		if (SHOWN[i].shape == SHAPE_MAP) {
			put_map(out, v, SHOWN[i].members);
			continue;
		}
		str_char(out, list ? '[' : '{');
		for (size_t k = 0; k < v->n; k++) {
			json_put_key(out, NULL); /* a comma, if it is due */
			if (!list) {
				str_json(out, member_key(&v->member[k]));
				str_char(out, ':');
			}
			put_map(out, list ? &v->item[k] : &v->member[k].value, SHOWN[i].members);
		}
		str_char(out, list ? ']' : '}');
	}
	str_char(out, '}');
}
