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
 * (output_index.h). */
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
