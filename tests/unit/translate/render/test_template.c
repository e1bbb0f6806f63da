/* Manifests with variables: generated ones against a model, merging, and what is refused. */
#include <stdlib.h>

#include "tests/unit/base/cmocka.h"

#include "translate/render/template.h"

enum { TEXT_MAX = 1 << 20 };

/* ---- variables to test with -------------------------------------------------------------------
 */

struct scope {
	int unused;
};

static bool text_variable(const struct scope *s, struct out *o)
{
	(void)s;
	out_text(o, SPAN("a\"b\n${number}"));
	return true;
}

static bool number_variable(const struct scope *s, struct out *o)
{
	(void)s;
	out_int(o, -42);
	return true;
}

static bool bool_variable(const struct scope *s, struct out *o)
{
	(void)s;
	out_bool(o, true);
	return true;
}

static bool absent_variable(const struct scope *s, struct out *o)
{
	(void)s, (void)o;
	return false;
}

static bool empty_variable(const struct scope *s, struct out *o)
{
	(void)s;
	out_text(o, SPAN(""));
	return true;
}

static bool no_elements(const struct scope *s, struct out *o)
{
	(void)s, (void)o;
	return true;
}

static bool two_elements(const struct scope *s, struct out *o)
{
	(void)s;
	str_puts(o->s, "1,{\"x\":[2]},");
	return true;
}

static bool two_texts(const struct scope *s, struct out *o)
{
	(void)s;
	str_puts(o->s, "\"a\",\"b\",");
	return true;
}

static bool map_variable(const struct scope *s, struct out *o)
{
	(void)s;
	str_puts(o->s, "{\"m\":1}");
	return true;
}

/* What each writes as a value, and inside of a text: the model. */
struct model_variable {
	struct variable variable;
	const char *value, *text; /* NULL: absent */
};

static const struct model_variable MODEL[] = {
	/* clang-format off */
	{ { "text",   VARIABLE_TEXT,   false, 0, text_variable,    "", "" }, "\"a\\\"b\\n${number}\"", "a\\\"b\\n${number}" },
	{ { "number", VARIABLE_NUMBER, false, 0, number_variable,  "", "" }, "-42", "-42" },
	{ { "flag",   VARIABLE_BOOL,   false, 0, bool_variable,    "", "" }, "true", "true" },
	{ { "absent", VARIABLE_TEXT,   true,  0, absent_variable,  "", "" }, NULL, NULL },
	{ { "maybe",  VARIABLE_NUMBER, true,  0, number_variable,  "", "" }, "-42", "-42" },
	{ { "empty",  VARIABLE_TEXT,   false, 0, empty_variable,   "", "" }, "\"\"", "" },
	{ { "none",   VARIABLE_LIST,   false, 0, no_elements,  "", "" }, "", NULL },
	{ { "two",    VARIABLE_LIST,   false, 0, two_elements, "", "" }, "1,{\"x\":[2]},", NULL },
	{ { "texts",  VARIABLE_TEXTS,  false, 0, two_texts,    "", "" }, "\"a\",\"b\",", NULL },
	{ { "map",    VARIABLE_MAP,    false, 0, map_variable,     "", "" }, "{\"m\":1}", NULL },
	/* clang-format on */
};
enum {
	N_MODEL = sizeof(MODEL) / sizeof(*MODEL),
	N_IN_TEXT = 6,
	FIRST_LIST = 6,
	N_LISTS = 3,
	MAP = 9
};

static struct variable variables[N_MODEL];
static const struct constant CONSTANTS_HERE[] = { { "config.device", { "gpu/x", 5 }, "" },
	                                          { "config.quote", { "q\"", 2 }, "" } };
static struct variable_group group = { "test", variables, N_MODEL };
static const struct vocabulary WORDS = { &group, 1, CONSTANTS_HERE, 2, NULL };

static int set_up(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_MODEL; i++)
		variables[i] = MODEL[i].variable;
	return 0;
}

/* ---- running -------------------------------------------------------------------------------- */

