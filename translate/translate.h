#pragma once
/*
 * The door of the translation: the text of a job and facts about the cluster in,
 * Kubernetes objects out.  PURE: no clock, files, environment, network or log;
 * the same input gives the same bytes.
 *
 *	translator_new    once, at start: settings and templates, compiled
 *	job_read          text -> struct job: everything that can be said without facts
 *	job_build         struct job + facts -> the objects as text
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/image/image.h"
#include "base/object.h"
#include "base/tree.h"

struct job;   /* translate/job.h */
struct hived; /* translate/hived/hived.h */
struct hived_status;
struct translator; /* settings and compiled templates; read-only, shared by all threads */

enum profile { PROFILE_PLAIN, PROFILE_OPENPAI };

/* The image of the init container, unless an installation says otherwise. */
#define RUNTIME_IMAGE "rest-lit/pai-runtime:0.1.0"

/* Name of the scheduler, and the variables by which a container sees its devices, where HiveD is
 * used and an installation does not say otherwise. */
#define HIVED_SCHEDULER  "hivedscheduler"
#define HIVED_DEVICE_ENV "NVIDIA_VISIBLE_DEVICES,HIVED_VISIBLE_DEVICES"

/* The ConfigMap in the namespace of the jobs whose `ca.crt` says which server pods trust with their
 * output; the audience of the token that they send it with, good for nothing else. */
#define OUTPUT_CA       "rest-lit-output-ca"
#define OUTPUT_AUDIENCE "rest-lit-output"

/*
 * pai-runtime as it gets into pods without an image: a ConfigMap holds the program.  Its name
 * contains what the program is, so that it never has to be changed: pods of older jobs go on with
 * the one that they name.
 */
struct runtime_program {
	const char *configmap; /* name: pai-runtime-amd64-0123456789abcdef; NULL or "": by image */
	const char *arch;      /* as in the label kubernetes.io/arch of nodes: amd64 */
	const char *sha256;    /* of the program, hex */
	struct span base64;    /* the program */
};

/* What an installation decides, the same for all jobs.  Texts are borrowed by translator_new
 * only while it runs.  translate_settings_default() fills in every field. */
struct settings {
	enum profile profile;
	const char *namespace_name;      /* of the jobs: "default" */
	const char *runtime_image;       /* of the init container, if pai-runtime comes by image */
	const char *runtime_init_image;  /* if not: of the init container; "": the job's own */
	struct runtime_program program;  /* if not: the ConfigMap */
	const char *runtime_pull_secret; /* NULL or "" for none */
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
	bool fetch_code;                 /* v1: copy codeDir from HDFS before the command */
	size_t max_command;     /* bytes of USER_CMD after escaping: 131071 less "USER_CMD=" */
	size_t max_rendered;    /* bytes of all commands after rendering: 1 MiB */
	size_t max_object;      /* bytes of one object: 1408 KiB, see max-object */
	size_t max_annotations; /* bytes of all annotations of the Framework: 256 KiB */
	size_t max_env_inline; /* bytes of environment above which the common list moves: 256 KiB */
	int64_t max_roles, max_instances, max_tasks; /* 256, 10000, 20000 */
	struct budget budget;
};
void translate_settings_default(struct settings *s);

/* Templates by name, each replacing the shipped one: NULL-terminated by a NULL name. */
struct template_file {
	const char *name; /* "taskrole.yaml" */
	struct span text;
};

/* Compile everything and check it (variables, functions, overlays, places).  NULL and *e
 * (500, file, line) if a template or a setting is wrong.  Free with translator_free. */
struct translator *translator_new(const struct settings *s, const struct template_file *replace,
                                  struct err *e);
void translator_free(struct translator *t);
const struct settings *translator_settings(const struct translator *t);
/* Some template has the variable job.gpuType; none that is shipped has. */
bool translator_uses_gpu_type(const struct translator *t);

enum dialect {
	DIALECT_AUTO, /* by the document: kind, else protocolVersion, else jobName */
	DIALECT_V1,
	DIALECT_V2
};

/* User names everywhere: [A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])? */
bool user_name_ok(struct span name);

/*
 * Read one job.  The job lives in the arena and refers to `text`.  `user` must be
 * user_name_ok.  Warnings go to `warnings`.  NULL and *e with every violation that
 * was found: 400 InvalidProtocolError (v2) or InvalidParametersError (v1), places set.
 */
struct job *job_read(const struct translator *t, enum dialect d, struct span text, const char *user,
                     struct arena *a, struct notes *warnings, struct err *e);

