#pragma once
/*
 * The metrics of `rest-lit controller`, from struct controller_counts:
 *
 *	metrics_write(out, CONTROLLER_METRICS, N_CONTROLLER_METRICS, &counts);
 *
 * Thread: any
 */
#include "server/state/metric.h"

extern const struct metric CONTROLLER_METRICS[];
extern const size_t N_CONTROLLER_METRICS;
