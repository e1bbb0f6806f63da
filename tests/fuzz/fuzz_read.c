/*
 * Any text as a job of either generation.  Whatever comes: a verdict that agrees with the
 * notes, every note printable and without a secret; and of a job that is accepted, all
 * numbers and names within what Kubernetes takes, a stored text without secrets, and a conversion
 * to protocol 2 that says the same.
 */
#include <stdlib.h>

#include "base/enc.h"
#include "base/image/image.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/lines.h"
#include "tests/lib/secrets.h"
#include "translate/job/job.h"
#include "translate/job/names.h"
#include "translate/translate.h"

static void check_notes(const struct notes *notes, struct span text)
{
	for (size_t i = 0; i < notes->n; i++) {
		STR_AUTO line = STR_INIT(1 << 16);
		note_text(&line, &notes->v[i]);
		struct span said = str_view(&line);
		assert(said.n > 0 && utf8_check(said) == said.n);
		for (size_t k = 0; k < said.n; k++)
			assert((unsigned char)said.p[k] >= ' ' && said.p[k] != '\x7f');
		/* A secret may be a word of ours; this marker, which the seeds have, is none. */
		if (span_find(said, 0, "hunter2") != SIZE_MAX)
			assert(secret_found(text, said) == 0);
	}
}

static void check_role(const struct role *role)
{
	size_t n = strlen(role->object_name);
	assert(n >= 1 && n <= 63 &&
	       strspn(role->object_name, "abcdefghijklmnopqrstuvwxyz0123456789") == n);
	assert(role->instances >= 1 && role->instances <= 10000);
	assert(role->min_failed >= -1 && role->min_failed <= INT32_MAX);
	assert(role->min_succeeded >= -1 && role->min_succeeded <= INT32_MAX);
	assert(role->task_retry_max >= -2 && role->task_retry_max <= INT32_MAX);
	assert(role->cpu >= 0 && role->cpu <= INT32_MAX && role->gpu >= 0 &&
	       role->gpu <= INT32_MAX);
	assert((role->memory_mb >= 1 || role->pod) && role->memory_mb <= INT32_MAX);
	assert(role->shm_mb >= 0 && role->shm_mb <= INT32_MAX);
	assert(image_problem(role->image) == NULL);
	assert(role->n_ports >= 2);
	for (size_t i = 0; i < role->n_ports; i++)
		assert(names_identifier_ok(role->ports[i].label) && role->ports[i].count >= 0);
	for (size_t i = 0; i < role->n_env; i++)
		assert(names_identifier_ok(role->env[i].name));
}

static void check_job(const struct job *job, struct span text)
{
	assert(strlen(job->hash) == 32 && job->n_roles >= 1 && job->name.n > 0);
	assert(names_label_value_ok(job->virtual_cluster));
	for (size_t i = 0; i < job->n_roles; i++)
		check_role(&job->roles[i]);
	for (size_t i = 0; i < job->n_storages; i++) {
		assert(names_storage_ok(job->storages[i].name));
		assert(names_mount_path_problem(job->storages[i].mount_path) == NULL);
	}
	if (job->dialect->old_env)
		return; /* it has no secrets */
	assert(secret_found(text, job->config) == 0);
	assert(job->redacted || (job->secrets == NULL && span_eq(job->config, text)));
	assert(!job->redacted || stored_fault(text, job->config) == NULL);
}

/* As a v2 job it is read again, and says the same. */
static void check_converted(const struct translator *t, const struct job *job,
                            const struct notes *warnings)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO lost = { 0 };
	NOTES_AUTO again = { 0 };
	STR_AUTO yaml = STR_INIT(64 << 20);
	if (job_convert(t, job, warnings, &lost, &yaml, &e)) {
		assert(e.http == 400 || e.http == 413);
		return;
	}
	const struct job *v2 = job_read(t, DIALECT_V2, str_view(&yaml), "alice", &a, &again, &e);
	assert(v2 && v2->n_roles == job->n_roles && v2->gang == job->gang);
	assert(v2->total_tasks == job->total_tasks && v2->total_gpu == job->total_gpu);
	assert(span_eq(v2->virtual_cluster, job->virtual_cluster));
	for (size_t i = 0; i < job->n_roles; i++) {
		const struct role *is = &v2->roles[i];
		const struct role *was = &job->roles[i];
		struct span command = span_trim(was->command);
		assert(strcmp(is->object_name, was->object_name) == 0);
		assert(is->min_failed == was->min_failed &&
		       is->min_succeeded == was->min_succeeded);
		assert(is->cpu == was->cpu && (is->memory_mb == was->memory_mb || was->pod));
		assert(is->n_ports == was->n_ports && is->wants == was->wants);
		assert(span_eq(is->image, was->image) && is->command.n >= command.n);
		assert(span_eq(span_from(is->command, is->command.n - command.n), command));
	}
}

static void run(const struct translator *t, unsigned d, struct span text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct job *job = job_read(t, d, text, "alice", &a, &warnings, &e);
	assert(job ? e.http == 0 : e.http == 400 && e.notes.n > 0);
	check_notes(&e.notes, text);
	check_notes(&warnings, text);
	if (job) {
		check_job(job, text);
		check_converted(t, job, &warnings);
	}
}

FUZZ(text)
{
	static struct translator *t;
	struct settings s;
	ERR_AUTO e = { 0 };
	translate_settings_default(&s);
	if (t == NULL)
		t = translator_new(&s, NULL, &e);
	assert(t);
	run(t, DIALECTS_ALL, text);
}
