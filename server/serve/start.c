/* Makes the parts of a server in order, frees them in reverse, and replaces those whose files are
 * read again. */
#include "server/serve/start.h"

#include <linux/capability.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/posix/clock.h"
#include "jobs/code/code_store.h"
#include "jobs/logs/log_file.h"
#include "jobs/store/store.h"
#include "machine/engine/engine.h"
#include "machine/store/local.h"
#include "schema/schema.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"
#include "server/auth/token_store.h"
#include "server/check/check.h"
#include "server/cluster/cluster.h"
#include "server/cluster/follow.h"
#include "server/cluster/gc.h"
#include "server/cluster/history.h"
#include "server/cluster/one_machine.h"
#include "server/cluster/rounds.h"
#include "server/cluster/scheduler.h"
#include "server/cluster/upkeep.h"
#include "server/config/exit_spec.h"
#include "server/config/options.h"
#include "server/config/setup.h"
#include "server/config/system.h"
#include "server/exec/job_exec.h"
#include "server/http/rate_limit.h"
#include "server/http/request_check.h"
#include "server/http/tls.h"
#include "server/http/worker.h"
#include "server/logs/logs.h"
#include "server/results/job_results.h"
#include "server/serve/metrics.h"
#include "server/serve/routes.h"
#include "server/state/counts.h"
#include "server/state/log.h"
#include "server/submit/submit.h"
#include "translate/job/dialect.h"

/* LOCAL_FILES: of the engine, for tasks, GPUs and images, and of results that are sent. */
enum { LOOPS_DEFAULT_MAX = 4, SPARE_FILES = 96, LOCAL_FILES = 1600, LOW_PORTS = 1024 };
enum { PATIENCE_MS = 5000, TEXT_MAX = 3000, EDITS_WAIT = 64 };

/* `run` has put something else in place of the signals. */
static int open_signals(struct service *s, struct err *e)
{
	sigset_t set;
	s->server.ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->signal_fd >= 0 && s->server.ended_fd >= 0)
		return 0;
	(void)sigemptyset(&set); /* these four cannot fail with these arguments */
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signal_fd < 0 || s->server.ended_fd < 0)
		return err_set(e, UNKNOWN_ERROR, "signalfd failed");
	return 0;
}

static int check_options(struct service *s, struct err *e)
{
	struct options *o = &s->options;
	/* NOLINTBEGIN(concurrency-mt-unsafe): at start */
	bool in_pod = getenv("KUBERNETES_SERVICE_HOST");
	/* The kubelet sets it for the Service rest-lit-output, tcp://ADDRESS:PORT. */
	struct span service = span_of(getenv(OUTPUT_VARIABLE) ?: "");
	/* NOLINTEND(concurrency-mt-unsafe) */
	if (!o->local[0] && !o->kubeconfig[0] && !o->apiserver[0] && !in_pod)
		o->local = LOCAL_DIR; /* no cluster is named: jobs run on this machine */
	/* The logout of OpenPAI clients revokes a token.  On one machine the list needs nothing. */
	if ((o->compat[0] || o->local[0]) && !o->no_auth && !o->deny_list[0] &&
	    strcmp(o->token_check, "stored") != 0)
		o->deny_list = DEFAULT_DENY_LIST;
	if (o->output_listen[0] && !o->output_url[0] && span_starts(service, "tcp:"))
		o->output_url = arena_printf(&o->arena, "https:%s", service.p + 4);
	if (!s->address.n && address_parse("--listen", o->listen, &s->address, e) < 0)
		return -1;
	bool output = o->output_listen[0] != '\0';
	if (output && address_parse("--output-listen", o->output_listen, &s->output_address, e) < 0)
		return -1;
	bool metrics = o->metrics_listen[0] != '\0';
	if (metrics &&
	    address_parse("--metrics-listen", o->metrics_listen, &s->metrics_address, e) < 0)
		return -1;
	if (options_check(o, address_is_loopback(&s->address),
	                  !output || address_is_loopback(&s->output_address), e) < 0)
		return -1;
	/* Capabilities are dropped before any file is read, so that a file that needs one fails
	 * now, not on SIGHUP. */
	uint32_t keep = 0;
	if (address_port(&s->address) < LOW_PORTS ||
	    (output && address_port(&s->output_address) < LOW_PORTS) ||
	    (metrics && address_port(&s->metrics_address) < LOW_PORTS))
		keep |= 1u << CAP_NET_BIND_SERVICE;
	if (options_run_here(o) && o->no_auth)
		keep |= 1u << CAP_SETFCAP; /* root needs it for user namespaces: the sandbox */
	/* Tasks of `run` may do what its user may do. */
	return s->server.foreground ? 0 : process_drop_capabilities(keep, e);
}

