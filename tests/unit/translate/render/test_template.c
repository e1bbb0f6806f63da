/* Manifests with variables: generated ones compared with a model, merging, and errors. */

#include "tests/unit/base/cmocka.h"

#include "translate/render/template.h"

enum { TEXT_MAX = 1 << 20 };

/* ---- variables to test with --------------------------------------------------------------- */

struct scope {
	int unused;
};

#define WRITES(name, call)                                                                         \
	static bool name(const struct scope *s, struct variable_output *o)                         \
	{                                                                                          \
		(void)s, (void)o;                                                                  \
		call;                                                                              \
	}
WRITES(text_variable, out_text(o, SPAN("a\"b\n${number}")); return true)
WRITES(number_variable, str_int(o->s, -42); return true)
WRITES(bool_variable, str_puts(o->s, "true"); return true)
WRITES(absent_variable, return false)
WRITES(empty_variable, out_text(o, SPAN("")); return true)
WRITES(no_elements, return true)
WRITES(two_elements, str_puts(o->s, "1,{\"x\":[2]},"); return true)
WRITES(two_texts, str_puts(o->s, "\"a\",\"b\","); return true)
WRITES(map_variable, str_puts(o->s, "{\"m\":1}"); return true)

/* The model: the output of each variable as a value, and within a text. */
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
enum { N_MODEL = ARRAY_SIZE(MODEL), N_IN_TEXT = 6, FIRST_LIST = 6, N_LISTS = 3, MAP = 9 };

static struct variable variables[N_MODEL];
static const struct constant CONSTANTS_HERE[] = { { "config.device", { "gpu/x", 5 }, "" },
	                                          { "config.quote", { "q\"", 2 }, "" } };
static struct variable_group group = { "test", variables, N_MODEL };
static const struct variable_group *const GROUPS[] = { &group };
static const struct vocabulary WORDS = { GROUPS, 1, CONSTANTS_HERE, 2, NULL };

FIXTURE(set_up)
{
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
	struct manifest m = read_one(base, MANIFEST_BASE, &unit.a, no_err());
	const struct node *root = m.root;
	for (; root && over && *over; over++) {
		struct manifest o = read_one(*over, MANIFEST_OVERLAY, &unit.a, no_err());
		if (o.root == NULL || manifest_merge(&root, &o, &unit.a, no_err()) < 0)
			root = NULL;
	}
	struct prog *p = root ? prog_new(root, shape, &WORDS, no_err()) : NULL;
	if (p == NULL)
		return xstrdup(err_msg(&unit.e));
	STR_AUTO out = STR_INIT(TEXT_MAX);
	prog_run(p, &(struct scope){ 0 }, &out);
	prog_free(p);
	return str_take(&out);
}

/* The result of base and overlay (NULL: none), or a part of the error's text. */
struct template_case {
	enum prog_shape shape;
	const char *base, *over, *want;
};

static void assert_cases(const struct template_case *v, size_t n, bool refused)
{
	for (size_t i = 0; i < n; i++) {
		const char *const list[] = { v[i].over, NULL };
		FREE_AUTO char *got = run(v[i].shape, v[i].base, list);
		if (refused ? !strstr(got, v[i].want) : strcmp(got, v[i].want) != 0)
			fail_msg("%s: \"%s\" is not in: %s", v[i].base, v[i].want, got);
	}
}

/* ---- the model: a random manifest, and what must come out --------------------------------- */

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

TEST(test_generated_manifests_equal_the_model)
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

