/* Prints rows of metrics as samples, and as rows of a page. */
#include "server/state/metric.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const METRIC_TYPES[METRIC_TYPE_MAX] = { "counter", "gauge", "histogram" };

const char *const METRIC_VERBS[STORE_VERBS] = {
	[STORE_CREATE] = "create", [STORE_GET] = "get",       [STORE_LIST] = "list",
	[STORE_PATCH] = "patch",   [STORE_DELETE] = "delete", [STORE_READY] = "ready",
};

const char *const METRIC_CALLS[STORE_CALLS] = {
	[STORE_OK] = "ok",
	[STORE_EXISTS] = "exists",
	[STORE_CONFLICT] = "conflict",
	[STORE_NOT_FOUND] = "not_found",
	[STORE_REFUSED] = "refused",
	[STORE_BUSY] = "busy",
	[STORE_AMBIGUOUS] = "ambiguous",
	[STORE_FULL] = "full",
	[STORE_CALL_AGAIN] = "again",
};

static void metrics_begin(const struct scrape *s, const char *suffix, const char *labels)
{
	str_printf(s->out, labels[0] ? "%s%s{%s} " : "%s%s%s ", s->metric->name, suffix, labels);
}

static void metrics_sample(const struct scrape *s, const char *suffix, const char *labels,
                           uint64_t value)
{
	metrics_begin(s, suffix, labels);
	str_int(s->out, (int64_t)value);
	str_char(s->out, '\n');
}

void metrics_put(const struct scrape *s, uint64_t value, const char *labels, ...)
{
	char text[METRIC_LABELS_MAX];
	va_list ap;
	va_start(ap, labels);
	(void)vsnprintf(text, sizeof(text), labels, ap); /* fits: its unit test has the longest */
	va_end(ap);
	metrics_sample(s, "", text, value);
}

void metrics_put_seconds(const struct scrape *s, const char *suffix, const char *labels,
                         uint64_t us)
{
	metrics_begin(s, suffix, labels);
	str_printf(s->out, "%lu.%06lu\n", (unsigned long)(us / 1000000),
	           (unsigned long)(us % 1000000));
}

void histogram_sum_add(struct histogram_sum *sum, const struct histogram *h)
{
	for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
		uint64_t n = counter_get(&h->bucket[i]);
		sum->bucket[i] += n;
		sum->n += n;
	}
	sum->us += counter_get(&h->sum_us);
}

void metrics_put_histogram(const struct scrape *s, const struct histogram_sum *sum,
                           const char *labels)
{
	uint64_t n = 0;
	for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
		char bucket[METRIC_LABELS_MAX];
		n += sum->bucket[i];
		(void)snprintf(bucket, sizeof(bucket), "%s%sle=\"%s\"", labels,
		               labels[0] ? "," : "",
		               i < HISTOGRAM_BOUNDS ? HISTOGRAM_BOUND[i].text : "+Inf");
		metrics_sample(s, "_bucket", bucket, n);
	}
	metrics_put_seconds(s, "_sum", labels, sum->us);
	metrics_sample(s, "_count", labels, n);
}

uint64_t counter_at(const void *counts, size_t at)
{
	return counter_get((const atomic_ullong *)((const char *)counts + at));
}

void metrics_write(struct str *out, const struct metric *rows, size_t n, const void *from)
{
	for (const struct metric *m = rows; m < rows + n; m++) {
		const struct scrape scrape = { out, from, m };
		str_printf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name,
		           METRIC_TYPES[m->type]);
		m->write(&scrape);
	}
}

void metrics_rows(struct str *out, const struct metric *rows, size_t n)
{
	str_puts(out, "| name | type | labels | meaning |\n|---|---|---|---|\n");
	for (const struct metric *m = rows; m < rows + n; m++)
		str_printf(out, "| `%s` | %s | %s | %s |\n", m->name, METRIC_TYPES[m->type],
		           m->labels, m->help);
}
