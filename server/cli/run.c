/*
 * The server of `rest-lit run`: that of `serve`, in threads of this process, with a private
 * directory.  It listens on a Unix socket there, for the client in this process only.  Tasks end
 * with this process, however it ends.
 *
 * The directory is $XDG_STATE_HOME/rest-lit/run/XXXXXX, locked, with the socket and, in jobs/, that
 * of the server.  One without lock is left over from a run that was killed, and whose tasks have
 * ended; the next run removes it.
 */
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "server/cli/run_internal.h"
#include "server/compose/compose.h"
#include "server/config/setup.h"
#include "server/state/log.h"
#include "translate/job/dialect.h"

enum { NOTE_BYTES = 4096 /* at most PIPE_BUF */, NOTES_BYTES = 64 << 10 /* of a pipe */ };

/* ---- what the engine says, on its thread ----------------------------------------------------- */

static void run_notice(void *arg, enum engine_level level, const char *text)
{
	struct run *r = arg;
	STR_AUTO line = STR_INIT(NOTE_BYTES);
	if (level == ENGINE_NOTE && r->own.exit_code)
		return; /* people want the output of their command only */
	if (level != ENGINE_NO_IMAGE)
		str_puts(&line, level == ENGINE_WARNING ? "\nwarning: " : "\nnote: ");
	visible_text(&line, span_of(text));
	if (level != ENGINE_NO_IMAGE)
		(void)fd_write_all(r->notes[1], str_view(&line)); /* without room it is left out */
	else if (!atomic_load(&r->no_image))
		atomic_store(&r->no_image, xstrdup(str_c(&line)));
}

/* ---- for the client, on its thread ----------------------------------------------------------- */

/* --pty: the task holds the resources, and the command is a session in it. */
static int run_session(struct run *r, struct remote *remote, const struct live_view *v)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	const struct progress *p = &v->progress;
	if (p->n_roles == 0 || p->role[0].in[JOB_RUNNING] == 0)
		return -1;
	const struct session_target task = { .job = remote_job_name(remote, v->job, &a, &e) };
	if (!task.job)
		return print_error_notes(&e, NULL, EXIT_SERVER);
	r->pty->name = "run";
	r->pty_code = exec_in_task(remote, &task, r->pty);
	return EXIT_OK;
}

static int run_look(void *arg, struct remote *remote, struct live_view *v)
{
	struct run *r = arg;
	const char *no_image = atomic_load(&r->no_image);
	char notes[NOTES_BYTES];
	ssize_t n = read(r->notes[0], notes, sizeof(notes)); /* all that are there */
	if (n > 0)
		term_print(&v->term, "%.*s", (int)n - 1, notes + 1);
	if (!no_image)
		return r->pty ? run_session(r, remote, v) : -1;
	term_print(&v->term, "%s: %s; three pulls have failed for this reason, so the job ends",
	           v->job, no_image);
	return EXIT_SERVER;
}

/* ---- the directory ------------------------------------------------------------------------- */

/* A private directory in that of temporary files, for accounts without a home; NULL and *e. */
static char *run_temporary_dir(struct arena *a, struct err *e)
{
	struct stat st;
	const char *top = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): at start */
	char *dir =
	    arena_printf(a, "%s/rest-lit-%ld", top && top[0] == '/' ? top : "/tmp", (long)getuid());
	(void)mkdir(dir, 0700); /* it may be there, and another's */
	if (lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == getuid() &&
	    (st.st_mode & 077) == 0)
		return arena_printf(a, "%s/run", dir);
	(void)err_set(e, 400, NULL,
	              "there is no home directory for the files of the job, and %s is not a "
	              "directory that only you can read: set XDG_STATE_HOME to a directory of "
	              "your own",
	              dir);
	return NULL;
}

/* The directory of all runs of this user; NULL and *e. */
static char *run_base_dir(struct arena *a, struct err *e)
{
	const char *state = getenv("XDG_STATE_HOME"); /* NOLINT(concurrency-mt-unsafe): at start */
	const char *home = getenv("HOME");            /* NOLINT(concurrency-mt-unsafe): the same */
	if (state && state[0] == '/')
		return arena_printf(a, "%s/rest-lit/run", state);
	if (!home || home[0] != '/') {
		const struct passwd *entry = getpwuid(getuid()); /* NOLINT: the same */
		home = entry ? entry->pw_dir : NULL;
	}
	if (home && home[0] == '/' && access(home, W_OK) == 0)
		return arena_printf(a, "%s/.local/state/rest-lit/run", home);
	return run_temporary_dir(a, e);
}

/* The descriptor of a directory, locked; -1: it is another run's. */
static int run_lock_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	fd_cleanup(&fd);
	return -1;
}

/* The directory above is locked while a new one is made and locked, and while an old one is tried.
 */
