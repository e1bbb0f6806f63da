/*
 * Changes of a job: stop, delete, tags, scale, keep.  A patch is made from the known state of the
 * job; if the job has changed meanwhile, it is read again and patched again, a few times.  The
 * object is addressed by name and uid, so that a recreated job is never changed.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/doc/tree.h"
#include "base/enc.h"
#include "base/hash.h"
#include "base/posix/clock.h"
#include "base/str.h"
#include "machine/engine/engine.h"
#include "server/accounts/account.h"
#include "server/cluster/rounds.h"
#include "server/config/options.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/jobs/jobs.h"
#include "server/jobs/jobs_internal.h"
#include "translate/job/names.h"

enum { TRIES = 6, WAIT_MS = 40, MESSAGE_MAX = 2048 };

/* Lives in the arena of the request. */
struct job_change {
	struct request *r;
	/* Makes `patch` from c->job and c->doc, in the arena.  false: nothing to patch; r is
	 * answered, or waits. */
	bool (*plan)(struct job_change *c);
	void (*done)(struct job_change *c); /* answers after success */
	bool reads;                         /* plan needs doc: the stored object */
	bool json_patch;                    /* RFC 6902; else a merge patch */
	const struct job_entry *job;        /* r holds it */
	struct span doc, patch;
	/* The request. */
	struct span value, role, reason;
	int64_t n, until_ms;
	const char *uid;
	struct span refused; /* the last patch whose test failed */
	unsigned tries;
	int64_t deadline_ms;
};

/* {"status", "message"}, followed by `more`: `,"key":value`, or "". */
__attribute__((format(printf, 4, 5))) static void
change_answer(struct request *r, int status, const char *more, const char *fmt, ...)
{
	char message[MESSAGE_MAX];
	va_list args;
	va_start(args, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, args); /* ids and tags are short */
	va_end(args);
	struct str *out = &r->reply.body;
	str_char(out, '{');
	if (!route_is_v1(r->route))
		json_put_int(out, "status", status);
	json_put_word(out, "message", message);
	str_printf(out, "%s}\n", more);
	answer_json(r, status);
}

static const char *change_id(const struct job_change *c)
{
	STR_AUTO out = STR_INIT(MESSAGE_MAX);
	job_id_text(&out, c->job);
	return arena_dup(&c->r->arena, str_view(&out));
}

/*
 * ---- asking the store ----
 *
 *	change_found -> [GET, change_read_and_retry] -> plan, PATCH, change_patched -> done
 *
 * After a conflict, the job is read again and the patch is planned again.
 */
static store_callback change_read_and_retry, change_patched;

static void change_send(struct job_change *c, struct store_request q)
{
	q.kind = KIND_FRAMEWORK;
	q.name = c->job->name;
	q.user = c->r->user;
	q.deadline_ms = c->deadline_ms;
	q.arg = c;
	store_request(c->r->loop->store, &q);
	request_wait(c->r);
}

static struct job_entry *change_read_reply(const struct job_change *c,
                                           const struct store_reply *reply)
{
	return scan_valid(reply->body, SCAN_DEPTH_MAX) ? job_entry_new_after(reply->body, c->job)
	                                               : NULL;
}

static void change_send_patch(struct job_change *c)
{
	if (!c->plan(c))
		return;
	change_send(c, (struct store_request){ .verb = STORE_PATCH,
	                                       .whole = true,
	                                       .json_patch = c->json_patch,
	                                       .body = { c->patch },
	                                       .done = change_patched });
}

static void change_read_job(struct job_change *c)
{
	uint64_t random = c->tries ? hash_key_new().v[0] % ((uint64_t)WAIT_MS * c->tries) : 0;
	/* Clients that conflicted shall not conflict again. */
	int64_t not_before_ms = c->tries ? clock_ms() + 1 + (int64_t)random : 0;
	change_send(c, (struct store_request){ .verb = STORE_GET,
	                                       .whole = true,
	                                       .not_before_ms = not_before_ms,
	                                       .done = change_read_and_retry });
}

