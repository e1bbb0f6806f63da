/* Variables of the job and of the Secrets beside its Framework. */
#include "base/doc/yaml.h"
#include "base/enc.h"
#include "translate/hived/hived_plan.h"
#include "translate/objects/objects.h"
#include "translate/reader/redact.h"
#include "translate/render/bindings.h"

/* Returns true if the Framework is created before it is complete. */
static bool is_created_first(const struct scope *s)
{
	return s->mark && (s->owned || s->mark->ordered) && !s->mark->at_once;
}

static bool put_job_task_roles(const struct scope *s, struct variable_output *o)
{
	struct scope in = *s;
	for (size_t i = 0; i < s->job->n_roles && !o->s->full; i++) {
		in.role = &s->job->roles[i];
		if (in.role->pod)
			str_span(o->s, s->raw_text[i]);
		else
			template_write(&in, TEMPLATE_TASKROLE, o->s);
		str_char(o->s, ',');
	}
	return true;
}

static bool put_job_priority_class(const struct scope *s, struct variable_output *o)
{
	bool own = s->set->priority_class;
	if (!own && s->set->profile != PROFILE_OPENPAI)
		return false;
	out_quote(o);
	str_puts(o->s, own ? s->job->hash : "pai-job-minimal");
	str_puts(o->s, "-priority");
	out_quote(o);
	return true;
}

/*
 * Value of the job's PriorityClass.  As in OpenPAI: HiveD's priority (0 without), counted from the
 * top, in the high byte, and the time of submission in units of 16 s below it.  Later jobs get
 * lower values.  The time wraps after 8.5 years.
 */
static bool put_job_priority(const struct scope *s, struct variable_output *o)
{
	int64_t units = s->facts->submitted_ms / 16000 & 0xffffff;
	int64_t priority = s->hived ? s->hived->priority : 0;
	str_int(o->s, -((HIVED_HIGHEST - priority) * (1 << 24) + units));
	return true;
}

static bool put_owner_uid(const struct scope *s, struct variable_output *o)
{
	if (s->uid_at)
		*s->uid_at = o->s->n;
	return true;
}

/* The queue of the job, else that of its virtual cluster. */
static struct span job_queue(const struct scope *s)
{
	const struct member *own = node_member(s->facts->queues, s->job->virtual_cluster);
	const struct node *queue = node_get(own ? &own->value : NULL, "queue");
	return s->job->queue.n ? s->job->queue : queue ? node_span(queue) : SPAN("");
}

/* clang-format off */
PUT_STRING(put_job_hash, s->job->hash)
PUT_TEXT(put_job_id, s->job->id)
PUT_STRING(put_job_user, s->job->user)
PUT_TEXT(put_job_name, s->job->name)
PUT_TEXT(put_job_virtual_cluster, s->job->virtual_cluster)
PUT_TEXT(put_job_config, s->job->config)
PUT_INT(put_job_total_gpu, s->job->total_gpu)
PUT_INT(put_job_total_tasks, s->job->total_tasks)
PUT_STRING(put_job_execution_type, is_created_first(s) || (s->mark && s->mark->hold) ? "Create" : "Start")
PUT_BOOL(put_job_fancy_retry, s->job->fancy_retry)
PUT_INT(put_job_retry_max, s->job->retry_max)
PUT_BOOL(put_job_gang, s->job->gang)
PUT_OPTIONAL(put_job_gpu_type, s->job->gpu_type.n, out_text(o, s->job->gpu_type))
PUT_OPTIONAL(put_job_hived_class, s->job->hived && s->job->hived->priority_class.n, out_text(o, s->job->hived->priority_class))
PUT_OPTIONAL(put_job_max_duration, s->job->max_duration_s || s->set->max_duration_s, str_int(o->s, s->job->max_duration_s ?: s->set->max_duration_s))
PUT_OPTIONAL(put_job_queue, job_queue(s).n, out_text(o, job_queue(s)))
PUT_OPTIONAL(put_mark_creating, is_created_first(s), out_text(o, SPAN("true")))
PUT_OPTIONAL(put_mark_idempotency, s->mark->idempotency, out_text(o, span_of(s->mark->idempotency)))
PUT_OPTIONAL(put_mark_webhook, s->mark->webhook, out_text(o, span_of(s->mark->instance)))
PUT_OPTIONAL(put_mark_request, s->mark->request, out_text(o, span_of(s->mark->request)))
PUT_OPTIONAL(put_mark_tags, s->mark->tags, out_text(o, span_of(s->mark->tags)))
PUT_OPTIONAL(put_mark_hold, s->mark->hold, out_text(o, span_of(s->mark->hold)))
PUT_STRING(put_mark_submission, s->mark->submission)
PUT_STRING(put_mark_instance, s->mark->instance)

