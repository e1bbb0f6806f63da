#pragma once
/*
 * One Framework in the cache: the fields that lists show, and the rest as compressed JSON.
 *
 *	struct job_entry *entry = job_entry_new(object);
 *	struct span doc;
 *	if (entry && entry->state == JOB_FAILED && job_entry_doc(entry, a, &doc))
 *		use(entry->name, scan_get(doc, "spec"));
 *	job_entry_drop(entry);
 *
 * Immutable, reference-counted, shared: job_entry_hold keeps one, job_entry_drop gives the
 * reference back.
 *
 * Objects are untrusted: each member may be missing or of any type.  A malformed Framework is
 * listed with its name and the state UNKNOWN, never left out.
 *
 * Thread: any
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "jobs/framework/view.h"

/* The states of OpenPAI, which this server derives from those of FrameworkController. */
enum job_state {
	JOB_WAITING,
	JOB_RUNNING,
	JOB_STOPPING,
	JOB_SUCCEEDED,
	JOB_STOPPED,
	JOB_FAILED,
	JOB_UNKNOWN,
	JOB_STATE_MAX
};

extern const char *const JOB_STATES[JOB_STATE_MAX];

/* The state of a Framework or a task.  state: as the controller writes it; code: the exit code of
 * the latest attempt. */
enum job_state job_state_of(struct span state, bool has_code, int64_t code);
/* The same for an attempt, which AttemptCompleted ends. */
enum job_state attempt_state_of(struct span state, bool has_code, int64_t code);

/* SUCCEEDED, STOPPED, FAILED: the job does not change any more. */
static inline bool job_state_final(enum job_state s)
{
	return s == JOB_SUCCEEDED || s == JOB_STOPPED || s == JOB_FAILED;
}
/* "WAITING", upper or lower case; JOB_STATE_MAX for other names. */
enum job_state job_state_named(struct span name);

enum {
	JOB_ENTRY_DOC_MAX = 256 << 10,  /* compressed; larger ones are read from the API server */
	JOB_ENTRY_PLAIN_MAX = 16 << 10, /* bytes of a document that may stay uncompressed */
	JOB_ENTRY_TAGS_MAX = 32,
	JOB_ENTRY_TAG_MAX = 63, /* bytes */
	JOB_ENTRY_NONE = -1     /* an unknown number or time */
};

struct job_entry {
	struct job_entry *own; /* this entry, for job_entry_hold and job_entry_drop only */
	atomic_uint refs;
	/* NUL-terminated; "" if missing. */
	const char *name; /* metadata.name */
	const char *uid;
	const char *job;  /* annotation jobName, else the name */
	const char *user; /* label userName: the owner */
	/* The user of a job without that label: PAI_USER_NAME of the first container.  For display
	 * only, never for access control. */
	const char *maker;
	const char *cluster;   /* label virtualCluster, "unknown" without one */
	const char *sub_state; /* status.state */
	const char *execution; /* START, STOP, CREATE */
	const char *priority;  /* extras.hivedScheduler.jobPriorityClass; "" for none */
	const char *tags;      /* a JSON list of texts, in order, [] if there are none */
	const char *hold;      /* the jobs and times before its start (hold.h); "": none */
	const char *waits;     /* why the controller does not start it; "": unknown */
	const char *webhook;   /* the installation that reports the job's end; "": none, or done */
	const char *resource_version;
	int64_t version; /* resource_version as a number; 0 if it is not one */
	/* Time of submission by this server's clock: orders jobs with the same created_ms.
	 * JOB_ENTRY_NONE: created by another program. */
	int64_t submitted_ms;
	/* First 64 bits of the hash of user and Idempotency-Key (server/submit/idempotency.c); 0:
	 * none. */
	uint64_t key;
	uint64_t archive; /* first 64 bits of the label rest-lit/code (jobs/code); 0: none */
	enum job_state state;
	bool legacy; /* created by another program: no jobName, or no MD5 name */
	bool broken; /* a member has the wrong type; the state is UNKNOWN */
	bool deleting;
	bool creating; /* label rest-lit/creating: not started */
	/* Annotation rest-lit/order: orders the jobs with a `max` in hold; 0: absent. */
	int64_t order;
	bool held;      /* made, and not to be started yet */
	bool untouched; /* no status: not seen by FrameworkController */
	bool plain; /* doc is not compressed: it is small, and the object untouched; no status */
	bool has_code;
	int32_t code; /* of the latest attempt */
	bool has_last;
	int32_t last_code; /* of the attempt before it, if the controller has kept that */
	int32_t retries, accountable;
	int32_t attempt;        /* number of the latest, from 0 */
	int32_t retry_delay_s;  /* JOB_ENTRY_NONE: none */
	int32_t max_duration_s; /* annotation rest-lit/max-duration-sec; 0: no limit */
	int32_t tasks, roles;
	int64_t gpus;
	int64_t milli_cpus, memory_mb; /* limits of all containers of all tasks */
	/* Milliseconds since 1970, or JOB_ENTRY_NONE. */
	int64_t created_ms, launched_ms, completed_ms;
	int64_t transition_ms; /* begin of sub_state */
	/* The same as launched_ms by clock_boot_ms, if the job runs on this machine and it has not
	 * been booted since then: annotation rest-lit/launched, "BOOT MS".  0: unknown. */
	int64_t launched_boot_ms;
	/* All GPUs of the job do nothing since then (annotation rest-lit/gpu-idle);
	 * JOB_ENTRY_NONE: no, or not known, or it has ended. */
	int64_t gpu_idle_ms;
	/* When that was stored, and the same by clock_boot_ms; of another boot: when this process
	 * saw it first. */
	int64_t gpu_warned_ms, gpu_warned_boot_ms;
	int64_t gpu_kept_ms; /* annotation rest-lit/gpu-keep: that is allowed until then; 0 */
	/* The gpu_idle_ms that --webhook was told of (annotation rest-lit/webhook-idle); 0. */
	int64_t gpu_idle_told_ms;
	/* The object for details, JSON without managedFields, resourceVersion and status, with
	 * reduced pod templates; and its status.  Compressed unless it is `plain`.  n is 0 if they
	 * are too large. */
	struct span doc, status;
	size_t doc_size, status_size; /* inflated */
	size_t weight;                /* bytes of memory */
};