static struct manifest read_one(const char *text, enum manifest_role role, struct arena *a,
                                struct err *e)
{
	const char *file = role == MANIFEST_BASE ? "base.yaml" : "over.yaml";
	struct manifest m = { file, span_of(text), role, 0, NULL };
	(void)manifest_read(&m, &WORDS, a, e);
	return m;
}

/* Base and overlays (NULL at the end) as JSON, or the error's text. */
static char *run(enum prog_shape shape, const char *base, const char *const *over)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct manifest m = read_one(base, MANIFEST_BASE, &a, &e);
	const struct node *root = m.root;
	for (; root && over && *over; over++) {
		struct manifest o = read_one(*over, MANIFEST_OVERLAY, &a, &e);
		if (o.root == NULL || manifest_merge(&root, &o, &a, &e) < 0)
			root = NULL;
	}
	struct prog *p = root ? prog_new(root, shape, &WORDS, &e) : NULL;
	if (p == NULL)
		return xstrdup(err_msg(&e));
	STR_AUTO out = STR_INIT(TEXT_MAX);
	prog_run(p, &(struct scope){ 0 }, &out);
	prog_free(p);
	return str_take(&out);
}

static void assert_run(const char *base, const char *over, const char *want)
{
	const char *const list[] = { over, NULL };
	FREE_AUTO char *got = run(PROG_VALUE, base, over ? list : NULL);
	assert_string_equal(got, want);
}

static void assert_refused(const char *base, const char *over, const char *part)
{
	const char *const list[] = { over, NULL };
	FREE_AUTO char *got = run(PROG_VALUE, base, over ? list : NULL);
	if (strstr(got, part) == NULL)
		fail_msg("\"%s\" is not in: %s", part, got);
}

/* ---- the model: a random manifest, and what must come out -------------------------------------
 */

struct generator {
	uint64_t seed;
	struct str yaml;
};

static unsigned pick(struct generator *g, unsigned n)
{
	g->seed = g->seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(g->seed >> 33) % n;
}

/* A text of several pieces, quoted or plain. */
static bool gen_text(struct generator *g, struct str *json)
{
	bool quoted = pick(g, 2) == 0, present = true;
	str_puts(&g->yaml, quoted ? "\"x" : "x");
	str_puts(json, "\"x");
	for (unsigned n = pick(g, 4); n > 0; n--) {
		const struct model_variable *h = &MODEL[pick(g, N_IN_TEXT)];
		str_printf(&g->yaml, "${%s}$${-", h->variable.name);
		present = present && h->text;
		str_printf(json, "%s${-", h->text ? h->text : "");
	}
	str_puts(&g->yaml, quoted ? "\"\n" : "\n");
	str_puts(json, "\"");
	return present;
}

static bool gen_scalar(struct generator *g, bool element, struct str *json)
{
	const struct model_variable *h = NULL;
	switch (pick(g, element ? 7 : 6)) {
	case 0:
		str_puts(&g->yaml, "12\n");
		str_puts(json, "12");
		return true;
	case 1:
		str_puts(&g->yaml, "\"12\"\n");
		str_puts(json, "\"12\"");
		return true;
	case 2:
		str_puts(&g->yaml, "${map}\n");
		str_puts(json, MODEL[MAP].value);
		return true;
	case 3:
		return gen_text(g, json);
	case 4: /* quoted: always a text */
		h = &MODEL[pick(g, N_IN_TEXT)];
		str_printf(&g->yaml, "\"${%s}\"\n", h->variable.name);
		str_printf(json, "\"%s\"", h->text ? h->text : "");
		return h->text != NULL;
	case 5:
		h = &MODEL[pick(g, N_IN_TEXT)];
		str_printf(&g->yaml, "${%s}\n", h->variable.name);
		str_puts(json, h->value ? h->value : "");
		return h->value != NULL;
	default: /* elements; the comma comes with them */
		h = &MODEL[FIRST_LIST + pick(g, N_LISTS)];
		str_printf(&g->yaml, "${*%s}\n", h->variable.name);
		if (h->value[0] == '\0')
			return false;
		str_put(json, h->value, strlen(h->value) - 1);
		return true;
	}
}

