#pragma once
/*
 * Reads those parts of objects that this server may have made: its labels and annotations, their
 * age.  The objects are untrusted input: other clients of the cluster can have written them.  Pure;
 * private to k8s/.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/str.h"

/* Texts are "" if missing; they are borrowed from the object or in the arena. */
struct marks {
	struct span name, uid, version; /* metadata.resourceVersion */
	struct span instance, namespace_name;
	struct span submission, idempotency;
	struct span execution;                       /* executionType of a whole Framework */
	struct span creating, hold, deleted, status; /* JSON; p is NULL if absent */
	int64_t created_s;                           /* since 1970; 0 if missing or malformed */
};
/* All are missing of what is not reply_valid. */
struct marks marks_of(struct span object, struct arena *a);

/* Exactly n digits of lower-case hex. */
bool is_hex(struct span text, size_t n);

/* The submission of the whole Framework is complete: it was started, and perhaps stopped since, or
 * it is held (jobs/cache/hold.h). */
bool ownership_is_done(const struct marks *framework);

/* It is not done, its executionType is Create, and FrameworkController has begun no attempt: its
 * status has nothing beyond AttemptCreationPending. */
bool ownership_is_untouched(const struct marks *framework);

/* Both belong to the same installation and, if cluster-scoped, to the same namespace of jobs. */
bool ownership_same_home(const struct marks *a, const struct marks *b);

/* The meaning of an existing Framework for a request with an Idempotency-Key. */
enum repeat {
	REPEAT_NONE,       /* unrelated to the request */
	REPEAT_DONE,       /* the requested job, complete */
	REPEAT_UNDER_WAY,  /* the requested job, not complete yet */
	REPEAT_OTHER_BODY, /* same key, different body */
};

/* now_s: the API server's clock, 0 if unknown.  key_body: "KEY-BODY" as in submission.h, or NULL.
 */
enum repeat ownership_repeat(const struct marks *framework, int64_t now_s, const char *key_body);
