/* The RBAC rights that `serve` needs, each asked for by a SelfSubjectAccessReview. */
#include <jansson.h>
#include <stdlib.h>

#include "base/json/scan.h"
#include "jobs/store/paths.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"
#include "server/check/check_internal.h"
#include "server/config/options.h"

enum { TEXT_MAX = 1024 };

/* Verbs that one rule of the file allows. */
struct right {
	bool when; /* the options need it */
	enum object_kind kind;
	const char *verbs; /* separated by spaces */
	const char *sub;   /* subresource; NULL: none */
	const char *space; /* namespace, of a Namespace itself; NULL: none */
	const char *name;  /* the only object (resourceNames); NULL: all */
	enum check_state missing;
	const char *file; /* below k8s/deploy */
	const char *use;  /* "needed to USE" */
};

/* ---- remedies ---- */

const char *check_apply(const struct server *s, struct arena *a, const char *file)
{
	const struct options *o = s->options;
	const char *jobs = s->namespace_name;
	/* The words of the manifests, and the values of these options instead. */
	const struct {
		const char *files;
		const char *before, *word, *value;
	} words[] = {
		{ "rbac/rbac.yaml jobs/runtime-account.yaml", "", "runtime-account",
		  o->service_account },
		{ "rbac/rbac.yaml jobs/runtime-account.yaml jobs/exit-spec-configmap.yaml "
		  "options/dialects.yaml options/webhook.yaml options/kueue/check.yaml",
		  "namespace: ", "pai-jobs", jobs },
		{ "beside-openpai/rbac.yaml", "namespace: ", "default", jobs },
		{ "beside-openpai/rbac.yaml", "namespace: ", "pai-user-token", o->token_namespace },
		{ "beside-openpai/rbac.yaml options/manage-users.yaml",
		  "namespace: ", "pai-user-v2", o->user_namespace },
		{ "beside-openpai/rbac.yaml options/manage-users.yaml", "namespace: ", "pai-group",
		  o->group_namespace },
		{ "options/webhook.yaml", "rest-lit-webhook-", "default", o->instance },
	};
	STR_AUTO edits = STR_INIT(TEXT_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(words[i].files, file) && strcmp(words[i].word, words[i].value) != 0)
			str_printf(&edits, " -e 's/%s%s/%s%s/'", words[i].before, words[i].word,
			           words[i].before, words[i].value);
	return edits.n ? arena_printf(a, "sed%s k8s/deploy/%s | kubectl apply -f -", str_c(&edits),
	                              file)
	               : arena_printf(a, "kubectl apply -f k8s/deploy/%s", file);
}

/* ---- questions ---- */

/* 1: allowed, 0: not, -1: the API server does not tell. */
static int right_ask(struct check_session *c, const struct right *r, const char *verb)
{
	const struct resource *resource = resource_of(r->kind);
	json_auto_t *review =
	    json_pack("{s:s, s:s, s:{s:{s:s, s:s, s:s, s:s, s:s, s:s}}}", "apiVersion",
	              "authorization.k8s.io/v1", "kind", "SelfSubjectAccessReview", "spec",
	              "resourceAttributes", "verb", verb, "group", resource->group, "resource",
	              resource->plural, "subresource", r->sub ?: "", "namespace", r->space ?: "",
	              "name", r->name ?: "");
	FREE_AUTO char *body = json_dumps(review, 0);
	const struct store_reply *reply = check_ask(
	    c, (struct store_request){
		   .verb = STORE_CREATE, .kind = KIND_ACCESS_REVIEW, .body = { span_of(body) } });
	if (reply->outcome != STORE_OK)
		return -1;
	return span_is(scan_path(reply->body, "status", "allowed"), "true");
}