static bool gen_value(struct generator *g, unsigned depth, bool element, struct str *json)
{
	unsigned kind = pick(g, 4);
	if (depth == 0 || kind < 2)
		return gen_scalar(g, element, json);
	bool map = kind == 2;
	unsigned n = pick(g, 5);
	if (n == 0) {
		str_puts(&g->yaml, map ? "{}\n" : "[]\n");
		str_puts(json, map ? "{}" : "[]");
		return true;
	}
	str_puts(&g->yaml, "\n");
	str_char(json, map ? '{' : '[');
	bool first = true;
	for (unsigned i = 0; i < n; i++) {
		STR_AUTO item = STR_INIT(TEXT_MAX);
		str_printf(&g->yaml, "%*s", (int)(2 * (8 - depth)), "");
		str_printf(&g->yaml, map ? "k%u: " : "- ", i);
		if (!gen_value(g, depth - 1, !map, &item))
			continue;
		str_puts(json, first ? "" : ",");
		if (map)
			str_printf(json, "\"k%u\":", i);
		str_span(json, str_view(&item));
		first = false;
	}
	str_char(json, map ? '}' : ']');
	return true;
}

TEST(test_generated_equal_model)
{
	for (uint64_t seed = 0; seed < 3000; seed++) {
		struct generator g = { .seed = seed * 2654435761u + 1, .yaml = STR_INIT(TEXT_MAX) };
		STR_AUTO json = STR_INIT(TEXT_MAX);
		STR_AUTO want = STR_INIT(TEXT_MAX);
		str_puts(&g.yaml, "first: ");
		bool first = gen_value(&g, 5, false, &json);
		str_printf(&want, "{%s%s", first ? "\"first\":" : "", first ? str_c(&json) : "");
		json.n = 0;
		str_puts(&g.yaml, "last: ");
		bool last = gen_value(&g, 5, false, &json);
		str_puts(&want, first && last ? "," : "");
		str_printf(&want, "%s%s}", last ? "\"last\":" : "", last ? str_view(&json).p : "");
		FREE_AUTO char *got = run(PROG_VALUE, str_c(&g.yaml), NULL);
		if (strcmp(got, str_c(&want)) != 0)
			fail_msg("%s\nwant %s\ngot  %s", str_c(&g.yaml), str_c(&want), got);
		str_done(&g.yaml);
	}
}

/* ---- values -------------------------------------------------------------------------------- */

TEST(test_run_value_with_hole_is_not_looked_at_again)
{
	assert_run("a: ${text}", NULL, "{\"a\":\"a\\\"b\\n${number}\"}");
}

TEST(test_run_last_absent_leaves_no_comma)
{
	assert_run("a: 1\nb: ${absent}", NULL, "{\"a\":1}");
}

TEST(test_run_only_absent_leaves_empty_map)
{
	assert_run("a:\n  b: x-${absent}", NULL, "{\"a\":{}}");
}

TEST(test_run_constant_key_and_value_are_escaped)
{
	assert_run("${config.quote}: ${config.device}\n", NULL, "{\"q\\\"\":\"gpu/x\"}");
}

TEST(test_run_doubled_dollar_is_literal)
{
	assert_run("a: $${HOME} $x $$ ${number}", NULL, "{\"a\":\"${HOME} $x $$ -42\"}");
}

TEST(test_run_items_have_a_comma_each)
{
	FREE_AUTO char *got = run(PROG_ITEMS, "- 1\n- ${*two}\n- ${absent}\n- a: ${*none}x", NULL);
	assert_non_null(strstr(got, "stands only alone"));
	FREE_AUTO char *good = run(PROG_ITEMS, "- 1\n- ${*two}\n- ${absent}\n- a: x", NULL);
	assert_string_equal(good, "1,1,{\"x\":[2]},{\"a\":\"x\"},");
}

