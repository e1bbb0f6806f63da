/* Parts of a job in full: ports, and diagnostics.  The whole is compared in tests/http/details.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/jobs/jobs_internal.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define HASHED                                                                                     \
	"\"{\\\"schedulePortStart\\\":15000,\\\"schedulePortEnd\\\":40000,\\\"ports\\\":"          \
	"{\\\"ssh\\\":{\\\"count\\\":1},\\\"http\\\":{\\\"count\\\":1}}}\""

/* Those of the first row were computed by OpenPAI itself. */
static void test_ports(void **state)
{
	(void)state;
	static const struct {
		const char *annotation, *pod;
		int64_t index;
		const char *want, *given; /* given: of a task of this machine; NULL: elsewhere */
	} CASES[] = {
		{ HASHED, "5d1c4fb3-01af-4b6a-93a8-133ec484aa99", 0,
		  "{\"ssh\":\"25542\",\"http\":\"23230\"}", NULL },
		{ HASHED, "", 0, "{}", NULL },
		{ HASHED, "x", 0, "{\"ssh\":\"70\",\"http\":\"71\"}", "\"70,71\"" },
		{ HASHED, "x", 0, "{\"ssh\":\"70\",\"http\":\"\"}", "\"70\"" },
		{ HASHED, "x", 0, "{}", "null" }, /* it waits */
		{ HASHED, "x", -1, "{}", NULL },
		{ "\"{\\\"a\\\":{\\\"start\\\":100,\\\"count\\\":2}}\"", "x", 3,
		  "{\"a\":\"106,107\"}", NULL },
		{ "\"{\\\"a\\\":{\\\"start\\\":65534,\\\"count\\\":3}}\"", "x", 0,
		  "{\"a\":\"65534,65535\"}", NULL },
		{ "\"{\\\"a\\\":{\\\"count\\\":2}}\"", "x", 3, "{}", NULL },
		{ "\"{\\\"a\\\":7,\\\"b\\\":{\\\"start\\\":1,\\\"count\\\":1},\\\"b\\\":{"
		  "\\\"start\\\":2,"
		  "\\\"count\\\":1}}\"",
		  "x", 0, "{\"b\":\"1\"}", NULL },
		{ "\"{\"", "x", 0, "{}", NULL },
		{ "7", "x", 0, "{}", NULL },
	};
	for (size_t i = 0; i < COUNT(CASES); i++) {
		ARENA_AUTO a = { 0 };
		STR_AUTO out = STR_INIT(1000);
		const struct job_shown here = { .here = CASES[i].given != NULL };
		struct shower w = shower_of(&out, &here, &a);
		struct ports p = ports_read(span_of(CASES[i].annotation), &a);
		struct task t = { .index = CASES[i].index };
		t.at[TRY_PORTS] = span_of(CASES[i].given ?: "null");
		show_ports(&w, &p, &t, span_of(CASES[i].pod));
		assert_string_equal(str_c(&out), CASES[i].want);
	}
}

#define REPORT "[PAI_RUNTIME_ERROR_START]\\\\nexitCode: 1\\\\nname: x\\\\n[PAI_RUNTIME_ERROR_END]"

static void test_diagnostics(void **state)
{
	(void)state;
	static const struct {
		const char *text, *summary, *runtime; /* NULL: none */
	} CASES[] = {
		{ "null", NULL, NULL },
		{ "7", NULL, NULL },
		{ "\"\"", NULL, NULL },
		{ "\"stopped\"", "stopped", NULL },
		{ "\"matched: {\"", "matched: {", NULL },
		{ "\"P matched: {\\\"a\\\":1}\\nmore\"", "P matched:\na: 1\n", NULL },
		{ "\"P unmatched: {\\\"containers\\\":[{\\\"name\\\":\\\"app\\\",\\\"code\\\":0,"
		  "\\\"message\\\":\\\"" REPORT "\\\"}]}\"",
		  "P unmatched:\n", NULL },
		{ "\"P unmatched: {\\\"containers\\\":[{\\\"name\\\":\\\"init\\\",\\\"code\\\":0},"
		  "{\\\"name\\\":\\\"app\\\",\\\"code\\\":1,\\\"message\\\":\\\"" REPORT
		  "\\\"}]}\"",
		  "P unmatched:\ncontainers:\n", "{\"exitCode\":1,\"name\":\"app\"}" },
	};
	for (size_t i = 0; i < COUNT(CASES); i++) {
		ARENA_AUTO a = { 0 };
		struct said said = said_read(span_of(CASES[i].text), true, &a);
		assert_int_equal(said.summary.p != NULL, CASES[i].summary != NULL);
		if (CASES[i].summary)
			assert_true(span_starts(said.summary, CASES[i].summary));
		assert_int_equal(said.runtime.p != NULL, CASES[i].runtime != NULL);
		if (CASES[i].runtime)
			assert_true(span_is(said.runtime, CASES[i].runtime));
	}
}

/* Only so much is made readable; what is the same is written again. */
static void test_diagnostics_bounds(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	STR_AUTO out = STR_INIT(1000);
	struct shower w = shower_of(&out, NULL, &a);
	const struct span text = SPAN("\"P matched: {\\\"a\\\":1}\"");
	const struct span other = SPAN("\"P matched: {\\\"b\\\":1}\"");
	w.readable = text.n;
	show_diagnostics(&w, "", text);
	show_diagnostics(&w, "", text);
	show_diagnostics(&w, "", other);
	assert_string_equal(str_c(&out), "\"P matched:\\na: 1\\n\"\"P matched:\\na: 1\\n\""
	                                 "\"P matched: {\\\"b\\\":1}\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_diagnostics),
		cmocka_unit_test(test_diagnostics_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
