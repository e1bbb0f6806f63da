/*
 * `pai-runtime shim --enter DIR`: the helper of a session (base/pod/session.h).  It stays outside
 * of the sandbox, as the user of the server, starts `shim --inside` in it, and copies bytes between
 * its standard streams and the command.
 *
 * The task is hostile: until the new process has executed the pai-runtime of the sandbox, programs
 * of the task see it in /proc.  So this process is not dumpable from its first line on, and never
 * executes its own file in there.  What comes from `shim --inside` is not trusted.
 */
#include "runtime-assets/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pod/session.h"
#include "base/posix/clock.h"
#include "base/posix/process.h"

enum {
	ENTER_WAIT_MS = 10000, /* for --inside to start the command */
	ENTER_LEAVE_MS = 4000, /* for --inside to end; it takes three seconds at most */
	ENTER_POLL_MS = 20,
	ENTER_LOST_MS = 1000, /* from the end of --inside to that of the task */
	ENTER_OUT = 0,
	ENTER_ERR = 1,
	ENTER_FROM = 2,
	FLAT_FDS = 5, /* of --inside: three streams, SHIM_CONTROL_FD, SHIM_REQUEST_FD */
	ENTERS = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS
};

struct entering {
	int dir, task;        /* task: a pidfd of its first process */
	char pid[16];         /* of that, as the sandbox numbers it */
	const char *program;  /* of the sandbox; NULL: there is none */
	pid_t child;          /* --inside */
	int control;          /* to it; -1: it has ended */
	int in;               /* input of the command; -1: closed */
	int from[ENTER_FROM]; /* its output; -1: closed */
	bool command, terminal;
	struct session_reader reader;
	struct span rest, waiting; /* of `piece`: to be read; of them, to be written to `in` */
	int64_t heard_ms, said_ms; /* the last frame of each side */
	bool heard;
	size_t out_n, out_at; /* of `out`, and what of it has been written */
	char out[SESSION_HEAD + SESSION_DATA];
	char piece[SESSION_DATA];
};

/* ---- refusals -------------------------------------------------------------------------------- */

/* The first frame, and the end of this process. */
_Noreturn static void enter_refuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn static void enter_refuse(const char *fmt, ...)
{
	char text[512];
	STR_AUTO frame = STR_INIT(sizeof(text) + SESSION_HEAD);
	va_list args;
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args); /* may be cut */
	va_end(args);
	session_put(&frame, SESSION_STATUS, span_of(text));
	(void)fd_write_all(STDOUT_FILENO, str_view(&frame)); /* else nobody waits for it */
	_exit(0);
}

/* ---- finding the task ------------------------------------------------------------------------ */

/* Opens the first process of the task, and joins its cgroup. */
static void enter_find(struct entering *x, const char *path, struct arena *a)
{
	char identity[PROCESS_IDENTITY_MAX];
	char now[PROCESS_IDENTITY_MAX];
	char **lists[SHIM_LISTS];
	off_t at = 0;
	int64_t pid = 0;
	x->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (x->dir < 0)
		enter_refuse("409 the task has ended");
	/* First, since a task of an earlier version has no file `pid`. */
	FD_AUTO spec = openat(x->dir, "spec", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (spec < 0 || lists_read(spec, &at, lists, SHIM_LISTS, a) != 0)
		enter_refuse("409 the task has ended");
	char **head = lists[SHIM_HEAD];
	if (lists_count((const char *const *)head) < SHIM_HEADS ||
	    strcmp(head[SHIM_FORMAT], SHIM_FORMAT_NOW) != 0)
		enter_refuse("409 the task was started by another version of rest-lit");
	if (fd_read_at(x->dir, "pid", identity, sizeof(identity)) < 0)
		enter_refuse("409 the task has not started its command yet");
	(void)parse_i64(span_to(span_of(identity), strcspn(identity, " ")), 2, INT32_MAX, &pid);
	/* First, so that it is that of the process that is looked at. */
	x->task = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0); /* 0 is none */
	process_identity((pid_t)pid, now);
	if (x->task < 0 || strcmp(now, identity) != 0)
		enter_refuse("409 the task has ended");
	bool sandbox = *head[SHIM_SANDBOX];
	x->program = sandbox ? head[SHIM_PROGRAM] : NULL;
	(void)snprintf(x->pid, sizeof(x->pid), "%lld", sandbox ? 1LL : (long long)pid);
	const char *cgroup = head[SHIM_CGROUP];
	FD_AUTO joined = *cgroup ? open(cgroup, O_WRONLY | O_CLOEXEC) : -1;
	if (*cgroup && (joined < 0 || fd_write_all(joined, SPAN("0")) != 0))
		enter_refuse("500 the limits of the task cannot be joined: %s: %s", cgroup,
		             strerror(errno));
}

