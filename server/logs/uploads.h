#pragma once
/*
 * The route of --output-listen, the only one there: pods upload the end of their output when their
 * task has ended.
 *
 *	PUT /api/v2/task-output?exitCode=N&dropped=N    Authorization: Bearer TOKEN
 *
 * TOKEN is a service account's of the audience rest-lit-output, bound to the pod; a TokenReview
 *says whether it is good, and of which pod.  The pod must be the one that the status of its
 *Framework names, by uid.  What is kept is an immutable ConfigMap of the Framework (output_text.h),
 *one for each pod; the outputs of a job together have a bound (output_text.h).
 *
 * All of it belongs to one loop, which has its own thread, listener and store: uploads cannot be in
 * the way of other requests.
 */
#include "server/http/request.h"

struct loop;
struct route;
struct uploads;

/* Of the loop that shall take them. */
struct uploads *uploads_new(void);
/* All requests have ended.  NULL is nothing. */
void uploads_free(struct uploads *u);

extern const struct route UPLOAD_ROUTE;
/* Before the body is taken: whose token is it?  true: r has been answered (401, 403, 429, 503).
 * false: it waits; it will be answered, or intake_known(r) called. */
bool uploads_begin(struct request *r);
/* docs/ROUTES.md: the part about it. */
void uploads_page(struct str *out);
