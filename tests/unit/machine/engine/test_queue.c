/* The queue: order, gangs, reservations, quotas, messages; simulated months. */

#include "tests/unit/base/cmocka.h"
#include <math.h>

#include "tests/unit/machine/engine/queue_sim.h"

/*
 * A script: one command a line.
 *
 *	now S                          time in seconds
 *	limit NAME S                   its time limit, as long as it has not started
 *	ends NAME S                    it has started, and ends then
 *	by NAME [S]                    it must have started then
 *	machine NEED [FOREIGN]         NEED is GPUs, GPUs/CPUs or GPUs/CPUs/GiB
 *	quota VC NEED|none
 *	job NAME USER VC PRIORITY TASKS...   gang; a lower-case name: tasks start one by one
 *	want|hold NAME TASK            one more task
 *	pick [NAME[*N]...]             the jobs that start, sorted by name; N tasks
 *	end NAME                       gives back everything
 *	task NAME                      its first task ends
 *	undo NAME                      all its tasks wait again
 *	why NAME TEXT
 */
enum { NAMES = 26 + 26, TASKS = 64 };

struct stage {
	struct queue *q;
	struct queue_job *job[NAMES];
	struct queue_task task[NAMES][TASKS];
	size_t tasks[NAMES];
	const char *line;
};

static struct amounts read_amounts(const char *text)
{
	char *end = NULL;
	struct amounts a = { .gpus = strtol(text, &end, 10) };
	if (*end == '/')
		a.cpus = strtol(end + 1, &end, 10) * 1000;
	if (*end == '/')
		a.memory = strtol(end + 1, &end, 10) << 30;
	return a;
}

static size_t name_index(const char *name)
{
	return (size_t)(is_upper(*name) ? *name - 'A' : 26 + *name - 'a');
}

static void stage_task(struct stage *s, size_t i, const char *need, bool holds)
{
	struct queue_task *t = &s->task[i][s->tasks[i]++];
	assert_true(s->tasks[i] < TASKS);
	t->need = read_amounts(need);
	queue_add_task(s->q, s->job[i], t, holds);
}

static void stage_job(struct stage *s, char **word, size_t n)
{
	size_t i = name_index(word[1]);
	s->job[i] = queue_add(s->q, span_of(word[2]), span_of(word[3]));
	s->job[i]->priority = strtol(word[4], NULL, 10);
	s->job[i]->gang = is_upper(*word[1]);
	s->tasks[i] = 0;
	for (size_t k = 5; k < n; k++)
		stage_task(s, i, word[k], false);
}

static void stage_pick(struct stage *s, char **word, size_t n)
{
	struct queue_tasks started;
	struct queue_task *t;
	queue_pick(s->q, &started);
	size_t count[NAMES] = { 0 };
	TAILQ_FOREACH(t, &started, start)
	count[(t - s->task[0]) / TASKS]++;
	STR_AUTO is = STR_INIT(1000);
	STR_AUTO wanted = STR_INIT(1000);
	for (size_t i = 0; i < NAMES; i++) {
		if (count[i])
			str_printf(&is, " %c", (char)(i < 26 ? 'A' + i : 'a' + i - 26));
		if (count[i] > 1)
			str_printf(&is, "*%zu", count[i]);
	}
	for (size_t i = 1; i < n; i++)
		str_printf(&wanted, " %s", word[i]);
	if (strcmp(str_c(&is), str_c(&wanted)) != 0)
		fail_msg("%s: starts%s", s->line, str_c(&is));
}

static void stage_why(struct stage *s, const char *name)
{
	STR_AUTO is = STR_INIT(1000);
	bool waits = queue_reason(s->q, s->job[name_index(name)], &is);
	const char *wanted = strchr(strchr(s->line, ' ') + 1, ' ');
	if (waits != (wanted != NULL) || (wanted && strcmp(wanted + 1, str_c(&is)) != 0))
		fail_msg("%s: is `%s`", s->line, str_c(&is));
	/* The place is that of the sentence, "3rd in the queue". */
	const char *first = waits ? str_c(&is) : "";
	size_t place = is_digit(*first) ? (size_t)(*first - '0') : 0;
	assert_int_equal(s->job[name_index(name)]->place, place);
}

