#pragma once
/*
 * The Framework of this job, as far as the runtime needs it, from what the API server says.  What
 * is read is not trusted: every member's type is checked, sizes have bounds, and what does not
 * fit is absent.  Pure.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/tree.h"

enum {
	FRAMEWORK_MAX = 8 << 20, /* bytes of the object as the API server sends it */
	STATUS_MAX = 32 << 20    /* bytes of the compressed status, inflated */
};

struct fw_task {
	int64_t index;
	const char *pod_ip, *host_ip, *pod_uid; /* NULL: not known; never "" */
	bool deletion_pending;
};

struct fw_role {
	const char *name;     /* as Kubernetes has it: [a-z0-9]+ */
	bool in_spec;         /* the specification still has it */
	int64_t number;       /* its position there, from 0; -1 if !in_spec */
	int64_t task_number;  /* of the specification; 0 if !in_spec */
	bool host_network;    /* of the pod template */
	const char *ports;    /* annotation rest-server/port-scheduling-spec, JSON; NULL if none */
	struct fw_task *task; /* of the status, in its order */
	size_t n;
};

struct framework {
	const char *name, *namespace_name;
	const char *config;   /* metadata.annotations.config: the job as submitted; NULL if none */
	struct fw_role *role; /* those of the status in its order, then what only the spec has */
	size_t n;
	int64_t total;           /* sum of the task numbers of the specification */
	const struct node *root; /* the object itself, its status decompressed */
};

/* Read the object.  What it returns lives in the arena.  NULL and *e. */
struct framework *framework_read(struct span json, struct arena *a, struct err *e);

/* How many of the tasks have a pod with an address: over each role of the specification, the first
 * min(status, taskNumber) entries by position, not being deleted.  All are there when it is
 * `total`. */
int64_t framework_ready(const struct framework *f);

/* What others reach a task by: the host's address where the role has the host's network, the pod's
 * otherwise; NULL if that is not known.  A node is known before its pod has an address, and nobody
 * would answer there. */
const char *framework_address(const struct fw_role *r, const struct fw_task *t);

/* The role and task of this pod, by FC_TASKROLE_NAME and FC_TASK_INDEX; NULL if not there. */
const struct fw_role *framework_role(const struct framework *f, const char *name);
const struct fw_task *framework_task(const struct fw_role *r, int64_t index);

/* Inflate base64 of gzip, at most max bytes; in the arena.  -1 and *e. */
int gunzip_base64(struct span text, size_t max, struct arena *a, struct span *out, struct err *e);
