/* The table of options; flags, environment and configuration file into struct options. */
#include "server/config/options.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/doc/tree.h"
#include "jobs/cache/job_entry.h"
#include "server/config/system.h"
#include "translate/job/dialect.h"
#include "translate/translate.h"

#define AT(field)            .at = offsetof(struct options, field)
#define TEXT(f, def)         .type = OPTION_TEXT, AT(f), .text = (def)
#define CHOICE(f, def, list) .type = OPTION_CHOICE, AT(f), .text = (def), .choices = (list)
#define NUMBER(f, def, lo, hi)                                                                     \
	.type = OPTION_NUMBER, AT(f), .number = (def), .min = (lo), .max = (hi)
#define BYTES(f, def, lo, hi) .type = OPTION_BYTES, AT(f), .number = (def), .min = (lo), .max = (hi)
#define TIME(f, def, lo, hi)  NUMBER(f, def, lo, hi), .unit = "seconds"
#define SWITCH(f)             .type = OPTION_SWITCH, AT(f)
#define LIST(f)               .type = OPTION_LIST, AT(f), .flag_only = true

enum {
	TRANSLATES = FOR_SERVE | FOR_TRANSLATE,
	ALL = TRANSLATES | FOR_VALIDATE | FOR_CONVERT,
	HERE = FOR_SERVE | FOR_RUN,
	SERVES = FOR_SERVE | FOR_CONTROLLER,
	SUBMITS = FOR_SUBMIT | FOR_RESUBMIT,
	REMOTE = SUBMITS | FOR_JOBS | FOR_SHOW | FOR_STOP | FOR_LOGS | FOR_WAIT | FOR_EVENTS |
	         FOR_DELETE | FOR_BACKUP | FOR_FETCH | FOR_TOP | FOR_USAGE | FOR_REPORT | FOR_KEEP |
	         FOR_RELEASE | FOR_LOGIN | FOR_LOGOUT | FOR_EXEC | FOR_OPEN
};

static const char *const RUNTIMES[] = { "image", "configmap", NULL };
static const char *const TOKEN_CHECKS[] = { "", "stored", "signature", NULL };
static const char *const USERS[] = { "file", "openpai", NULL };
static const char *const COMPATS[] = { "", "openpai", NULL };
static const char *const VISIBILITIES[] = { "all", "vc", "owner", NULL };
static const char *const ENGINES[] = { "", "local", "none", NULL };
static const char *const FOREIGN_GPUS[] = { "wait", "ignore", NULL };
static const char *const IMAGE_SOURCES[] = { "", "host", "oci", NULL };
static const char *const OUTPUTS[] = { "", "json", "yaml", "table", NULL };
static const char *const JOB_OUTPUTS[] = { "", "job", NULL };
static const char *const TABLE_OUTPUTS[] = { "", "table", "json", "csv", NULL };

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* The API server must accept these texts: an error there would be reported as the job's. */
static const struct form NAMESPACE = { LOWER DIGITS "-", 63, true,
	                               "must be a namespace's name: a-z, 0-9 and -" };
static const struct form NAME = { LOWER DIGITS "-.", 253, true,
	                          "must be an object's name: a-z, 0-9, - and ." };
static const struct form LABEL = {
	LOWER UPPER DIGITS "-_.", 63, true,
	"must be a label's value: letters, digits, -, _ and ., at most 63"
};
static const struct form USER = { LOWER UPPER DIGITS "-_.", 63, true,
	                          "must be a user's name, such as alice or j.doe-2: letters, "
	                          "digits, -, _ and ., a letter or digit at both ends, at "
	                          "most 63" };
static const struct form RESOURCE = { LOWER UPPER DIGITS "-_./", 253, true,
	                              "must be a resource's name, such as nvidia.com/gpu" };
static const struct form IMAGE = { LOWER UPPER DIGITS "-_./:@", 512, true,
	                           "must be an image, such as registry.example/pai-runtime:1" };
static const struct form OBJECT = { LOWER DIGITS "-./", 317, true, "must be NAMESPACE/NAME" };
static const struct form NETWORKS = { LOWER UPPER DIGITS ".:/, ", 4096, false,
	                              "must be addresses or networks, separated by commas" };
static const struct form ORIGINS = { LOWER UPPER DIGITS "-.:/*[], ", 4096, false,
	                             "must be *, none, or origins such as https://pai.example, "
	                             "separated by commas" };
static const struct form URL = { LOWER UPPER DIGITS "-_./:~%[]@?=&+,", 2048, false,
	                         "must be a URL" };

static const struct form GPUS = { LOWER DIGITS, 8, false, "must be a number, auto or none" };
static const struct form SIZES = { LOWER UPPER DIGITS, 20, false,
	                           "must be a size, such as 10GiB, or none" };
static const struct form JOB_NAME = { LOWER UPPER DIGITS "-_.~", 255, false,
	                              "must be a job's name: letters, digits, -, _, . and ~" };
static void state_names(struct str *out, const char *between)
{
	for (size_t i = 0; i < JOB_UNKNOWN; i++)
		str_printf(out, "%s%s", i ? between : "", JOB_STATES[i]);
}

static void sort_names(struct str *out, const char *between)
{
	static const char *const SORTS[] = { "name", "user", "state", "age", "gpus", "vc" };
	for (size_t i = 0; i < ARRAY_SIZE(SORTS); i++)
		str_printf(out, "%s%s", i ? between : "", SORTS[i]);
}

static void report_names(struct str *out, const char *between)
{
	static const char *const COLUMNS[] = { "user", "virtualCluster", "week" };
	for (size_t i = 0; i < ARRAY_SIZE(COLUMNS); i++)
		str_printf(out, "%s%s", i ? between : "", COLUMNS[i]);
}

static const struct form STATES = { LOWER UPPER ",", 256, false,
	                            "must be states, separated by commas" };

const char *const OPTION_GROUPS[GROUP_MAX] = {
	[GROUP_SERVER] = "Server",
	[GROUP_STORE] = "Object store (default in a pod: its service account)",
	[GROUP_LOCAL] = "Jobs on this machine",
	[GROUP_AUTH] = "Authentication",
	[GROUP_CLIENTS] = "Access of clients",
	[GROUP_JOBS] = "Following jobs",
	[GROUP_PODS] = "Pods",
	[GROUP_HIVED] = "Scheduling by HiveD",
	[GROUP_REMOTE] = "Connection to the server",
	[GROUP_COMMAND] = "A job of a command (with a job file: the file says it)",
	[GROUP_JOB] = "Job",
	[GROUP_OUTPUT] = "Output",
	[GROUP_LIMITS] = "Limits",
};

