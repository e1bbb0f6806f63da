#pragma once
/* The metrics of `rest-lit controller`, in the text format 0.0.4 of Prometheus.  Any thread. */
#include "base/str.h"

struct controller;
struct controller_counts;

/* c: NULL: without the watches. */
void controller_metrics_text(struct str *out, const struct controller *c,
                             const struct controller_counts *counts);
/* Appends the section of docs/METRICS.md. */
void controller_metrics_page(struct str *out);
