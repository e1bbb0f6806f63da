/* A submission, from the header to the answer. */
#include "server/submit/submit.h"

#include <string.h>
#include <time.h>

#include "base/enc.h"
#include "base/form.h"
#include "base/image/image.h"
#include "base/json/put.h"
#include "base/posix/clock.h"
#include "jobs/cache/cache.h"
#include "jobs/cache/hold.h"
#include "jobs/submit/submission.h"
#include "machine/engine/engine.h"
#include "server/accounts/account.h"
#include "server/cluster/scheduler.h"
#include "server/code/job_code.h"
#include "server/config/options.h"
#include "server/http/loop.h"
#include "server/http/request.h"
#include "server/jobs/jobs.h"
#include "server/state/counts.h"
#include "server/state/log.h"
#include "server/submit/submit_internal.h"
#include "translate/job/job.h"

enum {
	KEY_MAX = 128,
	ID_RANDOM = 10,
	FORM_GROWTH = 8 /* bytes of JSON per byte of a form, at most */
};

/* Members of v1 jobs that are numbers, because forms have strings only. */
static const struct form_number NUMBERS[] = {
	{ "retryCount", false },
	{ "killAllOnCompletedTaskNumber", false },
	{ "taskRoles[].taskNumber", false },
	{ "taskRoles[].cpuNumber", false },
	{ "taskRoles[].memoryMB", false },
	{ "taskRoles[].shmMB", false },
	{ "taskRoles[].gpuNumber", false },
	{ "taskRoles[].minFailedTaskCount", true },
	{ "taskRoles[].minSucceededTaskCount", true },
	{ "taskRoles[].portList[].beginAt", false },
	{ "taskRoles[].portList[].portNumber", false },
	{ NULL, false },
};

static void log_submission(const struct request *r, struct line *line)
{
	const struct submit *s = r->state;
	if (s->job) {
		log_text(line, "job", s->job->name);
		log_text(line, "framework", span_of(s->job->hash));
	}
	if (s->dry_run)
		log_text(line, "dryRun",
		         s->dry_run == DRY_RUN_HERE ? SPAN("true") : SPAN("server"));
	if (s->warnings.n)
		log_int(line, "warnings", (int64_t)(s->warnings.n + s->warnings.dropped));
}

static enum submit_outcome submit_outcome_of(const struct submit *s)
{
	int status = request_answered(s->r) ? s->r->reply.status : 0;
	if (status == 200 || status == 202)
		return s->dry_run ? SUBMIT_DRY_RUN : s->again ? SUBMIT_REPEATED : SUBMIT_CREATED;
	return status == 0                                       ? SUBMIT_LEFT
	       : status == 401 || status == 403 || status == 429 ? SUBMIT_DENIED
	       : status == 409                                   ? SUBMIT_EXISTS
	       : status == 503                                   ? SUBMIT_UNAVAILABLE
	       : status == 504                                   ? SUBMIT_UNKNOWN
	       : status < 500                                    ? SUBMIT_INVALID
	                                                         : SUBMIT_ERROR;
}

/* The job is in the cache, or has failed. */
static void submit_unclaim(struct submit *s)
{
	if (s->claimed)
		user_counts_add(cache_users(s->r->loop->server->cache), s->r->user, -1);
	s->claimed = false;
}

static void submit_end(void *arg)
{
	struct submit *s = arg;
	struct loop_counts *c = s->r->loop->counts;
	size_t dialect = 0;
	while (dialect < DIALECT_UNREAD && !(s->job && dialect_nth(dialect) == s->job->dialect))
		dialect++;
	counter_add(&c->submissions[dialect][submit_outcome_of(s)], 1);
	if (s->translate_us)
		histogram_add(&c->translation, s->translate_us);
	notes_done(&s->warnings);
	submit_unclaim(s);
}

/* The tags of the query. */
static int submit_read_tags(struct submit *s, struct err *e)
{
	struct arena *a = &s->r->arena;
	struct span rest = span_of(s->r->query);
	struct span name;
	struct span value;
	const struct parameter *tag = parameter_named(SUBMISSION, SPAN("tag"));
	while (query_next(&rest, a, &name, &value)) {
		STR_AUTO list = STR_INIT(REPLY_MAX);
		if (!span_is(name, tag->name))
			continue;
		if (!value.p || !job_tag_ok(value))
			return parameter_refuse(tag, value.p ? value : SPAN(""), e);
		enum tags_changed changed =
		    tags_change(&list, span_of(s->tags ?: "[]"), value, true, a);
		if (changed == TAGS_FULL)
			return err_set(e, INVALID_PARAMETERS, "tag: a job has at most %d tags",
			               JOB_ENTRY_TAGS_MAX);
		if (changed == TAGS_CHANGED)
			s->tags = arena_dup(a, str_view(&list));
	}
	return 0;
}

