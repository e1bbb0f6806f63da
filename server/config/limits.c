/* The table of fixed limits, and the variable by which tests change them. */
#include "server/config/options.h"

#include <stddef.h>
#include <stdlib.h>

#include "translate/translate.h"

#define AT(field)             .at = offsetof(struct options, field)
#define TEXT(field, value)    AT(field), .type = OPTION_TEXT, .text = (value)
#define COUNT(field, value)   AT(field), .type = OPTION_NUMBER, .number = (value)
#define SECONDS(field, value) COUNT(field, value), .unit = "seconds"
#define BYTES(field, value)   AT(field), .type = OPTION_BYTES, .number = (value)

/* docs/OPTIONS.md has the meaning and the reason of each; make facts compares. */
const struct option FIXED_LIMITS[] = {
	{ "janitor-interval", SECONDS(janitor_interval_s, 120) },
	{ "janitor-age", SECONDS(janitor_age_s, 300) },
	{ "drain-timeout", SECONDS(drain_timeout_s, 35) },
	{ "service-account", TEXT(service_account, "runtime-account") },
	{ "apiserver-uri", TEXT(apiserver_uri, "https://kubernetes.default.svc") },
	{ "user-namespace", TEXT(user_namespace, "pai-user-v2") },
	{ "group-namespace", TEXT(group_namespace, "pai-group") },
	{ "token-namespace", TEXT(token_namespace, "pai-user-token") },
	{ "token-cache", SECONDS(token_cache_s, 30) },
	{ "rate-list", COUNT(rate_list, 600) },
	{ "rate-login", COUNT(rate_login, 10) },
	{ "rate-lookup", COUNT(rate_lookup, 120) },
	{ "events-memory", BYTES(events_memory, 16 * MIB) },
	{ "detail-memory", BYTES(detail_memory, 64 * MIB) },
	{ "watch-page", COUNT(watch_page, 500) },
	{ "max-object-read", BYTES(max_object_read, 4 * MIB) },
	{ "history-bytes", BYTES(history_bytes, 256 * KIB) },
	{ "streams-per-user", COUNT(streams_per_user, 8) },
	{ "stream-lifetime", SECONDS(stream_lifetime_s, 300) },
	{ "stream-heartbeat", SECONDS(stream_heartbeat_s, 30) },
	{ "stream-buffer", BYTES(stream_buffer, 64 * KIB) },
	{ "list-rows", COUNT(list_rows, 1000000) },
	{ "log-link-lifetime", SECONDS(log_link_lifetime_s, 300) },
	{ "log-streams", COUNT(log_streams, 32) },
	{ "log-tail", BYTES(log_tail, 16 * KIB) },
	{ "hived-scheduler", TEXT(hived_scheduler, HIVED_SCHEDULER) },
	{ "hived-device-env", TEXT(hived_device_env, HIVED_DEVICE_ENV) },
	{ "hived-interval", SECONDS(hived_interval_s, 10) },
	{ "hived-max-answer", BYTES(hived_max_answer, 16 * MIB) },
	{ "patience", SECONDS(patience_s, 60) },
	{ "max-logs", COUNT(max_logs, 6) },
	{ "max-line", BYTES(max_line, 16 * KIB) },
	{ "max-depth", COUNT(max_depth, 64) },
	{ "max-nodes", COUNT(max_nodes, 100000) },
	{ "max-text", BYTES(max_text, 8 * MIB) },
	{ "max-key", BYTES(max_key, KIB) },
	{ "max-rendered", BYTES(max_rendered, MIB) },
	{ "max-roles", COUNT(max_roles, 256) },
	{ "max-instances", COUNT(max_instances, 10000) },
	{ "max-tasks", COUNT(max_tasks, 20000) },
	{ "max-command", BYTES(max_command, 131062) },
	{ "max-annotations", BYTES(max_annotations, 248 * KIB) },
	{ "max-object", BYTES(max_object, 1408 * KIB) },
	{ "max-env-inline", BYTES(max_env_inline, 256 * KIB) },
	{ "webhook-lease", SECONDS(webhook_lease_s, 15) },
	{ "read-timeout", SECONDS(read_timeout_s, 10) },
	{ "idle-timeout", SECONDS(idle_timeout_s, 60) },
	{ "deadline", SECONDS(deadline_s, 30) },
	{ "in-flight", COUNT(in_flight, 16) },
	{ "queue", COUNT(queue, 1000) },
	{ "queue-per-user", COUNT(queue_per_user, 250) },
	{ "queue-bytes", BYTES(queue_bytes, 64 * MIB) },
	{ "dry-run-bytes", BYTES(dry_run_bytes, 64 * MIB) },
	{ "code-age", SECONDS(code_age_s, 3600) },
	{ "code-user", BYTES(code_user, 32 * MIB) },
	{ "code-all", BYTES(code_all, 256 * MIB) },
	{ "machine-code-user", BYTES(machine_code_user, 4 * GIB) },
	{ "machine-code-all", BYTES(machine_code_all, 16 * GIB) },
	{ "max-answer", BYTES(max_answer, 4 * MIB) },
};
const size_t N_FIXED_LIMITS = ARRAY_SIZE(FIXED_LIMITS);

const struct option *limit_find(struct span name)
{
	for (size_t i = 0; i < N_FIXED_LIMITS; i++)
		if (span_is(name, FIXED_LIMITS[i].name))
			return &FIXED_LIMITS[i];
	return NULL;
}

int limits_read(struct options *o, struct err *e)
{
	for (size_t i = 0; i < N_FIXED_LIMITS; i++)
		option_reset(o, &FIXED_LIMITS[i]);
	o->test_limits = getenv(TEST_LIMITS_VARIABLE) ?: ""; /* NOLINT(concurrency-mt-unsafe) */
	struct span rest = span_of(o->test_limits);
	while (rest.n) {
		struct span word = span_next(&rest, ' ');
		struct span value = word;
		const struct option *l = limit_find(span_next(&value, '='));
		if (!word.n)
			continue;
		struct option changed = l ? *l : (struct option){ .name = NULL };
		changed.text = arena_dup(&o->arena, value);
		if (!l || !value.n ||
		    (l->type != OPTION_TEXT &&
		     option_number(value, l->type == OPTION_BYTES, &changed.number) < 0)) {
			char shown[4 * QUOTE_MAX];
			return err_set(e, 400, "InvalidOption",
			               TEST_LIMITS_VARIABLE
			               ": must be NAME=VALUE with fixed limits, is \"%s\"",
			               quote(shown, word));
		}
		option_reset(o, &changed);
	}
	return 0;
}
