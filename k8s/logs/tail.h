#pragma once
/*
 * Logs of containers, handed on as they come: GET pods/NAME/log, of which no more is ever held than
 * one piece.  Who cannot take a piece says so, and it stops to come until he asks for more.
 *
 * Of one loop: connections of its own, so that logs which are followed take no turn from requests
 * of the store.  Every call from the loop's thread; nothing blocks.
 */
#include "base/err.h"
#include "k8s/transport/store.h"

struct tails; /* of one loop */
struct tail;  /* one log that is read */

enum {
	TAIL_PIECE = 4096,     /* bytes that come at once, at most */
	TAIL_SILENCE_MS = 2000 /* a log that is followed counts as begun when nobody has said no */
};

enum tail_outcome {
	TAIL_WHOLE,   /* all of it came */
	TAIL_REFUSED, /* nothing came: `status` says why */
	TAIL_AWAY,    /* nothing came: no answer, or none in time */
	TAIL_CUT,     /* it broke off */
	TAIL_CLOSING, /* tails_free */
	TAIL_OUTCOME_MAX
};

struct tail_end {
	enum tail_outcome outcome;
	int status; /* HTTP status of the API server; 0: none */
	/* For people: what became of the connection; never the API server's words.  Borrowed. */
	const char *message;
};

struct tail_request {
	const char *pod, *container; /* names; borrowed until this returns, as user is */
	const char *user;            /* whose it is */
	int64_t lines;               /* so many of its end only; 0: all */
	bool follow;                 /* what is still to be written, too */
	int64_t patience_ms;         /* for the answer, and for each piece, unless it is followed */

	/* The API server will give it.  Once, before all `came`.  silent: nothing has come, and
	 * nothing may for long.  false: it is not wanted any more; `ended` is not called. */
	bool (*began)(void *arg, bool silent);
	/* At most TAIL_PIECE bytes.  false: not now; they come again after tail_go_on. */
	bool (*came)(void *arg, struct span bytes);
	/* It is over, and so is the tail.  Once, unless tail_cancel was called. */
	void (*ended)(void *arg, const struct tail_end *end);
	void *arg;
};

/* At most `max` at a time, `per_user` of them of one user.  NULL and *e: 500. */
struct tails *tails_new(struct login *l, const char *namespace_name, size_t max, size_t per_user,
                        struct err *e);
void tails_free(struct tails *t); /* ends all; NULL is nothing */

/* Nothing is called from within.  NULL and *e: 503 there are too many; 500 what is no name. */
struct tail *tail_open(struct tails *t, const struct tail_request *r, struct err *e);
/* There is room again.  May call `came` at once. */
void tail_go_on(struct tail *t);
/* It is not wanted any more: nothing of it is called, and its connection is closed.  Also from
 * within its own calls. */
void tail_cancel(struct tail *t);

int tails_fd(const struct tails *t);         /* readable when tails_turn has work */
void tails_turn(struct tails *t);            /* the only one, beside tail_go_on, that calls back */
int tails_timeout_ms(const struct tails *t); /* until then; -1: for ever */
size_t tails_count(const struct tails *t);
