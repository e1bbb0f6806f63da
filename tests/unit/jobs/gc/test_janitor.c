/* The rounds of the janitor, with an API server in memory. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/janitor_bench.h"

#include <sys/eventfd.h>

static int stop_made(void)
{
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(fd >= 0);
	return fd;
}

/* ---- Frameworks -------------------------------------------------------------------------- */

CASE(test_janitor_removes_frameworks_never_started)
{
	yard_add(&b->yard, KIND_FRAMEWORK, half_made(JOB));
	go_twice(b);
	assert_false(yard_has(&b->yard, KIND_FRAMEWORK, JOB));
	assert_int_equal(b->last.frameworks, 1);
	assert_int_equal(b->last.classes, 0);
	assert_null(b->last.trouble);
}

CASE(test_janitor_waits_for_the_age_by_the_servers_clock)
{
	yard_add(&b->yard, KIND_FRAMEWORK, half_made(JOB));
	yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(job(2)));
	b->yard.date_s = MADE_S + AGE_MS / 1000 - 1;
	go(b);
	assert_int_equal(b->yard.verbs[STORE_GET], 0);
	b->yard.date_s = 0; /* it is not reported */
	go(b);
	assert_int_equal(b->yard.verbs[STORE_GET], 0);
	b->yard.date_s = MADE_S + AGE_MS / 1000;
	go(b);
	assert_int_equal(b->last.frameworks, 1);
	assert_int_equal(b->last.classes, 1);
}

CASE(test_janitor_keeps_frameworks_that_have_started)
{
	json_t *f = yard_add(&b->yard, KIND_FRAMEWORK, half_made(JOB));
	set_label(f, "rest-lit/creating", NULL);
	go_twice(b);
	assert_true(yard_has(&b->yard, KIND_FRAMEWORK, JOB));
	set_label(f, "rest-lit/creating", "true");
	go(b);
	assert_false(yard_has(&b->yard, KIND_FRAMEWORK, JOB));
}

static void start_it(struct yard *y, const struct store_request *q)
{
	if (q->verb != STORE_DELETE)
		return;
	struct thing *t = yard_find(y, q->kind, q->name);
	set_label(t->object, "rest-lit/creating", NULL);
	set_version(y, t->object);
}

/* The race of threat E2: the GET saw Create, then the Framework starts, then the DELETE arrives. */
CASE(test_janitor_does_not_remove_a_framework_just_started)
{
	yard_add(&b->yard, KIND_FRAMEWORK, half_made(JOB));
	b->yard.meanwhile = start_it;
	go_twice(b);
	assert_int_equal(b->yard.verbs[STORE_DELETE], 1);
	assert_true(yard_has(&b->yard, KIND_FRAMEWORK, JOB));
	assert_null(b->last.trouble);
	assert_int_equal(b->last.frameworks, 0);
}

static void make_anew(struct yard *y, const struct store_request *q)
{
	struct thing *t = q->verb == STORE_GET ? yard_find(y, q->kind, q->name) : NULL;
	if (t != NULL)
		(void)json_object_set_new(meta_of(t->object), "uid", json_string("new"));
}

CASE(test_janitor_does_not_remove_a_framework_made_anew)
{
	yard_add(&b->yard, KIND_FRAMEWORK, half_made(JOB));
	b->yard.meanwhile = make_anew;
	go_twice(b);
	assert_int_equal(b->yard.verbs[STORE_GET], 1);
	assert_int_equal(b->yard.verbs[STORE_DELETE], 0);
}

static void take_it(struct yard *y, const struct store_request *q)
{
	struct thing *t = q->verb == STORE_DELETE ? yard_find(y, q->kind, q->name) : NULL;
	if (t == NULL)
		return;
	json_decref(t->object);
	t->object = NULL;
}

CASE(test_janitor_accepts_that_another_janitor_is_faster)
{
	yard_add(&b->yard, KIND_FRAMEWORK, half_made(JOB));
	yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(job(2)));
	b->yard.meanwhile = take_it;
	go_twice(b);
	assert_int_equal(b->yard.verbs[STORE_DELETE], 2);
	assert_int_equal(b->last.frameworks + b->last.classes, 0); /* not by this one */
	assert_null(b->last.trouble);
}

