#pragma once
/* Shared by the files of this folder. */
#include <pthread.h>
#include <stdatomic.h>

#include "jobs/store/store.h"
#include "server/accounts/account.h"
#include "server/state/ttl_cache.h"

/* Limits of a cache of one loop: of accounts, of groups, of storages. */
#define KEPT_LIMITS ((struct ttl_cache_limits){ 4096, 32u << 20 })

enum {
	SHARED_FACTS_MAX = 16 << 20, /* bytes */
	SEEN_MAX = 1024,             /* virtual clusters named by groups of a cluster */
	SAID_MAX = 64,               /* messages that are rate-limited at the moment */
};

/* The parsed file of --facts: immutable, counted. */
struct shared_facts {
	atomic_size_t refs;
	const struct facts_file *file;
	struct arena arena;
};

struct account_source {
	const struct options *options;
	bool openpai;
	atomic_uint generation; /* of shared_facts */
	pthread_mutex_t lock;   /* guards all below */
	struct shared_facts *shared_facts;
	char seen[SEEN_MAX][64];
	size_t n_seen;
	struct {
		uint64_t what;
		int64_t until_ms;
	} said[SAID_MAX];
};

struct account_search;

struct accounts {
	struct account_source *source;
	struct shared_facts *shared_facts; /* a reference */
	unsigned generation;
	struct ttl_cache *known; /* by user: struct account */
	struct store *store;     /* borrowed; NULL without --users=openpai */
	/* of account_openpai.c: */
	struct ttl_cache *groups, *storages; /* struct cached_object */
	struct account_search *head, **last; /* by age */
	size_t active, waiting;
};

/* An empty account with one reference. */
struct account *account_new(const char *name);

/* Adds it, with a reference, to all->known. */
void account_remember(struct accounts *all, struct account *a, int64_t until_ms);

/* Limits log messages: true at most once per for_ms for each (what, name). */
bool source_may_warn(struct account_source *s, const char *what, struct span name, int64_t for_ms);
/* Records a virtual cluster that a group names. */
void source_note_virtual_cluster(struct account_source *s, struct span virtual_cluster);

/* Frees a group or storage, a value of all->groups or all->storages. */
void cached_object_free(void *value);
/* Look-ups of users in a cluster, if all->store is set.  Add accounts to all->known. */
void searches_forget(struct accounts *all); /* cached parts, and look-ups in progress */
/* Finds a user that is not cached, as account_find. */
void searches_find(struct accounts *all, const char *name, account_callback *done, void *arg,
                   struct err *e);
