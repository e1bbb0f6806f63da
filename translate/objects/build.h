#pragma once
/*
 * Makes the objects of Kubernetes from struct job and facts.
 *
 * Thread: any
 */
#include "translate/job/job.h"

struct translator;

/*
 * Writes the objects into the arena. With a mark they carry the submission id, dependents have an
 * ownerReference whose uid is missing (object.uid_at), and executionType is Create if there are
 * dependents that are created later. -1 and *e: 403 (virtual cluster), 404 (storage), 413 (too
 * large), 400.
 */
int job_build(const struct translator *t, const struct job *job, const struct facts *f,
              const struct submission_mark *m, struct arena *a, struct objects *out, struct err *e);

/* The objects as users may see them: without a mark, and with "******" in place of secrets. The
 * Secrets are valid and empty. */
int job_preview(const struct translator *t, const struct job *job, const struct facts *f,
                struct arena *a, struct objects *out, struct err *e);

/* The i-th ConfigMap with pai-runtime, common to all jobs, in the arena. false if there are not so
 * many: none if pai-runtime comes from an image, at most RUNTIME_PROGRAMS. */
bool runtime_object(const struct translator *t, size_t i, struct arena *a, struct object *out);
