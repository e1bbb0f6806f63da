#pragma once
/* Frameworks of tests/data/frameworks, and others, as they are kept. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/base/cmocka.h"

#include "base/json/scan.h"
#include "jobs/cache/job_entry.h"

#define JOB_ENTRY_AUTO __attribute__((cleanup(job_entry_cleanup))) struct job_entry
static inline void job_entry_cleanup(struct job_entry **c)
{
	job_entry_drop(*c);
}

static inline struct span read_file(struct arena *a, const char *name)
{
	return unit_read(arena_printf(a, "tests/data/frameworks/%s.json", name));
}

/* Makes an entry of a text in memory of exactly its size. */
static inline struct job_entry *job_entry_of(struct span object)
{
	assert_true(scan_valid(object, 64));
	FREE_AUTO char *p = xmalloc(object.n);
	memcpy(p, object.p, object.n);
	struct job_entry *c = job_entry_new((struct span){ p, object.n });
	return c;
}

#define MD5 "0123456789abcdef0123456789abcdef"
#define OBJECT(annotations, spec, status)                                                          \
	"{\"metadata\":{\"name\":\"" MD5 "\",\"uid\":\"u\",\"annotations\":" annotations           \
	"},\"spec\":" spec ",\"status\":" status "}"

static inline struct job_entry *annotated(const char *annotations)
{
	FREE_AUTO char *text = xasprintf(OBJECT("%s", "{}", "null"), annotations);
	return job_entry_of(span_of(text));
}