/* Reads the token keys.  NULL and *e (400). */
static struct keyring *reload_keys(const struct options *o, const char **file, struct err *e)
{
	const struct keyring_options k = {
		.jwt_secret_file = o->jwt_secret_file,
		.issuers_file = o->issuers,
		.stored = strcmp(o->token_check, "stored") == 0,
	};
	struct keyring *keys = keyring_new(&k, file, e);
	if (!keys || !keyring_service_accounts(keys) || !o->local[0])
		return keys;
	keyring_free(keys);
	(void)err_set(e, 400, NULL,
	              "%s: tokens of service accounts need an API server, so --local excludes them",
	              o->issuers);
	return NULL;
}

static int open_keys(struct service *s, struct err *e)
{
	random_hex(s->server.link_key, (sizeof(s->server.link_key) - 1) / 2);
	if (s->options.no_auth)
		return 0;
	struct keyring *keys = reload_keys(&s->options, &s->file, e);
	atomic_store(&s->server.keyring, keys);
	return keys ? 0 : -1;
}

/* The certificate of --output-listen is made here, unless --output-ca belongs to --tls-cert. */
static bool makes_output_tls(const struct options *o)
{
	return options_output_tls(o) && !o->output_ca[0];
}

/* All servers with the same secret have the same certificate.  If there is no secret, or a public
 * one, a random certificate is made at each start, and stays. */
static int open_output_tls(struct server *s, struct err *e)
{
	unsigned char seed[TLS_SEED];
	const struct keyring *keys = atomic_load(&s->keyring);
	bool derived = keys && !keyring_weak(keys) &&
	               keyring_derive(keys, "rest-lit certificate for output", seed);
	int failed = 0;
	/* https://HOST:PORT; an IPv6 address has brackets. */
	struct span host = span_from(span_of(s->options->output_url), strlen("https://"));
	host = span_to(host, span_chr(host, '/'));
	bool six = span_starts(host, "[");
	host = six ? span_from(host, 1) : host;
	host = span_to(host, span_chr(host, six ? ']' : ':'));
	if (!derived)
		random_bytes(seed, sizeof(seed));
	if (derived || !s->output_tls) {
		s->output_tls_random = !derived;
		failed = tls_make(&s->output_tls, host, seed, e);
	}
	memory_wipe(seed, sizeof(seed));
	return failed < 0 ? err_wrap(e, "--output-url") : 0;
}

static int start_open_tls(struct service *s, struct err *e)
{
	const struct options *o = &s->options;
	if (o->tls_cert[0] && !(s->server.tls = tls_new(o->tls_cert, o->tls_key, e)))
		return -1;
	if (makes_output_tls(o))
		return open_output_tls(&s->server, e);
	if (options_output_tls(o))
		s->server.output_tls = s->server.tls;
	return 0;
}

static int open_login(struct service *s, struct err *e)
{
	struct options *o = &s->options;
	if (o->local[0]) {
		s->server.namespace_name = o->namespace_name[0] ? o->namespace_name : "default";
		return 0;
	}
	s->server.login = setup_login(o, e);
	if (!s->server.login)
		return -1;
	s->server.namespace_name = login_namespace(s->server.login);
	/* Objects contain the namespace, too. */
	o->namespace_name = s->server.namespace_name;
	return 0;
}

static int open_dialects(struct service *s, struct err *e)
{
	return dialects_named(s->options.dialects, &s->server.dialects, e);
}

static int open_translator(struct service *s, struct err *e)
{
	s->server.translator = setup_translator(&s->options, &s->options.arena, e);
	return s->server.translator ? 0 : -1;
}

static int open_accounts(struct service *s, struct err *e)
{
	s->file = s->options.facts;
	s->server.accounts = account_source_new(&s->options, e);
	return s->server.accounts ? 0 : -1;
}

