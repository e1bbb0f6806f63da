/*
 * Frames of a session that a client or a task makes up: in pieces the reader finds the same as in
 * the whole, and never more than it was given; what the writer writes is read back.
 */
#include <stdlib.h>

#include "base/pod/session.h"
#include "tests/fuzz/fuzz.h"

static const size_t FOUND_MAX = 1 << 20;

/* Appends what is found, without the borders of parts. */
static void session_find(struct str *out, struct span bytes, size_t piece)
{
	struct session_reader *r = xcalloc(1, sizeof(*r));
	size_t given = 0;
	int last = -1;
	bool bad = false;
	while (bytes.n > 0 && !bad) {
		struct span one = span_to(bytes, piece < bytes.n ? piece : bytes.n);
		bytes = span_from(bytes, one.n);
		for (;;) {
			enum session_channel channel = SESSION_IN;
			struct span part = { "", 0 };
			enum session_got got = session_read(r, &one, &channel, &part);
			if (got == SESSION_MORE)
				break;
			bad = got == SESSION_BAD;
			given += got == SESSION_PART || got == SESSION_WHOLE ? part.n : 0;
			if (got != SESSION_PART || last != (int)channel)
				str_printf(out, "\n%d %d ", (int)got, (int)channel);
			last = got == SESSION_PART && r->left ? (int)channel : -1;
			if (got == SESSION_PART || got == SESSION_WHOLE)
				str_span(out, part);
			if (bad)
				break;
		}
	}
	assert(given <= FOUND_MAX);
	free(r);
}

FUZZ(text)
{
	if (text.n == 0 || text.n > FOUND_MAX / 16)
		return;
	size_t piece = 1 + (unsigned char)text.p[0] % 64;
	STR_AUTO whole = STR_INIT(4 * FOUND_MAX);
	STR_AUTO parts = STR_INIT(4 * FOUND_MAX);
	session_find(&whole, text, text.n);
	session_find(&parts, text, piece);
	assert(span_eq(str_view(&whole), str_view(&parts)));
	STR_AUTO frames = STR_INIT(2 * FOUND_MAX);
	STR_AUTO back = STR_INIT(4 * FOUND_MAX);
	STR_AUTO wanted = STR_INIT(2 * FOUND_MAX);
	session_put(&frames, SESSION_OUT, text);
	session_find(&back, str_view(&frames), piece);
	str_printf(&wanted, "\n%d %d ", (int)SESSION_PART, (int)SESSION_OUT);
	str_span(&wanted, text);
	assert(span_eq(str_view(&back), str_view(&wanted)));
}