/* clang-format off */
const struct option OPTIONS[] = {
	{ "config", GROUP_SERVER, ALL | REMOTE | FOR_RUN, true, TEXT(config, ""), .value = "FILE",
	  .help = "YAML file with options" },
	{ "listen", GROUP_SERVER, SERVES, true, TEXT(listen, "127.0.0.1:9186"), .value = "ADDRESS:PORT",
	  .help = "listen address; port 0: any" },
	{ "socket", GROUP_SERVER, FOR_SERVE, false, TEXT(socket, ""), .value = "PATH",
	  .help = "Unix socket whose users are the accounts of this machine, without tokens; needs --local; default: none" },
	{ "metrics-listen", GROUP_SERVER, FOR_SERVE, false, TEXT(metrics_listen, ""), .value = "ADDRESS:PORT",
	  .help = "separate port for GET /metrics, without authentication, see METRICS.md; TLS as with --listen; default: none" },
	{ "loops", GROUP_SERVER, FOR_SERVE, false, NUMBER(loops, 0, 0, 64), .value = "N",
	  .help = "threads that serve requests; 0: one per core, at most 4" },
	{ "drain-delay", GROUP_SERVER, FOR_SERVE, false, NUMBER(drain_delay_s, 0, 0, 3600), .unit = "seconds", .value = "N",
	  .help = "time after SIGTERM during which requests are still accepted and /readyz answers 503; about 5 in a pod" },
	{ "instance", GROUP_SERVER, FOR_SERVE, false, TEXT(instance, "default"), .form = &LABEL, .value = "NAME",
	  .help = "name of this installation, the label rest-lit/instance of its objects" },

	{ "local", GROUP_STORE, FOR_SERVE, true, TEXT(local, ""), .value = "DIR",
	  .help = "run jobs on this machine and keep them in DIR; default outside of pods: " LOCAL_DIR },
	{ "kubeconfig", GROUP_STORE, SERVES, true, TEXT(kubeconfig, ""), .value = "FILE",
	  .help = "use the API server of this kubeconfig file" },
	{ "context", GROUP_STORE, SERVES, false, TEXT(context, ""), .value = "NAME",
	  .help = "context of the kubeconfig file; default: its current-context" },
	{ "apiserver", GROUP_STORE, SERVES, true, TEXT(apiserver, ""), .value = "URL",
	  .help = "use the API server at this address" },
	{ "apiserver-ca", GROUP_STORE, SERVES, false, TEXT(apiserver_ca, ""), .value = "FILE",
	  .help = "its CA certificate (PEM); reloaded on change" },
	{ "apiserver-token-file", GROUP_STORE, SERVES, false, TEXT(apiserver_token_file, ""), .value = "FILE",
	  .help = "bearer token for it; reloaded on change" },
	{ "namespace", GROUP_STORE, TRANSLATES | FOR_CONTROLLER, true, TEXT(namespace_name, ""), .form = &NAMESPACE, .value = "NAME",
	  .help = "namespace of jobs; default: from the credentials, else `default`; of controller: all namespaces" },
	{ "controller-config", GROUP_STORE, FOR_CONTROLLER, true, TEXT(controller_config, ""), .value = "FILE",
	  .help = "frameworkcontroller.yaml: exit codes with their retry policy, and delays; default: the built-in one" },

	{ "engine", GROUP_LOCAL, FOR_SERVE, true, CHOICE(engine, "", ENGINES), .value = "WHICH",
	  .help = "local (default), or none: jobs are only kept" },
	{ "cpus", GROUP_LOCAL, FOR_SERVE, false, NUMBER(cpus, 0, 0, 65536), .no_variable = true, .value = "N",
	  .help = "CPUs that all jobs together may use; 0: those of the machine" },
	{ "memory", GROUP_LOCAL, FOR_SERVE, false, BYTES(memory, 0, 0, 65536 * GIB), .no_variable = true, .value = "N",
	  .help = "memory that all jobs together may use; 0: that of the machine" },
	{ "gpus", GROUP_LOCAL, FOR_SERVE, true, TEXT(gpus, "auto"), .form = &GPUS, .no_variable = true, .value = "N",
	  .help = "GPUs that all jobs together may use: a number, none or auto" },
	{ "gpu-devices", GROUP_LOCAL, HERE, false, TEXT(gpu_devices, ""), .value = "PATTERN",
	  .help = "each file of this pattern is a GPU; default: those in CDI files, else /dev/nvidia[0-9]*" },
	{ "foreign-gpus", GROUP_LOCAL, HERE, false, CHOICE(foreign_gpus, "wait", FOREIGN_GPUS), .value = "HOW",
	  .help = "GPUs that programs outside use: jobs wait for them, or ignore the programs" },
	{ "gpu-idle", GROUP_LOCAL, FOR_SERVE, false, TIME(gpu_idle_s, 1800, 0, INT32_MAX), .value = "TIME",
	  .help = "a job all of whose GPUs do nothing for so long is shown as idle, and --webhook is told; 0: never" },
	{ "gpu-idle-stop", GROUP_LOCAL, FOR_SERVE, false, TIME(gpu_idle_stop_s, 0, 0, INT32_MAX), .value = "TIME",
	  .help = "such a job is stopped so long after that, unless `rest-lit keep` was called; 0: never" },
	{ "images", GROUP_LOCAL, HERE, true, CHOICE(images, "", IMAGE_SOURCES), .value = "FROM",
	  .help = "files of tasks: host, this machine's (default of run), or oci, their image's (of serve, with skopeo and umoci)" },
	{ "mount", GROUP_LOCAL, FOR_RUN, true, LIST(mount), .value = "DIR[:PATH][:rw],...",
	  .help = "further directories for the tasks, read-only unless they end in :rw" },
	{ "mount", GROUP_LOCAL, FOR_SERVE, false, LIST(mount), .value = "DIR[:PATH][:rw],...",
	  .help = "directories for the tasks of all jobs, read-only unless they end in :rw; with --no-auth only" },
	{ "keep-logs", GROUP_LOCAL, FOR_SERVE, false, BYTES(keep_logs, GIB, MIB, 65536 * GIB), .value = "N",
	  .help = "size of the logs of ended tasks; the oldest of the user who has most are deleted first" },
	{ "keep-results", GROUP_LOCAL, FOR_SERVE, false, TEXT(keep_results, "10GiB"), .form = &SIZES, .value = "N",
	  .help = "size of the results of ended jobs; the oldest of the user who has most are deleted first; none: jobs have no results" },

	{ "no-auth", GROUP_AUTH, FOR_SERVE, true, SWITCH(no_auth),
	  .help = "treat every client as --user; loopback only" },
	{ "user", GROUP_AUTH, ALL | FOR_TOKEN | FOR_JOBS | FOR_TOP | FOR_LOGIN, true, TEXT(user, ""), .form = &USER, .value = "NAME",
	  .help = "owner of the jobs or the token; default of translate, login: $USER, of jobs, top: all" },
	{ "jwt-secret-file", GROUP_AUTH, FOR_SERVE | FOR_TOKEN, true, TEXT(jwt_secret_file, ""), .value = "FILE",
	  .help = "secret that signs tokens (HS256)" },
	{ "token-check", GROUP_AUTH, FOR_SERVE, true, CHOICE(token_check, "", TOKEN_CHECKS), .value = "HOW",
	  .help = "signature (default without OpenPAI), or stored: the token must also be in the user's Secret" },
	{ "deny-list", GROUP_AUTH, FOR_SERVE, false, TEXT(deny_list, ""), .form = &OBJECT, .value = "NAMESPACE/NAME",
	  .help = "existing Secret for hashes of revoked tokens; needed to revoke tokens with --token-check=signature" },
	{ "issuers", GROUP_AUTH, FOR_SERVE, false, TEXT(issuers, ""), .value = "FILE",
	  .help = "trusted RS256 and ES256 issuers and service accounts, see schema issuers; reloaded on SIGHUP" },
	{ "users", GROUP_AUTH, FOR_SERVE, false, CHOICE(users, "file", USERS), .value = "FROM",
	  .help = "source of users and groups: file (--facts; without that file, all owners of a valid token), or openpai: its Secrets and PVCs" },
	{ "token-lifetime", GROUP_AUTH, FOR_SERVE | FOR_TOKEN, false, NUMBER(token_lifetime_s, 604800, 60, 31536000), .unit = "seconds", .value = "N",
	  .help = "lifetime of tokens from a login or from `rest-lit token`" },
	{ "application", GROUP_AUTH, FOR_TOKEN, true, SWITCH(application), .flag_only = true,
	  .help = "make an application token, which does not expire" },

	{ "tls-cert", GROUP_CLIENTS, FOR_SERVE, true, TEXT(tls_cert, ""), .value = "FILE",
	  .help = "serve HTTPS with this certificate chain (PEM)" },
	{ "tls-key", GROUP_CLIENTS, FOR_SERVE, false, TEXT(tls_key, ""), .value = "FILE",
	  .help = "private key for --tls-cert (PEM)" },
	{ "behind-proxy", GROUP_CLIENTS, FOR_SERVE, false, SWITCH(behind_proxy),
	  .help = "allow plain HTTP beyond loopback, because a proxy terminates TLS" },
	{ "output-listen", GROUP_CLIENTS, FOR_SERVE, false, TEXT(output_listen, ""), .value = "ADDRESS:PORT",
	  .help = "separate port on which pods upload the end of their output, for a NetworkPolicy of its own; it has TLS" },
	{ "trusted-proxy", GROUP_CLIENTS, FOR_SERVE, false, TEXT(trusted_proxy, ""), .form = &NETWORKS, .value = "ADDRESS[/BITS],...",
	  .help = "peers whose X-Forwarded-For is used (its last entry)" },
	{ "cors", GROUP_CLIENTS, FOR_SERVE, false, TEXT(cors, "*"), .form = &ORIGINS, .value = "ORIGIN,...",
	  .help = "allowed CORS origins: *, none, or a list; none with --no-auth" },
	{ "no-page", GROUP_CLIENTS, FOR_SERVE, false, SWITCH(no_page),
	  .help = "no web page: GET / is text for browsers, too" },
	{ "compat", GROUP_CLIENTS, FOR_SERVE, true, CHOICE(compat, "", COMPATS), .value = "CLIENTS",
	  .help = "openpai: answers for its clients, see HTTP.md" },
	{ "rate-address", GROUP_CLIENTS, FOR_SERVE, false, NUMBER(rate_address, 600, 0, 10000000), .value = "N",
	  .help = "requests per minute and client address (IPv6: /64; loopback: account or user); over the limit the answer is 429; 0: no limit; ignored with --no-auth" },
	{ "rate-submit", GROUP_CLIENTS, FOR_SERVE, false, NUMBER(rate_submit, 3600, 0, 10000000), .value = "N",
	  .help = "submitted jobs per hour and user; 0: no limit; ignored with --no-auth" },

	{ "visibility", GROUP_JOBS, FOR_SERVE, false, CHOICE(visibility, "vc", VISIBILITIES), .value = "WHOM",
	  .help = "readers of a job's configuration, events and logs: all users, vc: users of its virtual cluster, or owner; the owner and admins always" },
	{ "cache-memory", GROUP_JOBS, FOR_SERVE, false, BYTES(cache_memory, 256 * MIB, MIB, 65536 * MIB), .value = "N",
	  .help = "memory of the job cache; details beyond it are read from the API server" },
	{ "exit-spec", GROUP_JOBS, FOR_SERVE, false, TEXT(exit_spec, ""), .value = "FILE",
	  .help = "meaning of exit codes, replaces the built-in k8s-job-exit-spec.yaml" },
	{ "history", GROUP_JOBS, FOR_SERVE, false, NUMBER(history, 10, 0, 100), .value = "N",
	  .help = "earlier attempts kept per job, one ConfigMap each, deleted with the job; 0: none" },
	{ "max-duration", GROUP_JOBS, HERE | TRANSLATES | FOR_VALIDATE, false, NUMBER(max_duration_s, 0, 0, INT32_MAX), .unit = "seconds", .value = "N",
	  .help = "a job is stopped so long after its first task has started, unless its extras.maxDurationSec is less; more is refused; 0: no limit" },
	{ "webhook", GROUP_JOBS, FOR_SERVE, false, TEXT(webhook, ""), .form = &URL, .value = "URL",
	  .help = "report the end of each job by a signed POST to this address: WEBHOOK.md" },
	{ "webhook-secret-file", GROUP_JOBS, FOR_SERVE, false, TEXT(webhook_secret_file, ""), .value = "FILE",
	  .help = "secret that signs these reports, at least 16 bytes; SIGHUP reads it again" },
	{ "webhook-allow-private", GROUP_JOBS, FOR_SERVE, false, SWITCH(webhook_allow_private),
	  .help = "allow --webhook to have an address that is not public, and http://" },
	{ "output-bytes", GROUP_JOBS, FOR_SERVE, false, BYTES(output_bytes, 4 * MIB, 64 * KIB, 256 * MIB), .value = "N",
	  .help = "compressed output of ended tasks kept per job; FOLLOWING.md says what is deleted first" },

	{ "profile", GROUP_PODS, ALL, true, CHOICE(profile, "plain", PROFILE_NAMES), .value = "NAME",
	  .help = "plain, restricted, or openpai: root on nodes" },
	{ "templates", GROUP_PODS, ALL, true, TEXT(templates, ""), .value = "DIR",
	  .help = "directory with replacements of templates" },
	{ "facts", GROUP_PODS, TRANSLATES, true, TEXT(facts, ""), .value = "FILE",
	  .help = "virtual clusters, storages, users and groups, see schema facts; serve reloads it on SIGHUP" },
	{ "runtime", GROUP_PODS, TRANSLATES, true, CHOICE(runtime, "image", RUNTIMES), .value = "HOW",
	  .help = "source of pai-runtime in pods: image, or configmap: the program itself" },
	{ "runtime-image", GROUP_PODS, TRANSLATES, false, TEXT(runtime_image, ""), .form = &IMAGE, .value = "IMAGE",
	  .help = "image of the init container; default: " RUNTIME_IMAGE ", with --runtime=configmap the job's own" },
	{ "runtime-binary", GROUP_PODS, TRANSLATES, false, TEXT(runtime_binary, ""), .value = "FILE[,FILE]",
	  .help = "static pai-runtime for --runtime=configmap, for two architectures with comma; default: the one next to this program" },
	{ "runtime-pull-secret", GROUP_PODS, TRANSLATES, false, TEXT(runtime_pull_secret, ""), .form = &NAME, .value = "NAME",
	  .help = "Secret with which pods pull the init container's image" },
	{ "output-url", GROUP_PODS, TRANSLATES, false, TEXT(output_url, ""), .form = &URL, .value = "URL",
	  .help = "address of --output-listen for pods, https://HOST:PORT; default: that of the Service rest-lit-output" },
	{ "output-ca", GROUP_PODS, FOR_SERVE, false, TEXT(output_ca, ""), .value = "FILE",
	  .help = "CA of --tls-cert, so that --output-listen uses this too (PEM), for pods; default: the server makes a certificate" },
	{ "device", GROUP_PODS, TRANSLATES, false, TEXT(device, "nvidia.com/gpu"), .form = &RESOURCE, .value = "NAME",
	  .help = "Kubernetes resource for `gpu` of a job" },
	{ "fs-uri", GROUP_PODS, TRANSLATES | FOR_CONVERT, false, TEXT(fs_uri, ""), .form = &URL, .value = "URL",
	  .help = "PAI_DEFAULT_FS_URI of v1 jobs" },
	{ "port-start", GROUP_PODS, ALL, false, NUMBER(port_start, 15000, 1, 65535), .value = "N",
	  .help = "first port for tasks" },
	{ "port-end", GROUP_PODS, ALL, false, NUMBER(port_end, 40000, 2, 65536), .value = "N",
	  .help = "port after the last port for tasks" },
	{ "priority-class", GROUP_PODS, TRANSLATES, false, SWITCH(priority_class),
	  .help = "make a PriorityClass per job, so that older jobs are scheduled first" },
	{ "dialects", GROUP_PODS, FOR_SERVE, false, TEXT(dialects, ""), .value = "NAMES", .names = dialects_optional,
	  .help = "also take jobs with pods of their own, in these dialects, separated by commas" },
	{ "default-image", GROUP_PODS, FOR_SERVE, false, TEXT(default_image, ""), .form = &IMAGE, .value = "IMAGE",
	  .help = "image of jobs that are submitted as a command, without --image" },
	{ "fetch-code", GROUP_PODS, ALL, false, SWITCH(fetch_code),
	  .help = "v1 jobs: copy codeDir from HDFS before the command" },

	{ "hived-config", GROUP_HIVED, ALL, true, TEXT(hived_config, ""), .value = "FILE",
	  .help = "HiveD's configuration file; HiveD schedules all jobs; serve reloads it on SIGHUP" },
	{ "hived-webservice", GROUP_HIVED, FOR_SERVE, false, TEXT(hived_webservice, ""), .form = &URL, .value = "URL",
	  .help = "HiveD's web service, for the current state of virtual clusters; without an answer only --hived-config is used" },
	{ "hived-webservice-ca", GROUP_HIVED, FOR_SERVE, false, TEXT(hived_webservice_ca, ""), .value = "FILE",
	  .help = "CA certificate of --hived-webservice (PEM); default: the system's" },

	{ "with-runtime", GROUP_OUTPUT, FOR_TRANSLATE, false, SWITCH(with_runtime), .flag_only = true,
	  .help = "print the ConfigMap of --runtime=configmap first" },

	{ "hand-back", GROUP_OUTPUT, FOR_CHECK, true, SWITCH(hand_back), .flag_only = true,
	  .help = "instead, list what a return to FrameworkController would lose" },

	{ "server", GROUP_REMOTE, REMOTE, true, TEXT(server, ""), .form = &URL, .value = "URL",
	  .help = "https://HOST[:PORT][/PATH]; http for loopback only; unix:PATH: the --socket of a server; default: without a --token-file " SOCKET_PATH ", if it is there, else http://127.0.0.1:9186" },
	{ "token-file", GROUP_REMOTE, REMOTE, true, TEXT(token_file, ""), .value = "FILE",
	  .help = "file with the bearer token, - for standard input" },
	{ "ca-file", GROUP_REMOTE, REMOTE, true, TEXT(ca_file, ""), .value = "FILE",
	  .help = "CA certificate of the server (PEM); default: the system's" },
	{ "timeout", GROUP_REMOTE, REMOTE, true, NUMBER(timeout_s, 0, 0, 31536000), .unit = "seconds", .value = "N",
	  .help = "limit for the whole command, waiting for the job included; 0: no limit" },

	{ "gpus", GROUP_COMMAND, FOR_COMMANDS, true, NUMBER(ask_gpus, 0, 0, INT32_MAX), .flag_only = true, .value = "N",
	  .help = "GPUs that the job asks for (of serve: that all its jobs may use); default: none" },
	{ "cpus", GROUP_COMMAND, FOR_COMMANDS, true, NUMBER(ask_cpus, 0, 0, INT32_MAX), .flag_only = true, .value = "N",
	  .help = "CPUs that the job asks for; default: the share of its GPUs, else no limit, of submit 4; also -c" },
	{ "memory", GROUP_COMMAND, FOR_COMMANDS, true, BYTES(ask_memory, 0, 0, 65536 * GIB), .flag_only = true, .value = "SIZE",
	  .help = "memory that the job asks for: 8G, 8GiB and 8192M are the same; default: likewise, of submit 8GiB; also -m" },
	{ "image", GROUP_COMMAND, FOR_COMMANDS, true, TEXT(image, ""), .flag_only = true, .form = &IMAGE, .value = "IMAGE",
	  .help = "image of the job; of run: implies --images oci; of submit: default is the server's" },
	{ "results", GROUP_COMMAND, FOR_COMMANDS, true, TEXT(results, ""), .flag_only = true, .value = "PATH",
	  .help = "directory whose files are kept, in the working directory or absolute; default: results" },
	{ "no-results", GROUP_COMMAND, FOR_COMMANDS, true, SWITCH(no_results), .flag_only = true,
	  .help = "no directory for results" },

	{ "storage", GROUP_COMMAND, FOR_SUBMIT, true, LIST(storage), .value = "NAME[:PATH]",
	  .help = "a storage of the job, at PATH or /mnt/NAME; default: those that the user has by default; may be repeated" },
	{ "no-storage", GROUP_COMMAND, FOR_SUBMIT, true, SWITCH(no_storage), .flag_only = true,
	  .help = "no storages, also not those that the user has by default" },

	{ "code", GROUP_JOB, FOR_SUBMIT, true, TEXT(code, ""), .flag_only = true, .value = "DIR",
	  .help = "send the files of this directory along; of a command: the current directory" },
	{ "set", GROUP_JOB, SUBMITS, true, LIST(set), .value = "NAME=VALUE",
	  .help = "value of a parameter, as YAML; may be repeated" },
	{ "env", GROUP_JOB, SUBMITS, true, LIST(env), .value = "NAME[=VALUE]",
	  .help = "environment variable of the tasks; without a value that of here; may be repeated" },
	{ "secret", GROUP_JOB, SUBMITS, true, LIST(secret), .value = "NAME[=VALUE]",
	  .help = "a secret: for <% $secrets.NAME %> of a file, else the variable NAME; may be repeated" },
	{ "sweep", GROUP_JOB, FOR_SUBMIT, true, LIST(sweep), .value = "NAME=VALUE,...",
	  .help = "submit a job for each value, or each number of 1..5; several: for each combination" },
	{ "max-running", GROUP_JOB, FOR_SUBMIT, true, NUMBER(max_running, 0, 0, 100000), .flag_only = true, .value = "N",
	  .help = "run so many of the jobs with this tag at once; 0: no limit" },
	{ "after", GROUP_JOB, FOR_SUBMIT, true, TEXT(after, ""), .flag_only = true, .value = "JOB,...",
	  .help = "start when these jobs have succeeded; if one fails, the job is stopped" },
	{ "after-any", GROUP_JOB, FOR_SUBMIT, true, TEXT(after_any, ""), .flag_only = true, .value = "JOB,...",
	  .help = "start when these jobs have ended, in whatever way" },
	{ "begin", GROUP_JOB, FOR_SUBMIT, true, TEXT(begin, ""), .flag_only = true, .value = "TIME",
	  .help = "start not before this time: 22:00 or 2026-12-01T22:00 of the server, +2h, 2026-12-01T22:00:00Z" },
	{ "hold", GROUP_JOB, FOR_SUBMIT, true, SWITCH(hold), .flag_only = true,
	  .help = "do not start the job until rest-lit release" },
	{ "yes", GROUP_JOB, FOR_SUBMIT, true, SWITCH(yes), .flag_only = true,
	  .help = "submit the jobs of --sweep without a question" },
	{ "tag", GROUP_JOB, SUBMITS | FOR_JOBS | FOR_STOP | FOR_RELEASE | FOR_DELETE | FOR_WAIT, true, LIST(tag), .value = "TAG",
	  .help = "of submit and resubmit: tag of the job; else: only, or all, jobs with this tag; may be repeated" },

	{ "wait", GROUP_OUTPUT, SUBMITS, true, SWITCH(wait), .flag_only = true,
	  .help = "show the job's progress until it has ended" },
	{ "logs", GROUP_OUTPUT, SUBMITS | FOR_RUN, true, SWITCH(logs), .flag_only = true,
	  .help = "wait, and print the output of the tasks" },
	{ "pty", GROUP_OUTPUT, FOR_RUN, true, SWITCH(pty), .flag_only = true,
	  .help = "give the command a terminal, by default a shell" },
	{ "name", GROUP_OUTPUT, SUBMITS, true, TEXT(name, ""), .flag_only = true, .form = &JOB_NAME, .value = "NAME",
	  .help = "name of the job; default of submit: that in the file, of resubmit: the old one with a new number" },
	{ "follow", GROUP_OUTPUT, FOR_LOGS, true, SWITCH(follow), .flag_only = true,
	  .help = "also print what is written until the tasks have ended; also -f" },
	{ "dry-run", GROUP_OUTPUT, FOR_SUBMIT, true, SWITCH(dry_run), .flag_only = true,
	  .help = "print the objects without creating them" },
	{ "state", GROUP_OUTPUT, FOR_JOBS, true, TEXT(state, ""), .flag_only = true, .form = &STATES, .value = "STATE,...", .names = state_names,
	  .help = "only jobs in these states" },
	{ "metric", GROUP_OUTPUT, FOR_JOBS, true, TEXT(metric, ""), .flag_only = true, .value = "NAME",
	  .help = "compare the jobs: the last number after NAME in the log of each, and the parameters that differ" },
	{ "sort", GROUP_OUTPUT, FOR_JOBS, true, TEXT(sort, ""), .flag_only = true, .value = "COLUMN", .names = sort_names,
	  .help = "order of the jobs, also NAME of --metric, the smallest first; default: newest first" },
	{ "watch", GROUP_OUTPUT, FOR_JOBS, true, SWITCH(watch), .flag_only = true,
	  .help = "show the jobs again and again, until Ctrl-C" },
	{ "for", GROUP_OUTPUT, FOR_KEEP, true, TIME(keep_s, 86400, 3600, INT32_MAX), .flag_only = true, .value = "TIME",
	  .help = "keep the job for so long, in addition to what it has: hours, 90m counts as 2" },
	{ "reason", GROUP_OUTPUT, FOR_KEEP, true, TEXT(reason, ""), .flag_only = true, .value = "TEXT",
	  .help = "why it needs GPUs that do nothing, at most 200 bytes; kept in its annotation rest-lit/gpu-keep" },
	{ "terminal", GROUP_OUTPUT, FOR_EXEC, true, SWITCH(terminal), .flag_only = true,
	  .help = "with a terminal, which is the default if input and output are one; also -t" },
	{ "no-terminal", GROUP_OUTPUT, FOR_EXEC, true, SWITCH(no_terminal), .flag_only = true,
	  .help = "without a terminal: all bytes arrive as they are; also -T" },
	{ "tail", GROUP_OUTPUT, FOR_LOGS | FOR_TOP, true, NUMBER(tail, -1, -1, INT32_MAX), .flag_only = true, .value = "N",
	  .help = "only the last N lines of each task; -1: all; of top: show it N times; also -n" },
	{ "since", GROUP_OUTPUT, FOR_LOGS | FOR_REPORT, true, TEXT(since, ""), .flag_only = true, .value = "TIME",
	  .help = "only what was written, or held, since a time, 2026-11-27 or 2026-11-27T10:00:00Z, or in the last 90s, 5m, 2h, 1d" },
	{ "until", GROUP_OUTPUT, FOR_REPORT, true, TEXT(until, ""), .flag_only = true, .value = "TIME",
	  .help = "only what was held until a time; default: now" },
	{ "by", GROUP_OUTPUT, FOR_REPORT, true, TEXT(by, ""), .flag_only = true, .value = "COLUMN,...", .names = report_names,
	  .help = "a row for each of these; default: user" },
	{ "csv", GROUP_OUTPUT, FOR_REPORT, true, SWITCH(csv), .flag_only = true,
	  .help = "print the table as CSV" },
	{ "limit", GROUP_OUTPUT, FOR_JOBS, true, NUMBER(limit, 0, 0, 50000), .flag_only = true, .value = "N",
	  .help = "number of jobs, newest first; 0: 50, with --metric 200, which is the most there" },
	{ "output", GROUP_OUTPUT, FOR_TRANSLATE | FOR_SHOW | FOR_EVENTS | FOR_USAGE, true, CHOICE(output, "", OUTPUTS), .flag_only = true, .value = "FORMAT",
	  .help = "translate: json (default) or yaml; show, events and usage: table (default) or the server's json; also -o" },
	{ "output", GROUP_OUTPUT, FOR_JOBS, true, CHOICE(output, "", TABLE_OUTPUTS), .flag_only = true, .value = "FORMAT",
	  .help = "table (default) or the server's json; with --metric table or csv; also -o" },

	{ "output", GROUP_OUTPUT, FOR_SUBMIT, true, CHOICE(output, "", JOB_OUTPUTS), .flag_only = true, .value = "FORMAT",
	  .help = "with --dry-run: job prints the job file, default: the objects; also -o" },
	{ "code", GROUP_OUTPUT, FOR_FETCH, true, SWITCH(fetches_code), .flag_only = true,
	  .help = "instead, fetch the code of the job, to a new directory" },
	{ "list", GROUP_OUTPUT, FOR_FETCH, true, SWITCH(list), .flag_only = true,
	  .help = "instead, print sizes and paths of the results" },
	{ "force", GROUP_OUTPUT, FOR_FETCH, true, SWITCH(force), .flag_only = true,
	  .help = "replace files that are there with another content" },
	{ "output", GROUP_OUTPUT, FOR_FETCH, true, TEXT(directory, ""), .flag_only = true, .value = "DIR",
	  .help = "directory for the files; - prints one file; also -o" },

	{ "max-body", GROUP_LIMITS, FOR_SERVE, false, BYTES(max_body, 100 * KIB, KIB, 16 * MIB), .value = "N",
	  .help = "size of a request body; over the limit the answer is 413" },
	{ "connections", GROUP_LIMITS, FOR_SERVE, false, NUMBER(connections, 2000, 1, 100000), .value = "N",
	  .help = "connections per loop; over the limit the one idle for longest is closed" },
	{ "connections-per-address", GROUP_LIMITS, FOR_SERVE, false, NUMBER(connections_per_address, 64, 0, 100000), .value = "N",
	  .help = "connections per client address (IPv6: /64; loopback: account) over all loops; 0: no limit; ignored for --trusted-proxy and with --no-auth" },
};
/* clang-format on */
const size_t N_OPTIONS = ARRAY_SIZE(OPTIONS);

