#pragma once
/*
 * The ports of each task of a role: annotation rest-server/port-scheduling-spec of its pod
 * template.
 *
 * Hashed: {"schedulePortStart":S,"schedulePortEnd":E,"ports":{LABEL:{"count":N}}}.  Port i of a
 * label is in S..E-1, chosen by the MD5 of `[pod uid][LABEL][i]` (port_hashed).
 * Sequential (older): {LABEL:{"start":S,"count":N}}.  Task t has S+N*t .. S+N*t+N-1.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/pod/port.h"

enum { PORTS_MAX = 65536, PORT_LABEL_MAX = 256 /* bytes */ };

struct port_label {
	const char *name; /* UTF-8 */
	int64_t count;    /* 0..65536 */
	int64_t start;    /* sequential only */
	int64_t first;    /* number of ports of the labels before it */
};

struct portspec {
	bool sequential;
	struct port_range range;  /* hashed only; 1 <= start */
	struct port_label *label; /* in the order of the annotation */
	size_t n;
	int64_t total; /* ports of one task */
};

/* Reads the annotation into the arena.  -1 and *e (500): it is not valid, has more than 65536
 * ports, or a port would be above 65535 for a task index up to `last`; *p then has the labels that
 * are right.  last -1: not checked. */
int portspec_read(struct span json, int64_t last, struct arena *a, struct portspec *p,
                  struct err *e);