static void stage_change(struct stage *s, char **word)
{
	size_t i = name_index(word[1]);
	if (strcmp(word[0], "want") == 0 || strcmp(word[0], "hold") == 0) {
		stage_task(s, i, word[2], *word[0] == 'h');
	} else if (strcmp(word[0], "end") == 0) {
		queue_remove(s->q, TAKE(s->job[i]));
	} else if (strcmp(word[0], "task") == 0) {
		queue_end(s->q, &s->task[i][0]);
	} else if (strcmp(word[0], "undo") == 0) {
		for (size_t k = 0; k < s->tasks[i]; k++)
			queue_undo(s->q, &s->task[i][k]);
	} else {
		fail_msg("%s: no such command", s->line);
	}
}

/* "limit", "ends" or "by". */
static void stage_time(struct stage *s, char **word)
{
	struct queue_job *job = s->job[name_index(word[1])];
	int64_t ms = *word[2] ? 1000 * strtoll(word[2], NULL, 10) : INT64_MAX;
	if (*word[0] == 'b') {
		assert_int_equal(queue_start_by(job), ms);
		return;
	}
	job->limit_ms = ms;
	job->end_ms = *word[0] == 'e' ? ms : QUEUE_NEVER;
}

static void stage_line(struct stage *s, const char *line)
{
	s->line = line;
	FREE_AUTO char *copy = xstrdup(line);
	static char none[] = "";
	char *word[40];
	for (size_t i = 0; i < 40; i++)
		word[i] = none;
	char *rest = NULL;
	size_t n = 0;
	for (char *w = strtok_r(copy, " ", &rest); w && n < 40; w = strtok_r(NULL, " ", &rest))
		word[n++] = w;
	if (strcmp(word[0], "now") == 0) {
		queue_time_now(s->q, 1000 * strtoll(word[1], NULL, 10));
	} else if (strcmp(word[0], "machine") == 0) {
		s->q->total = read_amounts(word[1]);
		s->q->foreign = read_amounts(n > 2 ? word[2] : "0");
	} else if (strcmp(word[0], "quota") == 0) {
		struct amounts a = read_amounts(word[2]);
		if (a.cpus == 0)
			a.cpus = a.memory = INT64_MAX;
		if (strcmp(word[2], "none") == 0)
			a.gpus = INT64_MAX;
		queue_quota(s->q, span_of(word[1]), &a);
	} else if (strcmp(word[0], "limit") == 0 || strcmp(word[0], "ends") == 0 ||
	           strcmp(word[0], "by") == 0) {
		stage_time(s, word);
	} else if (strcmp(word[0], "job") == 0) {
		stage_job(s, word, n);
	} else if (strcmp(word[0], "pick") == 0) {
		stage_pick(s, word, n);
	} else if (strcmp(word[0], "why") == 0) {
		stage_why(s, word[1]);
	} else {
		stage_change(s, word);
	}
}