static int open_scheduler(struct service *s, struct err *e)
{
	if (!s->options.hived_config[0])
		return 0;
	s->file = s->options.hived_config;
	s->server.scheduler = scheduler_new(&s->options, e);
	return s->server.scheduler ? 0 : -1;
}

static int open_exit_spec(struct service *s, struct err *e)
{
	s->file = s->options.exit_spec[0] ? s->options.exit_spec : NULL;
	s->server.exit_spec = exit_spec_new(s->options.exit_spec, e);
	return s->server.exit_spec ? 0 : -1;
}

static int open_clients(struct service *s, struct err *e)
{
	s->server.rate_limits = rate_limits_new(&s->options, e);
	s->server.cors = s->server.rate_limits ? cors_new(&s->options, e) : NULL;
	return s->server.cors ? 0 : -1;
}

const struct start_step START_STEPS[N_START_STEPS] = {
	{ "options", "runtime engine", check_options },
	{ "token keys", "jwt-secret-file issuers", open_keys },
	{ "certificate", "tls-cert tls-key", start_open_tls },
	{ "login", "kubeconfig apiserver apiserver-token-file", open_login },
	{ "dialects", "dialects", open_dialects },
	{ "templates", "profile templates", open_translator },
	{ "users", "facts users", open_accounts },
	{ "HiveD", "hived-config", open_scheduler },
	{ "exit specification", "exit-spec", open_exit_spec },
	{ "clients", "trusted-proxy", open_clients },
};

static int open_workers(struct service *s, struct err *e)
{
	const struct options *o = &s->options;
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	limits.body = (size_t)o->max_answer;
	bool edits = strcmp(o->users, "openpai") == 0 || tokens_stored(o) || o->deny_list[0];
	limits.in_flight = 1; /* a thread waits for each answer */
	s->server.edits = worker_new(EDITS_WAIT);
	/* Code is uploaded to all servers; beside it one thread makes backups. */
	for (int i = 0; i < (edits ? WORKER_THREADS : 2); i++) {
		struct store *store = cluster_store(&s->server, &limits, e);
		if (!store || worker_add(s->server.edits, store, e) < 0)
			return -1;
	}
	return 0;
}

/* Opens the resources that only a running server holds: the lock of a directory, threads, memory of
 * loops. */
static int open_shared(struct service *s, struct err *e)
{
	struct server *v = &s->server;
	const struct options *o = &s->options;
	if (o->local[0] && !(v->local = local_open(o->local, v->namespace_name, v->foreground, e)))
		return -1;
	if (v->local)
		v->code_directory = arena_printf(&s->options.arena, "%s/code", o->local);
	if (v->local && code_directory_open(v->code_directory, e) < 0)
		return -1;
	v->results = v->local ? results_slots_new() : NULL;
	v->sessions = v->local ? sessions_new() : NULL;
	v->revoked = revocations_new();
	(void)pthread_mutex_init(&v->claims.lock, NULL); /* neither can fail */
	(void)pthread_mutex_init(&v->code_lock, NULL);
	if (open_workers(s, e) < 0 || history_start(v, e) < 0)
		return -1;
	v->follow = follow_start(v, e);
	return v->follow ? 0 : -1;
}

/* Lowers --connections if the limit of open files is too low: the server itself needs files. */
static void allow_files(struct options *o, size_t loops)
{
	size_t ours = loops * (size_t)o->in_flight + SPARE_FILES;
	if (options_run_here(o))
		ours += LOCAL_FILES + loops * (size_t)o->log_streams * LOG_FILES_MAX;
	size_t wanted = loops * (size_t)o->connections + ours;
	/* Without these, tasks with many ports start one after the other. */
	size_t ports = options_run_here(o) ? ENGINE_PORTS_HELD : 0;
	size_t allowed = process_allow_files(wanted + ports);
	if (allowed >= wanted)
		return;
	o->connections = allowed >= ours + loops ? (int64_t)((allowed - ours) / loops) : 1;
	struct line line = log_begin(
	    LOG_WARN,
	    "--connections is lowered, because the limit of open files is low (ulimit -Hn)");
	log_int(&line, "files", (int64_t)allowed);
	log_int(&line, "connections", o->connections);
	log_end(&line);
}

/* How many loops there are besides those of --listen. */
static size_t further_loops(const struct options *o)
{
	return (size_t)(o->output_listen[0] != '\0') + (o->metrics_listen[0] != '\0') +
	       (o->socket[0] != '\0');
}

