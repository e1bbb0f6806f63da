/* The command controller: what of a configuration is ignored, and its metrics. */
#include "tests/unit/base/cmocka.h"

#include "base/posix/clock.h"
#include "k8s/controller/controller.h"
#include "server/controller/controller_metrics.h"
#include "server/controller/controller_run.h"

static void ignored_are(const char *yaml, const char *expected)
{
	STR_AUTO out = STR_INIT(1024);
	controller_ignored_keys(&out, span_of(yaml));
	assert_string_equal(str_c(&out), expected);
}

TEST(test_ignored_members_of_the_configuration_are_named)
{
	ignored_are("", "");
	ignored_are("# nothing\n", "");
	ignored_are("podFailureSpec: []\nframeworkCompletedRetainSec: 5\n", "");
	ignored_are("kubeApiServerAddress: http://x\nworkerNumber: 5\n"
	            "largeFrameworkCompression: true\n",
	            "kubeApiServerAddress, workerNumber");
}

TEST(test_metrics_of_the_controller_have_its_counts)
{
	FREE_AUTO struct controller_counts *c = calloc(1, sizeof(*c));
	STR_AUTO text = STR_INIT(1 << 20);
	assert_non_null(c);
	metrics_write(&text, CONTROLLER_METRICS, N_CONTROLLER_METRICS, c);
	assert_non_null(strstr(str_c(&text), "\nrest_lit_controller_leader 0\n"));
	assert_null(strstr(str_c(&text), "\nrest_lit_controller_watch_age_seconds{"));
	counter_set(&c->phase, CONTROLLER_LISTING);
	counter_set(&c->rules.frameworks[8], 3);
	counter_set(&c->rules.frameworks[9], 4);
	counter_set(&c->watches[2].seen_ms, (uint64_t)clock_ms());
	counter_set(&c->store.calls[STORE_PATCH][STORE_CALL_AGAIN], 5);
	text.n = 0;
	metrics_write(&text, CONTROLLER_METRICS, N_CONTROLLER_METRICS, c);
	static const char *const LINES[] = {
		"\nrest_lit_controller_leader 1\n",
		"\nrest_lit_controller_frameworks{state=\"Completed\"} 3\n",
		"\nrest_lit_controller_frameworks{state=\"none\"} 4\n",
		"\nrest_lit_controller_watch_age_seconds{collection=\"pods\"} 0.0",
		"\nrest_lit_controller_requests_total{verb=\"patch\",outcome=\"again\"} 5\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(LINES); i++)
		if (!strstr(str_c(&text), LINES[i]))
			fail_msg("no line %s in\n%s", LINES[i], str_c(&text));
}