const struct option *option_find(struct span name, unsigned commands)
{
	const struct option *first = NULL;
	for (const struct option *p = OPTIONS; p < OPTIONS + N_OPTIONS; p++) {
		if (!span_is(name, p->name))
			continue;
		if (p->commands & commands)
			return p;
		first = first ? first : p;
	}
	return first;
}

bool option_fits(const struct form *form, struct span text)
{
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] == '\0' || !strchr(form->letters, text.p[i]))
			return false;
	bool any_ends = text.n == 0 || !form->alnum_ends;
	return text.n <= form->max &&
	       (any_ends || (is_alnum(text.p[0]) && is_alnum(text.p[text.n - 1])));
}

/* Returns the name of the option of these commands that is nearest to this one, or NULL. */
static const char *option_nearest(struct span name, unsigned commands)
{
	struct guess g = { .name = name };
	for (const struct option *p = OPTIONS; p < OPTIONS + N_OPTIONS; p++)
		if (p->commands & commands)
			guess_try(&g, p->name);
	return g.best;
}

void option_variable(struct str *out, const char *name)
{
	str_puts(out, "REST_LIT_");
	for (const char *p = name; *p; p++)
		str_char(out, (char)(*p == '-' ? '_' : is_lower(*p) ? *p - 'a' + 'A' : *p));
}

