/*
 * The termination message: YAML between two markers, with excerpts of logs.  The kubelet keeps the
 * last 4096 bytes of the file, so the least useful texts are cut first.  Texts are in double quotes
 * on one line, so the size of a text is the sum of the sizes of its characters.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/time.h"
#include "runtime-assets/common/files.h"
#include "runtime-assets/exit/exit_internal.h"

/* ---- logs as texts --------------------------------------------------------------------------- */

static size_t log_regular_size(int fd)
{
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < 0)
		return 0;
	return (size_t)st.st_size;
}

/* Reads n bytes; missing ones become line ends. */
static void log_read_part(int fd, size_t from, size_t n, char *out)
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
		log_read_part(l->part[0].fd, l->part[0].from + from, here, out);
		from += here;
		out += here;
		n -= here;
	}
	if (n > 0)
		log_read_part(l->part[1].fd, l->part[1].from + (from - first), n, out);
}

static struct span log_read_window(struct regex_text *t, size_t from)
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
	size_t size = log_regular_size(fd);
	size_t before = 0;
	*l = (struct log_text){ .text = { .window = LOG_WINDOW, .read = log_read_window } };
	if (size < EXIT_SHORT_LOG)
		before = log_regular_size(rotated);
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

/* ---- excerpts -------------------------------------------------------------------------------- */

/* Lines are between line feeds; a log that ends in one has an empty last line. */

/* Moves a position inside of a character to its start or end. */
static size_t excerpt_whole(struct log_text *l, size_t at, bool to_end)
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

/* The bytes around a match, with LF for CR LF, and the match in them. */
struct window {
	char *p;
	size_t n;
	struct match match;
};

/* Loads it: *w has the match, in the log. */
static void window_load(struct window *w, struct log_text *l, size_t from, size_t to)
{
	from = excerpt_whole(l, from, true);
	to = excerpt_whole(l, to, false);
	size_t bytes = to > from ? to - from : 0;
	size_t start = w->match.start > from ? w->match.start - from : 0;
	size_t end = w->match.end > from ? w->match.end - from : 0;
	w->p = xmalloc(bytes + 1);
	log_text_copy(l, from, bytes, w->p);
	w->n = 0;
	w->match = (struct match){ start, end };
	for (size_t i = 0; i <= bytes; i++) {
		if (i == start)
			w->match.start = w->n;
		if (i == end)
			w->match.end = w->n;
		bool crlf = i + 1 < bytes && w->p[i] == '\r' && w->p[i + 1] == '\n';
		if (i < bytes && !crlf)
			w->p[w->n++] = w->p[i];
	}
}

/* The start of the line that is *lines before that of `at`; *lines becomes the number of lines. */
static size_t window_back(const struct window *w, size_t at, size_t *lines)
{
	size_t left = *lines + 1;
	for (; at > 0; at--)
		if (w->p[at - 1] == '\n' && --left == 0)
			break;
	*lines -= left ? left - 1 : 0;
	return at;
}

/* The same for the end of the line behind. */
static size_t window_forward(const struct window *w, size_t at, size_t *lines)
{
	size_t left = *lines + 1;
	for (; at < w->n; at++)
		if (w->p[at] == '\n' && --left == 0)
			break;
	*lines -= left ? left - 1 : 0;
	return at;
}

/* The lines of the match, those behind it, and before it as many as fit, at least three; of a
 * longer match the last lines. */
static struct match window_shown(const struct window *w, size_t most)
{
	size_t last = w->match.end > w->match.start ? w->match.end - 1 : w->match.start;
	size_t lines = 1;
	for (size_t i = w->match.start; i < last; i++)
		lines += w->p[i] == '\n';
	struct match out;
	if (lines >= most) {
		size_t back = most - 1;
		size_t none = 0;
		out.start = window_back(w, last, &back);
		out.end = window_forward(w, last, &none);
		return out;
	}
	size_t behind = most;
	size_t before;
	(void)window_forward(w, last, &behind); /* counted only */
	before = most > lines + behind + 3 ? most - lines - behind : 3;
	if (before > most - lines)
		before = most - lines;
	out.start = window_back(w, w->match.start, &before);
	behind = most - lines - before;
	out.end = window_forward(w, last, &behind);
	return out;
}

/* Appends bytes as UTF-8, invalid ones and NUL, which readers refuse, as U+FFFD. */
static void utf8_put_valid(struct str *out, const char *p, size_t n)
{
	unsigned width;
	for (; n > 0 && !out->full; p += width, n -= width) {
		uint32_t r = utf8_decode((const unsigned char *)p, n, &width);
		if ((r == UTF8_INVALID && width == 1) || r == 0)
			str_put(out, "\xEF\xBF\xBD", 3);
		else
			str_put(out, p, width);
	}
}

