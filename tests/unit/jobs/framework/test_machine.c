/* FrameworkController's state machine: malformed input, and many tasks. */

#include "tests/unit/base/cmocka.h"
#include <jansson.h>

#include "base/posix/clock.h"
#include "tests/unit/jobs/machine_kit.h"

AUTO_FREE(framework)
AUTO_FREE(framework_config)

static const char SPEC[] =
    "{\"executionType\":\"Start\",\"retryPolicy\":{\"fancyRetryPolicy\":true,\"maxRetryCount\":1},"
    "\"taskRoles\":[{\"name\":\"w\",\"taskNumber\":2,\"frameworkAttemptCompletionPolicy\":"
    "{\"minFailedTaskCount\":1,\"minSucceededTaskCount\":-1},\"task\":{\"retryPolicy\":"
    "{\"maxRetryCount\":1},\"podGracefulDeletionTimeoutSec\":5,\"pod\":{\"spec\":{\"containers\":"
    "[{\"name\":\"main\",\"image\":\"i\"}]}}}}]}";
static const char METADATA[] = "{\"name\":\"job\",\"namespace\":\"ns\",\"uid\":\"u\"}";

static struct framework_config *config(void)
{
	struct framework_config *c = framework_config_read(SPAN(""), no_err());
	assert_non_null(c);
	return c;
}

static json_t *object_with(const char *status)
{
	char *text =
	    xasprintf("{\"metadata\":%s,\"spec\":%s,\"status\":%s}", METADATA, SPEC, status);
	json_t *object = json_loads(text, JSON_DECODE_ANY, NULL);
	assert_non_null(object);
	free(text);
	return object;
}

/* Applies all events to a machine of this object; false: the machine refuses the object. */
static bool lives(const struct framework_config *c, const json_t *object)
{
	char *text = json_dumps(object, JSON_COMPACT | JSON_ENCODE_ANY);
	struct framework *f = toy_machine(c, span_of(text), no_err());
	free(text); /* it keeps nothing of it */
	if (f)
		toy_run(f, 4);
	else
		assert_true(unit.e.http != 0 && err_msg(&unit.e)[0]);
	framework_free(f);
	return f != NULL;
}

/* A status in which a task has failed and others are in between. */
static char *good_status(const struct framework_config *c)
{
	json_auto_t *object = object_with("null");
	FREE_AUTO char *text = json_dumps(object, JSON_COMPACT);
	struct framework *f = toy_machine(c, span_of(text), no_err());
	assert_non_null(f);
	for (int i = 0; i < 6; i++)
		(void)toy_sync(f, TOY_LIVE, 1600000000 + i);
	assert_string_equal(framework_state(f), "AttemptRunning");
	(void)toy_sync(f, TOY_FAILED, 1600000010);
	struct str status = STR_INIT(1 << 20);
	framework_status_write(f, &status);
	framework_free(f);
	return str_take(&status);
}

/* Each value in turn becomes each of these, and is left out. */
static const char *const VALUES[] = { "null",
	                              "true",
	                              "0",
	                              "-1",
	                              "7.5",
	                              "1e300",
	                              "\"\"",
	                              "\"x\"",
	                              "[]",
	                              "{}",
	                              "[1,null,{}]",
	                              "9223372036854775807",
	                              "\"AttemptDeleting\"",
	                              "\"AttemptCompleted\"",
	                              "\"Completed\"",
	                              "\"AttemptCreationRequested\"" };

static void try_all(const struct framework_config *c, json_t *whole, json_t *at, size_t *tried)
{
	const char *key;
	json_t *v;
	size_t i;
	json_auto_t *keys = json_copy(at); /* they move when one is deleted */
	json_object_foreach (keys, key, v) {
		for (size_t k = 0; k < sizeof(VALUES) / sizeof(*VALUES); k++) {
			json_object_set_new(at, key, json_loads(VALUES[k], JSON_DECODE_ANY, NULL));
			(void)lives(c, whole);
			++*tried;
		}
		json_object_del(at, key);
		(void)lives(c, whole);
		json_object_set(at, key, v);
		try_all(c, whole, v, tried);
	}
	json_array_foreach (at, i, v) {
		json_incref(v);
		for (size_t k = 0; k < sizeof(VALUES) / sizeof(*VALUES); k++) {
			json_array_set_new(at, i, json_loads(VALUES[k], JSON_DECODE_ANY, NULL));
			(void)lives(c, whole);
			++*tried;
		}
		json_array_set_new(at, i, v);
		try_all(c, whole, v, tried);
	}
}

