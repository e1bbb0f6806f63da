/*
 * What must hold for every job, whatever OpenPAI does: what is stored gives the same job
 * when it is read again, no secret is in the Framework, and what is sent differs from what is
 * printed only by its marks.
 */
#include <stdlib.h>

#include "base/object.h"
#include "tests/golden/golden.h"
#include "tests/lib/jsondiff.h"
#include "tests/lib/outcome.h"
#include "tests/lib/secrets.h"

static const struct submission_mark MARK = {
	.submission = "00112233445566778899aabbccddeeff",
	.instance = "test",
};

/* Where the marks of a submission may stand. */
static bool is_mark(const char *at)
{
	static const char *const PLACES[] = { "/metadata/ownerReferences", "/metadata/labels",
		                              "/metadata/annotations", "/spec/executionType" };
	for (size_t i = 0; i < sizeof(PLACES) / sizeof(*PLACES); i++) {
		const char *found = strstr(at, PLACES[i]);
		/* of the object itself, not of a pod template */
		if (found && !strstr(at, "/pod/"))
			return true;
	}
	return false;
}

static char *compare_marked(const struct setting *s, struct span text)
{
	json_auto_t *plain = outcome_of(s, DIALECTS_ALL, text, NULL);
	json_auto_t *sent = outcome_of(s, DIALECTS_ALL, text, &MARK);
	struct differences d = { 0 };
	json_differences(plain, sent, &d);
	STR_AUTO wrong = STR_INIT(4096);
	for (size_t i = 0; i < d.n; i++)
		if (!is_mark(d.v[i].at))
			str_printf(&wrong, "as sent it differs at %s; ", d.v[i].at);
	if (d.n == 0)
		str_puts(&wrong, "as sent it carries no mark; ");
	differences_done(&d);
	return str_take(&wrong);
}

/* Every uid goes where it belongs: the object is JSON with it, and owned. */
static void check_uid(const struct object *o, struct str *wrong)
{
	if (o->kind == KIND_FRAMEWORK || o->kind == KIND_PRIORITYCLASS) {
		if (o->uid_at)
			str_printf(wrong, "%s waits for an owner; ", o->name);
		return;
	}
	STR_AUTO text = STR_INIT(4 << 20);
	str_put(&text, o->body.p, o->uid_at);
	str_puts(&text, "U-I-D");
	str_put(&text, o->body.p + o->uid_at, o->body.n - o->uid_at);
	json_auto_t *v = json_loadb(str_c(&text), text.n, 0, NULL);
	const json_t *owner =
	    json_array_get(json_object_get(json_object_get(v, "metadata"), "ownerReferences"), 0);
	const char *uid = json_string_value(json_object_get(owner, "uid"));
	if (!uid || strcmp(uid, "U-I-D") != 0)
		str_printf(wrong, "%s has no place for its owner's uid; ", o->name);
}

static void check_stored(const struct setting *s, struct span text, struct arena *a,
                         struct str *wrong)
{
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct objects objects = { 0 };
	struct job *job = job_read(s->translator, DIALECTS_ALL, text, TEST_USER, a, &warnings, &e);
	if (!job || job_build(s->translator, job, &s->facts, &MARK, a, &objects, &e)) {
		str_printf(wrong, "not accepted with a mark: %s; ", err_msg(&e));
		return;
	}
	for (size_t i = 0; i < objects.n; i++)
		check_uid(&objects.v[i], wrong);
	struct span framework = objects_framework(&objects)->body;
	json_auto_t *v = json_loadb(framework.p, framework.n, JSON_REJECT_DUPLICATES, NULL);
	const json_t *config = json_object_get(
	    json_object_get(json_object_get(v, "metadata"), "annotations"), "config");
	struct span stored = { json_string_value(config), json_string_length(config) };
	const char *fault = job->redacted ? stored_fault(text, stored) : NULL;
	if (fault || (!job->redacted && !span_eq(text, stored)))
		str_printf(wrong, "%s; ", fault ? fault : "the job is not stored as it was sent");
	unsigned line = secret_found(text, framework);
	if (line)
		str_printf(wrong, "a secret of line %u is in the Framework; ", line);
}

/* The job with secrets beside its members is stored as the same values. */
static void check_with_secrets(const struct setting *s, struct span text, struct arena *a,
                               struct str *wrong)
{
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct span more =
	    span_of(arena_printf(a, "%.*s\nsecrets: {added: hunter2}\n", (int)text.n, text.p));
	const struct job *job =
	    job_read(s->translator, DIALECTS_ALL, more, TEST_USER, a, &warnings, &e);
	const char *fault = job && job->redacted ? stored_fault(more, job->config) : NULL;
	if (fault)
		str_printf(wrong, "with secrets: %s; ", fault);
}

char *golden_sent(const struct setting *s, struct span text)
{
	STR_AUTO wrong = STR_INIT(8192);
	ARENA_AUTO a = { 0 };
	FREE_AUTO char *marked = compare_marked(s, text);
	str_puts(&wrong, marked);
	check_stored(s, text, &a, &wrong);
	check_with_secrets(s, text, &a, &wrong);
	str_puts(&wrong, "");
	return str_take(&wrong);
}