static const char *const SCRIPTS[] = {
	/* One job; all or nothing. */
	"machine 8/16/64\n"
	"job A alice v 0 2/1/1 2/1/1\n"
	"why A is about to enter the queue\n"
	"pick A*2\n"
	"why A\n"
	"job B bob v 0 3 3\n"
	"pick\n"
	"why B 1st in the queue: 6 GPUs wanted, 4 free, 4 held by jobs of alice\n"
	"end A\n"
	"pick B*2",
	/* Tasks one by one. */
	"machine 4\n"
	"job a alice v 0 3 3 1\n"
	"pick a*2\n"
	"why a 1st in the queue: 3 GPUs wanted, 0 free, 4 held by jobs of alice\n"
	"task a\n"
	"pick a",
	/* A job whose waiting task is ended has no place. */
	"machine 1\n"
	"job A alice v 0\n"
	"hold A 1\n"
	"job b bob v 0 1\n"
	"pick\n"
	"why b 1st in the queue: 1 GPU wanted, 0 free, 1 held by jobs of alice\n"
	"task b\n"
	"why b",
	/* Priority, then age. */
	"machine 1\n"
	"job A alice v 0 1\n"
	"job B alice v 0 1\n"
	"job C alice v 5 1\n"
	"job D alice v -5 1\n"
	"pick C\n"
	"why D 3rd in the queue: 1 GPU wanted, 0 free, 1 held by jobs of alice\n"
	"end C\npick A\nend A\npick B\nend B\npick D",
	/* Users take turns, also within one pick. */
	"machine 4\n"
	"job A alice v 0 1\njob B alice v 0 1\njob C alice v 0 1\njob D alice v 0 1\n"
	"job E bob v 0 1\njob F bob v 0 1\njob G bob v 0 1\n"
	"pick A B E F\n"
	"why C 1st in the queue: 1 GPU wanted, 0 free, 4 held by jobs of alice and bob\n"
	"why G 2nd in the queue: 1 GPU wanted, 0 free, 4 held by jobs of alice and bob\n"
	"why D 3rd in the queue: 1 GPU wanted, 0 free, 4 held by jobs of alice and bob",
	/* Past use counts, and is forgotten. */
	"machine 2\n"
	"job A alice v 0 2\n"
	"pick A\n"
	"now 60\n"
	"end A\n"
	"job B alice v 0 2\njob C bob v 0 2\n"
	"pick C\n"
	"end C\n"
	"pick B",
	"machine 2\n"
	"job A alice v 0 2\n"
	"pick A\n"
	"now 60\n"
	"end A\n"
	"now 100000\n"
	"job B alice v 0 2\njob C bob v 0 2\n"
	"pick B",
	/* CPUs and memory decide where there are no GPUs. */
	"machine 0/4/8\n"
	"job A alice v 0 0/4/1\n"
	"pick A\n"
	"now 60\n"
	"end A\n"
	"job B alice v 0 0/3/1\njob C bob v 0 0/3/1\n"
	"pick C\n"
	"why B 1st in the queue: 3 CPUs wanted, 1 free, 3 held by jobs of bob",
	/* Reservation: what the head leaves may be used, and not more of it in sum. */
	"machine 8\n"
	"job A alice v 0 4\n"
	"pick A\n"
	"job B bob v 0 6\n"
	"job C carol v 0 2\njob D dave v 0 1\njob E erin v 0 1\n"
	"pick C\n"
	"why B 1st in the queue: 6 GPUs wanted, 2 free, 6 held by jobs of alice and carol\n"
	"why D 2nd in the queue: enough is free, but kept for a larger job that is ahead, of bob, "
	"which waits for jobs without a time limit, of alice and carol\n"
	"end C\n"
	"pick D E\n"
	"job F fred v 0 1\n"
	"pick\n"
	"end A\n"
	"pick B\n",
	/* A task that passes the first counts as one that has passed; the others of its job do not.
	 */
	"machine 8\n"
	"job a alice v 0 4\n"
	"pick a\n"
	"job B bob v 0 6\n"
	"pick\n"
	"want a 1\n"
	"pick a\n"
	"job C carol v 0 1\njob D dave v 0 1\n"
	"pick C\n"
	"why D 2nd in the queue: enough is free, but kept for a larger job that is ahead, of bob, "
	"which waits for jobs without a time limit, of alice and carol\n",
	/* Resources that the first job holds are not free for others when it starts. */
	"machine 8\n"
	"job A alice v 1\n"
	"hold A 2\nwant A 4\n"
	"job B bob v 0\n"
	"hold B 3\n"
	"job C carol v 0 3\njob D dave v 0 2\n"
	"pick D",
	/* No job passes one of the whole machine, except jobs that need none of its resources. */
	"machine 8/16\n"
	"job A alice v 0 1/1\n"
	"pick A\n"
	"job B bob v 0 8/8\n"
	"job C carol v 0 1/1\njob D dave v 0 0/8\njob E dave v 0 0/1\n"
	"pick D\n"
	"why C 2nd in the queue: enough is free, but kept for a larger job that is ahead, of bob, "
	"which waits for jobs without a time limit, of alice and dave\n"
	"end A\n"
	"pick B",
	/* More important jobs pass. */
	"machine 8\n"
	"job A alice v 0 1\n"
	"pick A\n"
	"job B bob v 0 8\njob C carol v 1 1\n"
	"pick C\n",
	/* Quotas: block only their own cluster; within it the reservation holds. */
	"machine 8\n"
	"quota v 4\n"
	"job A alice v 0 3\n"
	"pick A\n"
	"job B bob v 0 4\njob C carol v 0 1\njob D dave w 0 4\njob E erin v 0 5\n"
	"pick D\n"
	"why B waits for the quota of virtual cluster v: 4 GPUs wanted, 1 left of it\n"
	"why C waits for the quota of virtual cluster v: enough is left of it, but kept for "
	"a job that is ahead\n"
	"why E can never start: 5 GPUs wanted, 4 in the quota of virtual cluster v\n"
	"end A\n"
	"pick B\n"
	"quota v none\n"
	"end B\n"
	"pick C\n"
	"why E 1st in the queue: 5 GPUs wanted, 3 free, 5 held by jobs of dave and carol\n",
	/* A job that can never start blocks no other job. */
	"machine 8/4/16\n"
	"job A alice v 9 9/1/1\njob B bob v 9 1/8/32\njob C carol v 0 8/1/1\n"
	"pick C\n"
	"why A can never start: 9 GPUs wanted, 8 on this machine\n"
	"why B can never start: 8 CPUs wanted, 4 on this machine; 32 GiB of memory wanted, 16 GiB "
	"on this machine\n",
	/* A message about single tasks names the size of those that do not fit. */
	"machine 2\n"
	"job a alice v 0 3 1\n"
	"pick a\n"
	"why a can never start: 3 GPUs wanted, 2 on this machine",
	/* A gang that holds a part already. */
	"machine 4\n"
	"job A alice v 0\n"
	"hold A 2\nwant A 3\n"
	"pick\n"
	"why A can never start: 5 GPUs wanted, 4 on this machine",
	"machine 4\n"
	"job A alice v 0\n"
	"hold A 2\nwant A 1\nwant A 1\n"
	"pick A*2",
	/* Other programs. */
	"machine 8 1\n"
	"job A alice v 0 8\njob B bob v 0 4\n"
	"pick B\n"
	"why A waits for other programs of this machine: 8 GPUs wanted, 7 not held by them\n"
	"machine 8\n"
	"pick\n"
	"why A 1st in the queue: 8 GPUs wanted, 4 free, 4 held by jobs of bob\n",
	/* A start that fails. */
	"machine 2\n"
	"job A alice v 0 1 1\njob B bob v 0 1\n"
	"pick A*2\n"
	"undo A\n"
	"machine 2 1\n"
	"pick B\n"
	"why A waits for other programs of this machine: 2 GPUs wanted, 1 not held by them\n"
	"end B\n"
	"job C bob v 0 2\n"
	"machine 2\n"
	"pick A*2",
	/* CPUs that come with GPUs do not count. */
	"machine 8/16\n"
	"job A alice v 0 1/12\njob B bob v 0 0/4\n"
	"pick A B\n"
	"now 60\n"
	"end A\nend B\n"
	"job C bob v 0 8/1\njob D alice v 0 8/1\n"
	"pick D",
	/* More is held than there is: what needs nothing of it starts. */
	"machine 1/8\n"
	"job A alice v 0\n"
	"hold A 3/1\n"
	"job B bob v 0 0/1\njob C carol v 0 1/1\n"
	"pick B\n"
	"why C 1st in the queue: 1 GPU wanted, 0 free, 3 held by jobs of alice\n",
	/* Backfill: what ends before the first can start passes it, and what leaves enough then. */
	"machine 8\n"
	"job A alice v 0 2\njob B bob v 0 4\n"
	"pick A B\n"
	"ends A 100\nends B 200\n"
	"job C carol v 0 4\n"
	"pick\n"
	"job D dave v 0 2\njob E erin v 0 2\n"
	"limit D 101\nlimit E 100\n"
	"pick E\n"
	"by D\nby E 0\n"
	"why C 1st in the queue: 4 GPUs wanted, 0 free, 8 held by jobs of bob, alice and 1 other\n"
	"end E\n"
	"pick\n"
	"why D 2nd in the queue: enough is free, but kept for a larger job that is ahead, of "
	"carol; "
	"a job passes it whose time limit (extras.maxDurationSec) ends before it can start\n"
	"now 100\nend A\n"
	"pick C\n"
	"end B\n"
	"pick D\n"
	"by D",
	/* Resources that stay free when the first job starts are for all jobs. */
	"machine 8\n"
	"job A alice v 0 6\n"
	"pick A\n"
	"ends A 100\n"
	"job B bob v 0 7\njob C carol v 0 1\njob D dave v 0 1\n"
	"pick C\n"
	"by C\n"
	"why D 2nd in the queue: enough is free, but kept for a larger job that is ahead, of bob; "
	"a job passes it whose time limit (extras.maxDurationSec) ends before it can start\n"
	"limit D 100\n"
	"pick D\n"
	"by D 0\n"
	"undo D\n"
	"by D\n"
	"now 1\n"
	"pick",
	/* A promised start is kept, also against more important jobs, unless they pass it. */
	"machine 8\n"
	"job A alice v 0 6\n"
	"pick A\n"
	"ends A 100\n"
	"job B bob v 0 8\n"
	"pick\n"
	"job C carol v 5 1\njob D dave v 5 1\n"
	"limit D 60\n"
	"pick D\n"
	"why B 1st in the queue: 8 GPUs wanted, 1 free, 7 held by jobs of alice and dave\n"
	"end A\nend D\n"
	"pick B\n"
	"end B\n"
	"pick C",
	/* The same holds within a quota. */
	"machine 8\n"
	"quota v 4\n"
	"job A alice v 0 3\n"
	"pick A\n"
	"ends A 100\n"
	"job B bob v 0 4\njob C carol v 0 1\njob D dave v 0 1\n"
	"limit D 100\n"
	"pick D\n"
	"by D 0",
	/* Resources that no job has a reservation for are not kept while no time is known. */
	"machine 8\n"
	"job A alice v 0 7\njob Z alice v 0 1\n"
	"pick A Z\n"
	"ends A 100\n"
	"job B bob v 0 8\n"
	"pick\n"
	"job C carol v 5 1\n"
	"end Z\n"
	"job Y alice w 9 1\n"
	"pick Y",
	/* A job of no resources. */
	"machine 0\njob A alice v 0 0\npick A",
	"machine 1/1/1\n"
	"job A a v 0 0/1/1\njob B b v 0 0/1/1\n"
	"pick A\n"
	"end A\n"
	"job C c v 0 0/0/1\n"
	"pick B\n"
	"end B\n"
	"pick C\n"
	"job D d v 0 0/1/1\njob E e v 0 0/1/1\njob F f v 0 0/1/1\n"
	"pick\n"
	"why D 1st in the queue: 1 GiB of memory wanted, 0 MiB free, 1 GiB held by jobs of c\n",
};

