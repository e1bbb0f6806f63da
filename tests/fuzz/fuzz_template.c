/*
 * Any text as a template, and after a line `===` any text as an overlay: reading, merging,
 * compiling and running never crash, and what comes out is JSON without a variable in it.
 */
#include <jansson.h>
#include <stdlib.h>

#include "base/enc.h"
#include "tests/fuzz/fuzz.h"
#include "translate/render/template.h"

enum { TEXT_MAX = 1 << 20 };

/* What is made: a list variable must know. */
struct scope {
	enum prog_shape shape;
};

static bool text_variable(const struct scope *s, struct variable_output *o)
{
	(void)s;
	out_text(o, SPAN("a\"b\n"));
	return true;
}

static bool number_variable(const struct scope *s, struct variable_output *o)
{
	(void)s;
	str_int(o->s, -42);
	return true;
}

static bool absent_variable(const struct scope *s, struct variable_output *o)
{
	(void)s;
	(void)o;
	return false;
}

static bool list_variable(const struct scope *s, struct variable_output *o)
{
	str_puts(o->s, s->shape == PROG_MEMBERS ? "\"k\":\"v\"," : "1,{\"x\":[2]},");
	return true;
}

static bool map_variable(const struct scope *s, struct variable_output *o)
{
	(void)s;
	str_puts(o->s, "{}");
	return true;
}

static const struct variable VARIABLES[] = {
	{ "t", VARIABLE_TEXT, false, 0, text_variable, "", "" },
	{ "n", VARIABLE_NUMBER, false, 0, number_variable, "", "" },
	{ "a", VARIABLE_TEXT, true, 0, absent_variable, "", "" },
	{ "m", VARIABLE_MAP, false, 0, map_variable, "", "" },
	{ "l", VARIABLE_LIST, false, 0, list_variable, "", "" },
	{ "e", VARIABLE_LIST, false, 0, absent_variable, "", "" },
};
static const struct constant CONSTANTS_HERE[] = { { "c", { "gpu/x", 5 }, "" } };
static const struct variable_group GROUP = { "", VARIABLES,
	                                     sizeof(VARIABLES) / sizeof(VARIABLES[0]) };
static const struct variable_group *const GROUPS[] = { &GROUP };
static const struct vocabulary WORDS = { GROUPS, 1, CONSTANTS_HERE, 1, NULL };

static void run(const struct node *root, enum prog_shape shape)
{
	ERR_AUTO e = { 0 };
	STR_AUTO out = STR_INIT(TEXT_MAX);
	struct prog *p = prog_new(root, shape, &WORDS, &e);
	if (p == NULL)
		return;
	const char *open = shape == PROG_ITEMS ? "[" : "{";
	if (shape != PROG_VALUE)
		str_puts(&out, open);
	prog_run(p, &(struct scope){ shape }, &out);
	prog_free(p);
	if (out.full)
		return;
	if (shape != PROG_VALUE) {
		if (out.p[out.n - 1] == ',')
			out.n--;
		str_char(&out, shape == PROG_ITEMS ? ']' : '}');
	}
	/* Two keys may become one name when variables are filled in: that alone is no reason to
	 * fail.
	 */
	json_auto_t *v = json_loadb(out.p, out.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	assert(v || memmem(out.p, out.n, "\\u0000", 6));
}

FUZZ(text)
{
	const char *cut = text.n ? memmem(text.p, text.n, "\n===\n", 5) : NULL;
	struct span over = { NULL, 0 };
	if (cut) {
		over = (struct span){ cut + 5, text.n - (size_t)(cut + 5 - text.p) };
		text.n = (size_t)(cut + 1 - text.p);
	}
	if (utf8_check(text) != text.n || utf8_check(over) != over.n)
		return;
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct manifest base = { "base.yaml", text, MANIFEST_BASE, 0, NULL };
	struct manifest overlay = { "over.yaml", over, MANIFEST_OVERLAY, 0, NULL };
	if (manifest_read(&base, &WORDS, &a, &e) < 0)
		return;
	const struct node *root = base.root;
	if (cut && (manifest_read(&overlay, &WORDS, &a, &e) < 0 ||
	            manifest_merge(&root, &overlay, &a, &e) < 0))
		return;
	for (enum prog_shape shape = 0; shape < PROG_SHAPE_MAX; shape++)
		run(root, shape);
}