TEST(test_run_members_are_pairs)
{
	FREE_AUTO char *got = run(PROG_MEMBERS, "- name: A_${number}\n  value: ${text}\n", NULL);
	assert_string_equal(got, "\"A_-42\":\"a\\\"b\\n${number}\",");
}

TEST(test_run_members_are_texts_whatever_the_variable)
{
	FREE_AUTO char *got = run(PROG_MEMBERS, "- name: ${number}\n  value: A\n", NULL);
	assert_string_equal(got, "\"-42\":\"A\",");
	FREE_AUTO char *map = run(PROG_MEMBERS, "- name: ${map}\n  value: A\n", NULL);
	assert_non_null(strstr(map, "{name, value}"));
}

TEST(test_new_members_refuses_what_has_no_value)
{
	FREE_AUTO char *got = run(PROG_MEMBERS, "- name: A\n  valueFrom: x\n", NULL);
	assert_non_null(strstr(got, "line 1"));
}

/* ---- merging ------------------------------------------------------------------------------- */

TEST(test_merge_maps_lists_scalars)
{
	assert_run("m: {a: 1, b: 2}\nl: [1]", "m: {b: 3, c: 4}\nl: [2]",
	           "{\"m\":{\"a\":1,\"b\":3,\"c\":4},\"l\":[1,2]}");
}

TEST(test_merge_null_deletes_by_folded_name)
{
	assert_run("m:\n  gpu/x: 1\n  b: 2", "m:\n  ${config.device}: null", "{\"m\":{\"b\":2}}");
}

TEST(test_merge_containers_by_name)
{
	assert_run(
	    "containers:\n- name: a\n  env: [1]\n- name: b",
	    "containers:\n- name: b\n  env: [3]\n- name: a\n  env: [2]\n- name: c\n  image: i",
	    "{\"containers\":[{\"name\":\"a\",\"env\":[1,2]},{\"name\":\"b\",\"env\":[3]},"
	    "{\"name\":\"c\",\"image\":\"i\"}]}");
}

TEST(test_merge_fragments_append)
{
	static const char *const over[] = { "- name: B\n  value: b", NULL };
	FREE_AUTO char *got = run(PROG_MEMBERS, "- name: A\n  value: a", over);
	assert_string_equal(got, "\"A\":\"a\",\"B\":\"b\",");
}

TEST(test_merge_leaves_base_unchanged)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct manifest base = read_one("m: {a: 1}\nl: [x]", MANIFEST_BASE, &a, &e);
	struct manifest over = read_one("m: {a: 2, b: 3}\nl: [y]", MANIFEST_OVERLAY, &a, &e);
	const struct node *merged = base.root;
	assert_int_equal(manifest_merge(&merged, &over, &a, &e), 0);
	STR_AUTO out = STR_INIT(TEXT_MAX);
	node_json(&out, base.root);
	assert_string_equal(str_c(&out), "{\"m\":{\"a\":1},\"l\":[\"x\"]}");
}

TEST(test_merge_two_overlays_cannot_set_one_scalar)
{
	static const char *const over[] = { "a: 2", "a: 3", NULL };
	FREE_AUTO char *got = run(PROG_VALUE, "a: 1", over);
	assert_non_null(strstr(got, "two overlays set this"));
}

/* ---- refusals ------------------------------------------------------------------------------ */

TEST(test_read_refuses_with_file_and_line)
{
	assert_refused("a: 1\nb: ${nothing}", NULL,
	               "base.yaml, line 2: unknown variable: `nothing`");
	assert_refused("a: 1\nb: x${nuber}", NULL, "`nuber`; did you mean `number`?");
	assert_refused("a: ${config.dev}", NULL, "`config.dev`; did you mean `config.device`?");
	assert_refused("a: ${zzzzzzzzzz}", NULL, "page translation");
	assert_refused("", NULL, "template base.yaml: is empty");
	assert_refused(" # b\n\n# c", NULL, "template base.yaml: is empty");
	assert_refused("a: 1\nb: [", NULL, "template base.yaml, line 3, column 1: a value");
	assert_refused("a: 1\na: 2", NULL, "template base.yaml, line 2, column 1: duplicate key");
	assert_refused("a: 1\n---\nb: 2", NULL, "template base.yaml, line 2, column 1: a second");
}