TEST(test_queue_scripts_give_the_expected_order)
{
	for (size_t i = 0; i < sizeof(SCRIPTS) / sizeof(SCRIPTS[0]); i++) {
		struct stage s = { .q = queue_new() };
		FREE_AUTO char *copy = xstrdup(SCRIPTS[i]);
		char *rest = NULL;
		for (char *l = strtok_r(copy, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest))
			stage_line(&s, l);
		for (size_t k = 0; k < NAMES; k++)
			queue_remove(s.q, s.job[k]);
		queue_free(s.q);
	}
}

static struct sim *sim_new(uint64_t seed)
{
	struct sim *s = xcalloc(1, sizeof(*s));
	s->random = seed;
	return s;
}

static void check_fair(const struct sim *s, int users, double wanted)
{
	size_t all = 0;
	for (int u = 0; u < users; u++) {
		size_t windows = 0;
		double least = sim_least(s, u, 600000, &windows);
		all += windows;
		if (least < wanted)
			fail_msg("user %d had %.2f GPUs in ten minutes, not %.2f", u, least,
			         wanted);
	}
	assert_true(all > 100);
}

/* 500 jobs of 1 to 8 GPUs, or of 1 and of 8, that run for 1 to 10 or 5 to 60 seconds.  In any ten
 * minutes, each of three waiting users has at least half of a third of the machine. */
