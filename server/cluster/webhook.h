#pragma once
/*
 * Reports the end of each job to --webhook: a signed POST, at least once, one job after the other's
 * own ends in order (docs/WEBHOOK.md); also that its GPUs are idle.  rounds.c shows it all jobs.
 *
 * The store is the queue.  A job that was submitted to a server with --webhook has the annotation
 * rest-lit/webhook with the name of the installation; after an answer with 2xx or 410 it gets
 * rest-lit/webhook-sent, or for idle GPUs rest-lit/webhook-idle with the time since when they are.
 * Each round selects the oldest unsent ends, at most WEBHOOK_BATCH; a later
 * round finds those that did not fit, and those that failed.  With an API server, a Lease decides
 * which server of the installation sends.
 *
 * Thread: main
 */
#include "jobs/cache/cache.h"

struct server;
struct store;
struct webhook;

enum { WEBHOOK_SECRET_MIN = 16, WEBHOOK_BATCH = 512, WEBHOOK_SIGNATURE = 80 };

/* NULL without --webhook; -1 and *e: 400, 500.  The store is borrowed. */
int webhook_start(struct webhook **out, struct server *s, struct store *store, struct err *e);
/* Reads --webhook-secret-file again.  -1 and *e: the old secret stays. */
int webhook_reload(struct webhook *w, struct err *e);

/* Returns true if a round has something to do although no job has changed; false for NULL. */
bool webhook_wants_round(const struct webhook *w);
/* A round: begin, each job of the view, end.  The view is held until the next `begin`. */
void webhook_round_begin(struct webhook *w);
void webhook_add_job(struct webhook *w, const struct job_entry *job);
void webhook_round_end(struct webhook *w, const struct cache_view *view);

/* Called before and after store_reap and store_start of the store; accepts NULL, as
 * webhook_poster. */
void webhook_run_once(struct webhook *w);
struct poster *webhook_poster(const struct webhook *w); /* to wait for; NULL: none */
/* Called before store_free, which ends its requests; webhook_free follows.  Both accept NULL. */
void webhook_stop(struct webhook *w);
void webhook_free(struct webhook *w);

/* ---- pure.  Thread: any. ---- */

/* The body of the POST for a job that has ended, or whose GPUs are idle; stop_reason: text, may be
 * empty. */
void webhook_body(struct str *out, const struct job_entry *job, struct span stop_reason);
/* "sha256=HEX": HMAC-SHA256 of TIMESTAMP.BODY. */
void webhook_signature(char out[static WEBHOOK_SIGNATURE], struct span secret, int64_t timestamp_s,
                       struct span body);
/* Milliseconds until the next attempt after n failures, n from 1. */
int64_t webhook_pause_ms(unsigned n, int64_t most_ms);
