/* The log of a container in CRI format. */
#include "runtime-assets/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"

enum { PREFIX_MAX = 64 };

enum { SHIM_BEFORE = SHIM_STREAMS }; /* the first line of a file that is not the first one */
static const char *const STREAM_NAMES[] = { "stdout", "stderr", "before" };

static void shim_log_reopen(struct shim_log *l)
{
	int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	struct stat st;
	l->fd = openat(l->dir, l->name, flags, 0600);
	l->size = l->fd >= 0 && fstat(l->fd, &st) == 0 ? st.st_size : 0;
	if (l->fd < 0)
		l->error = errno;
}

void shim_log_open(struct shim_log *l, int dir, const char *name)
{
	l->dir = dir;
	l->name = name;
	l->lost = l->written[0] = l->written[1] = 0;
	shim_log_reopen(l);
}

/* Writes all, or nothing: a line that is cut would break the next one. */
static int shim_log_put(struct shim_log *l, struct span text)
{
	if (l->fd < 0)
		shim_log_reopen(l);
	if (l->fd < 0)
		return -1;
	if (fd_write_all(l->fd, text) == 0) {
		l->size += (int64_t)text.n;
		return 0;
	}
	l->error = errno;
	(void)!ftruncate(l->fd, l->size);
	return -1;
}

/* The time of the lines that follow. */
static void shim_log_now(struct shim_log *l)
{
	struct timespec now = { 0 };
	char text[RFC3339_MAX];
	(void)clock_gettime(CLOCK_REALTIME, &now);
	rfc3339_put(text, now.tv_sec * INT64_C(1000), 0);
	(void)snprintf(l->stamp, sizeof(l->stamp), "%.19s.%09ldZ ", text, now.tv_nsec);
}

/* A line that is no output of the container. */
static int shim_log_message(struct shim_log *l, int stream, const char *text)
{
	char line[PREFIX_MAX + 128];
	(void)snprintf(line, sizeof(line), "%s%s F %s\n", l->stamp, STREAM_NAMES[stream], text);
	return shim_log_put(l, span_of(line));
}

/* The file before the last one is gone then: the new one begins with the numbers of bytes of
 * standard output and standard error before it. */
static void shim_log_rotate(struct shim_log *l)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%s.1", l->name);
	if (renameat(l->dir, l->name, l->dir, text) != 0)
		return; /* the log grows */
	close(l->fd);
	shim_log_reopen(l);
	(void)snprintf(text, sizeof(text), "%llu %llu", (unsigned long long)l->written[0],
	               (unsigned long long)l->written[1]);
	(void)shim_log_message(l, SHIM_BEFORE, text);
}

/* Says after a failure how much is missing. */
static int shim_log_tell_lost(struct shim_log *l)
{
	char text[128];
	shim_log_now(l);
	(void)snprintf(text, sizeof(text), "[%llu bytes of output are lost: %.80s]",
	               (unsigned long long)l->lost, strerror(l->error));
	if (shim_log_message(l, 1, text))
		return -1;
	l->lost = 0;
	l->written[1] += strlen(text) + 1;
	return 0;
}

/* Writes lines that are complete. */
static void shim_log_flush(struct shim_log *l)
{
	if (l->n == 0)
		return;
	if (l->size > 0 && l->size + (int64_t)l->n > SHIM_LOG_MAX && !l->whole)
		shim_log_rotate(l);
	bool lost =
	    (l->lost && shim_log_tell_lost(l)) || shim_log_put(l, (struct span){ l->out, l->n });
	for (int i = 0; i < SHIM_STREAMS; i++) {
		*(lost ? &l->lost : &l->written[i]) += l->n_output[i];
		l->n_output[i] = 0;
	}
	l->n = 0;
}

static void shim_log_line(struct shim_log *l, int stream, bool whole)
{
	const struct span parts[] = { span_of(l->stamp),
		                      span_of(STREAM_NAMES[stream]),
		                      whole ? SPAN(" F ") : SPAN(" P "),
		                      { l->line[stream].text, l->line[stream].n },
		                      SPAN("\n") };
	if (sizeof(l->out) - l->n < PREFIX_MAX + l->line[stream].n)
		shim_log_flush(l);
	/* There can be a line for each byte of output. */
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		memcpy(l->out + l->n, parts[i].p, parts[i].n);
		l->n += parts[i].n;
	}
	l->n_output[stream] += l->line[stream].n + whole;
	l->line[stream].n = 0;
}

void shim_log_write(struct shim_log *l, int stream, struct span text)
{
	shim_log_now(l);
	while (text.n > 0) {
		size_t end = span_chr(text, '\n');
		size_t room = SHIM_LINE_MAX - l->line[stream].n;
		size_t n = end < room ? end : room;
		memcpy(l->line[stream].text + l->line[stream].n, text.p, n);
		l->line[stream].n += n;
		bool whole = n == end && end < text.n;
		if (whole || l->line[stream].n == SHIM_LINE_MAX)
			shim_log_line(l, stream, whole);
		text = span_from(text, n + whole);
	}
	if (l->whole && l->line[stream].n > 0) /* a command's: a reader sees it as it comes */
		shim_log_line(l, stream, false);
	shim_log_flush(l);
}

void shim_log_close(struct shim_log *l)
{
	for (int i = 0; i < SHIM_STREAMS; i++) {
		if (l->line[i].n > 0)
			shim_log_line(l, i, true);
	}
	shim_log_flush(l);
	if (l->lost)
		(void)shim_log_tell_lost(l);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}
