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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lists.h"
#include "base/posix/clock.h"
#include "base/posix/process.h"
#include "runtime-assets/common/cmdline.h"

enum {
	KILL_POLL_MS = 20,     /* while the rest of the processes is killed */
	KILL_SLOW_MS = 1000,   /* the same, for those that hang in the kernel */
	SETTLE_MS = 300,       /* from the start of a command in a sandbox to the first SIGTERM */
	STATE_RETRY_MS = 1000, /* the last state cannot be written */
	STATE_RETRIES = 300,
	SHORT_TRIES = 7, /* while the machine is short of something */
	SHORT_MS = 100,  /* before the second try; doubled each time: 12.7 s in all */
	NOT_RUN = 128,   /* exit code of a container that could not be started */
	EXIT_CLAIM = 3,  /* of the shim: nothing was started */
	EXIT_STATE = 4,  /* the last state is lost */
	PIECE = 16 << 10,
	TAIL_MAX = 1024
};

/* Reason of a container that could not be started, but could be a moment later. */
static const char SHIM_SHORT[] = "OutOfResources";

/* The sources that the shim reads.  The sources of a process begin with FROM_OUT. */
enum shim_source { FROM_SIGNALS, FROM_OUT, FROM_ERR, FROM_INIT, FROM_REPORT, SOURCES };

struct shim {
	int dir, spec;
	int from[SOURCES];   /* -1: closed */
	char **head, **argv; /* of the file `spec` */
	int64_t grace_ms;
	struct shim_state state;
	struct shim_log log;
	enum shim_container which;
	pid_t child; /* 0: it has ended */
	int target;  /* pidfd of the command, in the sandbox if there is one; -1 */
	pid_t first; /* its pid */
	bool childless;
	bool asked;                     /* SIGTERM was sent */
	int64_t ask_at, kill_at, since; /* ms; INT64_MAX: not */
	int64_t began_ms, exit_ms;      /* of this try, since 1970 */
	int exit;                       /* status of the child, which tells later whose it is */
	char report[SHIM_REPORT_MAX];   /* the last message */
	size_t report_n;
	char tail[TAIL_MAX]; /* of stderr, until the command has started */
	size_t tail_n;
};

/* ---- signals --------------------------------------------------------------------------------- */