/* Milliseconds until the job has run for max_duration_s, counted from the first start of a task,
 * over all attempts; by launched_boot_ms if it is known, else by the wall clock.  Less
 * than 1: it has.  INT64_MAX: never, or it has ended or is being stopped. */
int64_t job_entry_left_ms(const struct job_entry *c);
/* Milliseconds until stop_ms have passed since the warning about idle GPUs was stored, but not
 * before gpu_kept_ms.  INT64_MAX: there is none, or the job does not run, or stop_ms is 0. */
int64_t job_entry_idle_left_ms(const struct job_entry *c, int64_t stop_ms);

/* Annotation rest-lit/gpu-idle, "SINCE WARNED BOOT WARNED_BOOT": milliseconds since 1970, boot id
 * (process_boot), clock_boot_ms.  Returns SINCE, or JOB_ENTRY_NONE if it is absent or not valid.
 * *boot_ms of another boot: now. */
int64_t job_idle_read(struct span annotation, int64_t *warned_ms, int64_t *boot_ms);
/* Annotation rest-lit/gpu-keep, "UNTIL HOURS REASON": milliseconds since 1970, the sum of all
 * hours.  Returns UNTIL, or 0 if it is absent or not valid; *annotation becomes the reason. */
int64_t job_keep_read(struct span *annotation, int64_t *hours);

/* job_entry.key for the annotation rest-lit/idempotency ("KEY-BODY", hex). */
uint64_t job_entry_key(struct span annotation);

/* A tag: 1 to JOB_ENTRY_TAG_MAX bytes without control characters. */
bool job_entry_tag_ok(struct span tag);

/* Reads the JSON text of a Framework, which must pass scan_valid.  NULL without a name.  The caller
 * owns the reference. */
struct job_entry *job_entry_new(struct span object);
/* The same.  before: an earlier entry of the Framework, or NULL; a document that has not changed is
 * not compressed again. */
struct job_entry *job_entry_new_after(struct span object, const struct job_entry *before);
/* Facts about a new Framework besides its own metadata.  The API server adds uid, version and
 * created; "" if unknown.  The other members are about the job: the limits of all tasks, at least
 * 0. */
struct job_entry_made {
	const char *uid, *version, *created;
	int64_t tasks, roles;
	int64_t gpus, milli_cpus, memory_mb;
};
/* Makes the entry of a Framework that this server has just started, or made held: full metadata,
 * but no document, which the watch delivers.  Only the metadata of the object is read. */
struct job_entry *job_entry_new_made(struct span object, const struct job_entry_made *made);
/* The next entry of a Framework whose status alone has changed. */
struct job_entry_stated {
	const struct fw_summary *summary;
	struct span status; /* JSON */
	int64_t version;
	int64_t launched_boot_ms; /* 0: as it was */
	const char *gpu_idle;     /* annotation rest-lit/gpu-idle; NULL: as it was; "": none */
};
struct job_entry *job_entry_new_stated(const struct job_entry *before,
                                       const struct job_entry_stated *s);
/* The user to display: owner, else maker, else `unknown`. */
const char *job_entry_shown_user(const struct job_entry *c);
struct job_entry *job_entry_hold(const struct job_entry *c);
void job_entry_drop(const struct job_entry *c); /* accepts NULL */
/* A new entry without the document. */
struct job_entry *job_entry_without_doc(const struct job_entry *c);

/* The inflated document, with its status, in the arena.  false if there is none. */
bool job_entry_doc(const struct job_entry *c, struct arena *a, struct span *doc);
/* The same for the status alone; "" before there is one. */
bool job_entry_status(const struct job_entry *c, struct arena *a, struct span *status);
/* GPUs of one task of this role of a spec, by the limits of its containers. */
int64_t job_entry_role_gpus(struct span role, struct arena *a);
/* Lists and watches of the job show no difference. */
bool job_entry_same(const struct job_entry *a, const struct job_entry *b);