static int open_loops(struct service *s, struct err *e)
{
	int fds[LOOPS_MAX];
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	size_t n = (size_t)s->options.loops;
	if (!n)
		n = cores < 1 ? 1 : cores > LOOPS_DEFAULT_MAX ? LOOPS_DEFAULT_MAX : (size_t)cores;
	allow_files(&s->options, n + further_loops(&s->options));
	if (listeners_open(&s->address, fds, n, e) < 0)
		return -1;
	s->server.port = address_port(&s->address);
	int failed = 0;
	for (size_t i = 0; i < n; i++) {
		if (failed)
			(void)close(fds[i]); /* unused: no data can be lost */
		else
			failed = loop_init(
			    &s->loops[s->n_loops++], &s->server,
			    (struct loop_port){ .listen_fd = fds[i], .tls = s->server.tls }, e);
	}
	return failed;
}

/* A separate loop and port for one route. */
static struct loop *open_port(struct service *s, struct address *a, struct tls *tls,
                              const struct route *only, struct err *e)
{
	int fd;
	if (listeners_open(a, &fd, 1, e) < 0)
		return NULL;
	struct loop *l = &s->loops[s->n_loops++];
	const struct loop_port port = { .listen_fd = fd, .tls = tls, .only = only };
	return loop_init(l, &s->server, port, e) < 0 ? NULL : l;
}

/* A loop of its own also because looking up the name of an account can block it. */
static int open_socket(struct service *s, struct err *e)
{
	int fd = listener_for_accounts(s->options.socket, e);
	if (fd < 0)
		return -1;
	s->has_socket = true;
	const struct loop_port port = { .listen_fd = fd, .of_accounts = true };
	return loop_init(&s->loops[s->n_loops++], &s->server, port, e);
}

static int open_ports(struct service *s, struct err *e)
{
	const struct options *o = &s->options;
	struct server *v = &s->server;
	if (o->output_listen[0]) { /* uploads by pods do not delay other requests */
		struct loop *l = open_port(s, &s->output_address, v->output_tls, &UPLOAD_ROUTE, e);
		if (!l)
			return -1;
		l->has->uploads = uploads_new();
		l->body_max = OUTPUT_PACKED_MAX;
	}
	if (o->socket[0] && open_socket(s, e) < 0)
		return -1;
	/* This listener has no authentication; nor have scrapes. */
	return !o->metrics_listen[0] || open_port(s, &s->metrics_address, v->tls, &METRICS_ROUTE, e)
	           ? 0
	           : -1;
}

void start_begin(struct service *s)
{
	s->server.options = &s->options;
	s->server.hooks = &FEATURES;
	s->server.routes = &ROUTES;
	s->server.counts = xcalloc(1, sizeof(struct counts));
	schema_init();
}

int start_all(struct service *s, struct err *e)
{
	start_begin(s);
	/* Signals are blocked before threads are started, which inherit the mask. */
	if (open_signals(s, e) < 0)
		return -1;
	for (size_t i = 0; i < N_START_STEPS; i++) {
		s->file = NULL;
		if (START_STEPS[i].open(s, e) < 0)
			return -1;
	}
	s->file = NULL;
	/* Each thread's own heap would keep its free memory: malloc_trim only trims the first one.
	 */
	if (options_run_here(&s->options))
		(void)mallopt(M_ARENA_MAX, 1); /* NOLINT(concurrency-mt-unsafe): no thread yet */
	if (open_shared(s, e) < 0 || open_loops(s, e) < 0 || open_ports(s, e) < 0)
		return -1;
	/* `run` has no cluster. */
	if (!s->server.foreground && !(s->upkeep = upkeep_start(&s->server, e)))
		return -1;
	if (!s->server.foreground && !(s->gc = gc_start(&s->server, e)))
		return -1;
	s->rounds = rounds_start(&s->server, e);
	return s->rounds ? 0 : -1;
}

/* ---- the log ---- */

