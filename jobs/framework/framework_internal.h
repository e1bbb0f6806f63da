#pragma once
/* The state of one Framework, and the parts of the state machine.  Private to jobs/framework/ and
 * its tests. */
#include <jansson.h>

#include "base/doc/tree.h"
#include "base/json/put.h"
#include "base/posix/clock.h"
#include "jobs/framework/framework.h"
#include "jobs/store/reply.h"

/* The order is that of FW_STATES. */
enum fw_state {
	FW_CREATION_PENDING,
	FW_CREATION_REQUESTED,
	FW_PREPARING,
	FW_RUNNING,
	FW_DELETION_PENDING,
	FW_DELETION_REQUESTED,
	FW_DELETING,
	FW_ATTEMPT_COMPLETED,
	FW_COMPLETED,
	FW_STATE_MAX
};
_Static_assert(FW_STATE_MAX == (int)FRAMEWORK_STATES, "FW_STATES");

/* A time that is null in the status; and the zero time of Go, "0001-01-01T00:00:00Z". */
#define FW_NO_TIME   INT64_MIN
#define FW_ZERO_TIME (-62135596800)

/* Completion codes that the state machine gives; phrases and attributes are in complete.c. */
enum {
	FW_SUCCEEDED = 0,
	FW_CONFIGMAP_DELETED = -100,
	FW_POD_DELETED = -101,
	FW_CONFIGMAP_NOT_SEEN = -110,
	FW_POD_NOT_SEEN = -111,
	FW_EVICTED = -130, /* not of FrameworkController */
	FW_POD_REFUSED = -200,
	FW_STOPPED = -210,
	FW_ATTEMPT_ENDED = -220,
	FW_TASK_REMOVED = -230,
	FW_NO_FAILED_CONTAINER = -300,
	FW_POD_REFUSED_UNKNOWN = -310
};

/* A completionStatus; owns its texts.  Never changed once it is set. */
struct fw_outcome {
	int32_t code;
	bool succeeded;
	bool transient, conflict, permanent;
	char *phrase, *diagnostics;
	char *attributes; /* JSON: null, or a list of texts */
	char *more;       /* JSON of a last member, "pod" or "trigger"; NULL: none */
};

/* Members that a Framework and a task have in common.  The attempt is that of a ConfigMap or a
 * pod. */
struct fw_life {
	enum fw_state state;
	int64_t start_s, run_s, completion_s, transition_s;
	int32_t retried, accountable;
	int64_t retry_delay_s; /* -1: no retry is due */
	/* With framework_config_keep_last: the end of the attempt before this one, without `more`,
	 * and how many attempts in a row ended like it, soon after their start. */
	struct fw_outcome *last; /* NULL: none */
	int32_t alike;
	int32_t id; /* of the attempt; all that follows is the attempt's */
	int64_t attempt_start_s, attempt_run_s, attempt_completion_s;
	char *uid;                  /* of its ConfigMap or pod; NULL: not made yet */
	struct fw_outcome *outcome; /* NULL: none yet */
};

#define FW_LIFE_NEW                                                                                \
	((struct fw_life){ .start_s = FW_NO_TIME,                                                  \
	                   .run_s = FW_NO_TIME,                                                    \
	                   .completion_s = FW_NO_TIME,                                             \
	                   .transition_s = FW_NO_TIME,                                             \
	                   .retry_delay_s = -1,                                                    \
	                   .attempt_start_s = FW_NO_TIME,                                          \
	                   .attempt_run_s = FW_NO_TIME,                                            \
	                   .attempt_completion_s = FW_NO_TIME })

struct fw_task {
	struct fw_life life;
	char *uid;
	bool removing; /* deletionPending: to be scaled away */
	char *node, *ip, *host_ip, *ports, *gpus;
};

struct fw_role {
	char *name, *uid;
	int64_t grace_s;       /* podGracefulDeletionTimeoutSec; FW_NO_TIME: null */
	struct fw_task *tasks; /* a task's index is its place */
	size_t n, cap;
	/* Each sync sets these: */
	const struct fw_role_spec *spec; /* NULL: not in the spec any more */
	int32_t ended[2];                /* tasks that failed, succeeded; without `removing` */
};

struct fw_policy {
	bool fancy;
	int32_t max;
};

