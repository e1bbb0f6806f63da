#pragma once
/*
 * Routes: rows of a table, and the row of a request.  The table of the API, from which
 * docs/ROUTES.md, the text at / and /openapi.json are made, is in server/serve/routes.c; the
 * features declare their handlers in their own headers.
 *
 *	struct span args[ROUTE_ARGS];
 *	const struct route *route = route_find(server->routes, "GET", path, arena, args);
 *	if (route)
 *		route->handle(request);
 *
 * Thread: any
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
/* The body of a route.  NONE: ignored; FIELDS: see query.h; OUTPUT: output of a task; CODE: the
 * archive of a job's code (base/code/code.h), of known length; SESSION: frames of any length, which
 * `before` takes (body_to_fd). */
enum route_body {
	BODY_NONE,
	BODY_JOB,
	BODY_JOB_V1,
	BODY_FIELDS,
	BODY_OUTPUT,
	BODY_CODE,
	BODY_SESSION,
	BODY_MAX
};

/* The right to a job of another user, by --visibility and for admins. */
enum job_need {
	JOB_ANY,  /* no job */
	JOB_LOOK, /* its state: every user */
	JOB_SEE,  /* its content: owner, admin; with --visibility vc the users of its virtual
	           * cluster, with all every user; else 403 */
	JOB_OWN,  /* change it: owner and admin; else 403 */
};

/* Thread: loop. */
typedef void handler(struct request *r);

struct route {
	const char *method; /* "*": any but OPTIONS */
	const char *path; /* {name} is one segment, in r->args; {path} at the end is all the rest */
	const char *operation; /* operationId in /openapi.json, a verb and its object: stopJob */
	handler *handle;
	/* Checks path and head before the body is received; may answer.  May be NULL. */
	handler *before;
	enum route_auth auth;
	enum route_body body;
	const char *answer; /* on success, and the errors: in "answers" of server/openapi.json */
	const char *doc;
	enum job_need need; /* for the job in its path */
};

struct route_table {
	const struct route *row;
	size_t n;
};

/*
 * The route of a request, or NULL.  `path` is as sent: a leading /rest-server and one trailing
 * slash are ignored, HEAD is treated as GET, and the segments for {name} are decoded into args (in
 * the arena).  Empty segments, "." and "..", and segments that decode to NUL, "/" or invalid UTF-8
 * match nothing.  The rest for {path} may be invalid UTF-8: its handler judges it.
 */
const struct route *route_find(const struct route_table *t, const char *method, struct span path,
                               struct arena *a, struct span args[static ROUTE_ARGS]);
bool route_is_v1(const struct route *route);
/* Returns true if the first {name} of the path is {user}. */
bool route_names_user(const struct route *route);
/* A path without a leading /rest-server and one trailing slash. */
struct span route_strip(struct span path);
/* The method as text: "any" for "*". */
const char *route_method(const struct route *route);
/* "GET, HEAD, OPTIONS" for a path; *out stays empty if no route has it. */
void route_methods(const struct route_table *t, struct str *out, struct span path, struct arena *a);
