/* The table of options, and what is read off a single row. */
#include "server/options.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/tree.h"
#include "server/file.h"
#include "translate/translate.h"

#define AT(field)            .at = offsetof(struct options, field)
#define TEXT(f, def)         .type = OPTION_TEXT, AT(f), .text = (def)
#define CHOICE(f, def, list) .type = OPTION_CHOICE, AT(f), .text = (def), .choices = (list)
#define NUMBER(f, def, lo, hi)                                                                     \
	.type = OPTION_NUMBER, AT(f), .number = (def), .min = (lo), .max = (hi)
#define BYTES(f, def, lo, hi) .type = OPTION_BYTES, AT(f), .number = (def), .min = (lo), .max = (hi)
#define SWITCH(f)             .type = OPTION_SWITCH, AT(f)

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)

enum {
	MAKES = FOR_SERVE | FOR_TRANSLATE,
	ALL = MAKES | FOR_VALIDATE,
	ASKS = FOR_SUBMIT | FOR_JOBS | FOR_SHOW | FOR_STOP
};

static const char *const PROFILES[] = { "plain", "openpai", NULL };
static const char *const LOG_FORMATS[] = { "json", "logfmt", NULL };
static const char *const RUNTIMES[] = { "image", "configmap", NULL };
static const char *const TOKEN_CHECKS[] = { "", "stored", "signature", NULL };
static const char *const USERS[] = { "file", "openpai", NULL };
static const char *const COMPATS[] = { "", "openpai", NULL };
static const char *const VISIBILITIES[] = { "all", "vc", "owner", NULL };
static const char *const OUTPUTS[] = { "", "json", "yaml", "table", NULL };

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* What ends up in objects must be taken by the API server, and is not the job's to blame. */
static const struct form NAMESPACE = { LOWER DIGITS "-", 63, true,
	                               "must be a namespace's name: a-z, 0-9 and -" };
static const struct form NAME = { LOWER DIGITS "-.", 253, true,
	                          "must be an object's name: a-z, 0-9, - and ." };
