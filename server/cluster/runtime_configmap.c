/* Creates the ConfigMaps that pods need, and checks the other objects that they refer to
 * (pod_needs.h). */
#include "server/cluster/runtime_configmap.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "jobs/store/call.h"
#include "jobs/store/paths.h"
#include "machine/store/local.h"
#include "server/cluster/cluster.h"
#include "server/cluster/controller_codes.h"
#include "server/cluster/nodes.h"
#include "server/cluster/pod_needs.h"
#include "server/config/options.h"
#include "server/http/tls.h"
#include "server/state/counts.h"
#include "server/state/log.h"
#include "translate/translate.h"

enum {
	LOOK_MS = 600000,     /* for checks, until an API server is up */
	TRY_MS = 10000,       /* per attempt to create a ConfigMap */
	AGAIN_MS = 2000,      /* between attempts */
	ANSWER_MAX = 4 << 20, /* it echoes the object */
	TEXT_MAX = 1024,
	CA_MAX = 512 << 10,
	CA_RANDOM = 4 /* certificates with random keys: the newest */
};

/* ---- the CA for uploads ---- */

enum { FILE_MAX = 256 << 10, CA_THERE_MAX = 32 << 10, NO_LIMIT = INT_MAX };

static const char BEGIN[] = "-----BEGIN CERTIFICATE-----";
static const char END[] = "-----END CERTIFICATE-----";

/* Copies the first `most` certificates of a PEM file. */
static void put_certificates(struct str *out, struct span text, int most)
{
	for (size_t at = 0; most > 0; most--) {
		size_t begin = span_find(text, at, BEGIN);
		size_t end = begin == SIZE_MAX ? SIZE_MAX : span_find(text, begin, END);
		if (end == SIZE_MAX)
			return;
		at = end + sizeof(END) - 1;
		str_put(out, text.p + begin, at - begin);
		str_char(out, '\n');
	}
}

#define RANDOM_KEY "rest-lit/random-key"

/* Appends the ConfigMap OUTPUT_CA; it is also a merge patch of an existing one, of this version. */
static void ca_object(struct str *out, struct span certificates, bool random, struct span version)
{
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
	              "\"name\":\"" OUTPUT_CA "\",\"labels\":{"
	              "\"app.kubernetes.io/managed-by\":\"rest-lit\"");
	json_put_word(out, RANDOM_KEY, random ? "true" : "false");
	str_char(out, '}');
	if (version.n)
		json_put_text(out, "resourceVersion", version);
	str_puts(out, "},\"data\":{");
	json_put_text(out, "ca.crt", certificates);
	str_puts(out, "}}");
}

/*
 * Appends the ConfigMap OUTPUT_CA with the certificates of --output-ca, or else the one that the
 * server has made.  Appends nothing if pods need none.
 * Keys in the file are left out.  -1 and *e: 400, the file cannot be read or holds no certificate.
 */
static int output_ca_write(struct str *out, const struct server *s, struct err *e)
{
	const char *file = s->options->output_ca;
	STR_AUTO text = STR_SECRET(FILE_MAX);
	STR_AUTO certificates = STR_INIT(FILE_MAX);
	struct stat st;
	if (!s->output_tls)
		return 0;
	if (!file[0])
		str_puts(&text, tls_pem(s->output_tls));
	else if (file_read_regular(file, &text, &st, e) < 0)
		return -1;
	put_certificates(&certificates, str_view(&text), NO_LIMIT);
	if (!certificates.n || utf8_check(str_view(&certificates)) != certificates.n)
		return err_set(e, 400, NULL, "%s: there is no certificate in it (PEM)", file);
	ca_object(out, str_view(&certificates), s->output_tls_random, SPAN(""));
	return 0;
}

/* ---- state ---- */

enum configmap_stage { STAGE_CHECKS, STAGE_RESTS, STAGE_WANTED };

/* pai-runtime for one architecture. */
struct program {
	struct object object; /* the ConfigMap */
	enum runtime_configmap_state state;
	bool done; /* in this check */
};

