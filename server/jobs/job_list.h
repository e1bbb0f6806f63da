#pragma once
/*
 * Lists of jobs, and the watching of them: which jobs a query chooses, in which order, and which
 * page of them.  The rules are OpenPAI's; where they differ stands in docs/DEVIATIONS.md.  Pure.
 */
#include "base/arena.h"
#include "base/err.h"
#include "k8s/cache/job_entry.h"

struct view;

enum { JOB_LIMIT = 5000, JOB_LIMIT_MAX = 50000 };

/* Any of these texts, which are sorted; n is 0: any at all. */
struct any_of {
	const struct span *v;
	size_t n;
};

enum job_order {
	ORDER_SUBMITTED,
	ORDER_NAME,
	ORDER_USER,
	ORDER_CLUSTER,
	ORDER_RETRIES,
	ORDER_TASKS,
	ORDER_GPUS,
	ORDER_STATE,
	ORDER_COMPLETED,
	ORDER_PRIORITY,
	ORDER_MAX
};

struct job_query {
	bool v1; /* others' Frameworks, too, and STOPPING counts as RUNNING */
	struct any_of users, clusters, priorities;
	struct any_of tags, without_tags; /* as JSON strings, in their quotes */
	unsigned states;                  /* bits: 1u << JOB_RUNNING */
	struct span keyword;              /* in user, name or virtual cluster; "" is in all */
	enum job_order order;
	bool descending;
	bool with_total;
	int64_t offset, limit;
};

/* Read what follows the `?`.  Parameters that it does not know it passes over, so that other
 * routes may have more; of those given twice the last one counts, and an empty one is none.  Lives
 * in the arena.  -1 and *e: 400 InvalidParametersError. */
int job_query_read(struct job_query *q, const char *query, bool v1, struct arena *a, struct err *e);
/* Does it choose this one? */
bool job_query_takes(const struct job_query *q, const struct job_entry *job);

/* What jobs are compared by: the field as a number, or the first 8 bytes of a text (UTF-8 compared
 * as bytes); then the latest first (created_ms, then
 * submitted_ms); then by metadata.name, which no two have. */
struct job_key {
	uint64_t field, age;
	const struct job_entry *job;
};

/*
 * The page of a query: add all jobs that it takes, in any order, then end, and v[0..n) are those of
 * the page.  It keeps at most twice offset + limit of them meanwhile.  Jobs are borrowed.
 */
struct job_page {
	const struct job_query *query;
	size_t total; /* that were added */
	struct job_key *v;
	size_t n, cap;
	size_t wanted; /* offset + limit */
	bool cut;      /* `worst` is the last that may come into the page */
	struct job_key worst;
	uint64_t random;
};

void job_page_begin(struct job_page *p, const struct job_query *q);
void job_page_add(struct job_page *p, const struct job_entry *job);
/* Add all jobs of a view that the query takes. */
void job_page_gather(struct job_page *p, const struct view *view);
void job_page_end(struct job_page *p);
void job_page_done(struct job_page *p);
#define JOB_PAGE_AUTO __attribute__((cleanup(job_page_done))) struct job_page
