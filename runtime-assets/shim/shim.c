/* `pai-runtime shim`: the containers' processes, signals, and the command line. */
#include "runtime-assets/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime-assets/cmdline.h"

enum {
	KILL_POLL_MS = 20,     /* while the rest of the processes is killed */
	KILL_SLOW_MS = 1000,   /* the same, for those that hang in the kernel */
	SETTLE_MS = 300,       /* from the start of a wrapped command to the first SIGTERM */
	STATE_RETRY_MS = 1000, /* the last state cannot be written */
	STATE_RETRIES = 300,
	SHORT_TRIES = 7, /* while the machine is short of something */
	SHORT_MS = 100,  /* before the second try; doubled each time: 12.7 s in all */
	NOT_RUN = 128,   /* exit code of a container that could not be started */
	EXIT_CLAIM = 3,  /* of the shim: nothing was started */
	EXIT_STATE = 4,  /* the last state is lost */
	PIECE = 16 << 10,
	WHY_MAX = 1024,
	REPORT_MAX = 8192
};

/* Reason of a container that could not be started, but could be a moment later. */
static const char SHIM_SHORT[] = "OutOfResources";

struct shim {
	int dir, signals;
	int from[SOURCES]; /* -1: closed */
	struct shim_spec spec;
	struct shim_state state;
	struct shim_log log;
	enum shim_container which;
	pid_t child; /* 0: it has ended */
	int target;  /* pidfd of the command in the sandbox; -1 */
	bool childless;
	bool asked;                      /* SIGTERM was sent */
	int64_t ask_at, kill_at, since;  /* ms; INT64_MAX: not */
	int64_t began_ms, exit_ms;       /* of this try, since 1970 */
	int exit;                        /* status of the child, which tells later whose it is */
	struct str report, status, tail; /* tail: of stderr, until the command has started */
	struct span why;                 /* in the report: "E" or "F" and the reason; or nothing */
};

/* ---- signals --------------------------------------------------------------------------------- */

static void shim_stop_within(struct shim *s, int64_t ms)
{
	int64_t now = clock_ms();
	s->state.stopped = true;
	if (now + ms < s->kill_at)
		s->kill_at = now + ms;
}

static void shim_ask(struct shim *s)
{
	if (s->target >= 0)
		(void)syscall(SYS_pidfd_send_signal, s->target, SIGTERM, NULL, 0);
	else if (s->child)
		(void)kill(s->child, SIGTERM);
	s->asked = true;
}

/* Bubblewrap takes all its processes along. */
static void shim_kill(struct shim *s)
{
	if (s->child)
		(void)kill(s->child, SIGKILL);
}

static void shim_reap(struct shim *s)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != s->child)
			continue;
		s->child = 0;
		s->exit = status;
		s->exit_ms = clock_wall_ms();
		s->since = clock_ms();
	}
	s->childless = pid < 0 && errno == ECHILD;
}

static void shim_take_signals(struct shim *s)
{
	struct signalfd_siginfo info;
	while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		/* The sender may add the seconds. */
		bool given = info.ssi_code == SI_QUEUE && info.ssi_int >= 0;
		if (info.ssi_signo == SIGUSR1)
			shim_stop_within(s, 0);
		else if (info.ssi_signo == SIGTERM)
			shim_stop_within(s, 1000 * (given ? info.ssi_int : s->spec.grace_s));
	}
	shim_reap(s);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void shim_close_source(struct shim *s, enum shim_source which)
{
	fd_cleanup(&s->from[which]);
	s->from[which] = -1;
}

/* Reads what is there, at most PIECE bytes.  Returns false when the source is exhausted; a pipe
 * whose writers have gone is closed. */
static bool shim_read_source(struct shim *s, enum shim_source which, char *text, struct span *out)
{
	ssize_t n = s->from[which] >= 0 ? read(s->from[which], text, PIECE) : -1;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		shim_close_source(s, which);
		return false;
	}
	*out = (struct span){ text, (size_t)n };
	return true;
}

static bool shim_read_output(struct shim *s, enum shim_source which)
{
	char text[PIECE];
	struct span got;
	if (!shim_read_source(s, which, text, &got))
		return false;
	shim_log_write(&s->log, which != FROM_OUT, got);
	shim_log_flush(&s->log);
	if (which == FROM_ERR && !s->state.of[s->which].started && s->tail.n + got.n < WHY_MAX)
		str_span(&s->tail, got);
	return true;
}

/* Reads all that is there; `into` has a maximum. */
static void shim_drain(struct shim *s, enum shim_source which, struct str *into)
{
	char text[PIECE];
	struct span got;
	while (shim_read_source(s, which, text, &got))
		str_span(into, got);
}