TEST(test_prog_run_writes_the_expected_json)
{
	static const struct template_case CASES[] = {
		/* a value with a variable is not looked at again */
		{ PROG_VALUE, "a: ${text}", NULL, "{\"a\":\"a\\\"b\\n${number}\"}" },
		/* absent: no comma, or an empty map */
		{ PROG_VALUE, "a: 1\nb: ${absent}", NULL, "{\"a\":1}" },
		{ PROG_VALUE, "a:\n  b: x-${absent}", NULL, "{\"a\":{}}" },
		/* constants are escaped, doubled dollars literal */
		{ PROG_VALUE, "${config.quote}: ${config.device}\n", NULL,
		  "{\"q\\\"\":\"gpu/x\"}" },
		{ PROG_VALUE, "a: $${HOME} $x $$ ${number}", NULL,
		  "{\"a\":\"${HOME} $x $$ -42\"}" },
		/* each item has a comma, members are pairs of texts with any variable */
		{ PROG_ITEMS, "- 1\n- ${*two}\n- ${absent}\n- a: x", NULL,
		  "1,1,{\"x\":[2]},{\"a\":\"x\"}," },
		{ PROG_MEMBERS, "- name: A_${number}\n  value: ${text}\n", NULL,
		  "\"A_-42\":\"a\\\"b\\n${number}\"," },
		{ PROG_MEMBERS, "- name: ${number}\n  value: A\n", NULL, "\"-42\":\"A\"," },
		/* merging: maps, lists, scalars; a key by its folded name; containers by name */
		{ PROG_VALUE, "m: {a: 1, b: 2}\nl: [1]", "m: {b: 3, c: 4}\nl: [2]",
		  "{\"m\":{\"a\":1,\"b\":3,\"c\":4},\"l\":[1,2]}" },
		{ PROG_VALUE, "m:\n  gpu/x: 1\n  b: 2", "m:\n  ${config.device}: null",
		  "{\"m\":{\"b\":2}}" },
		{ PROG_VALUE, "containers:\n- name: a\n  env: [1]\n- name: b",
		  "containers:\n- name: b\n  env: [3]\n- name: a\n  env: [2]\n- name: c\n  image: "
		  "i",
		  "{\"containers\":[{\"name\":\"a\",\"env\":[1,2]},{\"name\":\"b\",\"env\":[3]},"
		  "{\"name\":\"c\",\"image\":\"i\"}]}" },
		{ PROG_MEMBERS, "- name: A\n  value: a", "- name: B\n  value: b",
		  "\"A\":\"a\",\"B\":\"b\"," },
		/* a blank overlay changes nothing */
		{ PROG_VALUE, "a: 1", "", "{\"a\":1}" },
		{ PROG_VALUE, "a: 1", "\n", "{\"a\":1}" },
		{ PROG_VALUE, "a: 1", "# nothing\n", "{\"a\":1}" },
		{ PROG_VALUE, "a: 1", " \t\r\n  # x", "{\"a\":1}" },
		{ PROG_VALUE, "a: 1", "{}", "{\"a\":1}" },
	};
	assert_cases(CASES, ARRAY_SIZE(CASES), false);
}

