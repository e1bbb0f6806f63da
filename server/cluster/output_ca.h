#pragma once
/*
 * Which server pods trust with their output: the ConfigMap OUTPUT_CA in the namespace of the jobs,
 * with the certificates of --output-ca, or else of --tls-cert.  Reads a file; at start, and after
 * SIGHUP.
 */
#include "base/object.h"
#include "server/options.h"

/* Append the ConfigMap, which is a merge patch of one that is there as well; nothing if pods need
 * none.  Certificates only: a key in the same file stays where it is.  -1 and *e: 400, the file
 * cannot be read, or holds no certificate. */
int output_ca_write(struct str *out, const struct options *o, struct err *e);
