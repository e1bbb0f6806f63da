#pragma once
/*
 * A port for the GET requests of a kubelet and of Prometheus: plain HTTP, with a thread of its own.
 * 16 connections, each for 10 s; a longer request line than 2 KiB is refused.
 *
 * Thread: main
 */
#include "base/err.h"

struct probe_port;

/* Appends the answer for this path, and returns its status; 0: there is no such path.  Called by
 * the thread of the port. */
typedef int probe_answer(void *arg, const char *path, struct str *out);

/* listen_fd: taken over.  NULL and *e (500). */
struct probe_port *probe_port_new(int listen_fd, probe_answer *answer, void *arg, struct err *e);
/* Closes all connections.  Accepts NULL. */
void probe_port_free(struct probe_port *p);
