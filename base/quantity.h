#pragma once
/*
 * Amounts of resources, as Kubernetes writes them.
 *
 * Thread: any
 */
#include "base/str.h"

/* "2", "1.5", "100m", "8Gi", "1e3" in thousandths, rounded up, at most INT64_MAX; -1: not valid. */
int64_t quantity_milli(struct span text);
