/* Starts the processes of a task, passes signals and output on, and ends what they leave behind. */
#include "runtime-assets/run/run_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime-assets/net/http.h"

enum {
	ASK_POLL_MS = 20,   /* period of looking for the end of a group */
	SLOW_POLL_MS = 100, /* and whether a slow reader has stalled */
	GROUPS_MAX = 4,
	RUNTIME_FD = 100, /* above what scripts use themselves */
	MARGIN_MS = 1000  /* of the grace period, for the report */
};

/* The descriptors that supervise_run_once polls. */
enum source {
	FROM_SIGNALS,
	FROM_HINTS,
	FROM_USAGE,
	FROM_STREAM,
	TO_OUTLET = FROM_STREAM + MUX_MAX,
	SOURCES = TO_OUTLET + 2
};

enum supervise_stage { MAIN_RUNS, DRAINS, ASKED, FINAL, OVER };

struct supervisor {
	struct logs *logs;
	struct stdio_writer *out; /* two */
	struct pod_usage *usage;
	struct output_mux mux;
	int runtime_in; /* the other end of MUX_RUNTIME */
	struct supervisor_state state;
	int signals, null;
	sigset_t mask_before;
	struct rlimit core_before;
	enum supervise_stage stage;
	int64_t until; /* of the stage, on clock_ms() */
	pid_t main;    /* 0: ended, with this status */
	int status;
	pid_t group[GROUPS_MAX]; /* that may have processes; 0: none */
	int n_groups;
	int64_t grace_ms, kill_at;
	bool first;     /* this is process 1 */
	bool childless; /* supervise_reap() found no child at all */
	bool asked, killed;
};

/* ---- signals and children -------------------------------------------------------------------- */

static void signal_group(pid_t *group, int sig)
{
	/* The number of an empty group may be reused. */
	if (*group > 0 && kill(-*group, sig) != 0 && errno == ESRCH)
		*group = 0;
}

static pid_t *main_group(struct supervisor *s)
{
	return &s->group[s->n_groups - 1];
}

static void supervise_reap(struct supervisor *s)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);
		if (pid < 0 && errno == EINTR)
			continue;
		s->childless = pid < 0;
		if (pid <= 0)
			return;
		if (pid == s->usage->smi)
			s->usage->smi = 0;
		if (pid != s->main)
			continue;
		s->main = 0;
		s->state.ended_ms = clock_wall_ms();
		s->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	}
}

/* Process 1 reaches all processes of the container, also other sessions and groups (ranks below
 * sshd, jobs of `set -m`).  Another process must only signal the group of the task. */
static void signal_all(struct supervisor *s, int sig)
{
	if (s->first)
		(void)kill(-1, sig); /* ESRCH: no process */
	else
		signal_group(main_group(s), sig);
}

static void terminate_all(struct supervisor *s)
{
	s->asked = true;
	usage_line_end(s->usage); /* process 1 waits for all of its children */
	signal_all(s, SIGTERM);
	signal_all(s, SIGCONT); /* a stopped process cannot end */
}

static void supervise_on_signal(struct supervisor *s, int sig)
{
	if (sig == SIGCHLD) {
		supervise_reap(s);
		return;
	}
	if (sig == SIGTERM && !s->state.stopping) {
		int64_t margin = s->grace_ms / 2 < MARGIN_MS ? s->grace_ms / 2 : MARGIN_MS;
		int64_t now = clock_ms();
		s->state.stopping = true;
		s->kill_at = now + s->grace_ms - margin;
		s->state.end_at = now + s->grace_ms - margin / 4;
		logs_message(s->logs,
		             "asked to stop (SIGTERM): the task has %lld ms before it is killed",
		             (long long)(s->kill_at - now));
	}
	if (s->n_groups == 0 || s->stage == OVER)
		return;
	if (sig == SIGTERM)
		terminate_all(s);
	else
		signal_group(main_group(s), sig);
}

