/* Server-sent events as text. */

#include "tests/unit/base/cmocka.h"

#include "server/http/stream.h"

TEST(test_sse_event_has_id_event_and_data)
{
	STR_AUTO out = STR_INIT(1024);
	sse_event(&out, "job", 7, SPAN("{\"a\":1}"));
	sse_event(&out, "reset", 0, SPAN("{}"));
	sse_end(&out, "lifetime");
	assert_string_equal(str_c(&out), "id: 7\nevent: job\ndata: {\"a\":1}\n\n"
	                                 "event: reset\ndata: {}\n\n"
	                                 "event: end\ndata: {\"reason\":\"lifetime\"}\n\n");
}

TEST(test_sse_gone_writes_names_on_one_line)
{
	STR_AUTO out = STR_INIT(1024);
	struct job_entry *job = job_entry_new(
	    SPAN("{\"metadata\":{\"name\":\"x\",\"uid\":\"u\",\"labels\":{\"userName\":\"alice\"},"
	         "\"annotations\":{\"jobName\":\"a\\nb\"}}}"));
	assert_non_null(job);
	sse_put_deleted(&out, job);
	/* The data is one line with any names. */
	assert_string_equal(str_c(&out),
	                    "event: gone\ndata: {\"name\":\"a\\nb\",\"username\":\"alice\"}\n\n");
	job_entry_drop(job);
}
