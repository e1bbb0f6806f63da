/* Reads a Framework into one allocation: the fields of lists, and the members of it that answers
 * show. */
#include "jobs/cache/job_entry.h"

#include <stdlib.h>
#include <strings.h>

#include "base/doc/tree.h"
#include "base/enc.h"
#include "base/json/fields.h"
#include "base/json/put.h"
#include "base/posix/clock.h"
#include "base/posix/process.h"
#include "base/quantity.h"
#include "base/str.h"
#include "jobs/cache/hold.h"
#include "jobs/cache/job_entry_pack.h"
#include "jobs/framework/view.h"

/* ---- the members of a Framework that are kept, as a tree ---- */

/* A member to keep; for a list, `members` applies to each item. */
struct kept_member {
	struct span key;
	const struct kept_member *members; /* NULL: all of it */
};
#define ALL(name)                                                                                  \
	{                                                                                          \
		{ name, sizeof(name) - 1 }, NULL                                                   \
	}
#define ONLY(name, within)                                                                         \
	{                                                                                          \
		{ name, sizeof(name) - 1 }, within                                                 \
	}
#define END                                                                                        \
	{                                                                                          \
		{ NULL, 0 }, NULL                                                                  \
	}

static const struct kept_member KEEP_METADATA[] = {
	ALL("name"),
	ALL("namespace"),
	ALL("uid"),
	ALL("labels"),
	ALL("creationTimestamp"),
	ALL("annotations"),
	ALL("deletionTimestamp"),
	END,
};
static const struct kept_member KEEP_POD_METADATA[] = { ALL("labels"), ALL("annotations"), END };
static const struct kept_member KEEP_RESOURCES[] = { ALL("limits"), END };
static const struct kept_member KEEP_CONTAINER[] = { ALL("name"), ALL("image"),
	                                             ONLY("resources", KEEP_RESOURCES), END };
static const struct kept_member KEEP_POD_SPEC[] = {
	ONLY("containers", KEEP_CONTAINER),
	ONLY("initContainers", KEEP_CONTAINER),
	ALL("hostNetwork"),
	ALL("terminationGracePeriodSeconds"),
	ALL("schedulerName"),
	END,
};
static const struct kept_member KEEP_POD[] = {
	ONLY("metadata", KEEP_POD_METADATA),
	ONLY("spec", KEEP_POD_SPEC),
	END,
};
static const struct kept_member KEEP_TASK[] = {
	ALL("retryPolicy"),
	ALL("podGracefulDeletionTimeoutSec"),
	ONLY("pod", KEEP_POD),
	END,
};
static const struct kept_member KEEP_ROLE[] = {
	ALL("name"),
	ALL("taskNumber"),
	ALL("frameworkAttemptCompletionPolicy"),
	ONLY("task", KEEP_TASK),
	END,
};
static const struct kept_member KEEP_SPEC[] = {
	ALL("executionType"),
	ALL("retryPolicy"),
	ONLY("taskRoles", KEEP_ROLE),
	END,
};
static const struct kept_member KEEP_FRAMEWORK[] = {
	ONLY("metadata", KEEP_METADATA),
	ONLY("spec", KEEP_SPEC),
	END,
};

static void trim_value(struct str *out, struct scan *s, const struct kept_member *members);

static void trim_object(struct str *out, struct scan *s, const struct kept_member *members)
{
	struct span key;
	struct span dropped;
	bool first = true;
	str_char(out, '{');
	while (scan_key(s, &key)) {
		const struct kept_member *k = members;
		while (k->key.p && !span_eq(k->key, key))
			k++;
		if (!k->key.p) {
			(void)scan_value(s, &dropped); /* failure ends the walk */
			continue;
		}
		str_puts(out, first ? "\"" : ",\"");
		str_span(out, key);
		str_puts(out, "\":");
		trim_value(out, s, k->members);
		first = false;
	}
	str_char(out, '}');
}

/* The next value: those members of it that any answer shows, or all if `members` is NULL or it has
 * an unexpected type.  The tables limit the recursion: a list inside of a list is copied. */
static void trim_value(struct str *out, struct scan *s, const struct kept_member *members)
{
	struct scan inner = scan_enter(s);
	struct span value;
	if (members && inner.open == '{') {
		trim_object(out, &inner, members);
	} else if (members && inner.open == '[') {
		str_char(out, '[');
		for (bool first = true; scan_more(&inner); first = false) {
			if (!first)
				str_char(out, ',');
			trim_value(out, &inner, scan_peek(&inner) == SCAN_OBJECT ? members : NULL);
		}
		str_char(out, ']');
	} else {
		str_span(out, scan_value(s, &value) ? value : SPAN("null"));
		return;
	}
	scan_leave(s, &inner);
}

/* ---- annotations ---- */