void start_warnings(const struct service *s, struct check_session *c)
{
	const struct options *o = &s->options;
	const struct keyring *keys = atomic_load(&s->server.keyring);
	const char *file = NULL;
	const char *unsafe = keys ? keyring_warning(keys, &file) : NULL;
	const char *certificate = s->server.tls ? tls_warning(s->server.tls) : NULL;
	c->item = "process";
	if (o->test_limits[0])
		SAY(c, CHECK_WARNING, NULL, "fixed limits are changed; this is for tests only: %s",
		    o->test_limits);
	if (geteuid() == 0)
		SAY(c, CHECK_WARNING, NULL,
		    "this server runs as root: it has dropped its capabilities, but can "
		    "access the files of root; run it as another user");
	if (strcmp(o->profile, "openpai") == 0)
		SAY(c, CHECK_WARNING, NULL,
		    "profile openpai: every job author is root on the nodes (host network, "
		    "SYS_ADMIN, host paths)");
	if (o->behind_proxy && request_check_library(http_version()) == LIBRARY_LENIENT)
		SAY(c, CHECK_WARNING, NULL,
		    "before libmicrohttpd 1.0 (Debian 13), a head line that ends in NUL and "
		    "LF is not seen: the proxy must refuse it, as nginx, HAProxy and Envoy "
		    "do: %s",
		    http_version());
	if (keys && keyring_weak(keys))
		SAY(c, CHECK_WARNING, NULL,
		    "the secret of --jwt-secret-file is OpenPAI's default, which is public; "
		    "only the stored tokens protect this cluster; change it");
	if (certificate)
		SAY(c, CHECK_WARNING, NULL, "problem with the certificate or its key: %s",
		    certificate);
	if (unsafe)
		SAY(c, CHECK_WARNING, NULL, "a file with keys has unsafe owner or mode: %s: %s",
		    file, unsafe);
}

static void log_address(struct line *line, const char *key, const struct address *a)
{
	STR_AUTO text = STR_INIT(128);
	address_text(&text, a);
	log_text(line, key, str_view(&text));
}

void start_report(const struct service *s, const char *scrubbed)
{
	const struct server *v = &s->server;
	struct line line = log_begin(LOG_INFO, "listening");
	log_text(&line, "version", SPAN(REST_LIT_VERSION));
	log_address(&line, "address", &s->address);
	if (s->options.socket[0])
		log_text(&line, "socket", span_of(s->options.socket));
	if (s->options.output_listen[0]) {
		log_address(&line, "output_address", &s->output_address);
		log_text(&line, "output_url", span_of(s->options.output_url));
	}
	if (s->options.metrics_listen[0])
		log_address(&line, "metrics_address", &s->metrics_address);
	log_text(&line, "tls", v->tls ? SPAN("yes") : SPAN("no"));
	log_text(&line, "store", span_of(v->local ? s->options.local : login_describe(v->login)));
	log_text(&line, "namespace", span_of(v->namespace_name));
	log_text(&line, "profile", span_of(s->options.profile));
	log_text(&line, "runtime", span_of(s->options.runtime));
	const char *check = s->options.token_check[0] ? s->options.token_check : "signature";
	log_text(&line, "token_check", s->options.no_auth ? SPAN("none") : span_of(check));
	log_text(&line, "users", span_of(s->options.users));
	if (s->options.no_auth)
		log_text(&line, "user", span_of(s->options.user));
	if (s->options.hived_config[0])
		log_text(&line, "hived_config", span_of(s->options.hived_config));
	log_int(&line, "loops", /* of the API */
	        (int64_t)(s->n_loops - further_loops(&s->options)));
	log_end(&line);
	if (scrubbed)
		log_event(LOG_WARN, "a variable that changes TLS or proxies is set; it is ignored",
		          "variable", scrubbed);
	struct check_session c = { .take = check_log };
	start_warnings(s, &c);
	arena_done(&c.arena);
}

void start_undo(struct service *s)
{
	struct server *v = &s->server;
	for (size_t i = 0; i < v->n_threads; i++) /* all are told before one is waited for */
		caller_stop(v->threads[i]);
	if (s->has_socket)
		(void)unlink(s->options.socket); /* else the next server finds nobody listening */
	for (size_t i = 0; i < s->n_loops; i++)
		loop_done(&s->loops[i]);
	results_slots_free(v->results);
	sessions_free(v->sessions);
	scheduler_free(v->scheduler);
	worker_free(v->edits);
	upkeep_free(s->upkeep);
	gc_free(s->gc);
	rounds_free(s->rounds);
	follow_stop(v->follow);
	history_free(v->history);
	local_close(v->local);
	follow_free(v->follow);       /* after local_close, whose thread uses it */
	exit_spec_free(v->exit_spec); /* after all threads, which look codes up */
	login_free(v->login);
	translator_free(v->translator);
	account_source_free(v->accounts);
	rate_limits_free(v->rate_limits);
	cors_free(v->cors);
	revocations_free(v->revoked);
	if (v->output_tls != v->tls)
		tls_free(v->output_tls);
	tls_free(v->tls);
	keyring_free(atomic_load(&v->keyring));
	counts_free(v->counts);
	if (s->signal_fd >= 0)
		(void)close(s->signal_fd);
	if (v->ended_fd >= 0)
		(void)close(v->ended_fd);
}