void option_default(struct str *out, const struct option *o)
{
	static const char *const UNITS[] = { "", "KiB", "MiB", "GiB" };
	int64_t n = o->number;
	size_t unit = 0;
	switch (o->type) {
	case OPTION_TEXT:
	case OPTION_CHOICE:
		str_puts(out, o->text);
		break;
	case OPTION_NUMBER:
		str_int(out, o->number);
		break;
	case OPTION_BYTES:
		while (n && unit + 1 < ARRAY_SIZE(UNITS) && n % 1024 == 0) {
			n /= 1024;
			unit++;
		}
		str_int(out, n);
		str_puts(out, UNITS[unit]);
		break;
	case OPTION_SWITCH:
		str_puts(out, "false");
		break;
	case OPTION_LIST:
	case OPTION_TYPE_MAX:
		break;
	}
}

/* ---- values ---- */

enum { CONFIG_MAX = 1 << 20, NAME_LIMIT = 64 };

/* The origin of a value, for messages: "--listen", "REST_LIT_LISTEN", or a place in the file. */
struct origin {
	const char *what;
	struct place where;
};

static void *option_field(struct options *o, const struct option *option)
{
	return (char *)o + option->at;
}

void option_reset(struct options *o, const struct option *option)
{
	if (option->type == OPTION_TEXT || option->type == OPTION_CHOICE)
		*(const char **)option_field(o, option) = option->text;
	else if (option->type == OPTION_NUMBER || option->type == OPTION_BYTES)
		*(int64_t *)option_field(o, option) = option->number;
}

