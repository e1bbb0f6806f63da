#pragma once
/*
 * A pod object as the tasks of one machine need it: containers, their environment and mounts,
 * volumes, limits.  Pure: no files, no clock.  The object is made by jobs/framework from the job's
 * pod template, which a user or an administrator may have changed, so every part is checked;
 * anything that one machine cannot do, and no template of this project needs, is an error that
 * names it.
 *
 * Thread: any
 */
#include "base/doc/tree.h"
#include "base/err.h"
#include "machine/resources/amounts.h"
#include "machine/words.h"

enum {
	POD_VOLUMES_MAX = 256,
	POD_MOUNTS_MAX = 512,
	POD_ENV_MAX = 8192 /* variables of a container, with those of envFrom */
};

/* A directory of this machine that stands for a PersistentVolumeClaim of this name. */
struct pod_storage {
	const char *name, *dir;
};

struct pod_settings {
	const char *node_name, *ip; /* ip: of the pod and of its host */
	const char *uid;            /* of the pod */
	const struct pod_storage *storage;
	size_t n_storages;
	const char *code_dir; /* DIR/code: of the archives, each a directory with the file `part` */
	const char *results;  /* directory of the job's results; NULL: not yet known */
};

/* The Secret or ConfigMap that files or variables come from. */
struct pod_source {
	const char *name; /* NULL: there is none */
	bool secret;      /* else a ConfigMap */
	bool optional;
};

enum pod_volume_kind {
	POD_DIRECTORY, /* of the pod, with a file for each key of `from` */
	POD_MEMORY,    /* a tmpfs of `size` bytes */
	POD_STORAGE    /* `dir` of this machine; also the archive with the code of the job */
};

struct pod_volume {
	const char *name;
	enum pod_volume_kind kind;
	int64_t size;    /* POD_MEMORY: limit in bytes; 0: none */
	const char *dir; /* POD_STORAGE */
	/* POD_STORAGE: its name in the facts file, or RESULTS_CLAIM; NULL: the archive with the
	 * code of the job */
	const char *storage;
	bool read_only; /* POD_STORAGE: of the volume itself */
	struct pod_source from;
	int mode; /* of the files */
};

struct pod_mount {
	const struct pod_volume *volume;
	const char *path;     /* absolute, normal: no `.`, `..`, `//` */
	const char *sub_path; /* relative, normal; "" */
	bool read_only;
};

/* An entry of env or envFrom, in order: those of envFrom come first. */
struct pod_env {
	const char *name;  /* of envFrom: the prefix of all names */
	const char *value; /* NULL: of envFrom */
	bool expand;       /* value: $(NAME) is replaced */
	struct pod_source from;
};

struct pod_container {
	const char *name, *image;     /* "" if absent */
	const char **command, **args; /* NULL-terminated; command[0] NULL: of the image */
	const char *directory;        /* workingDir; NULL */
	const char *message_path;     /* terminationMessagePath */
	struct pod_env *env;
	size_t n_env;
	struct pod_mount *mount; /* in the order of their paths: parents first */
	size_t n_mounts;
};

struct pod {
	const char *uid;
	bool has_init; /* else `init` is empty */
	struct pod_container init, app;
	struct pod_volume *volume;
	size_t n_volumes;
	const char **pull_secret; /* names in imagePullSecrets */
	size_t n_pull_secrets;
	int64_t grace_s; /* terminationGracePeriodSeconds, default 30 */
	/* Limits of the app container, else its requests, 0: none; all its limits that are devices;
	 * ports to be chosen. */
	struct amounts need;
	bool gang; /* it starts together with the other tasks of its job */
};

/*
 * Reads a pod object, from which texts are borrowed, into the arena.  NULL and *e (400) with one
 * sentence: no such pod can run on one machine.  Fields of the pod are resolved; values from
 * Secrets and ConfigMaps are resolved by pod_env_resolve.
 */
struct pod *pod_read(const struct node *object, const struct pod_settings *s, struct arena *a,
                     struct err *e);

/* The contents of a Secret (decoded) or ConfigMap of the namespace, in an arena. */
struct pod_data {
	struct pod_pair {
		struct span key, value;
	} * v;
	size_t n;
};

/* Looks an object up: 0; 1 if it does not exist; -1 and *e. */
struct pod_objects {
	int (*get)(void *arg, const struct pod_source *s, struct arena *a, struct pod_data *out,
	           struct err *e);
	void *arg;
};

/* The contents of an object that files or variables need; none if it is optional and does not
 * exist.  -1 and *e: 503 if it may exist later. */
int pod_source_get(const struct pod_source *s, const struct pod_objects *o, struct arena *a,
                   struct pod_data *out, struct err *e);

/* Reads `data`, `binaryData` and `stringData` of the text of a Secret or ConfigMap. */
int pod_data_read(struct span object, bool secret, struct arena *a, struct pod_data *out,
                  struct err *e);

/* The environment of a container as Kubernetes makes it: each name once, the last one wins, $(NAME)
 * replaced by earlier variables.  -1 and *e. */
int pod_env_resolve(const struct pod_container *c, const struct pod_objects *o, struct words *out,
                    struct err *e);
