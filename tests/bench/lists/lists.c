/*
 * What a page of 100 jobs costs, out of how many: from the text of the query to that of the answer.
 * Prints a table for docs/BENCH-LOG.md.
 *
 *	lists [JOBS]...     default: 1000 10000 30000 100000
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "base/enc.h"
#include "base/str.h"
#include "jobs/cache/cache.h"
#include "server/jobs/jobs_internal.h"

enum {
	OBJECT_MAX = 16 << 10,
	PAGE_MAX = 1 << 20,
	PIECE = 256 << 10, /* the server sends a longer answer in pieces */
	ROUNDS = 31,
	AHEAD = 16,
	CONFIG = 1200, /* characters that do not compress well */
	STATES = 4,
};

static const char *const QUERIES[][2] = {
	{ "count of one state", "limit=0&withTotalCount=true&state=RUNNING" },
	{ "of all, the latest first", "limit=100&withTotalCount=true" },
	{ "of a user and a state, by time of completion",
	  "limit=100&username=user007&state=SUCCEEDED,FAILED&order=completionTime,DESC" },
	{ "by state", "limit=100&order=state,ASC" },
	{ "by user", "limit=100&order=username,ASC" },
	{ "by name", "limit=100&order=jobName,ASC" },
	{ "by name, from the middle", "limit=100&order=jobName,DESC&offset=HALF" },
	{ "by GPUs, with a keyword", "limit=100&order=totalGpuNumber,DESC&keyword=bert" },
	{ "by tasks, with a tag", "limit=100&order=totalTaskNumber,ASC&tagsContain=paper" },
	{ "5000 jobs, the default", "" },
};
enum { N_QUERIES = sizeof(QUERIES) / sizeof(QUERIES[0]) };

static uint64_t seed = 1;

static unsigned below(unsigned n)
{
	seed = seed * 6364136223846793005U + 1442695040888963407U;
	return (unsigned)(seed >> 33) % n;
}

/* One as an API server stores it, without what lists do not look at. */
static void put_object(struct str *out, unsigned i)
{
	static const char *const WHAT[] = { "resnet50_train", "bert-large_finetune", "evaluate" };
	static const char *const CLUSTERS[] = { "default", "vision", "speech", "nlp" };
	static const char *const CODES[STATES] = { "0", "1", "-210", "0" };
	char config[CONFIG + 1];
	char name[33];
	char id[32];
	(void)snprintf(id, sizeof(id), "job-%u", i);
	md5_hex(name, span_of(id));
	for (size_t k = 0; k < CONFIG; k++)
		config[k] = (char)('a' + below(26));
	config[CONFIG] = '\0';
	unsigned state = below(STATES);
	unsigned day = 1 + below(28);
	str_printf(out,
	           "{\"metadata\":{\"name\":\"%s\",\"uid\":\"%s\",\"resourceVersion\":\"%u\","
	           "\"creationTimestamp\":\"2026-10-%02uT%02u:%02u:%02uZ\",\"labels\":{"
	           "\"userName\":\"user%03u\",\"virtualCluster\":\"%s\"},\"annotations\":{"
	           "\"jobName\":\"%s_%06x\",\"totalGpuNumber\":\"%u\",\"rest-lit/tags\":"
	           "\"%s\",\"config\":\"%s\"}},",
	           name, name, i + 1, day, below(24), below(60), below(60), below(200),
	           CLUSTERS[below(4)], WHAT[below(3)], below(1 << 24), 1u << below(7),
	           below(5) ? "[]" : "[\\\"paper\\\",\\\"b\\\"]", config);
	str_printf(out,
	           "\"spec\":{\"executionType\":\"Start\",\"taskRoles\":[{\"name\":\"w\","
	           "\"taskNumber\":%u}]},\"status\":{\"state\":\"%s\",",
	           1 + below(64), state ? "Completed" : "AttemptRunning");
	if (state)
		str_printf(out,
		           "\"completionTime\":\"2026-11-%02uT00:00:00Z\",\"attemptStatus\":"
		           "{\"completionStatus\":{\"code\":%s}},",
		           day, CODES[state]);
	str_puts(out, "\"retryPolicyStatus\":{\"totalRetriedCount\":0}}}");
}

