/* The start of a job whose objects all exist, and the same request sent once more: a started job
 * stays, and a job that is not started is never reported as started. */
#include "base/posix/clock.h"
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/submission_kit.h"

/* ---- the start is in conflict ------------------------------------------------------------- */

TEST(test_submission_starts_again_after_conflicts)
{
	for (size_t n = 1; n < 6; n++) {
		WORLD(w);
		w.conflicts = n;
		struct end end = submit(&w, &FOUR, 100000, false);
		assert_int_equal(end.http, 0);
		check_rule(&w, &FOUR, &end);
		assert_int_equal(w.verbs[STORE_PATCH], n + 1);
	}
}

/* Executed once more, after the user has stopped the job: it is refused. */
TEST(test_submission_start_that_comes_late_takes_no_stop_back)
{
	WORLD(w);
	struct end end = submit(&w, &FOUR, 100000, false);
	assert_int_equal(end.http, 0);
	char body[sizeof(w.patched)];
	memcpy(body, w.patched, sizeof(body));
	const struct store_request late = { .verb = STORE_PATCH,
		                            .kind = KIND_FRAMEWORK,
		                            .name = "f",
		                            .json_patch = true,
		                            .body = { span_of(body) } };
	struct store_reply reply;
	execute(&w, &late, &reply);
	assert_int_equal(reply.outcome, STORE_REFUSED);
}

/* The store has repeated the PATCH, whose first try was executed. */
TEST(test_submission_start_refused_after_its_first_try_is_done)
{
	WORLD(w);
	w.late_at = 4;
	struct end end = submit(&w, &FOUR, 100000, false);
	assert_int_equal(end.http, 0);
	check_rule(&w, &FOUR, &end);
	assert_int_equal(w.verbs[STORE_PATCH], 1);
}

/* The submission does not wait for its deadline: after a failed test it reads the Framework of
 * that name, and again before it removes objects. */
TEST(test_submission_of_a_replaced_framework_is_503)
{
	WORLD(w);
	w.stolen_at = 4;
	struct end end = submit(&w, &FOUR, 100000, false);
	assert_int_equal(end.http, 503);
	assert_non_null(strstr(end.text, "deleted while it was being made"));
	assert_int_equal(w.verbs[STORE_PATCH], 1);
	assert_int_equal(w.verbs[STORE_GET], 2);
	assert_true(w.things[0].exists); /* that of another submission */
	assert_false(w.things[0].started);
	assert_null(find(&w, KIND_PRIORITYCLASS, "f-priority"));
}

TEST(test_submission_start_refused_as_invalid_is_400)
{
	struct end end = fault_at(4, INVALID, &FOUR);
	assert_int_equal(end.http, 400);
}

/* The outcome of the PATCH is unknown.  If it was executed, the job runs, and a repeated request
 * has been answered with success: the job stays. */
TEST(test_submission_started_by_a_lost_patch_stays)
{
	struct end end = fault_at(4, LOST, &FOUR);
	assert_int_equal(end.http, 0);
	assert_int_equal(fault_at(4, LOST_BEFORE, &FOUR).http, 503);
}

/* The same holds if the PATCH arrives between the GET and the removal. */
TEST(test_submission_started_before_its_removal_stays)
{
	WORLD(w);
	w.plan[4] = LOST_BEFORE;
	w.late_at = 6; /* 5: the look */
	struct end end = submit(&w, &FOUR, 100000, false);
	assert_int_equal(end.http, 0);
	check_rule(&w, &FOUR, &end);
}

/* A 200 is no proof: the answer must show the Framework of this submission started. */
TEST(test_submission_repeats_a_start_that_was_not_executed)
{
	for (size_t n = 1; n < 6; n++) {
		WORLD(w);
		w.idle = n;
		w.strips_labels = n % 2 == 0; /* nor is it that the label is gone */
		struct end end = submit(&w, &FOUR, 100000, false);
		assert_int_equal(end.http, 0);
		check_rule(&w, &FOUR, &end);
		assert_int_equal(w.verbs[STORE_PATCH], n + 1);
	}
}

/* The PATCH was executed, and the answer is another text. */
TEST(test_submission_start_with_an_odd_answer_is_verified)
{
	enum fault plan[] = { FINE, FINE, FINE, FINE, NO_UID, NO_UID };
	assert_int_equal(fault_at(4, NO_UID, &FOUR).http, 0);
	assert_int_equal(run_plan(plan, 6, &FOUR).http, 0);
}

/* The absence of the label rest-lit/creating is no proof of a start. */
TEST(test_submission_without_its_label_is_not_started)
{
	WORLD(w);
	w.strips_labels = true;
	w.plan[4] = LOST_BEFORE;
	struct end end = submit(&w, &FOUR, 100000, false);
	assert_int_equal(end.http, 503);
	check_rule(&w, &FOUR, &end);
}