static const struct form LABEL = {
	LOWER UPPER DIGITS "-_.", 63, true,
	"must be fit for a label: letters, digits, -, _ and ., at most 63"
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

static const struct form STATES = { LOWER UPPER ",", 256, false,
	                            "must be states, separated by commas" };
static const struct form VARIABLES = { LOWER UPPER DIGITS "_,", 1024, false,
	                               "must be names of variables, separated by commas" };

const char *const OPTION_GROUPS[GROUP_MAX] = {
	[GROUP_SERVER] = "Server",
	[GROUP_STORE] = "Where objects are kept (default in a pod: its service account)",
	[GROUP_WHO] = "Who may submit",
	[GROUP_PUBLIC] = "How clients reach it",
	[GROUP_FOLLOW] = "Following jobs",
	[GROUP_PODS] = "What pods look like",
	[GROUP_HIVED] = "Scheduling by HiveD",
	[GROUP_TALK] = "The server to talk to",
	[GROUP_OUTPUT] = "Output",
	[GROUP_LIMITS] = "Limits",
};

/* clang-format off */
const struct option OPTIONS[] = {
	{ "config", GROUP_SERVER, ALL | ASKS, true, TEXT(config, ""), .value = "FILE",
	  .help = "read options from this YAML file" },
	{ "listen", GROUP_SERVER, FOR_SERVE, true, TEXT(listen, "127.0.0.1:9186"), .value = "ADDRESS:PORT",
	  .help = "where to listen; port 0: any" },
	{ "loops", GROUP_SERVER, FOR_SERVE, false, NUMBER(loops, 0, 0, 64), .value = "N",
	  .help = "threads that serve; 0: one per core, at most 4" },
	{ "drain-delay", GROUP_SERVER, FOR_SERVE, false, NUMBER(drain_delay_s, 0, 0, 3600), .unit = "seconds", .value = "N",
	  .help = "after SIGTERM, go on for so long with /readyz saying 503; in a pod about 5" },
	{ "drain-timeout", GROUP_SERVER, FOR_SERVE, false, NUMBER(drain_timeout_s, 35, 0, 3600), .unit = "seconds", .value = "N",
	  .help = "then wait at most so long for requests under way" },
	{ "log-format", GROUP_SERVER, FOR_SERVE, true, CHOICE(log_format, "json", LOG_FORMATS), .value = "FORMAT",
	  .help = "json or logfmt, on standard error" },
	{ "janitor-interval", GROUP_SERVER, FOR_SERVE, false, NUMBER(janitor_interval_s, 120, 1, 86400), .unit = "seconds", .value = "N",
	  .help = "how often to look for what a killed server has left behind" },
	{ "janitor-age", GROUP_SERVER, FOR_SERVE, false, NUMBER(janitor_age_s, 300, 10, 86400), .unit = "seconds", .value = "N",
	  .help = "remove it when it was seen unfinished for so long; at least --deadline and 10 seconds" },
	{ "instance", GROUP_SERVER, FOR_SERVE, false, TEXT(instance, "default"), .form = &LABEL, .value = "NAME",
	  .help = "name of this installation, marked on its objects (label rest-lit/instance)" },

	{ "standalone", GROUP_STORE, FOR_SERVE, true, TEXT(standalone, ""), .value = "DIR",
	  .help = "a directory, no cluster; default outside of pods: " STANDALONE_DIR },
	{ "kubeconfig", GROUP_STORE, FOR_SERVE, true, TEXT(kubeconfig, ""), .value = "FILE",
	  .help = "the API server named in a kubeconfig file" },
	{ "context", GROUP_STORE, FOR_SERVE, false, TEXT(context, ""), .value = "NAME",
	  .help = "context in that file; default: its current-context" },
	{ "apiserver", GROUP_STORE, FOR_SERVE, true, TEXT(apiserver, ""), .value = "URL",
	  .help = "the API server at this address" },
	{ "apiserver-ca", GROUP_STORE, FOR_SERVE, true, TEXT(apiserver_ca, ""), .value = "FILE",
	  .help = "its certificate authority (PEM); read again when it changes" },
	{ "apiserver-token-file", GROUP_STORE, FOR_SERVE, true, TEXT(apiserver_token_file, ""), .value = "FILE",
	  .help = "bearer token for it; read again when it changes" },
	{ "namespace", GROUP_STORE, MAKES, true, TEXT(namespace_name, ""), .form = &NAMESPACE, .value = "NAME",
	  .help = "of the jobs; default: the login's, else `default`" },

	{ "no-auth", GROUP_WHO, FOR_SERVE, true, SWITCH(no_auth),
	  .help = "whoever reaches the port is --user; loopback only" },
	{ "user", GROUP_WHO, ALL | FOR_TOKEN | FOR_JOBS, true, TEXT(user, ""), .form = &USER, .value = "NAME",
	  .help = "owner of jobs or token; default of translate: $USER, of jobs: all" },
	{ "jwt-secret-file", GROUP_WHO, FOR_SERVE | FOR_TOKEN, true, TEXT(jwt_secret_file, ""), .value = "FILE",
	  .help = "the secret that tokens are signed with (HS256)" },
	{ "token-check", GROUP_WHO, FOR_SERVE, true, CHOICE(token_check, "", TOKEN_CHECKS), .value = "HOW",
	  .help = "signature (default without OpenPAI), or stored: must be in the user's Secret as well" },
	{ "deny-list", GROUP_WHO, FOR_SERVE, false, TEXT(deny_list, ""), .form = &OBJECT, .value = "NAMESPACE/NAME",
	  .help = "signature: the Secret with the hashes of revoked tokens, which must exist and may be empty; without it none can be revoked" },
	{ "issuers", GROUP_WHO, FOR_SERVE, false, TEXT(issuers, ""), .value = "FILE",
	  .help = "whose other tokens are taken, RS256 and ES256 issuers and service accounts: see schema issuers; read again on SIGHUP" },
	{ "users", GROUP_WHO, FOR_SERVE, false, CHOICE(users, "file", USERS), .value = "FROM",
	  .help = "where users and groups stand: file (--facts; without it any valid token will do), or openpai: its Secrets and PVCs" },
	{ "user-namespace", GROUP_WHO, FOR_SERVE, false, TEXT(user_namespace, "pai-user-v2"), .form = &NAMESPACE, .value = "NAME",
	  .help = "openpai: of the users' Secrets" },
	{ "group-namespace", GROUP_WHO, FOR_SERVE, false, TEXT(group_namespace, "pai-group"), .form = &NAMESPACE, .value = "NAME",
	  .help = "openpai: of the groups' Secrets" },
	{ "token-namespace", GROUP_WHO, FOR_SERVE, false, TEXT(token_namespace, "pai-user-token"), .form = &NAMESPACE, .value = "NAME",
	  .help = "stored: of the Secrets with the tokens of users" },
	{ "token-lifetime", GROUP_WHO, FOR_SERVE | FOR_TOKEN, false, NUMBER(token_lifetime_s, 604800, 60, 31536000), .unit = "seconds", .value = "N",
	  .help = "how long a token is good that a login, or `rest-lit token`, makes" },
	{ "login-hides-users", GROUP_WHO, FOR_SERVE, false, SWITCH(login_hides_users),
	  .help = "logins: say of users who do not exist what is said of a wrong password" },
	{ "application", GROUP_WHO, FOR_TOKEN, true, SWITCH(application),
	  .help = "make an application token, which does not expire" },
	{ "token-cache", GROUP_WHO, FOR_SERVE, false, NUMBER(token_cache_s, 30, 0, 30), .unit = "seconds", .value = "N",
	  .help = "for so long what was read of tokens, users, groups and storages is believed" },

	{ "tls-cert", GROUP_PUBLIC, FOR_SERVE, true, TEXT(tls_cert, ""), .value = "FILE",
	  .help = "serve HTTPS with this certificate chain (PEM)" },
	{ "tls-key", GROUP_PUBLIC, FOR_SERVE, false, TEXT(tls_key, ""), .value = "FILE",
	  .help = "and its private key (PEM)" },
	{ "behind-proxy", GROUP_PUBLIC, FOR_SERVE, false, SWITCH(behind_proxy),
	  .help = "serve plain HTTP beyond loopback: something before it does TLS" },
	{ "output-listen", GROUP_PUBLIC, FOR_SERVE, false, TEXT(output_listen, ""), .value = "ADDRESS:PORT",
	  .help = "where pods upload the end of their output when a task ends; a port of its own, which a NetworkPolicy can open for them; TLS as --listen" },
	{ "trusted-proxy", GROUP_PUBLIC, FOR_SERVE, false, TEXT(trusted_proxy, ""), .form = &NETWORKS, .value = "ADDRESS[/BITS],...",
	  .help = "peers whose X-Forwarded-For is believed (its last entry)" },
	{ "cors", GROUP_PUBLIC, FOR_SERVE, false, TEXT(cors, "*"), .form = &ORIGINS, .value = "ORIGIN,...",
	  .help = "web pages that may use this API: * for all, none, or a list; with --no-auth always none" },
	{ "compat", GROUP_PUBLIC, FOR_SERVE, true, CHOICE(compat, "", COMPATS), .value = "CLIENTS",
	  .help = "openpai: what its clients need: see HTTP.md" },
	{ "rate-address", GROUP_PUBLIC, FOR_SERVE, false, NUMBER(rate_address, 600, 0, 10000000), .value = "N",
	  .help = "requests per minute of one client address (of IPv6: a /64); more are answered 429; 0: no limit; not with --no-auth" },
	{ "rate-submit", GROUP_PUBLIC, FOR_SERVE, false, NUMBER(rate_submit, 3600, 0, 10000000), .value = "N",
	  .help = "jobs per hour of one user; 0: no limit; not with --no-auth" },
	{ "rate-list", GROUP_PUBLIC, FOR_SERVE, false, NUMBER(rate_list, 600, 0, 10000000), .value = "N",
	  .help = "lists of jobs per minute of one user; 0: no limit; not with --no-auth" },
	{ "rate-login", GROUP_PUBLIC, FOR_SERVE, false, NUMBER(rate_login, 10, 0, 10000000), .value = "N",
	  .help = "attempts to log in per minute, for one user and from one address; 0: no limit" },
	{ "rate-lookup", GROUP_PUBLIC, FOR_SERVE, false, NUMBER(rate_lookup, 120, 0, 10000000), .value = "N",
	  .help = "per minute, how often one user may have the API server asked for a job that is not known here; beyond that it does not exist; 0: no limit; not with --no-auth" },

	{ "visibility", GROUP_FOLLOW, FOR_SERVE, false, CHOICE(visibility, "vc", VISIBILITIES), .value = "WHOM",
	  .help = "who may read the configuration, events and logs of a job besides its owner and admins: vc: users of its virtual cluster; all, or owner: nobody" },
	{ "cache-memory", GROUP_FOLLOW, FOR_SERVE, false, BYTES(cache_memory, 256 * MIB, MIB, 65536 * MIB), .value = "N",
	  .help = "for what is known of jobs; beyond that, details are asked of the API server one by one" },
	{ "events-memory", GROUP_FOLLOW, FOR_SERVE, false, BYTES(events_memory, 16 * MIB, 64 * KIB, 4096 * MIB), .value = "N",
	  .help = "for the Events of pods; the oldest are forgotten" },
	{ "detail-memory", GROUP_FOLLOW, FOR_SERVE, false, BYTES(detail_memory, 64 * MIB, MIB, 65536 * MIB), .value = "N",
	  .help = "at one loop, for answers about single jobs that take more than 1 MiB; while they take more, such questions are answered 503" },
	{ "watch-page", GROUP_FOLLOW, FOR_SERVE, false, NUMBER(watch_page, 500, 1, 10000), .value = "N",
	  .help = "objects that are asked of the API server at once, when jobs are listed at start" },
	{ "max-object-read", GROUP_FOLLOW, FOR_SERVE, false, BYTES(max_object_read, 4 * MIB, 64 * KIB, 64 * MIB), .value = "N",
	  .help = "a Framework that is larger is not looked at" },
	{ "exit-spec", GROUP_FOLLOW, FOR_SERVE, false, TEXT(exit_spec, ""), .value = "FILE",
	  .help = "what exit codes mean, in place of the built-in k8s-job-exit-spec.yaml" },
	{ "history", GROUP_FOLLOW, FOR_SERVE, false, NUMBER(history, 10, 0, 100), .value = "N",
	  .help = "earlier attempts of a job that are kept, each as a ConfigMap that goes with the job; 0: none" },
	{ "history-bytes", GROUP_FOLLOW, FOR_SERVE, false, BYTES(history_bytes, 256 * KIB, KIB, 768 * KIB), .value = "N",
	  .help = "of one of them, compressed; a larger one is kept without its tasks" },
	{ "streams-per-user", GROUP_FOLLOW, FOR_SERVE, false, NUMBER(streams_per_user, 8, 1, 100000), .value = "N",
	  .help = "requests of one user that wait for things to happen, at one loop" },
	{ "stream-lifetime", GROUP_FOLLOW, FOR_SERVE, false, NUMBER(stream_lifetime_s, 300, 1, 86400), .unit = "seconds", .value = "N",
	  .help = "how long such a request lasts at most; the client comes again" },
	{ "stream-heartbeat", GROUP_FOLLOW, FOR_SERVE, false, NUMBER(stream_heartbeat_s, 30, 1, 300), .unit = "seconds", .value = "N",
	  .help = "how often such a request is sent something, to show that it lives" },
	{ "stream-buffer", GROUP_FOLLOW, FOR_SERVE, false, BYTES(stream_buffer, 64 * KIB, 64 * KIB, 16 * MIB), .value = "N",
	  .help = "what waits for a slow client; beyond that it is cut off" },
	{ "list-rows", GROUP_FOLLOW, FOR_SERVE, false, NUMBER(list_rows, 1000000, 1, 100000000), .value = "N",
	  .help = "jobs in all large lists that one loop is sending, one list apart" },
	{ "log-link-lifetime", GROUP_FOLLOW, FOR_SERVE, false, NUMBER(log_link_lifetime_s, 300, 1, 300), .unit = "seconds", .value = "N",
	  .help = "how long a link to a log is good" },
	{ "log-streams", GROUP_FOLLOW, FOR_SERVE, false, NUMBER(log_streams, 32, 1, 10000), .value = "N",
	  .help = "logs that one loop reads at a time; of one user --streams-per-user" },
	{ "output-bytes", GROUP_FOLLOW, FOR_SERVE, false, BYTES(output_bytes, 4 * MIB, 64 * KIB, 256 * MIB), .value = "N",
	  .help = "of one job, for the end of the output of tasks that have ended, compressed; see FOLLOWING.md for what goes first" },
	{ "log-tail", GROUP_FOLLOW, FOR_SERVE, false, BYTES(log_tail, 16 * KIB, KIB, 4 * MIB), .value = "N",
	  .help = "the end of a log that ?tail-mode=true shows" },

	{ "profile", GROUP_PODS, ALL, true, CHOICE(profile, "plain", PROFILES), .value = "NAME",
	  .help = "plain, or openpai: job authors are root on nodes" },
	{ "templates", GROUP_PODS, ALL, true, TEXT(templates, ""), .value = "DIR",
	  .help = "templates of the same name replace those shipped" },
	{ "facts", GROUP_PODS, MAKES, true, TEXT(facts, ""), .value = "FILE",
	  .help = "virtual clusters, storages, users and groups: see schema facts; serve reads it again on SIGHUP" },
	{ "runtime", GROUP_PODS, MAKES, true, CHOICE(runtime, "image", RUNTIMES), .value = "HOW",
	  .help = "how pai-runtime gets into pods: image, or configmap: the program itself, no image" },
	{ "runtime-image", GROUP_PODS, MAKES, true, TEXT(runtime_image, RUNTIME_IMAGE), .form = &IMAGE, .value = "IMAGE",
	  .help = "image: of the init container" },
	{ "runtime-init-image", GROUP_PODS, MAKES, false, TEXT(runtime_init_image, ""), .form = &IMAGE, .value = "IMAGE",
	  .help = "configmap: any image for the init container to run in; default: the job's own" },
	{ "runtime-binary", GROUP_PODS, MAKES, false, TEXT(runtime_binary, ""), .value = "FILE",
	  .help = "configmap: the program, statically linked; default: pai-runtime beside this one" },
	{ "runtime-pull-secret", GROUP_PODS, MAKES, false, TEXT(runtime_pull_secret, ""), .form = &NAME, .value = "NAME",
	  .help = "Secret with which pods pull the image of the init container" },
	{ "service-account", GROUP_PODS, MAKES, false, TEXT(service_account, "runtime-account"), .form = &NAME, .value = "NAME",
	  .help = "service account of the pods" },
	{ "apiserver-uri", GROUP_PODS, MAKES, false, TEXT(apiserver_uri, ""), .form = &URL, .value = "URL",
	  .help = "KUBE_APISERVER_ADDRESS in pods of the profile openpai" },
	{ "rest-server-uri", GROUP_PODS, MAKES, false, TEXT(rest_server_uri, ""), .form = &URL, .value = "URL",
	  .help = "REST_SERVER_URI in pods" },
	{ "output-url", GROUP_PODS, MAKES, false, TEXT(output_url, ""), .form = &URL, .value = "URL",
	  .help = "--output-listen as pods call it, https://HOST:PORT; without it they upload nothing, and output is gone with its pod" },
	{ "output-ca", GROUP_PODS, FOR_SERVE, false, TEXT(output_ca, ""), .value = "FILE",
	  .help = "its certificate authority (PEM), put into the ConfigMap " OUTPUT_CA "; default: the certificates of --tls-cert" },
	{ "device", GROUP_PODS, MAKES, false, TEXT(device, "nvidia.com/gpu"), .form = &RESOURCE, .value = "NAME",
	  .help = "Kubernetes resource that a `gpu` of a job is" },
	{ "fs-uri", GROUP_PODS, MAKES, false, TEXT(fs_uri, ""), .form = &URL, .value = "URL",
	  .help = "PAI_DEFAULT_FS_URI of v1 jobs" },
	{ "port-start", GROUP_PODS, ALL, false, NUMBER(port_start, 15000, 1, 65535), .value = "N",
	  .help = "ports of tasks are taken from here" },
	{ "port-end", GROUP_PODS, ALL, false, NUMBER(port_end, 40000, 2, 65536), .value = "N",
	  .help = "... to below here" },
	{ "priority-class", GROUP_PODS, MAKES, false, SWITCH(priority_class),
	  .help = "make a PriorityClass for each job, so that older jobs go first" },
	{ "fetch-code", GROUP_PODS, ALL, false, SWITCH(fetch_code),
	  .help = "v1 jobs: copy codeDir from HDFS before the command" },

	{ "hived-config", GROUP_HIVED, ALL, true, TEXT(hived_config, ""), .value = "FILE",
	  .help = "HiveD's own configuration file: jobs are scheduled by it, in its cells; serve reads it again on SIGHUP" },
	{ "hived-scheduler", GROUP_HIVED, MAKES, false, TEXT(hived_scheduler, HIVED_SCHEDULER), .form = &NAME, .value = "NAME",
	  .help = "first part of the names of its schedulers: NAME-ds-VC serves the virtual cluster VC" },
	{ "hived-device-env", GROUP_HIVED, ALL, false, TEXT(hived_device_env, HIVED_DEVICE_ENV), .form = &VARIABLES, .value = "NAME,...",
	  .help = "variables that tell a container which devices are its own" },
	{ "hived-webservice", GROUP_HIVED, FOR_SERVE, false, TEXT(hived_webservice, ""), .form = &URL, .value = "URL",
	  .help = "its web service, asked what virtual clusters have at the moment; https, or http: nothing secret is told; without it, or while it does not answer, the file alone counts" },
	{ "hived-webservice-ca", GROUP_HIVED, FOR_SERVE, false, TEXT(hived_webservice_ca, ""), .value = "FILE",
	  .help = "its certificate authority (PEM), for https; default: the machine's" },
	{ "hived-interval", GROUP_HIVED, FOR_SERVE, false, NUMBER(hived_interval_s, 10, 1, 3600), .unit = "seconds", .value = "N",
	  .help = "how often to ask it; after 3 attempts in a row that fail, what it said last does not count any more" },

	{ "with-runtime", GROUP_OUTPUT, FOR_TRANSLATE, false, SWITCH(with_runtime),
	  .help = "with --runtime=configmap: print that ConfigMap as well, first" },

	{ "server", GROUP_TALK, ASKS, true, TEXT(server, "http://127.0.0.1:9186"), .form = &URL, .value = "URL",
	  .help = "https://HOST[:PORT][/PATH]; http for this machine only" },
	{ "token-file", GROUP_TALK, ASKS, true, TEXT(token_file, ""), .value = "FILE",
	  .help = "who one is: a token, as a login or `rest-lit token` makes it; - is standard input" },
	{ "ca-file", GROUP_TALK, ASKS, true, TEXT(ca_file, ""), .value = "FILE",
	  .help = "its certificate authority (PEM); default: the machine's" },
	{ "patience", GROUP_TALK, FOR_SUBMIT, false, NUMBER(patience_s, 60, 0, 86400), .unit = "seconds", .value = "N",
	  .help = "how long a submission is sent again when no answer comes, or 502, 503, 504 or 429" },
	{ "timeout", GROUP_TALK, ASKS, true, NUMBER(timeout_s, 0, 0, 31536000), .unit = "seconds", .value = "N",
	  .help = "for all of it, waiting for the job included; 0: no limit" },

	{ "wait", GROUP_OUTPUT, FOR_SUBMIT, true, SWITCH(wait),
	  .help = "wait until the job has ended, and show how it goes" },
	{ "logs", GROUP_OUTPUT, FOR_SUBMIT, true, SWITCH(logs),
	  .help = "wait, and print what its tasks print" },
	{ "max-logs", GROUP_OUTPUT, FOR_SUBMIT, false, NUMBER(max_logs, 6, 1, 64), .value = "N",
	  .help = "tasks whose logs are followed at once; servers allow --streams-per-user" },
	{ "max-line", GROUP_OUTPUT, FOR_SUBMIT, false, BYTES(max_line, 16 * KIB, 80, MIB), .value = "N",
	  .help = "what is printed of one line of a log" },
	{ "dry-run", GROUP_OUTPUT, FOR_SUBMIT, true, SWITCH(dry_run),
	  .help = "print what would be made of it; nothing is" },
	{ "state", GROUP_OUTPUT, FOR_JOBS, true, TEXT(state, ""), .form = &STATES, .value = "STATE,...",
	  .help = "jobs in one of these: WAITING, RUNNING, STOPPING, SUCCEEDED, STOPPED, FAILED" },
	{ "limit", GROUP_OUTPUT, FOR_JOBS, true, NUMBER(limit, 50, 1, 50000), .value = "N",
	  .help = "so many jobs at most, the latest first" },
	{ "output", GROUP_OUTPUT, FOR_TRANSLATE | FOR_JOBS | FOR_SHOW, true, CHOICE(output, "", OUTPUTS), .value = "FORMAT",
	  .help = "translate: json (default) or yaml; jobs and show: table (default), or json as the server says it; also -o" },

	{ "max-body", GROUP_LIMITS, FOR_SERVE, false, BYTES(max_body, 100 * KIB, KIB, 16 * MIB), .value = "N",
	  .help = "body of a request; more is answered 413" },
	{ "max-depth", GROUP_LIMITS, ALL, false, NUMBER(max_depth, 64, 8, 256), .value = "N",
	  .help = "nesting of lists and mappings in a job" },
	{ "max-nodes", GROUP_LIMITS, ALL, false, NUMBER(max_nodes, 100000, 100, 10000000), .value = "N",
	  .help = "values in a job, aliases followed" },
	{ "max-text", GROUP_LIMITS, ALL, false, BYTES(max_text, 8 * MIB, KIB, 256 * MIB), .value = "N",
	  .help = "text of all scalars of a job, aliases followed" },
	{ "max-key", GROUP_LIMITS, ALL, false, BYTES(max_key, KIB, 64, 64 * KIB), .value = "N",
	  .help = "one key of a mapping in a job" },
	{ "max-rendered", GROUP_LIMITS, ALL, false, BYTES(max_rendered, MIB, KIB, 64 * MIB), .value = "N",
	  .help = "all commands of a job after rendering" },
	{ "max-roles", GROUP_LIMITS, ALL, false, NUMBER(max_roles, 256, 1, 10000), .value = "N",
	  .help = "task roles of a job" },
	{ "max-instances", GROUP_LIMITS, ALL, false, NUMBER(max_instances, 10000, 1, 1000000), .value = "N",
	  .help = "tasks of one task role" },
	{ "max-tasks", GROUP_LIMITS, ALL, false, NUMBER(max_tasks, 20000, 1, 1000000), .value = "N",
	  .help = "tasks of a job" },
	{ "max-command", GROUP_LIMITS, ALL, false, BYTES(max_command, 131062, KIB, 131062), .value = "N",
	  .help = "command of a task after escaping; Linux allows 131071 with the name USER_CMD" },
	{ "max-annotations", GROUP_LIMITS, ALL, false, BYTES(max_annotations, 248 * KIB, KIB, 256 * KIB), .value = "N",
	  .help = "all annotations of a Framework; Kubernetes takes 256 KiB, and tags are still to come" },
	{ "max-object", GROUP_LIMITS, MAKES, false, BYTES(max_object, 1408 * KIB, KIB, 64 * MIB), .value = "N",
	  .help = "one object; etcd takes 1.5 MiB by default, and API server and FrameworkController add to it" },
	{ "max-env-inline", GROUP_LIMITS, MAKES, false, BYTES(max_env_inline, 256 * KIB, 0, 64 * MIB), .value = "N",
	  .help = "environment above which the common part moves to a ConfigMap" },
	{ "connections", GROUP_LIMITS, FOR_SERVE, false, NUMBER(connections, 2000, 1, 100000), .value = "N",
	  .help = "clients connected, per loop; when all places are taken, who is idle for longest has to go" },
	{ "connections-per-address", GROUP_LIMITS, FOR_SERVE, false, NUMBER(connections_per_address, 64, 0, 100000), .value = "N",
	  .help = "of one client address (of IPv6: a /64), in all; 0: no limit; not for --trusted-proxy, not with --no-auth" },
	{ "read-timeout", GROUP_LIMITS, FOR_SERVE, false, NUMBER(read_timeout_s, 10, 1, 3600), .unit = "seconds", .value = "N",
	  .help = "for a client to send a whole request" },
	{ "idle-timeout", GROUP_LIMITS, FOR_SERVE, false, NUMBER(idle_timeout_s, 60, 1, 3600), .unit = "seconds", .value = "N",
	  .help = "for a connection without a request" },
	{ "deadline", GROUP_LIMITS, FOR_SERVE, false, NUMBER(deadline_s, 30, 1, 3600), .unit = "seconds", .value = "N",
	  .help = "for the store to take a job" },
	{ "in-flight", GROUP_LIMITS, FOR_SERVE, false, NUMBER(in_flight, 16, 1, 1000), .value = "N",
	  .help = "requests to the API server at once, per loop" },
	{ "queue", GROUP_LIMITS, FOR_SERVE, false, NUMBER(queue, 1000, 1, 100000), .value = "N",
	  .help = "requests waiting for that, per loop; more are answered 503" },
	{ "queue-per-user", GROUP_LIMITS, FOR_SERVE, false, NUMBER(queue_per_user, 250, 0, 100000), .value = "N",
	  .help = "of one user, waiting or under way; 0: no limit" },
	{ "queue-bytes", GROUP_LIMITS, FOR_SERVE, false, BYTES(queue_bytes, 64 * MIB, MIB, 1024 * MIB), .value = "N",
	  .help = "of all jobs under way, per loop; more are answered 503" },
	{ "dry-run-bytes", GROUP_LIMITS, FOR_SERVE, false, BYTES(dry_run_bytes, 64 * MIB, MIB, 1024 * MIB), .value = "N",
	  .help = "of all dry runs, until their answers are taken, per loop; more are answered 503" },
	{ "max-answer", GROUP_LIMITS, FOR_SERVE, false, BYTES(max_answer, 4 * MIB, 64 * KIB, 256 * MIB), .value = "N",
	  .help = "one answer of the API server" },
	{ "hived-max-answer", GROUP_LIMITS, FOR_SERVE, false, BYTES(hived_max_answer, 16 * MIB, 64 * KIB, 256 * MIB), .value = "N",
	  .help = "one answer of HiveD's web service; more is of no use" },
};
/* clang-format on */
const size_t N_OPTIONS = sizeof(OPTIONS) / sizeof(OPTIONS[0]);

const struct option *option_find(struct span name)
{
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (span_is(name, OPTIONS[i].name))
			return &OPTIONS[i];
	return NULL;
}

bool option_fits(const struct form *form, struct span text)
{
	static const char ALNUM[] = LOWER UPPER DIGITS;
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] == '\0' || !strchr(form->letters, text.p[i]))
			return false;
	if (text.n == 0 || !form->alnum_ends)
		return text.n <= form->max;
	return text.n <= form->max && strchr(ALNUM, text.p[0]) && strchr(ALNUM, text.p[text.n - 1]);
}

