/* Jobs that are compared: the last value of a metric in a log, the line of counts. */

#include "tests/unit/base/cmocka.h"

#include <stdlib.h>
#include <time.h>

#include "base/embed.h"
#include "server/runs/runs.h"

enum { FORMS_MAX = 10000, FORMS_LEAST = 19 + 40 };

EMBED(metrics, "tests/data/logs/metrics.tsv");

/* Replaces \n \r \t \e \b \\, in place. */
static struct span unescape(char *text)
{
	static const char FROM[] = "nrteb\\";
	static const char TO[] = "\n\r\t\x1b\b\\";
	char *out = text;
	for (const char *p = text; *p; p++) {
		char c = *p;
		if (c == '\\')
			c = TO[strchr(FROM, *++p) - FROM];
		*out++ = c;
	}
	*out = '\0';
	return (struct span){ text, (size_t)(out - text) };
}

/* The forms of tests/data/logs/metrics.tsv. */
TEST(test_log_metric_last_reads_what_trainings_print)
{
	size_t forms = 0;
	struct span rest = EMBEDDED(metrics);
	while (rest.n) {
		ARENA_AUTO a = { 0 };
		struct span line = span_next(&rest, '\n');
		if (span_starts(line, "#"))
			continue;
		const char *name = arena_dup(&a, span_next(&line, '\t'));
		const char *wanted = arena_dup(&a, span_next(&line, '\t'));
		struct span found = log_metric_last(unescape(arena_dup(&a, line)), name, &a);
		const char *got = found.p ? arena_dup(&a, found) : "-";
		if (strcmp(got, wanted) != 0)
			fail_msg("%s in \"%.*s\": is %s, should be %s", name, (int)line.n, line.p,
			         got, wanted);
		forms++;
	}
	assert_in_range(forms, FORMS_LEAST, FORMS_MAX);
}

static const char *counted(const char *rows, int64_t now_ms, struct arena *a)
{
	STR_AUTO out = STR_INIT(1024);
	run_counts_put(&out, span_of(rows), now_ms);
	return arena_dup(a, str_view(&out));
}

#define ROW(state, from, to)                                                                       \
	"{\"state\":\"" state "\",\"launchedTime\":" from ",\"completedTime\":" to "}"
#define WELL    ROW("SUCCEEDED", "1000", "601000")  /* 10 minutes */
#define SLOW    ROW("SUCCEEDED", "1000", "3601000") /* an hour */
#define RUNNING ROW("RUNNING", "85800000", "null")  /* since 23:50 */
#define WAITING ROW("WAITING", "null", "null")

TEST(test_run_counts_put_counts_and_estimates)
{
	ARENA_AUTO a = { 0 };
	enum { NOW = 86040000 };                     /* 1970-01-01T23:54:00Z */
	assert_int_equal(setenv("TZ", "UTC", 1), 0); /* NOLINT(concurrency-mt-unsafe) */
	tzset();
	assert_string_equal(counted("[]", NOW, &a), "0 jobs\n");
	assert_string_equal(counted("[" WAITING "]", NOW, &a), "1 job: 1 waits\n");
	assert_string_equal(
	    counted("[" WELL "," WELL "," ROW("FAILED", "1", "2") "," ROW(
			"STOPPED", "1", "2") "," RUNNING "," ROW("STOPPING", "1", "null") "]",
	            NOW, &a),
	    "6 jobs: 2 succeeded, 1 failed, 1 was stopped, 1 runs, 1 is stopping\n");
	/* The median is 10 minutes, of which 4 are over. */
	assert_string_equal(counted("[" WELL "," SLOW "," WELL "," RUNNING "]", NOW, &a),
	                    "4 jobs: 3 succeeded, 1 runs; done by about 1970-01-02 00:00\n");
	assert_string_equal(counted("[" WELL "," WELL "," WELL "," RUNNING "," RUNNING "," WAITING
	                            "," WAITING "," WAITING "]",
	                            NOW, &a),
	                    "8 jobs: 3 succeeded, 2 run, 3 wait; done by about 1970-01-02 00:20\n");
	/* It runs for longer than the median: a tenth more. */
	assert_string_equal(
	    counted("[" WELL "," WELL "," WELL "," RUNNING "]", NOW + 11 * 60000, &a),
	    "4 jobs: 3 succeeded, 1 runs; done by about 00:06\n");
	/* Nothing runs, or all have ended. */
	assert_string_equal(counted("[" WELL "," WELL "," WELL "," WAITING "]", NOW, &a),
	                    "4 jobs: 3 succeeded, 1 waits\n");
	assert_string_equal(counted("[" WELL "," WELL "," WELL "]", NOW, &a),
	                    "3 jobs: 3 succeeded\n");
}
