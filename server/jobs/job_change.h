#pragma once
/*
 * A change of a job: what is to be sent is made from the job as it is known; if that turns out to
 * be old (another change came between), the job is read again, and so on, a few times.  The object
 * is always named by name and uid, so that no job is met that has been made anew meanwhile.
 */
#include "k8s/cache/job_entry.h"
#include "server/http/request.h"

struct change {
	struct request *r;
	/* Make `patch` from c->job and c->doc; in the arena.  false: there is nothing to send, and
	 * r has been answered. */
	bool (*plan)(struct change *c);
	void (*done)(struct change *c); /* it has been made: answer */
	/* How it is made. */
	bool reads;      /* the plan needs doc: the object as it is in the store */
	bool json_patch; /* RFC 6902, else a merge patch */
	/* What is known; the job is r's. */
	const struct job_entry *job;
	struct span doc;
	struct span patch;
	/* What is wanted. */
	struct span value, role;
	int64_t n;
	/* Its own. */
	const char *uid;
	struct span refused; /* a patch that the store did not take as it was */
	unsigned tries;
	int64_t deadline_ms;
};

/* In the request's arena. */
struct change *change_new(struct request *r);
/* The same, after its body was read, with `key` of it as the value.  NULL: r has been answered. */
struct change *change_read(struct request *r, const char *key);
/* Find the job that r is about, and change it. */
void change_start(struct change *c);
/* {"status", "message"}, and `more` behind it: `,"key":value`, or "". */
void change_answer(struct request *r, int status, const char *more, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* USER~NAME; in the arena. */
const char *change_id(const struct change *c);