struct fw_role_spec {
	const char *name;
	int32_t number;
	int32_t min[2]; /* minFailedTaskCount, minSucceededTaskCount */
	struct fw_policy policy;
	int64_t grace_s;        /* as in fw_role */
	struct span pod;        /* JSON; NULL after framework_slim */
	struct fw_role *status; /* set by each sync; NULL: none */
};

enum fw_execution { FW_CREATE, FW_START, FW_STOP };

/* Metadata and spec as a put reads them. */
struct fw_spec {
	struct arena arena;                      /* holds the texts */
	struct arena templates;                  /* holds `pod` of the roles */
	const char *name, *namespace_name, *uid; /* NULL before the first put */
	bool dying;
	enum fw_execution execution;
	struct fw_policy policy;
	struct fw_role_spec *roles;
	size_t n_roles;
	json_t *places; /* of roles, by name */
	int64_t wanted; /* tasks of all roles */
};

struct framework {
	const struct framework_config *config;
	struct fw_spec spec;
	bool has_status;
	struct fw_life life;
	struct fw_role *roles;
	size_t n_roles, cap_roles;
	int64_t completed; /* set by each sync: the sum of all roles */
};

/* Text for names: FRAMEWORK-ROLE-INDEX and a NUL. */
enum { FW_LABEL_MAX = 63, FW_NAME_MAX = 160 };

/* Tasks of one Framework; levels of its object. */
enum { FW_TASKS_MAX = 100000, FW_DEPTH_MAX = 64, FW_KEY_MAX = 1024 };
#define FW_BUDGET                                                                                  \
	((struct budget){ FW_DEPTH_MAX, FRAMEWORK_OBJECT_MAX, FRAMEWORK_OBJECT_MAX, FW_KEY_MAX })

/* ---- configuration (config.c) ---- */

struct regex;

struct fw_range {
	int64_t min, max;
};
#define FW_RANGE_ALL ((struct fw_range){ INT64_MIN, INT64_MAX }) /* not given */

/* The pattern of a pod, or of a container, which has the numbers and no containers. */
struct fw_pattern {
	struct regex *name, *reason, *message; /* NULL: not given */
	struct fw_range signal, code;
	struct fw_pattern *containers;
	size_t n;
};

struct fw_failure {
	int32_t code;
	const char *phrase;
	const char *attributes; /* JSON */
	struct fw_pattern *patterns;
	size_t n;
};

struct framework_config {
	struct arena arena;
	int64_t cache_timeout_s;          /* objectLocalCacheCreationTimeoutSec */
	int64_t min_delay_s, max_delay_s; /* of a retry after Transient and Conflict */
	int64_t retain_s;                 /* frameworkCompletedRetainSec */
	bool compress;
	bool once;                   /* no retries */
	bool keeps_last;             /* fw_life.last */
	int64_t alike_max;           /* maxAlikeAttempts; 0: no bound */
	struct fw_failure *failures; /* the built-in ones first */
	size_t n_failures;
};

/* ---- untrusted documents, and JSON as Go writes it (reader.c) ---- */

/* An error sets `bad`; the returned value is then safe to use. */
struct fw_reader {
	struct arena *arena; /* of values and places */
	struct err *e;
	const char *what; /* the begin of the only message; NULL: each error becomes a note */
	bool bad;
};

/* A value and its place.  The value above it outlives it. */
struct fw_value {
	struct fw_reader *r;
	struct path at;       /* zero: the root */
	const struct node *n; /* NULL: absent, null, or not as it must be */
};

static inline const struct path *fw_path(const struct fw_value *v)
{
	return v->at.up || v->at.key.p ? &v->at : NULL;
}