struct runtime_configmap {
	struct caller caller;
	struct server *server;
	struct arena arena;
	struct pod_needs needs;
	struct program program[RUNTIME_PROGRAMS];
	size_t n_programs;   /* 0: by image */
	struct str ca;       /* the ConfigMap OUTPUT_CA; empty: none */
	struct nodes *nodes; /* NULL: pods ask for no label */
	int64_t look_end_ms; /* of this check: then a missing answer counts as one */
	atomic_int stage;    /* any thread */
	int wanted_fd;       /* readable after a change to STAGE_WANTED */
};

/* ---- log ------------------------------------------------------------------------------------- */

/* The answer of the API server, or the right that is missing. */
static void look_put_reason(struct str *out, const char *verb, enum object_kind kind,
                            const struct store_reply *reply)
{
	if (reply->status == 403) {
		str_printf(out, "this server's account needs the RBAC verb \"%s\" on ", verb);
		resource_name(out, kind);
		str_puts(out, ", see k8s/deploy/rbac/rbac.yaml");
	} else if (reply->status) {
		str_printf(out, "the API server answered %d: %.*s", reply->status,
		           (int)reply->message.n, reply->message.p);
	} else {
		str_span(out, reply->message);
	}
}

static struct line object_line(enum log_level level, const char *event, const struct server *s,
                               enum object_kind kind, const char *name)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	struct line line = log_begin(level, event);
	str_printf(&text, "%s %s", resource_of(kind)->kind, name);
	log_text(&line, "object", str_view(&text));
	log_text(&line, "namespace", span_of(s->namespace_name));
	return line;
}

/* Ends the line with the reason of the API server. */
static void look_log_refused(struct line *line, const char *verb, enum object_kind kind,
                             const struct store_reply *reply)
{
	STR_AUTO why = STR_INIT(TEXT_MAX);
	look_put_reason(&why, verb, kind, reply);
	log_text(line, "why", str_view(&why));
	log_end(line);
}

/* ---- objects that must exist ---------------------------------------------------------------- */

/* false: there is no answer yet; another object is next. */
static bool look_ask(struct runtime_configmap *d, struct store_request r, struct arena *a,
                     struct store_reply *reply)
{
	int64_t end_ms = clock_ms() + TRY_MS;
	r.deadline_ms = end_ms < d->look_end_ms ? end_ms : d->look_end_ms;
	enum store_outcome outcome = store_call(&d->caller, &r, a, reply);
	bool none = outcome == STORE_BUSY || outcome == STORE_AMBIGUOUS || outcome == STORE_FULL;
	return !d->caller.stopped && !(none && clock_ms() < d->look_end_ms);
}

static bool look_at_object(struct runtime_configmap *d, const struct pod_object *object,
                           size_t *there)
{
	ARENA_AUTO a = { 0 };
	struct store_reply reply;
	struct line line;
	const struct store_request get = { .verb = STORE_GET,
		                           .kind = object->kind,
		                           .name = object->name };
	if (!look_ask(d, get, &a, &reply))
		return false;
	if (reply.outcome == STORE_OK) {
		++*there;
	} else if (reply.outcome == STORE_NOT_FOUND) {
		line = object_line(LOG_WARN, "missing in the namespace of the jobs", d->server,
		                   object->kind, object->name);
		log_text(&line, "means", span_of(object->means));
		log_text(&line, "mend", span_of(object->mend));
		log_end(&line);
	} else {
		line = object_line(reply.status == 403 ? LOG_INFO : LOG_WARN,
		                   "cannot check whether it exists", d->server, object->kind,
		                   object->name);
		look_log_refused(&line, "get", object->kind, &reply);
	}
	return true;
}

