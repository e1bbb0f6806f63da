/* What people are told about common mistakes of the second generation, and where. */
#include "tests/unit/translate/reading_kit.h"

static void test_logins_are_trimmed(void **state)
{
	(void)state;
	struct run r = run_good(
	    HEAD "prerequisites: [{name: i, type: dockerimage, uri: u, auth: {username: ' bob ', "
		 "password: '<% $secrets.p %>', registryuri: '<% $secrets.r %>'}}]\n" ROLE COMMANDS(
		     "x") "secrets: {p: \"hunter2\\n\", r: \"reg.io\\r\\n\"}\n");
	assert_span(r.job->logins[0].username, "bob");
	assert_span(r.job->logins[0].password, "hunter2");
	assert_span(r.job->logins[0].registry, "reg.io");
	run_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_logins_are_trimmed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
