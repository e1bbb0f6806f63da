#pragma once
/* Checking small documents in a test: assert_says(schema, document, sentences). */
/* clang-format off */
#include "tests/unit/base/cmocka.h"
/* clang-format on */

#include <stdio.h>
#include <stdlib.h>

#include "schema/schema.h"

enum { FILE_MAX = 4 << 20 };

static const char *const SECRET[] = { "secrets", NULL };

/* Reads and checks a document. Returns 0, or -1 and *e. */
static inline int check_text(const struct schema *s, struct span text, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	struct doc doc;
	const struct budget budget = BUDGET_DEFAULT;
	if (doc_read(text, &budget, &arena, &doc, NULL, e) < 0)
		return -1;
	return schema_check(s, &doc.root, "InvalidProtocolError", SECRET, e);
}

/* All notes, one per line: "LINE:COLUMN: SENTENCE\n". */
static inline void put_notes(struct str *out, const struct err *e)
{
	for (size_t i = 0; i < e->notes.n; i++) {
		str_printf(out, "%u:%u: ", e->notes.v[i].line, e->notes.v[i].column);
		note_text(out, &e->notes.v[i]);
		str_char(out, '\n');
	}
}

/* The document gets exactly these notes; "" if it is valid. */
static inline void assert_notes(const struct schema *s, const char *doc, const char *notes)
{
	ERR_AUTO e = { 0 };
	STR_AUTO got = STR_INIT(FILE_MAX);
	int result = check_text(s, span_of(doc), &e);
	put_notes(&got, &e);
	if (strcmp(str_c(&got), notes) != 0)
		fail_msg("%s:\nexpected %s\ngot %s", doc, notes, str_c(&got));
	assert_int_equal(result, notes[0] ? -1 : 0);
	assert_int_equal(e.http, notes[0] ? 400 : 0);
}

/* A schema, in which quotes may be written as '. */
static inline const struct schema *schema_of(const char *text)
{
	char *json = arena_dup(&unit.a, span_of(text));
	for (char *p = json; *p; p++)
		if (*p == '\'')
			*p = '"';
	return schema_compile(span_of(json), &unit.a);
}

static inline void assert_says(const char *schema, const char *doc, const char *notes)
{
	assert_notes(schema_of(schema), doc, notes);
}