/* If the configuration cannot be read, log_unknown_code in follow.c reports such a code. */
static bool look_at_controller(struct runtime_configmap *d)
{
	ARENA_AUTO a = { 0 };
	STR_AUTO codes = STR_INIT(TEXT_MAX);
	struct store_reply reply;
	const struct store_request get = { .verb = STORE_GET,
		                           .kind = KIND_CONFIGMAP,
		                           .name = CONTROLLER_CONFIGMAP,
		                           .namespace_name = CONTROLLER_NAMESPACE,
		                           .whole = true };
	if (!look_ask(d, get, &a, &reply))
		return false;
	if (reply.outcome == STORE_OK && scan_valid(reply.body, SCAN_DEPTH_MAX))
		controller_codes_lacking(&codes, reply.body, d->server->exit_spec);
	if (codes.n == 0)
		return true;
	struct line line =
	    log_begin(LOG_WARN, "FrameworkController does not know exit codes of pai-runtime");
	log_text(&line, "codes", str_view(&codes));
	log_text(&line, "means", SPAN("the retry rules of these codes have no effect"));
	log_text(&line, "mend", SPAN(CONTROLLER_MEND));
	log_end(&line);
	return true;
}

static void log_nodes(void *arg, const char *event, const char *device, const char *means)
{
	const struct runtime_configmap *d = arg;
	struct line line = log_begin(LOG_WARN, event);
	log_text(&line, "label", span_of(d->needs.node_key));
	log_text(&line, "value", span_of(d->needs.node_value));
	if (device)
		log_text(&line, "device", span_of(device));
	log_text(&line, "means", span_of(means));
	log_end(&line);
}

/* A missing right to list nodes is not an error.  After other failures the last list counts. */
static bool look_at_nodes(struct runtime_configmap *d, bool check)
{
	ARENA_AUTO a = { 0 };
	struct store_reply reply;
	const struct store_request list = { .verb = STORE_LIST,
		                            .kind = KIND_NODE,
		                            .query = d->needs.node_query,
		                            .whole = true,
		                            .look = true };
	if (!look_ask(d, list, &a, &reply))
		return false;
	if (reply.outcome == STORE_REFUSED)
		nodes_list(d->nodes, SPAN(""));
	if (reply.outcome != STORE_OK || !scan_valid(reply.body, SCAN_DEPTH_MAX))
		return true;
	nodes_list(d->nodes, reply.body);
	if (check)
		pod_needs_nodes(&d->needs, reply.body, log_nodes, d);
	return true;
}

struct look_results {
	bool nodes, controller, object[POD_OBJECTS];
	size_t there;
};

/* The number of objects without an answer. */
static size_t look_at_all(struct runtime_configmap *d, struct look_results *l)
{
	size_t left = 0;
	l->nodes = l->nodes || !d->nodes || look_at_nodes(d, true);
	l->controller = l->controller || d->needs.n == 0 || look_at_controller(d);
	for (size_t i = 0; i < d->needs.n; i++) {
		bool before = l->object[i];
		l->object[i] = before || look_at_object(d, &d->needs.object[i], &l->there);
		left += !l->object[i];
		if (!before && l->there == d->needs.n)
			log_event(LOG_INFO, "all objects of pods exist", "namespace",
			          d->server->namespace_name);
	}
	return left + !l->nodes + !l->controller;
}

/* ---- the program --------------------------------------------------------------------------- */

static const char *const PROBLEMS[RUNTIME_CONFIGMAP_STATE_MAX] = {
	[RUNTIME_CONFIGMAP_PENDING] =
	    "the ConfigMap with pai-runtime, which all pods need, is still being created",
	[RUNTIME_CONFIGMAP_UNREACHABLE] = "the ConfigMap with pai-runtime, which all pods need, is "
					  "not yet created: the API server does not answer",
	[RUNTIME_CONFIGMAP_FORBIDDEN] =
	    "the ConfigMap with pai-runtime, which all pods need, cannot be created: this server's "
	    "account needs the RBAC verb \"create\" on configmaps",
	[RUNTIME_CONFIGMAP_REFUSED] =
	    "the ConfigMap with pai-runtime, which all pods need, cannot be created: the API "
	    "server refuses it, see the log of this server",
	[RUNTIME_CONFIGMAP_FOREIGN] =
	    "the ConfigMap with pai-runtime, which all pods need, cannot be created: its name is "
	    "used by a ConfigMap with other content",
};