static char upper(char c)
{
	static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	if (c == '-')
		return '_';
	if (c < 'a' || c > 'z')
		return c;
	return LETTERS[c - 'a'];
}

void option_variable(struct str *out, const struct option *o)
{
	str_puts(out, "REST_LIT_");
	for (const char *p = o->name; *p; p++)
		str_char(out, upper(*p));
}

static void bytes_text(struct str *out, int64_t n)
{
	if (n >= MIB && n % MIB == 0)
		str_printf(out, "%ldMiB", (long)(n / MIB));
	else if (n >= KIB && n % KIB == 0)
		str_printf(out, "%ldKiB", (long)(n / KIB));
	else
		str_int(out, n);
}

void option_default(struct str *out, const struct option *o)
{
	switch (o->type) {
	case OPTION_TEXT:
	case OPTION_CHOICE:
		str_puts(out, o->text);
		break;
	case OPTION_NUMBER:
		str_int(out, o->number);
		break;
	case OPTION_BYTES:
		bytes_text(out, o->number);
		break;
	case OPTION_SWITCH:
		str_puts(out, "false");
		break;
	case OPTION_TYPE_MAX:
		break;
	}
}

/* Flags, environment and configuration file into struct options. */

enum { CONFIG_MAX = 1 << 20, NAME_LIMIT = 64 };

