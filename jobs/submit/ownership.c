/* Reads the marks of this program from the metadata of objects, and compares them with those of a
 * request. */
#include "jobs/submit/ownership.h"

#include <stddef.h>

#include "base/json/fields.h"
#include "jobs/framework/view.h"
#include "jobs/store/reply.h"
#include "jobs/submit/submission.h"

#define AT(member) offsetof(struct marks, member)
static const struct scan_field LABELS[] = {
	{ "rest-lit/instance", SCAN_TO_TEXT, AT(instance), NULL },
	{ "rest-lit/namespace", SCAN_TO_TEXT, AT(namespace_name), NULL },
	{ "rest-lit/creating", SCAN_TO_RAW, AT(creating), NULL },
	{ 0 },
};
static const struct scan_field ANNOTATIONS[] = {
	{ "rest-lit/submission", SCAN_TO_TEXT, AT(submission), NULL },
	{ "rest-lit/idempotency", SCAN_TO_TEXT, AT(idempotency), NULL },
	{ "rest-lit/hold", SCAN_TO_RAW, AT(hold), NULL },
	{ 0 },
};
static const struct scan_field METADATA[] = {
	{ "name", SCAN_TO_TEXT, AT(name), NULL },
	{ "uid", SCAN_TO_TEXT, AT(uid), NULL },
	{ "resourceVersion", SCAN_TO_TEXT, AT(version), NULL },
	{ "creationTimestamp", SCAN_TO_TIME, AT(created_s), NULL },
	{ "deletionTimestamp", SCAN_TO_RAW, AT(deleted), NULL },
	{ "labels", SCAN_TO_MEMBERS, 0, LABELS },
	{ "annotations", SCAN_TO_MEMBERS, 0, ANNOTATIONS },
	{ 0 },
};
static const struct scan_field SPEC[] = {
	{ "executionType", SCAN_TO_TEXT, AT(execution), NULL },
	{ 0 },
};
static const struct scan_field OBJECT[] = {
	{ "metadata", SCAN_TO_MEMBERS, 0, METADATA },
	{ "spec", SCAN_TO_MEMBERS, 0, SPEC },
	{ "status", SCAN_TO_RAW, AT(status), NULL },
	{ 0 },
};

struct marks marks_of(struct span object, struct arena *a)
{
	struct marks m;
	/* A malformed mark is none of ours; a malformed status is told by ownership_is_untouched.
	 */
	(void)scan_fields(reply_valid(object) ? object : SPAN(""), OBJECT, &m, a);
	m.created_s = m.created_s < 0 ? 0 : m.created_s / 1000; /* it was read in milliseconds */
	return m;
}

bool is_hex(struct span text, size_t n)
{
	for (size_t i = 0; i < text.n; i++)
		if (hex_value(text.p[i]) < 0 || is_upper(text.p[i]))
			return false;
	return text.n == n;
}

bool ownership_is_done(const struct marks *framework)
{
	struct span is = framework->execution;
	return !framework->creating.p && (span_is(is, "Start") || span_is(is, "Stop") ||
	                                  (framework->hold.p && span_is(is, "Create")));
}

bool ownership_is_untouched(const struct marks *framework)
{
	ARENA_AUTO a = { 0 };
	struct fw_view f;
	bool waits = span_is(framework->execution, "Create") && !ownership_is_done(framework);
	if (!waits || !framework->status.p)
		return waits;
	fw_view_read(framework->status, &a, &f);
	/* Absent or null, not only without meaning: any uid, and any time. */
	return !f.odd && span_is(f.state, "AttemptCreationPending") && f.attempt <= 0 && !f.uid.p &&
	       f.retried <= 0 && f.completion_ms == -1;
}

bool ownership_same_home(const struct marks *a, const struct marks *b)
{
	return a->instance.n > 0 && span_eq(a->instance, b->instance) &&
	       span_eq(a->namespace_name, b->namespace_name);
}

enum repeat ownership_repeat(const struct marks *framework, int64_t now_s, const char *key_body)
{
	struct span has = framework->idempotency;
	struct span wanted = span_of(key_body ? key_body : "");
	size_t key_n = span_chr(wanted, '-') + 1; /* with the dash */
	if (key_n > wanted.n || framework->created_s == 0 || now_s == 0 ||
	    now_s - framework->created_s >= SUBMISSION_KEY_S || framework->deleted.p)
		return REPEAT_NONE;
	if (has.n < key_n || memcmp(has.p, wanted.p, key_n) != 0)
		return REPEAT_NONE;
	if (!span_eq(has, wanted))
		return REPEAT_OTHER_BODY;
	return ownership_is_done(framework) ? REPEAT_DONE : REPEAT_UNDER_WAY;
}
