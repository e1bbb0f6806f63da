#pragma once
/*
 * Which exit codes of pai-runtime FrameworkController knows.  It tries a task again by its own
 * configuration (k8s/frameworkcontroller/config.yaml): of a code that it does not know, what the
 * exit specification says of trying again does not happen.  Pure.
 */
#include "base/json/scan.h"
#include "server/exit_spec.h"

/* The ConfigMap that the configuration is in, with the manifests of k8s/frameworkcontroller/. */
#define CONTROLLER_NAMESPACE "frameworkcontroller"
#define CONTROLLER_CONFIGMAP "frameworkcontroller"
#define CONTROLLER_MEND                                                                            \
	"kubectl apply -f k8s/frameworkcontroller/config.yaml, then kubectl -n "                   \
	"frameworkcontroller "                                                                     \
	"rollout restart statefulset/frameworkcontroller"

/* "248, 250": what the podFailureSpec in this ConfigMap (JSON, valid) lacks.  Appends nothing if it
 * lacks nothing, or cannot be read. */
void controller_codes_lacking(struct str *out, struct span configmap, const struct exit_spec *s);
/* A Framework (JSON, valid) whose latest attempt has ended with such a code, and the controller
 * says that it does not know it. */
bool controller_code_unknown(struct span framework, const struct exit_spec *s, int64_t *code);
