#include "runtime-assets/run/tail.h"

#include <stdlib.h>

/* Neighbours of one stream. */
struct tail_piece {
	uint32_t n;
	enum tail_stream stream;
};

/* Two rings: the bytes, and the pieces that they are. */
struct tail {
	uint64_t dropped;
	bool mid_line; /* the line that the first byte belongs to began before it */
	size_t first, n;
	size_t first_piece, n_pieces;
	struct tail_piece piece[TAIL_FRAMES];
	char bytes[TAIL_BYTES];
};

struct tail *tail_new(void)
{
	return xcalloc(1, sizeof(struct tail));
}

void tail_free(struct tail *t)
{
	free(t);
}

static struct tail_piece *tail_piece_at(struct tail *t, size_t i)
{
	return &t->piece[(t->first_piece + i) % TAIL_FRAMES];
}

/* n bytes, no more than there are. */
static void tail_drop(struct tail *t, size_t n)
{
	if (n == 0)
		return;
	t->first = (t->first + n) % TAIL_BYTES;
	t->n -= n;
	t->dropped += n;
	t->mid_line = t->bytes[(t->first + TAIL_BYTES - 1) % TAIL_BYTES] != '\n';
	while (n > 0) {
		struct tail_piece *p = tail_piece_at(t, 0);
		size_t part = n < p->n ? n : p->n;
		p->n -= (uint32_t)part;
		n -= part;
		if (p->n > 0)
			continue;
		t->first_piece = (t->first_piece + 1) % TAIL_FRAMES;
		t->n_pieces--;
	}
}

static void tail_append(struct tail *t, struct span text)
{
	size_t at = (t->first + t->n) % TAIL_BYTES;
	size_t n = text.n < TAIL_BYTES - at ? text.n : TAIL_BYTES - at;
	memcpy(t->bytes + at, text.p, n);
	memcpy(t->bytes, text.p + n, text.n - n);
	t->n += text.n;
}

void tail_add(struct tail *t, enum tail_stream stream, struct span text)
{
	if (text.n == 0)
		return;
	if (text.n > TAIL_BYTES) {
		size_t excess = text.n - TAIL_BYTES;
		tail_drop(t, t->n);
		t->dropped += excess;
		t->mid_line = text.p[excess - 1] != '\n';
		text = (struct span){ text.p + excess, TAIL_BYTES };
	}
	if (t->n + text.n > TAIL_BYTES)
		tail_drop(t, t->n + text.n - TAIL_BYTES);
	struct tail_piece *last = t->n_pieces ? tail_piece_at(t, t->n_pieces - 1) : NULL;
	if (!last || last->stream != stream) {
		if (t->n_pieces == TAIL_FRAMES)
			tail_drop(t, tail_piece_at(t, 0)->n);
		last = tail_piece_at(t, t->n_pieces++);
		*last = (struct tail_piece){ 0, stream };
	}
	last->n += (uint32_t)text.n;
	tail_append(t, text);
}

static char tail_byte(const struct tail *t, size_t i)
{
	return t->bytes[(t->first + i) % TAIL_BYTES];
}

/* Bytes of the first piece that belong to a line of which the beginning is gone; 0 if that line is
 * all of the piece. */
static size_t tail_partial_line(const struct tail *t)
{
	size_t n = t->mid_line && t->n_pieces ? t->piece[t->first_piece].n : 0;
	for (size_t i = 0; i + 1 < n; i++) {
		if (tail_byte(t, i) == '\n')
			return i + 1;
	}
	return 0;
}

uint64_t tail_frames(const struct tail *t, struct str *out)
{
	size_t skip = tail_partial_line(t);
	size_t at = skip;
	for (size_t i = 0; i < t->n_pieces; i++) {
		const struct tail_piece *p = &t->piece[(t->first_piece + i) % TAIL_FRAMES];
		uint32_t n = p->n - (i == 0 ? (uint32_t)skip : 0);
		const char header[TAIL_HEADER] = {
			(char)p->stream, 0,      0, 0, (char)(n >> 24), (char)(n >> 16),
			(char)(n >> 8),  (char)n
		};
		str_put(out, header, sizeof(header));
		size_t from = (t->first + at) % TAIL_BYTES;
		size_t part = n < TAIL_BYTES - from ? n : TAIL_BYTES - from;
		str_put(out, t->bytes + from, part);
		str_put(out, t->bytes, n - part);
		at += n;
	}
	return t->dropped + skip;
}
