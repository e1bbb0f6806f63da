#pragma once
/* The state of one Framework, and the parts of the machine.  Private to k8s/framework/ and its
 * tests. */
#include <jansson.h>

#include "base/tree.h"
#include "k8s/framework/framework.h"
#include "k8s/transport/reply.h"

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
extern const char *const FW_STATES[FW_STATE_MAX];

/* A time that is null in the status; and the zero time of Go, "0001-01-01T00:00:00Z". */
#define FW_NO_TIME   INT64_MIN
#define FW_ZERO_TIME (-62135596800)

/* Completion codes that the machine gives; phrases and attributes are in complete.c. */
enum {
	FW_SUCCEEDED = 0,
	FW_CONFIGMAP_DELETED = -100,
	FW_POD_DELETED = -101,
	FW_CONFIGMAP_NOT_SEEN = -110,
	FW_POD_NOT_SEEN = -111,
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

/* What a Framework and a task have in common.  An attempt is that of a ConfigMap or a pod. */
struct fw_life {
	enum fw_state state;
	int64_t start_s, run_s, completion_s, transition_s;
	int32_t retried, accountable;
	int64_t retry_delay_s; /* -1: no retry is due */
	int32_t id;            /* of the attempt; all that follows is the attempt's */
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
	char *node, *ip, *host_ip;
};

struct fw_role {
	char *name, *uid;
	int64_t grace_s;       /* podGracefulDeletionTimeoutSec; FW_NO_TIME: null */
	struct fw_task *tasks; /* a task's index is its place */
	size_t n, cap;
	/* Set by each sync. */
	const struct fw_role_spec *spec; /* NULL: not in the spec any more */
	int32_t failed, succeeded;       /* tasks that have ended and are not `removing` */
};

struct fw_policy {
	bool fancy;
	int32_t max;
};

struct fw_role_spec {
	const char *name; /* borrowed from framework.spec, as `pod` */
	int32_t number, min_failed, min_succeeded;
	struct fw_policy policy;
	int64_t grace_s;        /* as in fw_role */
	json_t *pod;            /* NULL: none */
	struct fw_role *status; /* set by each sync; NULL: none */
};

enum fw_execution { FW_CREATE, FW_START, FW_STOP };

struct framework {
	const struct framework_config *config;
	json_t *metadata, *spec; /* NULL before the first put */
	json_t *places;          /* of roles in the spec, by name: their place in role_specs */
	const char *name, *namespace_name, *uid; /* borrowed from metadata */
	bool dying;
	enum fw_execution execution;
	struct fw_policy policy;
	struct fw_role_spec *role_specs;
	size_t n_role_specs;

	int64_t wanted; /* tasks of all roles of the spec */