static void change_found(struct request *r, const struct job_entry *job)
{
	struct job_change *c = r->state;
	c->job = job;
	c->uid = arena_dup(&r->arena, span_of(job->uid));
	c->deadline_ms = clock_ms() + r->loop->server->options->deadline_s * 1000;
	if (c->reads)
		change_read_job(c);
	else
		change_send_patch(c);
}

static void change_read_and_retry(void *arg, const struct store_reply *reply)
{
	struct job_change *c = arg;
	struct request *r = c->r;
	if (reply->outcome != STORE_OK) {
		job_store_failed(r, STORE_GET, reply);
		return;
	}
	struct job_entry *now = change_read_reply(c, reply);
	if (!now || strcmp(now->uid, c->uid) != 0) {
		job_entry_drop(now);
		answer_refuse(r, JOB_GONE);
		return;
	}
	job_keep(r, now);
	c->job = now;
	if (c->reads)
		c->doc = arena_span(&r->arena, reply->body);
	if (job_access_allowed(r, now, JOB_OWN))
		change_send_patch(c);
	else
		answer_refuse(r, FORBIDDEN, "the job has another owner now");
}

static void change_patched(void *arg, const struct store_reply *reply)
{
	struct job_change *c = arg;
	/* If the patch is the same after reading again, the refusal is final. */
	bool failed_test = reply->outcome == STORE_REFUSED && reply->status == 422 &&
	                   !span_eq(c->patch, c->refused);
	if (failed_test)
		c->refused = c->patch;
	if (reply->outcome == STORE_OK) {
		struct job_entry *now = change_read_reply(c, reply);
		struct cache *cache = c->r->loop->server->cache;
		if (now && cache)
			cache_note(cache, now);
		else
			job_entry_drop(now);
		c->done(c);
	} else if ((reply->outcome == STORE_CONFLICT || failed_test) && ++c->tries < TRIES) {
		change_read_job(c);
	} else {
		job_store_failed(c->r, STORE_PATCH, reply);
	}
}

static struct job_change *job_change_new(struct request *r)
{
	struct job_change *c = ARENA_NEW(&r->arena, struct job_change, 1);
	c->r = r;
	r->state = c;
	return c;
}

static struct job_change *change_read(struct request *r, const char *key)
{
	struct fields fields;
	ERR_AUTO e = { 0 };
	if (fields_read(r, &fields, &e) < 0) {
		answer_error(r, &e);
		return NULL;
	}
	struct job_change *c = job_change_new(r);
	c->value = fields_get(&fields, key);
	c->reason = fields_get(&fields, "reason");
	return c;
}

/* ---- stop ------------------------------------------------------------------------------------ */

static void stop_done(struct job_change *c)
{
	if (route_is_v1(c->r->route))
		change_answer(c->r, 202, "", "execute job %s successfully", c->job->job);
	else
		change_answer(c->r, 202, "", "Execute job %s successfully.", change_id(c));
}

/* FrameworkController does not restart stopped jobs and does not stop ended ones.  START releases a
 * held job. */
static bool stop_plan(struct job_change *c)
{
	const struct job_entry *job = c->job;
	bool start = span_is(c->value, "START");
	if (job_state_final(job->state) ||
	    (start ? !job->held : strcmp(job->execution, "STOP") == 0)) {
		stop_done(c);
		return false;
	}
	STR_AUTO body = STR_INIT(MESSAGE_MAX);
	if (start)
		job_start_patch(&body, job);
	else
		job_stop_patch(&body, &(struct job_stop){ c->uid, NULL, NULL });
	c->patch = arena_span(&c->r->arena, str_view(&body));
	return true;
}

void execution_put(struct request *r)
{
	struct job_change *c = change_read(r, "value");
	if (!c)
		return;
	c->plan = stop_plan;
	c->done = stop_done;
	if (c->value.p && (span_is(c->value, "START") || span_is(c->value, "STOP")))
		job_find(r, change_found);
	else
		answer_bad(r, "value: must be START or STOP", c->value);
}

