/*
 * Who failed first: of all tasks of a failed attempt, the one whose own failure came first, and
 * those that only followed it.  When one process of a distributed program ends, the others lose it:
 * their connections break, or their collective operations time out, and often one of them is
 * noticed before the first.  So the time alone does not decide: CAUSES and the words of the exit
 * specification say which ends follow from others.
 *
 * Times are those of the clocks of the nodes, which differ.  pai-runtime reports milliseconds;
 * Kubernetes has whole seconds, and FrameworkController's completionTime is when the pod was gone.
 */
#include "server/jobs/jobs_internal.h"

enum {
	SLACK_MS = 1000,       /* the difference of the clocks of two nodes */
	FIRST_READ = 4 << 20,  /* bytes of diagnostics; of further tasks only code and time count */
	FIRST_FOLLOWERS = 100, /* shown */
	FIRST_LINES = 15,      /* shown */
	FIRST_TAIL = 400, /* bytes of the end of a log that are searched for the text of a cause */
	CODE_COMPLETED = -220, /* of FrameworkController: the attempt was over */
	CODE_REMOVED = -230,   /* the job has fewer instances now */
};

/* ---- causes ---------------------------------------------------------------------------------- */

/* Codes that say it whatever the task said; docs/RUNTIME.md describes them. */
static const struct cause {
	int64_t code;
	enum end_kind kind;
	const char *why;
} CAUSES[] = {
	{ CODE_COMPLETED, END_STOPPED, "stopped when the attempt ended" },
	{ 141, END_FOLLOWED, "broken pipe" },
	{ 236, END_FOLLOWED, "a collective operation timed out" },
	{ 237, END_FOLLOWED, "lost its peer" },
	{ 238, END_FOLLOWED, "the rendezvous failed" },
	{ 249, END_FOLLOWED, "another task could not be reached" },
	{ 129, END_KILLED, "ended by SIGHUP" },
	{ 130, END_KILLED, "ended by SIGINT" },
	{ 137, END_KILLED, "ended by SIGKILL" },
	{ 143, END_KILLED, "ended by SIGTERM" },
};

/* Codes of commands, of signals that others may have sent, and those for errors that only the log
 * explains. */
static bool is_unclear(int64_t code)
{
	return (code >= 1 && code <= 130) || code == 134 || code == 137 || code == 143 ||
	       code == 245 || code >= 255;
}

/* The first word of the specification for the code; NULL: none. */
static const struct exit_word *end_word(const struct exit_spec *spec, int64_t code,
                                        struct span said)
{
	size_t n;
	const struct exit_word *w = exit_spec_words(spec, &n);
	for (const struct exit_word *end = w + n; w < end; w++) {
		if ((w->code ? w->code == code : is_unclear(code)) &&
		    span_find(said, 0, w->text) != SIZE_MAX)
			return w;
	}
	return NULL;
}

void end_classify(struct task_end *t, const struct exit_spec *spec, struct span said)
{
	const struct exit_word *w = end_word(spec, t->code, said);
	t->kind = END_ORIGIN;
	t->why = w ? w->why : NULL;
	if (t->why)
		t->kind = w->killed ? END_KILLED : END_FOLLOWED;
	for (const struct cause *c = CAUSES; !w && c < CAUSES + ARRAY_SIZE(CAUSES); c++) {
		if (c->code == t->code) {
			t->kind = c->kind;
			t->why = c->why;
		}
	}
}

/* ---- choice ---------------------------------------------------------------------------------- */

/* A task that was killed followed another if that ended clearly earlier. */
static bool end_is_origin(const struct task_end *t, int64_t earliest_ms)
{
	return t->kind == END_ORIGIN ||
	       (t->kind == END_KILLED && t->ended_ms - SLACK_MS <= earliest_ms);
}

