/* From JSON Schema to what OpenAPI 3.0 calls a schema. */
#include "server/http/openapi.h"

enum { NAME_MAX_BYTES = 128, TYPES_MAX = 8 };

static json_t *convert(json_t *s, const char *prefix);

static json_t *copy(json_t *v, const char *prefix)
{
	(void)prefix;
	return json_deep_copy(v);
}

static json_t *convert_map(json_t *map, const char *prefix)
{
	json_t *out = json_object();
	const char *key;
	json_t *v;
	json_object_foreach (map, key, v)
		(void)json_object_set_new(out, key, convert(v, prefix));
	return out;
}

/* Of those in a list, conditions have become nothing. */
static json_t *convert_list(json_t *list, const char *prefix)
{
	json_t *out = json_array();
	size_t i;
	json_t *v;
	json_array_foreach (list, i, v) {
		json_t *one = convert(v, prefix);
		if (json_object_size(one))
			(void)json_array_append(out, one);
		json_decref(one);
	}
	if (json_array_size(out))
		return out;
	json_decref(out);
	return NULL;
}

static json_t *convert_or_bool(json_t *v, const char *prefix)
{
	return json_is_boolean(v) ? json_incref(v) : convert(v, prefix);
}

/* What OpenAPI 3.0 knows, too; `type`, `const` and patternProperties are translated. */
static const struct {
	const char *name;
	json_t *(*how)(json_t *v, const char *prefix); /* NULL: leave it out */
} KEYWORDS[] = {
	{ "title", copy },
	{ "description", copy },
	{ "default", copy },
	{ "enum", copy },
	{ "format", copy },
	{ "maximum", copy },
	{ "minimum", copy },
	{ "multipleOf", copy },
	{ "maxLength", copy },
	{ "minLength", copy },
	{ "pattern", copy },
	{ "maxItems", copy },
	{ "minItems", copy },
	{ "uniqueItems", copy },
	{ "maxProperties", copy },
	{ "minProperties", copy },
	{ "required", copy },
	{ "properties", convert_map },
	{ "additionalProperties", convert_or_bool },
	{ "items", convert },
	{ "not", convert },
	{ "allOf", convert_list },
	{ "anyOf", convert_list },
	{ "oneOf", convert_list },
};

/* null is no type there, but a property of others. */
static void put_types(json_t *out, json_t *types)
{
	json_t *any = json_array();
	bool nullable = false;
	size_t i;
	json_t *v;
	json_array_foreach (types, i, v)
		nullable |= strcmp(json_string_value(v), "null") == 0;
	json_array_foreach (types, i, v) {
		if (strcmp(json_string_value(v), "null") == 0)
			continue;
		json_t *one = json_pack("{s:O}", "type", v);
		if (nullable)
			(void)json_object_set_new(one, "nullable", json_true());
		if (strcmp(json_string_value(v), "array") == 0 && !json_object_get(out, "items"))
			(void)json_object_set_new(one, "items", json_object());
		(void)json_array_append_new(any, one);
	}
	if (json_array_size(any) == 1)
		(void)json_object_update_missing(out, json_array_get(any, 0));
	else if (!json_object_get(out, "anyOf"))
		(void)json_object_set(out, "anyOf", any);
	json_decref(any);
}

static void put_type(json_t *out, json_t *type)
{
	json_t *list = json_is_array(type) ? json_incref(type) : json_pack("[O]", type);
	put_types(out, list);
	json_decref(list);
}

/* The members of a map whose names are to match: of any name, then. */
static void put_members(json_t *out, json_t *patterns, const char *prefix)
{
	json_t *any = json_array();
	const char *key;
	json_t *v;
	json_object_foreach (patterns, key, v)
		(void)json_array_append_new(any, convert(v, prefix));
	json_t *one = json_array_get(any, 0);
	(void)json_object_set_new(out, "additionalProperties",
	                          json_array_size(any) == 1 ? json_incref(one)
	                                                    : json_pack("{s:O}", "anyOf", any));
	json_decref(any);
}

/* Beside a $ref nothing counts, so what stands there goes around it. */
static json_t *reference(json_t *s, const char *prefix)
{
	const char *to = json_string_value(json_object_get(s, "$ref"));
	const char *name = strrchr(to, '/');
	STR_AUTO text = STR_INIT(NAME_MAX_BYTES);
	str_printf(&text, "#/components/schemas/%s%s%s", prefix, name ? "_" : "",
	           name ? name + 1 : "");
	json_t *ref = json_pack("{s:s}", "$ref", str_c(&text));
	json_t *words = json_object_get(s, "description");
	return words ? json_pack("{s:O, s:[o]}", "description", words, "allOf", ref) : ref;
}

static json_t *convert(json_t *s, const char *prefix)
{
	if (!json_is_object(s))
		return json_is_false(s) ? json_pack("{s:{}}", "not") : json_object();
	if (json_object_get(s, "$ref"))
		return reference(s, prefix);
	json_t *out = json_object();
	for (size_t i = 0; i < sizeof(KEYWORDS) / sizeof(KEYWORDS[0]); i++) {
		json_t *v = json_object_get(s, KEYWORDS[i].name);
		json_t *converted = v ? KEYWORDS[i].how(v, prefix) : NULL;
		if (converted)
			(void)json_object_set_new(out, KEYWORDS[i].name, converted);
	}
	if (json_object_get(s, "patternProperties"))
		put_members(out, json_object_get(s, "patternProperties"), prefix);
	if (json_object_get(s, "const"))
		(void)json_object_set_new(out, "enum",
		                          json_pack("[O]", json_object_get(s, "const")));
	if (json_object_get(s, "type"))
		put_type(out, json_object_get(s, "type"));
	return out;
}

void openapi_schema(json_t *schemas, const char *prefix, json_t *schema)
{
	const char *key;
	json_t *v;
	(void)json_object_set_new(schemas, prefix, convert(schema, prefix));
	json_object_foreach (json_object_get(schema, "definitions"), key, v) {
		STR_AUTO name = STR_INIT(NAME_MAX_BYTES);
		str_printf(&name, "%s_%s", prefix, key);
		(void)json_object_set_new(schemas, str_c(&name), convert(v, prefix));
	}
}
