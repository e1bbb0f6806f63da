/* The creation of a job, with a small API server in memory that fails by a plan; the rule is in
 * submission_kit.h. */
#include "base/posix/clock.h"
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/submission_kit.h"

/* ---- every fault, everywhere ------------------------------------------------------- */

/* One of the two can be FINE. */
TEST(test_submission_keeps_the_rule_with_two_faults_anywhere)
{
	for (size_t at = 0; at < (size_t)8 * 8; at++) {
		for (size_t f = 0; f < (size_t)FAULT_MAX * FAULT_MAX; f++) {
			enum fault plan[8] = { 0 };
			plan[at / 8] = (enum fault)(f / FAULT_MAX);
			plan[at % 8] = (enum fault)(f % FAULT_MAX);
			run_plan(plan, 8, &FOUR);
			run_plan(plan, 8, &ONE);
			run_plan(plan, 8, &TWO_HELD);
			run_plan(plan, 8, &ONE_HELD);
			run_plan(plan, 8, &ONE_ORDERED);
		}
	}
}

TEST(test_submission_keeps_the_rule_with_three_faults_in_a_row)
{
	for (size_t at = 0; at < 6; at++) {
		for (size_t f = 0; f < (size_t)FAULT_MAX * FAULT_MAX * FAULT_MAX; f++) {
			enum fault plan[9] = { 0 };
			plan[at] = (enum fault)(f / FAULT_MAX / FAULT_MAX);
			plan[at + 1] = (enum fault)(f / FAULT_MAX % FAULT_MAX);
			plan[at + 2] = (enum fault)(f % FAULT_MAX);
			run_plan(plan, 9, &FOUR);
		}
	}
}

/* All requests from one on fail. */
TEST(test_submission_keeps_the_rule_with_a_lasting_fault)
{
	for (size_t at = 0; at < 8; at++) {
		for (enum fault f = NOT_SENT; f < IN_THE_WAY; f++) {
			WORLD(w);
			for (size_t i = at; i < PLAN; i++)
				w.plan[i] = f;
			struct end end = submit(&w, &FOUR, 200, false);
			check_rule(&w, &FOUR, &end);
		}
	}
}

/* One request creates all objects or none, and none is started or removed later. */
TEST(test_submission_to_an_atomic_store_is_one_request)
{
	static struct object objects[4];
	static struct object pod = { KIND_PODTEMPLATE, "worker", { "{}", 2 }, 0 };
	const struct objects whole = { objects, 4, &pod, 1 };
	memcpy(objects, OBJECTS, sizeof(objects));
	objects[3] = ALONE;
	for (size_t f = 0; f < (size_t)FAULT_MAX * FAULT_MAX; f++) {
		WORLD(w);
		world_be_atomic(&w);
		w.plan[0] = (enum fault)(f / FAULT_MAX);
		w.plan[1] = (enum fault)(f % FAULT_MAX);
		struct end end = submit(&w, &whole, 100000, false);
		check_rule(&w, &whole, &end);
		assert_true(f > 0 || w.requests == 1);
		assert_int_equal(w.verbs[STORE_PATCH] + w.verbs[STORE_DELETE], 0);
		memset(w.plan, 0, sizeof(w.plan));
		end = submit(&w, &whole, 100000, true);
		assert_int_equal(end.http, count(&w) ? 409 : 0);
	}
}

/* A held job that was answered with success is never made anew, nor started, by the same request.
 */
TEST(test_submission_repeated_leaves_a_held_job_alone)
{
	static const struct objects *const ALL[] = { &TWO_HELD, &ONE_HELD, &ONE_ORDERED };
	for (size_t i = 0; i < 3 * (size_t)FAULT_MAX * 8; i++) {
		WORLD(w);
		const struct objects *o = ALL[i % 3];
		struct end end = submit(&w, o, 100000, false);
		assert_int_equal(end.http, 0);
		struct thing *f = find(&w, KIND_FRAMEWORK, "f");
		const struct thing before = *f;
		(void)snprintf(f->key, sizeof(f->key), "aa-bb");
		(void)snprintf(f->id, sizeof(f->id), OTHER_ID); /* of the first request */
		w.requests = 0;
		w.plan[i / 3 / FAULT_MAX] = (enum fault)(i / 3 % FAULT_MAX);
		memset(w.verbs, 0, sizeof(w.verbs));
		end = submit_with(&w, o,
		                  &(struct submission_options){ .submission_id = ID,
		                                                .display_name = "alice~x",
		                                                .deadline_ms = clock_ms() + 100000,
		                                                .idempotency = "aa-bb",
		                                                .held = true,
		                                                .ordered = o == &ONE_ORDERED });
		assert_true(end.again || end.http >= 400);
		assert_true(f->exists && !f->started && strcmp(f->uid, before.uid) == 0);
		assert_int_equal(w.verbs[STORE_PATCH], 0);
	}
}