/* value: the wrong value; NULL: it is not shown. */
static int option_wrong(const struct origin *from, struct err *e, const char *text,
                        const char *value)
{
	char shown[4 * QUOTE_MAX];
	return err_at(e, 400, "InvalidOption", from->where, "%s: %s%s%s%s", from->what, text,
	              value ? ", is \"" : "", value ? quote(shown, span_of(value)) : "",
	              value ? "\"" : "");
}

/* The error for a fixed limit that is set like an option.  0: the name is that of none. */
static int option_fixed_error(struct span name, const struct origin *from, struct err *e)
{
	const struct option *limit = limit_find(name);
	STR_AUTO value = STR_INIT(256);
	if (!limit)
		return 0;
	option_default(&value, limit);
	if (limit->unit)
		str_printf(&value, " %s", limit->unit);
	return err_at(e, 400, "InvalidOption", from->where,
	              "%s is fixed at %s, and not an option; see " REST_LIT_DOCS "/OPTIONS.md",
	              from->what, str_c(&value));
}

static int option_flag_only_error(const struct option *option, const struct origin *from,
                                  struct err *e)
{
	return err_at(e, 400, "InvalidOption", from->where, "%s: --%s is a flag %s", from->what,
	              option->name,
	              option->flag_only ? "only, without a variable or a key"
	                                : "and a key of the configuration, without a variable");
}

