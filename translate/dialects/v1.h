#pragma once
/* What the files of the first generation share.  For translate/ only. */
#include "translate/dialects/reading.h"

/* The environment of one role: jobEnvs, env of the job, env of the role; a later one wins. */
void v1_env_read(struct reading *r, struct role *role, const struct path *p, const struct node *n);

/* dataDir, outputDir, codeDir with their $PAI_ names filled in. */
void v1_directories_read(struct reading *r);

/* What stands before every command: HOST_LIST by number of the role, and the code. */
struct span v1_command_prefix(struct reading *r);

/* min_failed and min_succeeded of all roles, out of their own and
 * killAllOnCompletedTaskNumber.  Those that a role does not give are V1_NOT_GIVEN. */
enum { V1_NOT_GIVEN = INT32_MIN };
void v1_completion_done(struct reading *r);
