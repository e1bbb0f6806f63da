/* The table of fixed limits, and the variable by which tests change them. */
#include "server/config/options.h"

#include <stddef.h>
#include <stdlib.h>

#include "translate/translate.h"

#define AT(field)         offsetof(struct options, field)
#define TEXT(field, text) AT(field), OPTION_TEXT, text, 0, NULL
#define COUNT(field, n)   AT(field), OPTION_NUMBER, NULL, n, NULL
#define SECONDS(field, n) AT(field), OPTION_NUMBER, NULL, n, "seconds"
#define BYTES(field, n)   AT(field), OPTION_BYTES, NULL, n, NULL

/* clang-format off */
const struct limit FIXED_LIMITS[] = {
	{ "janitor-interval", SECONDS(janitor_interval_s, 120),
	  "interval between searches for objects that a killed server has left",
	  "such objects are deleted within minutes at little load for the API server" },
	{ "janitor-age", SECONDS(janitor_age_s, 300),
	  "age at which an incomplete submission is deleted",
	  "ten times `deadline`, so that no submission in progress is deleted" },
	{ "drain-timeout", SECONDS(drain_timeout_s, 35),
	  "time for requests in progress after SIGTERM and --drain-delay",
	  "`deadline` and five seconds for the answer" },
	{ "service-account", TEXT(service_account, "runtime-account"),
	  "service account of the pods",
	  "the name in OpenPAI" },
	{ "apiserver-uri", TEXT(apiserver_uri, "https://kubernetes.default.svc"),
	  "KUBE_APISERVER_ADDRESS in pods: the name in the API server's certificate",
	  "every API server's certificate has this name" },
	{ "user-namespace", TEXT(user_namespace, "pai-user-v2"),
	  "namespace of the users' Secrets with --users=openpai",
	  "the name in OpenPAI" },
	{ "group-namespace", TEXT(group_namespace, "pai-group"),
	  "namespace of the groups' Secrets with --users=openpai",
	  "the name in OpenPAI" },
	{ "token-namespace", TEXT(token_namespace, "pai-user-token"),
	  "namespace of the Secrets with users' tokens with --token-check=stored",
	  "the name in OpenPAI" },
	{ "token-cache", SECONDS(token_cache_s, 30),
	  "time for which tokens, users, groups and storages are cached",
	  "a revoked token works for 30 seconds at most on other replicas" },
	{ "rate-list", COUNT(rate_list, 600),
	  "lists of jobs per user and minute; ignored with --no-auth",
	  "ten times the limit of OpenPAI" },
	{ "rate-login", COUNT(rate_login, 10),
	  "login attempts per minute from an address as one user; 3 times as many from an address, and as one user",
	  "people mistype a password a few times, and a guess must be slow" },
	{ "rate-lookup", COUNT(rate_lookup, 120),
	  "cache-miss look-ups per user and minute; over the limit the answer is 404; ignored with --no-auth",
	  "guessing names of jobs must not load the API server" },
	{ "events-memory", BYTES(events_memory, 16 * MIB),
	  "memory of the Events of pods; the oldest are dropped",
	  "Events are diagnostic data, and the API server drops them within hours" },
	{ "detail-memory", BYTES(detail_memory, 64 * MIB),
	  "memory of answers above 1 MiB about single jobs, per loop; over the limit the answer is 503",
	  "room for several of the largest jobs at once" },
	{ "watch-page", COUNT(watch_page, 500),
	  "Frameworks per page when all jobs are listed",
	  "the page size of kubectl and client-go" },
	{ "max-object-read", BYTES(max_object_read, 4 * MIB),
	  "size of a Framework; a larger one is listed as UNKNOWN",
	  "more than twice the size that etcd stores by default (1.5 MiB)" },
	{ "history-bytes", BYTES(history_bytes, 256 * KIB),
	  "compressed size of one earlier attempt; a larger one is kept without its tasks",
	  "a quarter of the size that Kubernetes allows for a ConfigMap (1 MiB)" },
	{ "streams-per-user", COUNT(streams_per_user, 8),
	  "concurrent streams and long polls per user and loop; over the limit the answer is 429",
	  "some pages and commands at once, and no user takes all connections" },
	{ "stream-lifetime", SECONDS(stream_lifetime_s, 300),
	  "duration of a stream or long poll; the client then asks again",
	  "clients spread over new replicas within minutes" },
	{ "stream-heartbeat", SECONDS(stream_heartbeat_s, 30),
	  "interval between heartbeats of a stream",
	  "many proxies close a connection that is silent for 60 seconds" },
	{ "stream-buffer", BYTES(stream_buffer, 64 * KIB),
	  "unread bytes of a stream; over the limit the server closes it",
	  "at most 32 MiB per loop with the default of --connections" },
	{ "list-rows", COUNT(list_rows, 1000000),
	  "jobs in all large lists that a loop is sending; over the limit the answer is 503, except for the first list",
	  "bounds the memory that slow readers of lists hold" },
	{ "log-link-lifetime", SECONDS(log_link_lifetime_s, 300),
	  "validity of a link to a log",
	  "a link needs no token, so it must expire soon" },
	{ "log-streams", COUNT(log_streams, 32),
	  "logs that a loop reads concurrently; over the limit the answer is 503",
	  "each log holds a connection to the API server" },
	{ "log-tail", BYTES(log_tail, 16 * KIB),
	  "size of a log with ?tail-mode=true",
	  "some screens of text" },
	{ "hived-scheduler", TEXT(hived_scheduler, HIVED_SCHEDULER),
	  "prefix of HiveD's schedulers: PREFIX-ds-VC serves the virtual cluster VC",
	  "the name in OpenPAI" },
	{ "hived-device-env", TEXT(hived_device_env, HIVED_DEVICE_ENV),
	  "environment variables that tell a container its devices",
	  "the one of NVIDIA's container toolkit, and the one of HiveD" },
	{ "hived-interval", SECONDS(hived_interval_s, 10),
	  "interval between polls of --hived-webservice; after 3 consecutive failures the last answer is discarded",
	  "cells become free or bad within seconds, and one poll costs HiveD little" },
	{ "hived-max-answer", BYTES(hived_max_answer, 16 * MIB),
	  "size of one answer of --hived-webservice; a larger one is discarded",
	  "the limit of --hived-config" },
	{ "patience", SECONDS(patience_s, 60),
	  "time for which submit repeats a request without an answer, or with 408, 429, 502, 503 or 504",
	  "a replaced server is available again within a minute" },
	{ "max-logs", COUNT(max_logs, 6),
	  "tasks whose logs `submit --logs` prints concurrently",
	  "less than `streams-per-user`, because following the job takes one" },
	{ "max-line", BYTES(max_line, 16 * KIB),
	  "printed bytes of a line of a log",
	  "a line without an end must not fill the terminal" },
	{ "max-depth", COUNT(max_depth, 64),
	  "nesting of lists and mappings in a job",
	  "bounds the stack of the reader" },
	{ "max-nodes", COUNT(max_nodes, 100000),
	  "values in a job, with aliases expanded",
	  "nested aliases of YAML grow exponentially" },
	{ "max-text", BYTES(max_text, 8 * MIB),
	  "text of all scalars in a job, with aliases expanded",
	  "nested aliases of YAML grow exponentially" },
	{ "max-key", BYTES(max_key, KIB),
	  "one key of a mapping in a job",
	  "keys are names; the longest valid name has 253 bytes" },
	{ "max-rendered", BYTES(max_rendered, MIB),
	  "all commands of a job after rendering",
	  "placeholders can repeat a long parameter; etcd stores 1.5 MiB by default" },
	{ "max-roles", COUNT(max_roles, 256),
	  "task roles of a job",
	  "every role adds variables to every container" },
	{ "max-instances", COUNT(max_instances, 10000),
	  "tasks of a task role",
	  "the status of all tasks must fit into one Framework" },
	{ "max-tasks", COUNT(max_tasks, 20000),
	  "tasks of a job",
	  "the status of all tasks must fit into one Framework" },
	{ "max-command", BYTES(max_command, 131062),
	  "command of a task after escaping",
	  "Linux allows 131071 bytes for a variable with its name, here USER_CMD" },
	{ "max-annotations", BYTES(max_annotations, 248 * KIB),
	  "all annotations of a Framework",
	  "Kubernetes allows 256 KiB, of which 8 KiB are for tags" },
	{ "max-object", BYTES(max_object, 1408 * KIB),
	  "one object",
	  "etcd stores 1.5 MiB by default; the API server and FrameworkController add to objects" },
	{ "max-env-inline", BYTES(max_env_inline, 256 * KIB),
	  "environment of all roles in the Framework; above it the common part moves to a ConfigMap",
	  "most jobs need no ConfigMap, and large ones leave room in the Framework" },
	{ "webhook-lease", SECONDS(webhook_lease_s, 15),
	  "after so long without a renewal another server reports the ends of jobs",
	  "the default of Kubernetes' own components" },
	{ "read-timeout", SECONDS(read_timeout_s, 10),
	  "time for the TLS handshake and for receiving a request",
	  "a client that sends slowly on purpose holds a connection for 10 seconds only" },
	{ "idle-timeout", SECONDS(idle_timeout_s, 60),
	  "time between two requests of a connection, and for reading pending data",
	  "a common value of HTTP servers and proxies" },
	{ "deadline", SECONDS(deadline_s, 30),
	  "time for the API server to execute a request",
	  "many proxies and clients give up after 60 seconds" },
	{ "in-flight", COUNT(in_flight, 16),
	  "concurrent requests to the API server, per loop",
	  "the API server limits the concurrent requests of all its clients" },
	{ "queue", COUNT(queue, 1000),
	  "requests that wait for `in-flight`, per loop; over the limit the answer is 503",
	  "at half a second per request, about 1000 are served within `deadline`" },
	{ "queue-per-user", COUNT(queue_per_user, 250),
	  "waiting and running requests per user and loop; over the limit the answer is 503",
	  "a quarter of `queue`, so that no user fills it" },
	{ "queue-bytes", BYTES(queue_bytes, 64 * MIB),
	  "memory of all submissions in progress, per loop; over the limit the answer is 503",
	  "bounds the memory of many large jobs" },
	{ "dry-run-bytes", BYTES(dry_run_bytes, 64 * MIB),
	  "memory of all dry runs until their answers are sent, per loop; over the limit the answer is 503",
	  "bounds the memory that slow readers of dry runs hold" },
	{ "code-age", SECONDS(code_age_s, 3600),
	  "time for which code that no job names is kept after its last use",
	  "longer than it takes to submit jobs of it after the upload, also by hand" },
	{ "code-user", BYTES(code_user, 32 * MIB),
	  "code of a user in a cluster, compressed; each counts as 64 KiB at least",
	  "eight of the largest; etcd has 2 GiB by default for everything" },
	{ "code-all", BYTES(code_all, 256 * MIB),
	  "code of all users in a cluster, compressed",
	  "an eighth of the 2 GiB that etcd has by default" },
	{ "machine-code-user", BYTES(machine_code_user, 4 * GIB),
	  "code of a user on one machine, compressed",
	  "four of the largest" },
	{ "machine-code-all", BYTES(machine_code_all, 16 * GIB),
	  "code of all users on one machine, compressed",
	  "room for 16 of the largest; the free space of the disk is checked, too" },
	{ "max-answer", BYTES(max_answer, 4 * MIB),
	  "one answer of the API server",
	  "more than twice the size that etcd stores by default (1.5 MiB)" },
};
/* clang-format on */
const size_t N_FIXED_LIMITS = ARRAY_SIZE(FIXED_LIMITS);