/* ---- --inside -------------------------------------------------------------------------------- */

/* Entering a user namespace has given all capabilities in it. */
static void enter_drop(void)
{
	/* capset(2): version 3, this thread; effective, permitted, inheritable, twice.  musl has no
	 * header for it. */
	const uint32_t head[2] = { 0x20080522, 0 };
	const uint32_t none[6] = { 0 };
	for (unsigned long c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		(void)prctl(PR_CAPBSET_DROP, c, 0, 0, 0); /* capset has the effect */
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, head, none) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		enter_refuse("500 the rights of the session cannot be dropped: %s",
		             strerror(errno));
}

/* The pai-runtime of the sandbox.  A task could put another program there, which then has the
 * rights of the task.  It cannot change what is mounted read-only; and a script could name this
 * file (`#!/proc/self/exe`), so it must be a program itself. */
static int enter_program(const struct entering *x)
{
	static const char ELF[] = { 0x7f, 'E', 'L', 'F' };
	char magic[sizeof(ELF)] = { 0 };
	struct statvfs fs;
	if (!x->program)
		return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int fd = open(x->program, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool good = fd >= 0 && fstatvfs(fd, &fs) == 0 && fs.f_flag & ST_RDONLY &&
	            pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
	            memcmp(magic, ELF, sizeof(ELF)) == 0;
	if (good)
		return fd;
	fd_cleanup(&fd);
	return -1;
}

/* Runs in the new process. flat: its descriptors, in order. */
static _Noreturn void enter_exec(const struct entering *x, const int flat[FLAT_FDS], int program)
{
	static char name[] = "pai-runtime";
	static char shim[] = "shim";
	static char inside[] = "--inside";
	static char pid[sizeof(x->pid)];
	char *argv[] = { name, shim, inside, pid, NULL };
	char *env[] = { NULL };
	int up[FLAT_FDS + 1];
	sigset_t none;
	memcpy(pid, x->pid, sizeof(pid));
	sigemptyset(&none);
	(void)setsid();
	for (int i = 0; i <= FLAT_FDS; i++) /* out of the way */
		up[i] = fcntl(i < FLAT_FDS ? flat[i] : program, F_DUPFD_CLOEXEC, 4 * FLAT_FDS);
	for (int i = 0; i < FLAT_FDS; i++)
		if (dup2(up[i], i) < 0)
			_exit(NOT_STARTED);
	if (dup3(up[FLAT_FDS], FLAT_FDS, O_CLOEXEC) < 0 ||
	    syscall(SYS_close_range, FLAT_FDS + 1, ~0U, 0) != 0)
		_exit(NOT_STARTED);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	umask(022);
	(void)syscall(SYS_execveat, FLAT_FDS, "", argv, env, AT_EMPTY_PATH);
	_exit(NOT_STARTED);
}

static void enter_start(struct entering *x)
{
	int control[2];
	int pipes[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
	bool bare = x->command && !x->terminal; /* pipes */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	bool bad = null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0;
	for (int i = 0; bare && i < 3; i++)
		bad |= pipe2(pipes[i], O_CLOEXEC) != 0;
	if (bad)
		enter_refuse("503 the session cannot be made: %s", strerror(errno));
	if (x->program && setns(x->task, ENTERS) != 0) {
		if (errno == ESRCH)
			enter_refuse("409 the task has ended");
		enter_refuse("500 the sandbox cannot be entered: %s", strerror(errno));
	}
	if (x->program)
		enter_drop();
	FD_AUTO program = enter_program(x);
	if (program < 0)
		enter_refuse("409 the task has changed its pai-runtime, %s", x->program);
	const int flat[FLAT_FDS] = { bare ? pipes[0][0] : null, bare ? pipes[1][1] : null,
		                     bare ? pipes[2][1] : null, control[1], SESSION_REQUEST_FD };
	x->child = fork();
	if (x->child == 0)
		enter_exec(x, flat, program);
	if (x->child < 0)
		enter_refuse("503 the session cannot start a process: %s", strerror(errno));
	x->control = control[0];
	x->in = pipes[0][1];
	x->from[ENTER_OUT] = pipes[1][0];
	x->from[ENTER_ERR] = pipes[2][0];
	const int ends[] = { null,        control[1],  pipes[0][0],
		             pipes[1][1], pipes[2][1], SESSION_REQUEST_FD };
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		fd_cleanup(&ends[i]);
}

/* Receives the next message of --inside; fd: gets its descriptor, or -1.  0: it has ended. */
static ssize_t enter_receive(struct entering *x, char text[static SHIM_MESSAGE_MAX], int *fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec piece = { text, SHIM_MESSAGE_MAX - 1 };
	struct msghdr message = { .msg_iov = &piece,
		                  .msg_iovlen = 1,
		                  .msg_control = &control,
		                  .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(x->control, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	*fd = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	text[n > 0 ? n : 0] = '\0';
	return n;
}

/* Waits until the command has started, and says so. */
static void enter_begin(struct entering *x)
{
	char text[SHIM_MESSAGE_MAX];
	int fd;
	struct pollfd ready = { x->control, POLLIN, 0 };
	STR_AUTO frame = STR_INIT(SESSION_HEAD + 1);
	if (poll(&ready, 1, ENTER_WAIT_MS) <= 0)
		enter_refuse("504 the session was not ready within %d s", ENTER_WAIT_MS / 1000);
	ssize_t n = enter_receive(x, text, &fd);
	if (n > 0 && *text == 'E')
		enter_refuse("%s", text + 1);
	if (n <= 0 || *text != 'S' || (x->command && !x->terminal) == (fd >= 0))
		enter_refuse("409 the session has ended before its command has started");
	if (fd >= 0)
		x->in = x->from[ENTER_OUT] = fd; /* a terminal or a connection */
	(void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	(void)fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
	(void)fcntl(x->in, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < ENTER_FROM; i++)
		(void)fcntl(x->from[i], F_SETFL, O_NONBLOCK);
	session_put(&frame, SESSION_STATUS, SPAN("0"));
	(void)fd_write_all(STDOUT_FILENO, str_view(&frame)); /* into an empty pipe */
	x->heard_ms = x->said_ms = clock_ms();
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Writes what it can of the frame.  false: nobody reads it any more. */
static bool enter_flush(struct entering *x)
{
	while (x->out_at < x->out_n) {
		ssize_t n = write(STDOUT_FILENO, x->out + x->out_at, x->out_n - x->out_at);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		x->out_at += (size_t)n;
		x->said_ms = clock_ms();
	}
	return true;
}

/* There is no frame that waits. */
static void enter_say(struct entering *x, enum session_channel channel, size_t n)
{
	session_head(x->out, channel, n);
	x->out_n = SESSION_HEAD + n;
	x->out_at = 0;
}

/* The next bytes of the command become a frame; false: there are none now. */
static bool enter_take(struct entering *x, int which)
{
	ssize_t n =
	    x->from[which] < 0 ? 0 : read(x->from[which], x->out + SESSION_HEAD, SESSION_DATA);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n > 0) {
		enter_say(x, SESSION_OUT + (unsigned)which, (size_t)n);
		return true;
	}
	/* The end; of a terminal that nobody has open it is EIO.  The input of a connection is open
	 * longer than its output. */
	if (x->from[which] != x->in)
		fd_cleanup(&x->from[which]);
	x->from[which] = -1;
	return false;
}

/* The same until it is written, or the client does not read for too long. */
static bool enter_flush_all(struct entering *x)
{
	int64_t until = clock_ms() + SESSION_SILENCE_MS;
	while (x->out_at < x->out_n) {
		struct pollfd out = { STDOUT_FILENO, POLLOUT, 0 };
		int64_t left = until - clock_ms();
		if (left <= 0 || poll(&out, 1, (int)left) <= 0 || !enter_flush(x))
			return false;
	}
	return true;
}

/* The last frame: what the command has written until now, and how it ended. */
static void enter_end(struct entering *x, const char *status)
{
	bool reads = enter_flush_all(x);
	for (int i = 0; i < ENTER_FROM; i++)
		while (reads && enter_take(x, i))
			reads = enter_flush_all(x);
	size_t n = strlen(status);
	memcpy(x->out + SESSION_HEAD, status, n);
	enter_say(x, SESSION_STATUS, n);
	if (reads)
		(void)enter_flush_all(x);
}

/* ---- input ----------------------------------------------------------------------------------- */

/* Writes what it can to the command; a command that has closed its input gets no more. */
static void enter_feed(struct entering *x)
{
	while (x->waiting.n) {
		ssize_t n =
		    x->in < 0 ? (ssize_t)x->waiting.n : write(x->in, x->waiting.p, x->waiting.n);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		x->waiting = n < 0 ? SPAN("") : span_from(x->waiting, (size_t)n);
	}
}

static void enter_input_ends(struct entering *x)
{
	if (x->terminal) {
		x->waiting = SPAN("\x04"); /* the end is a character, Ctrl-D */
		enter_feed(x);
	} else if (!x->command) {
		(void)shutdown(x->in, SHUT_WR);
	} else {
		fd_cleanup(&x->in);
		x->in = -1;
	}
}

/* Handles the frames of the client, until one waits for the command.  false: one is malformed. */
static bool enter_read_frames(struct entering *x)
{
	enum session_channel channel;
	struct winsize size = { 0 };
	while (!x->waiting.n) {
		struct span part;
		enum session_got got = session_read(&x->reader, &x->rest, &channel, &part);
		if (got == SESSION_MORE)
			return true;
		if (got == SESSION_BAD || (got != SESSION_EMPTY && channel != SESSION_IN &&
		                           channel != SESSION_SIZE && channel != SESSION_CLOSE))
			return false;
		if (got == SESSION_PART) {
			x->waiting = part;
			enter_feed(x);
		} else if (got == SESSION_WHOLE && channel == SESSION_CLOSE) {
			enter_input_ends(x);
		} else if (got == SESSION_WHOLE) {
			if (!session_size(part, &size.ws_row, &size.ws_col))
				return false;
			if (x->terminal)
				(void)ioctl(x->in, TIOCSWINSZ, &size); /* else it keeps its size */
		}
	}
	return true;
}

/* ---- the session ----------------------------------------------------------------------------- */

enum { W_STDIN, W_STDOUT, W_IN, W_FROM, W_CONTROL = W_FROM + ENTER_FROM, W_TASK, WATCHED };

/* Milliseconds until something is due. */
static int enter_wait_ms(const struct entering *x, int64_t now)
{
	bool says = x->out_at < x->out_n;
	int64_t due = says ? INT64_MAX : x->said_ms + SESSION_BEAT_MS;
	int64_t heard = x->heard_ms + (x->heard ? SESSION_SILENCE_MS : SESSION_FIRST_MS);
	if (!x->waiting.n && heard < due)
		due = heard;
	return due == INT64_MAX ? -1 : due > now ? (int)(due - now) : 0;
}

static const char NO_INPUT[] = "125 the connection for the input has ended";

/* Reads from the client; returns the status if the session ends by that, or NULL. */
static const char *enter_hear(struct entering *x)
{
	ssize_t n = x->rest.n ? 0 : read(STDIN_FILENO, x->piece, sizeof(x->piece));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return NULL;
	if (n > 0) {
		x->rest = (struct span){ x->piece, (size_t)n };
		x->heard_ms = clock_ms();
		x->heard = true;
	} else if (!x->rest.n) {
		return NO_INPUT;
	}
	return enter_read_frames(x) ? NULL : "125 a frame of the client is malformed";
}

/* A message of --inside, or its end; returns the last status, or NULL. */
static const char *enter_control(struct entering *x, char status[static SHIM_MESSAGE_MAX])
{
	int fd;
	int64_t code;
	struct pollfd task = { x->task, POLLIN, 0 };
	ssize_t n = enter_receive(x, status, &fd);
	fd_cleanup(&fd); /* there should be none */
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return NULL;
	if (n > 1 && *status == 'X' && parse_i64(span_of(status + 1), 0, 255, &code) == 0)
		return memmove(status, status + 1, (size_t)n);
	fd_cleanup(&x->control);
	x->control = -1;
	if (!x->command && n == 0)
		return NULL; /* the connection goes on without it */
	bool ended = poll(&task, 1, ENTER_LOST_MS) > 0;
	return ended ? "137 the task has ended" : "137 the session was killed in the task";
}

/* One turn; returns the last status, or NULL to go on. */
static const char *enter_turn(struct entering *x, char status[static SHIM_MESSAGE_MAX])
{
	int64_t now = clock_ms();
	bool says = x->out_at < x->out_n;
	bool waits = x->waiting.n > 0;
	struct pollfd w[WATCHED] = {
		[W_STDIN] = { STDIN_FILENO, waits ? 0 : POLLIN, 0 },
		[W_STDOUT] = { STDOUT_FILENO, says ? POLLOUT : 0, 0 },
		[W_IN] = { waits ? x->in : -1, POLLOUT, 0 },
		[W_CONTROL] = { x->control, POLLIN, 0 },
		[W_TASK] = { x->task, POLLIN, 0 },
	};
	for (int i = 0; i < ENTER_FROM; i++)
		w[W_FROM + i] = (struct pollfd){ says ? -1 : x->from[i], POLLIN, 0 };
	if (poll(w, WATCHED, enter_wait_ms(x, now)) < 0)
		return NULL;
	now = clock_ms();
	if (w[W_STDOUT].revents & (POLLERR | POLLHUP) || !enter_flush(x))
		return ""; /* the server has closed it */
	if (w[W_IN].revents) {
		enter_feed(x);
		x->heard_ms = now; /* it did not read frames meanwhile */
	}
	const char *end = NULL;
	if (waits && w[W_STDIN].revents & POLLHUP)
		end = NO_INPUT;
	else if (w[W_STDIN].revents || (waits && !x->waiting.n))
		end = enter_hear(x);
	if (!end && w[W_CONTROL].revents)
		end = enter_control(x, status);
	if (!end && w[W_TASK].revents)
		end = "137 the task has ended";
	for (int i = 0; !end && i < ENTER_FROM && x->out_at == x->out_n; i++)
		if (w[W_FROM + i].revents)
			(void)enter_take(x, i);
	if (!end && !x->command && x->from[ENTER_OUT] < 0)
		end = "0";
	if (!end && !x->waiting.n &&
	    now >= x->heard_ms + (x->heard ? SESSION_SILENCE_MS : SESSION_FIRST_MS))
		end = x->heard ? "125 the client is silent"
		               : "125 no input came from the client within 5 s: a proxy that "
		                 "collects request bodies (nginx: proxy_request_buffering off)?";
	if (!end && x->out_at == x->out_n && now >= x->said_ms + SESSION_BEAT_MS)
		enter_say(x, SESSION_OUT, 0);
	return end || enter_flush(x) ? end : "";
}

/* The client has its answer.  --inside ends what the command has left; a task could stop it.  In a
 * sandbox this process sees the /proc of that, with other numbers. */
static void enter_leave(struct entering *x)
{
	pid_t self = getpid();
	int64_t until = clock_ms() + ENTER_LEAVE_MS;
	(void)close(STDIN_FILENO);
	(void)close(STDOUT_FILENO);
	fd_cleanup(&x->control);
	fd_cleanup(&x->in);
	while (waitpid(-1, NULL, WNOHANG) == 0) { /* they are reaped, so that it never has one */
		if (clock_ms() >= until)
			(void)kill(x->child, SIGKILL);
		if (clock_ms() >= until && !x->program)
			(void)process_kill_all(shim_is_child, &self);
		clock_sleep(ENTER_POLL_MS);
	}
}

int shim_enter_main(const char *path)
{
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)signal(SIGCHLD, SIG_IGN); /* the kernel reaps, also while this process is stopped */
	(void)signal(SIGPIPE, SIG_IGN);
	ARENA_AUTO a = { 0 };
	static struct entering x; /* it is large */
	char status[SHIM_MESSAGE_MAX];
	char **lists[SESSION_LISTS];
	off_t at = 0;
	if (fcntl(SESSION_REQUEST_FD, F_SETFD, FD_CLOEXEC) != 0 ||
	    lists_read(SESSION_REQUEST_FD, &at, lists, SESSION_LISTS, &a) != 0 ||
	    lists_count((const char *const *)lists[SESSION_HOW]) != SESSION_HOWS)
		enter_refuse("500 the session has no request");
	x.terminal = *lists[SESSION_HOW][SESSION_TERM];
	x.command = !*lists[SESSION_HOW][SESSION_PORT];
	/* As the shim does. */
	(void)syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
	enter_find(&x, path, &a);
	if (!x.program) /* orphans of --inside end with this process */
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	enter_start(&x);
	enter_begin(&x);
	const char *end;
	while (!(end = enter_turn(&x, status))) {
	}
	if (*end)
		enter_end(&x, end);
	enter_leave(&x);
	return 0;
}