static int run_open_dir(struct run *r, struct err *e)
{
	struct arena *a = &r->service->options.arena;
	char *base = run_base_dir(a, e);
	if (!base)
		return -1;
	if (dir_make_all(base, 0700) < 0)
		return err_set(e, UNKNOWN_ERROR,
		               "%s: %m; set XDG_STATE_HOME to a directory for the files of the job",
		               base);
	FD_AUTO lock = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *path = arena_printf(a, "%s/XXXXXX", base);
	if (lock < 0 || flock(lock, LOCK_EX) < 0 || !mkdtemp(path))
		return err_set(e, UNKNOWN_ERROR, "%s: %m", base);
	r->base = base;
	r->path = path;
	r->fd = run_lock_dir(path);
	/* The shims inherit the lock: a task of a killed run may be in its grace period. */
	if (r->fd < 0 || fcntl(r->fd, F_SETFD, 0) < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %m", path);
	DIR_AUTO *all = dir_list(lock, ".");
	for (const char *name; (name = dir_next(all));) {
		FREE_AUTO char *old = xasprintf("%s/%s", base, name);
		(void)flock(lock, LOCK_EX);
		FD_AUTO fd = name[0] == '.' ? -1 : run_lock_dir(old);
		(void)flock(lock, LOCK_UN);
		if (fd >= 0)
			(void)tree_remove(AT_FDCWD, old, SIZE_MAX); /* else the next run does */
	}
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void *run_serve(void *arg)
{
	ERR_AUTO e = { 0 };
	if (serve_run(arg, &e) < 0) {
		(void)print_error_notes(&e, NULL, EXIT_SERVER);
		(void)kill(getpid(), SIGTERM); /* to the client, which would get no answer */
	}
	return NULL;
}

int run_start(struct run *r, struct err *e)
{
	struct service *s = r->service;
	struct options *o = &s->options;
	STR_AUTO dialects = STR_INIT(256);
	int stop[2];
	log_init(-1);                   /* dropped */
	(void)signal(SIGPIPE, SIG_IGN); /* write fails with EPIPE */
	r->own.signal_fd = wait_signals(true);
	if (r->own.signal_fd < 0 || pipe2(r->notes, O_NONBLOCK | O_CLOEXEC) < 0 ||
	    pipe2(stop, O_NONBLOCK | O_CLOEXEC) < 0)
		return err_set(e, UNKNOWN_ERROR, "signalfd and pipe: %m");
	s->signal_fd = stop[0];
	r->stop_fd = stop[1];
	if (run_open_dir(r, e) < 0)
		return -1;
	r->engine.secrets = &r->base;
	r->engine.n_secrets = 1;
	r->engine.arg = r;
	r->engine.notice = run_notice;
	s->server.foreground = &r->engine;
	/* The socket is reached by its descriptor, since addresses are short. */
	r->own.socket = arena_printf(&o->arena, "/proc/self/fd/%d/socket", r->fd);
	address_unix(r->own.socket, &s->address);
	o->local = arena_printf(&o->arena, "%s/jobs", r->path);
	o->user = setup_user(o);
	o->no_auth = true;
	o->images = o->images[0] ? o->images : "host";
	dialects_optional(&dialects, ",");
	o->dialects = arena_dup(&o->arena, str_view(&dialects));
	o->loops = 1;
	o->history = 0;
	o->max_body = SUBMIT_FILE_MAX;
	o->max_logs = RUN_TASKS_MAX;
	o->log_streams = o->streams_per_user = 2 * o->max_logs;
	o->connections = 4 * o->max_logs;
	/* The only client can stand still for any time: its reader pauses, or Ctrl-Z stops it. */
	o->stream_lifetime_s = INT32_MAX;
	if (o->command)
		o->keep_logs = INT64_MAX; /* until they are printed */
	r->own.look = run_look;
	r->own.arg = r;
	if (http_init(e) < 0 || start_all(s, e) < 0)
		return -1;
	r->own.engine = s->server.engine;
	int bad = pthread_create(&r->thread, NULL, run_serve, s);
	r->serves = bad == 0;
	return bad ? err_set(e, UNKNOWN_ERROR, "no thread: %s", strerrordesc_np(bad)) : 0;
}

void run_end(struct run *r)
{
	const struct signalfd_siginfo stop = { .ssi_signo = SIGTERM };
	if (r->serves) {
		/* The pipe is empty. */
		(void)fd_write_all(r->stop_fd, (struct span){ (const char *)&stop, sizeof(stop) });
		(void)pthread_join(r->thread, NULL); /* cannot fail: joined once */
	}
	start_undo(r->service);
	if (r->path)
		(void)tree_remove(AT_FDCWD, r->path, SIZE_MAX); /* else the next run does */
	if (r->made_results && r->results)
		(void)rmdir(r->results); /* fails if the command has left something */
	free(atomic_load(&r->no_image));
}
