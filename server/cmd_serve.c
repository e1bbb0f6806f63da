/* rest-lit serve: start the loops, then wait for a signal. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "k8s/images.h"
#include "k8s/store.h"
#include "schema/check.h"
#include "server/commands.h"
#include "server/delivery.h"
#include "server/http.h"
#include "server/listener.h"
#include "server/log.h"
#include "server/process.h"
#include "server/setup.h"

enum { LOOPS_MAX = 64, LOOPS_DEFAULT_MAX = 4, LOGIN_REFRESH_MS = 10000, SPARE_FILES = 64 };

/* The whole process: what main() holds while the loops run. */
struct process {
	struct server server;
	struct options options;
	struct arena arena;
	struct address address;
	struct delivery *delivery;
	struct loop loops[LOOPS_MAX];
	size_t n_loops;
	int signal_fd;
};

/* ---- start ---- */

static int check_who(const struct process *p, struct err *e)
{
	const struct options *o = &p->options;
	if (!o->no_auth)
		return err_set(e, 400, NULL,
		               "who may submit? Say --no-auth --user NAME: whoever reaches the "
		               "port is that user, so it is open on this machine only");
	if (!user_name_ok(span_of(o->user)))
		return err_set(e, 400, NULL,
		               "--no-auth needs --user NAME, with a name such as "
		               "alice or j.doe-2");
	if (!address_is_loopback(&p->address))
		return err_set(e, 400, NULL,
		               "--no-auth listens on loopback only (127.0.0.1, "
		               "[::1]), not on %s",
		               o->listen);
	return 0;
}

static int check_store(const struct options *o, struct err *e)
{
	int given = (o->standalone[0] != 0) + (o->kubeconfig[0] != 0) + (o->apiserver[0] != 0);
	if (given > 1)
		return err_set(e, 400, NULL,
		               "--standalone, --kubeconfig and --apiserver exclude each other");
	if (o->port_start >= o->port_end)
		return err_set(e, 400, NULL, "--port-start must be less than --port-end");
	return 0;
}

static const char *or_null(const char *text)
{
	return text[0] ? text : NULL;
}

/* No cluster by option, and this is no pod: jobs go to a directory here. */
static bool is_alone(const struct options *o)
{
	return !o->standalone[0] && !o->kubeconfig[0] && !o->apiserver[0] &&
	       !getenv("KUBERNETES_SERVICE_HOST"); /* NOLINT(concurrency-mt-unsafe): at start */
}

static int open_store(struct process *p, struct err *e)
{
	struct options *o = &p->options;
	if (is_alone(o))
		o->standalone = STANDALONE_DIR;
	if (o->standalone[0]) {
		p->server.local = local_open(o->standalone, e);
		p->server.namespace_name = o->namespace_name[0] ? o->namespace_name : "default";
		return p->server.local ? 0 : -1;
	}
	struct login_options login = {
		.kubeconfig = or_null(o->kubeconfig),
		.context = or_null(o->context),
		.apiserver = or_null(o->apiserver),
		.ca_file = or_null(o->apiserver_ca),
		.token_file = or_null(o->apiserver_token_file),
		.namespace_name = or_null(o->namespace_name),
	};
	p->server.login = login_new(&login, e);
	if (!p->server.login)
		return -1;
	p->server.namespace_name = login_namespace(p->server.login);
	/* The objects name the namespace too. */
	o->namespace_name = p->server.namespace_name;
	return 0;
}

static size_t count_loops(const struct options *o)
{
	if (o->loops)
		return (size_t)o->loops;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	return cores < 1 ? 1 : cores > LOOPS_DEFAULT_MAX ? LOOPS_DEFAULT_MAX : (size_t)cores;
}

static int open_loops(struct process *p, struct err *e)
{
	int fds[LOOPS_MAX];
	size_t n = count_loops(&p->options);
	process_allow_files(n * (size_t)(p->options.connections + p->options.in_flight) +
	                    SPARE_FILES);
	if (listeners_open(&p->address, fds, n, e) < 0)
		return -1;
	p->server.port = address_port(&p->address);
	int failed = 0;
	for (size_t i = 0; i < n; i++) {
		if (failed)
			(void)close(fds[i]); /* nothing went over it */
		else
			failed = loop_init(&p->loops[p->n_loops++], &p->server, fds[i], e);
	}
	return failed;
}

