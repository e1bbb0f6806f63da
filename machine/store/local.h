#pragma once
/*
 * The store of --local: objects in an SQLite database, with the answers of an API server, including
 * uid, resourceVersion, preconditions and garbage collection by owner.  local.c has the thread that
 * commits, requests.c the requests, object_text.c the texts of objects, database.c SQLite,
 * recovery.c what a start finds.  Begin with local.c.
 *
 * Durable: an answer is given after the commit of what it says is on the disk.  Requests that wait
 * at the same time share a commit.
 *
 * Thread: main
 */
#include "jobs/framework/view.h"
#include "jobs/store/store.h"

/* A directory with the database, for jobs in this namespace (borrowed).  Shared by all loops of
 * this process; locked against other processes.  transient: it is deleted at the end of this
 * process, so that nothing need survive a power failure; a start of a job then does not wait for
 * the disk.  NULL and *e: 500. */
struct local;
struct local *local_open(const char *dir, const char *namespace_name, bool transient,
                         struct err *e);
void local_close(struct local *l);

/* The state of a Framework as the engine has decided it. */
struct local_state {
	const char *name, *uid;
	struct span status;        /* JSON */
	struct fw_summary summary; /* of it */
	const char *launched;      /* annotation rest-lit/launched; "": as it is */
	int64_t launched_boot_ms;  /* the same as a number; 0 */
	/* Annotation rest-lit/gpu-idle; NULL: as it is; "": it is removed. */
	const char *gpu_idle;
};

/* Callbacks with the text of a Framework: from local_follow for all existing ones, then from the
 * store's thread on each creation, change and removal, after its commit and before its answer; with
 * the state if it alone has changed.  Each change, also a removal, has a higher resourceVersion. */
struct local_follower {
	void (*put)(void *arg, struct span object);
	void (*remove)(void *arg, struct span object);
	/* Called by local_follow only: a damaged part is in DIR/damaged now; the object of this uid
	 * has been removed, one of the last 16 384 (NULL: not wanted). */
	void (*damaged)(void *arg, const char *sentence);
	void (*removed)(void *arg, struct span uid);
	void (*stated)(void *arg, const struct local_state *state, int64_t version);
};
/* Once, before the first request of a store.  -1 and *e (500): not all can be read. */
int local_follow(struct local *l, const struct local_follower *f, void *arg, struct err *e);

/* Owns its texts; local_answer_done wipes and frees them. */
struct local_answer {
	enum store_outcome outcome;
	int status;
	struct str body; /* the object; empty on failure */
	char uid[40];
	int64_t version; /* the resourceVersion */
	int64_t before;  /* of a status: the one that it replaced; if the caller has not seen it,
	                    others have changed the object */
	char *message;   /* NULL on success */
	struct str told; /* the text for the follower; the store's own */
};
/* Thread: any. */
void local_answer_done(struct local_answer *a);

/*
 * Does a request, and returns its answer after the follower has been called, whose callbacks must
 * not call it.  Blocks on the disk.  The members of r that order requests (user, deadline_ms ...)
 * and `done` are not used.  Thread: worker.
 */
void local_request(struct local *l, const struct store_request *r, struct local_answer *out);
/* The same for n states, which mostly share a commit, and whose answers have no body.
 * STORE_NOT_FOUND: the Framework is gone, or has another uid. */
void local_request_states(struct local *l, const struct local_state *s, size_t n,
                          struct local_answer *out);

/* A copy of the database as it is at some moment of this call: a file without a name, which the
 * caller closes.  It has all Secrets.  -1 and *e: 503, also when stop_fd becomes readable, or the
 * log too large.  One at a time.  Thread: worker. */
int local_backup(struct local *l, int stop_fd, struct err *e);

/* Makes a store for a thread that must not block. */
struct store *store_local_new(struct local *l, const struct store_limits *limits, struct err *e);
