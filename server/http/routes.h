#pragma once
/*
 * Every route, in one table.  docs/ROUTES.md, the text at / and /openapi.json (openapi.h) are made
 * from it.
 */
#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"
#include "server/http/request.h"

/* Who may: anyone; who is logged in; the same, but not with an application token (403); who is
 * logged in, and anyone who sends ?token=, which the handler checks; who is logged in, or with
 * --compat openpai sends no token, and r->principal is NULL; a task's pod (uploads.h). */
enum route_auth { AUTH_NONE, AUTH_USER, AUTH_PERSON, AUTH_LINK, AUTH_V1, AUTH_POD };
/* What it takes: nothing (a body is passed over); a job; a job, also as a form; or a few members,
 * as JSON or as a form (query.h); or the output of a task. */
enum route_body { BODY_NONE, BODY_JOB, BODY_JOB_V1, BODY_FIELDS, BODY_OUTPUT, BODY_MAX };

/* What it answers when all is well, and which refusals are its own: openapi.c has a row for each.
 */
enum route_answer {
	ANSWER_TEXT,
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
	ANSWER_GROUPS,
	ANSWER_LIST,
	ANSWER_NODES,
	ANSWER_STORAGES,
	ANSWER_STORAGE,
	ANSWER_CLUSTERS,
	ANSWER_CLUSTER,
	ANSWER_SKUS,
	ANSWER_MAX
};

/* What one may do with somebody else's job, by --visibility and being an admin. */
enum job_need {
	JOB_ANY,  /* no job */
	JOB_LOOK, /* how it is: whoever is logged in */
	JOB_SEE,  /* what is in it: owner, admin, and with --visibility vc who may use its virtual
	           * cluster, with all everybody; else 403 */
	JOB_OWN,  /* change it: owner and admin, else 403 */
};

typedef void handler(struct request *r);

struct route {
	const char *method; /* "*": any but OPTIONS */
	const char *path;   /* {name} stands for one segment, which the handler finds in r->args */
	handler *handle;
	/* Looks at path and header only, before the body is taken; answers to refuse.  May be NULL.
	 */
	handler *before;
	enum route_auth auth;
	enum route_body body;
	enum route_answer answer;
	const char *doc;
	enum job_need need; /* of the job in its path */
};

extern const struct route ROUTES[];
extern const size_t N_ROUTES;

/*
 * The route of a request, or NULL.  `path` is as sent: a leading /rest-server and one trailing
 * slash are passed over, HEAD is taken as GET, and the segments for {name} are decoded into args
 * (in the arena).  Empty segments, "." and "..", and in segments what decodes to NUL, "/" or no
 * UTF-8, match nothing.
 */
const struct route *route_find(const char *method, struct span path, struct arena *a,
                               struct span args[static ROUTE_ARGS]);

/* The same, where there is one route. */
const struct route *route_only(const struct route *route, const char *method, struct span path);

/* Is it one of the API v1? */
bool route_is_v1(const struct route *route);

/* Does its path name a user, as the first of its segments? */
bool route_names_user(const struct route *route);

/* A path without a leading /rest-server and one trailing slash. */
struct span route_strip(struct span path);

/* Its method, for people: "any" for "*". */
const char *route_method(const struct route *route);

/* "GET, HEAD, OPTIONS" for a path; leaves *out empty if no route has it. */
void route_methods(struct str *out, struct span path, struct arena *a);

/* docs/ROUTES.md */
void routes_page(struct str *out);
