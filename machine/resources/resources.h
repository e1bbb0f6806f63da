#pragma once
/*
 * The resources of this machine, CPUs, memory and GPUs, and the lock by which a GPU belongs to one
 * task.  GPUs come from CDI files (cdi.c), else from /dev/nvidia*, else from a pattern of file
 * names.
 *
 * A GPU is taken by an exclusive flock on one of its device nodes.  The lock belongs to the open
 * file: the process that inherits the descriptor (the shim of the task) keeps it, the engine closes
 * its own copy, and the GPU is free again when the shim has ended, however it ended.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/pod/port.h"
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
	bool shared;   /* other tasks can change the files in it */
};

struct gpu {
	const char *name;  /* "nvidia.com/gpu=0", or the path of its node */
	const char *uuid;  /* "GPU-...", "MIG-...", NULL if unknown */
	const char *board; /* UUID of the GPU that it is, or is a part of; NULL if unknown */
	unsigned index;    /* as the driver numbers them, or in the order of the pattern */
	const char *node;  /* the path whose lock is taken */
	/* The files that a task with this GPU must see: its own, and those that all of its kind
	 * need. */
	const struct sandbox_mount *files;
	size_t files_n, own_n; /* the first own_n are of this GPU alone */
	struct words env;      /* NAME=value, of the CDI file */
	/* Members that the engine uses (machine/engine/allocations.c): */
	struct engine_allocation *holder; /* NULL: not given */
	int fd;                           /* lock that no shim has yet; -1 */
	bool foreign;                     /* another program had it at the last look */
	bool told;                        /* its node cannot be used, which was reported */
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
	/* --gpu-devices: a pattern of glob(7), NULL: CDI or /dev/nvidia* */
	const char *gpu_devices;
	const char *root; /* above all that is looked at; NULL: that of the machine */
};

/* -1 and *e (INVALID_PARAMETERS): the settings ask for what is not there.  `out` needs
 * inventory_done also then. */
int inventory_read(const struct inventory_settings *s, struct inventory *out, struct err *e);
void inventory_done(struct inventory *v);

/* A part of inventory_read (cdi.c): adds the GPUs of all files *.yaml and *.json in /var/run/cdi
 * and then /etc/cdi, of kind VENDOR/gpu.  A device that is there already, under this name or
 * another, is not added again.  A file that cannot be read becomes a note with file, line and
 * column; the others are read. */
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

/*
 * ---- ports ----
 * All programs of one network share them, so a port is given to one task of this machine only, also
 * if another engine has started it: its lock is a Unix socket with an abstract name, which
 * disappears with the last descriptor.
 */
#define PORTS_NO_FILE SIZE_MAX

/* Locks n ports that nobody listens on: those of *list, numbers with commas, or, if it is NULL,
 * some of the range, which are then in *list, which the caller frees.  fd: descriptors
 * (close-on-exec; close them when the shim has its own).  Returns n; less: only so many are free,
 * and nothing is locked; PORTS_NO_FILE: nor is anything because there is no descriptor for a lock.
 */
size_t ports_take(const struct port_range *r, char **list, size_t n, int *fd);

/*
 * ---- cgroups.  Thread: own. ----
 * Limits of tasks by cgroup v2, where this process is in a group that is delegated to it (for
 * instance systemd's Delegate=yes).  The process moves itself into a leaf of its group, because a
 * group with processes cannot limit its children; each task gets a group with one leaf beside it.
 * The shim stays outside: its child writes "0" into the leaf's cgroup.procs before it executes the
 * task, so that neither the limit nor cgroup_end reaches the shim.
 */

/* The directory of this process's group, which the caller frees.  root: above /proc and /sys, ""
 * unless a test has its own tree.  NULL, and in *why a sentence, if limits cannot be applied. */
char *cgroup_open(const char *root, struct str *why);

/* Makes the group of a task, or finds it, and writes its limits of CPUs and memory, 0: none. `task`
 * is a file name (the UID of the pod).  *dir is the directory of the leaf in it, for the task's
 * processes; the caller frees it.  -1 and *e (500). */
int cgroup_make(const char *group, const char *task, const struct amounts *limits, char **dir,
                struct err *e);
/* Kills what is left of the task and removes its group.  *oom: processes of it were killed because
 * its memory was used up.  false if it cannot kill (kernel before 5.14), or there is no such group.
 */
bool cgroup_end(const char *group, const char *task, bool *oom);

/* Lowers the CPUs and the memory to the most that this process may use by its own group and those
 * above it. */
void cgroup_limit(const char *root, struct amounts *most);
