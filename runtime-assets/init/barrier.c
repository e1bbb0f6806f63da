/* Polls the Framework until all tasks have an address, or an answer shows that waiting is useless.
 * */
#include "runtime-assets/init/init_internal.h"

#include <limits.h>

#include "runtime-assets/common/cmdline.h"

enum {
	REFUSALS = 3,         /* consecutive, until they are final */
	SAY_AGAIN_MS = 60000, /* before the same message is repeated */
	RETRY_AFTER_MAX_S = 60,
	TEXT_MAX = 8192
};

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
	for (size_t i = 0; i < ARRAY_SIZE(KNOBS); i++) {
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
	enum { N = ARRAY_SIZE(values) };
	for (size_t i = 0; i < N; i++) {
		struct span ms = i + 1 < N ? span_next(&text, ',') : text;
		if (parse_i64(ms, 1, 3600000, values[i]) != 0)
			return err_set(e, FAILED, "--barrier-ms needs five times");
	}
	return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

enum barrier_answer barrier_judge(int trouble, const struct http_reply *r, const char *name)
{
	if (trouble == HTTP_NO_COMMON_TLS)
		return ANSWER_NEVER;
	if (trouble) /* HTTP_BAD_REQUEST: no token in the file */
		return trouble == HTTP_BAD_REQUEST ? ANSWER_REFUSED : ANSWER_TROUBLE;
	if (kube_says_missing(r, name))
		return ANSWER_GONE;
	switch (r->status) {
	case 200:
		return ANSWER_FINE;
	case 401:
	case 403:
	case 404: /* the CRD is missing, or the API server has just started */
		return ANSWER_REFUSED;
	default:
		return ANSWER_TROUBLE;
	}
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
	/* 3/4 to 5/4. */
	return delay * 3 / 4 + (int64_t)(random % (uint32_t)(delay / 2 + 1));
}

void barrier_missing(const struct init_framework *f, struct str *out)
{
	int64_t missing = f->total - framework_ready(f);
	int64_t listed = 0;
	for (size_t i = 0; i < f->n && listed < BARRIER_LISTED; i++) {
		const struct init_role *r = &f->role[i];
		for (int64_t k = 0; k < r->task_number && listed < BARRIER_LISTED; k++) {
			bool known = (size_t)k < r->n;
			if (known && r->task[k].pod_ip && !r->task[k].deletion_pending)
				continue;
			int64_t index = known && r->task[k].index >= 0 ? r->task[k].index : k;
			str_printf(out, "%s%s:%lld", listed ? ", " : "", r->name, (long long)index);
			listed++;
		}
	}
	if (missing > listed)
		str_printf(out, " and %lld more", (long long)(missing - listed));
}

/* Returns this task in the Framework, and its role; NULL: it is not there. */
static const struct init_task *barrier_own(const struct init *in, const struct init_framework *f,
                                           const struct init_role **role)
{
	*role = in->role_name ? framework_role(f, in->role_name) : NULL;
	return *role ? framework_task(*role, in->task_index) : NULL;
}

/* Returns true if a cached object is fresh enough. */
bool barrier_shows_us(const struct init *in, const struct init_framework *f)
{
	const struct init_role *role;
	const struct init_task *t = barrier_own(in, f, &role);
	return t && t->pod_uid && in->pod_uid && strcmp(t->pod_uid, in->pod_uid) == 0;
}

/* ---- one poll -------------------------------------------------------------------------------- */

struct barrier_wait {
	struct init *in;
	const struct barrier_times *t;
	struct kube *kube;
	const char *name, *path; /* of the Framework */
	/* The last Framework, and its memory. */
	struct init_framework *f;
	struct arena memory;
	/* The last poll: its HTTP status (0: none), the problem, and Retry-After. */
	int status;
	struct str why;
	int64_t retry_after_s;
	unsigned polls;
	int refused;     /* consecutive refusals */
	struct str told; /* the last message and its time */
	int64_t told_ms;
};

static enum barrier_answer barrier_take(struct barrier_wait *w, struct span body)
{
	ARENA_AUTO memory = { 0 };
	ERR_AUTO e = { 0 };
	struct init_framework *f = framework_read(body, &memory, &e);
	if (f && f->total == 0)
		err_set(&e, FAILED, "the Framework has no tasks");
	if (f == NULL || f->total == 0) {
		str_printf(&w->why, "%s sent no Framework that could be read: %s", w->kube->address,
		           err_msg(&e));
		return ANSWER_TROUBLE;
	}
	arena_done(&w->memory);
	w->memory = memory;
	memory = (struct arena){ 0 };
	w->f = f;
	const struct init_role *role;
	const struct init_task *own = barrier_own(w->in, f, &role);
	bool ready = w->in->gang ? framework_ready(f) >= f->total
	                         : !w->in->role_name || (own && framework_address(role, own));
	return ready ? ANSWER_FINE : ANSWER_NOT_YET;
}

static enum barrier_answer barrier_ask(struct barrier_wait *w, bool exact)
{
	ARENA_AUTO wire = { 0 };
	ERR_AUTO e = { 0 };
	struct http_reply r = { 0 };
	const char *path = exact ? w->path : arena_printf(&wire, "%s?resourceVersion=0", w->path);
	str_done(&w->why);
	w->why = STR_INIT(TEXT_MAX);
	w->retry_after_s = 0;
	int trouble =
	    kube_get(w->kube, path, FRAMEWORK_MAX, clock_ms() + w->t->request_ms, &wire, &r, &e);
	w->status = trouble ? 0 : r.status;
	enum barrier_answer answer = barrier_judge(trouble, &r, w->name);
	if (answer == ANSWER_FINE)
		return barrier_take(w, r.body);
	if (trouble) {
		str_puts(&w->why, err_msg(&e));
		return answer;
	}
	str_printf(&w->why, "%s answers ", w->kube->address);
	kube_answer(&r, &w->why);
	struct span again = http_lines_find(r.headers, "Retry-After", 0);
	if (again.p && parse_i64(again, 0, INT32_MAX, &w->retry_after_s) == 0 &&
	    w->retry_after_s > RETRY_AFTER_MAX_S)
		w->retry_after_s = RETRY_AFTER_MAX_S;
	return answer;
}

/* Asks the API server's cache, then etcd if that is not enough. */
static enum barrier_answer barrier_poll(struct barrier_wait *w)
{
	enum barrier_answer v = barrier_ask(w, false);
	if (v == ANSWER_GONE || (v == ANSWER_FINE && !barrier_shows_us(w->in, w->f)))
		v = barrier_ask(w, true);
	w->polls++;
	w->refused = v == ANSWER_REFUSED ? w->refused + 1 : 0;
	return v;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void barrier_count(const struct init_framework *f, const char *verb, struct str *out)
{
	str_printf(out, "%lld of %lld tasks have an address, %s ", (long long)framework_ready(f),
	           (long long)f->total, verb);
	barrier_missing(f, out);
}

/* The same message is not repeated at once. */
static void barrier_tell_progress(struct barrier_wait *w, enum barrier_answer v)
{
	struct str text = STR_INIT(TEXT_MAX);
	bool waiting = v == ANSWER_NOT_YET;
	if (!waiting)
		str_printf(&text, "asking the API server: %s; trying again", str_c(&w->why));
	else if (w->in->gang)
		barrier_count(w->f, "waiting for", &text);
	else
		str_puts(&text, "the Framework does not show an address of this task yet");
	bool again =
	    span_eq(str_view(&text), str_view(&w->told)) && clock_ms() - w->told_ms < SAY_AGAIN_MS;
	if (!again) {
		say_line(waiting ? SAY_INFO : SAY_WARNING, "%s", str_c(&text));
		w->told_ms = clock_ms();
	}
	str_done(&w->told);
	w->told = text;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Ends the barrier after an answer that another poll would not change. */
static int barrier_give_up(const struct barrier_wait *w, enum barrier_answer v, struct err *e)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	const char *why = str_c(&w->why);
	if (v == ANSWER_GONE)
		str_printf(&text, "the Framework of this job does not exist (any more): %s", why);
	else if (v == ANSWER_NEVER)
		str_printf(&text,
		           "%s: %s. See --tls-min-version and --tls-cipher-suites of the API "
		           "server; waiting does not help",
		           w->kube->address, why);
	else
		str_printf(&text, "%s, %d times running. ", why, w->refused);
	if (v == ANSWER_REFUSED && w->status == 404)
		str_puts(&text, "It does not know Frameworks: is their CustomResourceDefinition in "
		                "this cluster?");
	else if (v == ANSWER_REFUSED)
		kube_explain(w->kube, w->status, w->path, &text);
	err_set(e, FAILED, "%s", str_c(&text));
	return INIT_PERMANENT;
}

/* v: the result of the last poll. */
static int barrier_timed_out(const struct barrier_wait *w, enum barrier_answer v, struct err *e)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	int64_t s = (w->in->gang ? w->t->timeout_ms : w->t->fetch_ms) / 1000;
	if (!w->in->gang && w->f) {
		say_line(SAY_WARNING,
		         "after %lld s the Framework does not show an address of this task; "
		         "going on without",
		         (long long)s);
		return 0;
	}
	if (v == ANSWER_NOT_YET && w->f) {
		barrier_count(w->f, "missing are", &text);
		err_set(e, FAILED, "after %lld s only %s", (long long)s, str_c(&text));
		return INIT_NOT_ALL;
	}
	err_set(e, FAILED, "the API server could not be asked for %lld s, at last: %s",
	        (long long)s, str_c(&w->why));
	return INIT_API_TROUBLE;
}

static int barrier_keep(struct barrier_wait *w, struct err *e)
{
	STR_AUTO json = STR_INIT((size_t)4 * STATUS_MAX);
	node_json(&json, w->f->root);
	if (json.full) {
		err_set(e, FAILED, "the Framework is too large to be written");
		return INIT_FAILED;
	}
	if (file_write(w->in->at.framework, str_view(&json), 0644, e) != 0)
		return INIT_FAILED;
	arena_adopt(w->in->a, &w->memory);
	w->in->framework = w->f;
	return 0;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* The last poll is at the deadline. */
static int barrier_loop(struct barrier_wait *w, struct err *e)
{
	int64_t started_ms = clock_ms();
	int64_t deadline_ms = started_ms + (w->in->gang ? w->t->timeout_ms : w->t->fetch_ms);
	for (;;) {
		enum barrier_answer v = barrier_poll(w);
		int64_t now = clock_ms();
		if (v == ANSWER_FINE) {
			const char *all =
			    w->in->gang ? arena_printf(w->in->a, "all %lld tasks have an address",
			                               (long long)w->f->total)
					: "the Framework is there";
			say_line(SAY_INFO, "%s, after %lld.%lld s (poll %u)", all,
			         (long long)(now - started_ms) / 1000,
			         (long long)(now - started_ms) % 1000 / 100, w->polls);
			return 0;
		}
		if (v == ANSWER_GONE || v == ANSWER_NEVER || w->refused == REFUSALS)
			return barrier_give_up(w, v, e);
		if (now >= deadline_ms)
			return barrier_timed_out(w, v, e);
		barrier_tell_progress(w, v);
		uint32_t random = 0;
		random_bytes(&random, sizeof(random));
		/* A refusal makes the wait long: the cause may be repaired, or the API server is
		 * starting. */
		unsigned n = w->refused ? UINT_MAX : w->polls - 1;
		int64_t delay = barrier_delay(w->t, n, w->f ? w->f->total : 1, random);
		if (delay < w->retry_after_s * 1000)
			delay = w->retry_after_s * 1000;
		int64_t next = clock_ms() + delay;
		clock_sleep_until(next < deadline_ms ? next : deadline_ms);
	}
}

static int barrier_prepare(struct barrier_wait *w, struct err *e)
{
	const char *namespace_name = env_get("FC_FRAMEWORK_NAMESPACE");
	w->name = env_get("FC_FRAMEWORK_NAME");
	if (namespace_name == NULL || w->name == NULL)
		return err_set(
		    e, FAILED,
		    "FC_FRAMEWORK_NAMESPACE and FC_FRAMEWORK_NAME are not set: this is no "
		    "pod of a Framework");
	w->path = kube_framework_path(namespace_name, w->name, w->in->a, e);
	if (w->path == NULL)
		return -1;
	w->kube = kube_open(&w->in->at, w->in->a, e);
	if (w->kube == NULL)
		return -1;
	say_line(SAY_INFO, "asking %s for Framework %s/%s%s", w->kube->address, namespace_name,
	         w->name, w->in->gang ? ", until all tasks have an address" : "");
	return 0;
}

static int barrier_wait(struct init *in, const struct barrier_times *t, struct err *e)
{
	struct barrier_wait w = { .in = in, .t = t };
	/* Closed only after success: the caller reports errors there, too. */
	bool log = say_open(path_join(in->a, in->at.logs, "barrier.log")) == 0;
	if (!log)
		say_line(SAY_WARNING, "no barrier.log in %s", in->at.logs);
	int code = barrier_prepare(&w, e) ? INIT_PERMANENT : barrier_loop(&w, e);
	if (code == 0)
		code = barrier_keep(&w, e);
	if (code == 0 && log)
		say_close();
	kube_free(w.kube);
	arena_done(&w.memory);
	str_done(&w.why);
	str_done(&w.told);
	return code;
}

int step_framework(struct init *in, struct err *e)
{
	struct barrier_times t;
	if (in->runtime_config && !in->role_name) {
		say_line(SAY_INFO, "a bare pod: there is no Framework to wait for");
		return 0;
	}
	int bad = in->barrier_ms ? barrier_times_parse(&t, span_of(in->barrier_ms), e)
	                         : barrier_times_read(&t, e);
	return bad ? INIT_PERMANENT : barrier_wait(in, &t, e);
}
