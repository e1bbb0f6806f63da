/*
 * The queue of local tasks in simulated time: what each of three users gets in any ten minutes, how
 * much of the GPUs is used, how long a job of all GPUs waits in a stream of small ones; and the
 * time of one decision.  Prints tables for docs/BENCH.md; ends with 1 if a promise is not kept.
 */
#include <time.h>

#include "tests/unit/machine/engine/queue_sim.h"

enum { SEEDS = 20, JOBS = 500, USERS = 3, WINDOW_MS = 600000 };

/* GPUs of the jobs of each user, 0: 1 to 8; and whether the promise is made for it. */
static const struct {
	const char *name;
	int gpus[USERS];
} MIXES[] = {
	{ "all: 1 to 8 GPUs", { 0, 0, 0 } }, { "8, 1, 1 GPU", { 8, 1, 1 } },
	{ "8, 8, 1 GPUs", { 8, 8, 1 } },     { "1 to 8, 1, 8 GPUs", { 0, 1, 8 } },
	{ "all: 8 GPUs", { 8, 8, 8 } },
};
static const struct {
	int64_t least_ms, most_ms;
	bool promised; /* half of a user's part, in any ten minutes */
} TIMES[] = {
	{ 1000, 10000, true },
	{ 5000, 60000, true },
	{ 30000, 120000, false },
};

static void queue_jobs(struct sim *s, size_t mix, size_t time)
{
	for (int i = 0; i < JOBS; i++) {
		int user = (int)sim_random(s, USERS);
		int gpus = MIXES[mix].gpus[user];
		gpus = gpus ? gpus : 1 + (int)sim_random(s, SIM_GPUS);
		uint64_t spread = (uint64_t)(TIMES[time].most_ms - TIMES[time].least_ms) + 1;
		sim_add(s, user, gpus, 0, TIMES[time].least_ms + (int64_t)sim_random(s, spread));
	}
}

/* true: what is promised is kept. */
static bool queue_mix(size_t mix, size_t time)
{
	double promised = (double)SIM_GPUS / (double)USERS / 2;
	double least = SIM_GPUS;
	double used = 0;
	size_t windows = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim *s = xcalloc(1, sizeof(*s));
		s->random = seed * 7919;
		queue_jobs(s, mix, time);
		sim_run(s);
		if (s->fault) {
			printf("%s: %s\n", MIXES[mix].name, s->fault);
			free(s);
			return false;
		}
		for (int u = 0; u < USERS; u++) {
			size_t n = 0;
			double mean = sim_least(s, u, WINDOW_MS, &n);
			least = mean < least ? mean : least;
			windows += n;
		}
		used += sim_used(s) / (double)SEEDS;
		free(s);
	}
	bool kept = !TIMES[time].promised || least >= promised;
	printf("| %s | %d to %d s | %.2f%s | %zu | %.0f %% |\n", MIXES[mix].name,
	       (int)(TIMES[time].least_ms / 1000), (int)(TIMES[time].most_ms / 1000), least,
	       kept ? "" : " (too few)", windows, 100 * used);
	return kept;
}

/* 10000 tasks of 2000 jobs of 500 users. */
static void queue_decision(void)
{
	enum { TASKS = 10000, ALL = 2000, MANY = 500, ROUNDS = 200 };
	struct queue *q = queue_new();
	struct amounts total = { .gpus = SIM_GPUS };
	struct amounts need = { .gpus = 1 };
	queue_machine(q, &total, &(struct amounts){ 0 });
	for (int i = 0; i < ALL; i++) {
		STR_AUTO user = STR_INIT(20);
		str_int(&user, i % MANY);
		struct queue_order order = { .user = str_view(&user), .gang = i % 2 };
		struct queue_job *job = queue_add(q, &order);
		for (int t = 0; t < TASKS / ALL; t++)
			(void)queue_want(q, job, &need, NULL);
	}
	struct timespec from;
	struct timespec to;
	void *const *owners = NULL;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (int i = 0; i < ROUNDS; i++) {
		queue_now(q, (int64_t)i * 1000);
		(void)queue_pick(q, &owners);
	}
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	double us =
	    (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3;
	printf("\nA decision among %d waiting tasks of %d jobs and %d users: %.0f us.\n", TASKS,
	       ALL, MANY, us / (double)ROUNDS);
	queue_free(q);
}

int main(void)
{
	bool kept = true;
	printf(
	    "| jobs of three users, %d in all | they run for | least GPUs of a waiting user in ten "
	    "minutes (%.2f promised up to 60 s) | windows | GPUs used |\n|---|---|---|---|---|\n",
	    JOBS, (double)SIM_GPUS / (double)USERS / 2);
	for (size_t m = 0; m < sizeof(MIXES) / sizeof(MIXES[0]); m++) {
		for (size_t t = 0; t < sizeof(TIMES) / sizeof(TIMES[0]); t++)
			kept = queue_mix(m, t) && kept;
	}
	queue_decision();
	return kept ? 0 : 1;
}