bool job_entry_tag_ok(struct span t)
{
	return t.n > 0 && t.n <= JOB_ENTRY_TAG_MAX && utf8_plain(t);
}

/* The JSON list of tags that the annotation has as text; [] if it is invalid. */
static struct span job_entry_tags(struct span annotation, struct arena *a)
{
	enum { TAGS_TEXT_MAX = 16384 };
	const struct span none = SPAN("[]");
	struct span text = scan_text(annotation, a);
	if (text.n == 0 || text.n > TAGS_TEXT_MAX || !scan_valid(text, 1) ||
	    scan_type(text) != SCAN_ARRAY || scan_count(text) > JOB_ENTRY_TAGS_MAX)
		return none;
	STR_AUTO out = STR_INIT(TAGS_TEXT_MAX);
	struct scan s = scan_begin(text);
	struct span item;
	struct span tag;
	str_char(&out, '[');
	while (scan_item(&s, &item)) {
		if (!scan_string(item, a, &tag) || !job_entry_tag_ok(tag))
			return none;
		json_put_text(&out, NULL, tag);
	}
	str_char(&out, ']');
	return arena_span(a, str_view(&out));
}

static const char PRIORITY_WORD[] = "jobPriorityClass";

/* extras.hivedScheduler.jobPriorityClass of the submitted job; "" for none. */
static struct span job_entry_priority(struct span text, struct arena *a)
{
	const struct budget budget = { .depth = 32, .nodes = 20000, .text = 1u << 20, .key = 1024 };
	struct doc doc;
	ERR_AUTO e = { 0 };
	if (doc_read(text, &budget, a, &doc, NULL, &e) < 0)
		return SPAN("");
	const struct node *extras = node_get(&doc.root, "extras");
	const struct node *hived = extras ? node_get(extras, "hivedScheduler") : NULL;
	const struct node *priority = hived ? node_get(hived, PRIORITY_WORD) : NULL;
	return priority && priority->type == NODE_TEXT ? node_span(priority) : SPAN("");
}

/* The variable PAI_USER_NAME of the first container of the first role, or "". */
static struct span job_entry_maker(struct span object, struct arena *a)
{
	struct scan roles = scan_begin(scan_path(object, "spec", "taskRoles"));
	struct span role = { NULL, 0 };
	struct span container = { NULL, 0 };
	struct span variable;
	struct span maker = SPAN("");
	(void)scan_item(&roles, &role); /* without a role, `role` stays empty */
	struct scan containers = scan_begin(scan_path(role, "task", "pod", "spec", "containers"));
	(void)scan_item(&containers, &container);
	struct scan env = scan_begin(scan_get(container, "env"));
	while (scan_item(&env, &variable)) {
		if (span_is(scan_text(scan_get(variable, "name"), a), "PAI_USER_NAME"))
			maker = scan_text(scan_get(variable, "value"), a);
	}
	return maker;
}

/* ---- states ---- */

enum { STOPPED_BY_USER = -210, STOPPED_BY_TASK = -220 };

const char *const JOB_STATES[JOB_STATE_MAX] = {
	[JOB_WAITING] = "WAITING",     [JOB_RUNNING] = "RUNNING", [JOB_STOPPING] = "STOPPING",
	[JOB_SUCCEEDED] = "SUCCEEDED", [JOB_STOPPED] = "STOPPED", [JOB_FAILED] = "FAILED",
	[JOB_UNKNOWN] = "UNKNOWN",
};

/* The job's state by the exit code of the latest attempt: of a stop, 0, any other or none. */
struct state_rule {
	const char *state;
	enum job_state stopped, zero, other;
};

#define ENDED     JOB_STOPPED, JOB_SUCCEEDED, JOB_FAILED
#define ENDING    JOB_STOPPING, JOB_RUNNING, JOB_RUNNING
#define ALWAYS(s) (s), (s), (s)

static const struct state_rule OUTCOMES[] = {
	{ "AttemptRunning", ALWAYS(JOB_RUNNING) },
	{ "Completed", ENDED },
	{ "AttemptCreationPending", ALWAYS(JOB_WAITING) },
	{ "AttemptCreationRequested", ALWAYS(JOB_WAITING) },
	{ "AttemptPreparing", ALWAYS(JOB_WAITING) },
	{ "AttemptDeletionPending", ENDING },
	{ "AttemptDeletionRequested", ENDING },
	{ "AttemptDeleting", ENDING },
	{ "AttemptCompleted", ENDING },
};

enum job_state job_state_of(struct span state, bool has_code, int64_t code)
{
	for (size_t i = 0; i < ARRAY_SIZE(OUTCOMES); i++) {
		const struct state_rule *o = &OUTCOMES[i];
		if (!span_is(state, o->state))
			continue;
		if (has_code && (code == STOPPED_BY_USER || code == STOPPED_BY_TASK))
			return o->stopped;
		return has_code && code == 0 ? o->zero : o->other;
	}
	return JOB_UNKNOWN;
}

