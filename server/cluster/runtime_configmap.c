/* Creates the ConfigMaps that pods need, and checks the other objects that they refer to. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/enc.h"
#include "k8s/dirstore/dirstore.h"
#include "k8s/transport/paths.h"
#include "server/cluster/cluster.h"
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
	N_LOOKS = 3
};

/* ---- the CA for uploads ---- */

enum { FILE_MAX = 256 << 10 };

static const char BEGIN[] = "-----BEGIN CERTIFICATE-----";
static const char END[] = "-----END CERTIFICATE-----";

/* Copies the certificates of a PEM file. */
static void put_certificates(struct str *out, struct span text)
{
	for (size_t at = 0;;) {
		size_t begin = span_find(text, at, BEGIN);
		size_t end = begin == SIZE_MAX ? SIZE_MAX : span_find(text, begin, END);
		if (end == SIZE_MAX)
			return;
		at = end + sizeof(END) - 1;
		str_put(out, text.p + begin, at - begin);
		str_char(out, '\n');
	}
}

/*
 * Appends the ConfigMap OUTPUT_CA with the certificates of --output-ca, or else of --tls-cert; it
 * is also a merge patch of an existing one.  Appends nothing if pods need none.  Keys in the file
 * are left out.  -1 and *e: 400, the file cannot be read or holds no certificate.
 */
static int output_ca_write(struct str *out, const struct options *o, struct err *e)
{
	const char *file = o->output_ca[0] ? o->output_ca : o->tls_cert;
	STR_AUTO text = STR_SECRET(FILE_MAX);
	STR_AUTO certificates = STR_INIT(FILE_MAX);
	struct stat st;
	if (!span_starts(span_of(o->output_url), "https://"))
		return 0;
	if (file_read_regular(file, &text, &st, e) < 0)
		return -1;
	put_certificates(&certificates, str_view(&text));
	if (!certificates.n || utf8_check(str_view(&certificates)) != certificates.n)
		return err_set(e, 400, NULL, "%s: there is no certificate in it (PEM)", file);
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
	              "\"name\":\"" OUTPUT_CA "\",\"labels\":{"
	              "\"app.kubernetes.io/managed-by\":\"rest-lit\"}},"
	              "\"data\":{\"ca.crt\":");
	str_json(out, str_view(&certificates));
	str_puts(out, "}}");
	return 0;
}

/* ---- needs of pods ---- */

enum { POD_NEEDS_DEVICES = 8 };

/* Needs of the pods of every job, found by translating a small job. */
struct pod_needs {
	const char *priority_class;            /* NULL: none, or one per job */
	const char *node_key, *node_value;     /* label of the nodes; NULL: any node */
	const char *device[POD_NEEDS_DEVICES]; /* of a task with one GPU; NULL ends them */
};

static const char JOB[] =
    "{\"protocolVersion\":2,\"name\":\"probe\",\"type\":\"job\",\"prerequisites\":[{"
    "\"protocolVersion\":2,\"name\":\"i\",\"type\":\"dockerimage\",\"uri\":\"example.org/i\"}],"
    "\"taskRoles\":{\"r\":{\"instances\":1,\"dockerImage\":\"i\",\"resourcePerInstance\":{\"cpu\":"
    "1,"
    "\"memoryMB\":1024,\"gpu\":1},\"commands\":[\"true\"]}}}";

/* The first item of a list. */
static struct span needs_first(struct span list)
{
	struct scan s = scan_begin(list);
	struct span item;
	return scan_item(&s, &item) ? item : (struct span){ NULL, 0 };
}

