/* Lists all routes with handler, rights and sentence, and prints the pages that are made from them.
 * */
#include "server/serve/routes.h"

#include "server/auth/auth.h"
#include "server/code/job_code.h"
#include "server/exec/job_exec.h"
#include "server/jobs/jobs.h"
#include "server/logs/logs.h"
#include "server/results/job_results.h"
#include "server/submit/submit.h"
#include "server/users/users.h"
#include "server/web/web.h"

/* clang-format off */
static const struct route API_ROUTES[] = {
	{ "GET", "/", "getIntroduction", index_get, NULL, AUTH_NONE, BODY_NONE, "text",
	  "The web page for browsers (`Accept` names `text/html`); else an introduction as plain text, with a list of all routes.", JOB_ANY },
	{ "GET", "/web/{file}", "getPageFile", web_get, NULL, AUTH_NONE, BODY_NONE, "file",
	  "A file of the web page, or of `/llms.txt`. With `--no-page` always 404.", JOB_ANY },
	{ "GET", "/llms.txt", "getLinks", web_get, NULL, AUTH_NONE, BODY_NONE, "file",
	  "Links for programs that read texts: `SKILL.md`, the fields of jobs, the schemas. With `--no-page` always 404.", JOB_ANY },
	{ "GET", "/openapi.json", "getOpenApi", openapi_get, NULL, AUTH_NONE, BODY_NONE, "openapi",
	  "All routes and the schemas of jobs (OpenAPI 3.0).", JOB_ANY },
	{ "GET", "/api/v2/schemas/{schema}", "getSchema", schemas_get, NULL, AUTH_NONE, BODY_NONE, "schema",
	  "The JSON Schema that `rest-lit schema NAME` prints, with `ETag`. 404 `NoSchemaError` lists the names.", JOB_ANY },
	{ "GET", "/healthz", "checkHealth", healthz_get, NULL, AUTH_NONE, BODY_NONE, "text",
	  "200 `ok` while the process runs.", JOB_ANY },
	{ "GET", "/readyz", "checkReadiness", readyz_get, NULL, AUTH_NONE, BODY_NONE, "text",
	  "200 `ok` if the store answers (probed at most every 2 s); else 503, also while the server drains.", JOB_ANY },

	{ "POST", "/api/v2/jobs", "submitJob", submit_v2, submit_check_head, AUTH_USER, BODY_JOB, "submitted-v2",
	  "Submit a PAI v2 job, YAML or JSON. 202 when all objects exist and the job is started.", JOB_ANY },
	{ "POST", "/api/v1/jobs", "submitJobV1", submit_v1, submit_check_head, AUTH_USER, BODY_JOB_V1, "submitted-v1",
	  "Submit a PAI v1 job (JSON, comments are allowed, or a nested form) or a v2 job.", JOB_ANY },
	{ "POST", "/api/v1/user/{user}/jobs", "submitUserJobV1", submit_v1, submit_check_head, AUTH_USER, BODY_JOB_V1, "submitted-v1",
	  "The same; 403 if `user` is not the client's user.", JOB_ANY },
	{ "POST", "/api/v1/user/{user}/jobs/{job}", "submitNamedJobV1", submit_v1, submit_check_head, AUTH_USER, BODY_JOB_V1, "submitted-v1",
	  "The same; 400 if `job` is not the job's name.", JOB_ANY },
	{ "PUT", "/api/v1/user/{user}/jobs/{job}", "putUserJobV1", submit_v1, submit_check_head, AUTH_USER, BODY_JOB_V1, "submitted-v1",
	  "The same.", JOB_ANY },
	{ "PUT", "/api/v1/jobs/{job}", "putJobV1", submit_v1, submit_check_head, AUTH_USER, BODY_JOB_V1, "submitted-v1",
	  "The same.", JOB_ANY },
	{ "GET", "/api/v2/jobs", "listJobs", jobs_get, NULL, AUTH_USER, BODY_NONE, "jobs",
	  "The jobs of all users, newest first.", JOB_ANY },
	{ "GET", "/api/v1/jobs", "listJobsV1", jobs_get, NULL, AUTH_V1, BODY_NONE, "jobs-v1",
	  "The same in the format of v1, with Frameworks of other programs.", JOB_ANY },
	{ "GET", "/api/v1/user/{user}/jobs", "listUserJobsV1", jobs_get, NULL, AUTH_V1, BODY_NONE, "jobs-v1",
	  "The same for one user.", JOB_ANY },
	{ "GET", "/api/v2/jobs/watch", "watchJobs", jobs_watch, NULL, AUTH_USER, BODY_NONE, "stream",
	  "Changes of jobs as server-sent events.", JOB_ANY },
	{ "GET", "/api/v2/jobs/protocolversion/config", "probeProtocol", job_probe, NULL, AUTH_USER, BODY_NONE, "no-job",
	  "Always refused. The VS Code extension sends this request without a token to detect the API.", JOB_ANY },
	{ "GET", "/api/v2/jobs/{job}", "getJob", job_get, NULL, AUTH_USER, BODY_NONE, "job",
	  "The job `USER~NAME`: state, task roles, tasks. 404 `NoJobError` if there is no such job.", JOB_LOOK },
	{ "GET", "/api/v2/jobs/{job}/attempts/{attempt}", "getJobOfAttempt", job_get, NULL, AUTH_USER, BODY_NONE, "job",
	  "The same for one attempt, the latest or an earlier one that is kept.", JOB_LOOK },
	{ "GET", "/api/v1/user/{user}/jobs/{job}", "getUserJobV1", job_get, NULL, AUTH_V1, BODY_NONE, "job",
	  "One job in the format of v1.", JOB_LOOK },
	{ "GET", "/api/v1/jobs/{job}", "getJobV1", job_get, NULL, AUTH_V1, BODY_NONE, "job",
	  "The same for `USER~NAME`.", JOB_LOOK },
	{ "GET", "/api/v2/jobs/{job}/watch", "watchJob", job_watch, NULL, AUTH_USER, BODY_NONE, "job-stream",
	  "Changes of one job as server-sent events.", JOB_LOOK },
	{ "GET", "/api/v2/jobs/{job}/config", "getJobConfig", config_get, NULL, AUTH_USER, BODY_NONE, "config",
	  "The submitted job without its secrets, as JSON.", JOB_SEE },
	{ "GET", "/api/v2/jobs/{job}/code", "getJobCode", job_code_get, NULL, AUTH_USER, BODY_NONE, "job-code",
	  "The code of a job (`extras.code`): a gzip'ed tar, `ETag` with the SHA-256 of the tar. 404 `NoCodeError` if the job has none.", JOB_SEE },
	{ "POST", "/api/v2/jobs/{job}/exec", "createSession", exec_post, NULL, AUTH_USER, BODY_FIELDS, "session",
	  "Start a session in a task that runs on this machine: `{\"role\", \"index\", \"command\": [], \"terminal\": \"xterm\", \"rows\", \"columns\"}`, by default a shell, or with `{\"connect\": PORT}` a connection to a port of the task. 201 with its `id`; its two sides are requested within 5 s.", JOB_OWN },
	{ "GET", "/api/v2/sessions/{id}", "getSession", exec_get, NULL, AUTH_USER, BODY_NONE, "session-output",
	  "The output of a session that this user has started, as frames of a byte of channel (0 input, 1 output, 2 error, 3 status, 4 size, 255 end of input), three of length, and the bytes. The first and the last frame are a status.", JOB_ANY },
	{ "PUT", "/api/v2/sessions/{id}", "putSession", exec_put, exec_put_begin, AUTH_USER, BODY_SESSION, "session-input",
	  "The input of a session, as frames in a body that stays open. The session ends when either side does.", JOB_ANY },
	{ "GET", "/api/v2/jobs/{job}/results", "listResults", results_get, NULL, AUTH_LINK, BODY_NONE, "results",
	  "The files that a job on this machine has left in its results (`extras.results`), also while it runs: a list, or with `archive=tar` their contents. 404 `NoResultsError` if there are none.", JOB_SEE },
	{ "GET", "/api/v2/jobs/{job}/results/{path}", "getResult", result_get, NULL, AUTH_LINK, BODY_NONE, "result",
	  "One of these files, with `ETag`, always as a download. `path` is the `href` of a row of the list.", JOB_SEE },
	{ "GET", "/api/v1/user/{user}/jobs/{job}/config", "getUserJobConfigV1", config_get, NULL, AUTH_V1, BODY_NONE, "config",
	  "The same.", JOB_SEE },
	{ "GET", "/api/v1/jobs/{job}/config", "getJobConfigV1", config_get, NULL, AUTH_V1, BODY_NONE, "config",
	  "The same; a name without `USER~` is the client's own job, unless a Framework of another program has this name.", JOB_SEE },
	{ "PUT", "/api/v2/jobs/{job}/executionType", "stopJob", execution_put, NULL, AUTH_USER, BODY_FIELDS, "changed",
	  "Stop a job: `{\"value\": \"STOP\"}`; or start one that is held, whatever it waits for: `START`, which changes nothing else.", JOB_OWN },
	{ "PUT", "/api/v1/user/{user}/jobs/{job}/executionType", "stopUserJobV1", execution_put, NULL, AUTH_USER, BODY_FIELDS, "changed",
	  "The same.", JOB_OWN },
	{ "PUT", "/api/v1/jobs/{job}/executionType", "stopJobV1", execution_put, NULL, AUTH_USER, BODY_FIELDS, "changed",
	  "The same.", JOB_OWN },
	{ "DELETE", "/api/v1/user/{user}/jobs/{job}", "deleteJob", job_delete, NULL, AUTH_USER, BODY_NONE, "changed",
	  "Delete a job and all its objects.", JOB_OWN },
	{ "GET", "/api/v2/jobs/{job}/ssh", "getJobSsh", ssh_get, NULL, AUTH_USER, BODY_NONE, "no-ssh",
	  "Always 404 `NoJobSshInfoError`; the job has host and port of each task.", JOB_ANY },
	{ "GET", "/api/v1/user/{user}/jobs/{job}/ssh", "getUserJobSshV1", ssh_get, NULL, AUTH_V1, BODY_NONE, "no-ssh",
	  "The same.", JOB_ANY },
	{ "GET", "/api/v1/jobs/{job}/ssh", "getJobSshV1", ssh_get, NULL, AUTH_V1, BODY_NONE, "no-ssh",
	  "The same.", JOB_ANY },
	{ "PUT", "/api/v2/jobs/{job}/tag", "addTag", tag_edit, NULL, AUTH_USER, BODY_FIELDS, "tagged",
	  "Add a tag: `{\"value\": TAG}`.", JOB_OWN },
	{ "DELETE", "/api/v2/jobs/{job}/tag", "removeTag", tag_edit, NULL, AUTH_USER, BODY_FIELDS, "tagged",
	  "Remove a tag; 404 `NoTagError` if the job does not have it.", JOB_OWN },
	{ "PATCH", "/api/v2/jobs/{job}/taskRoles/{role}", "scaleTaskRole", scale_patch, NULL, AUTH_USER, BODY_FIELDS, "scaled",
	  "Scale a task role of a running job: `{\"instances\": N}`.", JOB_OWN },
	{ "PUT", "/api/v2/jobs/{job}/keep", "keepJob", keep_put, NULL, AUTH_USER, BODY_FIELDS, "kept",
	  "Keep a job although its GPUs are idle: `{\"hours\": N, \"reason\": TEXT}`, with `--local`. Hours are added to those that it has.", JOB_OWN },
	{ "GET", "/api/v2/jobs/{job}/events", "listJobEvents", events_get, NULL, AUTH_USER, BODY_NONE, "events",
	  "The Kubernetes Events of its pods and of itself, for about an hour.", JOB_SEE },
	{ "GET", "/api/v2/jobs/{job}/usage", "getJobUsage", job_usage_get, NULL, AUTH_USER, BODY_NONE, "usage",
	  "With `--local`: what its tasks use and have used, CPUs, memory and GPUs, as figures and curves, and notes about what they did not use. Else 404 `NoMachineError`.", JOB_SEE },
	{ "GET", "/api/v2/jobs/{job}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts", "getTask", job_task_get, NULL, AUTH_USER, BODY_NONE, "task",
	  "One task with its known attempt.", JOB_LOOK },
	{ "GET", "/api/v2/jobs/{job}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts/{retry}/logs", "listLogs", logs_get, NULL, AUTH_USER, BODY_NONE, "logs",
	  "Links to the logs of a task, valid for 5 minutes.", JOB_SEE },
	{ "GET", "/api/v2/jobs/{job}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts/{retry}/logs/{log}", "getLog", log_get, NULL, AUTH_LINK, BODY_NONE, "log",
	  "A log. A link needs no token.", JOB_SEE },
	{ "GET", "/api/v2/jobs/{job}/job-attempts/healthz", "checkJobAttempts", attempts_health, NULL, AUTH_USER, BODY_NONE, "text",
	  "200 `ok` if earlier attempts are kept (`--history`), else 501.", JOB_ANY },
	{ "GET", "/api/v2/jobs/{job}/job-attempts", "listJobAttempts", attempts_get, NULL, AUTH_USER, BODY_NONE, "attempts",
	  "All known attempts, the latest first.", JOB_LOOK },
	{ "GET", "/api/v2/jobs/{job}/job-attempts/{attempt}", "getJobAttempt", attempt_get, NULL, AUTH_USER, BODY_NONE, "attempt",
	  "One known attempt.", JOB_LOOK },

	{ "*", "/api/v1", "getInfoV1", info_get, NULL, AUTH_NONE, BODY_NONE, "info",
	  "Name and version of this server, and its login method.", JOB_ANY },
	{ "*", "/api/v2", "getInfoV2", info_get, NULL, AUTH_NONE, BODY_NONE, "info", "The same.", JOB_ANY },
	{ "*", "/api/v2/info", "getInfo", info_get, NULL, AUTH_NONE, BODY_NONE, "info", "The same.", JOB_ANY },
	{ "GET", "/api/v2/authn/info", "getLoginMethod", authn_get, NULL, AUTH_NONE, BODY_NONE, "authn",
	  "The login method and its URL.", JOB_ANY },
	{ "GET", "/api/v1/authn/info", "getLoginMethodV1", authn_get, NULL, AUTH_NONE, BODY_NONE, "authn", "The same.", JOB_ANY },

	{ "POST", "/api/v2/authn/basic/login", "logIn", login_post, NULL, AUTH_NONE, BODY_FIELDS, "login",
	  "Log in with `username` and `password` (`--users=openpai`). The answer has a token, valid for `--token-lifetime`. `expiration` has no effect, as in OpenPAI.", JOB_ANY },
	{ "POST", "/api/v1/authn/basic/login", "logInV1", login_post, NULL, AUTH_NONE, BODY_FIELDS, "login", "The same.", JOB_ANY },
	{ "POST", "/api/v2/tokens", "createToken", login_post, NULL, AUTH_NONE, BODY_FIELDS, "login", "The same.", JOB_ANY },
	{ "POST", "/api/v1/token", "createTokenV1", login_post, NULL, AUTH_NONE, BODY_FIELDS, "login", "The same.", JOB_ANY },
	{ "DELETE", "/api/v2/authn/basic/logout", "logOut", logout_delete, NULL, AUTH_PERSON, BODY_NONE, "logout",
	  "Revoke the token of this request.", JOB_ANY },
	{ "DELETE", "/api/v1/authn/basic/logout", "logOutV1", logout_delete, NULL, AUTH_PERSON, BODY_NONE, "logout", "The same.", JOB_ANY },
	{ "GET", "/api/v2/tokens", "listTokens", tokens_get, NULL, AUTH_PERSON, BODY_NONE, "tokens",
	  "The client's stored tokens and their names; with `--token-check=signature` only the token of this request.", JOB_ANY },
	{ "GET", "/api/v1/token", "listTokensV1", tokens_get, NULL, AUTH_PERSON, BODY_NONE, "tokens", "The same.", JOB_ANY },
	{ "GET", "/api/v2/tokens/check", "checkToken", token_check_get, NULL, AUTH_USER, BODY_NONE, "claims",
	  "The claims of the client's token, and `admin`.", JOB_ANY },
	{ "GET", "/api/v1/token/check", "checkTokenV1", token_check_get, NULL, AUTH_USER, BODY_NONE, "claims", "The same.", JOB_ANY },
	{ "POST", "/api/v2/tokens/application", "createApplicationToken", application_post, NULL, AUTH_PERSON, BODY_FIELDS, "token",
	  "Make an application token, which can submit jobs, but not manage tokens. `expiration`: lifetime in seconds; without it the token does not expire. `name`: its purpose (part of the Secret's key if tokens are stored).", JOB_ANY },
	{ "POST", "/api/v1/token/application", "createApplicationTokenV1", application_post, NULL, AUTH_PERSON, BODY_FIELDS, "token", "The same.", JOB_ANY },
	{ "DELETE", "/api/v2/tokens/{token}", "revokeToken", token_delete, NULL, AUTH_PERSON, BODY_NONE, "revoked",
	  "Revoke one of the client's tokens, or as an admin any token. This server refuses it at once, other servers within 30 seconds.", JOB_ANY },
	{ "DELETE", "/api/v1/token/{token}", "revokeTokenV1", token_delete, NULL, AUTH_PERSON, BODY_NONE, "revoked", "The same.", JOB_ANY },

	{ "GET", "/api/v2/users/{user}", "getUser", user_get, NULL, AUTH_USER, BODY_NONE, "user",
	  "A user: groups, virtual clusters, storages. 400 `NoUserError` if there is no such user. Only the user and admins see `extension`, which never has private keys.", JOB_ANY },
	{ "GET", "/api/v2/user/{user}", "getUserAlias", user_get, NULL, AUTH_USER, BODY_NONE, "user", "The same.", JOB_ANY },
	{ "GET", "/api/v1/user/{user}", "getUserV1", user_get, NULL, AUTH_USER, BODY_NONE, "user", "The same.", JOB_ANY },
	{ "GET", "/api/v2/users", "listUsers", users_get, NULL, AUTH_USER, BODY_NONE, "users",
	  "The client's user and the users that the file of `--facts` lists. With `--users=openpai`: only the client's user; for admins all users (the first 5000).", JOB_ANY },
	{ "GET", "/api/v2/user", "listUsersAlias", users_get, NULL, AUTH_USER, BODY_NONE, "users", "The same.", JOB_ANY },
	{ "POST", "/api/v2/users", "createUser", users_post, users_check_admin, AUTH_PERSON, BODY_FIELDS, "user-edited",
	  "For admins, with `--users=openpai` (else 405, as on all routes that change users): create a user. `username`, `password`; optional: `email`, `virtualCluster` or `grouplist`, `admin`, `extension`.", JOB_ANY },
	{ "PUT", "/api/v2/users", "updateUser", users_put, users_check_admin, AUTH_PERSON, BODY_FIELDS, "user-edited",
	  "For admins: change a user, `data.username`; the other members of `data` as above.", JOB_ANY },
	{ "PUT", "/api/v2/users/me", "updateMe", users_me_put, users_check_profile, AUTH_PERSON, BODY_FIELDS, "user-edited",
	  "Change the client's user: `email`, `newPassword` with `oldPassword`, `extension` (`sshKeys`, `boundedClusters`, `jobSSH`), in `data`.", JOB_ANY },
	{ "PUT", "/api/v2/users/{user}/{member}", "updateUserMember", user_member_put, users_check_profile, AUTH_PERSON, BODY_FIELDS, "user-edited",
	  "Change one member: `email`, `password`, `extension` of the client's user, or as an admin of any user; for admins also `admin`, `virtualcluster`, `grouplist`.", JOB_ANY },
	{ "DELETE", "/api/v2/users/{user}", "deleteUser", user_delete, users_check_admin, AUTH_PERSON, BODY_NONE, "user-removed",
	  "For admins: remove a user that is not an admin, and the user's tokens. The user's jobs stay.", JOB_ANY },
	{ "POST", "/api/v2/user", "createUserAlias", users_post, users_check_admin, AUTH_PERSON, BODY_FIELDS, "user-edited",
	  "The same.", JOB_ANY },
	{ "PUT", "/api/v2/user", "updateUserAlias", users_put, users_check_admin, AUTH_PERSON, BODY_FIELDS, "user-edited",
	  "The same.", JOB_ANY },
	{ "PUT", "/api/v2/user/me", "updateMeAlias", users_me_put, users_check_profile, AUTH_PERSON, BODY_FIELDS, "user-edited",
	  "The same.", JOB_ANY },
	{ "PUT", "/api/v2/user/{user}/{member}", "updateUserMemberAlias", user_member_put, users_check_profile, AUTH_PERSON, BODY_FIELDS, "user-edited",
	  "The same.", JOB_ANY },
	{ "DELETE", "/api/v2/user/{user}", "deleteUserAlias", user_delete, users_check_admin, AUTH_PERSON, BODY_NONE, "user-removed",
	  "The same.", JOB_ANY },
	{ "GET", "/api/v2/groups", "listGroups", groups_get, NULL, AUTH_USER, BODY_NONE, "groups",
	  "The groups of the client's user; for admins all groups (with `--users=openpai` the first 5000).", JOB_ANY },
	{ "GET", "/api/v2/alerts", "listAlerts", alerts_get, NULL, AUTH_USER, BODY_NONE, "list",
	  "Always an empty list; the alert manager has the alerts.", JOB_ANY },
	{ "GET", "/api/v2/kubernetes/nodes", "listNodes", nodes_get, NULL, AUTH_USER, BODY_NONE, "nodes",
	  "For admins: an empty NodeList, because this server has no permission to read nodes.", JOB_ANY },
	{ "GET", "/api/v2/kubernetes/pods", "listPods", pods_get, NULL, AUTH_USER, BODY_NONE, "nodes",
	  "For admins: an empty PodList, because this server has no permission to list pods.", JOB_ANY },
	{ "GET", "/api/v2/storages", "listStorages", storages_get, NULL, AUTH_USER, BODY_NONE, "storages",
	  "The storages that the user may use.", JOB_ANY },
	{ "GET", "/api/v2/storages/{storage}", "getStorage", storage_get, NULL, AUTH_USER, BODY_NONE, "storage",
	  "One of these storages; 404 `NoStorageError` for all others.", JOB_ANY },
	{ "GET", "/api/v2/virtual-clusters", "listVirtualClusters", clusters_get, NULL, AUTH_USER, BODY_NONE, "clusters",
	  "All known virtual clusters, of `--facts` or HiveD. Used: the limits of all running jobs; total: `capacity` of `--facts`, or the cells of HiveD.", JOB_ANY },
	{ "GET", "/api/v1/virtual-clusters", "listVirtualClustersV1", clusters_get, NULL, AUTH_V1, BODY_NONE, "clusters", "The same.", JOB_ANY },
	{ "GET", "/api/v2/virtual-clusters/{cluster}", "getVirtualCluster", cluster_get, NULL, AUTH_USER, BODY_NONE, "cluster",
	  "One virtual cluster; 404 `NoVirtualClusterError`.", JOB_ANY },
	{ "GET", "/api/v2/machine", "getMachine", machine_get, NULL, AUTH_USER, BODY_NONE, "machine",
	  "With `--local`: CPUs, memory and GPUs of this machine, jobs that have some of them, with their use, and the queue. Else 404 `NoMachineError`.", JOB_ANY },
	{ "GET", "/api/v2/report", "getReport", report_get, NULL, AUTH_USER, BODY_NONE, "report",
	  "With `--local`: GPU hours, idle GPU hours, CPU hours and energy of the client's jobs between two times, for admins of all jobs; also of those that were deleted. At most 10000 rows, then `more` is true. Else 404 `NoMachineError`.", JOB_ANY },
	{ "GET", "/api/v2/machine/backup", "getBackup", backup_get, NULL, AUTH_PERSON, BODY_NONE, "backup",
	  "With `--local`, for admins: a copy of the database, an SQLite file with all jobs and their Secrets. Else 404 `NoMachineError`.", JOB_ANY },
	{ "PUT", "/api/v2/code/{sha256}", "uploadCode", code_put, code_check_head, AUTH_USER, BODY_CODE, "code-kept",
	  "Keep the code of the client's jobs: a gzip'ed tar as `rest-lit submit --code` makes it, named by the SHA-256 of the tar. 201, or 200 if it was there. Other users' code is not found. Code that no job names goes an hour after its last use.", JOB_ANY },
	{ "GET", "/api/v2/code/{sha256}", "checkCode", code_get, NULL, AUTH_USER, BODY_NONE, "code",
	  "Is this code there? If so, this counts as a use of it; else 404 `NoCodeError`.", JOB_ANY },
	{ "GET", "/api/v2/cluster/sku-types", "listSkuTypes", skus_get, NULL, AUTH_USER, BODY_NONE, "skus",
	  "The SKU types of HiveD with the size of one cell: `cpu`, `gpu`, `memory` in MB. Without HiveD `{}`.", JOB_ANY },
};
/* clang-format on */
const struct route_table ROUTES = { API_ROUTES, ARRAY_SIZE(API_ROUTES) };