/* Where a value was given, for messages: "--listen", "REST_LIT_LISTEN", or a place in the file. */
struct origin {
	const char *what;
	struct place where;
};

static void *field(struct options *o, const struct option *option)
{
	return (char *)o + option->at;
}

static int wrong(const struct origin *from, struct err *e, const char *text)
{
	return err_at(e, 400, "InvalidOption", from->where, "%s: %s", from->what, text);
}

/* The same, and what was found. */
static int unfit(const struct origin *from, struct err *e, const char *must, const char *value)
{
	char shown[4 * QUOTE_MAX];
	return err_at(e, 400, "InvalidOption", from->where, "%s: %s, is \"%s\"", from->what, must,
	              quote(shown, span_of(value)));
}

static int set_text(struct options *o, const struct option *option, const char *value,
                    const struct origin *from, struct err *e)
{
	if (option->form && !option_fits(option->form, span_of(value)))
		return strchr(value, '@') /* there may be a password before it */
		           ? wrong(from, e, option->form->must)
		           : unfit(from, e, option->form->must, value);
	*(const char **)field(o, option) = value;
	return 0;
}

static int set_choice(struct options *o, const struct option *option, const char *value,
                      const struct origin *from, struct err *e)
{
	STR_AUTO list = STR_INIT(256);
	for (const char *const *c = option->choices; *c; c++) {
		if (strcmp(value, *c) == 0) {
			*(const char **)field(o, option) = *c;
			return 0;
		}
		/* "" is what nobody needs to say. */
		if (**c)
			str_printf(&list, "%s%s", list.n ? " or " : "must be ", *c);
	}
	return unfit(from, e, str_c(&list), value);
}

