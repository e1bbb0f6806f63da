/*
 * Any Framework as somebody with kubectl could have stored it: whatever is in it, what is shown of
 * it, of a task and an attempt is JSON, without a key that is there twice.
 */
#include <jansson.h>

#include "base/json/scan.h"
#include "server/jobs/jobs_internal.h"
#include "tests/fuzz/fuzz.h"

enum { OUT_MAX = 32 << 20, DEPTH = 64 };

static void check(const struct str *out)
{
	json_auto_t *v = json_loadb(out->p, out->n, JSON_REJECT_DUPLICATES, NULL);
	assert(v && scan_valid(str_view(out), DEPTH));
}

static void show(const struct job_shown *s, struct arena *a)
{
	static const struct task_name TASK = { { "worker", 6 }, 0 };
	STR_AUTO detail = STR_INIT(OUT_MAX);
	STR_AUTO attempt = STR_INIT(OUT_MAX);
	STR_AUTO task = STR_INIT(OUT_MAX);
	STR_AUTO counts = STR_INIT(OUT_MAX);
	ERR_AUTO e = { 0 };
	if (job_detail(&detail, s, a, &e) == 0)
		check(&detail);
	if (job_attempt(&attempt, s, true, a, &e) == 0)
		check(&attempt);
	if (job_task(&task, s, &TASK, a, &e) == 0)
		check(&task);
	job_counts(&counts, scan_get(s->doc, "status"), a);
	assert(scan_valid(str_view(&counts), DEPTH));
}

FUZZ(text)
{
	static struct exit_spec *spec;
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct event event = { .framework = SPAN("f"),
		               .role = SPAN("worker"),
		               .pod = SPAN("f-worker-0"),
		               .pod_uid = SPAN("u"),
		               .type = SPAN("Warning"),
		               .reason = SPAN("Failed") };
	if (!spec)
		spec = exit_spec_new("", &e);
	struct job_entry *job = scan_valid(text, DEPTH) ? job_entry_new(text) : NULL;
	struct job_shown s = { .job = job, .spec = spec, .hived = text.n & 1, .v1 = text.n & 2 };
	if (!job)
		return;
	if (job_entry_doc(job, &a, &s.doc)) {
		s.why.event = job_waiting(&s, &event, 1, &a);
		show(&s, &a);
		/* The same as an earlier attempt. */
		s.attempt = scan_path(s.doc, "status", "attemptStatus");
		show(&s, &a);
	}
	job_entry_drop(job);
}