/* The number lies between the versions of its creation and its completion. */
TEST(test_submission_numbers_a_job_with_an_order)
{
	WORLD(w);
	struct end end = submit(&w, &ONE_ORDERED, 100000, false);
	assert_int_equal(end.http, 0);
	assert_non_null(strstr(w.patched, "{\"op\":\"add\",\"path\":\"/metadata/annotations/"
	                                  "rest-lit~1order\",\"value\":\"1\"}"));
}

/* ---- answers ------------------------------------------------------------------------------ */

TEST(test_submission_without_faults_succeeds)
{
	assert_int_equal(fault_at(0, FINE, &FOUR).http, 0);
	assert_int_equal(fault_at(0, FINE, &ONE).http, 0);
}

/* Pods of users are checked before any object is created. */
TEST(test_submission_checks_pods_before_it_creates_objects)
{
	struct object pods[] = { { KIND_PODTEMPLATE, "ps", { "{}", 2 }, 0 },
		                 { KIND_PODTEMPLATE, "worker", { "{}", 2 }, 0 } };
	const struct objects vetted = { OBJECTS, 4, pods, 2 };
	assert_int_equal(fault_at(0, FINE, &vetted).http, 0);
	assert_int_equal(fault_at(2, LOST, &vetted).http, 0);
	for (size_t at = 0; at < 2; at++) {
		for (enum fault f = NOT_SENT; f < FAULT_MAX; f++)
			(void)fault_at(at, f, &vetted);
		assert_int_equal(fault_at(at, NO_RIGHT, &vetted).http, 500);
		assert_int_equal(fault_at(at, LOST, &vetted).http, 503);
		struct end end = fault_at(at, INVALID, &vetted);
		assert_int_equal(end.http, 400);
		assert_non_null(strstr(end.text, pods[at].name));
	}
}

TEST(test_submission_succeeds_after_lost_answers)
{
	for (size_t at = 0; at < 4; at++) {
		assert_int_equal(fault_at(at, LOST, &FOUR).http, 0);
		assert_int_equal(fault_at(at, LOST_BEFORE, &FOUR).http, 0);
		assert_int_equal(fault_at(at, ERROR_500, &FOUR).http, 0);
		assert_int_equal(fault_at(at, NO_UID, &FOUR).http, 0);
	}
	assert_int_equal(fault_at(0, LOST, &ONE).http, 0);
}

TEST(test_submission_unreachable_is_503)
{
	for (size_t at = 0; at < 5; at++) {
		struct end end = fault_at(at, NOT_SENT, &FOUR);
		assert_int_equal(end.http, 503);
		assert_string_equal(end.code, "UnavailableError");
	}
}

TEST(test_submission_forbidden_names_verb_and_resource)
{
	struct end end = fault_at(1, NO_RIGHT, &FOUR);
	assert_int_equal(end.http, 500);
	assert_non_null(strstr(end.text, "\"create\" on secrets"));
	end = fault_at(4, NO_RIGHT, &FOUR);
	assert_non_null(strstr(end.text, "\"patch\" on frameworks.frameworkcontroller"));
}

TEST(test_submission_invalid_is_400)
{
	struct end end = fault_at(0, INVALID, &ONE);
	assert_int_equal(end.http, 400);
	assert_string_equal(end.code, "InvalidProtocolError");
}

TEST(test_submission_gives_500_after_three_errors_500)
{
	WORLD(w);
	for (size_t i = 0; i < PLAN; i += 2)
		w.plan[i] = ERROR_500;
	struct end end = submit(&w, &ONE, 100000, false);
	assert_int_equal(end.http, 500);
	assert_int_equal(w.verbs[STORE_CREATE], 3);
	check_rule(&w, &ONE, &end);
}

