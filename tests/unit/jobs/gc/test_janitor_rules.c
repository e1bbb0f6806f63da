/* The janitor: objects that it must never remove, and malformed lists. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/janitor_bench.h"

/* ---- whose is it? ------------------------------------------------------------------------ */

struct change {
	const char *what;
	const char *patch; /* of metadata; RFC 7396, one level deep */
	const char *other; /* members of the object itself */
};

static void apply(json_t *to, const char *text)
{
	json_auto_t *patch = json_loads(text, JSON_DECODE_ANY, NULL);
	const char *key = NULL;
	json_t *value = NULL;
	assert_non_null(patch);
	json_object_foreach (patch, key, value) {
		json_t *old = json_object_get(to, key);
		if (json_is_object(value) && json_is_object(old) && json_object_size(value) > 0)
			(void)json_object_update(old, value);
		else
			(void)json_object_set(to, key, value);
	}
}

/* Hostile, malformed and foreign objects, as they appear in a list and as a whole. */
static const struct change FRAMEWORKS[] = {
	{ "another installation", "{\"labels\":{\"rest-lit/instance\":\"there\"}}", "{}" },
	{ "longer instance", "{\"labels\":{\"rest-lit/instance\":\"here2\"}}", "{}" },
	{ "instance is a number", "{\"labels\":{\"rest-lit/instance\":1}}", "{}" },
	{ "instance only as annotation",
	  "{\"labels\":{\"rest-lit/instance\":null},"
	  "\"annotations\":{\"rest-lit/instance\":\"here\"}}",
	  "{}" },
	{ "labels are text", "{\"labels\":\"rest-lit/instance=here\"}", "{}" },
	{ "labels are a list", "{\"labels\":[{\"rest-lit/instance\":\"here\"}]}", "{}" },
	{ "no submission", "{\"annotations\":{\"rest-lit/submission\":null}}", "{}" },
	{ "submission too short", "{\"annotations\":{\"rest-lit/submission\":\"0123\"}}", "{}" },
	{ "submission not hex",
	  "{\"annotations\":{\"rest-lit/submission\":\"0123456789ABCDEF0123456789abcdef\"}}",
	  "{}" },
	{ "submission as label",
	  "{\"annotations\":[],\"labels\":{\"rest-lit/submission\":\"" SUBMISSION "\"}}", "{}" },
	{ "annotations are a number", "{\"annotations\":7}", "{}" },
	{ "being deleted", "{\"deletionTimestamp\":\"" LONG_AGO "\"}", "{}" },
	{ "being deleted, oddly", "{\"deletionTimestamp\":false}", "{}" },
	{ "no time", "{\"creationTimestamp\":null}", "{}" },
	{ "time is a number", "{\"creationTimestamp\":1}", "{}" },
	{ "time is no time", "{\"creationTimestamp\":\"2023-13-45T99:99:99Z\"}", "{}" },
	{ "time is long", "{\"creationTimestamp\":\"" LONG_AGO LONG_AGO "\"}", "{}" },
	{ "time to come", "{\"creationTimestamp\":\"2999-01-01T00:00:00Z\"}", "{}" },
	{ "no name", "{\"name\":null}", "{}" },
	{ "name is a list", "{\"name\":[\"x\"]}", "{}" },
	{ "name of another kind", "{\"name\":\"train\"}", "{}" },
	{ "name with a slash", "{\"name\":\"../../kube-system/secrets/000000\"}", "{}" },
	{ "name is long", "{\"name\":\"" SUBMISSION SUBMISSION "\"}", "{}" },
	{ "uid is null", "{\"uid\":null}", "{}" },
	{ "uid is an object", "{\"uid\":{\"a\":1}}", "{}" },
	{ "uid is long", "{\"uid\":\"" SUBMISSION SUBMISSION "\"}", "{}" },
	{ "version is a number", "{\"resourceVersion\":4}", "{}" },
	{ "version is long", "{\"resourceVersion\":\"" SUBMISSION SUBMISSION "\"}", "{}" },
	{ "started", "{}", "{\"spec\":{\"executionType\":\"Start\"}}" },
	{ "stopped", "{}", "{\"spec\":{\"executionType\":\"Stop\"}}" },
	{ "no type", "{}", "{\"spec\":{\"executionType\":null}}" },
	{ "type is a list", "{}", "{\"spec\":{\"executionType\":[\"Create\"]}}" },
	{ "spec is text", "{}", "{\"spec\":\"Create\"}" },
	{ "status is text", "{}", "{\"status\":\"AttemptCreationPending\"}" },
	{ "status is empty", "{}", "{\"status\":{}}" },
	{ "status is a list", "{}", "{\"status\":[]}" },
	{ "state is a number", "{}", "{\"status\":{\"state\":7}}" },
	{ "requested", "{}", "{\"status\":{\"state\":\"AttemptCreationRequested\"}}" },
	{ "running", "{}", "{\"status\":{\"state\":\"AttemptRunning\"}}" },
	{ "completed", "{}", "{\"status\":{\"state\":\"Completed\"}}" },
	{ "has run before", "{}",
	  "{\"status\":{\"state\":\"AttemptCreationPending\",\"attemptStatus\":{\"id\":1}}}" },
	{ "attempt is a real number", "{}",
	  "{\"status\":{\"state\":\"AttemptCreationPending\",\"attemptStatus\":{\"id\":0.5}}}" },
	{ "attempt is a list", "{}",
	  "{\"status\":{\"state\":\"AttemptCreationPending\",\"attemptStatus\":[1]}}" },
	{ "attempt has a ConfigMap", "{}",
	  "{\"status\":{\"state\":\"AttemptCreationPending\","
	  "\"attemptStatus\":{\"id\":0,\"configMapUID\":\"u\"}}}" },
	{ "attempt has an empty uid", "{}",
	  "{\"status\":{\"state\":\"AttemptCreationPending\","
	  "\"attemptStatus\":{\"id\":0,\"configMapUID\":\"\"}}}" },
	{ "retried", "{}",
	  "{\"status\":{\"state\":\"AttemptCreationPending\","
	  "\"retryPolicyStatus\":{\"totalRetriedCount\":2}}}" },
	{ "completed once", "{}",
	  "{\"status\":{\"state\":\"AttemptCreationPending\",\"completionTime\":\"x\"}}" },
	{ "completed before 1970", "{}",
	  "{\"status\":{\"state\":\"AttemptCreationPending\","
	  "\"completionTime\":\"0001-01-01T00:00:00Z\"}}" },
};

