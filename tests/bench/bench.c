/*
 * How long does a translation take?  CPU time of the thread, in batches, all stages in turn, so
 * that a slow moment of the machine meets all of them; minimum and median of the batches; beside
 * it what libyaml alone needs for the same text in the same run.
 *
 * bench [SECONDS]              about so long per job (default 2)
 * bench run JOB STAGE TIMES    nothing but that, for whoever counts instructions
 * bench heap JOB SETTING       calls of malloc, and bytes at its peak; with bench.heap.so in front
 *
 * Run in the top folder of the tree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/heap.h"
#include "tests/bench/jobs.h"
#include "tests/bench/stages.h"

enum { BATCHES_MAX = 4000, BATCHES_MIN = 20, JOB_TEXT_MAX = 1 << 20 };

static double seconds = 2;
static enum setting_name profile; /* of the table */

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

/* By another process, since counting takes time.  Nothing under a sanitizer, which has a heap of
 * its own. */
static struct heap_use heap_of(const struct bench_job *job)
{
	struct heap_use use = { 0, 0 };
	char self[4096] = "";
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return use;
	FREE_AUTO char *command = xasprintf("LD_PRELOAD='%s.heap.so' '%s' heap '%s' %d", self, self,
	                                    job->name, (int)profile);
	FILE *f = popen(command, "re"); /* NOLINT(cert-env33-c): all of it is ours */
	char line[64] = "";
	int64_t calls = 0;
	int64_t peak = 0;
	if (f && fgets(line, sizeof(line), f)) {
		size_t gap = strcspn(line, " ");
		struct span rest = span_trim(span_of(line + gap));
		if (parse_i64((struct span){ line, gap }, 0, INT64_MAX, &calls) == 0 &&
		    parse_i64(rest, 0, INT64_MAX, &peak) == 0)
			use = (struct heap_use){ (size_t)calls, (size_t)peak };
	}
	if (f)
		(void)pclose(f);
	return use;
}

static void row(const struct bench_job *job, const struct setting *s, struct span text)
{
	static struct series series[STAGE_MAX];
	measure(series, s, text);
	struct stage_result r = stage_run(STAGE_WRITE, s, text);
	struct heap_use heap = heap_of(job);
	double floor = median(&series[STAGE_EVENTS]);
	double total = median(&series[STAGE_WRITE]);
	(void)printf("| %-16s | %7zu |", job->name, text.n);
	(void)printf(" %6.1f / %6.1f |", lowest(&series[STAGE_EVENTS]), floor);
	for (enum stage i = STAGE_READ; i < STAGE_MAX; i++)
		(void)printf(" %+6.1f |", median(&series[i]) - median(&series[i - 1]));
	double least = lowest(&series[STAGE_WRITE]);
	(void)printf(" %6.1f / %6.1f | **%.2f** / %.2f |", least, total,
	             least / lowest(&series[STAGE_EVENTS]), total / floor);
	(void)printf(" %6zu | %6zu | %6zu | %8zu |\n", heap.calls, heap.peak_bytes / 1024,
	             r.arena / 1024, r.out);
	(void)fflush(stdout);
}

static void head(const char *title)
{
	(void)printf(
	    "\n%s\n\n| job | bytes | libyaml, min / med | read | schema | render | write | "
	    "total, min / med | x libyaml, min / med "
	    "| mallocs | peak KB | arena KB | bytes out "
	    "|\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
	    title);
}

static void table(const char *title, enum setting_name name, bool growth)
{
	struct setting s;
	profile = name;
	setting_init(&s, name);
	head(title);
	for (size_t i = 0; i < N_JOBS; i++) {
		if ((JOBS[i].kind != JOB_SHIPPED) != growth)
			continue;
		STR_AUTO text = STR_INIT(JOB_TEXT_MAX);
		job_text(&JOBS[i], &text);
		row(&JOBS[i], &s, str_view(&text));
	}
	setting_done(&s);
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
	struct setting s;
	setting_init(&s, SETTING_PLAIN);
	job_text(job, &text);
	for (int64_t i = 0; i < times; i++)
		(void)stage_run(stage, &s, str_view(&text));
	setting_done(&s);
	return 0;
}

/* bench heap JOB SETTING */
static int heap(char **argv)
{
	const struct bench_job *job = job_find(span_of(argv[2]));
	int64_t name = 0;
	if (!job || parse_i64(span_of(argv[3]), 0, SETTING_MAX - 1, &name) || !heap_begin)
		return 2;
	STR_AUTO text = STR_INIT(JOB_TEXT_MAX);
	struct setting s;
	setting_init(&s, (enum setting_name)name);
	job_text(job, &text);
	(void)stage_run(STAGE_WRITE, &s,
	                str_view(&text)); /* as the first time is not like others */
	heap_begin();
	(void)stage_run(STAGE_WRITE, &s, str_view(&text));
	struct heap_use use = heap_end();
	(void)printf("%zu %zu\n", use.calls, use.peak_bytes);
	setting_done(&s);
	return 0;
}

int main(int argc, char **argv)
{
	int64_t n;
	arena_keep_heap(); /* as the server does */
	if (argc == 5)
		return run(argv);
	if (argc == 4)
		return heap(argv);
	if (argc > 1 && parse_i64(span_of(argv[1]), 0, 600, &n) == 0)
		seconds = (double)n;
	table("Profile openpai, a priority class per job:", SETTING_BASE, false);
	table("Profile plain:", SETTING_PLAIN, false);
	seconds /= 4;
	table("Growth with roles and instances, profile plain:", SETTING_PLAIN, true);
	return 0;
}