/* ---- remove ---------------------------------------------------------------------------------- */

/* A job that is already gone counts as deleted. */
static void delete_done(void *arg, const struct store_reply *reply)
{
	struct job_change *c = arg;
	struct cache *cache = c->r->loop->server->cache;
	if (reply->outcome == STORE_CONFLICT) { /* another job has its name now */
		answer_refuse(c->r, JOB_GONE);
		return;
	}
	if (reply->outcome != STORE_OK && reply->outcome != STORE_NOT_FOUND) {
		job_store_failed(c->r, STORE_DELETE, reply);
		return;
	}
	if (cache)
		cache_note_deletion(cache, span_of(c->job->name), span_of(c->uid));
	change_answer(c->r, 202, "", "deleted job %s successfully", c->job->job);
}

static bool delete_plan(struct job_change *c)
{
	change_send(
	    c, (struct store_request){ .verb = STORE_DELETE, .uid = c->uid, .done = delete_done });
	return false; /* there is no patch */
}

void job_delete(struct request *r)
{
	job_change_new(r)->plan = delete_plan;
	job_find(r, change_found);
}

enum { LIST_MAX = 32 << 10 /* also if every byte is escaped twice */ };

bool job_tag_ok(struct span tag)
{
	return job_entry_tag_ok(tag) && utf8_check(tag) == tag.n && !memchr(tag.p, ',', tag.n);
}

enum tags_changed tags_change(struct str *out, struct span list, struct span tag, bool with,
                              struct arena *a)
{
	struct scan s = scan_begin(list);
	bool there = false;
	size_t n = 0;
	str_char(out, '[');
	for (struct span item; scan_item(&s, &item); n++) {
		struct span text = scan_text(item, a);
		if (span_eq(text, tag))
			there = true;
		else
			json_put_text(out, NULL, text);
	}
	if (there == with)
		return TAGS_AS_BEFORE;
	if (with && n >= JOB_ENTRY_TAGS_MAX)
		return TAGS_FULL;
	if (with)
		json_put_text(out, NULL, tag);
	str_char(out, ']');
	return TAGS_CHANGED;
}

/* ---- the routes ------------------------------------------------------------------------------ */

/* Patches with resourceVersion, so that concurrent changes lose no tag. */
static void tags_patch(struct job_change *c, struct span list)
{
	STR_AUTO body = STR_INIT((size_t)4 * LIST_MAX);
	str_puts(&body, "{\"metadata\":{");
	json_put_word(&body, "uid", c->uid);
	json_put_word(&body, "resourceVersion", c->job->resource_version);
	json_put_open(&body, "annotations", '{');
	if (span_is(list, "[]"))
		json_put_null(&body, "rest-lit/tags");
	else
		json_put_text(&body, "rest-lit/tags", list);
	str_puts(&body, "}}}");
	c->patch = arena_span(&c->r->arena, str_view(&body));
}

static bool tag_is_put(const struct job_change *c)
{
	return strcmp(c->r->route->method, "PUT") == 0;
}

static void tag_done(struct job_change *c)
{
	bool put = tag_is_put(c);
	change_answer(c->r, 200, "", "%s tag %.*s %s job %s successfully.", put ? "Add" : "Delete",
	              (int)c->value.n, c->value.p, put ? "for" : "from", change_id(c));
}

static bool tag_plan(struct job_change *c)
{
	struct arena *a = &c->r->arena;
	STR_AUTO list = STR_INIT(LIST_MAX);
	bool put = tag_is_put(c);
	enum tags_changed how = tags_change(&list, span_of(c->job->tags), c->value, put, a);
	if (how == TAGS_CHANGED)
		tags_patch(c, str_view(&list));
	else if (how == TAGS_FULL)
		answer_refuse(
		    c->r, INVALID_PARAMETERS,
		    arena_printf(a, "the job has %d tags, the maximum", JOB_ENTRY_TAGS_MAX));
	else if (put || c->tries) /* a first attempt may have removed the tag */
		tag_done(c);
	else
		answer_refuse(c->r, 404, "NoTagError", "the job has no such tag");
	return how == TAGS_CHANGED;
}

