/* Builds the controller from options, logs what it says, and answers its probes. */
#include "server/controller/controller_run.h"

#include <linux/capability.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/doc/tree.h"
#include "base/posix/clock.h"
#include "jobs/framework/framework.h"
#include "k8s/controller/controller.h"
#include "machine/engine/engine.h"
#include "server/config/options.h"
#include "server/config/setup.h"
#include "server/config/system.h"
#include "server/controller/controller_metrics.h"
#include "server/http/address.h"
#include "server/http/probe_port.h"
#include "server/state/log.h"

/* REFRESH_MS: between looks for changed files of the login. */
enum { REFRESH_MS = 10000, CONFIG_MAX = 4 << 20, IGNORED_MAX = 1024, LOW_PORTS = 1024 };
/* The pause before a new start is doubled each time, unless the process has lived for STEADY_MS. */
enum { PAUSE_LEAST_MS = 1000, PAUSE_MOST_MS = 30000, STEADY_MS = 600000 };
#define PAUSE_VARIABLE "REST_LIT_CONTROLLER_PAUSE_MS" /* of the process for the next one */

struct controller_process {
	const struct options *o;
	struct address address;
	int64_t begun_ms;
	int listen_fd;
	struct framework_config *config;
	struct login *login;
	struct controller_counts counts;
	struct controller *controller;
	struct probe_port *port;
};

/* ---- the configuration ---- */

void controller_ignored_keys(struct str *out, struct span yaml)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc;
	/* The error of an empty text: it has no document, and no keys. */
	if (doc_read(yaml, &BUDGET_DEFAULT, &a, &doc, NULL, &e) < 0 || doc.root.type != NODE_MAP)
		return;
	for (uint32_t i = 0; i < doc.root.n; i++) {
		struct span key = member_key(&doc.root.member[i]);
		char shown[4 * QUOTE_MAX];
		if (!span_among(key, FRAMEWORK_CONFIG_KEYS))
			str_printf(out, "%s%s", out->n ? ", " : "", quote(shown, key));
	}
}

static int process_read_config(struct controller_process *p, const char **file, struct err *e)
{
	FREE_AUTO char *text = NULL;
	size_t n;
	STR_AUTO ignored = STR_INIT(IGNORED_MAX);
	if (!p->o->controller_config[0]) {
		p->config = machine_config(e);
		return p->config ? 0 : -1;
	}
	if (file_read_or_stdin(p->o->controller_config, CONFIG_MAX, &text, &n, e) < 0)
		return -1;
	*file = p->o->controller_config;
	p->config = framework_config_read((struct span){ text, n }, e);
	if (!p->config)
		return -1;
	*file = NULL;
	controller_ignored_keys(&ignored, (struct span){ text, n });
	if (ignored.n)
		log_event(LOG_WARN,
		          "members of --controller-config that mean nothing to this controller are "
		          "ignored",
		          "members", str_c(&ignored));
	return 0;
}

/* ---- answers ---- */

static int process_answer(void *arg, const char *path, struct str *out)
{
	const struct controller_process *p = arg;
	const char *problem;
	if (strcmp(path, "/metrics") == 0) {
		metrics_write(out, CONTROLLER_METRICS, N_CONTROLLER_METRICS, &p->counts);
		return 200;
	}
	if (strcmp(path, "/healthz") == 0)
		problem = controller_unhealthy(&p->counts, clock_ms());
	else if (strcmp(path, "/readyz") == 0)
		problem = controller_unready(&p->counts);
	else
		return 0;
	str_printf(out, "%s\n", problem ?: "ok");
	return problem ? 503 : 200;
}

/* ---- start ---- */

static void process_say(void *arg, const struct controller_line *l)
{
	struct line line = log_begin(l->warn ? LOG_WARN : LOG_INFO, l->message);
	(void)arg;
	if (l->object)
		log_text(&line, "object", span_of(l->object));
	if (l->reason)
		log_text(&line, "reason", span_of(l->reason));
	log_end(&line);
}

static void process_report(const struct controller_process *p)
{
	STR_AUTO address = STR_INIT(128);
	struct line line = log_begin(LOG_INFO, "listening");
	address_text(&address, &p->address);
	log_text(&line, "version", SPAN(REST_LIT_VERSION));
	log_text(&line, "address", str_view(&address));
	log_text(&line, "apiserver", span_of(login_describe(p->login)));
	log_text(&line, "namespace",
	         p->o->namespace_name[0] ? span_of(p->o->namespace_name) : SPAN("all"));
	log_text(&line, "lease_namespace", span_of(login_namespace(p->login)));
	log_end(&line);
}