void fw_bad(const struct fw_value *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A text as the member `key`; it must be of that type. */
struct fw_value fw_parse(const struct fw_value *of, const char *key, struct span json,
                         enum node_type type);
/* Each reads a member, which must be of that type, and be there if it is `needed`. */
struct fw_value fw_get(const struct fw_value *of, const char *key, enum node_type type,
                       bool needed);
const char *fw_text(const struct fw_value *of, const char *key, bool needed); /* or NULL */
bool fw_bool(const struct fw_value *of, const char *key);
int64_t fw_time(const struct fw_value *of, const char *key, bool needed); /* or FW_NO_TIME */
struct fw_bounds {
	int64_t least, most, absent;
};
#define FW_NEEDED (INT64_MIN + 1) /* of `absent` */
#define FW_GRACE  ((struct fw_bounds){ INT32_MIN, INT64_MAX / 4, FW_NO_TIME })
int64_t fw_int(const struct fw_value *of, const char *key, struct fw_bounds b);
/* The name of a Framework or a role: from 1 to 63 lower-case letters and digits. */
const char *fw_name(const struct fw_value *of);
/* The attributes of a completion type as JSON, `null` if there are none; in the arena. */
const char *fw_attributes(const struct fw_value *type);
struct fw_value fw_item(const struct fw_value *list, size_t i, enum node_type type);

/* Text in quotes: <, >, &, U+2028 and U+2029 are escaped. */
void fw_put_text(struct str *out, const char *text);
/* The same as a member. */
void fw_put_text_member(struct str *out, const char *key, const char *text);
/* The same; nothing if it is NULL or "". */
void fw_put_member_if_set(struct str *out, const char *key, const char *text);

/* ---- the status (status.c) ---- */

/* Frees what a status owns, and leaves none. */
void fw_status_clear(struct framework *f);
/* Forgets the attempt of a Framework or a task, but not its id. */
void fw_attempt_clear(struct fw_life *l);
void fw_task_clear(struct fw_task *t);
void fw_role_clear(struct fw_role *r);
void fw_outcome_free(struct fw_outcome *o);
/* The role of the status; NULL: there is none. */
struct fw_role *fw_role_find(const struct framework *f, const char *name);
/* Makes room for one more; the new element is zeroed. */
struct fw_role *fw_role_add(struct framework *f);
struct fw_task *fw_task_add(struct fw_role *r);

/* Reads a stored status into f, which has none.  0, or -1 and *e, and f has no status. */
int fw_status_read(struct framework *f, struct span json, struct err *e);

/* Names; out has FW_NAME_MAX bytes, and is returned. */
const char *fw_configmap_name(const struct framework *f, char *out);
const char *fw_pod_name(const struct framework *f, const struct fw_role *r, size_t index,
                        char *out);

/* ---- one sync (sync.c, complete.c) ---- */

struct fw_sync {
	struct framework *f;
	const struct framework_client *w;
	int64_t now_s;
	uint64_t random; /* the state of fw_random */
	struct framework_result *r;
};

uint64_t fw_random(struct fw_sync *s);
/* Changes a state, if it is another one.  r NULL: of the Framework. */
void fw_move(struct fw_sync *s, const struct fw_role *r, size_t index, struct fw_life *l,
             enum fw_state to);

/* A new outcome; `attributes` is JSON.  The second has one of the state machine's codes. */
struct fw_outcome *fw_outcome_make(int32_t code, bool succeeded, const char *phrase,
                                   const char *attributes, const char *diagnostics);
struct fw_outcome *fw_outcome_new(int32_t code, const char *diagnostics);
/* Its member `pod`; the caller frees it. */
char *fw_more_pod(const struct framework_pod *pod);

/* Sets the outcome of an attempt if it has none, else frees o.  o can be NULL. */
void fw_end(struct fw_sync *s, struct fw_life *l, struct fw_outcome *o);
/* Ends the attempt of the Framework.  Without `force` its ConfigMap is to be deleted first. */
void fw_complete(struct fw_sync *s, bool force, struct fw_outcome *o);
/* FrameworkAttemptCompletionPolicy over all tasks, by the order of their completion. */
void fw_rules(struct fw_sync *s);
/* The same for a task that has just ended for good. */
void fw_rules_after(struct fw_sync *s, struct fw_role *r, size_t index);

/* The decision about an ended attempt. */
struct fw_decision {
	bool retry, accountable;
	int64_t delay_s;
};
/* Attempts in a row that ended soon after their start with the code of this one, which is over and
 * counts, too; 0: it did not end soon. */
int32_t fw_alike(const struct fw_life *l);
struct fw_decision fw_decide(struct fw_sync *s, const struct fw_policy *p, const struct fw_life *l,
                             bool delayed);

/* ---- failed pods (failure.c) ---- */

/* The outcome of a pod that has failed. */
struct fw_outcome *fw_pod_failed(const struct framework_config *c, const char *name,
                                 const struct framework_pod *pod);
/* The outcome of a pod that the API server refused; NULL: it may be taken later. */
struct fw_outcome *fw_pod_refused(int http, const json_t *status);
