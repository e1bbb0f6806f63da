#pragma once
/*
 * The use of tasks: a row of store.db for each pod that had resources, which outlives its job
 * (ATTEMPTS_DAYS, at most ATTEMPTS_MAX rows, the oldest go first).  Not objects of an API server:
 * no version, no owner, no follower.  When a Framework is deleted, the curves of its rows go in the
 * same transaction.  A row that cannot be read back is left out, and dropped with a sentence at the
 * next start; rows never keep a store from being opened.
 *
 * Each function waits for the disk; attempts_put shares the commits of requests, the others have a
 * connection of their own and hold up no commit.  -1 and *e: 503, nothing is changed.
 *
 * Thread: worker
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "machine/store/local.h"

enum { ATTEMPTS_DAYS = 400, ATTEMPTS_MAX = 500000, ATTEMPTS_ROWS = 10000 };
enum { ATTEMPT_BYTES = 1 << 20 };

struct attempt {
	struct span uid;       /* of the pod: the key */
	struct span framework; /* the uid of the Framework */
	struct span job, user, virtual_cluster, role;
	int64_t index, attempt, retry;
	int64_t gpus, cpus, memory; /* that it holds: cpus in thousandths, memory in bytes */
	int64_t bound_ms;           /* since 1970, when it got them */
	int64_t held_ms;            /* so long, by a clock that is never set; so far */
	bool ended;
	int64_t exit;                      /* of an ended one */
	int64_t cpu_ms, idle_ms, energy_j; /* idle: of all its GPUs together; -1: unknown */
	struct span figures;               /* JSON, or empty */
	struct span curves;                /* bytes of machine/usage/, or empty */
};

/* Stores n rows, each in the place of an earlier one of its uid; without curves if the Framework is
 * gone.  -1 also if a row could not be read back: no uid, a text of more than 1 KiB or not UTF-8,
 * figures that are no JSON, figures and curves of more than ATTEMPT_BYTES, a number below 0 that
 * may not be, or from 2^53 on. */
int attempts_put(struct local *l, const struct attempt *v, size_t n, struct err *e);
/* Reads the row of a pod; 1: there is none. */
int attempts_find(struct local *l, struct span uid, struct arena *a, struct attempt *out,
                  struct err *e);
/* Reads the rows of a Framework, the first `curves` of them with curves; by role, index, attempt,
 * retry.  1: there are more than ATTEMPTS_ROWS; these are in *v. */
int attempts_of(struct local *l, struct span framework, size_t curves, struct arena *a,
                struct attempt **v, size_t *n, struct err *e);

/* Sums of rows that held something between two times (since 1970); a row that was longer counts in
 * proportion, its held time exactly.  With by_week, each week is summed as if only it was asked
 * for: a row of three weeks counts in each of them.  By week, then the most GPU time first. */
struct attempts_query {
	int64_t since_ms, until_ms;
	struct span user;                          /* only of this one; empty: of all */
	bool by_user, by_virtual_cluster, by_week; /* a week begins on Monday, 00:00 UTC */
};
struct attempts_sum {
	struct span user, virtual_cluster;             /* empty: not asked for */
	int64_t week_ms;                               /* begin; 0: not asked for */
	int64_t gpu_ms, gpu_idle_ms, cpu_ms, energy_j; /* gpu_ms: GPUs times held time */
	int64_t attempts, failed; /* failed: ended with another exit code than 0 */
};
enum { ATTEMPTS_SUMS = 10000 };
/* 1: there are more than ATTEMPTS_SUMS; these are in *v. */
int attempts_sum(struct local *l, const struct attempts_query *q, struct arena *a,
                 struct attempts_sum **v, size_t *n, struct err *e);
