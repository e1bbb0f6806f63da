/* Writes lines that a pipe takes whole, and counts those that it does not take. */
#include "server/state/log.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/time.h"

/* LINE_MAX_BYTES is PIPE_BUF: a pipe takes a write of this size completely or not at all. */
enum { LINE_MAX_BYTES = 4096, VALUE_MAX = 1024 };

static int log_fd = STDERR_FILENO;
static bool may_be_full = true; /* a pipe or terminal, not a file */
static atomic_long dropped;

/* Lines of this thread that are not written yet. */
static _Thread_local struct {
	bool on;
	size_t n;
	long lines; /* of text, and those that it reports as dropped */
	char text[LINE_MAX_BYTES];
} collected;

void log_init(int fd)
{
	log_fd = fd;
	struct stat about;
	may_be_full = fstat(fd, &about) < 0 || !S_ISREG(about.st_mode);
}

static void key_text(struct line *l, const char *key)
{
	str_printf(&l->text, "%s\"%s\":", l->text.n > 1 ? "," : "", key);
}

void log_text(struct line *l, const char *key, struct span value)
{
	size_t before = l->text.n;
	key_text(l, key);
	/* The text may be invalid UTF-8: replace all bytes above ASCII. */
	STR_AUTO safe = STR_INIT(VALUE_MAX);
	for (size_t i = 0; i < value.n && i < VALUE_MAX; i++)
		str_put(&safe, (value.p[i] & 0x80) != 0 ? "?" : value.p + i, 1);
	str_json(&l->text, str_view(&safe));
	if (l->text.full) { /* omit a field that does not fit */
		l->text.n = before;
		l->text.full = false;
	}
}

void log_int(struct line *l, const char *key, int64_t value)
{
	key_text(l, key);
	str_int(&l->text, value);
}

void log_ms(struct line *l, const char *key, int64_t us)
{
	key_text(l, key);
	str_printf(&l->text, "%ld.%03ld", (long)(us / 1000), (long)(us % 1000));
}

struct line log_begin(enum log_level level, const char *message)
{
	static const char *const LEVELS[] = { "info", "warn", "error" };
	struct line l = { STR_INIT(LINE_MAX_BYTES - 2), level };
	str_char(&l.text, '{');
	char time[RFC3339_MAX];
	key_text(&l, "time");
	str_printf(&l.text, "\"%s\"", rfc3339_put(time, clock_wall_ms(), 3));
	log_text(&l, "level", span_of(LEVELS[level]));
	log_text(&l, "msg", span_of(message));
	return l;
}

/* The lines belong to the calling thread. */
void log_collect(void)
{
	collected.on = true;
}

void log_flush(void)
{
	struct pollfd out = { .fd = log_fd, .events = POLLOUT };
	if (collected.n == 0)
		return;
	bool room = !may_be_full || (poll(&out, 1, 0) == 1 && (out.revents & POLLOUT));
	if (!room || write(log_fd, collected.text, collected.n) < 0)
		atomic_fetch_add(&dropped, collected.lines);
	collected.n = 0;
	collected.lines = 0;
}

void log_end(struct line *l)
{
	long missed = atomic_exchange(&dropped, 0);
	if (missed)
		log_int(l, "dropped_lines", missed);
	l->text.max += 2; /* reserved for the end */
	l->text.full = false;
	str_puts(&l->text, "}\n");
	if (l->text.n > sizeof(collected.text) - collected.n)
		log_flush();
	memcpy(collected.text + collected.n, str_c(&l->text), l->text.n);
	collected.n += l->text.n;
	collected.lines += missed + 1;
	if (!collected.on || l->level != LOG_INFO)
		log_flush();
	str_done(&l->text);
}

void log_event(enum log_level level, const char *message, const char *key, const char *value)
{
	struct line l = log_begin(level, message);
	if (key)
		log_text(&l, key, span_of(value));
	log_end(&l);
}
