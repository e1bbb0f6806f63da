/* Entries of the cache, made from rare and malformed Frameworks. */
#include "base/enc.h"
#include "jobs/cache/job_entry.h"
#include "tests/unit/base/cmocka.h"
#include "tests/unit/base/dice.h"
#include "tests/unit/jobs/job_entry_kit.h"

/* An entry has no document if it cannot be compressed below the maximum. */
TEST(test_job_entry_new_leaves_out_a_document_too_large)
{
	STR_AUTO s = STR_INIT(2 << 20);
	str_puts(&s,
	         "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\"},\"status\":{\"state\":\"Completed\","
	         "\"taskRoleStatusesCompressed\":\"");
	struct dice dice = { 3 };
	for (int i = 0; i < 900000; i++)
		str_char(&s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[dice_roll(&dice, 26)]);
	str_puts(&s, "\"}}");
	JOB_ENTRY_AUTO *c = job_entry_of(str_view(&s));
	assert_int_equal(c->doc.n, 0);
	assert_int_equal(c->state, JOB_FAILED);
	assert_true(c->weight < 1024);
}

TEST(test_job_entry_new_without_status_is_waiting)
{
	JOB_ENTRY_AUTO *c = annotated("{\"jobName\":\"j\"}");
	assert_int_equal(c->state, JOB_WAITING);
	assert_string_equal(c->sub_state, "AttemptCreationPending");
	assert_false(c->legacy);
	assert_false(c->broken);
	assert_string_equal(c->job, "j");
	assert_string_equal(c->execution, "");
	assert_int_equal(c->created_ms, JOB_ENTRY_NONE);
	assert_int_equal(c->retry_delay_s, JOB_ENTRY_NONE);
	assert_int_equal(c->gpus, 0);
}

