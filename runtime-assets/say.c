#include "runtime-assets/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/time.h"
#include "runtime-assets/files.h"

enum { LINE_MAX_BYTES = 4096, LOGS_MAX = 2 };

static struct {
	int fd[LOGS_MAX];
	int n;
} logs;

static const char *const LEVELS[] = {
	[SAY_INFO] = "", [SAY_WARNING] = "warning: ", [SAY_ERROR] = "error: "
};

int say_open(const char *path)
{
	if (logs.n == LOGS_MAX) {
		errno = EMFILE;
		return -1;
	}
	int fd = file_open(path, O_WRONLY | O_APPEND | O_CREAT);
	if (fd < 0)
		return -1;
	logs.fd[logs.n++] = fd;
	return 0;
}

void say_close(void)
{
	if (logs.n > 0)
		close(logs.fd[--logs.n]);
}

/* A control character could forge a line or move the cursor. */
static void say_blank(char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = ' ';
	}
}

/* `run` puts the time and the name of the program before each line of its plugins. */
static size_t say_prefix(char *out, size_t size, const char *level)
{
	if (logs.n == 0 && getenv("RUNTIME_LOG_PIPE")) /* NOLINT(concurrency-mt-unsafe) */
		return (size_t)snprintf(out, size, "%s", level);
	char now_text[RFC3339_MAX];
	int n = snprintf(out, size, "%s [openpai-runtime] %s",
	                 rfc3339_put(now_text, clock_wall_ms(), 0), level);
	return n < 0 ? 0 : (size_t)n;
}

void say(enum say_level level, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	size_t n = say_prefix(line, sizeof(line), LEVELS[level]);
	va_list args;
	va_start(args, fmt);
	int more = vsnprintf(line + n, sizeof(line) - n - 1, fmt, args);
	va_end(args);
	if (more < 0)
		return;
	size_t end = n + (size_t)more;
	if (end > sizeof(line) - 2)
		end = sizeof(line) - 2;
	say_blank(line, end);
	line[end++] = '\n';
	(void)fd_write_all(STDERR_FILENO, (struct span){ line, end });
	for (int i = 0; i < logs.n; i++)
		(void)fd_write_all(logs.fd[i], (struct span){ line, end });
}

void say_notes(const struct notes *n)
{
	for (size_t i = 0; i < n->n; i++)
		say(SAY_WARNING, "%s", n->v[i].msg);
	if (n->dropped)
		say(SAY_WARNING, "and %zu more of that kind", n->dropped);
}
