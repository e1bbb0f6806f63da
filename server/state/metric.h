#pragma once
/*
 * Metrics in the text format 0.0.4 of Prometheus, from a table.
 *
 *	static void put_open(const struct scrape *s)
 *	{
 *		metrics_put(s, count_of(s->from), "kind=\"%s\"", "open");
 *	}
 *	static const struct metric ROWS[] = { { "x_total", METRIC_COUNTER, "kind", "Help.",
 * put_open, 0 } }; metrics_write(out, ROWS, ARRAY_SIZE(ROWS), counts);
 *
 * Values of labels come from tables, and have neither quotes nor backslashes.  The text bounds
 * itself.
 *
 * Thread: any
 */
#include "base/counter.h"
#include "base/str.h"
#include "jobs/store/store.h"

enum { METRIC_LABELS_MAX = 256 };

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM, METRIC_TYPE_MAX };

struct scrape;

struct metric {
	const char *name;
	enum metric_type type;
	const char *labels; /* names, for the page */
	const char *help;
	void (*write)(const struct scrape *s);
	size_t at; /* of the counter in its struct, for `write` */
};

struct scrape {
	struct str *out;
	const void *from; /* the caller's */
	const struct metric *metric;
};

/* Appends all metrics of a table. */
void metrics_write(struct str *out, const struct metric *rows, size_t n, const void *from);
/* Appends the table for docs/METRICS.md. */
void metrics_rows(struct str *out, const struct metric *rows, size_t n);

/* A sample.  labels: a format. */
__attribute__((format(printf, 3, 4))) void metrics_put(const struct scrape *s, uint64_t value,
                                                       const char *labels, ...);
/* A sample of a duration. */
void metrics_put_seconds(const struct scrape *s, const char *suffix, const char *labels,
                         uint64_t us);

/* The sum of the histograms of several threads. */
struct histogram_sum {
	uint64_t bucket[HISTOGRAM_BOUNDS + 1], us, n;
};
void histogram_sum_add(struct histogram_sum *sum, const struct histogram *h);
void metrics_put_histogram(const struct scrape *s, const struct histogram_sum *sum,
                           const char *labels);

/* The counter at this offset of a struct. */
uint64_t counter_at(const void *counts, size_t at);

/* The names of verbs and outcomes of requests. */
extern const char *const METRIC_VERBS[STORE_VERBS];
extern const char *const METRIC_CALLS[STORE_CALLS];
