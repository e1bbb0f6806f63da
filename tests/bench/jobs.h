#pragma once
/* The jobs that are timed. */
#include "base/str.h"

struct bench_job {
	const char *name;
	enum { JOB_SHIPPED, JOB_ROLES, JOB_INSTANCES } kind;
	const char *file;    /* of a shipped one */
	const char *secrets; /* put at its end, or "" */
	int n;               /* roles or instances of another one */
};

extern const struct bench_job JOBS[];
extern const size_t N_JOBS;

/* NULL if there is none of that name. */
const struct bench_job *job_find(struct span name);
void job_text(const struct bench_job *job, struct str *out);
