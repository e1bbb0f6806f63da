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
	ANSWER_BACKUP,
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
handler info_get, authn_get, index_get, healthz_get, readyz_get;

/* web.c */
handler web_get;

/* submit.c; submit_may runs before the body */
handler submit_v2, submit_v1, submit_may;

/* job_list.c */
handler jobs_get;

/* job_show.c */
handler job_get, job_probe, job_task_get, attempts_health, attempts_get, attempt_get, config_get,
    ssh_get;

/* job_watch.c */
handler jobs_watch, job_watch;

/* job_change.c */
handler execution_put, tag_edit, job_delete, scale_patch;

/* job_events.c */
handler events_get;

/* job_logs.c */
handler logs_get, log_get;

/* openapi.c */
handler openapi_get;

/* schemas.c */
handler schemas_get;

/* job_machine.c */
handler machine_get;

/* backup.c */
handler backup_get;

/* user_routes.c */
handler user_get, users_get, storages_get, storage_get, groups_get, alerts_get, nodes_get, pods_get;

/* user_edit.c; users_may and users_may_admin check before the body whether users can be changed,
 * and by this principal */
handler users_may, users_may_admin, users_post, users_put, users_me_put, user_member_put,
    user_delete;

/* virtual_clusters.c */
handler clusters_get, cluster_get, skus_get;

/* signin.c */
handler login_post;

/* token_routes.c */
handler logout_delete, tokens_get, token_check_get, application_post, token_delete;
