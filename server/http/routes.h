#pragma once
/*
 * The table of all routes, and their handlers.  docs/ROUTES.md, the text at / and /openapi.json are
 * generated from the table.
 */
#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"
#include "server/http/request.h"

/* The clients that may use a route. */
enum route_auth {
	AUTH_NONE,
	AUTH_USER,
	AUTH_PERSON, /* a user, but not with an application token (403) */
	AUTH_LINK,   /* a user, or a client with ?token=, which the handler checks */
	AUTH_V1,     /* a user; with --compat openpai also a client without a token */
	AUTH_POD     /* the pod of a task (server/logs/logs.h) */
};
/* The body of a route.  NONE: ignored; FIELDS: see query.h; OUTPUT: output of a task. */
enum route_body { BODY_NONE, BODY_JOB, BODY_JOB_V1, BODY_FIELDS, BODY_OUTPUT, BODY_MAX };

/* The answer on success and the errors of a route: openapi.c has a row for each. */
enum route_answer {
	ANSWER_TEXT,
	ANSWER_FILE,
	ANSWER_OPENAPI,
	ANSWER_SUBMITTED_V2,
	ANSWER_SUBMITTED_V1,
	ANSWER_JOBS,
	ANSWER_JOBS_V1,
	ANSWER_JOB,
	ANSWER_NO_JOB,
	ANSWER_CONFIG,
	ANSWER_NO_SSH,
	ANSWER_CHANGED,
	ANSWER_TAGGED,
	ANSWER_SCALED,
	ANSWER_EVENTS,
	ANSWER_TASK,
	ANSWER_LOGS,
	ANSWER_LOG,
	ANSWER_ATTEMPTS,
	ANSWER_ATTEMPT,
	ANSWER_STREAM,
	ANSWER_INFO,
	ANSWER_AUTHN,
	ANSWER_LOGIN,
	ANSWER_LOGOUT,
	ANSWER_TOKENS,
	ANSWER_TOKEN,
	ANSWER_REVOKED,
	ANSWER_CLAIMS,
	ANSWER_USER,
	ANSWER_USERS,
	ANSWER_USER_EDITED,
	ANSWER_USER_REMOVED,
	ANSWER_GROUPS,
	ANSWER_LIST,
	ANSWER_NODES,
	ANSWER_STORAGES,
	ANSWER_STORAGE,
	ANSWER_CLUSTERS,
	ANSWER_CLUSTER,
	ANSWER_SKUS,
	ANSWER_SCHEMA,
	ANSWER_MACHINE,
	ANSWER_MAX
};

/* The right to a job of another user, by --visibility and for admins. */
enum job_need {
	JOB_ANY,  /* no job */
	JOB_LOOK, /* its state: every user */
	JOB_SEE,  /* its content: owner, admin; with --visibility vc the users of its virtual
	           * cluster, with all every user; else 403 */
	JOB_OWN,  /* change it: owner and admin; else 403 */
};

typedef void handler(struct request *r);

struct route {
	const char *method; /* "*": any but OPTIONS */
	const char *path;   /* {name} is one segment, in r->args */
	handler *handle;
	/* Checks path and head before the body is received; may answer.  May be NULL. */
	handler *before;
	enum route_auth auth;
	enum route_body body;
	enum route_answer answer;
	const char *doc;
	enum job_need need; /* for the job in its path */
};

extern const struct route ROUTES[];
extern const size_t N_ROUTES;

/*
 * The route of a request, or NULL.  `path` is as sent: a leading /rest-server and one trailing
 * slash are ignored, HEAD is treated as GET, and the segments for {name} are decoded into args (in
 * the arena).  Empty segments, "." and "..", and segments that decode to NUL, "/" or invalid UTF-8
 * match nothing.
 */
const struct route *route_find(const char *method, struct span path, struct arena *a,
                               struct span args[static ROUTE_ARGS]);
bool route_is_v1(const struct route *route);
/* Is the first {name} of the path {user}? */
bool route_names_user(const struct route *route);
/* A path without a leading /rest-server and one trailing slash. */
struct span route_strip(struct span path);
/* The method as text: "any" for "*". */
const char *route_method(const struct route *route);
/* "GET, HEAD, OPTIONS" for a path; *out stays empty if no route has it. */
void route_methods(struct str *out, struct span path, struct arena *a);

/* Append docs/ROUTES.md, and /openapi.json (openapi.c). */
void routes_page(struct str *out);
void openapi_page(struct str *out);
/* The names of all JSON Schemas, and one of them; false: there is none of this name (schemas.c). */
void schema_names(struct str *out, const char *between);
bool schema_named(struct str *out, struct span name);

/* ---- handlers ---- */

/* health.c */
void info_get(struct request *r);
void authn_get(struct request *r);
void index_get(struct request *r);
void healthz_get(struct request *r);
void readyz_get(struct request *r);

/* web.c */
void web_get(struct request *r);

/* submit.c; submit_may runs before the body */
void submit_v2(struct request *r);
void submit_v1(struct request *r);
void submit_may(struct request *r);

/* job_list.c */
void jobs_get(struct request *r);

/* job_show.c */
void job_get(struct request *r);
void job_probe(struct request *r);
void job_task_get(struct request *r);
void attempts_health(struct request *r);
void attempts_get(struct request *r);
void attempt_get(struct request *r);
void config_get(struct request *r);
void ssh_get(struct request *r);

/* job_watch.c */
void jobs_watch(struct request *r);
void job_watch(struct request *r);

/* job_change.c */
void execution_put(struct request *r);
void tag_edit(struct request *r);
void job_delete(struct request *r);
void scale_patch(struct request *r);

/* job_events.c */
void events_get(struct request *r);

/* job_logs.c */
void logs_get(struct request *r);
void log_get(struct request *r);

/* openapi.c */
void openapi_get(struct request *r);

/* schemas.c */
void schemas_get(struct request *r);

/* job_machine.c */
void machine_get(struct request *r);

/* user_routes.c */
void user_get(struct request *r);
void users_get(struct request *r);
void storages_get(struct request *r);
void storage_get(struct request *r);
void groups_get(struct request *r);
void alerts_get(struct request *r);
void nodes_get(struct request *r);
void pods_get(struct request *r);

/* user_edit.c; users_may and users_may_admin check before the body whether users can be changed,
 * and by this principal */
void users_may(struct request *r);
void users_may_admin(struct request *r);
void users_post(struct request *r);
void users_put(struct request *r);
void users_me_put(struct request *r);
void user_member_put(struct request *r);
void user_delete(struct request *r);

/* virtual_clusters.c */
void clusters_get(struct request *r);
void cluster_get(struct request *r);
void skus_get(struct request *r);

/* signin.c */
void login_post(struct request *r);

/* token_routes.c */
void logout_delete(struct request *r);
void tokens_get(struct request *r);
void token_check_get(struct request *r);
void application_post(struct request *r);
void token_delete(struct request *r);