/* "64KiB" -> 65536; only for bytes. */
static int number_of(struct span text, bool bytes, int64_t *out)
{
	int64_t unit = 1;
	if (bytes && text.n > 3 && memcmp(text.p + text.n - 2, "iB", 2) == 0) {
		char c = text.p[text.n - 3];
		unit = c == 'K' ? 1024 : c == 'M' ? INT64_C(1) << 20 : 0;
		text.n -= 3;
	}
	int64_t n;
	if (unit == 0 || parse_i64(text, 0, INT64_MAX >> 20, &n) < 0)
		return -1;
	*out = n * unit;
	return 0;
}

static int set_number(struct options *o, const struct option *option, const char *value,
                      const struct origin *from, struct err *e)
{
	bool bytes = option->type == OPTION_BYTES;
	int64_t n;
	if (number_of(span_of(value), bytes, &n) < 0 || n < option->min || n > option->max) {
		STR_AUTO text = STR_INIT(256);
		str_printf(&text, "must be a number from %ld to %ld", (long)option->min,
		           (long)option->max);
		if (option->unit || bytes)
			str_printf(&text, " (%s)",
			           option->unit ? option->unit : "bytes; 64KiB and 2MiB will do");
		return unfit(from, e, str_c(&text), value);
	}
	*(int64_t *)field(o, option) = n;
	return 0;
}