static int option_set_choice(struct options *o, const struct option *option, const char *value,
                             const struct origin *from, struct err *e)
{
	STR_AUTO list = STR_INIT(256);
	for (const char *const *c = option->choices; *c; c++) {
		if (strcmp(value, *c) == 0) {
			*(const char **)option_field(o, option) = *c;
			return 0;
		}
		/* "" means "not set". */
		if (**c)
			str_printf(&list, "%s%s", list.n ? " or " : "must be ", *c);
	}
	return option_wrong(from, e, str_c(&list), value);
}

int option_number(struct span text, bool bytes, int64_t *out)
{
	static const char UNITS[] = "kmgt";
	const char *unit = NULL;
	size_t end = text.n;
	end -= end && to_lower(text.p[end - 1]) == 'b';
	end -= end && to_lower(text.p[end - 1]) == 'i';
	if (bytes && end && (unit = strchr(UNITS, to_lower(text.p[end - 1]))))
		text.n = end - 1;
	int64_t n;
	int shift = unit ? 10 * (int)(unit - UNITS + 1) : 0;
	if (parse_i64(text, 0, INT64_MAX >> shift, &n) < 0)
		return -1;
	*out = n << shift;
	return 0;
}

int option_time(struct span text, int64_t *out)
{
	static const char UNITS[] = "smhd";
	static const int64_t SECONDS[] = { 1, 60, 3600, 86400 };
	const char *unit = text.n > 1 ? strchr(UNITS, text.p[text.n - 1]) : NULL;
	int64_t n;
	if (parse_i64(span_to(text, text.n - (unit != NULL)), 0, INT32_MAX, &n) < 0)
		return -1;
	*out = n * (unit ? SECONDS[unit - UNITS] : 1);
	return 0;
}

