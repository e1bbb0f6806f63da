#pragma once
/* One request on its way to the API server, by a libcurl handle.  Private to k8s/. */
#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "k8s/transport/login.h"
#include "k8s/transport/store.h"

struct transfer {
	struct transfer *next; /* for whoever keeps it */
	void *item;            /* likewise: what it is busy with, NULL if nothing */
	CURL *easy;
	struct str answer; /* the body of the answer; may hold secrets */
	/* The rest is its own. */
	struct span piece[3];     /* of the body */
	size_t now_piece, now_at; /* handed over up to here */
	bool whole;               /* the last byte was handed over */
	struct str precondition;  /* the body of a DELETE */
	struct curl_slist *headers;
	char error[CURL_ERROR_SIZE];
};

/* What all requests of one store have in common. */
struct transfer_common {
	const char *url, *namespace_name;
	struct span authorization; /* the header line, or empty */
	size_t answer_max;
	bool whole_objects; /* this API server does not send metadata alone */
};

/* 0, or -1 and *e (500). */
int transfer_init(struct transfer *t, const struct login *l, struct err *e);
void transfer_done(struct transfer *t);

/* Make the handle ready for a request, whose body is borrowed until transfer_clear.  -1 if
 * its name, namespace or query is none. */
int transfer_prepare(struct transfer *t, const struct store_request *r,
                     const struct transfer_common *c);
/* Forget the request and its answer, wiping them; the connection stays. */
void transfer_clear(struct transfer *t);

/* May it have been executed?  True once the last byte was handed over. */
bool transfer_handed_over(const struct transfer *t);

/*
 * How an API server has been doing lately, and what follows from that for all requests to it.
 *
 *	no connection, or lost	nothing is started for 100, then 200 ... 1000 ms, give or take
 *				a quarter; and then PROBES requests at a time
 *	429, 503		the same, but half as many as before at a time
 *	any other answer	twice as many at a time, up to what the limits say
 *
 * So what waits in an outage neither fails nor knocks at the door all the time, and when it is over
 * there is no rush of handshakes.  Pure, but for the jitter; private to k8s/.
 */
enum { PROBES = 2 };

struct backoff {
	size_t at_once, most; /* requests under way: now, and in good times */
	unsigned pauses;      /* in a row */
	int64_t until_ms;     /* nothing is started before */
	bool away;            /* it could not be reached when last tried */
	int64_t connected_ms; /* when a connection was last made */
	int64_t back_ms; /* when it answered for the first time, at first and after being away */
};

/* What one exchange came to. */
enum api_health {
	API_ANSWERS, /* it answered */
	API_BUSY,    /* 429 or 503 */
	API_AWAY,    /* it could not be reached, or the connection was lost */
	API_UNKNOWN, /* it said nothing before the deadline of the request: both may be */
};

void backoff_init(struct backoff *r, size_t most);
void backoff_note(struct backoff *r, enum api_health health, bool connected, int64_t now_ms);

/* It may still be loading its rules: 403 and 404 are not its last word.  For 1 s after a connection
 * was made, and for 3 s after it was away. */
bool backoff_is_settling(const struct backoff *r, int64_t now_ms);

/* 100, 200, 400, 800, 1000, 1000 ... ms for tries 0, 1, 2 ..., give or take a quarter. */
int64_t backoff_ms(unsigned tries);
