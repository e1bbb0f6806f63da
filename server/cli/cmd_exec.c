/* rest-lit exec JOB[/ROLE[/INDEX]] [-- COMMAND]: a shell or a command in a task that runs.
 * rest-lit open JOB[/ROLE[/INDEX]] [PORT]: a port of this machine leads to one of a task. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/posix/fd.h"
#include "server/cli/cli_internal.h"
#include "server/config/setup.h"

enum {
	TURN_MS = 60000,
	EXEC_BODY = 128 << 10,
	CONNECTIONS_MAX = 32,
	OPEN_BODY = 8192,
	OPEN_LOG = 64 << 20,
	LINK_MAX = 2048
};

/* The terminal of this process, whose mode is as before at every end. */
static struct termios terminal_before;
static bool terminal_raw;

static void terminal_restore(void)
{
	if (terminal_raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal_before); /* it may be gone */
	terminal_raw = false;
}

static void terminal_set_raw(void)
{
	struct termios raw = terminal_before;
	cfmakeraw(&raw);
	terminal_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

struct execution {
	struct remote_session session;
	int signals;
	int signo; /* that ends it; 0 */
	bool terminal, raw;
};

/* ---- descriptors ----------------------------------------------------------------------------- */

/* A descriptor of its own for a pipe or a terminal, which does not block: the one of the caller can
 * be that of other programs, too.  A file stays, since its offset is theirs. */
static int exec_reopen(int fd, int flags)
{
	struct stat st;
	char path[32];
	if (fstat(fd, &st) != 0 || (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode)))
		return fd;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int own = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return own >= 0 ? own : fd;
}

/* ---- the request ----------------------------------------------------------------------------- */

static void exec_put_terminal(struct str *body)
{
	struct winsize size;
	const char *term = getenv("TERM"); /* NOLINT(concurrency-mt-unsafe): one thread */
	bool known = ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;
	json_put_word(body, "terminal", term && *term ? term : "dumb");
	if (known) {
		json_put_int(body, "rows", size.ws_row);
		json_put_int(body, "columns", size.ws_col);
	}
}

/* ---- signals --------------------------------------------------------------------------------- */