/* Until here, all output was that of init. */
static void shim_init_ended(struct shim *s)
{
	struct shim_result *r = &s->state.of[SHIM_INIT];
	while (shim_read_output(s, FROM_INIT)) {
	}
	shim_close_source(s, FROM_INIT);
	shim_log_close(&s->log);
	shim_log_open(&s->log, s->dir, "log", SHIM_LOG_MAX);
	r->ended = true;
	r->reason = "Completed";
	r->ended_ms = clock_wall_ms();
	s->which = SHIM_APP;
}

/* The command is executed when the report ends without a failure.  Of the report, what is not
 * understood here stays: why it failed. */
static void shim_read_report(struct shim *s)
{
	if (s->from[FROM_REPORT] < 0)
		return;
	shim_drain(s, FROM_REPORT, &s->report);
	if (s->from[FROM_REPORT] >= 0)
		return;
	struct span said = str_view(&s->report);
	if (span_starts(said, "I")) {
		s->state.of[SHIM_INIT].started = true;
		s->state.of[SHIM_INIT].started_ms = s->began_ms;
		said = span_from(said, 1);
	}
	bool ready = span_starts(said, "S");
	if (ready && s->which == SHIM_INIT)
		shim_init_ended(s);
	said = span_from(said, ready);
	s->why = said;
	if (!ready || said.n > 0)
		return;
	s->state.of[SHIM_APP].started = true;
	s->state.of[SHIM_APP].started_ms = clock_wall_ms();
	s->state.phase = "run";
	(void)shim_state_write(s->dir, &s->state, false);
}

/* {"child-pid": 123} */
static void shim_read_status(struct shim *s)
{
	static const char KEY[] = "\"child-pid\":";
	int64_t pid;
	shim_drain(s, FROM_STATUS, &s->status);
	size_t at = span_find(str_view(&s->status), 0, KEY);
	if (at == SIZE_MAX || s->target >= 0)
		return;
	struct span rest = span_trim(span_from(str_view(&s->status), at + strlen(KEY)));
	size_t n = strspn(rest.p, "0123456789");
	if (n < rest.n && parse_i64(span_to(rest, n), 2, INT32_MAX, &pid) == 0)
		s->target = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	/* Until it has handlers, signals to the first process of a namespace are lost. */
	s->ask_at = clock_ms() + SETTLE_MS;
}

static void shim_read_tether(struct shim *s)
{
	STR_AUTO ignored = { 0 };
	shim_drain(s, FROM_TETHER, &ignored);
	if (s->from[FROM_TETHER] < 0)
		shim_stop_within(s, 1000 * s->spec.grace_s);
}

static int64_t shim_wait_ms(const struct shim *s)
{
	int64_t now = clock_ms();
	if (s->child == 0) /* the rest of its processes is being killed */
		return now - s->since < KILL_SLOW_MS ? KILL_POLL_MS : KILL_SLOW_MS;
	int64_t until = s->kill_at;
	if (s->state.stopped && !s->asked && s->ask_at < until)
		until = s->ask_at;
	if (now >= s->kill_at)
		until = now + KILL_SLOW_MS; /* SIGKILL was sent */
	return until == INT64_MAX ? -1 : until > now ? until - now : 0;
}

static void shim_wait(struct shim *s)
{
	struct pollfd watched[SOURCES];
	for (int i = 0; i < SOURCES; i++)
		watched[i] = (struct pollfd){ .fd = s->from[i], .events = POLLIN };
	watched[FROM_SIGNALS].fd = s->signals;
	int64_t ms = shim_wait_ms(s);
	if (poll(watched, SOURCES, ms > INT32_MAX ? INT32_MAX : (int)ms) < 0)
		return;
	if (watched[FROM_SIGNALS].revents)
		shim_take_signals(s);
	if (watched[FROM_TETHER].revents)
		shim_read_tether(s);
	if (watched[FROM_STATUS].revents)
		shim_read_status(s);
	if (watched[FROM_REPORT].revents)
		shim_read_report(s);
	for (enum shim_source i = FROM_OUT; i <= FROM_INIT; i++) {
		if (!watched[i].revents)
			continue;
		shim_read_report(s); /* else it could be output of app in the log of init */
		(void)shim_read_output(s, i);
	}
}

/* ---- a container ----------------------------------------------------------------------------- */

/* A pipe: the reading end goes to the source, the writing end is returned. */
static int shim_pipe(struct shim *s, enum shim_source which)
{
	int end[2];
	if (pipe2(end, O_CLOEXEC) != 0)
		return -1;
	s->from[which] = shim_fd_up(end[0]);
	(void)fcntl(s->from[which], F_SETFL, O_NONBLOCK);
	return shim_fd_up(end[1]);
}