static const char *const WHO[] = { [AUTH_NONE] = "all",
	                           [AUTH_USER] = "users",
	                           [AUTH_PERSON] = "users, not with application tokens",
	                           [AUTH_LINK] = "users; with a link all",
	                           [AUTH_V1] = "users; with `--compat openpai` all" };

static const char *const WHOSE[] = { [JOB_ANY] = "",
	                             [JOB_LOOK] = "of any user",
	                             [JOB_SEE] = "by `--visibility`",
	                             [JOB_OWN] = "own" };

static void parameters_put_rows(struct str *out, const struct parameter *p)
{
	for (; p->name; p++) {
		struct span rest = span_of(p->values ?: "");
		str_printf(out, p->header ? "| header `%s` | " : "| `%s` | ", p->name);
		for (const char *between = ""; rest.n; between = ", ") {
			struct span value = span_next(&rest, '|');
			str_printf(out, "%s`%.*s`", between, (int)value.n, value.p);
		}
		if (p->max && p->max <= INT32_MAX)
			str_printf(out, "0 to %ld", (long)p->max);
		if (p->absent)
			str_printf(out, "%sdefault `%s`", p->max || p->values ? "; " : "",
			           p->absent);
		str_printf(out, " | %s |\n", p->doc);
	}
}

static const char PARAMETERS_HEAD[] = "| parameter | values | |\n|---|---|---|\n";

