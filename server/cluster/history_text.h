#pragma once
/*
 * An attempt that is over, as it is kept in a ConfigMap.  What is read back is untrusted.  Pure.
 */
#include "k8s/cache/cached.h"

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
bool history_write(struct str *out, const struct cached *job, struct span doc, size_t max,
                   struct arena *a);
/* The attemptStatus out of a ConfigMap, in the arena.  false if it is not of this Framework (by
 * uid) and this attempt, or is not what history_write makes. */
bool history_read(struct span configmap, const char *uid, int64_t attempt, struct arena *a,
                  struct span *status);
