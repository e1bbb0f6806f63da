/* Reads and writes the annotation of held jobs, and decides if what they wait for has come true. */
#include "jobs/cache/hold.h"

#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/time.h"
#include "jobs/store/paths.h"

enum { DEPTH = 8, UID_MAX = 64, WHY_MAX = 1024 };

/* The value of a whole number that may be absent. */
static bool hold_number(struct span value, int64_t max, int64_t *out)
{
	*out = 0;
	return !value.p || scan_int(value, 1, max, out);
}

static bool hold_after_read(struct span list, struct arena *a, struct hold *out)
{
	struct scan walk = scan_begin(list);
	struct span one;
	out->after = ARENA_NEW(a, struct hold_after, HOLD_AFTER_MAX);
	while (scan_item(&walk, &one)) {
		if (out->n_after == HOLD_AFTER_MAX)
			return false;
		struct hold_after *h = &out->after[out->n_after++];
		h->any = span_is(scan_get(one, "any"), "true");
		struct span framework;
		if (!scan_string(scan_get(one, "framework"), a, &framework) ||
		    !scan_string(scan_get(one, "uid"), a, &h->uid) ||
		    !scan_string(scan_get(one, "job"), a, &h->job) || !h->uid.n ||
		    h->uid.n > UID_MAX)
			return false;
		h->framework = span_of(arena_dup(a, framework));
		if (h->framework.n != framework.n || !segment_ok(h->framework.p))
			return false;
	}
	return true;
}

bool hold_read(struct span text, struct arena *a, struct hold *out)
{
	*out = (struct hold){ 0 };
	if (text.n > HOLD_TEXT_MAX || !scan_valid(text, DEPTH) || scan_type(text) != SCAN_OBJECT)
		return false;
	struct span after = scan_get(text, "after");
	struct span tag = scan_get(text, "tag");
	out->by = span_is(scan_get(text, "by"), "true");
	return (!after.p || (scan_type(after) == SCAN_ARRAY && hold_after_read(after, a, out))) &&
	       (!tag.p || (scan_string(tag, a, &out->tag) && job_entry_tag_ok(out->tag))) &&
	       hold_number(scan_get(text, "begin"), INT64_MAX / 2, &out->begin_ms) &&
	       hold_number(scan_get(text, "max"), INT32_MAX, &out->max) &&
	       (out->max == 0) == (out->tag.n == 0);
}

void hold_put(struct str *out, const struct hold *h)
{
	json_put_open(out, NULL, '{');
	if (h->by)
		json_put_bool(out, "by", true);
	if (h->n_after)
		json_put_open(out, "after", '[');
	for (size_t i = 0; i < h->n_after; i++) {
		json_put_open(out, NULL, '{');
		json_put_text(out, "framework", h->after[i].framework);
		json_put_text(out, "uid", h->after[i].uid);
		json_put_text(out, "job", h->after[i].job);
		if (h->after[i].any)
			json_put_bool(out, "any", true);
		str_char(out, '}');
	}
	str_puts(out, h->n_after ? "]" : "");
	if (h->begin_ms)
		json_put_int(out, "begin", h->begin_ms);
	if (h->max) {
		json_put_text(out, "tag", h->tag);
		json_put_int(out, "max", h->max);
	}
	str_char(out, '}');
}

/* Judges one job that is waited for. */
static struct hold_judgement hold_after_judge(const struct hold_after *h,
                                              const struct cache_view *view, bool gone,
                                              struct str *why)
{
	static const char *const IS[JOB_STATE_MAX] = {
		[JOB_WAITING] = "which waits",
		[JOB_RUNNING] = "which runs",
		[JOB_STOPPING] = "which is being stopped",
		[JOB_STOPPED] = "was stopped",
		[JOB_FAILED] = "has failed",
		[JOB_UNKNOWN] = "whose state is not known",
	};
	const struct hold_judgement good = { .verdict = HOLD_STARTS };
	const struct job_entry *job = view_find(view, h->framework);
	const struct span name = h->job;
	bool there = !gone && job && span_is(h->uid, job->uid);
	if (!there && !gone) {
		str_printf(why, "after %.*s, which is being looked for", (int)name.n, name.p);
		return (struct hold_judgement){ HOLD_ASKS, 0 };
	}
	if (there && !job_state_final(job->state)) {
		str_printf(why, "after %.*s, %s", (int)name.n, name.p, IS[job->state]);
		return (struct hold_judgement){ HOLD_WAITS, 0 };
	}
	if (h->any || (there && job->state == JOB_SUCCEEDED))
		return good;
	str_printf(why, "%.*s, whose success it waits for, %s", (int)name.n, name.p,
	           there ? IS[job->state] : "was deleted");
	return (struct hold_judgement){ HOLD_STOPS, 0 };
}

/* The first reason to stop counts, else the first to ask or to wait. */
struct hold_judgement hold_judge(const struct hold *h, const struct cache_view *view,
                                 int64_t now_ms, uint64_t gone, struct str *why)
{
	struct hold_judgement first = { .verdict = HOLD_STARTS };
	char when[RFC3339_MAX];
	size_t begun = why->n;
	for (size_t i = 0; i < h->n_after; i++) {
		STR_AUTO text = STR_INIT(WHY_MAX);
		struct hold_judgement one =
		    hold_after_judge(&h->after[i], view, gone >> i & 1, &text);
		bool worse = one.verdict == HOLD_STOPS ||
		             (one.verdict == HOLD_ASKS && first.verdict != HOLD_ASKS) ||
		             (one.verdict == HOLD_WAITS && first.verdict == HOLD_STARTS);
		if (!worse)
			continue;
		first = one;
		first.asked = i;
		why->n = begun;
		str_span(why, str_view(&text));
		if (one.verdict == HOLD_STOPS)
			return first;
	}
	if (first.verdict != HOLD_STARTS)
		return first;
	if (h->by) {
		str_puts(why, "until it is released: rest-lit release");
		return (struct hold_judgement){ HOLD_WAITS, 0 };
	}
	if (h->begin_ms > now_ms) {
		str_printf(why, "begins at %s", rfc3339_put(when, h->begin_ms, 0));
		return (struct hold_judgement){ HOLD_WAITS, 0 };
	}
	return first;
}
