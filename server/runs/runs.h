#pragma once
/*
 * Jobs that are compared: the last value of a metric in a log, and how far the jobs are.  Pure.
 *
 *	struct span last = log_metric_last(log, "loss", &arena);
 *	if (last.p)
 *		double value = strtod(last.p, NULL);
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/str.h"

/* The last number after this name in a log, as it is written there, in the arena: "1e-4", "nan"; p
 * NULL: none.  docs/FOLLOWING.md has the rule. */
struct span log_metric_last(struct span log, const char *name, struct arena *a);

/* Appends "5 jobs: 3 succeeded, 1 runs, 1 waits; done by about 18:40" and LF for the rows of a list
 * (JSON of /api/v2/jobs).  The time is local, and only there if at least three have succeeded.
 * now_ms: since 1970. */
void run_counts_put(struct str *out, struct span rows, int64_t now_ms);
