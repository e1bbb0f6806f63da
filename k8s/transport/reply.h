#pragma once
/*
 * Reading what an API server answers.  Objects from there are input like any other:
 * every member is optional and of any type.  Pure; private to k8s/.
 */
#include <jansson.h>

#include "base/str.h"
#include "k8s/transport/store.h"
#include "k8s/transport/transfer.h"

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

/* ---- what libcurl and the answer say of a transfer that has ended ---- */

/* `just_connected` says only that a connection was made for this. */
struct exchange result_exchange(const struct transfer *t, CURLcode result, const json_t *answer);
bool result_connected(const struct transfer *t);

/* How it went, as far as that concerns other requests. */
enum api_health result_api_health(const struct transfer *t, CURLcode result,
                                  const struct exchange *x);

/* Retry-After: at most an hour; 0 if it does not say. */
int result_retry_after_s(const struct transfer *t);
/* Its Date, by the API server's clock; 0 if it does not say, or not once. */
int64_t result_date_s(const struct transfer *t);

/* For people; nothing of it is the server's own words. */
void result_message(struct str *out, const struct transfer *t, CURLcode result,
                    const struct exchange *x);
/* The same in short and in static text, which lives on while a request waits to be tried again. */
const char *result_reason(CURLcode result, int status);

/* ---- what an exchange with the API server came to: pure ---- */

/* How one HTTP exchange went. */
struct exchange {
	bool complete;        /* libcurl got a whole answer */
	bool handed_over;     /* the last byte of the request was given away, or it had none */
	bool permanent;       /* it will fail again: a certificate that does not fit, say */
	bool too_large;       /* more than we want to read */
	bool just_connected;  /* the API server may still be loading its rules */
	int status;           /* 0 if there is none */
	const json_t *answer; /* the body as JSON, or NULL */
};

struct reply_class {
	enum store_outcome outcome;
	bool again; /* safe to repeat, and worth it */
};

struct reply_class reply_classify(const struct store_request *r, const struct exchange *x);

/*
 * The items of a list that an API server answers with, one by one.  The list is cut with a scanner
 * of its own and only its items are parsed, each for itself: a tree of the whole would take many
 * times the memory, and one item that cannot be parsed must not hide the others.  Pure; private to
 * k8s/.
 */
enum { CONTINUE_MAX = 4096 }; /* bytes of the token by which a list goes on */

/* `item` is borrowed until it returns. */
typedef void item_callback(void *arg, const json_t *item);

/*
 * Call `each` with every item that is an object; those that cannot be parsed are left out.
 * What stands in metadata.continue is appended to `more`, nothing at the end of the list.
 * -1 if this is no list, or if it is cut off; `each` may have been called by then.
 */
int items_each(struct span list, item_callback *each, void *arg, struct str *more);
