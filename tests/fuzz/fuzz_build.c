/*
 * Any text as a job, read and built.  Whatever is accepted: the objects are JSON, no secret is in
 * what is no Secret, nothing of our templates is left, and the stored config gives the same
 * Framework again; where secrets are masked, it is the same job but for them.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/object.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/lines.h"
#include "tests/lib/secrets.h"
#include "tests/lib/setting.h"

static struct setting settings[SETTING_MAX];

static void prepare(void)
{
	for (enum setting_name i = 0; i < SETTING_MAX; i++)
		setting_init(&settings[i], i);
}

/* No variable is left in the manifests.  A job may spell such text itself: plainly, or by escapes
 * and placeholders, and then this says nothing. */
static void check_holes(struct span body, struct span job)
{
	static const char *const VARIABLES[] = { "${role.", "${job.", "${config.", "${*" };
	if (memchr(job.p, '\\', job.n) || memmem(job.p, job.n, "<%", 2))
		return;
	for (size_t i = 0; i < sizeof(VARIABLES) / sizeof(*VARIABLES); i++) {
		size_t n = strlen(VARIABLES[i]);
		assert(!memmem(body.p, body.n, VARIABLES[i], n) ||
		       memmem(job.p, job.n, VARIABLES[i], n));
	}
}

static json_t *check_object(const struct object *o, struct span job)
{
	json_t *v = json_loadb(o->body.p, o->body.n, JSON_REJECT_DUPLICATES, NULL);
	assert(v);
	check_holes(o->body, job);
	if (o->kind != KIND_SECRET)
		assert(secret_found(job, o->body) == 0);
	return v;
}

/* The Framework of a job, or NULL if it is refused.  New reference. */
static json_t *framework(const struct setting *s, struct span text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct objects objects = { 0 };
	json_t *v = NULL;
	struct job *job = job_read(s->translator, DIALECTS_ALL, text, TEST_USER, &a, &warnings, &e);
	if (!job || job_build(s->translator, job, &s->facts, NULL, &a, &objects, &e)) {
		assert(e.http >= 400 && e.http < 500 && e.notes.n > 0);
		return NULL;
	}
	for (size_t i = 0; i < objects.n; i++) {
		json_decref(v);
		v = check_object(&objects.v[i], text);
	}
	return v;
}

static const json_t *config_of(const json_t *v)
{
	const json_t *metadata = json_object_get(v, "metadata");
	return json_object_get(json_object_get(metadata, "annotations"), "config");
}

static void check_again(const struct setting *s, const json_t *v, struct span job)
{
	const json_t *config = config_of(v);
	struct span text = { json_string_value(config), json_string_length(config) };
	/* The config of a v1 job is written anew; see fuzz_v1. */
	if (!config || !memmem(text.p, text.n, "protocolVersion", 15))
		return;
	/* Secrets cannot be submitted masked, by intention; with them, it is the same job. */
	if (!span_eq(text, job)) {
		assert(stored_fault(job, text) == NULL);
		return;
	}
	json_auto_t *again = framework(s, text);
	assert(json_equal(again, v));
}

FUZZ(text)
{
	static bool ready;
	if (!ready)
		prepare();
	ready = true;
	for (enum setting_name i = 0; i < SETTING_MAX; i++) {
		json_auto_t *v = framework(&settings[i], text);
		if (v)
			check_again(&settings[i], v, text);
	}
}
