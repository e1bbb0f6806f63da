#pragma once
/*
 * `pai-runtime init`: begin with the table of steps in init.c.  code.c unpacks the code, job.c
 * reads the job and fills in references, framework.c reads the Framework, barrier.c waits for all
 * tasks, env.c writes the variables, distributed.c those of distributed training, ports.c is a
 * check; the steps `plugins` and `command` are in ../plugins. A step returns 0, or the exit code of
 * the init container and *e.
 *
 * Thread: main
 */
#include "base/doc/tree.h"
#include "runtime-assets/common/files.h"
#include "runtime-assets/common/say.h"

/* Exit codes of the init container: a contract with the exit specification. */
enum init_exit {
	INIT_FAILED = 1,
	INIT_API_TROUBLE = 250, /* the API server did not answer to the end: transient */
	INIT_NOT_ALL = 251,     /* not all tasks had an address in time: transient */
	INIT_PERMANENT = 252,   /* 404, 401, 403, bad configuration */
	INIT_PORT_CONFLICT = 253
};

/*
 * The job as submitted (protocol version 1 or 2; secrets redacted), seen from the role of this
 * task.
 */
struct init_job {
	struct doc doc;               /* root is null if there is none */
	const struct node *secrets;   /* mounted secrets; NULL */
	const struct node *extension; /* mounted user extension; NULL */
	const char *role_name;        /* PAI_CURRENT_TASK_ROLE_NAME: key in taskRoles; NULL */
	const struct node *role;      /* its entry in taskRoles; NULL */
};

/* ---- framework.c ----------------------------------------------------------------------------- */

enum {
	FRAMEWORK_MAX = 8 << 20, /* bytes of the object as the API server sends it */
	STATUS_MAX = 32 << 20    /* bytes of the compressed status, inflated */
};

/* Whence the ports of a task come; both NULL: they are not known. */
struct port_source {
	const char *uid;   /* of its pod: portspec_port computes them */
	const char *given; /* on one machine: the numbers with commas, in the order of the labels */
};

struct init_task {
	int64_t index;
	const char *pod_ip, *host_ip, *pod_uid; /* NULL: not known; never "" */
	struct port_source port;
	bool deletion_pending;
};

struct init_role {
	const char *name;       /* as in Kubernetes: [a-z0-9]+ */
	bool in_spec;           /* the specification still has it */
	int64_t number;         /* its position there, from 0; -1 if !in_spec */
	int64_t task_number;    /* of the specification; 0 if !in_spec */
	bool host_network;      /* of the pod template */
	const char *ports;      /* annotation rest-server/port-scheduling-spec, JSON; NULL */
	struct init_task *task; /* of the status, in its order */
	size_t n;
};

struct init_framework {
	const char *config;     /* metadata.annotations.config: the job as submitted; NULL */
	struct init_role *role; /* those of the status in its order, then those only in the spec */
	size_t n;
	int64_t total;           /* sum of the task numbers of the specification */
	const struct node *root; /* the object with its status decompressed */
};

/* Reads a Framework into the arena.  Does not trust it: every type is checked, sizes are bounded,
 * and members of another type are absent.  Pure.  NULL and *e. */
struct init_framework *framework_read(struct span json, struct arena *a, struct err *e);

/* Returns the number of tasks that have a pod with an address: of each role, the first min(status,
 * taskNumber) that are not being deleted.  All are ready when it is `total`. */
int64_t framework_ready(const struct init_framework *f);

/* The address for other tasks: of the host for host networks, else of the pod; NULL: not known.
 * (The host is known before the pod has an address and is not used until then.) */
const char *framework_address(const struct init_role *r, const struct init_task *t);

/* NULL if there is none. */
const struct init_role *framework_role(const struct init_framework *f, const char *name);
const struct init_task *framework_task(const struct init_role *r, int64_t index);

/* Inflates base64 of gzip, at most max bytes, into the arena.  -1 and *e. */
int gunzip_base64(struct span text, size_t max, struct arena *a, struct span *out, struct err *e);

/* ---- job.c ----------------------------------------------------------------------------------- */