static const struct variable JOB_ROWS[] = {
	{ "job.hash",           VARIABLE_TEXT,   false, SCOPE_JOB,         put_job_hash,            "OpenPAI; `unknown-names-hashed`", "MD5 of user~name in hex: the name of the Framework and the start of all other names. Users whose name begins with `unknown` are no exception (OpenPAI: not hashed)." },
	{ "job.id",             VARIABLE_TEXT,   false, SCOPE_JOB,         put_job_id,              "OpenPAI",                         "user~name." },
	{ "job.user",           VARIABLE_TEXT,   false, SCOPE_JOB,         put_job_user,            "OpenPAI",                         "The user who submits." },
	{ "job.name",           VARIABLE_TEXT,   false, SCOPE_JOB,         put_job_name,            "OpenPAI",                         "The job's name, as written." },
	{ "job.virtualCluster", VARIABLE_TEXT,   false, SCOPE_JOB,         put_job_virtual_cluster, "OpenPAI; `vc-null-hived`",        "`defaults.virtualCluster` (v1: `virtualCluster`), or `default`." },
	{ "job.config",         VARIABLE_TEXT,   false, SCOPE_JOB,         put_job_config,          "OpenPAI; `secrets-mask`",         "The job file as it was sent; with `secrets` or literal passwords, written anew with `\"******\"` in their places." },
	{ "job.totalGpu",       VARIABLE_NUMBER, false, SCOPE_JOB,         put_job_total_gpu,       "OpenPAI; `instances-default`",    "Sum over the roles of gpu times instances; `instances` left out counts as 1." },
	{ "job.totalTasks",     VARIABLE_NUMBER, false, SCOPE_JOB,         put_job_total_tasks,     "OpenPAI; `instances-default`",    "Sum of all instances." },
	{ "job.executionType",  VARIABLE_TEXT,   false, SCOPE_JOB,         put_job_execution_type,  "ours; `born-owned`",              "`Start`; `Create` when a server makes a job that has Secrets or the like, until these exist, or a held job." },
	{ "job.fancyRetry",     VARIABLE_BOOL,   false, SCOPE_JOB,         put_job_fancy_retry,     "OpenPAI",                         "True; false only for v1 jobs with retryCount -2." },
	{ "job.retryMax",       VARIABLE_NUMBER, false, SCOPE_JOB,         put_job_retry_max,       "OpenPAI",                         "`jobRetryCount` (v1: `retryCount`), or 0." },
	{ "job.gang",           VARIABLE_BOOL,   false, SCOPE_JOB,         put_job_gang,            "OpenPAI",                         "False only if `extras.gangAllocation` is the boolean false." },
	{ "job.maxDuration",    VARIABLE_NUMBER, true,  SCOPE_JOB,         put_job_max_duration,    "ours",                            "`extras.maxDurationSec`, or the server's `--max-duration`; absent without either." },
	{ "job.queue",          VARIABLE_TEXT,   true,  SCOPE_JOB,         put_job_queue,           "ours",                            "`extras.queue`, or `queue` of the virtual cluster in the file of `--facts`: a LocalQueue of Kueue; absent without either." },
	{ "job.gpuType",        VARIABLE_TEXT,   true,  SCOPE_JOB,         put_job_gpu_type,        "ours",                            "`gpuType` of v1 jobs, a label value; absent if it is absent or empty, and in v2 jobs. No shipped template has it: for the administrator, see TEMPLATES.md." },
	{ "job.taskRoles",      VARIABLE_LIST,   false, SCOPE_WHOLE_ROLES, put_job_task_roles,      "OpenPAI",                         "taskrole.yaml, once for every role, in the order of the job file." },
	{ "job.priorityClass",  VARIABLE_TEXT,   true,  SCOPE_JOB,         put_job_priority_class,  "OpenPAI",                         "The job's own PriorityClass if there is one; else `pai-job-minimal-priority` in the profile openpai and nothing in the others." },
	{ "job.hivedClass",     VARIABLE_TEXT,   true,  SCOPE_JOB,         put_job_hived_class,     "ours; `priority-annotation`",     "`extras.hivedScheduler.jobPriorityClass`; absent without it." },
	{ "job.priority",       VARIABLE_NUMBER, false, SCOPE_JOB,         put_job_priority,        "OpenPAI",                         "-(126 * 2^24 + (T / 16 s) mod 2^24), T the time of submission: later jobs get lower values." },
	{ "mark.submission",    VARIABLE_TEXT,   false, SCOPE_MARK,        put_mark_submission,     "ours",                            "32 random hex digits: by which submission an object was made." },
	{ "mark.instance",      VARIABLE_TEXT,   false, SCOPE_MARK,        put_mark_instance,       "ours",                            "Name of the installation that made an object." },
	{ "mark.creating",      VARIABLE_TEXT,   true,  SCOPE_MARK,        put_mark_creating,       "ours",                            "`true` while the objects of the job are being made; absent otherwise." },
	{ "mark.idempotency",   VARIABLE_TEXT,   true,  SCOPE_MARK,        put_mark_idempotency,    "ours",                            "Hashes of the client's `Idempotency-Key` and of what it sent; absent without one." },
	{ "mark.request",       VARIABLE_TEXT,   true,  SCOPE_MARK,        put_mark_request,        "ours",                            "Id of the request that submitted the job: the header `X-Request-Id` of its answer, and `id` in the log." },
	{ "mark.webhook",       VARIABLE_TEXT,   true,  SCOPE_MARK,        put_mark_webhook,        "ours",                            "Name of the installation that reports the end of the job; absent if its server has no `--webhook`." },
	{ "mark.hold",          VARIABLE_TEXT,   true,  SCOPE_MARK,        put_mark_hold,           "ours",                            "What the job waits for before it is started, JSON; absent if it is started at once." },
	{ "mark.tags",          VARIABLE_TEXT,   true,  SCOPE_MARK,        put_mark_tags,           "ours",                            "Tags of the query, a JSON list; absent without any." },
	{ "owner.uid",          VARIABLE_TEXT,   false, SCOPE_OWNED,       put_owner_uid,           "ours",                            "Uid of the Framework; put in when it is known." },
};
/* clang-format on */