static int set_switch(struct options *o, const struct option *option, const char *value,
                      const struct origin *from, struct err *e)
{
	bool on = strcmp(value, "true") == 0;
	if (!on && strcmp(value, "false") != 0)
		return unfit(from, e, "must be true or false", value);
	*(bool *)field(o, option) = on;
	return 0;
}

static int set(struct options *o, const struct option *option, const char *value,
               const struct origin *from, struct err *e)
{
	switch (option->type) {
	case OPTION_TEXT:
		return set_text(o, option, value, from, e);
	case OPTION_CHOICE:
		return set_choice(o, option, value, from, e);
	case OPTION_NUMBER:
	case OPTION_BYTES:
		return set_number(o, option, value, from, e);
	case OPTION_SWITCH:
		return set_switch(o, option, value, from, e);
	case OPTION_TYPE_MAX:
		break;
	}
	assert(option->type < OPTION_TYPE_MAX);
	return -1;
}

static void set_defaults(struct options *o)
{
	for (const struct option *p = OPTIONS; p < OPTIONS + N_OPTIONS; p++) {
		if (p->type == OPTION_TEXT || p->type == OPTION_CHOICE)
			*(const char **)field(o, p) = p->text;
		else if (p->type != OPTION_SWITCH)
			*(int64_t *)field(o, p) = p->number;
	}
}

