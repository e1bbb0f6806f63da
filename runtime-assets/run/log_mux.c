/*
 * Output of a task: from its pipes to the logs and to the container's standard output and error.
 */
#include "runtime-assets/run/run_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/clock.h"

/* ---- the container's own streams ------------------------------------------------------------- */

/* Twice the bytes read at once, and lines. */
enum { QUEUE_MAX = 4 << 20 };

/* O_NONBLOCK belongs to the open file description, which other processes share, so pipes and
 * terminals are opened again.  Files are not: the offset would be another one. */
void stdio_writer_open(struct stdio_writer *o, int fd)
{
	*o =
	    (struct stdio_writer){ .fd = fd, .queue = STR_INIT(QUEUE_MAX), .moved_at = clock_ms() };
	struct stat st;
	if (fstat(fd, &st) != 0) {
		o->fd = -1;
		o->error = errno;
		return;
	}
	if (S_ISSOCK(st.st_mode))
		o->kind = STDIO_SOCKET;
	if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return;
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	o->kind = own >= 0 ? STDIO_OWN : STDIO_SHARED;
	if (own >= 0)
		o->fd = own;
}

void stdio_writer_abandon(struct stdio_writer *o, int error)
{
	o->lost += o->queue.n - o->head;
	o->head = o->queue.n = 0;
	if (o->fd > STDERR_FILENO)
		close(o->fd);
	o->fd = -1;
	if (!o->error)
		o->error = error;
}

