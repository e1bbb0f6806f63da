/* Scaling a task role: allowed changes, and the patch. */

#include "tests/unit/base/cmocka.h"

#include "base/json/scan.h"
#include "server/jobs/jobs_internal.h"

#define POD(limits, annotations)                                                                   \
	"{\"pod\":{\"metadata\":{\"annotations\":" annotations                                     \
	"},\"spec\":{\"containers\":[{\"resources\":{\"limits\":" limits "}}]}}}"
#define ROLE(name, n, policy, task)                                                                \
	"{\"name\":\"" name "\",\"taskNumber\":" n ",\"frameworkAttemptCompletionPolicy\":" policy \
	",\"task\":" task "}"
#define DOC(gpus, type, roles)                                                                     \
	"{\"metadata\":{\"annotations\":{\"totalGpuNumber\":" gpus "}},\"spec\":{"                 \
	"\"executionType\":" type ",\"taskRoles\":" roles "}}"
#define WORKER(n) ROLE("myworker", n, "{}", POD("{\"g/gpu\":2}", "{}"))
#define PS                                                                                         \
	ROLE("ps", "2", "{\"minFailedTaskCount\":2,\"minSucceededTaskCount\":-1}", POD("{}", "{}"))
#define PLAIN DOC("\"6\"", "\"Start\"", "[" PS "," WORKER("3") "]")

static struct scale asking(const char *doc, const char *role, int64_t n)
{
	return (struct scale){ .doc = span_of(doc),
		               .uid = "U",
		               .version = "17",
		               .role = span_of(role),
		               .n = n,
		               .max_tasks = 10,
		               .device = "g/gpu" };
}

/* Each change is of one version of one object. */
#define OF                                                                                         \
	"[{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":\"U\"},"                           \
	"{\"op\":\"replace\",\"path\":\"/metadata/resourceVersion\",\"value\":\"17\"},"
#define NUMBER(i, n)                                                                               \
	"{\"op\":\"replace\",\"path\":\"/spec/taskRoles/" i "/taskNumber\",\"value\":" n "}"
#define GPUS(n)                                                                                    \
	",{\"op\":\"replace\",\"path\":\"/metadata/annotations/totalGpuNumber\",\"value\":\"" n    \
	"\"}"

#define SUBMITTED(config, min)                                                                     \
	"{\"metadata\":{\"annotations\":{\"config\":\"" config                                     \
	"\"}},\"spec\":{\"executionType\":\"Start\",\"taskRoles\":[" ROLE(                         \
	    "worker", "2", "{\"minSucceededTaskCount\":" min "}", POD("{}", "{}")) "]}}"
#define SUCCEEDED(n)                                                                               \
	"{\"op\":\"replace\",\"path\":\"/spec/taskRoles/0/frameworkAttemptCompletionPolicy/"       \
	"minSucceededTaskCount\","                                                                 \
	"\"value\":" n "}"

