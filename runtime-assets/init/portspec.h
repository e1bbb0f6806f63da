#pragma once
/*
 * Which ports each task of a role has: the annotation rest-server/port-scheduling-spec of its pod
 * template.  Nobody hands ports out; every task computes those of all others, in one of two ways.
 *
 * Hashed: {"schedulePortStart":S,"schedulePortEnd":E,"ports":{LABEL:{"count":N}}}.  Port i of a
 * label comes from the MD5 of `[pod uid][LABEL][i]`, and is one of S..E-1.
 * Sequential (older): {LABEL:{"start":S,"count":N}}.  Task t has S+N*t .. S+N*t+N-1.
 *
 * The order of labels counts: variables are written in it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct port_label {
	const char *name; /* any text: see portspec_name_ok */
	int64_t count;    /* 0..65536 */
	int64_t start;    /* sequential only */
};

struct portspec {
	bool sequential;
	int64_t start, end; /* hashed only; 1 <= start < end <= 65536 */
	struct port_label *label;
	size_t n;
	int64_t total; /* ports of one task: the sum of the counts, at most 65536 */
};

/* Read the annotation; NULL is no ports.  In the arena.  -1 and *e: it is no JSON of either form,
 * a number in it is none, or a port would be above 65535 for a task index up to `last`. */
int portspec_read(const char *json, int64_t last, struct arena *a, struct portspec *p,
                  struct err *e);

/* Port i of a label: by the uid of the pod if the ports are hashed, else by the task's index. */
uint16_t portspec_port(const struct portspec *p, const struct port_label *l, const char *pod_uid,
                       int64_t index, int64_t i);

/* May it be part of a variable's name: [A-Za-z_][A-Za-z0-9_]*? */
bool portspec_name_ok(const char *name);
