#pragma once
/* Shared by the files of this folder. */
#include <stdint.h>

#include "base/err.h"
#include "machine/engine/engine.h"
#include "server/exec/job_exec.h"

enum {
	SESSIONS_MAX = 192,
	SESSION_KINDS = 2, /* commands and connections */
	SESSION_ID = 32    /* digits */
};

struct server;

/* A session that is wanted.  `at` and `request` are used during the call; the other texts are
 * copied. */
struct session_facts {
	struct engine_entrance at;
	struct span request; /* a document (base/pod/session.h) */
	const char *user;
	const char *job;       /* as in the path of the request */
	const char *framework; /* its name, and its uid */
	const char *uid;
	const char *task; /* "worker[0]" */
	const char *peer; /* address of the client */
	bool connection;  /* to a port, which counts apart from commands */
};

/*
 * Starts a helper at a task.  -1 and *e: 429 (the user, or all, have too many sessions of this
 * kind), 503. Thread: worker
 */
int session_start(struct server *s, const struct session_facts *f, char id[static SESSION_ID + 1],
                  struct err *e);

enum session_side { SIDE_OUTPUT, SIDE_INPUT };
struct session_key {
	struct span id;
	const char *user;
};
/* Takes one side of a session: a descriptor that belongs to the caller.  -1 and *e: 404 (there is
 * none), 409 (it is taken). */
int session_claim(struct sessions *all, const struct session_key *key, enum session_side side,
                  struct err *e);
