/* /openapi.json: OpenAPI 3.0.3 from the table of routes, openapi.json and the schemas of jobs. */
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
#include "server/serve/routes.h"
#include "server/submit/submit.h"
#include "server/users/users.h"
#include "translate/job/dialect.h"

EMBED(openapi_json, "server/openapi.json");

enum { REFUSALS = 10, TABLES = 2, TEXT_MAX = 1024, STATUS_TEXT = 8 };

struct refusal {
	int status;
	const char *codes;
};

/* Refusals of several routes. */
#define BAD_PARAMETERS 400, "InvalidParametersError"
#define BAD_USER       403, "ForbiddenUserError"
#define BAD_JOB        404, "NoJobError"
#define BAD_UNKNOWN    500, "UnknownError"
#define BAD_OUTCOME    504, "OutcomeUnknown"
#define BAD_SUBMISSION                                                                             \
	{ 400, "InvalidProtocolError, InvalidParametersError" }, { BAD_USER },                     \
	    { 404, "NoStorageError" }, { 409, "ConflictJobError, IdempotencyError" },              \
	    { 422, "IdempotencyError" }, { BAD_UNKNOWN },                                          \
	    { 503, "UnavailableError, BeingDeletedError" },                                        \
	{                                                                                          \
		BAD_OUTCOME                                                                        \
	}