void list_parameters_page(struct str *out)
{
	str_puts(out, PARAMETERS_HEAD);
	parameters_put_rows(out, JOB_FILTERS);
	parameters_put_rows(out, JOB_PAGES);
}

/* Returns true if the route has a sentence of its own, and not that of the route above. */
static bool route_has_own_doc(const struct route *r)
{
	return !span_starts(span_of(r->doc), "The same");
}

static bool route_has_parameters(const struct route *r, const struct parameter *table)
{
	for (size_t i = 0; route_parameters(r, i); i++)
		if (route_parameters(r, i) == table)
			return true;
	return false;
}

/* The routes that have the table, and its rows; nothing if a route before r has it. */
static void routes_put_parameters(struct str *out, const struct route *r,
                                  const struct parameter *table)
{
	for (const struct route *before = ROUTES.row; before < r; before++)
		if (route_has_parameters(before, table))
			return;
	const char *between = "\n";
	for (; r < ROUTES.row + ROUTES.n; r++) {
		if (!route_has_parameters(r, table) || !route_has_own_doc(r))
			continue;
		str_printf(out, "%s`%s %s`", between, route_method(r), r->path);
		between = ",\n";
	}
	str_printf(out, ":\n\n%s", PARAMETERS_HEAD);
	parameters_put_rows(out, table);
}

void routes_page(struct str *out)
{
	str_puts(out, "| method | path | clients | jobs | |\n|---|---|---|---|---|\n");
	for (const struct route *r = ROUTES.row; r < ROUTES.row + ROUTES.n; r++)
		str_printf(out, "| %s | `%s` | %s | %s | %s%s |\n", route_method(r), r->path,
		           WHO[r->auth], WHOSE[r->need], r->doc,
		           route_has_own_doc(r) && route_parameters(r, 0)
		               ? " [Parameters](#parameters)."
		               : "");
}

void parameters_page(struct str *out)
{
	for (const struct route *r = ROUTES.row; r < ROUTES.row + ROUTES.n; r++)
		for (size_t i = 0; route_parameters(r, i); i++)
			routes_put_parameters(out, r, route_parameters(r, i));
}
