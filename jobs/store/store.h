#pragma once
/*
 * The store of objects: a Kubernetes API server, or a database (machine/store/).  Read this header
 * first, then store.c (queues), k8s/transport/api.c (backend), reply.c (classification of answers).
 *
 *	const struct store_request request = { .verb = STORE_GET,
 *		                               .kind = KIND_FRAMEWORK,
 *		                               .name = name,
 *		                               .whole = true,
 *		                               .deadline_ms = clock_ms() + 5000,
 *		                               .done = on_reply,
 *		                               .arg = me };
 *	store_request(store, &request);
 *
 * A thread that sends requests has a store of its own; nothing blocks.  store_request queues a
 * request, store_start sends it, store_reap receives its answer and calls back, once.  The loop
 * calls, in this order: store_reap; the HTTP library; store_start; epoll_wait on store_fd with
 * store_timeout_ms.  The queue and each answer are bounded (struct store_limits).
 *
 * Thread: own
 */
#include "base/counter.h"
#include "base/err.h"
#include "base/object.h"

struct store;

/*
 * PATCH is a JSON merge patch (RFC 7396), or with `json_patch` a list of operations (RFC 6902), of
 * which the database of --local supports `test` and `replace`, with keys without `~`.  Until the
 * deadline a store repeats, with back-off, requests that were not executed and requests that may be
 * executed twice: GET, LIST, PATCH, and DELETE with a uid.  So for these, STORE_AMBIGUOUS and
 * STORE_BUSY mean that the deadline has passed, and only an ambiguous CREATE must be settled by the
 * caller.  A PATCH with a resourceVersion or with tests is repeated as well: a refusal may then be
 * caused by its own first execution, so the caller reads the object again.
 *
 * LIST answers with the unparsed list; it ignores `name`.  Objects come as metadata only unless
 * `whole`; the body of an answer to DELETE is unspecified.  The database refuses selectors, gives
 * no `continue`, and has no objects of kinds from KIND_MADE on.
 *
 * READY checks once, without repetition, whether jobs can be created: it GETs a Framework that does
 * not exist, because /readyz is often forbidden.  STORE_OK (a 404) proves network, TLS, login, the
 * right to get Frameworks, and the CRD, but neither the namespace nor rights to create.  Kind and
 * name are ignored.
 */
enum store_verb { STORE_CREATE, STORE_GET, STORE_LIST, STORE_PATCH, STORE_DELETE, STORE_READY };

/* The result of a request.  A request that found no connection was not executed; a request that was
 * sent, even in part, and got no answer may have been executed. */
enum store_outcome {
	STORE_OK,        /* 2xx */
	STORE_EXISTS,    /* 409 on create */
	STORE_CONFLICT,  /* 409 on patch or delete */
	STORE_NOT_FOUND, /* 404: a Status with reason NotFound and the requested name */
	STORE_REFUSED,   /* permanent 4xx: 400, 403, 413, 422 ...; the reason is `message` */
	STORE_BUSY,      /* not executed, worth trying again: not sent, 429, 503 */
	STORE_AMBIGUOUS, /* may have been executed: sent without an answer, 500, 504 */
	STORE_FULL,      /* the queue of this store is full */
	STORE_OUTCOME_MAX
};

/* Returns true if the write was based on a GET and the object has changed meanwhile, or the answer
 * was lost: the caller reads and writes again.  Thread: any. */
bool store_is_outdated(enum store_outcome outcome);

/* Borrowed by the callback; `body` is wiped afterwards, because it may be a Secret. */
struct store_reply {
	enum store_outcome outcome;
	int status;                        /* HTTP status of the API server, 0 if none */
	struct span body;                  /* the object, or the Status */
	struct span uid, resource_version; /* of the object, "" if none */
	/* A text for people, without secrets.  With STORE_REFUSED it begins with verb and resource,
	 * and with the namespace if it is not the jobs': "get secrets in namespace x: HTTP status
	 * 403 ...". */
	struct span message;
	int64_t date_s;    /* the server's clock (Date), seconds since 1970; 0: unknown */
	int retry_after_s; /* 0: not given */
};

typedef void store_callback(void *arg, const struct store_reply *reply);