static void shim_become_child(const struct shim *s, pid_t parent, const int *to)
{
	sigset_t none;
	sigemptyset(&none);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(NOT_RUN);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	shim_child(s->dir, &s->spec, to);
}

static int shim_start(struct shim *s)
{
	int ends[SOURCES] = { 0 };
	pid_t parent = getpid();
	bool failed = false;
	for (enum shim_source i = FROM_OUT; i < SOURCES; i++) {
		bool needed = i != FROM_INIT || s->spec.init;
		ends[i] = needed ? shim_pipe(s, i) : -1;
		failed |= needed && ends[i] < 0;
	}
	pid_t pid = failed ? -1 : fork();
	if (pid == 0)
		shim_become_child(s, parent, ends);
	int error = errno;
	for (enum shim_source i = FROM_OUT; i < SOURCES; i++)
		fd_cleanup(&ends[i]);
	errno = error;
	s->child = pid > 0 ? pid : 0;
	s->childless = false;
	return pid > 0 ? 0 : -1;
}

/* Is this the message of an error that passes, because the machine lacks processes, memory or
 * namespaces? */
static bool shim_says_short(struct span why)
{
	static const int ERRORS[] = { EAGAIN, ENOMEM, ENFILE, ENOSPC };
	bool is_short = false;
	for (size_t i = 0; i < ARRAY_SIZE(ERRORS); i++)
		is_short |= span_find(why, 0, strerror(ERRORS[i])) != SIZE_MAX;
	return is_short;
}

/* Why the command was not executed; nothing: it was, or was not to be. */
static void shim_say_failure(const struct shim *s, struct str *out)
{
	const struct shim_result *r = &s->state.of[s->which];
	if (span_starts(s->why, "E")) {
		str_span(out, span_from(s->why, 1));
	} else if (r->started || !s->spec.wrapped || s->state.stopped) {
		return;
	} else if (r->signal) {
		str_printf(out, "the sandbox was killed by signal %d while it was made", r->signal);
	} else { /* the last words of bubblewrap */
		str_puts(out, "the sandbox cannot be made: ");
		str_span(out, span_trim(str_view(&s->tail)));
	}
}

static void shim_put_message(struct shim_result *r, struct span text)
{
	r->message_n = text.n < SHIM_MESSAGE_MAX ? text.n : SHIM_MESSAGE_MAX;
	memcpy(r->message, text.p, r->message_n);
}

static void shim_finish(struct shim *s)
{
	struct shim_result *r = &s->state.of[s->which];
	STR_AUTO why = STR_INIT(WHY_MAX + 64);
	r->signal = WIFSIGNALED(s->exit) ? WTERMSIG(s->exit) : 0;
	r->code = r->signal ? 128 + r->signal : WEXITSTATUS(s->exit);
	r->ended_ms = s->exit_ms ? s->exit_ms : clock_wall_ms();
	shim_say_failure(s, &why);
	if (why.n > 0) { /* as one that could not be started */
		bool is_short = !s->why.n && r->signal;
		r->code = NOT_RUN;
		r->signal = 0;
		r->started = false;
		r->reason =
		    is_short || shim_says_short(str_view(&why)) ? SHIM_SHORT : "ContainerCannotRun";
		shim_put_message(r, str_view(&why));
	} else {
		r->reason = r->code ? "Error" : "Completed";
		if (s->which == SHIM_INIT)
			shim_put_message(r, span_from(s->why, s->why.n > 0));
		else
			shim_message_read(s->dir, s->spec.message, r);
	}
	r->ended = true;
}

/* Until the command and all its descendants have ended. */
static void shim_supervise(struct shim *s)
{
	while (s->child || !s->childless) {
		int64_t now = clock_ms();
		if (s->state.stopped && !s->asked && now >= s->ask_at)
			shim_ask(s);
		if (now >= s->kill_at)
			shim_kill(s);
		if (s->child == 0)
			shim_kill_children();
		shim_wait(s);
		if (s->child == 0)
			shim_reap(s);
	}
	shim_read_report(s);
	for (enum shim_source i = FROM_OUT; i <= FROM_INIT; i++) {
		/* A process elsewhere could hold the pipe: only what is in it. */
		for (int piece = 0; piece < 64 && shim_read_output(s, i); piece++) {
		}
	}
}

