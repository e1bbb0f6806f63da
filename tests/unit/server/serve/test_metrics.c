/* The text of /metrics: valid for Prometheus, with sums over all threads, and of bounded size. */

#include "tests/unit/base/cmocka.h"
#include <regex.h>

#include "jobs/cache/cache.h"
#include "server/http/loop.h"
#include "server/logs/logs.h"
#include "server/serve/metrics.h"
#include "server/serve/routes.h"
#include "server/state/counts.h"

struct world {
	struct server server;
	struct loop_counts *loops[4];
	struct str text;
};

static void world_open(struct world *w)
{
	*w = (struct world){ .text = STR_INIT(REPLY_MAX) };
	w->server.local = (struct local *)w; /* a directory; not used */
	w->server.cache = cache_new(1 << 20);
	w->server.counts = xcalloc(1, sizeof(struct counts));
	w->loops[0] = counts_loop(w->server.counts, ROUTES.row, ROUTES.n);
	w->loops[1] = counts_loop(w->server.counts, ROUTES.row, ROUTES.n);
	w->loops[2] = counts_loop(w->server.counts, &UPLOAD_ROUTE, 1);
	w->loops[3] = counts_loop(w->server.counts, &METRICS_ROUTE, 1);
}

static void world_close(struct world *w)
{
	cache_free(w->server.cache);
	counts_free(w->server.counts);
	str_done(&w->text);
}

#define WORLD_OPEN(w)                                                                              \
	__attribute__((cleanup(world_close))) struct world w;                                      \
	world_open(&(w))

static const char *world_scrape(struct world *w)
{
	w->text.n = 0;
	metrics_text(&w->text, &w->server);
	assert_false(w->text.full);
	return str_c(&w->text);
}

static void assert_line(struct world *w, const char *line)
{
	STR_AUTO want = STR_INIT(1024);
	str_printf(&want, "\n%s\n", line);
	if (!strstr(world_scrape(w), str_c(&want)))
		fail_msg("no line %s in\n%s", line, str_c(&w->text));
}

static size_t route_index(const char *method, const char *path)
{
	for (size_t i = 0; i < ROUTES.n; i++)
		if (strcmp(ROUTES.row[i].method, method) == 0 &&
		    strcmp(ROUTES.row[i].path, path) == 0)
			return i;
	fail_msg("no route %s %s", method, path);
	return 0;
}

/* Every counter of every table has a value: the longest text that there can be. */
static void fill(struct world *w)
{
	static const int64_t US[] = { 1, 100000, 99000000 };
	for (size_t l = 0; l < 4; l++)
		for (size_t i = 0; i <= w->loops[l]->n_routes; i++)
			for (size_t k = 0; k < CODES_N; k++) {
				counter_set(&w->loops[l]->route[i].answers[k], UINT64_MAX / 16);
				counts_request(w->loops[l], i, CODES[k], US[k % 3]);
			}
}

static void assert_valid(const char *text)
{
	static const char LINE[] =
	    "^(# HELP [a-z_]+ [^\\]+\\.|# TYPE [a-z_]+ (counter|gauge|histogram)|"
	    "[a-z_]+(\\{[a-z_]+=\"[^\"\\]*\"(,[a-z_]+=\"[^\"\\]*\")*\\})? [0-9]+(\\.[0-9]{6})?)$";
	regex_t regex;
	assert_int_equal(regcomp(&regex, LINE, REG_EXTENDED | REG_NOSUB), 0);
	for (const char *end; *text; text = end + 1) {
		end = strchr(text, '\n');
		assert_non_null(end);
		STR_AUTO line = STR_INIT(4096);
		str_put(&line, text, (size_t)(end - text));
		if (regexec(&regex, str_c(&line), 0, NULL, 0) != 0)
			fail_msg("not valid: %s", str_c(&line));
	}
	regfree(&regex);
}

TEST(test_metrics_text_is_valid)
{
	WORLD_OPEN(w);
	assert_valid(world_scrape(&w));
	size_t before = w.text.n;
	fill(&w);
	assert_valid(world_scrape(&w));
	assert_true(w.text.n > 10 * before); /* at most REPLY_MAX, see world_scrape */
}

