#include "server/http/routes.h"

#include "base/enc.h"
#include "server/logs/logs.h"

/* clang-format off */
const struct route ROUTES[] = {
	{ "GET", "/", index_get, NULL, AUTH_NONE, BODY_NONE, ANSWER_TEXT,
	  "A text for people: what this is and how to submit.", JOB_ANY },
	{ "GET", "/openapi.json", openapi_get, NULL, AUTH_NONE, BODY_NONE, ANSWER_OPENAPI,
	  "All of these routes, and what jobs look like, for programs (OpenAPI 3.0).", JOB_ANY },
	{ "GET", "/healthz", healthz_get, NULL, AUTH_NONE, BODY_NONE, ANSWER_TEXT,
	  "200 `ok` while the process lives.", JOB_ANY },
	{ "GET", "/readyz", readyz_get, NULL, AUTH_NONE, BODY_NONE, ANSWER_TEXT,
	  "200 `ok` if the store answers (looked at most every 2 s); 503 if not, and while draining.", JOB_ANY },

	{ "POST", "/api/v2/jobs", submit_v2, submit_may, AUTH_USER, BODY_JOB, ANSWER_SUBMITTED_V2,
	  "Submit a PAI v2 job, YAML or JSON. 202 when everything exists and the job is started.", JOB_ANY },
	{ "POST", "/api/v1/jobs", submit_v1, submit_may, AUTH_USER, BODY_JOB_V1, ANSWER_SUBMITTED_V1,
	  "Submit a PAI v1 job, JSON with comments allowed or a nested form, or a v2 job.", JOB_ANY },
	{ "POST", "/api/v1/user/{user}/jobs", submit_v1, submit_may, AUTH_USER, BODY_JOB_V1, ANSWER_SUBMITTED_V1,
	  "The same; `user` must be the one who submits, else 403.", JOB_ANY },
	{ "POST", "/api/v1/user/{user}/jobs/{job}", submit_v1, submit_may, AUTH_USER, BODY_JOB_V1, ANSWER_SUBMITTED_V1,
	  "The same; `job` must be the job's name, else 400.", JOB_ANY },
	{ "PUT", "/api/v1/user/{user}/jobs/{job}", submit_v1, submit_may, AUTH_USER, BODY_JOB_V1, ANSWER_SUBMITTED_V1,
	  "The same.", JOB_ANY },
	{ "PUT", "/api/v1/jobs/{job}", submit_v1, submit_may, AUTH_USER, BODY_JOB_V1, ANSWER_SUBMITTED_V1,
	  "The same.", JOB_ANY },
	{ "GET", "/api/v2/jobs", jobs_get, NULL, AUTH_USER, BODY_NONE, ANSWER_JOBS,
	  "The jobs of all users, the latest first. `username`, `vc`, `state`, `jobPriority`, `keyword`, `tagsContain`, `tagsNotContain` choose; `order`, `offset` and `limit` as in OpenPAI; `withTotalCount=true`: `{totalCount, data}`.", JOB_ANY },
	{ "GET", "/api/v1/jobs", jobs_get_v1, NULL, AUTH_V1, BODY_NONE, ANSWER_JOBS_V1,
	  "The same as v1 has it, also Frameworks that others have made; `?username=`.", JOB_ANY },
	{ "GET", "/api/v1/user/{user}/jobs", jobs_get_v1, NULL, AUTH_V1, BODY_NONE, ANSWER_JOBS_V1,
	  "The same, of one user.", JOB_ANY },
	{ "GET", "/api/v2/jobs/watch", jobs_watch, NULL, AUTH_USER, BODY_NONE, ANSWER_STREAM,
	  "Changes of jobs as they happen (server-sent events); chosen like a list.", JOB_ANY },
	{ "GET", "/api/v2/jobs/protocolversion/config", job_probe, NULL, AUTH_USER, BODY_NONE, ANSWER_NO_JOB,
	  "What the VS Code extension asks, without a token, to learn that this API is there: always refused.", JOB_ANY },
	{ "GET", "/api/v2/jobs/{job}", job_get, NULL, AUTH_USER, BODY_NONE, ANSWER_JOB,
	  "One job, of `USER~NAME`: state, task roles, tasks. `?wait=SECONDS`: answered when it has ended, or with `&for=running` when it runs, or when the time is over. 404 `NoJobError` if there is none.", JOB_LOOK },
	{ "GET", "/api/v2/jobs/{job}/attempts/{attempt}", job_get, NULL, AUTH_USER, BODY_NONE, ANSWER_JOB,
	  "The same of an attempt of it, the latest or an earlier one that is kept.", JOB_LOOK },
	{ "GET", "/api/v1/user/{user}/jobs/{job}", job_get_v1, NULL, AUTH_V1, BODY_NONE, ANSWER_JOB,
	  "One job as v1 has it.", JOB_LOOK },
	{ "GET", "/api/v1/jobs/{job}", job_get_v1, NULL, AUTH_V1, BODY_NONE, ANSWER_JOB,
	  "The same, of `USER~NAME`.", JOB_LOOK },
	{ "GET", "/api/v2/jobs/{job}/watch", job_watch, NULL, AUTH_USER, BODY_NONE, ANSWER_STREAM,
	  "Changes of one job as they happen (server-sent events).", JOB_LOOK },
	{ "GET", "/api/v2/jobs/{job}/config", config_get, NULL, AUTH_USER, BODY_NONE, ANSWER_CONFIG,
	  "The job as it was submitted, without its secrets; as JSON.", JOB_SEE },
	{ "GET", "/api/v1/user/{user}/jobs/{job}/config", config_get, NULL, AUTH_V1, BODY_NONE, ANSWER_CONFIG,
	  "The same.", JOB_SEE },
	{ "GET", "/api/v1/jobs/{job}/config", config_get, NULL, AUTH_V1, BODY_NONE, ANSWER_CONFIG,
	  "The same; a name without `USER~` is that of one's own job, if no Framework of others has it.", JOB_SEE },
	{ "PUT", "/api/v2/jobs/{job}/executionType", execution_put, NULL, AUTH_USER, BODY_FIELDS, ANSWER_CHANGED,
	  "Stop a job: `{\"value\": \"STOP\"}`. `START` changes nothing.", JOB_OWN },
	{ "PUT", "/api/v1/user/{user}/jobs/{job}/executionType", execution_put, NULL, AUTH_USER, BODY_FIELDS, ANSWER_CHANGED,
	  "The same.", JOB_OWN },
	{ "PUT", "/api/v1/jobs/{job}/executionType", execution_put, NULL, AUTH_USER, BODY_FIELDS, ANSWER_CHANGED,
	  "The same.", JOB_OWN },
	{ "DELETE", "/api/v1/user/{user}/jobs/{job}", job_delete, NULL, AUTH_USER, BODY_NONE, ANSWER_CHANGED,
	  "Remove a job, and all that belongs to it.", JOB_OWN },
	{ "GET", "/api/v2/jobs/{job}/ssh", ssh_get, NULL, AUTH_USER, BODY_NONE, ANSWER_NO_SSH,
	  "Always 404 `NoJobSshInfoError`: host and port of each task stand in the job.", JOB_ANY },
	{ "GET", "/api/v1/user/{user}/jobs/{job}/ssh", ssh_get, NULL, AUTH_V1, BODY_NONE, ANSWER_NO_SSH,
	  "The same.", JOB_ANY },
	{ "GET", "/api/v1/jobs/{job}/ssh", ssh_get, NULL, AUTH_V1, BODY_NONE, ANSWER_NO_SSH,
	  "The same.", JOB_ANY },
	{ "PUT", "/api/v2/jobs/{job}/tag", tag_put, NULL, AUTH_USER, BODY_FIELDS, ANSWER_TAGGED,
	  "Add a tag: `{\"value\": TAG}`.", JOB_OWN },
	{ "DELETE", "/api/v2/jobs/{job}/tag", tag_delete, NULL, AUTH_USER, BODY_FIELDS, ANSWER_TAGGED,
	  "Remove one; 404 `NoTagError`.", JOB_OWN },
	{ "PATCH", "/api/v2/jobs/{job}/taskRoles/{role}", scale_patch, NULL, AUTH_USER, BODY_FIELDS, ANSWER_SCALED,
	  "Scale a task role of a running job: `{\"instances\": N}`.", JOB_OWN },
	{ "GET", "/api/v2/jobs/{job}/events", events_get, NULL, AUTH_USER, BODY_NONE, ANSWER_EVENTS,
	  "What Kubernetes says of its pods, for about an hour; `?type=Warning`.", JOB_SEE },
	{ "GET", "/api/v2/jobs/{job}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts", job_task_get, NULL, AUTH_USER, BODY_NONE, ANSWER_TASK,
	  "One task, and the attempt of it that is known.", JOB_LOOK },
	{ "GET", "/api/v2/jobs/{job}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts/{retry}/logs", logs_get, NULL, AUTH_USER, BODY_NONE, ANSWER_LOGS,
	  "Where the logs of a task are: links that are good for 5 minutes. `?tail-mode=true`: of their end only.", JOB_SEE },
	{ "GET", "/api/v2/jobs/{job}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts/{retry}/logs/{log}", log_get, NULL, AUTH_LINK, BODY_NONE, ANSWER_LOG,
	  "A log, by such a link without a token, or with a token and `?tail-mode=true`. `&follow=true`: also what is still to be written.", JOB_SEE },
	{ "GET", "/api/v2/jobs/{job}/job-attempts/healthz", attempts_health, NULL, AUTH_USER, BODY_NONE, ANSWER_TEXT,
	  "200 `ok` if earlier attempts are kept (`--history`), else 501.", JOB_ANY },
	{ "GET", "/api/v2/jobs/{job}/job-attempts", attempts_get, NULL, AUTH_USER, BODY_NONE, ANSWER_ATTEMPTS,
	  "All attempts that are known, the latest first.", JOB_LOOK },
	{ "GET", "/api/v2/jobs/{job}/job-attempts/{attempt}", attempt_get, NULL, AUTH_USER, BODY_NONE, ANSWER_ATTEMPT,
	  "One of them.", JOB_LOOK },

	{ "*", "/api/v1", info_get, NULL, AUTH_NONE, BODY_NONE, ANSWER_INFO,
	  "What this is: name, version, how to log in.", JOB_ANY },
	{ "*", "/api/v2", info_get, NULL, AUTH_NONE, BODY_NONE, ANSWER_INFO, "The same.", JOB_ANY },
	{ "*", "/api/v2/info", info_get, NULL, AUTH_NONE, BODY_NONE, ANSWER_INFO, "The same.", JOB_ANY },
	{ "GET", "/api/v2/authn/info", authn_get, NULL, AUTH_NONE, BODY_NONE, ANSWER_AUTHN,
	  "How and where to log in.", JOB_ANY },
	{ "GET", "/api/v1/authn/info", authn_get, NULL, AUTH_NONE, BODY_NONE, ANSWER_AUTHN, "The same.", JOB_ANY },

	{ "POST", "/api/v2/authn/basic/login", login_post, NULL, AUTH_NONE, BODY_FIELDS, ANSWER_LOGIN,
	  "Log in with `username` and `password` (`--users=openpai`): a token, good for `--token-lifetime`. `expiration` is taken and changes nothing, as in OpenPAI.", JOB_ANY },
	{ "POST", "/api/v1/authn/basic/login", login_post, NULL, AUTH_NONE, BODY_FIELDS, ANSWER_LOGIN, "The same.", JOB_ANY },
	{ "POST", "/api/v2/tokens", login_post, NULL, AUTH_NONE, BODY_FIELDS, ANSWER_LOGIN, "The same.", JOB_ANY },
	{ "POST", "/api/v1/token", login_post, NULL, AUTH_NONE, BODY_FIELDS, ANSWER_LOGIN, "The same.", JOB_ANY },
	{ "DELETE", "/api/v2/authn/basic/logout", logout_delete, NULL, AUTH_PERSON, BODY_NONE, ANSWER_LOGOUT,
	  "Revoke the token that comes with the request.", JOB_ANY },
	{ "DELETE", "/api/v1/authn/basic/logout", logout_delete, NULL, AUTH_PERSON, BODY_NONE, ANSWER_LOGOUT, "The same.", JOB_ANY },
	{ "GET", "/api/v2/tokens", tokens_get, NULL, AUTH_PERSON, BODY_NONE, ANSWER_TOKENS,
	  "One's own tokens that are stored; with `--token-check=signature` the one that asks.", JOB_ANY },
	{ "GET", "/api/v1/token", tokens_get, NULL, AUTH_PERSON, BODY_NONE, ANSWER_TOKENS, "The same.", JOB_ANY },
	{ "GET", "/api/v2/tokens/check", token_check_get, NULL, AUTH_USER, BODY_NONE, ANSWER_CLAIMS,
	  "What one's token says, and `admin`.", JOB_ANY },
	{ "GET", "/api/v1/token/check", token_check_get, NULL, AUTH_USER, BODY_NONE, ANSWER_CLAIMS, "The same.", JOB_ANY },
	{ "POST", "/api/v2/tokens/application", application_post, NULL, AUTH_PERSON, BODY_FIELDS, ANSWER_TOKEN,
	  "Make an application token, which submits jobs and manages no tokens. `expiration`: seconds; without it, it does not expire. `name`: what it is for (where tokens are stored: in the Secret's key).", JOB_ANY },
	{ "POST", "/api/v1/token/application", application_post, NULL, AUTH_PERSON, BODY_FIELDS, ANSWER_TOKEN, "The same.", JOB_ANY },
	{ "DELETE", "/api/v2/tokens/{token}", token_delete, NULL, AUTH_PERSON, BODY_NONE, ANSWER_REVOKED,
	  "Revoke a token of one's own, or as an admin anybody's. This server refuses it at once, others within 30 seconds.", JOB_ANY },
	{ "DELETE", "/api/v1/token/{token}", token_delete, NULL, AUTH_PERSON, BODY_NONE, ANSWER_REVOKED, "The same.", JOB_ANY },

	{ "GET", "/api/v2/users/{user}", user_get, NULL, AUTH_USER, BODY_NONE, ANSWER_USER,
	  "A user: groups, virtual clusters, storages. 400 `NoUserError` if there is none. `extension` for oneself and admins only, and never a key in it.", JOB_ANY },
	{ "GET", "/api/v2/user/{user}", user_get, NULL, AUTH_USER, BODY_NONE, ANSWER_USER, "The same.", JOB_ANY },
	{ "GET", "/api/v1/user/{user}", user_get, NULL, AUTH_USER, BODY_NONE, ANSWER_USER, "The same.", JOB_ANY },
	{ "GET", "/api/v2/users", users_get, NULL, AUTH_USER, BODY_NONE, ANSWER_USERS,
	  "The users that are listed in the file of `--facts`, and who asks. With `--users=openpai`: who asks only, and to admins all (the first 5000).", JOB_ANY },
	{ "GET", "/api/v2/user", users_get, NULL, AUTH_USER, BODY_NONE, ANSWER_USERS, "The same.", JOB_ANY },
	{ "POST", "/api/v2/users", users_post, users_may_admin, AUTH_PERSON, BODY_FIELDS, ANSWER_USER_EDITED,
	  "For admins, with `--users=openpai` (else 405, as for all that follow here): create a user. `username`, `password`; also `email`, `virtualCluster` or `grouplist`, `admin`, `extension`.", JOB_ANY },
	{ "PUT", "/api/v2/users", users_put, users_may_admin, AUTH_PERSON, BODY_FIELDS, ANSWER_USER_EDITED,
	  "For admins: change a user, `data.username`; the other members of `data` as above.", JOB_ANY },
	{ "PUT", "/api/v2/users/me", users_me_put, users_may, AUTH_PERSON, BODY_FIELDS, ANSWER_USER_EDITED,
	  "Change oneself: `email`, `newPassword` with `oldPassword`, `extension` (`sshKeys`, `boundedClusters`, `jobSSH`), in `data`.", JOB_ANY },
	{ "PUT", "/api/v2/users/{user}/{member}", user_member_put, users_may, AUTH_PERSON, BODY_FIELDS, ANSWER_USER_EDITED,
	  "Change one member: `email`, `password`, `extension` of oneself, or as an admin of anybody; for admins also `admin`, `virtualcluster`, `grouplist`.", JOB_ANY },
	{ "DELETE", "/api/v2/users/{user}", user_delete, users_may_admin, AUTH_PERSON, BODY_NONE, ANSWER_USER_EDITED,
	  "For admins: remove a user, who must be no admin, and his tokens. His jobs stay.", JOB_ANY },
	{ "POST", "/api/v2/user", users_post, users_may_admin, AUTH_PERSON, BODY_FIELDS, ANSWER_USER_EDITED,
	  "The same.", JOB_ANY },
	{ "PUT", "/api/v2/user", users_put, users_may_admin, AUTH_PERSON, BODY_FIELDS, ANSWER_USER_EDITED,
	  "The same.", JOB_ANY },
	{ "PUT", "/api/v2/user/me", users_me_put, users_may, AUTH_PERSON, BODY_FIELDS, ANSWER_USER_EDITED,
	  "The same.", JOB_ANY },
	{ "PUT", "/api/v2/user/{user}/{member}", user_member_put, users_may, AUTH_PERSON, BODY_FIELDS, ANSWER_USER_EDITED,
	  "The same.", JOB_ANY },
	{ "DELETE", "/api/v2/user/{user}", user_delete, users_may_admin, AUTH_PERSON, BODY_NONE, ANSWER_USER_EDITED,
	  "The same.", JOB_ANY },
	{ "GET", "/api/v2/groups", groups_get, NULL, AUTH_USER, BODY_NONE, ANSWER_GROUPS,
	  "The groups that one is in; admins see all (with `--users=openpai` the first 5000).", JOB_ANY },
	{ "GET", "/api/v2/alerts", alerts_get, NULL, AUTH_USER, BODY_NONE, ANSWER_LIST,
	  "Always an empty list: alerts are the alert manager's.", JOB_ANY },
	{ "GET", "/api/v2/kubernetes/nodes", nodes_get, NULL, AUTH_USER, BODY_NONE, ANSWER_NODES,
	  "For admins: an empty NodeList, since this server has no right to look at nodes.", JOB_ANY },
	{ "GET", "/api/v2/kubernetes/pods", pods_get, NULL, AUTH_USER, BODY_NONE, ANSWER_NODES,
	  "For admins: an empty PodList, since this server has no right to list pods.", JOB_ANY },
	{ "GET", "/api/v2/storages", storages_get, NULL, AUTH_USER, BODY_NONE, ANSWER_STORAGES,
	  "The storages that one may use; `?default=true`: that are mounted unasked.", JOB_ANY },
	{ "GET", "/api/v2/storages/{storage}", storage_get, NULL, AUTH_USER, BODY_NONE, ANSWER_STORAGE,
	  "One of these; 404 `NoStorageError` for all others.", JOB_ANY },
	{ "GET", "/api/v2/virtual-clusters", clusters_get, NULL, AUTH_USER, BODY_NONE, ANSWER_CLUSTERS,
	  "The virtual clusters that are known: of `--facts`, or of HiveD. Used: the limits of all running jobs; total: `capacity` of `--facts`, or the cells of HiveD.", JOB_ANY },
	{ "GET", "/api/v1/virtual-clusters", clusters_get, NULL, AUTH_V1, BODY_NONE, ANSWER_CLUSTERS, "The same.", JOB_ANY },
	{ "GET", "/api/v2/virtual-clusters/{cluster}", cluster_get, NULL, AUTH_USER, BODY_NONE, ANSWER_CLUSTER,
	  "One of these; 404 `NoVirtualClusterError`.", JOB_ANY },
	{ "GET", "/api/v2/cluster/sku-types", skus_get, NULL, AUTH_USER, BODY_NONE, ANSWER_SKUS,
	  "The SKU types of HiveD (`?vc=`: that a virtual cluster has, 404 `NoVirtualClusterError`), and what one cell of each has: `cpu`, `gpu`, `memory` in MB. Without HiveD `{}`.", JOB_ANY },
};
/* clang-format on */
const size_t N_ROUTES = sizeof(ROUTES) / sizeof(ROUTES[0]);