enum job_state attempt_state_of(struct span state, bool has_code, int64_t code)
{
	if (span_is(state, "AttemptCompleted"))
		state = SPAN("Completed");
	return job_state_of(state, has_code, code);
}

enum job_state job_state_named(struct span name)
{
	for (int s = 0; s < JOB_STATE_MAX; s++) {
		if (strlen(JOB_STATES[s]) == name.n &&
		    strncasecmp(JOB_STATES[s], name.p, name.n) == 0)
			return (enum job_state)s;
	}
	return JOB_STATE_MAX;
}

/* ---- reading ---- */

/* The texts of a struct job_entry, and the maximal bytes of each. */
enum job_entry_text {
	NAME,
	UID,
	JOB,
	USER,
	MAKER,
	CLUSTER,
	SUB_STATE,
	EXECUTION,
	PRIORITY,
	TAGS,
	HOLD,
	WAITS,
	WEBHOOK,
	RESOURCE_VERSION,
	TEXTS
};
static const struct {
	size_t at, max;
} TEXT[TEXTS] = {
	[NAME] = { offsetof(struct job_entry, name), 253 },
	[UID] = { offsetof(struct job_entry, uid), 64 },
	[JOB] = { offsetof(struct job_entry, job), 255 },
	[USER] = { offsetof(struct job_entry, user), 255 },
	[MAKER] = { offsetof(struct job_entry, maker), 63 },
	[CLUSTER] = { offsetof(struct job_entry, cluster), 255 },
	[SUB_STATE] = { offsetof(struct job_entry, sub_state), 64 },
	[EXECUTION] = { offsetof(struct job_entry, execution), 16 },
	[PRIORITY] = { offsetof(struct job_entry, priority), 32 },
	[TAGS] = { offsetof(struct job_entry, tags), SIZE_MAX }, /* has limits of its own */
	[HOLD] = { offsetof(struct job_entry, hold), HOLD_TEXT_MAX },
	[WAITS] = { offsetof(struct job_entry, waits), 4096 },
	[WEBHOOK] = { offsetof(struct job_entry, webhook), 63 },
	[RESOURCE_VERSION] = { offsetof(struct job_entry, resource_version), 32 },
};

static const char *job_entry_text_of(const struct job_entry *c, enum job_entry_text i)
{
	return *(const char *const *)(const void *)((const char *)c + TEXT[i].at);
}

enum { GPUS_MAX = 1 << 30 };
static const int64_t DEMAND_MAX = INT64_C(1) << 53; /* of all tasks */

/* A Framework that is being read.  The texts live in the arena. */
struct job_entry_reader {
	struct arena arena;
	const struct job_entry_made *made; /* NULL: the spec is read */
	struct job_entry c;
	struct span texts[TEXTS];
	/* JSON; p is NULL if absent. */
	struct span deleted, creating, gpus, tags, priority, config, submission, key, duration,
	    launched, archive, idle, keep, told, order;
	struct span sent, roles;
	struct span doc,
	    status; /* of the entry, as they are kept; before, the text of the status */
};

#define AT(member) offsetof(struct job_entry_reader, member)
static const struct scan_field LABELS[] = {
	{ "userName", SCAN_TO_TEXT, AT(texts[USER]), NULL },
	{ "virtualCluster", SCAN_TO_TEXT, AT(texts[CLUSTER]), NULL },
	{ "rest-lit/creating", SCAN_TO_RAW, AT(creating), NULL },
	{ "rest-lit/code", SCAN_TO_RAW, AT(archive), NULL },
	{ 0 },
};
/* A malformed RAW value counts as absent, so that the job can be shown. */
static const struct scan_field ANNOTATIONS[] = {
	{ "jobName", SCAN_TO_TEXT, AT(texts[JOB]), NULL },
	{ "totalGpuNumber", SCAN_TO_RAW, AT(gpus), NULL },
	{ "rest-lit/tags", SCAN_TO_RAW, AT(tags), NULL },
	{ "rest-lit/job-priority-class", SCAN_TO_RAW, AT(priority), NULL },
	{ "config", SCAN_TO_RAW, AT(config), NULL },
	{ "rest-lit/submission", SCAN_TO_RAW, AT(submission), NULL },
	{ "rest-lit/idempotency", SCAN_TO_RAW, AT(key), NULL },
	{ "rest-lit/max-duration-sec", SCAN_TO_RAW, AT(duration), NULL },
	{ "rest-lit/launched", SCAN_TO_RAW, AT(launched), NULL },
	{ "rest-lit/gpu-idle", SCAN_TO_RAW, AT(idle), NULL },
	{ "rest-lit/gpu-keep", SCAN_TO_RAW, AT(keep), NULL },
	{ "rest-lit/webhook-idle", SCAN_TO_RAW, AT(told), NULL },
	{ "rest-lit/hold", SCAN_TO_TEXT, AT(texts[HOLD]), NULL },
	{ "rest-lit/order", SCAN_TO_RAW, AT(order), NULL },
	{ "rest-lit/waiting", SCAN_TO_TEXT, AT(texts[WAITS]), NULL },
	{ "rest-lit/webhook", SCAN_TO_TEXT, AT(texts[WEBHOOK]), NULL },
	{ "rest-lit/webhook-sent", SCAN_TO_RAW, AT(sent), NULL },
	{ 0 },
};
static const struct scan_field METADATA[] = {
	{ "name", SCAN_TO_TEXT, AT(texts[NAME]), NULL },
	{ "uid", SCAN_TO_TEXT, AT(texts[UID]), NULL },
	{ "creationTimestamp", SCAN_TO_TIME, AT(c.created_ms), NULL },
	{ "deletionTimestamp", SCAN_TO_RAW, AT(deleted), NULL },
	{ "labels", SCAN_TO_MEMBERS, 0, LABELS },
	{ "annotations", SCAN_TO_MEMBERS, 0, ANNOTATIONS },
	{ 0 },
};
static const struct scan_field SPEC[] = {
	{ "executionType", SCAN_TO_TEXT, AT(texts[EXECUTION]), NULL },
	{ "taskRoles", SCAN_TO_RAW, AT(roles), NULL },
	{ 0 },
};
_Static_assert(JOB_ENTRY_NONE == -1, "a time or a number that is absent");