bool shim_is_child(pid_t pid, void *parent)
{
	return process_field(pid, STAT_PARENT) == *(pid_t *)parent;
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
	while (read(s->from[FROM_SIGNALS], &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		/* The sender may add the seconds. */
		bool given = info.ssi_code == SI_QUEUE && info.ssi_int >= 0;
		int64_t grace_ms = given ? INT64_C(1000) * info.ssi_int : s->grace_ms;
		int64_t until = clock_ms() + (info.ssi_signo == SIGUSR1 ? 0 : grace_ms);
		s->state.stopped = true;
		s->kill_at = until < s->kill_at ? until : s->kill_at;
	}
	shim_reap(s);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void shim_close_source(struct shim *s, enum shim_source which)
{
	fd_cleanup(&s->from[which]);
	s->from[which] = -1;
}

/* Writes what is there, at most PIECE bytes, to the log; false: nothing is.  A pipe whose writers
 * have gone is closed. */
static bool shim_read_output(struct shim *s, enum shim_source which)
{
	char text[PIECE];
	ssize_t n = s->from[which] >= 0 ? read(s->from[which], text, PIECE) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		shim_close_source(s, which);
		return false;
	}
	shim_log_write(&s->log, which != FROM_OUT, (struct span){ text, (size_t)n });
	if (which == FROM_ERR && !s->state.of[s->which].started &&
	    s->tail_n + (size_t)n <= TAIL_MAX) {
		memcpy(s->tail + s->tail_n, text, (size_t)n);
		s->tail_n += (size_t)n;
	}
	return true;
}

/* Called at the end of init: all output until here was that of init. */
static void shim_init_ended(struct shim *s)
{
	struct shim_result *r = &s->state.of[SHIM_INIT];
	while (shim_read_output(s, FROM_INIT)) {
	}
	shim_close_source(s, FROM_INIT);
	shim_log_close(&s->log);
	shim_log_open(&s->log, s->dir, "log");
	r->reason = "Completed";
	r->ended_ms = clock_wall_ms();
	s->which = SHIM_APP;
}

/* Receives the next message of the report, and the sender's pid in this process's namespace; like
 * recvmsg.  The text is unchanged if there is none. */
static ssize_t shim_receive(int fd, char text[static SHIM_REPORT_MAX], pid_t *sender)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct ucred who = { 0 };
	struct iovec piece = { text, SHIM_REPORT_MAX };
	struct msghdr message = { .msg_iov = &piece,
		                  .msg_iovlen = 1,
		                  .msg_control = &control,
		                  .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (c && c->cmsg_type == SCM_CREDENTIALS)
		memcpy(&who, CMSG_DATA(c), sizeof(who));
	*sender = who.pid;
	return n;
}

/* The command is executed when the report ends without a failure. */
static void shim_read_report(struct shim *s)
{
	ssize_t n = 1;
	pid_t sender;
	while (s->from[FROM_REPORT] >= 0 && n > 0) {
		n = shim_receive(s->from[FROM_REPORT], s->report, &sender);
		if (n <= 0)
			continue;
		s->report_n = (size_t)n;
		if (*s->report == 'I') {
			s->state.of[SHIM_INIT].started = true;
			s->state.of[SHIM_INIT].started_ms = s->began_ms;
		} else if (*s->report == 'S' && s->which == SHIM_INIT) {
			shim_init_ended(s);
		}
		if (s->target >= 0 || sender <= 0)
			continue;
		s->first = sender;
		s->target = (int)syscall(SYS_pidfd_open, sender, 0);
		/* Signals to the first process of a namespace are lost until it has handlers. */
		if (s->target >= 0)
			s->ask_at = *s->head[SHIM_SANDBOX] ? clock_ms() + SETTLE_MS : 0;
	}
	if (n < 0 || s->from[FROM_REPORT] < 0)
		return;
	shim_close_source(s, FROM_REPORT);
	if (s->report_n == 0 || *s->report != 'S')
		return;
	s->state.of[SHIM_APP].started = true;
	s->state.of[SHIM_APP].started_ms = clock_wall_ms();
	shim_pid_write(s->dir, s->first);
	(void)shim_state_write(s->dir, &s->state, false);
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
		watched[i] = (struct pollfd){ s->from[i], POLLIN, 0 };
	int64_t ms = shim_wait_ms(s);
	if (poll(watched, SOURCES, ms > INT32_MAX ? INT32_MAX : (int)ms) < 0)
		return;
	if (watched[FROM_SIGNALS].revents)
		shim_take_signals(s);
	/* First, else it could be output of app in the log of init. */
	shim_read_report(s);
	for (enum shim_source i = FROM_OUT; i <= FROM_INIT; i++) {
		if (watched[i].revents)
			(void)shim_read_output(s, i);
	}
}

/* ---- a container ----------------------------------------------------------------------------- */

/* The reading end goes to the source, the writing end is returned. */
static int shim_pipe(struct shim *s, enum shim_source which)
{
	int end[2];
	int on = 1;
	bool report = which == FROM_REPORT;
	if (report ? socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end)
	           : pipe2(end, O_CLOEXEC))
		return -1;
	s->from[which] = end[0];
	(void)fcntl(end[0], F_SETFL, O_NONBLOCK);
	if (report)
		(void)setsockopt(end[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	return end[1];
}

/* Runs in the new process: executes the command. to: its ends of the pipes. */
static _Noreturn void shim_child(const struct shim *s, pid_t parent, const int to[SOURCES])
{
	static const int NUMBERS[SOURCES] = { [FROM_OUT] = STDOUT_FILENO,
		                              [FROM_ERR] = STDERR_FILENO,
		                              [FROM_INIT] = SHIM_INIT_FD,
		                              [FROM_REPORT] = SHIM_REPORT_FD };
	static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	/* `shim --exec` replaces it.  If this process is killed while it makes the sandbox,
	 * bubblewrap's child can be left.  The mark finds it. */
	char *env[] = { path, s->head[SHIM_MARK], NULL };
	sigset_t none;
	sigemptyset(&none);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(NOT_RUN);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	const char *cgroup = s->head[SHIM_CGROUP];
	FD_AUTO joined = *cgroup ? open(cgroup, O_WRONLY | O_CLOEXEC) : -1;
	if (*cgroup && (joined < 0 || fd_write_all(joined, SPAN("0"))))
		shim_refuse(to[FROM_REPORT], cgroup);
	bool passed = dup2(s->spec, SHIM_SPEC_FD) >= 0;
	for (enum shim_source i = FROM_OUT; i < SOURCES; i++)
		passed = passed && dup2(to[i], NUMBERS[i]) >= 0;
	if (!passed)
		shim_refuse(to[FROM_REPORT], "cannot pass the descriptors on");
	umask(022);
	(void)execve(s->argv[0], s->argv, env);
	shim_refuse(to[FROM_REPORT], s->argv[0]);
}

static int shim_start(struct shim *s)
{
	int to[SOURCES] = { 0 };
	pid_t parent = getpid();
	bool failed = false;
	for (enum shim_source i = FROM_OUT; i < SOURCES; i++) {
		to[i] = shim_pipe(s, i);
		failed |= to[i] < 0;
	}
	pid_t pid = failed ? -1 : fork();
	if (pid == 0)
		shim_child(s, parent, to);
	for (enum shim_source i = FROM_OUT; i < SOURCES; i++)
		fd_cleanup(&to[i]); /* keeps errno */
	s->child = pid > 0 ? pid : 0;
	s->childless = false;
	return pid > 0 ? 0 : -1;
}

/* Appends the reason why the command was not executed; nothing if it was, or was not to be. */
static void shim_say_failure(const struct shim *s, int signal, struct str *out)
{
	const struct shim_result *r = &s->state.of[s->which];
	struct span said = { s->report, s->report_n };
	if (span_starts(said, "E")) {
		str_span(out, span_from(said, 1));
	} else if (r->started || !*s->head[SHIM_SANDBOX] || s->state.stopped) {
		return;
	} else if (signal) {
		str_printf(out, "the sandbox was killed by signal %d while it was made", signal);
	} else { /* the last words of bubblewrap */
		str_puts(out, "the sandbox cannot be made: ");
		str_span(out, span_trim((struct span){ s->tail, s->tail_n }));
	}
}

/* The text has an error that passes. */
static bool shim_is_short(struct span text)
{
	const int *e = ERRORS_OF_LACK;
	while (*e && span_find(text, 0, strerror(*e)) == SIZE_MAX)
		e++;
	return *e;
}

static void shim_finish(struct shim *s)
{
	struct shim_result *r = &s->state.of[s->which];
	STR_AUTO why = STR_INIT(TAIL_MAX + 64);
	int signal = WIFSIGNALED(s->exit) ? WTERMSIG(s->exit) : 0;
	r->code = signal ? 128 + signal : WEXITSTATUS(s->exit);
	r->ended_ms = s->exit_ms ? s->exit_ms : clock_wall_ms();
	struct span said = { s->report, s->report_n };
	if (span_starts(said, "F") && shim_is_short(said))
		*s->report = 'E';
	shim_say_failure(s, signal, &why);
	if (why.n > 0) { /* as one that could not be started */
		bool is_short = (!s->report_n && signal) || shim_is_short(str_view(&why));
		r->code = NOT_RUN;
		r->started = false;
		r->reason = is_short ? SHIM_SHORT : "ContainerCannotRun";
		shim_message_put(r, str_view(&why));
	} else {
		r->reason = r->code ? "Error" : "Completed";
		char text[SHIM_MESSAGE_MAX + 1];
		const char *file = s->which == SHIM_APP ? s->head[SHIM_MESSAGE] : "";
		ssize_t n = fd_read_at(s->dir, file, text, sizeof(text));
		if (n > 0)
			shim_message_put(r, (struct span){ text, (size_t)n });
		else if (*s->report == 'F')
			shim_message_put(r, (struct span){ s->report + 1, s->report_n - 1 });
	}
}

/* Supervises until the command and all its descendants have ended. */
static void shim_supervise(struct shim *s)
{
	pid_t self = getpid();
	while (s->child || !s->childless) {
		int64_t now = clock_ms();
		if (s->state.stopped && !s->asked && now >= s->ask_at) {
			(void)syscall(SYS_pidfd_send_signal, s->target, SIGTERM, NULL, 0);
			s->asked = true;
		}
		if (now >= s->kill_at && s->child) /* bubblewrap takes all its processes along */
			(void)kill(s->child, SIGKILL);
		if (s->child == 0)
			(void)process_kill_all(shim_is_child, &self);
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
	s->which = *s->head[SHIM_INITS] ? SHIM_INIT : SHIM_APP;
	memset(s->state.of, 0, sizeof(s->state.of)); /* also the app's, after init */
	s->began_ms = clock_wall_ms();
	s->exit_ms = s->exit = 0;
	s->target = -1;
	s->asked = false;
	s->ask_at = INT64_MAX; /* it has no pid yet */
	s->report_n = s->tail_n = 0;
	*s->report = '\0';
	if (shim_start(s) == 0) {
		shim_supervise(s);
	} else {
		(void)snprintf(s->report, sizeof(s->report), "Ecannot start a process: %s",
		               strerror(errno));
		s->report_n = strlen(s->report);
	}
	for (int i = FROM_OUT; i < SOURCES; i++)
		shim_close_source(s, (enum shim_source)i);
	fd_cleanup(&s->target);
	shim_finish(s);
}

static int shim_run(struct shim *s)
{
	const char *note = s->head[SHIM_NOTE];
	s->log.whole = *s->head[SHIM_WHOLE];
	if (*note) {
		shim_log_open(&s->log, s->dir, "log");
		shim_log_write(&s->log, 1, span_of(note));
		shim_log_close(&s->log);
	}
	shim_log_open(&s->log, s->dir, *s->head[SHIM_INITS] ? "init.log" : "log");
	shim_take_signals(s);
	for (int i = 0; i <= SHORT_TRIES && !s->state.stopped; i++) {
		shim_try(s);
		if (s->state.of[s->which].reason != SHIM_SHORT || i == SHORT_TRIES)
			break;
		clock_sleep(SHORT_MS << i);
		shim_take_signals(s);
	}
	shim_log_close(&s->log);
	/* The exit code must not be lost, so it waits for space; it gives up when the directory is
	 * gone. */
	for (int i = 0; i < STATE_RETRIES; i++) {
		if (shim_state_write(s->dir, &s->state, true) == 0)
			return 0;
		if (errno == ENOENT)
			break;
		clock_sleep(STATE_RETRY_MS);
	}
	return EXIT_STATE;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* parent: NULL, or its pid. */
static int shim_open(struct shim *s, const char *path, const char *parent, struct arena *a,
                     struct err *e)
{
	int64_t fd;
	int64_t pid;
	off_t at = 0;
	if (parent && (parse_i64(span_of(parent), 1, INT32_MAX, &pid) ||
	               prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != (pid_t)pid))
		return err_set(e, FAILED, "process %s is not the parent", parent);
	for (int i = 0; i < SOURCES; i++)
		s->from[i] = -1;
	s->kill_at = INT64_MAX;
	s->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0)
		return err_set(e, FAILED, "cannot open %s: %s", path, strerror(errno));
	/* Later descriptors are above those with fixed numbers. */
	for (int up = 0; up >= 0 && up <= SHIM_INIT_FD;)
		up = fcntl(s->dir, F_DUPFD_CLOEXEC, 0);
	s->spec = openat(s->dir, "spec", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char **lists[SHIM_LISTS];
	if (s->spec < 0 || lists_read(s->spec, &at, lists, SHIM_LISTS, a) ||
	    lseek(s->spec, at, SEEK_SET) != at) /* for `shim --exec` */
		return err_set(e, FAILED, "cannot read the file spec: %s", strerror(errno));
	char **head = s->head = lists[SHIM_HEAD];
	s->argv = lists[SHIM_ARGV];
	for (int i = 0; i < SHIM_HEADS; i++) {
		if (!head[i] || strcmp(head[SHIM_FORMAT], SHIM_FORMAT_NOW) != 0)
			return err_set(e, FAILED, "the file spec is that of another version");
	}
	if (!*s->argv || parse_i64(span_of(head[SHIM_GRACE]), 0, INT32_MAX, &s->grace_ms))
		return err_set(e, FAILED, "the file spec has no command or no grace period");
	s->grace_ms *= 1000;
	/* Locks are held by this process only. */
	DIR_AUTO *inherited = dir_list(AT_FDCWD, "/proc/self/fd");
	if (!inherited)
		return err_set(e, FAILED, "cannot read /proc/self/fd: %s", strerror(errno));
	for (const char *name; (name = dir_next(inherited));) {
		if (parse_i64(span_of(name), STDERR_FILENO + 1, INT32_MAX, &fd) == 0)
			(void)fcntl((int)fd, F_SETFD, FD_CLOEXEC);
	}
	if (shim_claim(s->dir, e))
		return -1;
	sigset_t watched;
	sigemptyset(&watched);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGUSR1);
	sigaddset(&watched, SIGCHLD);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigprocmask(SIG_SETMASK, &watched, NULL);
	s->from[FROM_SIGNALS] = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
	return s->from[FROM_SIGNALS] < 0 ? err_set(e, FAILED, "signalfd: %s", strerror(errno)) : 0;
}

int cmd_shim(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--exec") == 0)
		return shim_exec_main(argv[2]);
	if (argc == 3 && strcmp(argv[1], "--enter") == 0)
		return shim_enter_main(argv[2]);
	if (argc == 3 && strcmp(argv[1], "--inside") == 0)
		return shim_inside_main(argv[2]);
	bool tied = argc == 4 && strcmp(argv[2], "--parent") == 0;
	if (argc != 2 && !tied) {
		fputs("usage: pai-runtime shim DIR [--parent PID]\n", stderr);
		return 2;
	}
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	static struct shim s; /* it is large */
	if (shim_open(&s, argv[1], tied ? argv[3] : NULL, &a, &e)) {
		fprintf(stderr, "pai-runtime shim: %s\n", err_msg(&e));
		return EXIT_CLAIM;
	}
	(void)!chdir("/");
	/* A session keyring of its own: the server's would be that of all tasks. */
	(void)syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
	umask(077);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	return shim_run(&s);
}
