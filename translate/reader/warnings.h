#pragma once
/*
 * The warnings about jobs: formats of parse_warn. A job with warnings is accepted. A warning must
 * nearly always be right, name the effect, and say what to write instead. docs/WARNINGS.md has a
 * row with the reason for each, also for those of the readers in base/doc; test_warnings.c
 * compares.
 *
 * Thread: any
 */
#include "translate/reader/parse_context.h"

/* values */
#define WARN_OCTAL                                                                                 \
	"is %s: a number that begins with 0 is octal here, but decimal in YAML 1.2; write it "     \
	"without the 0, or in quotes if it is text"
#define WARN_SIXTY                                                                                 \
	"is %s: a number with `:` is to base 60 here, but text in YAML 1.2; write text in quotes"
#define WARN_ROUNDED                                                                               \
	"is %s: integers beyond 2^53 are rounded to what a double holds; write it in quotes if "   \
	"it is text"
#define WARN_DATE        "is text here, but a date for many others; write it in quotes"
#define WARN_BOOLEAN     "is text here, but true or false in YAML 1.1; write it in quotes"
#define WARN_NUMBER      "is text here, but a number in YAML 1.2; write it in quotes"
#define WARN_OTHERWISE   "becomes %s when it is filled in; in quotes it stays as it is written"
#define WARN_TEXT_NUMBER "is text; it is taken as the number %lld"
/* placeholders */
#define WARN_UNRESOLVED      "%s leads to nothing, %s"
#define WARN_UNRESOLVED_HINT "%s leads to nothing, %s; did you mean `%s`?"
#define WARN_NULL            "%s is null, %s"
#define WARN_INNER                                                                                 \
	"the value of %s has a placeholder, too, which is not filled in: values are not searched " \
	"for placeholders"
#define WARN_TAKEN_OUT "%s is taken out: only names are filled in, as in <%% $parameters.x %%>"
#define WARN_BRACES    "{{ $... }} is not filled in; write <%% $... %%>"
#define WARN_FC        "{{FC_...}} is replaced by the FrameworkController; this cannot be escaped"
#define WARN_ENV_LITERAL                                                                           \
	"is passed on as it is written: placeholders and `$` are replaced in commands only, so "   \
	"write `export NAME=...` there"
/* counts */
#define WARN_NEVER "is above the number of instances: this never happens"
#define WARN_FIRST_ROLE                                                                            \
	"the job ends when all tasks of one role have succeeded, and the others are stopped; to "  \
	"wait for all, write `completion: {minSucceededInstances: -1}` into each role"
#define WARN_RETRIES "has no effect unless extras.gangAllocation is false"
#define WARN_MANY_PORTS                                                                            \
	"%lld ports of each task are reserved for this label: the number says how many, not "      \
	"which; ports are chosen by the system"
#define WARN_NO_PORT "is 0: no port is found for this label"
#define WARN_SHM     "is above memoryMB (%lld): shared memory counts as memory of the container"
/* without effect */
#define WARN_NO_ROLE        "there is no such task role"
#define WARN_NO_ROLE_HINT   "there is no such task role; did you mean `%s`?"
#define WARN_NO_PLUGIN      "pai-runtime has no plugin of this name"
#define WARN_NO_PLUGIN_HINT "pai-runtime has no plugin of this name; did you mean `%s`?"
#define WARN_NO_DEPLOYMENT  "none of them is in force, since defaults.deployment names none"
#define WARN_UNUSED         "no task role uses this prerequisite"
#define WARN_MISSPELT       "has no effect; did you mean `%s`?"
#define WARN_CLUSTER        "is ignored: the cluster decides it"
#define WARN_NO_NAME        "has no name and is skipped"
#define WARN_HIVED          "is ignored: the scheduler here is not HiveD"
#define WARN_GIT_URI        "is refused in the pod: plugin git clones by https:// and ssh only"
#define WARN_GIT_OPTION                                                                            \
	"is refused in the pod: plugin git takes --depth, --branch, --recursive and "              \
	"--single-branch only"
/* readable by others */
#define WARN_PASSWORD                                                                              \
	"is left out of the stored job, so that nobody can read it, and copies of the job lack "   \
	"it; put it under `secrets`, and <%% $secrets.NAME %%> here"
#define WARN_PARAMETER                                                                             \
	"others can read this, as it is stored with the job; put it under `secrets`, and write "   \
	"<%% $secrets.NAME %%> where it is needed"
#define WARN_URL    "others can read the password in this URL; use <%% $secrets.NAME %%>"
#define WARN_URL_V1 "others can read the password in this URL, as it is stored with the job"
/* v1 */
#define WARN_GPU_TYPE "is ignored: nodes are not chosen by it"
#define WARN_BEGIN_AT "is ignored: ports are chosen by the system"
#define WARN_LABEL    "becomes %s in names of variables"
#define WARN_POSITION                                                                              \
	"PAI_TASK_ROLE_%s_HOST_LIST has the tasks of this role, not of that at position %s; give " \
	"the role another name"
#define WARN_CODE "is not copied into the container; the variable PAI_CODE_DIR has its name"
#define WARN_KILL_GIVEN                                                                            \
	"is ignored: task roles have their own minFailedTaskCount or minSucceededTaskCount"
#define WARN_KILL_ROLES "counts per task role here"
#define WARN_DISTRIBUTED_V1                                                                        \
	"has no effect in v1 jobs; `rest-lit convert` writes the job as a v2 job"
#define WARN_ENV_V1 "has no effect in v1 jobs; write `jobEnvs` beside `extras`"
/* pods of Kubernetes */
#define WARN_POD_DROPPED "is left out: %s"
#define WARN_POD_UNKNOWN "is left out: pods of tasks do not have it"
#define WARN_POD_KEY     "is left out: names of this form belong to the cluster"
#define WARN_POD_NAME                                                                              \
	"is left out: of names with a domain, only those are kept that `podMetadata` in the file " \
	"of --facts lists"
#define WARN_POD_DEVICE "is taken as %s"
/* MxJobs and manifests of the launcher */
#define WARN_IGNORED "is not kept: it has no meaning here"
#define WARN_HOST_NETWORK                                                                          \
	"is not kept: the installation decides about the network; PAI_HOST_IP_* have the "         \
	"addresses of the tasks in any case"
#define WARN_CHIEF                                                                                 \
	"%lld replicas must all succeed: a Framework cannot wait for a single one of them"
#define WARN_RESTART                                                                               \
	"has no restartPolicy, which is Never here: with Always, as in Kubernetes, no task ends"
#define WARN_OLD_NAME "has the name %s, but the Framework is called %s, see PAI_JOB_NAME"
#define WARN_ENV_SET  "%s is set by the job, to %s"
