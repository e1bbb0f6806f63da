/* /openapi.json: OpenAPI 3.0.3 from the table of routes, openapi.json, which has their answers, and
 * the schemas of jobs. */
#include <assert.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/embed.h"
#include "base/posix/lock.h"
#include "schema/schema.h"
#include "server/http/request.h"
#include "server/jobs/jobs.h"
#include "server/logs/logs.h"
#include "server/results/job_results.h"
#include "server/serve/routes.h"
#include "server/submit/submit.h"
#include "server/users/users.h"
#include "translate/job/dialect.h"

EMBED(openapi_json, "server/openapi.json");

enum { TABLES = 2, TEXT_MAX = 1024, METHOD_MAX = 8 };

/* The tables of parameters by the answer of a route, besides those of its path. */
static const struct {
	const char *answer;
	const struct parameter *tables[TABLES + 1]; /* ends with NULL */
} PARAMETERS[] = {
	{ "submitted-v2", { SUBMISSION } },
	{ "submitted-v1", { SUBMISSION } },
	{ "jobs", { JOB_FILTERS, JOB_PAGES } },
	{ "jobs-v1", { JOB_FILTERS, JOB_PAGES } },
	{ "config", { JOB_CONFIG } },
	{ "events", { JOB_EVENTS } },
	{ "logs", { LOG_LINKS } },
	{ "log", { LOG_CONTENT } },
	{ "results", { RESULTS_LIST } },
	{ "result", { RESULT_FILE } },
	{ "stream", { JOB_FILTERS, JOBS_WATCH } },
	{ "job-stream", { JOB_WATCH } },
	{ "job", { JOB_WAIT } },
	{ "report", { REPORT } },
	{ "storages", { STORAGES } },
	{ "clusters", { CLUSTERS } },
	{ "skus", { SKUS } },
};

const struct parameter *route_parameters(const struct route *route, size_t i)
{
	for (size_t k = 0; k < ARRAY_SIZE(PARAMETERS); k++)
		if (strcmp(PARAMETERS[k].answer, route->answer) == 0)
			return PARAMETERS[k].tables[i];
	return NULL;
}

/* ---- small pieces ---- */

static json_t *schema_ref(const char *name)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	str_printf(&text, "#/components/schemas/%s", name);
	return json_pack("{s:s}", "$ref", str_c(&text));
}

/* The schema of {name} in a path: a number for an index, a retry or an attempt; where the answer is
 * that of one attempt, it may be called `latest`. */
static json_t *segment_schema(const char *path, const char *name)
{
	bool attempt = strcmp(name, "attempt") == 0;
	if (!attempt && strcmp(name, "index") != 0 && strcmp(name, "retry") != 0)
		return json_pack("{s:s, s:i}", "type", "string", "minLength", 1);
	json_t *number =
	    json_pack("{s:s, s:i, s:i}", "type", "integer", "minimum", 0, "maximum", INT32_MAX);
	if (!attempt || strstr(path, "{retry}"))
		return number;
	return json_pack("{s:[o, {s:s, s:[s]}]}", "anyOf", number, "type", "string", "enum",
	                 "latest");
}

/* ---- an operation ---- */

static json_t *parameter_json(const struct parameter *p)
{
	json_t *schema = json_pack("{s:s}", "type", p->max ? "integer" : "string");
	struct span rest = span_of(p->values ?: "");
	json_t *values = rest.n ? json_array() : NULL;
	while (rest.n) {
		struct span value = span_next(&rest, '|');
		(void)json_array_append_new(values, json_stringn(value.p, value.n));
	}
	if (values)
		(void)json_object_set_new(schema, "enum", values);
	if (p->max)
		(void)json_object_set_new(schema, "minimum", json_integer(0));
	if (p->max && p->max <= INT32_MAX)
		(void)json_object_set_new(schema, "maximum", json_integer(p->max));
	int64_t number = 0;
	if (p->absent && p->max)
		(void)parse_i64(span_of(p->absent), 0, p->max, &number); /* a row of a table */
	if (p->absent)
		(void)json_object_set_new(schema, "default",
		                          p->max ? json_integer(number) : json_string(p->absent));
	if (p->example)
		(void)json_object_set_new(schema, "example", json_string(p->example));
	return json_pack("{s:s, s:s, s:b, s:s, s:o}", "name", p->name, "in",
	                 p->header ? "header" : "query", "required", 0, "description", p->doc,
	                 "schema", schema);
}

static json_t *openapi_parameters(const struct route *route)
{
	json_t *out = json_array();
	for (const char *at = strchr(route->path, '{'); at; at = strchr(at + 1, '{')) {
		STR_AUTO name = STR_INIT(TEXT_MAX);
		str_put(&name, at + 1, strcspn(at + 1, "}"));
		(void)json_array_append_new(out,
		                            json_pack("{s:s, s:s, s:b, s:o}", "name", str_c(&name),
		                                      "in", "path", "required", 1, "schema",
		                                      segment_schema(route->path, str_c(&name))));
	}
	const struct parameter *p;
	for (size_t i = 0; (p = route_parameters(route, i)); i++)
		for (; p->name; p++)
			(void)json_array_append_new(out, parameter_json(p));
	return out;
}

