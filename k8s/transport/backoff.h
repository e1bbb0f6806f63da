#pragma once
/*
 * Pauses after failures of an API server, and the number of requests at a time.
 *
 * Thread: own
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The recent health of an API server, and its effect on all requests to it:
 *
 *	no connection, or lost	pause for 100, 200 ... 1000 ms, give or take a quarter; then
 *				BACKOFF_PROBES requests at a time
 *	429, 503		the same pause; then half as many requests at a time
 *	any other answer	twice as many requests at a time, up to the limit
 *
 * So requests survive an outage, and there is no rush of handshakes after it.
 */
enum { BACKOFF_PROBES = 2 };

struct backoff {
	size_t at_once, most; /* requests under way: allowed now, and the limit */
	unsigned pauses;      /* in a row */
	int64_t until_ms;     /* end of the pause */
	bool away;            /* the last try could not reach it */
	int64_t connected_ms; /* time of the last new connection */
	int64_t back_ms;      /* time of the first answer after it was away */
};

enum api_health {
	API_ANSWERS, /* any other answer */
	API_BUSY,    /* 429 or 503 */
	API_AWAY,    /* no connection, or it was lost */
	API_UNKNOWN, /* no answer before the deadline of the request */
};

#define BACKOFF_INIT(limit)                                                                        \
	((struct backoff){ .at_once = (limit),                                                     \
	                   .most = (limit),                                                        \
	                   .connected_ms = INT64_MIN / 2,                                          \
	                   .back_ms = INT64_MIN / 2 })
void backoff_note(struct backoff *b, enum api_health health, bool connected, int64_t now_ms);
/* The API server may still be loading its rules, so 403 and 404 are not final: for 1 s after a new
 * connection and for 3 s after it was away. */
bool backoff_is_settling(const struct backoff *b, int64_t now_ms);
/* 100, 200, 400, 800, 1000, 1000 ... ms for tries 0, 1, 2 ..., give or take a quarter. */
int64_t backoff_ms(unsigned tries);
