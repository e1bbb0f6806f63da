#pragma once
/*
 * A submission, from the header of its request to the answer.  Begin with submit.c; dry_run.c has
 * the query `dryRun` and its answer, held.c what a job waits for, idempotency.c the header
 * Idempotency-Key.
 *
 * This header is for other folders.
 *
 * Thread: loop
 */
#include "base/err.h"
#include "base/object.h"
#include "server/http/query.h"
#include "server/http/route.h"

struct arena;
struct facts;
struct job;

/* Sets f->key_seed, in the arena, if the job needs it.  Thread: any. */
void submit_key_seed(const struct job *job, struct arena *a, struct facts *f);

/* Appends a Kubernetes List as JSON without the final brace: `first`, which are elements with
 * commas between them, then the objects.  Thread: any. */
void list_json(struct str *out, struct span first, const struct objects *o);
/* Appends JSON that this program wrote as a YAML document; out->full if it does not fit.
 * Thread: any. */
void list_yaml(struct str *out, struct span json);

/* Handlers: submit.c; submit_check_head runs before the body. */
handler submit_v2, submit_v1, submit_check_head;
extern const struct parameter SUBMISSION[];
