#pragma once
/*
 * Where objects are kept: a Kubernetes API server, or a directory.  One store per
 * loop thread; every call from that thread only; nothing blocks.
 *
 * Life of a request: store_request -> waits in the store's queue (bounded; in turn, one of each
 * user's) -> store_start sends it -> store_reap gets its answer and calls back.  The loop
 * calls, in this order: store_reap; let the HTTP library run; store_start;
 * epoll_wait on store_fd with store_timeout_ms.
 */
#include "base/err.h"
#include "base/object.h"

struct store;

/*
 * PATCH is a JSON merge patch (RFC 7396), or with `json_patch` a list of operations (RFC 6902), of
 * which a directory knows `test` and `replace`.  A store repeats by itself, with back-off and
 * until the deadline, what was not executed, and what does no harm when executed twice: GET,
 * LIST, PATCH, and DELETE with a uid.  So of these, STORE_AMBIGUOUS and STORE_BUSY mean that the
 * deadline has come, and only a CREATE has to be settled by whoever asked for it.
 *
 * LIST answers with a list's metadata and items, which nobody has parsed before whoever asked;
 * `name` is ignored, `query` says which.  By
 * default objects come as their metadata alone (PartialObjectMetadata, ...List); DELETE answers
 * with whatever it likes.  A directory knows labelSelector (KEY=VALUE and KEY, joined by commas),
 * gives no `continue`, and keeps nothing of kinds from KIND_MADE on: none is there, none can be
 * made.
 *
 * A PATCH with metadata.resourceVersion in its body, or with tests, is repeated all the same: that
 * it is refused may then be our own doing, and who cares reads again.
 *
 * READY asks once whether jobs could be made now: it GETs a Framework that does not exist,
 * for /readyz is often forbidden.  STORE_OK (its 404 has come) says that network, TLS, login, the
 * right to get Frameworks, and the CRD are all in order; it needs no right of its own, and
 * says nothing about the namespace, nor about the rights to create.  Kind and name are ignored.
 */
enum store_verb { STORE_CREATE, STORE_GET, STORE_LIST, STORE_PATCH, STORE_DELETE, STORE_READY };

/* What became of a request.  The rule behind the words, measured: a request
 * whose last byte was not handed over was not executed; one that was handed over and
 * got no answer may have been. */
enum store_outcome {
	STORE_OK,        /* 2xx */
	STORE_EXISTS,    /* 409 on create */
	STORE_CONFLICT,  /* 409 on patch or delete */
	STORE_NOT_FOUND, /* 404: a Status with reason NotFound and the name asked for */
	STORE_REFUSED,   /* 4xx for good: 400, 403, 413, 422 ...; `message` says why */
	STORE_BUSY,      /* not executed, worth trying again: not sent, 429, 503 */
	STORE_AMBIGUOUS, /* may have been executed: sent without an answer, 500, 504 */
	STORE_FULL,      /* our own queue is full */
	STORE_OUTCOME_MAX
};

/* After a write that was made from what a GET said: is it worth to GET and to write again?  The
 * object has changed meanwhile, or the answer was lost. */
bool store_is_outdated(enum store_outcome outcome);

/* Borrowed by the callback, gone when it returns; `body` is wiped, for it may be a Secret. */
struct store_reply {
	enum store_outcome outcome;
	int status;                        /* HTTP status of the API server, 0 if none */
	struct span body;                  /* the object, or the Status */
	struct span uid, resource_version; /* of the object, "" if none */
	/* For people; never with a secret in it.  With STORE_REFUSED it names verb and resource,
	 * and the namespace if that is not the jobs': "get secrets in namespace x: HTTP status 403
	 * ...". */
	struct span message;
	int64_t date_s;    /* the server's clock (Date), seconds since 1970; 0: not said */
	int retry_after_s; /* 0 if not said */
};

typedef void store_callback(void *arg, const struct store_reply *reply);