void tag_edit(struct request *r)
{
	struct job_change *c = change_read(r, "value");
	if (!c)
		return;
	c->plan = tag_plan;
	c->done = tag_done;
	if (c->value.p && job_tag_ok(c->value))
		job_find(r, change_found);
	else
		answer_bad(r, "value: must be " TAG_MUST, c->value);
}

enum { PATCH_MAX = 8192, NAMES_SHOWN = 512, GPUS_MAX = 1 << 30 };

static const char SUCCEEDED[] = "minSucceededTaskCount";
static const char HIVED_SPEC[] = "hivedscheduler.microsoft.com/pod-scheduling-spec";

/* ---- the task role --------------------------------------------------------------------------- */

struct scaled_role {
	struct arena *a;
	struct span role, name;
	size_t index;
	int64_t old, total;        /* tasks of the role, and of the job */
	const struct node *config; /* as submitted; NULL: unknown */
	bool all_succeed;          /* minSucceededTaskCount is the default: all tasks */
};

static int64_t role_count(struct span role, const char *key)
{
	int64_t n = 0;
	(void)scan_int(scan_get(role, key), 0, INT32_MAX, &n); /* else 0 */
	return n;
}

/* Returns true if the configuration sets minSucceededInstances of this role, or if that is
 * unknown. */
static bool role_says_succeeded(const struct scaled_role *f)
{
	const struct node *roles = node_get(f->config, "taskRoles");
	for (uint32_t i = 0; roles && i < roles->n; i++) {
		const struct member *m = &roles->member[i];
		if (!span_equals_lower_alnum(member_key(m), f->name))
			continue;
		const struct node *n =
		    node_get(node_get(&m->value, "completion"), "minSucceededInstances");
		return n && n->type != NODE_NULL && !(node_is(n, NODE_INT) && n->integer == 0);
	}
	return true;
}

/* Its tasks got the number of processes when they started, and do not meet with another one. */
static bool role_is_distributed(const struct scaled_role *f)
{
	const struct node *distributed = node_get(node_get(f->config, "extras"), "distributed");
	const struct node *roles = node_get(distributed, "taskRoles");
	if (!node_is(roles, NODE_LIST))
		return node_is(distributed, NODE_MAP);
	for (uint32_t i = 0; i < roles->n; i++)
		if (node_is(&roles->item[i], NODE_TEXT) &&
		    span_equals_lower_alnum(node_span(&roles->item[i]), f->name))
			return true;
	return false;
}

static int scale_find_role(const struct scale *s, struct arena *a, struct scaled_role *f,
                           struct err *e)
{
	STR_AUTO names = STR_INIT(NAMES_SHOWN);
	struct scan roles = scan_begin(scan_path(s->doc, "spec", "taskRoles"));
	struct span role;
	for (size_t i = 0; scan_item(&roles, &role); i++) {
		struct span name = scan_text(scan_get(role, "name"), a);
		f->total += role_count(role, "taskNumber");
		str_printf(&names, "%s%.*s", i ? ", " : "", (int)name.n, name.p);
		if (f->role.p || name.n == 0 ||
		    !(span_equals_lower_alnum(s->role, name) || span_eq(name, s->role)))
			continue;
		f->role = role;
		f->name = name;
		f->index = i;
		f->old = role_count(role, "taskNumber");
	}
	if (!f->role.p)
		return err_set(e, 404, "NoJobError", "the job has no such task role; it has: %s%s",
		               str_c(&names), names.full ? " ..." : "");
	/* A configuration that is no job of protocol 2 says nothing. */
	struct span text = scan_text(scan_path(s->doc, "metadata", "annotations", "config"), a);
	const struct node *config = text.n ? doc_quiet(text, &BUDGET_DEFAULT, a) : NULL;
	f->config = node_is(node_get(config, "taskRoles"), NODE_MAP) ? config : NULL;
	struct span policy = scan_get(f->role, "frameworkAttemptCompletionPolicy");
	f->all_succeed =
	    f->old > 0 && role_count(policy, SUCCEEDED) == f->old && !role_says_succeeded(f);
	return 0;
}