void submit_check_head(struct request *r)
{
	struct submit *s = ARENA_NEW(&r->arena, struct submit, 1);
	struct span key = r->head.value[HEADER_IDEMPOTENCY_KEY];
	struct span accept = r->head.value[HEADER_ACCEPT];
	ERR_AUTO e = { 0 };
	s->r = r;
	r->state = s;
	r->log = log_submission;
	request_on_end(r, submit_end, s);
	/* A YAML type comes before any JSON type; the quality factor q is ignored. */
	s->yaml = accept.n && span_find(accept, 0, "yaml") < span_find(accept, 0, "json");
	bool key_ok = !key.p || (key.n >= 1 && key.n <= KEY_MAX);
	for (size_t i = 0; key.p && i < key.n && key_ok; i++)
		key_ok = key.p[i] >= '!' && key.p[i] <= '~';
	if (dry_run_read(r->query, &r->arena, &s->dry_run, &e) < 0 || submit_read_tags(s, &e) < 0 ||
	    submit_read_hold(s, &e) < 0)
		answer_error(r, &e);
	else if (route_names_user(r->route) && !span_is(r->args[0], r->user))
		answer_refuse(
		    r, FORBIDDEN,
		    "users can submit their own jobs only, but the path has another user");
	else if (!key_ok)
		answer_refuse(r, INVALID_PARAMETERS,
		              "Idempotency-Key must have 1 to 128 printable ASCII characters "
		              "without blanks");
	else if (key.p && !s->dry_run) /* a dry run needs no protection */
		s->key = arena_dup(&r->arena, key);
}

void submit_put_warnings(const struct submit *s)
{
	struct request *r = s->r;
	if (s->warnings.n == 0)
		return;
	str_puts(&r->reply.body, ",\"warnings\":");
	notes_json(&r->reply.body, &s->warnings);
	if (!route_is_v1(r->route))
		return;
	STR_AUTO text = STR_INIT(REPLY_MAX);
	STR_AUTO safe = STR_INIT(REPLY_MAX);
	for (size_t i = 0; i < s->warnings.n; i++) {
		str_puts(&text, i ? "; " : "");
		note_text(&text, &s->warnings.v[i]);
	}
	if (s->warnings.dropped)
		str_printf(&text, "; and %zu more", s->warnings.dropped);
	header_text(&safe, str_view(&text));
	answer_header(r, "X-Warning", str_c(&safe));
}

static void submit_accepted(const struct submit *s)
{
	struct request *r = s->r;
	struct str *out = &r->reply.body;
	struct span name = s->job->name;
	answer_header(
	    r, "Location",
	    arena_printf(&r->arena, "/api/v2/jobs/%s~%.*s", s->job->user, (int)name.n, name.p));
	if (route_is_v1(r->route)) {
		str_puts(out, "{\"success\":true,\"status\":202,\"message\":\"update job ");
		str_json_text(out, name);
		str_puts(out, " successfully\"");
	} else {
		str_puts(out, "{\"status\":202,\"message\":\"Update job ");
		str_json_text(out, name);
		str_puts(out, " for user ");
		str_json_text(out, span_of(s->job->user));
		str_puts(out, " successfully.\"");
	}
	if (s->tags)
		json_put_raw(out, "tags", span_of(s->tags));
	submit_put_hold(s);
	submit_put_warnings(s);
	str_puts(out, "}\n");
	answer_json(r, 202);
}

/* Lives in the arena of the request. */
struct submit_plan {
	struct submit *s;
	struct objects *objects;
	struct submission_made made;
};