TEST(test_machine_survives_any_value_of_the_status)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	FREE_AUTO char *status = good_status(c);
	json_auto_t *object = object_with(status);
	assert_true(lives(c, object));
	size_t tried = 0;
	try_all(c, object, object, &tried);
	assert_true(tried > 500);
}

TEST(test_machine_survives_truncated_objects)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	FREE_AUTO char *status = good_status(c);
	json_auto_t *object = object_with(status);
	FREE_AUTO char *text = json_dumps(object, JSON_COMPACT);
	size_t n = strlen(text);
	for (size_t cut = 0; cut < n; cut++) {
		assert_null(toy_machine(c, (struct span){ text, cut }, no_err()));
		assert_true(unit.e.http != 0);
	}
}

/* An attempt that has ended is replaced when its end is stored. */
TEST(test_machine_replaces_an_attempt_after_its_end_is_stored)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	json_auto_t *object = object_with("null");
	FREE_AUTO char *text = json_dumps(object, JSON_COMPACT);
	AUTO(framework_auto) struct framework *f = toy_machine(c, span_of(text), no_err());
	for (int i = 0; i < 6; i++)
		(void)toy_sync(f, TOY_LIVE, 1600000000 + i);
	struct toy t = { .mode = TOY_NOTHING };
	struct framework_client w = { .arg = &t,
		                      .unstored = true,
		                      .configmap = toy_configmap,
		                      .pod = toy_pod,
		                      .create = toy_create,
		                      .remove = toy_remove };
	struct framework_result r;
	for (int i = 0; i < 10; i++)
		framework_sync(f, &w, 1600000100, 1, &r);
	assert_string_equal(framework_state(f), "AttemptCompleted");
	assert_true(r.pending);
	w.unstored = false;
	framework_sync(f, &w, 1600000100, 1, &r);
	assert_string_equal(framework_state(f), "AttemptCreationPending");
}

static const char *const REFUSED[] = {
	"{}",
	"[]",
	"7",
	"{\"state\":\"AttemptCompleted\"}",
	"{\"state\":\"AttemptCreationRequested\"}",
	"{\"state\":\"Started\"}",
	"{\"state\":\"Completed\",\"attemptStatus\":{}}",
	"{\"state\":\"Completed\",\"transitionTime\":\"today\"}",
};

TEST(test_machine_refuses_a_malformed_status)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	for (size_t i = 0; i < sizeof(REFUSED) / sizeof(*REFUSED); i++) {
		json_auto_t *object = object_with(REFUSED[i]);
		if (lives(c, object))
			fail_msg("%s is accepted", REFUSED[i]);
	}
}

/* Two roles of one name in the spec and in the status, an invalid name, a wrong index. */
TEST(test_machine_refuses_inconsistent_roles)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	FREE_AUTO char *status = good_status(c);
	json_auto_t *object = object_with(status);
	json_t *spec = json_object_get(json_object_get(object, "spec"), "taskRoles");
	json_t *roles =
	    json_object_get(json_object_get(json_object_get(object, "status"), "attemptStatus"),
	                    "taskRoleStatuses");
	json_array_append(spec, json_array_get(spec, 0));
	FREE_AUTO char *text = json_dumps(object, 0);
	assert_null(toy_machine(c, span_of(text), no_err()));
	assert_string_equal(err_msg(&unit.e),
	                    "this Framework cannot be run: /spec/taskRoles/1/name is that "
	                    "of another role, too; names must differ");
	json_array_remove(spec, 1);
	json_array_append(roles, json_array_get(roles, 0));
	assert_false(lives(c, object));
	json_array_remove(roles, 1);
	assert_true(lives(c, object));
	json_object_set_new(json_array_get(roles, 0), "name", json_string("../x"));
	assert_false(lives(c, object));
	json_object_set_new(json_array_get(roles, 0), "name", json_string("w"));
	json_t *task = json_array_get(json_object_get(json_array_get(roles, 0), "taskStatuses"), 0);
	json_object_set_new(task, "index", json_integer(5));
	assert_false(lives(c, object));
}

