#pragma once
/* Shared by the tests of the janitor: a janitor with a yard, and a clock that the tests advance. */
#include "tests/unit/jobs/yard.h"

#include "jobs/gc/gc_internal.h"

#define JOB job(1)

struct bench {
	struct yard yard;
	struct janitor *janitor;
	struct caller caller;
	int64_t pause_ms; /* after the last round */
	size_t rounds;
	struct janitor_report last; /* `trouble` is the text below */
	char trouble[512];
};

static inline int begin(void **state)
{
	struct bench *b = calloc(1, sizeof(*b));
	struct janitor_options o = { .instance = "here",
		                     .namespace_name = "jobs",
		                     .interval_ms = 120000,
		                     .age_ms = AGE_MS,
		                     .priority_classes = true };
	assert_non_null(b);
	yard_init(&b->yard);
	b->caller = (struct caller){ .store = &b->yard.s, .stop_fd = -1 };
	b->janitor = janitor_new(&b->caller, &o);
	*state = b;
	return 0;
}

static inline int end(void **state)
{
	struct bench *b = *state;
	caller_end(&b->caller);
	janitor_free(b->janitor);
	free(b);
	return 0;
}

/* One round, now. */
static inline void go(struct bench *b)
{
	b->pause_ms = janitor_round(b->janitor, &b->last);
	b->rounds++;
	(void)snprintf(b->trouble, sizeof(b->trouble), "%s",
	               b->last.trouble ? b->last.trouble : "");
}

static inline void pass(struct bench *b, int64_t ms)
{
	b->yard.date_s += ms / 1000;
}

/* Runs a round, and another one when the objects are old enough. */
static inline void go_twice(struct bench *b)
{
	go(b);
	pass(b, AGE_MS);
	go(b);
}

static inline void set_label(json_t *object, const char *key, const char *value)
{
	json_t *labels = json_object_get(meta_of(object), "labels");
	if (value)
		(void)json_object_set_new(labels, key, json_string(value));
	else
		(void)json_object_del(labels, key);
}

/* A test with a bench of its own, `b`. */
#define CASE(name)                                                                                 \
	static void name##_on(struct bench *b);                                                    \
	TEST_WITH(name, begin, end)                                                                \
	{                                                                                          \
		name##_on(*state);                                                                 \
	}                                                                                          \
	static void name##_on(struct bench *b)
