#pragma once
/* What the files account*.c share; see account.h for what it is about. */
#include <pthread.h>
#include <stdatomic.h>

#include "k8s/transport/store.h"
#include "server/accounts/account.h"
#include "server/options.h"
#include "server/ttl_cache.h"

/* What a loop remembers: of accounts, of groups, and of storages. */
#define KEPT_LIMITS ((struct ttl_cache_limits){ 4096, 32u << 20 })

enum {
	SEEN_MAX = 1024, /* virtual clusters that groups of a cluster have named */
	SAID_MAX = 64,   /* things that the log was told and is not to be told again soon */
};

struct account_source {
	const struct options *options;
	bool openpai;
	atomic_uint generation; /* of the policy */
	pthread_mutex_t lock;   /* of all below; never held for long */
	struct shared_facts *policy;
	char seen[SEEN_MAX][64];
	size_t n_seen;
	struct {
		uint64_t what;
		int64_t until_ms;
	} said[SAID_MAX];
};

struct searches;
struct password_asks;

struct accounts {
	struct account_source *source;
	struct shared_facts *policy; /* held */
	unsigned generation;
	struct ttl_cache *known;   /* by user: struct account */
	struct searches *searches; /* --users=openpai, else NULL; so is the next */
	struct password_asks *passwords;
};

/* An account without anything in it, and one reference. */
struct account *account_new(const char *name);

/* Keep it in all->known, with a reference of its own. */
void account_remember(struct accounts *all, struct account *a, int64_t until_ms);

/* Whether the log may be told about `what` of this name now; then it may not for so long. */
bool source_may_say(struct account_source *s, const char *what, struct span name, int64_t for_ms);
/* Groups may name this virtual cluster, so it seems to exist. */
void source_saw(struct account_source *s, struct span virtual_cluster);

/*
 * Looking for users in a cluster.  The store is borrowed; it may be freed before or after.  What is
 * found goes to all->known.
 */
struct searches *searches_new(struct accounts *all, struct store *store);
void searches_free(struct searches *in);   /* NULL is nothing */
void searches_forget(struct searches *in); /* what is read, and what is being read */
/* As account_find, for a user who is not known. */
void searches_find(struct searches *in, const char *name, account_callback *done, void *arg,
                   struct err *e);

/* Asking for passwords' hashes; see account_password. */
struct password_asks *password_asks_new(struct account_source *s, struct store *store);
void password_asks_free(struct password_asks *all); /* NULL is nothing */
