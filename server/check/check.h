#pragma once
/*
 * The diagnoses of a cluster and of a machine, as one list: a check asks, judges, and reports lines
 * with what it has found and the remedy.  `rest-lit check` makes all checks and prints the lines; a
 * server in a cluster makes those with `serve` at its start and on SIGHUP, and logs them
 * (cluster/upkeep.c).  What the server notices by itself (cluster/follow.c), and the reasons
 * of /readyz, have their texts here, too.  Nothing is created or changed.
 *
 * check.c has the list, rights.c the RBAC rights, the other files the checks.  Functions block.
 *
 * Thread: worker
 */
#include "jobs/store/call.h"
#include "server/state/server.h"

enum check_state {
	CHECK_OK,
	CHECK_WARNING, /* serve works, without a feature or not for long */
	CHECK_FAILED,  /* serve does not start, or does not do what the options ask for */
	CHECK_SKIPPED, /* this account cannot find out */
	CHECK_STATE_MAX
};
extern const char *const CHECK_STATES[CHECK_STATE_MAX];

struct check_line {
	enum check_state state;
	const char *item;
	const char *found; /* sentences for people, which may contain untrusted text */
	const char *mend;  /* remedy; NULL: in `found`, or none is needed */
};
/* The line is borrowed until it returns. */
typedef void check_taker(void *arg, const struct check_line *line);

/* The needs of the pods of every job in the cluster: a PriorityClass, a label of nodes, devices. */
enum { POD_NEEDS_DEVICES = 8 };
struct pod_needs {
	const char *priority_class;            /* NULL: none, or one per job */
	const char *node_key, *node_value;     /* label of the nodes; NULL: any node */
	const char *node_query;                /* of a LIST of these nodes; NULL: any node */
	const char *device[POD_NEEDS_DEVICES]; /* of a task with one GPU; NULL ends them */
};
/* Reads them from a small job that it translates; nothing is added if the templates cannot make
 * such a job.  Texts live in the arena. */
void pod_needs_read(const struct translator *t, struct arena *a, struct pod_needs *out);

/* A look at everything, or a part of it: the first members are set, the others zero. */
struct check_session {
	const struct server *server;
	const struct options *o;
	const struct pod_needs *needs; /* of a cluster; empty if the templates are not valid */
	struct caller *caller;         /* of a cluster; its store may still be NULL */
	int64_t wait_ms;               /* for each answer */
	check_taker *take;
	void *arg;

	const char *item;         /* the name of the current check */
	struct arena arena;       /* of all texts and answers; freed by the caller */
	struct store_reply reply; /* the last answer */
	bool unanswered;          /* since this was set to false, a request got no answer */
	bool answers;             /* the API server has answered, and knows this account */
	bool date;                /* it has told its time, and this one is ahead by: */
	int64_t skew_s;
	const struct check_leader *leader; /* by check_leader() */
	const char *dir;     /* an existing directory on the file system of --local; NULL: none */
	const char *program; /* pai-runtime, absolute; NULL: none */
};
typedef void check_item(struct check_session *c);
check_item check_nodes; /* c->reply is the list then */

/* Its needs decide whether a check is made at all. */
enum check_of {
	OF_CLUSTER,
	OF_API, /* needs its answers */
	OF_DIRECTORY,
	OF_MACHINE,
	OF_RETURN /* as OF_API; with --hand-back, which leaves out all but it and the API server */
};
struct check {
	const char *item;
	enum check_of of;
	bool serve; /* of OF_API: made by a server, too */
	check_item *run;
};
enum { N_CHECKS = 22 };
extern const struct check CHECKS[N_CHECKS];

/* Makes all checks that the options need, in this order. */
void check_run(struct check_session *c);
/* Reports a line of the current item. */
void check_report(struct check_session *c, enum check_state state, const char *found,
                  const char *mend);
#define SAY(c, state, mend, ...)                                                                   \
	check_report(c, state, arena_printf(&(c)->arena, __VA_ARGS__), mend)
/* The same with all notes of an error; file: of its places, or NULL. */
void check_error(struct check_session *c, enum check_state state, const char *file,
                 const struct err *e);
/* Logs a line; a taker without argument.  Thread: any. */
void check_log(void *arg, const struct check_line *line);

/* ---- remedies, and facts that are found in several ways (any thread) ---- */

/* Returns "kubectl apply" of a file of k8s/deploy, by sed if it has another namespace, service
 * account or instance than the options, in the arena. */
const char *check_apply(const struct server *s, struct arena *a, const char *file);
#define CHECK_MEND_CRD "kubectl apply -f k8s/deploy/crd/crd.yaml"

enum { NEGLECT_MS = 30000 }; /* a started Framework has a status sooner */
/* No controller processes jobs: this Framework has had no status for so long. */
struct check_line check_neglect(struct arena *a, const char *framework, int64_t ms);
/* FrameworkController does not know these exit codes ("248, 250") of pai-runtime, and retries tasks
 * by its own configuration. */
struct check_line check_unknown_codes(struct arena *a, const char *codes);
/* Returns true if the exit specification has the code as one of pai-runtime. */
bool check_is_runtime_code(const struct exit_spec *s, int64_t code);

/* Returns true if an existing ConfigMap holds the wanted program (runtime_object), immutably. */
bool check_has_program(struct span wanted, struct span there);
extern const char CHECK_FOREIGN[]; /* that it does not, for users */
/* The command that deletes it, in the arena. */
const char *check_mend_foreign(const struct server *s, struct arena *a, const char *name);

#define CHECK_HOST_FILES "tasks see the files of this machine instead of their images"
/* Images can be used: by skopeo, umoci, and overlays in the directory.  -1 and *e: 503. */
int check_can_use_images(const char *program, const char *dir, struct err *e);
struct inventory_settings;
/* The settings of inventory_read by the options. */
void check_inventory(const struct options *o, struct inventory_settings *out);
