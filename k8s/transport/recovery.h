#pragma once
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
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROBES = 2 };

struct recovery {
	size_t at_once, most; /* requests under way: now, and in good times */
	unsigned pauses;      /* in a row */
	int64_t until_ms;     /* nothing is started before */
	bool away;            /* it could not be reached when last tried */
	int64_t connected_ms; /* when a connection was last made */
	int64_t back_ms; /* when it answered for the first time, at first and after being away */
};

/* What one exchange came to. */
enum weather {
	WEATHER_FINE,    /* it answered */
	WEATHER_BUSY,    /* 429 or 503 */
	WEATHER_AWAY,    /* it could not be reached, or the connection was lost */
	WEATHER_UNKNOWN, /* it said nothing before the deadline of the request: both may be */
};

void recovery_init(struct recovery *r, size_t most);
void recovery_note(struct recovery *r, enum weather weather, bool connected, int64_t now_ms);

/* It may still be loading its rules: 403 and 404 are not its last word.  For 1 s after a connection
 * was made, and for 3 s after it was away. */
bool recovery_is_settling(const struct recovery *r, int64_t now_ms);

/* 100, 200, 400, 800, 1000, 1000 ... ms for tries 0, 1, 2 ..., give or take a quarter. */
int64_t backoff_ms(unsigned tries);