/* An object by its table.  A member of a wrong type makes the entry broken. */
static void job_entry_read(struct job_entry_reader *r, struct span object,
                           const struct scan_field *fields)
{
	r->c.broken |= !scan_fields(object, fields, r, &r->arena);
}

/* ---- metadata ---- */

/* The number of the first n hex digits.  false: there are fewer. */
static bool job_entry_hex_number(struct span text, size_t n, uint64_t *out)
{
	*out = 0;
	for (size_t i = 0; i < n; i++) {
		if (i == text.n || hex_value(text.p[i]) < 0)
			return false;
		*out = *out << 4 | (uint64_t)hex_value(text.p[i]);
	}
	return true;
}

uint64_t job_entry_key(struct span annotation)
{
	uint64_t key;
	return job_entry_hex_number(annotation, 16, &key) ? key : 0;
}

int64_t job_idle_read(struct span annotation, int64_t *warned_ms, int64_t *boot_ms)
{
	char boot[PROCESS_BOOT_MAX];
	int64_t now_ms = clock_boot_ms();
	int64_t since_ms;
	if (parse_i64(span_next(&annotation, ' '), 1, INT64_MAX / 2, &since_ms) < 0 ||
	    parse_i64(span_next(&annotation, ' '), 1, INT64_MAX / 2, warned_ms) < 0)
		return JOB_ENTRY_NONE;
	process_boot(boot);
	if (!span_is(span_next(&annotation, ' '), boot) ||
	    parse_i64(annotation, 0, now_ms, boot_ms) < 0)
		*boot_ms = now_ms;
	return since_ms;
}

int64_t job_keep_read(struct span *annotation, int64_t *hours)
{
	int64_t until_ms;
	bool valid = parse_i64(span_next(annotation, ' '), 1, INT64_MAX / 2, &until_ms) == 0 &&
	             parse_i64(span_next(annotation, ' '), 1, INT32_MAX, hours) == 0;
	*hours = valid ? *hours : 0;
	return valid ? until_ms : 0;
}