TEST(test_metrics_text_adds_the_counts_of_loops)
{
	WORLD_OPEN(w);
	size_t list = route_index("GET", "/api/v2/jobs");
	counts_request(w.loops[0], list, 200, 90);
	counts_request(w.loops[1], list, 200, 2600000);
	counts_request(w.loops[1], list, 503, -1);
	counts_request(w.loops[0], ROUTES.n, 404, 10);
	counts_request(w.loops[3], 1, 404, 10);
	counts_request(w.loops[3], 0, 200, 10);
	counts_request(w.loops[3], 0, 299, 10);
	counter_set(&w.loops[0]->requests, 3);
	counter_set(&w.loops[2]->requests, 4);
	counter_add(&w.loops[1]->submissions[1][SUBMIT_EXISTS], 7);
#define LIST "{method=\"GET\",route=\"/api/v2/jobs\""
#define NONE "{method=\"none\",route=\"none\""
#define SELF "{method=\"GET\",route=\"/metrics\""
	assert_line(&w, "rest_lit_http_requests_total" LIST ",code=\"200\"} 2");
	assert_line(&w, "rest_lit_http_requests_total" LIST ",code=\"503\"} 1");
	assert_line(&w, "rest_lit_http_requests_total" NONE ",code=\"404\"} 2");
	assert_line(&w, "rest_lit_http_requests_total" SELF ",code=\"200\"} 1");
	assert_line(&w, "rest_lit_http_requests_total" SELF ",code=\"0\"} 1");
#define LATENCY "rest_lit_http_request_duration_seconds"
	assert_line(&w, LATENCY "_bucket" LIST ",le=\"0.0001\"} 1");
	assert_line(&w, LATENCY "_bucket" LIST ",le=\"2.5\"} 1");
	assert_line(&w, LATENCY "_bucket" LIST ",le=\"5\"} 2");
	assert_line(&w, LATENCY "_bucket" LIST ",le=\"+Inf\"} 2");
	assert_line(&w, LATENCY "_sum" LIST "} 2.600090");
	assert_line(&w, LATENCY "_count" LIST "} 2");
	assert_line(&w, "rest_lit_http_requests_in_flight 7");
	assert_line(&w, "rest_lit_submissions_total{dialect=\"v2\",outcome=\"exists\"} 7");
}

TEST(test_metrics_text_adds_the_counts_of_stores)
{
	WORLD_OPEN(w);
	struct store_counts *main_thread = counts_store(w.server.counts);
	counter_add(&w.loops[0]->store.calls[STORE_PATCH][STORE_CONFLICT], 2);
	counter_add(&main_thread->calls[STORE_PATCH][STORE_CONFLICT], 3);
	counter_add(&main_thread->calls[STORE_READY][STORE_CALL_AGAIN], 1);
	histogram_add(&main_thread->latency[STORE_PATCH], 400);
	counter_set(&main_thread->queued, 5);
	counter_set(&w.server.counts->webhook.pending, 6);
	assert_line(&w, "rest_lit_upstream_requests_total{verb=\"patch\",outcome=\"conflict\"} 5");
	assert_line(&w, "rest_lit_upstream_requests_total{verb=\"ready\",outcome=\"again\"} 1");
	assert_line(&w, "rest_lit_upstream_request_duration_seconds_sum{verb=\"patch\"} 0.000400");
	assert_line(&w, "rest_lit_upstream_queue 5");
	assert_line(&w, "rest_lit_webhook_pending 6");
	assert_line(&w, "rest_lit_webhook_sent_total 0");
}

TEST(test_histogram_bounds_are_ascending_and_inclusive)
{
	struct histogram h = { 0 };
	for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
		assert_true(i == 0 || HISTOGRAM_BOUND[i].us > HISTOGRAM_BOUND[i - 1].us);
		assert_int_equal((int64_t)(strtod(HISTOGRAM_BOUND[i].text, NULL) * 1e6 + 0.5),
		                 HISTOGRAM_BOUND[i].us);
		histogram_add(&h, HISTOGRAM_BOUND[i].us); /* within */
		assert_int_equal(counter_get(&h.bucket[i]), 1);
	}
	histogram_add(&h, INT64_MAX / 2);
	assert_int_equal(counter_get(&h.bucket[HISTOGRAM_BOUNDS]), 1);
}
