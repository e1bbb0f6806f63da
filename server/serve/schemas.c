/* The JSON Schemas by name: `rest-lit schema NAME`, and /api/v2/schemas/{schema}. */
#include "base/enc.h"
#include "schema/schema.h"
#include "server/config/options.h"
#include "server/http/request.h"
#include "server/serve/routes.h"

enum { SCHEMA_NAMES_MAX = 256 };

void schema_names(struct str *out, const char *between)
{
	for (size_t i = 0; i < SCHEMA_NAME_MAX; i++)
		str_printf(out, "%s%s", SCHEMA_NAMES[i], between);
	str_puts(out, "config");
}

bool schema_named(struct str *out, struct span name)
{
	struct span text = { NULL, 0 };
	for (size_t i = 0; i < SCHEMA_NAME_MAX; i++)
		if (span_is(name, SCHEMA_NAMES[i]))
			text = schema_text((enum schema_name)i);
	str_span(out, text);
	if (span_is(name, "config"))
		options_schema(out);
	return text.n || span_is(name, "config");
}

void schemas_get(struct request *r)
{
	char hash[33];
	if (!schema_named(&r->reply.body, r->args[0])) {
		STR_AUTO message = STR_INIT(SCHEMA_NAMES_MAX);
		str_puts(&message, "there is no such schema; the schemas are ");
		schema_names(&message, ", ");
		answer_refuse(r, 404, "NoSchemaError", str_c(&message));
		return;
	}
	md5_hex(hash, str_view(&r->reply.body));
	r->reply.cache = "no-cache";
	if (!answer_unchanged(r, arena_printf(&r->arena, "W/\"%s\"", hash)))
		answer_json(r, 200);
}