/* Cut the first segment off a path that starts with '/'. */
static struct span next_segment(struct span *path)
{
	const char *start = path->p + 1;
	const char *slash = memchr(start, '/', path->n - 1);
	size_t n = slash ? (size_t)(slash - start) : path->n - 1;
	path->p = start + n;
	path->n -= n + 1;
	return (struct span){ start, n };
}

/* Percent-decoding, once.  false if the escape is broken or yields NUL or '/'. */
static bool decode(struct span in, struct arena *a, struct span *out)
{
	char *p = arena_alloc(a, in.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < in.n; i++) {
		int c = (unsigned char)in.p[i];
		if (c == '%') {
			c = percent_byte(in, i);
			i += 2;
		}
		if (c <= 0 || c == '/')
			return false;
		p[n++] = (char)c;
	}
	p[n] = '\0';
	*out = (struct span){ p, n };
	return utf8_check(*out) == n && !span_is(*out, ".") && !span_is(*out, "..");
}

struct span route_strip(struct span path)
{
	struct span prefix = SPAN("/rest-server");
	if (span_starts(path, prefix.p) && path.n > prefix.n && path.p[prefix.n] == '/') {
		path.p += prefix.n;
		path.n -= prefix.n;
	}
	if (path.n > 1 && path.p[path.n - 1] == '/')
		path.n--;
	return path;
}

