/* Logs as texts: the end of one or two files, a window of it in memory. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime-assets/exit/exit_inner.h"

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
