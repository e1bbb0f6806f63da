#pragma once
/*
 * What exit codes mean, for people: runtime-assets/k8s-job-exit-spec.yaml, which is built in, or
 * the file of --exit-spec.  Read at start, then only read.
 */
#include "base/err.h"

struct exit_spec;

/* path "": what is built in.  NULL and *e (400), with the place in the file. */
struct exit_spec *exit_spec_new(const char *path, struct err *e);
void exit_spec_free(struct exit_spec *s);
bool exit_spec_has(const struct exit_spec *s, int64_t code);
/* The entry of a code as JSON; of an unknown one that of 256, or of -8000 if it is negative, with
 * the code in its place.  final: nothing is tried again any more, and its solutions do not say to
 * wait for that.  Appends. */
void exit_spec_json(struct str *out, const struct exit_spec *s, int64_t code, bool final);
