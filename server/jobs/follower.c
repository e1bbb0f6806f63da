#include "server/jobs/follower.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"

enum { BUCKETS = 256 };

/* References; NULL for none. */
struct change {
	const struct job_entry *now, *before;
};

struct followers {
	struct change_queue *queue;
	struct hash_key key;
	size_t n;
	struct follower *of_all, *of_one[BUCKETS];
	struct cache *cache;
	struct change *changes; /* that are being told */
	size_t n_changes, cap;
};

struct followers *followers_new(struct cache *c, struct err *e)
{
	struct followers *all = xcalloc(1, sizeof(*all));
	all->cache = c;
	all->key = hash_key_new();
	all->queue = change_queue_new(c, e);
	if (all->queue)
		return all;
	free(all);
	return NULL;
}

void followers_free(struct followers *all)
{
	if (!all)
		return;
	assert(all->n == 0);
	change_queue_free(all->queue);
	free(all);
}

int followers_fd(const struct followers *all)
{
	return change_queue_fd(all->queue);
}

/* ---- one ---- */

static struct follower **list_of(struct followers *all, struct span name)
{
	return name.n ? &all->of_one[hash_bytes(&all->key, name) % BUCKETS] : &all->of_all;
}

void follower_begin(struct followers *all, struct follower *f)
{
	struct follower **list = list_of(all, f->name);
	f->next = *list;
	f->at = list;
	if (f->next)
		f->next->at = &f->next;
	*list = f;
	if (all->n++ == 0)
		change_queue_listen(all->queue, true);
}

void follower_end(struct followers *all, struct follower *f)
{
	*f->at = f->next;
	if (f->next)
		f->next->at = f->at;
	if (--all->n == 0)
		change_queue_listen(all->queue, false);
}

/* ---- news ---- */

static int64_t version_of(const struct change *c)
{
	return c->now ? c->now->version : c->before->version;
}

static int by_version(const void *a, const void *b)
{
	int64_t x = version_of(a);
	int64_t y = version_of(b);
	return (x > y) - (x < y);
}

static void tell_list(struct follower *list, const struct change *c, int64_t told)
{
	const char *name = c->now ? c->now->name : c->before->name;
	struct follower *next;
	for (struct follower *f = list; f; f = next) {
		next = f->next;
		if (!f->name.n || span_is(f->name, name))
			f->changed(f, c->now, c->before, told);
	}
}

static void tell(struct followers *all, const struct change *c, int64_t heard)
{
	int64_t told = c->now && c->now->version <= heard ? c->now->version : 0;
	const char *name = c->now ? c->now->name : c->before->name;
	tell_list(*list_of(all, span_of(name)), c, told);
	tell_list(all->of_all, c, told);
}

static void take(void *arg, const struct job_entry *now, const struct job_entry *before)
{
	struct followers *all = arg;
	if (all->n_changes == all->cap) {
		all->cap = all->cap ? 2 * all->cap : 16;
		all->changes = xrealloc(all->changes, all->cap * sizeof(all->changes[0]));
	}
	all->changes[all->n_changes++] = (struct change){
		now ? job_entry_hold(now) : NULL,
		before ? job_entry_hold(before) : NULL,
	};
}

static void tell_lost(struct follower *list)
{
	struct follower *next;
	for (struct follower *f = list; f; f = next) {
		next = f->next;
		f->lost(f);
	}
}

void followers_run_once(struct followers *all)
{
	/* All up to here is in the inbox by now. */
	int64_t heard = cache_heard(all->cache);
	bool complete = change_queue_take(all->queue, take, all);
	if (all->n_changes > 1)
		qsort(all->changes, all->n_changes, sizeof(all->changes[0]), by_version);
	for (size_t i = 0; i < all->n_changes; i++) {
		tell(all, &all->changes[i], complete ? heard : 0);
		job_entry_drop(all->changes[i].now);
		job_entry_drop(all->changes[i].before);
	}
	free(all->changes);
	all->changes = NULL;
	all->n_changes = all->cap = 0;
	if (complete)
		return;
	tell_lost(all->of_all);
	for (size_t i = 0; i < BUCKETS; i++)
		tell_lost(all->of_one[i]);
}
