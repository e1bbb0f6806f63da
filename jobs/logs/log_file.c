/* Files are opened at the start and kept open, so that a rename or removal takes nothing away. */
#include "jobs/logs/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"

enum {
	FILE_BUFFER = 16384,
	FILE_HEAD_MAX = 96,    /* bytes of a line before its text */
	FILE_WINDOW = 1 << 20, /* bytes that are searched for the last lines */
	FILE_READS_MAX = 64    /* without a piece, per call */
};

/* The place in a line. */
enum file_place { FILE_HEAD, FILE_TEXT, FILE_SKIP };

struct log_file {
	struct log_file_request r;
	int fd[LOG_FILES_MAX]; /* oldest first */
	size_t n, at;          /* fd[at] is being read */
	int64_t offset;        /* in it */
	int64_t position;      /* in the log: bytes before the next one */
	bool ended;            /* fd[] has all there will be */
	bool gap;              /* files between the last one and fd[0] are gone */
	bool early;            /* the line was written before r.since_ms */
	enum file_place place;
	bool partial;          /* the line ends with P */
	size_t head_n, blanks; /* of head */
	int64_t drop;          /* selected lines that are not delivered */
	size_t in_at, in_n;    /* of in */
	size_t out_n, times_n; /* bytes of out; of times among them */
	bool within;           /* the delivered bytes end within a line */
	int inotify, watch;    /* watch < 0: none */
	char head[FILE_HEAD_MAX], in[FILE_BUFFER], out[LOG_FILE_PIECE_MAX];
};

static void log_file_begin_line(struct log_file *f)
{
	f->place = FILE_HEAD;
	f->head_n = f->blanks = 0;
}

/* ---- files --------------------------------------------------------------------------------- */

/* -1 and errno; EINVAL for other things than files. */
static int log_file_open_one(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	if (fd >= 0) {
		(void)close(fd); /* nothing was written */
		errno = EINVAL;
	}
	return -1;
}

static bool log_file_is_same(int a, int b)
{
	struct stat x;
	struct stat y;
	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

static void log_file_close(const int *fd, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)close(fd[i]); /* nothing was written */
}

/* The latest first: a file that is renamed meanwhile is opened twice, and none is missed. */
static size_t log_file_open_all(const struct log_files *where, int *fd)
{
	size_t first = where->n;
	for (size_t i = where->n; i > 0; i--) {
		int one = log_file_open_one(where->path[i - 1]);
		if (one >= 0 && first < where->n && log_file_is_same(fd[first], one))
			log_file_close(&one, 1);
		else if (one >= 0)
			fd[--first] = one;
	}
	memmove(fd, fd + first, (where->n - first) * sizeof(*fd));
	return where->n - first;
}

/* The bytes before this file. */
static int64_t log_file_before_this(int fd, unsigned streams)
{
	char head[FILE_HEAD_MAX];
	int64_t out = 0;
	int64_t err = 0;
	ssize_t got = pread(fd, head, sizeof(head), 0);
	struct span rest = { head, got > 0 ? (size_t)got : 0 };
	struct span line = span_next(&rest, '\n');
	(void)span_next(&line, ' '); /* the time */
	struct span stream = span_next(&line, ' ');
	(void)span_next(&line, ' '); /* F */
	struct span first = span_next(&line, ' ');
	if (!span_is(stream, "before") || parse_i64(first, 0, INT64_MAX / 2, &out) < 0 ||
	    parse_i64(line, 0, INT64_MAX / 2, &err) < 0)
		return 0;
	return (streams & LOG_FILE_STDOUT ? out : 0) + (streams & LOG_FILE_STDERR ? err : 0);
}

int64_t log_file_before(const struct log_files *files, unsigned streams)
{
	int fd[LOG_FILES_MAX];
	size_t n = log_file_open_all(files, fd);
	int64_t bytes = n ? log_file_before_this(fd[0], streams) : 0;
	log_file_close(fd, n);
	return bytes;
}

/* Opens the files; a log that moves meanwhile is looked for again.  The number of files. */
static size_t log_file_find(const struct log_file_request *r, bool *known, bool *ended, int *fd)
{
	size_t n = 0;
	*known = true;
	for (int tries = 0; tries < 2 && *known && n == 0; tries++) {
		ARENA_AUTO a = { 0 };
		struct log_files where = { .n = 0 };
		*known = r->find(r->arg, &a, &where);
		*ended = where.ended || !*known;
		if (*known)
			n = log_file_open_all(&where, fd);
	}
	return n;
}

