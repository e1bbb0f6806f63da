/* The store behind an API server, against a server that misbehaves. */
#include "tests/unit/k8s/kit.h"

#include <sys/stat.h>

#include "tests/unit/k8s/fault_server.h"

#define HEAD(status, more, length)                                                                 \
	"HTTP/1.1 " status "\r\nContent-Type: application/json\r\n" more "Content-Length: " length \
	"\r\n\r\n"
#define OBJECT        "{\"metadata\":{\"uid\":\"u-1\",\"resourceVersion\":\"42\"}}" /* 49 bytes */
#define CREATED       HEAD("201 Created", "", "49") OBJECT
#define FINE          HEAD("200 OK", "", "49") OBJECT
#define EMPTY(status) HEAD(status, "", "0")
#define STATUS_404(name)                                                                           \
	"{\"kind\":\"Status\",\"reason\":\"NotFound\",\"details\":{\"name\":\"" name "\"}}"
#define NOT_FOUND HEAD("404 Not Found", "", "60") STATUS_404("f")

static struct fault_server server;
static struct login *login;
static struct store *store;
static char dir[64], token_path[128];

static void write_token(const char *token)
{
	FILE *f = fopen(token_path, "w");
	assert_non_null(f);
	assert_int_equal(fputs(token, f) < 0, 0);
	assert_int_equal(fclose(f), 0);
}

