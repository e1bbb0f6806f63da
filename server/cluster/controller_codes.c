#include "server/cluster/controller_codes.h"

#include "base/doc/yaml.h"
#include "base/json/scan.h"

enum { RUNTIME_FIRST = 220, RUNTIME_LAST = 255 }; /* codes of pai-runtime */

bool controller_code_is_of_runtime(const struct exit_spec *s, int64_t code)
{
	return code >= RUNTIME_FIRST && code <= RUNTIME_LAST && exit_spec_find(s, code);
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
		bool lacks = controller_code_is_of_runtime(s, code);
		for (uint32_t i = 0; lacks && i < entries->n; i++) {
			const struct node *value = node_get(&entries->item[i], "code");
			lacks = !(node_is(value, NODE_INT) && value->integer == code);
		}
		if (!lacks)
			continue;
		str_puts(out, out->n ? ", " : "");
		str_int(out, code);
	}
}