const char *runtime_configmap_problem(const struct server *s)
{
	return PROBLEMS[atomic_load(&s->runtime_configmap)];
}

static enum store_outcome configmap_ask(struct runtime_configmap *d, struct store_request r,
                                        struct arena *a, struct store_reply *reply)
{
	r.kind = KIND_CONFIGMAP;
	r.whole = true;
	r.deadline_ms = clock_ms() + TRY_MS;
	return store_call(&d->caller, &r, a, reply);
}

/* Logs a new state, and each time that it is ready, with the reason; returns whether it is ready.
 * The server's state is that of the first program that is not ready. */
static bool program_set_state(struct runtime_configmap *d, struct program *p,
                              enum runtime_configmap_state state, struct span why)
{
	bool ready = state == RUNTIME_CONFIGMAP_READY;
	bool is_new = ready || p->state != state;
	size_t i = 0;
	p->state = state;
	while (i + 1 < d->n_programs && d->program[i].state == RUNTIME_CONFIGMAP_READY)
		i++;
	atomic_store(&d->server->runtime_configmap, (int)d->program[i].state);
	if (!is_new)
		return ready;
	struct line line =
	    object_line(ready ? LOG_INFO : LOG_ERROR,
	                ready ? "the ConfigMap with pai-runtime is ready"
	                      : "jobs are refused until the ConfigMap with pai-runtime exists",
	                d->server, KIND_CONFIGMAP, p->object.name);
	log_text(&line, ready ? "how" : "why", why);
	log_end(&line);
	return ready;
}

static bool program_refused(struct runtime_configmap *d, struct program *p, const char *verb,
                            const struct store_reply *reply)
{
	enum runtime_configmap_state state = RUNTIME_CONFIGMAP_UNREACHABLE;
	STR_AUTO why = STR_INIT(TEXT_MAX);
	look_put_reason(&why, verb, KIND_CONFIGMAP, reply);
	if (reply->outcome == STORE_REFUSED)
		state =
		    reply->status == 403 ? RUNTIME_CONFIGMAP_FORBIDDEN : RUNTIME_CONFIGMAP_REFUSED;
	return program_set_state(d, p, state, str_view(&why));
}

bool runtime_configmap_is_same(struct span wanted, struct span there)
{
	return scan_count(scan_get(there, "binaryData")) == 1 &&
	       span_eq(scan_path(wanted, "binaryData", "pai-runtime"),
	               scan_path(there, "binaryData", "pai-runtime")) &&
	       span_is(scan_get(there, "immutable"), "true");
}

/* false: it must be tried again. */
static bool program_publish(struct runtime_configmap *d, struct program *p)
{
	ARENA_AUTO a = { 0 };
	struct store_reply made;
	struct store_reply there;
	struct store_request r = { .verb = STORE_CREATE,
		                   .name = p->object.name,
		                   .body = { p->object.body } };
	configmap_ask(d, r, &a, &made);
	bool forbidden = made.outcome == STORE_REFUSED && made.status == 403;
	if (d->caller.stopped)
		return true;
	if (made.outcome == STORE_OK)
		return program_set_state(d, p, RUNTIME_CONFIGMAP_READY, SPAN("created"));
	if (made.outcome != STORE_EXISTS && !forbidden)
		return program_refused(d, p, "create", &made);

	r = (struct store_request){ .verb = STORE_GET, .name = p->object.name };
	configmap_ask(d, r, &a, &there);
	bool unreadable = there.outcome == STORE_REFUSED && there.status == 403;
	if (d->caller.stopped)
		return true;
	if (there.outcome == STORE_OK && runtime_configmap_is_same(p->object.body, there.body))
		return program_set_state(d, p, RUNTIME_CONFIGMAP_READY,
		                         SPAN("was there, and is the same"));
	if (there.outcome == STORE_OK)
		return program_set_state(
		    d, p, RUNTIME_CONFIGMAP_FOREIGN,
		    SPAN("it exists with other content, or is not immutable: delete it"));
	if (forbidden && (unreadable || there.outcome == STORE_NOT_FOUND))
		return program_refused(d, p, "create", &made);
	if (unreadable) /* its name contains a hash, so an existing one is trusted */
		return program_set_state(
		    d, p, RUNTIME_CONFIGMAP_READY,
		    SPAN("was there; not compared, because the RBAC verb \"get\" on it "
		         "is missing"));
	if (there.outcome == STORE_NOT_FOUND)
		return false; /* deleted meanwhile */
	return program_refused(d, p, "get", &there);
}

