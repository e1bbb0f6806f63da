#pragma once
/* Amounts of the resources that tasks share: what a task needs, a machine has, a quota allows. */
#include <stdint.h>

#include "base/str.h"

struct amounts {
	int64_t gpus;
	int64_t cpus;   /* thousandths of a CPU */
	int64_t memory; /* bytes */
	int64_t ports;  /* numbers that nobody else on the machine listens on */
};

static inline void amounts_add(struct amounts *a, const struct amounts *b)
{
	a->gpus += b->gpus;
	a->cpus += b->cpus;
	a->memory += b->memory;
	a->ports += b->ports;
}

static inline void amounts_subtract(struct amounts *a, const struct amounts *b)
{
	a->gpus -= b->gpus;
	a->cpus -= b->cpus;
	a->memory -= b->memory;
	a->ports -= b->ports;
}

/* Appends "16.0 CPUs, 64000 MiB, 2 GPUs". */
static inline void amounts_text(struct str *out, const struct amounts *a)
{
	str_printf(out, "%lld.%lld CPUs, %lld MiB, %lld GPUs", (long long)a->cpus / 1000,
	           (long long)a->cpus % 1000 / 100, (long long)(a->memory >> 20),
	           (long long)a->gpus);
}
