#pragma once
/*
 * server: the program rest-lit.  Begin with serve/routes.c (the table of routes), then
 * http/request.h. serve/start.c makes the loops of `serve`; the other folders are features:
 * accounts, auth, users, submit, jobs, logs, cluster; cli has the commands.  serve/features.c
 * connects features to loops.
 *
 * State shared by all loops.  Immutable after start, except for the members marked "mutable".
 *
 *	const struct server *s = r->loop->server;
 *	const struct settings *set = translator_settings(s->translator);
 *	if (atomic_load(&s->phase) == PHASE_RUN && set->hived)
 *		use(s->options, s->scheduler);
 *
 * serve/start.c makes and frees all parts; loops borrow them.
 *
 * Thread: any
 */
#include <pthread.h>
#include <stdatomic.h>

#include "translate/translate.h"

struct account_source;
struct accounts;
struct auth;
struct cache;
struct caller;
struct cors;
struct counts;
struct engine;
struct engine_settings;
struct events;
struct exit_spec;
struct follow;
struct followers;
struct history;
struct keyring;
struct local;
struct login;
struct loop_hooks;
struct nodes;
struct options;
struct rate_limits;
struct readiness;
struct results_slots;
struct sessions;
struct revocations;
struct route_table;
struct scheduler;
struct log_streams;
struct tls;
struct uploads;
struct worker;
struct worker_inbox;

/* The idempotency keys of submissions in progress on all loops (submit/idempotency.c). */
struct key_claims {
	pthread_mutex_t lock;
	struct idempotency_claim *first; /* one per submission; their number is limited */
};

enum { CODE_UPLOADS = 16 /* uploads of code at a time, of all users */ };

enum server_phase {
	PHASE_RUN,
	PHASE_DRAIN, /* /readyz answers 503, everything else works */
	PHASE_STOP   /* no new connections; current requests are finished */
};

struct server {
	const struct options *options;
	const struct loop_hooks *hooks;   /* see loop.h */
	const struct route_table *routes; /* of the API: server/serve/routes.c */
	struct translator *translator;
	struct counts *counts; /* mutable: see counts.h */
	unsigned dialects;     /* taken besides those of OpenPAI */
	struct account_source *accounts;
	/* Mutable: replaced by the main thread (start.h); loops read it by keyring_of() (auth.h).
	 * NULL with --no-auth. */
	_Atomic(struct keyring *) keyring;
	atomic_uint
	    generation;        /* mutable: counts replacements; each loop copies it in each round */
	atomic_ullong reviews; /* mutable: TokenReviews of this second: second << 8 | number */
	struct revocations *revoked;     /* mutable */
	struct key_claims claims;        /* mutable */
	struct rate_limits *rate_limits; /* mutable */
	struct cors *cors;
	char link_key[33];      /* random: signs links to logs if there is no token secret */
	struct worker *edits;   /* logins, changes of users and tokens (http/edit.h) */
	struct tls *tls;        /* NULL: plain HTTP */
	struct tls *output_tls; /* of --output-listen; `tls` with --output-ca; NULL: plain */
	bool output_tls_random; /* its key: other servers have other certificates */
	struct login *login;    /* of the API server; NULL: local is set */
	struct local *local;    /* of --local */
	/* Only for `rest-lit run`, of which the server is a part: directories and callbacks of the
	 * engine.  The only client is this process, over a Unix socket.  NULL: `serve`. */
	const struct engine_settings *foreground;
	struct engine *engine; /* runs the jobs of `local` (machine/engine/engine.h); or NULL */
	bool host_files;       /* its tasks see the machine's files instead of their images */
	bool host_commands;    /* the tasks of commands do, without an image of their own */
	struct scheduler *scheduler; /* NULL: not HiveD */
	struct follow *follow;       /* this, cache and events: see cluster.h */
	struct cache *cache;
	struct events *events;
	struct exit_spec *exit_spec;
	struct history *history; /* NULL: earlier attempts are not kept */
	const char *namespace_name;
	uint16_t port;
	/* Mutable: the reason why no job can be accepted, for users: the ConfigMap with pai-runtime
	 * is missing (cluster/runtime_configmap.h).  NULL: it is there, or is not needed. */
	_Atomic(const char *) runtime_problem;
	atomic_int phase;           /* mutable */
	atomic_bool backing_up;     /* mutable: a backup is made or sent */
	const char *code_directory; /* archives of one machine (jobs/code); NULL: a cluster */
	/* mutable: uploads of code under way: a hash of their users; 0: none */
	unsigned long long code_uploads[CODE_UPLOADS];
	pthread_mutex_t code_lock;     /* guards them */
	atomic_llong code_coming;      /* mutable: bytes of those to code_directory */
	struct results_slots *results; /* answers that are being sent (results/); NULL: a cluster */
	struct sessions *sessions;     /* in tasks (exec/); NULL: a cluster */
	/* mutable: GPUs of the largest node for pods, when nodes were last read; 0: unknown */
	atomic_llong node_gpus;
	struct nodes *nodes; /* for pods (cluster/nodes.h); NULL: any node is */
	int ended_fd;        /* an eventfd: each loop adds 1 when it ends */
	/* The threads in the background, so that all can be told to end (caller_stop) before one is
	 * waited for; from their start until they are freed at the end. */
	struct caller *threads[3];
	size_t n_threads;
};

/* The state of features per loop (loop->has), made and freed by FEATURES.  Only the loop's thread
 * uses it. */
struct features {
	struct accounts *accounts; /* NULL after `stop`, as auth */
	struct auth *auth;
	struct readiness *readiness;     /* of /readyz (server/serve/health.c); NULL: never asked */
	struct log_streams *log_streams; /* logs; NULL: there are no pods */
	struct worker_inbox *edits;      /* NULL after `stop` */
	struct followers *followers;     /* NULL: no cache of jobs */
	struct uploads *uploads;         /* NULL: not the loop of --output-listen */
};
