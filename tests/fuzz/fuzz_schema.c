/*
 * The first line of the input is a schema, the rest a document.  The rest is also
 * checked against the schemas of jobs.  Whatever comes: no crash, a verdict that
 * agrees with the notes, and places inside the document.
 */
#include "schema/schema.h"

#include "base/enc.h"
#include "tests/fuzz/fuzz.h"

static const char *const SECRET[] = { "secrets", NULL };

static void check(const struct schema *s, const struct node *root)
{
	ERR_AUTO e = { 0 };
	int result = schema_check(s, root, "X", SECRET, &e);
	assert((result == 0) == (e.notes.n == 0));
	for (size_t i = 0; i < e.notes.n; i++) {
		STR_AUTO text = STR_INIT(1 << 20);
		assert(e.notes.v[i].line > 0);
		note_text(&text, &e.notes.v[i]);
		assert(utf8_check(str_view(&text)) == text.n);
	}
}

static void check_all(struct span schema, struct span text)
{
	ARENA_AUTO arena = { 0 };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc;
	const struct budget budget = { 64, 2000, 1 << 20, 1024 };
	if (doc_read(text, &budget, &arena, &doc, &warnings, &e) < 0)
		return;
	struct schema *s = schema_compile(schema, &e);
	if (s)
		check(s, &doc.root);
	schema_free(s);
	check(schema_get(SCHEMA_V1), &doc.root);
	check(schema_get(SCHEMA_V2), &doc.root);
	check(schema_get(SCHEMA_FACTS), &doc.root);
}

FUZZ(text)
{
	if (span_chr(text, '\n') == text.n || text.n > 100000)
		return;
	struct span line = span_next(&text, '\n');
	check_all(line, text);
}