static bool match(const struct route *route, struct span path, struct arena *a,
                  struct span args[static ROUTE_ARGS])
{
	struct span pattern = span_of(route->path);
	size_t n = 0;
	memset(args, 0, ROUTE_ARGS * sizeof(*args));
	while (pattern.n && path.n) {
		struct span want = next_segment(&pattern);
		struct span have = next_segment(&path);
		if (span_starts(want, "{")) {
			if (have.n == 0 || n == ROUTE_ARGS || !decode(have, a, &args[n++]))
				return false;
		} else if (!span_eq(want, have)) {
			return false;
		}
	}
	return pattern.n == path.n;
}

static bool same_method(const struct route *route, const char *method)
{
	return strcmp(route->method, "*") == 0 ||
	       strcmp(route->method, strcmp(method, "HEAD") == 0 ? "GET" : method) == 0;
}

const struct route *route_find(const char *method, struct span path, struct arena *a,
                               struct span args[static ROUTE_ARGS])
{
	path = route_strip(path);
	if (!span_starts(path, "/"))
		return NULL;
	for (size_t i = 0; i < N_ROUTES; i++)
		if (same_method(&ROUTES[i], method) && match(&ROUTES[i], path, a, args))
			return &ROUTES[i];
	return NULL;
}

const struct route *route_only(const struct route *route, const char *method, struct span path)
{
	return strcmp(method, route->method) == 0 && span_is(path, route->path) ? route : NULL;
}

