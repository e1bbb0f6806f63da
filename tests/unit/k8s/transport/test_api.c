/* The store of an API server, with a server that misbehaves. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/k8s/api_kit.h"

/* ---- requests ----------------------------------------------------------------------------- */

TEST(test_create_sends_the_whole_body_with_the_token)
{
	START({ ANSWER, CREATED });
	struct store_request r = request(STORE_CREATE, AMPLE_MS);
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
}

TEST(test_other_verbs_send_the_expected_requests)
{
	START({ ANSWER, FINE });
	act(STORE_PATCH, AMPLE_MS);
	act(STORE_DELETE, AMPLE_MS);
	act(STORE_GET, AMPLE_MS);
	struct store_request dry = request(STORE_CREATE, AMPLE_MS);
	dry.dry_run = true;
	dry.query = "fieldManager=me";
	ask(store, dry);
	dry = request(STORE_DELETE, AMPLE_MS);
	dry.dry_run = true;
	ask(store, dry);
	sent(0, "PATCH /apis/frameworkcontroller.microsoft.com/v1/namespaces/jobs/frameworks/f ");
	sent(0, "Content-Type: application/merge-patch+json\r\n");
	sent(1, "DELETE /apis/");
	sent(1, "\r\n\r\n{\"preconditions\":{\"uid\":\"u-1\"}}");
	sent(2, "GET /apis/");
	sent(2, "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1\r\n");
	sent(3, "/frameworks?dryRun=All&fieldManager=me HTTP/1.1\r\n");
	sent(4, "/frameworks/f?dryRun=All HTTP/1.1\r\n");
	sent(4, "\r\n\r\n{\"preconditions\":{\"uid\":\"u-1\"},\"dryRun\":[\"All\"]}");
	assert_int_equal(server.most, 1); /* the connection is kept */
}

/* A uid of a status that people have edited may be anything. */
TEST(test_delete_sends_its_options_and_any_uid)
{
	enum { LONG = 2000 };
	char uid[LONG + 1];
	START({ ANSWER, FINE });
	struct store_request r = request(STORE_DELETE, AMPLE_MS);
	r.force = true;
	ask(store, r);
	r.foreground = r.dry_run = true;
	ask(store, r);
	memset(uid, '\1', LONG);
	uid[LONG] = '\0';
	r = request(STORE_GET, AMPLE_MS);
	r.verb = STORE_DELETE;
	r.foreground = true;
	ask(store, r);
	r.uid = uid;
	ask_tries(r, 1); /* that server has no room for the request */
	sent(0, "\r\n\r\n{\"preconditions\":{\"uid\":\"u-1\"},\"gracePeriodSeconds\":0}");
	sent(1, "\"uid\":\"u-1\"},\"dryRun\":[\"All\"],\"gracePeriodSeconds\":0,"
	        "\"propagationPolicy\":\"Foreground\"}");
	sent(2, "\r\n\r\n{\"preconditions\":{},\"propagationPolicy\":\"Foreground\"}");
}

TEST(test_list_sends_the_query_and_the_accept_header)
{
	START({ ANSWER, FINE });
	struct store_request r = request(STORE_LIST, AMPLE_MS);
	r.name = NULL;
	r.query = "labelSelector=rest-lit%2Fcreating&limit=500";
	assert_string_equal(ask(store, r).version, "42");
	r.whole = true;
	ask(store, r);
	sent(0, "GET /apis/frameworkcontroller.microsoft.com/v1/namespaces/jobs/frameworks"
	        "?labelSelector=rest-lit%2Fcreating&limit=500 HTTP/1.1\r\n");
	sent(0, "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1\r\n");
	sent(1, "Accept: application/json\r\n");
}

TEST(test_whole_objects_are_read_of_another_namespace)
{
	START({ ANSWER, FINE });
	struct store_request r = request(STORE_GET, AMPLE_MS);
	r.kind = KIND_SECRET;
	r.namespace_name = "pai-user-v2";
	r.whole = true;
	assert_int_equal(ask(store, r).outcome, STORE_OK);
	sent(0, "GET /api/v1/namespaces/pai-user-v2/secrets/f HTTP/1.1\r\n");
	sent(0, "Accept: application/json\r\n");
}

TEST(test_token_review_has_no_name_and_no_namespace)
{
	START({ ANSWER, CREATED });
	struct store_request r = request(STORE_CREATE, AMPLE_MS);
	r.kind = KIND_TOKENREVIEW;
	r.name = NULL;
	r.whole = true;
	assert_int_equal(ask(store, r).outcome, STORE_OK);
	sent(0, "POST /apis/authentication.k8s.io/v1/tokenreviews HTTP/1.1\r\n");
	sent(0, "Accept: application/json\r\n");
}