static int option_set_number(struct options *o, const struct option *option, const char *value,
                             const struct origin *from, struct err *e)
{
	bool bytes = option->type == OPTION_BYTES;
	bool time = option->unit && strcmp(option->unit, "seconds") == 0;
	int64_t n;
	if (bytes && parse_i64(span_of(value), 1, MIB - 1, &n) == 0) /* of memory, for example */
		return err_at(e, 400, "InvalidOption", from->where,
		              "%s: %s without a unit means bytes; did you mean %sMiB or %sGiB?",
		              from->what, value, value, value);
	if ((time ? option_time(span_of(value), &n) : option_number(span_of(value), bytes, &n)) <
	        0 ||
	    n < option->min || n > option->max) {
		STR_AUTO text = STR_INIT(256);
		str_printf(&text, "must be a number from %ld to %ld", (long)option->min,
		           (long)option->max);
		if (option->unit || bytes)
			str_printf(&text, " (%s)",
			           time           ? "seconds; 90s, 30m, 12h and 1d are valid"
			           : option->unit ? option->unit
			                          : "bytes; 64KiB, 300M and 16GiB are valid");
		return option_wrong(from, e, str_c(&text), value);
	}
	*(int64_t *)option_field(o, option) = n;
	return 0;
}

static int option_set(struct options *o, const struct option *option, const char *value,
                      const struct origin *from, struct err *e)
{
	bool on = strcmp(value, "true") == 0;
	struct option_list *list;
	const char **longer;
	switch (option->type) {
	case OPTION_TEXT:
		if (option->form && !option_fits(option->form, span_of(value)))
			/* The text may have a password. */
			return option_wrong(from, e, option->form->must,
			                    strchr(value, '@') ? NULL : value);
		*(const char **)option_field(o, option) = value;
		return 0;
	case OPTION_CHOICE:
		return option_set_choice(o, option, value, from, e);
	case OPTION_NUMBER:
	case OPTION_BYTES:
		return option_set_number(o, option, value, from, e);
	case OPTION_SWITCH:
		if (!on && strcmp(value, "false") != 0)
			return option_wrong(from, e, "must be true or false", value);
		*(bool *)option_field(o, option) = on;
		return 0;
	case OPTION_LIST:
		list = option_field(o, option);
		longer = ARENA_NEW(&o->arena, const char *, list->n + 1);
		for (size_t i = 0; i < list->n; i++)
			longer[i] = list->v[i];
		longer[list->n] = value;
		*list = (struct option_list){ longer, list->n + 1 };
		return 0;
	case OPTION_TYPE_MAX:
		break;
	}
	assert(option->type < OPTION_TYPE_MAX);
	return -1;
}

/* ---- the configuration file ---- */

static void config_member(struct options *o, unsigned command, const struct member *m,
                          struct err *e)
{
	char name[4 * QUOTE_MAX];
	const struct option *option = option_find(member_key(m), command);
	struct origin from = { quote(name, member_key(m)),
		               { NULL, m->value.line, m->value.column } };
	if (option_fixed_error(member_key(m), &from, e) < 0)
		return;
	if (!option || strcmp(option->name, "config") == 0) {
		const char *near = option_nearest(member_key(m), ~0U);
		(void)err_at(e, 400, "InvalidOption",
		             (struct place){ NULL, m->key_line, m->key_column },
		             "there is no option \"%s\"%s%s%s", name,
		             near ? ", did you mean \"" : "", near ?: "", near ? "\"?" : "");
		return;
	}
	/* A number with a fraction may have been written otherwise. */
	bool real = m->value.type == NODE_REAL;
	const char *value = real ? NULL : node_scalar(&o->arena, &m->value).p;
	if (!value)
		(void)option_wrong(&from, e, "must be one value; separate several with commas",
		                   NULL);
	else if (option->flag_only && option_find(member_key(m), FOR_SERVE)->flag_only)
		(void)option_flag_only_error(option, &from, e);
	else if (option->commands & command && !option->flag_only)
		(void)option_set(o, option, value, &from, e);
}