/* As an overlay that nobody has replaced by his own. */
TEST(test_merge_blank_overlay_changes_nothing)
{
	static const char *const BLANK[] = { "", "\n", "# nothing\n", " \t\r\n  # x", "{}" };
	for (size_t i = 0; i < sizeof(BLANK) / sizeof(*BLANK); i++)
		assert_run("a: 1", BLANK[i], "{\"a\":1}");
}

TEST(test_read_refuses_base)
{
	static const struct {
		const char *base, *part;
	} CASES[] = {
		/* clang-format off */
		{ "a: ${text",                          "without end" },
		{ "a: x${}",                            "without end or name" },
		{ "a: null",                            "null" },
		{ "a: ~",                               "null" },
		{ "a: 1.5",                             "quotes" },
		{ "a: 2020-01-01",                      "quotes" },
		{ "a: ${two}",                          "a list needs" },
		{ "a: ${*two}",                         "only alone, as an element" },
		{ "- \"${*two}\"",                      "only alone, as an element" },
		{ "- x${*two}",                         "only alone" },
		{ "- ${*text}",                         "no list" },
		{ "- ${*config.device}",                "no list" },
		{ "a: \"${map}\"",                      "whole value" },
		{ "a: x${map}",                         "whole value" },
		{ "${text}: 1",                         "constants only" },
		{ "${config.device}: 1\ngpu/x: 2",      "same key twice" },
		{ "gpu/x: 2\n${config.device}: 1",      "same key twice" },
		{ "labels:\n  a: ${number}",            "must be text" },
		{ "annotations:\n  a: 1",               "must be text" },
		{ "data:\n  a: ${flag}",                "must be text" },
		{ "nodeSelector: {a: true}",            "must be text" },
		{ "env:\n- name: A\n  value: ${number}", "must be text" },
		{ "tolerations: [{key: a, value: true}]", "must be text" },
		{ "args: [--port, 8080]",               "must be text" },
		{ "command: [a, \"${number}\", true]",  "must be text" },
		{ "values: [1]",                        "must be text" },
		{ "command:\n- ${*two}",                "must be text" },
		{ "containers:\n- image: x",            "literal name" },
		{ "containers:\n- name: ${text}",       "literal name" },
		{ "initContainers: [{name: a}, {name: a}]", "twice" },
		{ "a: [",                               "template base.yaml" },
		/* clang-format on */
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++)
		assert_refused(CASES[i].base, NULL, CASES[i].part);
}

TEST(test_merge_refuses)
{
	static const struct {
		const char *base, *over, *part;
	} CASES[] = {
		/* clang-format off */
		{ "a: 1",                     "b: 1",                    "no such place" },
		{ "a: {b: 1}",                "a: {c: null}",            "null deletes nothing" },
		{ "a: {b: 1}",                "a: [1]",                  "a list, where there is a mapping: `a`" },
		{ "a: [1]",                   "a: 1",                    "an integer, where there is a list" },
		{ "a: 1",                     "a: {b: 1}",               "a mapping, where there is an integer" },
		{ "a: [1]",                   "a: [null]",               "null" },
		{ "a: {b: 1}",                "a: {c: {d: null}}",       "all of this is new" },
		{ "a: [1]",                   "a: [{b: null}]",          "all of this is new" },
		{ "a: [1]",                   "a:\n- b:\n",              "an empty mapping is {}" },
		{ "a: {}",                    "a: {containers: [{name: b}]}", "no such container" },
		{ "containers: [{name: a}]",  "containers: [{name: b, image: c, d: null}]", "is new" },
		{ "containers: [{name: a}]",  "containers: [{name: b}]", "no such container" },
		{ "containers: [{name: a}]",  "containers: [{image: b}]", "literal name" },
		/* clang-format on */
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++)
		assert_refused(CASES[i].base, CASES[i].over, CASES[i].part);
}

TEST_GROUP(set_up, NULL)
