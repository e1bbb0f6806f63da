/* The JSON Schemas by name: `rest-lit schema NAME`, and /api/v2/schemas/{schema}. */
#include "base/enc.h"
#include "schema/schema.h"
#include "server/config/options.h"
#include "server/http/request.h"
#include "server/serve/routes.h"
#include "translate/job/dialect.h"

/* Schemas besides those of the dialects, and `config`. */
static const struct {
	const char *name;
	enum schema_name schema;
} SCHEMAS[] = {
	{ "pod", SCHEMA_POD },
	{ "facts", SCHEMA_FACTS },
	{ "issuers", SCHEMA_ISSUERS },
	{ "hived", SCHEMA_HIVED },
};

enum { N_SCHEMAS = ARRAY_SIZE(SCHEMAS), SCHEMA_NAMES_MAX = 256 };

void schema_names(struct str *out, const char *between)
{
	const struct dialect *d;
	for (size_t i = 0; (d = dialect_nth(i)); i++)
		str_printf(out, "%s%s", d->name, between);
	for (size_t i = 0; i < N_SCHEMAS; i++)
		str_printf(out, "%s%s", SCHEMAS[i].name, between);
	str_puts(out, "config");
}

bool schema_named(struct str *out, struct span name)
{
	const struct dialect *d;
	struct span text = { NULL, 0 };
	for (size_t i = 0; (d = dialect_nth(i)); i++)
		if (span_is(name, d->name))
			text = schema_text(d->schema);
	for (size_t i = 0; i < N_SCHEMAS; i++)
		if (span_is(name, SCHEMAS[i].name))
			text = schema_text(SCHEMAS[i].schema);
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
