#pragma once
/*
 * The ConfigMap with the CA by which pods verify the listener of --output-listen: the certificates
 * of
 * --output-ca, or the one that the server has made.
 *
 * Thread: worker
 */
#include "jobs/store/call.h"
#include "server/state/server.h"

struct output_ca {
	struct server *server;
	struct caller *caller;
	struct str object; /* the ConfigMap; empty: none is needed */
	bool done;
};

/* Reads the certificates, also again: then after an error the old ones stay.  -1 and *e: 400, the
 * file cannot be read or holds none. */
int output_ca_read(struct output_ca *c, struct err *e);
/* Creates or changes the ConfigMap, once after output_ca_read.  false: it must be tried again. */
bool output_ca_publish(struct output_ca *c);