TEST(test_submission_with_unknown_outcome_is_504)
{
	enum fault plan[] = { LOST, NOT_SENT };
	struct end end = run_plan(plan, 2, &FOUR);
	assert_int_equal(end.http, 504);
}

/* Without the right to read Secrets, a second POST tells if the Secret exists, not its author. */
TEST(test_submission_repeats_a_lost_dependent_it_cannot_read)
{
	enum fault plan[] = { FINE, LOST_BEFORE, NO_RIGHT };
	assert_int_equal(run_plan(plan, 3, &FOUR).http, 0);
	enum fault made[] = { FINE, LOST, NO_RIGHT, FINE, NO_RIGHT };
	assert_int_equal(run_plan(made, 5, &FOUR).http, 503);
}

TEST(test_submission_failed_rollback_is_504)
{
	enum fault plan[] = { FINE, INVALID, NO_RIGHT };
	struct end end = run_plan(plan, 3, &FOUR);
	assert_int_equal(end.http, 504);
	assert_non_null(strstr(end.text, ID));
}

/* The uid is written into the bodies of owned objects without escapes. */
TEST(test_submission_with_an_invalid_uid_is_504)
{
	static const char *const BAD[] = {
		"",
		"a\",\"controller\":true,\"x\":\"",
		"a b",
		"\n",
		"0123456789012345678901234567890123456789012345678901234567890123",
	};
	for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++) {
		WORLD(w);
		w.uid = BAD[i];
		struct end end = submit(&w, &FOUR, 100000, false);
		assert_int_equal(end.http, 504);
		assert_int_equal(w.verbs[STORE_CREATE], 1);
	}
}

/* ---- names in use ------------------------------------------------------------------------- */

TEST(test_submission_of_an_existing_name_is_409)
{
	WORLD(w);
	add(&w, KIND_FRAMEWORK, "f", OTHER_ID);
	struct end end = submit(&w, &FOUR, 100000, false);
	assert_int_equal(end.http, 409);
	assert_string_equal(end.code, "ConflictJobError");
	assert_string_equal(end.text, "Job alice~x already exists.");
	assert_int_equal(count(&w), 1);
	assert_int_equal(w.verbs[STORE_GET], 1); /* compared before the answer */
	assert_int_equal(w.verbs[STORE_DELETE], 0);
}

TEST(test_submission_ignores_a_409_of_its_own_object)
{
	WORLD(w);
	add(&w, KIND_FRAMEWORK, "f", ID); /* something on the way repeated the POST */
	assert_int_equal(submit(&w, &ONE, 100000, false).http, 0);
}

TEST(test_submission_waits_for_the_garbage_collector)
{
	WORLD(w);
	add(&w, KIND_SECRET, "f-configcred", OTHER_ID);
	w.busy_gets = 3;
	struct end end = submit(&w, &FOUR, 100000, false);
	assert_int_equal(end.http, 0);
	check_rule(&w, &FOUR, &end);
}

/* The deadline comes after twelve requests. */
static struct end submit_late(struct world *w, const struct objects *o, bool dry_run)
{
	struct submission_options opt = { .submission_id = ID,
		                          .display_name = "alice~x",
		                          .deadline_ms = clock_ms() + 100000,
		                          .dry_run = dry_run };
	struct end end = { 0 };
	submission_start(&w->s, o, &opt, ended, &end);
	while (end.calls == 0) {
		if (w->requests >= 12)
			opt.deadline_ms = clock_ms();
		store_reap(&w->s);
		store_start(&w->s);
		hurry(w);
	}
	assert_int_equal(store_pending(&w->s), 0);
	return end;
}

TEST(test_submission_never_adopts_a_dependent)
{
	WORLD(w);
	add(&w, KIND_SECRET, "f-configcred", OTHER_ID);
	struct end end = submit_late(&w, &FOUR, false);
	assert_int_equal(end.http, 503);
	assert_string_equal(end.code, "BeingDeletedError");
	assert_non_null(strstr(end.text, "being deleted"));
	assert_int_equal(count(&w), 1); /* the foreign one */
}

