/* rest-lit serve: start the loops, then wait for a signal.  rest-lit controller. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "jobs/store/store.h"
#include "server/cli/cli_internal.h"
#include "server/cluster/history.h"
#include "server/cluster/rounds.h"
#include "server/cluster/upkeep.h"
#include "server/config/setup.h"
#include "server/config/system.h"
#include "server/controller/controller_run.h"
#include "server/http/loop.h"
#include "server/serve/start.h"
#include "server/state/log.h"

/* Interval of checks for changed files (login, certificates). */
enum { REFRESH_MS = 10000 };

/* ---- run, until a signal ---- */

/* The next signal, or 0 after the time (-1: no limit). */
static uint32_t next_signal(const struct service *s, int timeout_ms)
{
	struct signalfd_siginfo info;
	struct pollfd fd = { .fd = s->signal_fd, .events = POLLIN };
	if (poll(&fd, 1, timeout_ms) != 1)
		return 0;
	return read(s->signal_fd, &info, sizeof(info)) == sizeof(info) ? info.ssi_signo : 0;
}

static void serve_until_signal(struct service *s)
{
	int64_t refresh_ms = clock_ms() + REFRESH_MS;
	for (;;) {
		struct pollfd fds[] = { { .fd = s->signal_fd, .events = POLLIN },
			                { .fd = rounds_fd(s->rounds), .events = POLLIN } };
		int64_t ms = refresh_ms - clock_ms();
		int rounds_ms = rounds_timeout_ms(s->rounds);
		ms = rounds_ms >= 0 && rounds_ms < ms ? rounds_ms : ms;
		(void)poll(fds, 2, ms < 0 ? 0 : (int)ms); /* the results are read below */
		uint32_t signo = next_signal(s, 0);
		if (signo == SIGTERM || signo == SIGINT)
			return;
		if (signo == SIGHUP) {
			reload_all(&s->server, s->loops, s->n_loops);
			rounds_reload(s->rounds);
			log_event(LOG_INFO,
			          upkeep_check_again(s->upkeep)
			              ? "SIGHUP: checking the objects of pods again"
			              : "SIGHUP: the objects of pods are already being checked",
			          NULL, NULL);
		}
		rounds_run_once(s->rounds);
		if (clock_ms() < refresh_ms)
			continue;
		refresh_ms = clock_ms() + REFRESH_MS;
		if (s->server.login)
			login_refresh(s->server.login);
		reload_certificate(&s->server, false);
	}
}

static void serve_enter(struct service *s, enum server_phase phase)
{
	atomic_store(&s->server.phase, phase);
	for (size_t i = 0; i < s->n_loops; i++)
		loop_wake(&s->loops[i]);
}

static void wait_for_loops(struct service *s, size_t n)
{
	while (n) {
		struct pollfd fds[] = { { .fd = s->signal_fd, .events = POLLIN },
			                { .fd = s->server.ended_fd, .events = POLLIN } };
		eventfd_t ended = 0;
		(void)poll(fds, 2, -1); /* the results are read below */
		uint32_t signo = next_signal(s, 0);
		if (signo == SIGTERM || signo == SIGINT) { /* the second one */
			size_t lost = 0;
			for (size_t i = 0; i < s->n_loops; i++)
				lost += atomic_load(&s->loops[i].requests);
			struct line line = log_begin(LOG_WARN, "second signal: stopping at once");
			log_int(&line, "requests_lost", (int64_t)lost);
			log_end(&line);
			_exit(lost ? EXIT_REFUSED : EXIT_OK);
		}
		if (eventfd_read(s->server.ended_fd, &ended) == 0)
			n -= ended;
	}
}

int serve_run(struct service *s, struct err *e)
{
	size_t n = 0;
	while (n < s->n_loops && loop_start(&s->loops[n], e) == 0)
		n++;
	if (n == s->n_loops)
		serve_until_signal(s);
	else
		s->options.drain_delay_s = 0;
	log_event(LOG_INFO, "stopping", NULL, NULL);
	serve_enter(s, PHASE_DRAIN);
	rounds_end(s->rounds);
	/* Serves during --drain-delay, with 503 from /readyz.  A signal to stop ends the delay. */
	int64_t end = clock_ms() + s->options.drain_delay_s * 1000;
	for (int64_t left; (left = end - clock_ms()) > 0;) {
		uint32_t signo = next_signal(s, (int)left);
		if (signo == SIGTERM || signo == SIGINT)
			break;
	}
	serve_enter(s, PHASE_STOP);
	wait_for_loops(s, n);
	for (size_t i = 0; i < n; i++)
		(void)pthread_join(s->loops[i].thread, NULL); /* cannot fail: joined once */
	log_event(LOG_INFO, "stopped", NULL, NULL);
	return e->http ? -1 : 0;
}

static int serve_service(struct service *s)
{
	ERR_AUTO e = { 0 };
	process_harden();
	const char *scrubbed = process_scrub();
	log_init(STDERR_FILENO);
	int code = EXIT_OK;
	if (http_init(&e) < 0 || start_all(s, &e) < 0) {
		code = print_error_notes(&e, s->file, e.http == 400 ? EXIT_USAGE : EXIT_REFUSED);
	} else {
		start_report(s, scrubbed);
		if (serve_run(s, &e) < 0)
			code = print_error_notes(&e, NULL, EXIT_REFUSED);
	}
	start_undo(s);
	return code;
}

int cmd_serve(const struct command *c, struct options *o)
{
	(void)c;
	return command_service(o, serve_service);
}

int cmd_controller(const struct command *c, struct options *o)
{
	ERR_AUTO e = { 0 };
	const char *file = NULL;
	(void)c;
	process_harden();
	(void)process_scrub();
	log_init(STDERR_FILENO);
	int signal_fd = wait_signals(true);
	int ended = signal_fd < 0 ? err_set(&e, UNKNOWN_ERROR, "signalfd: %m")
	                          : controller_run(o, signal_fd, &file, &e);
	if (ended < 0)
		return print_error_notes(&e, file, e.http == 400 ? EXIT_USAGE : EXIT_REFUSED);
	return ended == 2 ? EXIT_ANEW : ended ? EXIT_REFUSED : EXIT_OK;
}
