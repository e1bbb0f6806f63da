/* A resolver that hangs must not hang the loop.  This program has its own getaddrinfo, which
 * libcurl then calls. */
#include "tests/unit/k8s/kit.h"

#include <netdb.h>
#include <stdatomic.h>
#include <unistd.h>

enum { HANGS_S = 3, DEADLINE_MS = 300, SOON_MS = 1500 };

static atomic_int calls;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
	(void)name;
	(void)service;
	(void)hints;
	*found = NULL;
	atomic_fetch_add(&calls, 1);
	(void)sleep(HANGS_S);
	return EAI_AGAIN;
}

static void test_a_resolver_that_hangs_is_not_waited_for(void **state)
{
	(void)state;
	ERR_AUTO e = { 0 };
	struct login_options o = { .apiserver = "https://hangs.invalid" };
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	struct login *login = login_new(&o, &e);
	assert_string_equal(err_msg(&e), "");
	struct store *store = store_api_new(login, "jobs", &limits, &e);
	assert_string_equal(err_msg(&e), "");
	int64_t start = store_now_ms();
	struct kept k = ask(store, (struct store_request){ .verb = STORE_GET,
	                                                   .kind = KIND_FRAMEWORK,
	                                                   .name = "f",
	                                                   .deadline_ms = start + DEADLINE_MS });
	assert_int_equal(k.outcome, STORE_BUSY);
	store_free(store);
	assert_in_range(store_now_ms() - start, 0, SOON_MS);
	assert_int_equal(atomic_load(&calls), 1);
	login_free(login);
	(void)sleep(HANGS_S); /* its thread frees what it holds */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_resolver_that_hangs_is_not_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