/* Returns the GPUs per instance. */
static int64_t role_gpus(const struct scale *s, struct span role, struct arena *a)
{
	int64_t sum = 0;
	struct span container;
	struct scan containers = scan_begin(scan_path(role, "task", "pod", "spec", "containers"));
	while (scan_item(&containers, &container)) {
		struct span limits = scan_path(container, "resources", "limits");
		struct span value = scan_get(limits, s->device);
		struct span text = value;
		int64_t n = 0;
		(void)scan_string(value, a, &text); /* 1 or "1" */
		(void)parse_i64(text, 0, GPUS_MAX, &n);
		sum += n;
	}
	return sum < GPUS_MAX ? sum : GPUS_MAX;
}

/* ---- checks ----------------------------------------------------------------------- */

/* A role that waits for more tasks than it has never completes. */
static int scale_check_policy(const struct scale *s, const struct scaled_role *f, struct err *e)
{
	static const struct {
		const char *key, *name;
	} COUNTS[] = { { "minFailedTaskCount", "minFailedInstances" },
		       { SUCCEEDED, "minSucceededInstances" } };
	struct span policy = scan_get(f->role, "frameworkAttemptCompletionPolicy");
	for (size_t i = 0; i < ARRAY_SIZE(COUNTS); i++) {
		int64_t n = role_count(policy, COUNTS[i].key);
		bool is_scaled = f->all_succeed && strcmp(COUNTS[i].key, SUCCEEDED) == 0;
		if (n > s->n && !is_scaled)
			return err_set(e, INVALID_PARAMETERS,
			               "instances: must be at least %" PRId64 ", the %s of this "
			               "task role, is %" PRId64,
			               n, COUNTS[i].name, s->n);
	}
	return 0;
}

static int scale_check(const struct scale *s, const struct scaled_role *f, struct arena *a,
                       struct err *e)
{
	struct span type = scan_text(scan_path(s->doc, "spec", "executionType"), a);
	struct span hived =
	    scan_get(scan_path(f->role, "task", "pod", "metadata", "annotations"), HIVED_SPEC);
	if (!span_is(type, "Start"))
		return err_set(e, CONFLICT_JOB,
		               span_is(type, "Stop") ? "the job was stopped or is being stopped"
		                                     : "the job is still being created");
	if (hived.p)
		return err_set(e, NOT_IMPLEMENTED,
		               "HiveD allocates the cells of all tasks at once: such a job "
		               "cannot be scaled, only submitted anew");
	if (role_is_distributed(f))
		return err_set(e, NOT_IMPLEMENTED,
		               "the tasks of this role train together (extras.distributed) and "
		               "know how many they are from their start: the role cannot be "
		               "scaled; submit the job anew with the new number of instances");
	if (f->total - f->old + s->n > s->max_tasks)
		return err_set(e, INVALID_PARAMETERS,
		               "instances: the job would have %" PRId64
		               " tasks; the maximum is %" PRId64,
		               f->total - f->old + s->n, s->max_tasks);
	return scale_check_policy(s, f, e);
}

/* ---- the patch ------------------------------------------------------------------------------- */

static void patch_put_text(struct str *out, const char *op, const char *path, struct span text)
{
	str_printf(out, "%s{\"op\":\"%s\",\"path\":\"%s\",\"value\":", out->n ? "," : "[", op,
	           path);
	str_json(out, text);
	str_char(out, '}');
}

static void patch_put_number(struct str *out, const char *path, int64_t n)
{
	str_printf(out, ",{\"op\":\"replace\",\"path\":\"%s\",\"value\":%" PRId64 "}", path, n);
}