/* By nodeSelector, or the first required term of the affinity. */
static void needs_node(struct span pod, struct arena *a, struct pod_needs *out)
{
	struct scan s = scan_begin(scan_get(pod, "nodeSelector"));
	struct span key;
	struct span value;
	struct span terms =
	    scan_path(pod, "affinity", "nodeAffinity",
	              "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms");
	struct span rule = needs_first(scan_get(needs_first(terms), "matchExpressions"));
	if (scan_member(&s, &key, &value)) {
		out->node_key = arena_dup(a, key);
		out->node_value = arena_dup(a, scan_text(value, a));
	} else if (span_is(scan_text(scan_get(rule, "operator"), a), "In")) {
		out->node_key = arena_dup(a, scan_text(scan_get(rule, "key"), a));
		out->node_value = arena_dup(a, scan_text(needs_first(scan_get(rule, "values")), a));
	}
}

/* Resources with a domain in their name are devices. */
static void needs_devices(struct span pod, struct arena *a, struct pod_needs *out)
{
	struct span container = needs_first(scan_get(pod, "containers"));
	struct scan s = scan_begin(scan_path(container, "resources", "limits"));
	struct span key;
	struct span value;
	for (size_t n = 0; n < POD_NEEDS_DEVICES && scan_member(&s, &key, &value);)
		if (memchr(key.p, '/', key.n))
			out->device[n++] = arena_dup(a, key);
}

/* Texts live in the arena.  NULL: unknown. */
static void pod_needs_read(const struct translator *t, struct arena *a, struct pod_needs *out)
{
	static const struct facts FACTS = { .any_virtual_cluster = true };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct objects objects;
	*out = (struct pod_needs){ .priority_class = NULL };
	struct job *job = job_read(t, DIALECT_V2, SPAN(JOB), "probe", a, &warnings, &e);
	if (!job || job_build(t, job, &FACTS, NULL, a, &objects, &e) < 0)
		return;
	struct span framework = objects_framework(&objects)->body;
	struct span role = needs_first(scan_path(framework, "spec", "taskRoles"));
	struct span pod = scan_path(role, "task", "pod", "spec");
	struct span class = scan_text(scan_get(pod, "priorityClassName"), a);
	if (class.n && !span_starts(class, job_hash(job)))
		out->priority_class = arena_dup(a, class);
	needs_node(pod, a, out);
	needs_devices(pod, a, out);
}

/* The number of nodes in a list, and the devices that at least one of them has. */
static size_t pod_needs_nodes(const struct pod_needs *needs, struct span list,
                              bool has[POD_NEEDS_DEVICES])
{
	struct scan s = scan_begin(scan_get(list, "items"));
	struct span node;
	size_t n = 0;
	memset(has, 0, POD_NEEDS_DEVICES * sizeof *has);
	for (; scan_item(&s, &node); n++) {
		struct span all = scan_path(node, "status", "allocatable");
		for (size_t i = 0; i < POD_NEEDS_DEVICES && needs->device[i]; i++)
			has[i] |= scan_get(all, needs->device[i]).p != NULL;
	}
	return n;
}

/* ---- state ---- */

/* An object to check. */
struct look {
	struct runtime_configmap *d;
	enum object_kind kind;
	const char *name;
	const char *means; /* the effect on pods if it is missing */
	const char *mend;
};

struct runtime_configmap {
	struct server *server;
	struct store *store;
	struct arena arena;
	struct look look[N_LOOKS];
	size_t n_looks, n_there;
	struct pod_needs needs;
	const char *node_query; /* NULL: pods go to any node */
	struct object program;  /* the ConfigMap; name == NULL: none needed */
	bool forbidden;         /* creating it is forbidden, so it must exist */
	struct str ca;          /* the ConfigMap of --output-ca; empty: none */
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
		str_puts(out, ", see k8s/rbac.yaml");
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
	struct line line =
	    object_line(reply->status == 403 ? LOG_INFO : LOG_WARN,
	                "cannot check whether it exists", k->d->server, k->kind, k->name);
	look_log_refused(&line, "get", k->kind, reply);
}

static void say_missing(const struct look *k)
{
	struct line line = object_line(LOG_WARN, "missing in the namespace of the jobs",
	                               k->d->server, k->kind, k->name);
	log_text(&line, "means", span_of(k->means));
	log_text(&line, "mend", span_of(k->mend));
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
	if (d->n_there == d->n_looks)
		log_event(LOG_INFO, "all objects of pods exist", "namespace",
		          d->server->namespace_name);
}

