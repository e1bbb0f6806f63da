#pragma once
/*
 * The server that a command talks to: --server, --token-file, --ca-file, patience and --timeout.
 * One thread; blocks.
 */
#include "k8s/transport/client.h"
#include "server/options.h"

struct remote {
	const struct options *o;
	struct client *client;
	int64_t end_ms; /* by clock_ms: when --timeout is over; INT64_MAX: never */
	bool patient;   /* set it after remote_open: remote_ask asks again, for patience */
};

/* Reads the token; from then on no other process may look into this one.  -1 and *e (400). */
int remote_open(struct remote *r, const struct options *o, struct err *e);
void remote_close(struct remote *r);

struct reply {
	int status;
	char *location; /* of the header; NULL if there is none */
	struct str body;
};
#define REPLY_AUTO __attribute__((cleanup(reply_done))) struct reply
void reply_done(struct reply *r);

/*
 * Ask once; with r->patient again while there is no answer or one that says so (429, 502, 503,
 * 504), for patience: what is asked must be safe to repeat.  0 and the reply, 2xx; -1 and *e:
 * what the server says against it, with its status and its notes; or 504 when --timeout is over,
 * 503 when no answer came.
 */
int remote_ask(struct remote *r, const struct client_call *call, struct reply *out, struct err *e);

/* May another attempt have another outcome? */
bool remote_may_retry(const struct client_answer *a);
/* How long until the next attempt, after so many that failed. */
int64_t remote_pause_ms(const struct client_answer *a, unsigned failures);
/* What is wrong with an answer that is not a whole 2xx, for people; of `errors` in it each is a
 * note. */
void remote_error(const struct remote *r, const struct client_answer *a, struct err *e);
/* The notes of a member (`errors`, `warnings`) of an answer. */
void remote_notes(struct span body, const char *member, struct notes *out);
/* The exit code for it: EXIT_USAGE what was refused, EXIT_SERVER what could not be had. */
int remote_exit(const struct err *e);

/* Is it the answer that servers give to this?  Another may be of who is no such server: -1, *e. */
int remote_expect(const struct remote *r, const struct reply *reply, int status, struct err *e);
/* Text on standard output; EXIT_OK, or EXIT_SERVER if it could not be written. */
int remote_print(struct span text);

/* "USER~NAME" of what people call a job: their own by its name alone.  In the arena; NULL and *e.
 */
const char *remote_job(struct remote *r, const char *name, struct arena *a, struct err *e);
/* "/api/v2/jobs/USER~NAME" and what follows, percent-encoded; in the arena. */
const char *remote_path(const char *job, const char *rest, struct arena *a);
