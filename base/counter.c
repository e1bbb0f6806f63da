#include "base/counter.h"

#include <stddef.h>

const struct histogram_bound HISTOGRAM_BOUND[HISTOGRAM_BOUNDS] = {
	{ 100, "0.0001" },  { 250, "0.00025" }, { 500, "0.0005" },  { 1000, "0.001" },
	{ 2500, "0.0025" }, { 5000, "0.005" },  { 10000, "0.01" },  { 25000, "0.025" },
	{ 50000, "0.05" },  { 100000, "0.1" },  { 250000, "0.25" }, { 500000, "0.5" },
	{ 1000000, "1" },   { 2500000, "2.5" }, { 5000000, "5" },   { 10000000, "10" },
	{ 30000000, "30" },
};

void histogram_add(struct histogram *h, int64_t us)
{
	size_t i = 0;
	while (i < HISTOGRAM_BOUNDS && us > HISTOGRAM_BOUND[i].us)
		i++;
	counter_add(&h->bucket[i], 1);
	counter_add(&h->sum_us, us > 0 ? (uint64_t)us : 0);
}
