#pragma once
/*
 * Logs of tasks.  Begin with job_logs.c: it gives signed links to logs and opens them;
 * log_read.c streams the log of a pod, or answers with the kept end of the output; uploads.c takes
 * that end from the pods, output_text.c chooses what is kept, output_configmaps.c stores it.
 *
 * This header is for other folders: the route of --output-listen, the only one there.  Pods upload
 * the end of their output when their task has ended:
 *
 *	PUT /api/v2/task-output?exitCode=N&dropped=N    Authorization: Bearer TOKEN
 *
 * TOKEN is a service account token for the audience rest-lit-output, bound to the pod.  A
 * TokenReview validates it and names the pod, which must be the one in the status of its Framework,
 * by uid.  The server keeps the output in ConfigMaps and limits the outputs of a job
 * together.  Uploads have a loop, thread, listener and store of their own, so that they do not
 * delay other requests.
 *
 * Thread: loop
 */
#include "server/http/query.h"
#include "server/http/route.h"

enum {
	OUTPUT_CONTENT_MAX = 1 << 20, /* bytes of output in one upload */
	OUTPUT_FRAMES_MAX = 16384,
	OUTPUT_FRAME_HEAD = 8,
	OUTPUT_TEXT_MAX = OUTPUT_CONTENT_MAX + OUTPUT_FRAMES_MAX * OUTPUT_FRAME_HEAD,
	OUTPUT_PACKED_MAX = 512 << 10, /* bytes of a body, and of an output that is kept */
};

struct uploads;

struct uploads *uploads_new(void);
/* Frees it when all requests have ended.  NULL is allowed. */
void uploads_free(struct uploads *u);

extern const struct route UPLOAD_ROUTE;
/* Checks the token, before the body is read.  true: r is answered (401, 403, 429, 503).  false: r
 * is suspended, and will be answered, or request_identified(r) called. */
bool uploads_begin(struct request *r);

/* Handlers: job_logs.c */
handler logs_get, log_get;
extern const struct parameter LOG_LINKS[], LOG_CONTENT[];
