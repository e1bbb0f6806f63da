/*
 * Any form: either it is refused, with 400 and a sentence that is text, or what is written is a
 * JSON object, no deeper and with no more values than forms may have.
 */
#include "base/doc/tree.h"
#include "base/enc.h"
#include "base/form.h"
#include "tests/fuzz/fuzz.h"

enum { TEXT_MAX = 1 << 16, JSON_MAX = 1 << 20 };

static const struct form_number NUMBERS[] = {
	{ "a", false },
	{ "b[].c", true },
	{ NULL, false },
};

static void check_json(struct span json, struct arena *a)
{
	static const struct budget BUDGET = { FORM_DEPTH + 2, (FORM_DEPTH + 1) * FORM_PAIRS + 1,
		                              JSON_MAX, TEXT_MAX };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc = { 0 };
	assert(json_read(json, &BUDGET, a, &doc, &warnings, &e) == 0);
	assert(doc.root.type == NODE_MAP && warnings.n == 0);
}

FUZZ(text)
{
	ARENA_AUTO a = { 0 };
	STR_AUTO out = STR_INIT(JSON_MAX);
	ERR_AUTO e = { 0 };
	text.n = text.n > TEXT_MAX ? TEXT_MAX : text.n;
	if (form_json(text, NUMBERS, &a, &out, &e) == 0) {
		assert(!out.full && e.http == 0);
		check_json(str_view(&out), &a);
	} else {
		assert(e.http == 400 && utf8_check(span_of(err_msg(&e))) == strlen(err_msg(&e)));
	}
}
