#pragma once
/*
 * What objects that are read back say of how they came about: our marks on them, and when they
 * were made.  They are input like any other: anybody with rights in the cluster can have written
 * them.  Pure; private to k8s/.
 */
#include "base/str.h"
#include "k8s/transport/reply.h"

/* n digits of lower-case hex, and nothing else. */
bool is_hex(const char *text, size_t n);

/* metadata.creationTimestamp as seconds since 1970; 0 if there is none, or none as an API server
 * writes it (2026-11-20T19:30:00Z). */
int64_t ownership_created_s(const json_t *object);

/* Somebody has asked for its deletion. */
bool ownership_is_deleting(const json_t *object);

/* A label or an annotation; "" if there is none.  Borrowed. */
const char *ownership_label(const json_t *object, const char *key);
const char *ownership_annotation(const json_t *object, const char *key);

/* It carries the label rest-lit/creating, with whatever value. */
bool ownership_is_creating(const json_t *object);

/* A Framework that is still being made: by that label, which somebody may have taken away, or, if
 * this is the whole of it, by its executionType. */
bool ownership_is_unstarted(const json_t *framework);

/* Of a whole Framework: it was started, and perhaps stopped since. */
bool ownership_is_started(const json_t *framework);

/* Both carry the marks of one installation, and, if they are in no namespace, of one namespace of
 * jobs. */
bool ownership_same_home(const json_t *a, const json_t *b);

/* What a Framework that is there means for a request that came with an Idempotency-Key. */
enum repeat {
	REPEAT_NONE,       /* nothing: it has nothing to do with that request */
	REPEAT_DONE,       /* it is what that request asks for, and is started */
	REPEAT_UNDER_WAY,  /* the same, but it is not started yet */
	REPEAT_OTHER_BODY, /* it was made with this key, but out of another body */
};

/* now_s is the API server's clock, 0 if that is not known; "KEY-BODY" as in submission.h, NULL
 * without a key. */
enum repeat ownership_repeat(const json_t *framework, int64_t now_s, const char *key_body);