/* The machine's own copy of the status is the truth; another object of that name is refused. */
TEST(test_machine_keeps_its_own_copy_of_the_status)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	json_auto_t *object = object_with("null");
	char *text = json_dumps(object, 0);
	AUTO(framework_auto) struct framework *f = toy_machine(c, span_of(text), no_err());
	assert_string_equal(framework_state(f), "");
	assert_true(toy_sync(f, TOY_NOTHING, 1600000000).status_changed);
	assert_string_equal(framework_state(f), "AttemptCreationPending");
	free(text);
	json_object_set_new(object, "status", json_pack("{s:s}", "state", "Completed"));
	text = json_dumps(object, 0);
	assert_int_equal(framework_put(f, span_of(text), no_err()), 0);
	assert_string_equal(framework_state(f), "AttemptCreationPending");
	free(text);
	json_object_set_new(json_object_get(object, "metadata"), "uid", json_string("other"));
	text = json_dumps(object, 0);
	assert_int_equal(framework_put(f, span_of(text), no_err()), -1);
	free(text);
	toy_run(f, 3);
}

/* A whole life of n tasks, in milliseconds. */
static int64_t many(struct framework_config *c, int n)
{
	json_auto_t *object = object_with("null");
	json_t *role =
	    json_array_get(json_object_get(json_object_get(object, "spec"), "taskRoles"), 0);
	json_object_set_new(role, "taskNumber", json_integer(n));
	json_object_set_new(json_object_get(role, "frameworkAttemptCompletionPolicy"),
	                    "minFailedTaskCount", json_integer(n));
	FREE_AUTO char *text = json_dumps(object, 0);
	int64_t start = clock_ms();
	struct framework *f = toy_machine(c, span_of(text), no_err());
	assert_non_null(f);
	for (int i = 0; i < 6; i++)
		(void)toy_sync(f, TOY_LIVE, 1600000000 + i);
	for (int i = 0; i < 3; i++)
		(void)toy_sync(f, TOY_FAILED, 1600000010 + i);
	for (int i = 0; i < 8; i++)
		(void)toy_sync(f, TOY_NOTHING, 1600000020 + i);
	(void)toy_sync(f, TOY_FAILED, 1600000040);
	for (int i = 0; i < 8; i++)
		(void)toy_sync(f, TOY_NOTHING, 1600000050 + i);
	framework_free(f);
	return clock_ms() - start;
}

/* Ten times the tasks take about ten times as long; quadratic time would be minutes under the
 * sanitizers.  The figures are printed only: no test fails by the clock. */
TEST(test_machine_takes_linear_time_for_many_tasks)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	int64_t few = many(c, 1000);
	int64_t lots = many(c, 10000);
	print_message("1000 tasks: %lld ms, 10000: %lld ms\n", (long long)few, (long long)lots);
	assert_true(few >= 0 && lots >= 0);
}

static struct framework *running(const struct framework_config *c)
{
	json_auto_t *object = object_with("null");
	FREE_AUTO char *text = json_dumps(object, 0);
	struct framework *f = toy_machine(c, span_of(text), no_err());
	assert_non_null(f);
	for (int i = 0; i < 6; i++)
		(void)toy_sync(f, TOY_LIVE, 1600000000 + i);
	assert_string_equal(framework_state(f), "AttemptRunning");
	return f;
}

static char *status_of(const struct framework *f)
{
	struct str status = STR_INIT(1 << 20);
	framework_status_write(f, &status);
	return str_take(&status);
}