/* The answers of routes.  Schemas are names of openapi.json. */
static const struct answer_schema {
	const char *tag;
	int status;
	const char *schema;                         /* NULL: text */
	const char *request;                        /* schema of a body of fields */
	const struct parameter *parameters[TABLES]; /* besides those of the path; then NULL */
	const char *type;                           /* NULL: JSON with a schema, else text/plain */
	struct refusal refusals[REFUSALS]; /* ends at status 0 or at the end of the array */
} ANSWERS[ANSWER_MAX] = {
	[ANSWER_TEXT] = { "server", 200, .refusals = { { 503, "UnavailableError" } } },
	[ANSWER_FILE] = { "server", 200, .type = "*/*", .refusals = { { 404, "NoFileError" } } },
	[ANSWER_OPENAPI] = { "server", 200, .schema = "Any" },
	[ANSWER_SUBMITTED_V2] = { "jobs", 202, "SubmittedV2", .parameters = { SUBMISSION },
	                          .refusals = { BAD_SUBMISSION } },
	[ANSWER_SUBMITTED_V1] = { "jobs", 202, "SubmittedV1", .parameters = { SUBMISSION },
	                          .refusals = { BAD_SUBMISSION } },
	[ANSWER_JOBS] = { "jobs", 200, "JobRows", .parameters = { JOB_FILTERS, JOB_PAGES },
	                  .refusals = { { BAD_PARAMETERS } } },
	[ANSWER_JOBS_V1] = { "jobs", 200, "JobRowsV1", .parameters = { JOB_FILTERS, JOB_PAGES },
	                     .refusals = { { BAD_PARAMETERS } } },
	[ANSWER_CONFIG] = { "jobs", 200, "Config", .parameters = { JOB_CONFIG },
	                    .type = "text/yaml",
	                    .refusals = { { BAD_PARAMETERS },
	                                  { BAD_USER },
	                                  { 404, "NoJobError, NoJobConfigError" } } },
	[ANSWER_NO_SSH] = { "jobs", 404, .schema = "Error" },
	[ANSWER_CHANGED] = { "jobs", 202, "Changed", "Execution",
	                     .refusals = { { BAD_PARAMETERS },
	                                   { BAD_USER },
	                                   { BAD_JOB },
	                                   { BAD_UNKNOWN } } },
	[ANSWER_TAGGED] = { "jobs", 200, "Changed", "Tag",
	                    .refusals = { { BAD_PARAMETERS },
	                                  { BAD_USER },
	                                  { 404, "NoJobError, NoTagError" },
	                                  { BAD_UNKNOWN } } },
	[ANSWER_SCALED] = { "jobs", 202, "Scaled", "Scale",
	                    .refusals = { { 400, "InvalidParametersError, NotImplementedError" },
	                                  { BAD_USER },
	                                  { BAD_JOB },
	                                  { 409, "ConflictJobError" },
	                                  { BAD_UNKNOWN } } },
	[ANSWER_EVENTS] = { "jobs", 200, "Events", .parameters = { JOB_EVENTS },
	                    .refusals = { { BAD_PARAMETERS }, { BAD_USER }, { BAD_JOB } } },
	[ANSWER_TASK] = { "jobs", 200, "TaskAttempts",
	                  .refusals = { { BAD_PARAMETERS }, { BAD_JOB }, { BAD_UNKNOWN } } },
	[ANSWER_LOGS] = { "jobs", 200, "LogLocations", .parameters = { LOG_LINKS },
	                  .refusals = { { BAD_USER },
	                                { 404, "NoTaskLogError" },
	                                { BAD_UNKNOWN } } },
	[ANSWER_LOG] = { "jobs", 200, .parameters = { LOG_CONTENT },
	                 .refusals = { { BAD_USER },
	                               { 404, "NoTaskLogError" },
	                               { 416, "RangeNotSatisfiableError" },
	                               { BAD_UNKNOWN } } },
	[ANSWER_ATTEMPTS] = { "jobs", 200, "JobAttempts",
	                      .refusals = { { BAD_JOB }, { BAD_UNKNOWN } } },
	[ANSWER_ATTEMPT] = { "jobs", 200, "JobAttempt",
	                     .refusals = { { BAD_PARAMETERS }, { BAD_JOB }, { BAD_UNKNOWN } } },
	[ANSWER_STREAM] = { "jobs", 200, .parameters = { JOB_FILTERS, JOBS_WATCH },
	                    .type = "text/event-stream", .refusals = { { BAD_PARAMETERS } } },
	[ANSWER_JOB_STREAM] = { "jobs", 200, .parameters = { JOB_WATCH },
	                        .type = "text/event-stream",
	                        .refusals = { { BAD_PARAMETERS }, { BAD_JOB } } },
	[ANSWER_JOB] = { "jobs", 200, "Job", .parameters = { JOB_WAIT },
	                 .refusals = { { BAD_PARAMETERS }, { BAD_JOB }, { BAD_UNKNOWN } } },
	[ANSWER_NO_JOB] = { "jobs", 404, .schema = "Error" },
	[ANSWER_INFO] = { "server", 200, .schema = "Info" },
	[ANSWER_AUTHN] = { "server", 200, .schema = "Authn" },
	[ANSWER_LOGIN] = { "tokens", 200, "LoggedIn", "Login",
	                   .refusals = { { 400, "InvalidParametersError, NoUserError, "
	                                        "IncorrectPasswordError, NotImplementedError" },
	                                 { BAD_UNKNOWN },
	                                 { 503, "UnavailableError" },
	                                 { BAD_OUTCOME } } },
	[ANSWER_LOGOUT] = { "tokens", 200, "Message",
	                    .refusals = { { 400, "NotImplementedError" },
	                                  { BAD_UNKNOWN },
	                                  { BAD_OUTCOME } } },
	[ANSWER_TOKENS] = { "tokens", 200, "Tokens", .refusals = { { BAD_UNKNOWN } } },
	[ANSWER_TOKEN] = { "tokens", 200, "Token", "NewToken",
	                   .refusals = { { 400, "InvalidParametersError, NotImplementedError" },
	                                 { BAD_UNKNOWN },
	                                 { BAD_OUTCOME } } },
	[ANSWER_REVOKED] = { "tokens", 200, "Message",
	                     .refusals = { { 400, "InvalidParametersError, NotImplementedError" },
	                                   { BAD_UNKNOWN },
	                                   { BAD_OUTCOME } } },
	[ANSWER_CLAIMS] = { "tokens", 200, .schema = "Claims" },
	[ANSWER_USER] = { "people", 200, "User", .refusals = { { 400, "NoUserError" } } },
	[ANSWER_USERS] = { "people", 200, .schema = "Users" },
	[ANSWER_USER_EDITED] = { "people", 201, "Message", "Any",
	                         .refusals = { { 400,
	                                         "InvalidParametersError, NoVirtualClusterError" },
	                                       { 403, "ForbiddenUserError, RemoveAdminError" },
	                                       { 404, "NoUserError, NoGroupError, NoApiError" },
	                                       { 405, "NotImplementedError" },
	                                       { 409, "ConflictUserError" },
	                                       { BAD_OUTCOME } } },
	[ANSWER_USER_REMOVED] = { "people", 200, "Message",
	                          .refusals = { { 403, "ForbiddenUserError, RemoveAdminError" },
	                                        { 404, "NoUserError, NoApiError" },
	                                        { 405, "NotImplementedError" },
	                                        { 409, "ConflictUserError" },
	                                        { BAD_OUTCOME } } },
	[ANSWER_GROUPS] = { "people", 200, .schema = "Groups" },
	[ANSWER_LIST] = { "server", 200, .schema = "List" },
	[ANSWER_NODES] = { "server", 200, "Any", .refusals = { { BAD_USER } } },
	[ANSWER_STORAGES] = { "people", 200, "Storages", .parameters = { STORAGES } },
	[ANSWER_STORAGE] = { "people", 200, "Storage", .refusals = { { 404, "NoStorageError" } } },
	[ANSWER_CLUSTERS] = { "people", 200, "VirtualClusters", .parameters = { CLUSTERS } },
	[ANSWER_CLUSTER] = { "people", 200, "VirtualCluster",
	                     .refusals = { { 404, "NoVirtualClusterError" } } },
	[ANSWER_SCHEMA] = { "server", 200, "Any", .refusals = { { 404, "NoSchemaError" } } },
	[ANSWER_MACHINE] = { "server", 200, "Machine", .refusals = { { 404, "NoMachineError" } } },
	[ANSWER_BACKUP] = { "server", 200, .type = "application/vnd.sqlite3",
	                    .refusals = { { 403, "ForbiddenUserError" },
	                                  { 404, "NoMachineError" },
	                                  { 503, "UnavailableError" } } },
	[ANSWER_CODE_KEPT] = { "code", 201, "Code",
	                       .refusals = { { 400, "InvalidCodeError, InvalidParametersError" },
	                                     { 411, "LengthRequiredError" },
	                                     { 413, "CodeQuotaError" },
	                                     { 507, "NoRoomError" } } },
	[ANSWER_CODE] = { "code", 200, "Code",
	                  .refusals = { { BAD_PARAMETERS }, { 404, "NoCodeError" } } },
	[ANSWER_JOB_CODE] = { "code", 200, .type = "application/gzip",
	                      .refusals = { { BAD_USER }, { 404, "NoJobError, NoCodeError" } } },
	[ANSWER_SKUS] = { "people", 200, "SkuTypes", .parameters = { SKUS },
	                  .refusals = { { 404, "NoVirtualClusterError" } } },
};

