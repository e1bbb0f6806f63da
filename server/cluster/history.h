#pragma once
/*
 * Earlier attempts of jobs.  When FrameworkController begins the next attempt, it overwrites the
 * state of the one before; the server keeps that state in an immutable ConfigMap
 * FRAMEWORK-attempt-N, compressed, owned by the Framework; at most --history per job.  Attempts
 * that end while no server runs are lost.  If several servers keep the same attempt, the first one
 * wins.  The life cycle is that of cluster.h.
 *
 * Thread: any
 */
#include "jobs/cache/job_entry.h"
#include "server/state/server.h"

struct history;

/* server->history exists from now on; NULL with --history 0.  -1 and *e (500).  Thread: main. */
int history_start(struct server *s, struct err *e);
/* Thread: main. */
void history_free(struct history *h);

/* Reports a change of a Framework: if a new attempt has begun, the one before is kept.  At most
 * 1000 wait.  h may be NULL. */
void history_note_end(struct history *h, const struct job_entry *before,
                      const struct job_entry *now);

/* The ConfigMaps, which are untrusted when they are read back.  Pure. */
enum { HISTORY_DEPTH = 64 };

/* FRAMEWORK-attempt-N */
char *history_name(struct arena *a, const char *framework, int64_t attempt);
/* Appends "ownerReferences":[...] to this Framework. */
void history_owner(struct str *out, const char *framework, const char *uid);
/* Returns true if the ConfigMap (valid JSON) belongs to the Framework with this uid. */
bool history_is_owned(struct span configmap, const char *uid, struct arena *a);
/* Appends the ConfigMap of the present attempt of a Framework; without its tasks if it takes more
 * than max bytes compressed.  false: the document has no attempt. */
bool history_write(struct str *out, const struct job_entry *job, struct span doc, size_t max,
                   struct arena *a);
/* Reads the attemptStatus from a ConfigMap, into the arena.  false: it does not belong to this
 * Framework (by uid) and attempt, or is invalid. */
bool history_read(struct span configmap, const char *uid, int64_t attempt, struct arena *a,
                  struct span *status);
