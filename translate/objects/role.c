/* Holes of a task role and its pod. */
#include "translate/dialects/dollar.h"
#include "translate/render/bindings.h"

static bool name(const struct scope *s, struct out *o)
{
	out_text(o, s->role->name);
	return true;
}

static bool object_name(const struct scope *s, struct out *o)
{
	out_puts(o, s->role->object_name);
	return true;
}

static bool role_index(const struct scope *s, struct out *o)
{
	out_int(o, (int64_t)s->role->index);
	return true;
}

static bool instances(const struct scope *s, struct out *o)
{
	out_int(o, s->role->instances);
	return true;
}

static bool min_failed(const struct scope *s, struct out *o)
{
	out_int(o, s->role->min_failed);
	return true;
}

static bool min_succeeded(const struct scope *s, struct out *o)
{
	out_int(o, s->role->min_succeeded);
	return true;
}

static bool fancy_retry(const struct scope *s, struct out *o)
{
	out_bool(o, s->role->task_fancy_retry);
	return true;
}

static bool retry_max(const struct scope *s, struct out *o)
{
	out_int(o, s->role->task_retry_max);
	return true;
}

static bool cpu(const struct scope *s, struct out *o)
{
	out_int(o, s->role->cpu);
	return true;
}

static bool memory_mb(const struct scope *s, struct out *o)
{
	out_int(o, s->role->memory_mb);
	return true;
}

static bool gpu(const struct scope *s, struct out *o)
{
	out_int(o, s->role->gpu);
	return true;
}

int64_t role_shm_mb(const struct scope *s)
{
	if (s->role->shm_mb)
		return s->role->shm_mb;
	return s->job->dialect == DIALECT_V1 ? 64 : 512;
}

static bool shm_mb(const struct scope *s, struct out *o)
{
	out_int(o, role_shm_mb(s));
	return true;
}

static bool image(const struct scope *s, struct out *o)
{
	out_text(o, s->role->image);
	return true;
}

static bool command(const struct scope *s, struct out *o)
{
	out_text(o, dollar_escape(s->a, s->role->command));
	return true;
}

/* Where the kubelet may pull with a login that init does not know, a refusal proves nothing; the
 * job's own login init reads, or only warns.  And where init runs, its image is there. */
static bool image_check(const struct scope *s, struct out *o)
{
	const char *pull_secret = s->set->runtime_pull_secret;
	bool warn = pull_secret && *pull_secret;
	out_puts(o, runtime_in_own_image(s) ? "off" : warn ? "warn" : "fail");
	return true;
}

/* As text in JSON which is text in JSON. */
static void put_label(const struct scope *s, struct span label, struct str *out)
{
	size_t start = out->n;
	str_json_text(out, label);
	if (out->n - start == label.n)
		return; /* nothing was escaped, nor would it be the second time */
	struct span once = arena_span(s->a, (struct span){ out->p + start, out->n - start });
	out->n = start;
	str_json_text(out, once);
}

/* JSON inside of a text: written by one function, so that no label can add to it. */
static bool ports(const struct scope *s, struct out *o)
{
	struct str *out = o->s;
	out_quote(o);
	str_puts(out, "{\\\"schedulePortStart\\\":");
	str_int(out, s->set->port_start);
	str_puts(out, ",\\\"schedulePortEnd\\\":");
	str_int(out, s->set->port_end);
	str_puts(out, ",\\\"ports\\\":{");
	for (size_t i = 0; i < s->role->n_ports; i++) {
		str_puts(out, i ? ",\\\"" : "\\\"");
		put_label(s, s->role->ports[i].label, out);
		str_puts(out, "\\\":{\\\"count\\\":");
		str_int(out, s->role->ports[i].count);
		str_char(out, '}');
	}
	str_puts(out, "}}");
	out_quote(o);
	return true;
}

/* clang-format off */
static const struct hole HOLES[] = {
	{ "role.name",         HOLE_TEXT,   false, OF_ROLE, name,          "OpenPAI", "The role's name, as written." },
	{ "role.objectName",   HOLE_TEXT,   false, OF_ROLE, object_name,   "OpenPAI; `role-names`", "The name in lower case without anything outside of [a-z0-9]. Empty, too long, or the same for two roles: 400." },
	{ "role.index",        HOLE_NUMBER, false, OF_ROLE, role_index,    "v1",      "Position of the role in the job, from 0." },
	{ "role.instances",    HOLE_NUMBER, false, OF_ROLE, instances,     "OpenPAI", "`instances` (v1: `taskNumber`), or 1." },
	{ "role.minFailed",    HOLE_NUMBER, false, OF_ROLE, min_failed,    "OpenPAI", "`completion.minFailedInstances`; 1 if absent, null or 0; -1: never." },
	{ "role.minSucceeded", HOLE_NUMBER, false, OF_ROLE, min_succeeded, "OpenPAI; `v1-completion`", "`completion.minSucceededInstances`; all instances if absent, null or 0 (v1: never, see killAllOnCompletedTaskNumber); -1: never." },
	{ "role.fancyRetry",   HOLE_BOOL,   false, OF_ROLE, fancy_retry,   "OpenPAI", "True only without gang allocation." },
	{ "role.retryMax",     HOLE_NUMBER, false, OF_ROLE, retry_max,     "OpenPAI", "`taskRetryCount` without gang allocation, else 0." },
	{ "role.cpu",          HOLE_NUMBER, false, OF_ROLE, cpu,           "OpenPAI", "CPUs of one instance." },
	{ "role.memoryMB",     HOLE_NUMBER, false, OF_ROLE, memory_mb,     "OpenPAI", "Memory of one instance, in MiB." },
	{ "role.gpu",          HOLE_NUMBER, false, OF_ROLE, gpu,           "OpenPAI", "Accelerators of one instance." },
	{ "role.shmMB",        HOLE_NUMBER, false, OF_ROLE, shm_mb,        "OpenPAI; `v1-defaults`", "`extraContainerOptions.shmMB` (v1: `shmMB`), in MiB; absent and 0 both mean 512 (v1: 64)." },
	{ "role.image",        HOLE_TEXT,   false, OF_ROLE, image,         "OpenPAI", "`uri` of the role's dockerimage (v1: `image`)." },
	{ "role.command",      HOLE_TEXT,   false, OF_ROLE, command,       "OpenPAI; `dollar`, `unresolved-kept`, `alias-role`", "preCommands, commands and postCommands, one line each, rendered and trimmed; `$` doubled where Kubernetes would take it for its own (ours)." },
	{ "role.ports",        HOLE_TEXT,   false, OF_ROLE, ports,         "OpenPAI; `v1-ports`", "JSON: the range of ports of the cluster and how many each label gets; `ssh` and `http` always get at least one, if not declared otherwise." },
	{ "role.imageCheck",   HOLE_TEXT,   false, OF_ROLE, image_check,   "ours",    "What init does if a registry denies the image: `fail`, or `warn` if the pod has another login than the job's; `off` where init runs in that image." },
};
/* clang-format on */

const struct hole_group ROLE_HOLES = { "Task role", HOLES, sizeof(HOLES) / sizeof(*HOLES) };