static const struct {
	const char *doc, *role;
	int64_t n;
	const char *patch;
} GOOD[] = {
	{ PLAIN, "ps", 2, "" },
	{ PLAIN, "ps", 7, OF NUMBER("0", "7") "]" },
	{ PLAIN, "myworker", 1, OF NUMBER("1", "1") GPUS("2") "]" },
	{ PLAIN, "My_Worker", 4, OF NUMBER("1", "4") GPUS("8") "]" },
	/* By default all tasks have to succeed, so the number changes with the scale. */
	{ SUBMITTED("taskRoles: {Worker: {instances: 2}}", "2"), "worker", 4,
	  OF NUMBER("0", "4") "," SUCCEEDED("4") "]" },
	{ SUBMITTED("taskRoles: {worker: {completion: {minSucceededInstances: null}}}", "2"),
	  "worker", 1, OF NUMBER("0", "1") "," SUCCEEDED("1") "]" },
	/* The job file names the number, differs from the annotation, or cannot be read. */
	{ SUBMITTED("taskRoles: {worker: {completion: {minSucceededInstances: 2}}}", "2"), "worker",
	  4, OF NUMBER("0", "4") "]" },
	{ SUBMITTED("taskRoles: {worker: {instances: 2}}", "1"), "worker", 4,
	  OF NUMBER("0", "4") "]" },
	{ SUBMITTED("taskRoles: [{name: worker}]", "2"), "worker", 4, OF NUMBER("0", "4") "]" },
	{ SUBMITTED("taskRoles: {", "2"), "worker", 4, OF NUMBER("0", "4") "]" },
	/* The role does not train with the others. */
	{ SUBMITTED("taskRoles: {worker: {}, ps: {}}\\nextras: {distributed: {framework: torch, "
	            "taskRoles: [ps]}}",
	            "1"),
	  "worker", 4, OF NUMBER("0", "4") "]" },
	/* The annotation is no number, or an impossible one: it is not changed. */
	{ DOC("\"NaN\"", "\"Start\"", "[" WORKER("3") "]"), "myworker", 1,
	  OF NUMBER("0", "1") "]" },
	{ DOC("\"1\"", "\"Start\"", "[" WORKER("3") "]"), "myworker", 1, OF NUMBER("0", "1") "]" },
	{ DOC("7", "\"Start\"", "[" WORKER("3") "]"), "myworker", 1, OF NUMBER("0", "1") "]" },
};

TEST(test_plan_gives_the_expected_patch)
{
	for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++) {
		struct scale s = asking(GOOD[i].doc, GOOD[i].role, GOOD[i].n);
		struct span patch;
		assert_true(scan_valid(s.doc, 64));
		assert_int_equal(scale_plan(&s, &unit.a, &patch, no_err()), 0);
		assert_string_equal(arena_dup(&unit.a, patch), GOOD[i].patch);
	}
}

static const struct {
	const char *doc, *role;
	int64_t n;
	int http;
	const char *word;
} BAD[] = {
	{ PLAIN, "worker", 1, 404, "ps, myworker" },
	{ PLAIN, "", 1, 404, "ps, myworker" },
	{ PLAIN, "ps", 1, 400, "minFailedInstances" },
	{ PLAIN, "ps", 8, 400, "11 tasks; the maximum is 10" },
	{ DOC("\"6\"", "\"Stop\"", "[" PS "]"), "ps", 3, 409, "stopped" },
	{ DOC("\"6\"", "\"Create\"", "[" PS "]"), "ps", 3, 409, "being created" },
	{ DOC("\"6\"", "7", "[" PS "]"), "ps", 3, 409, "being created" },
	{ DOC("\"6\"", "\"Start\"",
	      "[" ROLE(
		  "ps", "2", "{}",
		  POD("{}", "{\"hivedscheduler.microsoft.com/pod-scheduling-spec\":\"x\"}")) "]"),
	  "ps", 3, 400, "HiveD" },
	{ SUBMITTED("taskRoles: {Worker: {}}\\nextras: {distributed: {framework: torch}}", "1"),
	  "worker", 4, 400, "extras.distributed" },
	{ SUBMITTED("taskRoles: {ps: {}, Worker: {}}\\nextras: {distributed: {framework: mpi, "
	            "taskRoles: [ps, Worker]}}",
	            "1"),
	  "worker", 4, 400, "submit the job anew" },
	/* Malformed lists of task roles. */
	{ DOC("\"6\"", "\"Start\"", "{}"), "ps", 3, 404, "it has: " },
	{ DOC("\"6\"", "\"Start\"", "[1,null,{},{\"name\":7}]"), "ps", 3, 404, "it has: " },
	{ "{}", "ps", 3, 404, "it has: " },
	{ "[]", "", 3, 404, "it has: " },
};

TEST(test_plan_refuses_changes_that_are_not_allowed)
{
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
		struct scale s = asking(BAD[i].doc, BAD[i].role, BAD[i].n);
		struct span patch;
		assert_int_equal(scale_plan(&s, &unit.a, &patch, no_err()), -1);
		assert_int_equal(unit.e.http, BAD[i].http);
		if (!strstr(err_msg(&unit.e), BAD[i].word))
			fail_msg("%zu: %s", i, err_msg(&unit.e));
	}
}