static void read_metadata(struct job_entry_reader *r, struct span metadata)
{
	char boot[PROCESS_BOOT_MAX];
	uint64_t submitted_ms;
	int64_t seconds = 0;
	int64_t hours;
	job_entry_read(r, metadata, METADATA);
	struct span name = r->texts[NAME];
	bool md5 = name.n == 32;
	for (size_t i = 0; md5 && i < name.n; i++)
		md5 = hex_value(name.p[i]) >= 0 && !is_upper(name.p[i]);
	r->c.legacy = r->texts[JOB].n == 0 || !md5;
	if (r->texts[JOB].n == 0)
		r->texts[JOB] = name;
	if (r->texts[CLUSTER].n == 0)
		r->texts[CLUSTER] = SPAN("unknown");
	if (r->sent.p)
		r->texts[WEBHOOK] = SPAN("");
	if (parse_i64(scan_text(r->gpus, &r->arena), 0, GPUS_MAX, &r->c.gpus) < 0)
		r->c.gpus = JOB_ENTRY_NONE; /* job_entry_read_spec adds them up */
	r->texts[TAGS] = job_entry_tags(r->tags, &r->arena);
	r->c.key = job_entry_key(scan_text(r->key, &r->arena));
	r->c.archive = job_entry_key(scan_text(r->archive, &r->arena));
	/* An id of 32 digits begins with the time (jobs/submit/submission.h). */
	struct span id = scan_text(r->submission, &r->arena);
	r->c.submitted_ms = id.n == 32 && job_entry_hex_number(id, 12, &submitted_ms)
	                        ? (int64_t)submitted_ms
	                        : JOB_ENTRY_NONE;
	(void)parse_i64(scan_text(r->duration, &r->arena), 1, INT32_MAX, &seconds); /* else 0 */
	r->c.max_duration_s = (int32_t)seconds;
	(void)parse_i64(scan_text(r->order, &r->arena), 1, INT64_MAX, &r->c.order); /* else 0 */
	struct span launched = scan_text(r->launched, &r->arena);
	if (launched.n)
		process_boot(boot);
	if (launched.n && span_is(span_next(&launched, ' '), boot))
		(void)parse_i64(launched, 1, INT64_MAX / 2, &r->c.launched_boot_ms); /* else 0 */
	r->c.gpu_idle_ms = job_idle_read(scan_text(r->idle, &r->arena), &r->c.gpu_warned_ms,
	                                 &r->c.gpu_warned_boot_ms);
	struct span keep = scan_text(r->keep, &r->arena);
	r->c.gpu_kept_ms = job_keep_read(&keep, &hours);
	(void)parse_i64(scan_text(r->told, &r->arena), 1, INT64_MAX, &r->c.gpu_idle_told_ms);
	/* OpenPAI's Frameworks lack the annotation: their job is parsed, if it contains the word.
	 */
	struct span priority = scan_text(r->priority, &r->arena);
	if (!r->priority.p && !r->made && r->config.n &&
	    memmem(r->config.p, r->config.n, PRIORITY_WORD, sizeof(PRIORITY_WORD) - 1))
		priority = job_entry_priority(scan_text(r->config, &r->arena), &r->arena);
	r->texts[PRIORITY] = priority.n <= TEXT[PRIORITY].max ? priority : SPAN("");
	r->c.creating = r->creating.p != NULL;
	r->c.deleting = r->deleted.p != NULL;
}

/* ---- spec ---- */

static int64_t job_entry_at_most(int64_t v, int64_t max)
{
	return v < max ? v : max;
}

/* Resource limits of the containers of one task. */
struct demand {
	int64_t gpus, milli_cpus, memory_mb;
};

/* Returns the limit in thousandths, at most half of INT64_MAX; 0: not valid. */
static int64_t limit_milli(struct span text)
{
	int64_t milli = quantity_milli(text);
	return milli > 0 ? job_entry_at_most(milli, INT64_MAX / 2) : 0;
}

/* Limits of all containers of a role's pod; accelerators by names that end in "/gpu". */
static struct demand job_entry_demand_of(struct span role, struct arena *a)
{
	struct demand d = { 0 };
	struct span container;
	struct span key;
	struct span value;
	struct scan containers = scan_begin(scan_path(role, "task", "pod", "spec", "containers"));
	while (scan_item(&containers, &container)) {
		struct scan limits = scan_begin(scan_path(container, "resources", "limits"));
		while (scan_member(&limits, &key, &value)) {
			int64_t n = 0;
			(void)scan_string(value, a, &value); /* 1 or "1" */
			if (span_is(key, "cpu")) {
				d.milli_cpus =
				    job_entry_at_most(d.milli_cpus + limit_milli(value), INT32_MAX);
			} else if (span_is(key, "memory")) {
				n = limit_milli(value) / 1000 / (1 << 20);
				d.memory_mb = job_entry_at_most(d.memory_mb + n, INT32_MAX);
			} else if (key.n >= 4 && memcmp(key.p + key.n - 4, "/gpu", 4) == 0) {
				(void)parse_i64(value, 0, GPUS_MAX, &n); /* else 0 */
				d.gpus = job_entry_at_most(d.gpus + n, GPUS_MAX);
			}
		}
	}
	return d;
}

/* A demand is private to this file. */
int64_t job_entry_role_gpus(struct span role, struct arena *a)
{
	return job_entry_demand_of(role, a).gpus;
}