struct job_entry *submit_entry(const struct job *job, struct span framework,
                               const struct submission_made *made)
{
	struct job_entry_made all = {
		.uid = made->uid,
		.version = made->version,
		.created = made->created,
		.tasks = job->total_tasks,
		.roles = (int64_t)job->n_roles,
		.gpus = job->total_gpu,
	};
	/* The sum is below 2^31 * 1000 * 10000 * 256, as in parse_roles_done. */
	for (size_t i = 0; i < job->n_roles; i++) {
		all.milli_cpus += job->roles[i].cpu * 1000 * job->roles[i].instances;
		all.memory_mb += job->roles[i].memory_mb * job->roles[i].instances;
	}
	return job_entry_new_made(framework, &all);
}

static void submit_done(void *arg, const struct err *e, bool again)
{
	struct submit_plan *p = arg;
	struct submit *s = p->s;
	struct request *r = s->r;
	const struct server *server = r->loop->server;
	s->again = again;
	/* The next request may ask for the new job before the watch reports it, so it goes into the
	 * cache at once.  A directory store has reported it already; without a uid, the watch will.
	 */
	if (!e->http && !again && !s->dry_run && !server->local && p->made.uid[0]) {
		struct job_entry *c =
		    submit_entry(s->job, objects_framework(p->objects)->body, &p->made);
		if (c)
			cache_note(server->cache, c);
	}
	idempotency_release(s);
	submit_unclaim(s);
	if (again)
		answer_header(r, "Idempotency-Replayed", "true");
	if (e->http)
		answer_error(r, e);
	else if (s->dry_run)
		dry_run_answer(s);
	else
		submit_accepted(s);
}

/* The client has sent a form, not the JSON it was converted to, so its lines are useless. */
static void forget_lines(struct notes *n)
{
	for (size_t i = 0; i < n->n; i++)
		n->v[i].line = n->v[i].column = 0;
}

static int submit_read_body(struct submit *s, unsigned set, struct err *e)
{
	struct request *r = s->r;
	/* curl sends every body as a form by default. */
	bool form = r->form && !span_starts(span_trim(str_view(&r->body)), "{");
	r->secret = true; /* until the document is parsed */
	s->value = idempotency_value(s);
	if (form) {
		struct str json = STR_SECRET(r->body.max * FORM_GROWTH);
		int rc = form_json(str_view(&r->body), NUMBERS, &r->arena, &json, e);
		bool full = json.full;
		str_wipe(&r->body);
		r->body = json;
		if (rc == 0 && full)
			rc = err_set(e, TOO_LARGE, "the form is too large");
		if (rc < 0)
			return -1;
		set = DIALECT_V1;
	}
	int64_t begun_us = clock_us();
	s->job = job_read(r->loop->server->translator, set, str_view(&r->body), r->user, &r->arena,
	                  &s->warnings, e);
	s->translate_us += clock_us() - begun_us;
	if (form) {
		forget_lines(&e->notes);
		forget_lines(&s->warnings);
	}
	if (!s->job)
		return -1;
	r->secret = job_has_secrets(s->job) || r->token;
	struct span in_path = r->args[route_names_user(r->route)];
	struct span name = s->job->name;
	if (in_path.p && !span_eq(in_path, name))
		return err_set(e, INVALID_PARAMETERS,
		               "the path has the job name \"%s\", but the body has \"%.*s\"",
		               in_path.p, (int)name.n, name.p);
	return 0;
}

/* The time, then random digits, because lists sort jobs of the same second by the id.  The kernel
 * is asked for those of many ids at once. */
static const char *submit_new_id(struct request *r)
{
	static _Thread_local uint8_t bytes[ID_RANDOM * 25];
	static _Thread_local size_t left;
	char random[2 * ID_RANDOM + 1];
	if (left == 0)
		random_bytes(bytes, left = sizeof(bytes));
	left -= ID_RANDOM;
	hex_encode(random, bytes + left, ID_RANDOM);
	return arena_printf(&r->arena, "%012llx%s",
	                    (unsigned long long)clock_wall_ms() & 0xffffffffffff, random);
}

void submit_key_seed(const struct job *job, struct arena *a, struct facts *f)
{
	enum { SEED = 32 };
	if (!job_needs_key(job, f))
		return;
	char *seed = arena_alloc(a, 2 * SEED + 1);
	random_hex(seed, SEED);
	f->key_seed = seed;
}

