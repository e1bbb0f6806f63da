#pragma once
/*
 * Waiting for the Framework: until all of its tasks have an address (gang allocation), or until
 * it can be had and shows the address of this task (otherwise).
 *
 * All tasks of a job start together and each answer is the whole object, so polls are spread:
 * jitter, short intervals only at first, and only as far as all tasks together stay below
 * BARRIER_RATE requests a second.  They ask for resourceVersion=0, the API server's own memory,
 * which costs etcd nothing.  That may be behind, so it is believed only where that cannot harm:
 * "not yet" costs another interval; "all are there" counts if the object shows this very pod,
 * by its uid, and so is of this attempt; otherwise, and for "there is no such Framework", the
 * same is asked again without resourceVersion, which etcd answers.
 */
#include "runtime-assets/init/init.h"
#include "runtime-assets/net/kube.h"

enum { BARRIER_RATE = 200, BARRIER_LISTED = 20 /* missing tasks that are named */ };

struct barrier_times {
	int64_t interval_ms; /* between polls, once it has waited for a while */
	int64_t timeout_ms;  /* of waiting for all tasks */
	int64_t first_ms;    /* the first interval; each is half as long again as that before */
	int64_t request_ms;  /* for one answer */
	int64_t fetch_ms;    /* without gang allocation: for the Framework and the own address */
};

/* From BARRIER_CHECK_INTERVAL_SEC (5 to 1200, by default 10) and BARRIER_CHECK_TIMEOUT_SEC (60 to
 * 1200, 600).  -1 and *e for anything else. */
int barrier_times_read(struct barrier_times *t, struct err *e);
/* For tests, which cannot wait for minutes: all five in milliseconds, with commas. */
int barrier_times_parse(struct barrier_times *t, struct span text, struct err *e);

/* As step_framework: 0 and in->framework and framework.json, or the exit code and *e. */
int barrier_wait(struct init *in, const struct barrier_times *t, struct err *e);

/* ---- parts of it, pure ---------------------------------------------------------------------- */

enum barrier_answer {
	ANSWER_FINE,    /* 200: the body decides */
	ANSWER_GONE,    /* there is no such Framework */
	ANSWER_REFUSED, /* waiting does not help, if it stays so: the token, RBAC, the definition */
	ANSWER_TROUBLE, /* try again */
	ANSWER_NEVER    /* it cannot be spoken to: no TLS in common */
};

/* What an exchange means: trouble is what kube_get returned. */
enum barrier_answer barrier_judge(int trouble, const struct http_reply *r, const char *name);

/* How long to wait after poll number n (from 0) of a job with that many tasks; random is any
 * number.  At most a quarter more or less than planned. */
int64_t barrier_delay(const struct barrier_times *t, unsigned n, int64_t total, uint32_t random);

/* "worker:2, worker:3 and 5 more": whose address is not there.  Appends. */
void barrier_missing(const struct framework *f, struct str *out);

/* Does the object know this pod: is its uid that of our own task? */
bool barrier_shows_us(const struct init *in, const struct framework *f);