TEST(test_each_waiting_user_gets_half_of_a_third)
{
	/* GPUs of a job of each user; 0: 1 to 8 */
	static const int MIXES[][3] = {
		{ 0, 0, 0 }, { 8, 1, 1 }, { 8, 8, 1 }, { 0, 1, 8 }, { 8, 8, 8 }
	};
	static const int64_t TIMES[][2] = { { 5000, 60000 }, { 1000, 10000 } };
	for (size_t m = 0; m < ARRAY_SIZE(MIXES) * ARRAY_SIZE(TIMES); m++) {
		const int *mix = MIXES[m % ARRAY_SIZE(MIXES)];
		const int64_t *time = TIMES[m / ARRAY_SIZE(MIXES)];
		struct sim *s = sim_new(m + 1);
		for (int i = 0; i < 500; i++) {
			int user = (int)sim_random(s, 3);
			int gpus = mix[user] ? mix[user] : 1 + (int)sim_random(s, 8);
			uint64_t spread = (uint64_t)(time[1] - time[0]) + 1;
			struct sim_job *j =
			    sim_add(s, user, gpus, 0, time[0] + (int64_t)sim_random(s, spread));
			j->tasks = gpus % 2 ? gpus : gpus / 2;
		}
		sim_run(s);
		if (s->fault)
			fail_msg("%s", s->fault);
		check_fair(s, 3, 8.0 / 3 / 2);
		assert_true(sim_used(s) > 0.75);
		free(s);
	}
}

