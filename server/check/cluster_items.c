/* Checks API server, clock, login, Frameworks and the objects that pods need. */
#include <time.h>

#include "base/json/scan.h"
#include "jobs/store/paths.h"
#include "server/auth/auth.h"
#include "server/check/check_internal.h"
#include "server/cluster/cluster.h"
#include "server/cluster/runtime_configmap.h"
#include "server/config/options.h"

enum {
	OLDEST = 20, /* the versions 1.N of Kubernetes that were tried */
	NEWEST = 36,
	SKEW_S = 5,
	SKEW_BAD_S = 60,
	TOKEN_SOON_S = 43200,
	TEXT_MAX = 1024
};

/* The answer is neither the object nor "not found". */
static void check_cannot_look(struct check_session *c)
{
	SAY(c, CHECK_SKIPPED, NULL, "%.*s", (int)c->reply.message.n, c->reply.message.p);
}

/* ---- the API server ---- */

static void api_version(struct check_session *c)
{
	struct span text = scan_text(scan_get(c->reply.body, "gitVersion"), &c->arena);
	struct span number = scan_text(scan_get(c->reply.body, "minor"), &c->arena);
	const char *mend = NULL;
	int64_t minor = 0;
	number.n -= number.n && number.p[number.n - 1] == '+'; /* some have "28+" */
	(void)parse_i64(number, 0, INT32_MAX, &minor);         /* else 0 */
	if (minor < OLDEST)
		mend = "1.20 is the oldest version that was tried; update the cluster";
	else if (minor > NEWEST)
		mend = "1.36 is the newest version that was tried; submit a job to see whether it "
		       "runs";
	SAY(c, mend ? CHECK_WARNING : CHECK_OK, mend, "%s, version %.*s",
	    login_describe(c->s->server.login), (int)text.n, text.p);
}

void check_api(struct check_session *c)
{
	ERR_AUTO e = { 0 };
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	if (!c->s->server.login) {
		check_report(c, CHECK_SKIPPED, "needs a valid login", NULL);
		return;
	}
	c->caller = (struct caller){ cluster_store(&c->s->server, &limits, &e), .stop_fd = -1 };
	if (!c->caller.store) {
		check_error(c, CHECK_FAILED, &e);
		return;
	}
	const struct store_reply *r =
	    check_ask(c, (struct store_request){ .verb = STORE_LIST, .kind = KIND_VERSION });
	c->date = r->date_s != 0;
	c->skew_s = (int64_t)time(NULL) - r->date_s;
	c->answers = r->outcome == STORE_OK && scan_valid(r->body, SCAN_DEPTH_MAX);
	if (c->answers)
		api_version(c);
	else
		SAY(c, CHECK_FAILED,
		    r->status == 401 ? "its login is not valid: give a new token or certificate"
		                     : "are address, CA certificate and network right?",
		    "%s: %.*s", login_describe(c->s->server.login), (int)r->message.n,
		    r->message.p);
}

void check_clock(struct check_session *c)
{
	int64_t away = c->skew_s < 0 ? -c->skew_s : c->skew_s;
	if (!c->date)
		check_report(c, CHECK_SKIPPED, "the API server's answers have no date", NULL);
	else if (away <= SKEW_S)
		check_report(c, CHECK_OK, "agrees with the API server's", NULL);
	else
		SAY(c, away > SKEW_BAD_S ? CHECK_FAILED : CHECK_WARNING,
		    "set the clock by NTP, on both machines",
		    "%lld s %s the API server's: tokens and certificates seem expired or not yet "
		    "valid",
		    (long long)away, c->skew_s > 0 ? "ahead of" : "behind");
}

/* The kubelet renews that of a pod. */
void check_login_token(struct check_session *c)
{
	bool renewed = !c->o->kubeconfig[0] && !c->o->apiserver[0];
	int64_t end_s = c->s->server.login ? login_token_end_s(c->s->server.login) : 0;
	int64_t left_s = end_s - (int64_t)time(NULL);
	bool soon = left_s < TOKEN_SOON_S;
	if (end_s && !renewed)
		SAY(c,
		    left_s <= 0 ? CHECK_FAILED
		    : soon      ? CHECK_WARNING
		                : CHECK_OK,
		    soon ? "replace its file; serve reads it again without a restart" : NULL,
		    "expires in %lld minutes", (long long)left_s / 60);
}

/* ---- the kind Framework ---- */

void check_frameworks(struct check_session *c)
{
	STR_AUTO served = STR_INIT(TEXT_MAX);
	struct span version;
	bool good = false;
	const struct store_reply *r =
	    check_ask(c, (struct store_request){ .verb = STORE_LIST, .kind = KIND_API_GROUP });
	if (r->outcome != STORE_OK && r->status != 404) {
		check_cannot_look(c);
		return;
	}
	struct scan s = scan_begin(r->status == 404 ? SPAN("[]") : scan_get(r->body, "versions"));
	while (scan_item(&s, &version)) {
		struct span name = scan_text(scan_get(version, "version"), &c->arena);
		good |= span_is(name, "v1");
		str_printf(&served, "%s%.*s", served.n ? ", " : "", (int)name.n, name.p);
	}
	if (good)
		SAY(c, CHECK_OK, NULL, "served versions: %s", str_c(&served));
	else
		SAY(c, CHECK_FAILED, "kubectl apply -f k8s/deploy/crd/crd.yaml",
		    "the API server does not serve version v1 of Frameworks, but %s",
		    served.n ? str_c(&served) : "no version");
}

/* ---- what pods need ---- */

