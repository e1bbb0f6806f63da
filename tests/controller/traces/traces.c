/*
 * traces FILE...
 *
 * Feeds the stimuli of recorded traces (tests/machine) to the rules of the controller, which drive
 * the machine between watches and requests.
 *
 * First as the traces are, in a fixed order of events, requests and answers, and in random orders.
 * After each step what is there, and the creations and deletions, must be those of the record,
 * except that
 *
 * - transitions are not compared: the rules do not tell them, and a state that is passed in one
 *   sync is not stored;
 * - a task of a race may have either text of -101 (see tests/machine/replay.c);
 * - writes of the status are not compared one by one;
 * - of a step that the record calls nondeterministic only the end is (create-no-type, the last
 * one);
 * - an object that a controller was killed over is adopted (trace_adopts);
 * - a removal without effect is asked for again (trace_waits);
 * - in a random order, a trace ends before a step in which pods are created and the attempt ends;
 *   such a step gets no faults, either (5 traces).
 *
 * Then each step again with a fault in it (enum fault_kind), from which the rest of the trace is
 * played as if nothing had been.  The end must be the same (ends.c), and no pod may live that no
 * task has.
 *
 * In the environment: TEST_WHOLE=1, a ninth of all faults at all requests, chosen by TRACES_SEED
 * (nine seeds in a row have all), and 40 random orders; else one fault for each step, chosen by
 * TRACES_SEED, and 2 orders.  TRACES_FAULT=STEP:KIND:N:EXTRA, only this one, and tells what
 * happens; TRACES_FAULT=-, tells what happens without faults.
 * TRACES_STOP=1: not beyond the first trace that fails.
 *
 * Exit status: that of the worst trace, as tests/machine/replay.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/enc.h"
#include "tests/controller/traces/play.h"
#include "tests/lib/jsondiff.h"

/* `verbs`: that requests of these verbs can have it (play.h); NULL: it needs none.  `extra`: its
 * values, from 1; of a relist from 0. */
static const struct fault_row {
	const char *name;
	const char *verbs;
	int extra;
} FAULTS[FAULT_MAX] = {
	[FAULT_NONE] = { "none", "", 0 },
	[FAULT_LOST] = { "lost", "CPD", 1 },
	[FAULT_UNSENT] = { "unsent", "CGPDR", 1 },
	[FAULT_VOID] = { "void", "D", 1 },
	[FAULT_LATE] = { "late", "CPD", 3 },
	[FAULT_KILL_BEFORE] = { "kill-before", NULL, 1 },
	[FAULT_KILL_AFTER] = { "kill-after", "CPD", 1 },
	[FAULT_KILL_LATE] = { "kill-late", "CPD", 3 },
	[FAULT_KILL_OLD] = { "kill-old", "CPD", 1 },
	[FAULT_CONFLICT] = { "conflict", "CPD", 1 },
	[FAULT_TAKEN] = { "taken", "P", 1 },
	[FAULT_RETAKEN] = { "retaken", "P", 1 },
	[FAULT_429] = { "429", "CGPDR", 1 },
	[FAULT_503] = { "503", "CGPDR", 1 },
	[FAULT_500] = { "500", "CGPDR", 1 },
	[FAULT_FULL] = { "full", "CGPDR", 1 },
	[FAULT_FOREIGN] = { "foreign", "P", 1 },
	[FAULT_EARLY] = { "early", "P", 1 },
	[FAULT_SHRINK] = { "shrink", "C", 3 },
	[FAULT_RELIST] = { "relist", NULL, WATCHES },
	[FAULT_RELIST_OLD] = { "relist-old", NULL, WATCHES },
	[FAULT_STALE] = { "stale", NULL, (1 << WATCHES) - 1 },
};

enum {
	ORDERS = 2, /* random ones */
	ORDERS_WHOLE = 40,
	SHARES = 9, /* of all faults, of which a run with all cases has one */
	FIRST_MOST = 6,
	LAST_MOST = 2, /* requests of a step, which get faults */
	STALE_MOST = 5 /* events */
};

