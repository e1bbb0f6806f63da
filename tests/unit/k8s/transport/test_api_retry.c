/* The store of an API server: missing answers and repeated requests. */
#include "base/posix/clock.h"
#include "tests/unit/base/cmocka.h"
#include "tests/unit/k8s/api_kit.h"

/* ---- answers that do not come ------------------------------------------------------ */

TEST(test_create_without_an_answer_is_ambiguous_and_not_repeated)
{
	START({ SHUT, NULL });
	assert_int_equal(act(STORE_CREATE, AMPLE_MS).outcome, STORE_AMBIGUOUS);
	assert_int_equal(server.requests, 1);
}

/* libcurl would repeat this request by itself. */
TEST(test_create_on_a_closed_kept_connection_is_not_repeated)
{
	START({ ANSWER, FINE }, { SHUT, NULL }, { ANSWER, CREATED });
	assert_int_equal(act(STORE_GET, AMPLE_MS).outcome, STORE_OK);
	assert_int_equal(act(STORE_CREATE, AMPLE_MS).outcome, STORE_AMBIGUOUS);
	assert_int_equal(server.requests, 2);
}

/* libcurl's error is that of the second connection then. */
TEST(test_create_on_a_server_that_stops_is_ambiguous)
{
	START({ ANSWER, FINE }, { LEAVE, NULL });
	assert_int_equal(act(STORE_GET, AMPLE_MS).outcome, STORE_OK);
	assert_int_equal(act(STORE_CREATE, AMPLE_MS).outcome, STORE_AMBIGUOUS);
	assert_int_equal(server.requests, 2);
}

TEST(test_create_with_a_truncated_answer_is_ambiguous)
{
	START({ CUT, HEAD("201 Created", "", "500") "{\"metadata\"" });
	assert_int_equal(act(STORE_CREATE, AMPLE_MS).outcome, STORE_AMBIGUOUS);
	assert_int_equal(server.requests, 1);
}

TEST(test_answers_that_are_not_http_are_no_success)
{
	START({ CUT, "what a nice day\r\n" });
	assert_int_equal(act(STORE_CREATE, AMPLE_MS).outcome, STORE_AMBIGUOUS);
	assert_int_equal(act(STORE_GET, AMPLE_MS).outcome, STORE_BUSY);
}

TEST(test_requests_without_an_answer_end_at_the_deadline)
{
	START({ HANG, NULL });
	int64_t from = clock_ms();
	struct kept k;
	do /* the deadline of one that was never sent has passed while this process was stalled */
		k = act(STORE_CREATE, 1000);
	while (server.requests == 0);
	assert_int_equal(k.outcome, STORE_AMBIGUOUS);
	assert_int_equal(act(STORE_GET, 200).outcome, STORE_BUSY);
	assert_true(clock_ms() - from >= 1190);
}

TEST(test_idempotent_requests_are_repeated)
{
	START({ SHUT, NULL }, { ANSWER, FINE }, { SHUT, NULL }, { ANSWER, FINE }, { SHUT, NULL },
	      { ANSWER, EMPTY("500 Error") }, { ANSWER, FINE });
	assert_int_equal(act(STORE_GET, AMPLE_MS).outcome, STORE_OK);
	assert_int_equal(act(STORE_PATCH, AMPLE_MS).outcome, STORE_OK);
	assert_int_equal(act(STORE_DELETE, AMPLE_MS).outcome, STORE_OK);
	assert_int_equal(server.requests, 7);
}

TEST(test_delete_without_uid_is_not_repeated)
{
	START({ SHUT, NULL });
	struct store_request r = request(STORE_DELETE, AMPLE_MS);
	r.uid = NULL;
	assert_int_equal(ask(store, r).outcome, STORE_AMBIGUOUS);
	assert_int_equal(server.requests, 1);
}

TEST(test_lost_patch_stays_ambiguous)
{
	START({ SHUT, NULL }, { ANSWER, EMPTY("503 Busy") });
	assert_int_equal(act_tries(STORE_PATCH, 2).outcome, STORE_AMBIGUOUS);
}

