/* Variables of a task role, its pod, and of the init container with pai-runtime. */
#include <assert.h>

#include "translate/job/names.h"
#include "translate/objects/build.h"
#include "translate/objects/objects.h"
#include "translate/render/bindings.h"
#include "translate/render/translator.h"

/* The directory at which runtime-configmap.yaml mounts the programs. */
#define RUNTIME_DIR "/usr/local/pai-bin"
static const char RUN_ALONE[] = "\"" RUNTIME_DIR "/pai-runtime\",\"init\",";
static const char RUN_BY_SHELL[] =
    "\"/bin/sh\",\"-c\",\"exec " RUNTIME_DIR "/$(uname -m)/pai-runtime init\",";

/* pai-runtime comes from a ConfigMap, and init runs in the image of the role. */
static bool runtime_in_own_image(const struct scope *s)
{
	return s->set->n_programs > 0 && s->set->runtime_init_image[0] == '\0';
}

/* Returns the image of the init container: with --runtime=configmap the role's own, unless an
 * option names one. */
static struct span init_image_of(const struct scope *s)
{
	if (runtime_in_own_image(s))
		return s->role->image;
	return span_of(s->set->n_programs > 0 ? s->set->runtime_init_image : s->set->runtime_image);
}

int64_t role_shm_mb(const struct scope *s)
{
	return s->role->shm_mb ? s->role->shm_mb : s->job->dialect->shm_mb;
}

/* JSON inside a text: all the quoting is here, so no label can break out. */
static bool put_role_ports(const struct scope *s, struct variable_output *o)
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
		size_t start = out->n;
		struct span label = s->role->ports[i].label;
		str_json_text(out, label);
		if (out->n - start != label.n) { /* escaped once, and now JSON in JSON */
			label = arena_span(s->a, span_from(str_view(out), start));
			out->n = start;
			str_json_text(out, label);
		}
		str_puts(out, "\\\":{\\\"count\\\":");
		str_int(out, s->role->ports[i].count);
		str_char(out, '}');
	}
	str_puts(out, "}}");
	out_quote(o);
	return true;
}

/* clang-format off */
PUT_TEXT(put_role_name, s->role->name)
PUT_STRING(put_role_object_name, s->role->object_name)
PUT_INT(put_role_index, (int64_t)s->role->index)
PUT_INT(put_role_instances, s->role->instances)
PUT_INT(put_role_min_failed, s->role->min_failed)
PUT_INT(put_role_min_succeeded, s->role->min_succeeded)
PUT_BOOL(put_role_fancy_retry, s->role->task_fancy_retry)
PUT_INT(put_role_retry_max, s->role->task_retry_max)
/* A pod of the user has its own limits. */
PUT_OPTIONAL(put_role_cpu, s->role->pod == NULL, str_int(o->s, s->role->cpu))
PUT_OPTIONAL(put_role_memory_mb, s->role->pod == NULL, str_int(o->s, s->role->memory_mb))
PUT_INT(put_role_gpu, s->role->gpu)
PUT_INT(put_role_shm_mb, role_shm_mb(s))
PUT_TEXT(put_role_image, s->role->image)
PUT_TEXT(put_role_command, kubernetes_escape(s->a, s->role->command))

static const struct variable ROLE_ROWS[] = {
	{ "role.name",         VARIABLE_TEXT,   false, SCOPE_ROLE, put_role_name,          "OpenPAI",                                            "The role's name, as written." },
	{ "role.objectName",   VARIABLE_TEXT,   false, SCOPE_ROLE, put_role_object_name,   "OpenPAI; `role-names`",                              "The name in lower case without anything outside of [a-z0-9]. Empty, too long, or the same for two roles: 400." },
	{ "role.index",        VARIABLE_NUMBER, false, SCOPE_ROLE, put_role_index,         "v1",                                                 "Position of the role in the job, from 0." },
	{ "role.instances",    VARIABLE_NUMBER, false, SCOPE_ROLE, put_role_instances,     "OpenPAI",                                            "`instances` (v1: `taskNumber`), or 1." },
	{ "role.minFailed",    VARIABLE_NUMBER, false, SCOPE_ROLE, put_role_min_failed,    "OpenPAI",                                            "`completion.minFailedInstances`; 1 if absent, null or 0; -1: never." },
	{ "role.minSucceeded", VARIABLE_NUMBER, false, SCOPE_ROLE, put_role_min_succeeded, "OpenPAI; `v1-completion`",                           "`completion.minSucceededInstances`; all instances if absent, null or 0 (v1: never, see killAllOnCompletedTaskNumber); -1: never." },
	{ "role.fancyRetry",   VARIABLE_BOOL,   false, SCOPE_ROLE, put_role_fancy_retry,   "OpenPAI",                                            "True only without gang allocation." },
	{ "role.retryMax",     VARIABLE_NUMBER, false, SCOPE_ROLE, put_role_retry_max,     "OpenPAI",                                            "`taskRetryCount` without gang allocation, else 0." },
	{ "role.cpu",          VARIABLE_NUMBER, true,  SCOPE_ROLE, put_role_cpu,           "OpenPAI",                                            "CPUs of one instance; absent if the role has a pod of its own." },
	{ "role.memoryMB",     VARIABLE_NUMBER, true,  SCOPE_ROLE, put_role_memory_mb,     "OpenPAI",                                            "Memory of one instance, in MiB; absent likewise." },
	{ "role.gpu",          VARIABLE_NUMBER, false, SCOPE_ROLE, put_role_gpu,           "OpenPAI",                                            "Accelerators of one instance." },
	{ "role.shmMB",        VARIABLE_NUMBER, false, SCOPE_ROLE, put_role_shm_mb,        "OpenPAI; `v1-defaults`",                             "`extraContainerOptions.shmMB` (v1: `shmMB`), in MiB; absent and 0 both mean 512 (v1: 64)." },
	{ "role.image",        VARIABLE_TEXT,   false, SCOPE_ROLE, put_role_image,         "OpenPAI",                                            "`uri` of the role's dockerimage (v1: `image`)." },
	{ "role.command",      VARIABLE_TEXT,   false, SCOPE_ROLE, put_role_command,       "OpenPAI; `dollar`, `unresolved-kept`, `alias-role`", "preCommands, commands and postCommands, one line each, rendered and trimmed; `$` doubled where Kubernetes would take it for its own (ours)." },
	{ "role.ports",        VARIABLE_TEXT,   false, SCOPE_ROLE, put_role_ports,         "OpenPAI; `v1-ports`",                                "JSON: the range of ports of the cluster and how many each label gets; `ssh` and `http` always get at least one, if not declared otherwise." },
};
/* clang-format on */