/* A user that had the machine for itself for an hour is not punished when others come. */
TEST(test_user_alone_for_an_hour_is_not_punished_later)
{
	struct sim *s = sim_new(1);
	for (int i = 0; i < 700; i++)
		sim_add(s, 0, 1 + (int)sim_random(s, 8), 0, 1000 + (int64_t)sim_random(s, 59000));
	for (int i = 0; i < 400; i++)
		sim_add(s, 1 + (int)sim_random(s, 2), 1 + (int)sim_random(s, 8), 3600000,
		        1000 + (int64_t)sim_random(s, 59000));
	sim_run(s);
	if (s->fault)
		fail_msg("%s", s->fault);
	check_fair(s, 3, 8.0 / 3 / 2);
	free(s);
}

/* Returns the number of jobs that started while this one waited. */
static unsigned passed_by(const struct sim *s, const struct sim_job *j)
{
	unsigned n = 0;
	for (size_t i = 0; i < s->n; i++)
		n += s->jobs[i].starts_ms >= j->arrives_ms && s->jobs[i].number < j->number;
	return n;
}

/* A job of all GPUs in a stream of small ones of two users, more than the machine can run. If its
 * user had no job before, no job passes it, except those that start when it arrives. Otherwise each
 * of the other users starts jobs up to its deficit: the run of the earlier job, the lead of 20 s
 * and the count of tasks in advance. */
TEST(test_job_of_all_gpus_starts_in_a_stream_of_small_ones)
{
	enum { RUNS_S = 30, JOBS = 10 };
	for (int seconds = 1; seconds <= 32; seconds *= 2) {
		struct sim *s = sim_new((uint64_t)seconds);
		size_t large[JOBS];
		size_t n = 0;
		for (int i = 0; i < 2000; i++) {
			int64_t at = (int64_t)i * seconds * 1000 / 12;
			sim_add(s, i % 2, 1, at, (int64_t)seconds * 1000);
			if (n < JOBS && i % 150 == 149) {
				large[n++] = s->n;
				sim_add(s, 2, 8, at, (int64_t)RUNS_S * 1000);
			}
		}
		sim_run(s);
		if (s->fault)
			fail_msg("%s", s->fault);
		assert_true(passed_by(s, &s->jobs[large[0]]) <= 2);
		for (size_t i = 1; i < n; i++) {
			/* Those that waited for the one before are not counted twice. */
			struct sim_job j = s->jobs[large[i]];
			const struct sim_job *before = &s->jobs[large[i - 1]];
			int64_t ended = before->starts_ms + before->runs_ms;
			j.arrives_ms = j.arrives_ms > ended ? j.arrives_ms : ended;
			unsigned bound =
			    2 * (unsigned)((RUNS_S + 20 + 2 + 1) * SIM_GPUS / (seconds + 1) + 1);
			if (passed_by(s, &j) > bound)
				fail_msg("%d s: %u jobs passed, not %u", seconds, passed_by(s, &j),
				         bound);
		}
		free(s);
	}
}

/*
 * Jobs of all sizes and priorities, of users whose shares change, most with time limits, in two
 * virtual clusters, some with a quota; some pull their images for longer than there is time.  The
 * first job never starts later than it could at any moment at which it was the first (sim_run).
 */
