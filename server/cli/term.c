/* Prints lines, tables and a block that is drawn again, cut to the terminal and without control
 * characters. */
#include "server/cli/cli_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/scan.h"

enum {
	BLOCK_MAX = 256 * 1024,
	TEXT_MAX = 4096,
	COLUMNS = 80,
	ROWS = 24,
	COLUMNS_MIN = 20,
	ROWS_MIN = 4
};

bool term_colours(int fd)
{
	const char *term = getenv("TERM");      /* NOLINT(concurrency-mt-unsafe): one thread */
	const char *plain = getenv("NO_COLOR"); /* NOLINT(concurrency-mt-unsafe): one thread */
	return term && term[0] && strcmp(term, "dumb") != 0 && !(plain && plain[0]) && isatty(fd);
}

/* One column less: terminals differ in the last one. */
struct term_size term_size(void)
{
	struct winsize w = { 0 };
	if ((ioctl(STDERR_FILENO, TIOCGWINSZ, &w) < 0 &&
	     ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0) ||
	    w.ws_col == 0 || w.ws_row == 0)
		w = (struct winsize){ .ws_col = COLUMNS, .ws_row = ROWS };
	return (struct term_size){ (size_t)(w.ws_col < COLUMNS_MIN ? COLUMNS_MIN : w.ws_col) - 1,
		                   (size_t)(w.ws_row < ROWS_MIN ? ROWS_MIN : w.ws_row) - 1 };
}

size_t output_columns(void)
{
	return isatty(STDOUT_FILENO) ? term_size().columns : SIZE_MAX;
}

/* Errors cannot be reported. */
static void term_put(struct span text)
{
	(void)fwrite(text.p, 1, text.n, stderr);
}

static void term_erase_block(struct term *s)
{
	if (s->drawn)
		(void)fprintf(stderr, "\x1b[%zuA\r\x1b[J", s->drawn);
	s->drawn = 0;
}

__attribute__((format(printf, 1, 0))) static void term_put_line(const char *fmt, va_list args)
{
	(void)vfprintf(stderr, fmt, args);
	term_put(SPAN("\n"));
}

void term_print(struct term *s, const char *fmt, ...)
{
	va_list args;
	term_erase_block(s);
	va_start(args, fmt);
	term_put_line(fmt, args);
	va_end(args);
}

void term_message(struct term *s, const char *fmt, ...)
{
	va_list args;
	char clock[sizeof("00:00:00 ")];
	time_t now = time(NULL);
	struct tm t;
	size_t n = strftime(clock, sizeof(clock), "%T ", localtime_r(&now, &t));
	term_erase_block(s);
	term_put((struct span){ clock, n });
	va_start(args, fmt);
	term_put_line(fmt, args);
	va_end(args);
}

/* Does not stop at errors: the caller looks at `lost`. */
static void term_log_put(struct term *s, struct span text)
{
	s->lost |= fwrite(text.p, 1, text.n, stdout) != text.n;
}

void term_log(struct term *s, const char *name, size_t number, struct span line, bool cut)
{
	static const int COLOURS[] = { 36, 33, 32, 35, 34 }; /* without red, black and white */
	term_erase_block(s);
	if (s->colour && name)
		s->lost |= printf("\x1b[%dm%s | \x1b[0m", COLOURS[number % (ARRAY_SIZE(COLOURS))],
		                  name) < 0;
	else if (name)
		s->lost |= printf("%s | ", name) < 0;
	if (s->terminal) {
		STR_AUTO shown = STR_INIT(BLOCK_MAX + 8 * line.n);
		visible_text(&shown, visible_part(line));
		term_log_put(s, str_view(&shown));
	} else {
		term_log_put(s, line);
	}
	term_log_put(s, cut ? SPAN(" ...\n") : SPAN("\n"));
	s->lost |= s->block && fflush(stdout) != 0; /* before the block is drawn below */
}

void term_show(struct term *s, struct span text)
{
	if (s->block && !span_eq(str_view(&s->text), text)) {
		term_erase_block(s);
		s->text.n = 0;
		str_span(&s->text, text);
	}
	s->lost |= fflush(stdout) != 0;
	if (!s->block || s->drawn || s->text.n == 0)
		return;
	for (size_t i = 0; i < s->text.n; i++)
		s->drawn += s->text.p[i] == '\n';
	term_put(str_view(&s->text));
}

