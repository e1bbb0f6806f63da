/*
 * The server of `rest-lit run`: that of `serve`, in threads of this process, with a private
 * directory (run_dir.c).  It listens on a Unix socket there, for the client in this process only.
 * Tasks end with this process, however it ends.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "server/cli/run_internal.h"
#include "server/log.h"
#include "server/setup.h"

enum { NOTE_BYTES = 4096 /* at most PIPE_BUF */ };

/* ---- what the engine says, on its thread ----------------------------------------------------- */

static void run_notice(void *arg, enum engine_level level, const char *text)
{
	const struct run *r = arg;
	STR_AUTO line = STR_INIT(NOTE_BYTES);
	str_puts(&line, level == ENGINE_WARNING ? "warning: " : "note: ");
	visible_text(&line, span_of(text));
	(void)fd_write_all(r->notes[1], str_view(&line)); /* without room it is left out */
}

static void run_no_image(void *arg, const char *text)
{
	struct run *r = arg;
	if (!atomic_load(&r->no_image))
		atomic_store(&r->no_image, xstrdup(text));
}

/* ---- for the client, on its thread ----------------------------------------------------------- */

static int run_look(void *arg, struct view *v)
{
	struct run *r = arg;
	const char *no_image = atomic_load(&r->no_image);
	char note[NOTE_BYTES];
	for (ssize_t n; (n = read(r->notes[0], note, sizeof(note))) > 0;)
		term_print(&v->term, "%.*s", (int)n, note);
	if (!no_image)
		return -1;
	term_print(&v->term, "%s: %s; three pulls have failed for this reason, so the job ends",
	           v->job, no_image);
	return EXIT_SERVER;
}

static void run_kill(void *arg)
{
	const struct run *r = arg;
	engine_kill(r->service->server.engine);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void *run_serve(void *arg)
{
	ERR_AUTO e = { 0 };
	if (serve_run(arg, &e) < 0)
		(void)complain(&e, NULL, EXIT_SERVER); /* the client gets no answer */
	return NULL;
}

int run_start(struct run *r, struct err *e)
{
	struct service *s = r->service;
	struct options *o = &s->options;
	int stop[2];
	log_init(LOG_JSON, -1);         /* dropped */
	(void)signal(SIGPIPE, SIG_IGN); /* write fails with EPIPE */
	r->own.signal_fd = wait_signals(true);
	if (r->own.signal_fd < 0 || pipe2(r->notes, O_DIRECT | O_NONBLOCK | O_CLOEXEC) < 0 ||
	    pipe2(stop, O_NONBLOCK | O_CLOEXEC) < 0)
		return err_set(e, UNKNOWN_ERROR, "signalfd and pipe: %m");
	s->signal_fd = stop[0];
	r->stop_fd = stop[1];
	if (run_dir_open(&r->dir, e) < 0)
		return -1;
	r->engine.secrets = &r->dir.base;
	r->engine.n_secrets = 1;
	r->engine.arg = r;
	r->engine.notice = run_notice;
	r->engine.pulls_failed = run_no_image;
	s->server.foreground = &r->engine;
	/* By its descriptor, since addresses are short. */
	r->own.socket = arena_printf(&o->arena, "/proc/self/fd/%d/socket", r->dir.fd);
	address_unix(r->own.socket, &s->address);
	o->local = arena_printf(&o->arena, "%s/jobs", r->dir.path);
	o->user = setup_user(o);
	o->no_auth = true;
	o->images = o->images[0] ? o->images : "host";
	o->dialects = "mxjob,launcher";
	o->loops = 1;
	o->history = 0;
	o->max_body = SUBMIT_FILE_MAX;
	o->max_logs = RUN_TASKS_MAX;
	o->log_streams = o->streams_per_user = 2 * o->max_logs;
	o->connections = 4 * o->max_logs;
	r->own.look = run_look;
	r->own.kill = run_kill;
	r->own.arg = r;
	if (start_all(s, e) < 0)
		return -1;
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
	run_dir_close(&r->dir);
	free(atomic_load(&r->no_image));
}
