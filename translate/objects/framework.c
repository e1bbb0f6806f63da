/* Holes of the Framework, and of whatever else speaks of the job as a whole. */
#include "translate/hived/hived_plan.h"

static bool hash(const struct scope *s, struct out *o)
{
	out_puts(o, s->job->hash);
	return true;
}

static bool id(const struct scope *s, struct out *o)
{
	out_text(o, s->job->id);
	return true;
}

static bool user(const struct scope *s, struct out *o)
{
	out_puts(o, s->job->user);
	return true;
}

static bool name(const struct scope *s, struct out *o)
{
	out_text(o, s->job->name);
	return true;
}

static bool virtual_cluster(const struct scope *s, struct out *o)
{
	out_text(o, s->job->virtual_cluster);
	return true;
}

static bool config(const struct scope *s, struct out *o)
{
	out_text(o, s->job->config);
	return true;
}

static bool total_gpu(const struct scope *s, struct out *o)
{
	out_int(o, s->job->total_gpu);
	return true;
}

static bool total_tasks(const struct scope *s, struct out *o)
{
	out_int(o, s->job->total_tasks);
	return true;
}

/* A server makes it, and what it owns comes after it. */
static bool is_created_first(const struct scope *s)
{
	return s->mark && s->owned;
}

static bool execution_type(const struct scope *s, struct out *o)
{
	out_puts(o, is_created_first(s) ? "Create" : "Start");
	return true;
}

static bool fancy_retry(const struct scope *s, struct out *o)
{
	out_bool(o, s->job->fancy_retry);
	return true;
}

static bool retry_max(const struct scope *s, struct out *o)
{
	out_int(o, s->job->retry_max);
	return true;
}

static bool gpu_type(const struct scope *s, struct out *o)
{
	if (s->job->gpu_type.n == 0)
		return false;
	out_text(o, s->job->gpu_type);
	return true;
}

static bool gang(const struct scope *s, struct out *o)
{
	out_bool(o, s->job->gang);
	return true;
}

static bool task_roles(const struct scope *s, struct out *o)
{
	struct scope in = *s;
	for (size_t i = 0; i < s->job->n_roles && !o->s->full; i++) {
		in.role = &s->job->roles[i];
		unit_write(&in, UNIT_TASKROLE, o->s);
		str_char(o->s, ',');
	}
	return true;
}

static bool priority_class(const struct scope *s, struct out *o)
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

static bool priority(const struct scope *s, struct out *o)
{
	out_int(o, priority_value(s->facts->submitted_ms, s->hived ? s->hived->priority : 0));
	return true;
}

static bool mark_submission(const struct scope *s, struct out *o)
{
	out_puts(o, s->mark->submission);
	return true;
}

static bool mark_instance(const struct scope *s, struct out *o)
{
	out_puts(o, s->mark->instance);
	return true;
}

static bool mark_creating(const struct scope *s, struct out *o)
{
	if (is_created_first(s))
		out_puts(o, "true");
	return is_created_first(s);
}

static bool mark_idempotency(const struct scope *s, struct out *o)
{
	if (s->mark->idempotency)
		out_puts(o, s->mark->idempotency);
	return s->mark->idempotency != NULL;
}

static bool owner_uid(const struct scope *s, struct out *o)
{
	if (s->uid_at)
		*s->uid_at = o->s->n;
	return true;
}

/* clang-format off */
static const struct hole HOLES[] = {
	{ "job.hash",           HOLE_TEXT,   false, OF_JOB,      hash,            "OpenPAI; `unknown-names-hashed`", "MD5 of user~name in hex: the name of the Framework and the start of all other names. Users whose name begins with `unknown` are no exception (OpenPAI: not hashed)." },
	{ "job.id",             HOLE_TEXT,   false, OF_JOB,      id,              "OpenPAI", "user~name." },
	{ "job.user",           HOLE_TEXT,   false, OF_JOB,      user,            "OpenPAI", "The user who submits." },
	{ "job.name",           HOLE_TEXT,   false, OF_JOB,      name,            "OpenPAI", "The job's name, as written." },
	{ "job.virtualCluster", HOLE_TEXT,   false, OF_JOB,      virtual_cluster, "OpenPAI; `vc-null-hived`", "`defaults.virtualCluster` (v1: `virtualCluster`), or `default`." },
	{ "job.config",         HOLE_TEXT,   false, OF_JOB,      config,          "OpenPAI; `secrets-mask`",    "The job file as it was sent, with the value of `secrets` and literal passwords replaced by `\"******\"`." },
	{ "job.totalGpu",       HOLE_NUMBER, false, OF_JOB,      total_gpu,       "OpenPAI; `instances-default`", "Sum over the roles of gpu times instances; `instances` left out counts as 1." },
	{ "job.totalTasks",     HOLE_NUMBER, false, OF_JOB,      total_tasks,     "OpenPAI; `instances-default`", "Sum of all instances." },
	{ "job.executionType",  HOLE_TEXT,   false, OF_JOB,      execution_type,  "ours; `born-owned`",    "`Start`; `Create` when a server makes a job that has Secrets or the like, until these exist." },
	{ "job.fancyRetry",     HOLE_BOOL,   false, OF_JOB,      fancy_retry,     "OpenPAI", "True; false only for v1 jobs with retryCount -2." },
	{ "job.retryMax",       HOLE_NUMBER, false, OF_JOB,      retry_max,       "OpenPAI", "`jobRetryCount` (v1: `retryCount`), or 0." },
	{ "job.gang",           HOLE_BOOL,   false, OF_JOB,      gang,            "OpenPAI", "False only if `extras.gangAllocation` is the boolean false." },
	{ "job.gpuType",        HOLE_TEXT,   true,  OF_JOB,        gpu_type,        "ours",    "`gpuType` of v1 jobs, a label value; absent if it is absent or empty, and in v2 jobs. No shipped template has it: for the administrator, see TEMPLATES.md." },
	{ "job.taskRoles",      HOLE_LIST,   false, HOLDS_ROLES, task_roles,      "OpenPAI", "taskrole.yaml, once for every role, in the order of the job file." },
	{ "job.priorityClass",  HOLE_TEXT,   true,  OF_JOB,      priority_class,  "OpenPAI", "The job's own PriorityClass if there is one; else `pai-job-minimal-priority` in the profile openpai and nothing in plain." },
	{ "job.priority",       HOLE_NUMBER, false, OF_JOB,      priority,        "OpenPAI", "-(126 * 2^24 + (T / 16 s) mod 2^24), T the time of submission: later jobs get lower values." },
	{ "mark.submission",    HOLE_TEXT,   false, OF_MARK,     mark_submission, "ours",    "32 random hex digits: by which submission an object was made." },
	{ "mark.instance",      HOLE_TEXT,   false, OF_MARK,     mark_instance,   "ours",    "Name of the installation that made an object." },
	{ "mark.creating",      HOLE_TEXT,   true,  OF_MARK,     mark_creating,   "ours",    "`true` while executionType is `Create`; absent otherwise." },
	{ "mark.idempotency",   HOLE_TEXT,   true,  OF_MARK,     mark_idempotency, "ours",   "Hashes of the client's `Idempotency-Key` and of what it sent; absent without one." },
	{ "owner.uid",          HOLE_TEXT,   false, OF_OWNED,    owner_uid,       "ours",    "Uid of the Framework; put in when it is known." },
};
/* clang-format on */

const struct hole_group FRAMEWORK_HOLES = { "Job", HOLES, sizeof(HOLES) / sizeof(*HOLES) };
