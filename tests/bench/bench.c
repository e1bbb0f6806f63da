/*
 * How long does a translation take?  CPU time of the thread, in batches, all stages in turn, so
 * that a slow moment of the machine meets all of them; minimum and median of the batches; beside
 * it what libyaml alone needs for the same text in the same run.
 *
 * bench [SECONDS]   about so long per job (default 2).  Run in the top folder of the tree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/bench/heap.h"
#include "tests/bench/stages.h"
#include "tests/lib/files.h"

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
		(void)stage_run(STAGE_BUILD, s, text);
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

static void row(const char *name, const struct setting *s, struct span text)
{
	static struct series series[STAGE_MAX];
	measure(series, s, text);
	heap_begin();
	struct stage_result r = stage_run(STAGE_BUILD, s, text);
	struct heap_use heap = heap_end();
	double floor = median(&series[STAGE_EVENTS]);
	double total = median(&series[STAGE_BUILD]);
	(void)printf("| %-16s | %7zu |", name, text.n);
	(void)printf(" %6.1f / %6.1f |", lowest(&series[STAGE_EVENTS]), floor);
	for (enum stage i = STAGE_READ; i < STAGE_MAX; i++)
		(void)printf(" %+6.1f |", median(&series[i]) - median(&series[i - 1]));
	double least = lowest(&series[STAGE_BUILD]);
	(void)printf(" %6.1f / %6.1f | **%.2f** / %.2f |", least, total,
	             least / lowest(&series[STAGE_EVENTS]), total / floor);
	(void)printf(" %6zu | %6zu | %6zu | %8zu |\n", heap.calls, heap.peak_bytes / 1024,
	             r.arena / 1024, r.out);
	(void)fflush(stdout);
}

static void head(const char *title)
{
	(void)printf("\n%s\n\n| job | bytes | libyaml, min / med | read | schema | job | build | "
	             "total, min / med | x libyaml, min / med "
	             "| mallocs | peak KB | arena KB | bytes out "
	             "|\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
	             title);
}

static const char SECRETS[] = "secrets:\n"
			      "  registryPassword: 0123456789abcdef\n"
			      "  token: fedcba9876543210\n";

static void shipped_jobs(const struct setting *s)
{
	static const char *const NAMES[] = { "small", "medium", "large" };
	for (size_t i = 0; i < 3; i++) {
		FREE_AUTO char *path = xasprintf("tests/bench/%s.yaml", NAMES[i]);
		STR_AUTO file_text = file_load(path);
		struct span text = str_view(&file_text);
		row(NAMES[i], s, text);
		STR_AUTO with = STR_INIT(JOB_TEXT_MAX);
		str_span(&with, text);
		str_puts(&with, SECRETS);
		FREE_AUTO char *name = xasprintf("%s + secrets", NAMES[i]);
		row(name, s, str_view(&with));
	}
}

static void job_text(struct str *out, int roles, int instances)
{
	str_puts(out,
	         "protocolVersion: 2\nname: growth\ntype: job\n"
	         "prerequisites:\n  - {type: dockerimage, name: img, uri: debian}\ntaskRoles:\n");
	for (int i = 0; i < roles; i++)
		str_printf(out,
		           "  role%d:\n    instances: %d\n    dockerImage: img\n"
		           "    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}\n"
		           "    commands:\n      - python train.py --role %d\n",
		           i, instances, i);
}

static void growth(const struct setting *s)
{
	static const int ROLES[] = { 1, 10, 100, 250 };
	static const int INSTANCES[] = { 1, 10, 100, 1000, 10000 };
	for (size_t i = 0; i < sizeof(ROLES) / sizeof(*ROLES); i++) {
		STR_AUTO text = STR_INIT(JOB_TEXT_MAX);
		job_text(&text, ROLES[i], 1);
		FREE_AUTO char *name = xasprintf("%d roles", ROLES[i]);
		row(name, s, str_view(&text));
	}
	for (size_t i = 0; i < sizeof(INSTANCES) / sizeof(*INSTANCES); i++) {
		STR_AUTO text = STR_INIT(JOB_TEXT_MAX);
		job_text(&text, 1, INSTANCES[i]);
		FREE_AUTO char *name = xasprintf("%d instances", INSTANCES[i]);
		row(name, s, str_view(&text));
	}
}

int main(int argc, char **argv)
{
	int64_t n;
	if (argc > 1 && parse_i64(span_of(argv[1]), 0, 600, &n) == 0)
		seconds = (double)n;
	arena_keep_heap(); /* as the server does */
	struct setting s;
	setting_init(&s, SETTING_BASE);
	head("Profile openpai, a priority class per job:");
	shipped_jobs(&s);
	setting_done(&s);
	setting_init(&s, SETTING_PLAIN);
	head("Profile plain:");
	shipped_jobs(&s);
	seconds /= 4;
	head("Growth with roles and instances, profile plain:");
	growth(&s);
	setting_done(&s);
	return 0;
}
