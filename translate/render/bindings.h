#pragma once
/*
 * Internal header of render/, objects/ and hived/: the scope that variables read, their tables,
 * the templates and overlays. Each file of objects/ and hived/hived_plan.c has the functions of one
 * subject and ends with their table; translate/translate.c lists the tables.
 *
 * Thread: any
 */
#include "translate/job/job.h"
#include "translate/render/template.h"

/* One mount of a storage; the first mount also stands for the volume. */
struct mount {
	const struct storage_fact *storage;
	const char *volume;
	const char *sub_path; /* NULL: none */
	bool results;         /* extras.results */
	struct span path;
	bool first;
};

struct hived_plan; /* translate/hived/hived_plan.h */

/* The job being written. Functions that repeat something (roles, mounts, variables) copy the
 * scope and set the current element. */
struct scope {
	const struct translator *t;
	const struct settings *set;
	const struct job *job;
	const struct facts *facts;
	const struct submission_mark *mark; /* NULL: none */
	bool hide;                          /* write REDACTED instead of secrets */
	struct arena *a;
	const struct hived_plan *hived; /* NULL: the scheduler is not HiveD */
	const struct mount *mounts;
	size_t n_mounts;
	bool owned; /* there are other objects besides the Framework */
	bool env_moved;
	bool env_map;                /* the ConfigMap is being written: no escaping of dollars */
	struct span env_job;         /* the common environment: elements, each with a comma */
	const struct span *raw_text; /* by role: a role with a pod of its own, written */
	size_t *uid_at;              /* result: the offset of owner.uid; may be NULL */
	/* current elements */
	const struct role *role;
	struct span suffix;
	const struct env_var *var;
	const struct mount *mount;
	struct span device; /* name of a device variable */
	const struct runtime_program *program;
	int64_t code_part; /* number of a part of the code */
};

/* Values that a variable requires and a template provides. Variables that write another template
 * exist at one level only, so that the recursion ends. */
enum scope_flag {
	SCOPE_CLUSTER = 0,
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
	SCOPE_PROGRAM = 1 << 15,
	SCOPE_CODE = 1 << 16,
	SCOPE_CODE_PART = 1 << 17,
	SCOPE_RESULTS = 1 << 18,
	SCOPE_FLAGS = 19
};
extern const char *const SCOPE_NAMES[SCOPE_FLAGS];

/* A function that writes one value of the scope `s`. */
#define PUT_FUNCTION(name, call)                                                                   \
	static bool name(const struct scope *s, struct variable_output *o)                         \
	{                                                                                          \
		call;                                                                              \
		return true;                                                                       \
	}
/* The same for a variable that may be absent. */
#define PUT_OPTIONAL(name, present, call)                                                          \
	static bool name(const struct scope *s, struct variable_output *o)                         \
	{                                                                                          \
		bool there = present;                                                              \
		if (there)                                                                         \
			call;                                                                      \
		return there;                                                                      \
	}
#define PUT_TEXT(name, value)   PUT_FUNCTION(name, out_text(o, value))
#define PUT_STRING(name, value) PUT_FUNCTION(name, out_text(o, span_of(value)))
#define PUT_INT(name, value)    PUT_FUNCTION(name, str_int(o->s, value))
#define PUT_BOOL(name, value)   PUT_FUNCTION(name, str_puts(o->s, (value) ? "true" : "false"))

/* ---- templates ---- */

enum template_id {
	TEMPLATE_FRAMEWORK,
	TEMPLATE_TASKROLE,
	TEMPLATE_ENV_JOB,
	TEMPLATE_ENV_JOB_MAP, /* as members of a ConfigMap */
	TEMPLATE_ENV_JOB_ROLE,
	TEMPLATE_ENV_JOB_ROLE_MAP,
	TEMPLATE_ENV_ROLE,
	TEMPLATE_ENV_USER,
	TEMPLATE_ENV_DEVICE,
	TEMPLATE_ENV_DEVICE_NONE,
	TEMPLATE_STORAGE_MOUNT,
	TEMPLATE_STORAGE_VOLUME,
	TEMPLATE_CODE_MOUNT,
	TEMPLATE_CODE_VOLUME,
	TEMPLATE_SECRET_REGISTRY,
	TEMPLATE_SECRET_JOB,
	TEMPLATE_SECRET_USER,
	TEMPLATE_CONFIGMAP_ENV,
	TEMPLATE_PRIORITYCLASS,
	TEMPLATE_CONFIGMAP_RUNTIME,
	TEMPLATE_RUNTIME_SOURCE,
	TEMPLATE_MAX
};

struct template_row {
	const char *file;
	enum prog_shape shape;
	unsigned has; /* enum scope_flag */
	const char *doc;
};
extern const struct template_row TEMPLATES[TEMPLATE_MAX];

/* Conditions of overlays, and of the objects beside a Framework. */
enum overlay_condition {
	WHEN_ALWAYS,
	WHEN_RUNTIME_CONFIGMAP,
	WHEN_PULL_SECRET,
	WHEN_OUTPUT_URL,
	WHEN_CODE,
	WHEN_RESULTS,
	WHEN_MARKED,
	WHEN_HIVED,
	WHEN_OLD_ENV,
	WHEN_JOB_SECRETS,
	WHEN_USER_EXTENSION,
	WHEN_REGISTRY,
	WHEN_PRIORITY_CLASS,
	WHEN_ENV_CONFIGMAP,
	WHEN_CPU_ONLY,
	WHEN_NO_DEVICE,
	WHEN_RESTRICTED,
	WHEN_FUSE,
	WHEN_HOST_NETWORK,
	WHEN_INFINIBAND,
	WHEN_IMAGE_AUTH
};
bool condition_holds(enum overlay_condition w, const struct scope *s);

/* An overlay and when it applies. */
struct overlay {
	const char *file;
	enum overlay_condition when;
	unsigned has; /* enum scope_flag: guaranteed by the condition */
	const char *doc;
	enum template_id units[9]; /* templates; ends with TEMPLATE_MAX */
};
extern const struct overlay OVERLAYS[];
extern const size_t N_OVERLAYS;

/* The i-th shipped file, or NULL; *profile is -1 for common files. */
const char *template_nth(size_t i, int *profile, struct span *text);

/* The constants with their values in these settings, whose texts are borrowed. */
enum { N_CONSTANTS = 11 };
void constants_fill(struct constant out[static N_CONSTANTS], const struct settings *s);

/* Writes a template with the overlays that apply. */
void template_write(const struct scope *s, enum template_id u, struct str *out);
/* Writes into the arena: first into `guess` bytes, then into up to `max`; false if it is larger. */
bool template_write_within(const struct scope *s, enum template_id u, size_t guess, size_t max,
                           struct span *text);
