/*
 * `pai-runtime shim --inside PID`: the process of a session in the sandbox of a task, with the
 * rights of the task.  It starts the command, with a terminal of the sandbox if it is to have one,
 * and tells its exit status; or it connects to a port of the task.  What the command has started
 * ends with it.
 */
#include "runtime-assets/shim/shim_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pod/session.h"
#include "base/posix/clock.h"
#include "base/posix/process.h"

enum {
	INSIDE_ENV_MAX = 4 << 20,
	INSIDE_GRACE_MS = 3000, /* from SIGHUP to SIGKILL */
	INSIDE_POLL_MS = 20,
	LISTENERS_MAX = 8192,
	LISTENERS_TEXT = 64 << 20,
	WORD_DIGITS = 8,
	TCP_LOCAL = 1, /* columns of /proc/net/tcp */
	TCP_STATE = 3,
	TCP_INODE = 9
};

struct inside {
	char **command, **how;
	struct arena *a;
	struct str env;   /* of the task */
	const char *mark; /* a variable that all its processes have */
	pid_t first;
	int signals;
	pid_t child;
	int terminal; /* the end of the command; -1: it has none */
};

/* ---- messages -------------------------------------------------------------------------------- */

/* fd: goes along, unless it is -1. */
static void inside_tell(struct span text, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec piece = { (char *)(uintptr_t)text.p, text.n }; /* NOLINT: only read */
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	}
	(void)sendmsg(SHIM_CONTROL_FD, &message, MSG_NOSIGNAL); /* else the helper has ended */
}

_Noreturn static void inside_refuse(const char *text)
{
	inside_tell(span_of(text), -1);
	_exit(0);
}

/* ---- the task -------------------------------------------------------------------------------- */

/* The process whose directory and variables the command has: the oldest child of pai-runtime, or,
 * if the first process has none, that itself. */
static pid_t inside_model(pid_t first)
{
	pid_t found = first;
	int64_t oldest = INT64_MAX;
	DIR_AUTO *all = dir_list(AT_FDCWD, "/proc");
	for (const char *name; (name = dir_next(all)) != NULL;) {
		int64_t v[STAT_FIELDS];
		int64_t pid;
		if (parse_i64(span_of(name), 1, INT32_MAX, &pid) == 0 &&
		    process_stat("", (pid_t)pid, v) && v[STAT_PARENT] == first &&
		    v[STAT_STATE] != 'Z' && v[STAT_START] < oldest) {
			oldest = v[STAT_START];
			found = (pid_t)pid;
		}
	}
	return found;
}

/* The variables of the task, but for that of the terminal. */
static char **inside_environment(struct inside *x, pid_t model)
{
	const char *term = x->how[SESSION_TERM];
	FREE_AUTO char *path = xasprintf("/proc/%ld/environ", (long)model);
	(void)fd_read_str(AT_FDCWD, path, &x->env); /* without them it goes on */
	struct span rest = str_view(&x->env);
	size_t n = 0;
	for (size_t i = 0; i < rest.n; i++)
		n += rest.p[i] == '\0';
	char **out = ARENA_NEW(x->a, char *, n + 3);
	n = 0;
	while (rest.n > 0) {
		struct span one = span_next(&rest, '\0');
		if (span_starts(one, "FC_POD_UID="))
			x->mark = arena_dup(x->a, one);
		if (*term == '\0' || !span_starts(one, "TERM="))
			out[n++] = arena_dup(x->a, one);
	}
	if (*term)
		out[n++] = arena_printf(x->a, "TERM=%s", term);
	return out;
}

/* ---- ports ----------------------------------------------------------------------------------- */

/* A socket of this machine that listens. */
struct listener {
	int64_t inode;
	unsigned port;
	bool six, mine;      /* IPv6; of a process of this task */
	uint32_t address[4]; /* in network order; IPv4: the first */
};

struct listening {
	struct listener v[LISTENERS_MAX];
	size_t n;
};

/* A row of /proc/net/tcp: "SL: ADDRESS:PORT REMOTE STATE ... INODE", an address in words of eight
 * digits as this processor has them. */
