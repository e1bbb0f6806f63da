#pragma once
/* What all targets include.  A target is FUZZ(text) { ... }, which gets the input as text.  With
 * REPLAY, it registers for tests/fuzz/replay.c; otherwise it is a program of libFuzzer. */
#include <assert.h>
#include <stdint.h>

#include "base/str.h"
#include "tests/lib/auto.h"

#ifdef REPLAY
#include "tests/fuzz/replay.h"
#define FUZZ(text)                                                                                 \
	static void fuzz_one(struct span text);                                                    \
	__attribute__((constructor)) static void fuzz_add(void)                                    \
	{                                                                                          \
		replay_add(__BASE_FILE__, fuzz_one);                                               \
	}                                                                                          \
	static void fuzz_one(struct span text)
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ(text)                                                                                 \
	static void fuzz_one(struct span text);                                                    \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)                               \
	{                                                                                          \
		fuzz_one((struct span){ size ? (const char *)data : "", size });                   \
		return 0;                                                                          \
	}                                                                                          \
	static void fuzz_one(struct span text)
#endif

/* Takes the first byte, which is a choice of the target; there is one. */
static inline unsigned char fuzz_byte(struct span *text)
{
	unsigned char byte = (unsigned char)text->p[0];
	*text = span_from(*text, 1);
	return byte;
}
