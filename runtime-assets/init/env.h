#pragma once
/*
 * The variables that tell a task about the others: docs/RUNTIME.md lists them.  Each role of the
 * status in its order, in it each task, in that each label of its ports; then what concerns the
 * own task.  A role whose name in the job is not the one in Kubernetes has each of its variables
 * twice, one behind the other: PAI_HOST_IP_psserver_0 and PAI_HOST_IP_ps_server_0.
 */
#include "runtime-assets/init/init.h"

struct env_text {
	struct str shell; /* lines export NAME='VALUE', with ' as '\'' */
	struct str nul;   /* the same: NAME=VALUE, each ended by a NUL */
};

enum { ENV_TEXT_MAX = 64 << 20 };

/* Write both; fills in->port.  What has to be left out is named in `warnings`.  -1 and *e: the
 * ports of the own role cannot be read, or it is more than ENV_TEXT_MAX bytes. */
int env_write(struct init *in, struct env_text *out, struct notes *warnings, struct err *e);