/* "kubectl apply" of a manifest, by sed if our names differ from those in it. */
static const char *mend(struct runtime_configmap *d, const char *manifest)
{
	const char *account = d->server->options->service_account;
	const char *space = d->server->namespace_name;
	STR_AUTO edits = STR_INIT(TEXT_MAX);
	if (strcmp(account, "runtime-account") != 0)
		str_printf(&edits, " -e 's/runtime-account/%s/'", account);
	if (strcmp(space, "default") != 0)
		str_printf(&edits, " -e 's/namespace: default/namespace: %s/'", space);
	if (edits.n)
		return arena_printf(&d->arena, "sed%s %s | kubectl apply -f -", str_c(&edits),
		                    manifest);
	return arena_printf(&d->arena, "kubectl apply -f %s", manifest);
}

static void set_looks(struct runtime_configmap *d)
{
	bool optional = strcmp(d->server->options->profile, "plain") == 0;
	d->look[d->n_looks++] = (struct look){
		.kind = KIND_SERVICEACCOUNT,
		.name = d->server->options->service_account,
		.means = "no pod can be created",
		.mend = mend(d, "runtime-assets/rbac.yaml"),
	};
	d->look[d->n_looks++] = (struct look){
		.kind = KIND_CONFIGMAP,
		.name = "runtime-exit-spec-configuration",
		.means = optional ? "failures are not explained" : "no pod can start",
		.mend = mend(d, "runtime-assets/exit-spec-configmap.yaml"),
	};
	pod_needs_read(d->server->translator, &d->arena, &d->needs);
	if (d->needs.priority_class)
		d->look[d->n_looks++] = (struct look){
			.kind = KIND_PRIORITYCLASS,
			.name = d->needs.priority_class,
			.means = "no pod can be created, and each job fails with -310",
			.mend =
			    arena_printf(&d->arena,
			                 "kubectl create priorityclass %s --value=-2147483648, or "
			                 "rest-lit serve --priority-class",
			                 d->needs.priority_class),
		};
	if (d->needs.node_key)
		d->node_query = arena_printf(&d->arena, "labelSelector=%s%%3D%s&limit=500",
		                             d->needs.node_key, d->needs.node_value);
	for (size_t i = 0; i < d->n_looks; i++)
		d->look[i].d = d;
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

static void log_nodes(const struct runtime_configmap *d, const char *event, const char *device,
                      const char *means)
{
	struct line line = log_begin(LOG_WARN, event);
	log_text(&line, "label", span_of(d->needs.node_key));
	log_text(&line, "value", span_of(d->needs.node_value));
	if (device)
		log_text(&line, "device", span_of(device));
	log_text(&line, "means", span_of(means));
	log_end(&line);
}

/* A missing right to list nodes is not an error. */
static void nodes_came(void *arg, const struct store_reply *reply)
{
	const struct runtime_configmap *d = arg;
	bool has[POD_NEEDS_DEVICES];
	if (d->stopping || reply->outcome != STORE_OK || !scan_valid(reply->body, SCAN_DEPTH_MAX))
		return;
	if (pod_needs_nodes(&d->needs, reply->body, has) == 0) {
		log_nodes(d, "no node has the label that pods ask for", NULL,
		          "no pod is ever scheduled; kubectl label node NAME with it");
		return;
	}
	for (size_t i = 0; i < POD_NEEDS_DEVICES && d->needs.device[i]; i++) {
		bool gpu = strcmp(d->needs.device[i], d->server->options->device) == 0;
		if (!has[i])
			log_nodes(d, "no node with the label that pods ask for has the device",
			          d->needs.device[i],
			          gpu ? "jobs that ask for it wait; is its device plugin there?"
			              : "no pod is ever scheduled; install its device plugin, or "
			                "leave it out in a template of --templates");
	}
}

static void look_for(struct runtime_configmap *d, struct store_request r)
{
	r.deadline_ms = clock_ms() + LOOK_MS;
	store_request(d->store, &r);
}

static void look_for_all(struct runtime_configmap *d)
{
	if (d->node_query)
		look_for(d, (struct store_request){ .verb = STORE_LIST,
		                                    .kind = KIND_NODE,
		                                    .query = d->node_query,
		                                    .whole = true,
		                                    .done = nodes_came,
		                                    .arg = d });
	if (d->n_looks)
		look_for(d, (struct store_request){ .verb = STORE_GET,
		                                    .kind = KIND_CONFIGMAP,
		                                    .name = CONTROLLER_CONFIGMAP,
		                                    .namespace_name = CONTROLLER_NAMESPACE,
		                                    .whole = true,
		                                    .done = controller_config_came,
		                                    .arg = d });
	d->n_there = 0;
	for (size_t i = 0; i < d->n_looks; i++)
		look_for(d, (struct store_request){ .verb = STORE_GET,
		                                    .kind = d->look[i].kind,
		                                    .name = d->look[i].name,
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
	r.arg = d;
	store_request(d->store, &r);
}

static void program_ask(struct runtime_configmap *d, enum store_verb verb, int64_t after_ms)
{
	struct store_request r = { .verb = verb,
		                   .name = d->program.name,
		                   .whole = true,
		                   .done =
		                       verb == STORE_CREATE ? program_created : program_compared };
	if (verb == STORE_CREATE)
		r.body[0] = d->program.body;
	ask_configmap(d, r, after_ms);
}

static void program_succeeded(struct runtime_configmap *d, const char *how)
{
	atomic_store(&d->server->runtime_configmap, RUNTIME_CONFIGMAP_READY);
	struct line line = object_line(LOG_INFO, "the ConfigMap with pai-runtime is ready",
	                               d->server, KIND_CONFIGMAP, d->program.name);
	log_text(&line, "how", span_of(how));
	log_end(&line);
}

/* Logs a new state, and tries again. */
static void program_failed(struct runtime_configmap *d, enum runtime_configmap_state state,
                           struct span why)
{
	if (atomic_exchange(&d->server->runtime_configmap, (int)state) != (int)state) {
		struct line line = object_line(
		    LOG_ERROR, "jobs are refused until the ConfigMap with pai-runtime exists",
		    d->server, KIND_CONFIGMAP, d->program.name);
		log_text(&line, "why", why);
		log_end(&line);
	}
	program_ask(d, STORE_CREATE, AGAIN_MS);
}

static void program_refused(struct runtime_configmap *d, const char *verb,
                            const struct store_reply *reply)
{
	enum runtime_configmap_state state = RUNTIME_CONFIGMAP_UNREACHABLE;
	STR_AUTO why = STR_INIT(TEXT_MAX);
	look_put_why(&why, verb, KIND_CONFIGMAP, reply);
	if (reply->outcome == STORE_REFUSED)
		state =
		    reply->status == 403 ? RUNTIME_CONFIGMAP_FORBIDDEN : RUNTIME_CONFIGMAP_REFUSED;
	program_failed(d, state, str_view(&why));
}

static void program_created(void *arg, const struct store_reply *reply)
{
	struct runtime_configmap *d = arg;
	if (d->stopping)
		return;
	d->forbidden = reply->outcome == STORE_REFUSED && reply->status == 403;
	if (reply->outcome == STORE_OK)
		program_succeeded(d, "created");
	else if (reply->outcome == STORE_EXISTS || d->forbidden)
		program_ask(d, STORE_GET, 0);
	else
		program_refused(d, "create", reply);
}

static json_t *program_parse(struct span text)
{
	return json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
}

/* Does the existing ConfigMap hold the same program, immutably? */
static bool program_is_same(const struct runtime_configmap *d, struct span there)
{
	json_auto_t *ours = program_parse(d->program.body);
	json_auto_t *theirs = program_parse(there);
	return json_equal(json_object_get(ours, "binaryData"),
	                  json_object_get(theirs, "binaryData")) &&
	       json_is_true(json_object_get(theirs, "immutable"));
}

/* It could not be read.  Its name contains a hash, so an existing one is trusted. */
static void program_unread(struct runtime_configmap *d, const struct store_reply *reply)
{
	struct store_reply none = { .outcome = STORE_REFUSED, .status = 403 };
	bool no_right = reply->outcome == STORE_REFUSED && reply->status == 403;
	if (d->forbidden && (no_right || reply->outcome == STORE_NOT_FOUND))
		program_refused(d, "create", &none);
	else if (no_right)
		program_succeeded(
		    d, "was there; not compared, because the RBAC verb \"get\" on it is missing");
	else if (reply->outcome == STORE_NOT_FOUND)
		program_ask(d, STORE_CREATE, AGAIN_MS); /* deleted meanwhile */
	else
		program_refused(d, "get", reply);
}

static void program_compared(void *arg, const struct store_reply *reply)
{
	struct runtime_configmap *d = arg;
	if (d->stopping)
		return;
	if (reply->outcome != STORE_OK)
		program_unread(d, reply);
	else if (program_is_same(d, reply->body))
		program_succeeded(d, "was there, and is the same");
	else
		program_failed(
		    d, RUNTIME_CONFIGMAP_FOREIGN,
		    SPAN("it exists with other content, or is not immutable: delete it"));
}

static store_callback ca_made, ca_changed;

static void ask_ca(struct runtime_configmap *d, enum store_verb verb, int64_t after_ms)
{
	ask_configmap(d,
	              (struct store_request){ .verb = verb,
	                                      .name = OUTPUT_CA,
	                                      .body = { str_view(&d->ca) },
	                                      .done = verb == STORE_CREATE ? ca_made : ca_changed },
	              after_ms);
}

static void ca_failed(struct runtime_configmap *d, const char *verb,
                      const struct store_reply *reply)
{
	if (reply->outcome != STORE_REFUSED) {
		ask_ca(d, STORE_CREATE, AGAIN_MS);
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

static void ca_made(void *arg, const struct store_reply *reply)
{
	struct runtime_configmap *d = arg;
	if (d->stopping || reply->outcome == STORE_OK)
		return;
	if (reply->outcome == STORE_EXISTS)
		ask_ca(d, STORE_PATCH, 0);
	else
		ca_failed(d, "create", reply);
}

static void runtime_configmap_begin(struct runtime_configmap *d)
{
	look_for_all(d);
	if (d->program.name)
		program_ask(d, STORE_CREATE, 0);
	if (d->ca.n)
		ask_ca(d, STORE_CREATE, 0);
	store_start(d->store);
}

struct store *cluster_store(struct server *s, const struct store_limits *limits, struct err *e)
{
	return s->local ? store_local_new(s->local, s->namespace_name, limits, e)
	                : store_api_new(s->login, s->namespace_name, limits, e);
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
		set_looks(d);
	if (runtime_object(s->translator, &d->arena, &d->program))
		atomic_store(&s->runtime_configmap, RUNTIME_CONFIGMAP_PENDING);
	d->ca = STR_INIT(CA_MAX);
	if (output_ca_write(&d->ca, s->options, e) < 0) {
		runtime_configmap_free(d);
		return NULL;
	}
	runtime_configmap_begin(d);
	return d;
}

bool runtime_configmap_check_again(struct runtime_configmap *d)
{
	if (store_pending(d->store))
		return false; /* already going on */
	ERR_AUTO e = { 0 };
	STR_AUTO ca = STR_INIT(CA_MAX);
	if (output_ca_write(&ca, d->server->options, &e) < 0) {
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
	str_done(&d->ca);
	arena_done(&d->arena);
	free(d);
}
