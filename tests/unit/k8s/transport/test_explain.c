/* Messages about refusals of a real API server (tests/data/apiserver, recorded by
 * tests/e2e/refusals.py). */
#include "base/posix/clock.h"
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/kit.h"

#include "jobs/store/reply.h"
#include "tests/unit/k8s/fault_server.h"

/* A request, its answer, and the expected message. */
struct refusal {
	const char *recorded; /* the name of the file; its first three digits are the status */
	enum store_verb verb;
	enum object_kind kind;
	const char *namespace_name;
	size_t bytes; /* of the body */
	int http;
	const char *code;
	const char *words[4]; /* all are in the message */
};

/* clang-format off */
static const struct refusal REFUSALS[] = {
	{ "403-framework", STORE_CREATE, KIND_FRAMEWORK, NULL, 100, 500, "UnknownError",
	  { "RBAC verb \"create\" on frameworks.frameworkcontroller.microsoft.com in the namespace of "
	    "the jobs" } },
	{ "403-secret", STORE_CREATE, KIND_SECRET, NULL, 100, 500, "UnknownError",
	  { "RBAC verb \"create\" on secrets in the namespace of the jobs" } },
	{ "403-secret-get", STORE_GET, KIND_SECRET, "pai-user-v2", 0, 500, "UnknownError",
	  { "RBAC verb \"get\" on secrets in namespace pai-user-v2" } },
	{ "403-priorityclass", STORE_CREATE, KIND_PRIORITYCLASS, NULL, 100, 500, "UnknownError",
	  { "RBAC verb \"create\" on priorityclasses.scheduling.k8s.io, in a ClusterRole" } },
	{ "403-quota", STORE_CREATE, KIND_CONFIGMAP, NULL, 100, 500, "UnknownError",
	  { "403 Forbidden", "a quota or an admission rule", "configmaps" } },
	{ "401", STORE_CREATE, KIND_FRAMEWORK, NULL, 100, 500, "UnknownError",
	  { "401 Unauthorized", "token or certificate" } },
	{ "413-framework", STORE_CREATE, KIND_FRAMEWORK, NULL, 3200600, 413, "PayloadTooLargeError",
	  { "Framework has 3200600 bytes", "API server", "3145728" } },
	{ "500-etcd", STORE_CREATE, KIND_FRAMEWORK, NULL, 1700600, 413, "PayloadTooLargeError",
	  { "Framework has 1700600 bytes", "etcd", "--max-request-bytes" } },
	{ "500-grpc", STORE_CREATE, KIND_FRAMEWORK, NULL, 2500600, 413, "PayloadTooLargeError",
	  { "Framework has 2500600 bytes", "--max-request-bytes" } },
	{ "422-framework", STORE_CREATE, KIND_FRAMEWORK, NULL, 100, 400, "InvalidProtocolError",
	  { "Framework", "spec.taskRoles.taskNumber (FieldValueInvalid)" } },
	{ "422-annotations", STORE_CREATE, KIND_FRAMEWORK, NULL, 280000, 413, "PayloadTooLargeError",
	  { "280000 bytes", "262144 in annotations" } },
	{ "422-secret-size", STORE_CREATE, KIND_SECRET, NULL, 1100000, 413, "PayloadTooLargeError",
	  { "Secret has 1100000 bytes", "1048576" } },
	{ "422-secret-key", STORE_CREATE, KIND_SECRET, NULL, 100, 400, "InvalidProtocolError",
	  { "Secret", "Invalid" } },
	{ "400-secret", STORE_CREATE, KIND_SECRET, NULL, 100, 400, "InvalidProtocolError",
	  { "Secret", "400 BadRequest" } },
	{ "404-namespace", STORE_CREATE, KIND_SECRET, NULL, 100, 500, "UnknownError",
	  { "namespace nowhere does not exist" } },
	{ "404-namespace-framework", STORE_CREATE, KIND_FRAMEWORK, NULL, 100, 500, "UnknownError",
	  { "namespace nowhere does not exist" } },
	{ "404-crd", STORE_CREATE, KIND_FRAMEWORK, NULL, 100, 500, "UnknownError",
	  { "no frameworks.frameworkcontroller.microsoft.com", "CRD" } },
};
/* clang-format on */

/* The answer, head and all. */
static char *recorded(const char *name)
{
	FREE_AUTO char *path = xasprintf("tests/data/apiserver/%s.json", name);
	struct span body = unit_read(path);
	return xasprintf("HTTP/1.1 %.3s Status\r\nContent-Length: %zu\r\n\r\n%s", name, body.n,
	                 body.p);
}

static struct store_request asked;

static void explained(void *arg, const struct store_reply *reply)
{
	assert_int_equal(reply->outcome, STORE_REFUSED);
	explain_refusal(arg, &asked, reply);
}

static void explain_recorded(const struct refusal *x, struct err *e)
{
	static struct fault_server server;
	FREE_AUTO char *answer = recorded(x->recorded);
	struct step script[] = { { ANSWER, answer } };
	server.port = 0;
	server_start(&server, script, 1);
	char url[64];
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", server.port);
	struct login_options o = { .apiserver = url };
	struct login *l = login_new(&o, e);
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	struct store *s = store_api_new(l, "jobs", &limits, e);
	assert_string_equal(err_msg(e), "");
	asked = (struct store_request){ .verb = x->verb,
		                        .kind = x->kind,
		                        .name = "refused",
		                        .namespace_name = x->namespace_name,
		                        .body = { SPAN("") },
		                        .deadline_ms = clock_ms() + AMPLE_MS,
		                        .look = true, /* else some are repeated for a while */
		                        .done = explained,
		                        .arg = e };
	/* The answer depends on the size of the body, not on its content. */
	FREE_AUTO char *body = xcalloc(1, x->bytes + 1);
	memset(body, 'x', x->bytes);
	asked.body[0] = (struct span){ body, x->bytes < 100 ? x->bytes : 100 };
	store_request(s, &asked);
	asked.body[0].n = x->bytes;
	settle(s);
	store_free(s);
	login_free(l);
	server_stop(&server);
}

TEST(test_refusals_are_explained_without_secrets)
{
	for (size_t i = 0; i < sizeof(REFUSALS) / sizeof(REFUSALS[0]); i++) {
		const struct refusal *x = &REFUSALS[i];
		explain_recorded(x, no_err());
		if (unit.e.http != x->http || strcmp(unit.e.code, x->code) != 0)
			fail_msg("%s: %d %s: %s", x->recorded, unit.e.http, unit.e.code,
			         err_msg(&unit.e));
		for (size_t k = 0; k < 4 && x->words[k] != NULL; k++) {
			if (strstr(err_msg(&unit.e), x->words[k]) == NULL)
				fail_msg("%s: no \"%s\" in: %s", x->recorded, x->words[k],
				         err_msg(&unit.e));
		}
		assert_null(strstr(err_msg(&unit.e), "hunter2"));
	}
}

/* The text of the answer differs by version; the size is half a megabyte above etcd's limit. */
TEST(test_large_object_refused_with_500_is_413)
{
	char body[1] = "";
	struct store_request r = { .verb = STORE_CREATE, .body = { { body, 2000000 } } };
	struct store_reply reply = { .status = 500, .body = SPAN(""), .message = SPAN("x") };
	explain_refusal(no_err(), &r, &reply);
	assert_int_equal(unit.e.http, 413);
	r.body[0].n = 100000;
	explain_refusal(no_err(), &r, &reply);
	assert_int_equal(unit.e.http, 500);
}