/* Adds an error; a status that has an entry gets more codes. */
static void openapi_add_refusal(json_t *responses, const char *status, const char *more)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	const char *codes =
	    json_string_value(json_object_get(json_object_get(responses, status), "description"));
	if (codes && !strstr(codes, more))
		str_printf(&text, "%s, ", codes);
	str_puts(&text, codes && strstr(codes, more) ? codes : more);
	(void)json_object_set_new(responses, status,
	                          json_pack("{s:s, s:{s:{s:o}}}", "description", str_c(&text),
	                                    "content", "application/json", "schema",
	                                    schema_ref("Error")));
}

static json_t *responses_of(const struct route *route, json_t *answer)
{
	json_t *out = json_copy(json_object_get(answer, "responses"));
	const char *status;
	json_t *codes;
	json_object_foreach (json_object_get(answer, "refusals"), status, codes)
		openapi_add_refusal(out, status, json_string_value(codes));
	openapi_add_refusal(out, "414", "UriTooLongError");
	openapi_add_refusal(out, "429", "TooManyRequestsError");
	if (strchr(route->path, '{')) /* the segment may be invalid UTF-8 */
		openapi_add_refusal(out, "404", "NoApiError");
	if (route->auth != AUTH_NONE) {
		openapi_add_refusal(out, "401", "UnauthorizedUserError");
		openapi_add_refusal(out, "503", "UnavailableError");
	}
	if (route->auth == AUTH_PERSON)
		openapi_add_refusal(out, "403", "ForbiddenUserError");
	if (route->body != BODY_NONE) {
		openapi_add_refusal(out, "413", "PayloadTooLargeError");
		openapi_add_refusal(out, "415", "UnsupportedMediaTypeError");
	}
	return out;
}

/* answers: of openapi.json. */
static json_t *openapi_operation(const struct route *route, json_t *answers)
{
	json_t *answer = json_object_get(answers, route->answer);
	const struct route *told = route;
	while (told > ROUTES.row && strncmp(told->doc, "The same", 8) == 0) /* as the route above */
		told--;
	json_t *out =
	    json_pack("{s:s, s:s, s:O, s:o, s:o}", "operationId", route->operation, "summary",
	              told->doc, "tags", json_object_get(answer, "tags"), "parameters",
	              openapi_parameters(route), "responses", responses_of(route, answer));
	assert(out); /* the answer is there */
	if (route->body != BODY_NONE)
		(void)json_object_set(out, "requestBody", json_object_get(answer, "requestBody"));
	if (route->auth == AUTH_NONE)
		(void)json_object_set_new(out, "security", json_array());
	else if (route->auth == AUTH_PERSON)
		(void)json_object_set_new(out, "security", json_pack("[{s:[]}]", "bearer"));
	else if (route->auth == AUTH_LINK || route->auth == AUTH_V1)
		(void)json_object_set_new(out, "security", json_pack("[{}, {s:[]}]", "bearer"));
	return out;
}

/*
 * ---- JSON Schema (draft-07) to OpenAPI 3.0 ----
 * Keywords that OpenAPI lacks are dropped, so the result accepts more than the original, never
 * less.
 */

enum { NAME_MAX_BYTES = 128, TYPES_MAX = 8 };

static json_t *openapi_convert(json_t *s, const char *prefix);

/* Omits schemas without a convertible keyword. */
static json_t *convert_list(json_t *list, const char *prefix)
{
	json_t *out = json_array();
	size_t i;
	json_t *v;
	json_array_foreach (list, i, v) {
		json_t *one = openapi_convert(v, prefix);
		if (json_object_size(one))
			(void)json_array_append(out, one);
		json_decref(one);
	}
	if (json_array_size(out))
		return out;
	json_decref(out);
	return NULL;
}

/* OpenAPI has no type null; other types are `nullable`. */
static void put_types(json_t *out, json_t *type)
{
	json_auto_t *types = json_is_array(type) ? json_incref(type) : json_pack("[O]", type);
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
		(void)json_array_append_new(any, one);
	}
	if (json_array_size(any) == 1)
		(void)json_object_update_missing(out, json_array_get(any, 0));
	else
		(void)json_object_set(out, "anyOf", any);
	json_decref(any);
}

/* OpenAPI ignores siblings of $ref, so a description wraps the reference in allOf. */
static json_t *openapi_reference(json_t *s, const char *prefix)
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

/* Keywords that OpenAPI 3.0 has too, besides `properties`. */
static const char *const COPIED[] = {
	"title",    "description", "default",       "enum",          "format",   "maximum",
	"minimum",  "multipleOf",  "maxLength",     "minLength",     "pattern",  "maxItems",
	"minItems", "uniqueItems", "maxProperties", "minProperties", "required",
};
/* Their values are schemas or lists of schemas; the first may be a boolean. */
static const char *const CONVERTED[] = {
	"additionalProperties", "items", "not", "allOf", "anyOf", "oneOf"
};

