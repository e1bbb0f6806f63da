/*
 * Order.  Standard output and error are two pipes, and two pipes do not tell which of them was
 * written to first: if the reader is late, `o e o e` comes as `o o e e`.  So each write is
 * announced by a queued real-time signal (F_SETSIG with O_ASYNC), which names the descriptor:
 * signals of one number are delivered in the order in which they were sent.  And the pipes are in
 * packet mode (O_DIRECT), so that one read gives what one write wrote, up to a page; a longer write
 * goes on until a packet that is not full.  Each announcement fetches one write.  They are hints
 * only: whatever is there without one (a kernel that has none, a queue that was full, a pipe that
 * stood still because its reader was slow) is read by and by, each stream in its turn.
 */
#include "runtime-assets/run/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
	PIPE_BYTES = 512 << 10, /* asked for, for small writes take a page of it each; */
	PIPE_LESS = 256 << 10,  /* then this; else the kernel's default */
	TURN_BYTES = 256 << 10, /* taken from one stream in one turn */
	/* Room for a read: the kernel drops what does not fit of a packet, so this is as much as an
	 * unprivileged process can make of a pipe. */
	READ_BYTES = 1 << 20,
	RUNTIME_BYTES = 64 << 10,
	HINTS = 64,
	HINT_WAIT_MS = 1 /* an announcement follows what it announces this closely */
};

static struct outlet *outlet_of(const struct streams *s, int i)
{
	return &s->out[i == STREAM_STDOUT ? 0 : 1];
}

/* What was read goes everywhere at once: nothing stays here beyond a turn. */
static void hand_over(struct streams *s)
{
	struct span text = { s->buffer, s->filled };
	if (text.n == 0)
		return;
	s->filled = 0;
	if (s->filler == STREAM_RUNTIME) {
		logs_runtime(s->logs, text);
		return;
	}
	outlet_put(outlet_of(s, s->filler), text);
	logs_write(s->logs, s->filler == STREAM_STDOUT ? LOG_STDOUT : LOG_STDERR, text);
	logs_write(s->logs, LOG_ALL, text);
	if (s->logs->tail)
		tail_add(s->logs->tail, s->filler == STREAM_STDOUT ? TAIL_STDOUT : TAIL_STDERR,
		         text);
}

void streams_close(struct streams *s, enum stream_name i)
{
	if (s->v[i].fd < 0)
		return;
	close(s->v[i].fd);
	s->v[i] = (struct stream){ .fd = -1 };
}

bool streams_is_paused(const struct streams *s, enum stream_name i)
{
	return outlet_waiting(outlet_of(s, i));
}