/* Lists show the number of GPUs from this annotation; an invalid one is left alone. */
static void patch_put_gpus(struct str *out, const struct scale *s, const struct scaled_role *f,
                           struct arena *a)
{
	static const char PATH[] = "/metadata/annotations/totalGpuNumber";
	int64_t old;
	int64_t change = role_gpus(s, f->role, a) * (s->n - f->old);
	struct span text =
	    scan_text(scan_path(s->doc, "metadata", "annotations", "totalGpuNumber"), a);
	if (change == 0 || parse_i64(text, 0, GPUS_MAX, &old) < 0 || old + change < 0)
		return;
	patch_put_text(out, "replace", PATH, span_of(arena_printf(a, "%" PRId64, old + change)));
}

int scale_plan(const struct scale *s, struct arena *a, struct span *patch, struct err *e)
{
	struct scaled_role f = { .a = a };
	STR_AUTO out = STR_INIT(PATCH_MAX);
	if (scale_find_role(s, a, &f, e) < 0 || scale_check(s, &f, a, e) < 0)
		return -1;
	*patch = SPAN("");
	if (f.old == s->n)
		return 0;
	const char *at = arena_printf(a, "/spec/taskRoles/%zu", f.index);
	patch_put_text(&out, "test", "/metadata/uid", span_of(s->uid));
	/* With another version it is refused (409): a late or repeated one takes nothing back. */
	patch_put_text(&out, "replace", "/metadata/resourceVersion", span_of(s->version));
	patch_put_number(&out, arena_printf(a, "%s/taskNumber", at), s->n);
	if (f.all_succeed) /* that number changes too */
		patch_put_number(
		    &out, arena_printf(a, "%s/frameworkAttemptCompletionPolicy/%s", at, SUCCEEDED),
		    s->n);
	patch_put_gpus(&out, s, &f, a);
	str_char(&out, ']');
	*patch = arena_span(a, str_view(&out));
	return 0;
}

/* ---- the route ------------------------------------------------------------------------------- */

static void scale_done(struct job_change *c)
{
	const char *more = arena_printf(&c->r->arena, ",\"instances\":%" PRId64, c->n);
	change_answer(c->r, 202, more, "Scale task role %.*s of job %s to %" PRId64 " instances.",
	              (int)c->role.n, c->role.p, change_id(c), c->n);
}

/* 409 unless the job waits or runs: false. */
static bool change_is_possible(const struct job_change *c, const char *done)
{
	const struct job_entry *job = c->job;
	if (!job_state_final(job->state) && job->state != JOB_STOPPING && !job->deleting)
		return true;
	answer_refuse(c->r, CONFLICT_JOB,
	              arena_printf(&c->r->arena,
	                           "the job is %s: only waiting and running jobs can be %s",
	                           job->deleting ? "being removed" : JOB_STATES[job->state], done));
	return false;
}

static bool scale_plan_patch(struct job_change *c)
{
	const struct options *o = c->r->loop->server->options;
	const struct job_entry *job = c->job;
	const struct scale s = {
		.doc = c->doc,
		.uid = c->uid,
		.version = job->resource_version,
		.role = c->role,
		.n = c->n,
		.max_tasks = o->max_tasks,
		.device = o->device,
	};
	ERR_AUTO e = { 0 };
	if (!change_is_possible(c, "scaled"))
		return false;
	const struct engine_asked asked = {
		.framework = c->doc,
		.user = span_of(job->user),
		.virtual_cluster = span_of(job->cluster),
		.role = span_of(names_role_object(&c->r->arena, c->role)),
		.number = c->n,
	};
	if (scale_plan(&s, &c->r->arena, &c->patch, &e) < 0 ||
	    (c->r->loop->server->engine &&
	     engine_admit(c->r->loop->server->engine, &asked, &e) < 0))
		answer_error(c->r, &e);
	else if (c->patch.n == 0)
		scale_done(c);
	else
		return true;
	return false;
}