/* The beginning of the matched text. */
static void excerpt_matched(struct str *out, struct log_text *l, const struct match *m)
{
	char bytes[MATCHED_MAX];
	size_t end = m->end;
	if (end - m->start > MATCHED_MAX)
		end = excerpt_whole(l, m->start + MATCHED_MAX, false);
	log_text_copy(l, m->start, end - m->start, bytes);
	utf8_put_valid(out, bytes, end - m->start);
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
		part = window_shown(&w, lines);
	} else {
		size_t back = lines - 1;
		part = (struct match){ window_back(&w, w.n, &back), w.n };
	}
	x->text = (struct str)STR_INIT(EXCERPT_MAX);
	size_t at = w.match.start < part.start ? part.start
	            : w.match.start > part.end ? part.end
	                                       : w.match.start;
	utf8_put_valid(&x->text, w.p + part.start, at - part.start);
	x->match = x->text.n;
	utf8_put_valid(&x->text, w.p + at, part.end - at);
	x->matched = (struct str)STR_INIT(MATCHED_TEXT_MAX);
	if (m)
		excerpt_matched(&x->matched, l, m);
	else
		x->match = SIZE_MAX;
	free(w.p);
}

void excerpt_precede(struct excerpt *x, struct log_text *l, const struct match *line)
{
	struct str all = STR_INIT(EXCERPT_MAX + MATCHED_TEXT_MAX);
	excerpt_matched(&all, l, line);
	if (all.n == 0 || span_find(str_view(&x->text), 0, str_c(&all)) != SIZE_MAX) {
		str_done(&all);
		return;
	}
	str_puts(&all, "\n...\n");
	x->match += x->match == SIZE_MAX ? 0 : all.n;
	str_span(&all, str_view(&x->text));
	str_done(&x->text);
	x->text = all;
}

void excerpt_done(struct excerpt *x)
{
	str_done(&x->text);
	str_done(&x->matched);
}

#define MARKER "[PAI_RUNTIME_ERROR_"
#define START  MARKER "START]\n"
#define END    MARKER "END]"

/* ---- texts in double quotes ------------------------------------------------------------- */

/* Characters whose escape is one letter. */
static char yaml_short_escape(uint32_t r)
{
	static const struct {
		uint32_t rune;
		char letter;
	} ESCAPES[] = {
		{ '"', '"' },  { '\\', '\\' }, { '\n', 'n' },   { '\r', 'r' },   { '\t', 't' },
		{ '\a', 'a' }, { '\b', 'b' },  { '\v', 'v' },   { '\f', 'f' },   { 0x1B, 'e' },
		{ 0, '0' },    { 0x85, 'N' },  { 0x2028, 'L' }, { 0x2029, 'P' },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ESCAPES); i++) {
		if (ESCAPES[i].rune == r)
			return ESCAPES[i].letter;
	}
	return 0;
}

enum { CHARACTER_MAX = 16 };

/* Writes the first character of a text, which has *width bytes, as it is in quotes; returns the
 * size. The first one of a marker is escaped: in a log it would end the message. */
static size_t yaml_character(struct span text, unsigned *width, char out[static CHARACTER_MAX])
{
	uint32_t c = utf8_decode((const unsigned char *)text.p, text.n, width);
	char letter = yaml_short_escape(c);
	bool control = c < 0x20 || (c >= 0x7F && c < 0xA0);
	if (letter)
		return (size_t)snprintf(out, CHARACTER_MAX, "\\%c", letter);
	if (control || (c == '[' && span_starts(text, MARKER)))
		return (size_t)snprintf(out, CHARACTER_MAX, "\\x%02X", c);
	if (c == 0xFEFF || c == 0xFFFE || c == 0xFFFF)
		return (size_t)snprintf(out, CHARACTER_MAX, "\\u%04X", c);
	if (c > 0xFFFF)
		return (size_t)snprintf(out, CHARACTER_MAX, "\\U%08X", c);
	memcpy(out, text.p, *width);
	return *width;
}

size_t yaml_characters(struct str *out, struct span text)
{
	char one[CHARACTER_MAX];
	size_t size = 0;
	for (unsigned width; text.n > 0; text = span_from(text, width)) {
		size_t n = yaml_character(text, &width, one);
		if (out)
			str_put(out, one, n);
		size += n;
	}
	return size;
}

void yaml_quoted(struct str *out, struct span text)
{
	str_char(out, '"');
	(void)yaml_characters(out, text);
	str_char(out, '"');
}

/* ---- shortening ------------------------------------------------------------------------------ */

/* All four texts uncut; a byte becomes four at most. */
enum { WHOLE_MAX = 4 * 2 * (EXCERPT_MAX + MATCHED_TEXT_MAX) + 1024 };

enum part_name { MATCHED_USER, MATCHED_PLATFORM, USER, PLATFORM, PARTS };

struct summary_part {
	struct span text;
	bool there;
	size_t match; /* SIZE_MAX: it has none */
};

/* Cuts the shortest end that takes `excess` bytes or more. */
static void part_cut_tail(struct summary_part *p, size_t excess)
{
	char one[CHARACTER_MAX];
	unsigned width;
	for (size_t cut = 0; p->text.n > 0 && cut < excess; p->text.n -= width) {
		(void)utf8_decode_last((const unsigned char *)p->text.p, p->text.n, &width);
		cut += yaml_character(span_from(p->text, p->text.n - width), &width, one);
	}
}