static bool listener_read(struct span line, struct listener *out)
{
	struct span cell[TCP_INODE + 1] = { { 0 } };
	for (size_t i = 0; i <= TCP_INODE && line.n > 0; i++) {
		line = span_from(line, span_skip_class(line, 0, " "));
		cell[i] = span_next(&line, ' ');
	}
	struct span port = cell[TCP_LOCAL];
	struct span address = span_next(&port, ':');
	*out = (struct listener){ .six = address.n > WORD_DIGITS };
	if (!span_is(cell[TCP_STATE], "0A") ||
	    address.n > sizeof(out->address) / sizeof(uint32_t) * WORD_DIGITS ||
	    parse_i64(cell[TCP_INODE], 1, INT64_MAX, &out->inode) != 0)
		return false;
	for (size_t i = 0; i < address.n; i++) {
		uint32_t *word = &out->address[i / WORD_DIGITS];
		*word = *word << 4 | (uint32_t)hex_value(address.p[i]);
	}
	for (size_t i = 0; i < port.n; i++)
		out->port = out->port << 4 | (unsigned)hex_value(port.p[i]);
	return true;
}

/* Those of all programs; false: there are too many to judge. */
static bool listening_read(struct listening *all, const char *path)
{
	STR_AUTO text = STR_INIT(LISTENERS_TEXT);
	FD_AUTO fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fd_read_all(fd, &text) != 0)
		return fd < 0; /* a machine without IPv6 */
	struct span rest = str_view(&text);
	(void)span_next(&rest, '\n'); /* the heads of the columns */
	while (rest.n > 0 && all->n < LISTENERS_MAX)
		all->n += listener_read(span_next(&rest, '\n'), &all->v[all->n]);
	return all->n < LISTENERS_MAX;
}

/* Notes the sockets that this process has open. */
static void listening_of_process(struct listening *all, pid_t pid)
{
	FREE_AUTO char *path = xasprintf("/proc/%ld/fd", (long)pid);
	DIR_AUTO *fds = dir_list(AT_FDCWD, path);
	for (const char *name; (name = dir_next(fds)) != NULL;) {
		char text[64];
		int64_t inode;
		ssize_t n = readlinkat(dirfd(fds), name, text, sizeof(text));
		struct span to = { text, n > 0 ? (size_t)n : 0 };
		if (!span_starts(to, "socket:["))
			continue;
		to = span_from(to, strlen("socket:["));
		if (parse_i64(span_to(to, span_chr(to, ']')), 1, INT64_MAX, &inode) != 0)
			continue;
		for (size_t i = 0; i < all->n; i++)
			all->v[i].mine |= all->v[i].inode == inode;
	}
}

/* All sockets that listen, and which are those of this task: of all processes here, or, without a
 * sandbox, of those that have its mark. */
static bool listening_find(struct inside *x, struct listening *all)
{
	DIR_AUTO *processes = dir_list(AT_FDCWD, "/proc");
	all->n = 0;
	if (!listening_read(all, "/proc/net/tcp") || !listening_read(all, "/proc/net/tcp6"))
		return false;
	for (const char *name; (name = dir_next(processes)) != NULL;) {
		int64_t pid;
		if (parse_i64(span_of(name), 1, INT32_MAX, &pid) == 0 &&
		    (x->first == 1 || process_has_variable((pid_t)pid, x->mark)))
			listening_of_process(all, (pid_t)pid);
	}
	return true;
}

/* The socket of the task at this port; NULL: it has none, or another program has the port, too, at
 * another address. */
static const struct listener *listener_at(const struct listening *all, unsigned port)
{
	const struct listener *found = NULL;
	for (size_t i = 0; i < all->n; i++) {
		if (all->v[i].port != port)
			continue;
		if (!all->v[i].mine)
			return NULL;
		found = &all->v[i];
	}
	return found;
}

