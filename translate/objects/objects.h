#pragma once
/*
 * The variables of the templates by subject, and checks of a job with the facts about its user.
 *
 * Thread: any
 */
#include "translate/render/bindings.h"

extern const struct variable_group FRAMEWORK_VARIABLES, ROLE_VARIABLES, RUNTIME_VARIABLES,
    ENV_VARIABLES, STORAGE_VARIABLES, CODE_VARIABLES, SECRET_VARIABLES;

/* Checks the volumes that the pods of the job name against the grants of the user.  -1 and *e
 * (403). */
int raw_volumes_check(const struct scope *s, struct err *e);
/* Writes the roles that have a pod of their own: s->raw_text, out->check. -1 and *e. */
int raw_roles_write(struct scope *s, struct objects *out, struct err *e);
/* Sets s->mounts. -1 and *e: 404, 400. */
int storages_resolve(struct scope *s, struct err *e);
/* Checks the path of the code, after storages_resolve. -1 and *e: 400. */
int code_check(const struct scope *s, struct err *e);
int64_t role_shm_mb(const struct scope *s);
