/* Counts jobs by their states, and estimates when all of them have ended. */
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "base/json/scan.h"
#include "jobs/cache/job_entry.h"
#include "server/runs/runs.h"

enum {
	WELL_LEAST = 3, /* jobs that succeeded, for an estimate */
	OVERDUE = 10,   /* a job that runs for longer takes this part of the median */
	SECOND = 1000
};

static int run_compare_ms(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a;
	int64_t y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

struct run_times {
	int64_t *well, *left; /* durations of those that succeeded; those that run: so far */
	size_t n_well, n_left, waiting;
};

/* The time until all have ended, from the median of those that succeeded, if as many run as now;
 * 0: not known, or all have. */
static int64_t run_rest(struct run_times *t)
{
	if (t->n_well < WELL_LEAST || !t->n_left)
		return 0;
	qsort(t->well, t->n_well, sizeof(*t->well), run_compare_ms);
	int64_t median = t->well[t->n_well / 2];
	for (size_t i = 0; i < t->n_left; i++)
		t->left[i] = t->left[i] < median ? median - t->left[i] : median / OVERDUE;
	qsort(t->left, t->n_left, sizeof(*t->left), run_compare_ms);
	int64_t most = 0;
	for (size_t i = 0; i < t->n_left; i++) { /* those that wait follow in turn */
		size_t turns = (t->waiting + t->n_left - 1 - i) / t->n_left;
		int64_t end = t->left[i] + (int64_t)turns * median;
		most = end > most ? end : most;
	}
	return most > 1 ? most : 1;
}

/* "18:40", with the date if it is not today. */
static void run_put_clock(struct str *out, int64_t ms, int64_t now_ms)
{
	char text[sizeof("2026-11-30 18:40")];
	time_t at = (time_t)(ms / SECOND);
	time_t now = (time_t)(now_ms / SECOND);
	struct tm t = { 0 };
	struct tm today = { 0 };
	(void)localtime_r(&at, &t); /* times of this century */
	(void)localtime_r(&now, &today);
	bool same = t.tm_yday == today.tm_yday && t.tm_year == today.tm_year;
	str_put(out, text, strftime(text, sizeof(text), same ? "%H:%M" : "%F %H:%M", &t));
}

void run_counts_put(struct str *out, struct span rows, int64_t now_ms)
{
	static const struct {
		enum job_state state;
		const char *one, *more;
	} WORDS[] = {
		{ JOB_SUCCEEDED, "succeeded", "succeeded" },     { JOB_FAILED, "failed", "failed" },
		{ JOB_STOPPED, "was stopped", "were stopped" },  { JOB_RUNNING, "runs", "run" },
		{ JOB_STOPPING, "is stopping", "are stopping" }, { JOB_WAITING, "waits", "wait" },
		{ JOB_UNKNOWN, "is unknown", "are unknown" },
	};
	ARENA_AUTO arena = { 0 };
	size_t n = scan_count(rows);
	size_t in[JOB_STATE_MAX + 1] = { 0 };
	struct run_times times = { .well = ARENA_NEW(&arena, int64_t, n),
		                   .left = ARENA_NEW(&arena, int64_t, n) };
	struct scan walk = scan_begin(rows);
	for (struct span row; scan_item(&walk, &row);) {
		enum job_state state = job_state_named(scan_text(scan_get(row, "state"), &arena));
		int64_t begin;
		int64_t end = now_ms;
		in[state]++;
		times.waiting += state == JOB_WAITING;
		if (!scan_int(scan_get(row, "launchedTime"), 1, INT64_MAX, &begin))
			continue;
		(void)scan_int(scan_get(row, "completedTime"), 1, INT64_MAX, &end); /* else now */
		if (state == JOB_SUCCEEDED)
			times.well[times.n_well++] = end - begin;
		else if (state == JOB_RUNNING)
			times.left[times.n_left++] = end - begin;
	}
	str_printf(out, "%zu job%s", n, n == 1 ? "" : "s");
	const char *between = ": ";
	for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++) {
		size_t k = in[WORDS[i].state];
		if (k)
			str_printf(out, "%s%zu %s", between, k,
			           k == 1 ? WORDS[i].one : WORDS[i].more);
		between = k ? ", " : between;
	}
	int64_t rest = run_rest(&times);
	str_puts(out, rest ? "; done by about " : "");
	if (rest)
		run_put_clock(out, now_ms + rest, now_ms);
	str_char(out, '\n');
}