static void open_store_limited(const struct store_limits *limits)
{
	ERR_AUTO e = { 0 };
	char url[64];
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", server.port);
	(void)snprintf(dir, sizeof(dir), "/tmp/rest-lit-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	(void)snprintf(token_path, sizeof(token_path), "%s/token", dir);
	write_token("first-token\n");
	struct login_options o = { .apiserver = url, .token_file = token_path };
	login = login_new(&o, &e);
	assert_string_equal(err_msg(&e), "");
	store = store_api_new(login, "jobs", limits, &e);
	assert_string_equal(err_msg(&e), "");
}

static void open_store(void)
{
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	limits.body = 10000;
	open_store_limited(&limits);
}

static void close_store(void)
{
	store_free(store);
	login_free(login);
	store = NULL;
	assert_int_equal(unlink(token_path), 0);
	assert_int_equal(rmdir(dir), 0);
}

#define START(...)                                                                                 \
	static const struct step script_[] = { __VA_ARGS__ };                                      \
	server.port = 0;                                                                           \
	server_start(&server, script_, sizeof(script_) / sizeof(script_[0]));                      \
	open_store()

static void stop(void)
{
	close_store();
	server_stop(&server);
}

static struct store_request request(enum store_verb verb, int ms)
{
	return (struct store_request){
		.verb = verb,
		.kind = KIND_FRAMEWORK,
		.name = "f",
		.uid = verb == STORE_DELETE ? "u-1" : NULL,
		.body = { verb == STORE_CREATE || verb == STORE_PATCH ? SPAN("{\"a\":1}")
		                                                      : SPAN("") },
		.deadline_ms = store_now_ms() + ms,
	};
}

static struct kept act(enum store_verb verb, int ms)
{
	return ask(store, request(verb, ms));
}

static void sent(size_t i, const char *text)
{
	if (strstr(server.kept[i], text) == NULL)
		fail_msg("request %zu does not contain \"%s\":\n%s", i, text, server.kept[i]);
}

static void not_sent(size_t i, const char *text)
{
	assert_null(strstr(server.kept[i], text));
}

/* ---- what is sent ------------------------------------------------------------------ */

static void test_create_sends(void **state)
{
	(void)state;
	START({ ANSWER, CREATED });
	struct store_request r = request(STORE_CREATE, 5000);
	r.body[0] = SPAN("{\"uid\":\"");
	r.body[1] = SPAN("u-7");
	r.body[2] = SPAN("\"}");
	struct kept k = ask(store, r);
	assert_int_equal(k.outcome, STORE_OK);
	assert_int_equal(k.status, 201);
	assert_string_equal(k.uid, "u-1");
	assert_string_equal(k.version, "42");
	sent(0, "POST /apis/frameworkcontroller.microsoft.com/v1/namespaces/jobs/frameworks "
	        "HTTP/1.1\r\n");
	sent(0, "Authorization: Bearer first-token\r\n");
	sent(0, "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1\r\n");
	sent(0, "Content-Type: application/json\r\n");
	sent(0, "\r\n\r\n{\"uid\":\"u-7\"}");
	not_sent(0, "Expect:");
	not_sent(0, "Upgrade:");
	not_sent(0, "Accept-Encoding:");
	stop();
}

static void test_other_verbs_send(void **state)
{
	(void)state;
	START({ ANSWER, FINE });
	act(STORE_PATCH, 5000);
	act(STORE_DELETE, 5000);
	act(STORE_GET, 5000);
	struct store_request dry = request(STORE_CREATE, 5000);
	dry.dry_run = true;
	ask(store, dry);
	sent(0, "PATCH /apis/frameworkcontroller.microsoft.com/v1/namespaces/jobs/frameworks/f ");
	sent(0, "Content-Type: application/merge-patch+json\r\n");
	sent(1, "DELETE /apis/");
	sent(1, "\r\n\r\n{\"preconditions\":{\"uid\":\"u-1\"}}");
	sent(2, "GET /apis/");
	sent(2, "Accept: application/json\r\n");
	sent(3, "/frameworks?dryRun=All HTTP/1.1\r\n");
	assert_int_equal(server.most, 1); /* the connection is kept */
	stop();
}

static void test_bad_name_is_never_sent(void **state)
{
	(void)state;
	START({ ANSWER, FINE });
	struct store_request r = request(STORE_GET, 5000);
	r.name = "../../../api/v1/namespaces/kube-system/secrets/x";
	assert_int_equal(ask(store, r).outcome, STORE_REFUSED);
	assert_int_equal(server.requests, 0);
	stop();
}

/* ---- what an answer means ---------------------------------------------------------- */

static void outcome_is(enum store_verb verb, const char *answer, enum store_outcome expected)
{
	struct step script[] = { { ANSWER, answer } };
	server.port = 0;
	server_start(&server, script, 1);
	open_store();
	struct kept k = act(verb, 300);
	if (k.outcome != expected)
		fail_msg("verb %d, outcome %d instead of %d for:\n%s", verb, k.outcome, expected,
		         answer);
	stop();
}

static void test_outcomes(void **state)
{
	(void)state;
	/* clang-format off */
	static const struct {
		const char *answer;
		enum store_verb verb;
		enum store_outcome outcome;
	} T[] = {
		{ EMPTY("409 Conflict"), STORE_CREATE, STORE_EXISTS },
		{ EMPTY("409 Conflict"), STORE_PATCH, STORE_CONFLICT },
		{ EMPTY("409 Conflict"), STORE_DELETE, STORE_CONFLICT },
		{ NOT_FOUND, STORE_GET, STORE_NOT_FOUND },
		{ NOT_FOUND, STORE_PATCH, STORE_NOT_FOUND },
		{ NOT_FOUND, STORE_DELETE, STORE_NOT_FOUND },
		{ NOT_FOUND, STORE_CREATE, STORE_REFUSED },
		{ EMPTY("404 Not Found"), STORE_GET, STORE_REFUSED },
		{ HEAD("404 Not Found", "", "60") STATUS_404("g"), STORE_GET, STORE_REFUSED },
		{ EMPTY("400 Bad Request"), STORE_CREATE, STORE_REFUSED },
		{ EMPTY("401 Unauthorized"), STORE_CREATE, STORE_REFUSED },
		{ EMPTY("403 Forbidden"), STORE_CREATE, STORE_REFUSED },
		{ EMPTY("413 Too Large"), STORE_CREATE, STORE_REFUSED },
		{ EMPTY("422 Invalid"), STORE_CREATE, STORE_REFUSED },
		{ EMPTY("500 Error"), STORE_CREATE, STORE_AMBIGUOUS },
		{ EMPTY("502 Gateway"), STORE_CREATE, STORE_AMBIGUOUS },
		{ EMPTY("504 Timeout"), STORE_CREATE, STORE_AMBIGUOUS },
		{ EMPTY("500 Error"), STORE_PATCH, STORE_AMBIGUOUS },
		{ EMPTY("503 Busy"), STORE_CREATE, STORE_BUSY },
		{ EMPTY("429 Busy"), STORE_CREATE, STORE_BUSY },
		{ EMPTY("201 Created"), STORE_CREATE, STORE_AMBIGUOUS }, /* no object */
		{ HEAD("301 Moved", "Location: /elsewhere\r\n", "0"), STORE_CREATE, STORE_REFUSED },
		{ HEAD("404 Not Found", "", "77") STATUS_404("rest-lit-readiness"), STORE_READY,
		  STORE_OK },
		{ FINE, STORE_READY, STORE_OK },
		{ EMPTY("403 Forbidden"), STORE_READY, STORE_REFUSED },
		{ EMPTY("503 Busy"), STORE_READY, STORE_BUSY },
	};
	/* clang-format on */
	for (size_t i = 0; i < sizeof(T) / sizeof(T[0]); i++)
		outcome_is(T[i].verb, T[i].answer, T[i].outcome);
}

static void test_redirect_is_not_followed(void **state)
{
	(void)state;
	START({ ANSWER, HEAD("307 Moved", "Location: /elsewhere\r\n", "0") });
	assert_int_equal(act(STORE_GET, 2000).outcome, STORE_REFUSED);
	assert_int_equal(server.requests, 1);
	stop();
}

static void test_message_never_quotes_the_server(void **state)
{
	(void)state;
	START({ ANSWER, HEAD("422 Unprocessable", "",
	                     "159") "{\"kind\":\"Status\",\"reason\":\"Invalid\","
	                            "\"message\":\"hunter2\",\"details\":{\"causes\":["
	                            "{\"field\":\"spec.x[0]\",\"message\":\"hunter2\"},"
	                            "{\"field\":\"a: hunter2 b\"}]}}             " });
	struct kept k = act(STORE_CREATE, 2000);
	assert_non_null(strstr(k.message, "Invalid: spec.x[0]"));
	assert_null(strstr(k.message, "hunter2"));
	stop();
}

/* ---- answers that do not come ------------------------------------------------------ */

static void test_create_shut_is_ambiguous_and_not_repeated(void **state)
{
	(void)state;
	START({ SHUT, NULL });
	assert_int_equal(act(STORE_CREATE, 2000).outcome, STORE_AMBIGUOUS);
	assert_int_equal(server.requests, 1);
	stop();
}

/* libcurl repeats here by itself, if it is let. */
static void test_create_shut_on_a_kept_connection_is_not_repeated(void **state)
{
	(void)state;
	START({ ANSWER, FINE }, { SHUT, NULL }, { ANSWER, CREATED });
	assert_int_equal(act(STORE_GET, 2000).outcome, STORE_OK);
	assert_int_equal(act(STORE_CREATE, 2000).outcome, STORE_AMBIGUOUS);
	assert_int_equal(server.requests, 2);
	stop();
}

static void test_create_cut_is_ambiguous(void **state)
{
	(void)state;
	START({ CUT, HEAD("201 Created", "", "500") "{\"metadata\"" });
	assert_int_equal(act(STORE_CREATE, 2000).outcome, STORE_AMBIGUOUS);
	assert_int_equal(server.requests, 1);
	stop();
}

static void test_garbage_is_no_success(void **state)
{
	(void)state;
	START({ CUT, "what a nice day\r\n" });
	assert_int_equal(act(STORE_CREATE, 2000).outcome, STORE_AMBIGUOUS);
	assert_int_equal(act(STORE_GET, 300).outcome, STORE_BUSY);
	stop();
}

static void test_hang_ends_at_the_deadline(void **state)
{
	(void)state;
	START({ HANG, NULL });
	int64_t from = store_now_ms();
	assert_int_equal(act(STORE_CREATE, 200).outcome, STORE_AMBIGUOUS);
	assert_int_equal(act(STORE_GET, 200).outcome, STORE_BUSY);
	assert_in_range(store_now_ms() - from, 390, 3000);
	stop();
}

static void test_idempotent_requests_are_repeated(void **state)
{
	(void)state;
	START({ SHUT, NULL }, { ANSWER, FINE }, { SHUT, NULL }, { ANSWER, FINE }, { SHUT, NULL },
	      { ANSWER, EMPTY("500 Error") }, { ANSWER, FINE });
	assert_int_equal(act(STORE_GET, 3000).outcome, STORE_OK);
	assert_int_equal(act(STORE_PATCH, 3000).outcome, STORE_OK);
	assert_int_equal(act(STORE_DELETE, 3000).outcome, STORE_OK);
	assert_int_equal(server.requests, 7);
	stop();
}

static void test_delete_without_uid_is_not_repeated(void **state)
{
	(void)state;
	START({ SHUT, NULL });
	struct store_request r = request(STORE_DELETE, 2000);
	r.uid = NULL;
	assert_int_equal(ask(store, r).outcome, STORE_AMBIGUOUS);
	assert_int_equal(server.requests, 1);
	stop();
}

static void test_lost_patch_stays_ambiguous(void **state)
{
	(void)state;
	START({ SHUT, NULL }, { ANSWER, EMPTY("503 Busy") });
	assert_int_equal(act(STORE_PATCH, 400).outcome, STORE_AMBIGUOUS);
	stop();
}

static void test_endless_answer_is_cut(void **state)
{
	(void)state;
	START({ ENDLESS, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" });
	struct kept k = act(STORE_GET, 5000);
	assert_int_equal(k.outcome, STORE_REFUSED);
	assert_non_null(strstr(k.message, "larger than 10000 bytes"));
	stop();
}

static void test_large_announced_answer_is_cut(void **state)
{
	(void)state;
	START({ CUT, HEAD("200 OK", "", "99999999") "{" });
	assert_int_equal(act(STORE_GET, 5000).outcome, STORE_REFUSED);
	stop();
}

/* ---- trying again ------------------------------------------------------------------ */

static void test_busy_is_tried_again(void **state)
{
	(void)state;
	START({ ANSWER, EMPTY("503 Busy") }, { ANSWER, EMPTY("429 Busy") }, { ANSWER, CREATED });
	assert_int_equal(act(STORE_CREATE, 5000).outcome, STORE_OK);
	assert_int_equal(server.requests, 3);
	stop();
}

static void test_retry_after_is_respected(void **state)
{
	(void)state;
	START({ ANSWER, HEAD("429 Busy", "Retry-After: 1\r\n", "0") }, { ANSWER, CREATED });
	int64_t from = store_now_ms();
	assert_int_equal(act(STORE_CREATE, 5000).outcome, STORE_OK);
	assert_in_range(store_now_ms() - from, 1000, 3000);
	stop();
}

static void test_retry_after_beyond_the_deadline_ends_it(void **state)
{
	(void)state;
	START({ ANSWER, HEAD("429 Busy", "Retry-After: 60\r\n", "0") });
	int64_t from = store_now_ms();
	struct kept k = act(STORE_CREATE, 5000);
	assert_int_equal(k.outcome, STORE_BUSY);
	assert_int_equal(k.retry_after_s, 60);
	assert_in_range(store_now_ms() - from, 0, 1000);
	stop();
}

static void test_403_of_a_server_that_starts_is_tried_again(void **state)
{
	(void)state;
	START({ ANSWER, EMPTY("403 Forbidden") }, { ANSWER, EMPTY("404 Not Found") },
	      { ANSWER, CREATED });
	assert_int_equal(act(STORE_CREATE, 5000).outcome, STORE_OK);
	stop();
}

static void test_406_asks_for_whole_objects(void **state)
{
	(void)state;
	START({ ANSWER, EMPTY("406 Not Acceptable") }, { ANSWER, CREATED });
	assert_int_equal(act(STORE_CREATE, 5000).outcome, STORE_OK);
	sent(1, "Accept: application/json\r\n");
	assert_int_equal(act(STORE_CREATE, 5000).outcome, STORE_OK);
	sent(2, "Accept: application/json\r\n");
	stop();
}

static void test_nobody_listens(void **state)
{
	(void)state;
	START({ ANSWER, FINE });
	server_stop(&server);
	int64_t from = store_now_ms();
	struct kept k = act(STORE_CREATE, 500);
	assert_int_equal(k.outcome, STORE_BUSY);
	assert_non_null(strstr(k.message, "onnect"));
	assert_in_range(store_now_ms() - from, 100, 1500);
	close_store();
}

static void test_server_that_comes_late(void **state)
{
	(void)state;
	static const struct step FINE_STEP[] = { { ANSWER, CREATED } };
	START({ ANSWER, FINE });
	server_stop(&server);
	struct kept *k = calloc(1, sizeof(*k));
	struct store_request r = request(STORE_CREATE, 5000);
	r.done = keep;
	r.arg = k;
	store_request(store, &r);
	for (int64_t until = store_now_ms() + 300; store_now_ms() < until;)
		turn(store, 20);
	assert_int_equal(k->calls, 0);
	server_start(&server, FINE_STEP, 1);
	settle(store);
	assert_int_equal(k->outcome, STORE_OK);
	free(k);
	stop();
}

static void test_dropped_connection_is_tried_again(void **state)
{
	(void)state;
	START({ DROP, NULL }, { ANSWER, FINE });
	assert_int_equal(act(STORE_GET, 3000).outcome, STORE_OK);
	stop();
}

/* ---- the token, the environment, the bounds ---------------------------------------- */

static void test_token_rotates(void **state)
{
	(void)state;
	START({ ANSWER, FINE });
	act(STORE_GET, 2000);
	write_token("second-token");
	login_refresh(login);
	act(STORE_GET, 2000);
	write_token("bad\r\nImpersonate-User: admin");
	login_refresh(login);
	act(STORE_GET, 2000);
	sent(0, "Bearer first-token\r\n");
	sent(1, "Bearer second-token\r\n");
	sent(2, "Bearer second-token\r\n");
	not_sent(2, "Impersonate");
	stop();
}

static void test_proxy_of_the_environment_is_ignored(void **state)
{
	(void)state;
	START({ ANSWER, FINE });
	set_env("http_proxy", "http://127.0.0.1:1");
	set_env("ALL_PROXY", "http://127.0.0.1:1");
	assert_int_equal(act(STORE_GET, 2000).outcome, STORE_OK);
	set_env("http_proxy", NULL);
	set_env("ALL_PROXY", NULL);
	stop();
}

static void test_in_flight_is_bounded(void **state)
{
	(void)state;
	static const struct step HANGING[] = { { HANG, NULL } };
	struct store_limits limits = { 3, 10, 10000 };
	server.port = 0;
	server_start(&server, HANGING, 1);
	open_store_limited(&limits);
	struct kept *k = calloc(8, sizeof(*k));
	for (size_t i = 0; i < 8; i++) {
		/* Those that wait give up long before those under way do. */
		struct store_request r = request(STORE_GET, i < 3 ? 3000 : 200);
		r.done = keep;
		r.arg = &k[i];
		store_request(store, &r);
	}
	settle(store);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(k[i].calls, 1);
	assert_int_equal(server.requests, 3);
	free(k);
	stop();
}

static void test_free_answers_what_is_under_way(void **state)
{
	(void)state;
	START({ HANG, NULL });
	struct kept *k = calloc(2, sizeof(*k));
	struct store_request r = request(STORE_CREATE, 5000);
	r.done = keep;
	r.arg = &k[0];
	store_request(store, &r);
	while (server.requests == 0)
		turn(store, 20);
	r.arg = &k[1];
	store_request(store, &r);
	stop();
	assert_int_equal(k[0].outcome, STORE_AMBIGUOUS);
	assert_int_equal(k[1].outcome, STORE_BUSY);
	free(k);
}

static void test_no_descriptor_is_left(void **state)
{
	(void)state;
	size_t before = open_files();
	for (int i = 0; i < 3; i++) {
		START({ SHUT, NULL }, { ANSWER, FINE });
		act(STORE_GET, 2000);
		stop();
	}
	assert_int_equal(open_files(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_sends),
		cmocka_unit_test(test_other_verbs_send),
		cmocka_unit_test(test_bad_name_is_never_sent),
		cmocka_unit_test(test_outcomes),
		cmocka_unit_test(test_redirect_is_not_followed),
		cmocka_unit_test(test_message_never_quotes_the_server),
		cmocka_unit_test(test_create_shut_is_ambiguous_and_not_repeated),
		cmocka_unit_test(test_create_shut_on_a_kept_connection_is_not_repeated),
		cmocka_unit_test(test_create_cut_is_ambiguous),
		cmocka_unit_test(test_garbage_is_no_success),
		cmocka_unit_test(test_hang_ends_at_the_deadline),
		cmocka_unit_test(test_idempotent_requests_are_repeated),
		cmocka_unit_test(test_delete_without_uid_is_not_repeated),
		cmocka_unit_test(test_lost_patch_stays_ambiguous),
		cmocka_unit_test(test_endless_answer_is_cut),
		cmocka_unit_test(test_large_announced_answer_is_cut),
		cmocka_unit_test(test_busy_is_tried_again),
		cmocka_unit_test(test_retry_after_is_respected),
		cmocka_unit_test(test_retry_after_beyond_the_deadline_ends_it),
		cmocka_unit_test(test_403_of_a_server_that_starts_is_tried_again),
		cmocka_unit_test(test_406_asks_for_whole_objects),
		cmocka_unit_test(test_nobody_listens),
		cmocka_unit_test(test_server_that_comes_late),
		cmocka_unit_test(test_dropped_connection_is_tried_again),
		cmocka_unit_test(test_token_rotates),
		cmocka_unit_test(test_proxy_of_the_environment_is_ignored),
		cmocka_unit_test(test_in_flight_is_bounded),
		cmocka_unit_test(test_free_answers_what_is_under_way),
		cmocka_unit_test(test_no_descriptor_is_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