/* Cuts from the front up to the match, then from the end. */
static void part_cut_head(struct summary_part *p, size_t excess)
{
	char one[CHARACTER_MAX];
	size_t cut = 0;
	size_t n = 0;
	for (unsigned width; n < p->text.n && n < p->match && cut < excess; n += width)
		cut += yaml_character(span_from(p->text, n), &width, one);
	p->text = span_from(p->text, n);
	if (cut < excess)
		part_cut_tail(p, excess - cut);
}

static void summary_member(struct str *out, const char *key, struct span text)
{
	str_puts(out, key);
	yaml_quoted(out, text);
	str_char(out, '\n');
}

static void summary_text(const struct summary *s, const struct summary_part *part, struct str *out)
{
	const struct exit_pattern *pattern = s->verdict->pattern;
	str_printf(out, START "exitCode: %lld\n", (long long)s->verdict->code);
	if (s->in->trigger)
		summary_member(out, "trigger: ", span_of(s->in->trigger));
	str_printf(out, "originUserExitCode: %lld\n", (long long)s->in->code);
	if (s->in->ended_ms) {
		char second[RFC3339_MAX];
		str_printf(out, "endTime: \"%s\"\n", rfc3339_put(second, s->in->ended_ms, 3));
	}
	if (s->verdict->rank >= 0)
		str_printf(out, "failedRank: %lld\n", (long long)s->verdict->rank);
	if (s->reason.n)
		summary_member(out, "failedLine: ", s->reason);
	static const char *const KEYS[PARTS] = {
		"matchedUserLogString: ", "matchedPlatformLogString: ", "  user: ", "  platform: "
	};
	for (int i = 0; i < PARTS; i++) {
		if (i == USER && pattern && pattern->has_gpu)
			str_puts(out, pattern->gpu_ecc
			                  ? "matchedGpuInfo:\n  nvidiaDoubleEccError: true\n"
			                  : "matchedGpuInfo: {}\n");
		if (i == USER && (part[USER].there || part[PLATFORM].there))
			str_puts(out, "errorLogs:\n");
		if (part[i].there)
			summary_member(out, KEYS[i], part[i].text);
	}
	str_puts(out, END);
}

void summary_write(const struct summary *s, struct str *out)
{
	struct summary_part part[PARTS] = {
		[MATCHED_USER] = { str_view(&s->user->matched), s->verdict->has_user, SIZE_MAX },
		[MATCHED_PLATFORM] = { str_view(&s->platform->matched), s->verdict->has_platform,
		                       SIZE_MAX },
		[USER] = { str_view(&s->user->text), true, s->user->match },
		[PLATFORM] = { str_view(&s->platform->text), true, s->platform->match },
	};
	static const struct {
		enum part_name name;
		void (*cut)(struct summary_part *p, size_t excess);
	} STEPS[] = {
		{ PLATFORM, part_cut_head },
		{ USER, part_cut_head },
		{ MATCHED_PLATFORM, part_cut_tail },
		{ MATCHED_USER, part_cut_tail },
	};
	STR_AUTO whole = STR_INIT(WHOLE_MAX);
	summary_text(s, part, &whole);
	for (size_t i = 0; i < ARRAY_SIZE(STEPS) && whole.n > EXIT_MESSAGE_MAX; i++) {
		struct summary_part *p = &part[STEPS[i].name];
		size_t excess = whole.n - EXIT_MESSAGE_MAX;
		if (!p->there)
			continue;
		if (yaml_characters(NULL, p->text) <= excess)
			p->there = false;
		else
			STEPS[i].cut(p, excess);
		whole.n = 0;
		summary_text(s, part, &whole);
	}
	str_span(out, str_view(&whole));
}

/* ---- the file ------------------------------------------------------------------------------- */

/* The kubelet mounts a file there, so it is written in place; without a mount the job could have
 * put something else there. */
enum { REPORT_FLAGS = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

/* Only this file knows how the kubelet's file is opened. */
void exit_reserve(const char *path)
{
	FD_AUTO fd = open(path, REPORT_FLAGS);
	if (fd >= 0)
		(void)fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, EXIT_MESSAGE_MAX); /* see exit.h */
}

int exit_report(const char *path, struct span message, struct err *e)
{
	FD_AUTO fd = open(path, REPORT_FLAGS | O_CREAT, 0644);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		return err_set(e, FAILED, "cannot write %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
		return err_set(e, FAILED, "cannot write %s: it is not a regular file of its own",
		               path);
	/* Not cut before, which would give the reserved space back. */
	if (fd_write_all(fd, message) == 0 && ftruncate(fd, (off_t)message.n) == 0)
		return 0;
	int error = errno;
	(void)!ftruncate(fd, 0);
	return err_set(e, FAILED, "cannot write %s: %s", path, strerror(error));
}