static void job_entry_read_spec(struct job_entry_reader *r, struct span spec)
{
	job_entry_read(r, spec, SPEC);
	char *upper = arena_dup(&r->arena, r->texts[EXECUTION]);
	for (char *p = upper; *p; p++) {
		if (is_lower(*p))
			*p = (char)(*p - 'a' + 'A');
	}
	r->texts[EXECUTION].p = upper;

	if (r->roles.p && scan_type(r->roles) != SCAN_ARRAY)
		r->c.broken = true;
	bool sum = r->c.gpus == JOB_ENTRY_NONE;
	int64_t tasks = 0;
	int64_t gpus = 0;
	int64_t roles = 0;
	struct span role;
	struct scan s = scan_begin(r->roles);
	for (; scan_item(&s, &role); roles++) {
		int64_t n = 0;
		struct span number = scan_get(role, "taskNumber");
		if (scan_type(role) != SCAN_OBJECT ||
		    (scan_type(number) > SCAN_NULL && !scan_int(number, 0, INT32_MAX, &n)))
			r->c.broken = true;
		struct demand d = job_entry_demand_of(role, &r->arena);
		gpus = job_entry_at_most(gpus + d.gpus * n, DEMAND_MAX);
		r->c.milli_cpus = job_entry_at_most(r->c.milli_cpus + d.milli_cpus * n, DEMAND_MAX);
		r->c.memory_mb = job_entry_at_most(r->c.memory_mb + d.memory_mb * n, DEMAND_MAX);
		tasks = job_entry_at_most(tasks + n, INT32_MAX);
	}
	r->c.roles = (int32_t)job_entry_at_most(roles, INT32_MAX);
	r->c.tasks = (int32_t)tasks;
	if (sum)
		r->c.gpus = gpus;
}

/* ---- status ---- */

static void job_entry_set_status(struct job_entry_reader *r, const struct fw_summary *s)
{
	struct job_entry *c = &r->c;
	r->texts[SUB_STATE] = s->state;
	c->completed_ms = s->completion_ms;
	c->launched_ms = s->run_ms == JOB_ENTRY_NONE ? s->completion_ms : s->run_ms;
	c->transition_ms = s->transition_ms;
	c->retries = (int32_t)(s->retried < 0 ? 0 : s->retried);
	c->accountable = (int32_t)(s->accountable < 0 ? 0 : s->accountable);
	c->retry_delay_s = (int32_t)s->retry_delay_s;
	c->attempt = (int32_t)(s->attempt < 0 ? 0 : s->attempt);
	c->has_code = s->has_code;
	c->code = (int32_t)s->code;
	c->has_last = s->has_last;
	c->last_code = (int32_t)s->last_code;
}

static void job_entry_read_status(struct job_entry_reader *r, struct span status)
{
	struct fw_view v;
	struct fw_summary s;
	fw_view_read(status, &r->arena, &v);
	r->c.broken |= !fw_view_summary(&v, &r->arena, &s) || v.odd;
	job_entry_set_status(r, &s);
	r->c.untouched = scan_type(status) == SCAN_NONE || scan_type(status) == SCAN_NULL;
	if (r->c.untouched)
		r->texts[SUB_STATE] = SPAN("AttemptCreationPending");
	r->status = r->c.untouched ? SPAN("") : status;
}

/* ---- the entry ---- */

/* One allocation: the structure, its texts, the document and its status. */
static struct job_entry *job_entry_make(const struct job_entry_reader *r)
{
	size_t size = sizeof(struct job_entry) + r->doc.n + r->status.n;
	for (size_t i = 0; i < TEXTS; i++)
		size += r->texts[i].n + 1;
	struct job_entry *c = xmalloc(size);
	memcpy(c, &r->c, sizeof(*c));
	c->own = c;
	char *p = (char *)(c + 1);
	for (size_t i = 0; i < TEXTS; i++) {
		memcpy((char *)c + TEXT[i].at, &(const char *){ p }, sizeof(const char *));
		bytes_copy(p, r->texts[i].p, r->texts[i].n);
		p += r->texts[i].n;
		*p++ = '\0';
	}
	bytes_copy(p, r->doc.p, r->doc.n);
	bytes_copy(p + r->doc.n, r->status.p, r->status.n);
	c->doc = (struct span){ p, r->doc.n };
	c->status = (struct span){ p + r->doc.n, r->status.n };
	c->weight = (size + 31) & ~(size_t)15; /* the size that malloc allocates */
	atomic_init(&c->refs, 1);
	return c;
}

/* object: trimmed; whole: with the members that are not kept. */
static bool job_entry_read_object(struct job_entry_reader *r, struct span object, struct span whole)
{
	enum { METADATA_, SPEC_, STATUS_, N };
	static const char *const KEYS[N] = { "metadata", "spec", "status" };
	static const struct scan_field VERSIONED[] = {
		{ "resourceVersion", SCAN_TO_TEXT, AT(texts[RESOURCE_VERSION]), NULL },
		{ 0 },
	};
	struct span v[N];
	scan_members(object, KEYS, v, STATUS_);
	v[STATUS_] = scan_get(whole, KEYS[STATUS_]);
	read_metadata(r, v[METADATA_]);
	if (r->texts[NAME].n == 0)
		return false;
	job_entry_read(r, scan_inside(whole, "metadata"), VERSIONED);
	job_entry_read_spec(r, v[SPEC_]);
	if (r->texts[USER].n == 0)
		r->texts[MAKER] = span_cut(job_entry_maker(whole, &r->arena), TEXT[MAKER].max);
	job_entry_read_status(r, v[STATUS_]);
	return true;
}