/* Connects to it; one that listens at all addresses by loopback.  -1 and errno. */
static int listener_connect(const struct listener *to)
{
	static const uint32_t NONE[4];
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at = { .v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)to->port) } };
	bool all = memcmp(to->address, NONE, sizeof(NONE)) == 0;
	if (to->six) {
		at.v6.sin6_family = AF_INET6; /* the port is at the same place */
		memcpy(&at.v6.sin6_addr, all ? &in6addr_loopback : (const void *)to->address,
		       sizeof(at.v6.sin6_addr));
	} else {
		at.v4.sin_addr.s_addr = all ? htonl(INADDR_LOOPBACK) : to->address[0];
	}
	int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t n = to->six ? sizeof(at.v6) : sizeof(at.v4);
	if (fd >= 0 && connect(fd, &at.any, n) == 0)
		return fd;
	int error = errno;
	fd_cleanup(&fd);
	if (to->six && all) { /* loopback has no IPv6 */
		struct listener four = *to;
		four.six = false;
		return listener_connect(&four);
	}
	errno = error;
	return -1;
}

/* SESSION_PORT.  The port is looked at again when the connection is there: it could have become
 * another's. */
_Noreturn static void inside_connect(struct inside *x)
{
	FREE_AUTO struct listening *all = xcalloc(1, sizeof(*all));
	STR_AUTO text = STR_INIT(SESSION_TEXT - 1);
	STR_AUTO ports = STR_INIT(SESSION_TEXT / 2);
	int64_t port = 0;
	bool read = parse_i64(span_of(x->how[SESSION_PORT]), 0, UINT16_MAX, &port) == 0;
	if (!read || !listening_find(x, all))
		inside_refuse("E500 the ports of this machine cannot be read");
	for (unsigned each = 1; each <= UINT16_MAX; each++)
		if (listener_at(all, each))
			str_printf(&ports, "%s%u", ports.n ? " " : "", each);
	if (port == 0) {
		str_printf(&text, "E200 %s", str_c(&ports));
		inside_refuse(str_c(&text));
	}
	const struct listener *to = listener_at(all, (unsigned)port);
	int fd = to ? listener_connect(to) : -1;
	if (fd >= 0 && listening_find(x, all) && listener_at(all, (unsigned)port)) {
		inside_tell(SPAN("S"), fd);
		_exit(0);
	}
	if (to)
		str_printf(&text, "E409 port %lld of the task cannot be reached: %s",
		           (long long)port, fd >= 0 ? "it was closed" : strerror(errno));
	else
		str_printf(&text, "E403 no process of this task alone listens on port %lld; %s%s",
		           (long long)port, ports.n ? "its ports are " : "it has no port",
		           str_c(&ports));
	inside_refuse(str_c(&text));
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Opens a terminal of the sandbox; returns the end of the helper. */
static int inside_open_terminal(struct inside *x)
{
	const int unlock = 0;
	int number;
	char path[32];
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	(void)session_size(span_of(x->how[SESSION_SIZE_AT]), &size.ws_row, &size.ws_col);
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	bool good = fd >= 0 && ioctl(fd, TIOCSPTLCK, &unlock) == 0 &&
	            ioctl(fd, TIOCGPTN, &number) == 0 && ioctl(fd, TIOCSWINSZ, &size) == 0;
	if (good) {
		(void)snprintf(path, sizeof(path), "/dev/pts/%d", number);
		x->terminal = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	}
	if (x->terminal < 0)
		inside_refuse(
		    arena_printf(x->a, "E500 the task has no terminal: %s", strerror(errno)));
	return fd;
}

/* The words of a shell, if the command has none. */
static char **inside_shell(struct inside *x)
{
	static char bash[] = "/bin/bash";
	static char sh[] = "/bin/sh";
	char *own = getenv("SHELL"); /* NOLINT(concurrency-mt-unsafe): one thread */
	char **argv = ARENA_NEW(x->a, char *, 2);
	argv[0] = own && own[0] == '/' && access(own, X_OK) == 0 ? own
	          : access(bash, X_OK) == 0                      ? bash
	                                                         : sh;
	return argv;
}

/* Runs in the child. */
_Noreturn static void inside_exec(struct inside *x, pid_t model, char **env)
{
	sigset_t none;
	sigemptyset(&none);
	FREE_AUTO char *cwd = xasprintf("/proc/%ld/cwd", (long)model);
	(void)setsid();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the task kills its parent */
	if (x->terminal >= 0) {
		(void)ioctl(x->terminal, TIOCSCTTY, 0);
		for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
			(void)dup2(x->terminal, i);
	}
	(void)fcntl(SHIM_CONTROL_FD, F_SETFD, FD_CLOEXEC);
	if (chdir(cwd) != 0)
		(void)!chdir("/");
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	environ = env;
	char **argv = *x->command ? x->command : inside_shell(x);
	(void)execvp(argv[0], argv); /* by PATH of this environment */
	int error = errno;
	(void)dprintf(STDERR_FILENO, "rest-lit: cannot start %.200s: %s\n", argv[0],
	              strerror(error));
	_exit(error == ENOENT || error == ENOTDIR ? NOT_FOUND : NOT_STARTED);
}

/* Reaps; true: there are no processes left. */
static bool inside_reap(struct inside *x)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		char text[16];
		if (pid != x->child)
			continue;
		int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		(void)snprintf(text, sizeof(text), "X%d", code);
		inside_tell(span_of(text), -1);
		x->child = 0;
	}
	return pid < 0 && errno == ECHILD;
}

