/*
 * yaml-test-suite: libyaml must pass exactly the cases that are known to pass, so that a
 * changed libyaml is noticed; and what libyaml rightly refuses, we refuse.
 */
#include "tests/unit/base/read.h"

#include <jansson.h>
#include <yaml.h>

static void put_properties(struct str *out, const yaml_char_t *anchor, const yaml_char_t *tag)
{
	if (anchor)
		str_printf(out, " &%s", (const char *)anchor);
	if (tag)
		str_printf(out, " <%s>", (const char *)tag);
}

static void put_value(struct str *out, const yaml_event_t *ev)
{
	static const char STYLES[] = { ' ', ':', '\'', '"', '|', '>' };
	static const char FROM[] = { '\\', '\0', '\b', '\n', '\r', '\t' };
	static const char TO[] = { '\\', '0', 'b', 'n', 'r', 't' };
	struct span text = { (const char *)ev->data.scalar.value, ev->data.scalar.length };
	put_properties(out, ev->data.scalar.anchor, ev->data.scalar.tag);
	str_printf(out, " %c", STYLES[ev->data.scalar.style]);
	for (size_t i = 0; i < text.n; i++) {
		const char *at = memchr(FROM, text.p[i], sizeof(FROM));
		if (at)
			str_char(out, '\\');
		str_put(out, at ? &TO[at - FROM] : &text.p[i], 1);
	}
}

static void put_event(struct str *out, const yaml_event_t *ev)
{
	static const char *const NAMES[] = {
		[YAML_STREAM_START_EVENT] = "+STR",   [YAML_STREAM_END_EVENT] = "-STR",
		[YAML_DOCUMENT_START_EVENT] = "+DOC", [YAML_DOCUMENT_END_EVENT] = "-DOC",
		[YAML_ALIAS_EVENT] = "=ALI",          [YAML_SCALAR_EVENT] = "=VAL",
		[YAML_SEQUENCE_START_EVENT] = "+SEQ", [YAML_SEQUENCE_END_EVENT] = "-SEQ",
		[YAML_MAPPING_START_EVENT] = "+MAP",  [YAML_MAPPING_END_EVENT] = "-MAP",
	};
	str_puts(out, NAMES[ev->type]);
	if (ev->type == YAML_DOCUMENT_START_EVENT && !ev->data.document_start.implicit)
		str_puts(out, " ---");
	if (ev->type == YAML_DOCUMENT_END_EVENT && !ev->data.document_end.implicit)
		str_puts(out, " ...");
	if (ev->type == YAML_ALIAS_EVENT)
		str_printf(out, " *%s", (const char *)ev->data.alias.anchor);
	if (ev->type == YAML_SCALAR_EVENT)
		put_value(out, ev);
	if (ev->type == YAML_SEQUENCE_START_EVENT) {
		bool flow = ev->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
		str_puts(out, flow ? " []" : "");
		put_properties(out, ev->data.sequence_start.anchor, ev->data.sequence_start.tag);
	}
	if (ev->type == YAML_MAPPING_START_EVENT) {
		bool flow = ev->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
		str_puts(out, flow ? " {}" : "");
		put_properties(out, ev->data.mapping_start.anchor, ev->data.mapping_start.tag);
	}
	str_char(out, '\n');
}

/* The events of libyaml, one per line; false if it refuses the text. */
static bool events(struct str *out, struct span text)
{
	yaml_parser_t parser;
	yaml_event_t ev;
	bool more = true;
	bool good = true;
	assert_true(yaml_parser_initialize(&parser));
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
	while (good && more) {
		good = yaml_parser_parse(&parser, &ev);
		if (!good)
			break;
		put_event(out, &ev);
		more = ev.type != YAML_STREAM_END_EVENT;
		yaml_event_delete(&ev);
	}
	yaml_parser_delete(&parser);
	return good;
}

static struct span without_mark(struct span t)
{
	return span_starts(t, "\xef\xbb\xbf") ? (struct span){ t.p + 3, t.n - 3 } : t;
}

TEST(test_suite_libyaml_passes_exactly_the_known_cases)
{
	json_auto_t *cases = json_load_file("tests/data/yaml/suite.json", 0, NULL);
	assert_int_equal(json_array_size(cases), 402);
	size_t i = 0;
	size_t passed = 0;
	json_t *one = NULL;
	json_array_foreach (cases, i, one) {
		STR_AUTO got = STR_INIT(1 << 20);
		const json_t *in = json_object_get(one, "yaml");
		const char *want = json_string_value(json_object_get(one, "events"));
		bool good = events(&got, without_mark((struct span){ json_string_value(in),
		                                                     json_string_length(in) }));
		bool pass = want ? good && strcmp(str_c(&got), want) == 0 : !good;
		if (pass != json_is_true(json_object_get(one, "passes")))
			print_error("%s: %s\n", json_string_value(json_object_get(one, "id")),
			            str_c(&got));
		passed += pass;
	}
	assert_int_equal(passed, 330);
}

TEST(test_suite_doc_read_refuses_what_libyaml_refuses)
{
	json_auto_t *cases = json_load_file("tests/data/yaml/suite.json", 0, NULL);
	size_t i = 0;
	json_t *one = NULL;
	json_array_foreach (cases, i, one) {
		const char *id = json_string_value(json_object_get(one, "id"));
		const json_t *in = json_object_get(one, "yaml");
		bool fails = json_is_true(json_object_get(one, "fail"));
		bool passes = json_is_true(json_object_get(one, "passes"));
		AUTO(run_done)
		struct run r = run_budget(
		    (struct span){ json_string_value(in), json_string_length(in) }, BUDGET_DEFAULT);
		/* A blank line with a tab is no text of a block scalar that is empty: as js-yaml.
		 */
		bool tab = strcmp(id, "Y79Y/000") == 0;
		if (fails && passes && !r.failed && !tab)
			fail_msg("%s: accepted", id);
		if (r.failed && r.err.notes.v[0].line == 0)
			fail_msg("%s: no place", id);
	}
}
