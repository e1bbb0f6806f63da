/* Prints the metrics of the server by a table, and adds up the counts of all loops and stores. */
#include "server/serve/metrics.h"

#include <stdio.h>

#include "jobs/cache/cache.h"
#include "jobs/cache/job_entry.h"
#include "k8s/watch/reflector.h"
#include "machine/engine/engine.h"
#include "server/cluster/follow.h"
#include "server/http/loop.h"
#include "server/logs/logs.h"
#include "server/serve/routes.h"
#include "server/state/counts.h"
#include "server/state/metric.h"
#include "translate/job/dialect.h"

enum { LABELS_MAX = METRIC_LABELS_MAX };

/* The server that is scraped. */
static const struct server *metrics_server(const struct scrape *s)
{
	return s->from;
}

/* ---- requests ---- */

struct route_sum {
	uint64_t answers[CODES_N];
	struct histogram_sum latency;
};

/* index: of a route of all loops with these routes; SIZE_MAX: requests without a route. */
static void route_sum_add(struct route_sum *sum, const struct counts *c, const struct route *routes,
                          size_t index)
{
	for (size_t i = 0; i < c->n_loops; i++) {
		const struct loop_counts *l = c->loop[i];
		if (index != SIZE_MAX && l->routes != routes)
			continue;
		const struct route_counts *r = &l->route[index == SIZE_MAX ? l->n_routes : index];
		for (size_t k = 0; k < CODES_N; k++)
			sum->answers[k] += counter_get(&r->answers[k]);
		histogram_sum_add(&sum->latency, &r->latency);
	}
}

static void metrics_put_route(const struct scrape *s, const struct route_sum *sum,
                              const char *labels)
{
	if (s->metric->type == METRIC_HISTOGRAM && sum->latency.n)
		metrics_put_histogram(s, &sum->latency, labels);
	for (size_t i = 0; s->metric->type == METRIC_COUNTER && i < CODES_N; i++)
		if (sum->answers[i])
			metrics_put(s, sum->answers[i], "%s,code=\"%d\"", labels, CODES[i]);
}

/* Answers, or their latency.  Routes that nobody has requested have no series. */
static void metrics_put_routes(const struct scrape *s)
{
	const struct route_table tables[] = { ROUTES, { &UPLOAD_ROUTE, 1 }, { &METRICS_ROUTE, 1 } };
	char labels[LABELS_MAX];
	for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
		for (size_t i = 0; i < tables[t].n; i++) {
			const struct route *r = &tables[t].row[i];
			struct route_sum sum = { 0 };
			route_sum_add(&sum, metrics_server(s)->counts, tables[t].row, i);
			(void)snprintf(labels, sizeof(labels), "method=\"%s\",route=\"%s\"",
			               route_method(r), r->path);
			metrics_put_route(s, &sum, labels);
		}
	}
	struct route_sum sum = { 0 };
	route_sum_add(&sum, metrics_server(s)->counts, NULL, SIZE_MAX);
	metrics_put_route(s, &sum, "method=\"none\",route=\"none\"");
}

/* ---- other counts of the loops ---- */

static uint64_t metrics_sum(const struct counts *c, size_t at)
{
	uint64_t n = 0;
	for (size_t i = 0; i < c->n_loops; i++)
		n += counter_at(c->loop[i], at);
	return n;
}

static void metrics_put_sum(const struct scrape *s)
{
	metrics_put(s, metrics_sum(metrics_server(s)->counts, s->metric->at), "%s", "");
}

static void metrics_put_submissions(const struct scrape *s)
{
	static const char *const OUTCOMES[SUBMIT_OUTCOME_MAX] = {
		[SUBMIT_CREATED] = "created",
		[SUBMIT_REPEATED] = "repeated",
		[SUBMIT_DRY_RUN] = "dry_run",
		[SUBMIT_INVALID] = "invalid",
		[SUBMIT_DENIED] = "denied",
		[SUBMIT_EXISTS] = "exists",
		[SUBMIT_UNAVAILABLE] = "unavailable",
		[SUBMIT_UNKNOWN] = "unknown",
		[SUBMIT_ERROR] = "error",
		[SUBMIT_LEFT] = "client_left",
	};
	for (size_t d = 0; d <= DIALECT_UNREAD; d++) {
		const struct dialect *dialect = dialect_nth(d);
		for (size_t i = 0; (dialect || d == DIALECT_UNREAD) && i < SUBMIT_OUTCOME_MAX; i++)
			metrics_put(s,
			            metrics_sum(metrics_server(s)->counts,
			                        offsetof(struct loop_counts, submissions[d][i])),
			            "dialect=\"%s\",outcome=\"%s\"",
			            dialect ? dialect->name : "unread", OUTCOMES[i]);
	}
}