CASE(test_janitor_removes_20_objects_per_round_and_returns_sooner)
{
	for (size_t i = 0; i < 50; i++)
		yard_add(&b->yard, KIND_FRAMEWORK, half_made(job(i)));
	go_twice(b);
	assert_int_equal(b->last.frameworks, 20);
	assert_true(b->pause_ms <= 33000);
	go(b);
	assert_int_equal(b->last.frameworks, 20);
	go(b);
	assert_int_equal(b->last.frameworks, 10);
	assert_true(b->pause_ms > 100000);
	assert_int_equal(yard_count(&b->yard, KIND_FRAMEWORK), 0);
}

/* Frameworks that only look left over in a list must not hide the others. */
CASE(test_janitor_reaches_orphans_behind_many_others)
{
	for (size_t i = 0; i < 250; i++) {
		json_t *f = yard_add(&b->yard, KIND_FRAMEWORK, half_made(job(i)));
		if (i != 249)
			(void)json_object_set_new(f, "status", json_pack("{s:s}", "state", "x"));
	}
	go_twice(b);
	assert_int_equal(b->yard.verbs[STORE_GET], LOOKS_MAX);
	go(b);
	go(b);
	assert_int_equal(yard_count(&b->yard, KIND_FRAMEWORK), 249);
	assert_false(yard_has(&b->yard, KIND_FRAMEWORK, job(249)));
}

CASE(test_janitor_lists_only_labelled_objects_from_the_cache)
{
	go(b);
	assert_string_equal(b->yard.queries[0],
	                    "labelSelector=rest-lit%2Finstance%3Dhere%2Crest-lit%2Fcreating"
	                    "&resourceVersion=0");
	assert_string_equal(b->yard.queries[1],
	                    "labelSelector=rest-lit%2Finstance%3Dhere%2Crest-lit%2Fnamespace"
	                    "%3Djobs&limit=500");
}

CASE(test_janitor_reads_large_lists_in_pages)
{
	for (size_t i = 0; i < 120; i++)
		yard_add(&b->yard, KIND_FRAMEWORK, half_made(job(i)));
	b->yard.not_whole_lists = true;
	go(b);
	assert_int_equal(b->yard.verbs[STORE_LIST], 1 + 3 + 1);
	assert_null(b->last.trouble);
	pass(b, AGE_MS);
	for (size_t i = 0; i < 7; i++)
		go(b);
	assert_int_equal(yard_count(&b->yard, KIND_FRAMEWORK), 0);
}

/* ---- PriorityClasses --------------------------------------------------------------------- */

CASE(test_janitor_removes_classes_whose_framework_is_gone)
{
	yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(JOB));
	yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(job(2)));
	json_t *f = yard_add(&b->yard, KIND_FRAMEWORK, half_made(job(2)));
	set_label(f, "rest-lit/creating", NULL);
	go_twice(b);
	assert_int_equal(b->last.classes, 1);
	assert_int_equal(yard_count(&b->yard, KIND_PRIORITYCLASS), 1);
	assert_true(yard_has(&b->yard, KIND_FRAMEWORK, job(2)));
}

static void renew_it(struct yard *y, const struct store_request *q)
{
	struct thing *t = q->verb == STORE_DELETE ? yard_find(y, q->kind, q->name) : NULL;
	if (t != NULL)
		(void)json_object_set_new(meta_of(t->object), "uid", json_string("new"));
}

CASE(test_janitor_keeps_a_class_that_was_made_anew)
{
	yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(JOB));
	b->yard.meanwhile = renew_it;
	go_twice(b);
	assert_int_equal(b->yard.verbs[STORE_DELETE], 1);
	assert_int_equal(yard_count(&b->yard, KIND_PRIORITYCLASS), 1);
	assert_null(b->last.trouble);
}

CASE(test_janitor_lists_no_classes_without_that_option)
{
	b->janitor->options.priority_classes = false;
	yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(JOB));
	go_twice(b);
	assert_int_equal(b->yard.verbs[STORE_LIST], 2);
	assert_int_equal(yard_count(&b->yard, KIND_PRIORITYCLASS), 1);
}

static void add_classes(struct bench *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(job(i)));
	pass(b, AGE_MS);
}

/* The jobs of as many classes run. */
static void add_running(struct bench *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		set_label(yard_add(&b->yard, KIND_FRAMEWORK, half_made(job(i))),
		          "rest-lit/creating", NULL);
}