/* Reads the config (at most FRAMEWORK_MAX bytes) into doc and finds `role` by role_name.  *problem
 * says why it cannot be used; root is null then.  Version 1 has a list of roles with `name`. */
void job_parse_config(struct init_job *j, struct span config, struct arena *a, struct str *problem);

/* The key of taskRoles whose conversion (lower case, only [a-z0-9]) is this Kubernetes name, with
 * `_` for characters outside of [A-Za-z0-9_]; in the arena.  NULL if there is none. */
const char *job_role_spelling(const struct init_job *j, const char *kubernetes_name,
                              struct arena *a);

/* The prerequisite of this type (NULL: any) and name; NULL if not exactly one. */
const struct node *job_prerequisite(const struct init_job *j, const char *type, struct span name);

/*
 * Replaces `<% $path %>` in the parameters of a plugin.  The path begins with `parameters` or
 * `secrets`, or with `script`, `output` or `data` (the prerequisite of that type that the role
 * names), followed by `.key` and `[n]`; `[n]` equals `.n`.  A key has no `. [ ] < > %` and no
 * control characters.  Scalars are written as ECMAScript does, null is empty.  Inserted text is not
 * scanned again.  The result may hold secrets: use STR_SECRET.
 *
 * -1 and *e, which names the reference and not its value: it leads nowhere, to a map or a list, is
 * not a path, or `out` is full.
 */
int job_fill(const struct init_job *j, struct span text, struct str *out, struct err *e);

/* The same for every text of a tree, at most 4 MiB together; not for keys.  The copy lives in the
 * arena. */
int job_fill_tree(const struct init_job *j, const struct node *in, struct arena *a,
                  struct node *out, struct err *e);

/* Fills in the user's command: replaces only `<% $secrets.path %>`, with nothing if it is absent.
 * -1 and *e: a map or a list; too long. */
int job_fill_secrets(const struct init_job *j, struct span text, struct str *out, struct err *e);

/* ---- steps ----------------------------------------------------------------------------------- */

struct init {
	struct arena *a;
	const struct init_plugins *plugins;
	struct layout at;
	struct str *why;                   /* see init_main; NULL: in the init container */
	bool gang;                         /* GANG_ALLOCATION is "true" */
	const char *role_name;             /* FC_TASKROLE_NAME; NULL in a bare pod */
	int64_t task_index;                /* FC_TASK_INDEX; -1 in a bare pod */
	const char *pod_uid;               /* FC_POD_UID; NULL */
	const char *barrier_ms;            /* option for tests; NULL: the environment decides */
	const struct node *runtime_config; /* RUNTIME_CONFIG of a bare pod; NULL */
	struct init_framework *framework;  /* set by the step `framework`; NULL in a bare pod */
	struct init_job job;               /* set by the step `config` */
	uint16_t *port;                    /* own ports and their labels, set by `environment` */
	const char **port_label;
	size_t n_ports;
	const char *ssh_roles; /* set by `environment`: FC names of the roles, with commas, whose
	                          tasks log in to each other for extras.distributed; NULL: none */
	bool ssh_first;        /* ... this is the first of these tasks */
};

/* The last steps, which plugins/ has: scripts of plugins, user.sh.  0, or the exit code and *e. */
struct init_plugins {
	int (*scripts)(struct init *in, struct err *e);
	int (*command)(struct init *in, struct err *e);
};
extern const struct init_plugins INIT_PLUGINS;

int step_code(struct init *in, struct err *e);
int step_framework(struct init *in, struct err *e);
int step_config(struct init *in, struct err *e);
int step_environment(struct init *in, struct err *e);
int step_ports(struct init *in, struct err *e);

/*
 * The command `init`.  With `why` it runs in a process that goes on as the user's command: on one
 * machine, where the Framework (JSON; NULL: none) is known with all addresses, the work volume is
 * new and has this program, and runtime.d the exit specification.  Returns the exit code of the
 * init container; *why gets its termination message if that is not 0.  Signals end the process as
 * in the container.
 */
int init_main(int argc, char **argv, const struct init_plugins *plugins, const char *framework,
              struct str *why);