/* A scalar of the file as text, as it would stand on the command line. */
static const char *value_text(struct options *o, const struct node *n)
{
	switch ((enum node_type)n->type) {
	case NODE_TEXT:
	case NODE_DATE:
		return n->text;
	case NODE_BOOL:
		return n->boolean ? "true" : "false";
	case NODE_INT:
		return arena_printf(&o->arena, "%ld", (long)n->integer);
	case NODE_NULL:
	case NODE_REAL:
	case NODE_LIST:
	case NODE_MAP:
	case NODE_TYPE_MAX:
		break;
	}
	return NULL;
}

static void unknown_key(const struct member *m, struct err *e)
{
	char name[4 * QUOTE_MAX];
	struct place where = { NULL, m->key_line, m->key_column };
	(void)err_at(e, 400, "InvalidOption", where, "there is no option \"%s\"",
	             quote(name, member_key(m)));
}

/* Options that other commands take are let pass, so that one file serves all commands. */
static void set_from_member(struct options *o, unsigned command, const struct member *m,
                            struct err *e)
{
	const struct option *option = option_find(member_key(m));
	if (!option || strcmp(option->name, "config") == 0) {
		unknown_key(m, e);
		return;
	}
	struct origin from = { option->name, { NULL, m->value.line, m->value.column } };
	const char *value = value_text(o, &m->value);
	if (!value)
		(void)wrong(&from, e, "must be one value; of several, with commas between them");
	else if (option->commands & command)
		(void)set(o, option, value, &from, e);
}