TEST(test_job_entry_new_reads_tags)
{
	static const struct {
		const char *annotation, *tags;
	} CASES[] = {
		{ "\"[]\"", "[]" },
		{ "\" [ \\\"a\\\" , \\\"b c\\\" ] \"", "[\"a\",\"b c\"]" },
		{ "\"[\\\"\\\\u00e9\\\\\\\"\\\"]\"", "[\"\xc3\xa9\\\"\"]" },
		{ "7", "[]" },
		{ "\"x\"", "[]" },
		{ "\"[1]\"", "[]" },
		{ "\"[\\\"a\\\",[\\\"b\\\"]]\"", "[]" },
		{ "\"{\\\"a\\\":1}\"", "[]" },
		{ "\"[\\\"\\\"]\"", "[]" },
		{ "\"[\\\"a\\\\nb\\\"]\"", "[]" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		FREE_AUTO char *all = xasprintf("{\"rest-lit/tags\":%s}", CASES[i].annotation);
		JOB_ENTRY_AUTO *c = annotated(all);
		assert_string_equal(c->tags, CASES[i].tags);
		assert_false(c->broken);
	}
}

/* Returns an entry with this number of tags, each of this number of bytes. */
static struct job_entry *tagged(size_t tags, size_t bytes)
{
	STR_AUTO s = STR_INIT(1 << 20);
	str_puts(&s, "{\"rest-lit/tags\":\"[");
	for (size_t i = 0; i < tags; i++) {
		str_puts(&s, i ? ",\\\"" : "\\\"");
		str_many(&s, "t", bytes);
		str_puts(&s, "\\\"");
	}
	str_puts(&s, "]\"}");
	return annotated(str_c(&s));
}

TEST(test_job_entry_new_limits_tags)
{
	JOB_ENTRY_AUTO *most = tagged(32, 63);
	assert_int_equal(strlen(most->tags), 32 * 66 + 1);
	JOB_ENTRY_AUTO *many = tagged(33, 1);
	assert_string_equal(many->tags, "[]");
	JOB_ENTRY_AUTO *longer = tagged(1, 64);
	assert_string_equal(longer->tags, "[]");
	JOB_ENTRY_AUTO *huge = tagged(5000, 60);
	assert_string_equal(huge->tags, "[]");
}

#define BOTH(annotation, in_the_job)                                                               \
	"extras: {hivedScheduler: {jobPriorityClass: " in_the_job                                  \
	"}}\",\"rest-lit/job-priority-class\":" annotation ",\"x\":\""

TEST(test_job_entry_new_reads_the_priority)
{
	static const struct {
		const char *config, *priority;
	} CASES[] = {
		/* The annotation decides, also if it is invalid. */
		{ BOTH("\"oppo\"", "prod"), "oppo" },
		{ BOTH("\"\"", "prod"), "" },
		{ BOTH("7", "prod"), "" },
		{ BOTH("\"a-name-that-is-longer-than-any-of-a-class\"", "prod"), "" },
		{ BOTH("null", "prod"), "prod" },
		{ "extras:\\n  hivedScheduler:\\n    jobPriorityClass: prod\\n", "prod" },
		{ "{\\\"extras\\\":{\\\"hivedScheduler\\\":{\\\"jobPriorityClass\\\":\\\"oppo\\\"}}"
		  "}",
		  "oppo" },
		{ "extras:\\n  hivedScheduler:\\n    jobPriorityClass: null\\n", "" },
		{ "extras:\\n  hivedScheduler: jobPriorityClass\\n", "" },
		{ "extras: [jobPriorityClass\\n", "" },
		{ "jobPriorityClass: prod\\n", "" },
		{ "- jobPriorityClass\\n", "" },
		{ "name: x\\n", "" },
		{ "extras: {hivedScheduler: {jobPriorityClass: "
		  "a-name-that-is-longer-than-any-of-a-class}}",
		  "" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		FREE_AUTO char *all = xasprintf("{\"config\":\"%s\"}", CASES[i].config);
		JOB_ENTRY_AUTO *c = annotated(all);
		assert_string_equal(c->priority, CASES[i].priority);
		assert_false(c->broken);
	}
}

TEST(test_job_entry_new_sums_gpus_of_all_tasks)
{
	static const char SPEC[] =
	    "{\"executionType\":\"Create\",\"taskRoles\":["
	    "{\"taskNumber\":3,\"task\":{\"pod\":{\"spec\":{\"containers\":["
	    "{\"resources\":{\"limits\":{\"cpu\":8,\"memory\":\"8Gi\",\"nvidia.com/gpu\":\"2\"}}},"
	    "{\"resources\":{\"limits\":{\"cpu\":\"250m\",\"memory\":\"512Mi\",\"amd.com/"
	    "gpu\":1}}}]}}}},"
	    "{\"taskNumber\":2,\"task\":{\"pod\":{\"spec\":{\"containers\":["
	    "{\"resources\":{\"limits\":{\"cpu\":\"x\",\"memory\":1073741824,"
	    "\"nvidia.com/gpu\":-4}}},{},7]}}}},"
	    "{\"taskNumber\":1}]}";
	static const struct {
		const char *annotations;
		int gpus;
	} CASES[] = {
		{ "{}", 9 },
		{ "{\"totalGpuNumber\":\"5\"}", 5 },
		{ "{\"totalGpuNumber\":\"NaN\"}", 9 }, /* of OpenPAI */
		{ "{\"totalGpuNumber\":5}", 9 },
		{ "{\"totalGpuNumber\":\"99999999999999999999\"}", 9 },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		FREE_AUTO char *text =
		    xasprintf(OBJECT("%s", "%s", "null"), CASES[i].annotations, SPEC);
		JOB_ENTRY_AUTO *c = job_entry_of(span_of(text));
		assert_int_equal(c->gpus, CASES[i].gpus);
		assert_int_equal(c->milli_cpus, 3 * 8250);
		assert_int_equal(c->memory_mb, 3 * (8192 + 512) + 2 * 1024);
		assert_int_equal(c->tasks, 6);
		assert_int_equal(c->roles, 3);
		assert_string_equal(c->execution, "CREATE");
		assert_false(c->broken);
	}
}

TEST(test_job_entry_new_accepts_malformed_frameworks)
{
	static const char *const BROKEN[] = {
		OBJECT("{}", "{}", "7"),
		OBJECT("{}", "{}", "{\"state\":7}"),
		OBJECT("{}", "{}", "{\"state\":\"\\u0000\"}"),
		OBJECT("{}", "{}", "{\"state\":\"\\ud800\"}"),
		OBJECT("{}", "{}", "{\"retryPolicyStatus\":{\"totalRetriedCount\":1099511627776}}"),
		OBJECT("{}", "{}", "{\"retryPolicyStatus\":{\"totalRetriedCount\":-1}}"),
		OBJECT("{}", "{}", "{\"retryPolicyStatus\":{\"retryDelaySec\":\"1\"}}"),
		OBJECT("{}", "{}", "{\"completionTime\":\"yesterday\"}"),
		OBJECT("{}", "{}", "{\"runTime\":{}}"),
		OBJECT("{}", "{}", "{\"attemptStatus\":{\"id\":-1}}"),
		OBJECT("{}", "{}", "{\"attemptStatus\":{\"completionStatus\":{\"code\":\"0\"}}}"),
		OBJECT("{}", "{\"taskRoles\":{}}", "{}"),
		OBJECT("{}", "{\"taskRoles\":[1]}", "{}"),
		OBJECT("{}", "{\"taskRoles\":[{\"taskNumber\":-1}]}", "{}"),
		OBJECT("{}", "{\"taskRoles\":[{\"taskNumber\":1e99}]}", "{}"),
		OBJECT("{}", "{\"executionType\":[]}", "{}"),
		OBJECT("{}", "{\"executionType\":\"a word that is far too long\"}", "{}"),
		OBJECT("{\"jobName\":{}}", "{}", "{}"),
		"{\"metadata\":{\"name\":\"" MD5 "\"}}", /* no uid */
		"{\"metadata\":{\"name\":\"" MD5 "\",\"uid\":1}}",
		"{\"metadata\":{\"name\":\"" MD5 "\",\"uid\":\"u\",\"resourceVersion\":1}}",
	};
	for (size_t i = 0; i < sizeof(BROKEN) / sizeof(BROKEN[0]); i++) {
		JOB_ENTRY_AUTO *c = job_entry_of(span_of(BROKEN[i]));
		assert_non_null(c);
		if (!c->broken || c->state != JOB_UNKNOWN || c->has_code)
			fail_msg("%s", BROKEN[i]);
		assert_string_equal(c->name, MD5);
		struct span doc;
		assert_true(job_entry_doc(c, &unit.a, &doc) && scan_valid(doc, 64));
	}
	/* Odd, but it can be shown. */
	static const char *const ODD[] = {
		OBJECT("[]", "[]", "{}"),
		OBJECT("null", "null", "null"),
		OBJECT("{}", "{\"taskRoles\":[[{\"name\":1}],[[[]]]]}", "null"),
		OBJECT("{\"config\":[]}", "{\"taskRoles\":null}", "{\"attemptStatus\":[{}]}"),
	};
	for (size_t i = 0; i < sizeof(ODD) / sizeof(ODD[0]); i++) {
		JOB_ENTRY_AUTO *c = job_entry_of(span_of(ODD[i]));
		struct span doc;
		assert_non_null(c);
		assert_true(job_entry_doc(c, &unit.a, &doc) && scan_valid(doc, 64));
	}
	static const char *const NOTHING[] = { "null",
		                               "[]",
		                               "{}",
		                               "\"x\"",
		                               "{\"metadata\":[]}",
		                               "{\"metadata\":{\"uid\":\"u\"}}",
		                               "{\"metadata\":{\"name\":\"\"}}" };
	for (size_t i = 0; i < sizeof(NOTHING) / sizeof(NOTHING[0]); i++)
		assert_null(job_entry_of(span_of(NOTHING[i])));
}

TEST(test_job_entry_new_shortens_long_texts)
{
	STR_AUTO longest = STR_INIT(1 << 20);
	str_many(&longest, "\xc3\xa9", 100000); /* 2 bytes each */
	FREE_AUTO char *text = xasprintf(
	    "{\"metadata\":{\"name\":\"%s\",\"uid\":\"%s\",\"labels\":{\"userName\":\"%s\"},"
	    "\"annotations\":{\"jobName\":\"%s\"}},\"status\":{\"state\":\"%s\"}}",
	    str_c(&longest), str_c(&longest), str_c(&longest), str_c(&longest), str_c(&longest));
	JOB_ENTRY_AUTO *c = job_entry_of(span_of(text));
	assert_true(c->broken);
	assert_int_equal(strlen(c->name), 252);
	assert_int_equal(strlen(c->job), 254);
	assert_int_equal(strlen(c->sub_state), 64);
	assert_int_equal(utf8_check(span_of(c->name)), 252);
	assert_true(c->weight < 8192);
}

TEST(test_job_entry_new_counts_many_tasks_without_overflow)
{
	STR_AUTO s = STR_INIT(1 << 20);
	str_puts(&s, "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\"},\"spec\":{\"taskRoles\":[");
	for (int i = 0; i < 300; i++) {
		str_puts(&s, i ? "," : "");
		str_puts(&s,
		         "{\"taskNumber\":2147483647,\"task\":{\"pod\":{\"spec\":{\"containers\":"
		         "[{\"resources\":{\"limits\":{\"a/gpu\":1073741824}}}]}}}}");
	}
	str_puts(&s, "]}}");
	JOB_ENTRY_AUTO *c = job_entry_of(str_view(&s));
	assert_int_equal(c->tasks, INT32_MAX);
	assert_int_equal(c->roles, 300);
	assert_true(c->gpus == INT64_C(1) << 53);
	assert_false(c->broken);
}
