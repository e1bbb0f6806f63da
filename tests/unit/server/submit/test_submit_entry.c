/* The cache entry of a job just created, compared with the entry from the object of the watch. */

#include "tests/unit/base/cmocka.h"

#include "jobs/cache/job_entry.h"
#include "server/submit/submit_internal.h"
#include "translate/job/job.h"
#include "translate/translate.h"

static const struct submission_made MADE = { "d69b453b-76d1-44eb-8bc7-20af3798393d", "203",
	                                     "2026-11-23T12:21:41Z" };

/* The object as the API server returns it after the start of the job. */
static struct job_entry *watched(struct span body)
{
	static const char PLACE[] = "\"metadata\":{";
	static const char CREATE[] = "\"executionType\":\"Create\"";
	STR_AUTO text = STR_INIT(1 << 20);
	size_t at = span_find(body, 0, PLACE) + sizeof(PLACE) - 1;
	size_t create = span_find(body, 0, CREATE);
	assert_true(at < body.n);
	str_span(&text, span_to(body, at));
	str_printf(&text, "\"uid\":\"%s\",\"resourceVersion\":\"%s\",\"creationTimestamp\":\"%s\",",
	           MADE.uid, MADE.version, MADE.created);
	body = span_from(body, at);
	if (create != SIZE_MAX) {
		str_span(&text, span_to(body, create - at));
		str_puts(&text, "\"executionType\":\"Start\"");
		body = span_from(body, create - at + sizeof(CREATE) - 1);
	}
	str_span(&text, body);
	assert_false(text.full);
	return job_entry_new(str_view(&text));
}

static void assert_same(const struct job_entry *a, const struct job_entry *b)
{
	assert_true(job_entry_same(a, b)); /* what lists show, except for: */
	assert_string_equal(a->resource_version, b->resource_version);
	assert_int_equal(a->version, b->version);
	assert_int_equal(a->submitted_ms, b->submitted_ms);
	assert_int_equal(a->key, b->key);
	assert_int_equal(a->untouched, b->untouched);
	assert_int_equal(a->max_duration_s, b->max_duration_s);
	assert_int_equal(a->milli_cpus, b->milli_cpus);
	assert_int_equal(a->memory_mb, b->memory_mb);
	assert_int_equal(a->transition_ms, b->transition_ms);
}

static void assert_noted(struct span job_text, enum profile profile)
{
	NOTES_AUTO warnings = { 0 };
	struct settings set;
	struct objects objects;
	const struct facts facts = { .any_virtual_cluster = true };
	const struct submission_mark mark = { .submission = "019ab0c0ffee445566778899aabbccdd",
		                              .instance = "here",
		                              .idempotency = "00112233445566778899aabbccddeeff-x",
		                              .request = "request",
		                              .tags = "[\"a\"]",
		                              .webhook = true };
	translate_settings_default(&set);
	set.profile = profile;
	struct translator *t = translator_new(&set, NULL, no_err());
	assert_non_null(t);
	struct job *job =
	    job_read(t, DIALECTS_ALL, job_text, "alice", &unit.a, &warnings, no_err());
	STR_AUTO why = STR_INIT(4096);
	if (!job || job_build(t, job, &facts, &mark, &unit.a, &objects, no_err()) < 0) {
		error_json(&why, &unit.e);
		fail_msg("%s", str_c(&why));
	}
	struct span body = objects_framework(&objects)->body;
	struct job_entry *noted = submit_entry(job, body, &MADE);
	struct job_entry *came = watched(body);
	assert_non_null(noted);
	assert_non_null(came);
	assert_int_equal(noted->doc.n, 0);
	assert_false(noted->creating);
	assert_true(noted->tasks > 0 && noted->milli_cpus > 0);
	assert_same(noted, came);
	job_entry_drop(noted);
	job_entry_drop(came);
	translator_free(t);
}

TEST(test_entry_of_a_created_job_equals_that_of_the_watch)
{
	static const char *const FILES[] = { "tests/bench/small.yaml", "tests/bench/medium.yaml",
		                             "tests/bench/large.yaml" };
	for (size_t i = 0; i < ARRAY_SIZE(FILES); i++) {
		assert_noted(unit_read(FILES[i]), PROFILE_PLAIN);
		assert_noted(unit_read(FILES[i]), PROFILE_OPENPAI);
	}
}

TEST(test_entry_has_the_values_of_the_job)
{
	assert_noted(
	    SPAN("protocolVersion: 2\nname: n\ntype: job\n"
	         "prerequisites: [{type: dockerimage, name: i, uri: u}]\n"
	         "taskRoles:\n"
	         "  a: {instances: 2, dockerImage: i, commands: [c],\n"
	         "      resourcePerInstance: {cpu: 3, memoryMB: 5, gpu: 7}}\n"
	         "  b: {instances: 11, dockerImage: i, commands: [c],\n"
	         "      resourcePerInstance: {cpu: 13, memoryMB: 17, gpu: 19}}\n"
	         "extras: {hivedScheduler: {jobPriorityClass: prod}, maxDurationSec: 600}\n"),
	    PROFILE_PLAIN);
	assert_noted(SPAN("{\"jobName\":\"n\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"a\","
	                  "\"taskNumber\":3,\"cpuNumber\":2,\"memoryMB\":640,\"gpuNumber\":1,"
	                  "\"command\":\"c\"}]}"),
	             PROFILE_PLAIN);
}