TEST(test_date_of_the_answer_is_read)
{
	START({ ANSWER, HEAD("200 OK", "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "49") OBJECT },
	      { ANSWER, FINE }, { ANSWER, HEAD("200 OK", "Date: yesterday\r\n", "49") OBJECT },
	      { ANSWER, HEAD("200 OK",
	                     "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
	                     "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
	                     "49") OBJECT });
	assert_int_equal(act(STORE_GET, AMPLE_MS).date_s, 784111777);
	for (int i = 0; i < 3; i++)
		assert_int_equal(act(STORE_GET, AMPLE_MS).date_s, 0);
}

static void never_sent(struct store_request r)
{
	struct kept k = ask(store, r);
	assert_int_equal(k.outcome, STORE_REFUSED);
	assert_int_equal(server.requests, 0);
}

TEST(test_bad_names_are_never_sent)
{
	START({ ANSWER, FINE });
	struct store_request r = request(STORE_GET, AMPLE_MS);
	r.name = "../../../api/v1/namespaces/kube-system/secrets/x";
	never_sent(r);
	r.name = NULL;
	never_sent(r);
	r.name = "f";
	r.namespace_name = "kube-system/secrets/x?";
	never_sent(r);
	r = request(STORE_LIST, AMPLE_MS);
	r.query = "limit=1 HTTP/1.1\r\nX-Remote-User: admin";
	never_sent(r);
	r.query = "limit=1#";
	never_sent(r);
}

/* ---- what an answer means ---------------------------------------------------------- */

static void outcome_is(enum store_verb verb, const char *answer, enum store_outcome expected)
{
	struct step script[] = { { ANSWER, answer } };
	server.port = 0;
	server_start(&server, script, 1);
	open_store();
	bool till_the_end =
	    verb != STORE_READY &&
	    (expected == STORE_BUSY || (expected == STORE_AMBIGUOUS && verb == STORE_PATCH));
	struct store_request r = request(verb, AMPLE_MS);
	r.look = expected == STORE_REFUSED; /* else some are repeated for a while */
	struct kept k = till_the_end ? ask_tries(r, 1) : ask(store, r);
	if (k.outcome != expected)
		fail_msg("verb %d, outcome %d instead of %d for:\n%s", verb, k.outcome, expected,
		         answer);
	stop();
}

TEST(test_outcomes_follow_status_and_verb)
{
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
		{ NOT_FOUND, STORE_LIST, STORE_REFUSED },
		{ EMPTY("410 Gone"), STORE_LIST, STORE_REFUSED },
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
		{ HEAD("200 OK", "", "17") "{\"kind\":\"Status\"}", STORE_CREATE, STORE_AMBIGUOUS },
		{ HEAD("200 OK", "", "17") "{\"kind\":\"Status\"}", STORE_PATCH, STORE_AMBIGUOUS },
		{ HEAD("200 OK", "", "17") "{\"kind\":\"Status\"}", STORE_DELETE, STORE_OK },
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

TEST(test_redirect_is_not_followed)
{
	START({ ANSWER, HEAD("307 Moved", "Location: /elsewhere\r\n", "0") });
	assert_int_equal(act(STORE_GET, AMPLE_MS).outcome, STORE_REFUSED);
	assert_int_equal(server.requests, 1);
}

TEST(test_refusal_names_verb_resource_and_namespace)
{
	START({ ANSWER, EMPTY("400 Bad Request") });
	struct store_request r = request(STORE_LIST, AMPLE_MS);
	assert_string_equal(ask(store, r).message,
	                    "list frameworks.frameworkcontroller.microsoft.com: HTTP status 400");
	r = request(STORE_GET, AMPLE_MS);
	r.kind = KIND_SECRET;
	r.namespace_name = "pai-user-v2";
	assert_string_equal(ask(store, r).message,
	                    "get secrets in namespace pai-user-v2: HTTP status 400");
}

TEST(test_message_never_quotes_the_server)
{
	START({ ANSWER, HEAD("422 Unprocessable", "",
	                     "159") "{\"kind\":\"Status\",\"reason\":\"Invalid\","
	                            "\"message\":\"hunter2\",\"details\":{\"causes\":["
	                            "{\"field\":\"spec.x[0]\",\"message\":\"hunter2\"},"
	                            "{\"field\":\"a: hunter2 b\"}]}}             " });
	struct kept k = act(STORE_CREATE, AMPLE_MS);
	assert_non_null(strstr(k.message, "Invalid: spec.x[0]"));
	assert_null(strstr(k.message, "hunter2"));
}

/* ---- the token, the environment, the bounds ---------------------------------------- */

TEST(test_token_is_read_again_when_its_file_changes)
{
	START({ ANSWER, FINE });
	act(STORE_GET, AMPLE_MS);
	unit_file("token", SPAN("second-token"));
	login_refresh(login);
	act(STORE_GET, AMPLE_MS);
	unit_file("token", SPAN("bad\r\nImpersonate-User: admin"));
	login_refresh(login);
	act(STORE_GET, AMPLE_MS);
	sent(0, "Bearer first-token\r\n");
	sent(1, "Bearer second-token\r\n");
	sent(2, "Bearer second-token\r\n");
	not_sent(2, "Impersonate");
}

TEST(test_proxy_of_the_environment_is_ignored)
{
	START({ ANSWER, FINE });
	set_env("http_proxy", "http://127.0.0.1:1");
	set_env("ALL_PROXY", "http://127.0.0.1:1");
	assert_int_equal(act(STORE_GET, AMPLE_MS).outcome, STORE_OK);
	set_env("http_proxy", NULL);
	set_env("ALL_PROXY", NULL);
}

TEST(test_netrc_of_the_home_is_ignored)
{
	static const struct step FINE_STEP[] = { { ANSWER, FINE } };
	char url[64];
	const char *before = get_env("HOME");
	(void)unit_file(".netrc", SPAN("machine 127.0.0.1 login admin password hunter2\n"));
	set_env("HOME", unit_path(""));
	server.port = 0;
	server_start(&server, FINE_STEP, 1);
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", server.port);
	struct login_options o = { .apiserver = url };
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	login = login_new(&o, no_err());
	store = store_api_new(login, "jobs", &limits, no_err());
	assert_int_equal(act(STORE_GET, AMPLE_MS).outcome, STORE_OK);
	not_sent(0, "Authorization");
	store_free(store);
	login_free(login);
	server_stop(&server);
	set_env("HOME", before);
}

TEST(test_cookies_are_not_kept)
{
	START({ ANSWER, HEAD("200 OK", "Set-Cookie: a=b; Path=/\r\n", "49") OBJECT });
	act(STORE_GET, AMPLE_MS);
	act(STORE_GET, AMPLE_MS);
	not_sent(1, "Cookie");
}

/* A compressed answer is taken as it is, so that a small one cannot become large. */
TEST(test_answers_are_not_decompressed)
{
	START({ ANSWER, HEAD("200 OK", "Content-Encoding: gzip\r\n", "49") OBJECT });
	assert_string_equal(act(STORE_GET, AMPLE_MS).uid, "u-1");
}

TEST(test_lists_may_be_larger_than_other_answers)
{
	static char text[40000];
	int head =
	    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n{}");
	memset(text + head, ' ', 30000 - 2);
	START({ ANSWER, text });
	assert_int_equal(act(STORE_LIST, AMPLE_MS).outcome, STORE_OK);
	assert_int_equal(act(STORE_GET, AMPLE_MS).outcome, STORE_REFUSED);
}

TEST(test_requests_in_flight_are_bounded)
{
	static const struct step HANGING[] = { { HANG, NULL } };
	struct store_limits limits = { 3, 10, 10000, 100 };
	server.port = 0;
	server_start(&server, HANGING, 1);
	open_store_limited(&limits);
	/* Those that wait give up; those under way do not. */
	const struct kept *begun = send_off(store, request(STORE_GET, AMPLE_MS), 3);
	const struct kept *waiting = send_off(store, request(STORE_GET, 200), 5);
	while (server.requests < 3 || store_pending(store) > 3)
		store_run_once(store, 20);
	stop();
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(i < 3 ? begun[i].calls : waiting[i - 3].calls, 1);
	assert_int_equal(server.requests, 3);
}

TEST(test_store_free_answers_requests_in_flight)
{
	START({ HANG, NULL });
	const struct kept *first = send_off(store, request(STORE_CREATE, AMPLE_MS), 1);
	while (server.requests == 0)
		store_run_once(store, 20);
	const struct kept *second = send_off(store, request(STORE_CREATE, AMPLE_MS), 1);
	stop();
	assert_int_equal(first->outcome, STORE_AMBIGUOUS);
	assert_int_equal(second->outcome, STORE_BUSY);
}

TEST(test_store_free_closes_all_descriptors)
{
	size_t before = open_files();
	for (int i = 0; i < 3; i++) {
		START({ SHUT, NULL }, { ANSWER, FINE });
		act(STORE_GET, AMPLE_MS);
		stop();
	}
	assert_int_equal(open_files(), before);
}
