#pragma once
/*
 * `pai-runtime init`: one table of steps (init.c), each a function of this type in a file of its
 * own.  A step returns 0, or the exit code of the init container with *e saying why.
 */
#include "runtime-assets/files.h"
#include "runtime-assets/init/framework.h"
#include "runtime-assets/init/job.h"
#include "runtime-assets/layout.h"
#include "runtime-assets/say.h"

/* Exit codes of the init container: part of the contract with the exit specification. */
enum init_exit {
	INIT_FAILED = 1,
	INIT_API_TROUBLE = 250, /* the API server could not be asked, to the end: transient */
	INIT_NOT_ALL = 251,     /* not all tasks came in time: transient */
	INIT_PERMANENT = 252,   /* 404, 401, 403, bad configuration */
	INIT_PORT_CONFLICT = 253,
	INIT_NO_IMAGE = 254
};

struct init {
	struct arena *a;
	struct layout at;
	bool gang;              /* GANG_ALLOCATION is "true" */
	const char *role_name;  /* FC_TASKROLE_NAME; NULL in a bare pod */
	int64_t task_index;     /* FC_TASK_INDEX; -1 in a bare pod */
	const char *pod_uid;    /* FC_POD_UID; NULL if not set */
	const char *barrier_ms; /* option for tests, see barrier.h; NULL: the environment */
	const struct node
	    *runtime_config;         /* RUNTIME_CONFIG of a bare pod, parsed; NULL otherwise */
	struct framework *framework; /* from the step `framework` on; NULL in a bare pod */
	struct job job;              /* from the step `config` on */
	/* Filled by the step `environment`: own ports, for the step `ports`. */
	uint16_t *port;
	const char **port_label; /* beside each port: the name that the job gave it */
	size_t n_ports;
};

/* Each is a step; the order and the names are those of the table in init.c. */
int step_logs(struct init *in, struct err *e);      /* prepare.c: log directory, earlier logs */
int step_clean(struct init *in, struct err *e);     /* prepare.c: the work volume */
int step_install(struct init *in, struct err *e);   /* prepare.c: this program, runtime.d */
int step_framework(struct init *in, struct err *e); /* barrier.c: wait for all, framework.json */
int step_exitspec(struct init *in, struct err *e);  /* prepare.c: copy of the exit specification */
int step_config(struct init *in, struct err *e);    /* config.c: job_config.yaml, in->job */
int step_environment(struct init *in, struct err *e); /* env.c: runtime_env, runtime_env.sh */
int step_ports(struct init *in, struct err *e);       /* ports.c: is one of ours taken? */
int step_image(struct init *in, struct err *e);       /* image.c: does the image exist? */
int step_plugins(struct init *in, struct err *e);     /* plugins.c: scripts before and after */
int step_command(struct init *in, struct err *e);     /* command.c: user.sh */
