#include "k8s/cache/job_entry.h"

#include <stdlib.h>
#include <strings.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/json/scan.h"
#include "base/process.h"
#include "base/quantity.h"
#include "base/str.h"
#include "base/tree.h"
#include "k8s/cache/cache_internal.h"

/* ---- the members of a Framework that are kept, as a tree ---- */

/* A member to keep; for a list, `members` applies to each item. */
struct keep {
	struct span key;
	const struct keep *members; /* NULL: all of it */
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

static const struct keep KEEP_METADATA[] = {
	ALL("name"),
	ALL("namespace"),
	ALL("uid"),
	ALL("labels"),
	ALL("creationTimestamp"),
	ALL("annotations"),
	ALL("deletionTimestamp"),
	END,
};
static const struct keep KEEP_POD_METADATA[] = { ALL("labels"), ALL("annotations"), END };
static const struct keep KEEP_RESOURCES[] = { ALL("limits"), END };
static const struct keep KEEP_CONTAINER[] = { ALL("name"), ALL("image"),
	                                      ONLY("resources", KEEP_RESOURCES), END };
static const struct keep KEEP_POD_SPEC[] = {
	ONLY("containers", KEEP_CONTAINER),
	ONLY("initContainers", KEEP_CONTAINER),
	ALL("hostNetwork"),
	ALL("schedulerName"),
	END,
};
static const struct keep KEEP_POD[] = {
	ONLY("metadata", KEEP_POD_METADATA),
	ONLY("spec", KEEP_POD_SPEC),
	END,
};
static const struct keep KEEP_TASK[] = {
	ALL("retryPolicy"),
	ALL("podGracefulDeletionTimeoutSec"),
	ONLY("pod", KEEP_POD),
	END,
};
static const struct keep KEEP_ROLE[] = {
	ALL("name"),
	ALL("taskNumber"),
	ALL("frameworkAttemptCompletionPolicy"),
	ONLY("task", KEEP_TASK),
	END,
};
static const struct keep KEEP_SPEC[] = {
	ALL("executionType"),
	ALL("retryPolicy"),
	ONLY("taskRoles", KEEP_ROLE),
	END,
};
static const struct keep KEEP_FRAMEWORK[] = {
	ONLY("metadata", KEEP_METADATA),
	ONLY("spec", KEEP_SPEC),
	ALL("status"),
	END,
};

static const struct keep *kept(const struct keep *keep, struct span key)
{
	for (; keep->key.p; keep++) {
		if (span_eq(keep->key, key))
			return keep;
	}
	return NULL;
}

static void trim(struct str *out, struct scan *s, const struct keep *members);

static void trim_object(struct str *out, struct scan *s, const struct keep *members)
{
	struct span key;
	struct span dropped;
	bool first = true;
	str_char(out, '{');
	while (scan_key(s, &key)) {
		const struct keep *k = kept(members, key);
		if (!k) {
			(void)scan_value(s, &dropped); /* failure ends the walk */
			continue;
		}
		str_puts(out, first ? "\"" : ",\"");
		str_span(out, key);
		str_puts(out, "\":");
		trim(out, s, k->members);
		first = false;
	}
	str_char(out, '}');
}

static void trim_list(struct str *out, struct scan *s, const struct keep *members)
{
	bool first = true;
	str_char(out, '[');
	while (scan_more(s)) {
		if (!first)
			str_char(out, ',');
		trim(out, s, scan_peek(s) == SCAN_OBJECT ? members : NULL);
		first = false;
	}
	str_char(out, ']');
}

/* The next value.  The tables limit the recursion: a list inside of a list is copied. */
static void trim(struct str *out, struct scan *s, const struct keep *members)
{
	struct scan inner = scan_enter(s);
	struct span value;
	if (members && inner.open == '{')
		trim_object(out, &inner, members);
	else if (members && inner.open == '[')
		trim_list(out, &inner, members);
	else {
		str_span(out, scan_value(s, &value) ? value : SPAN("null"));
		return;
	}
	scan_leave(s, &inner);
}

/* Appends the members of a Framework that any answer shows.  Members of an unexpected type are
 * copied. */
static void job_entry_trim(struct str *out, struct span object)
{
	struct scan s = { object.p, object.p + object.n, '\0' };
	trim(out, &s, KEEP_FRAMEWORK);
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
	if (text.n > TAGS_TEXT_MAX || !scan_valid(text, 1) || scan_type(text) != SCAN_ARRAY ||
	    scan_count(text) > JOB_ENTRY_TAGS_MAX)
		return none;
	STR_AUTO out = STR_INIT(TAGS_TEXT_MAX);
	struct scan s = scan_begin(text);
	struct span item;
	struct span tag;
	str_char(&out, '[');
	while (scan_item(&s, &item)) {
		if (!scan_string(item, a, &tag) || !job_entry_tag_ok(tag))
			return none;
		if (out.n > 1)
			str_char(&out, ',');
		str_json(&out, tag);
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
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	if (doc_read(text, &budget, a, &doc, &warnings, &e) < 0)
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
struct outcome {
	const char *state;
	enum job_state stopped, zero, other;
};

#define ENDED     JOB_STOPPED, JOB_SUCCEEDED, JOB_FAILED
#define ENDING    JOB_STOPPING, JOB_RUNNING, JOB_RUNNING
#define ALWAYS(s) (s), (s), (s)

static const struct outcome OUTCOMES[] = {
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
		const struct outcome *o = &OUTCOMES[i];
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
enum text {
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
	[WEBHOOK] = { offsetof(struct job_entry, webhook), 63 },
	[RESOURCE_VERSION] = { offsetof(struct job_entry, resource_version), 32 },
};

static const char **job_entry_text_of(struct job_entry *c, size_t at)
{
	return (const char **)(void *)((char *)c + at);
}

enum { GPUS_MAX = 1 << 30 };
static const int64_t DEMAND_MAX = INT64_C(1) << 53; /* of all tasks */

/* A Framework that is being read.  The texts live in the arena. */
struct reading {
	struct arena arena;
	const struct job_entry_made *made; /* NULL: the spec is read */
	const struct job_entry *before;    /* an earlier entry, or NULL */
	struct job_entry c;
	struct span texts[TEXTS];
};

/* The value is present and not null. */
static bool given(struct span value)
{
	return scan_type(value) != SCAN_NONE && scan_type(value) != SCAN_NULL;
}

static void job_entry_read_text(struct reading *r, struct span value, enum text to)
{
	struct span t = { "", 0 };
	if (given(value) && !scan_string(value, &r->arena, &t))
		r->c.broken = true;
	r->texts[to] = span_cut(t, TEXT[to].max);
	if (r->texts[to].n < t.n)
		r->c.broken = true;
}

static int64_t job_entry_read_int(struct reading *r, struct span value, int64_t min,
                                  int64_t otherwise)
{
	int64_t v = otherwise;
	if (given(value) && !scan_int(value, min, INT32_MAX, &v))
		r->c.broken = true;
	return v;
}

static int64_t job_entry_read_time(struct reading *r, struct span value)
{
	int64_t ms = JOB_ENTRY_NONE;
	if (given(value) && !scan_time_ms(value, &ms))
		r->c.broken = true;
	return ms;
}

/* ---- metadata ---- */

static bool is_md5(struct span name)
{
	for (size_t i = 0; i < name.n; i++) {
		if (hex_value(name.p[i]) < 0 || is_upper(name.p[i]))
			return false;
	}
	return name.n == 32;
}

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

/* An id of 32 digits begins with the time (k8s/submit/submission.h). */
static int64_t submission_ms(struct span id)
{
	uint64_t ms;
	return id.n == 32 && job_entry_hex_number(id, 12, &ms) ? (int64_t)ms : JOB_ENTRY_NONE;
}

/* Frameworks of other programs and of earlier versions lack the annotation: their job is parsed, if
 * it contains the word. */
static void job_entry_read_priority(struct reading *r, struct span annotation, struct span config)
{
	struct span priority = scan_text(annotation, &r->arena);
	if (!given(annotation) && !r->made && config.n &&
	    memmem(config.p, config.n, PRIORITY_WORD, sizeof(PRIORITY_WORD) - 1))
		priority = job_entry_priority(scan_text(config, &r->arena), &r->arena);
	r->texts[PRIORITY] = priority.n <= TEXT[PRIORITY].max ? priority : SPAN("");
}

static void job_entry_read_launched(struct reading *r, struct span annotation)
{
	char boot[PROCESS_BOOT_MAX];
	struct span ms = scan_text(annotation, &r->arena);
	if (ms.n == 0)
		return;
	process_boot(boot);
	if (span_is(span_next(&ms, ' '), boot))
		(void)parse_i64(ms, 1, INT64_MAX / 2, &r->c.launched_boot_ms); /* else 0 */
}

static void read_annotations(struct reading *r, struct span annotations, struct span labels)
{
	enum {
		JOB_NAME,
		GPUS,
		TAG_LIST,
		PRIORITY_CLASS,
		CONFIG,
		SUBMISSION,
		KEY,
		DURATION,
		LAUNCHED,
		TOLD,
		SENT,
		N
	};
	static const char *const KEYS[N] = { "jobName",
		                             "totalGpuNumber",
		                             "rest-lit/tags",
		                             "rest-lit/job-priority-class",
		                             "config",
		                             "rest-lit/submission",
		                             "rest-lit/idempotency",
		                             "rest-lit/max-duration-sec",
		                             "rest-lit/launched",
		                             "rest-lit/webhook",
		                             "rest-lit/webhook-sent" };
	struct span v[N];
	scan_members(annotations, KEYS, v, N);
	job_entry_read_text(r, v[JOB_NAME], JOB);
	r->c.legacy = r->texts[JOB].n == 0 || !is_md5(r->texts[NAME]);
	if (r->texts[JOB].n == 0)
		r->texts[JOB] = r->texts[NAME];
	struct span gpus = scan_text(v[GPUS], &r->arena);
	if (parse_i64(gpus, 0, GPUS_MAX, &r->c.gpus) < 0)
		r->c.gpus = JOB_ENTRY_NONE; /* job_entry_read_spec adds them up */
	r->texts[TAGS] = job_entry_tags(v[TAG_LIST], &r->arena);
	r->c.submitted_ms = submission_ms(scan_text(v[SUBMISSION], &r->arena));
	r->c.key = job_entry_key(scan_text(v[KEY], &r->arena));
	int64_t seconds = 0;
	(void)parse_i64(scan_text(v[DURATION], &r->arena), 1, INT32_MAX, &seconds); /* else 0 */
	r->c.max_duration_s = (int32_t)seconds;
	job_entry_read_launched(r, v[LAUNCHED]);
	if (!given(v[SENT]))
		job_entry_read_text(r, v[TOLD], WEBHOOK);
	job_entry_read_priority(r, v[PRIORITY_CLASS], v[CONFIG]);
	job_entry_read_text(r, scan_get(labels, "userName"), USER);
	job_entry_read_text(r, scan_get(labels, "virtualCluster"), CLUSTER);
	if (r->texts[CLUSTER].n == 0)
		r->texts[CLUSTER] = SPAN("unknown");
	r->c.creating = given(scan_get(labels, "rest-lit/creating"));
}

static void job_entry_read_version(struct reading *r, struct span version)
{
	r->texts[RESOURCE_VERSION] = version;
	if (parse_i64(version, 0, INT64_MAX, &r->c.version) < 0)
		r->c.version = 0;
}

static void read_metadata(struct reading *r, struct span metadata)
{
	enum { NAME_, UID_, CREATED, DELETED, LABELS, ANNOTATIONS, N };
	static const char *const KEYS[N] = {
		"name", "uid", "creationTimestamp", "deletionTimestamp", "labels", "annotations"
	};
	struct span v[N];
	scan_members(metadata, KEYS, v, N);
	job_entry_read_text(r, v[NAME_], NAME);
	job_entry_read_text(r, v[UID_], UID);
	r->c.created_ms = job_entry_read_time(r, v[CREATED]);
	r->c.deleting = given(v[DELETED]);
	read_annotations(r, v[ANNOTATIONS], v[LABELS]);
}

/* ---- spec ---- */

static int64_t at_most(int64_t v, int64_t max)
{
	return v < max ? v : max;
}

/* Resource limits of the containers of one task. */
struct demand {
	int64_t gpus, milli_cpus, memory_mb;
};

/* In thousandths, at most half of INT64_MAX; 0: not valid. */
static int64_t limit_milli(struct span text)
{
	int64_t milli = quantity_milli(text);
	return milli > 0 ? at_most(milli, INT64_MAX / 2) : 0;
}

static void add_limit(struct demand *d, struct span key, struct span value)
{
	int64_t n = 0;
	if (span_is(key, "cpu")) {
		d->milli_cpus = at_most(d->milli_cpus + limit_milli(value), INT32_MAX);
	} else if (span_is(key, "memory")) {
		d->memory_mb =
		    at_most(d->memory_mb + limit_milli(value) / 1000 / (1 << 20), INT32_MAX);
	} else if (key.n >= 4 && memcmp(key.p + key.n - 4, "/gpu", 4) == 0) {
		(void)parse_i64(value, 0, GPUS_MAX, &n); /* stays 0 if invalid */
		d->gpus = at_most(d->gpus + n, GPUS_MAX);
	}
}

/* Limits of all containers of a role's pod; accelerators by names that end in "/gpu". */
static struct demand demand_of(struct span role, struct arena *a)
{
	struct demand d = { 0 };
	struct span container;
	struct span key;
	struct span value;
	struct scan containers = scan_begin(scan_path(role, "task", "pod", "spec", "containers"));
	while (scan_item(&containers, &container)) {
		struct scan limits = scan_begin(scan_path(container, "resources", "limits"));
		while (scan_member(&limits, &key, &value)) {
			(void)scan_string(value, a, &value); /* 1 or "1" */
			add_limit(&d, key, value);
		}
	}
	return d;
}

int64_t job_entry_role_gpus(struct span role, struct arena *a)
{
	return demand_of(role, a).gpus;
}

static void job_entry_read_spec(struct reading *r, struct span spec)
{
	enum { EXECUTION_TYPE, ROLES, N };
	static const char *const KEYS[N] = { "executionType", "taskRoles" };
	struct span v[N];
	scan_members(spec, KEYS, v, N);
	job_entry_read_text(r, v[EXECUTION_TYPE], EXECUTION);
	char *upper = arena_dup(&r->arena, r->texts[EXECUTION]);
	for (char *p = upper; *p; p++) {
		if (is_lower(*p))
			*p = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[*p - 'a'];
	}
	r->texts[EXECUTION].p = upper;

	if (given(v[ROLES]) && scan_type(v[ROLES]) != SCAN_ARRAY)
		r->c.broken = true;
	bool sum = r->c.gpus == JOB_ENTRY_NONE;
	int64_t tasks = 0;
	int64_t gpus = 0;
	int64_t roles = 0;
	struct span role;
	struct scan s = scan_begin(v[ROLES]);
	for (; scan_item(&s, &role); roles++) {
		int64_t n = job_entry_read_int(r, scan_get(role, "taskNumber"), 0, 0);
		if (scan_type(role) != SCAN_OBJECT)
			r->c.broken = true;
		struct demand d = demand_of(role, &r->arena);
		gpus = at_most(gpus + d.gpus * n, DEMAND_MAX);
		r->c.milli_cpus = at_most(r->c.milli_cpus + d.milli_cpus * n, DEMAND_MAX);
		r->c.memory_mb = at_most(r->c.memory_mb + d.memory_mb * n, DEMAND_MAX);
		tasks = at_most(tasks + n, INT32_MAX);
	}
	r->c.roles = (int32_t)at_most(roles, INT32_MAX);
	r->c.tasks = (int32_t)tasks;
	if (sum)
		r->c.gpus = gpus;
}

/* ---- status ---- */

static void job_entry_read_retries(struct reading *r, struct span policy)
{
	enum { TOTAL, ACCOUNTABLE, DELAY, N };
	static const char *const KEYS[N] = { "totalRetriedCount", "accountableRetriedCount",
		                             "retryDelaySec" };
	struct span v[N];
	scan_members(policy, KEYS, v, N);
	r->c.retries = (int32_t)job_entry_read_int(r, v[TOTAL], 0, 0);
	r->c.accountable = (int32_t)job_entry_read_int(r, v[ACCOUNTABLE], 0, 0);
	r->c.retry_delay_s = (int32_t)job_entry_read_int(r, v[DELAY], 0, JOB_ENTRY_NONE);
}

static void job_entry_read_status(struct reading *r, struct span status)
{
	enum { STATE, RUN, TRANSITION, COMPLETION, POLICY, ATTEMPT, N };
	static const char *const KEYS[N] = {
		"state",          "runTime",           "transitionTime",
		"completionTime", "retryPolicyStatus", "attemptStatus"
	};
	struct span v[N];
	scan_members(status, KEYS, v, N);
	job_entry_read_text(r, v[STATE], SUB_STATE);
	r->c.untouched = !given(status);
	if (r->c.untouched)
		r->texts[SUB_STATE] = SPAN("AttemptCreationPending");
	else if (scan_type(status) != SCAN_OBJECT)
		r->c.broken = true;
	r->c.completed_ms = job_entry_read_time(r, v[COMPLETION]);
	r->c.launched_ms = job_entry_read_time(r, v[RUN]);
	r->c.transition_ms = JOB_ENTRY_NONE;
	(void)scan_time_ms(v[TRANSITION], &r->c.transition_ms); /* else unknown */
	if (r->c.launched_ms == JOB_ENTRY_NONE)
		r->c.launched_ms = r->c.completed_ms;
	job_entry_read_retries(r, v[POLICY]);
	r->c.attempt = (int32_t)job_entry_read_int(r, scan_get(v[ATTEMPT], "id"), 0, 0);
	struct span code = scan_path(v[ATTEMPT], "completionStatus", "code");
	int64_t number;
	r->c.has_code = scan_int(code, INT32_MIN, INT32_MAX, &number);
	r->c.code = (int32_t)job_entry_read_int(r, code, INT32_MIN, 0);
}

/* ---- the entry ---- */

/* One allocation: the structure, its texts, the document. */
static struct job_entry *job_entry_make(const struct reading *r, struct span doc)
{
	size_t size = sizeof(struct job_entry) + doc.n;
	for (size_t i = 0; i < TEXTS; i++)
		size += r->texts[i].n + 1;
	struct job_entry *c = xmalloc(size);
	memcpy(c, &r->c, sizeof(*c));
	char *p = (char *)(c + 1);
	for (size_t i = 0; i < TEXTS; i++) {
		*job_entry_text_of(c, TEXT[i].at) = p;
		bytes_copy(p, r->texts[i].p, r->texts[i].n);
		p += r->texts[i].n;
		*p++ = '\0';
	}
	if (doc.n)
		memcpy(p, doc.p, doc.n);
	c->doc = (struct span){ p, doc.n };
	c->weight = (size + 31) & ~(size_t)15; /* the size that malloc allocates */
	atomic_init(&c->refs, 1);
	return c;
}

/* object: trimmed; whole: with the members that are not kept. */
static bool job_entry_read_object(struct reading *r, struct span object, struct span whole)
{
	enum { METADATA, SPEC, STATUS, N };
	static const char *const KEYS[N] = { "metadata", "spec", "status" };
	struct span v[N];
	scan_members(object, KEYS, v, N);
	read_metadata(r, v[METADATA]);
	if (r->texts[NAME].n == 0)
		return false;
	job_entry_read_text(r, scan_get(scan_inside(whole, "metadata"), "resourceVersion"),
	                    RESOURCE_VERSION);
	job_entry_read_version(r, r->texts[RESOURCE_VERSION]);
	job_entry_read_spec(r, v[SPEC]);
	if (r->texts[USER].n == 0)
		r->texts[MAKER] = span_cut(job_entry_maker(whole, &r->arena), TEXT[MAKER].max);
	job_entry_read_status(r, v[STATUS]);
	r->c.doc_size = object.n;
	return true;
}

static struct job_entry *job_entry_judge(struct reading *r, struct span doc)
{
	r->c.broken |= r->texts[UID].n == 0;
	r->c.state =
	    r->c.broken ? JOB_UNKNOWN : job_state_of(r->texts[SUB_STATE], r->c.has_code, r->c.code);
	return job_entry_make(r, doc);
}

/* The earlier entry has this document, compressed.  Most changes change the size. */
static bool job_entry_same_doc(struct reading *r, struct span doc)
{
	const struct job_entry *before = r->before;
	struct span kept;
	return before && !before->plain && before->doc_size == doc.n &&
	       job_entry_doc(before, &r->arena, &kept) && span_eq(kept, doc);
}

/* The document as it is kept.  FrameworkController soon changes an object that it has not seen;
 * until then a small one is not compressed. */
static struct span job_entry_kept_doc(struct reading *r, struct span doc, struct str *packed)
{
	r->c.plain = r->c.untouched && doc.n <= JOB_ENTRY_PLAIN_MAX;
	if (r->c.plain)
		return doc;
	if (job_entry_same_doc(r, doc))
		return r->before->doc;
	return job_entry_pack(packed, doc) ? str_view(packed) : SPAN("");
}

struct job_entry *job_entry_new(struct span object)
{
	return job_entry_new_after(object, NULL);
}

struct job_entry *job_entry_new_after(struct span object, const struct job_entry *before)
{
	STR_AUTO doc = STR_INIT(object.n + 64); /* room to close open containers */
	STR_AUTO packed = STR_INIT(JOB_ENTRY_DOC_MAX);
	struct reading r = { .before = before, .c = { .gpus = JOB_ENTRY_NONE } };
	struct job_entry *c = NULL;
	(void)str_reserve(&doc, object.n); /* at most that, as a rule: the text does not move */
	job_entry_trim(&doc, object);
	if (!doc.full && job_entry_read_object(&r, str_view(&doc), object)) /* full: not JSON */
		c = job_entry_judge(&r, job_entry_kept_doc(&r, str_view(&doc), &packed));
	arena_done(&r.arena);
	return c;
}

struct job_entry *job_entry_new_made(struct span object, const struct job_entry_made *made)
{
	struct reading r = { .made = made };
	struct job_entry *c = NULL;
	read_metadata(&r, scan_inside(object, "metadata"));
	if (r.texts[NAME].n) {
		job_entry_read_status(&r, (struct span){ NULL, 0 });
		r.texts[UID] = span_cut(span_of(made->uid), TEXT[UID].max);
		job_entry_read_version(
		    &r, span_cut(span_of(made->version), TEXT[RESOURCE_VERSION].max));
		r.texts[EXECUTION] = SPAN("START");
		r.c.creating = false; /* starting has removed the label */
		r.c.gpus = made->gpus;
		r.c.milli_cpus = at_most(made->milli_cpus, DEMAND_MAX);
		r.c.memory_mb = at_most(made->memory_mb, DEMAND_MAX);
		r.c.tasks = (int32_t)at_most(made->tasks, INT32_MAX);
		r.c.roles = (int32_t)at_most(made->roles, INT32_MAX);
		const char *created = arena_printf(&r.arena, "\"%s\"", made->created);
		(void)scan_time_ms(span_of(created), &r.c.created_ms); /* else unknown */
		c = job_entry_judge(&r, SPAN(""));
	}
	arena_done(&r.arena);
	return c;
}

struct job_entry *job_entry_without_doc(const struct job_entry *c)
{
	struct reading r = { .c = { .gpus = 0 } };
	memcpy(&r.c, c, sizeof(r.c));
	for (size_t i = 0; i < TEXTS; i++)
		r.texts[i] = span_of(*job_entry_text_of(&r.c, TEXT[i].at));
	return job_entry_make(&r, SPAN(""));
}

int64_t job_entry_left_ms(const struct job_entry *c)
{
	bool runs = c->max_duration_s && c->launched_ms != JOB_ENTRY_NONE && !c->deleting &&
	            !job_state_final(c->state) && strcmp(c->execution, "STOP") != 0;
	int64_t ran_ms = c->launched_boot_ms ? clock_boot_ms() - c->launched_boot_ms
	                                     : clock_wall_ms() - c->launched_ms;
	return runs ? c->max_duration_s * INT64_C(1000) - ran_ms : INT64_MAX;
}

const char *job_entry_shown_user(const struct job_entry *c)
{
	return c->user[0] ? c->user : c->maker[0] ? c->maker : "unknown";
}

struct job_entry *job_entry_hold(const struct job_entry *c)
{
	union {
		const struct job_entry *shared;
		struct job_entry *counted;
	} p = { .shared = c };
	atomic_fetch_add_explicit(&p.counted->refs, 1, memory_order_relaxed);
	return p.counted;
}

void job_entry_drop(const struct job_entry *c)
{
	union {
		const struct job_entry *shared;
		struct job_entry *counted;
	} p = { .shared = c };
	if (c && atomic_fetch_sub_explicit(&p.counted->refs, 1, memory_order_acq_rel) == 1)
		free(p.counted);
}

bool job_entry_doc(const struct job_entry *c, struct arena *a, struct span *doc)
{
	if (!c->doc.n)
		return false;
	if (!c->plain)
		return job_entry_unpack(c->doc, c->doc_size, a, doc);
	*doc = arena_span(a, c->doc);
	return true;
}

bool job_entry_same(const struct job_entry *a, const struct job_entry *b)
{
	struct job_entry x;
	struct job_entry y;
	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	for (size_t i = 0; i < TEXTS; i++) {
		if (i != RESOURCE_VERSION && strcmp(*job_entry_text_of(&x, TEXT[i].at),
		                                    *job_entry_text_of(&y, TEXT[i].at)) != 0)
			return false;
	}
	return x.state == y.state && x.legacy == y.legacy && x.broken == y.broken &&
	       x.deleting == y.deleting && x.has_code == y.has_code && x.code == y.code &&
	       x.retries == y.retries && x.accountable == y.accountable && x.attempt == y.attempt &&
	       x.retry_delay_s == y.retry_delay_s && x.tasks == y.tasks && x.roles == y.roles &&
	       x.gpus == y.gpus && x.created_ms == y.created_ms && x.launched_ms == y.launched_ms &&
	       x.completed_ms == y.completed_ms;
}
