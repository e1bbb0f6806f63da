#pragma once
/*
 * The input of a translation besides the job: settings of the installation, facts about cluster
 * and user, marks of a submission.  Texts are borrowed.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/doc/tree.h"
#include "base/err.h"
#include "base/image/image.h"
#include "base/object.h"

struct hived; /* translate/hived/hived.h */
struct hived_status;

/* PROFILE_RESTRICTED is PROFILE_PLAIN with the overlay restricted.yaml, and without what Pod
 * Security `restricted` forbids. */
enum profile { PROFILE_PLAIN, PROFILE_OPENPAI, PROFILE_RESTRICTED, PROFILES };
extern const char *const PROFILE_NAMES[PROFILES + 1]; /* the last one is NULL */

/* Where extras.results are: in the user's first default storage that tasks can write to, in a
 * directory of the only machine, nowhere. */
enum results_place { RESULTS_IN_STORAGE, RESULTS_ON_MACHINE, RESULTS_NOWHERE };

/* Default image of the init container. */
#define RUNTIME_IMAGE "rest-lit/pai-runtime:0.2.0"

/* Defaults of installations with HiveD: the scheduler, and the variables that list the devices
 * of a container. */
#define HIVED_SCHEDULER  "hivedscheduler"
#define HIVED_DEVICE_ENV "NVIDIA_VISIBLE_DEVICES,HIVED_VISIBLE_DEVICES"

/* The ConfigMap whose `ca.crt` pods trust when they upload output, and the audience of the token
 * that they send. */
#define OUTPUT_CA       "rest-lit-output-ca"
#define OUTPUT_AUDIENCE "rest-lit-output"

/* pai-runtime in a ConfigMap, for one architecture. The name contains a hash of the program, so the
 * ConfigMap never changes and pods of older jobs keep theirs. */
struct runtime_program {
	const char *configmap;    /* name: pai-runtime-amd64-0123456789abcdef */
	const char *arch;         /* as in the label kubernetes.io/arch of nodes: amd64 */
	const char *architecture; /* as `uname -m` prints it: x86_64 */
	const char *sha256;       /* of the program, hex */
	struct span base64;       /* the program */
};

enum { RUNTIME_PROGRAMS = 2 };

/* Settings of an installation. The texts must live as long as the translator.
 * translate_settings_default() fills in every field. */
struct settings {
	enum profile profile;
	const char *namespace_name;     /* of the jobs: "default" */
	const char *runtime_image;      /* of the init container, if pai-runtime comes by image */
	const char *runtime_init_image; /* if not: of the init container; "": the job's own */
	struct runtime_program program[RUNTIME_PROGRAMS]; /* if not: the ConfigMaps */
	size_t n_programs;               /* 0: by image; 2: a shell of the init image chooses */
	const char *runtime_pull_secret; /* "" for none */
	const char *service_account;     /* of the pods: "runtime-account" */
	const char *apiserver_uri;       /* KUBE_APISERVER_ADDRESS; "" in plain */
	const char *rest_server_uri;     /* REST_SERVER_URI */
	const char *output_url;          /* PAI_OUTPUT_URL; "": pods upload no output */
	const char *device;              /* resource name of the accelerator: nvidia.com/gpu */
	const char *fs_uri;              /* PAI_DEFAULT_FS_URI of v1 jobs; "" for none */
	bool hived;                      /* the scheduler is HiveD: all facts will have `hived` */
	const char *hived_scheduler;     /* name of the HiveD scheduler: "hivedscheduler" */
	const char *hived_device_env;    /* names of variables, separated by commas */
	int64_t port_start, port_end;    /* ports are taken from start <= p < end */
	bool priority_class;             /* make a PriorityClass per job */
	enum results_place results;
	bool fetch_code;        /* v1: copy codeDir from HDFS before the command */
	size_t max_command;     /* bytes of USER_CMD after escaping: 131071 less "USER_CMD=" */
	size_t max_rendered;    /* bytes of all commands after rendering: 1 MiB */
	size_t max_object;      /* bytes of one object: 1408 KiB, see max-object */
	size_t max_annotations; /* bytes of all annotations of the Framework: 248 KiB */
	size_t max_env_inline; /* bytes of environment above which the common list moves: 256 KiB */
	int64_t max_roles, max_instances, max_tasks; /* 256, 10000, 20000 */
	int64_t max_duration_s; /* of jobs that ask for none; none may ask for more.  0: no limit */
	struct budget budget;
};
void translate_settings_default(struct settings *s);

/* Templates that replace shipped ones by name; a NULL name ends the list. */
struct template_file {
	const char *name; /* "taskrole.yaml" */
	struct span text;
};

/* Features that profile plain omits and a job may request in extraContainerOptions if they are
 * granted. Profile openpai has all but infiniband in every pod, restricted refuses all. */
enum grant { GRANT_FUSE = 1, GRANT_HOST_NETWORK = 2, GRANT_INFINIBAND = 4 };
enum { GRANT_BITS = 3 };
extern const char *const GRANT_NAMES[GRANT_BITS]; /* by bit */
unsigned allocation_named(struct span name);

struct storage_fact {
	struct span name; /* also the name of the claim */
	bool is_default, share, read_only;
};

/* A directory, with all below it, that pods of Kubernetes may mount. */
struct directory_fact {
	struct span source; /* /DIR of the node or nfs://SERVER/DIR, without a slash at the end */
	bool read_only;
};

/* Facts about the cluster and the user. */
struct facts {
	bool any_virtual_cluster;
	const struct span *virtual_clusters;
	size_t n_virtual_clusters;
	const struct storage_fact *storages; /* permitted to the user */
	size_t n_storages;
	const struct directory_fact *directories; /* likewise */
	size_t n_directories;
	const struct node *extension; /* the extension of the user, a map, or NULL */
	unsigned grants;              /* enum grant */
	const struct node *pod_names; /* a list of text: podMetadata of the file; NULL: none */
	const struct node *queues;    /* virtualClusters of the file, if it is a map; else NULL */
	const struct hived *hived;
	const struct hived_status *hived_status; /* NULL: unknown */
	int64_t submitted_ms;                    /* submission time, milliseconds since the epoch */
	/* Of job.code; parts 0: not known. */
	struct code_fact {
		int64_t parts; /* ConfigMaps with it; NAME-0, NAME-1, ... of code_object_name */
		int64_t bytes; /* of its files */
	} code;
	const char *key_seed; /* 64 random hex digits, a secret, for job_needs_key; else NULL */
};

/* Marks of the objects of one submission; NULL for `rest-lit translate`. */
struct submission_mark {
	const char *submission; /* 32 hex digits, random */
	const char *instance;   /* of the installation */
	/* annotations of the Framework rest-lit/idempotency, rest-lit/request-id; NULL: none */
	const char *idempotency, *request;
	const char *tags; /* annotation rest-lit/tags; NULL: none */
	const char *hold; /* annotation rest-lit/hold; NULL: the job is started */
	bool webhook;     /* the end of the job will be reported */
	bool ordered;     /* the Framework is completed by a PATCH, without dependents, too */
	bool at_once;     /* all objects are created together */
};
