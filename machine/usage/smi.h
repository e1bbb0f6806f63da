#pragma once
/*
 * Figures of NVIDIA GPUs, and the processes on them, from two nvidia-smi, which print a round each
 * second until they are stopped.  A driver that hangs or dies stops a child, never this process.
 * All that is not known is unknown, never 0.
 *
 *	smi_want(s, true, clock_ms());
 *	n = smi_poll(s, fds); poll(fds, n, ...); smi_run(s, clock_ms());
 *
 * Thread: own
 */
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	SMI_PERIOD_S = 1,
	SMI_PROCESSES = 4096, /* with more of them nothing is known */
	SMI_SILENT_MS = 15000,
	SMI_GONE_MS = 3000
};

struct smi_settings {
	/* Both are borrowed. */
	const char *root;        /* above the places of the program; "" unless a test has its own */
	const char *const *uuid; /* "GPU-..."; NULL: a GPU of another kind.  All NULL: no child */
	size_t n;
};

struct smi;
struct smi *smi_new(const struct smi_settings *settings);
void smi_free(struct smi *s); /* kills the children and waits for them at most a second */

/* The children run while it is true.  After a failure of one it is started again later, by
 * smi_run: after 5 s, then twice as long each time, at most 5 minutes. */
void smi_want(struct smi *s, bool wanted, int64_t now_ms);
/* Sets at most 2 descriptors; returns their number.  *due_ms: smi_run is wanted then at the latest
 * (INT64_MAX: it is not). */
size_t smi_poll(const struct smi *s, struct pollfd v[2], int64_t *due_ms);
/* Reads what there is, without waiting; starts and ends children. */
void smi_run(struct smi *s, int64_t now_ms);

/* A sample: what was said about a GPU since the last one.  -1: unknown. */
struct smi_sample {
	/* Something was said about it, and the list of processes is complete: a GPU without
	 * processes has none. */
	bool known;
	double busy;           /* percent, mean of its seconds */
	int64_t memory, total; /* bytes */
	double watts;
	bool mig; /* it is divided: busy is unknown, and processes cannot be told by instance */
};
void smi_take(struct smi *s, size_t gpu, int64_t now_ms, struct smi_sample *out);

/* A compute process on a GPU.  It is gone when other lines have come for SMI_GONE_MS without one
 * of it. */
struct smi_process {
	size_t gpu;
	pid_t pid;
	int64_t memory;   /* bytes; -1: unknown */
	int64_t first_ms; /* clock_ms when it was seen first, since it was not there or unknown */
	int64_t last_ms;  /* ... and last */
};
/* The processes, by GPU and pid; borrowed until the next smi_run. */
const struct smi_process *smi_processes(const struct smi *s, size_t *n);

/* Why figures or processes are not known, as a sentence; NULL: they are, or are not wanted, or the
 * first line has not come yet.  Borrowed until the next smi_run. */
const char *smi_problem(const struct smi *s);
/* There was no such program when it was looked for last. */
bool smi_is_absent(const struct smi *s);