static struct job_entry *job_entry_judge(struct job_entry_reader *r)
{
	for (size_t i = 0; i < TEXTS; i++) {
		struct span t = span_cut(r->texts[i], TEXT[i].max);
		r->c.broken |= t.n < r->texts[i].n;
		r->texts[i] = t;
	}
	if (parse_i64(r->texts[RESOURCE_VERSION], 0, INT64_MAX, &r->c.version) < 0)
		r->c.version = 0;
	r->c.broken |= r->texts[UID].n == 0;
	r->c.held = r->texts[HOLD].n && !r->c.creating && span_is(r->texts[EXECUTION], "CREATE");
	r->c.state =
	    r->c.broken ? JOB_UNKNOWN : job_state_of(r->texts[SUB_STATE], r->c.has_code, r->c.code);
	if (job_state_final(r->c.state))
		r->c.gpu_idle_ms = JOB_ENTRY_NONE;
	return job_entry_make(r);
}

/* Keeps a text; one that has not changed is not compressed again.  kept: that of the entry before,
 * and its size; "" if it was not compressed.  false: too large. */
static bool job_entry_keep(struct str *out, struct span text, struct span kept, size_t size,
                           struct arena *a)
{
	struct span was;
	if (kept.n && size == text.n && job_entry_unpack(kept, size, a, &was) &&
	    span_eq(was, text)) {
		str_span(out, kept);
		return !out->full;
	}
	return text.n == 0 || job_entry_pack(out, text);
}

/* Makes the entry, with a document and the status of the reader.  doc.p NULL: the document of
 * `before`. */
static struct job_entry *job_entry_pack_up(struct job_entry_reader *r, struct span doc,
                                           const struct job_entry *before)
{
	STR_AUTO packed = STR_INIT(JOB_ENTRY_DOC_MAX);
	const struct job_entry none = { .plain = true };
	before = before ?: &none;
	if (before->gpu_idle_ms == r->c.gpu_idle_ms && before->gpu_warned_ms == r->c.gpu_warned_ms)
		r->c.gpu_warned_boot_ms = before->gpu_warned_boot_ms; /* it was seen then */
	struct span kept = before->plain ? SPAN("") : before->doc;
	bool same = !doc.p && !before->plain;
	doc = doc.p ? doc : before->doc;
	r->c.doc_size = same ? before->doc_size : doc.n;
	r->c.status_size = r->status.n;
	/* FrameworkController soon changes an object that it has not seen; until then a small one
	 * is not compressed.  Most changes change the size. */
	r->c.plain = r->c.untouched && doc.n <= JOB_ENTRY_PLAIN_MAX;
	r->doc = doc;
	if (!r->c.plain) {
		if (same)
			str_span(&packed, kept);
		bool fits = same || job_entry_keep(&packed, doc, kept, before->doc_size, &r->arena);
		size_t n = packed.n;
		fits = fits && n > 0 &&
		       job_entry_keep(&packed, r->status, before->status, before->status_size,
		                      &r->arena);
		r->doc = span_to(str_view(&packed), fits ? n : 0);
		r->status = span_from(str_view(&packed), fits ? n : packed.n);
	}
	return job_entry_judge(r);
}

struct job_entry *job_entry_new(struct span object)
{
	return job_entry_new_after(object, NULL);
}

struct job_entry *job_entry_new_after(struct span object, const struct job_entry *before)
{
	STR_AUTO doc = STR_INIT(object.n + 64); /* room to close open containers */
	struct job_entry_reader r = { .c = { .gpus = JOB_ENTRY_NONE } };
	struct job_entry *c = NULL;
	(void)str_reserve(&doc, object.n); /* at most that, as a rule: the text does not move */
	trim_value(&doc, &(struct scan){ object.p, object.p + object.n, '\0' }, KEEP_FRAMEWORK);
	if (!doc.full && job_entry_read_object(&r, str_view(&doc), object)) /* full: not JSON */
		c = job_entry_pack_up(&r, str_view(&doc), before);
	arena_done(&r.arena);
	return c;
}

/* The fields of an entry, and its texts, which are borrowed. */
static struct job_entry_reader job_entry_again(const struct job_entry *c)
{
	struct job_entry_reader r = { .c = { .gpus = 0 } };
	memcpy(&r.c, c, sizeof(r.c));
	for (enum job_entry_text i = 0; i < TEXTS; i++)
		r.texts[i] = span_of(job_entry_text_of(c, i));
	return r;
}

