/*
 * What of a log is shown.  Lines are those between line feeds (a log that ends in one has an empty
 * last line); a carriage return before a line feed belongs to it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "runtime-assets/exit/exit_inner.h"

/* A position that is inside of a valid character moves to its start (or end). */
static size_t whole_characters(struct log_text *l, size_t at, bool to_end)
{
	char around[8];
	size_t from = at > 3 ? at - 3 : 0;
	size_t n = l->text.size - from < sizeof(around) ? l->text.size - from : sizeof(around);
	if (at == 0 || at >= l->text.size)
		return at;
	log_text_copy(l, from, n, around);
	for (size_t start = from; start < at; start++) {
		unsigned width;
		utf8_decode((const unsigned char *)around + (start - from), n - (start - from),
		            &width);
		if (start + width > at)
			return to_end ? start + width : start;
	}
	return at;
}

/* The bytes of a log around the match, CR LF folded; with the match's place in them. */
struct window {
	char *p;
	size_t n;
	struct match match;
};

static void fold_line_ends(struct window *w)
{
	size_t n = 0;
	struct match m = w->match;
	for (size_t i = 0; i < w->n; i++) {
		if (i == w->match.start)
			m.start = n;
		if (i == w->match.end)
			m.end = n;
		if (w->p[i] == '\r' && i + 1 < w->n && w->p[i + 1] == '\n')
			continue;
		w->p[n++] = w->p[i];
	}
	if (w->match.start == w->n)
		m.start = n;
	if (w->match.end == w->n)
		m.end = n;
	w->n = n;
	w->match = m;
}

static void window_load(struct window *w, struct log_text *l, size_t from, size_t to)
{
	from = whole_characters(l, from, true);
	to = whole_characters(l, to, false);
	if (to < from)
		to = from;
	w->n = to - from;
	w->p = xmalloc(w->n + 1);
	log_text_copy(l, from, w->n, w->p);
	w->match.start = w->match.start > from ? w->match.start - from : 0;
	w->match.end = w->match.end > from ? w->match.end - from : 0;
	fold_line_ends(w);
}

/* The start of the line that is `lines` before the one with byte `at`; 0 if there are fewer, and
 * *lines becomes how many it went back. */
static size_t lines_back(const struct window *w, size_t at, size_t *lines)
{
	size_t start = at;
	size_t went = 0;
	for (;;) {
		while (start > 0 && w->p[start - 1] != '\n')
			start--;
		if (went == *lines || start == 0)
			break;
		start--;
		went++;
	}
	*lines = went;
	return start;
}

/* The end of the line that is `lines` behind the one with byte `at`. */
static size_t lines_on(const struct window *w, size_t at, size_t *lines)
{
	size_t end = at;
	size_t went = 0;
	for (;;) {
		while (end < w->n && w->p[end] != '\n')
			end++;
		if (went == *lines || end == w->n)
			break;
		end++;
		went++;
	}
	*lines = went;
	return end;
}

static size_t count_line_ends(const struct window *w, size_t from, size_t to)
{
	size_t n = 0;
	for (size_t i = from; i < to; i++)
		n += w->p[i] == '\n';
	return n;
}

