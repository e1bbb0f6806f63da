#pragma once
/* Reading a document in a test: `struct run r = run_doc("..."); ... run_done(&r);` */
#include "base/doc/tree.h"
#include "tests/unit/base/cmocka.h"

struct run {
	struct arena arena;
	struct err err;
	struct notes warnings;
	struct doc doc;
	struct str json;
	struct str sentence;
	int failed;
};

static inline struct run run_budget(struct span text, struct budget budget)
{
	struct run r = { .json = STR_INIT(64 << 20), .sentence = STR_INIT(4096) };
	r.failed = doc_read(text, &budget, &r.arena, &r.doc, &r.warnings, &r.err);
	return r;
}

static inline struct run run_doc(const char *text)
{
	return run_budget(span_of(text), BUDGET_DEFAULT);
}

static inline void run_done(struct run *r)
{
	str_done(&r->json);
	str_done(&r->sentence);
	err_done(&r->err);
	notes_done(&r->warnings);
	arena_wipe(&r->arena);
}

/* The tree as JSON, or the first error as LINE:COLUMN: SENTENCE. */
static inline const char *run_result(struct run *r)
{
	if (!r->failed) {
		node_json(&r->json, &r->doc.root);
		return str_c(&r->json);
	}
	assert_int_equal(r->err.http, 400);
	assert_string_equal(r->err.code, "InvalidProtocolError");
	assert_int_equal(r->err.notes.n, 1);
	const struct note *n = &r->err.notes.v[0];
	str_printf(&r->sentence, "%u:%u: ", n->line, n->column);
	note_text(&r->sentence, n);
	return str_c(&r->sentence);
}

static inline void assert_reads(const char *text, const char *json)
{
	AUTO(run_done) struct run r = run_doc(text);
	assert_string_equal(run_result(&r), json);
	assert_int_equal(r.failed, 0);
}

/* Refused, with a message that begins so (LINE:COLUMN: SENTENCE). */
static inline void assert_refuses_span(struct span text, const char *start)
{
	AUTO(run_done) struct run r = run_budget(text, BUDGET_DEFAULT);
	const char *got = run_result(&r);
	if (strncmp(got, start, strlen(start)) != 0)
		fail_msg("expected \"%s...\", got \"%s\"", start, got);
	assert_int_equal(r.failed, -1);
}

static inline void assert_refuses(const char *text, const char *start)
{
	assert_refuses_span(span_of(text), start);
}

/* One warning, which begins so; or none (NULL). */
static inline void assert_warns(const char *text, const char *start)
{
	AUTO(run_done) struct run r = run_doc(text);
	assert_int_equal(r.failed, 0);
	assert_int_equal(r.warnings.n, start ? 1 : 0);
	if (start) {
		const struct note *n = &r.warnings.v[0];
		str_printf(&r.sentence, "%u:%u: ", n->line, n->column);
		note_text(&r.sentence, n);
		if (strncmp(str_c(&r.sentence), start, strlen(start)) != 0)
			fail_msg("expected \"%s...\", got \"%s\"", start, str_c(&r.sentence));
	}
}