const struct parameter *route_parameters(const struct route *route, size_t i)
{
	return i < TABLES ? ANSWERS[route->answer].parameters[i] : NULL;
}

/* ---- small pieces ---- */

static json_t *schema_ref(const char *name)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	str_printf(&text, "#/components/schemas/%s", name);
	return json_pack("{s:s}", "$ref", str_c(&text));
}

static json_t *openapi_content(const char *type, const char *schema)
{
	return json_pack("{s:{s:o}}", type, "schema",
	                 schema ? schema_ref(schema) : json_pack("{s:s}", "type", "string"));
}

/* An operationId, for instance put_api_v2_jobs_job_execution_type. */
static void openapi_put_id(struct str *out, const char *method, const char *path)
{
	str_puts(out, method);
	for (const char *p = path; *p; p++) {
		if ((is_upper(*p) || (!is_alnum(*p) && p[1])) && str_view(out).p[out->n - 1] != '_')
			str_char(out, '_');
		if (is_alnum(*p))
			str_char(out, to_lower(*p));
	}
}

/* ---- an operation ---- */

static bool takes_job(const struct route *route)
{
	return route->body == BODY_JOB || route->body == BODY_JOB_V1;
}

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
	for (const char *p = strchr(route->path, '{'); p; p = strchr(p + 1, '{')) {
		STR_AUTO name = STR_INIT(TEXT_MAX);
		str_put(&name, p + 1, strcspn(p + 1, "}"));
		(void)json_array_append_new(out,
		                            json_pack("{s:s, s:s, s:b, s:{s:s, s:i}}", "name",
		                                      str_c(&name), "in", "path", "required", 1,
		                                      "schema", "type", "string", "minLength", 1));
	}
	for (size_t i = 0; i < TABLES; i++)
		for (const struct parameter *p = route_parameters(route, i); p && p->name; p++)
			(void)json_array_append_new(out, parameter_json(p));
	return out;
}

