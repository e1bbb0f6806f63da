#pragma once
/*
 * Requests that last: they wait for things to happen, as a stream of events (stream.h) or until a
 * job has come so far (job_wait.h).  At most --streams-per-user of one user at a loop, and a
 * quarter of the loop's --connections, whatever they wait for.  Each is told about once a second
 * that time has passed, and when it has to end.  All on the loop's thread.
 */
#include "server/http/request.h"

enum lasting_news {
	LASTING_TICK,     /* some time has passed */
	LASTING_OVER,     /* so has stream-lifetime, or what was asked for */
	LASTING_SHUTDOWN, /* the server stops */
	LASTING_REFUSED,  /* its token is good no more */
	LASTING_LEFT,     /* the client has closed the connection */
};

/* What is told: after all but the first it is to end soon. */
typedef void lasting_told(void *arg, enum lasting_news news);

/* Begin; `seconds`: until LASTING_OVER, at most stream-lifetime.  false: there are too many, or
 * the server stops: r has been answered 429 or 503. */
bool lasting_begin(struct request *r, int64_t seconds, lasting_told *told, void *arg);
/* It lasts no longer; nothing if it does not. */
void lasting_end(struct request *r);

/* Of a loop: tell what is due, and how long until the next (-1: for ever). */
void lasting_run_once(struct loop *l);
int lasting_timeout_ms(const struct loop *l);
/* The server stops: tell all. */
void lasting_stop(struct loop *l);
