#pragma once
/*
 * A submission against the small API server of world.h, and the rule that all tests of submissions
 * look at: when it went well everything is there and started; when it did not nothing is left,
 * unless the error is OutcomeUnknown.
 */
#include "base/posix/clock.h"
#include "tests/unit/jobs/world.h"

#include "jobs/submit/submission.h"

#define HERE "{\"metadata\":{\"labels\":{\"rest-lit/instance\":\"here\"}}}"

#define START "{\"spec\":{\"executionType\":\"Start\"}}"

static struct object OBJECTS[] = {
	{ KIND_SECRET, "f-configcred", { "{\"owner\":\"\"}", 12 }, 10 },
	{ KIND_PRIORITYCLASS, "f-priority", { HERE, sizeof(HERE) - 1 }, 0 },
	{ KIND_CONFIGMAP, "f-env", { "{\"owner\":\"\"}", 12 }, 10 },
	{ KIND_FRAMEWORK, "f", { HERE, sizeof(HERE) - 1 }, 0 },
};
static const struct objects FOUR = { .v = OBJECTS, .n = 4 };
static struct object ALONE = { KIND_FRAMEWORK, "f", { START, sizeof(START) - 1 }, 0 };
static const struct objects ONE = { .v = &ALONE, .n = 1 };

/* Held ones: with dependents, with one POST, and with an order. */
#define HOLD "\"annotations\":{\"rest-lit/hold\":\"{}\"}"
static struct object HELD_OBJECTS[] = {
	{ KIND_SECRET, "f-configcred", { "{\"owner\":\"\"}", 12 }, 10 },
	{ KIND_FRAMEWORK, "f",
	  SPAN("{\"metadata\":{" HOLD ",\"labels\":{\"rest-lit/instance\":\"here\"}}}"), 0 },
};
static const struct objects TWO_HELD = { .v = HELD_OBJECTS, .n = 2 };
static struct object HELD_ALONE = {
	KIND_FRAMEWORK, "f",
	SPAN("{\"metadata\":{" HOLD "},\"spec\":{\"executionType\":\"Create\",\"complete\":1}}"), 0
};
static const struct objects ONE_HELD = { .v = &HELD_ALONE, .n = 1 };
static const struct objects ONE_ORDERED = { .v = &HELD_OBJECTS[1], .n = 1 };

static bool are_held(const struct objects *o)
{
	return o == &TWO_HELD || o == &ONE_HELD || o == &ONE_ORDERED;
}

struct end {
	int calls, http;
	bool again;
	char code[32], text[512];
};

static void ended(void *arg, const struct err *e, bool again)
{
	struct end *end = arg;
	end->again = again;
	end->calls++;
	end->http = e->http;
	(void)snprintf(end->code, sizeof(end->code), "%s", e->code ? e->code : "");
	(void)snprintf(end->text, sizeof(end->text), "%s", err_msg(e));
}

/* Makes delayed requests due at once. */
static void hurry(struct world *w)
{
	for (struct pending *p = w->s.later.head; p != NULL; p = p->next)
		p->due_ms = 0;
	w->s.wake_ms = 0;
}

static struct end submit_with(struct world *w, const struct objects *o,
                              const struct submission_options *opt)
{
	struct end end = { 0 };
	submission_start(&w->s, o, opt, ended, &end);
	assert_int_equal(end.calls, 0);
	while (end.calls == 0) {
		store_reap(&w->s);
		store_start(&w->s);
		hurry(w);
	}
	assert_int_equal(end.calls, 1);
	assert_int_equal(store_pending(&w->s), 0);
	return end;
}

static struct end submit(struct world *w, const struct objects *o, int64_t ms, bool dry_run)
{
	struct submission_options opt = { .submission_id = ID,
		                          .display_name = "alice~x",
		                          .deadline_ms = clock_ms() + ms,
		                          .held = are_held(o),
		                          .ordered = o == &ONE_ORDERED,
		                          .dry_run = dry_run };
	return submit_with(w, o, &opt);
}

static void check_rule(struct world *w, const struct objects *o, const struct end *end)
{
	struct thing *f = find(w, KIND_FRAMEWORK, "f");
	if (end->http == 0) {
		assert_int_equal(count(w), o->n);
		assert_non_null(f);
		assert_true(are_held(o) ? f->held && f->bare && !f->started : f->started);
	} else if (end->http != 504) {
		assert_int_equal(count(w), 0);
	} else {
		assert_string_equal(end->code, "OutcomeUnknown");
		assert_non_null(strstr(end->text, ID));
	}
}

/* Run a plan from a clean world and check the rule. */
static struct end run_plan(const enum fault *plan, size_t n, const struct objects *o)
{
	WORLD(w);
	for (size_t i = 0; i < PLAN; i++)
		w.plan[i] = i < n ? plan[i] : FINE;
	struct end end = submit(&w, o, 100000, false);
	check_rule(&w, o, &end);
	return end;
}

/* The fault at one request, and all is well otherwise. */
static struct end fault_at(size_t at, enum fault f, const struct objects *o)
{
	enum fault plan[PLAN] = { 0 };
	plan[at] = f;
	return run_plan(plan, PLAN, o);
}
