/* Creates the ConfigMaps that pods need, and checks the other objects that they refer to
 * (pod_needs.h). */
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/enc.h"
#include "k8s/dirstore/dirstore.h"
#include "k8s/transport/paths.h"
#include "server/cluster/cluster.h"
#include "server/cluster/nodes.h"
#include "server/cluster/pod_needs.h"
#include "server/counts.h"
#include "server/http/tls.h"
#include "server/log.h"
#include "server/system.h"
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
	              "\"app.kubernetes.io/managed-by\":\"rest-lit\",\"" RANDOM_KEY "\":");
	str_puts(out, random ? "\"true\"}" : "\"false\"}");
	if (version.n) {
		str_puts(out, ",\"resourceVersion\":");
		str_json(out, version);
	}
	str_puts(out, "},\"data\":{\"ca.crt\":");
	str_json(out, certificates);
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

/* An object to check. */
struct look {
	struct runtime_configmap *d;
	const struct pod_object *object;
};

/* pai-runtime for one architecture. */
struct program {
	struct runtime_configmap *d;
	struct object object; /* the ConfigMap */
	enum runtime_configmap_state state;
	bool forbidden; /* creating it is forbidden, so it must exist */
};

struct runtime_configmap {
	struct server *server;
	struct store *store;
	struct arena arena;
	struct pod_needs needs;
	struct look look[POD_OBJECTS];
	size_t n_there;
	struct program program[RUNTIME_PROGRAMS];
	size_t n_programs;   /* 0: by image */
	struct str ca;       /* the ConfigMap OUTPUT_CA; empty: none */
	struct str ca_patch; /* with the certificates of other servers */
	struct nodes *nodes; /* NULL: pods ask for no label */
	bool listing;        /* nodes are being listed for it alone */
	bool stopping;
};

/* ---- log ------------------------------------------------------------------------------------- */

/* The answer of the API server, or the right that is missing. */
static void look_put_why(struct str *out, const char *verb, enum object_kind kind,
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
	look_put_why(&why, verb, kind, reply);
	log_text(line, "why", str_view(&why));
	log_end(line);
}

static void say_unseen(const struct look *k, const struct store_reply *reply)
{
	struct line line = object_line(reply->status == 403 ? LOG_INFO : LOG_WARN,
	                               "cannot check whether it exists", k->d->server,
	                               k->object->kind, k->object->name);
	look_log_refused(&line, "get", k->object->kind, reply);
}

static void say_missing(const struct look *k)
{
	struct line line = object_line(LOG_WARN, "missing in the namespace of the jobs",
	                               k->d->server, k->object->kind, k->object->name);
	log_text(&line, "means", span_of(k->object->means));
	log_text(&line, "mend", span_of(k->object->mend));
	log_end(&line);
}

static void look_done(void *arg, const struct store_reply *reply)
{
	const struct look *k = arg;
	struct runtime_configmap *d = k->d;
	if (d->stopping)
		return;
	if (reply->outcome == STORE_OK)
		d->n_there++;
	else if (reply->outcome == STORE_NOT_FOUND)
		say_missing(k);
	else
		say_unseen(k, reply);
	if (d->n_there == d->needs.n)
		log_event(LOG_INFO, "all objects of pods exist", "namespace",
		          d->server->namespace_name);
}

/* ---- the configuration of FrameworkController ------------------------------------------------ */