static void exec_signal(void *arg, void *ptr)
{
	struct execution *x = arg;
	struct signalfd_siginfo info;
	struct winsize size;
	(void)ptr;
	while (read(x->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGWINCH && info.ssi_signo != SIGCONT) {
			x->signo = (int)info.ssi_signo;
			continue;
		}
		if (info.ssi_signo == SIGCONT && x->raw)
			terminal_set_raw(); /* the shell has had it meanwhile */
		if (x->terminal && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
			remote_session_resize(&x->session, size.ws_row, size.ws_col);
	}
}

static int exec_watch_signals(struct execution *x)
{
	static const int WATCHED[] = { SIGWINCH, SIGCONT, SIGTERM, SIGHUP, SIGINT, SIGQUIT };
	sigset_t all;
	sigemptyset(&all);
	for (size_t i = 0; i < ARRAY_SIZE(WATCHED); i++)
		sigaddset(&all, WATCHED[i]);
	(void)pthread_sigmask(SIG_BLOCK, &all, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	x->signals = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = x };
	x->session.epoll = epoll_create1(EPOLL_CLOEXEC);
	return x->signals < 0 || x->session.epoll < 0
	           ? -1
	           : epoll_ctl(x->session.epoll, EPOLL_CTL_ADD, x->signals, &event);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* The exit status, after the sentence for people. */
static int exec_result(const struct execution *x, const char *name)
{
	const struct remote_session *s = &x->session;
	if (x->signo)
		return 128 + x->signo;
	if (s->why[0] || !s->begun)
		(void)fprintf(stderr, "rest-lit %s: %s\n", name, s->why);
	return s->begun ? s->code : EXIT_NO_COMMAND;
}

int exec_in_task(struct remote *r, const struct session_target *t, const struct exec_call *c)
{
	ERR_AUTO e = { 0 };
	struct execution x = { .session.remote = r, .terminal = c->terminal };
	struct remote_session *s = &x.session;
	STR_AUTO body = STR_SECRET(EXEC_BODY);
	session_body(&body, t);
	json_put_open(&body, "command", '[');
	for (const char *const *word = c->command; word && *word; word++)
		json_put_word(&body, NULL, *word);
	str_char(&body, ']');
	if (c->terminal)
		exec_put_terminal(&body);
	str_char(&body, '}');
	int bad = exec_watch_signals(&x);
	if (bad)
		(void)err_set(&e, UNKNOWN_ERROR, "signalfd and epoll: %m");
	else
		bad = remote_session_begin(s, t->job, str_view(&body), c->fd, &e);
	while (!bad && !remote_session_over(s) && !x.signo) {
		remote_session_turn(&s, 1, TURN_MS, exec_signal, &x);
		if (s->begun && c->terminal && !x.raw && isatty(STDIN_FILENO)) {
			x.raw = true;
			terminal_set_raw();
		}
	}
	remote_session_end(s);
	terminal_restore();
	fd_cleanup(&x.signals);
	fd_cleanup(&s->epoll);
	return bad ? print_error_notes(&e, NULL, EXIT_NO_COMMAND) : exec_result(&x, c->name);
}

void exec_streams(struct exec_call *c)
{
	/* Before there is another thread: it would get these, and drop them. */
	sigset_t all;
	sigemptyset(&all);
	sigaddset(&all, SIGWINCH);
	sigaddset(&all, SIGCONT);
	(void)pthread_sigmask(SIG_BLOCK, &all, NULL);
	if (tcgetattr(STDIN_FILENO, &terminal_before) == 0)
		(void)atexit(terminal_restore);
	c->fd[SESSION_IN] = exec_reopen(STDIN_FILENO, O_RDONLY);
	c->fd[SESSION_OUT] = exec_reopen(STDOUT_FILENO, O_WRONLY);
	c->fd[SESSION_ERR] = exec_reopen(STDERR_FILENO, O_WRONLY);
}

static int exec_run(struct remote *r, const void *arg, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct session_target t;
	if (session_target_read(r, r->o->files[0], &a, &t, e) < 0)
		return print_error_notes(e, NULL, EXIT_NO_COMMAND);
	return exec_in_task(r, &t, arg);
}

int cmd_exec(const struct command *c, struct options *o)
{
	struct exec_call x = { .name = c->name, .command = o->command };
	if (o->terminal && o->no_terminal) {
		(void)command_usage(c, "-t or -T, not both");
		return EXIT_NO_COMMAND;
	}
	x.terminal =
	    o->terminal || (!o->no_terminal && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
	exec_streams(&x);
	return remote_run(o, NULL, exec_run, &x);
}

struct tunnel {
	struct remote_session session;
	int fd[2]; /* of one socket */
};

struct opening {
	struct remote *remote;
	struct session_target task;
	int64_t port;
	int epoll, listener, signals;
	bool stop;
	struct tunnel *tunnel[CONNECTIONS_MAX];
	size_t n;
};

/* ---- the ports of the task ------------------------------------------------------------------- */

static void open_body(struct str *out, const struct opening *o, int64_t port)
{
	session_body(out, &o->task);
	json_put_int(out, "connect", port);
	str_char(out, '}');
}

/* The ports of the task, with blanks, in the arena; NULL and *e. */
static const char *open_list_ports(const struct opening *o, struct arena *a, struct err *e)
{
	static const int NONE[SESSION_FDS] = { -1, -1, -1 };
	struct remote_session x = { .remote = o->remote, .epoll = o->epoll };
	struct remote_session *all = &x;
	STR_AUTO body = STR_INIT(OPEN_BODY);
	open_body(&body, o, 0);
	int bad = remote_session_begin(&x, o->task.job, str_view(&body), NONE, e);
	while (bad == 0 && !remote_session_over(&x))
		remote_session_turn(&all, 1, TURN_MS, NULL, NULL);
	remote_session_end(&x);
	if (bad == 0 && x.code != 200)
		bad = err_set(e, x.code == 125 ? 503 : x.code, NULL, "%s", x.why);
	return bad ? NULL : arena_dup(a, span_of(x.why));
}

/* o->port: that which is wanted, or the only one.  -1 and *e. */
static int open_choose(struct opening *o, const char *wanted, struct err *e)
{
	ARENA_AUTO a = { 0 };
	char shown[4 * QUOTE_MAX];
	if (wanted && parse_i64(span_of(wanted), 1, UINT16_MAX, &o->port) != 0)
		return err_set(e, 400, NULL, "PORT must be a number from 1 to 65535, is \"%s\"",
		               quote(shown, span_of(wanted)));
	const char *ports = open_list_ports(o, &a, e);
	if (!ports)
		return -1;
	if (!*ports)
		return err_set(e, 404, NULL,
		               "no process of the task listens on a port (yet); rest-lit logs "
		               "shows what it does");
	if (!wanted && (strchr(ports, ' ') || parse_i64(span_of(ports), 1, UINT16_MAX, &o->port)))
		return err_set(e, 400, NULL, "name one of the ports of the task: %s", ports);
	for (struct span rest = span_of(ports); rest.n > 0;) {
		int64_t port = 0;
		if (parse_i64(span_next(&rest, ' '), 1, UINT16_MAX, &port) == 0 && port == o->port)
			return 0;
	}
	return err_set(e, 403, NULL, "the task does not listen on port %lld; its ports are %s",
	               (long long)o->port, ports);
}

/* ---- the link -------------------------------------------------------------------------------- */

/* The rest of the last URL with this port, "/lab?token=..."; "/" if there is none. */
static struct span link_in_log(struct span log, int64_t port)
{
	struct span found = SPAN("/");
	for (size_t at = 0; (at = span_find(log, at, "://")) < log.n;) {
		at += strlen("://");
		struct span rest = span_from(log, at);
		struct span url = span_to(rest, span_skip_class(rest, 0, "!-~"));
		struct span host = span_next(&url, '/');
		struct span digits = span_from(
		    host, span_chr(host, ':') < host.n ? span_chr(host, ':') + 1 : host.n);
		int64_t n;
		if (parse_i64(digits, 1, UINT16_MAX, &n) != 0 || n != port || url.n > LINK_MAX)
			continue;
		found = url.n ? (struct span){ url.p - 1, url.n + 1 } : SPAN("/");
		found.n = span_skip_class(found, 0, "A-Za-z0-9._~:/?#@!$&*+,;=%-");
	}
	return found;
}

/* The path of the link, in the arena; without a log it is "/". */
static const char *open_link(const struct opening *o, struct arena *a)
{
	REPLY_AUTO detail = { 0 };
	REPLY_AUTO log = { 0 };
	ERR_AUTO e = { 0 };
	struct span json;
	const struct session_target *t = &o->task;
	if (remote_get(o->remote, remote_path(t->job, "", a), &detail, &json, &e) < 0)
		return "/";
	for (struct task_walk w = progress_tasks(json); progress_next_task(&w);) {
		struct span path = scan_text(scan_get(w.task, "containerLog"), a);
		if (w.index != t->index || (t->role.n && !span_eq(w.role, t->role)) || !path.n)
			continue;
		const struct client_call call = { .method = "GET",
			                          .path = arena_printf(a, "%.*s/all?follow=false",
			                                               (int)path.n, path.p),
			                          .max = OPEN_LOG };
		if (remote_ask(o->remote, &call, 200, &log, &e) == 0)
			return arena_dup(a, link_in_log(str_view(&log.body), o->port));
		break;
	}
	return "/";
}

/* ---- connections ----------------------------------------------------------------------------- */

/* A listener on loopback, at the same port if it is free.  Its port; -1 and *e. */
static int open_listen(struct opening *o, struct err *e)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)o->port) };
	socklen_t n = sizeof(at);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	o->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool good = o->listener >= 0;
	if (good && bind(o->listener, (struct sockaddr *)&at, n) != 0) {
		at.sin_port = 0;
		good = bind(o->listener, (struct sockaddr *)&at, n) == 0;
	}
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &o->listener };
	if (good && listen(o->listener, CONNECTIONS_MAX) == 0 &&
	    getsockname(o->listener, (struct sockaddr *)&at, &n) == 0 &&
	    epoll_ctl(o->epoll, EPOLL_CTL_ADD, o->listener, &event) == 0)
		return ntohs(at.sin_port);
	return err_set(e, UNKNOWN_ERROR, "no port of this machine can be opened: %m");
}