struct job_entry *job_entry_new_stated(const struct job_entry *before,
                                       const struct job_entry_stated *s)
{
	struct job_entry_reader r = job_entry_again(before);
	const char *version = arena_printf(&r.arena, "%lld", (long long)s->version);
	r.texts[RESOURCE_VERSION] = span_of(version);
	r.c.launched_boot_ms = s->launched_boot_ms ?: before->launched_boot_ms;
	if (s->gpu_idle)
		r.c.gpu_idle_ms = job_idle_read(span_of(s->gpu_idle), &r.c.gpu_warned_ms,
		                                &r.c.gpu_warned_boot_ms);
	r.c.untouched = false;
	job_entry_set_status(&r, s->summary);
	r.status = s->status;
	struct job_entry *c = job_entry_pack_up(&r, (struct span){ NULL, 0 }, before);
	arena_done(&r.arena);
	return c;
}

struct job_entry *job_entry_new_made(struct span object, const struct job_entry_made *made)
{
	struct job_entry_reader r = { .made = made };
	struct job_entry *c = NULL;
	read_metadata(&r, scan_inside(object, "metadata"));
	if (r.texts[NAME].n) {
		job_entry_read_status(&r, (struct span){ NULL, 0 });
		r.texts[UID] = span_cut(span_of(made->uid), TEXT[UID].max);
		r.texts[RESOURCE_VERSION] =
		    span_cut(span_of(made->version), TEXT[RESOURCE_VERSION].max);
		r.texts[EXECUTION] = r.texts[HOLD].n ? SPAN("CREATE") : SPAN("START");
		r.c.creating = false; /* the last step has removed the label */
		r.c.gpus = made->gpus;
		r.c.milli_cpus = job_entry_at_most(made->milli_cpus, DEMAND_MAX);
		r.c.memory_mb = job_entry_at_most(made->memory_mb, DEMAND_MAX);
		r.c.tasks = (int32_t)job_entry_at_most(made->tasks, INT32_MAX);
		r.c.roles = (int32_t)job_entry_at_most(made->roles, INT32_MAX);
		const char *created = arena_printf(&r.arena, "\"%s\"", made->created);
		(void)scan_time_ms(span_of(created), &r.c.created_ms); /* else unknown */
		c = job_entry_judge(&r);
	}
	arena_done(&r.arena);
	return c;
}

struct job_entry *job_entry_without_doc(const struct job_entry *c)
{
	struct job_entry_reader r = job_entry_again(c);
	return job_entry_make(&r);
}

int64_t job_entry_left_ms(const struct job_entry *c)
{
	bool runs = c->max_duration_s && c->launched_ms != JOB_ENTRY_NONE && !c->deleting &&
	            !job_state_final(c->state) && strcmp(c->execution, "STOP") != 0;
	int64_t ran_ms = c->launched_boot_ms ? clock_boot_ms() - c->launched_boot_ms
	                                     : clock_wall_ms() - c->launched_ms;
	return runs ? c->max_duration_s * INT64_C(1000) - ran_ms : INT64_MAX;
}

int64_t job_entry_idle_left_ms(const struct job_entry *c, int64_t stop_ms)
{
	int64_t left_ms = stop_ms - (clock_boot_ms() - c->gpu_warned_boot_ms);
	int64_t kept_ms = c->gpu_kept_ms - clock_wall_ms();
	bool counts = stop_ms > 0 && c->gpu_idle_ms != JOB_ENTRY_NONE && c->state == JOB_RUNNING &&
	              !c->deleting && strcmp(c->execution, "STOP") != 0;
	return !counts ? INT64_MAX : left_ms < kept_ms ? kept_ms : left_ms;
}

const char *job_entry_shown_user(const struct job_entry *c)
{
	return c->user[0] ? c->user : c->maker[0] ? c->maker : "unknown";
}

struct job_entry *job_entry_hold(const struct job_entry *c)
{
	atomic_fetch_add_explicit(&c->own->refs, 1, memory_order_relaxed);
	return c->own;
}

void job_entry_drop(const struct job_entry *c)
{
	if (c && atomic_fetch_sub_explicit(&c->own->refs, 1, memory_order_acq_rel) == 1)
		free(c->own);
}

bool job_entry_same(const struct job_entry *a, const struct job_entry *b)
{
	for (enum job_entry_text i = 0; i < TEXTS; i++) {
		if (i != RESOURCE_VERSION &&
		    strcmp(job_entry_text_of(a, i), job_entry_text_of(b, i)) != 0)
			return false;
	}
	return a->state == b->state && a->legacy == b->legacy && a->broken == b->broken &&
	       a->deleting == b->deleting && a->has_code == b->has_code && a->code == b->code &&
	       a->has_last == b->has_last && a->last_code == b->last_code &&
	       a->retries == b->retries && a->accountable == b->accountable &&
	       a->attempt == b->attempt && a->retry_delay_s == b->retry_delay_s &&
	       a->tasks == b->tasks && a->roles == b->roles && a->gpus == b->gpus &&
	       a->created_ms == b->created_ms && a->launched_ms == b->launched_ms &&
	       a->completed_ms == b->completed_ms && a->gpu_idle_ms == b->gpu_idle_ms;
}
