/* Writes messages to standard error and to the open logs, without control characters. */
#include "runtime-assets/common/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/time.h"
#include "runtime-assets/common/files.h"

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

/* The logs are known here only. */
void say_close(void)
{
	if (logs.n > 0)
		close(logs.fd[--logs.n]);
}

void say_line(enum say_level level, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	char now[RFC3339_MAX];
	/* `run` puts the time and the name of the program before each line of its plugins. */
	bool bare = logs.n == 0 && getenv("RUNTIME_LOG_PIPE"); /* NOLINT(concurrency-mt-unsafe) */
	int n =
	    snprintf(line, sizeof(line), "%s%s%s", bare ? "" : rfc3339_put(now, clock_wall_ms(), 0),
	             bare ? "" : " [openpai-runtime] ", LEVELS[level]);
	va_list args;
	va_start(args, fmt);
	int more = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, args);
	va_end(args);
	if (n < 0 || more < 0)
		return;
	size_t end = (size_t)n + (size_t)more;
	if (end > sizeof(line) - 2)
		end = sizeof(line) - 2;
	/* A control character could forge a line or move the cursor. */
	for (size_t i = 0; i < end; i++) {
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = ' ';
	}
	line[end++] = '\n';
	(void)fd_write_all(STDERR_FILENO, (struct span){ line, end });
	for (int i = 0; i < logs.n; i++)
		(void)fd_write_all(logs.fd[i], (struct span){ line, end });
}

void say_notes(const struct notes *n)
{
	for (size_t i = 0; i < n->n; i++)
		say_line(SAY_WARNING, "%s", n->v[i].msg);
	if (n->dropped)
		say_line(SAY_WARNING, "and %zu more of that kind", n->dropped);
}
