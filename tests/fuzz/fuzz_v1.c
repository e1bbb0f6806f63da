/*
 * Any text as a job of the first generation, with all of its settings on.  What is accepted
 * is accepted again from its own stored text, and is the same job; completion never ends a
 * job before killAllOnCompletedTaskNumber would have.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/lines.h"
#include "translate/job/job.h"
#include "translate/translate.h"

struct run {
	struct arena arena;
	struct err err;
	struct notes warnings;
	struct job *job;
};

static struct run read_job(const struct translator *t, struct span text)
{
	struct run r = { 0 };
	r.job = job_read(t, DIALECT_V1, text, "alice", &r.arena, &r.warnings, &r.err);
	if (r.job == NULL)
		assert(r.err.http == 400 && strcmp(r.err.code, "InvalidParametersError") == 0);
	return r;
}

static void run_done(struct run *r)
{
	err_done(&r->err);
	notes_done(&r->warnings);
	arena_done(&r->arena);
}

static void check_completion(const struct job *job)
{
	for (size_t i = 0; i < job->n_roles; i++) {
		const struct role *role = &job->roles[i];
		assert(role->min_failed == -1 || role->min_failed >= 1);
		assert(role->min_succeeded == -1 || role->min_succeeded >= 1);
		assert(role->min_succeeded <= role->instances);
	}
}

static void check_directory(struct span dir)
{
	for (size_t i = 0; i < dir.n; i++)
		assert((unsigned char)dir.p[i] >= ' ');
}

static void check_same(const struct job *one, const struct job *two)
{
	assert(span_eq(one->id, two->id) && one->n_roles == two->n_roles);
	assert(one->kill_all == two->kill_all && one->retry_max == two->retry_max);
	for (size_t i = 0; i < one->n_roles; i++) {
		assert(span_eq(one->roles[i].command, two->roles[i].command));
		assert(one->roles[i].n_env == two->roles[i].n_env);
	}
}

FUZZ(text)
{
	static struct translator *t;
	struct settings s;
	ERR_AUTO e = { 0 };
	translate_settings_default(&s);
	s.fetch_code = true;
	s.fs_uri = "hdfs://h:9000";
	if (t == NULL)
		t = translator_new(&s, NULL, &e);
	assert(t);
	AUTO(run_done) struct run one = read_job(t, text);
	if (one.job) {
		check_completion(one.job);
		check_directory(one.job->data_dir);
		check_directory(one.job->code_dir);
		AUTO(run_done) struct run two = read_job(t, one.job->config);
		assert(two.job);
		check_same(one.job, two.job);
	}
}