const struct variable_group FRAMEWORK_VARIABLES = VARIABLE_GROUP("Job", JOB_ROWS);

enum { SECRET_TEXT_MAX = 4 << 20 };

/* A Secret of type kubernetes.io/dockerconfigjson must hold an object. Registries are hidden
 * too, because they may come from `secrets`. */
#define HIDDEN_LOGINS "{\"auths\":{\"" REDACTED "\":{\"auth\":\"" REDACTED "\"}}}"

static void out_base64(struct variable_output *o, struct span bytes)
{
	if (!o->text)
		str_char(o->s, '"');
	str_base64(o->s, bytes);
	if (!o->text)
		str_char(o->s, '"');
}

static bool put_secret_registries(const struct scope *s, struct variable_output *o)
{
	struct str json = STR_INIT(SECRET_TEXT_MAX);
	if (s->hide) {
		out_base64(o, SPAN(HIDDEN_LOGINS));
		return true;
	}
	str_puts(&json, "{\"auths\":{");
	for (size_t i = 0; i < s->job->n_logins; i++) {
		const struct registry_login *l = &s->job->logins[i];
		struct str pair = STR_INIT(SECRET_TEXT_MAX);
		str_span(&pair, l->username);
		str_char(&pair, ':');
		str_span(&pair, l->password);
		str_puts(&json, i ? "," : "");
		str_json(&json, l->registry);
		str_puts(&json, ":{\"auth\":\"");
		str_base64(&json, str_view(&pair));
		str_puts(&json, "\"}");
		str_wipe(&pair);
	}
	str_puts(&json, "}}");
	out_base64(o, str_view(&json));
	o->s->full |= json.full;
	str_wipe(&json);
	return true;
}