static void run_promises(bool limits)
{
	size_t undone = 0;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct sim *s = sim_new(seed);
		int64_t at = 0;
		s->quota[0] = seed % 4 == 0 ? 6 : 0;
		for (int u = 0; limits && u < 3; u++) /* the fourth has none */
			s->limit[u] = 3 + (int64_t)(seed + (uint64_t)u) % 5;
		s->lowers = limits && seed % 2;
		for (int i = 0; i < 400; i++) {
			int64_t runs = 5000 + (int64_t)sim_random(s, 120000);
			bool large = sim_random(s, 4) == 0;
			int gpus = 1 + (int)sim_random(s, large ? 8 : 3);
			at += (int64_t)sim_random(s, 60000);
			struct sim_job *j = sim_add(s, (int)sim_random(s, 4), gpus, at, runs);
			j->priority = sim_random(s, 6) ? 10 : (int)sim_random(s, 100);
			j->cluster = (int)sim_random(s, 2);
			if (s->quota[j->cluster] && gpus > s->quota[j->cluster])
				j->gpus = j->tasks = 1;
			if (limits && gpus > 3)
				j->gpus = j->tasks = 3;
			if (sim_random(s, seed % 3 ? 40 : 5))
				j->limit_ms = runs + (int64_t)sim_random(s, 2) * runs;
			if (sim_random(s, 4) == 0)
				j->pulls_ms = (int64_t)sim_random(s, 60000);
		}
		sim_run(s);
		if (s->fault)
			fail_msg("seed %u: %s", (unsigned)seed, s->fault);
		assert_true(limits || s->promises > 50);
		undone += s->undone;
		free(s);
	}
	assert_true(undone > 0);
}

TEST(test_first_job_never_starts_later_than_it_could)
{
	run_promises(false);
}

/* The same with limits of users, which change: none is ever exceeded by a start, and all jobs
 * start. */
TEST(test_first_job_never_starts_later_beside_limits_of_users)
{
	run_promises(true);
}

/* The use of eight GPUs while jobs wait, in hundredths.  LOCAL.md has these figures. */
static long used_with(bool limits)
{
	struct sim *s = sim_new(1);
	int64_t at = 0;
	for (int i = 0; i < 1000; i++) {
		static const int SIZES[] = { 1, 1, 1, 2, 2, 4, 8 };
		int64_t runs = 300000 + (int64_t)sim_random(s, 3300000);
		int gpus = SIZES[sim_random(s, 7)];
		at += (int64_t)sim_random(s, 1320000);
		struct sim_job *j = sim_add(s, (int)sim_random(s, 4), gpus, at, runs);
		j->limit_ms = limits ? runs + (int64_t)sim_random(s, 1 + (uint64_t)runs) : 0;
	}
	sim_run(s);
	if (s->fault)
		fail_msg("%s", s->fault);
	long used = lround(100 * sim_used(s));
	free(s);
	return used;
}

TEST(test_use_of_the_gpus_equals_the_documented_figures)
{
	assert_int_equal(used_with(false), 84);
	assert_int_equal(used_with(true), 94);
}

/* 10000 tasks of 2000 jobs and 500 users: a pick visits each once.  The time is not checked; a
 * quadratic pick would take minutes under sanitizers. */
TEST(test_pick_takes_linear_time_for_many_tasks)
{
	struct queue *q = queue_new();
	q->total.gpus = 100;
	struct queue_job **jobs = xcalloc(2000, sizeof(struct queue_job *));
	FREE_AUTO struct queue_task *tasks = xcalloc(10000, sizeof(struct queue_task));
	for (int i = 0; i < 10000; i++) {
		STR_AUTO user = STR_INIT(20);
		str_int(&user, i / 5 % 500);
		if (i % 5 == 0)
			jobs[i / 5] = queue_add(q, str_view(&user), SPAN("v"));
		jobs[i / 5]->gang = i / 5 % 2;
		tasks[i].need.gpus = 1;
		queue_add_task(q, jobs[i / 5], &tasks[i], false);
	}
	struct queue_tasks started;
	for (int round = 0; round < 200; round++) {
		queue_time_now(q, (int64_t)round * 1000);
		queue_pick(q, &started);
	}
	assert_int_equal(q->machine.sum.running, 100);
	STR_AUTO why = STR_INIT(1000);
	for (int i = 0; i < 2000; i++)
		(void)queue_reason(q, jobs[i], &why);
	for (int i = 0; i < 2000; i++)
		queue_remove(q, jobs[i]);
	queue_free(q);
	free(jobs);
}

