#include "runtime-assets/run/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime-assets/files.h"
#include "runtime-assets/net/http.h"

enum {
	ASK_POLL_MS = 20,   /* how often to look whether a group is gone */
	SLOW_POLL_MS = 100, /* and whether a slow reader has become a dead one */
	GROUPS_MAX = 4,
	RUNTIME_FD = 100, /* above what scripts use themselves */
	MARGIN_MS = 1000  /* of the grace period, for telling how the task ended */
};

/* What is waited for: descriptors by what they are for. */
enum source {
	FROM_SIGNALS,
	FROM_HINTS,
	FROM_STREAM,
	TO_OUTLET = FROM_STREAM + STREAM_MAX,
	SOURCES = TO_OUTLET + 2
};

/* What the task is at. */
enum stage { MAIN_RUNS, DRAINS, ASKED, FINAL, OVER };

struct supervisor {
	struct logs *logs;
	struct outlet *out; /* two */
	struct streams streams;
	int runtime_in; /* the other end of STREAM_RUNTIME */
	char pipe_path[64];
	int signals, null;
	sigset_t mask_before;
	struct rlimit core_before;
	enum stage stage;
	int64_t until; /* of the stage, on clock_ms() */
	pid_t main;    /* 0: ended, with this status */
	int status;
	pid_t group[GROUPS_MAX]; /* that may have processes; 0: none */
	int n_groups;
	int64_t grace_ms, kill_at, end_at;
	bool first;     /* this is process 1: every orphan of the container becomes its child */
	bool childless; /* reap() found no child at all */
	bool stopping, asked, killed;
};

/* ---- signals and children ---------------------------------------------------------------------
 */

static void signal_group(pid_t *group, int sig)
{
	/* Once it is empty, its number may become somebody else's. */
	if (*group > 0 && kill(-*group, sig) != 0 && errno == ESRCH)
		*group = 0;
}

static pid_t *main_group(struct supervisor *s)
{
	return &s->group[s->n_groups - 1];
}

static void reap(struct supervisor *s)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);
		if (pid < 0 && errno == EINTR)
			continue;
		s->childless = pid < 0;
		if (pid <= 0)
			return;
		if (pid != s->main)
			continue;
		s->main = 0;
		s->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	}
}

/* To everything that has to end with the pod.  Process 1 reaches all of the container: sessions and
 * groups of their own too (ranks below sshd, jobs of `set -m`).  Another process must not signal
 * what is not its own: the group of the task. */
static void signal_all(struct supervisor *s, int sig)
{
	if (s->first)
		(void)kill(-1, sig); /* ESRCH: nobody is there */
	else
		signal_group(main_group(s), sig);
}

static void ask_all(struct supervisor *s)
{
	s->asked = true;
	signal_all(s, SIGTERM);
	signal_all(s, SIGCONT); /* a stopped process cannot end */
}

/* Has all ended that signal_all reaches? */
static bool all_ended(struct supervisor *s)
{
	reap(s);
	if (s->first)
		return s->childless;
	signal_group(main_group(s), 0);
	return *main_group(s) == 0;
}

static void begin_stopping(struct supervisor *s)
{
	if (s->stopping)
		return;
	s->stopping = true;
	int64_t margin = s->grace_ms / 2 < MARGIN_MS ? s->grace_ms / 2 : MARGIN_MS;
	int64_t now = clock_ms();
	s->kill_at = now + s->grace_ms - margin;
	s->end_at = now + s->grace_ms - margin / 4;
	logs_say(s->logs, "asked to stop (SIGTERM): the task has %lld ms before it is killed",
	         (long long)(s->kill_at - now));
}

static void on_signal(struct supervisor *s, int sig)
{
	if (sig == SIGCHLD) {
		reap(s);
		return;
	}
	if (sig == SIGTERM)
		begin_stopping(s);
	if (s->n_groups == 0 || s->stage == OVER)
		return;
	if (sig == SIGTERM)
		ask_all(s);
	else
		signal_group(main_group(s), sig);
}

