/* GET /api/v2/report: what users have held and used on this machine between two times, by user,
 * virtual cluster or week.  The sums are the store's (machine/store/attempts.h). */
#include "base/posix/clock.h"
#include "base/time.h"
#include "machine/engine/engine.h"
#include "server/accounts/account.h"
#include "server/http/edit.h"
#include "server/jobs/jobs_internal.h"

enum { BODY_MOST = 8 << 20, DATE_BYTES = sizeof("2026-11-01") - 1 };

#define TIME_MUST                                                                                  \
	"milliseconds since 1970, a date as 2026-11-01 (UTC), or a time as 2026-11-01T12:00:00Z"

enum report_parameter { REPORT_SINCE, REPORT_UNTIL, REPORT_BY };
const struct parameter REPORT[] = {
	[REPORT_SINCE] = { .name = "since",
	                   .must = TIME_MUST,
	                   .example = "2026-11-01",
	                   .doc = "Begin, required: milliseconds since 1970, a date (UTC), or a "
	                          "time in RFC 3339 with `Z`." },
	[REPORT_UNTIL] = { .name = "until",
	                   .must = TIME_MUST,
	                   .example = "2026-12-01",
	                   .doc = "End; default: now." },
	[REPORT_BY] = { .name = "by",
	                .absent = "user",
	                .example = "user,week",
	                .must = "a list of user, virtualCluster and week, separated by commas",
	                .doc =
	                    "A row for each `user`, `virtualCluster`, `week` (from Monday, UTC), "
	                    "or several of them with commas." },
	{ .name = NULL },
};

/* An absent or empty value leaves *ms as it is.  0, or -1 and *e. */
static int report_time(struct request *r, const struct parameter *p, int64_t *ms, struct err *e)
{
	static const int64_t MOST = INT64_C(253402300799999); /* the end of the year 9999 */
	struct span text;
	if (!parameter_find(r, p, &text) || !text.n ||
	    (span_digits(text) && parse_i64(text, 0, MOST, ms) == 0))
		return 0;
	struct span day = span_of(arena_printf(&r->arena, "%.*sT00:00:00Z", DATE_BYTES, text.p));
	return rfc3339_read(text.n == DATE_BYTES ? day : text, ms) ? 0
	                                                           : parameter_refuse(p, text, e);
}

static int report_by(struct request *r, struct attempts_query *q, struct err *e)
{
	static const struct parameter WORD = { .values = "user|virtualCluster|week" };
	bool *const found[] = { &q->by_user, &q->by_virtual_cluster, &q->by_week };
	struct span list;
	if (!parameter_find(r, &REPORT[REPORT_BY], &list) || !list.n)
		list = span_of(REPORT[REPORT_BY].absent);
	for (struct span rest = list; rest.n;) {
		int i = parameter_index(&WORD, span_next(&rest, ','));
		if (i < 0)
			return parameter_refuse(&REPORT[REPORT_BY], list, e);
		*found[i] = true;
	}
	return 0;
}

int report_query_read(struct request *r, int64_t now_ms, struct attempts_query *q, struct err *e)
{
	char found[2][RFC3339_MAX];
	*q = (struct attempts_query){ .since_ms = INT64_MIN, .until_ms = now_ms };
	if (report_time(r, &REPORT[REPORT_SINCE], &q->since_ms, e) < 0 ||
	    report_time(r, &REPORT[REPORT_UNTIL], &q->until_ms, e) < 0 || report_by(r, q, e) < 0)
		return -1;
	if (q->since_ms == INT64_MIN)
		return parameter_refuse(&REPORT[REPORT_SINCE], SPAN(""), e);
	if (q->since_ms >= q->until_ms)
		return err_set(e, INVALID_PARAMETERS,
		               "since must be before until, which is now unless it is given: since "
		               "is %s, until %s",
		               rfc3339_put(found[0], q->since_ms, 0),
		               rfc3339_put(found[1], q->until_ms, 0));
	return 0;
}

void report_show(struct str *out, const struct attempts_query *q, const struct attempts_sum *v,
                 size_t n, bool more)
{
	static const double HOUR_MS = 3600000;
	static const double HOUR_S = 3600;
	json_put_open(out, NULL, '{');
	json_put_int(out, "since", q->since_ms);
	json_put_int(out, "until", q->until_ms);
	json_put_open(out, "rows", '[');
	for (const struct attempts_sum *s = v; s < v + n; s++) {
		json_put_open(out, NULL, '{');
		if (q->by_user)
			json_put_text(out, "user", s->user);
		if (q->by_virtual_cluster)
			json_put_text(out, "virtualCluster", s->virtual_cluster);
		if (q->by_week)
			json_put_int(out, "week", s->week_ms);
		json_put_figure(out, "gpuHours", (double)s->gpu_ms / HOUR_MS);
		json_put_figure(out, "gpuIdleHours", (double)s->gpu_idle_ms / HOUR_MS);
		json_put_figure(out, "cpuHours", (double)s->cpu_ms / HOUR_MS);
		json_put_figure(out, "energyWh", (double)s->energy_j / HOUR_S);
		json_put_int(out, "attempts", s->attempts);
		json_put_int(out, "failed", s->failed);
		str_char(out, '}');
	}
	str_char(out, ']');
	json_put_bool(out, "more", more);
	str_puts(out, "}\n");
}

static void report_sum(struct edit *t)
{
	const struct attempts_query *q = t->arg;
	struct attempts_sum *v = NULL;
	size_t n = 0;
	int more = attempts_sum(t->r->loop->server->local, q, &t->arena, &v, &n, &t->e);
	t->body.max = BODY_MOST;
	if (more >= 0)
		report_show(&t->body, q, v, n, more > 0);
}

static void report_send(struct edit *t)
{
	answer_hold(t->r);
	answer_json(t->r, 200);
}

void report_get(struct request *r)
{
	ERR_AUTO e = { 0 };
	struct attempts_query *q = ARENA_NEW(&r->arena, struct attempts_query, 1);
	if (machine_refuses(r))
		return;
	if (report_query_read(r, clock_wall_ms(), q, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	if (!r->principal->admin)
		q->user = span_of(r->principal->name);
	edit_start(r, report_sum, report_send, q);
}