/* Servers with random keys keep each other's certificates, so that pods trust all of them.  A
 * certificate of a derived key is not kept: others may know its secret.  false: ours is there. */
static bool ca_merge(const struct runtime_configmap *d, const struct store_reply *reply,
                     struct arena *a, struct str *patch)
{
	STR_AUTO certificates = STR_INIT(FILE_MAX);
	struct span there = scan_text(scan_path(reply->body, "data", "ca.crt"), a);
	struct span random = scan_path(reply->body, "metadata", "labels", RANDOM_KEY);
	put_certificates(&certificates, span_of(tls_pem(d->server->output_tls)), 1);
	if (span_find(there, 0, str_c(&certificates)) != SIZE_MAX)
		return false;
	if (span_is(random, "\"true\"") && there.n <= CA_THERE_MAX)
		put_certificates(&certificates, there, CA_RANDOM - 1);
	ca_object(patch, str_view(&certificates), true, reply->resource_version);
	return true;
}

/* false: it must be tried again. */
static bool ca_publish(struct runtime_configmap *d)
{
	ARENA_AUTO a = { 0 };
	STR_AUTO merged = STR_INIT(CA_MAX);
	struct store_reply reply;
	const char *verb = "create";
	struct store_request r = { .verb = STORE_CREATE,
		                   .name = OUTPUT_CA,
		                   .body = { str_view(&d->ca) } };
	enum store_outcome outcome = configmap_ask(d, r, &a, &reply);
	if (outcome == STORE_EXISTS && d->server->output_tls_random) {
		struct store_request get = { .verb = STORE_GET, .name = OUTPUT_CA };
		verb = "get";
		outcome = configmap_ask(d, get, &a, &reply);
		if (outcome == STORE_OK) {
			if (!ca_merge(d, &reply, &a, &merged))
				return true;
			r.body[0] = str_view(&merged);
			outcome = STORE_EXISTS;
		}
	}
	if (outcome == STORE_EXISTS) {
		verb = "patch";
		r.verb = STORE_PATCH;
		outcome = configmap_ask(d, r, &a, &reply);
	}
	if (d->caller.stopped || outcome == STORE_OK)
		return true;
	if (outcome != STORE_REFUSED)
		return false;
	struct line line = object_line(LOG_WARN, "pods cannot upload their output over https",
	                               d->server, KIND_CONFIGMAP, OUTPUT_CA);
	look_log_refused(&line, verb, KIND_CONFIGMAP, &reply);
	return true;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Repeats until all is done, or the thread shall end. */
static void runtime_configmap_check(struct runtime_configmap *d)
{
	struct look_results looked = { 0 };
	bool ca_done = d->ca.n == 0;
	size_t left;
	d->look_end_ms = clock_ms() + LOOK_MS;
	for (size_t i = 0; i < d->n_programs; i++)
		d->program[i].done = false;
	do {
		left = 0;
		for (struct program *p = d->program; p < d->program + d->n_programs; p++) {
			p->done = p->done || program_publish(d, p);
			left += !p->done;
		}
		ca_done = ca_done || ca_publish(d);
		left += !ca_done;
		left += look_at_all(d, &looked);
	} while (left > 0 && caller_wait(&d->caller, -1, AGAIN_MS));
}

static void *runtime_configmap_thread(void *arg)
{
	enum { COUNT_MS = 1000 };
	struct runtime_configmap *d = arg;
	for (;;) {
		runtime_configmap_check(d);
		atomic_store(&d->stage, STAGE_RESTS);
		while (atomic_load(&d->stage) == STAGE_RESTS) {
			if (!caller_wait(&d->caller, d->wanted_fd, d->nodes ? COUNT_MS : -1))
				return NULL;
			if (d->nodes)
				nodes_run_once(d->nodes);
			if (d->nodes && nodes_wanted(d->nodes))
				(void)look_at_nodes(d, false); /* the next list is soon */
		}
		(void)eventfd_read(d->wanted_fd, &(eventfd_t){ 0 });
		atomic_store(&d->stage, STAGE_CHECKS);
		ERR_AUTO e = { 0 };
		struct str ca = STR_INIT(CA_MAX);
		if (output_ca_write(&ca, d->server, &e) == 0) {
			str_done(&d->ca);
			d->ca = ca;
			continue;
		}
		str_done(&ca);
		log_event(LOG_WARN, "the certificates for uploads are not replaced", "why",
		          err_msg(&e));
	}
}

struct store *cluster_store(struct server *s, const struct store_limits *limits, struct err *e)
{
	struct store *store = s->local ? store_local_new(s->local, s->namespace_name, limits, e)
	                               : store_api_new(s->login, s->namespace_name, limits, e);
	if (store)
		store_count(store, counts_store(s->counts));
	return store;
}

void cluster_log_trouble(char **last, const char *why, const char *event, const char *good)
{
	if (why && (!*last || strcmp(why, *last) != 0))
		log_event(LOG_WARN, event, "why", why);
	else if (!why && *last)
		log_event(LOG_INFO, good, NULL, NULL);
	free(*last);
	*last = why ? xstrdup(why) : NULL;
}

struct runtime_configmap *runtime_configmap_start(struct server *s, struct err *e)
{
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	limits.body = ANSWER_MAX;
	struct runtime_configmap *d = xcalloc(1, sizeof(*d));
	d->server = s;
	d->ca = STR_INIT(CA_MAX);
	d->wanted_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!s->local) /* a directory has no pods */
		pod_needs_read(s, &d->arena, &d->needs);
	if (d->needs.node_query)
		s->nodes = d->nodes = nodes_new(s);
	while (d->n_programs < RUNTIME_PROGRAMS &&
	       runtime_object(s->translator, d->n_programs, &d->arena,
	                      &d->program[d->n_programs].object)) {
		d->program[d->n_programs++].state = RUNTIME_CONFIGMAP_PENDING;
		atomic_store(&s->runtime_configmap, RUNTIME_CONFIGMAP_PENDING);
	}
	struct store *store = NULL;
	if (output_ca_write(&d->ca, s, e) == 0)
		store = cluster_store(s, &limits, e);
	if (store && caller_start(&d->caller, store, runtime_configmap_thread, d, e) == 0) {
		s->threads[s->n_threads++] = &d->caller;
		return d;
	}
	runtime_configmap_free(d);
	return NULL;
}

/* A check under way is not begun again, as its thread may have looked already or not. */
bool runtime_configmap_check_again(struct runtime_configmap *d)
{
	int rests = STAGE_RESTS;
	if (!atomic_compare_exchange_strong(&d->stage, &rests, STAGE_WANTED))
		return false;
	(void)eventfd_write(d->wanted_fd, 1);
	return true;
}

void runtime_configmap_free(struct runtime_configmap *d)
{
	if (!d)
		return;
	caller_end(&d->caller);
	nodes_free(d->nodes);
	str_done(&d->ca);
	if (d->wanted_fd >= 0)
		(void)close(d->wanted_fd);
	arena_done(&d->arena);
	free(d);
}