TEST(test_submission_replaces_a_leftover_priority_class)
{
	for (size_t fault = 0; fault < FAULT_MAX; fault++) { /* of its DELETE */
		WORLD(w);
		add(&w, KIND_PRIORITYCLASS, "f-priority", OTHER_ID);
		w.plan[5] = (enum fault)fault;
		struct end end = submit(&w, &FOUR, 100000, false);
		if (fault == FINE)
			assert_int_equal(end.http, 0);
		struct thing *old = find(&w, KIND_PRIORITYCLASS, "f-priority");
		if (end.http != 0 && old != NULL) {
			assert_string_equal(old->id, OTHER_ID);
			old->exists = false;
		}
		check_rule(&w, &FOUR, &end);
	}
}

TEST(test_submission_keeps_the_priority_class_of_others)
{
	WORLD(w);
	struct thing *other = add(&w, KIND_PRIORITYCLASS, "f-priority", OTHER_ID);
	(void)snprintf(other->instance, sizeof(other->instance), "elsewhere");
	assert_int_equal(submit_late(&w, &FOUR, false).http, 409);
	assert_true(other->exists);
	assert_int_equal(count(&w), 1);
}

/* ---- dry run, deadline, shutdown --------------------------------------------------- */

TEST(test_submission_dry_run_leaves_no_object)
{
	WORLD(w);
	assert_int_equal(submit(&w, &FOUR, 100000, true).http, 0);
	assert_int_equal(count(&w), 0);
	assert_int_equal(w.verbs[STORE_CREATE], 4);
	assert_int_equal(w.verbs[STORE_PATCH], 0);
}

TEST(test_submission_dry_run_reports_invalid_objects)
{
	WORLD(w);
	w.plan[2] = INVALID;
	assert_int_equal(submit(&w, &FOUR, 100000, true).http, 400);
	assert_int_equal(w.verbs[STORE_DELETE], 0);
}

/* Exactly the objects that prevent a job also prevent a dry run. */
TEST(test_submission_dry_run_reports_leftover_objects)
{
	static const struct {
		enum object_kind kind;
		const char *name, *says;
		int http;
	} LEFT[] = {
		{ KIND_FRAMEWORK, "f", "already exists", 409 },
		{ KIND_SECRET, "f-configcred", "being deleted", 503 },
		{ KIND_PRIORITYCLASS, "f-priority", "", 0 },
	};
	for (size_t i = 0; i < sizeof(LEFT) / sizeof(LEFT[0]); i++) {
		WORLD(w);
		add(&w, LEFT[i].kind, LEFT[i].name, OTHER_ID);
		struct end end = submit_late(&w, &FOUR, true);
		assert_int_equal(end.http, LEFT[i].http);
		assert_non_null(strstr(end.text, LEFT[i].says));
		assert_int_equal(w.verbs[STORE_DELETE], 0);
		assert_int_equal(count(&w), 1);
		assert_true(w.things[0].exists);
	}
}

/* With any fault of the API server, no object is created, and the outcome is known. */
TEST(test_submission_dry_run_creates_nothing_with_any_fault)
{
	for (size_t at = 0; at < 5; at++) {
		for (size_t fault = 0; fault < FAULT_MAX; fault++) {
			WORLD(w);
			w.plan[at] = (enum fault)fault;
			struct end end = submit(&w, &FOUR, 100000, true);
			assert_int_not_equal(end.http, 504);
			assert_int_equal(w.verbs[STORE_PATCH], 0);
			assert_int_equal(count(&w), 0);
		}
	}
}

TEST(test_submission_too_late_is_503)
{
	WORLD(w);
	struct end end = submit(&w, &FOUR, -1, false);
	assert_int_equal(end.http, 503);
	assert_int_equal(w.requests, 0);
}

TEST(test_submission_ends_when_the_store_is_freed)
{
	for (int turns = 0; turns < 6; turns++) {
		struct world w;
		world_init(&w);
		struct end end = { 0 };
		struct submission_options opt = { .submission_id = ID,
			                          .display_name = "alice~x",
			                          .deadline_ms = clock_ms() + 100000 };
		submission_start(&w.s, &FOUR, &opt, ended, &end);
		for (int i = 0; i < turns; i++) {
			store_start(&w.s);
			if (i + 1 < turns)
				store_reap(&w.s);
		}
		store_free(&w.s);
		assert_int_equal(end.calls, 1);
		assert_int_equal(end.http, turns == 0 ? 503 : turns == 5 ? 0 : 504);
	}
}