static ssize_t stdio_writer_try(const struct stdio_writer *o, struct span text)
{
	if (o->kind == STDIO_SOCKET)
		return send(o->fd, text.p, text.n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (o->kind == STDIO_OWN)
		return write(o->fd, text.p, text.n);
	/* A pipe that is writable takes PIPE_BUF bytes at once. */
	struct pollfd ready = { .fd = o->fd, .events = POLLOUT };
	if (poll(&ready, 1, 0) != 1) {
		errno = EAGAIN;
		return -1;
	}
	return write(o->fd, text.p, text.n < PIPE_BUF ? text.n : PIPE_BUF);
}

/* Returns the bytes written, including those lost. */
static size_t stdio_writer_now(struct stdio_writer *o, struct span text)
{
	size_t done = 0;
	while (done < text.n) {
		ssize_t n = stdio_writer_try(o, span_from(text, done));
		if (n > 0) {
			done += (size_t)n;
			o->moved_at = clock_ms();
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return done;
		int error = n < 0 ? errno : EIO;
		o->lost += text.n - done;
		if (!o->error)
			o->error = error;
		/* A full disk may get room again; a reader does not come back. */
		if (error == EPIPE || error == ECONNRESET || error == EBADF)
			stdio_writer_abandon(o, error);
		return text.n;
	}
	return done;
}

void stdio_writer_flush(struct stdio_writer *o)
{
	if (!stdio_writer_waiting(o))
		return;
	size_t done = stdio_writer_now(o, span_from(str_view(&o->queue), o->head));
	if (o->fd < 0)
		return; /* abandoned: the queue is empty */
	o->head += done;
	if (o->head == o->queue.n)
		o->head = o->queue.n = 0;
}

void stdio_writer_put(struct stdio_writer *o, struct span text)
{
	if (o->fd < 0) {
		o->lost += text.n;
		return;
	}
	size_t done = 0;
	o->mid_line = text.n ? text.p[text.n - 1] != '\n' : o->mid_line;
	if (!stdio_writer_waiting(o)) {
		o->moved_at = clock_ms();
		done = stdio_writer_now(o, text);
	}
	struct span rest = span_from(text, done);
	if (o->queue.n + rest.n > QUEUE_MAX)
		o->lost += rest.n;
	else
		str_span(&o->queue, rest);
}

void stdio_writer_done(struct stdio_writer *o)
{
	if (o->fd > STDERR_FILENO)
		close(o->fd);
	o->fd = -1;
	str_done(&o->queue);
}

/* ---- the pipes of a task --------------------------------------------------------------------- */

/*
 * The order of output: two pipes do not tell which was written first: `o e o e` may be read as `o o
 * e e`.  So a queued real-time signal (F_SETSIG with O_ASYNC) with the descriptor announces each
 * write; the kernel delivers signals of one number in order.  Pipes are in packet mode (O_DIRECT):
 * one read gives one write, up to a page; a longer write ends with a packet that is not full.  The
 * signals are hints: bytes without one (old kernel, full queue, paused pipe) are read in turns.
 */

enum {
	PIPE_BYTES = 512 << 10, /* small writes take a page each */
	PIPE_LESS = 256 << 10,  /* if that is refused */
	TURN_BYTES = 256 << 10, /* taken from one stream in one turn */
	/* The kernel drops the rest of a packet, so this is the largest pipe of an unprivileged
	 * process. */
	READ_BYTES = 1 << 20,
	RUNTIME_BYTES = 64 << 10,
	HINTS = 64,
	HINT_WAIT_MS = 1 /* a hint may come this much later than its bytes */
};

static struct stdio_writer *log_mux_writer(const struct output_mux *s, int i)
{
	return &s->out[i == MUX_STDOUT ? 0 : 1];
}

/* Writes the buffer to all targets. */
static void log_mux_flush(struct output_mux *s)
{
	struct span text = { s->buffer, s->filled };
	if (text.n == 0)
		return;
	s->filled = 0;
	if (s->filler == MUX_RUNTIME) {
		logs_runtime(s->logs, text);
		return;
	}
	stdio_writer_put(log_mux_writer(s, s->filler), text);
	logs_write(s->logs, s->filler == MUX_STDOUT ? LOG_STDOUT : LOG_STDERR, text);
	logs_write(s->logs, LOG_ALL, text);
	if (s->logs->tail)
		tail_add(s->logs->tail, s->filler == MUX_STDOUT ? TAIL_STDOUT : TAIL_STDERR, text);
}

void log_mux_close(struct output_mux *s, enum mux_name i)
{
	if (s->v[i].fd < 0)
		return;
	close(s->v[i].fd);
	s->v[i] = (struct mux_pipe){ .fd = -1 };
}

bool log_mux_is_paused(const struct output_mux *s, enum mux_name i)
{
	return stdio_writer_waiting(log_mux_writer(s, i));
}

/* Reads one write, or all bytes, into the buffer. */
static void log_mux_fill(struct output_mux *s, int i, bool all)
{
	struct mux_pipe *st = &s->v[i];
	if (s->filler != i || s->filled >= TURN_BYTES)
		log_mux_flush(s);
	s->filler = i;
	st->more = false;
	while (s->filled < TURN_BYTES) {
		ssize_t n = read(st->fd, s->buffer + s->filled, READ_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			log_mux_close(s, i);
		if (n <= 0)
			return;
		s->filled += (size_t)n;
		st->left -= n;
		if (!all && (size_t)n % s->page != 0)
			return;
	}
	st->more = true;
}

static int log_mux_read_hints(struct output_mux *s, struct signalfd_siginfo hint[static HINTS])
{
	ssize_t n = s->hints < 0 ? -1 : read(s->hints, hint, HINTS * sizeof(*hint));
	return n > 0 ? (int)((size_t)n / sizeof(*hint)) : 0;
}

/* Reads in the order of the hints. */
static void log_mux_follow(struct output_mux *s, const struct signalfd_siginfo *hint, int n)
{
	for (int k = 0; k < n; k++) {
		/* Signals of processes have a code of at most 0. */
		if ((int)hint[k].ssi_signo != s->hint_signal || hint[k].ssi_code <= 0)
			continue;
		int i = MUX_STDOUT;
		while (i <= MUX_STDERR && s->v[i].fd != (int)hint[k].ssi_fd)
			i++;
		if (i > MUX_STDERR || !log_mux_is_open(s, i))
			continue;
		if (s->filler != i || s->filled >= TURN_BYTES)
			log_mux_flush(s); /* shows whether the writer is paused */
		if (log_mux_is_paused(s, i))
			s->v[i].more = true;
		else
			log_mux_fill(s, i, false);
	}
	log_mux_flush(s);
}

void log_mux_copy_user(struct output_mux *s)
{
	struct signalfd_siginfo hint[HINTS];
	int n = log_mux_read_hints(s, hint);
	const struct mux_pipe *out = &s->v[MUX_STDOUT];
	const struct mux_pipe *err = &s->v[MUX_STDERR];
	bool fresh = (out->ready && !out->more) || (err->ready && !err->more);
	if (n == 0 && fresh && s->hints >= 0) {
		struct pollfd soon = { .fd = s->hints, .events = POLLIN };
		(void)poll(&soon, 1, HINT_WAIT_MS); /* go on without a hint */
		n = log_mux_read_hints(s, hint);
	}
	log_mux_follow(s, hint, n);
	/* Bytes without a hint do not wait for the end of hints.  If the queue of signals
	 * overflowed, hints are missing. */
	bool all = n == 0;
	for (int k = 0; k < n; k++)
		all = all || hint[k].ssi_signo == SIGIO;
	for (int i = MUX_STDOUT; i <= MUX_STDERR; i++) {
		const struct mux_pipe *st = &s->v[i];
		if (st->ready && (all || st->more) && log_mux_is_open(s, i) &&
		    !log_mux_is_paused(s, i))
			log_mux_fill(s, i, true);
	}
	log_mux_flush(s);
}

void log_mux_copy_runtime(struct output_mux *s)
{
	/* Small pieces: prefixes make lines longer, and all may have to wait for a slow reader. */
	ssize_t n = read(s->v[MUX_RUNTIME].fd, s->buffer, RUNTIME_BYTES);
	if (n <= 0)
		return; /* never at its end: this process has the write end, too */
	s->v[MUX_RUNTIME].left -= n;
	s->filler = MUX_RUNTIME;
	s->filled = (size_t)n;
	log_mux_flush(s);
}

int log_mux_waiting(const struct output_mux *s, int i)
{
	int n = 0;
	return log_mux_is_open(s, i) && ioctl(s->v[i].fd, FIONREAD, &n) == 0 ? n : 0;
}

bool log_mux_is_drained(const struct output_mux *s)
{
	for (int i = 0; i < MUX_MAX; i++) {
		if (s->v[i].left > 0 && log_mux_waiting(s, i) > 0)
			return false;
	}
	return true;
}

int log_mux_open(struct output_mux *s, enum mux_name i)
{
	bool user = i != MUX_RUNTIME;
	int end[2];
	if (pipe2(end, O_CLOEXEC | (user ? O_DIRECT : 0)) != 0 && pipe2(end, O_CLOEXEC) != 0)
		return -1;
	/* A user has limited pages for pipes on a node. */
	if (user && fcntl(end[0], F_SETPIPE_SZ, PIPE_BYTES) < 0)
		(void)fcntl(end[0], F_SETPIPE_SZ, PIPE_LESS);
	(void)fcntl(end[0], F_SETFL, O_NONBLOCK);
	if (user && s->hints >= 0 && fcntl(end[0], F_SETOWN, getpid()) == 0 &&
	    fcntl(end[0], F_SETSIG, s->hint_signal) == 0)
		(void)fcntl(end[0], F_SETFL, O_NONBLOCK | O_ASYNC);
	s->v[i] = (struct mux_pipe){ .fd = end[0] };
	return end[1];
}

int log_mux_init(struct output_mux *s, struct logs *l, struct stdio_writer *out)
{
	*s = (struct output_mux){ .logs = l, .out = out, .hint_signal = SIGRTMIN + 2 };
	for (int i = 0; i < MUX_MAX; i++)
		s->v[i].fd = -1;
	s->page = (size_t)sysconf(_SC_PAGESIZE);
	sigset_t hints;
	sigemptyset(&hints);
	sigaddset(&hints, s->hint_signal);
	sigaddset(&hints, SIGIO); /* sent if the queue is full */
	(void)sigprocmask(SIG_BLOCK, &hints, NULL);
	s->hints = signalfd(-1, &hints, SFD_NONBLOCK | SFD_CLOEXEC);
	/* Only used pages take memory. */
	void *p = mmap(NULL, TURN_BYTES + READ_BYTES, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -1;
	s->buffer = p;
	return 0;
}

/* Undoes log_mux_init. */
void log_mux_done(struct output_mux *s)
{
	for (int i = 0; i < MUX_MAX; i++)
		log_mux_close(s, i);
	if (s->hints >= 0)
		close(s->hints);
	munmap(s->buffer, TURN_BYTES + READ_BYTES);
}
