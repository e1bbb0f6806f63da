#pragma once
/*
 * Samples what the tasks of this machine use, on a thread of its own: CPU time and memory
 * (procs.h), GPUs (smi.h, amd.h), each USAGE_ROUND_MS; keeps the figures and curves of each, finds
 * processes of others on GPUs, and GPUs that do nothing.  It sleeps while no task runs and no GPU
 * matters.
 *
 * Thread: any
 */
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "machine/resources/resources.h"

enum {
	USAGE_ROUND_MS = 5000,
	USAGE_WANT_MS = 60000,  /* GPUs are looked at so long after somebody has asked for them */
	USAGE_FIRST_MS = 30000, /* a GPU of which nothing is known is granted after that */
	USAGE_GAP_MS = 15 * 60000, /* idle time before a longer pause of samples does not count */
	USAGE_OUTSIDE = 16,        /* processes that are shown of a GPU */
};

struct usage_settings {
	const char *root;       /* above /proc, /sys and the places of nvidia-smi; NULL: "" */
	const char *cgroup;     /* as cgroup_open has returned; NULL */
	const struct gpu *gpus; /* the constant members; borrowed */
	size_t gpus_n;
	void *arg;
	/* Another GPU is free, or has a foreign process, or a task's GPUs have become idle or busy:
	 * called on the thread of the sampler, without a lock. */
	void (*changed)(void *arg);
	void (*notice)(void *arg, const char *text); /* a sentence, once for each cause */
};

struct usage;
struct usage *usage_start(const struct usage_settings *settings, struct err *e);
void usage_stop(struct usage *u);

struct usage_task {
	const char *uid; /* of the pod, for its cgroup */
	pid_t shim;
	int64_t begin_boot_ms; /* clock_boot_ms() when it got its resources: time 0 of the curves */
	const unsigned *gpu;   /* indexes in `gpus` */
	size_t gpus_n;
	struct span figures, curves; /* of its row in the store, to go on from; empty */
};
/* Samples a task from now on, until usage_end. */
struct usage_entry;
struct usage_entry *usage_add(struct usage *u, const struct usage_task *t);

/* The state of a task. */
struct usage_state {
	struct span figures, curves;       /* as struct attempt has them */
	int64_t cpu_ms, idle_ms, energy_j; /* likewise; -1: unknown */
	int64_t gpus_idle_ms;              /* so long, all its GPUs have done nothing; 0 */
	bool gpus_not_idle; /* one of them works, or nothing was known of them for USAGE_GAP_MS */
	bool gpus_used;     /* one of them has worked before */
	/* Of the last ten minutes; -1: unknown. */
	double cpus, busy;          /* CPUs; percent, mean of its GPUs */
	int64_t memory, gpu_memory; /* bytes, now */
	bool memory_at_most;
};
enum usage_texts { USAGE_NUMBERS, USAGE_FIGURES, USAGE_ALL /* also curves */ };
/* The texts, in the arena, are empty but for those that are asked for. */
void usage_read(struct usage *u, const struct usage_entry *t, enum usage_texts texts,
                struct arena *a, struct usage_state *out);
/* The task has ended, and is forgotten.  cpu_ms: of all its processes, as waitid says; -1: unknown.
 */
void usage_end(struct usage *u, struct usage_entry *t, int64_t cpu_ms, struct arena *a,
               struct usage_state *out);

struct usage_process {
	const char *program, *user;
	pid_t pid;
	int64_t memory; /* bytes; -1: unknown */
};
struct usage_gpu {
	bool known;                          /* else each of the others is unknown, too */
	double busy, watts;                  /* -1: unknown */
	int64_t memory, total;               /* bytes; -1 */
	int64_t idle_ms;                     /* so long its task has not used it; 0 */
	const struct usage_process *outside; /* foreign processes */
	size_t outside_n;
};
/* All GPUs, in the arena; *why: no figures, as a sentence, or NULL. */
struct usage_gpu *usage_gpus(struct usage *u, struct arena *a, const char **why);

/* Appends "GPU 2: python3 (pid 4711, bob, 12.1 GiB)" for each foreign process. */
void usage_put_outside(struct str *out, size_t gpu, const struct usage_gpu *now);

enum usage_verdict {
	USAGE_FREE,
	USAGE_TAKEN,   /* a foreign process has been on it for two rounds */
	USAGE_WAIT,    /* the first two rounds are not over */
	USAGE_UNKNOWN, /* nothing is known of it after USAGE_FIRST_MS */
};
/* Tells if a task may get this GPU; as usage_want. */
enum usage_verdict usage_verdict(struct usage *u, unsigned gpu);
/* Somebody wants to know about GPUs: they are looked at for USAGE_WANT_MS. */
void usage_want(struct usage *u);