static int open_images(struct process *p, struct err *e)
{
	const struct options *o = &p->options;
	const struct images_settings settings = {
		.registries = o->check_images_registries,
		.ca_file = o->check_images_ca,
		.budget_ms = o->check_images_budget_s * 1000,
	};
	if (strcmp(o->check_images, "off") == 0)
		return 0;
	if (!o->check_images_registries[0])
		return err_set(e, 400, NULL,
		               "--check-images needs --check-images-registries: no other host is "
		               "asked");
	p->server.images = images_new(&settings, e);
	return p->server.images ? 0 : err_wrap(e, "--check-images");
}

static int open_signals(struct process *p)
{
	sigset_t set;
	(void)sigemptyset(&set); /* these four cannot fail with these arguments */
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	p->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	p->server.ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return p->signal_fd < 0 || p->server.ended_fd < 0 ? -1 : 0;
}

static int start(struct process *p, struct err *e)
{
	p->server.options = &p->options;
	/* Before there are threads, which would take signals otherwise. */
	if (open_signals(p) < 0)
		return err_set(e, UNKNOWN_ERROR, "signalfd failed");
	if (address_parse(p->options.listen, &p->address, e) < 0 || check_who(p, e) < 0 ||
	    check_store(&p->options, e) < 0 || open_store(p, e) < 0)
		return -1;
	schema_init();
	p->server.translator = setup_translator(&p->options, e);
	if (!p->server.translator)
		return -1;
	if (setup_facts(&p->options, &p->arena, &p->server.facts, e) < 0)
		return -1;
	if (open_images(p, e) < 0 || open_loops(p, e) < 0)
		return -1;
	p->delivery = delivery_start(&p->server, e);
	return p->delivery ? 0 : -1;
}

static void say_started(const struct process *p, const char *scrubbed)
{
	STR_AUTO address = STR_INIT(128);
	address_text(&address, &p->address);
	struct line line = log_begin(LOG_INFO, "listening");
	log_text(&line, "version", SPAN(REST_LIT_VERSION));
	log_text(&line, "address", str_view(&address));
	log_text(
	    &line, "store",
	    span_of(p->server.local ? p->options.standalone : login_describe(p->server.login)));
	log_text(&line, "namespace", span_of(p->server.namespace_name));
	log_text(&line, "profile", span_of(p->options.profile));
	log_text(&line, "runtime", span_of(p->options.runtime));
	log_text(&line, "user", span_of(p->options.user));
	log_int(&line, "loops", (int64_t)p->n_loops);
	log_end(&line);
	if (scrubbed)
		log_event(LOG_WARN, "a variable that changes TLS or proxies was set; it is ignored",
		          "variable", scrubbed);
	if (strcmp(p->options.profile, "openpai") == 0)
		log_event(LOG_WARN,
		          "profile openpai: every job author is root on the nodes (host network, "
		          "SYS_ADMIN, host paths)",
		          NULL, NULL);
}

/* ---- run, until a signal ---- */

/* The next signal, or 0 after the time (-1: no limit). */
static uint32_t next_signal(const struct process *p, int timeout_ms)
{
	struct signalfd_siginfo info;
	struct pollfd fd = { .fd = p->signal_fd, .events = POLLIN };
	if (poll(&fd, 1, timeout_ms) != 1)
		return 0;
	return read(p->signal_fd, &info, sizeof(info)) == sizeof(info) ? info.ssi_signo : 0;
}

/* How long to wait at most: till the login is looked at, or what is delivered needs something. */
static int wait_ms(const struct process *p, int64_t refresh_ms)
{
	int64_t ms = refresh_ms - store_now_ms();
	int delivery = delivery_timeout_ms(p->delivery);
	if (delivery >= 0 && delivery < ms)
		ms = delivery;
	return ms < 0 ? 0 : (int)ms;
}

static void wait_for_end(const struct process *p)
{
	int64_t refresh_ms = store_now_ms() + LOGIN_REFRESH_MS;
	for (;;) {
		struct pollfd fds[] = { { .fd = p->signal_fd, .events = POLLIN },
			                { .fd = delivery_fd(p->delivery), .events = POLLIN } };
		(void)poll(fds, 2, wait_ms(p, refresh_ms)); /* what it says is asked below */
		uint32_t signo = next_signal(p, 0);
		if (signo == SIGTERM || signo == SIGINT)
			return;
		if (signo == SIGHUP)
			log_event(LOG_INFO,
			          delivery_again(p->delivery)
			              ? "SIGHUP: looking again for what pods refer to"
			              : "SIGHUP: what pods refer to is being looked for already",
			          NULL, NULL);
		delivery_turn(p->delivery);
		if (store_now_ms() < refresh_ms)
			continue;
		refresh_ms = store_now_ms() + LOGIN_REFRESH_MS;
		if (p->server.login)
			login_refresh(p->server.login);
	}
}