/* Waits for an event, at most so long; false: the helper has ended. */
static bool inside_wait(const struct inside *x, int ms)
{
	struct signalfd_siginfo info;
	struct pollfd w[] = { { x->signals, POLLIN, 0 }, { SHIM_CONTROL_FD, 0, 0 } };
	(void)poll(w, ms < 0 ? 2 : 1, ms);
	while (read(x->signals, &info, sizeof(info)) > 0) {
	}
	return !(w[1].revents & (POLLHUP | POLLERR));
}

static void inside_run(struct inside *x, pid_t group)
{
	pid_t self = getpid();
	bool ended = false;
	while (!ended && x->child && inside_wait(x, -1))
		ended = inside_reap(x);
	/* Its session, then what has left it. */
	(void)kill(-group, SIGHUP);
	(void)kill(-group, SIGCONT);
	for (int64_t until = clock_ms() + INSIDE_GRACE_MS; !inside_reap(x);) {
		if (clock_ms() >= until)
			(void)process_kill_all(shim_is_child, &self);
		(void)inside_wait(x, INSIDE_POLL_MS);
	}
}

int shim_inside_main(const char *pid)
{
	ARENA_AUTO a = { 0 };
	struct inside x = {
		.a = &a, .mark = "FC_POD_UID=", .env = STR_INIT(INSIDE_ENV_MAX), .terminal = -1
	};
	char **lists[SESSION_LISTS];
	int64_t first;
	off_t at = 0;
	sigset_t watched;
	if (parse_i64(span_of(pid), 1, INT32_MAX, &first) != 0 ||
	    lists_read(SHIM_REQUEST_FD, &at, lists, SESSION_LISTS, &a) != 0)
		return 2;
	(void)close(SHIM_REQUEST_FD);
	x.first = (pid_t)first;
	x.command = lists[SESSION_COMMAND];
	x.how = lists[SESSION_HOW];
	pid_t model = inside_model(x.first);
	char **env = inside_environment(&x, model);
	if (*x.how[SESSION_PORT])
		inside_connect(&x);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	(void)sigprocmask(SIG_SETMASK, &watched, NULL);
	x.signals = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
	int helper = *x.how[SESSION_TERM] ? inside_open_terminal(&x) : -1;
	x.child = x.signals >= 0 ? fork() : -1;
	if (x.child == 0)
		inside_exec(&x, model, env);
	if (x.child < 0)
		inside_refuse("E503 the session cannot start a process in the task");
	inside_tell(SPAN("S"), helper);
	/* The streams end with the command. */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
		if (null < 0 || dup2(null, i) < 0)
			(void)close(i);
	fd_cleanup(&helper);
	fd_cleanup(&x.terminal);
	inside_run(&x, x.child);
	return 0;
}
