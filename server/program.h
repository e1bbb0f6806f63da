#pragma once
/*
 * pai-runtime as a file, on its way into a ConfigMap (--runtime=configmap).  It runs in images of
 * all kinds, so it must bring everything along: what is not a statically linked program for
 * one architecture is refused here, and not by the first job.
 */
#include "server/options.h"
#include "translate/translate.h"

/*
 * Read options->runtime_binary, or if that is "" the file pai-runtime beside this very program,
 * or in ../lib/rest-lit of where this one is.  The texts live in the arena.  Nothing to do, and
 * out->configmap is "", with --runtime=image.  -1 and *e (400): what is wrong with the file.
 */
int program_load(const struct options *o, struct arena *a, struct runtime_program *out,
                 struct err *e);

/* What the bytes of a program say of themselves: the architecture as Kubernetes calls it.  NULL and
 * *e (400) if it is none, dynamically linked, or for a machine without such a name.  Pure. */
const char *program_arch(struct span file, struct err *e);