struct store_request {
	enum store_verb verb;
	enum object_kind kind;
	const char *name;           /* NULL: CREATE of what has none (TokenReview), LIST, READY */
	const char *namespace_name; /* borrowed as name is; NULL: the jobs' */
	/* LIST: what follows the '?', percent-encoded by the caller; NULL for none. */
	const char *query;
	bool whole;      /* GET, LIST, CREATE, PATCH: all of an object, not its metadata alone */
	bool json_patch; /* PATCH: RFC 6902; tests in it that fail are STORE_REFUSED, 422 */
	/* Whose it is: what is new (not urgent) is started in turn, one of each user's; NULL:
	 * nobody's. Borrowed as name is. */
	const char *user;
	/* Up to three pieces of the body, sent one after the other; borrowed until the callback. */
	struct span body[3];
	/* DELETE: preconditions; PATCH: metadata.uid is in the body.  NULL for none. */
	const char *uid, *resource_version;
	bool dry_run;
	bool urgent;           /* continuation of a job under way: before all that is new */
	int64_t not_before_ms; /* by clock_ms: wait till then in the queue; 0: at once */
	int64_t deadline_ms;   /* by clock_ms: given up then; never later than that */
	store_callback *done;
	void *arg;
};

/*
 * Take over a request (copied; name, uid and body are borrowed until `done`).  `done`
 * is called exactly once, from store_reap or store_free, never from within
 * store_request itself.  Beyond the queue's bound: STORE_FULL, by the callback.
 */
void store_request(struct store *s, const struct store_request *r);

void store_reap(struct store *s);
void store_start(struct store *s);
int store_fd(const struct store *s);         /* readable when store_reap has work */
int store_timeout_ms(const struct store *s); /* until store_reap must be called; -1 for ever */
size_t store_pending(const struct store *s); /* requests whose callback is due */
/* A new job of this user (NULL: nobody's) would be queued, not refused, and the jobs under way hold
 * less than limits.bytes. */
bool store_has_room(const struct store *s, const char *user);
/* A job under way holds so many bytes of memory, till it gives the same number back. */
void store_hold(struct store *s, size_t bytes);
void store_release(struct store *s, size_t bytes);

/* Call back all pending requests as STORE_AMBIGUOUS or STORE_BUSY (the directory: with their
 * answers, where work had begun), and free.  What the callbacks ask for meanwhile is STORE_BUSY. */
void store_free(struct store *s);

/* Where the API server is and how to log in.  Made once, shared by all loops' stores, which
 * must be freed before it. */
struct login;

struct login_options {
	const char *kubeconfig; /* file, or NULL */
	const char *context;    /* of the kubeconfig; NULL: its current-context */
	const char *apiserver;  /* URL, or NULL */
	const char *ca_file, *token_file, *namespace_name; /* may be NULL */
	/* none of kubeconfig and apiserver: the service account of the pod */
};

/* NULL and *e (500) naming file and key: what is missing, refused (exec, insecure-skip-tls-verify,
 * proxy-url, plain http to another host) or unreadable.  Reads files, and removes from the
 * environment what libcurl and its TLS would obey (SSLKEYLOGFILE, proxies): at start only, before
 * there are threads. */
struct login *login_new(const struct login_options *o, struct err *e);
/*
 * Read the files of token, CA, client certificate and key again, every ten seconds, say; a token is
 * taken at once, the others when they have been the same at two calls in a row.  Connections that
 * there are stay as they are.  On any error what there is is kept.  Any one thread, not a loop's.
 */
void login_refresh(struct login *l);
void login_free(struct login *l);
const char *login_describe(const struct login *l); /* "https://... as token file ..."; no secret */
const char *login_namespace(const struct login *l);

struct store_limits {
	size_t in_flight; /* 16 */
	size_t queue;     /* 1000 */
	size_t body;      /* bytes of one answer: 4 MiB; of a list four times as many */
	size_t per_user;  /* requests of one user, waiting or under way: 250; 0: no limit */
	size_t bytes;     /* of all jobs under way: 64 MiB */
};
#define STORE_LIMITS_DEFAULT ((struct store_limits){ 16, 1000, 4u << 20, 250, 64u << 20 })

struct store *store_api_new(struct login *l, const char *namespace_name,
                            const struct store_limits *limits, struct err *e);
