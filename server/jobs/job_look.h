#pragma once
/*
 * What the routes that show one job in full have in common: find it, wait if that is asked for,
 * fetch the attempt, and answer with what `render` writes.  All on the loop's thread.
 */
#include "server/jobs/job_find.h"
#include "server/jobs/job_show.h"

/* Write the answer; -1 and *e.  Called once for the attempt that was asked for. */
typedef int job_render(struct request *r, const struct job_shown *shown, struct str *out,
                       struct err *e);

struct job_looking {
	struct span attempt; /* of the path: a number, or `latest` */
	job_render *render;
	bool waits; /* ?wait= */
	bool tags;  /* with an ETag, and 304 to If-None-Match */
};
void job_look(struct request *r, const struct job_looking *how);

/* The Events that may say why a job waits, if the client of r may see them; how many. */
size_t job_look_events(const struct request *r, const struct job_entry *job, struct arena *a,
                       struct event **v);
/* Does nobody work on it? */
enum neglect job_look_neglect(const struct request *r, const struct job_entry *job);
/* What is shown of it, of its latest attempt. */
struct job_shown job_shown_of(const struct request *r, const struct job_entry *job,
                              struct span doc);
/* Answer with what was written to r's body by -1 or 0 and *e, and count it. */
void job_answer(struct request *r, int failed, const struct err *e);