/* Only comments and blanks: a file in which all is commented out, which is no document. */
static bool says_nothing(const char *text)
{
	while (*text) {
		text += strspn(text, " \t\r\n");
		if (*text && *text != '#')
			return false;
		text += strcspn(text, "\n");
	}
	return true;
}

static int read_config(struct options *o, unsigned command, struct err *e)
{
	FREE_AUTO char *text = NULL;
	size_t n;
	if (file_read(o->config, CONFIG_MAX, &text, &n, e) < 0)
		return -1;
	struct doc doc;
	NOTES_AUTO warnings = { 0 };
	struct budget budget = BUDGET_DEFAULT;
	if (says_nothing(text))
		return 0;
	if (doc_read((struct span){ text, n }, &budget, &o->arena, &doc, &warnings, e) < 0)
		return -1;
	if (doc.root.type != NODE_MAP)
		return err_set(e, 400, "InvalidOption",
		               "%s: must be a mapping from option to value", o->config);
	for (uint32_t i = 0; i < doc.root.n; i++)
		set_from_member(o, command, &doc.root.member[i], e);
	return e->http ? -1 : 0;
}

static int read_environment(struct options *o, unsigned command, struct err *e)
{
	for (const struct option *p = OPTIONS; p < OPTIONS + N_OPTIONS; p++) {
		STR_AUTO name = STR_INIT(NAME_LIMIT);
		option_variable(&name, p);
		const char *value =
		    getenv(str_c(&name)); /* NOLINT(concurrency-mt-unsafe): at start */
		struct origin from = { str_c(&name), NOWHERE };
		if (value && (p->commands & command) && set(o, p, value, &from, e) < 0)
			return -1;
	}
	return 0;
}

struct cursor {
	int i, argc;
	char **argv;
};

static int unknown_flag(const char *flag, struct span name, struct err *e)
{
	const struct option *option = option_find(name);
	if (option)
		return err_set(e, 400, "InvalidOption", "%s is no option of this command", flag);
	return err_set(e, 400, "InvalidOption", "unknown option %s; --help-all lists them", flag);
}

static const char *flag_value(struct cursor *c, const struct option *option, const char *equals)
{
	if (equals)
		return equals + 1;
	if (option->type == OPTION_SWITCH)
		return "true";
	return c->i + 1 < c->argc ? c->argv[++c->i] : NULL;
}

static int read_flag(struct options *o, unsigned command, struct cursor *c, struct err *e)
{
	const char *flag = c->argv[c->i];
	const char *equals = strchr(flag, '=');
	struct span name = { flag + 2, equals ? (size_t)(equals - flag) - 2 : strlen(flag) - 2 };
	if (strcmp(flag, "-o") == 0)
		name = SPAN("output");
	const struct option *option = option_find(name);
	if (!option || !(option->commands & command))
		return unknown_flag(flag, name, e);
	const char *value = flag_value(c, option, equals);
	if (!value)
		return err_set(e, 400, "InvalidOption", "%s needs a value: %s", flag,
		               option->value);
	const char *what = arena_printf(&o->arena, "--%s", option->name);
	return set(o, option, value, &(struct origin){ what, NOWHERE }, e);
}

static int read_argument(struct options *o, unsigned command, struct cursor *c, struct err *e)
{
	const char *arg = c->argv[c->i];
	if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
		o->help = true;
	else if (strcmp(arg, "--help-all") == 0)
		o->help = o->help_all = true;
	else if (arg[0] == '-' && arg[1] != '\0')
		return read_flag(o, command, c, e);
	else
		o->files[o->n_files++] = arg;
	return 0;
}

static int read_flags(struct options *o, unsigned command, int argc, char **argv, struct err *e)
{
	bool only_files = false;
	o->n_files = 0;
	for (struct cursor c = { 1, argc, argv }; c.i < argc; c.i++) {
		if (only_files)
			o->files[o->n_files++] = argv[c.i];
		else if (strcmp(argv[c.i], "--") == 0)
			only_files = true;
		else if (read_argument(o, command, &c, e) < 0)
			return -1;
	}
	return 0;
}

int options_parse(struct options *o, unsigned command, int argc, char **argv, struct err *e)
{
	*o = (struct options){ 0 };
	o->files = ARENA_NEW(&o->arena, const char *, (size_t)argc + 1);
	set_defaults(o);
	/* Twice: the first reading finds --config, the second lets flags win over the file. */
	if (read_environment(o, command, e) < 0 || read_flags(o, command, argc, argv, e) < 0)
		return -1;
	if (o->help || o->config[0] == '\0')
		return 0;
	if (read_config(o, command, e) < 0)
		return -1;
	if (read_environment(o, command, e) < 0)
		return -1;
	return read_flags(o, command, argc, argv, e);
}

void options_done(struct options *o)
{
	arena_done(&o->arena);
}