/* Counts the job for its user until submit_unclaim.  -1 and *e: 403. */
static int submit_claim(struct submit *s, struct err *e)
{
	struct cache *cache = s->r->loop->server->cache;
	int64_t most = s->r->principal->limits.jobs;
	if (s->dry_run || !cache || most < 0)
		return 0;
	size_t n = user_counts_claim(cache_users(cache), s->r->user, (size_t)most);
	s->claimed = n < (size_t)most;
	return s->claimed ? 0
	                  : err_set(e, FORBIDDEN,
	                            "you have %zu jobs that have not ended, and may have %lld at a "
	                            "time: wait until one has ended, or stop one",
	                            n, (long long)most);
}

/* The objects of the job, in the arena; NULL and *e. */
/* The facts of the file of --facts about all users, also if these come from a cluster. */
static void submit_file_facts(const struct request *r, struct facts *facts)
{
	if (!r->loop->has->accounts)
		return;
	facts->pod_names = account_file(r->loop->has->accounts)->pod_names;
	facts->queues = account_file(r->loop->has->accounts)->queues;
}

static struct objects *submit_build(struct submit *s, const char *id, struct err *e)
{
	struct request *r = s->r;
	const struct server *server = r->loop->server;
	struct objects *objects = ARENA_NEW(&r->arena, struct objects, 1);
	VIEW_AUTO view = scheduler_hold(server->scheduler);
	struct facts facts = r->principal->facts;
	scheduler_facts(&view, &r->arena, &facts);
	facts.submitted_ms = clock_wall_ms();
	facts.code = s->code;
	submit_file_facts(r, &facts);
	int again = idempotency_claim(s, e);
	/* A job that was made stays made, also if the user may have fewer now. */
	if (again < 0 || (!again && submit_claim(s, e) < 0))
		return NULL;
	submit_key_seed(s->job, &r->arena, &facts);
	r->secret |= facts.extension || facts.key_seed; /* even if the job is refused */
	struct submission_mark mark = {
		.submission = id,
		.instance = server->options->instance,
		.idempotency = s->value,
		.request = r->id,
		.tags = s->tags,
		.hold = submit_hold_text(s),
		.ordered = s->hold && s->hold->max,
		.webhook = server->options->webhook[0] != '\0',
		.at_once = store_is_atomic(r->loop->store),
	};
	int64_t begun_us = clock_us();
	int rc = job_build(server->translator, s->job, &facts, &mark, &r->arena, objects, e);
	s->translate_us += clock_us() - begun_us;
	if (rc < 0)
		return NULL;
	const struct role *role = s->job->roles;
	struct place *where = ARENA_NEW(&r->arena, struct place, s->job->n_roles);
	for (size_t i = 0; i < s->job->n_roles; i++)
		where[i] = role[i].needs_where.line ? role[i].needs_where : role[i].where;
	const struct engine_asked asked = {
		.framework = objects_framework(objects)->body,
		.user = span_of(s->job->user),
		.virtual_cluster = s->job->virtual_cluster,
		.where = where,
	};
	/* A job that was made stays made, also if the machine has less now. */
	if (server->engine && !again && engine_admit(server->engine, &asked, e) < 0)
		return NULL;
	job_warn(s->job, &facts, &s->warnings);
	const char *more = server->foreground ? "; --images oci pulls it" : "";
	for (size_t i = 0; i < s->job->n_roles && server->host_files; i++)
		if (!span_is(role[i].image, IMAGE_OF_HOST))
			notes_add(&s->warnings, role[i].where,
			          "runs on this machine's files, not in %.*s%s",
			          (int)role[i].image.n, role[i].image.p, more);
	if (s->dry_run) { /* again, with secrets redacted */
		s->shown = ARENA_NEW(&r->arena, struct objects, 1);
		if (job_preview(server->translator, s->job, &facts, &r->arena, s->shown, e) < 0)
			return NULL;
	}
	return objects;
}

