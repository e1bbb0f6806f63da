#include "tests/bench/jobs.h"

#include "tests/lib/files.h"

#define SECRETS                                                                                    \
	"secrets:\n"                                                                               \
	"  registryPassword: 0123456789abcdef\n"                                                   \
	"  token: fedcba9876543210\n"

/* clang-format off */
const struct bench_job JOBS[] = {
	{ "small",            JOB_SHIPPED, "tests/bench/small.yaml",  "",      0 },
	{ "small + secrets",  JOB_SHIPPED, "tests/bench/small.yaml",  SECRETS, 0 },
	{ "medium",           JOB_SHIPPED, "tests/bench/medium.yaml", "",      0 },
	{ "medium + secrets", JOB_SHIPPED, "tests/bench/medium.yaml", SECRETS, 0 },
	{ "large",            JOB_SHIPPED, "tests/bench/large.yaml",  "",      0 },
	{ "large + secrets",  JOB_SHIPPED, "tests/bench/large.yaml",  SECRETS, 0 },
	{ "1 role",          JOB_ROLES,     NULL, NULL, 1 },
	{ "4 roles",         JOB_ROLES,     NULL, NULL, 4 },
	{ "16 roles",        JOB_ROLES,     NULL, NULL, 16 },
	{ "64 roles",        JOB_ROLES,     NULL, NULL, 64 },
	{ "256 roles",       JOB_ROLES,     NULL, NULL, 256 },
	{ "1 instance",      JOB_INSTANCES, NULL, NULL, 1 },
	{ "10 instances",    JOB_INSTANCES, NULL, NULL, 10 },
	{ "100 instances",   JOB_INSTANCES, NULL, NULL, 100 },
	{ "1000 instances",  JOB_INSTANCES, NULL, NULL, 1000 },
	{ "10000 instances", JOB_INSTANCES, NULL, NULL, 10000 },
};
/* clang-format on */
const size_t N_JOBS = sizeof(JOBS) / sizeof(*JOBS);

const struct bench_job *job_find(struct span name)
{
	for (size_t i = 0; i < N_JOBS; i++) {
		if (span_is(name, JOBS[i].name))
			return &JOBS[i];
	}
	return NULL;
}

static void made_text(struct str *out, int roles, int instances)
{
	str_puts(out,
	         "protocolVersion: 2\nname: growth\ntype: job\n"
	         "prerequisites:\n  - {type: dockerimage, name: img, uri: debian}\ntaskRoles:\n");
	for (int i = 0; i < roles; i++)
		str_printf(out,
		           "  role%d:\n    instances: %d\n    dockerImage: img\n"
		           "    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}\n"
		           "    commands:\n      - python train.py --role %d\n",
		           i, instances, i);
}

void job_text(const struct bench_job *job, struct str *out)
{
	if (job->kind == JOB_SHIPPED) {
		STR_AUTO text = file_load(job->file);
		str_span(out, str_view(&text));
		str_puts(out, job->secrets);
	} else {
		made_text(out, job->kind == JOB_ROLES ? job->n : 1,
		          job->kind == JOB_INSTANCES ? job->n : 1);
	}
}
