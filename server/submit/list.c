#include "server/submit/list.h"

#include "base/tree.h"
#include "base/yaml/yaml.h"

enum { DEPTH_MAX = 256 };

void list_json(struct str *out, struct span first, const struct objects *o)
{
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[");
	str_span(out, first);
	for (size_t i = 0; i < o->n; i++) {
		str_puts(out, first.n || i ? "," : "");
		str_span(out, o->v[i].body);
	}
	str_char(out, ']');
}

void list_yaml(struct str *out, struct span json)
{
	ARENA_AUTO arena = { 0 };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct budget budget = { DEPTH_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX };
	struct doc doc;
	bool syntax;
	/* Templates may name a variable twice, and then the ConfigMap of variables has a key twice:
	 * then as it is, since JSON is YAML, too. */
	if (json_read(json, &budget, &arena, &doc, &warnings, &syntax, &e) < 0)
		str_span(out, json);
	else
		yaml_write(out, &doc.root);
}