CASE(test_janitor_never_removes_frameworks_that_differ)
{
	size_t n = sizeof(FRAMEWORKS) / sizeof(*FRAMEWORKS);
	for (size_t i = 0; i < n; i++) {
		json_t *f = yard_add(&b->yard, KIND_FRAMEWORK, half_made(job(i)));
		apply(meta_of(f), FRAMEWORKS[i].patch);
		apply(f, FRAMEWORKS[i].other);
	}
	yard_add(&b->yard, KIND_FRAMEWORK, half_made(job(n))); /* the one among them */
	b->yard.not_selected = true;
	go_twice(b);
	go_twice(b);
	for (size_t i = 0; i < n; i++) {
		if (b->yard.things[i].object == NULL)
			fail_msg("removed: %s", FRAMEWORKS[i].what);
	}
	assert_int_equal(b->yard.verbs[STORE_DELETE], 1);
	assert_null(b->yard.things[n].object);
	assert_null(b->last.trouble);
}

/* FrameworkController leaves this status when it has seen a Framework in Create. */
CASE(test_janitor_removes_frameworks_the_controller_only_saw)
{
	json_t *f = yard_add(&b->yard, KIND_FRAMEWORK, half_made(JOB));
	apply(f,
	      "{\"status\":{\"state\":\"AttemptCreationPending\",\"completionTime\":null,"
	      "\"attemptStatus\":{\"id\":0,\"configMapUID\":null,\"configMapName\":\"x-attempt\"},"
	      "\"retryPolicyStatus\":{\"totalRetriedCount\":0}}}");
	go_twice(b);
	assert_int_equal(b->last.frameworks, 1);
}