static void enter(struct process *p, enum phase phase)
{
	atomic_store(&p->server.phase, phase);
	for (size_t i = 0; i < p->n_loops; i++)
		loop_wake(&p->loops[i]);
}

/* A second signal is a user who has waited long enough. */
static void stop_at_once(struct process *p)
{
	size_t lost = 0;
	for (size_t i = 0; i < p->n_loops; i++)
		lost += atomic_load(&p->loops[i].requests);
	struct line line = log_begin(LOG_WARN, "second signal: stopping at once");
	log_int(&line, "requests_lost", (int64_t)lost);
	log_end(&line);
	_exit(lost ? EXIT_REFUSED : EXIT_OK);
}

/* Until so many loops have ended. */
static void wait_for_loops(struct process *p, size_t n)
{
	while (n) {
		struct pollfd fds[] = { { .fd = p->signal_fd, .events = POLLIN },
			                { .fd = p->server.ended_fd, .events = POLLIN } };
		eventfd_t ended = 0;
		(void)poll(fds, 2, -1); /* what it says is asked below */
		uint32_t signo = next_signal(p, 0);
		if (signo == SIGTERM || signo == SIGINT)
			stop_at_once(p);
		if (eventfd_read(p->server.ended_fd, &ended) == 0)
			n -= ended;
	}
}

static void stop(struct process *p, size_t n_running)
{
	log_event(LOG_INFO, "stopping", NULL, NULL);
	enter(p, PHASE_DRAIN);
	/* Another signal ends the delay, but not what is under way. */
	(void)next_signal(p, (int)p->options.drain_delay_s * 1000);
	enter(p, PHASE_STOP);
	wait_for_loops(p, n_running);
	for (size_t i = 0; i < n_running; i++)
		loop_join(&p->loops[i]);
	log_event(LOG_INFO, "stopped", NULL, NULL);
}

static int run(struct process *p, struct err *e)
{
	size_t n = 0;
	while (n < p->n_loops && loop_start(&p->loops[n], e) == 0)
		n++;
	if (n == p->n_loops)
		wait_for_end(p);
	else
		p->options.drain_delay_s = 0;
	stop(p, n);
	return e->http ? -1 : 0;
}

static void done(struct process *p)
{
	for (size_t i = 0; i < p->n_loops; i++)
		loop_done(&p->loops[i]);
	images_free(p->server.images);
	delivery_free(p->delivery);
	if (p->server.local)
		local_close(p->server.local);
	if (p->server.login)
		login_free(p->server.login);
	if (p->server.translator)
		translator_free(p->server.translator);
	if (p->signal_fd >= 0)
		(void)close(p->signal_fd);
	if (p->server.ended_fd >= 0)
		(void)close(p->server.ended_fd);
	arena_wipe(&p->arena); /* facts hold users' extensions */
}

static int serve(struct process *p)
{
	ERR_AUTO e = { 0 };
	p->signal_fd = p->server.ended_fd = -1;
	process_harden();
	const char *scrubbed = process_scrub();
	log_init(strcmp(p->options.log_format, "logfmt") == 0 ? LOG_LOGFMT : LOG_JSON,
	         STDERR_FILENO);
	http_init();
	int code = EXIT_OK;
	if (start(p, &e) < 0) {
		/* Only mistakes in the facts have a place. */
		code = complain(&e, p->options.facts, e.http == 400 ? EXIT_USAGE : EXIT_REFUSED);
	} else {
		say_started(p, scrubbed);
		if (run(p, &e) < 0)
			code = complain(&e, NULL, EXIT_REFUSED);
	}
	done(p);
	return code;
}

int cmd_serve(const struct command *c, int argc, char **argv)
{
	struct process *p = xcalloc(1, sizeof(*p));
	int code = command_options(c, &p->options, argc, argv);
	if (code < 0 && p->options.n_files)
		code = command_usage(c, "takes no file");
	else if (code < 0)
		code = serve(p);
	options_done(&p->options);
	free(p);
	return code;
}
