/*
 * Checks a document against each schema.  Whatever comes: no crash, a verdict that agrees with the
 * notes, and places inside the document.
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

FUZZ(text)
{
	ARENA_AUTO arena = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc;
	const struct budget budget = { 64, 2000, 1 << 20, 1024 };
	if (text.n > 100000 || doc_read(text, &budget, &arena, &doc, NULL, &e) < 0)
		return;
	for (enum schema_name i = 0; i < SCHEMA_NAME_MAX; i++)
		check(schema_get(i), &doc.root);
}
