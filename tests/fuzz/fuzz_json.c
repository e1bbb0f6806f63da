/*
 * Any text through the JSON reader, beside jansson: the same texts must be taken,
 * and mean the same.  Where we differ on purpose (comments, integers beyond 64 bits,
 * depth, what a double cannot hold) jansson gets no say.
 */
#include <jansson.h>
#include <stdlib.h>

#include "base/doc/tree.h"
#include "base/enc.h"
#include "tests/fuzz/fuzz.h"

/* The same value, by way of text that both write. */
static void check_equal(const struct node *ours, const json_t *theirs)
{
	switch ((enum node_type)ours->type) {
	case NODE_NULL:
		assert(json_is_null(theirs));
		break;
	case NODE_BOOL:
		assert(json_is_boolean(theirs) && json_is_true(theirs) == ours->boolean);
		break;
	case NODE_INT:
		assert(json_number_value(theirs) == (double)ours->integer);
		break;
	case NODE_REAL:
		assert(json_number_value(theirs) == ours->real);
		break;
	case NODE_TEXT:
		assert(json_string_length(theirs) == ours->n);
		assert(memcmp(json_string_value(theirs), ours->text, ours->n) == 0);
		break;
	case NODE_LIST:
		assert(json_array_size(theirs) == ours->n);
		for (uint32_t i = 0; i < ours->n; i++)
			check_equal(&ours->item[i], json_array_get(theirs, i));
		break;
	case NODE_MAP:
		assert(json_object_size(theirs) == ours->n);
		for (uint32_t i = 0; i < ours->n; i++)
			check_equal(&ours->member[i].value,
			            json_object_get(theirs, ours->member[i].key));
		break;
	case NODE_DATE:
	case NODE_TYPE_MAX:
		abort();
	}
}

/* jansson refuses integers that do not fit 64 bits; we round them. */
static bool has_long_number(struct span t)
{
	size_t digits = 0;
	for (size_t i = 0; i < t.n; i++) {
		digits = t.p[i] >= '0' && t.p[i] <= '9' ? digits + 1 : 0;
		if (digits > 18)
			return true;
	}
	return false;
}

/* Our own limits, which jansson does not know. */
static bool is_limit(const struct err *e)
{
	return strstr(err_msg(e), "nested more than") || strstr(err_msg(e), "longer than") ||
	       strstr(err_msg(e), "has more than");
}

/* What node_json writes is read as the same. */
static void check_written(const struct node *root)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	STR_AUTO text = STR_INIT(64 << 20);
	struct doc doc;
	node_json(&text, root);
	int failed = json_read(str_view(&text), &BUDGET_DEFAULT, &a, &doc, NULL, &e);
	assert(failed == 0);
	assert(node_equal(root, &doc.root));
}

FUZZ(text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO w = { 0 };
	struct doc doc;
	/* doc_read has looked for these, and jansson overlooks NUL between tokens. */
	if (utf8_check(text) != text.n || (text.n && memchr(text.p, 0, text.n)))
		return;
	int failed = json_read(text, &BUDGET_DEFAULT, &a, &doc, &w, &e);
	assert((failed != 0) == (e.notes.n > 0));
	assert(!doc.syntax || failed);
	if (!failed)
		check_written(&doc.root);
	if (w.n || has_long_number(text))
		return;
	json_auto_t *theirs =
	    json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
	if (failed)
		assert(theirs == NULL || is_limit(&e));
	else
		check_equal(&doc.root, theirs);
}
