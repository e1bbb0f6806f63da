#pragma once
/*
 * Trying a job: all that is done with a submission, but that nothing is made of it.  The answer is
 * what would have been made, as a List, with nothing secret in it.
 */
#include "server/submit/submit.h"

/*
 * What a query says of `dryRun`: true, server (or All, as Kubernetes has it), false; nothing is
 * false.  -1 and *e (400 InvalidParametersError): another value, twice, or a name that is nearly
 * this one, as dryrun or dry-run: a job that was to be tried must not be started.  Pure.
 */
int dry_run_read(const char *query, struct arena *a, enum dry_run *out, struct err *e);

/* For the log. */
const char *dry_run_text(enum dry_run d);

/* There is room for one more on this loop: who reads slowly makes us keep a large answer. */
bool dry_run_has_room(const struct loop *l);
/* It counts from now on to the end of the request. */
void dry_run_hold(struct submit *s);

/* By a header Accept, empty if there is none: JSON, unless a type of YAML is named before any. */
bool dry_run_wants_yaml(struct span accept);

/* Begin the body of the answer, which grows as far as that takes: {"apiVersion":...,"items":[...]
 * without the final brace. */
void dry_run_list(struct submit *s);
/* End and send it: 200. */
void dry_run_answer(struct submit *s);
