#pragma once
/*
 * A job as one typed structure, which every dialect fills and every template reads: numbers
 * checked, defaults filled in, names converted, commands rendered. Lives in the arena of the
 * request. Immutable after job_read.
 *
 * Thread: any
 */
#include "base/doc/tree.h"
#include "translate/job/dialect.h"
#include "translate/job/settings.h"

/* An environment variable from the job. */
struct env_var {
	struct span name;  /* [A-Za-z_][A-Za-z0-9_]* */
	struct span value; /* as written; dollars not yet escaped */
};

struct port_request {
	struct span label;
	int64_t count;
};

/* A volume that needs a grant, which job_build checks: the name of a claim, or a directory, as
 * `/DIR` of the node or `nfs://SERVER/DIR`, without `.`, `..` and empty components. */
struct raw_volume {
	bool claim;
	bool read_only;
	struct span source;
	struct place where;
};

/* A label or annotation with a domain, which the file of --facts must allow: else job_warn names
 * it, and job_build leaves it out. */
struct raw_key {
	struct span name;
	struct place where;
};

/*
 * The members that a role adds to the pod of taskrole.yaml, for dialects whose roles are pods of
 * Kubernetes: metadata (labels, annotations) and spec (containers, initContainers, volumes, ...),
 * only what may be kept.  The first container is called `app` and has no image, command or args:
 * these are in the role.  Members of taskrole.yaml win; lists are joined, containers by name.
 */
struct raw_pod {
	const struct node *tree;
	const struct raw_volume *volumes;
	size_t n_volumes;
	const struct raw_key *keys;
	size_t n_keys;
};

struct role {
	struct span name;        /* as submitted */
	const char *object_name; /* converted: [a-z0-9]{1,63}, unique in the job */
	const char *variable;    /* the name as [A-Za-z0-9_]+, for names of variables */
	int64_t instances;
	int64_t min_failed; /* effective: default filled in; -1 never */
	int64_t min_succeeded;
	bool min_failed_given; /* written in the job; v1 jobs see it in their environment */
	bool min_succeeded_given;
	bool task_fancy_retry;
	int64_t task_retry_max;
	int64_t cpu, memory_mb, gpu;
	struct place needs_where; /* of what it asks for; line 0: as `where` */
	int64_t shm_mb;           /* as declared; 0 if not (the volume then has 512, v1: 64) */
	unsigned wants;           /* enum grant: requested features, and their places */
	struct place wants_where[GRANT_BITS];
	const struct port_request *ports; /* with ssh and http; in the annotation's order */
	size_t n_ports;
	struct span image;
	bool image_auth;           /* the image's prerequisite has `auth` */
	struct span command;       /* rendered and trimmed; dollars not yet doubled */
	const struct env_var *env; /* v2: extras.env; v1: the role's and the job's; MxJob: DMLC_* */
	size_t n_env;
	const struct raw_pod *pod; /* NULL: all of the pod comes from taskrole.yaml */
	size_t index;              /* position in the job, from 0 */
	struct place where;
};

/* A login for a registry, placeholders filled in. */
struct registry_login {
	struct span registry, username, password;
};

struct storage_request {
	struct span name;
	struct span mount_path; /* "" for the default /mnt/NAME */
	struct place where;
	struct place mount_where;
};

/* A name in `extras.hivedScheduler`; n == 0: not given. */
struct hived_name {
	struct span name;
	struct place where;
};

/* ... for one role. */
struct hived_role {
	struct hived_name sku_type, pinned_cell, group;
};

/* Priorities of HiveD. */
enum { HIVED_OPPO = -1, HIVED_TEST = 10, HIVED_HIGHEST = 126 };

/* ... for the job: switches that HiveD knows by these names. */
enum { HIVED_OPTIONS = 3 };
extern const char *const HIVED_OPTION_NAMES[HIVED_OPTIONS];

struct hived_request {
	int64_t priority;
	struct span priority_class;               /* as written; "" if not given */
	const struct node *option[HIVED_OPTIONS]; /* a boolean; NULL: not given */
	struct hived_role *roles;                 /* one per role of the job, or NULL */
};

struct job {
	const struct dialect *dialect;
	const char *user;
	struct span name;
	struct place name_where;
	struct span id; /* user~name */
	char hash[33];  /* MD5 of id: metadata.name of the Framework */
	struct span virtual_cluster;
	struct place virtual_cluster_where;
	struct place jobssh_where; /* of `jobssh: true`; line 0: not requested */
	struct place sshd_where;   /* of what starts sshd in a task; line 0: nothing does */
	bool needs_key;            /* extras.distributed: tasks log in to each other */
	struct span queue;         /* extras.queue; n == 0: not given */
	struct place queue_where;
	bool fancy_retry;
	int64_t retry_max;
	struct place retry_where; /* of the member that gives it; line 0 if it is absent */
	bool gang;
	int64_t max_duration_s; /* extras.maxDurationSec; 0: not given */
	struct role *roles;
	size_t n_roles;
	int64_t total_tasks, total_gpu;
	struct span config; /* the submitted text with its secrets redacted: annotation `config` */
	bool redacted;      /* there were secrets */
	const struct node *secrets; /* a map, or NULL */
	bool has_auth;
	const struct registry_login *logins; /* one per registry, the later one wins */
	size_t n_logins;
	bool storages_default; /* the list is empty: the user's default storages */
	const struct storage_request *storages;
	size_t n_storages;
	const struct hived_request *hived; /* NULL: not given */
	/* extras.code: the archive that the tasks find unpacked at `path`, their working
	 * directory. */
	struct job_code {
		struct span sha256; /* n == 0: none */
		struct span path, commit;
		bool changed;
		struct place where;
	} code;
	/* extras.results: a directory that outlives the tasks, mounted at `path`.  link: its name
	 * in the working directory, which is that of the image; "": none is needed. */
	struct job_results {
		bool wanted;
		struct span path, link;
		struct place where;
	} results;
	const struct node *extras; /* as written; NULL: absent */
	const struct node *v2;     /* the document of a v2 job; NULL for other dialects */
	/* v1 only */
	struct span data_dir, output_dir, code_dir; /* $PAI_... filled in; "" if absent */
	struct span gpu_type;                       /* a label value; "" if absent */
	int64_t kill_all;                           /* killAllOnCompletedTaskNumber; 0 if absent */
};

bool job_has_secrets(const struct job *job); /* the arena must be wiped */

/* Returns true if the extension of the user has a key pair, `jobSSH`.  Without the public key,
 * tasks cannot log in to each other. */
bool facts_have_keys(const struct facts *f);
/* Returns true if the tasks of the job log in to each other and the user has no key pair: then
 * pai-runtime makes one from facts.key_seed. */
bool job_needs_key(const struct job *job, const struct facts *f);