size_t first_failure(const struct task_end *v, size_t n)
{
	int64_t earliest_ms = END_UNKNOWN;
	size_t first = SIZE_MAX;
	bool origin = false;
	for (size_t i = 0; i < n; i++) {
		if (v[i].kind != END_STOPPED && v[i].ended_ms < earliest_ms)
			earliest_ms = v[i].ended_ms;
	}
	for (size_t i = 0; i < n; i++) {
		bool own = end_is_origin(&v[i], earliest_ms);
		if (v[i].kind == END_STOPPED || own < origin)
			continue;
		if (first == SIZE_MAX || own > origin || v[i].ended_ms < v[first].ended_ms)
			first = i;
		origin = own;
	}
	return first;
}

/* ---- reading --------------------------------------------------------------------------------- */

static struct task_end *ends_push(struct task_ends *all, struct arena *a)
{
	if (all->n == all->cap) {
		size_t cap = all->cap ? 2 * all->cap : 64;
		struct task_end *v = ARENA_NEW(a, struct task_end, cap);
		if (all->n)
			memcpy(v, all->v, all->n * sizeof(*v));
		all->v = v;
		all->cap = cap;
	}
	return &all->v[all->n++];
}

/* The rest of the line of a report that begins with the key; each value is one line. */
static struct span report_value(struct span report, const char *key)
{
	size_t at = span_find(report, 0, key);
	if (at == SIZE_MAX)
		return (struct span){ NULL, 0 };
	struct span value = span_from(report, at + strlen(key));
	return span_to(value, span_chr(value, '\n'));
}

/* What the task said at its end: the text by which it was explained, else the last lines. */
static struct span said_last(struct span message, struct span report)
{
	struct span text = report_value(report, "\nmatchedUserLogString: ");
	if (text.n)
		return text;
	text = report_value(report, "\n  user: ");
	if (!text.n || text.p[0] != '"') /* not of this runtime */
		text = report.p ? report : message;
	if (text.n > FIRST_TAIL)
		text = (struct span){ text.p + text.n - FIRST_TAIL, FIRST_TAIL };
	return text;
}

/* The time that pai-runtime reports, if it is between the controller's times of the task: clocks of
 * nodes may be wrong by hours, and the job can write the message as well. */
static int64_t end_time(const struct task *t, struct span report)
{
	int64_t started_ms = INT64_MIN;
	int64_t gone_ms = END_UNKNOWN;
	int64_t ms;
	(void)scan_time_ms(t->at[TRY_STARTED], &started_ms); /* else any */
	(void)scan_time_ms(t->at[TRY_ENDED], &gone_ms);      /* else not yet */
	if (scan_time_ms(report_value(report, "\nendTime: "), &ms) && ms >= started_ms &&
	    (gone_ms == END_UNKNOWN || ms <= gone_ms + SLACK_MS))
		return ms;
	return gone_ms;
}

void ends_add(struct shower *w, struct span role, const struct task *t)
{
	const struct outcome *o = &t->outcome;
	struct task_ends *all = w->ends;
	struct span message = { NULL, 0 };
	if (!o->has_code || o->code == 0 || o->code == CODE_REMOVED || t->index < 0)
		return;
	if (o->diagnostics.n <= FIRST_READ - all->read) {
		message = said_message(o->diagnostics, w->a);
		all->read += o->diagnostics.n;
	}
	struct span report = said_report(message);
	struct task_end *out = ends_push(all, w->a);
	*out = (struct task_end){ .role = role,
		                  .index = t->index,
		                  .code = o->code,
		                  .ended_ms = end_time(t, report),
		                  .rank = -1,
		                  .outcome = *o };
	(void)parse_i64(report_value(report, "\nfailedRank: "), 0, INT32_MAX, &out->rank);
	end_classify(out, w->s->spec, said_last(message, report));
}

/* ---- writing --------------------------------------------------------------------------------- */

/* `,"lines":[...]`: the last lines of the text. */
static void first_put_lines(struct str *out, struct span text)
{
	text.n -= text.n > 0 && text.p[text.n - 1] == '\n';
	size_t from = text.n;
	size_t lines = 0;
	while (from > 0 && !(text.p[from - 1] == '\n' && ++lines == FIRST_LINES))
		from--;
	json_put_open(out, "lines", '[');
	text = span_from(text, from);
	while (text.n > 0)
		json_put_text(out, NULL, span_next(&text, '\n'));
	str_char(out, ']');
}

