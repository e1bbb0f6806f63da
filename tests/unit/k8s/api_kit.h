#pragma once
/* Shared by the tests of the store of an API server: that server, a login and a store. */
#include "base/posix/clock.h"
#include "jobs/store/store_internal.h"
#include "tests/unit/jobs/kit.h"

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

__attribute__((unused)) static struct fault_server server;
__attribute__((unused)) static struct login *login;
__attribute__((unused)) static struct store *store;

static inline void open_store_limited(const struct store_limits *limits)
{
	ERR_AUTO e = { 0 };
	char url[64];
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", server.port);
	struct login_options o = { .apiserver = url,
		                   .token_file = unit_file("token", SPAN("first-token\n")) };
	login = login_new(&o, &e);
	assert_string_equal(err_msg(&e), "");
	store = store_api_new(login, "jobs", limits, &e);
	assert_string_equal(err_msg(&e), "");
}

static inline void open_store(void)
{
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	limits.body = 10000;
	open_store_limited(&limits);
}

static inline void close_store(void)
{
	store_free(store);
	login_free(login);
	store = NULL;
}

/* Begins server and store; they end with the test, unless that has ended them. */
#define START(...)                                                                                 \
	static const struct step script_[] = { __VA_ARGS__ };                                      \
	__attribute__((cleanup(stop_cleanup), unused)) int stop_;                                  \
	server.port = 0;                                                                           \
	server_start(&server, script_, sizeof(script_) / sizeof(script_[0]));                      \
	open_store()

static inline void stop(void)
{
	close_store();
	server_stop(&server);
}

static inline void stop_cleanup(const int *unused)
{
	(void)unused;
	if (store != NULL)
		stop();
}

static inline struct store_request request(enum store_verb verb, int ms)
{
	return (struct store_request){
		.verb = verb,
		.kind = KIND_FRAMEWORK,
		.name = "f",
		.uid = verb == STORE_DELETE ? "u-1" : NULL,
		.body = { verb == STORE_CREATE || verb == STORE_PATCH ? SPAN("{\"a\":1}")
		                                                      : SPAN("") },
		.deadline_ms = clock_ms() + ms,
	};
}

static inline struct kept act(enum store_verb verb, int ms)
{
	return ask(store, request(verb, ms));
}

/* Runs the store until its request has failed so often and waits for its next try. */
static inline struct pending *run_tries(unsigned tries)
{
	int64_t stop_ms = clock_ms() + AMPLE_MS;
	while (store->later.head == NULL || store->later.head->tries < tries) {
		assert_true(clock_ms() < stop_ms);
		assert_true(store_pending(store) > 0);
		store_run_once(store, 20);
	}
	return store->later.head;
}

/* The same; then its deadline has passed. */
static inline struct kept ask_tries(struct store_request r, unsigned tries)
{
	const struct kept *k = send_off(store, r, 1);
	run_tries(tries)->r.deadline_ms = 0;
	store->wake_ms = 0;
	settle(store);
	assert_int_equal(k->calls, 1);
	return *k;
}

static inline struct kept act_tries(enum store_verb verb, unsigned tries)
{
	return ask_tries(request(verb, AMPLE_MS), tries);
}

static inline void sent(size_t i, const char *text)
{
	if (strstr(server.kept[i], text) == NULL)
		fail_msg("request %zu does not contain \"%s\":\n%s", i, text, server.kept[i]);
}

static inline void not_sent(size_t i, const char *text)
{
	assert_null(strstr(server.kept[i], text));
}