enum { WIDE = 0x1100 }; /* characters from here on may take two columns */

static void lines_hand_over(struct line_splitter *l, line_taker *take, void *arg)
{
	struct span line = str_view(&l->line);
	if (!l->cut && !l->keeps_cr && line.n && line.p[line.n - 1] == '\r')
		line.n--;
	take(arg, line, l->cut);
	l->line.n = 0;
	l->cut = false;
}

void lines_feed(struct line_splitter *l, struct span bytes, line_taker *take, void *arg)
{
	while (bytes.n) {
		bool ends = span_chr(bytes, '\n') < bytes.n;
		struct span part = span_next(&bytes, '\n');
		size_t room = l->line.max - l->line.n;
		str_put(&l->line, part.p, part.n < room ? part.n : room);
		l->cut |= part.n > room;
		if (ends)
			lines_hand_over(l, take, arg);
	}
}

void lines_end(struct line_splitter *l, line_taker *take, void *arg)
{
	if (l->line.n || l->cut)
		lines_hand_over(l, take, arg);
}

/* The first character of UTF-8 text, and its length in bytes. */
static uint32_t visible_character(struct span text, size_t *n)
{
	static const unsigned char MASK[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	unsigned char first = (unsigned char)text.p[0];
	*n = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	uint32_t c = first & MASK[*n];
	for (size_t i = 1; i < *n && i < text.n; i++)
		c = c << 6 | ((unsigned char)text.p[i] & 0x3f);
	return c;
}

void visible_text(struct str *out, struct span text)
{
	size_t good = utf8_check(text);
	for (size_t i = 0, n; i < text.n; i += n) {
		struct span rest = { text.p + i, text.n - i };
		if (i == good) {
			str_printf(out, "\\x%02x", (unsigned char)text.p[i]);
			n = 1;
			good = i + 1 + utf8_check((struct span){ rest.p + 1, rest.n - 1 });
			continue;
		}
		uint32_t c = visible_character(rest, &n);
		/* Control characters, Unicode line ends, and marks of direction. */
		bool hidden = (c < 0x20 && c != '\t') || (c >= 0x7f && c < 0xa0) || c == 0x61c ||
		              (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
		              (c >= 0x2066 && c <= 0x2069);
		if (!hidden)
			str_put(out, rest.p, n);
		else
			str_printf(out, c < 0x80 ? "\\x%02x" : "\\u{%x}", (unsigned)c);
	}
}

const char *visible_line(struct arena *a, struct span text)
{
	STR_AUTO out = STR_INIT((size_t)8 * TEXT_MAX);
	visible_text(&out, span_trim(span_to(text, text.n < TEXT_MAX ? text.n : TEXT_MAX)));
	char *line = arena_dup(a, str_view(&out));
	for (char *p = line; (p = strchr(p, '\t'));)
		*p = ' ';
	return line;
}

struct span visible_part(struct span line)
{
	/* A bar that is wiped leaves blanks behind what was printed last. */
	while (line.n && (line.p[line.n - 1] == '\r' || line.p[line.n - 1] == ' '))
		line.n--;
	const char *last = line.n ? memrchr(line.p, '\r', line.n) : NULL;
	size_t skip = last ? (size_t)(last - line.p) + 1 : 0;
	return (struct span){ line.p + skip, line.n - skip };
}

/* The bytes that fit into so many columns; *left is what they leave. */
static size_t visible_fit(struct span text, size_t *left)
{
	size_t i = 0;
	for (size_t n; i < text.n; i += n) {
		uint32_t c = visible_character(span_from(text, i), &n);
		size_t width = c < WIDE ? 1 : 2;
		if (width > *left)
			break;
		*left -= width;
	}
	return i < text.n ? i : text.n;
}

size_t visible_width(struct span text)
{
	size_t left = SIZE_MAX;
	(void)visible_fit(text, &left); /* all of it */
	return SIZE_MAX - left;
}

struct span visible_cut(struct span text, size_t columns)
{
	return span_to(text, visible_fit(text, &columns));
}

void state_put(struct str *out, struct span name, bool colour)
{
	static const int COLOURS[JOB_STATE_MAX + 1] = {
		[JOB_WAITING] = 33,   [JOB_RUNNING] = 36, [JOB_STOPPING] = 35,
		[JOB_SUCCEEDED] = 32, [JOB_STOPPED] = 35, [JOB_FAILED] = 31,
	};
	int n = colour ? COLOURS[job_state_named(name)] : 0;
	if (n)
		str_printf(out, "\x1b[%dm%.*s\x1b[0m", n, (int)name.n, name.p);
	else
		str_span(out, name);
}

enum { TABLE_MAX = 256 << 20, NUMBER_TEXT = 24, LAST_MIN = 16, GAP = 2 };

static void table_add(struct table *t, const char *text)
{
	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->cell = xrealloc(t->cell, t->cap * sizeof(*t->cell));
	}
	size_t width = visible_width(span_of(text));
	size_t *column = &t->width[t->n % t->columns];
	*column = width > *column ? width : *column;
	t->cell[t->n++] = text;
}

void table_begin(struct table *t, const char *const heads[], size_t columns)
{
	assert(columns > 0 && columns <= TABLE_COLUMNS);
	*t = (struct table){ .columns = columns };
	for (size_t i = 0; i < columns; i++)
		table_add(t, heads[i]);
}

void table_cell(struct table *t, struct span text)
{
	const char *cell = visible_line(&t->arena, text);
	table_add(t, cell[0] ? cell : "-");
}

void table_text(struct table *t, struct span object, const char *key)
{
	table_cell(t, scan_text(scan_get(object, key), &t->arena));
}

void table_number(struct table *t, struct span object, const char *key)
{
	STR_AUTO out = STR_INIT(NUMBER_TEXT);
	int64_t n;
	if (scan_int(scan_get(object, key), INT64_MIN, INT64_MAX, &n))
		str_int(&out, n);
	table_cell(t, str_view(&out));
}

/* A second unit only if the first number is below ten. */
void table_duration(struct table *t, int64_t ms)
{
	static const struct {
		int64_t s;
		char unit;
	} UNITS[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
	enum { N_UNITS = ARRAY_SIZE(UNITS) };
	STR_AUTO text = STR_INIT(64);
	int64_t s = ms < 0 ? 0 : ms / 1000;
	size_t i = 0;
	while (i + 1 < N_UNITS && s < UNITS[i].s)
		i++;
	int64_t n = s / UNITS[i].s;
	int64_t rest = i + 1 < N_UNITS ? s % UNITS[i].s / UNITS[i + 1].s : 0;
	str_printf(&text, "%lld%c", (long long)n, UNITS[i].unit);
	if (n < 10 && rest > 0)
		str_printf(&text, "%lld%c", (long long)rest, UNITS[i + 1].unit);
	table_cell(t, str_view(&text));
}

void table_write(struct str *out, const struct table *t, size_t columns)
{
	size_t before = 0; /* its first terminal column */
	for (size_t i = 0; i + 1 < t->columns; i++)
		before += t->width[i] + GAP;
	size_t end = columns;
	while (end < before + LAST_MIN)
		end += columns + 1; /* a continued line also uses the last column */
	size_t room = end - before;
	for (size_t i = 0; i < t->n; i++) {
		struct span text = span_of(t->cell[i]);
		if ((i + 1) % t->columns == 0) {
			bool fits = visible_width(text) <= room;
			str_span(out, fits ? text : visible_cut(text, room - 3));
			str_puts(out, fits ? "\n" : "...\n");
			continue;
		}
		state_put(out, text, t->states && i % t->columns == t->states);
		str_printf(out, "%*s", (int)(t->width[i % t->columns] - visible_width(text) + GAP),
		           "");
	}
}

void table_csv(struct str *out, const struct table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct span text = span_of(strcmp(t->cell[i], "-") == 0 ? "" : t->cell[i]);
		bool quotes = span_skip_class(text, 0, "^,\"") < text.n;
		str_puts(out, quotes ? "\"" : "");
		for (size_t k = 0; k < text.n; k++)
			str_put(out, text.p[k] == '"' ? "\"\"" : text.p + k,
			        text.p[k] == '"' ? 2 : 1);
		str_puts(out, quotes ? "\"" : "");
		str_puts(out, (i + 1) % t->columns ? "," : "\n");
	}
}

void table_done(struct table *t)
{
	free(t->cell);
	arena_done(&t->arena);
}

int table_print(struct table *t)
{
	STR_AUTO out = STR_INIT(TABLE_MAX);
	table_write(&out, t, output_columns());
	table_done(t);
	return remote_print(str_view(&out));
}
