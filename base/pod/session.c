/* The frames of a session. */
#include "base/pod/session.h"

enum { BYTE = 8, SIZE_MOST = 10000 };

void session_head(char out[static SESSION_HEAD], enum session_channel channel, size_t n)
{
	out[0] = (char)channel;
	out[1] = (char)(n >> 2 * BYTE);
	out[2] = (char)(n >> BYTE);
	out[3] = (char)n;
}

void session_put(struct str *out, enum session_channel channel, struct span text)
{
	char head[SESSION_HEAD];
	session_head(head, channel, text.n);
	str_put(out, head, sizeof(head));
	str_span(out, text);
}

static bool session_frame_is_data(enum session_channel channel)
{
	return channel <= SESSION_ERR;
}

/* The head is whole. */
static enum session_got session_frame_begin(struct session_reader *r, enum session_channel channel)
{
	r->left = (size_t)r->head[1] << 2 * BYTE | (size_t)r->head[2] << BYTE | r->head[3];
	r->text_n = 0;
	if (channel > SESSION_SIZE && channel != SESSION_CLOSE)
		return SESSION_BAD;
	if (!session_frame_is_data(channel) && r->left > SESSION_TEXT)
		return SESSION_BAD;
	if (r->left)
		return SESSION_MORE;
	r->have = 0;
	return SESSION_EMPTY;
}

enum session_got session_read(struct session_reader *r, struct span *piece,
                              enum session_channel *channel, struct span *part)
{
	while (r->have < SESSION_HEAD) {
		if (!piece->n)
			return SESSION_MORE;
		r->head[r->have++] = (unsigned char)*piece->p;
		*piece = span_from(*piece, 1);
		if (r->have < SESSION_HEAD)
			continue;
		*channel = r->head[0];
		enum session_got got = session_frame_begin(r, *channel);
		if (got != SESSION_MORE)
			return got;
	}
	*channel = r->head[0];
	*part = span_to(*piece, piece->n < r->left ? piece->n : r->left);
	*piece = span_from(*piece, part->n);
	r->left -= part->n;
	r->have = r->left ? SESSION_HEAD : 0;
	if (session_frame_is_data(*channel))
		return part->n ? SESSION_PART : SESSION_MORE;
	memcpy(r->text + r->text_n, part->p, part->n);
	r->text_n += part->n;
	*part = (struct span){ r->text, r->text_n };
	return r->left ? SESSION_MORE : SESSION_WHOLE;
}

bool session_size(struct span text, unsigned short *rows, unsigned short *columns)
{
	int64_t r;
	int64_t c;
	if (parse_i64(span_next(&text, ' '), 1, SIZE_MOST, &r) || parse_i64(text, 1, SIZE_MOST, &c))
		return false;
	*rows = (unsigned short)r;
	*columns = (unsigned short)c;
	return true;
}
