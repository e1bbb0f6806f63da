/*
 * How long does a translation take?  CPU time of the thread, in batches, all stages in turn, so
 * that a slow moment of the machine meets all of them; minimum and median of the batches; beside
 * it what libyaml alone needs for the same text in the same run.
 *
 * bench [SECONDS]              about so long per job (default 2)
 * bench run JOB STAGE TIMES    nothing but that, for whoever counts instructions
 *
 * Run in the top folder of the tree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/bench/jobs.h"
#include "tests/bench/stages.h"

enum { BATCHES_MAX = 4000, BATCHES_MIN = 20, JOB_TEXT_MAX = 1 << 20 };

static double seconds = 2;

/* Microseconds per job, by batch. */
struct series {
	double us[BATCHES_MAX];
	size_t n;
};

static double cpu_us(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;
	return (x > y) - (x < y);
}

static double lowest(struct series *s)
{
	qsort(s->us, s->n, sizeof(*s->us), by_value);
	return s->us[0];
}

static double median(struct series *s)
{
	qsort(s->us, s->n, sizeof(*s->us), by_value);
	return s->us[s->n / 2];
}

static void batch(struct series *out, enum stage stage, const struct setting *s, struct span text,
                  int n)
{
	double start = cpu_us();
	for (int i = 0; i < n; i++)
		(void)stage_run(stage, s, text);
	out->us[out->n++] = (cpu_us() - start) / n;
}

/* As many jobs as take about a millisecond. */
static int batch_size(const struct setting *s, struct span text)
{
	double start = cpu_us();
	for (int i = 0; i < 5; i++)
		(void)stage_run(STAGE_WRITE, s, text);
	double us = (cpu_us() - start) / 5;
	return us > 500 ? 2 : (int)(1000 / us) + 1;
}

static void measure(struct series series[STAGE_MAX], const struct setting *s, struct span text)
{
	int n = batch_size(s, text);
	for (enum stage i = 0; i < STAGE_MAX; i++)
		series[i].n = 0;
	double end = cpu_us() + seconds * 1e6;
	while (series[0].n < BATCHES_MIN || (cpu_us() < end && series[0].n < BATCHES_MAX))
		for (enum stage i = 0; i < STAGE_MAX; i++)
			batch(&series[i], i, s, text, n);
}

static void row(const struct bench_job *job, const struct setting *s, struct span text)
{
	static struct series series[STAGE_MAX];
	measure(series, s, text);
	struct stage_result r = stage_run(STAGE_WRITE, s, text);
	double floor = median(&series[STAGE_EVENTS]);
	double total = median(&series[STAGE_WRITE]);
	(void)printf("| %-16s | %7zu |", job->name, text.n);
	(void)printf(" %6.1f / %6.1f |", lowest(&series[STAGE_EVENTS]), floor);
	for (enum stage i = STAGE_READ; i < STAGE_MAX; i++)
		(void)printf(" %+6.1f |", median(&series[i]) - median(&series[i - 1]));
	double least = lowest(&series[STAGE_WRITE]);
	(void)printf(" %6.1f / %6.1f | **%.2f** / %.2f |", least, total,
	             least / lowest(&series[STAGE_EVENTS]), total / floor);
	(void)printf(" %6zu | %8zu |\n", r.arena / 1024, r.out);
	(void)fflush(stdout);
}

static void head(const char *title)
{
	(void)printf(
	    "\n%s\n\n| job | bytes | libyaml, min / med | read | schema | render | write | "
	    "total, min / med | x libyaml, min / med "
	    "| arena KB | bytes out |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
	    title);
}

static void table(const char *title, enum setting_name name, bool growth)
{
	AUTO(setting_done) struct setting s;
	setting_init(&s, name);
	head(title);
	for (size_t i = 0; i < N_JOBS; i++) {
		if ((JOBS[i].kind != JOB_SHIPPED) != growth)
			continue;
		STR_AUTO text = STR_INIT(JOB_TEXT_MAX);
		job_text(&JOBS[i], &text);
		row(&JOBS[i], &s, str_view(&text));
	}
}

/* bench run JOB STAGE TIMES */
static int run(char **argv)
{
	const struct bench_job *job = job_find(span_of(argv[2]));
	int64_t times = 0;
	enum stage stage = 0;
	while (stage < STAGE_MAX && !span_is(span_of(argv[3]), STAGE_NAMES[stage]))
		stage++;
	if (!job || stage == STAGE_MAX || parse_i64(span_of(argv[4]), 1, 1000000, &times))
		return 2;
	STR_AUTO text = STR_INIT(JOB_TEXT_MAX);
	AUTO(setting_done) struct setting s;
	setting_init(&s, SETTING_PLAIN);
	job_text(job, &text);
	for (int64_t i = 0; i < times; i++)
		(void)stage_run(stage, &s, str_view(&text));
	return 0;
}

int main(int argc, char **argv)
{
	int64_t n;
	arena_keep_heap(); /* as the server does */
	if (argc == 5)
		return run(argv);
	if (argc > 1 && parse_i64(span_of(argv[1]), 0, 600, &n) == 0)
		seconds = (double)n;
	table("Profile openpai, a priority class per job:", SETTING_BASE, false);
	table("Profile plain:", SETTING_PLAIN, false);
	seconds /= 4;
	table("Growth with roles and instances, profile plain:", SETTING_PLAIN, true);
	return 0;
}