bool route_is_v1(const struct route *route)
{
	return span_starts(span_of(route->path), "/api/v1/");
}

bool route_names_user(const struct route *route)
{
	return strstr(route->path, "/{user}/");
}

const char *route_method(const struct route *route)
{
	return strcmp(route->method, "*") == 0 ? "any" : route->method;
}

void route_methods(struct str *out, struct span path, struct arena *a)
{
	static const char *const METHODS[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };
	struct span args[ROUTE_ARGS];
	for (size_t i = 0; i < sizeof(METHODS) / sizeof(METHODS[0]); i++)
		if (route_find(METHODS[i], path, a, args))
			str_printf(out, "%s%s", out->n ? ", " : "", METHODS[i]);
	if (out->n)
		str_puts(out, ", OPTIONS");
}

static const char PAGE_HEAD[] =
    "# Routes\n"
    "\n"
    "Generated from the table in `server/routes.c`; `make pages` writes it anew.\n"
    "\n"
    "Every route is also served below `/rest-server`, and with a trailing slash. Anything else is\n"
    "answered 404 `NoApiError`, and 405 `MethodNotAllowedError` with `Allow` where the path is one "
    "of\n"
    "these. A GET route answers HEAD too, and every path OPTIONS. Jobs are\n"
    "`text/*`, `application/json`, `application/yaml` or `application/x-yaml`, v1 jobs also\n"
    "`application/x-www-form-urlencoded`, nested; other bodies JSON or a form. Errors are JSON:\n"
    "`{\"code\", \"message\", \"errors\": [{\"pointer\", \"line\", \"column\", \"message\"}]}`.\n"
    "\n"
    "Whoever submits may send a header `Idempotency-Key` (1 to 128 printable characters, best\n"
    "random): the same key and body from the same user within 24 hours get the first answer "
    "again,\n"
    "with `Idempotency-Replayed: true`; another body or job with the key is 422\n"
    "`IdempotencyError`.\n"
    "\n"
    "`?dryRun=true` behind the path of a submission tries the job, and nothing is made: 200 with\n"
    "the objects as a List; `?dryRun=server` has the API server look at them, too: see\n"
    "[HTTP.md](HTTP.md).\n"
    "\n"
    "*whose* says of which jobs a route may be asked: everybody's; one's own, and those that\n"
    "`--visibility` lets one see (`vc`: of the virtual clusters that one may use); or one's own\n"
    "only. Admins: of all. What is not allowed is 403 `ForbiddenUserError`, after 404 for what is\n"
    "not there. What nobody owns is the admins'.\n"
    "\n"
    "| method | path | who | whose | |\n"
    "|---|---|---|---|---|\n";

static const char *const WHO[] = { [AUTH_NONE] = "anyone",
	                           [AUTH_USER] = "user",
	                           [AUTH_PERSON] = "user, by no application token",
	                           [AUTH_LINK] = "user, or a link",
	                           [AUTH_V1] = "user; with `--compat openpai` anyone" };

static const char *const WHOSE[] = { [JOB_ANY] = "",
	                             [JOB_LOOK] = "everybody's",
	                             [JOB_SEE] = "by `--visibility`",
	                             [JOB_OWN] = "one's own" };

void routes_page(struct str *out)
{
	str_puts(out, PAGE_HEAD);
	for (size_t i = 0; i < N_ROUTES; i++)
		str_printf(out, "| %s | `%s` | %s | %s | %s |\n", route_method(&ROUTES[i]),
		           ROUTES[i].path, WHO[ROUTES[i].auth], WHOSE[ROUTES[i].need],
		           ROUTES[i].doc);
	uploads_page(out);
}