/* What the profile plain leaves out of pods, and a job may ask for in extraContainerOptions if it
 * is granted; a set.  The profile openpai has all of it in every pod, but for infiniband. */
enum grant { GRANT_FUSE = 1, GRANT_HOST_NETWORK = 2, GRANT_INFINIBAND = 4 };
enum { GRANT_BITS = 3 };
extern const char *const GRANT_NAMES[GRANT_BITS]; /* by bit: as people write them */
unsigned grant_named(struct span name);           /* 0 if there is none */

struct storage_fact {
	struct span name; /* also the claim's name */
	bool is_default, share, read_only;
};

/* What is known of the cluster and the user.  Lives in the arena given to facts_read. */
struct facts {
	bool any_virtual_cluster; /* every well-formed name is allowed */
	const struct span *virtual_clusters;
	size_t n_virtual_clusters;
	const struct storage_fact *storages; /* those that the user may use */
	size_t n_storages;
	const struct node *extension;            /* the user's extension, a map, or NULL */
	unsigned grants;                         /* enum grant */
	const struct hived *hived;               /* NULL: the scheduler is not HiveD */
	const struct hived_status *hived_status; /* NULL: not known */
	int64_t submitted_ms;                    /* submission time, milliseconds since the epoch */
};

/* The facts for one user out of a facts file (JSON or YAML, schema/facts.schema.json).  Empty text:
 * every virtual cluster, no storages, no extension.  -1 and *e: 500. */
int facts_read(struct span text, const char *user, struct arena *a, struct facts *f, struct err *e);

/* Warn of what the job asks for and its user does not have.  For a job that is to be built. */
void job_warn(const struct job *job, const struct facts *f, struct notes *warnings);

/* What marks the objects of one submission; NULL for `rest-lit translate`. */
struct mark {
	const char *submission; /* 32 hex digits, random */
	const char *instance;   /* of this installation */
	/* For the Framework's annotation rest-lit/idempotency; NULL: none. */
	const char *idempotency;
};

/*
 * Write the objects.  With a mark they are as they will be sent: Framework and
 * dependents carry the submission id, dependents an ownerReference whose uid is
 * missing (object.uid_at), and executionType is Create if there are dependents.
 * Without, as `rest-lit translate` prints them.  The texts live in the arena.
 * -1 and *e: 403 (virtual cluster), 404 (storage), 413 (too large), 400.
 */
int job_build(const struct translator *t, const struct job *job, const struct facts *f,
              const struct mark *m, struct arena *a, struct objects *out, struct err *e);

/*
 * The objects as people may see them: as job_build writes them without a mark, but that variables
 * of secrets write "******" in their place, in a form that the API server takes: such Secrets are
 * valid, and hold nothing.
 */
int job_preview(const struct translator *t, const struct job *job, const struct facts *f,
                struct arena *a, struct objects *out, struct err *e);

/* The ConfigMap with pai-runtime, which all jobs share.  false if it comes by image.  The text
 * lives in the arena. */
bool runtime_object(const struct translator *t, struct arena *a, struct object *out);

/* Short facts about a job for replies and the log; borrowed from the job. */
const char *job_user(const struct job *job);
struct span job_name(const struct job *job);
const char *job_hash(const struct job *job); /* metadata.name of the Framework */
bool job_has_secrets(const struct job *job); /* the arena must be wiped */

/* The environment of the containers: for docs/TRANSLATION.md and for tests. */
enum variable_maker {
	BY_REST_LIT,   /* in the pod template, when the job is submitted */
	BY_RUNTIME,    /* pai-runtime, when the task runs */
	BY_CONTROLLER, /* FrameworkController, when it makes the pod */
	BY_KUBERNETES, /* the kubelet */
	MAKER_MAX
};

struct container_variable {
	enum variable_maker maker;
	/* $role is the name of a role, $index of a task in it, $label of a port, $number the
	 * position of a role in the job, $device a name in --hived-device-env */
	const char *name;
	const char *generations; /* "1" the first guide, "2" kube-runtime, "3" protocol 2, "ours" */
	const char *where;       /* the containers that see it */
	const char *doc;         /* its value; "v1" is for jobs of the first two generations */
};
extern const struct container_variable CONTAINER_VARIABLES[];
extern const size_t N_CONTAINER_VARIABLES;

/* The generated pages docs/TRANSLATION.md and docs/WARNINGS.md. */
void translation_page(struct str *out);
/* All shipped templates, one after the other, each under its name. */
void templates_page(struct str *out);
void warnings_page(struct str *out);