TEST(test_merge_leaves_base_unchanged)
{
	struct manifest base = read_one("m: {a: 1}\nl: [x]", MANIFEST_BASE, &unit.a, no_err());
	struct manifest over =
	    read_one("m: {a: 2, b: 3}\nl: [y]", MANIFEST_OVERLAY, &unit.a, no_err());
	const struct node *merged = base.root;
	assert_int_equal(manifest_merge(&merged, &over, &unit.a, no_err()), 0);
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

static const struct template_case REFUSED[] = {
	/* clang-format off */
	{ PROG_VALUE, "a: 1\nb: ${nothing}", NULL, "base.yaml, line 2: unknown variable: `nothing`" },
	{ PROG_VALUE, "a: 1\nb: x${nuber}", NULL, "`nuber`; did you mean `number`?" },
	{ PROG_VALUE, "a: ${config.dev}", NULL, "`config.dev`; did you mean `config.device`?" },
	{ PROG_VALUE, "a: ${zzzzzzzzzz}", NULL, "page translation" },
	{ PROG_VALUE, "", NULL, "template base.yaml: is empty" },
	{ PROG_VALUE, " # b\n\n# c", NULL, "template base.yaml: is empty" },
	{ PROG_VALUE, "a: 1\nb: [", NULL, "template base.yaml, line 3, column 1: a value" },
	{ PROG_VALUE, "a: 1\na: 2", NULL, "template base.yaml, line 2, column 1: duplicate key" },
	{ PROG_VALUE, "a: 1\n---\nb: 2", NULL, "template base.yaml, line 2, column 1: a second" },
	{ PROG_VALUE, "a: ${text", NULL, "without end" },
	{ PROG_VALUE, "a: x${}", NULL, "without end or name" },
	{ PROG_VALUE, "a: null", NULL, "null" },
	{ PROG_VALUE, "a: ~", NULL, "null" },
	{ PROG_VALUE, "a: 1.5", NULL, "quotes" },
	{ PROG_VALUE, "a: 2020-01-01", NULL, "quotes" },
	{ PROG_VALUE, "a: ${two}", NULL, "a list needs" },
	{ PROG_VALUE, "a: ${*two}", NULL, "only alone, as an element" },
	{ PROG_VALUE, "- \"${*two}\"", NULL, "only alone, as an element" },
	{ PROG_VALUE, "- x${*two}", NULL, "only alone" },
	{ PROG_VALUE, "- ${*text}", NULL, "no list" },
	{ PROG_VALUE, "- ${*config.device}", NULL, "no list" },
	{ PROG_VALUE, "a: \"${map}\"", NULL, "whole value" },
	{ PROG_VALUE, "a: x${map}", NULL, "whole value" },
	{ PROG_VALUE, "${text}: 1", NULL, "constants only" },
	{ PROG_VALUE, "${config.device}: 1\ngpu/x: 2", NULL, "same key twice" },
	{ PROG_VALUE, "gpu/x: 2\n${config.device}: 1", NULL, "same key twice" },
	{ PROG_VALUE, "labels:\n  a: ${number}", NULL, "must be text" },
	{ PROG_VALUE, "annotations:\n  a: 1", NULL, "must be text" },
	{ PROG_VALUE, "data:\n  a: ${flag}", NULL, "must be text" },
	{ PROG_VALUE, "nodeSelector: {a: true}", NULL, "must be text" },
	{ PROG_VALUE, "env:\n- name: A\n  value: ${number}", NULL, "must be text" },
	{ PROG_VALUE, "tolerations: [{key: a, value: true}]", NULL, "must be text" },
	{ PROG_VALUE, "args: [--port, 8080]", NULL, "must be text" },
	{ PROG_VALUE, "command: [a, \"${number}\", true]", NULL, "must be text" },
	{ PROG_VALUE, "values: [1]", NULL, "must be text" },
	{ PROG_VALUE, "command:\n- ${*two}", NULL, "must be text" },
	{ PROG_VALUE, "containers:\n- image: x", NULL, "literal name" },
	{ PROG_VALUE, "containers:\n- name: ${text}", NULL, "literal name" },
	{ PROG_VALUE, "initContainers: [{name: a}, {name: a}]", NULL, "twice" },
	{ PROG_VALUE, "a: [", NULL, "template base.yaml" },
	{ PROG_VALUE, "a: 1", "b: 1", "no such place" },
	{ PROG_VALUE, "a: {b: 1}", "a: {c: null}", "null deletes nothing" },
	{ PROG_VALUE, "a: {b: 1}", "a: [1]", "a list, where there is a mapping: `a`" },
	{ PROG_VALUE, "a: [1]", "a: 1", "an integer, where there is a list" },
	{ PROG_VALUE, "a: 1", "a: {b: 1}", "a mapping, where there is an integer" },
	{ PROG_VALUE, "a: [1]", "a: [null]", "null" },
	{ PROG_VALUE, "a: {b: 1}", "a: {c: {d: null}}", "all of this is new" },
	{ PROG_VALUE, "a: [1]", "a: [{b: null}]", "all of this is new" },
	{ PROG_VALUE, "a: [1]", "a:\n- b:\n", "an empty mapping is {}" },
	{ PROG_VALUE, "a: {}", "a: {containers: [{name: b}]}", "no such container" },
	{ PROG_VALUE, "containers: [{name: a}]", "containers: [{name: b, image: c, d: null}]", "is new" },
	{ PROG_VALUE, "containers: [{name: a}]", "containers: [{name: b}]", "no such container" },
	{ PROG_VALUE, "containers: [{name: a}]", "containers: [{image: b}]", "literal name" },
	{ PROG_ITEMS, "- 1\n- ${*two}\n- ${absent}\n- a: ${*none}x", NULL, "stands only alone" },
	{ PROG_MEMBERS, "- name: ${map}\n  value: A\n", NULL, "{name, value}" },
	{ PROG_MEMBERS, "- name: A\n  valueFrom: x\n", NULL, "line 1" },
	/* clang-format on */
};

TEST(test_manifests_with_errors_are_refused)
{
	assert_cases(REFUSED, ARRAY_SIZE(REFUSED), true);
}

TEST_GROUP(set_up, NULL)