/* Until it is known whether an object is there, nothing is concluded. */
TEST(test_machine_waits_for_what_is_unknown)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	AUTO(framework_auto) struct framework *f = running(c);
	FREE_AUTO char *before = status_of(f);
	struct framework_result r = toy_sync(f, TOY_UNKNOWN, 1600100000);
	assert_true(r.pending && !r.failed && !r.again && !r.status_changed);
	FREE_AUTO char *after = status_of(f);
	assert_string_equal(before, after);
	r = toy_sync(f, TOY_NOTHING, 1600100000);
	assert_true(r.status_changed);
}

/* The pod of a task without an answer alone; the other's end is seen. */
static enum framework_presence one_unknown(void *arg, const char *name, const char *uid,
                                           struct framework_pod *out)
{
	assert_string_equal(uid, "p");
	enum framework_presence known = toy_pod(arg, name, uid, out);
	return name[strlen(name) - 1] == '0' ? FRAMEWORK_UNKNOWN : known;
}

TEST(test_machine_waits_for_one_pod_alone)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	AUTO(framework_auto) struct framework *f = running(c);
	struct toy t = { .mode = TOY_FAILED };
	const struct framework_client w = { .arg = &t,
		                            .configmap = toy_configmap,
		                            .pod = one_unknown,
		                            .create = toy_create,
		                            .remove = toy_remove };
	struct framework_result r;
	framework_sync(f, &w, 1600000100, 1, &r);
	assert_true(r.pending && r.status_changed);
	FREE_AUTO char *status = status_of(f);
	assert_non_null(strstr(status, "{\"index\":0"));
	const char *second = strstr(status, "{\"index\":1");
	assert_non_null(second);
	assert_non_null(strstr(second, "AttemptDeletionPending"));
	assert_true(strstr(status, "AttemptDeletionPending") > second);
}

/* podUID of tasks; pods can be made again after a put. */
TEST(test_machine_forgets_templates_only)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	AUTO(framework_auto) struct framework *f = running(c);
	FREE_AUTO char *before = status_of(f);
	framework_slim(f);
	FREE_AUTO char *after = status_of(f);
	assert_string_equal(before, after);
	assert_string_equal(framework_task_pod(f, "w", 1), "p");
	assert_null(framework_task_pod(f, "w", 2));
	assert_null(framework_task_pod(f, "w", -1));
	assert_null(framework_task_pod(f, "v", 0));
	json_auto_t *object = object_with("null");
	FREE_AUTO char *text = json_dumps(object, 0);
	assert_int_equal(framework_put(f, span_of(text), no_err()), 0);
	const struct framework_object o = { .kind = FRAMEWORK_POD, .role = "w" };
	assert_non_null(node_get(framework_object(f, &o, &unit.a), "spec"));
}

TEST(test_machine_packs_a_status_on_demand)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	struct framework *f = running(c);
	FREE_AUTO char *plain = status_of(f);
	STR_AUTO packed = STR_INIT(1 << 20);
	framework_status_write_packed(f, &packed);
	assert_null(strstr(plain, "taskRoleStatusesCompressed"));
	assert_non_null(
	    strstr(str_c(&packed), "\"taskRoleStatuses\":null,\"taskRoleStatusesCompressed\""));
	json_auto_t *object = object_with(str_c(&packed));
	FREE_AUTO char *text = json_dumps(object, 0);
	AUTO(framework_auto) struct framework *again = toy_machine(c, span_of(text), no_err());
	assert_non_null(again);
	FREE_AUTO char *same = status_of(again);
	assert_string_equal(same, plain);
	framework_free(f);
}

TEST(test_framework_config_tells_how_long_a_job_is_kept)
{
	struct framework_config *c = config();
	assert_int_equal(framework_config_retain_s(c), 30 * 24 * 3600);
	framework_config_free(c);
	c = framework_config_read(SPAN("frameworkCompletedRetainSec: 7"), no_err());
	assert_int_equal(framework_config_retain_s(c), 7);
	framework_config_free(c);
}