void scale_patch(struct request *r)
{
	int64_t max = r->loop->server->options->max_instances;
	struct job_change *c = change_read(r, "instances");
	if (!c)
		return;
	if (!c->value.p || parse_i64(c->value, 1, max, &c->n) < 0) {
		answer_bad(r,
		           arena_printf(&r->arena,
		                        "instances: must be a whole number from 1 to %" PRId64,
		                        max),
		           c->value);
		return;
	}
	c->role = r->args[1];
	c->reads = true;
	c->json_patch = true;
	c->plan = scale_plan_patch;
	c->done = scale_done;
	job_find(r, change_found);
}

/* ---- keep: the GPUs of a job may be idle ----------------------------------------------------- */

enum { KEEP_HOURS = 720, KEEP_HOURS_MAX = 87600, KEEP_REASON = 200, HOUR_S = 3600 };

/* NOLINTNEXTLINE(readability-function-size): its parameters */
const char *keep_add(struct span annotation, int64_t hours, int64_t most, struct span reason,
                     struct arena *a, struct err *e)
{
	int64_t had;
	int64_t until_ms = job_keep_read(&annotation, &had);
	int64_t now_ms = clock_wall_ms();
	if (hours > most - had) {
		(void)err_set(e, INVALID_PARAMETERS,
		              "hours: must be at most %" PRId64
		              " in all, and the job has had %" PRId64
		              "; an administrator may add more",
		              most, had);
		return NULL;
	}
	until_ms = (until_ms > now_ms ? until_ms : now_ms) + hours * HOUR_S * 1000;
	return arena_printf(a, "%" PRId64 " %" PRId64 " %.*s", until_ms, had + hours, (int)reason.n,
	                    reason.p);
}

static void keep_done(struct job_change *c)
{
	const char *more = arena_printf(&c->r->arena, ",\"keptUntil\":%" PRId64, c->until_ms);
	change_answer(c->r, 200, more, "Keep job %s for %" PRId64 " hours more.", change_id(c),
	              c->n);
}

/* The warning goes, and a later one is reported again. */
static bool keep_plan(struct job_change *c)
{
	ERR_AUTO e = { 0 };
	struct arena *a = &c->r->arena;
	STR_AUTO body = STR_INIT(PATCH_MAX);
	int64_t stop_s = c->r->loop->server->options->gpu_idle_stop_s;
	int64_t most = stop_s ? (stop_s * 10 + HOUR_S - 1) / HOUR_S : KEEP_HOURS;
	struct span old =
	    scan_text(scan_path(c->doc, "metadata", "annotations", "rest-lit/gpu-keep"), a);
	if (!c->r->loop->server->local) {
		answer_refuse(c->r, 404, "NoMachineError",
		              "this server does not watch the GPUs of jobs; it would with --local");
		return false;
	}
	if (!change_is_possible(c, "kept"))
		return false;
	const char *now =
	    keep_add(old, c->n, c->r->principal->admin ? KEEP_HOURS_MAX : most, c->reason, a, &e);
	if (!now) {
		answer_error(c->r, &e);
		return false;
	}
	struct span kept = span_of(now);
	c->until_ms = job_keep_read(&kept, &most);
	str_puts(&body, "{\"metadata\":{");
	json_put_word(&body, "uid", c->uid);
	json_put_word(&body, "resourceVersion", c->job->resource_version);
	json_put_open(&body, "annotations", '{');
	json_put_word(&body, "rest-lit/gpu-keep", now);
	json_put_null(&body, "rest-lit/gpu-idle");
	json_put_null(&body, "rest-lit/webhook-idle");
	str_puts(&body, "}}}");
	c->patch = arena_span(a, str_view(&body));
	return true;
}

void keep_put(struct request *r)
{
	struct job_change *c = change_read(r, "hours");
	if (!c)
		return;
	c->reads = true;
	c->plan = keep_plan;
	c->done = keep_done;
	if (!c->value.p || parse_i64(c->value, 1, KEEP_HOURS_MAX, &c->n) < 0)
		answer_bad(r, "hours: must be a whole number from 1 to 87600", c->value);
	else if (c->reason.n > KEEP_REASON || !utf8_plain(c->reason))
		answer_bad(r, "reason: must have at most 200 bytes, without control characters",
		           c->reason);
	else
		job_find(r, change_found);
}
