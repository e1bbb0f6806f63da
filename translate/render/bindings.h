#pragma once
/*
 * What the functions of the holes see, and the tables they stand in.  Internal to
 * translate/: a file per subject (framework.c, role.c, env.c, ...), each with short
 * functions and one table; translator.c has the list of tables.
 */
#include "translate/job.h"
#include "translate/render/template.h"

/* One mount of a storage.  The first mount of a storage stands for its volume. */
struct mount {
	const struct storage_fact *storage;
	const char *volume; /* name in the pod */
	struct span path;
	bool first;
};

/*
 * One job being written.  Where something is repeated (roles, mounts, variables), a copy
 * is made with the current one filled in.
 */
struct scope {
	const struct translator *t;
	const struct settings *set;
	const struct job *job;
	const struct facts *facts;
	const struct mark *mark; /* NULL: none */
	bool hide;               /* what is secret is not written, but MASK in its place */
	struct arena *a;
	const struct hived_plan *hived; /* NULL: the scheduler is not HiveD */
	const struct mount *mounts;
	size_t n_mounts;
	bool owned;          /* there are objects besides the Framework */
	bool env_moved;      /* the common environment is in a ConfigMap */
	bool env_map;        /* ... and is being written there: no doubling of dollars */
	struct span env_job; /* the common environment as elements, each with its comma */
	size_t *uid_at;      /* where owner.uid stands in what is written; or NULL */
	/* the current one of what is repeated */
	const struct role *role;
	struct span suffix;
	const struct env_var *var;
	const struct mount *mount;
	struct span device; /* variable that tells the container's devices */
};

/*
 * Of what a hole is, and what a template has (struct hole, struct manifest).  Holes that write
 * another template stand in one place of the chain only, so that it ends.
 */
enum part {
	OF_CLUSTER = 0, /* anywhere */
	OF_JOB = 1 << 0,
	OF_ROLE = 1 << 1,
	OF_SUFFIX = 1 << 2,
	OF_VAR = 1 << 3,
	OF_MOUNT = 1 << 4,
	OF_MARK = 1 << 5,
	OF_OWNED = 1 << 6,
	OF_SECRETS = 1 << 7,
	OF_EXTENSION = 1 << 8,
	HOLDS_ROLES = 1 << 9,
	HOLDS_POD = 1 << 10,
	HOLDS_ENV_ROLES = 1 << 11,
	HOLDS_ENV_MAP = 1 << 12,
	OF_HIVED = 1 << 13,
	OF_DEVICE = 1 << 14,
	PART_BITS = 15
};
extern const char *const PARTS[PART_BITS];

extern const struct hole_group FRAMEWORK_HOLES, ROLE_HOLES, RUNTIME_HOLES, ENV_HOLES, STORAGE_HOLES,
    SECRET_HOLES, HIVED_HOLES;

/* ---- templates --------------------------------------------------------------------------- */

enum unit {
	UNIT_FRAMEWORK,
	UNIT_TASKROLE,
	UNIT_ENV_JOB,     /* elements */
	UNIT_ENV_JOB_MAP, /* the same as members of a ConfigMap */
	UNIT_ENV_JOB_ROLE,
	UNIT_ENV_JOB_ROLE_MAP,
	UNIT_ENV_ROLE,
	UNIT_ENV_USER,
	UNIT_ENV_DEVICE,
	UNIT_ENV_DEVICE_NONE,
	UNIT_STORAGE_MOUNT,
	UNIT_STORAGE_VOLUME,
	UNIT_SECRET_REGISTRY,
	UNIT_SECRET_JOB,
	UNIT_SECRET_USER,
	UNIT_CONFIGMAP_ENV,
	UNIT_PRIORITYCLASS,
	UNIT_CONFIGMAP_RUNTIME,
	UNIT_MAX
};

/* What a template is compiled to. */
struct unit_row {
	const char *file;
	enum prog_shape shape;
	unsigned has; /* enum part */
	const char *doc;
};
extern const struct unit_row UNITS[UNIT_MAX];

/* An overlay and when it applies. */
struct overlay {
	const char *file;
	bool (*when)(const struct scope *s);
	unsigned has;       /* enum part: what the condition makes sure of */
	const char *doc;    /* the condition in words */
	enum unit units[9]; /* of which templates; ends with UNIT_MAX */
};
extern const struct overlay OVERLAYS[];
extern const size_t N_OVERLAYS;

/* The shipped text of a template; p is NULL if there is none. */
struct span template_text(enum profile p, const char *file);
/* All shipped files one after the other, NULL at the end; *profile is -1 for common ones. */
const char *template_nth(size_t i, int *profile, struct span *text);

extern const struct constant CONSTANTS[];
extern const size_t N_CONSTANTS;

/* Write one template with the overlays that apply. */
void unit_write(const struct scope *s, enum unit u, struct str *out);
/*
 * Write into the arena: first into `guess` bytes, which should do, then into as much as may be.
 * false if it is larger than `max`.
 */
bool unit_write_within(const struct scope *s, enum unit u, size_t guess, size_t max,
                       struct span *text);

/* ---- helpers across files ----------------------------------------------------------------- */

/* Which storages are mounted where.  -1 and *e: 404, 400. */
int storages_resolve(struct scope *s, struct err *e);
/* 403 if the job's virtual cluster is not granted. */
int virtual_cluster_check(const struct scope *s, struct err *e);
/* Those that a list names; what else is in it counts for nothing. */
unsigned grants_listed(const struct node *list);
/* 403 if a role asks for what the user is not granted; of no meaning in the profile openpai. */
int grants_check(const struct scope *s, struct err *e);

/* Shared memory of the pod, in MB. */
int64_t role_shm_mb(const struct scope *s);

/* Whether pai-runtime comes out of a ConfigMap. */
bool runtime_by_configmap(const struct settings *s);
/* Whether init then runs in the image of the role. */
bool runtime_in_own_image(const struct scope *s);
/* IfNotPresent where the tag or digest says which image it is, else Always. */
const char *image_pull_policy(struct span image);

/* Value of the job's PriorityClass: later jobs get lower ones, those of a higher priority of HiveD
 * (0 without) higher ones. */
int64_t priority_value(int64_t submitted_ms, int64_t priority);
