/* Prints the counts of the controller by a table: name, sentence, function. */
#include "server/controller/controller_metrics.h"

#include <stdio.h>

#include "base/posix/clock.h"
#include "jobs/framework/framework.h"
#include "k8s/controller/controller.h"

/* The counts that are scraped. */
#define COUNTS(s) ((const struct controller_counts *)(s)->from)

static void controller_put_counter(const struct scrape *s)
{
	metrics_put(s, counter_at(s->from, s->metric->at), "%s", "");
}

static void controller_put_leader(const struct scrape *s)
{
	uint64_t phase = counter_get(&COUNTS(s)->phase);
	metrics_put(s, phase == CONTROLLER_LISTING || phase == CONTROLLER_LEADING, "%s", "");
}

static void controller_put_ready(const struct scrape *s)
{
	metrics_put(s, !controller_unready(s->from), "%s", "");
}

static void controller_put_frameworks(const struct scrape *s)
{
	const struct rules_counts *c = &COUNTS(s)->rules;
	for (size_t i = 0; i <= FRAMEWORK_STATES; i++)
		metrics_put(s, counter_get(&c->frameworks[i]), "state=\"%s\"",
		            i < FRAMEWORK_STATES ? FW_STATES[i] : "none");
}

static void controller_put_oldest(const struct scrape *s)
{
	int64_t since_ms = (int64_t)counter_get(&COUNTS(s)->rules.oldest_due_ms);
	int64_t age_ms = since_ms ? clock_ms() - since_ms : 0;
	metrics_put_seconds(s, "", "", age_ms > 0 ? (uint64_t)age_ms * 1000 : 0);
}

static void controller_put_histogram(const struct scrape *s, const struct histogram *h,
                                     const char *labels)
{
	struct histogram_sum sum = { 0 };
	histogram_sum_add(&sum, h);
	metrics_put_histogram(s, &sum, labels);
}

static void controller_put_sync(const struct scrape *s)
{
	controller_put_histogram(s, &COUNTS(s)->rules.sync, "");
}

static void controller_put_calls(const struct scrape *s)
{
	for (size_t v = 0; v < STORE_READY; v++)
		for (size_t k = 0; k < STORE_CALLS; k++)
			metrics_put(s, counter_get(&COUNTS(s)->store.calls[v][k]),
			            "verb=\"%s\",outcome=\"%s\"", METRIC_VERBS[v], METRIC_CALLS[k]);
}

static void controller_put_latency(const struct scrape *s)
{
	char labels[METRIC_LABELS_MAX];
	for (size_t v = 0; v < STORE_READY; v++) {
		(void)snprintf(labels, sizeof(labels), "verb=\"%s\"", METRIC_VERBS[v]); /* fits */
		controller_put_histogram(s, &COUNTS(s)->store.latency[v], labels);
	}
}

/* Of each watch: its age, or the counter at this offset. */
static void controller_put_watches(const struct scrape *s)
{
	static const char *const NAMES[CONTROLLER_WATCHES] = { "frameworks", "configmaps", "pods",
		                                               "workloads" };
	for (size_t i = 0; i < CONTROLLER_WATCHES; i++) {
		const struct watch_counts *c = &COUNTS(s)->watches[i];
		char labels[METRIC_LABELS_MAX];
		int64_t seen_ms = (int64_t)counter_get(&c->seen_ms);
		int64_t age_ms = clock_ms() - seen_ms;
		(void)snprintf(labels, sizeof(labels), "collection=\"%s\"", NAMES[i]); /* fits */
		if (s->metric->type == METRIC_COUNTER)
			metrics_put(s, counter_at(c, s->metric->at), "%s", labels);
		else if (seen_ms)
			metrics_put_seconds(s, "", labels,
			                    age_ms > 0 ? (uint64_t)age_ms * 1000 : 0);
	}
}

static void controller_put_refusals(const struct scrape *s)
{
	const struct rules_counts *c = &COUNTS(s)->rules;
	metrics_put(s, counter_get(&c->unreadable), "reason=\"unreadable\"");
	metrics_put(s, counter_get(&c->unstorable), "reason=\"unstorable\"");
	metrics_put(s, counter_get(&c->forbidden), "reason=\"forbidden\"");
}

static void controller_put_events(const struct scrape *s)
{
	const struct notice_counts *c = &COUNTS(s)->notices;
	metrics_put(s, counter_get(&c->sent), "result=\"sent\"");
	metrics_put(s, counter_get(&c->failed), "result=\"failed\"");
	metrics_put(s, counter_get(&c->omitted), "result=\"omitted\"");
}

