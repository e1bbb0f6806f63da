#pragma once
/*
 * The output of a task attempt that has ended: the frames that pai-runtime uploads, and the
 * immutable ConfigMap FRAMEWORK-output-ROLE-INDEX-ATTEMPT-RETRY that keeps them, compressed.  What
 * is read back is untrusted.  Pure; any thread.
 *
 * Frames are those of Docker's attach: a byte with the stream, three zero bytes, the length as four
 * bytes, the highest first, then so many bytes.
 */
#include "base/arena.h"

enum {
	OUTPUT_CONTENT_MAX = 64 << 10, /* bytes of output in all frames of one upload */
	OUTPUT_FRAMES_MAX = 4096,
	OUTPUT_FRAME_HEAD = 8,
	OUTPUT_BODY_MAX = OUTPUT_CONTENT_MAX + OUTPUT_FRAMES_MAX * OUTPUT_FRAME_HEAD,
	OUTPUT_STDOUT = 1,
	OUTPUT_STDERR = 2,
	OUTPUT_BOTH = 3,
	OUTPUT_SHA = 64, /* hex digits */
};

/* Which task attempt; texts are borrowed. */
struct output_id {
	const char *framework, *framework_uid;
	struct span role; /* as FrameworkController calls it: [a-z0-9]+ */
	int64_t index, attempt, retry;
	const char *pod_uid; /* "" if it is not known: any */
};

/* What is kept of it beside the output. */
struct output_facts {
	int64_t exit_code, dropped; /* bytes that the task wrote before what is kept */
	char sha[OUTPUT_SHA + 1];   /* of the frames as they were uploaded, hex */
};

/* "FRAMEWORK-output-ROLE-INDEX-ATTEMPT-RETRY", and "FRAMEWORK-output": the index of all of a job
 * (output_index_write). */
char *output_name(struct arena *a, const struct output_id *id);
char *output_index_name(struct arena *a, const char *framework);

/* NULL, or static text: what is wrong with these frames. */
const char *output_check(struct span frames);
/* Bytes of output in frames that were checked. */
size_t output_content(struct span frames);
/* The last `max` bytes of output, as frames; in the arena. */
struct span output_last(struct span frames, size_t max, struct arena *a);
/* Append the output of some streams (OUTPUT_...). */
void output_put(struct str *out, struct span frames, unsigned streams);

/* Compressed, in the arena. */
struct span output_pack(struct span frames, struct arena *a);
/* Append the ConfigMap. */
void output_write(struct str *out, const struct output_id *id, const struct output_facts *facts,
                  struct span packed, struct arena *a);
/* Out of a ConfigMap: the frames, in the arena.  false if it does not belong to this Framework (by
 * uid) or to this pod, or is not what output_write makes. */
bool output_read(struct span configmap, const struct output_id *id, struct arena *a,
                 struct output_facts *facts, struct span *frames);

/*
 * Which outputs of a job are kept (output_text.h), in a ConfigMap of its own that is changed with
 * each; and which go when there is no room.  A line each, the oldest first:
 *
 *	ROLE INDEX ATTEMPT RETRY BYTES failed|succeeded
 *
 * What is read back is untrusted: lines that are none are passed over.  Pure.
 */
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
