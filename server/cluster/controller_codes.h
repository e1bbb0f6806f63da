#pragma once
/*
 * Exit codes of pai-runtime that FrameworkController does not know.  It retries tasks by its own
 * configuration, so for such a code the retry rules of the exit specification have no effect. Pure.
 *
 * Thread: any
 */
#include "base/str.h"
#include "server/config/exit_spec.h"

#define CONTROLLER_NAMESPACE "frameworkcontroller"
#define CONTROLLER_CONFIGMAP "frameworkcontroller"
#define CONTROLLER_MEND                                                                            \
	"kubectl apply -f k8s/deploy/options/frameworkcontroller/config.yaml, then kubectl -n "    \
	"frameworkcontroller "                                                                     \
	"rollout restart statefulset/frameworkcontroller"

/* Returns true if the exit specification has the code as one of pai-runtime. */
bool controller_code_is_of_runtime(const struct exit_spec *s, int64_t code);
/* Appends the codes ("248, 250") that the podFailureSpec in this ConfigMap (valid JSON) lacks;
 * nothing if it cannot be read. */
void controller_codes_lacking(struct str *out, struct span configmap, const struct exit_spec *s);
