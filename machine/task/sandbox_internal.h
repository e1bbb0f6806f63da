#pragma once
/* What is mounted in a sandbox: sandbox_plan.c decides, sandbox.c writes it as arguments. */
#include "machine/task/sandbox.h"

enum plan_kind {
	PLAN_READ_ONLY, /* source, with all mounts below it */
	PLAN_WRITABLE,
	PLAN_DEVICE,
	PLAN_TMPFS,
	PLAN_SHADOW, /* a new directory instead of `look`, whose entries are in the plan too */
	PLAN_LINK,   /* a symbolic link to `source` */
	PLAN_DIR,
	PLAN_PROC,
	PLAN_DEV
};

enum { PLAN_MAX = 1900, PLAN_SHADOWED_MAX = 1000 /* entries of a directory */ };

struct plan_op {
	enum plan_kind kind;
	const char *path;   /* in the sandbox: absolute, without links */
	const char *source; /* of the machine */
	const char *look;   /* where the machine has what is seen at `path`; NULL: nowhere */
	uint64_t size;      /* of a tmpfs */
	unsigned order;     /* of two operations at one path the later one counts */
	bool entry;         /* of a shadowed directory */
};

struct plan {
	struct arena *a;
	struct plan_op *op;
	size_t n;
	bool full;
};

/* The operations in the order in which they are done, parents first.  0, or -1 and *e. */
int plan_make(struct plan *p, const struct sandbox_spec *spec, struct arena *a, struct err *e);

/* Is `path` the directory, or below it?  Texts only. */
bool plan_within(const char *path, const char *dir);
/* The path of the machine without links, in the arena; NULL and errno. */
const char *plan_real(const char *path, struct arena *a);

/* `path` in the plan without links, as far as the machine has it. */
const char *plan_resolve(const struct plan *p, const char *path, struct err *e);

/* The absolute path of a program in the PATH of this process; NULL if there is none. */
const char *sandbox_program(const char *name, struct arena *a);
