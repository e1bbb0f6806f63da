#pragma once
/* Shared by the checks. */
#include "server/check/check.h"

#define CONTROLLER_NAMESPACE "frameworkcontroller"
#define CONTROLLER_CONFIGMAP "frameworkcontroller"

/* Sends a request and waits for its answer, which lives in the arena. */
const struct store_reply *check_ask(struct check_session *c, struct store_request r);
/* A GET; space NULL: the namespace of the jobs. */
const struct store_reply *check_get(struct check_session *c, enum object_kind kind,
                                    const char *name, const char *space);
/* Reports that the last answer tells nothing; file: in k8s/deploy, has the right to look, or NULL.
 */
void check_cannot_look(struct check_session *c, const char *file);

/* Returns 1 if the API server serves the version of the group, 0 if not, -1 if it does not tell;
 * appends "v1, v2", those that it serves. */
int check_versions(struct check_session *c, const char *group, const char *version,
                   struct str *served);

/* The time of the API server, in milliseconds since 1970. */
int64_t check_now_ms(const struct check_session *c);
/* The Lease of `rest-lit controller`. */
enum lease_state { LEASE_NONE /* or it cannot be read */, LEASE_OLD, LEASE_HELD };
struct check_leader {
	enum lease_state state;
	const char *holder;             /* "" if it was given back */
	int64_t acquired_ms, renewed_s; /* since 1970; ago */
};
/* Asks for it once. */
const struct check_leader *check_leader(struct check_session *c);

/* ---- the checks ---- */
check_item check_program, check_directory, check_database, check_resources, check_sandbox,
    check_images;
check_item check_api, check_clock, check_login_token, check_rights, check_frameworks, check_output;
check_item check_kueue;
check_item check_controller, check_controller_codes;
check_item check_hand_back; /* of FrameworkController 1.0.1: its losses */
check_item check_pod_security, check_account, check_exit_spec, check_priority_class, check_runtime;