static json_t *openapi_request_body(const struct route *route)
{
	json_t *types = json_object();
	const char *fields = ANSWERS[route->answer].request;
	bool job = takes_job(route);
	bool v1 = route->body == BODY_JOB_V1;
	if (job) {
		(void)json_object_update_new(types, openapi_content("application/yaml", "JobFile"));
		(void)json_object_update_new(types, openapi_content("text/yaml", "JobFile"));
	}
	const char *schema = v1 ? "JobFileV1" : job ? "JobFile" : fields ? fields : "Any";
	if (route->body == BODY_CODE) {
		json_decref(types);
		return json_pack("{s:b, s:{s:{s:{s:s, s:s}}}}", "required", 1, "content",
		                 "application/gzip", "schema", "type", "string", "format",
		                 "binary");
	}
	(void)json_object_update_new(types, openapi_content("application/json", schema));
	if (!job || v1)
		(void)json_object_update_new(
		    types, openapi_content("application/x-www-form-urlencoded", schema));
	return json_pack("{s:b, s:o}", "required", job, "content", types);
}

/* Takes `types` over. */
static void openapi_add_response(json_t *responses, int status, const char *description,
                                 json_t *types)
{
	STR_AUTO text = STR_INIT(STATUS_TEXT);
	str_int(&text, status);
	(void)json_object_set_new(
	    responses, str_c(&text),
	    json_pack("{s:s, s:o}", "description", description, "content", types));
}

/* Adds an error; a status that has an entry gets more codes. */
static void openapi_add_refusal(json_t *responses, int status, const char *more)
{
	STR_AUTO number = STR_INIT(STATUS_TEXT);
	STR_AUTO text = STR_INIT(TEXT_MAX);
	str_int(&number, status);
	json_t *old = json_object_get(responses, str_c(&number));
	const char *codes = json_string_value(json_object_get(old, "description"));
	if (codes && !strstr(codes, more))
		str_printf(&text, "%s, ", codes);
	str_puts(&text, codes && strstr(codes, more) ? codes : more);
	openapi_add_response(responses, status, str_c(&text),
	                     openapi_content("application/json", "Error"));
}

