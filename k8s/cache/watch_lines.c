/* Lines of a WATCH; see watch_lines.h.  What lies whole in the bytes is not copied. */
#include "k8s/cache/watch_lines.h"

static void keep(struct watch_lines *l, struct span piece)
{
	size_t room = l->carry.max - l->carry.n;
	if (piece.n > room) {
		l->cut = true;
		piece.n = room;
	}
	str_span(&l->carry, piece);
}

static void end_line(struct watch_lines *l, struct span piece, watch_line *each, void *arg)
{
	bool whole = l->carry.n == 0 && piece.n <= l->carry.max;
	if (!whole)
		keep(l, piece);
	struct span line = whole ? piece : str_view(&l->carry);
	if (line.n > 0)
		each(arg, line, l->cut);
	watch_lines_clear(l);
}

void watch_lines_take(struct watch_lines *l, struct span bytes, watch_line *each, void *arg)
{
	while (bytes.n > 0) {
		const char *newline = memchr(bytes.p, '\n', bytes.n);
		if (!newline) {
			keep(l, bytes);
			return;
		}
		size_t n = (size_t)(newline - bytes.p);
		end_line(l, (struct span){ bytes.p, n }, each, arg);
		bytes = (struct span){ newline + 1, bytes.n - n - 1 };
	}
}

void watch_lines_clear(struct watch_lines *l)
{
	size_t max = l->carry.max;
	if (l->carry.n > 0)
		str_done(&l->carry);
	*l = WATCH_LINES_INIT(max);
}
