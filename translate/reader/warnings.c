/* The reason for each warning, and docs/WARNINGS.md. */
#include "translate/reader/warnings.h"

/* clang-format off */
const struct warning_row WARNINGS[] = {
	{ "Values",
	  WARN_OCTAL, "`memoryMB: 010` is 8 here and for OpenPAI, 10 for programs that read YAML 1.2." },
	{ NULL, WARN_SIXTY, "`time: 1:30` becomes 90: YAML 1.1 took colons for minutes and seconds." },
	{ NULL, WARN_ROUNDED, "Ids and hashes that look like numbers lose their last digits." },
	{ NULL, WARN_DATE, "`2001-01-01` is a date for OpenPAI and for PyYAML, each of which writes it differently into a command." },
	{ NULL, WARN_BOOLEAN, "`yes`, `no`, `on`, `off` are booleans for PyYAML. The same job would run with `True` elsewhere." },
	{ NULL, WARN_NUMBER, "`08` and `0o17` are numbers for some readers only." },
	{ NULL, WARN_OTHERWISE, "A version `1.10` becomes 1.1, `True` becomes `true`, `1_000` becomes 1000. Only for parameters that are used, for the environment of v1 jobs, and for secrets (without their value)." },
	{ NULL, WARN_TEXT_NUMBER, "v1: forms and old clients send numbers as text." },
	{ NULL, "`<<` stands twice in this mapping: the first one wins here, the last one elsewhere", "Readers of YAML do not agree on it." },
	{ NULL, "the `?` before this key does not belong to it here, but does elsewhere; write the key in quotes", "`{?x: 1}` has the key `x` here and the key `?x` in OpenPAI." },
	{ NULL, "the name of this anchor ends before the `%c` here, but not elsewhere; put a blank behind it, or quotes around the text", "`&a:b 5` is the text `:b 5` here, and the number 5 in OpenPAI, where the anchor is called `a:b`." },
	{ NULL, "comments are not part of JSON; they are skipped", "Other programs refuse such a file." },
	{ "Placeholders",
	  WARN_UNRESOLVED, "A command rarely contains `<% ... %>` on purpose. The server fills in parameters, data and so on at submission; pai-runtime fills in `$secrets` when a task starts. A missing secret becomes empty; without any secrets the placeholder stays." },
	{ NULL, WARN_UNRESOLVED_HINT, "The same, if a similar name exists." },
	{ NULL, WARN_NULL, "A parameter or secret without a value counts as missing." },
	{ NULL, WARN_INNER, "Values are put into commands as they are; only `$secrets` in them are filled in, when the task starts." },
	{ NULL, WARN_TAKEN_OUT, "`<%& x %>`, `<%# x %>` and so on are other tags of Mustache, which OpenPAI dropped silently. A comment, `<%! ... %>`, gives no warning." },
	{ NULL, WARN_BRACES, "Other systems write `{{ }}`." },
	{ NULL, WARN_ENV_LITERAL, "Values of `extras.env` are literal, in Kubernetes and in the shell of the command alike." },
	{ NULL, WARN_FC, "In commands, in `extras.env`, and in the environment and the directories of v1 jobs." },
	{ "Counts",
	  WARN_NEVER, "The job then ends when all its tasks have ended. -1 has the same effect without a warning." },
	{ NULL, WARN_FIRST_ROLE, "With several roles of which none has `completion`, without `extras.distributed`. Other systems wait for all roles unless a job says otherwise." },
	{ NULL, WARN_RETRIES, "With gang allocation a single task is not retried; the job is, see `jobRetryCount`." },
	{ NULL, WARN_MANY_PORTS, "The author of `ports: {http: 8080}` usually means the number of a port. The warning begins at 20 ports." },
	{ NULL, WARN_NO_PORT, "The list of ports of that label is empty in all tasks." },
	{ NULL, WARN_SHM, "Shared memory is memory: the container is killed before it is full." },
	{ "Without effect",
	  WARN_NO_ROLE, "Usually a renamed role, whose commands are now missing." },
	{ NULL, WARN_NO_ROLE_HINT, "The same, if a similar name exists." },
	{ NULL, WARN_NO_PLUGIN, "The tasks fail, unless the plugin's `failurePolicy` is `ignore`." },
	{ NULL, WARN_NO_PLUGIN_HINT, "The same, if a similar name exists." },
	{ NULL, WARN_NO_DEPLOYMENT, "Their commands do not run." },
	{ NULL, WARN_UNUSED, "Neither its commands nor its data are in any task." },
	{ NULL, WARN_MISSPELT, "`extras`, `defaults`, `extraContainerOptions` and storages may have any members, so a misspelt one is not refused." },
	{ NULL, WARN_CLUSTER, "`share` and `readOnly` of a storage belong to the volume; `extras.forceNodes` and `extras.enableLocalStorage` are of clusters where jobs chose nodes and disks." },
	{ NULL, WARN_NO_NAME, "As in OpenPAI." },
	{ NULL, WARN_HIVED, "Another scheduler does not know types and priorities of HiveD. A fifth of all jobs of OpenPAI get this warning, because its web pages wrote this member into every job." },
	{ NULL, WARN_GIT_URI, "An attacker in the network can change code that is fetched by http://, and the task then runs it." },
	{ NULL, WARN_GIT_OPTION, "Other options of `git clone` can start programs, or are not needed for one task." },
	{ "Readable by others",
	  WARN_PASSWORD, "All users can read the stored job file, so a literal password in `auth` is replaced in it." },
	{ NULL, WARN_PARAMETER, "For parameters and variables (`extras.env`) that are called password, secret, api_key, access_token and so on and have a literal text." },
	{ NULL, WARN_URL, "`https://user:password@host`, anywhere in the job; the program needs it, so it is not replaced." },
	{ NULL, WARN_URL_V1, "The same; v1 jobs have no `secrets`." },
	{ "First generation (v1)",
	  WARN_CODE, "Without `--fetch-code`. OpenPAI copied this directory from HDFS, and most commands need it, so many old jobs will fail." },
	{ NULL, WARN_KILL_ROLES, "A Framework counts per role. The job never ends earlier than in OpenPAI, perhaps later; see DEVIATIONS.md." },
	{ NULL, WARN_DISTRIBUTED_V1, "pai-runtime sets variables for distributed training in v2 jobs only." },
	{ NULL, WARN_ENV_V1, "v1 jobs have variables of their own, `jobEnvs` for all roles and `env` for one." },
	{ NULL, WARN_KILL_GIVEN, "As in the later REST servers of OpenPAI." },
	{ NULL, WARN_BEGIN_AT, "Ports differ from task to task; read them from the environment." },
	{ NULL, WARN_LABEL, "The name of a variable has no `.` or `~` and no digit in front." },
	{ NULL, WARN_POSITION, "Commands of the first generation know roles by their position, from 0. A role whose name is the position of another one takes the variable from it." },
	{ NULL, WARN_GPU_TYPE, "Kubernetes does not know the types of this field." },
	{ "MxJobs and manifests of the launcher",
	  WARN_IGNORED, "For members that told the former operator what is decided here by the installation, such as the scheduler; see DIALECTS.md." },
	{ NULL, WARN_HOST_NETWORK, "The profile openpai gives each pod the network of its node, the others give none." },
	{ NULL, WARN_CHIEF, "The operator of kubeflow.org ended a job with the replica `chief.replicaIndex`. To end it with the first of several would kill others that still save." },
	{ NULL, WARN_RESTART, "Write `restartPolicy: Never`." },
	{ NULL, WARN_OLD_NAME, "Names of Frameworks are hashes of user and job, so that users cannot take each other's." },
	{ NULL, WARN_ENV_SET, "The variables by which the parts of MXNet find each other." },
	{ "Pods of Kubernetes",
	  WARN_POD_DROPPED, "[DIALECTS.md](DIALECTS.md) lists the members, with their reasons." },
	{ NULL, WARN_POD_UNKNOWN, "Usually misspelt: Kubernetes ignores such a member silently." },
	{ NULL, WARN_POD_NAME, "A label or annotation can switch on what other programs of the cluster do with a pod: the administrator lists those that jobs may have." },
	{ NULL, WARN_POD_KEY, "Labels and annotations by which Kubernetes, HiveD, FrameworkController and this program know pods." },
	{ NULL, WARN_POD_DEVICE, "`alpha.kubernetes.io/nvidia-gpu` ended with Kubernetes 1.10." },
};
/* clang-format on */
const size_t N_WARNINGS = ARRAY_SIZE(WARNINGS);