	bool has_status;
	struct fw_life life;
	struct fw_role *roles;
	size_t n_roles, cap_roles;
	int64_t completed; /* set by each sync: the sum of all roles */
};

/* Text for names: FRAMEWORK-ROLE-INDEX and a NUL. */
enum { FW_LABEL_MAX = 63, FW_NAME_MAX = 160 };

/* Tasks of one Framework. */
enum { FW_TASKS_MAX = 100000 };

/* ---- configuration (config.c) ---- */

struct regex;

/* min and max are optional. */
struct fw_range {
	bool given;
	int32_t min, max;
};

struct fw_container_pattern {
	struct regex *name, *reason, *message; /* NULL: not given */
	struct fw_range signal, code;
};

struct fw_pod_pattern {
	struct regex *name, *reason, *message;
	struct fw_container_pattern *containers;
	size_t n_containers;
};

struct fw_failure {
	int32_t code;
	const char *phrase;
	const char *attributes; /* JSON */
	bool transient, conflict, permanent;
	struct fw_pod_pattern *patterns;
	size_t n_patterns;
};

struct framework_config {
	struct arena arena;
	int64_t cache_timeout_s;          /* objectLocalCacheCreationTimeoutSec */
	int64_t min_delay_s, max_delay_s; /* of a retry after Transient and Conflict */
	int64_t retain_s;                 /* frameworkCompletedRetainSec */
	bool compress;
	struct fw_failure *failures; /* the built-in ones first */
	size_t n_failures;
};

/* ---- members of untrusted objects (reader.c) ---- */

/* The first error stays, and sets `bad`; what is returned then is safe to go on with. */
struct fw_reader {
	struct arena arena; /* of places; the caller frees it */
	struct err *e;
	const char *what; /* the begin of each message */
	bool bad;
};

void fw_bad(struct fw_reader *r, const struct path *p, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* "text", "a list", ..., "absent" */
const char *fw_kind(const json_t *v);
/* The member, NULL if it is absent or null; borrowed. */
json_t *fw_get(const json_t *of, const char *key);
/* Each reads the member `key` of the object at `up`. */
const json_t *fw_read_object(struct fw_reader *r, const struct path *up, const json_t *of,
                             const char *key);
/* Text without NUL, borrowed; NULL if it is absent. */
const char *fw_read_text(struct fw_reader *r, const struct path *up, const json_t *of,
                         const char *key, bool needed);
struct fw_bounds {
	int64_t least, most;
};
#define FW_SECONDS ((struct fw_bounds){ INT32_MIN, INT64_MAX / 4 })
int64_t fw_read_int(struct fw_reader *r, const struct path *up, const json_t *of, const char *key,
                    struct fw_bounds b);
/* FW_NO_TIME if it is absent. */
int64_t fw_read_time(struct fw_reader *r, const struct path *up, const json_t *of, const char *key,
                     bool needed);
/* A name of a Framework or a role: from 1 to 63 lower-case letters and digits. */
bool fw_name_ok(const char *name);

/* ---- the status (status.c, status_read.c, status_write.c) ---- */

/* Frees what a status owns, and leaves none. */
void fw_status_clear(struct framework *f);
/* Forgets the attempt of a Framework or a task, but not its id. */
void fw_attempt_clear(struct fw_life *l);
void fw_task_clear(struct fw_task *t);
void fw_role_clear(struct fw_role *r);
void fw_outcome_free(struct fw_outcome *o);
/* Makes room for one more; the new element is zeroed. */
struct fw_role *fw_role_add(struct framework *f);
struct fw_task *fw_task_add(struct fw_role *r);
/* `completed` counts are set, and roles and specs find each other.  Linear in tasks and roles. */
void fw_link(struct framework *f);
/* Counts a task, if it has ended for good. */
void fw_count(struct framework *f, struct fw_role *r, const struct fw_task *t);

/* Reads a stored status into f, which has a spec and no status.  0, or -1 and *e, and f has no
 * status. */
int fw_status_read(struct framework *f, const json_t *status, struct err *e);

/* "2006-01-02T15:04:05Z"; out is NUL-terminated. */
enum { FW_TIME_MAX = 80 };
void fw_time_text(char out[static FW_TIME_MAX], int64_t s);
/* false: not that form. */
bool fw_time_read(const char *text, int64_t *s);

/* Text in quotes as Go's encoding/json writes it: <, >, &, U+2028 and U+2029 are escaped. */
void fw_go_text(struct str *out, const char *text);
/* `,"KEY":`, without the comma after a brace. */
void fw_go_key(struct str *out, const char *key);
/* The same with text; nothing if it is NULL or "". */
void fw_go_member(struct str *out, const char *key, const char *text);

/* ---- one sync (sync.c, sync_task.c, rescale.c, complete.c) ---- */

struct fw_sync {
	struct framework *f;
	const struct framework_world *w;
	int64_t now_s;
	uint64_t random; /* the state of fw_random */
	struct framework_result *r;
};

/* A ConfigMap or a pod with the uid of the status. */
enum fw_found {
	FW_THERE,
	FW_GONE, /* also if another one of that name is there */
	FW_LATER /* an unknown one must be deleted first, which failed or is pending */
};

uint64_t fw_random(struct fw_sync *s);
/* A new random UUID; the caller frees it. */
char *fw_uuid(struct fw_sync *s);
/* The sync is due at this time; true: that time has come. */
bool fw_due(struct fw_sync *s, int64_t when_s);
/* The Framework is on its way to AttemptCompleted. */
bool fw_completing(const struct framework *f);
/* FRAMEWORK_DONE, else the result is told. */
enum framework_answer fw_answered(struct fw_sync *s, enum framework_answer a);

/* "5m0s", as Go writes durations. */
const char *fw_duration(int64_t seconds, char out[static FW_TIME_MAX]);
/* Names; out has FW_NAME_MAX bytes. */
const char *fw_configmap_name(const struct framework *f, char *out);
const char *fw_pod_name(const struct framework *f, const struct fw_role *r, size_t index,
                        char *out);

/* Changes a state, if it is another one.  r NULL: of the Framework. */
void fw_move(struct fw_sync *s, const struct fw_role *r, size_t index, struct fw_life *l,
             enum fw_state to);

/* A new outcome with one of the machine's codes. */
struct fw_outcome *fw_outcome_new(int32_t code, const char *diagnostics);
/* That of a task that is not wanted any more. */
struct fw_outcome *fw_scaled_down(void);
/* Sets the outcome of an attempt if it has none, else frees o.  o can be NULL. */
void fw_end(struct fw_sync *s, struct fw_life *l, struct fw_outcome *o);
/* Ends the attempt of the Framework.  Without `force` its ConfigMap is to be deleted first. */
void fw_complete(struct fw_sync *s, bool force, struct fw_outcome *o);
/* FrameworkAttemptCompletionPolicy over all tasks, by the order of their completion. */
void fw_rules(struct fw_sync *s);
/* The same for a task that has just ended for good. */
void fw_rules_after(struct fw_sync *s, struct fw_role *r, size_t index);

/* How an ended attempt goes on. */
struct fw_decision {
	bool retry, accountable;
	int64_t delay_s;
};
struct fw_decision fw_decide(struct fw_sync *s, const struct fw_policy *p, const struct fw_life *l,
                             bool delayed);
/* Counts a retry.  The new attempt is the caller's. */
void fw_retry(struct fw_life *l, bool accountable);

/* A new task attempt, or a whole new task with its uid; the state is not set. */
void fw_task_begin(struct fw_sync *s, struct fw_task *t);
/* Makes the status of all roles anew from the spec, or all of the Framework's first one. */
void fw_attempt_begin(struct fw_sync *s);

/* Follows the spec.  true: tasks were added, marked or replaced. */
bool fw_rescale(struct fw_sync *s);
void fw_task_sync(struct fw_sync *s, struct fw_role *r, size_t index);

/* ---- failed pods (failure.c), objects (objects.c) ---- */

/* The outcome of a pod that has ended. */
struct fw_outcome *fw_pod_succeeded(const struct framework_pod *pod);
struct fw_outcome *fw_pod_failed(const struct framework_config *c, const char *name,
                                 const struct framework_pod *pod);
/* The outcome of a pod that the API server refused; NULL: it may be taken later. */
struct fw_outcome *fw_pod_refused(int http, struct span status);

/* Objects for FRAMEWORK's create, as JSON text. */
void fw_configmap_object(const struct framework *f, struct str *out);
void fw_pod_object(const struct framework *f, const struct fw_role *r, size_t index,
                   struct str *out);
