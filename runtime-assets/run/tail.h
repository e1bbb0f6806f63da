#pragma once
/*
 * The last bytes of a task's output, as they were read, each with its stream.  Bounded by
 * TAIL_BYTES and by TAIL_FRAMES changes of the stream; the oldest bytes are dropped first.  Pure.
 */
#include <stdint.h>

#include "base/str.h"

enum tail_stream { TAIL_STDOUT = 1, TAIL_STDERR = 2 };

enum {
	TAIL_BYTES = 64 << 10,
	TAIL_FRAMES = 4096,
	TAIL_HEADER = 8,
	TAIL_TEXT_MAX = TAIL_BYTES + TAIL_FRAMES * TAIL_HEADER /* bytes that tail_frames writes */
};

struct tail;
/* Its memory becomes resident as it is filled. */
struct tail *tail_new(void);
void tail_free(struct tail *t);

void tail_add(struct tail *t, enum tail_stream stream, struct span text);

/* Append all of it as frames: the stream in a byte, three zero bytes, the length in four bytes (big
 * endian), the text.  It begins with a whole line if it can.  Returns how many bytes of the output
 * are not in it. */
uint64_t tail_frames(const struct tail *t, struct str *out);