static size_t at_least(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Which bytes are shown: the lines of the match, those behind it, and before it those that there
 * is room for, three in any case; of a match that is longer, the last ones. */
static struct match shown(const struct window *w, size_t most)
{
	size_t last = w->match.end > w->match.start ? w->match.end - 1 : w->match.start;
	size_t lines = count_line_ends(w, w->match.start, last) + 1;
	struct match out;
	if (lines >= most) {
		size_t back = most - 1;
		size_t none = 0;
		out.start = lines_back(w, last, &back);
		out.end = lines_on(w, last, &none);
		return out;
	}
	size_t behind = most;
	size_t before;
	(void)lines_on(w, last, &behind); /* counted only */
	before = at_least(3, most > lines + behind ? most - lines - behind : 0);
	if (before > most - lines)
		before = most - lines;
	out.start = lines_back(w, w->match.start, &before);
	behind = most - lines - before;
	out.end = lines_on(w, last, &behind);
	return out;
}

/* Bytes as UTF-8: each that belongs to no character becomes U+FFFD.  `mark`, an offset in the
 * bytes, becomes one in the text. */
static void put_valid(struct str *out, struct span bytes, size_t *mark)
{
	const unsigned char *p = (const unsigned char *)bytes.p;
	size_t marked = SIZE_MAX;
	for (size_t i = 0; i < bytes.n && !out->full;) {
		unsigned width;
		uint32_t r = utf8_decode(p + i, bytes.n - i, &width);
		if (marked == SIZE_MAX && mark && *mark < i + width)
			marked = out->n;
		if (r == UTF8_INVALID && width == 1)
			str_put(out, "\xEF\xBF\xBD", 3);
		else
			str_put(out, bytes.p + i, width);
		i += width;
	}
	if (mark)
		*mark = marked == SIZE_MAX ? out->n : marked;
}

void excerpt_make(struct excerpt *x, struct log_text *l, const struct match *m, size_t lines)
{
	size_t size = l->text.size;
	struct match whole = m ? *m : (struct match){ size, size };
	struct window w = { .match = whole };
	size_t from = whole.start > EXCERPT_MARGIN ? whole.start - EXCERPT_MARGIN : 0;
	size_t to = size - whole.end > EXCERPT_MARGIN ? whole.end + EXCERPT_MARGIN : size;
	window_load(&w, l, from, to);
	struct match part;
	if (m) {
		part = shown(&w, lines);
	} else {
		size_t back = lines - 1;
		part = (struct match){ lines_back(&w, w.n, &back), w.n };
	}
	x->text = (struct str)STR_INIT(EXCERPT_MAX);
	x->match = w.match.start > part.start ? w.match.start - part.start : 0;
	put_valid(&x->text, (struct span){ w.p + part.start, part.end - part.start }, &x->match);
	if (!m)
		x->match = SIZE_MAX;
	free(w.p);
}

void excerpt_matched(struct str *out, struct log_text *l, const struct match *m)
{
	char bytes[MATCHED_MAX];
	size_t end = m->end;
	if (end - m->start > MATCHED_MAX)
		end = whole_characters(l, m->start + MATCHED_MAX, false);
	log_text_copy(l, m->start, end - m->start, bytes);
	put_valid(out, (struct span){ bytes, end - m->start }, NULL);
}

/* Logs as texts: the end of one or two files, a window of it in memory. */

static size_t regular_size(int fd)
{
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < 0)
		return 0;
	return (size_t)st.st_size;
}

/* Read n bytes of a file; what it does not have any more are line ends. */
static void read_part(int fd, size_t from, size_t n, char *out)
{
	while (n > 0) {
		ssize_t got = pread(fd, out, n, (off_t)from);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		from += (size_t)got;
		out += got;
		n -= (size_t)got;
	}
	memset(out, '\n', n);
}

void log_text_copy(struct log_text *l, size_t from, size_t n, char *out)
{
	size_t first = l->part[0].n;
	if (from < first) {
		size_t here = n < first - from ? n : first - from;
		read_part(l->part[0].fd, l->part[0].from + from, here, out);
		from += here;
		out += here;
		n -= here;
	}
	if (n > 0)
		read_part(l->part[1].fd, l->part[1].from + (from - first), n, out);
}

static struct span read_window(struct text *t, size_t from)
{
	struct log_text *l = (struct log_text *)t;
	size_t n = t->size - from < t->window ? t->size - from : t->window;
	if (!l->buffer)
		l->buffer = xmalloc(t->window);
	if (from != l->at || n != l->n) {
		log_text_copy(l, from, n, l->buffer);
		l->at = from;
		l->n = n;
	}
	return (struct span){ l->buffer, n };
}

void log_text_open(struct log_text *l, int fd, int rotated)
{
	size_t size = regular_size(fd);
	size_t before = 0;
	*l = (struct log_text){ .text = { .window = LOG_WINDOW, .read = read_window } };
	if (size < EXIT_SHORT_LOG)
		before = regular_size(rotated);
	l->part[0].fd = rotated;
	l->part[0].n = before < EXIT_SHORT_LOG ? before : EXIT_SHORT_LOG;
	l->part[0].from = before - l->part[0].n;
	l->part[1].fd = fd;
	l->part[1].n = size < EXIT_LOG_MAX ? size : EXIT_LOG_MAX;
	l->part[1].from = size - l->part[1].n;
	l->text.size = l->part[0].n + l->part[1].n;
}

void log_text_done(struct log_text *l)
{
	free(l->buffer);
}