static void add(struct cache *c, unsigned i)
{
	STR_AUTO text = STR_INIT(OBJECT_MAX);
	put_object(&text, i);
	struct job_entry *f = job_entry_new(str_view(&text));
	if (!f)
		abort();
	cache_put(c, f);
}

static double now_us(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* cannot fail with this clock */
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void list(struct cache *c, const char *query)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	STR_AUTO out = STR_INIT((size_t)PAGE_MAX);
	struct job_query q;
	if (job_query_read(&q, query, false, &a, &e) < 0)
		abort();
	CACHE_VIEW_AUTO *view = cache_view(c);
	JOB_PAGE_AUTO p;
	job_page_begin(&p, &q);
	job_page_gather(&p, view);
	job_page_end(&p);
	for (size_t i = 0; i < p.n; i++) {
		if (i + AHEAD < p.n)
			job_prefetch(p.v[i + AHEAD].job, true); /* as the server does */
		job_row(&out, p.v[i].job, NULL, false);
		if (out.n > PIECE) /* sent */
			out.n = 0;
	}
	if (out.full)
		abort();
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left;
	double b = *(const double *)right;
	return (a > b) - (a < b);
}

/* The best of them: others use this machine, too. */
static double time_ms(struct cache *c, const char *query)
{
	double took[ROUNDS];
	for (size_t i = 0; i < ROUNDS; i++) {
		double begin = now_us();
		list(c, query);
		took[i] = now_us() - begin;
	}
	qsort(took, ROUNDS, sizeof(took[0]), compare);
	return took[0] / 1000;
}

static void measure(unsigned jobs, double took[static N_QUERIES])
{
	struct cache *c = cache_new((size_t)4 << 30);
	cache_list_begin(c);
	for (unsigned i = 0; i < jobs; i++)
		add(c, i);
	cache_list_end(c, jobs + 1);
	for (size_t i = 0; i < N_QUERIES; i++) {
		STR_AUTO query = STR_INIT(PAGE_MAX);
		const char *half = strstr(QUERIES[i][1], "HALF");
		if (half)
			str_printf(&query, "%.*s%u", (int)(half - QUERIES[i][1]), QUERIES[i][1],
			           jobs / 2);
		else
			str_puts(&query, QUERIES[i][1]);
		took[i] = time_ms(c, str_c(&query));
	}
	cache_free(c);
}

int main(int argc, char **argv)
{
	static const int64_t USUAL[] = { 1000, 10000, 30000, 100000 };
	enum { COLUMNS = 4, JOBS_MAX = 1000000 };
	static double took[COLUMNS][N_QUERIES];
	arena_keep_heap(); /* as the server does */
	int columns = argc > 1 ? argc - 1 : COLUMNS;
	columns = columns < COLUMNS ? columns : COLUMNS;
	printf("A page of 100 jobs, ms:\n\n| of so many jobs |");
	for (int k = 0; k < columns; k++) {
		int64_t jobs = USUAL[k];
		if (argc > 1 && parse_i64(span_of(argv[k + 1]), 1, JOBS_MAX, &jobs) < 0)
			return 2;
		measure((unsigned)jobs, took[k]);
		printf(" %ld |", (long)jobs);
	}
	printf("\n|---|");
	for (int k = 0; k < columns; k++)
		printf("--:|");
	printf("\n");
	for (size_t i = 0; i < N_QUERIES; i++) {
		printf("| %s |", QUERIES[i][0]);
		for (int k = 0; k < columns; k++)
			printf(" %.2f |", took[k][i]);
		printf("\n");
	}
	return 0;
}
