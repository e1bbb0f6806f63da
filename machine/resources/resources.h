#pragma once
/*
 * What this machine has: CPUs, memory and GPUs; and the lock by which a GPU belongs to one task.
 * GPUs come from CDI files (cdi.c), else from /dev/nvidia*, else from a pattern of file names.
 *
 * A GPU is taken by an exclusive flock on one of its device nodes.  The lock belongs to the open
 * file: the process that inherits the descriptor (the shim of the task) keeps it, the engine closes
 * its own copy, and the GPU is free again when the shim has ended, however it ended.  Any thread.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "machine/resources/amounts.h"
#include "machine/words.h"

/* A file or directory of the machine, or a tmpfs, as a task sees it. */
struct sandbox_mount {
	const char *source; /* absolute; symbolic links are followed; NULL: a tmpfs */
	const char *path;   /* in the sandbox, absolute */
	bool writable;
	uint64_t size; /* of a tmpfs, in bytes; 0: as those that every sandbox has */
	bool device;   /* source: a device node that can be used */
};

struct gpu {
	const char *name; /* "nvidia.com/gpu=0", or the path of its node */
	const char *uuid; /* "GPU-...", NULL if unknown */
	unsigned index;   /* as the driver numbers them, or in the order of the pattern */
	const char *node; /* the path whose lock is taken */
	/* What a task with it must see: files of this GPU, and what all of its kind need. */
	const struct sandbox_mount *files;
	size_t files_n, own_n; /* the first own_n are of this GPU alone */
	struct words env;      /* NAME=value, of the CDI file */
	/* Of the engine (grants.c): */
	struct engine_grant *holder; /* NULL: not given */
	int fd;                      /* lock that no shim has yet; -1 */
	bool foreign;                /* another program had it at the last look */
	bool told;                   /* its node cannot be used, which was reported */
};

enum { INVENTORY_GPUS = 1024 };

struct inventory {
	const char *root;
	struct amounts total; /* total.gpus is gpus_n */
	struct gpu *gpus;     /* room for INVENTORY_GPUS */
	size_t gpus_n;
	struct notes notes; /* sentences about files that could not be used, and what is ignored */
	struct arena arena; /* holds all of this */
};

struct inventory_settings {
	int64_t cpus;     /* thousandths; 0: those of the machine */
	int64_t memory;   /* bytes; 0: that of the machine */
	const char *gpus; /* --gpus: NULL and "auto": all; "none"; a number */
	const char
	    *gpu_devices; /* --gpu-devices: a pattern of glob(7), NULL: CDI or /dev/nvidia* */
	const char *root; /* above all that is looked at; NULL: that of the machine */
};

/* -1 and *e (INVALID_PARAMETERS): the settings ask for what is not there.  `out` needs
 * inventory_done also then. */
int inventory_read(const struct inventory_settings *s, struct inventory *out, struct err *e);
void inventory_done(struct inventory *v);

/* A part of inventory_read (cdi.c): adds the GPUs of all files *.yaml and *.json in /var/run/cdi
 * and then /etc/cdi, of kind VENDOR/gpu.  A device that is there already, under this name or
 * another, is not added again.  What cannot be read becomes a note with file, line and column; the
 * others go on. */
void cdi_read(struct inventory *out);
/* Calls `each` for the first INVENTORY_GPUS paths of a pattern (with {a,b}) below the root, in the
 * order of the numbers in them. */
void inventory_glob(struct inventory *out, const char *pattern,
                    void (*each)(const char *path, struct inventory *out));

/* Locks a GPU.  Returns a descriptor (close-on-exec; close it when the shim has its own), -1 if
 * somebody else holds the GPU, -2 and *e if its node cannot be used. */
int gpu_take(const struct gpu *g, struct err *e);
/* The variables of a task that has these GPUs (n may be 0), as NAME=value with NULL at the end, in
 * the arena.  `alone`: the task sees the nodes of its GPUs only, so CUDA numbers them from 0. */
const char *const *gpu_env(const struct gpu *const *gpus, size_t n, bool alone, struct arena *a);