static void nodes_lack(void *arg, const char *event, const char *device, const char *means)
{
	struct check_session *c = arg;
	SAY(c, device ? CHECK_WARNING : CHECK_FAILED, means, "%s: %s=%s%s%s", event,
	    c->needs.node_key, c->needs.node_value, device ? ", " : "", device ?: "");
	c->nodes_good = false;
}

static void check_nodes(struct check_session *c)
{
	const struct store_reply *r =
	    check_ask(c, (struct store_request){
			     .verb = STORE_LIST, .kind = KIND_NODE, .query = c->needs.node_query });
	if (r->outcome != STORE_OK || !scan_valid(r->body, SCAN_DEPTH_MAX)) {
		check_cannot_look(c);
		return;
	}
	c->nodes_good = true;
	pod_needs_nodes(&c->needs, r->body, nodes_lack, c);
	if (c->nodes_good)
		SAY(c, CHECK_OK, NULL, "nodes with %s=%s have the devices that pods ask for",
		    c->needs.node_key, c->needs.node_value);
}

void check_objects(struct check_session *c)
{
	for (size_t i = 0; i < c->needs.n; i++) {
		const struct pod_object *o = &c->needs.object[i];
		const char *kind = resource_of(o->kind)->kind;
		const struct store_reply *r = check_get(c, o->kind, o->name, NULL);
		if (r->outcome == STORE_OK)
			SAY(c, CHECK_OK, NULL, "%s %s exists", kind, o->name);
		else if (r->outcome == STORE_NOT_FOUND)
			SAY(c, o->optional ? CHECK_WARNING : CHECK_FAILED, o->mend,
			    "there is no %s %s%s%s: %s", kind, o->name,
			    resource_of(o->kind)->namespaced ? " in namespace " : "",
			    resource_of(o->kind)->namespaced ? c->s->server.namespace_name : "",
			    o->means);
		else
			check_cannot_look(c);
	}
	if (c->needs.node_query)
		check_nodes(c);
}

/* The label of the namespace, and the profiles whose pods it admits, without grants. */
void check_pod_security(struct check_session *c)
{
	static const char LABEL[] = "pod-security.kubernetes.io/enforce";
	static const char *const LEVELS[][2] = { { "privileged", "plain, openpai, restricted" },
		                                 { "baseline", "plain, restricted" },
		                                 { "restricted", "restricted" } };
	const char *space = c->s->server.namespace_name;
	const struct store_reply *r = check_get(c, KIND_NAMESPACE, space, NULL);
	struct span level = scan_text(scan_path(r->body, "metadata", "labels", LABEL), &c->arena);
	if (r->outcome != STORE_OK) {
		SAY(c, CHECK_SKIPPED,
		    pod_needs_apply(&c->s->server, &c->arena, "k8s/deploy/rbac/rbac.yaml"),
		    "the level that namespace %s enforces is unknown: %.*s", space,
		    (int)r->message.n, r->message.p);
		return;
	}
	size_t i = 0; /* Kubernetes takes an unknown level for the last one */
	while (level.n && i + 1 < ARRAY_SIZE(LEVELS) && !span_is(level, LEVELS[i][0]))
		i++;
	bool good = strstr(LEVELS[i][1], c->o->profile) != NULL;
	const char *mend = arena_printf(&c->arena, "--profile %.*s",
	                                (int)strcspn(LEVELS[i][1], ","), LEVELS[i][1]);
	SAY(c, good ? CHECK_OK : CHECK_FAILED, good ? NULL : mend,
	    "namespace %s enforces %s%s, which admits the profiles %s", space,
	    level.n ? "" : "no level by its label, taken for ", LEVELS[i][0], LEVELS[i][1]);
}

static void check_configmap(struct check_session *c, const struct object *program)
{
	const struct store_reply *r = check_get(c, KIND_CONFIGMAP, program->name, NULL);
	if (r->outcome == STORE_NOT_FOUND)
		SAY(c, CHECK_OK, NULL, "serve creates the ConfigMap %s at start", program->name);
	else if (r->outcome != STORE_OK)
		check_cannot_look(c);
	else if (runtime_configmap_is_same(program->body, r->body))
		SAY(c, CHECK_OK, NULL, "ConfigMap %s has this version", program->name);
	else
		SAY(c, CHECK_FAILED,
		    arena_printf(&c->arena, "kubectl -n %s delete configmap %s; serve creates it",
		                 c->s->server.namespace_name, program->name),
		    "ConfigMap %s has other content, or is not immutable", program->name);
}

void check_runtime(struct check_session *c)
{
	const struct translator *t = c->s->server.translator;
	struct object program;
	size_t n = 0;
	if (!t) {
		check_report(c, CHECK_SKIPPED, "needs valid templates", NULL);
		return;
	}
	while (runtime_object(t, n, &c->arena, &program)) {
		check_configmap(c, &program);
		n++;
	}
	if (n == 0)
		SAY(c, CHECK_OK, NULL, "image %s; nodes must be able to pull it",
		    c->o->runtime_image[0] ? c->o->runtime_image : RUNTIME_IMAGE);
}

void check_output(struct check_session *c)
{
	if (c->o->output_listen[0])
		SAY(c, CHECK_OK, NULL, "pods upload the end of their logs to %s", c->o->output_url);
	else
		check_report(
		    c, CHECK_WARNING,
		    "the logs of ended tasks are lost, and each task takes up to 5 seconds "
		    "longer, so that clients can read its last lines",
		    "--output-listen, as in k8s/deploy/standalone-cluster/config.yaml");
}