/* Looks for files that follow the last one.  They replace all that were read. */
static bool log_file_look(struct log_file *f)
{
	int fd[LOG_FILES_MAX];
	bool there;
	size_t n = log_file_find(&f->r, &there, &f->ended, fd);
	size_t known = n; /* the place of our last file, or n: it is older than all */
	for (size_t i = 0; i < n; i++)
		if (log_file_is_same(f->fd[f->at], fd[i]))
			known = i;
	size_t first = known == n ? 0 : known + 1;
	log_file_close(fd, first);
	if (first == n)
		return false;
	log_file_close(f->fd, f->n);
	f->gap = known == n &&
	         (f->r.lines > 0 || log_file_before_this(fd[0], f->r.streams) != f->position);
	f->n = n - first;
	memcpy(f->fd, fd + first, f->n * sizeof(*fd));
	f->at = 0;
	f->offset = 0;
	log_file_begin_line(f); /* the writer ends a file with a whole line */
	return true;
}

/* ---- lines --------------------------------------------------------------------------------- */

/* Takes bytes of the head, `TIME stdout F `, which ends at the third blank; returns their number.
 */
static size_t log_file_take_head(struct log_file *f, struct span s)
{
	size_t n = 0;
	while (n < s.n && f->blanks < 3 && s.p[n] != '\n' && f->head_n < sizeof(f->head)) {
		f->blanks += s.p[n] == ' ';
		f->head[f->head_n++] = s.p[n++];
	}
	if (f->blanks == 3) {
		struct span rest = { f->head, f->head_n };
		struct span time = span_next(&rest, ' ');
		struct span stream = span_next(&rest, ' ');
		int64_t ms;
		unsigned bit = span_is(stream, "stdout")   ? LOG_FILE_STDOUT
		               : span_is(stream, "stderr") ? LOG_FILE_STDERR
		                                           : 0;
		f->partial = span_starts(rest, "P");
		f->place = f->r.streams & bit ? FILE_TEXT : FILE_SKIP;
		f->early = f->r.since_ms && rfc3339_read(time, &ms) && ms < f->r.since_ms;
		if (!f->early && bit)
			f->r.since_ms = 0; /* all that follows is wanted */
	} else if (f->head_n == sizeof(f->head)) {
		f->place = FILE_SKIP;
	} else if (n < s.n) {
		log_file_begin_line(f);
		n++;
	}
	return n;
}

/* Bytes of out for text and ends of lines; the rest is for the time of a line. */
static size_t log_file_room(const struct log_file *f)
{
	return sizeof(f->out) - (f->r.times ? FILE_HEAD_MAX : 0);
}

/* Takes bytes of a line, for which there is room; before the first ones its time, if wanted. */
static void log_file_put(struct log_file *f, struct span text)
{
	int64_t skip = f->drop || f->early ? INT64_MAX : f->r.from - f->position;
	size_t skipped = skip <= 0 ? 0 : skip < (int64_t)text.n ? (size_t)skip : text.n;
	f->position += (int64_t)text.n;
	text = span_from(text, skipped);
	if (text.n == 0)
		return;
	if (f->r.times && !f->within) {
		size_t time = span_chr((struct span){ f->head, f->head_n }, ' ') + 1;
		memcpy(f->out + f->out_n, f->head, time);
		f->out_n += time;
		f->times_n += time;
	}
	f->within = text.p[text.n - 1] != '\n';
	memcpy(f->out + f->out_n, text.p, text.n);
	f->out_n += text.n;
}

/* Takes bytes from `in` until `out` is full or `in` is empty. */
static void log_file_take(struct log_file *f)
{
	while (f->in_at < f->in_n && f->out_n < log_file_room(f)) {
		struct span rest = { f->in + f->in_at, f->in_n - f->in_at };
		if (f->place == FILE_HEAD) {
			f->in_at += log_file_take_head(f, rest);
			continue;
		}
		size_t n = span_chr(rest, '\n');
		size_t room = log_file_room(f) - f->out_n;
		if (f->place == FILE_TEXT && n >= room)
			n = room;
		if (f->place == FILE_TEXT)
			log_file_put(f, span_to(rest, n));
		f->in_at += n;
		if (n == rest.n || f->out_n >= log_file_room(f))
			continue;
		if (f->place == FILE_TEXT && rest.p[n] != '\n')
			continue; /* of a long line that is skipped */
		if (f->place == FILE_TEXT && !f->partial) {
			log_file_put(f, SPAN("\n"));
			f->drop -= f->drop > 0 && !f->early;
		}
		log_file_begin_line(f);
		f->in_at++;
	}
}

