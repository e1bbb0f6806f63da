#pragma once
/*
 * Sessions in tasks of this machine: a command, or a connection to a port.  base/pod/session.h has
 * what the client and the helper of a session say to each other; the server passes the bytes on:
 *
 *	POST .../exec -> exec_start: the task is found, a helper is started -> 201, an id
 *	GET /api/v2/sessions/ID: the output of the helper; PUT: its input, in an open body
 *
 * Each session has a thread that waits for the end of its helper.  A helper ends when one of the
 *two connections does, or neither comes within seconds.
 *
 * This header is for other folders.
 *
 * Thread: loop
 */
#include "server/http/route.h"

/* The handlers of the routes; of PUT: the one before the body, and the one behind it. */
handler exec_post, exec_get, exec_put_begin, exec_put;

/* All sessions.  Thread: main. */
struct sessions;
struct sessions *sessions_new(void);
/* Ends them, and waits for their threads: no request is left.  NULL is allowed.  Thread: main. */
void sessions_free(struct sessions *all);
