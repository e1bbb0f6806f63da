#pragma once
/* Amounts of the resources that tasks share: what a task needs, a machine has, a quota allows. */
#include <stdint.h>

struct amounts {
	int64_t gpus;
	int64_t cpus;   /* thousandths of a CPU */
	int64_t memory; /* bytes */
};

static inline void amounts_add(struct amounts *a, const struct amounts *b)
{
	a->gpus += b->gpus;
	a->cpus += b->cpus;
	a->memory += b->memory;
}

static inline void amounts_subtract(struct amounts *a, const struct amounts *b)
{
	a->gpus -= b->gpus;
	a->cpus -= b->cpus;
	a->memory -= b->memory;
}