/* Texts and spans are borrowed until the callback. */
struct store_request {
	enum store_verb verb;
	enum object_kind kind;
	const char *name;           /* NULL: LIST, READY, CREATE without a name (TokenReview) */
	const char *namespace_name; /* NULL: the jobs' */
	const char *query;          /* percent-encoded, without '?'; NULL for none */
	bool whole;                 /* the whole object, not its metadata alone */
	bool json_patch;            /* PATCH: RFC 6902; a failed test is STORE_REFUSED, 422 */
	bool of_status;             /* PATCH: of the subresource `status`; not in the database */
	const char *user;           /* new requests of users are started in turn; NULL: no user */
	struct span body[3];        /* sent one after the other */
	/* CREATE in a store that is atomic: the objects that are created with it, or not at all;
	 * its uid is inserted at their uid_at. */
	const struct object *with;
	size_t n_with;
	/* DELETE: preconditions; a PATCH has metadata.uid in its body.  NULL for none. */
	const char *uid, *resource_version;
	bool force;      /* DELETE: gracePeriodSeconds 0; the database has no graces */
	bool foreground; /* DELETE: propagationPolicy Foreground; the database has no owners */
	bool dry_run;
	bool look;   /* optional request: 403 is not tried again, even on a new connection */
	bool urgent; /* continues a job under way: precedes all new requests */
	int64_t not_before_ms; /* by clock_ms: wait in the queue until then; 0: no wait */
	int64_t deadline_ms;   /* by clock_ms */
	store_callback *done;
	void *arg;
};

/* Creates several objects in one transaction, as the database of one machine does. */
bool store_is_atomic(const struct store *s);

/* Queues a request; *r is copied.  `done` is called exactly once, from store_reap or store_free,
 * never from within store_request.  If the queue is full it gets STORE_FULL. */
void store_request(struct store *s, const struct store_request *r);

void store_reap(struct store *s);
void store_start(struct store *s);
int store_fd(const struct store *s);         /* readable when store_reap has work */
int store_timeout_ms(const struct store *s); /* until store_reap must be called; -1: no limit */
size_t store_pending(const struct store *s); /* requests whose callback is due */
/* A request of this user (NULL: no user) would be accepted: the queue has room. */
bool store_has_room(const struct store *s, const char *user);

/* Counts of requests by outcome.  A request that is sent again counts each time: as
 * STORE_CALL_AGAIN, the last time by its outcome.  Latencies are those of sent ones. */
enum { STORE_VERBS = STORE_READY + 1, STORE_CALL_AGAIN = STORE_OUTCOME_MAX, STORE_CALLS };
struct store_counts {
	atomic_ullong calls[STORE_VERBS][STORE_CALLS];
	struct histogram latency[STORE_VERBS];
	atomic_ullong queued, in_flight; /* now */
};
/* Counts the requests of this store from now on.  *c is written by the store's thread, and outlives
 * the store. */
void store_count(struct store *s, struct store_counts *c);

/* Calls back all pending requests as STORE_AMBIGUOUS or STORE_BUSY (the database: with their
 * answers, if work had begun), and frees.  Requests that callbacks make meanwhile are
 * STORE_BUSY. */
void store_free(struct store *s);

/* Address and credentials of the API server.  Shared by the stores of all loops, which must be
 * freed before it. */
struct login;

/* Settings of the login.  Without kubeconfig and apiserver it uses the service account of the
 * pod. */
struct login_options {
	const char *kubeconfig; /* file, or NULL */
	const char *context;    /* of the kubeconfig; NULL: its current-context */
	const char *apiserver;  /* URL, or NULL */
	const char *ca_file, *token_file, *namespace_name; /* may be NULL */
};

/* NULL and *e (500) naming file and key that are missing, refused (exec, insecure-skip-tls-verify,
 * proxy-url, plain http to another host) or unreadable.  Reads files, and removes variables that
 * libcurl and TLS libraries obey (SSLKEYLOGFILE, proxies) from the environment: call it at start,
 * before there are threads.  Thread: main. */
struct login *login_new(const struct login_options *o, struct err *e);
/* Reads the files of token, CA, client certificate and key again, about every ten seconds.  A new
 * token takes effect at once, the others when they are the same at two calls in a row.  Existing
 * connections stay.  On errors the old values stay.  Thread: main. */
void login_refresh(struct login *l);
void login_free(struct login *l);
/* "https://... as token file ..."; no secret.  Thread: any. */
const char *login_describe(const struct login *l);
/* Thread: any. */
const char *login_namespace(const struct login *l);
/* Returns the time when the token expires, in seconds since 1970, if it is a JWT; 0: unknown, or
 * never.  Thread: any. */
int64_t login_token_end_s(struct login *l);

struct store_limits {
	size_t in_flight; /* 16 */
	size_t queue;     /* 1000 */
	size_t body;      /* bytes of one answer: 4 MiB; of a list four times as many */
	size_t per_user;  /* requests of one user, waiting or under way: 250; 0: no limit */
};
#define STORE_LIMITS_DEFAULT ((struct store_limits){ 16, 1000, 4u << 20, 250 })

struct store *store_api_new(struct login *l, const char *namespace_name,
                            const struct store_limits *limits, struct err *e);