static void metrics_put_translation(const struct scrape *s)
{
	const struct counts *c = metrics_server(s)->counts;
	struct histogram_sum sum = { 0 };
	for (size_t i = 0; i < c->n_loops; i++)
		histogram_sum_add(&sum, &c->loop[i]->translation);
	metrics_put_histogram(s, &sum, "");
}

/* ---- the API server, or the directory ---- */

/* The sum of a counter over all stores. */
static uint64_t metrics_sum_stores(const struct scrape *s, size_t at)
{
	const struct counts *c = metrics_server(s)->counts;
	uint64_t n = metrics_sum(c, offsetof(struct loop_counts, store) + at);
	for (size_t i = 0; i < c->n_stores; i++)
		n += counter_at(&c->store[i], at);
	return n;
}

static void metrics_put_calls(const struct scrape *s)
{
	for (size_t v = 0; v < STORE_VERBS; v++)
		for (size_t k = 0; k < STORE_CALLS; k++)
			metrics_put(
			    s, metrics_sum_stores(s, offsetof(struct store_counts, calls[v][k])),
			    "verb=\"%s\",outcome=\"%s\"", METRIC_VERBS[v], METRIC_CALLS[k]);
}

static void metrics_put_call_latency(const struct scrape *s)
{
	const struct counts *c = metrics_server(s)->counts;
	char labels[LABELS_MAX];
	for (size_t v = 0; v < STORE_VERBS; v++) {
		struct histogram_sum sum = { 0 };
		for (size_t i = 0; i < c->n_loops; i++)
			histogram_sum_add(&sum, &c->loop[i]->store.latency[v]);
		for (size_t i = 0; i < c->n_stores; i++)
			histogram_sum_add(&sum, &c->store[i].latency[v]);
		(void)snprintf(labels, sizeof(labels), "verb=\"%s\"", METRIC_VERBS[v]);
		metrics_put_histogram(s, &sum, labels);
	}
}

static void metrics_put_store_sum(const struct scrape *s)
{
	metrics_put(s, metrics_sum_stores(s, s->metric->at), "%s", "");
}

/* ---- the cache, the janitor, this machine ---- */

static void metrics_put_jobs(const struct scrape *s)
{
	struct cache_figures f = cache_figures(metrics_server(s)->cache);
	for (size_t i = 0; i < JOB_STATE_MAX; i++)
		metrics_put(s, f.by_state[i], "state=\"%s\"", JOB_STATES[i]);
}

static void metrics_put_cache_bytes(const struct scrape *s)
{
	metrics_put(s, cache_figures(metrics_server(s)->cache).bytes, "%s", "");
}

static void metrics_put_cache_age(const struct scrape *s)
{
	metrics_put_seconds(s, "", "", (uint64_t)follow_age_ms(metrics_server(s)) * 1000);
}

static void metrics_put_reflector(const struct scrape *s)
{
	static const char *const COLLECTIONS[2] = { "frameworks", "events" };
	for (size_t i = 0; i < 2; i++) {
		const struct reflector_counts *c = follow_counts(metrics_server(s), i == 1);
		if (c)
			metrics_put(s, counter_at(c, s->metric->at), "collection=\"%s\"",
			            COLLECTIONS[i]);
	}
}

static void metrics_put_janitor_rounds(const struct scrape *s)
{
	const struct janitor_counts *j = &metrics_server(s)->counts->janitor;
	if (metrics_server(s)->local) /* it has none */
		return;
	metrics_put(s, counter_get(&j->good), "result=\"ok\"");
	metrics_put(s, counter_get(&j->failed), "result=\"failed\"");
}

static void metrics_put_janitor_removed(const struct scrape *s)
{
	const struct janitor_counts *j = &metrics_server(s)->counts->janitor;
	if (metrics_server(s)->local)
		return;
	metrics_put(s, counter_get(&j->frameworks), "kind=\"Framework\"");
	metrics_put(s, counter_get(&j->classes), "kind=\"PriorityClass\"");
}

static void metrics_put_webhook(const struct scrape *s)
{
	metrics_put(s, counter_at(&metrics_server(s)->counts->webhook, s->metric->at), "%s", "");
}

static void metrics_put_tasks(const struct scrape *s)
{
	struct engine_shares f;
	if (!metrics_server(s)->engine)
		return;
	engine_shares(metrics_server(s)->engine, NULL, &f);
	metrics_put(s, f.all.waiting, "state=\"waiting\"");
	metrics_put(s, f.all.running, "state=\"running\"");
}

