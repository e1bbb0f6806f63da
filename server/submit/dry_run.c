#include "server/submit/submit_internal.h"

#include "base/err.h"
#include "base/str.h"
#include "base/tree.h"
#include "base/yaml/yaml.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/server.h"

#define NAME    "dryRun"
#define ALLOWED "dryRun may be true, server, All (the same as server) or false"

enum {
	ONE_STEP = 2,     /* edit_distance counts halves */
	FRAME = 64,       /* bytes of a List without its items */
	YAML_GROWTH = 64, /* bytes of YAML per byte of JSON, at most; mostly indentation */
};

static const struct {
	const char *value;
	enum dry_run means;
} VALUES[] = {
	{ "false", DRY_RUN_NO },
	{ "true", DRY_RUN_HERE },
	{ "server", DRY_RUN_SERVER },
	{ "All", DRY_RUN_SERVER },
};

/* Letters and digits in lower case, and the signs in `kept`. */
static struct span dry_run_letters(struct span text, const char *kept, struct arena *a)
{
	char *p = arena_alloc(a, text.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		if (is_alnum(c) || (c && strchr(kept, c)))
			p[n++] = (char)(is_upper(c) ? c | 0x20 : c);
	}
	p[n] = '\0';
	return (struct span){ p, n };
}

static bool dry_run_is_near(struct span name, struct arena *a)
{
	struct span bare = dry_run_letters(name, "", a);
	return span_find(bare, 0, "dryrun") != SIZE_MAX ||
	       edit_distance(bare, SPAN("dryrun"), ONE_STEP) <= ONE_STEP;
}

/* ?a=b?dryRun=true or ?a=b;dryRun=true: probably meant as a parameter. */
static bool dry_run_is_swallowed(struct span value, struct arena *a)
{
	return value.n && span_find(dry_run_letters(value, "=", a), 0, "dryrun=") != SIZE_MAX;
}

static int dry_run_read_value(struct span value, enum dry_run *out, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(VALUES); i++) {
		if (!value.p || !span_is(value, VALUES[i].value))
			continue;
		*out = VALUES[i].means;
		return 0;
	}
	return err_set(e, INVALID_PARAMETERS, ALLOWED);
}

int dry_run_read(const char *query, struct arena *a, enum dry_run *out, struct err *e)
{
	struct span rest = span_of(query);
	struct span name;
	struct span value;
	enum dry_run found = DRY_RUN_NO;
	bool seen = false;
	while (query_next(&rest, a, &name, &value)) {
		bool is = span_is(name, NAME);
		if ((!is && dry_run_is_near(name, a)) || dry_run_is_swallowed(value, a))
			return err_set(
			    e, INVALID_PARAMETERS,
			    "the query has a name similar to %s; nothing was submitted: " ALLOWED,
			    NAME);
		if (is && seen)
			return err_set(e, INVALID_PARAMETERS, "%s must not be repeated", NAME);
		if (is && dry_run_read_value(value, &found, e) < 0)
			return -1;
		seen |= is;
	}
	*out = found;
	return 0;
}

const char *dry_run_text(enum dry_run d)
{
	return d == DRY_RUN_HERE ? "true" : d == DRY_RUN_SERVER ? "server" : "false";
}

/* ---- the answer ---- */

size_t dry_run_size(const struct submit *s)
{
	size_t n = FRAME;
	for (size_t i = 0; i < s->shown->n; i++)
		n += s->shown->v[i].body.n + 1;
	return n;
}

/* The quality factor q is ignored. */
bool dry_run_wants_yaml(struct span accept)
{
	size_t yaml = accept.n ? span_find(accept, 0, "yaml") : SIZE_MAX;
	size_t json = accept.n ? span_find(accept, 0, "json") : SIZE_MAX;
	return yaml < json;
}

void dry_run_list(struct submit *s)
{
	struct str *out = &s->r->reply.body;
	out->max = dry_run_size(s) + REPLY_MAX; /* warnings follow */
	list_json(out, SPAN(""), s->shown);
}

static void dry_run_to_yaml(struct submit *s)
{
	struct request *r = s->r;
	STR_AUTO json = r->reply.body;
	r->reply.body = STR_INIT(json.n * YAML_GROWTH);
	list_yaml(&r->reply.body, str_view(&json));
	/* It may be several times the JSON. */
	request_hold(r, HOLD_DRY_RUN, r->held[HOLD_DRY_RUN] + r->reply.body.n);
}

void dry_run_answer(struct submit *s)
{
	struct request *r = s->r;
	str_puts(&r->reply.body, "}\n");
	if (!s->yaml) {
		answer_json(r, 200);
		return;
	}
	dry_run_to_yaml(s);
	r->reply.status = 200;
	r->reply.type = "application/yaml";
	answer_send(r);
}

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
	/* A template may define a variable twice; the ConfigMap then has a duplicate key and stays
	 * JSON, which is YAML. */
	if (json_read(json, &budget, &arena, &doc, &warnings, &syntax, &e) < 0)
		str_span(out, json);
	else
		yaml_write(out, &doc.root);
}
