/* Writes and rotates the logs of a task, in directories into which the job can put anything. */
#include "runtime-assets/run/run_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/pod/first_line.h"
#include "base/time.h"
#include "runtime-assets/net/http.h"

enum {
	ASIDE_MAX = 100,   /* names tried for an entry that is moved aside */
	SCAN_MAX = 10000,  /* entries looked at for older logs */
	SCAN_PIECE = 4096, /* bytes of runtime.log that get their prefixes at once */
	TAI64N_LEN = 25,   /* "@" and 24 digits */
	RETRY_MS = 1000
};

#define OPEN_LOG (O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* ---- other entries in the way ---------------------------------------------------------------- */

/* Renames the entry of this name.  -1 and errno. */
static int logs_move_aside(struct logs *l, int dir, const char *name)
{
	char aside[64];
	for (int i = 0; i < ASIDE_MAX; i++) {
		struct stat st;
		snprintf(aside, sizeof(aside), "%s.aside-%d", name, i);
		if (fstatat(dir, aside, &st, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (renameat(dir, name, dir, aside) != 0)
			return -1;
		notes_add(&l->notes, NOWHERE, "in the log directory, %s is not a log: it is now %s",
		          name, aside);
		return 0;
	}
	errno = EEXIST;
	return -1;
}

/* Errors of open() caused by the existing entry. */
static bool logs_is_obstacle(int error)
{
	return error == ELOOP || error == EISDIR || error == ENXIO || error == ENOTDIR ||
	       error == EACCES || error == EEXIST;
}

/* Opens or makes a regular file with one name, for appending.  -1 and errno. */
static int logs_open_regular(struct logs *l, int dir, const char *name, struct stat *st)
{
	for (int tries = 0; tries < 2; tries++) {
		int fd = openat(dir, name, OPEN_LOG | O_CREAT, 0644);
		if (fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_nlink == 1) {
			(void)fchmod(fd, 0644); /* not limited by the umask */
			return fd;
		}
		int error = fd < 0 ? errno : ELOOP;
		if (fd >= 0)
			close(fd);
		if (!logs_is_obstacle(error) || logs_move_aside(l, dir, name)) {
			errno = error;
			return -1;
		}
	}
	return -1;
}

/* Opens or makes a directory.  -1 and errno. */
static int logs_open_directory(struct logs *l, int dir, const char *name)
{
	for (int tries = 0; tries < 2; tries++) {
		int made = mkdirat(dir, name, 0755);
		int error = errno;
		int fd = openat(dir, name, OPEN_DIR);
		if (fd >= 0) {
			if (made == 0)
				(void)fchmod(fd, 0755); /* not limited by the umask */
			return fd;
		}
		if (errno == ENOENT) /* the error of mkdir is the cause */
			errno = error;
		error = errno;
		if (!logs_is_obstacle(error) || error == EACCES || logs_move_aside(l, dir, name)) {
			errno = error;
			return -1;
		}
	}
	return -1;
}

/* The parent is a mount of the kubelet. */
static int logs_open_root(struct logs *l, const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash) {
		errno = ENOENT;
		return -1;
	}
	FREE_AUTO char *parent = xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
	ERR_AUTO ignored = { 0 };
	if (access(parent, F_OK) != 0)
		(void)dir_make(parent, 0755, &ignored); /* open reports it */
	FD_AUTO above = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return above < 0 ? -1 : logs_open_directory(l, above, slash + 1);
}

/* ---- one log -------------------------------------------------------------------------------- */

static void logs_lose(struct logs *l, struct capped_log *f, size_t n, int error)
{
	f->lost += n;
	f->error = error;
	if (f->said)
		return;
	f->said = true;
	notes_add(&l->notes, NOWHERE, "%s cannot be written (%s): output is missing there", f->name,
	          strerror(error));
}

static void logs_open_file(struct logs *l, struct capped_log *f, int dir, const char *name)
{
	struct stat st;
	f->fd = logs_open_regular(l, dir, name, &st);
	if (f->fd < 0) {
		logs_lose(l, f, 0, errno);
		f->retry_ms = clock_ms() + RETRY_MS;
		return;
	}
	/* A continued log begins a new line. */
	char last;
	if (st.st_size > 0 && pread(f->fd, &last, 1, st.st_size - 1) == 1 && last != '\n')
		(void)!write(f->fd, "\n", 1);
	f->size = fstat(f->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Finds the newest rotated log of earlier runs and removes the others. */
static void logs_find_old_file(struct capped_log *f)
{
	DIR_AUTO *dir = dir_list(f->dir, ".");
	const char *name;
	for (int i = 0; i < SCAN_MAX && (name = dir_next(dir)); i++) {
		if (name[0] != '@' || strspn(name + 1, "0123456789abcdef") != TAI64N_LEN - 1 ||
		    strcmp(name + TAI64N_LEN, ".s") != 0)
			continue;
		bool newer = strcmp(name, f->old_name) > 0;
		const char *older = newer ? f->old_name : name;
		if (*older)
			(void)unlinkat(f->dir, older, 0); /* directories stay */
		if (newer)
			snprintf(f->old_name, sizeof(f->old_name), "%.*s.s", TAI64N_LEN, name);
	}
	struct stat st;
	f->old = *f->old_name ? openat(f->dir, f->old_name, OPEN_LOG & ~(O_RDWR | O_APPEND)) : -1;
	if (f->old >= 0 && (fstat(f->old, &st) != 0 || !S_ISREG(st.st_mode))) {
		close(f->old);
		f->old = -1;
	}
}

/* Renames `current`, removes the older file, and opens a new one. */
static void logs_rotate(struct logs *l, struct capped_log *f)
{
	/* TAI64N of now, as in multilog, with TAI ten seconds ahead. */
	char name[32];
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	unsigned long long seconds = 4611686018427387914ULL + (unsigned long long)now.tv_sec;
	snprintf(name, sizeof(name), "@%016llx%08lx.s", seconds, (unsigned long)now.tv_nsec);
	/* The open file must still be `current`. */
	struct stat ours;
	struct stat there;
	if (fstat(f->fd, &ours) == 0 &&
	    fstatat(f->dir, "current", &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	    ours.st_dev == there.st_dev && ours.st_ino == there.st_ino) {
		if (renameat(f->dir, "current", f->dir, name) != 0) {
			/* The file would grow without limit. */
			logs_lose(l, f, 0, errno);
			close(f->fd);
			f->fd = -1;
			f->retry_ms = INT64_MAX;
			return;
		}
		(void)fchmod(f->fd, 0744); /* a mark for readers, as in multilog */
		if (*f->old_name)
			(void)unlinkat(f->dir, f->old_name, 0); /* gone already: fine */
		memcpy(f->old_name, name, sizeof(name));
	}
	if (f->old >= 0)
		close(f->old);
	f->old = f->fd;
	logs_open_file(l, f, f->dir, "current");
}

/* Returns the number of bytes that fit into `current`; *full: the caller rotates it then. */
static size_t logs_share(const struct capped_log *f, struct span text, bool *full)
{
	uint64_t room = f->limit > f->size ? f->limit - f->size : 0;
	uint64_t soft = f->limit - LOG_SLACK;
	*full = false;
	if (f->size + text.n < soft)
		return text.n;
	size_t most = text.n < room ? text.n : (size_t)room;
	size_t from = soft > f->size + 1 ? (size_t)(soft - f->size - 1) : 0;
	const char *newline = from < most ? memchr(text.p + from, '\n', most - from) : NULL;
	*full = newline || most == room;
	return newline ? (size_t)(newline - text.p) + 1 : most;
}

/* false: not written completely; the rest is counted as lost. */
static bool logs_append(struct logs *l, struct capped_log *f, struct span text)
{
	while (text.n > 0) {
		ssize_t n = write(f->fd, text.p, text.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			logs_lose(l, f, text.n, n < 0 ? errno : EIO);
			return false;
		}
		f->size += (uint64_t)n;
		text = span_from(text, (size_t)n);
	}
	return true;
}

void logs_write(struct logs *l, enum output_name which, struct span text)
{
	struct capped_log *f = &l->user[which];
	if (f->fd < 0 && f->dir >= 0 && clock_ms() >= f->retry_ms)
		logs_open_file(l, f, f->dir, "current");
	while (text.n > 0 && f->fd >= 0) {
		bool full;
		size_t n = logs_share(f, text, &full);
		bool written = logs_append(l, f, span_to(text, n));
		text = span_from(text, n);
		if (full && written)
			logs_rotate(l, f);
	}
	if (text.n > 0)
		logs_lose(l, f, text.n, f->error);
}

/* ---- runtime.log -------------------------------------------------------------------------- */

/* The log of the container, and its end that is kept, have the lines, too. */
static void logs_copy_out(struct logs *l, struct span text)
{
	stdio_writer_put(l->copy, text);
	if (l->tail)
		tail_add(l->tail, TAIL_STDERR, text);
}

static void logs_prefix_lines(struct logs *l, struct span text)
{
	STR_AUTO out = STR_INIT((size_t)SCAN_PIECE * 64);
	if (l->copy->mid_line && !l->mid_line) /* the task's last line has no end */
		logs_copy_out(l, SPAN("\n"));
	while (text.n > 0) {
		size_t end = span_chr(text, '\n');
		size_t n = end < text.n ? end + 1 : end;
		char date[RFC3339_MAX];
		if (!l->mid_line)
			str_printf(&out, "[%s] " RUNTIME_NAME,
			           rfc3339_put(date, clock_wall_ms(), 0));
		str_span(&out, span_to(text, n));
		l->mid_line = end == text.n;
		text = span_from(text, n);
	}
	struct capped_log *f = &l->runtime;
	if (f->fd < 0 || f->size + out.n > f->limit)
		logs_lose(l, f, out.n, f->fd < 0 ? f->error : EFBIG);
	else
		(void)logs_append(l, f, str_view(&out)); /* it counts lost bytes */
	logs_copy_out(l, str_view(&out));
}

void logs_runtime(struct logs *l, struct span text)
{
	while (text.n > 0) {
		size_t n = text.n < SCAN_PIECE ? text.n : SCAN_PIECE;
		logs_prefix_lines(l, span_to(text, n));
		text = span_from(text, n);
	}
}

static void logs_end_line(struct logs *l)
{
	if (l->mid_line)
		logs_runtime(l, SPAN("\n"));
}

void logs_message(struct logs *l, const char *fmt, ...)
{
	char line[2048];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	logs_end_line(l);
	size_t len = (size_t)n < sizeof(line) - 2 ? (size_t)n : sizeof(line) - 2;
	line[len] = '\n';
	logs_runtime(l, (struct span){ line, len + 1 });
}

void logs_write_notes(struct logs *l)
{
	/* logs_message may add a note, once: that there is no runtime.log. */
	while (l->notes.n > 0) {
		NOTES_AUTO notes = { 0 };
		notes_move(&notes, &l->notes);
		for (size_t i = 0; i < notes.n; i++)
			logs_message(l, "warning: %s", notes.v[i].msg);
	}
}

/* ---- all logs -------------------------------------------------------------------------------- */

void logs_open(struct logs *l, const char *path, struct stdio_writer *copy)
{
	static const char *const NAMES[LOG_MAX] = { "user-stdout", "user-stderr", "user-all" };
	*l = (struct logs){ .copy = copy };
	const struct capped_log none = { .dir = -1, .fd = -1, .old = -1, .limit = LOG_LIMIT };
	l->dir = logs_open_root(l, path);
	int error = errno;
	l->runtime = none;
	l->runtime.name = "runtime.log";
	l->runtime.limit = RUNTIME_LOG_LIMIT;
	if (l->dir >= 0)
		logs_open_file(l, &l->runtime, l->dir, l->runtime.name);
	else
		logs_lose(l, &l->runtime, 0, error);
	for (int i = 0; i < LOG_MAX; i++) {
		struct capped_log *f = &l->user[i];
		*f = none;
		f->name = NAMES[i];
		errno = error;
		if (l->dir >= 0)
			f->dir = logs_open_directory(l, l->dir, f->name);
		if (f->dir < 0) {
			logs_lose(l, f, 0, errno);
			continue;
		}
		logs_find_old_file(f);
		logs_open_file(l, f, f->dir, "current");
	}
}

void logs_summary(struct logs *l)
{
	logs_end_line(l);
	const struct capped_log *f = l->user;
	if (f[LOG_STDOUT].lost + f[LOG_STDERR].lost + f[LOG_ALL].lost == 0)
		return;
	logs_message(
	    l,
	    "warning: the logs are not complete: %llu bytes are missing in user-stdout, %llu "
	    "in user-stderr, %llu in user-all",
	    (unsigned long long)f[LOG_STDOUT].lost, (unsigned long long)f[LOG_STDERR].lost,
	    (unsigned long long)f[LOG_ALL].lost);
}

void logs_sync(struct logs *l)
{
	for (int i = 0; i < LOG_MAX; i++) {
		if (l->user[i].fd >= 0)
			(void)fdatasync(l->user[i].fd);
	}
	if (l->runtime.fd >= 0)
		(void)fdatasync(l->runtime.fd);
}

/* Only this file knows how files in a directory of the job's author are opened. */
int logs_copy(struct logs *l, const char *name, struct span text)
{
	struct stat st;
	FD_AUTO fd = l->dir < 0 ? -1 : logs_open_regular(l, l->dir, name, &st);
	if (fd < 0)
		return -1;
	return ftruncate(fd, 0) == 0 ? fd_write_all(fd, text) : -1;
}