/* A line per missing verb, and one for the others.  false: the API server does not tell. */
static bool right_check(struct check_session *c, const struct right *r)
{
	STR_AUTO allowed = STR_INIT(TEXT_MAX);
	STR_AUTO on = STR_INIT(TEXT_MAX); /* "pods/log in namespace default" */
	resource_name(&on, r->kind);
	str_printf(&on, "%s%s%s%s", r->sub ? "/" : "", r->sub ?: "", r->name ? " " : "",
	           r->name ?: "");
	if (r->space)
		str_printf(&on, " in namespace %s", r->space);
	struct span verbs = span_of(r->verbs);
	while (verbs.n) {
		const char *verb = arena_dup(&c->arena, span_next(&verbs, ' '));
		int answer = right_ask(c, r, verb);
		if (answer < 0)
			return false;
		if (answer)
			str_printf(&allowed, "%s%s", allowed.n ? ", " : "", verb);
		else
			SAY(c, r->missing, check_apply(c->server, &c->arena, r->file),
			    "%s %s is not allowed; needed to %s", verb, str_c(&on), r->use);
	}
	if (allowed.n)
		SAY(c, CHECK_OK, NULL, "%s %s", str_c(&allowed), str_c(&on));
	return true;
}

static void rights_check(struct check_session *c, const struct right *rights, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (rights[i].when && !right_check(c, &rights[i])) {
			SAY(c, CHECK_SKIPPED, NULL, "the API server does not tell: %.*s",
			    (int)c->reply.message.n, c->reply.message.p);
			return;
		}
}

/* ---- the tables; tests/e2e/checking.py compares them with the files, in both directions ---- */

/* clang-format off */
static void rights_of_jobs(struct check_session *c)
{
	const struct options *o = c->o;
	const char *jobs = c->server->namespace_name;
	const char *ctrl = CONTROLLER_NAMESPACE;
	bool fc = check_leader(c)->state != LEASE_HELD; /* else ours needs no such rights */
	const char *lease = arena_printf(&c->arena, "rest-lit-webhook-%s", o->instance);
	bool output = o->output_listen[0];
	bool old = o->history || output || strcmp(o->runtime, "configmap") == 0;
	const struct right rights[] = {
		{ true, KIND_FRAMEWORK, "create get list watch patch delete", NULL, jobs, NULL,
		  CHECK_FAILED, "rbac/rbac.yaml", "accept, follow and change jobs" },
		{ true, KIND_EVENT, "list watch", NULL, jobs, NULL,
		  CHECK_WARNING, "rbac/rbac.yaml", "show the events of pods" },
		{ true, KIND_POD, "get", NULL, jobs, NULL, CHECK_WARNING, "rbac/rbac.yaml", "show logs" },
		{ true, KIND_POD, "get", "log", jobs, NULL, CHECK_WARNING, "rbac/rbac.yaml", "show logs" },
		{ true, KIND_SECRET, "create", NULL, jobs, NULL,
		  CHECK_FAILED, "rbac/rbac.yaml", "accept jobs with secrets" },
		{ true, KIND_CONFIGMAP, "create", NULL, jobs, NULL,
		  CHECK_FAILED, "rbac/rbac.yaml", "accept jobs with many task roles" },
		{ true, KIND_CONFIGMAP, "get delete", NULL, jobs, NULL,
		  old ? CHECK_FAILED : CHECK_WARNING, "rbac/rbac.yaml",
		  old ? "keep earlier attempts, output, pai-runtime and code of jobs" : "keep code of jobs" },
		{ true, KIND_CONFIGMAP, "patch", NULL, jobs, NULL,
		  output ? CHECK_FAILED : CHECK_WARNING, "rbac/rbac.yaml",
		  output ? "keep the output of ended tasks, and code of jobs" : "keep code of jobs" },
		{ true, KIND_CONFIGMAP, "list", NULL, jobs, NULL,
		  CHECK_WARNING, "rbac/rbac.yaml", "limit and remove code of jobs" },
		{ o->dialects[0], KIND_PODTEMPLATE, "create", NULL, jobs, NULL,
		  CHECK_FAILED, "options/dialects.yaml", "check the pods of jobs" },
		{ o->webhook[0], KIND_LEASE, "create", NULL, jobs, NULL,
		  CHECK_FAILED, "options/webhook.yaml", "report ended jobs" },
		{ o->webhook[0], KIND_LEASE, "get patch", NULL, jobs, lease,
		  CHECK_FAILED, "options/webhook.yaml", "report ended jobs" },
		{ o->priority_class, KIND_PRIORITYCLASS, "create get list delete", NULL, NULL, NULL,
		  CHECK_FAILED, "options/priority-classes.yaml", "create PriorityClasses" },
		{ true, KIND_SERVICEACCOUNT, "get", NULL, jobs, o->service_account,
		  CHECK_WARNING, "rbac/rbac.yaml", "check the service account of pods" },
		{ true, KIND_NAMESPACE, "get", NULL, jobs, NULL,
		  CHECK_SKIPPED, "rbac/rbac.yaml", "see its level of Pod Security" },
		{ true, KIND_LEASE, "get", NULL, jobs, "rest-lit-controller",
		  CHECK_SKIPPED, "rbac/rbac.yaml", "see who makes pods of jobs" },
		{ fc, KIND_CONFIGMAP, "get", NULL, ctrl, CONTROLLER_CONFIGMAP,
		  CHECK_SKIPPED, "options/frameworkcontroller/rbac.yaml", "compare its exit codes" },
		{ fc, KIND_STATEFULSET, "get", NULL, ctrl, CONTROLLER_CONFIGMAP,
		  CHECK_SKIPPED, "options/frameworkcontroller/rbac.yaml", "see whether it is ready" },
	};
	rights_check(c, rights, ARRAY_SIZE(rights));
}

