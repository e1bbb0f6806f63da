#pragma once
/*
 * translate/: the text of a job and facts about the cluster in, Kubernetes objects out.  Begin
 * here, then job.h and job_read.c.  dialects/ reads jobs, render/ compiles templates, objects/ has
 * the functions behind their variables, hived/ the scheduler HiveD.
 *
 *	struct translator *t = translator_new(&settings, NULL, e);
 *	struct job *job = t ? job_read(t, DIALECTS_ALL, text, "alice", a, warnings, e) : NULL;
 *	struct objects objects;
 *	if (job && job_build(t, job, &facts, NULL, a, &objects, e) == 0)
 *		use(objects.v, objects.n);
 *	translator_free(t);
 *
 * Pure: no clock, files, environment, network or log; the same input gives the same bytes.  Jobs
 * and objects live in the arena.  A translator is immutable, and may be used by any number of
 * threads.
 */
#include "base/arena.h"
#include "base/doc/tree.h"
#include "base/err.h"
#include "base/image/image.h"
#include "base/object.h"

struct job;   /* translate/job/job.h */
struct hived; /* translate/hived/hived.h */
struct hived_status;
struct translator; /* settings and compiled templates; shared by all threads */

enum profile { PROFILE_PLAIN, PROFILE_OPENPAI };

/* Default image of the init container. */
#define RUNTIME_IMAGE "rest-lit/pai-runtime:0.1.0"

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
	const char *configmap; /* name: pai-runtime-amd64-0123456789abcdef */
	const char *arch;      /* as in the label kubernetes.io/arch of nodes: amd64 */
	const char *machine;   /* as `uname -m` prints it: x86_64 */
	const char *sha256;    /* of the program, hex */
	struct span base64;    /* the program */
};

enum { RUNTIME_PROGRAMS = 2 };

/* Settings of an installation. translator_new copies the texts. translate_settings_default()
 * fills in every field. */
struct settings {
	enum profile profile;
	const char *namespace_name;     /* of the jobs: "default" */
	const char *runtime_image;      /* of the init container, if pai-runtime comes by image */
	const char *runtime_init_image; /* if not: of the init container; "": the job's own */
	struct runtime_program program[RUNTIME_PROGRAMS]; /* if not: the ConfigMaps */
	size_t n_programs;               /* 0: by image; 2: a shell of the init image chooses */
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

/* Compiles and checks all templates (variables, functions, overlays, places). NULL and *e (500,
 * file, line) if a template or a setting is wrong. The caller frees it with translator_free. */
struct translator *translator_new(const struct settings *s, const struct template_file *replace,
                                  struct err *e);
void translator_free(struct translator *t);
const struct settings *translator_settings(const struct translator *t);
/* Returns true if a template uses job.gpuType; no shipped one does. */
bool translator_uses_gpu_type(const struct translator *t);

/* Dialects of job files, as bits of a set: the rows of translate/dialects/dialect.c. */
enum {
	DIALECT_V1 = 1,
	DIALECT_V2 = 2,
	DIALECT_MXJOB = 4,
	DIALECT_LAUNCHER = 8,
	DIALECTS_PAI = 3,
	DIALECTS_ALL = 15
};

/* User names: [A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])? */
bool user_name_ok(struct span name);

/*
 * Reads a job in one of the dialects of the set; a set with one dialect decides about documents of
 * any form. The job lives in the arena and refers to `text`. `user` must be user_name_ok. NULL and
 * *e with every violation and its place: 400 and the code of the dialect.
 */
struct job *job_read(const struct translator *t, unsigned set, struct span text, const char *user,
                     struct arena *a, struct notes *warnings, struct err *e);

/*
 * Writes a job of any dialect as a v2 job in YAML.  Properties that v2 cannot express are noted in
 * *lost, with its place in the file; these notes and `warnings`, those of job_read, are comments
 * above the job.  A v2 job has no comments and keeps its secrets.  -1 and *e (400, 413): as a v2
 * job it would be refused.
 */
int job_convert(const struct translator *t, const struct job *job, const struct notes *warnings,
                struct notes *lost, struct str *out, struct err *e);

/* Features that profile plain omits and a job may request in extraContainerOptions if they are
 * granted. Profile openpai has all but infiniband in every pod. */
enum grant { GRANT_FUSE = 1, GRANT_HOST_NETWORK = 2, GRANT_INFINIBAND = 4 };
enum { GRANT_BITS = 3 };
extern const char *const GRANT_NAMES[GRANT_BITS]; /* by bit */
unsigned grant_named(struct span name);

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
	const struct hived *hived;
	const struct hived_status *hived_status; /* NULL: unknown */
	int64_t submitted_ms;                    /* submission time, milliseconds since the epoch */
	const char *key_seed; /* 64 random hex digits, a secret, for job_needs_key; else NULL */
};