/* A job that may run keeps its objects. */
TEST(test_submission_with_unknown_start_removes_nothing)
{
	WORLD(w);
	w.plan[4] = LOST;
	w.plan[5] = NOT_SENT;
	struct end end = submit(&w, &FOUR, 100000, false);
	assert_int_equal(end.http, 504);
	assert_int_equal(count(&w), FOUR.n);
}

/* A Framework without dependents is started as soon as it exists. */
TEST(test_submission_refused_after_its_creation_stays)
{
	WORLD(w);
	w.plan[0] = LOST_BEFORE;
	w.plan[2] = INVALID;
	w.late_at = 3; /* the first POST was slow */
	struct end end = submit(&w, &ONE, 100000, false);
	assert_int_equal(end.http, 0);
	assert_int_equal(count(&w), 1);
	assert_int_equal(w.verbs[STORE_DELETE], 0);
}

/* ---- the same request once more ------------------------------------------------------------ */

struct repeated {
	const char *there; /* rest-lit/idempotency of the Framework that is there */
	const char *sent;  /* of this request; NULL: without a key */
	int64_t now_s;
	int http;
	bool started, again, going;
};

static struct end submit_again(struct world *w, const struct repeated *r)
{
	struct thing *old = add(w, KIND_FRAMEWORK, "f", OTHER_ID);
	(void)snprintf(old->key, sizeof(old->key), "%s", r->there);
	old->started = r->started;
	old->going = r->going;
	w->now_s = r->now_s;
	struct submission_options opt = { .submission_id = ID,
		                          .display_name = "alice~x",
		                          .idempotency = r->sent,
		                          .deadline_ms = clock_ms() + 100000 };
	return submit_with(w, &FOUR, &opt);
}

TEST(test_submission_repeated_gives_the_first_job)
{
	static const struct repeated CASES[] = {
		{ "aa-bb", "aa-bb", NOW_S, 0, true, true, false },
		{ "aa-bb", "aa-cc", NOW_S, 422, true, false, false },
		{ "aa-bb", "aa-cc", NOW_S, 422, false, false, false },
		{ "aa-bb", "aa-b", NOW_S, 422, true, false, false },
		{ "aa-bb", "ab-bb", NOW_S, 409, true, false,
		  false }, /* another key: just a conflict */
		{ "aa-bb", "a-bb", NOW_S, 409, true, false, false },
		{ "aa-bb", NULL, NOW_S, 409, true, false, false },
		{ "", "aa-bb", NOW_S, 409, true, false, false },
		{ "aa-bb", "aa-bb", NOW_S + 22LL * HOUR_S, 0, true, true, false },
		{ "aa-bb", "aa-bb", NOW_S + 23LL * HOUR_S, 409, true, false, false }, /* 24 h old */
		{ "aa-bb", "aa-bb", NOW_S - 2LL * HOUR_S, 0, true, true,
		  false },                                           /* clocks that differ */
		{ "aa-bb", "aa-bb", 0, 409, true, false, false },    /* no clock */
		{ "aa-bb", "aa-bb", NOW_S, 503, true, false, true }, /* being deleted */
		{ "", NULL, NOW_S, 503, true, false, true },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		WORLD(w);
		struct end end = submit_again(&w, &CASES[i]);
		if (end.http != CASES[i].http || end.again != CASES[i].again)
			fail_msg("case %zu: %d %s", i, end.http, end.text);
		assert_int_equal(count(&w), 1); /* what was there, untouched */
		assert_int_equal(w.verbs[STORE_DELETE] + w.verbs[STORE_PATCH], 0);
		assert_int_equal(w.things[0].started, CASES[i].started);
	}
}

/* ---- an interrupted submission of the same request ------------------------------------------ */

/* All that a server had made when it was killed, an hour ago. */
static struct thing *interrupted(struct world *w)
{
	struct thing *old = add(w, KIND_FRAMEWORK, "f", OTHER_ID);
	(void)snprintf(old->key, sizeof(old->key), "aa-bb");
	(void)snprintf(add(w, KIND_SECRET, "f-configcred", OTHER_ID)->owner, sizeof(old->owner),
	               "%s", old->uid);
	add(w, KIND_PRIORITYCLASS, "f-priority", OTHER_ID);
	return old;
}

static struct end submit_keyed(struct world *w)
{
	struct submission_options opt = { .submission_id = ID,
		                          .display_name = "alice~x",
		                          .idempotency = "aa-bb",
		                          .deadline_ms = clock_ms() + 100000 };
	return submit_with(w, &FOUR, &opt);
}

