#pragma once
/*
 * How a job is, out of what a server answers of it (/api/v2/jobs/USER~NAME), for people.  All text
 * of it is made visible (lines.h).  Pure; no thread rule.
 */
#include "base/arena.h"
#include "base/err.h"
#include "k8s/cache/job_state.h"

enum { PROGRESS_DEPTH = 64, DURATION_MAX = 32 };

struct role_progress {
	const char *name;
	uint32_t tasks, in[JOB_STATE_MAX];
};

struct progress {
	enum job_state state;
	bool stopping; /* asked to, and not yet ended */
	int64_t retries;
	int64_t submitted_ms, completed_ms; /* since 1970; 0: unknown */
	const char *waiting;                /* which task waits for what; "" if nobody says */
	struct role_progress *role;
	size_t n_roles;
	struct span status; /* its jobStatus */
};

/* Everything lives in the arena or in the text.  -1 and *e (500): this is no job. */
int progress_read(struct progress *p, struct span detail, struct arena *a, struct err *e);

/* "RUNNING, worker 3/4 running 1 waiting, ps 2/2 running": changes when something has changed. */
void progress_line(struct str *out, const struct progress *p);
/* What a block is drawn for. */
struct frame {
	const char *job;
	size_t columns, rows;
	int64_t now_ms; /* since 1970 */
};
/* The same as lines for a terminal, each with LF, none wider than `columns`: the job, a bar for
 * each role, why it waits; at most `rows` of them. */
void progress_block(struct str *out, const struct progress *p, const struct frame *f);
/* What became of it: state, time, exit code, reason and what to do, as lines.  Of a job that has
 * not ended: its state. */
void progress_verdict(struct str *out, const struct progress *p, const char *job);

/* "45s", "3m 12s", "2h 05m", "4d 03h" */
void duration_text(struct str *out, int64_t ms);