static void metrics_put_gpus(const struct scrape *s)
{
	struct engine_shares f;
	if (!metrics_server(s)->engine)
		return;
	engine_shares(metrics_server(s)->engine, NULL, &f);
	int64_t spare = f.total.gpus - f.all.held.gpus - f.foreign.gpus;
	metrics_put(s, (uint64_t)f.all.held.gpus, "state=\"held\"");
	metrics_put(s, (uint64_t)f.foreign.gpus, "state=\"foreign\"");
	metrics_put(s, spare > 0 ? (uint64_t)spare : 0, "state=\"free\"");
}

static void metrics_put_idle(const struct scrape *s)
{
	CACHE_VIEW_AUTO *view = cache_view(metrics_server(s)->cache);
	struct view_walk walk = { .view = view };
	uint64_t n = 0;
	for (const struct job_entry *job; (job = view_next(&walk)) != NULL;)
		n += job->gpu_idle_ms != JOB_ENTRY_NONE;
	if (metrics_server(s)->local)
		metrics_put(s, n, "%s", "");
}

/* GPUs that somebody has looked at lately; a busy one as hundredths of percent, to have a fraction.
 */
static void metrics_put_gpu(const struct scrape *s)
{
	ARENA_AUTO a = { 0 };
	struct engine_shares f = { .gpu = NULL };
	char labels[LABELS_MAX];
	if (metrics_server(s)->engine)
		engine_shares(metrics_server(s)->engine, &a, &f);
	for (int64_t i = 0; f.gpu && i < f.total.gpus; i++) {
		(void)snprintf(labels, sizeof(labels), "gpu=\"%lld\"", (long long)i);
		if (!f.gpu[i].known)
			continue;
		if (s->metric->at)
			metrics_put(s, f.gpu[i].outside_n, "%s", labels);
		else if (f.gpu[i].busy >= 0)
			metrics_put_seconds(s, "", labels, (uint64_t)(f.gpu[i].busy * 10000));
	}
}

static void metrics_put_cluster(void *scrape, const char *name, int64_t gpu_ms)
{
	char labels[LABELS_MAX];
	(void)snprintf(labels, sizeof(labels), "virtual_cluster=\"%s\"", name);
	if (gpu_ms)
		metrics_put_seconds(scrape, "", labels, (uint64_t)gpu_ms * 1000);
}

static void metrics_put_held(const struct scrape *s)
{
	struct scrape copy = *s;
	if (metrics_server(s)->engine)
		engine_gpus_held(metrics_server(s)->engine, metrics_put_cluster, &copy);
}

static void metrics_put_build(const struct scrape *s)
{
	metrics_put(s, 1, "version=\"%s\"", REST_LIT_VERSION);
}

/* ---- the table ---- */

#define LOOP(member)      metrics_put_sum, offsetof(struct loop_counts, member)
#define STORES(member)    metrics_put_store_sum, offsetof(struct store_counts, member)
#define REFLECTOR(member) metrics_put_reflector, offsetof(struct reflector_counts, member)
#define WEBHOOK(member)   metrics_put_webhook, offsetof(struct webhook_counts, member)