static int submit_start(struct submit *s, struct err *e)
{
	struct request *r = s->r;
	const char *id = submit_new_id(r);
	struct objects *objects = submit_build(s, id, e);
	if (!objects)
		return -1;
	request_hold(r, s->dry_run ? HOLD_DRY_RUN : HOLD_JOB,
	             r->arena.used + r->body.n + (s->dry_run ? dry_run_size(s) : 0));
	if (s->dry_run == DRY_RUN_HERE) {
		dry_run_answer(s);
		return 0;
	}
	struct span name = s->job->name;
	struct submit_plan *plan = ARENA_NEW(&r->arena, struct submit_plan, 1);
	struct submission_options *options = ARENA_NEW(&r->arena, struct submission_options, 1);
	*plan = (struct submit_plan){ .s = s, .objects = objects };
	*options = (struct submission_options){
		.submission_id = id,
		.user = r->user,
		.idempotency = s->value,
		.dry_run = s->dry_run != DRY_RUN_NO,
		.display_name = arena_printf(&r->arena, "%s~%.*s", r->user, (int)name.n, name.p),
		.made = &plan->made,
		.held = s->hold,
		.ordered = s->hold && s->hold->max,
		.deadline_ms = clock_ms() + r->loop->server->options->deadline_s * 1000,
	};
	request_wait(r);
	submission_start(r->loop->store, objects, options, submit_done, plan);
	return 0;
}

/* Returns the reason why no submission is possible now, or NULL.  DRY_RUN_HERE needs no store. */
static const char *submit_obstacle(const struct submit *s)
{
	const struct loop *l = s->r->loop;
	const struct options *o = l->server->options;
	if (!l->store) /* closed; only answers are pending */
		return "this server is shutting down";
	if (s->dry_run && l->held[HOLD_DRY_RUN] >= (size_t)o->dry_run_bytes)
		return "too many dry runs are in progress";
	if (s->dry_run == DRY_RUN_HERE)
		return NULL;
	const char *problem = atomic_load(&l->server->runtime_problem);
	if (!problem &&
	    (l->held[HOLD_JOB] >= (size_t)o->queue_bytes || !store_has_room(l->store, s->r->user)))
		problem = "too many jobs are being submitted at once";
	return problem;
}

/* Prints the warnings beside the errors, as `rest-lit validate` does. */
static void submit_refuse(const struct submit *s, const struct err *e)
{
	struct request *r = s->r;
	struct str *out = &r->reply.body;
	if (s->warnings.n == 0 || e->http >= 500) {
		answer_error(r, e);
		return;
	}
	r->reply.code = e->code;
	out->n = 0; /* discard an answer that was begun */
	error_json(out, e);
	out->n -= strlen("}\n");
	submit_put_warnings(s);
	str_puts(out, "}\n");
	answer_json(r, e->http);
}

static void submit_code_came(void *arg, const struct code_fact *fact, struct err *e)
{
	struct submit *s = arg;
	s->code = *fact;
	if (e->http || submit_start(s, e) < 0)
		submit_refuse(s, e);
}

/* Goes on when the job's code was found, if it has some. */
static int submit_with_code(struct submit *s, struct err *e)
{
	struct request *r = s->r;
	const struct job_code *code = &s->job->code;
	if (!code->sha256.n)
		return submit_start(s, e);
	request_hold(r, s->dry_run ? HOLD_DRY_RUN : HOLD_JOB, r->arena.used + r->body.n);
	code_use(&(struct code_use){ r, s->job->user, code, s->dry_run != DRY_RUN_NO,
	                             submit_code_came, s });
	return 0;
}

static void submit_after_known(void *arg, struct err *e)
{
	struct submit *s = arg;
	if (e->http || submit_with_code(s, e) < 0)
		submit_refuse(s, e);
}

/* `pai`: the dialects of OpenPAI; those that the server takes besides are added. */
static void submit_run(struct request *r, unsigned pai)
{
	unsigned set = pai | r->loop->server->dialects;
	ERR_AUTO e = { 0 };
	struct submit *s = r->state;
	const char *problem = submit_obstacle(s);
	if (problem) {
		answer_refuse(r, UNAVAILABLE, problem);
		return;
	}
	if (submit_read_body(s, set, &e) == 0) {
		if (s->hold)
			jobs_after(r, s->hold, submit_after_known, s);
		else
			submit_after_known(s, &e);
		return;
	}
	if (!(set & DIALECT_V1) && e.notes.n && e.notes.v[0].at &&
	    strcmp(e.notes.v[0].at, "/jobName") == 0)
		(void)err_wrap(&e, "this looks like a v1 job; submit it to /api/v1/jobs");
	submit_refuse(s, &e);
}

void submit_v2(struct request *r)
{
	submit_run(r, DIALECT_V2);
}

void submit_v1(struct request *r)
{
	submit_run(r, DIALECT_V1 | DIALECT_V2);
}