static void take_signals(struct supervisor *s)
{
	struct signalfd_siginfo info[16];
	ssize_t n;
	while ((n = read(s->signals, info, sizeof(info))) > 0) {
		for (size_t i = 0; i < (size_t)n / sizeof(*info); i++)
			on_signal(s, (int)info[i].ssi_signo);
	}
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* The signals, the streams that may be read, and the outlets that have something to give.  Asked
 * anew every time: there are seven of them, and nothing can fail. */
static void watch_all(struct supervisor *s, struct pollfd watched[static SOURCES])
{
	for (int i = 0; i < SOURCES; i++)
		watched[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	watched[FROM_SIGNALS].fd = s->signals;
	watched[FROM_HINTS].fd = s->streams.hints;
	for (int i = 0; i < STREAM_MAX; i++) {
		if (!streams_is_paused(&s->streams, i))
			watched[FROM_STREAM + i].fd = s->streams.v[i].fd;
	}
	for (int i = 0; i < 2; i++) {
		if (outlet_waiting(&s->out[i]))
			watched[TO_OUTLET + i] = (struct pollfd){ s->out[i].fd, POLLOUT, 0 };
	}
}

/* When nothing more is waited for, so that the report is not late: half of what is left of the
 * grace period after SIGKILL.  INT64_MAX if nothing asked to stop. */
static int64_t late_at(const struct supervisor *s)
{
	return s->kill_at + (s->end_at - s->kill_at) / 2;
}

/* While the job runs, a slow reader has all the time it wants; then some, if it moves. */
static void give_up_stalled(struct supervisor *s)
{
	int64_t now = clock_ms();
	int64_t late = late_at(s);
	for (int i = 0; i < 2; i++) {
		if (s->stage == MAIN_RUNS || !outlet_waiting(&s->out[i]))
			continue;
		if (now - s->out[i].moved_at > STALL_MS || now > late)
			outlet_abandon(&s->out[i], ETIMEDOUT);
	}
}

static void take(struct supervisor *s, const bool ready[static SOURCES])
{
	struct streams *st = &s->streams;
	for (int i = 0; i < STREAM_MAX; i++)
		st->v[i].ready = ready[FROM_STREAM + i];
	for (int i = 0; i < 2; i++) {
		if (ready[TO_OUTLET + i])
			outlet_flush(&s->out[i]);
	}
	if (ready[FROM_HINTS] || st->v[STREAM_STDOUT].ready || st->v[STREAM_STDERR].ready)
		streams_take_user(st);
	if (st->v[STREAM_RUNTIME].ready)
		streams_take_runtime(st);
	if (ready[FROM_SIGNALS])
		take_signals(s);
}

/* Wait for something, at most so long, and do it. */
static void supervise_run_once(struct supervisor *s, int64_t wait_ms)
{
	struct pollfd watched[SOURCES];
	watch_all(s, watched);
	if (wait_ms > SLOW_POLL_MS && (outlet_waiting(&s->out[0]) || outlet_waiting(&s->out[1])))
		wait_ms = SLOW_POLL_MS;
	if (wait_ms < 0)
		wait_ms = 0;
	int n = poll(watched, SOURCES, wait_ms > STALL_MS ? STALL_MS : (int)wait_ms);
	bool ready[SOURCES] = { false };
	for (int i = 0; i < SOURCES; i++)
		ready[i] = n > 0 && watched[i].revents != 0;
	take(s, ready);
	give_up_stalled(s);
	logs_tell(s->logs);
}

/* ---- a task -----------------------------------------------------------------------------------
 */

static void begin_final(struct supervisor *s)
{
	streams_begin_final(&s->streams);
	s->stage = FINAL;
}

static void end_group(struct supervisor *s, pid_t *group)
{
	reap(s); /* what has ended is not left behind */
	signal_group(group, SIGTERM);
	signal_group(group, SIGCONT);
	s->stage = ASKED;
	s->until = clock_ms() + ASK_MS;
	if (*group > 0)
		logs_say(s->logs, "processes that the task left behind are ended");
}

/* One that hangs in the kernel (a dead file server), or belongs to somebody else, does not even end
 * by SIGKILL. */
static void give_up_main(struct supervisor *s, int64_t now)
{
	if (s->main == 0 || !s->killed || now < late_at(s))
		return;
	s->main = 0;
	s->status = 128 + SIGKILL;
	logs_say(s->logs, "error: it does not end by SIGKILL either; it is not waited for");
}

/* The main process may have been a shell, which ends at once: the rest has the grace period, too.
 */
static void drain_stopping(struct supervisor *s, int64_t now)
{
	if (!s->asked) /* a task that was started after the signal */
		ask_all(s);
	if (all_ended(s) || now >= s->kill_at)
		begin_final(s);
}

/* The main process is over: what about the rest? */
static void advance(struct supervisor *s, const struct task *t)
{
	int64_t now = clock_ms();
	pid_t *group = main_group(s);
	if (s->stopping && s->until > s->kill_at)
		s->until = s->kill_at;
	switch (s->stage) {
	case MAIN_RUNS:
		give_up_main(s, now);
		if (s->main != 0)
			break;
		s->stage = DRAINS;
		s->until = now + DRAIN_MS;
		if (t->kind == TASK_BEFORE && !s->stopping)
			begin_final(s);
		break;
	case DRAINS:
		if (s->stopping)
			drain_stopping(s, now);
		else if (now >= s->until || !(streams_is_open(&s->streams, STREAM_STDOUT) ||
		                              streams_is_open(&s->streams, STREAM_STDERR)))
			end_group(s, group);
		break;
	case ASKED:
		signal_group(group, 0);
		if (*group > 0 && now < s->until)
			break;
		signal_group(group, SIGKILL);
		begin_final(s);
		break;
	case FINAL:
		if (streams_are_drained(&s->streams))
			s->stage = OVER;
		break;
	case OVER:
		break;
	}
}

static int64_t next_ms(const struct supervisor *s)
{
	int64_t now = clock_ms();
	if (s->stage == ASKED)
		return ASK_POLL_MS;
	if (s->stage == DRAINS && s->stopping)
		return SLOW_POLL_MS; /* not everything that ends is a child */
	if (s->stage == DRAINS)
		return s->until - now;
	if (s->stage == MAIN_RUNS && s->stopping)
		return (s->killed ? late_at(s) : s->kill_at) - now;
	return STALL_MS;
}

static void kill_when_late(struct supervisor *s)
{
	if (!s->stopping || s->killed || s->stage > DRAINS || clock_ms() < s->kill_at)
		return;
	s->killed = true;
	logs_say(s->logs, "the grace period is nearly over: SIGKILL");
	signal_all(s, SIGKILL);
}

static int start(struct supervisor *s, const struct task *t)
{
	struct launch l = { .argv = t->argv,
		            .env = t->env,
		            .in = s->null,
		            .out = s->runtime_in,
		            .err = s->runtime_in,
		            .complain = s->runtime_in,
		            .mask = s->mask_before,
		            .core = s->core_before };
	FD_AUTO out = -1;
	FD_AUTO err = -1;
	if (t->kind == TASK_USER) {
		l.out = out = streams_open(&s->streams, STREAM_STDOUT);
		l.err = err = streams_open(&s->streams, STREAM_STDERR);
		if (out < 0 || err < 0)
			return -1;
	}
	pid_t pid = spawn(&l);
	if (pid < 0)
		return -1;
	s->group[s->n_groups++] = s->main = pid;
	return 0;
}

static void close_user_streams(struct supervisor *s)
{
	streams_close(&s->streams, STREAM_STDOUT);
	streams_close(&s->streams, STREAM_STDERR);
}

int supervise_task(struct supervisor *s, const struct task *t)
{
	if (s->n_groups == GROUPS_MAX || start(s, t)) {
		logs_say(s->logs, "error: cannot start a process: %s", strerror(errno));
		close_user_streams(s);
		return 126;
	}
	s->stage = MAIN_RUNS;
	s->asked = s->killed = false;
	s->until = INT64_MAX;
	while (s->stage != OVER) {
		supervise_run_once(s, next_ms(s));
		kill_when_late(s);
		enum stage before;
		do { /* a stage may be over as soon as it begins */
			before = s->stage;
			advance(s, t);
		} while (s->stage != before);
	}
	close_user_streams(s);
	return s->status;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* A descriptor above those of the standard streams, also if those were closed. */
static int above_streams(int fd)
{
	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	int up = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return up;
}

/* What the tasks read from: nothing. */
static int open_null(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int end[2];
	if (fd < 0 && pipe2(end, O_CLOEXEC) == 0) { /* a root without /dev */
		close(end[1]);
		fd = end[0];
	}
	return above_streams(fd);
}

static void set_signals(struct supervisor *s)
{
	static const int WATCHED[] = { SIGTERM, SIGINT,  SIGHUP,   SIGQUIT,
		                       SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD };
	static const int IGNORED[] = SPAWN_IGNORED;
	sigset_t watched;
	sigemptyset(&watched);
	for (size_t i = 0; i < sizeof(WATCHED) / sizeof(*WATCHED); i++)
		sigaddset(&watched, WATCHED[i]);
	for (size_t i = 0; i < sizeof(IGNORED) / sizeof(*IGNORED); i++)
		(void)signal(IGNORED[i], SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL); /* ignored, it would leave nothing to wait for */
	(void)sigprocmask(SIG_BLOCK, &watched, &s->mask_before);
	s->signals = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
}

/*
 * RUNTIME_LOG_PIPE.  The descriptor of this process, by its pid: it can be opened by whatever the
 * task starts, also when that closed the descriptors that it inherited.  That needs a /proc that
 * shows this process, which in turn must be dumpable: so no PR_SET_DUMPABLE here, only no core
 * file.  Else the descriptor is inherited.  Without any /proc there is no such path, and lines for
 * it are lost.
 */
static void name_runtime_pipe(struct supervisor *s)
{
	char self[32];
	char pid[32];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	snprintf(s->pipe_path, sizeof(s->pipe_path), "/proc/%s/fd/%d", pid, s->runtime_in);
	if (strcmp(self, pid) == 0 && access(s->pipe_path, W_OK) == 0)
		return;
	snprintf(s->pipe_path, sizeof(s->pipe_path), "/proc/self/fd/%d", s->runtime_in);
	if (access(s->pipe_path, W_OK) == 0) {
		(void)fcntl(s->runtime_in, F_SETFD, 0);
		return;
	}
	snprintf(s->pipe_path, sizeof(s->pipe_path), "/dev/null");
	notes_add(&s->logs->notes, NOWHERE,
	          "there is no /proc: what plugins write to RUNTIME_LOG_PIPE is lost");
}

static int open_runtime_pipe(struct supervisor *s)
{
	int in = streams_open(&s->streams, STREAM_RUNTIME);
	if (in < 0)
		return -1;
	(void)fchmod(in, 0622); /* a plugin may have become another user */
	s->runtime_in = fcntl(in, F_DUPFD_CLOEXEC, RUNTIME_FD);
	if (s->runtime_in < 0)
		s->runtime_in = fcntl(in, F_DUPFD_CLOEXEC, RUNTIME_FD / 10);
	close(in);
	if (s->runtime_in < 0)
		return -1;
	name_runtime_pipe(s);
	return 0;
}

static int open_all(struct supervisor *s)
{
	s->null = open_null();
	set_signals(s);
	if (s->null < 0 || s->signals < 0 || streams_init(&s->streams, s->logs, s->out) ||
	    open_runtime_pipe(s))
		return -1;
	return 0;
}

/* The parameters are what it needs from outside.  NOLINTNEXTLINE(readability-function-size) */
struct supervisor *supervise_open(struct logs *l, struct outlet out[static 2], int64_t grace_ms,
                                  struct err *e)
{
	struct supervisor *s = xcalloc(1, sizeof(*s));
	s->logs = l;
	s->out = out;
	s->grace_ms = grace_ms;
	s->first = getpid() == 1;
	s->kill_at = s->end_at = INT64_MAX;
	s->stage = OVER;
	s->runtime_in = -1;
	(void)getrlimit(RLIMIT_CORE, &s->core_before);
	struct rlimit none = { 0, s->core_before.rlim_max };
	(void)setrlimit(RLIMIT_CORE, &none);
	if (!s->first)
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* older kernels: orphans go elsewhere */
	if (open_all(s)) {
		err_set(e, FAILED, "cannot set up the supervisor: %s", strerror(errno));
		free(s);
		return NULL;
	}
	return s;
}

const char *supervise_pipe(const struct supervisor *s)
{
	return s->pipe_path;
}

bool supervise_stopping(struct supervisor *s)
{
	take_signals(s);
	return s->stopping;
}

int64_t supervise_deadline(const struct supervisor *s)
{
	return s->end_at;
}

static bool groups_left(struct supervisor *s, int sig)
{
	bool left = false;
	for (int i = 0; i < s->n_groups; i++) {
		signal_group(&s->group[i], sig);
		left = left || s->group[i] > 0;
	}
	return left;
}

static void end_groups(struct supervisor *s)
{
	if (!groups_left(s, SIGTERM))
		return;
	(void)groups_left(s, SIGCONT);
	int64_t until = clock_ms() + ASK_MS;
	while (groups_left(s, 0) && clock_ms() < until && clock_ms() < s->end_at)
		supervise_run_once(s, ASK_POLL_MS);
	(void)groups_left(s, SIGKILL);
}

int64_t supervise_close(struct supervisor *s)
{
	s->stage = FINAL;
	end_groups(s);
	begin_final(s);
	while (!streams_are_drained(&s->streams) || outlet_waiting(&s->out[0]) ||
	       outlet_waiting(&s->out[1]))
		supervise_run_once(s, STALL_MS);
	streams_done(&s->streams);
	close(s->runtime_in);
	close(s->null);
	close(s->signals);
	int64_t deadline = s->end_at;
	free(s);
	return deadline;
}

enum { NOT_FOUND = 127, NOT_STARTED = 126 };

/* One write, so that it is one line among others'. */
static void complain(int fd, const char *program, int error)
{
	const char *why = strerror(error);
	if (error == E2BIG)
		why = "its arguments and environment together are too large for this kernel";
	else if (error == ENOEXEC)
		why = "it is no program for this machine, and no script with a #! line";
	char line[512];
	int n = snprintf(line, sizeof(line), "cannot start %.200s: %s\n", program, why);
	if (n > 0 && n < (int)sizeof(line))
		(void)!write(fd, line, (size_t)n); /* the exit status says it, too */
}

/* What is left is the child's: it only returns by ending. */
static _Noreturn void become(const struct launch *l)
{
	static const int IGNORED[] = SPAWN_IGNORED;
	(void)setpgid(0, 0); /* the parent does the same: whoever is first */
	for (size_t i = 0; i < sizeof(IGNORED) / sizeof(*IGNORED); i++)
		(void)signal(IGNORED[i], SIG_DFL);
	(void)setrlimit(RLIMIT_CORE, &l->core);
	if (dup2(l->in, STDIN_FILENO) < 0 || dup2(l->out, STDOUT_FILENO) < 0 ||
	    dup2(l->err, STDERR_FILENO) < 0) {
		complain(l->complain, l->argv[0], errno);
		_exit(NOT_STARTED);
	}
	(void)sigprocmask(SIG_SETMASK, &l->mask, NULL);
	/* PATH is that of the new environment; execve takes char *const, and changes nothing. */
	memcpy(&environ, &l->env, sizeof(environ));
	(void)execvp(l->argv[0], l->argv);
	int error = errno;
	complain(l->complain, l->argv[0], error);
	_exit(error == ENOENT || error == ENOTDIR ? NOT_FOUND : NOT_STARTED);
}

pid_t spawn(const struct launch *l)
{
	pid_t pid = fork();
	if (pid == 0)
		become(l);
	if (pid > 0)
		(void)setpgid(pid, pid); /* EACCES: it is past exec and did it itself */
	return pid;
}

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