static void supervise_take_signals(struct supervisor *s)
{
	struct signalfd_siginfo info[16];
	ssize_t n;
	while ((n = read(s->signals, info, sizeof(info))) > 0) {
		for (size_t i = 0; i < (size_t)n / sizeof(*info); i++)
			supervise_on_signal(s, (int)info[i].ssi_signo);
	}
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* Returns the time to stop waiting after SIGKILL, so that the report is in time.  INT64_MAX without
 * SIGTERM. */
static int64_t supervise_late_at(const struct supervisor *s)
{
	return s->kill_at + (s->state.end_at - s->kill_at) / 2;
}

/* Waits for events, at most wait_ms, and handles them. */
static void supervise_run_once(struct supervisor *s, int64_t wait_ms)
{
	struct output_mux *mux = &s->mux;
	struct pollfd watched[SOURCES];
	for (int i = 0; i < SOURCES; i++)
		watched[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	watched[FROM_SIGNALS].fd = s->signals;
	watched[FROM_HINTS].fd = mux->hints;
	watched[FROM_USAGE].fd = s->usage->out;
	for (int i = 0; i < MUX_MAX; i++) {
		if (!log_mux_is_paused(mux, i))
			watched[FROM_STREAM + i].fd = mux->v[i].fd;
	}
	for (int i = 0; i < 2; i++) {
		if (!stdio_writer_waiting(&s->out[i]))
			continue;
		watched[TO_OUTLET + i] = (struct pollfd){ s->out[i].fd, POLLOUT, 0 };
		if (wait_ms > SLOW_POLL_MS)
			wait_ms = SLOW_POLL_MS;
	}
	if (wait_ms > STALL_MS)
		wait_ms = STALL_MS;
	int ready = poll(watched, SOURCES, wait_ms < 0 ? 0 : (int)wait_ms);
	for (int i = 0; i < SOURCES && ready < 0; i++)
		watched[i].revents = 0;
	for (int i = 0; i < MUX_MAX; i++)
		mux->v[i].ready = watched[FROM_STREAM + i].revents != 0;
	for (int i = 0; i < 2; i++) {
		if (watched[TO_OUTLET + i].revents)
			stdio_writer_flush(&s->out[i]);
	}
	if (watched[FROM_HINTS].revents || mux->v[MUX_STDOUT].ready || mux->v[MUX_STDERR].ready)
		log_mux_copy_user(mux);
	if (mux->v[MUX_RUNTIME].ready)
		log_mux_copy_runtime(mux);
	if (watched[FROM_USAGE].revents)
		pod_usage_take(s->usage);
	if (watched[FROM_SIGNALS].revents)
		supervise_take_signals(s);
	/* A slow reader has unlimited time while the job runs, later only while it accepts
	 * something. */
	int64_t now = clock_ms();
	for (int i = 0; i < 2 && s->stage != MAIN_RUNS; i++) {
		if (stdio_writer_waiting(&s->out[i]) &&
		    (now - s->out[i].moved_at > STALL_MS || now > supervise_late_at(s)))
			stdio_writer_abandon(&s->out[i], ETIMEDOUT);
	}
	logs_write_notes(s->logs);
}

/* ---- starting a process ---------------------------------------------------------------------- */

/* Signals that `run` ignores and its children do not. */
static const int IGNORED[] = { SIGPIPE, SIGTTIN, SIGTTOU, SIGTSTP, SIGXFSZ };

/* One write: lines of several processes do not mix. */
static void supervise_complain(int fd, const char *program, int error)
{
	const char *why = strerror(error);
	if (error == E2BIG)
		why = "its arguments and environment together are too large for this kernel";
	else if (error == ENOEXEC)
		why = "it is no program for this machine, and no script with a #! line";
	char line[512];
	int n = snprintf(line, sizeof(line), "cannot start %.200s: %s\n", program, why);
	if (n > 0 && n < (int)sizeof(line))
		(void)!write(fd, line, (size_t)n); /* the exit status shows it, too */
}

/* Runs in the child: the program leads a group of its own, with the signals and limits that `run`
 * started with.  out, err: its streams, above 2.  The runtime's pipe gets the reason if it cannot
 * be started. */
static _Noreturn void supervise_exec(const struct supervisor *s, const struct task *t, int out,
                                     int err)
{
	(void)setpgid(0, 0); /* the parent does the same, to avoid a race */
	for (size_t i = 0; i < ARRAY_SIZE(IGNORED); i++)
		(void)signal(IGNORED[i], SIG_DFL);
	(void)setrlimit(RLIMIT_CORE, &s->core_before);
	/* The user's command has the standard input of the container. */
	if ((t->kind != TASK_USER && dup2(s->null, STDIN_FILENO) < 0) ||
	    dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) {
		supervise_complain(s->runtime_in, t->argv[0], errno);
		_exit(NOT_STARTED);
	}
	(void)sigprocmask(SIG_SETMASK, &s->mask_before, NULL);
	/* PATH is that of the new environment. */
	memcpy(&environ, &t->env, sizeof(environ));
	(void)execvp(t->argv[0], t->argv);
	int error = errno;
	supervise_complain(s->runtime_in, t->argv[0], error);
	_exit(error == ENOENT || error == ENOTDIR ? NOT_FOUND : NOT_STARTED);
}

/* ---- a task ---------------------------------------------------------------------------------- */

static void begin_final(struct supervisor *s)
{
	for (int i = 0; i < MUX_MAX; i++)
		s->mux.v[i].left = log_mux_waiting(&s->mux, i);
	s->stage = FINAL;
}

static void main_group_end(struct supervisor *s, pid_t *group)
{
	supervise_reap(s); /* ended processes do not count */
	signal_group(group, SIGTERM);
	signal_group(group, SIGCONT);
	s->stage = ASKED;
	s->until = clock_ms() + ASK_MS;
	if (*group > 0)
		logs_message(s->logs, "ending the remaining processes of the task");
}

/* A process that hangs in the kernel (a dead file server) survives SIGKILL. */
static void give_up_main(struct supervisor *s, int64_t now)
{
	if (s->main == 0 || !s->killed || now < supervise_late_at(s))
		return;
	s->main = 0;
	s->state.ended_ms = clock_wall_ms();
	s->status = 128 + SIGKILL;
	logs_message(s->logs,
	             "error: the command does not end by SIGKILL either; not waiting for it");
}

/* The main process may be a shell, which ends at once: the rest has the grace period, too, until no
 * process is left that signal_all reaches. */
static void drain_stopping(struct supervisor *s, int64_t now)
{
	if (!s->asked) /* a task started after the signal */
		terminate_all(s);
	supervise_reap(s);
	if (!s->first)
		signal_group(main_group(s), 0);
	bool ended = s->first ? s->childless : *main_group(s) == 0;
	if (ended || now >= s->kill_at)
		begin_final(s);
}

/* Moves to the next stage if the current one is over. */
static void supervise_advance(struct supervisor *s, const struct task *t)
{
	int64_t now = clock_ms();
	pid_t *group = main_group(s);
	if (s->state.stopping && s->until > s->kill_at)
		s->until = s->kill_at;
	switch (s->stage) {
	case MAIN_RUNS:
		give_up_main(s, now);
		if (s->main != 0)
			break;
		s->stage = DRAINS;
		s->until = now + DRAIN_MS;
		if (t->kind == TASK_BEFORE && !s->state.stopping)
			begin_final(s);
		break;
	case DRAINS:
		if (s->state.stopping)
			drain_stopping(s, now);
		else if (now >= s->until || !(log_mux_is_open(&s->mux, MUX_STDOUT) ||
		                              log_mux_is_open(&s->mux, MUX_STDERR)))
			main_group_end(s, group);
		break;
	case ASKED:
		signal_group(group, 0);
		if (*group > 0 && now < s->until)
			break;
		signal_group(group, SIGKILL);
		begin_final(s);
		break;
	case FINAL:
		if (log_mux_is_drained(&s->mux))
			s->stage = OVER;
		break;
	case OVER:
		break;
	}
}

static int64_t supervise_next_ms(const struct supervisor *s)
{
	int64_t now = clock_ms();
	if (s->stage == ASKED)
		return ASK_POLL_MS;
	if (s->stage == DRAINS && s->state.stopping)
		return SLOW_POLL_MS; /* not every process is a child */
	if (s->stage == DRAINS)
		return s->until - now;
	if (s->stage == MAIN_RUNS && s->state.stopping)
		return (s->killed ? supervise_late_at(s) : s->kill_at) - now;
	return STALL_MS;
}

static int supervise_start(struct supervisor *s, const struct task *t)
{
	bool user = t->kind == TASK_USER;
	FD_AUTO out = user ? log_mux_open(&s->mux, MUX_STDOUT) : -1;
	FD_AUTO err = user ? log_mux_open(&s->mux, MUX_STDERR) : -1;
	if (user && (out < 0 || err < 0))
		return -1;
	pid_t pid = fork();
	if (pid == 0)
		supervise_exec(s, t, user ? out : s->runtime_in, user ? err : s->runtime_in);
	if (pid < 0)
		return -1;
	(void)setpgid(pid, pid); /* EACCES: it is past exec and did it itself */
	s->group[s->n_groups++] = s->main = pid;
	return 0;
}

static void close_user_streams(struct supervisor *s)
{
	log_mux_close(&s->mux, MUX_STDOUT);
	log_mux_close(&s->mux, MUX_STDERR);
}

int supervise_task(struct supervisor *s, const struct task *t)
{
	if (s->n_groups == GROUPS_MAX || supervise_start(s, t)) {
		logs_message(s->logs, "error: cannot start a process: %s", strerror(errno));
		close_user_streams(s);
		return NOT_STARTED;
	}
	s->stage = MAIN_RUNS;
	s->asked = s->killed = false;
	s->until = INT64_MAX;
	while (s->stage != OVER) {
		supervise_run_once(s, supervise_next_ms(s));
		if (s->state.stopping && !s->killed && s->stage <= DRAINS &&
		    clock_ms() >= s->kill_at) {
			s->killed = true;
			logs_message(s->logs, "the grace period is nearly over: SIGKILL");
			signal_all(s, SIGKILL);
		}
		enum supervise_stage before;
		do { /* a stage may be over as soon as it begins */
			before = s->stage;
			supervise_advance(s, t);
		} while (s->stage != before);
	}
	close_user_streams(s);
	return s->status;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* Standard input of tasks; above the descriptors of the standard streams, which are open. */
static int supervise_open_null(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int end[2];
	if (fd < 0 && pipe2(end, O_CLOEXEC) == 0) { /* a root without /dev */
		close(end[1]);
		fd = end[0];
	}
	return fd;
}

static void supervise_set_signals(struct supervisor *s)
{
	static const int WATCHED[] = { SIGTERM, SIGINT,  SIGHUP,   SIGQUIT,
		                       SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD };
	sigset_t watched;
	sigemptyset(&watched);
	for (size_t i = 0; i < ARRAY_SIZE(WATCHED); i++)
		sigaddset(&watched, WATCHED[i]);
	for (size_t i = 0; i < ARRAY_SIZE(IGNORED); i++)
		(void)signal(IGNORED[i], SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL); /* if ignored, waitpid finds no children */
	(void)sigprocmask(SIG_BLOCK, &watched, &s->mask_before);
	s->signals = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
}

/*
 * RUNTIME_LOG_PIPE is the descriptor of this process, by its pid, so programs that closed inherited
 * descriptors can open it.  That needs /proc, and a dumpable process: no PR_SET_DUMPABLE here. Else
 * the descriptor is inherited.
 */
static void name_runtime_pipe(struct supervisor *s)
{
	char self[32];
	char pid[32];
	char *path = s->state.pipe_path;
	size_t size = sizeof(s->state.pipe_path);
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	snprintf(path, size, "/proc/%s/fd/%d", pid, s->runtime_in);
	if (strcmp(self, pid) == 0 && access(path, W_OK) == 0)
		return;
	snprintf(path, size, "/proc/self/fd/%d", s->runtime_in);
	if (access(path, W_OK) == 0) {
		(void)fcntl(s->runtime_in, F_SETFD, 0);
		return;
	}
	snprintf(path, size, "/dev/null");
	notes_add(&s->logs->notes, NOWHERE,
	          "there is no /proc: output of plugins to RUNTIME_LOG_PIPE is lost");
}

static int open_runtime_pipe(struct supervisor *s)
{
	int in = log_mux_open(&s->mux, MUX_RUNTIME);
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

/* NOLINTNEXTLINE(readability-function-size): its parameters */
struct supervisor *supervise_open(struct logs *l, struct stdio_writer out[static 2],
                                  struct pod_usage *usage, int64_t grace_ms, struct err *e)
{
	struct supervisor *s = xcalloc(1, sizeof(*s));
	s->logs = l;
	s->out = out;
	s->usage = usage;
	s->grace_ms = grace_ms;
	s->first = getpid() == 1;
	s->kill_at = s->state.end_at = INT64_MAX;
	s->stage = OVER;
	s->runtime_in = -1;
	(void)getrlimit(RLIMIT_CORE, &s->core_before);
	struct rlimit none = { 0, s->core_before.rlim_max };
	(void)setrlimit(RLIMIT_CORE, &none);
	if (!s->first)
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* older kernels: orphans go elsewhere */
	s->null = supervise_open_null();
	supervise_set_signals(s);
	if (s->null < 0 || s->signals < 0 || log_mux_init(&s->mux, s->logs, s->out) ||
	    open_runtime_pipe(s)) {
		err_set(e, FAILED, "cannot set up the supervisor: %s", strerror(errno));
		free(s);
		return NULL;
	}
	return s;
}

const struct supervisor_state *supervise_state(struct supervisor *s)
{
	supervise_take_signals(s);
	return &s->state;
}

static bool groups_left(struct supervisor *s, int sig)
{
	bool left = false;
	for (int i = 0; i < s->n_groups; i++) {
		signal_group(&s->group[i], sig);
		left |= s->group[i] > 0;
	}
	return left;
}

int64_t supervise_close(struct supervisor *s)
{
	s->stage = FINAL;
	if (groups_left(s, SIGTERM)) {
		(void)groups_left(s, SIGCONT);
		int64_t until = clock_ms() + ASK_MS;
		while (groups_left(s, 0) && clock_ms() < until && clock_ms() < s->state.end_at)
			supervise_run_once(s, ASK_POLL_MS);
		(void)groups_left(s, SIGKILL);
	}
	begin_final(s);
	while (!log_mux_is_drained(&s->mux) || stdio_writer_waiting(&s->out[0]) ||
	       stdio_writer_waiting(&s->out[1]))
		supervise_run_once(s, STALL_MS);
	log_mux_done(&s->mux);
	supervise_reap(s); /* nvidia-smi */
	close(s->runtime_in);
	close(s->null);
	close(s->signals);
	int64_t deadline = s->state.end_at;
	free(s);
	return deadline;
}