/* If it cannot be read, log_unknown_code in follow.c reports such a code. */
static void controller_config_came(void *arg, const struct store_reply *reply)
{
	const struct runtime_configmap *d = arg;
	STR_AUTO codes = STR_INIT(TEXT_MAX);
	if (d->stopping || reply->outcome != STORE_OK || !scan_valid(reply->body, SCAN_DEPTH_MAX))
		return;
	controller_codes_lacking(&codes, reply->body, d->server->exit_spec);
	if (codes.n == 0)
		return;
	struct line line =
	    log_begin(LOG_WARN, "FrameworkController does not know exit codes of pai-runtime");
	log_text(&line, "codes", str_view(&codes));
	log_text(&line, "means", SPAN("the retry rules of these codes have no effect"));
	log_text(&line, "mend", SPAN(CONTROLLER_MEND));
	log_end(&line);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

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
static bool nodes_taken(struct runtime_configmap *d, const struct store_reply *reply)
{
	if (!d->stopping && reply->outcome == STORE_REFUSED)
		nodes_list(d->nodes, SPAN(""));
	if (d->stopping || reply->outcome != STORE_OK || !scan_valid(reply->body, SCAN_DEPTH_MAX))
		return false;
	nodes_list(d->nodes, reply->body);
	return true;
}

static void nodes_came(void *arg, const struct store_reply *reply)
{
	struct runtime_configmap *d = arg;
	if (nodes_taken(d, reply))
		pod_needs_nodes(&d->needs, reply->body, log_nodes, d);
}

static void nodes_came_again(void *arg, const struct store_reply *reply)
{
	struct runtime_configmap *d = arg;
	d->listing = false;
	(void)nodes_taken(d, reply); /* the next list is soon */
}

static void look_for(struct runtime_configmap *d, struct store_request r)
{
	r.deadline_ms = clock_ms() + LOOK_MS;
	store_request(d->store, &r);
}

static void look_for_nodes(struct runtime_configmap *d, store_callback *done)
{
	look_for(d, (struct store_request){ .verb = STORE_LIST,
	                                    .kind = KIND_NODE,
	                                    .query = d->needs.node_query,
	                                    .whole = true,
	                                    .look = true,
	                                    .done = done,
	                                    .arg = d });
}

static void look_for_all(struct runtime_configmap *d)
{
	if (d->nodes)
		look_for_nodes(d, nodes_came);
	if (d->needs.n)
		look_for(d, (struct store_request){ .verb = STORE_GET,
		                                    .kind = KIND_CONFIGMAP,
		                                    .name = CONTROLLER_CONFIGMAP,
		                                    .namespace_name = CONTROLLER_NAMESPACE,
		                                    .whole = true,
		                                    .done = controller_config_came,
		                                    .arg = d });
	d->n_there = 0;
	for (size_t i = 0; i < d->needs.n; i++)
		look_for(d, (struct store_request){ .verb = STORE_GET,
		                                    .kind = d->needs.object[i].kind,
		                                    .name = d->needs.object[i].name,
		                                    .done = look_done,
		                                    .arg = &d->look[i] });
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

static store_callback program_created, program_compared;

/* Sends a request for a ConfigMap, after a pause. */
static void ask_configmap(struct runtime_configmap *d, struct store_request r, int64_t after_ms)
{
	r.kind = KIND_CONFIGMAP;
	r.not_before_ms = after_ms ? clock_ms() + after_ms : 0;
	r.deadline_ms = clock_ms() + after_ms + TRY_MS;
	store_request(d->store, &r);
}

static void program_ask(struct program *p, enum store_verb verb, int64_t after_ms)
{
	struct store_request r = { .verb = verb,
		                   .name = p->object.name,
		                   .whole = true,
		                   .done =
		                       verb == STORE_CREATE ? program_created : program_compared,
		                   .arg = p };
	if (verb == STORE_CREATE)
		r.body[0] = p->object.body;
	ask_configmap(p->d, r, after_ms);
}

/* The server's state is that of the first program that is not ready. */
static void program_is(struct program *p, enum runtime_configmap_state state)
{
	const struct runtime_configmap *d = p->d;
	size_t i = 0;
	p->state = state;
	while (i + 1 < d->n_programs && d->program[i].state == RUNTIME_CONFIGMAP_READY)
		i++;
	atomic_store(&d->server->runtime_configmap, (int)d->program[i].state);
}

static void program_succeeded(struct program *p, const char *how)
{
	program_is(p, RUNTIME_CONFIGMAP_READY);
	struct line line = object_line(LOG_INFO, "the ConfigMap with pai-runtime is ready",
	                               p->d->server, KIND_CONFIGMAP, p->object.name);
	log_text(&line, "how", span_of(how));
	log_end(&line);
}

/* Logs a new state, and tries again. */
static void program_failed(struct program *p, enum runtime_configmap_state state, struct span why)
{
	if (p->state != state) {
		struct line line = object_line(
		    LOG_ERROR, "jobs are refused until the ConfigMap with pai-runtime exists",
		    p->d->server, KIND_CONFIGMAP, p->object.name);
		log_text(&line, "why", why);
		log_end(&line);
	}
	program_is(p, state);
	program_ask(p, STORE_CREATE, AGAIN_MS);
}

static void program_refused(struct program *p, const char *verb, const struct store_reply *reply)
{
	enum runtime_configmap_state state = RUNTIME_CONFIGMAP_UNREACHABLE;
	STR_AUTO why = STR_INIT(TEXT_MAX);
	look_put_why(&why, verb, KIND_CONFIGMAP, reply);
	if (reply->outcome == STORE_REFUSED)
		state =
		    reply->status == 403 ? RUNTIME_CONFIGMAP_FORBIDDEN : RUNTIME_CONFIGMAP_REFUSED;
	program_failed(p, state, str_view(&why));
}

static void program_created(void *arg, const struct store_reply *reply)
{
	struct program *p = arg;
	if (p->d->stopping)
		return;
	p->forbidden = reply->outcome == STORE_REFUSED && reply->status == 403;
	if (reply->outcome == STORE_OK)
		program_succeeded(p, "created");
	else if (reply->outcome == STORE_EXISTS || p->forbidden)
		program_ask(p, STORE_GET, 0);
	else
		program_refused(p, "create", reply);
}

static json_t *program_parse(struct span text)
{
	return json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
}

bool runtime_configmap_is_same(struct span wanted, struct span there)
{
	json_auto_t *ours = program_parse(wanted);
	json_auto_t *theirs = program_parse(there);
	return json_equal(json_object_get(ours, "binaryData"),
	                  json_object_get(theirs, "binaryData")) &&
	       json_is_true(json_object_get(theirs, "immutable"));
}

/* It could not be read.  Its name contains a hash, so an existing one is trusted. */
static void program_unread(struct program *p, const struct store_reply *reply)
{
	struct store_reply none = { .outcome = STORE_REFUSED, .status = 403 };
	bool no_right = reply->outcome == STORE_REFUSED && reply->status == 403;
	if (p->forbidden && (no_right || reply->outcome == STORE_NOT_FOUND))
		program_refused(p, "create", &none);
	else if (no_right)
		program_succeeded(
		    p, "was there; not compared, because the RBAC verb \"get\" on it is missing");
	else if (reply->outcome == STORE_NOT_FOUND)
		program_ask(p, STORE_CREATE, AGAIN_MS); /* deleted meanwhile */
	else
		program_refused(p, "get", reply);
}

static void program_compared(void *arg, const struct store_reply *reply)
{
	struct program *p = arg;
	if (p->d->stopping)
		return;
	if (reply->outcome != STORE_OK)
		program_unread(p, reply);
	else if (runtime_configmap_is_same(p->object.body, reply->body))
		program_succeeded(p, "was there, and is the same");
	else
		program_failed(
		    p, RUNTIME_CONFIGMAP_FOREIGN,
		    SPAN("it exists with other content, or is not immutable: delete it"));
}

static store_callback ca_made, ca_came, ca_changed;

static void ask_ca(struct runtime_configmap *d, enum store_verb verb, struct span body,
                   store_callback *done, int64_t after_ms)
{
	ask_configmap(d,
	              (struct store_request){ .verb = verb,
	                                      .name = OUTPUT_CA,
	                                      .whole = true,
	                                      .body = { body },
	                                      .done = done,
	                                      .arg = d },
	              after_ms);
}

static void ca_failed(struct runtime_configmap *d, const char *verb,
                      const struct store_reply *reply)
{
	if (reply->outcome != STORE_REFUSED) {
		ask_ca(d, STORE_CREATE, str_view(&d->ca), ca_made, AGAIN_MS);
		return;
	}
	struct line line = object_line(LOG_WARN, "pods cannot upload their output over https",
	                               d->server, KIND_CONFIGMAP, OUTPUT_CA);
	look_log_refused(&line, verb, KIND_CONFIGMAP, reply);
}

static void ca_changed(void *arg, const struct store_reply *reply)
{
	struct runtime_configmap *d = arg;
	if (!d->stopping && reply->outcome != STORE_OK)
		ca_failed(d, "patch", reply);
}

/* Servers with random keys keep each other's certificates, so that pods trust all of them.  One of
 * a derived key is not kept: its secret may be known to others. */
static void ca_came(void *arg, const struct store_reply *reply)
{
	struct runtime_configmap *d = arg;
	STR_AUTO certificates = STR_INIT(FILE_MAX);
	if (d->stopping)
		return;
	if (reply->outcome != STORE_OK) {
		ca_failed(d, "get", reply);
		return;
	}
	json_auto_t *object = json_loadb(reply->body.p, reply->body.n, 0, NULL);
	const json_t *labels = json_object_get(json_object_get(object, "metadata"), "labels");
	const char *random = json_string_value(json_object_get(labels, RANDOM_KEY));
	const json_t *data = json_object_get(object, "data");
	const char *text = json_string_value(json_object_get(data, "ca.crt"));
	struct span there = text ? span_of(text) : SPAN("");
	put_certificates(&certificates, span_of(tls_pem(d->server->output_tls)), 1);
	if (span_find(there, 0, str_c(&certificates)) != SIZE_MAX)
		return;
	if (random && strcmp(random, "true") == 0 && there.n <= CA_THERE_MAX)
		put_certificates(&certificates, there, CA_RANDOM - 1);
	str_done(&d->ca_patch);
	d->ca_patch = STR_INIT(CA_MAX);
	ca_object(&d->ca_patch, str_view(&certificates), true, reply->resource_version);
	ask_ca(d, STORE_PATCH, str_view(&d->ca_patch), ca_changed, 0);
}

static void ca_made(void *arg, const struct store_reply *reply)
{
	struct runtime_configmap *d = arg;
	if (d->stopping || reply->outcome == STORE_OK)
		return;
	if (reply->outcome == STORE_EXISTS && d->server->output_tls_random)
		ask_ca(d, STORE_GET, SPAN(""), ca_came, 0);
	else if (reply->outcome == STORE_EXISTS)
		ask_ca(d, STORE_PATCH, str_view(&d->ca), ca_changed, 0);
	else
		ca_failed(d, "create", reply);
}

static void runtime_configmap_begin(struct runtime_configmap *d)
{
	look_for_all(d);
	for (size_t i = 0; i < d->n_programs; i++)
		program_ask(&d->program[i], STORE_CREATE, 0);
	if (d->ca.n)
		ask_ca(d, STORE_CREATE, str_view(&d->ca), ca_made, 0);
	store_start(d->store);
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
	d->store = cluster_store(s, &limits, e);
	if (!d->store) {
		runtime_configmap_free(d);
		return NULL;
	}
	if (!s->local) /* a directory has no pods */
		pod_needs_read(s, &d->arena, &d->needs);
	if (d->needs.node_query)
		s->nodes = d->nodes = nodes_new(s);
	for (size_t i = 0; i < d->needs.n; i++)
		d->look[i] = (struct look){ d, &d->needs.object[i] };
	for (struct program *p = d->program;
	     d->n_programs < RUNTIME_PROGRAMS &&
	     runtime_object(s->translator, d->n_programs, &d->arena, &p->object);
	     p++) {
		p->d = d;
		d->n_programs++;
		program_is(p, RUNTIME_CONFIGMAP_PENDING);
	}
	d->ca = STR_INIT(CA_MAX);
	if (output_ca_write(&d->ca, s, e) < 0) {
		runtime_configmap_free(d);
		return NULL;
	}
	runtime_configmap_begin(d);
	return d;
}

bool runtime_configmap_check_again(struct runtime_configmap *d)
{
	if (store_pending(d->store) > d->listing)
		return false; /* already going on */
	ERR_AUTO e = { 0 };
	STR_AUTO ca = STR_INIT(CA_MAX);
	if (output_ca_write(&ca, d->server, &e) < 0) {
		log_event(LOG_WARN, "the certificates for uploads are not replaced", "why",
		          err_msg(&e));
	} else {
		str_done(&d->ca);
		d->ca = ca;
		ca = STR_INIT(0);
	}
	runtime_configmap_begin(d);
	return true;
}

void runtime_configmap_run_once(struct runtime_configmap *d)
{
	store_reap(d->store);
	if (d->nodes) {
		nodes_run_once(d->nodes);
		if (!store_pending(d->store) && nodes_wanted(d->nodes)) {
			d->listing = true;
			look_for_nodes(d, nodes_came_again);
		}
	}
	store_start(d->store);
}

int runtime_configmap_fd(const struct runtime_configmap *d)
{
	return store_fd(d->store);
}

int runtime_configmap_timeout_ms(const struct runtime_configmap *d)
{
	return store_timeout_ms(d->store);
}

void runtime_configmap_free(struct runtime_configmap *d)
{
	if (!d)
		return;
	d->stopping = true;
	store_free(d->store);
	nodes_free(d->nodes);
	str_done(&d->ca);
	str_done(&d->ca_patch);
	arena_done(&d->arena);
	free(d);
}
