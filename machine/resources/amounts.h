#pragma once
/*
 * Amounts of the resources that tasks share: the need of a task, the size of a machine, the limit
 * of a quota.
 *
 * Thread: any
 */
#include <stdint.h>

#include "base/str.h"

enum amount { AMOUNT_GPUS, AMOUNT_CPUS, AMOUNT_MEMORY, AMOUNT_PORTS, AMOUNTS };

struct amounts {
	union {
		struct {
			int64_t gpus;
			int64_t cpus;   /* thousandths of a CPU */
			int64_t memory; /* bytes */
			int64_t ports;  /* numbers that nobody else on the machine listens on */
		};
		int64_t of[AMOUNTS];
	};
};

/* The sum of the resources that tasks hold, and of those that tasks wait for. */
struct amounts_sum {
	struct amounts held, wanted;
	size_t running, waiting; /* tasks */
};

/* Adds b so many times; -1 takes it away. */
static inline void amounts_add(struct amounts *a, const struct amounts *b, int64_t times)
{
	for (enum amount i = 0; i < AMOUNTS; i++)
		a->of[i] += times * b->of[i];
}

/* `need` is within `room`, as far as it needs something. */
static inline bool amounts_fit(const struct amounts *need, struct amounts room)
{
	for (enum amount i = 0; i < AMOUNTS; i++)
		if (need->of[i] > 0 && need->of[i] > room.of[i])
			return false;
	return true;
}

/* Appends "16.0 CPUs, 64000 MiB, 2 GPUs". */
static inline void amounts_text(struct str *out, const struct amounts *a)
{
	str_printf(out, "%lld.%lld CPUs, %lld MiB, %lld GPUs", (long long)a->cpus / 1000,
	           (long long)a->cpus % 1000 / 100, (long long)(a->memory >> 20),
	           (long long)a->gpus);
}
