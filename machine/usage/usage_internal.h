#pragma once
/* The tasks of the sampler.  Private to machine/usage/ and its tests. */
#include <pthread.h>
#include <sys/queue.h>

#include "machine/usage/curve.h"
#include "machine/usage/procs.h"
#include "machine/usage/smi.h"
#include "machine/usage/usage.h"

/* A GPU of a task. */
struct usage_device {
	unsigned gpu;
	struct curve busy, memory; /* percent, bytes */
	int64_t total;             /* bytes; -1 */
	double joules;             /* -1: unknown */
	int64_t idle_ms;           /* altogether; -1: never known */
	bool used;
};

struct usage_entry {
	TAILQ_ENTRY(usage_entry) link; /* of usage.tasks, in the order of their ids */
	uint64_t id;
	struct procs_task procs;
	char *cgroup; /* of `procs`, owned; NULL */
	int64_t begin_boot_ms;
	int64_t looked_ms;        /* clock_boot_ms of the last sample; 0: none in this process */
	int64_t cpu_ms, memory;   /* -1 */
	int64_t peak;             /* of memory, bytes; -1 */
	struct curve cpus, bytes; /* CPUs, bytes */
	int64_t idle_run_ms;      /* so long all GPUs have done nothing, as far as samples tell */
	bool not_idle;            /* a GPU works, or too long nothing was known of all */
	int64_t known_ms;         /* clock_boot_ms of the last sample that told it of all; 0 */
	size_t gpus_n;
	struct usage_device gpu[];
};

/* A sample of a GPU of a task. */
struct usage_look {
	struct smi_sample of;
	bool listed;  /* the processes on it are known */
	bool has_own; /* one of them is of this task */
};

/* ---- figures.c ---- */

/* Adds a sample: CPU time and memory of `procs`, and one of each of its GPUs. */
void figures_sample(struct usage_entry *t, const struct procs_task *procs,
                    const struct usage_look *gpus, int64_t boot_ms);
/* Figures as JSON, and curves in a form of their own, see usage.h; `curves` only if it is not NULL.
 */
void figures_put(const struct usage_entry *t, const struct gpu *gpus, struct str *figures,
                 struct str *curves);
/* The reverse; what cannot be read is new. */
void figures_restore(struct usage_entry *t, struct span figures, struct span curves);
void figures_state(const struct usage_entry *t, struct usage_state *out); /* but the texts */
void figures_free(struct usage_entry *t);