static void tunnel_end(struct tunnel *t)
{
	remote_session_end(&t->session);
	fd_cleanup(&t->fd[0]);
	fd_cleanup(&t->fd[1]);
	free(t);
}

/* One more than there may be waits in the queue of the listener. */
static void open_accept(struct opening *o)
{
	STR_AUTO body = STR_INIT(OPEN_BODY);
	ERR_AUTO e = { 0 };
	if (o->n == CONNECTIONS_MAX)
		return;
	int fd = accept4(o->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return;
	struct tunnel *t = xcalloc(1, sizeof(*t));
	t->fd[0] = fd;
	t->fd[1] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	t->session.remote = o->remote;
	t->session.epoll = o->epoll;
	const int fds[SESSION_FDS] = { t->fd[0], t->fd[1], -1 };
	open_body(&body, o, o->port);
	if (remote_session_begin(&t->session, o->task.job, str_view(&body), fds, &e) == 0) {
		o->tunnel[o->n++] = t;
		return;
	}
	(void)fprintf(stderr, "rest-lit open: %s\n", err_msg(&e));
	tunnel_end(t);
}

static void open_event(void *arg, void *ptr)
{
	struct opening *o = arg;
	o->stop |= ptr == &o->signals;
	if (ptr == &o->listener)
		open_accept(o);
}

/* Removes those that have ended, and watches the listener while there is room for another one. */
static void open_sweep(struct opening *o, size_t before)
{
	for (size_t i = 0; i < o->n;) {
		struct tunnel *t = o->tunnel[i];
		if (!remote_session_over(&t->session)) {
			i++;
			continue;
		}
		if (t->session.why[0] && !o->stop)
			(void)fprintf(stderr, "rest-lit open: %s\n", t->session.why);
		tunnel_end(t);
		o->tunnel[i] = o->tunnel[--o->n];
	}
	struct epoll_event event = { .events = o->n < CONNECTIONS_MAX ? EPOLLIN : 0,
		                     .data.ptr = &o->listener };
	if ((before == CONNECTIONS_MAX) != (o->n == CONNECTIONS_MAX))
		(void)epoll_ctl(o->epoll, EPOLL_CTL_MOD, o->listener, &event); /* it was added */
}

/* Without a connection it waits for the first one. */
static void open_serve(struct opening *o)
{
	while (!o->stop) {
		struct remote_session *all[CONNECTIONS_MAX];
		struct epoll_event event;
		size_t before = o->n;
		for (size_t i = 0; i < o->n; i++)
			all[i] = &o->tunnel[i]->session;
		if (o->n > 0)
			remote_session_turn(all, o->n, TURN_MS, open_event, o);
		else if (epoll_wait(o->epoll, &event, 1, -1) == 1)
			open_event(o, event.data.ptr);
		open_sweep(o, before);
	}
	while (o->n > 0)
		tunnel_end(o->tunnel[--o->n]);
}

static int open_watch_signals(struct opening *o)
{
	sigset_t all;
	sigemptyset(&all);
	sigaddset(&all, SIGINT);
	sigaddset(&all, SIGTERM);
	sigaddset(&all, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &all, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	o->signals = signalfd(-1, &all, SFD_CLOEXEC);
	o->epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &o->signals };
	return o->signals < 0 || o->epoll < 0
	           ? -1
	           : epoll_ctl(o->epoll, EPOLL_CTL_ADD, o->signals, &event);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int open_run(struct remote *r, const void *arg, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct opening o = { .remote = r };
	(void)arg;
	if (session_target_read(r, r->o->files[0], &a, &o.task, e) < 0)
		return -1;
	if (open_watch_signals(&o) != 0)
		return err_set(e, UNKNOWN_ERROR, "signalfd and epoll: %m");
	if (open_choose(&o, r->o->n_files > 1 ? r->o->files[1] : NULL, e) < 0)
		return -1;
	int port = open_listen(&o, e);
	if (port < 0)
		return -1;
	(void)printf("http://127.0.0.1:%d%s\n", port, open_link(&o, &a));
	(void)fflush(stdout);
	(void)fprintf(stderr, "rest-lit open: this leads to port %lld of the task, until Ctrl-C\n",
	              (long long)o.port);
	open_serve(&o);
	return EXIT_OK;
}

int cmd_open(const struct command *c, struct options *o)
{
	(void)c;
	return remote_run(o, NULL, open_run, NULL);
}