/* The text where it is last in the log, up to the end of its line; if it is not there, the text. */
static struct span text_in(struct span log, struct span text)
{
	size_t last = SIZE_MAX;
	FREE_AUTO char *key = xstrndup(text.p, text.n);
	for (size_t at = 0; (at = span_find(log, at, key)) != SIZE_MAX; at++)
		last = at;
	if (last == SIZE_MAX)
		return text;
	text = span_from(log, last);
	return span_trim(span_to(text, span_chr(text, '\n')));
}

/* The text in which the exit specification has found the cause, if it is one line; else the line of
 * the commands that failed, or a name. */
static void first_put_cause(struct shower *w, const struct task_end *t, struct span report,
                            struct span log)
{
	STR_AUTO spec = STR_INIT(DIAGNOSTICS_MAX);
	struct span text = span_trim(scan_text(scan_get(report, "matchedUserLogString"), w->a));
	struct span reason = scan_text(scan_get(report, "failedLine"), w->a);
	if (text.n && !memchr(text.p, '\n', text.n)) {
		text = text_in(log, text);
	} else if (t->kind == END_FOLLOWED) {
		text = span_of(t->why);
	} else if (reason.n) {
		text = reason;
	} else {
		exit_spec_json(&spec, w->s->spec, t->code, true);
		text = scan_text(scan_get(str_view(&spec), "phrase"), w->a);
	}
	json_put_text(w->out, "cause", text);
}

static void first_put_followers(struct str *out, const struct task_ends *all,
                                const struct task_end *t)
{
	size_t n = 0;
	json_put_open(out, "followers", '[');
	for (const struct task_end *f = all->v; f < all->v + all->n; f++) {
		if (f == t || f->kind == END_ORIGIN || n++ >= FIRST_FOLLOWERS)
			continue;
		json_put_open(out, NULL, '{');
		json_put_text(out, "taskRole", f->role);
		json_put_int(out, "taskIndex", f->index);
		json_put_int(out, "exitCode", f->code);
		json_put_word(out, "cause", f->why);
		str_char(out, '}');
	}
	str_char(out, ']');
	json_put_int(out, "followersCount", (int64_t)n);
}

static void first_put(struct shower *w, const struct task_ends *all, const struct task_end *t)
{
	struct span report = said_read(t->outcome.diagnostics, true, w->a).runtime;
	struct span log = scan_text(scan_path(report, "errorLogs", "user"), w->a);
	if (!report.p)
		log = said_message(t->outcome.diagnostics, w->a);
	json_put_text(w->out, "taskRole", t->role);
	json_put_int(w->out, "taskIndex", t->index);
	json_put_known(w->out, "rank", t->rank >= 0, t->rank);
	json_put_known(w->out, "time", t->ended_ms != END_UNKNOWN, t->ended_ms);
	json_put_int(w->out, "exitCode", t->code);
	show_exit_spec(w, "exitSpec", &t->outcome);
	first_put_cause(w, t, report, log);
	first_put_lines(w->out, log);
	first_put_followers(w->out, all, t);
	str_char(w->out, '}');
}

void show_first_failure(struct shower *w, const struct task_ends *all, size_t at)
{
	struct str *out = w->out;
	size_t first = first_failure(all->v, all->n);
	if (first == SIZE_MAX)
		return;
	STR_AUTO text = STR_INIT(out->max - out->n);
	w->out = &text;
	str_puts(&text, ",\"firstFailure\":{");
	first_put(w, all, &all->v[first]);
	w->out = out;
	if (text.full || !str_reserve(out, text.n)) /* there is no room */
		return;
	memmove(out->p + at + text.n, out->p + at, out->n - at + 1);
	memcpy(out->p + at, text.p, text.n);
	out->n += text.n;
}