/* Returns true if the tasks of the job log in to each other and the user has no key pair: then
 * pai-runtime makes one from facts.key_seed. */
bool job_needs_key(const struct job *job, const struct facts *f);

/* Warns of requests that the extension of the user cannot satisfy. Called for jobs that are to be
 * built. */
void job_warn(const struct job *job, const struct facts *f, struct notes *warnings);

/* Marks of the objects of one submission; NULL for `rest-lit translate`. */
struct mark {
	const char *submission; /* 32 hex digits, random */
	const char *instance;   /* of the installation */
	/* annotations of the Framework rest-lit/idempotency, rest-lit/request-id; NULL: none */
	const char *idempotency, *request;
	bool webhook; /* the end of the job will be reported */
	bool at_once; /* all objects are created together */
};

/*
 * Writes the objects into the arena. With a mark they carry the submission id, dependents have an
 * ownerReference whose uid is missing (object.uid_at), and executionType is Create if there are
 * dependents that are created later. -1 and *e: 403 (virtual cluster), 404 (storage), 413 (too
 * large), 400.
 */
int job_build(const struct translator *t, const struct job *job, const struct facts *f,
              const struct mark *m, struct arena *a, struct objects *out, struct err *e);

/* The objects as users may see them: without a mark, and with "******" in place of secrets. The
 * Secrets are valid and empty. */
int job_preview(const struct translator *t, const struct job *job, const struct facts *f,
                struct arena *a, struct objects *out, struct err *e);

/* The i-th ConfigMap with pai-runtime, common to all jobs, in the arena. false if there are not so
 * many: none if pai-runtime comes from an image, at most RUNTIME_PROGRAMS. */
bool runtime_object(const struct translator *t, size_t i, struct arena *a, struct object *out);

/* Properties of a job; borrowed from it. */
const char *job_user(const struct job *job);
struct span job_name(const struct job *job);
const char *job_hash(const struct job *job); /* metadata.name of the Framework */
bool job_has_secrets(const struct job *job); /* the arena must be wiped */

/* The environment of the containers, for docs/TRANSLATION.md and tests. */
enum variable_maker {
	BY_REST_LIT,   /* in the pod template */
	BY_RUNTIME,    /* pai-runtime in the task */
	BY_CONTROLLER, /* FrameworkController */
	BY_KUBERNETES,
	MAKER_MAX
};

struct container_variable {
	enum variable_maker maker;
	/* $role: name of a role, $index: of a task in it, $label: of a port, $number: position
	 * of a role, $device: a name in --hived-device-env */
	const char *name;
	const char *generations; /* "1" the first guide, "2" kube-runtime, "3" protocol 2, "ours" */
	const char *where;
	const char *doc; /* its value; "v1": jobs of the first two generations */
};
extern const struct container_variable CONTAINER_VARIABLES[];
extern const size_t N_CONTAINER_VARIABLES;

/* The pages docs/TRANSLATION.md and docs/WARNINGS.md. */
void translation_page(struct str *out);
/* All shipped templates. */
void templates_page(struct str *out);
void warnings_page(struct str *out);
