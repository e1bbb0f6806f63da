#pragma once
/*
 * Reading what an API server answers.  Objects from there are input like any other:
 * every member is optional and of any type.  Pure; private to k8s/.
 */
#include <jansson.h>

#include "base/str.h"

#define JSON_AUTO __attribute__((cleanup(json_auto_done))) json_t
static inline void json_auto_done(json_t **j)
{
	json_decref(*j);
}

/* One JSON object, nested at most 64 deep, without duplicate keys; else NULL.  New reference. */
json_t *reply_parse(struct span body);

/* A text member, "" if it is absent or no text.  Borrowed. */
const char *reply_text(const json_t *object, const char *key);

/* "Sun, 06 Nov 1994 08:49:37 GMT", nothing else, as seconds since 1970; 0 if it is not that. */
int64_t reply_date(struct span text);
/* "1994-11-06T08:49:37Z", nothing else, likewise: the times that stand in objects. */
int64_t reply_time(struct span text);

/* What a Status says in words that are safe to pass on: "Invalid: spec.x (FieldValueInvalid)".  Its
 * sentences are not: they quote the body.  Nothing if this is no Status. */
void reply_digest(struct str *out, const json_t *status);

/* One of the causes that a Status gives has this reason. */
bool reply_has_cause(const json_t *status, const char *reason);

/* A Status of 500 which says that etcd does not take so much: nothing was stored, and never will
 * be.  There is no reason in it, so this goes by its two known sentences; in others it is not
 * recognized. */
bool reply_is_too_large(const json_t *status);

/* A Status which says that the object of this name does not exist (rather than its
 * namespace, its resource, or the path that a proxy was asked for). */
bool reply_is_not_found(const json_t *status, const char *name);

/* A mark of ours on an object ("submission", "instance"), as annotation or label
 * rest-lit/MARK; "" if there is none.  Borrowed. */
const char *reply_mark(const json_t *object, const char *mark);

/* The object carries this submission id. */
bool reply_is_ours(struct span body, const char *submission_id);
