/* Reads the query `dryRun`, refuses misspelt ones, and answers with the objects as a List. */
#include "server/submit/submit_internal.h"

#include "base/doc/tree.h"
#include "base/doc/yaml.h"
#include "base/err.h"
#include "base/json/put.h"
#include "base/str.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/jobs/jobs.h"
#include "server/state/server.h"

#define ALLOWED "dryRun may be true, server, All (the same as server) or false"

enum {
	ONE_STEP = 2,     /* edit_distance counts halves */
	FRAME = 64,       /* bytes of a List without its items */
	DEPTH_MAX = 256,  /* of an object */
	YAML_GROWTH = 64, /* bytes of YAML per byte of JSON, at most; mostly indentation */
};

/* clang-format off */
const struct parameter SUBMISSION[] = {
	{ .name = "dryRun", .values = "true|server|All|false",
	  .doc = "The server creates nothing: 200 with the objects as a List. `true`: after all checks of a submission. `server` or `All`: the API server checks the objects, too. Other values, and similar names, are refused." },
	{ .name = "tag",
	  .must = TAG_MUST,
	  .doc = "A tag of the new job; may be repeated. A repetition with the same `Idempotency-Key` changes no tags." },
	{ .name = "hold", .values = "true|false", .kind = PARAMETER_HOLD,
	  .doc = "`true`: the job is made, and not started until it is released: `PUT .../executionType` with START." },
	{ .name = "after", .kind = PARAMETER_AFTER, .must = "names of jobs, with commas between them",
	  .doc = "The job is started when these jobs have succeeded: USER~NAME, or NAME of one's own, with commas between them; at most 64. When one of them fails, is stopped or deleted, it is stopped." },
	{ .name = "afterAny", .kind = PARAMETER_ANY, .must = "names of jobs, with commas between them",
	  .doc = "The same, but any end of these jobs will do." },
	{ .name = "begin", .kind = PARAMETER_BEGIN, .must = "a time as 22:00, +2h, 2026-12-01, 2026-12-01T22:00 or 2026-12-01T22:00:00Z",
	  .doc = "The job is not started before this time, within a year. Without a zone it is the server's; `begins` of the answer tells it." },
	{ .name = "maxRunning", .kind = PARAMETER_MAX, .max = 100000,
	  .doc = "Of the user's jobs that were submitted with `maxRunning` and the same first `tag`, so many run at once; the others are started in the order of their submission." },
	{ .name = "Idempotency-Key", .header = true,
	  .doc = "1 to 128 printable characters, preferably random. The same key and body of the same user get the first answer again within 24 hours, with `Idempotency-Replayed: true`." },
	{ .name = NULL },
};
/* clang-format on */
#define NAME SUBMISSION->name

/* By the index in SUBMISSION->values. */
static const enum dry_run VALUES[] = { DRY_RUN_HERE, DRY_RUN_SERVER, DRY_RUN_SERVER, DRY_RUN_NO };

/* Returns true if it is probably meant to be this parameter: misspelt, or part of the value of
 * another one, as in ?a=b?dryRun=true or ?a=b;dryRun=true. */
static bool dry_run_is_near(struct span name, struct span value, struct arena *a)
{
	static const char BARE[] = "dryrun";
	enum { N = sizeof(BARE) - 1 };
	char *p = arena_alloc(a, name.n + value.n + 1);
	struct span bare = { p, span_lower_alnum(p, name) };
	if (!span_is(name, NAME) && (span_find(bare, 0, BARE) != SIZE_MAX ||
	                             edit_distance(bare, SPAN("dryrun"), ONE_STEP) <= ONE_STEP))
		return true;
	for (size_t n; (n = span_chr(value, '=')) < value.n; value = span_from(value, n + 1)) {
		bare.n = span_lower_alnum(p, span_to(value, n));
		if (bare.n >= N && memcmp(p + bare.n - N, BARE, N) == 0)
			return true;
	}
	return false;
}

int dry_run_read(const char *query, struct arena *a, enum dry_run *out, struct err *e)
{
	struct span rest = span_of(query);
	struct span name;
	struct span value;
	enum dry_run found = DRY_RUN_NO;
	bool seen = false;
	while (query_next(&rest, a, &name, &value)) {
		if (dry_run_is_near(name, value, a))
			return err_set(
			    e, INVALID_PARAMETERS,
			    "the query has a name similar to %s; nothing was submitted: " ALLOWED,
			    NAME);
		if (!span_is(name, NAME))
			continue;
		if (seen)
			return err_set(e, INVALID_PARAMETERS, "%s must not be repeated", NAME);
		seen = true;
		int i = parameter_index(SUBMISSION, value);
		if (i < 0)
			return err_set(e, INVALID_PARAMETERS, ALLOWED);
		found = VALUES[i];
	}
	*out = found;
	return 0;
}

/* ---- the answer ---- */

/* Bytes of the list of s->shown. */
size_t dry_run_size(const struct submit *s)
{
	size_t n = FRAME;
	for (size_t i = 0; i < s->shown->n; i++)
		n += s->shown->v[i].body.n + 1;
	return n;
}

void dry_run_answer(struct submit *s)
{
	struct request *r = s->r;
	struct str *out = &r->reply.body;
	out->max = dry_run_size(s) + REPLY_MAX; /* with the warnings */
	list_json(out, SPAN(""), s->shown);
	if (s->tags)
		json_put_raw(out, "tags", span_of(s->tags));
	submit_put_warnings(s);
	str_puts(out, "}\n");
	if (!s->yaml) {
		answer_json(r, 200);
		return;
	}
	STR_AUTO json = *out;
	*out = STR_INIT(json.n * YAML_GROWTH);
	list_yaml(out, str_view(&json));
	/* The YAML may have several times the size of the JSON. */
	request_hold(r, HOLD_DRY_RUN, r->held[HOLD_DRY_RUN] + out->n);
	r->reply.status = 200;
	r->reply.type = "application/yaml";
	answer_send(r);
}

/* ---- lists, also for `rest-lit translate` ---- */

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
	const struct budget budget = { DEPTH_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX };
	const struct node *root = doc_quiet(json, &budget, &arena);
	/* A template may define a variable twice; the ConfigMap then has a duplicate key and stays
	 * JSON, which is YAML. */
	if (root)
		yaml_write(out, root);
	else
		str_span(out, json);
}
