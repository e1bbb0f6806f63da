#pragma once
/*
 * What the functions of the variables see, and the tables they stand in.  Internal to
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
	bool hide;               /* what is secret is not written, but REDACTED in its place */
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
 * Of what a variable is, and what a template has (struct variable, struct manifest).  Variables
 * that write another template stand in one place of the chain only, so that it ends.
 */
enum scope_flag {
	SCOPE_CLUSTER = 0, /* anywhere */
	SCOPE_JOB = 1 << 0,
	SCOPE_ROLE = 1 << 1,
	SCOPE_SUFFIX = 1 << 2,
	SCOPE_VAR = 1 << 3,
	SCOPE_MOUNT = 1 << 4,
	SCOPE_MARK = 1 << 5,
	SCOPE_OWNED = 1 << 6,
	SCOPE_SECRETS = 1 << 7,
	SCOPE_EXTENSION = 1 << 8,
	SCOPE_WHOLE_ROLES = 1 << 9,
	SCOPE_WHOLE_POD = 1 << 10,
	SCOPE_WHOLE_ENV_ROLES = 1 << 11,
	SCOPE_WHOLE_ENV_MAP = 1 << 12,
	SCOPE_HIVED = 1 << 13,
	SCOPE_DEVICE = 1 << 14,
	SCOPE_FLAGS = 15
};
extern const char *const SCOPE_NAMES[SCOPE_FLAGS];

/* A function that writes one value of the scope `s`. */
#define PUT_FUNCTION(name, call)                                                                   \
	static bool name(const struct scope *s, struct out *o)                                     \
	{                                                                                          \
		call;                                                                              \
		return true;                                                                       \
	}
#define PUT_TEXT(name, value)   PUT_FUNCTION(name, out_text(o, value))
#define PUT_STRING(name, value) PUT_FUNCTION(name, out_puts(o, value))
#define PUT_INT(name, value)    PUT_FUNCTION(name, out_int(o, value))
#define PUT_BOOL(name, value)   PUT_FUNCTION(name, out_bool(o, value))

extern const struct variable_group FRAMEWORK_VARIABLES, ROLE_VARIABLES, RUNTIME_VARIABLES,
    ENV_VARIABLES, STORAGE_VARIABLES, SECRET_VARIABLES, HIVED_VARIABLES;

/* ---- templates --------------------------------------------------------------------------- */

enum template_id {
	TEMPLATE_FRAMEWORK,
	TEMPLATE_TASKROLE,
	TEMPLATE_ENV_JOB,     /* elements */
	TEMPLATE_ENV_JOB_MAP, /* the same as members of a ConfigMap */
	TEMPLATE_ENV_JOB_ROLE,
	TEMPLATE_ENV_JOB_ROLE_MAP,
	TEMPLATE_ENV_ROLE,
	TEMPLATE_ENV_USER,
	TEMPLATE_ENV_DEVICE,
	TEMPLATE_ENV_DEVICE_NONE,
	TEMPLATE_STORAGE_MOUNT,
	TEMPLATE_STORAGE_VOLUME,
	TEMPLATE_SECRET_REGISTRY,
	TEMPLATE_SECRET_JOB,
	TEMPLATE_SECRET_USER,
	TEMPLATE_CONFIGMAP_ENV,
	TEMPLATE_PRIORITYCLASS,
	TEMPLATE_CONFIGMAP_RUNTIME,
	TEMPLATE_MAX
};

/* What a template is compiled to. */
struct template_row {
	const char *file;
	enum prog_shape shape;
	unsigned has; /* enum scope_flag */
	const char *doc;
};
extern const struct template_row TEMPLATES[TEMPLATE_MAX];

/* Conditions of overlays.  Those up to WHEN_SETTINGS_MAX depend on the settings only. */
enum when {
	WHEN_ALWAYS,
	WHEN_RUNTIME_CONFIGMAP,
	WHEN_PULL_SECRET,
	WHEN_OUTPUT_URL,
	WHEN_SETTINGS_MAX = WHEN_OUTPUT_URL,
	WHEN_MARKED,
	WHEN_HIVED,
	WHEN_V1,
	WHEN_JOB_SECRETS,
	WHEN_USER_EXTENSION,
	WHEN_ENV_CONFIGMAP,
	WHEN_CPU_ONLY,
	WHEN_NO_DEVICE,
	WHEN_FUSE,
	WHEN_HOST_NETWORK,
	WHEN_INFINIBAND,
	WHEN_IMAGE_AUTH
};
bool when_holds(enum when w, const struct scope *s);

/* An overlay and when it applies. */
struct overlay {
	const char *file;
	enum when when;
	unsigned has;              /* enum scope_flag: what the condition makes sure of */
	const char *doc;           /* the condition in words */
	enum template_id units[9]; /* of which templates; ends with TEMPLATE_MAX */
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
void template_write(const struct scope *s, enum template_id u, struct str *out);
/*
 * Write into the arena: first into `guess` bytes, which should do, then into as much as may be.
 * false if it is larger than `max`.
 */
bool template_write_within(const struct scope *s, enum template_id u, size_t guess, size_t max,
                           struct span *text);

/* ---- HiveD -------------------------------------------------------------------------------- */

struct hived_share {
	int64_t cells;     /* leaf cells of one instance */
	struct span group; /* USER~JOB/GROUP; n == 0: none */
};

struct hived_plan {
	int64_t priority;
	const struct hived_request *request; /* never NULL */
	const struct hived_role *roles;      /* what the job says of each; never NULL */
	const struct hived_share *share;     /* of each role */
};

/*
 * Into s->hived; it stays NULL if the scheduler is not HiveD.  Call it when it is known that the
 * user may use the virtual cluster: messages tell what it has.  -1 and *e (400): all that HiveD
 * cannot do.
 */
int hived_plan_make(struct scope *s, struct err *e);

/* ---- helpers across files ----------------------------------------------------------------- */

/* Which storages are mounted where.  -1 and *e: 404, 400. */
int storages_resolve(struct scope *s, struct err *e);
/* Shared memory of the pod, in MB. */
int64_t role_shm_mb(const struct scope *s);

/* Whether pai-runtime comes out of a ConfigMap. */
bool runtime_by_configmap(const struct settings *s);
/* Whether init then runs in the image of the role. */
bool runtime_in_own_image(const struct scope *s);
/* IfNotPresent where the tag or digest says which image it is, else Always. */
const char *image_pull_policy(struct span image);
