#pragma once
/*
 * A submission on its way, from the header of its request to the answer.  Begin with submit.c,
 * which calls the other files of this folder in the order of the members.  On the loop's thread.
 */
#include "base/err.h"
#include "base/object.h"
#include "k8s/submit/submission.h"
#include "server/http/request.h"
#include "server/server.h"

struct job;
struct claim;

/* Whether a job is tried only: no; by this server; and by the API server, too (dry_run.h). */
enum dry_run { DRY_RUN_NO, DRY_RUN_HERE, DRY_RUN_SERVER };

/* In the arena of r, and its state. */
struct submit {
	struct request *r;
	enum dry_run dry_run;
	bool yaml;             /* of what a dry run shows */
	const char *key;       /* Idempotency-Key; NULL without one */
	const char *value;     /* what is kept of it; the same */
	struct claim *claim;   /* of that key (idempotency.h); the same */
	const struct job *job; /* NULL until it is read */
	struct notes warnings;
	struct objects *shown; /* by a dry run */
	size_t held;           /* bytes that the store, or the loop of a dry run, was told of */
};
