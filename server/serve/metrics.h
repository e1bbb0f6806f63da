#pragma once
/*
 * The port of --metrics-listen: GET /metrics in the text format 0.0.4 of Prometheus.  metrics.c has
 * the table of metrics; counts.h says where their values come from.
 *
 * Thread: any
 */
#include "server/http/route.h"

struct server;

extern const struct route METRICS_ROUTE;

/* Appends all metrics.  The size does not depend on the number of jobs. */
void metrics_text(struct str *out, const struct server *s);
/* Appends the table of docs/METRICS.md. */
void metrics_page(struct str *out);
