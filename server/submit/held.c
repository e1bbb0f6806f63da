/* Reads the parameters of held jobs (jobs/cache/hold.h) from the query. */
#include "server/submit/submit_internal.h"

#include <time.h>

#include "base/json/put.h"
#include "base/posix/clock.h"
#include "base/time.h"
#include "jobs/cache/hold.h"
#include "server/config/options.h"
#include "server/jobs/jobs.h"

enum { YEAR_S = 366 * 86400, DAY_S = 86400 };

/* The next time of this day's hour and minute, or of a date without a zone, here; -1: it is none.
 */
static int64_t begin_local_s(struct span text, int64_t now_s)
{
	const time_t now = now_s;
	struct tm t;
	struct tm today;
	char copy[sizeof("2026-01-31T12:00:00")] = "";
	const char *rest = NULL;
	if (text.n >= sizeof(copy) || !localtime_r(&now, &today))
		return -1;
	memcpy(copy, text.p, text.n);
	static const char *const FORMS[] = { "%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M",
		                             "%Y-%m-%d" };
	for (size_t i = 0; i < ARRAY_SIZE(FORMS) && !(rest && !*rest); i++) {
		t = (struct tm){ .tm_isdst = -1 };
		if (i == 0)
			t = (struct tm){ .tm_year = today.tm_year,
				         .tm_mon = today.tm_mon,
				         .tm_mday = today.tm_mday,
				         .tm_isdst = -1 };
		rest = strptime(copy, FORMS[i], &t);
		if (i == 0 && rest && !*rest && mktime(&t) <= now) {
			t.tm_mday++; /* mktime knows the next day */
			t.tm_isdst = -1;
		}
	}
	return rest && !*rest ? (int64_t)mktime(&t) : -1;
}

/* 22:00, +2h, 2026-12-01, 2026-12-01T22:00, 2026-12-01T22:00:00Z. */
static int hold_read_begin(const struct parameter *p, struct span text, struct hold *h,
                           struct err *e)
{
	const int64_t now_ms = clock_wall_ms();
	int64_t seconds = -1;
	if (span_starts(text, "+") && option_time(span_from(text, 1), &seconds) == 0)
		h->begin_ms = now_ms + seconds * 1000;
	else if (!rfc3339_read(text, &h->begin_ms))
		h->begin_ms = begin_local_s(text, now_ms / 1000) * 1000;
	if (h->begin_ms < 0)
		return parameter_refuse(p, text, e);
	if (h->begin_ms > now_ms + INT64_C(1000) * YEAR_S ||
	    h->begin_ms < now_ms - INT64_C(1000) * DAY_S) {
		char when[RFC3339_MAX];
		return err_set(e, INVALID_PARAMETERS, "begin must be within a year from now, is %s",
		               rfc3339_put(when, h->begin_ms, 0));
	}
	return 0;
}

/* Names, separated by commas: USER~NAME, or NAME of the user's own. */
static int hold_read_after(struct submit *s, struct span list, bool any, struct err *e)
{
	struct hold *h = s->hold;
	struct arena *a = &s->r->arena;
	for (bool more = true; more; more = list.n > 0) {
		struct span name = span_trim(span_next(&list, ','));
		bool own = span_chr(name, '~') == name.n;
		if (name.n == 0)
			return err_set(e, INVALID_PARAMETERS,
			               "after must be names of jobs, with "
			               "commas between them");
		if (h->n_after == HOLD_AFTER_MAX)
			return err_set(e, INVALID_PARAMETERS,
			               "after: a job can wait for at most %d others",
			               HOLD_AFTER_MAX);
		h->after[h->n_after++] = (struct hold_after){
			.any = any,
			.job = own ? span_of(arena_printf(a, "%s~%.*s", s->r->user, (int)name.n,
			                                  name.p))
			           : name,
		};
	}
	return 0;
}

static int hold_read_one(struct submit *s, const struct parameter *p, struct span value,
                         struct err *e)
{
	switch (p->kind) {
	case PARAMETER_HOLD:
		if (parameter_index(p, value) < 0)
			return parameter_refuse(p, value, e);
		s->hold->by = span_is(value, "true");
		return 0;
	case PARAMETER_AFTER:
	case PARAMETER_ANY:
		return hold_read_after(s, value, p->kind == PARAMETER_ANY, e);
	case PARAMETER_BEGIN:
		return hold_read_begin(p, value, s->hold, e);
	case PARAMETER_MAX:
		return parameter_number(p, value, &s->hold->max, e);
	default:
		return 0;
	}
}

int submit_read_hold(struct submit *s, struct err *e)
{
	struct arena *a = &s->r->arena;
	struct span rest = span_of(s->r->query);
	struct span name;
	struct span value;
	struct span tags = span_of(s->tags ?: "[]");
	struct hold *h = s->hold = ARENA_NEW(a, struct hold, 1);
	h->after = ARENA_NEW(a, struct hold_after, HOLD_AFTER_MAX);
	while (query_next(&rest, a, &name, &value)) {
		const struct parameter *p = parameter_named(SUBMISSION, name);
		if (p && p->kind && hold_read_one(s, p, value.p ? value : SPAN(""), e) < 0)
			return -1;
	}
	struct scan first = scan_begin(tags);
	struct span tag;
	if (h->max && !scan_item(&first, &tag))
		return err_set(e, INVALID_PARAMETERS,
		               "maxRunning needs a tag, which the jobs have that are counted");
	if (h->max)
		h->tag = scan_text(tag, a);
	if (!h->by && !h->n_after && !h->begin_ms && !h->max)
		s->hold = NULL;
	return 0;
}

const char *submit_hold_text(const struct submit *s)
{
	STR_AUTO text = STR_INIT(HOLD_TEXT_MAX);
	if (!s->hold)
		return NULL;
	hold_put(&text, s->hold);
	return arena_dup(&s->r->arena, str_view(&text));
}

void submit_put_hold(const struct submit *s)
{
	char when[RFC3339_MAX];
	struct str *out = &s->r->reply.body;
	if (!s->hold)
		return;
	json_put_bool(out, "held", true);
	if (s->hold->begin_ms)
		json_put_word(out, "begins", rfc3339_put(when, s->hold->begin_ms, 0));
}