struct totals {
	size_t steps, faults, traces, failed;
	size_t writes, creates, deletes, looks, reviews; /* requests */
	size_t recorded;                                 /* requests of FrameworkController */
};
static struct totals totals;

/* Variables of the environment; NULL: not set, or empty. */
static struct {
	const char *fault, *whole, *seed, *stop;
} asked;

static const char *variable(const char *name)
{
	const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */
	return value && value[0] ? value : NULL;
}

static uint64_t seed_asked(void)
{
	int64_t seed = 1;
	if (asked.seed)
		(void)parse_i64(span_of(asked.seed), 0, INT64_MAX, &seed);
	return (uint64_t)seed;
}

static uint64_t seed_of(const char *file, size_t step)
{
	uint64_t h = 1469598103934665603u + seed_asked();
	for (const char *c = file; *c; c++)
		h = (h ^ (unsigned char)*c) * 1099511628211u;
	h = (h ^ step) * 1099511628211u;
	return h ^ (h >> 29);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void traces_tell(const char *file, const struct play *p, const char *says)
{
	const struct fault *f = &p->fault;
	if (f->kind == FAULT_NONE)
		fprintf(stderr, "%s: random order %llu: %s\n", file, (unsigned long long)p->order,
		        says);
	else
		fprintf(stderr, "%s: TRACES_FAULT=%zu:%s:%zu:%d: %s\n", file, f->step,
		        FAULTS[f->kind].name, f->n, f->extra, says);
}

static bool traces_no_stray(const char *file, const struct play *p)
{
	const char *stray = server_stray(&p->server);
	if (!stray)
		return true;
	FREE_AUTO char *says = xasprintf("the pod %s is in no task", stray);
	traces_tell(file, p, says);
	return false;
}

/* The end of the trace against the record. */
static bool traces_same_end(const char *file, const struct play *p, json_t *recorded)
{
	enum { SHOWN = 200 };
	bool same = true;
	JSON_AUTO *got = scene_after(&p->scene);
	symbols_shorten(got, recorded);
	end_allow_trigger(recorded, got);
	if (p->fault.kind == FAULT_EARLY)
		end_allow_early(
		    recorded, got,
		    json_array_get(json_object_get(p->scene.trace, "steps"), p->fault.step + 1));
	JSON_AUTO *want_end = end_of(recorded);
	JSON_AUTO *got_end = end_of(got);
	struct differences d = { 0 };
	json_differences(want_end, got_end, &d);
	for (size_t i = 0; i < d.n; i++) {
		FREE_AUTO char *a =
		    d.v[i].want ? json_dumps(d.v[i].want, JSON_ENCODE_ANY) : xstrdup("nothing");
		FREE_AUTO char *b =
		    d.v[i].got ? json_dumps(d.v[i].got, JSON_ENCODE_ANY) : xstrdup("nothing");
		FREE_AUTO char *says = xasprintf("the end differs: %s: recorded %.*s, now %.*s",
		                                 d.v[i].at, SHOWN, a, SHOWN, b);
		traces_tell(file, p, says);
		same = false;
	}
	differences_done(&d);
	return traces_no_stray(file, p) && same;
}

/* ---- without faults -------------------------------------------------------------------------- */

static void count_requests(const struct play *p, const json_t *step)
{
	for (size_t i = 0; i < p->verbs.n; i++) {
		totals.writes += p->verbs.p[i] == 'P';
		totals.creates += p->verbs.p[i] == 'C';
		totals.deletes += p->verbs.p[i] == 'D';
		totals.looks += p->verbs.p[i] == 'G';
		totals.reviews += p->verbs.p[i] == 'R';
	}
	totals.recorded += json_array_size(json_object_get(step, "requests"));
}

/* In this step pods were created, and the attempt ended: in another order of events it ends before
 * some of these pods are created. */
static bool step_is_crossed(const json_t *step)
{
	size_t i;
	json_t *request;
	bool creates = false;
	bool ends = false;
	json_array_foreach (json_object_get(step, "requests"), i, request) {
		const char *verb = reply_text(request, "verb");
		const char *kind = reply_text(request, "kind");
		creates |= strcmp(verb, "create") == 0 && strcmp(kind, "Pod") == 0;
		ends |= strcmp(verb, "delete") == 0 && strcmp(kind, "ConfigMap") == 0;
	}
	return creates && ends;
}

/* Instead of a comparison. */
static bool plain_end(const struct play *p, struct comparison *c)
{
	JSON_AUTO *recorded = compare_recorded(c);
	return traces_same_end(c->file, p, recorded);
}

/* Plays the trace and compares each step.  order 0: the fixed one, whose requests are appended to
 * `verbs`, a text for each step. */
static bool traces_plain(const char *file, const json_t *trace,
                         const struct framework_config *config, uint64_t order, json_t *verbs)
{
	struct play p;
	struct comparison c;
	ERR_AUTO e = { 0 };
	size_t i;
	json_t *step;
	bool same = true;
	play_begin(&p, config, trace);
	p.tells = order == 0 && asked.fault;
	p.order = order;
	p.random += order;
	compare_begin(&c, file, &p.scene);
	json_array_foreach (json_object_get(trace, "steps"), i, step) {
		totals.steps++;
		if (play_step(&p, step, &e) < 0 || p.server.broken) {
			traces_tell(file, &p, p.server.broken ? p.server.broken : err_msg(&e));
			same = false;
		}
		if (same && order > 0 && step_is_crossed(step))
			break;
		if (same && !json_object_get(step, "nondeterministic"))
			compare_step(&c, false);
		else if (same)
			same = plain_end(&p, &c);
		same = same && !c.different;
		if (order == 0) {
			json_array_append_new(verbs, json_string(str_c(&p.verbs)));
			count_requests(&p, step);
		}
		if (!same)
			break;
	}
	if (!same && order > 0)
		traces_tell(file, &p, "see the lines above");
	compare_end(&c);
	play_end(&p);
	return same;
}

/* ---- with a fault ---------------------------------------------------------------------------- */

/* The rest of the trace after p and c, from the step of the fault on. */
static bool fault_play(const char *file, struct play *p, struct comparison *c, json_t *steps)
{
	ERR_AUTO e = { 0 };
	json_t *recorded = NULL;
	for (size_t i = p->fault.step; i < json_array_size(steps); i++) {
		int played = play_step(p, json_array_get(steps, i), &e);
		if (played < 0 && p->fault.kind == FAULT_EARLY && !p->server.broken) {
			json_decref(recorded);
			return true; /* what it speaks of was never there */
		}
		if (played < 0 || p->server.broken) {
			FREE_AUTO char *says =
			    xasprintf("step %zu cannot be played: %s", i,
			              p->server.broken ? p->server.broken : err_msg(&e));
			traces_tell(file, p, says);
			json_decref(recorded);
			return false;
		}
		if (p->fault.kind == FAULT_SHRINK) {
			json_decref(recorded);
			return traces_no_stray(file, p);
		}
		p->scene.step = json_array_get(steps, i); /* FAULT_EARLY is ahead */
		json_t *after = compare_recorded(c);
		if (after) {
			json_decref(recorded);
			recorded = after;
		}
	}
	bool same = traces_same_end(file, p, recorded);
	json_decref(recorded);
	return same;
}

/* In a process of its own, which begins where p is. */
static bool fault_fork(const char *file, struct play *p, struct comparison *c, json_t *steps)
{
	int status = 0;
	(void)fflush(NULL); /* nothing is written twice */
	pid_t child = fork();
	if (child == 0)
		_exit(fault_play(file, p, c, steps) ? 0 : 1);
	totals.faults++;
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return false;
	if (WIFSIGNALED(status))
		traces_tell(file, p, sigdescr_np(WTERMSIG(status)));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

typedef bool fault_visit(void *arg, const struct fault *f);

struct fault_step {
	size_t step;
	const char *verbs; /* its requests */
	bool patch;        /* the next stimulus is a patch of the Framework */
};

/* All faults of a step, until one visit is false. */
static bool faults_each(const struct fault_step *at, fault_visit *visit, void *arg)
{
	size_t n_max = strlen(at->verbs);
	for (int kind = 1; kind < FAULT_MAX; kind++) {
		const struct fault_row *row = &FAULTS[kind];
		bool stale = kind == FAULT_STALE;
		bool relist = kind == FAULT_RELIST || kind == FAULT_RELIST_OLD;
		if (kind == FAULT_EARLY && !at->patch)
			continue;
		size_t first = row->verbs || stale ? 1 : 0;
		size_t last = stale ? STALE_MOST : n_max;
		for (size_t n = first; n <= last; n++) {
			if ((row->verbs && !strchr(row->verbs, at->verbs[n - 1])) ||
			    (n > FIRST_MOST && n + LAST_MOST <= n_max))
				continue;
			for (int extra = 0; extra < row->extra; extra++) {
				const struct fault f = { (enum fault_kind)kind, at->step, n,
					                 relist ? extra : extra + 1 };
				if (!visit(arg, &f))
					return false;
			}
		}
	}
	return true;
}

struct chooser {
	uint64_t left; /* faults before the chosen one */
	struct fault chosen;
};

static bool fault_count(void *arg, const struct fault *f)
{
	(void)f;
	++*(uint64_t *)arg;
	return true;
}

static bool fault_choose(void *arg, const struct fault *f)
{
	struct chooser *choose = arg;
	choose->chosen = *f;
	return choose->left-- > 0;
}

struct faulty {
	const char *file;
	struct play *p;
	struct comparison *c;
	json_t *steps;
	uint64_t seen; /* faults of the trace that could be tried */
	bool same;
};

static bool fault_try(void *arg, const struct fault *f)
{
	struct faulty *all = arg;
	all->p->fault = *f;
	all->same &= fault_fork(all->file, all->p, all->c, all->steps);
	all->p->fault = (struct fault){ 0 };
	return true;
}

static bool fault_try_share(void *arg, const struct fault *f)
{
	struct faulty *all = arg;
	return (all->seen++ + seed_asked()) % SHARES != 0 || fault_try(all, f);
}

/* The fault that the environment asks for, as STEP:KIND:N:EXTRA; false: none, or another step. */
static bool fault_asked(size_t step, struct fault *f)
{
	struct span rest = span_of(asked.fault);
	int64_t at = -1;
	int64_t n = 0;
	int64_t extra = 0;
	(void)parse_i64(span_next(&rest, ':'), 0, INT32_MAX, &at);
	struct span name = span_next(&rest, ':');
	(void)parse_i64(span_next(&rest, ':'), 0, INT32_MAX, &n);
	(void)parse_i64(rest, 0, INT32_MAX, &extra);
	for (int kind = 1; at == (int64_t)step && kind < FAULT_MAX; kind++) {
		if (!span_is(name, FAULTS[kind].name))
			continue;
		*f = (struct fault){ (enum fault_kind)kind, step, (size_t)n, (int)extra };
		return true;
	}
	return false;
}

static void faults_of_step(struct faulty *all, const struct fault_step *at)
{
	struct chooser choose = { 0 };
	uint64_t n = 0;
	if (asked.fault) {
		all->p->tells = true;
		if (fault_asked(at->step, &choose.chosen))
			(void)fault_try(all, &choose.chosen);
		all->p->tells = false;
	} else if (asked.whole) {
		(void)faults_each(at, fault_try_share, all);
	} else {
		(void)faults_each(at, fault_count, &n);
		choose.left = n ? seed_of(all->file, at->step) % n : 0;
		(void)faults_each(at, fault_choose, &choose);
		if (n)
			(void)fault_try(all, &choose.chosen);
	}
}

/* Plays the trace once more, and from each step on its rest with faults. */
static bool traces_faulty(const char *file, const json_t *trace,
                          const struct framework_config *config, const json_t *verbs)
{
	struct play p;
	struct comparison c;
	ERR_AUTO e = { 0 };
	size_t i;
	json_t *step;
	json_t *steps = json_object_get(trace, "steps");
	struct faulty all = { file, &p, &c, steps, 0, true };
	play_begin(&p, config, trace);
	compare_begin(&c, file, &p.scene);
	json_array_foreach (steps, i, step) {
		const struct fault_step at = { i, json_string_value(json_array_get(verbs, i)),
			                       step_is_patch(json_array_get(steps, i + 1)) };
		if (!step_is_crossed(step))
			faults_of_step(&all, &at);
		if (play_step(&p, step, &e) < 0)
			all.same = false;
		json_decref(compare_recorded(&c));
	}
	compare_end(&c);
	play_end(&p);
	return all.same;
}

/* ---- what is not as recorded ----------------------------------------------------------------- */

/* A controller that was killed between a creation and the write of the status has left an object
 * that the status does not name.  FrameworkController deletes it, and makes another; the rules go
 * on with it.  So in these traces the end of the step in which the controller starts is that of the
 * first step, and the rest is left out. */
static void trace_adopts(const char *file, json_t *trace)
{
	json_t *steps = json_object_get(trace, "steps");
	size_t i = 0;
	if (strcmp(file, "crash-configmap-created.json") != 0 &&
	    strcmp(file, "crash-pod-created.json") != 0)
		return;
	json_t *first = json_object_get(json_array_get(steps, 0), "after");
	json_t *step = json_array_get(steps, 0);
	while (strcmp(reply_text(json_object_get(step, "stimulus"), "op"), "controller.start") != 0)
		step = json_array_get(steps, ++i);
	json_object_set(step, "after", first);
	json_object_set_new(step, "nondeterministic", json_true());
	while (json_array_size(steps) > i + 1)
		json_array_remove(steps, i + 1);
}

/* The status of this trace says from step 5 on that removals were asked for which nobody has asked
 * for.  FrameworkController waits for ever; the rules ask for them. */
static void trace_waits(const char *file, json_t *trace)
{
	json_t *steps = json_object_get(trace, "steps");
	while (strcmp(file, "requested-waits.json") == 0 && json_array_size(steps) > 5)
		json_array_remove(steps, 5);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int traces_play(const char *file, json_t *trace, const struct framework_config *config)
{
	const char *slash = strrchr(file, '/');
	const char *name = slash ? slash + 1 : file;
	if (totals.failed && asked.stop)
		return TRACE_EQUAL;
	JSON_AUTO *verbs = json_array();
	trace_adopts(name, trace);
	trace_waits(name, trace);
	bool same = traces_plain(name, trace, config, 0, verbs);
	uint64_t orders = asked.whole ? ORDERS_WHOLE : ORDERS;
	for (uint64_t order = 1; same && order <= orders; order++)
		same = traces_plain(name, trace, config, order, verbs);
	if (same)
		same = traces_faulty(name, trace, config, verbs);
	totals.traces++;
	totals.failed += !same;
	return same ? TRACE_EQUAL : TRACE_DIFFERENT;
}

int main(int argc, char **argv)
{
	asked.fault = variable("TRACES_FAULT");
	asked.whole = variable("TEST_WHOLE");
	asked.seed = variable("TRACES_SEED");
	asked.stop = variable("TRACES_STOP");
	int worst = trace_main(argc, argv, traces_play);
	printf("requests: %zu (%zu writes, %zu creations, %zu deletions, %zu looks, %zu reviews), "
	       "recorded %zu\n",
	       totals.writes + totals.creates + totals.deletes + totals.looks + totals.reviews,
	       totals.writes, totals.creates, totals.deletes, totals.looks, totals.reviews,
	       totals.recorded);
	printf("%zu steps, %zu faults\n", totals.steps, totals.faults);
	printf("%zu checks\n%zu passed, %zu failed\n", totals.steps + totals.faults,
	       totals.traces - totals.failed, totals.failed);
	return worst;
}
