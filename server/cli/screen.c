#include "server/cli/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "server/cli/lines.h"

enum { BLOCK_MAX = 256 * 1024, COLUMNS = 80, ROWS = 24, COLUMNS_MIN = 20, ROWS_MIN = 4 };

static bool can_draw(void)
{
	const char *term = getenv("TERM");      /* NOLINT(concurrency-mt-unsafe): one thread */
	const char *plain = getenv("NO_COLOR"); /* NOLINT(concurrency-mt-unsafe): one thread */
	return isatty(STDERR_FILENO) && term && term[0] && strcmp(term, "dumb") != 0 &&
	       !(plain && plain[0]);
}

void screen_init(struct screen *s)
{
	*s = (struct screen){ .block = can_draw(), .terminal = isatty(STDOUT_FILENO) };
	s->text = (struct str)STR_INIT(BLOCK_MAX);
}

static struct winsize size_of_terminal(void)
{
	struct winsize w = { 0 };
	if ((ioctl(STDERR_FILENO, TIOCGWINSZ, &w) < 0 &&
	     ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0) ||
	    w.ws_col == 0 || w.ws_row == 0)
		return (struct winsize){ .ws_col = COLUMNS, .ws_row = ROWS };
	return w;
}

/* One less than there are: in the last one terminals differ. */
size_t screen_columns(void)
{
	size_t n = size_of_terminal().ws_col;
	return (n < COLUMNS_MIN ? COLUMNS_MIN : n) - 1;
}

size_t screen_rows(void)
{
	size_t n = size_of_terminal().ws_row;
	return (n < ROWS_MIN ? ROWS_MIN : n) - 1;
}

/* Nothing helps if standard error takes nothing. */
static void put(struct span text)
{
	(void)fwrite(text.p, 1, text.n, stderr);
}

static void erase(struct screen *s)
{
	if (s->drawn)
		(void)fprintf(stderr, "\x1b[%zuA\r\x1b[J", s->drawn);
	s->drawn = 0;
}

void screen_done(struct screen *s)
{
	erase(s);
	str_done(&s->text);
}

void screen_say(struct screen *s, struct span line)
{
	erase(s);
	put(line);
	put(SPAN("\n"));
}

void screen_tell(struct screen *s, struct span line)
{
	char clock[sizeof("00:00:00 ")];
	time_t now = time(NULL);
	struct tm t;
	size_t n = strftime(clock, sizeof(clock), "%T ", localtime_r(&now, &t));
	erase(s);
	put((struct span){ clock, n });
	screen_say(s, line);
}

void screen_log(struct screen *s, const char *prefix, struct span line, bool cut)
{
	STR_AUTO out = STR_INIT(BLOCK_MAX + 8 * line.n);
	erase(s);
	str_puts(&out, prefix);
	if (s->terminal)
		visible_text(&out, visible_part(line));
	else
		str_span(&out, line);
	str_puts(&out, cut ? " ...\n" : "\n");
	s->lost |= fwrite(out.p, 1, out.n, stdout) != out.n;
	s->lost |= s->block && fflush(stdout) != 0; /* before what is drawn below it */
}

void screen_block(struct screen *s, struct span text)
{
	if (!s->block || span_eq(str_view(&s->text), text))
		return;
	erase(s);
	s->text.n = 0;
	str_span(&s->text, text);
}

void screen_show(struct screen *s)
{
	s->lost |= fflush(stdout) != 0;
	if (!s->block || s->drawn || s->text.n == 0)
		return;
	for (size_t i = 0; i < s->text.n; i++)
		s->drawn += s->text.p[i] == '\n';
	put(str_view(&s->text));
}