const struct variable_group ROLE_VARIABLES = VARIABLE_GROUP("Task role", ROLE_ROWS);

/* ---- pai-runtime ---- */

/* A pod may run on a node of either architecture: no label selects both. */
static bool runtime_has_two_architectures(const struct scope *s)
{
	return s->set->n_programs > 1;
}

static bool put_runtime_sources(const struct scope *s, struct variable_output *o)
{
	struct scope in = *s;
	for (size_t i = 0; i < s->set->n_programs; i++) {
		in.program = &s->set->program[i];
		template_write(&in, TEMPLATE_RUNTIME_SOURCE, o->s);
	}
	return true;
}

/* clang-format off */
/* The same policy as the user's container has, so that the kubelet pulls the image once. */
PUT_STRING(put_runtime_init_pull_policy, runtime_in_own_image(s) ? "Always" : image_pull_policy(init_image_of(s)))
PUT_OPTIONAL(put_runtime_node_arch, s->set->n_programs == 1, out_text(o, span_of(s->set->program[0].arch)))
PUT_FUNCTION(put_runtime_command, str_puts(o->s, runtime_has_two_architectures(s) ? RUN_BY_SHELL : RUN_ALONE))
PUT_STRING(put_runtime_path, runtime_has_two_architectures(s) ? arena_printf(s->a, "%s/pai-runtime", s->program->architecture) : "pai-runtime")
PUT_TEXT(put_runtime_init_image, init_image_of(s))
PUT_STRING(put_runtime_config_map, s->program->configmap)
PUT_STRING(put_runtime_arch, s->program->arch)
PUT_STRING(put_runtime_hash, s->program->sha256)
PUT_TEXT(put_runtime_program, s->program->base64)

static const struct variable RUNTIME_ROWS[] = {
	{ "runtime.initImage",      VARIABLE_TEXT, false, SCOPE_ROLE,    put_runtime_init_image,       "ours", "Image of the init container: `--runtime-image`, or else with `--runtime=configmap` the role's own." },
	{ "runtime.initPullPolicy", VARIABLE_TEXT, false, SCOPE_ROLE,    put_runtime_init_pull_policy, "ours", "`IfNotPresent` if that image has a tag other than `latest`, or a digest; else, and for the role's own, `Always`." },
	{ "runtime.nodeArch",       VARIABLE_TEXT, true,  SCOPE_CLUSTER, put_runtime_node_arch,        "ours", "With `--runtime=configmap`: the architecture of the program, as in the label `kubernetes.io/arch` of nodes; absent if there are two." },
	{ "runtime.command",        VARIABLE_TEXTS, false, SCOPE_CLUSTER, put_runtime_command,          "ours", "... the command of the init container; with two architectures, /bin/sh chooses by `uname -m`." },
	{ "runtime.sources",        VARIABLE_LIST, false, SCOPE_CLUSTER, put_runtime_sources,          "ours", "... runtime-source.yaml, once for every architecture." },
	{ "runtime.configMap",      VARIABLE_TEXT, false, SCOPE_PROGRAM, put_runtime_config_map,       "ours", "The ConfigMap with pai-runtime for one architecture; named after architecture and content." },
	{ "runtime.path",           VARIABLE_TEXT, false, SCOPE_PROGRAM, put_runtime_path,             "ours", "Its path in the volume: `pai-runtime`; with two architectures `ARCHITECTURE/pai-runtime`, with ARCHITECTURE as `uname -m` prints it." },
	{ "runtime.arch",           VARIABLE_TEXT, false, SCOPE_PROGRAM, put_runtime_arch,             "ours", "Its architecture, as in the label `kubernetes.io/arch` of nodes." },
	{ "runtime.hash",           VARIABLE_TEXT, false, SCOPE_PROGRAM, put_runtime_hash,             "ours", "Its SHA-256." },
	{ "runtime.program",        VARIABLE_TEXT, false, SCOPE_PROGRAM, put_runtime_program,          "ours", "The program, in base64." },
};
/* clang-format on */

const struct variable_group RUNTIME_VARIABLES = VARIABLE_GROUP("pai-runtime", RUNTIME_ROWS);

enum { OBJECT_MAX = 64 << 20 }; /* more than any cluster accepts */

bool runtime_object(const struct translator *t, size_t i, struct arena *a, struct object *out)
{
	const struct settings *set = translator_settings(t);
	if (i >= set->n_programs)
		return false;
	struct scope s = { .t = t, .set = set, .a = a, .program = &set->program[i] };
	struct object o = { .kind = KIND_CONFIGMAP,
		            .name = arena_dup(a, span_of(s.program->configmap)) };
	bool fits = template_write_within(&s, TEMPLATE_CONFIGMAP_RUNTIME,
	                                  s.program->base64.n + 4096, OBJECT_MAX, &o.body);
	assert(fits);
	*out = o;
	return true;
}
