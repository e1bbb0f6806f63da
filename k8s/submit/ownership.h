#pragma once
/*
 * Labels and annotations of this server on objects, and their age.  The objects are untrusted
 * input: other clients of the cluster can have written them.  Pure; private to k8s/.
 */
#include "base/str.h"
#include "k8s/transport/reply.h"

/* Exactly n digits of lower-case hex. */
bool is_hex(const char *text, size_t n);

/* metadata.creationTimestamp as seconds since 1970; 0 if missing or malformed. */
int64_t ownership_created_s(const json_t *object);

/* It has a deletionTimestamp. */
bool ownership_is_deleting(const json_t *object);

/* A label or an annotation; "" if missing.  Borrowed. */
const char *ownership_label(const json_t *object, const char *key);
const char *ownership_annotation(const json_t *object, const char *key);

/* It has the label rest-lit/creating, with any value. */
bool ownership_is_creating(const json_t *object);

/* The Framework is not started: by that label, or by the executionType of a whole object. */
bool ownership_is_unstarted(const json_t *framework);

/* The whole Framework was started, and perhaps stopped since. */
bool ownership_is_started(const json_t *framework);

/* The executionType of the whole Framework is Create, and FrameworkController has begun no attempt:
 * its status has nothing beyond AttemptCreationPending. */
bool ownership_is_untouched(const json_t *framework);

/* Both belong to the same installation and, if cluster-scoped, to the same namespace of jobs. */
bool ownership_same_home(const json_t *a, const json_t *b);

/* The meaning of an existing Framework for a request with an Idempotency-Key. */
enum repeat {
	REPEAT_NONE,       /* unrelated to the request */
	REPEAT_DONE,       /* the requested job, started */
	REPEAT_UNDER_WAY,  /* the requested job, not started yet */
	REPEAT_OTHER_BODY, /* same key, different body */
};

/* now_s: the API server's clock, 0 if unknown.  key_body: "KEY-BODY" as in submission.h, or NULL.
 */
enum repeat ownership_repeat(const json_t *framework, int64_t now_s, const char *key_body);
