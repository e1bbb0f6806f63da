/* Requests to --webhook: the body, its signature, and the pauses. */
#include <jansson.h>

#include "base/json/scan.h"
#include "server/cluster/webhook.h"
#include "tests/unit/base/cmocka.h"

/* The values were computed by Python's hmac. */
TEST(test_webhook_signature_equals_known_values)
{
	static const struct {
		const char *secret;
		int64_t timestamp_s;
		const char *body, *want;
	} CASES[] = {
		{ "0123456789abcdef", 0, "",
		  "sha256=9b9567f7a6e6e3243d8c5c66dde94f7df77b79d6edb3dee210c5778814cfaca0" },
		{ "a secret of thirty-two characters", 1795170402, "{\"event\":\"job.ended\"}",
		  "sha256=c8837f5b05ac3ef9ac1831b40416d39dfc214dee4b56bb5071e21f441ea99796" },
		{ "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		  "xxxxxxxxxxxxxxxxxxxx",
		  4102444800, "\303\244",
		  "sha256=f63eb8a03e008f677fd5fea32a512aee9fde3cee4807b2be0ce05d1e5074edc4" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		char out[WEBHOOK_SIGNATURE];
		webhook_signature(out, span_of(CASES[i].secret), CASES[i].timestamp_s,
		                  span_of(CASES[i].body));
		assert_string_equal(out, CASES[i].want);
	}
}

static struct job_entry *entry_of(const char *status)
{
	FREE_AUTO char *text = xasprintf(
	    "{\"metadata\":{\"name\":\"0123\",\"uid\":\"u-1\",\"creationTimestamp\":\"1970-01-"
	    "01T00:00:01Z\","
	    "\"labels\":{\"userName\":\"al\\\"ice\",\"virtualCluster\":\"vc\"},\"annotations\":{"
	    "\"jobName\":\"j\\u00e4b\",\"rest-lit/webhook\":\"here\"}},\"status\":{%s}}",
	    status);
	struct job_entry *c = job_entry_new(span_of(text));
	assert_non_null(c);
	return c;
}

TEST(test_webhook_body_is_json)
{
	static const char DONE[] = "\"state\":\"Completed\",\"runTime\":\"1970-01-01T00:00:02Z\","
				   "\"completionTime\":\"1970-01-01T00:"
				   "00:03Z\",\"retryPolicyStatus\":{\"totalRetriedCount\":5,"
				   "\"accountableRetriedCount\":2},"
				   "\"attemptStatus\":{\"completionStatus\":{\"code\":-210}}";
	struct job_entry *c = entry_of(DONE);
	STR_AUTO body = STR_INIT(4096);
	webhook_body(&body, c, SPAN("too \"long\""));
	json_auto_t *got = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
	json_auto_t *want = json_pack(
	    "{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:i,s:s,s:i,s:i,s:i,s:i,s:{s:i,s:i}}", "event",
	    "job.ended", "uid", "u-1", "name", "j\303\244b", "username", "al\"ice",
	    "virtualCluster", "vc", "debugId", "0123", "state", "STOPPED", "exitCode", -210,
	    "stopReason", "too \"long\"", "createdTime", 1000, "launchedTime", 2000,
	    "completedTime", 3000, "retries", 5, "retryDetails", "user", 2, "platform", 3);
	assert_non_null(want);
	assert_true(json_equal(got, want));
	job_entry_drop(c);
}

/* A job whose GPUs are idle has an event of its own, and no members of an end. */
TEST(test_webhook_body_of_an_idle_job_says_since_when)
{
	struct job_entry *c = job_entry_new(SPAN(
	    "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"annotations\":{"
	    "\"rest-lit/webhook\":\"here\",\"rest-lit/gpu-idle\":\"1000 2000 b 3\","
	    "\"rest-lit/webhook-idle\":\"1000\"}},\"status\":{\"state\":\"AttemptRunning\"}}"));
	STR_AUTO body = STR_INIT(4096);
	webhook_body(&body, c, SPAN(""));
	struct span got = str_view(&body);
	int64_t since_ms;
	assert_true(scan_valid(got, 8));
	assert_true(span_is(scan_get(got, "event"), "\"job.idle\""));
	assert_true(scan_int(scan_get(got, "gpuIdleSince"), 1000, 1000, &since_ms));
	assert_null(scan_get(got, "stopReason").p);
	assert_int_equal(c->gpu_idle_told_ms, 1000);
	job_entry_drop(c);
}

TEST(test_webhook_body_has_null_for_absent_values)
{
	struct job_entry *c = entry_of("\"state\":\"Completed\"");
	STR_AUTO body = STR_INIT(4096);
	webhook_body(&body, c, SPAN(""));
	static const char *const NULLS[] = { "exitCode", "stopReason", "launchedTime",
		                             "completedTime" };
	for (size_t i = 0; i < sizeof(NULLS) / sizeof(NULLS[0]); i++)
		assert_int_equal(scan_type(scan_get(str_view(&body), NULLS[i])), SCAN_NULL);
	job_entry_drop(c);
}

TEST(test_webhook_pauses_double_up_to_a_maximum)
{
	assert_int_equal(webhook_pause_ms(1, 60000), 1000);
	assert_int_equal(webhook_pause_ms(2, 60000), 2000);
	assert_int_equal(webhook_pause_ms(6, 60000), 32000);
	assert_int_equal(webhook_pause_ms(7, 60000), 60000);
	assert_int_equal(webhook_pause_ms(4000000000U, 60000), 60000);
}

/* Only the annotation of the submission counts, until the end has been sent. */
TEST(test_webhook_annotations_count_until_the_end_is_sent)
{
	static const struct {
		const char *annotations, *want;
	} CASES[] = {
		{ "\"rest-lit/webhook\":\"here\"", "here" },
		{ "\"rest-lit/webhook\":\"here\",\"rest-lit/webhook-sent\":\"1\"", "" },
		{ "\"rest-lit/webhook\":\"here\",\"rest-lit/webhook-sent\":null", "here" },
		{ "\"jobName\":\"x\"", "" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		FREE_AUTO char *text =
		    xasprintf("{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"annotations\":{%s}}}",
		              CASES[i].annotations);
		struct job_entry *c = job_entry_new(span_of(text));
		assert_string_equal(c->webhook, CASES[i].want);
		job_entry_drop(c);
	}
}
