#pragma once
/*
 * Keeps the last state of an attempt of a job when the next one has begun: FrameworkController
 * overwrites it.  Each becomes an immutable ConfigMap FRAMEWORK-attempt-N, owned by the Framework,
 * with the attemptStatus in it, compressed; at most --history of a job, the oldest
 * goes.  As good as it can be had: what happens while no server runs is not kept.  Several servers
 * may do the same at once: the first one wins.
 *
 * It has a store of its own on the main thread, so that it cannot be in the way of jobs.
 */
#include "k8s/cache/job_entry.h"
#include "server/server.h"

struct history_keep;

/* Begin; server->history is there from now on (NULL with --history 0, which is no error).  -1 and
 * *e (500). */
int history_keep_start(struct server *s, struct err *e);
/* Go on.  To be called when the descriptor is readable, or after the time.  NULL is nothing; fd -1,
 * no limit. */
void history_keep_run_once(struct history_keep *h);
int history_keep_fd(const struct history_keep *h);
int history_keep_timeout_ms(const struct history_keep *h);
/* Give up what is under way, silently. */
void history_keep_free(struct history_keep *h);

/* A Framework has changed from `before` to `now`: if another attempt has begun, keep the one
 * before. At most 1000 wait.  Any thread.  NULL is nothing. */
void history_keep_saw(struct history_keep *h, const struct job_entry *before,
                      const struct job_entry *now);

/*
 * An attempt that is over, as it is kept in a ConfigMap.  What is read back is untrusted.  Pure.
 */
enum { HISTORY_DEPTH = 64 };

/* FRAMEWORK-attempt-N */
char *history_name(struct arena *a, const char *framework, int64_t attempt);

/* Text as gzip packs it: at most `max` bytes, in the arena.  false if it takes more. */
bool history_gzip(struct span text, size_t max, struct arena *a, struct span *packed);

/* Append "ownerReferences":[...] of what belongs to this Framework; does a ConfigMap, valid JSON,
 * belong to the one with this uid? */
void history_owner(struct str *out, const char *framework, const char *uid);
bool history_is_owned(struct span configmap, const char *uid, struct arena *a);

/* The ConfigMap of the attempt that a Framework is in, out of its document.  Without its tasks if
 * it takes more than max bytes when compressed.  false if there is no attempt in it. */
bool history_write(struct str *out, const struct job_entry *job, struct span doc, size_t max,
                   struct arena *a);
/* The attemptStatus out of a ConfigMap, in the arena.  false if it is not of this Framework (by
 * uid) and this attempt, or is not what history_write makes. */
bool history_read(struct span configmap, const char *uid, int64_t attempt, struct arena *a,
                  struct span *status);