/* Reads more.  0: the end of all files; -1: an error. */
static int log_file_fill(struct log_file *f)
{
	for (; f->at < f->n; f->at++, f->offset = 0) {
		ssize_t n = pread(f->fd[f->at], f->in, sizeof(f->in), f->offset);
		if (n < 0)
			return -1;
		if (n > 0) {
			f->in_at = 0;
			f->in_n = (size_t)n;
			f->offset += n;
			return 1;
		}
		if (f->at + 1 == f->n)
			break;
		log_file_begin_line(f);
	}
	return 0;
}

/* ---- the last lines ------------------------------------------------------------------------ */

/* Goes to the beginning of the last FILE_WINDOW bytes. */
static void log_file_rewind(struct log_file *f)
{
	int64_t left = FILE_WINDOW;
	f->at = f->n;
	f->offset = 0;
	while (f->at > 0 && left > 0) {
		struct stat st;
		f->at--;
		if (fstat(f->fd[f->at], &st) < 0)
			st.st_size = 0;
		f->offset = st.st_size > left ? st.st_size - left : 0;
		left -= st.st_size;
	}
	log_file_begin_line(f);
	if (f->offset)
		f->place = FILE_SKIP; /* within a line */
	f->in_n = f->in_at = f->out_n = 0;
}

/* The position is that of a part of the log then. */
static void log_file_skip(struct log_file *f)
{
	int64_t budget = FILE_WINDOW; /* text that is written meanwhile is not counted */
	int64_t since_ms = f->r.since_ms;
	log_file_rewind(f);
	f->drop = INT64_MAX;
	while (budget > 0 && log_file_fill(f) > 0) {
		budget -= (int64_t)f->in_n;
		log_file_take(f);
	}
	int64_t lines = INT64_MAX - f->drop;
	log_file_rewind(f);
	f->drop = lines > f->r.lines ? lines - f->r.lines : 0;
	f->r.since_ms = since_ms;
}

/* ---- life ---------------------------------------------------------------------------------- */

struct log_file *log_file_open(const struct log_file_request *r, int *status)
{
	bool known;
	struct log_file *f = xcalloc(1, sizeof(*f));
	f->r = *r;
	f->watch = -1;
	f->n = log_file_find(r, &known, &f->ended, f->fd);
	if (f->n == 0) {
		*status = known && !f->ended ? 400 : 404;
		free(f);
		return NULL;
	}
	f->position = log_file_before_this(f->fd[0], r->streams);
	if (r->lines > 0)
		log_file_skip(f);
	return f;
}

void log_file_free(struct log_file *f)
{
	if (!f)
		return;
	if (f->watch >= 0)
		(void)inotify_rm_watch(f->inotify, f->watch); /* it may have ended */
	log_file_close(f->fd, f->n);
	free(f);
}

enum log_file_state log_file_next(struct log_file *f, struct span *piece)
{
	f->out_n = f->times_n = 0;
	for (int reads = 0; reads < FILE_READS_MAX && f->out_n < log_file_room(f);) {
		if (f->in_at < f->in_n) {
			log_file_take(f);
			continue;
		}
		bool ended = f->ended; /* before the last read */
		int more = log_file_fill(f);
		reads++;
		if (more < 0)
			return LOG_FILE_BROKEN;
		if (more > 0)
			continue;
		if (f->out_n)
			break;
		if (!f->r.follow || ended)
			return LOG_FILE_END;
		if (!log_file_look(f) && !f->ended) /* if it has ended: reads once more */
			return LOG_FILE_QUIET;
		if (f->gap) /* its reader begins again, and sees what is missing */
			return LOG_FILE_BROKEN;
	}
	*piece = (struct span){ f->out, f->out_n };
	return LOG_FILE_PIECE;
}

int64_t log_file_offset(const struct log_file *f)
{
	int64_t at = f->position - (int64_t)(f->out_n - f->times_n);
	return f->r.lines > 0 ? -1 : at < f->r.from ? f->r.from : at;
}

bool log_file_watch(struct log_file *f, int inotify)
{
	enum { CHANGES = IN_MODIFY | IN_MOVE_SELF | IN_DELETE_SELF | IN_ONESHOT };
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd[f->n - 1]); /* it fits */
	f->inotify = inotify;
	f->watch = inotify_add_watch(inotify, path, CHANGES);
	return f->watch >= 0;
}