static int process_start(struct controller_process *p, const char **file, struct err *e)
{
	if (address_parse("--listen", p->o->listen, &p->address, e) < 0)
		return -1;
	uint32_t keep = address_port(&p->address) < LOW_PORTS ? 1u << CAP_NET_BIND_SERVICE : 0;
	if (process_drop_capabilities(keep, e) < 0 || process_read_config(p, file, e) < 0)
		return -1;
	framework_config_keep_last(p->config, 0);
	if (p->o->kubeconfig[0] && p->o->apiserver[0])
		return err_set(e, 400, NULL, "--kubeconfig and --apiserver exclude each other");
	p->login = setup_login(p->o, e);
	if (!p->login || listeners_open(&p->address, &p->listen_fd, 1, e) < 0)
		return -1;
	/* A reflector allocates what the loop frees: in heaps of threads that would stay free. */
	(void)mallopt(M_ARENA_MAX, 1); /* NOLINT(concurrency-mt-unsafe): no thread yet */
	p->controller = controller_new(
	    &(struct controller_settings){
		.login = p->login,
		.namespace_name = p->o->namespace_name[0] ? p->o->namespace_name : NULL,
		.config = p->config,
		.counts = &p->counts,
		.say = process_say,
	    },
	    e);
	if (!p->controller)
		return -1;
	int fd = p->listen_fd;
	p->listen_fd = -1;
	p->port = probe_port_new(fd, process_answer, p, e);
	return p->port ? 0 : -1;
}

/* ---- until the end ---- */

/* 0: a signal; 1: the controller has ended, or it is end_ms. */
static int process_wait(const struct controller_process *p, int signal_fd, int64_t end_ms)
{
	int64_t refresh_ms = clock_ms() + REFRESH_MS;
	for (;;) {
		int ended_fd = p->controller ? controller_fd(p->controller) : -1;
		struct pollfd fds[] = { { .fd = signal_fd, .events = POLLIN },
			                { .fd = ended_fd, .events = POLLIN } };
		struct signalfd_siginfo info;
		int64_t left_ms = (refresh_ms < end_ms ? refresh_ms : end_ms) - clock_ms();
		(void)poll(fds, 2, left_ms > 0 ? (int)left_ms : 0); /* the results are read below */
		if (fds[1].revents)
			return 1;
		if (fds[0].revents && read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
			if (info.ssi_signo != SIGHUP)
				return 0;
			log_event(LOG_INFO, "SIGHUP: files are read at the start only", NULL, NULL);
		}
		if (clock_ms() >= end_ms)
			return 1;
		if (clock_ms() < refresh_ms)
			continue;
		refresh_ms = clock_ms() + REFRESH_MS;
		login_refresh(p->login);
	}
}

/* Pauses before a new start, while probes are answered.  0: a signal came; 1: it cannot start anew,
 * since its configuration came through a pipe, or is gone; 2. */
static int process_pause(const struct controller_process *p, int signal_fd)
{
	const char *config = p->o->controller_config;
	int64_t pause_ms = PAUSE_LEAST_MS;
	struct stat st;
	if (config[0] &&
	    (strcmp(config, "-") == 0 || stat(config, &st) < 0 || !S_ISREG(st.st_mode))) {
		log_event(LOG_ERROR, "cannot start anew: --controller-config is no file", NULL,
		          NULL);
		return 1;
	}
	/* NOLINTBEGIN(concurrency-mt-unsafe): the probe port's thread uses no variables */
	if (clock_ms() - p->begun_ms < STEADY_MS)
		(void)parse_i64(span_of(getenv(PAUSE_VARIABLE) ?: ""), PAUSE_LEAST_MS,
		                PAUSE_MOST_MS, &pause_ms); /* else the least */
	FREE_AUTO char *next =
	    xasprintf("%d", (int)(pause_ms * 2 < PAUSE_MOST_MS ? pause_ms * 2 : PAUSE_MOST_MS));
	(void)setenv(PAUSE_VARIABLE, next, 1); /* else the pause does not grow */
	/* NOLINTEND(concurrency-mt-unsafe) */
	struct line line = log_begin(LOG_WARN, "starting anew after a pause");
	log_int(&line, "pause_ms", pause_ms);
	log_end(&line);
	return process_wait(p, signal_fd, clock_ms() + pause_ms) ? 2 : 0;
}

int controller_run(struct options *o, int signal_fd, const char **file, struct err *e)
{
	struct controller_process *p = xcalloc(1, sizeof(*p));
	int result = -1;
	p->o = o;
	p->begun_ms = clock_ms();
	p->listen_fd = -1;
	if (process_start(p, file, e) == 0) {
		process_report(p);
		result = process_wait(p, signal_fd, INT64_MAX);
		log_event(LOG_INFO, "stopping", NULL, NULL);
		controller_free(TAKE(p->controller)); /* the port reads only counts of it */
		if (result)
			result = process_pause(p, signal_fd);
	}
	probe_port_free(p->port);
	controller_free(p->controller);
	if (p->listen_fd >= 0)
		(void)close(p->listen_fd); /* unused: no data can be lost */
	login_free(p->login);
	framework_config_free(p->config);
	free(p);
	if (result >= 0)
		log_event(LOG_INFO, "stopped", NULL, NULL);
	return result;
}