/* Logs that a reload failed, with all errors. */
static void start_log_failed_reload(const char *message, const char *file, const struct err *e)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	setup_put_error(&text, file, e);
	log_event(LOG_ERROR, message, "why", str_c(&text));
}

/* Waits until each loop has begun a round after the change: then no loop uses the old keys. */
static bool loops_have_generation(struct loop *loops, size_t n, unsigned generation)
{
	int64_t end = clock_ms() + PATIENCE_MS;
	for (size_t i = 0; i < n; i++)
		loop_wake(&loops[i]);
	for (size_t i = 0; i < n; i++)
		while (atomic_load(&loops[i].generation) != generation) {
			if (clock_ms() > end)
				return false;
			(void)usleep(1000);
		}
	return true;
}

static void swap_keys(struct server *s, struct loop *loops, size_t n)
{
	ERR_AUTO e = { 0 };
	const char *file = NULL;
	if (!atomic_load(&s->keyring))
		return;
	struct keyring *keys = reload_keys(s->options, &file, &e);
	if (!keys) {
		start_log_failed_reload("SIGHUP: the keys of tokens stay as they were", file, &e);
		return;
	}
	struct keyring *old = atomic_exchange(&s->keyring, keys);
	unsigned generation = atomic_fetch_add(&s->generation, 1) + 1;
	if (loops_have_generation(loops, n, generation))
		keyring_free(old);
	else /* a leak is better than a use after free */
		log_event(LOG_ERROR,
		          "SIGHUP: a loop is blocked; the memory of the old keys is not freed",
		          NULL, NULL);
	log_event(LOG_INFO, "SIGHUP: the keys of tokens were read again", NULL, NULL);
	if (makes_output_tls(s->options) && open_output_tls(s, &e) < 0)
		start_log_failed_reload("SIGHUP: the certificate for output stays as it was", NULL,
		                        &e);
}

static void read_accounts(struct server *s)
{
	ERR_AUTO e = { 0 };
	if (!s->options->facts[0])
		return;
	if (account_source_reload(s->accounts, &e) < 0)
		start_log_failed_reload("SIGHUP: users and storages stay as they were",
		                        s->options->facts, &e);
	else if (s->engine)
		machine_limit_users(s);
	if (!e.http)
		log_event(LOG_INFO,
		          s->engine ? "SIGHUP: users were read again; quotas and directories of "
		                      "storages change at a restart"
		                    : "SIGHUP: users and storages were read again",
		          "file", s->options->facts);
}

void reload_certificate(struct server *s, bool force)
{
	ERR_AUTO e = { 0 };
	if (!s->tls)
		return;
	int new = tls_refresh(s->tls, force, &e);
	if (new < 0)
		start_log_failed_reload("the certificate stays as it was", NULL, &e);
	else if (new > 0)
		log_event(LOG_INFO, "the certificate was read again", "file", s->options->tls_cert);
	if (new > 0 && tls_warning(s->tls))
		log_event(LOG_WARN, "problem with the certificate or its key", "why",
		          tls_warning(s->tls));
}

void reload_all(struct server *s, struct loop *loops, size_t n)
{
	ERR_AUTO e = { 0 };
	const char *file = s->options->hived_config;
	swap_keys(s, loops, n);
	read_accounts(s);
	if (s->scheduler && scheduler_reload(s->scheduler, &e) < 0)
		start_log_failed_reload("SIGHUP: HiveD's configuration stays as it was", file, &e);
	else if (s->scheduler)
		log_event(LOG_INFO, "SIGHUP: HiveD's configuration was read again", "file", file);
	reload_certificate(s, true);
}