TEST(test_submission_takes_over_an_interrupted_one)
{
	for (int bare = 0; bare < 2; bare++) {
		WORLD(w);
		interrupted(&w)->bare = bare;
		struct end end = submit_keyed(&w);
		assert_int_equal(end.http, 0);
		assert_false(end.again);
		check_rule(&w, &FOUR, &end);
		for (size_t i = 0; i < THINGS; i++)
			assert_true(!w.things[i].exists || strcmp(w.things[i].id, ID) == 0);
		assert_int_equal(w.verbs[STORE_DELETE], 2); /* Framework and PriorityClass */
	}
}

/* A submission that fails leaves no object. */
TEST(test_submission_takes_over_or_leaves_nothing)
{
	for (size_t at = 0; at < 10; at++) {
		for (size_t fault = NOT_SENT; fault < FAULT_MAX; fault++) {
			WORLD(w);
			interrupted(&w);
			w.plan[at] = (enum fault)fault;
			struct end end = submit_keyed(&w);
			for (size_t i = 0; end.http != 0 && i < THINGS; i++)
				w.things[i].exists &= strcmp(w.things[i].id, ID) == 0;
			check_rule(&w, &FOUR, &end);
		}
	}
}

/* The first server continues between the GET and the DELETE: its job is the answer. */
TEST(test_submission_started_before_the_take_over_stays)
{
	WORLD(w);
	struct thing *old = interrupted(&w);
	w.late_at = 2;
	struct end end = submit_keyed(&w);
	assert_int_equal(end.http, 0);
	assert_true(end.again);
	assert_true(old->exists && old->started);
	assert_int_equal(count(&w), 3);
}

/* The server that creates the job gets some seconds. */
TEST(test_submission_waits_before_it_takes_over)
{
	for (int late = 0; late < 2; late++) {
		WORLD(w);
		interrupted(&w);
		w.now_s = NOW_S - HOUR_S; /* it has just been made */
		w.tick_s = 1;
		w.late_at = late ? 2 : w.late_at;
		struct end end = submit_keyed(&w);
		assert_int_equal(end.http, 0);
		assert_int_equal(end.again, late);
		if (late) {
			assert_int_equal(w.verbs[STORE_DELETE], 0);
			continue;
		}
		check_rule(&w, &FOUR, &end);
		assert_int_equal(w.verbs[STORE_GET], 2 + 2); /* after 2, 3 s; class, owner */
	}
}

TEST(test_submission_takes_over_only_its_own_installation)
{
	WORLD(w);
	struct thing *old = interrupted(&w);
	(void)snprintf(old->instance, sizeof(old->instance), "elsewhere");
	struct end end = submit_keyed(&w);
	assert_string_equal(end.code, "ConflictJobError");
	assert_int_equal(count(&w), 3);
}

/* This server was stopped and continues: the job runs, and the objects of this server go. */
TEST(test_submission_taken_over_gives_the_new_job)
{
	WORLD(w);
	w.stolen_at = 4; /* the PATCH */
	w.stolen_key = "aa-bb";
	struct end end = submit_keyed(&w);
	assert_int_equal(end.http, 0);
	assert_true(end.again);
	assert_true(w.things[0].exists && w.things[0].started);
	assert_null(find(&w, KIND_PRIORITYCLASS, "f-priority"));
}

/* The PriorityClass that it finds is that of the new Framework. */
TEST(test_submission_taken_over_replaces_no_object)
{
	WORLD(w);
	struct thing *class = add(&w, KIND_PRIORITYCLASS, "f-priority", OTHER_ID);
	w.things[0] = *class; /* stolen_at is about the first thing */
	w.things[1] = *class;
	w.things[0].exists = false;
	w.stolen_at = 4; /* POST Framework, Secret, PriorityClass; GET PriorityClass, owner */
	w.stolen_key = "aa-bb";
	struct end end = submit_keyed(&w);
	assert_int_equal(end.http, 503);
	assert_non_null(find(&w, KIND_PRIORITYCLASS, "f-priority"));
	assert_true(w.things[0].exists);
}

TEST(test_submission_repeated_explains_its_error)
{
	static const struct {
		struct repeated repeated;
		const char *code, *says;
	} CASES[] = {
		{ { "aa-bb", "aa-cc", NOW_S, 0, true, false, false },
		  "IdempotencyError",
		  "another body" },
		{ { "aa-bb", "bb-bb", NOW_S, 0, true, false, false }, "ConflictJobError", "" },
		{ { "aa-bb", "aa-bb", NOW_S, 0, true, false, true },
		  "BeingDeletedError",
		  "is being deleted; send the request again" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		WORLD(w);
		struct end end = submit_again(&w, &CASES[i].repeated);
		assert_string_equal(end.code, CASES[i].code);
		assert_non_null(strstr(end.text, CASES[i].says));
	}
}
