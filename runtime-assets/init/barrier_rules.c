/* What barrier.h calls pure: settings, what answers mean, how long to wait, who is missing. */
#include "runtime-assets/args.h"
#include "runtime-assets/init/barrier.h"

#include "runtime-assets/net/kube.h"

/* ---- settings -------------------------------------------------------------------------------- */

int barrier_times_read(struct barrier_times *t, struct err *e)
{
	*t = (struct barrier_times){ .first_ms = 1000, .request_ms = 15000, .fetch_ms = 60000 };
	const struct {
		const char *name;
		int64_t *ms;
		int64_t otherwise, min, max; /* seconds */
	} KNOBS[] = {
		{ "BARRIER_CHECK_INTERVAL_SEC", &t->interval_ms, 10, 5, 1200 },
		{ "BARRIER_CHECK_TIMEOUT_SEC", &t->timeout_ms, 600, 60, 1200 },
	};
	for (size_t i = 0; i < sizeof(KNOBS) / sizeof(KNOBS[0]); i++) {
		const char *text = env_get(KNOBS[i].name);
		int64_t s = KNOBS[i].otherwise;
		if (text && parse_i64(span_of(text), KNOBS[i].min, KNOBS[i].max, &s) != 0)
			return err_set(e, FAILED, "%s must be a number from %lld to %lld",
			               KNOBS[i].name, (long long)KNOBS[i].min,
			               (long long)KNOBS[i].max);
		*KNOBS[i].ms = s * 1000;
	}
	return 0;
}

int barrier_times_parse(struct barrier_times *t, struct span text, struct err *e)
{
	int64_t *const values[] = { &t->interval_ms, &t->timeout_ms, &t->first_ms, &t->request_ms,
		                    &t->fetch_ms };
	enum { N = sizeof(values) / sizeof(values[0]) };
	for (size_t i = 0; i < N; i++) {
		const char *comma = i + 1 < N ? memchr(text.p, ',', text.n) : text.p + text.n;
		size_t n = comma ? (size_t)(comma - text.p) : 0;
		if (parse_i64((struct span){ text.p, n }, 1, 3600000, values[i]) != 0)
			return err_set(e, FAILED, "--barrier-ms needs five times");
		n += i + 1 < N ? 1 : 0;
		text = (struct span){ text.p + n, text.n - n };
	}
	return 0;
}

/* ---- what answers mean --------------------------------------------------------------------------
 */

enum barrier_answer barrier_judge(int trouble, const struct http_reply *r, const char *name)
{
	static const struct {
		int status;
		enum barrier_answer answer;
	} STATUSES[] = {
		{ 200, ANSWER_FINE },
		{ 401, ANSWER_REFUSED },
		{ 403, ANSWER_REFUSED },
		/* Not about this Framework, but its kind: FrameworkController may be missing, or
		 * the API server has only just started. */
		{ 404, ANSWER_REFUSED },
	};
	if (trouble == HTTP_NO_COMMON_TLS)
		return ANSWER_NEVER;
	if (trouble) /* HTTP_BAD_REQUEST: there is nothing in the token file that could be sent */
		return trouble == HTTP_BAD_REQUEST ? ANSWER_REFUSED : ANSWER_TROUBLE;
	if (kube_says_missing(r, name))
		return ANSWER_GONE;
	for (size_t i = 0; i < sizeof(STATUSES) / sizeof(STATUSES[0]); i++) {
		if (STATUSES[i].status == r->status)
			return STATUSES[i].answer;
	}
	return ANSWER_TROUBLE;
}

int64_t barrier_delay(const struct barrier_times *t, unsigned n, int64_t total, uint32_t random)
{
	int64_t delay = t->first_ms;
	for (unsigned i = 0; i < n && delay < t->interval_ms; i++)
		delay += delay / 2 + 1;
	int64_t fair = total * 1000 / BARRIER_RATE;
	if (delay < fair)
		delay = fair;
	if (delay > t->interval_ms)
		delay = t->interval_ms;
	/* Half of it is by chance: 3/4 to 5/4. */
	return delay * 3 / 4 + (int64_t)(random % (uint32_t)(delay / 2 + 1));
}

static bool has_address(const struct fw_task *t)
{
	return t->pod_ip && !t->deletion_pending;
}

void barrier_missing(const struct framework *f, struct str *out)
{
	int64_t missing = f->total - framework_ready(f);
	int64_t listed = 0;
	for (size_t i = 0; i < f->n && listed < BARRIER_LISTED; i++) {
		const struct fw_role *r = &f->role[i];
		for (int64_t k = 0; k < r->task_number && listed < BARRIER_LISTED; k++) {
			bool known = (size_t)k < r->n;
			if (known && has_address(&r->task[k]))
				continue;
			int64_t index = known && r->task[k].index >= 0 ? r->task[k].index : k;
			str_printf(out, "%s%s:%lld", listed ? ", " : "", r->name, (long long)index);
			listed++;
		}
	}
	if (missing > listed)
		str_printf(out, " and %lld more", (long long)(missing - listed));
}

static const struct fw_task *own_task(const struct init *in, const struct framework *f)
{
	const struct fw_role *r = in->role_name ? framework_role(f, in->role_name) : NULL;
	return r ? framework_task(r, in->task_index) : NULL;
}

bool barrier_shows_us(const struct init *in, const struct framework *f)
{
	const struct fw_task *t = own_task(in, f);
	return t && t->pod_uid && in->pod_uid && strcmp(t->pod_uid, in->pod_uid) == 0;
}
