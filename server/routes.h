#pragma once
/* Every route, in one table.  docs/ROUTES.md is made from it. */
#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"
#include "server/request.h"

enum auth { AUTH_NONE, AUTH_USER };

typedef void handler(struct request *r);

struct route {
	const char *method;
	const char *path; /* {name} stands for one segment, which the handler finds in r->args */
	handler *handle;
	/* Looks at path and header only, before the body is taken; answers to refuse.  May be NULL.
	 */
	handler *before;
	enum auth auth;
	bool body; /* takes a job as its body */
	const char *doc;
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

/* "GET, HEAD, OPTIONS" for a path; leaves *out empty if no route has it. */
void route_methods(struct str *out, struct span path, struct arena *a);

/* docs/ROUTES.md */
void routes_page(struct str *out);