CASE(test_janitor_reads_one_page_of_classes_per_round)
{
	add_classes(b, 1200);
	add_running(b, 1200);
	for (size_t i = 0; i < 3; i++) {
		yard_forget(&b->yard);
		go(b);
		assert_int_equal(b->yard.verbs[STORE_LIST], 2);
		assert_int_equal(b->yard.verbs[STORE_GET], i < 2 ? 500 : 200);
	}
	assert_string_equal(b->janitor->classes.cursor, "");
}

CASE(test_janitor_removes_many_classes_in_several_rounds)
{
	size_t rounds = 0;
	add_classes(b, 1200);
	for (; yard_count(&b->yard, KIND_PRIORITYCLASS) > 0 && rounds < 80; rounds++) {
		go(b);
		assert_in_range(b->last.classes, 0, REMOVALS_MAX);
	}
	assert_in_range(rounds, 60, 66);
}

static size_t expirations;

static void expire(struct yard *y, const struct store_request *q)
{
	bool goes_on = q->verb == STORE_LIST && strstr(q->query, "continue=");
	bool now = goes_on && expirations > 0 && expirations--;
	y->fault.verb = STORE_LIST;
	y->fault.kind = KIND_PRIORITYCLASS;
	y->fault.status = 410;
	y->fault.outcome = now ? STORE_REFUSED : STORE_OUTCOME_MAX;
}

/* A token that has expired costs a list from the start; no class is left out, or met twice. */
CASE(test_janitor_continues_by_name_after_a_list_expires)
{
	add_classes(b, 900);
	add_running(b, 900);
	go(b);
	assert_string_equal(b->janitor->classes.cursor,
	                    "000000000000000000000000000001f3-priority");
	b->yard.meanwhile = expire;
	expirations = 1;
	yard_forget(&b->yard);
	go(b);
	assert_string_equal(b->trouble, "");
	assert_int_equal(b->yard.verbs[STORE_GET], 400);
	assert_int_equal(b->yard.verbs[STORE_LIST], 1 + 3);
}

CASE(test_janitor_ends_the_round_when_lists_expire_at_once)
{
	add_classes(b, 900);
	add_running(b, 900);
	go(b);
	b->yard.meanwhile = expire;
	expirations = 1000;
	yard_forget(&b->yard);
	go(b);
	assert_int_equal(b->yard.verbs[STORE_LIST], 1 + 3);
	assert_int_equal(b->rounds, 2);
}

/* ---- trouble ----------------------------------------------------------------------------- */

static void fail_with(struct bench *b, enum store_verb verb, enum object_kind kind,
                      enum store_outcome outcome, int status)
{
	b->yard.fault.verb = verb;
	b->yard.fault.kind = kind;
	b->yard.fault.outcome = outcome;
	b->yard.fault.status = status;
}

CASE(test_janitor_names_the_right_that_it_lacks)
{
	yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(JOB));
	fail_with(b, STORE_LIST, KIND_FRAMEWORK, STORE_REFUSED, 403);
	go_twice(b);
	assert_non_null(strstr(b->trouble, "\"list\" on frameworks.frameworkcontroller"));
	assert_int_equal(b->last.classes, 1); /* it does the permitted part */
	fail_with(b, STORE_LIST, KIND_PRIORITYCLASS, STORE_REFUSED, 403);
	go(b);
	assert_non_null(strstr(b->trouble, "\"list\" on priorityclasses.scheduling.k8s.io"));
}

CASE(test_janitor_removes_no_class_without_the_right_to_look)
{
	yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(JOB));
	fail_with(b, STORE_GET, KIND_FRAMEWORK, STORE_REFUSED, 403);
	go_twice(b);
	assert_int_equal(b->yard.verbs[STORE_DELETE], 0);
	assert_non_null(strstr(b->trouble, "\"get\" on frameworks"));
	fail_with(b, STORE_GET, KIND_FRAMEWORK, STORE_BUSY, 0);
	go(b);
	assert_int_equal(b->yard.verbs[STORE_DELETE], 0);
}