static const struct change CLASSES[] = {
	{ "another installation", "{\"labels\":{\"rest-lit/instance\":\"there\"}}", "{}" },
	{ "jobs of another namespace", "{\"labels\":{\"rest-lit/namespace\":\"more\"}}", "{}" },
	{ "jobs of no namespace", "{\"labels\":{\"rest-lit/namespace\":null}}", "{}" },
	{ "no submission", "{\"annotations\":null}", "{}" },
	{ "a system class", "{\"name\":\"system-node-critical\"}", "{}" },
	{ "name without digits", "{\"name\":\"-priority\"}", "{}" },
	{ "name with capitals", "{\"name\":\"0123456789ABCDEF0123456789abcdef-priority\"}", "{}" },
	{ "name of 31 digits", "{\"name\":\"0123456789abcdef0123456789abcde-priority\"}", "{}" },
	{ "name of 33 digits", "{\"name\":\"0123456789abcdef0123456789abcdef0-priority\"}", "{}" },
	{ "name goes on", "{\"name\":\"" SUBMISSION "-priority2\"}", "{}" },
	{ "name is a number", "{\"name\":5}", "{}" },
	{ "being deleted", "{\"deletionTimestamp\":\"" LONG_AGO "\"}", "{}" },
	{ "no uid", "{\"uid\":\"\"}", "{}" },
	{ "no version", "{\"resourceVersion\":null}", "{}" },
	{ "long version", "{\"resourceVersion\":\"" SUBMISSION SUBMISSION "\"}", "{}" },
};

CASE(test_janitor_never_removes_classes_of_others)
{
	size_t n = sizeof(CLASSES) / sizeof(*CLASSES);
	for (size_t i = 0; i < n; i++) {
		json_t *class = yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(job(i)));
		apply(meta_of(class), CLASSES[i].patch);
	}
	yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(job(n)));
	b->yard.not_selected = true;
	go_twice(b);
	go_twice(b);
	assert_int_equal(yard_count(&b->yard, KIND_PRIORITYCLASS), n);
	assert_null(b->yard.things[n].object);
	assert_int_equal(b->yard.verbs[STORE_DELETE], 1);
}

/* The API server may answer a list with any text. */
CASE(test_janitor_reports_malformed_lists_as_trouble)
{
	static const char *const LISTS[] = {
		"",
		"null",
		"[]",
		"{}",
		"{\"items\":{}}",
		"{\"items\":[{}",
		"{\"items\":[{},]}",
		"{\"metadata\":{}}",
		"<html>",
	};
	for (size_t i = 0; i < sizeof(LISTS) / sizeof(*LISTS); i++) {
		b->yard.list = LISTS[i];
		go(b);
		if (strstr(b->trouble, "not a list") == NULL)
			fail_msg("%s: %s", LISTS[i], b->trouble);
	}
}

CASE(test_janitor_reads_items_beside_a_malformed_one)
{
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text, "{\"metadata\":{},\"items\":[7,null,\"x\",[{}],{\"metadata\":5},"
	                "{\"a\":1,\"a\":2},{\"metadata\":{\"managedFields\":");
	str_many(&text, "[", 5000);
	str_many(&text, "]", 5000);
	json_auto_t *good = half_made(JOB);
	(void)json_object_set_new(meta_of(good), "uid", json_string("u"));
	(void)json_object_set_new(meta_of(good), "resourceVersion", json_string("1"));
	FREE_AUTO char *one = json_dumps(good, 0);
	str_printf(&text, "}},%s]}", one);
	b->yard.list = str_c(&text);
	pass(b, AGE_MS);
	go(b);
	assert_int_equal(b->janitor->frameworks.looks, 1);
	assert_null(b->last.trouble);
}