static json_t *openapi_convert(json_t *s, const char *prefix)
{
	if (!json_is_object(s))
		return json_is_false(s) ? json_pack("{s:{}}", "not") : json_object();
	if (json_object_get(s, "$ref"))
		return openapi_reference(s, prefix);
	json_t *out = json_object();
	json_t *v;
	for (size_t i = 0; i < ARRAY_SIZE(COPIED); i++)
		if ((v = json_object_get(s, COPIED[i])))
			(void)json_object_set(out, COPIED[i], v);
	if (json_object_get(s, "properties")) {
		const char *key;
		json_t *properties = json_object();
		json_object_foreach (json_object_get(s, "properties"), key, v)
			(void)json_object_set_new(properties, key, openapi_convert(v, prefix));
		(void)json_object_set_new(out, "properties", properties);
	}
	for (size_t i = 0; i < ARRAY_SIZE(CONVERTED); i++) {
		v = json_object_get(s, CONVERTED[i]);
		bool yes_or_no = i == 0 && json_is_boolean(v);
		json_t *converted = !v                 ? NULL
		                    : yes_or_no        ? json_incref(v)
		                    : json_is_array(v) ? convert_list(v, prefix)
		                                       : openapi_convert(v, prefix);
		if (converted)
			(void)json_object_set_new(out, CONVERTED[i], converted);
	}
	const char *pattern; /* each schema has one at most; any name matches it */
	json_object_foreach (json_object_get(s, "patternProperties"), pattern, v)
		(void)json_object_set_new(out, "additionalProperties", openapi_convert(v, prefix));
	if (json_object_get(s, "const"))
		(void)json_object_set_new(out, "enum",
		                          json_pack("[O]", json_object_get(s, "const")));
	if (json_object_get(s, "type"))
		put_types(out, json_object_get(s, "type"));
	return out;
}

/* Takes over `value`.  A second one of a name would silently replace the first in every client. */
static void openapi_add(json_t *to, const char *name, json_t *value)
{
	assert(!json_object_get(to, name));
	(void)json_object_set_new(to, name, value);
}

/* ---- the document ---- */

static json_t *openapi_paths(json_t *answers)
{
	json_t *out = json_object();
	for (size_t i = 0; i < ROUTES.n; i++) {
		bool any = strcmp(ROUTES.row[i].method, "*") == 0;
		STR_AUTO method = STR_INIT(METHOD_MAX);
		for (const char *p = any ? "get" : ROUTES.row[i].method; *p; p++)
			str_char(&method, to_lower(*p));
		if (!json_object_get(out, ROUTES.row[i].path))
			(void)json_object_set_new(out, ROUTES.row[i].path, json_object());
		openapi_add(json_object_get(out, ROUTES.row[i].path), str_c(&method),
		            openapi_operation(&ROUTES.row[i], answers));
	}
	return out;
}

/* The text is built in and therefore valid. */
static json_t *openapi_load(struct span text)
{
	json_t *v = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
	assert(v);
	return v;
}

/* The files of each dialect, as JobFileV2, and as JobFile those that a submission may have. */
static void add_job_files(json_t *schemas)
{
	json_t *any = json_array();
	const struct dialect *d;
	for (size_t i = 0; (d = dialect_nth(i)); i++) {
		json_auto_t *schema = openapi_load(schema_text(d->schema));
		STR_AUTO name = STR_INIT(NAME_MAX_BYTES);
		str_printf(&name, "JobFile%c%s", d->name[0] & ~0x20, d->name + 1);
		openapi_add(schemas, str_c(&name), openapi_convert(schema, str_c(&name)));
		const char *key;
		json_t *v;
		json_object_foreach (json_object_get(schema, "definitions"), key, v) {
			STR_AUTO inner = STR_INIT(NAME_MAX_BYTES);
			str_printf(&inner, "%s_%s", str_c(&name), key);
			openapi_add(schemas, str_c(&inner), openapi_convert(v, str_c(&name)));
		}
		if (d->api == 2)
			(void)json_array_append_new(any, schema_ref(str_c(&name)));
	}
	openapi_add(schemas, "JobFile",
	            json_pack("{s:s, s:o}", "description",
	                      "Only JobFileV2, unless the server has --dialects", "anyOf", any));
}

void openapi_page(struct str *out)
{
	json_auto_t *doc = openapi_load(EMBEDDED(openapi_json));
	(void)json_object_set_new(json_object_get(doc, "info"), "version",
	                          json_string(REST_LIT_VERSION));
	json_auto_t *answers = json_incref(json_object_get(doc, "answers"));
	(void)json_object_del(doc, "answers");
	(void)json_object_set_new(doc, "paths", openapi_paths(answers));
	add_job_files(json_object_get(json_object_get(doc, "components"), "schemas"));
	FREE_AUTO char *text = json_dumps(doc, JSON_COMPACT);
	str_puts(out, text);
	str_char(out, '\n');
}

void openapi_get(struct request *r)
{
	/* Made on the first request, because it takes the time of a hundred jobs. */
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct str made = STR_INIT(REPLY_MAX);
	{
		LOCK_AUTO(&lock);
		if (!made.n)
			openapi_page(&made);
	}
	str_span(&r->reply.body, str_view(&made));
	answer_json(r, 200);
}