/* Have all been tried? */
static bool pick_at(struct queue *q, int64_t now_ms, size_t running)
{
	struct queue_tasks started;
	queue_time_now(q, now_ms);
	queue_pick(q, &started);
	assert_int_equal(q->machine.sum.running, running);
	return q->whole_ms == now_ms;
}

/* A pick tries only the first of many waiting jobs; once in a second, it tries all. */
TEST(test_pick_tries_all_jobs_only_once_in_a_second)
{
	enum { JOBS = 1002, LAST = JOBS - 1 };
	struct queue *q = queue_new();
	struct queue_job *job[JOBS];
	static struct queue_task task[JOBS];
	const struct amounts total = { .cpus = 1000 };
	q->total = total;
	for (size_t i = 0; i < JOBS; i++) {
		job[i] = queue_add(q, SPAN("u"), SPAN("v"));
		task[i].need = total;
		if (i < LAST)
			queue_add_task(q, job[i], &task[i], false);
	}
	assert_true(pick_at(q, 5000, 1));
	assert_int_equal(job[LAST - 1]->place, LAST - 1);
	queue_add_task(q, job[LAST], &task[LAST], false);
	assert_false(pick_at(q, 5500, 1));
	assert_int_equal(job[LAST]->place, 0); /* it is about to enter the queue */
	assert_true(pick_at(q, 6000, 1));
	assert_int_equal(job[LAST]->place, LAST);
	queue_end(q, &task[0]);
	assert_false(pick_at(q, 6500, 1)); /* the second one has all again */
	for (size_t i = 0; i < JOBS; i++)
		queue_remove(q, job[i]);
	queue_free(q);
}

TEST(test_queue_reason_shows_different_amounts_as_different)
{
	struct queue *q = queue_new();
	for (int64_t less = 1; less < 1 << 30; less *= 7) {
		STR_AUTO why = STR_INIT(1024);
		STR_AUTO never = STR_INIT(1024);
		int64_t gib[2];
		struct queue_tasks started;
		struct queue_task t = { .need.memory = INT64_C(32000) << 20 };
		q->total.memory = t.need.memory - less;
		const struct queue_bounds b = { SPAN("default"), &q->total };
		struct queue_job *job = queue_add(q, SPAN("alice"), SPAN("default"));
		queue_add_task(q, job, &t, false);
		queue_pick(q, &started);
		assert_true(queue_reason(q, job, &why));
		assert_true(queue_never(q, &b, &t.need, "", &never));
		/* "can never start: 31.25 GiB of memory wanted, 31.2499 GiB on this machine" */
		const char *at[] = { strstr(str_c(&why), ": "), strstr(str_c(&why), "wanted, ") };
		for (int k = 0; k < 2; k++)
			gib[k] = (int64_t)(strtod(strchr(at[k], ' ') + 1, NULL) * 1e9);
		assert_int_not_equal(gib[0], gib[1]);
		at[0] = str_c(&never);
		at[1] = strstr(str_c(&never), "has ") + 3;
		for (int k = 0; k < 2; k++)
			gib[k] = (int64_t)(strtod(at[k], NULL) * 1e9);
		assert_int_not_equal(gib[0], gib[1]);
		queue_remove(q, job);
	}
	queue_free(q);
}

/* GPUs count for the virtual cluster of their job from the first time that the queue is told. */
TEST(test_gpus_held_add_up_by_virtual_cluster)
{
	struct queue *q = queue_new();
	struct queue_job *one = queue_add(q, SPAN("alice"), SPAN("vc1"));
	struct queue_job *two = queue_add(q, SPAN("bob"), SPAN("vc2"));
	struct queue_task tasks[2] = { { .need.gpus = 2 }, { .need.gpus = 0 } };
	queue_add_task(q, one, &tasks[0], true);
	queue_add_task(q, two, &tasks[1], true);
	queue_time_now(q, 1000000);
	queue_time_now(q, 1000500);
	queue_time_now(q, 1000400); /* a time in the past */
	queue_end(q, &tasks[0]);
	queue_time_now(q, 1009000);
	for (const struct queue_group *p = q->machine.next; p; p = p->next)
		assert_int_equal(p->gpu_ms, strcmp(p->name, "vc1") == 0 ? 1000 : 0);
	queue_remove(q, one);
	queue_remove(q, two);
	queue_free(q);
}