const struct limit *limit_find(struct span name)
{
	for (size_t i = 0; i < N_FIXED_LIMITS; i++)
		if (span_is(name, FIXED_LIMITS[i].name))
			return &FIXED_LIMITS[i];
	return NULL;
}

void limit_value(struct str *out, const struct limit *l)
{
	const struct option as_option = { .type = l->type, .text = l->text, .number = l->number };
	option_default(out, &as_option);
}

int limits_read(struct options *o, struct err *e)
{
	for (size_t i = 0; i < N_FIXED_LIMITS; i++) {
		char *field = (char *)o + FIXED_LIMITS[i].at;
		if (FIXED_LIMITS[i].text)
			*(const char **)field = FIXED_LIMITS[i].text;
		else
			*(int64_t *)field = FIXED_LIMITS[i].number;
	}
	o->test_limits = getenv(TEST_LIMITS_VARIABLE) ?: ""; /* NOLINT(concurrency-mt-unsafe) */
	struct span rest = span_of(o->test_limits);
	while (rest.n) {
		struct span word = span_next(&rest, ' ');
		struct span value = word;
		const struct limit *l = limit_find(span_next(&value, '='));
		int64_t n = 0;
		if (!word.n)
			continue;
		if (!l || !value.n ||
		    (!l->text && option_number(value, l->type == OPTION_BYTES, &n) < 0)) {
			char shown[4 * QUOTE_MAX];
			return err_set(e, 400, "InvalidOption",
			               TEST_LIMITS_VARIABLE
			               ": must be NAME=VALUE with fixed limits, is \"%s\"",
			               quote(shown, word));
		}
		if (l->text)
			*(const char **)((char *)o + l->at) = arena_dup(&o->arena, value);
		else
			*(int64_t *)((char *)o + l->at) = n;
	}
	return 0;
}
