#pragma once
/* Reading a job in a test: `struct run r = run_job(TEXT); ... run_done(&r);` */
/* clang-format off */
#include <stdlib.h>
#include "tests/unit/base/cmocka.h"
/* clang-format on */

#include "translate/job/job.h"
#include "translate/translate.h"

/* The smallest job of the second generation, in pieces and whole. */
#define HEAD  "protocolVersion: 2\nname: j\ntype: job\n"
#define IMAGE "prerequisites: [{name: i, type: dockerimage, uri: ubuntu}]\n"
#define ROLE                                                                                       \
	"taskRoles:\n  w:\n    dockerImage: i\n"                                                   \
	"    resourcePerInstance: {cpu: 1, memoryMB: 8, gpu: 0}\n"
#define COMMANDS(list) "    commands: [" list "]\n"
#define V2(more)       HEAD IMAGE ROLE COMMANDS("echo") more
/* More members of its role. */
#define V2_ROLE(more) HEAD IMAGE ROLE more COMMANDS("echo")
/* A v1 job: members of the job, and of its only role. */
#define V1(job, role)                                                                              \
	"{\"jobName\":\"j\",\"image\":\"i\"," job                                                  \
	"\"taskRoles\":[{\"name\":\"m\",\"command\":\"x\"" role "}]}"

/* An MxJob: members of spec, and of the pod of its only worker. */
#define TEMPLATE(more)                                                                             \
	"{spec: {" more "containers: [{name: mxnet, image: i, command: [python], args: [a.py]}]}}"
#define MXJOB(version, more, worker)                                                               \
	"apiVersion: " version "\nkind: MxJob\nmetadata: {name: j}\nspec:\n" more                  \
	"  replicaSpecs:\n  - {mxReplicaType: WORKER, " worker "}\n"
#define MXJOB_LOCAL(more, worker) MXJOB("mlkube.io/v1beta1", "  jobMode: local\n" more, worker)
#define MXJOB_CHIEF(worker)       MXJOB("kubeflow.org/v1alpha1", "", worker)
/* A manifest of the launcher: more in its role, and its pod. */
#define LAUNCHER(role, pod)                                                                        \
	"apiVersion: launcher.microsoft.com/v1\nkind: Framework\nmetadata: {name: j-1}\nspec:\n"   \
	"  taskRoles:\n  - {name: w, taskNumber: 2, " role "task: {pod: " pod "}}\n"

struct run {
	struct translator *translator;
	struct arena arena;
	struct err err;
	struct notes warnings;
	struct job *job;
	struct str text;
};

static inline struct translator *run_translator(const struct settings *s)
{
	ERR_AUTO err = { 0 };
	struct translator *t = translator_new(s, NULL, &err);
	if (t == NULL)
		fail_msg("%s", err_msg(&err));
	return t;
}

/* Default settings: one translator for all jobs of the program, since compiling takes most time. */
static inline struct translator *run_translator_default(void)
{
	static struct translator *t;
	struct settings s;
	translate_settings_default(&s);
	if (t == NULL)
		t = run_translator(&s);
	return t;
}

static inline struct run run_with(struct translator *t, const char *text)
{
	struct run r = { .translator = t, .text = STR_INIT(1 << 20) };
	r.job = job_read(t, DIALECTS_ALL, span_of(text), "alice", &r.arena, &r.warnings, &r.err);
	return r;
}

static inline struct run run_settings(const struct settings *s, const char *text)
{
	return run_with(run_translator(s), text);
}

static inline struct run run_job(const char *text)
{
	return run_with(run_translator_default(), text);
}

static inline void run_done(struct run *r)
{
	str_done(&r->text);
	err_done(&r->err);
	notes_done(&r->warnings);
	arena_done(&r->arena);
	if (r->translator != run_translator_default())
		translator_free(r->translator);
}

#define RUN_AUTO __attribute__((cleanup(run_done))) struct run

/* All notes, one per line as LINE:COLUMN: SENTENCE. */
static inline const char *notes_lines(struct run *r, const struct notes *notes)
{
	for (size_t i = 0; i < notes->n; i++) {
		str_printf(&r->text, "%u:%u: ", notes->v[i].line, notes->v[i].column);
		note_text(&r->text, &notes->v[i]);
		str_char(&r->text, '\n');
	}
	return str_c(&r->text);
}

static inline void assert_within(const char *all, const char *part)
{
	if (strstr(all, part) == NULL)
		fail_msg("expected \"%s\" in \"%s\"", part, all);
}

/* A run that gave a job. */
static inline struct run run_good(const char *text)
{
	struct run r = run_job(text);
	if (r.job == NULL)
		fail_msg("refused: %s", notes_lines(&r, &r.err.notes));
	return r;
}

/* Expects an error with this line (LINE:COLUMN: SENTENCE) among the messages. */
static inline void assert_refused(const char *text, const char *line)
{
	RUN_AUTO r = run_job(text);
	assert_null(r.job);
	assert_int_equal(r.err.http, 400);
	assert_within(notes_lines(&r, &r.err.notes), line);
}

/* Accepted, with this line among the warnings. */
static inline void assert_warned(const char *text, const char *line)
{
	RUN_AUTO r = run_good(text);
	assert_within(notes_lines(&r, &r.warnings), line);
}

/* Accepted without a warning. */
static inline void assert_quiet(const char *text)
{
	RUN_AUTO r = run_good(text);
	assert_string_equal(notes_lines(&r, &r.warnings), "");
}

static inline void assert_span(struct span got, const char *want)
{
	FREE_AUTO char *text = xstrndup(got.p, got.n);
	assert_string_equal(text, want);
}

struct refusal {
	const char *text, *line;
};

static inline void assert_all_refused(const struct refusal *v)
{
	for (; v->text; v++)
		assert_refused(v->text, v->line);
}