/* The answer cannot be read, but it shows that an object of that name exists. */
CASE(test_janitor_takes_an_unreadable_framework_as_present)
{
	yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(JOB));
	fail_with(b, STORE_GET, KIND_FRAMEWORK, STORE_AMBIGUOUS, 200);
	go_twice(b);
	go_twice(b);
	assert_int_equal(b->yard.verbs[STORE_DELETE], 0);
	assert_null(b->last.trouble);
}

CASE(test_janitor_ends_a_round_without_an_answer)
{
	static const enum store_outcome OUTCOMES[] = { STORE_BUSY, STORE_AMBIGUOUS, STORE_FULL };
	for (size_t i = 0; i < 3; i++) {
		fail_with(b, STORE_LIST, KIND_FRAMEWORK, OUTCOMES[i], 0);
		yard_forget(&b->yard);
		go(b);
		assert_int_equal(b->yard.requests, 1);
		assert_non_null(strstr(b->trouble, "could not be reached"));
	}
}

CASE(test_janitor_works_again_after_any_fault)
{
	static const enum store_verb VERBS[] = { STORE_LIST, STORE_GET, STORE_DELETE };
	static const enum object_kind KINDS[] = { KIND_FRAMEWORK, KIND_PRIORITYCLASS };
	for (size_t v = 0; v < 3; v++) {
		for (size_t k = 0; k < 2; k++) {
			for (enum store_outcome o = STORE_EXISTS; o < STORE_OUTCOME_MAX; o++) {
				yard_add(&b->yard, KIND_FRAMEWORK, half_made(job(1)));
				yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(job(2)));
				fail_with(b, VERBS[v], KINDS[k], o, 0);
				go_twice(b);
				fail_with(b, VERBS[v], KINDS[k], STORE_OUTCOME_MAX, 0);
				go_twice(b);
				go_twice(b);
				assert_int_equal(yard_count(&b->yard, KIND_FRAMEWORK), 0);
				assert_int_equal(yard_count(&b->yard, KIND_PRIORITYCLASS), 0);
				assert_null(b->last.trouble);
			}
		}
	}
}

CASE(test_janitor_pauses_grow_while_there_is_trouble)
{
	int at_least[] = { 15000, 30000, 60000, 120000, 240000, 480000, 600000, 600000 };
	fail_with(b, STORE_LIST, KIND_FRAMEWORK, STORE_BUSY, 0);
	for (size_t i = 0; i < sizeof(at_least) / sizeof(at_least[0]); i++) {
		go(b);
		assert_in_range(b->pause_ms, at_least[i] * 5 / 6, at_least[i] * 11 / 10);
	}
	fail_with(b, STORE_LIST, KIND_FRAMEWORK, STORE_OUTCOME_MAX, 0);
	go(b);
	assert_in_range(b->pause_ms, 100000, 132000);
}

/* Ends within a second wherever it is: the n-th request is never answered. */
static size_t answers;

static void stop_then(struct yard *y, const struct store_request *q)
{
	(void)q;
	struct bench *b = (struct bench *)y;
	if (answers-- == 0)
		b->caller.stop_fd = stop_made();
}

TEST(test_janitor_stops_at_any_request)
{
	for (size_t steps = 0; steps < 6; steps++) {
		void *own = NULL;
		(void)begin(&own);
		struct bench *b = own;
		yard_add(&b->yard, KIND_FRAMEWORK, half_made(job(1)));
		yard_add(&b->yard, KIND_PRIORITYCLASS, class_of(job(2)));
		b->janitor->options.age_ms = 0;
		b->yard.meanwhile = stop_then;
		answers = steps;
		go(b);
		assert_true(b->caller.stopped || b->caller.stop_fd < 0);
		(void)end(&own);
	}
}

/* Each request is answered after a while, so none takes all of the time that is left. */
static void stop_and_delay(struct yard *y, const struct store_request *q)
{
	(void)q;
	struct bench *b = (struct bench *)y;
	if (b->caller.stop_fd < 0)
		b->caller.stop_fd = stop_made();
	clock_sleep(CALL_END_MS / 5);
}

CASE(test_janitor_stops_although_requests_are_answered)
{
	for (size_t i = 1; i <= 20; i++)
		yard_add(&b->yard, KIND_FRAMEWORK, half_made(job(i)));
	b->janitor->options.age_ms = 0;
	b->yard.meanwhile = stop_and_delay;
	go(b);
	assert_true(b->caller.stopped);
	assert_in_range(b->yard.requests, 1, 10);
}
