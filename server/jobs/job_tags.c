#include "server/jobs/job_tags.h"

#include "base/json/scan.h"
#include "k8s/cache/job_entry.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/query.h"
#include "server/jobs/job_change.h"

enum { LIST_MAX = 32 << 10 /* also when every byte is escaped, twice */ };

bool tag_ok(struct span tag)
{
	return job_entry_tag_ok(tag) && !memchr(tag.p, ',', tag.n);
}

static void put(struct str *out, struct span tag)
{
	str_char(out, out->n ? ',' : '[');
	str_json(out, tag);
}

/* All but this one.  How many of it there were. */
static size_t put_others(struct str *out, struct span list, struct span tag, struct arena *a)
{
	struct scan s = scan_begin(list);
	struct span item;
	size_t n = 0;
	while (scan_item(&s, &item)) {
		struct span text = scan_text(item, a);
		if (span_eq(text, tag))
			n++;
		else
			put(out, text);
	}
	return n;
}

enum tags_changed tags_with(struct str *out, struct span list, struct span tag, struct arena *a)
{
	if (put_others(out, list, tag, a) > 0)
		return TAGS_AS_BEFORE;
	if (scan_count(list) >= JOB_ENTRY_TAGS_MAX)
		return TAGS_FULL;
	put(out, tag);
	str_char(out, ']');
	return TAGS_CHANGED;
}

enum tags_changed tags_without(struct str *out, struct span list, struct span tag, struct arena *a)
{
	if (put_others(out, list, tag, a) == 0)
		return TAGS_AS_BEFORE;
	str_puts(out, out->n ? "]" : "[]");
	return TAGS_CHANGED;
}

/* ---- the routes ------------------------------------------------------------------------------ */

/* By resourceVersion, so that of two tags at a time none is lost. */
static void make_patch(struct change *c, struct span list)
{
	STR_AUTO body = STR_INIT((size_t)4 * LIST_MAX);
	str_puts(&body, "{\"metadata\":{\"uid\":");
	str_json(&body, span_of(c->uid));
	str_puts(&body, ",\"resourceVersion\":");
	str_json(&body, span_of(c->job->resource_version));
	str_puts(&body, ",\"annotations\":{\"rest-lit/tags\":");
	if (span_is(list, "[]"))
		str_puts(&body, "null");
	else
		str_json(&body, list);
	str_puts(&body, "}}}");
	c->patch = arena_span(&c->r->arena, str_view(&body));
}

static int tag_n(const struct change *c)
{
	return (int)c->value.n;
}

static void added(struct change *c)
{
	change_answer(c->r, 200, "", "Add tag %.*s for job %s successfully.", tag_n(c), c->value.p,
	              change_id(c));
}

static bool plan_put(struct change *c)
{
	ERR_AUTO e = { 0 };
	STR_AUTO list = STR_INIT(LIST_MAX);
	switch (tags_with(&list, span_of(c->job->tags), c->value, &c->r->arena)) {
	case TAGS_CHANGED:
		make_patch(c, str_view(&list));
		return true;
	case TAGS_AS_BEFORE:
		added(c);
		return false;
	case TAGS_FULL:
		break;
	}
	(void)err_set(&e, INVALID_PARAMETERS, "the job has %d tags, which is as many as may be",
	              JOB_ENTRY_TAGS_MAX);
	answer_error(c->r, &e);
	return false;
}

static void removed(struct change *c)
{
	change_answer(c->r, 200, "", "Delete tag %.*s from job %s successfully.", tag_n(c),
	              c->value.p, change_id(c));
}

static bool plan_delete(struct change *c)
{
	STR_AUTO list = STR_INIT(LIST_MAX);
	if (tags_without(&list, span_of(c->job->tags), c->value, &c->r->arena) == TAGS_CHANGED) {
		make_patch(c, str_view(&list));
		return true;
	}
	/* Removed by us, of which the answer was lost? */
	if (c->tries)
		removed(c);
	else
		answer_refuse(c->r, 404, "NoTagError", "the job has no such tag");
	return false;
}

static void start(struct request *r, bool (*plan)(struct change *), void (*done)(struct change *))
{
	struct change *c = change_read(r, "value");
	if (!c)
		return;
	c->plan = plan;
	c->done = done;
	if (c->value.p && tag_ok(c->value))
		change_start(c);
	else
		answer_bad(r,
		           "value: must be a tag: 1 to 63 bytes, without commas, control "
		           "characters and marks of direction",
		           c->value);
}

void tag_put(struct request *r)
{
	start(r, plan_put, added);
}

void tag_delete(struct request *r)
{
	start(r, plan_delete, removed);
}