TEST(test_endless_answer_is_cut)
{
	START({ ENDLESS, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" });
	struct kept k = act(STORE_GET, AMPLE_MS);
	assert_int_equal(k.outcome, STORE_REFUSED);
	assert_non_null(strstr(k.message, "larger than 10000 bytes"));
}

TEST(test_large_announced_answer_is_cut)
{
	START({ CUT, HEAD("200 OK", "", "99999999") "{" });
	assert_int_equal(act(STORE_GET, AMPLE_MS).outcome, STORE_REFUSED);
}

/* ---- trying again ------------------------------------------------------------------ */

TEST(test_requests_to_a_busy_server_are_repeated)
{
	START({ ANSWER, EMPTY("503 Busy") }, { ANSWER, EMPTY("429 Busy") }, { ANSWER, CREATED });
	assert_int_equal(act(STORE_CREATE, AMPLE_MS).outcome, STORE_OK);
	assert_int_equal(server.requests, 3);
}

TEST(test_retry_after_is_respected)
{
	START({ ANSWER, HEAD("429 Busy", "Retry-After: 1\r\n", "0") }, { ANSWER, CREATED });
	int64_t from = clock_ms();
	assert_int_equal(act(STORE_CREATE, AMPLE_MS).outcome, STORE_OK);
	assert_true(clock_ms() - from >= 1000);
}

/* It is waited for two seconds at most, and fewer are left when the answer is there. */
TEST(test_retry_after_beyond_the_deadline_ends_it)
{
	START({ ANSWER, FINE }, { ANSWER, HEAD("429 Busy", "Retry-After: 60\r\n", "0") });
	assert_int_equal(act(STORE_GET, AMPLE_MS).outcome, STORE_OK);
	struct store_request r = request(STORE_CREATE, AMPLE_MS);
	r.urgent = true;
	const struct kept *k = send_off(store, r, 1);
	struct pending *p = store->urgent.head;
	store_start(store);
	while (server.requests < 2)
		clock_sleep(1);
	p->r.deadline_ms = clock_ms() + 1900;
	settle(store);
	assert_int_equal(k->outcome, STORE_BUSY);
	assert_int_equal(k->retry_after_s, 60);
}

TEST(test_403_of_a_server_that_starts_is_repeated)
{
	START({ ANSWER, EMPTY("403 Forbidden") }, { ANSWER, EMPTY("404 Not Found") },
	      { ANSWER, CREATED });
	assert_int_equal(act(STORE_CREATE, AMPLE_MS).outcome, STORE_OK);
}

TEST(test_lasting_403_is_reported_before_the_deadline)
{
	START({ ANSWER, EMPTY("403 Forbidden") });
	int64_t from = clock_ms();
	assert_int_equal(act(STORE_CREATE, AMPLE_MS).outcome, STORE_REFUSED);
	assert_true(clock_ms() - from < AMPLE_MS);
	size_t before = server.requests;
	assert_int_equal(act(STORE_CREATE, AMPLE_MS).outcome, STORE_REFUSED);
	assert_int_equal(server.requests, before + 1); /* the connection is not new any more */
}

/* The first answer to a request without a waiting client counts. */
TEST(test_403_of_a_look_is_final)
{
	START({ ANSWER, EMPTY("403 Forbidden") }, { ANSWER, FINE });
	struct store_request r = request(STORE_LIST, AMPLE_MS);
	r.look = true;
	assert_int_equal(ask(store, r).outcome, STORE_REFUSED);
	assert_int_equal(server.requests, 1);
}

/* A server that has just started answers before it has loaded its RBAC rules. */
TEST(test_403_after_an_outage_is_repeated_for_longer)
{
	static const struct step LOADING[] = { { ANSWER, EMPTY("403 Forbidden") },
		                               { ANSWER, EMPTY("403 Forbidden") },
		                               { ANSWER, EMPTY("403 Forbidden") },
		                               { ANSWER, EMPTY("403 Forbidden") },
		                               { ANSWER, CREATED } };
	START({ ANSWER, FINE });
	struct kept k = { 0 };
	/* After a stall of three seconds, such an answer is no longer that of a start. */
	for (int i = 0; i < 5 && (i == 0 || k.outcome == STORE_REFUSED); i++) {
		server_stop(&server);
		assert_int_equal(act(STORE_CREATE, 100).outcome, STORE_BUSY);
		server_start(&server, LOADING, 5);
		k = act(STORE_CREATE, AMPLE_MS);
	}
	assert_int_equal(k.outcome, STORE_OK);
	assert_int_equal(server.requests, 5);
}

TEST(test_retry_after_is_bounded)
{
	START({ ANSWER, HEAD("503 Busy", "Retry-After: 3600\r\n", "0") }, { ANSWER, CREATED });
	int64_t from = clock_ms();
	const struct kept *k = send_off(store, request(STORE_CREATE, AMPLE_MS), 1);
	int64_t due_ms = run_tries(1)->due_ms;
	assert_in_range(due_ms, from + 2000, clock_ms() + 2000);
	settle(store);
	assert_int_equal(k->outcome, STORE_OK);
}

/* A removal has five seconds, and a busy API server sends `Retry-After: 5` or more. */
TEST(test_retry_after_leaves_time_for_the_removal)
{
	START({ ANSWER, HEAD("429 Busy", "Retry-After: 5\r\n", "0") }, { ANSWER, FINE });
	const struct kept *k = send_off(store, request(STORE_DELETE, AMPLE_MS), 1);
	struct pending *p = run_tries(1);
	assert_true(p->due_ms < clock_ms() + 5000);
	p->due_ms = store->wake_ms = store->paused_until_ms = 0; /* that time has passed */
	settle(store);
	assert_int_equal(k->outcome, STORE_OK);
	assert_int_equal(server.requests, 2);
}

/* Fifty equal requests to a server that closes each connection. */
TEST(test_failed_requests_are_repeated_few_at_a_time)
{
	static const struct step FINE_STEP[] = { { ANSWER, FINE } };
	START({ DROP, NULL });
	int64_t from = clock_ms();
	const struct kept *k = send_off(store, request(STORE_GET, AMPLE_MS), 50);
	/* 16 at first, then two by two, after 100, 200, 400 ms, give or take a quarter. */
	while (server.requests < 16 + 2 * 3)
		store_run_once(store, 20);
	assert_true(clock_ms() - from >= 75 + 150 + 300);
	server_stop(&server);
	server_start(&server, FINE_STEP, 1);
	settle(store);
	for (size_t i = 0; i < 50; i++)
		assert_int_equal(k[i].outcome, STORE_OK);
	assert_int_equal(server.requests, 50);
	assert_in_range(server.most, 1, 16);
}

TEST(test_406_asks_for_whole_objects)
{
	START({ ANSWER, EMPTY("406 Not Acceptable") }, { ANSWER, CREATED });
	assert_int_equal(act(STORE_CREATE, AMPLE_MS).outcome, STORE_OK);
	sent(1, "Accept: application/json\r\n");
	assert_int_equal(act(STORE_CREATE, AMPLE_MS).outcome, STORE_OK);
	sent(2, "Accept: application/json\r\n");
}

TEST(test_closed_port_is_busy_after_the_deadline)
{
	START({ ANSWER, FINE });
	server_stop(&server);
	struct kept k = act_tries(STORE_CREATE, 2);
	assert_int_equal(k.outcome, STORE_BUSY);
	assert_non_null(strstr(k.message, "onnect"));
	close_store();
}

TEST(test_requests_wait_for_a_server_that_starts_late)
{
	static const struct step FINE_STEP[] = { { ANSWER, CREATED } };
	START({ ANSWER, FINE });
	server_stop(&server);
	const struct kept *k = send_off(store, request(STORE_CREATE, AMPLE_MS), 1);
	(void)run_tries(2);
	assert_int_equal(k->calls, 0);
	server_start(&server, FINE_STEP, 1);
	settle(store);
	assert_int_equal(k->outcome, STORE_OK);
}

TEST(test_requests_of_a_dropped_connection_are_repeated)
{
	START({ DROP, NULL }, { ANSWER, FINE });
	assert_int_equal(act(STORE_GET, AMPLE_MS).outcome, STORE_OK);
}
