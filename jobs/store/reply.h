#pragma once
/*
 * Answers of an API server: parsing, classification, and sentences for people.  Objects from there
 * are untrusted input: every member is optional and of any type.  Pure; private to k8s/, except for
 * reply_parse, reply_text and explain.
 *
 * Thread: any
 */
#include <jansson.h>

#include "base/str.h"
#include "jobs/store/store.h"

#define JSON_AUTO __attribute__((cleanup(json_auto_done))) json_t
static inline void json_auto_done(json_t **j)
{
	json_decref(*j);
}

/* The body is one JSON object, nested at most 64 deep. */
bool reply_valid(struct span body);

/* The same as a tree, without duplicate keys; else NULL.  New reference. */
json_t *reply_parse(struct span body);

/* A text member; "" if it is absent or no text.  Borrowed. */
const char *reply_text(const json_t *object, const char *key);

/* Appends the safe part of a Status: "Invalid: spec.x (FieldValueInvalid)"; nothing for other
 * bodies.  The message of a Status is not safe, because it quotes the body. */
void reply_digest(struct str *out, struct span body);

/* One HTTP exchange. */
struct api_exchange {
	bool complete;       /* libcurl got a whole answer */
	bool begun;          /* there was a connection: the request may have been sent */
	bool permanent;      /* a repetition fails, too: an invalid certificate */
	bool too_large;      /* the answer exceeds the limit */
	bool just_connected; /* the API server may still be loading its rules */
	int status;          /* 0 if there is none */
	struct span answer;  /* the body if it is reply_valid, else { NULL, 0 } */
};

struct reply_class {
	enum store_outcome outcome;
	bool again; /* safe to repeat, and likely to help */
};

struct reply_class reply_classify(const struct store_request *r, const struct api_exchange *x);

enum { CONTINUE_MAX = 4096 }; /* bytes of metadata.continue */

/* The items of a list.  Appends metadata.continue to `more`; it is empty at the end of the list.  p
 * NULL: this is not a list, or is truncated. */
struct span reply_items(struct span list, struct str *more);

/* Appends verb and resource in the terms of RBAC: "get secrets in namespace pai-user-v2"; the
 * namespace only if it is not that of the jobs. */
void explain_action(struct str *out, const struct store_request *r);

/* Fills *e for a request that ended in STORE_REFUSED or in a persistent error status: the failed
 * action, the reason, and the remedy.  Never quotes the API server's message, which can hold pieces
 * of the body. */
void explain_refusal(struct err *e, const struct store_request *r, const struct store_reply *reply);
