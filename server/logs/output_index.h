#pragma once
/*
 * Which outputs of a job are kept (output_text.h), in a ConfigMap of its own that is changed with
 * each; and which go when there is no room.  A line each, the oldest first:
 *
 *	ROLE INDEX ATTEMPT RETRY BYTES failed|succeeded
 *
 * What is read back is untrusted: lines that are none are passed over.  Pure.
 */
#include "server/logs/output_text.h"

enum {
	OUTPUTS_MAX = 1000,         /* of a job */
	OUTPUTS_DISPLACED_MAX = 64, /* at a time */
	OUTPUT_LEAST = 1024,        /* bytes: with less room, none is kept */
};

struct output_entry {
	struct span role;
	int64_t index, attempt, retry;
	int64_t bytes; /* compressed */
	bool failed;
	bool displaced; /* is to go */
};

struct output_index {
	struct output_entry *v; /* in the arena; with room for one more */
	size_t n;
};

/* Out of the ConfigMap of the job, or of nothing ("").  false if it belongs to another Framework.
 */
bool output_index_read(struct span configmap, const char *framework_uid, struct arena *a,
                       struct output_index *out);
/* The lines of all that are not displaced. */
void output_index_lines(struct str *out, const struct output_index *x);
/* That of this task attempt, or NULL. */
const struct output_entry *output_index_find(const struct output_index *x,
                                             const struct output_entry *e);
/*
 * Make room for e->bytes within `budget` bytes of all, by marking others as displaced, the oldest
 * first: outputs of earlier attempts of the job or of the same task; then, for one that failed,
 * those of tasks that succeeded.  The bytes that there is room for: e->bytes or fewer; or 0, and
 * nothing is displaced, if fewer than OUTPUT_LEAST.
 */
int64_t output_index_room(const struct output_index *x, const struct output_entry *e,
                          int64_t budget);
void output_index_add(struct output_index *x, const struct output_entry *e);
/* Bytes of output that are kept of a task: of one that failed all, of others an even share. */
size_t output_share(bool failed, int64_t tasks, int64_t budget);
/* Append the ConfigMap with these lines, or the merge patch to them of the one that has this
 * resourceVersion. */
void output_index_write(struct str *out, const struct output_id *id, struct span lines,
                        struct arena *a);
void output_index_patch(struct str *out, struct span version, struct span lines);