static void rights_of_users(struct check_session *c)
{
	const struct options *o = c->o;
	const struct keyring *keys = atomic_load(&c->server->keyring);
	const char *jobs = c->server->namespace_name;
	const char *slash = strchrnul(o->deny_list, '/');
	struct span deny = { o->deny_list, (size_t)(slash - o->deny_list) };
	const char *class = c->needs->priority_class;
	bool users = strcmp(o->users, "openpai") == 0;
	bool openpai = strcmp(o->profile, "openpai") == 0;
	bool stored = strcmp(o->token_check, "stored") == 0;
	bool reviews = o->output_listen[0] || (keys && keyring_service_accounts(keys));
	const struct right rights[] = {
		{ users, KIND_SECRET, "get", NULL, o->user_namespace, NULL,
		  CHECK_FAILED, "beside-openpai/rbac.yaml", "read users" },
		{ users, KIND_SECRET, "get", NULL, o->group_namespace, NULL,
		  CHECK_FAILED, "beside-openpai/rbac.yaml", "read groups" },
		{ users, KIND_CLAIM, "get", NULL, jobs, NULL,
		  CHECK_FAILED, "beside-openpai/rbac.yaml", "read storages" },
		{ users, KIND_VOLUME, "get", NULL, NULL, NULL,
		  CHECK_FAILED, "beside-openpai/rbac.yaml", "read storages" },
		{ stored, KIND_SECRET, "get create patch", NULL, o->token_namespace, NULL,
		  CHECK_FAILED, "beside-openpai/rbac.yaml", "check and store tokens" },
		{ deny.n, KIND_SECRET, "get patch", NULL, arena_dup(&c->arena, deny),
		  slash[0] ? slash + 1 : NULL,
		  CHECK_FAILED, "base/deny-list.yaml", "check and revoke tokens" },
		{ reviews, KIND_TOKENREVIEW, "create", NULL, NULL, NULL,
		  CHECK_FAILED, "rbac/rbac.yaml", "check tokens of pods and service accounts" },
		{ users, KIND_SECRET, "list create patch delete", NULL, o->user_namespace, NULL,
		  CHECK_WARNING, "options/manage-users.yaml", "manage users" },
		{ users, KIND_SECRET, "list", NULL, o->group_namespace, NULL,
		  CHECK_WARNING, "options/manage-users.yaml", "list groups" },
		{ class, KIND_PRIORITYCLASS, "get", NULL, NULL, class,
		  CHECK_WARNING, "beside-openpai/rbac.yaml", "check the PriorityClass of pods" },
		{ openpai, KIND_NODE, "list", NULL, NULL, NULL,
		  CHECK_WARNING, "beside-openpai/rbac.yaml", "check the nodes for pods" },
	};
	rights_check(c, rights, ARRAY_SIZE(rights));
}
/* clang-format on */

void check_rights(struct check_session *c)
{
	rights_of_jobs(c);
	rights_of_users(c);
}
