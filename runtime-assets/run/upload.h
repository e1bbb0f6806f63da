#pragma once
/*
 * Handing the end of a task's output over to rest-lit when the task has ended, since its pod is
 * deleted then, and with it the logs:
 *
 *	PUT $PAI_OUTPUT_URL/api/v2/task-output?exitCode=N&dropped=N
 *
 * with the frames of tail.h and the token in /var/run/secrets/rest-lit.
 */
#include <stdbool.h>
#include <stdint.h>

#include "runtime-assets/layout.h"
#include "runtime-assets/run/logs.h"

struct upload {
	const char *url; /* "https://HOST[:PORT]"; http only to this machine itself */
	const struct layout *at;
	struct logs *logs;  /* whose tail it is, and where a failure is said */
	int code;           /* exit code of the container */
	int64_t until_ms;   /* on clock_ms(): when to give up */
	int64_t attempt_ms; /* how long one attempt may take */
};

/* Try until it is stored, refused for good, or too late.  Was it stored?  SIGTERM, which must be
 * blocked, ends it after the current attempt. */
bool upload_output(const struct upload *u);

/* Sleep until then; true at once if SIGTERM, which must be blocked, comes or is pending. */
bool upload_pause(int64_t until_ms);
