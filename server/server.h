#pragma once
/* What all loops of one server share: made before the threads start, then only read. */
#include <stdatomic.h>

#include "server/options.h"
#include "translate/translate.h"

struct login;
struct local;
struct keyring;
struct account_source;
struct revocations;
struct edge;
struct worker;
struct tls;
struct scheduler;
struct cache;
struct events;
struct follow;
struct exit_spec;
struct history;
struct key_claims;
struct loop_hooks;

enum phase {
	PHASE_RUN,
	PHASE_DRAIN, /* /readyz says 503, all else goes on */
	PHASE_STOP   /* no new connections; what is under way is finished */
};

/* Whether pai-runtime is where pods will look for it; see server/cluster/cluster.h. */
enum runtime_configmap_state {
	RUNTIME_CONFIGMAP_READY, /* or nothing to deliver */
	RUNTIME_CONFIGMAP_PENDING,
	RUNTIME_CONFIGMAP_UNREACHABLE,
	RUNTIME_CONFIGMAP_FORBIDDEN,
	RUNTIME_CONFIGMAP_REFUSED,
	RUNTIME_CONFIGMAP_FOREIGN, /* something else has its name */
	RUNTIME_CONFIGMAP_STATE_MAX
};

struct server {
	const struct options *options;
	const struct loop_hooks *hooks; /* see loop.h */
	struct translator *translator;
	struct account_source *accounts;
	/* Replaced by the main thread when files are read again (reload.h); the loops get it by
	 * keyring_of() (auth.h).  NULL with --no-auth. */
	_Atomic(struct keyring *) keyring;
	atomic_uint generation; /* how often it was replaced; each loop repeats what it has seen */
	atomic_ullong reviews;  /* TokenReviews of this second: second << 8 | how many */
	struct revocations *revoked;
	struct key_claims *claims; /* keys of submissions under way (idempotency.h) */
	struct edge *edge;
	/* Random: signs links to logs where there is no secret of tokens. */
	char link_key[33];
	struct worker *worker; /* NULL: nobody logs in here */
	struct tls *tls;       /* NULL: plain HTTP */
	struct login *login;   /* one of these two */
	struct local *local;
	struct scheduler *scheduler; /* NULL: it is not HiveD */
	struct follow *follow;       /* these three: see follow.h */
	struct cache *cache;
	struct events *events;
	struct exit_spec *exit_spec;
	struct history *history; /* NULL: earlier attempts are not kept */
	const char *namespace_name;
	uint16_t port;
	atomic_int runtime_configmap; /* enum runtime_configmap_state */
	atomic_int phase;
	int ended_fd; /* an eventfd: each loop adds 1 when it has ended */
};