/* Returns true if the file has only comments and blanks, and thus no document. */
static bool options_config_is_empty(const char *text)
{
	while (*text) {
		text += strspn(text, " \t\r\n");
		if (*text && *text != '#')
			return false;
		text += strcspn(text, "\n");
	}
	return true;
}

static int options_read_config(struct options *o, unsigned command, struct err *e)
{
	FREE_AUTO char *text = NULL;
	size_t n;
	if (file_read_or_stdin(o->config, CONFIG_MAX, &text, &n, e) < 0)
		return -1;
	struct doc doc;
	struct budget budget = BUDGET_DEFAULT;
	if (options_config_is_empty(text))
		return 0;
	if (doc_read((struct span){ text, n }, &budget, &o->arena, &doc, NULL, e) < 0)
		return -1;
	if (doc.root.type != NODE_MAP)
		return err_set(e, 400, "InvalidOption",
		               "%s: must be a mapping from option to value", o->config);
	for (uint32_t i = 0; i < doc.root.n; i++)
		config_member(o, command, &doc.root.member[i], e);
	return e->http ? -1 : 0;
}

/* ---- environment and flags ---- */

/* The value of the variable for this name, which is appended to `variable`; NULL: it is not set. */
static const char *option_getenv(struct str *variable, const char *name)
{
	option_variable(variable, name);
	return getenv(str_c(variable)); /* NOLINT(concurrency-mt-unsafe): at start */
}

static int options_read_environment(struct options *o, unsigned command, struct err *e)
{
	for (const struct option *p = OPTIONS; p < OPTIONS + N_OPTIONS; p++) {
		STR_AUTO name = STR_INIT(NAME_LIMIT);
		const char *value = option_getenv(&name, p->name);
		struct origin from = { str_c(&name), NOWHERE };
		if (!value || !(p->commands & command))
			continue;
		if (p->flag_only || p->no_variable)
			return option_flag_only_error(p, &from, e);
		if (option_set(o, p, value, &from, e) < 0)
			return -1;
	}
	for (size_t i = 0; i < N_FIXED_LIMITS; i++) {
		STR_AUTO name = STR_INIT(NAME_LIMIT);
		if (option_getenv(&name, FIXED_LIMITS[i].name))
			return option_fixed_error(span_of(FIXED_LIMITS[i].name),
			                          &(struct origin){ str_c(&name), NOWHERE }, e);
	}
	return 0;
}

struct flag_cursor {
	int i, argc;
	char **argv;
};

/* Short flags. */
static const struct {
	const char *flag, *name;
} SHORT_FLAGS[] = {
	{ "-o", "output" }, { "-f", "follow" },   { "-c", "cpus" },        { "-m", "memory" },
	{ "-n", "tail" },   { "-t", "terminal" }, { "-T", "no-terminal" },
};

static int flag_read(struct options *o, unsigned command, struct flag_cursor *c, struct err *e)
{
	const char *flag = c->argv[c->i];
	const char *equals = strchr(flag, '=');
	struct span name = { flag + 2, equals ? (size_t)(equals - flag) - 2 : strlen(flag) - 2 };
	for (size_t i = 0; i < ARRAY_SIZE(SHORT_FLAGS); i++)
		if (strcmp(flag, SHORT_FLAGS[i].flag) == 0)
			name = span_of(SHORT_FLAGS[i].name);
	const struct option *option = option_find(name, command);
	if (!option && option_fixed_error(name, &(struct origin){ flag, NOWHERE }, e) < 0)
		return -1;
	if (!option) {
		const char *near = option_nearest(name, command);
		return err_set(e, 400, "InvalidOption",
		               "unknown option %.*s%s%s%s --help-all lists them",
		               (int)strcspn(flag, "="), flag, near ? ", did you mean --" : "",
		               near ?: "", near ? "?" : ";");
	}
	if (!(option->commands & command))
		return err_set(e, 400, "InvalidOption", "%s is not an option of this command%s",
		               flag,
		               strcmp(flag, "-f") == 0 ? "; a file is named without one" : "");
	const char *value = equals ? equals + 1 : option->type == OPTION_SWITCH ? "true" : NULL;
	if (!value && c->i + 1 < c->argc)
		value = c->argv[++c->i];
	if (!value)
		return err_set(e, 400, "InvalidOption", "%s needs a value: %s", flag,
		               option->value);
	if (!*value && option->flag_only && option->type == OPTION_TEXT) /* of a variable */
		return err_set(e, 400, "InvalidOption", "%s needs a value that is not empty: %s",
		               flag, option->value);
	const char *what = arena_printf(&o->arena, "--%s", option->name);
	return option_set(o, option, value, &(struct origin){ what, NOWHERE }, e);
}

static int options_read_flags(struct options *o, unsigned command, int argc, char **argv,
                              struct err *e)
{
	bool only_files = false;
	o->n_files = 0;
	for (const struct option *p = OPTIONS; p < OPTIONS + N_OPTIONS; p++)
		if (p->type == OPTION_LIST)
			*(struct option_list *)option_field(o, p) = (struct option_list){ 0 };
	struct flag_cursor c = { 1, argc, argv };
	for (; c.i < argc; c.i++) {
		const char *arg = argv[c.i];
		if (only_files || arg[0] != '-' || arg[1] == '\0')
			o->files[o->n_files++] = arg;
		else if (strcmp(arg, "--") == 0 && command & FOR_COMMANDS)
			break;
		else if (strcmp(arg, "--") == 0)
			only_files = true;
		else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
			o->help = true;
		else if (strcmp(arg, "--help-all") == 0)
			o->help = o->help_all = true;
		else if (flag_read(o, command, &c, e) < 0)
			return -1;
	}
	if (c.i < argc) /* at the `--` before a command */
		o->command = (const char *const *)argv + c.i + 1;
	return 0;
}

int options_parse(struct options *o, unsigned command, int argc, char **argv, struct err *e)
{
	*o = (struct options){ 0 };
	o->files = ARENA_NEW(&o->arena, const char *, (size_t)argc + 1);
	for (const struct option *p = OPTIONS; p < OPTIONS + N_OPTIONS; p++)
		option_reset(o, p);
	if (limits_read(o, e) < 0)
		return -1;
	/* Twice: the first reading finds --config, the second gives flags precedence over it. */
	if (options_read_environment(o, command, e) < 0 ||
	    options_read_flags(o, command, argc, argv, e) < 0)
		return -1;
	if (o->help || o->config[0] == '\0')
		return 0;
	if (options_read_config(o, command, e) < 0 || options_read_environment(o, command, e) < 0)
		return -1;
	return options_read_flags(o, command, argc, argv, e);
}
