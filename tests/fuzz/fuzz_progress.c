/*
 * What a server answers of a job, as the command line shows it.  The first byte is the width of the
 * terminal, the second its height; the rest the answer, and also lines of a log.  Whatever it is,
 * nothing that is shown can draw on a terminal, or is wider than it.
 */
#include "server/cli/cli_internal.h"
#include "tests/fuzz/fuzz.h"

enum { OUTPUT_MAX = 16 << 20, LINE_MAX_BYTES = 100 };

/* No control character but tabs, and LF where there are lines. */
static void check_visible(struct span text, bool lines)
{
	for (size_t i = 0; i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];
		unsigned char next = i + 1 < text.n ? (unsigned char)text.p[i + 1] : 0xff;
		assert(c >= ' ' || c == '\t' || (lines && c == '\n'));
		assert(c != 0x7f && (c != 0xc2 || next >= 0xa0));
	}
}

static void check_block(struct span text, const struct progress_frame *f)
{
	size_t rows = 0;
	for (size_t n; text.n; rows++) {
		const char *end = memchr(text.p, '\n', text.n);
		assert(end);
		n = (size_t)(end - text.p);
		assert(visible_width((struct span){ text.p, n }) <= f->columns);
		text = (struct span){ end + 1, text.n - n - 1 };
	}
	assert(rows <= f->rows);
}

static void show(struct span answer, const struct progress_frame *f)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct progress p;
	if (progress_read(&p, answer, &a, &e) < 0)
		return;
	STR_AUTO line = STR_INIT(OUTPUT_MAX);
	STR_AUTO block = STR_INIT(OUTPUT_MAX);
	STR_AUTO verdict = STR_INIT(OUTPUT_MAX);
	progress_line(&line, &p);
	check_visible(str_view(&line), false);
	progress_block(&block, &p, f);
	check_visible(str_view(&block), true);
	check_block(str_view(&block), f);
	progress_verdict(&verdict, &p, f->job);
	check_visible(str_view(&verdict), true);
}

static void take_line(void *arg, struct span line, bool cut)
{
	size_t *n = arg;
	STR_AUTO out = STR_INIT(OUTPUT_MAX);
	assert(line.n <= LINE_MAX_BYTES && !memchr(line.p, '\n', line.n));
	visible_text(&out, visible_part(line));
	check_visible(str_view(&out), false);
	*n += line.n + cut;
}

FUZZ(text)
{
	if (text.n < 2)
		return;
	struct progress_frame f = { .job = "alice~job", .now_ms = 1795000000000 };
	f.columns = 20 + fuzz_byte(&text) % 200;
	f.rows = 1 + fuzz_byte(&text) % 40;
	struct line_splitter lines = LINES_INIT(LINE_MAX_BYTES);
	size_t n = 0;
	show(text, &f);
	lines_feed(&lines, text, take_line, &n);
	lines_end(&lines, take_line, &n);
	str_done(&lines.line);
	assert(n <= text.n + 2);
}
