#include "server/cluster/controller_codes.h"

#include "base/yaml/yaml.h"

enum { RUNTIME_FIRST = 220, RUNTIME_LAST = 255 }; /* the codes that are pai-runtime's */

static bool is_of_runtime(const struct exit_spec *s, int64_t code)
{
	return code >= RUNTIME_FIRST && code <= RUNTIME_LAST && exit_spec_has(s, code);
}

static bool lists_code(const struct node *entries, int64_t code)
{
	for (uint32_t i = 0; i < entries->n; i++) {
		const struct node *value = node_get(&entries->item[i], "code");
		if (node_is(value, NODE_INT) && value->integer == code)
			return true;
	}
	return false;
}

void controller_codes_lacking(struct str *out, struct span configmap, const struct exit_spec *s)
{
	static const struct node NONE = { .type = NODE_LIST };
	ARENA_AUTO a = { 0 };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc;
	struct span text = scan_text(scan_path(configmap, "data", "frameworkcontroller.yaml"), &a);
	if (text.n == 0 || yaml_read(text, &BUDGET_DEFAULT, &a, &doc, &warnings, &e) < 0)
		return;
	const struct node *entries = node_get(&doc.root, "podFailureSpec");
	if (!node_is(entries, NODE_LIST))
		entries = &NONE; /* the controller has its own codes only */
	for (int64_t code = RUNTIME_FIRST; code <= RUNTIME_LAST; code++) {
		if (!is_of_runtime(s, code) || lists_code(entries, code))
			continue;
		str_puts(out, out->n ? ", " : "");
		str_int(out, code);
	}
}

bool controller_code_unknown(struct span framework, const struct exit_spec *s, int64_t *code)
{
	ARENA_AUTO a = { 0 };
	struct span outcome = scan_path(framework, "status", "attemptStatus", "completionStatus");
	struct span phrase = scan_text(scan_get(outcome, "phrase"), &a);
	return span_is(phrase, "ContainerUnrecognizedFailed") &&
	       scan_int(scan_get(outcome, "code"), RUNTIME_FIRST, RUNTIME_LAST, code) &&
	       is_of_runtime(s, *code);
}