/* Read into the buffer: one write of the other side, or (`all`) what there is. */
static void fill(struct streams *s, int i, bool all)
{
	struct stream *st = &s->v[i];
	if (s->filler != i || s->filled >= TURN_BYTES)
		hand_over(s);
	s->filler = i;
	st->more = false;
	while (s->filled < TURN_BYTES) {
		ssize_t n = read(st->fd, s->buffer + s->filled, READ_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			streams_close(s, i);
		if (n <= 0)
			return;
		s->filled += (size_t)n;
		st->left -= n;
		if (!all && (size_t)n % s->page != 0)
			return;
	}
	st->more = true;
}

static int read_hints(struct streams *s, struct signalfd_siginfo hint[static HINTS])
{
	ssize_t n = s->hints < 0 ? -1 : read(s->hints, hint, HINTS * sizeof(*hint));
	return n > 0 ? (int)((size_t)n / sizeof(*hint)) : 0;
}

/* Was there no place in the queue for one?  Then those that are in it do not name all streams. */
static bool has_overflow(const struct signalfd_siginfo *hint, int n)
{
	for (int k = 0; k < n; k++) {
		if (hint[k].ssi_signo == SIGIO)
			return true;
	}
	return false;
}

/* The stream that it announces; -1: none. */
static int stream_of(const struct streams *s, const struct signalfd_siginfo *hint)
{
	/* What other processes send has a code of at most 0. */
	if ((int)hint->ssi_signo != s->hint_signal || hint->ssi_code <= 0)
		return -1;
	for (int i = STREAM_STDOUT; i <= STREAM_STDERR; i++) {
		if (streams_is_open(s, i) && s->v[i].fd == (int)hint->ssi_fd)
			return i;
	}
	return -1;
}

static void follow(struct streams *s, const struct signalfd_siginfo *hint, int n)
{
	for (int k = 0; k < n; k++) {
		int i = stream_of(s, &hint[k]);
		if (i < 0)
			continue;
		if (s->filler != i || s->filled >= TURN_BYTES)
			hand_over(s); /* now the outlet shows whether it goes on */
		if (streams_is_paused(s, i))
			s->v[i].more = true;
		else
			fill(s, i, false);
	}
	hand_over(s);
}

void streams_take_user(struct streams *s)
{
	struct signalfd_siginfo hint[HINTS];
	int n = read_hints(s, hint);
	const struct stream *out = &s->v[STREAM_STDOUT];
	const struct stream *err = &s->v[STREAM_STDERR];
	bool fresh = (out->ready && !out->more) || (err->ready && !err->more);
	if (n == 0 && fresh && s->hints >= 0) {
		struct pollfd soon = { .fd = s->hints, .events = POLLIN };
		(void)poll(&soon, 1, HINT_WAIT_MS); /* none: then without */
		n = read_hints(s, hint);
	}
	follow(s, hint, n);
	/* However many announcements come: what has none does not wait for their end. */
	bool all = n == 0 || has_overflow(hint, n);
	for (int i = STREAM_STDOUT; i <= STREAM_STDERR; i++) {
		const struct stream *st = &s->v[i];
		if (st->ready && (all || st->more) && streams_is_open(s, i) &&
		    !streams_is_paused(s, i))
			fill(s, i, true);
	}
	hand_over(s);
}

void streams_take_runtime(struct streams *s)
{
	/* Little at a time: lines grow by what is put before them, and all of it may have to wait
	 * for a slow reader. */
	ssize_t n = read(s->v[STREAM_RUNTIME].fd, s->buffer, RUNTIME_BYTES);
	if (n <= 0)
		return; /* it never ends: we hold the other side, too */
	s->v[STREAM_RUNTIME].left -= n;
	s->filler = STREAM_RUNTIME;
	s->filled = (size_t)n;
	hand_over(s);
}

static int waiting_bytes(const struct streams *s, int i)
{
	int n = 0;
	return streams_is_open(s, i) && ioctl(s->v[i].fd, FIONREAD, &n) == 0 ? n : 0;
}

void streams_begin_final(struct streams *s)
{
	for (int i = 0; i < STREAM_MAX; i++)
		s->v[i].left = waiting_bytes(s, i);
}

bool streams_are_drained(const struct streams *s)
{
	for (int i = 0; i < STREAM_MAX; i++) {
		if (s->v[i].left > 0 && waiting_bytes(s, i) > 0)
			return false;
	}
	return true;
}

int streams_open(struct streams *s, enum stream_name i)
{
	bool user = i != STREAM_RUNTIME;
	int end[2];
	/* Without packets where the kernel has none. */
	if (pipe2(end, O_CLOEXEC | (user ? O_DIRECT : 0)) != 0 && pipe2(end, O_CLOEXEC) != 0)
		return -1;
	/* A user has so many pages for pipes on a node: no more than are of use. */
	if (user && fcntl(end[0], F_SETPIPE_SZ, PIPE_BYTES) < 0)
		(void)fcntl(end[0], F_SETPIPE_SZ, PIPE_LESS);
	(void)fcntl(end[0], F_SETFL, O_NONBLOCK);
	if (user && s->hints >= 0 && fcntl(end[0], F_SETOWN, getpid()) == 0 &&
	    fcntl(end[0], F_SETSIG, s->hint_signal) == 0)
		(void)fcntl(end[0], F_SETFL, O_NONBLOCK | O_ASYNC);
	s->v[i] = (struct stream){ .fd = end[0] };
	return end[1];
}

int streams_init(struct streams *s, struct logs *l, struct outlet *out)
{
	*s = (struct streams){ .logs = l, .out = out, .hint_signal = SIGRTMIN + 2 };
	for (int i = 0; i < STREAM_MAX; i++)
		s->v[i].fd = -1;
	s->page = (size_t)sysconf(_SC_PAGESIZE);
	sigset_t hints;
	sigemptyset(&hints);
	sigaddset(&hints, s->hint_signal);
	sigaddset(&hints, SIGIO); /* comes instead of those that had no place in the queue */
	(void)sigprocmask(SIG_BLOCK, &hints, NULL);
	s->hints = signalfd(-1, &hints, SFD_NONBLOCK | SFD_CLOEXEC);
	/* Only what is used of it is memory. */
	void *p = mmap(NULL, TURN_BYTES + READ_BYTES, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -1;
	s->buffer = p;
	return 0;
}

void streams_done(struct streams *s)
{
	for (int i = 0; i < STREAM_MAX; i++)
		streams_close(s, i);
	if (s->hints >= 0)
		close(s->hints);
	munmap(s->buffer, TURN_BYTES + READ_BYTES);
}