static const char INTRO[] =
    "# Warnings\n"
    "\n"
    "Generated by `make pages` from the table in translate/; do not edit.\n"
    "\n"
    "A job with warnings is accepted. Its effect is probably not the intended one, or\n"
    "other programs read it differently. `rest-lit validate` prints warnings behind\n"
    "`warning:`, in the order of lines; a server adds them to its answer as `warnings`,\n"
    "each with `pointer`, `line`, `column` and `message`, for v1 also in the header\n"
    "`X-Warning`, and writes their number into the log (`\"warnings\":2`). At most 20 are\n"
    "listed; the last entry then says how many more there are. None shows a value\n"
    "below `secrets` or `auth`.\n";

/* The format, readable. */
static void warnings_put_sentence(struct str *out, const char *format)
{
	for (const char *p = format; *p; p++) {
		if (*p != '%') {
			if (*p == '|')
				str_char(out, '\\');
			str_char(out, *p);
		} else if (*++p == '%') {
			str_char(out, '%');
		} else {
			str_puts(out, "…");
			p += strspn(p, "l");
		}
	}
}

void warnings_page(struct str *out)
{
	str_puts(out, INTRO);
	for (size_t i = 0; i < N_WARNINGS; i++) {
		const struct warning_row *w = &WARNINGS[i];
		if (w->group)
			str_printf(out, "\n## %s\n\n| warning | why |\n|---|---|\n", w->group);
		str_puts(out, "| ");
		warnings_put_sentence(out, w->format);
		str_printf(out, " | %s |\n", w->why);
	}
}