static json_t *responses_of(const struct route *route)
{
	const struct answer_schema *a = &ANSWERS[route->answer];
	json_t *out = json_object();
	const char *type = a->type ? a->type : a->schema ? "application/json" : "text/plain";
	json_t *types = openapi_content(type, a->schema);
	if (route->answer == ANSWER_CONFIG)
		(void)json_object_update_new(types, openapi_content("text/plain", NULL));
	openapi_add_response(out, a->status, a->status < 300 ? "Success" : "NoJobError", types);
	if (takes_job(route)) {
		json_t *tried = openapi_content("application/json", "Tried");
		(void)json_object_update_new(tried, openapi_content("application/yaml", "Tried"));
		openapi_add_response(out, 200,
		                     "Dry run: the objects that a submission would create", tried);
	}
	if (route->answer == ANSWER_CODE_KEPT)
		openapi_add_response(out, 200, "It was there",
		                     openapi_content("application/json", a->schema));
	if (route->answer == ANSWER_LOG)
		openapi_add_response(out, 206, "The requested range of the stored log",
		                     openapi_content(type, NULL));
	for (const struct refusal *v = a->refusals; v < a->refusals + REFUSALS && v->status; v++)
		openapi_add_refusal(out, v->status, v->codes);
	openapi_add_refusal(out, 414, "UriTooLongError");
	openapi_add_refusal(out, 429, "TooManyRequestsError");
	if (strchr(route->path, '{')) /* the segment may be invalid UTF-8 */
		openapi_add_refusal(out, 404, "NoApiError");
	if (route->auth != AUTH_NONE) {
		openapi_add_refusal(out, 401, "UnauthorizedUserError");
		openapi_add_refusal(out, 503, "UnavailableError");
	}
	if (route->auth == AUTH_PERSON)
		openapi_add_refusal(out, 403, "ForbiddenUserError");
	if (route->body != BODY_NONE) {
		openapi_add_refusal(out, 413, "PayloadTooLargeError");
		openapi_add_refusal(out, 415, "UnsupportedMediaTypeError");
	}
	return out;
}

static json_t *openapi_operation(const struct route *route, const char *method)
{
	STR_AUTO id = STR_INIT(TEXT_MAX);
	openapi_put_id(&id, method, route->path);
	const struct route *told = route;
	while (told > ROUTES.row && strncmp(told->doc, "The same", 8) == 0) /* as the route above */
		told--;
	json_t *out = json_pack("{s:s, s:s, s:[s], s:o, s:o}", "operationId", str_c(&id), "summary",
	                        told->doc, "tags", ANSWERS[route->answer].tag, "parameters",
	                        openapi_parameters(route), "responses", responses_of(route));
	if (route->body != BODY_NONE)
		(void)json_object_set_new(out, "requestBody", openapi_request_body(route));
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

/* patternProperties become additionalProperties, which any name matches. */
static void put_members(json_t *out, json_t *patterns, const char *prefix)
{
	json_t *any = json_array();
	const char *key;
	json_t *v;
	json_object_foreach (patterns, key, v)
		(void)json_array_append_new(any, openapi_convert(v, prefix));
	json_t *one = json_array_get(any, 0);
	(void)json_object_set_new(out, "additionalProperties",
	                          json_array_size(any) == 1 ? json_incref(one)
	                                                    : json_pack("{s:O}", "anyOf", any));
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
	if (json_object_get(s, "patternProperties"))
		put_members(out, json_object_get(s, "patternProperties"), prefix);
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

static json_t *openapi_paths(void)
{
	json_t *out = json_object();
	for (size_t i = 0; i < ROUTES.n; i++) {
		bool any = strcmp(ROUTES.row[i].method, "*") == 0;
		STR_AUTO method = STR_INIT(STATUS_TEXT);
		for (const char *p = any ? "get" : ROUTES.row[i].method; *p; p++)
			str_char(&method, to_lower(*p));
		if (!json_object_get(out, ROUTES.row[i].path))
			(void)json_object_set_new(out, ROUTES.row[i].path, json_object());
		openapi_add(json_object_get(out, ROUTES.row[i].path), str_c(&method),
		            openapi_operation(&ROUTES.row[i], str_c(&method)));
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
	(void)json_object_set_new(doc, "paths", openapi_paths());
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