static void out_yaml(const struct scope *s, struct variable_output *o, const struct node *n)
{
	struct str yaml = STR_INIT(SECRET_TEXT_MAX);
	if (s->hide) {
		out_base64(o, SPAN(REDACTED));
		return;
	}
	yaml_write(&yaml, n);
	out_base64(o, str_view(&yaml));
	o->s->full |= yaml.full;
	str_wipe(&yaml);
}

/* `jobSSH: {seed: ...}`, in the place of a key pair of the user. */
static struct member extension_seed_member(const struct scope *s, struct member *seed)
{
	const char *text = s->facts->key_seed ? s->facts->key_seed : "";
	*seed = (struct member){
		.key = "seed",
		.key_n = 4,
		.value = { .type = NODE_TEXT, .text = text, .n = (uint32_t)strlen(text) },
	};
	return (struct member){
		.key = "jobSSH",
		.key_n = 6,
		.value = { .type = NODE_MAP, .member = seed, .n = 1 },
	};
}

/* Only the members that pods use; an extension may hold tokens. */
static bool put_secret_extension(const struct scope *s, struct variable_output *o)
{
	static const char *const WANTED[] = { "jobSSH", "sshKeys" };
	struct member seed;
	struct member v[2];
	struct node kept = { .type = NODE_MAP, .member = v };
	bool made = job_needs_key(s->job, s->facts);
	if (made)
		v[kept.n++] = extension_seed_member(s, &seed);
	for (size_t i = made; i < 2; i++) {
		const struct member *m = node_member(s->facts->extension, span_of(WANTED[i]));
		if (m)
			v[kept.n++] = *m;
	}
	out_yaml(s, o, &kept);
	return true;
}

/* clang-format off */
PUT_FUNCTION(put_secret_job, out_yaml(s, o, s->job->secrets))

static const struct variable SECRET_ROWS[] = {
	{ "secret.registries", VARIABLE_TEXT, false, SCOPE_JOB,       put_secret_registries, "OpenPAI; `default-registry`", "Logins of all images with `auth`, used or not; of two for one registry the later one." },
	{ "secret.job",        VARIABLE_TEXT, false, SCOPE_SECRETS,   put_secret_job,        "OpenPAI",                     "`secrets`, parsed and written as YAML again." },
	{ "secret.extension",  VARIABLE_TEXT, false, SCOPE_EXTENSION, put_secret_extension,  "ours",                        "`jobSSH` and `sshKeys` of the user's extension as YAML (OpenPAI: all of the extension). If `extras.distributed` needs a key pair and the user has none, `jobSSH` has a random `seed`, from which pai-runtime makes one." },
};
/* clang-format on */

const struct variable_group SECRET_VARIABLES = VARIABLE_GROUP("Secrets", SECRET_ROWS);