/* clang-format off */
static const struct metric METRICS[] = {
	{ "rest_lit_build_info", METRIC_GAUGE, "version",
	  "1; the version of this server.", metrics_put_build, 0 },
	{ "rest_lit_http_requests_total", METRIC_COUNTER, "method, route, code",
	  "Requests that have ended. route: as in ROUTES.md, `none` for unknown ones; code: status of the answer, 0 if the client left before it.", metrics_put_routes, 0 },
	{ "rest_lit_http_request_duration_seconds", METRIC_HISTOGRAM, "method, route",
	  "Time from the request line to the answer, without streams and long polls.", metrics_put_routes, 0 },
	{ "rest_lit_http_requests_in_flight", METRIC_GAUGE, "",
	  "Requests that are being received, processed or answered, streams included.", LOOP(requests) },
	{ "rest_lit_http_connections", METRIC_GAUGE, "",
	  "Connections of clients; --connections is the limit per loop.", LOOP(connections) },
	{ "rest_lit_http_long_lived", METRIC_GAUGE, "",
	  "Streams of events, followed logs and long polls.", LOOP(long_lived) },
	{ "rest_lit_submissions_total", METRIC_COUNTER, "dialect, outcome",
	  "Submissions of authenticated users. dialect: `unread` if the job is invalid or was not read; outcome: created, repeated (by its Idempotency-Key), dry_run, invalid, denied, exists, unavailable (503), unknown (504), error (other 5xx), client_left.", metrics_put_submissions, 0 },
	{ "rest_lit_translation_duration_seconds", METRIC_HISTOGRAM, "",
	  "Time to check a job and to build its objects.", metrics_put_translation, 0 },
	{ "rest_lit_upstream_requests_total", METRIC_COUNTER, "verb, outcome",
	  "Requests to the API server or the database of --local, watches and logs apart. outcome: ok, exists, conflict, not_found, refused, busy (not executed), ambiguous (perhaps executed), full (this server's queue), again (failed, and was repeated).", metrics_put_calls, 0 },
	{ "rest_lit_upstream_request_duration_seconds", METRIC_HISTOGRAM, "verb",
	  "Time from sending such a request to its answer, without its wait in the queue.", metrics_put_call_latency, 0 },
	{ "rest_lit_upstream_queue", METRIC_GAUGE, "",
	  "Such requests that wait in this server; the limit is 1000 per loop.", STORES(queued) },
	{ "rest_lit_upstream_in_flight", METRIC_GAUGE, "",
	  "Such requests that were sent and have no answer yet.", STORES(in_flight) },
	{ "rest_lit_cache_jobs", METRIC_GAUGE, "state",
	  "Jobs in the cache, by state.", metrics_put_jobs, 0 },
	{ "rest_lit_cache_bytes", METRIC_GAUGE, "",
	  "Memory of the cache of jobs.", metrics_put_cache_bytes, 0 },
	{ "rest_lit_cache_age_seconds", METRIC_GAUGE, "",
	  "Time since the last message of the API server about jobs, which sends one a minute at least; 0 with --local.", metrics_put_cache_age, 0 },
	{ "rest_lit_reflector_lists_total", METRIC_COUNTER, "collection",
	  "Complete lists of the collection; all but the first are restarts.", REFLECTOR(lists) },
	{ "rest_lit_reflector_watches_total", METRIC_COUNTER, "collection",
	  "Watches of the collection that were begun; each lasts at most 8 minutes.", REFLECTOR(watches) },
	{ "rest_lit_reflector_failures_total", METRIC_COUNTER, "collection",
	  "Lists and watches that failed.", REFLECTOR(failures) },
	{ "rest_lit_janitor_rounds_total", METRIC_COUNTER, "result",
	  "Searches for objects that a killed server has left, in a cluster. result: ok, failed.", metrics_put_janitor_rounds, 0 },
	{ "rest_lit_janitor_removed_total", METRIC_COUNTER, "kind",
	  "Objects that these searches removed.", metrics_put_janitor_removed, 0 },
	{ "rest_lit_webhook_sent_total", METRIC_COUNTER, "",
	  "Ends of jobs that --webhook has taken.", WEBHOOK(sent) },
	{ "rest_lit_webhook_failures_total", METRIC_COUNTER, "",
	  "Attempts to report an end that failed; each is repeated.", WEBHOOK(failed) },
	{ "rest_lit_webhook_pending", METRIC_GAUGE, "",
	  "Ended jobs that --webhook must still be told of; all servers have the same, and one of them sends.", WEBHOOK(pending) },
	{ "rest_lit_log_tails", METRIC_GAUGE, "",
	  "Logs of tasks that are being read for clients.", LOOP(log_streams) },
	{ "rest_lit_local_tasks", METRIC_GAUGE, "state",
	  "Tasks on this machine; --local only. state: waiting (for resources), running.", metrics_put_tasks, 0 },
	{ "rest_lit_local_gpus", METRIC_GAUGE, "state",
	  "GPUs of this machine; --local only. state: held (by tasks), foreign (by other programs, as of the last look), free.", metrics_put_gpus, 0 },
	{ "rest_lit_jobs_gpu_idle", METRIC_GAUGE, "",
	  "Jobs all of whose GPUs have done nothing for --gpu-idle; --local only.", metrics_put_idle, 0 },
	{ "rest_lit_gpu_busy_ratio", METRIC_GAUGE, "gpu",
	  "How busy a GPU of this machine is, from 0 to 1, while that is known; --local only.", metrics_put_gpu, 0 },
	{ "rest_lit_gpu_outside", METRIC_GAUGE, "gpu",
	  "Processes on a GPU that belong to no task that holds it; --local only.", metrics_put_gpu, 1 },
	{ "rest_lit_gpu_held_seconds_total", METRIC_COUNTER, "virtual_cluster",
	  "GPUs times the time for which jobs held them, since the start of this server; --local only.", metrics_put_held, 0 },
};
/* clang-format on */

void metrics_text(struct str *out, const struct server *s)
{
	metrics_write(out, METRICS, ARRAY_SIZE(METRICS), s);
}

static void metrics_get(struct request *r)
{
	metrics_text(&r->reply.body, r->loop->server);
	r->reply.status = 200;
	r->reply.type = "text/plain; version=0.0.4; charset=utf-8";
	answer_send(r);
}

const struct route METRICS_ROUTE = {
	.method = "GET",
	.path = "/metrics",
	.handle = metrics_get,
};

void metrics_page(struct str *out)
{
	metrics_rows(out, METRICS, ARRAY_SIZE(METRICS));
}