/* ---- the table ---- */

#define COUNT(member)   controller_put_counter, offsetof(struct controller_counts, member)
#define WATCHES(member) controller_put_watches, offsetof(struct watch_counts, member)
#define C               "rest_lit_controller_"

/* clang-format off */
const struct metric CONTROLLER_METRICS[] = {
	{ C "leader", METRIC_GAUGE, "", "1: this process has had the Lease, and works; 0: it is a standby.", controller_put_leader, 0 },
	{ C "ready", METRIC_GAUGE, "", "1: a standby, or a leader that knows all objects and is not passive.", controller_put_ready, 0 },
	{ C "passive", METRIC_GAUGE, "", "1: another controller writes the Frameworks, so this one pauses.", COUNT(rules.passive) },
	{ C "frameworks", METRIC_GAUGE, "state", "Frameworks that are known, by state; `none`: without a status.", controller_put_frameworks, 0 },
	{ C "pods", METRIC_GAUGE, "", "Pods that are known.", COUNT(rules.pods) },
	{ C "queue", METRIC_GAUGE, "", "Frameworks with requests that are not sent yet.", COUNT(rules.queued) },
	{ C "queue_oldest_seconds", METRIC_GAUGE, "", "Time for which the Framework that has waited longest has been due.", controller_put_oldest, 0 },
	{ C "frozen", METRIC_GAUGE, "", "Frameworks with requests that have no answer yet.", COUNT(rules.frozen) },
	{ C "event_bytes", METRIC_GAUGE, "", "Size of the events of watches that are not processed yet; the limit is 64 MiB.", COUNT(queue_bytes) },
	{ C "sync_duration_seconds", METRIC_HISTOGRAM, "", "Time for one look at a Framework, without requests.", controller_put_sync, 0 },
	{ C "syncs_total", METRIC_COUNTER, "", "Looks at Frameworks.", COUNT(rules.syncs) },
	{ C "status_writes_total", METRIC_COUNTER, "", "Writes of statuses.", COUNT(rules.writes) },
	{ C "requests_total", METRIC_COUNTER, "verb, outcome", "Requests to the API server, without the Lease and the watches; outcome: as of rest_lit_upstream_requests_total.", controller_put_calls, 0 },
	{ C "request_duration_seconds", METRIC_HISTOGRAM, "verb", "Time from sending such a request to its answer.", controller_put_latency, 0 },
	{ C "requests_in_flight", METRIC_GAUGE, "", "Such requests that were sent and have no answer yet; the limit is 64.", COUNT(store.in_flight) },
	{ C "watch_age_seconds", METRIC_GAUGE, "collection", "Time since the last message of the API server about the collection, which sends one a minute at least.", controller_put_watches, 0 },
	{ C "watch_lists_total", METRIC_COUNTER, "collection", "Complete lists of the collection; all but the first are restarts.", WATCHES(lists) },
	{ C "watch_failures_total", METRIC_COUNTER, "collection", "Outages of the watch of the collection; the log has the reasons.", WATCHES(outages) },
	{ C "taken_total", METRIC_COUNTER, "", "Frameworks that this leader has taken over, new ones included.", COUNT(rules.taken) },
	{ C "fenced_total", METRIC_COUNTER, "", "Writes that failed because another leader had taken the Framework over.", COUNT(rules.fenced) },
	{ C "foreign_statuses_total", METRIC_COUNTER, "", "Statuses that others have written.", COUNT(rules.foreign) },
	{ C "refused_total", METRIC_COUNTER, "reason", "Times that a Framework could not be driven. reason: unreadable, unstorable (its status is too large), forbidden (rights are missing).", controller_put_refusals, 0 },
	{ C "strays_total", METRIC_COUNTER, "", "Pods of no task that were deleted.", COUNT(rules.strays) },
	{ C "absences_total", METRIC_COUNTER, "", "Objects that a GET has found gone.", COUNT(rules.absences) },
	{ C "adopted_total", METRIC_COUNTER, "", "Objects whose creation had lost its answer.", COUNT(rules.adopted) },
	{ C "events_total", METRIC_COUNTER, "result", "Events about Frameworks. result: sent, failed, omitted (repeated within 5 minutes).", controller_put_events, 0 },
};
/* clang-format on */
const size_t N_CONTROLLER_METRICS = ARRAY_SIZE(CONTROLLER_METRICS);
