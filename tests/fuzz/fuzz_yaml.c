/*
 * Any text through the YAML reader.  What it accepts must survive yaml_write and
 * a second reading.
 */
#include "base/doc/tree.h"
#include "base/doc/yaml.h"
#include "base/enc.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/lines.h"

static void check_error(const struct err *e)
{
	assert(e->http == 400 && e->notes.n >= 1);
	for (size_t i = 0; i < e->notes.n; i++) {
		const struct note *n = &e->notes.v[i];
		assert(n->line >= 1 && n->column >= 1);
		assert(utf8_check(span_of(n->msg)) == strlen(n->msg));
		assert(n->at == NULL || utf8_check(span_of(n->at)) == strlen(n->at));
	}
}

/* Dates become text, so it is the JSON that must be equal. */
static void check_written(const struct node *root)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO w = { 0 };
	STR_AUTO before = STR_INIT(64 << 20);
	STR_AUTO yaml = STR_INIT(64 << 20);
	STR_AUTO after = STR_INIT(64 << 20);
	struct doc doc;
	struct budget b = { 64, 1000000, 64 << 20, 1024 };
	node_json(&before, root);
	yaml_write(&yaml, root);
	int failed = yaml_read(str_view(&yaml), &b, &a, &doc, &w, &e);
	assert(failed == 0);
	assert(w.n == 0);
	node_json(&after, &doc.root);
	assert(span_eq(str_view(&before), str_view(&after)));
}

FUZZ(text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc;
	struct budget b = { 64, 20000, 200000, 1024 };
	if (doc_read(text, &b, &a, &doc, NULL, &e) < 0) {
		check_error(&e);
		return;
	}
	assert(e.http == 0);
	assert(node_equal(&doc.root, &doc.root));
	check_written(&doc.root);
}