static void shim_try(struct shim *s)
{
	s->which = s->spec.init ? SHIM_INIT : SHIM_APP;
	s->state.of[s->which] = (struct shim_result){ 0 };
	s->began_ms = clock_wall_ms();
	s->exit_ms = s->exit = 0;
	s->target = -1;
	s->asked = false;
	/* A wrapped command has no pid yet. */
	s->ask_at = s->spec.wrapped ? INT64_MAX : 0;
	s->report = s->status = s->tail = STR_INIT(REPORT_MAX);
	s->why = SPAN("");
	if (shim_start(s) == 0) {
		shim_supervise(s);
	} else {
		str_printf(&s->report, "Ecannot start a process: %s", strerror(errno));
		s->why = str_view(&s->report);
	}
	for (int i = FROM_OUT; i < SOURCES; i++)
		shim_close_source(s, (enum shim_source)i);
	fd_cleanup(&s->target);
	shim_finish(s);
	str_done(&s->report);
	str_done(&s->status);
	str_done(&s->tail);
}

/* The exit code must not be lost, so it waits for space; it gives up when the directory is gone. */
static int shim_leave_state(struct shim *s)
{
	for (int i = 0; i < STATE_RETRIES; i++) {
		if (shim_state_write(s->dir, &s->state, true) == 0)
			return 0;
		if (errno == ENOENT)
			break;
		clock_sleep(STATE_RETRY_MS);
	}
	return EXIT_STATE;
}

static int shim_run(struct shim *s)
{
	shim_log_open(&s->log, s->dir, s->spec.init ? "init.log" : "log", SHIM_LOG_MAX);
	shim_take_signals(s);
	for (int i = 0; i <= SHORT_TRIES && !s->state.stopped; i++) {
		shim_try(s);
		if (s->state.of[s->which].reason != SHIM_SHORT || i == SHORT_TRIES)
			break;
		clock_sleep(SHORT_MS << i);
		shim_take_signals(s);
	}
	shim_log_close(&s->log);
	s->state.phase = "ended";
	return shim_leave_state(s);
}

/* ---- the command line ------------------------------------------------------------------------ */

/* Files must not get the descriptors 0 to 2.  Those up to `last` become /dev/null. */
static void shim_fill_streams(int last)
{
	int null;
	do {
		null = open("/dev/null", O_RDWR);
	} while (null >= 0 && null <= STDERR_FILENO);
	for (int fd = 0; null >= 0 && fd <= last; fd++)
		(void)dup2(null, fd);
	fd_cleanup(&null);
}

static void shim_prepare_process(void)
{
	shim_fill_streams(STDERR_FILENO);
	(void)setsid();
	(void)!chdir("/");
	/* A session keyring of its own: the server's would be that of all tasks. */
	(void)syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
	umask(077);
	/* Locks are held by this process only. */
	DIR_AUTO *all = dir_list(AT_FDCWD, "/proc/self/fd");
	for (const char *name; (name = dir_next(all)) != NULL;) {
		int64_t fd;
		if (parse_i64(span_of(name), STDERR_FILENO + 1, INT32_MAX, &fd) == 0)
			(void)fcntl((int)fd, F_SETFD, FD_CLOEXEC);
	}
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static int shim_watch_signals(void)
{
	sigset_t watched;
	sigemptyset(&watched);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGUSR1);
	sigaddset(&watched, SIGCHLD);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &watched, NULL);
	return signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
}

static int shim_open(struct shim *s, const char *path, const char *tether, struct arena *a,
                     struct err *e)
{
	int64_t fd = -1;
	for (int i = 0; i < SOURCES; i++)
		s->from[i] = -1;
	if (tether && parse_i64(span_of(tether), 3, INT32_MAX, &fd))
		return err_set(e, FAILED, "--tether is no descriptor");
	s->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0)
		return err_set(e, FAILED, "cannot open %s: %s", path, strerror(errno));
	if (shim_spec_read(s->dir, &s->spec, a, e) || shim_claim(s->dir, e))
		return -1;
	s->from[FROM_TETHER] = fd >= 0 ? shim_fd_up((int)fd) : -1;
	if (fd >= 0)
		(void)fcntl(s->from[FROM_TETHER], F_SETFL, O_NONBLOCK);
	s->signals = shim_watch_signals();
	s->kill_at = INT64_MAX;
	return s->signals < 0 ? err_set(e, FAILED, "signalfd: %s", strerror(errno)) : 0;
}

int cmd_shim(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--exec") == 0)
		return shim_exec_main(argc, argv);
	bool tether = argc == 4 && strcmp(argv[2], "--tether") == 0;
	if (argc != 2 && !tether) {
		fputs("usage: pai-runtime shim DIR [--tether FD]\n", stderr);
		return 2;
	}
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct shim *s = xcalloc(1, sizeof(*s));
	shim_fill_streams(STDOUT_FILENO);
	if (shim_open(s, argv[1], tether ? argv[3] : NULL, &a, &e)) {
		fprintf(stderr, "pai-runtime shim: %s\n", err_msg(&e));
		free(s);
		return EXIT_CLAIM;
	}
	shim_prepare_process();
	int status = shim_run(s);
	free(s);
	return status;
}
