#pragma once
/*
 * Is our translation that of OpenPAI?  Recorded results against ours: equal, or different
 * where and as deviations.json says, under a name that docs/DEVIATIONS.md explains.
 */
#include <jansson.h>

#include "tests/lib/setting.h"
#include "tests/lib/tally.h"

struct deviations;

struct deviations *deviations_load(const char *path);
/* What is listed for a file under any name, and for the file in one setting ("hived
 * v2-edge/x.yaml"; may be NULL): {"/pointer": our value, ...}; {"refused": "/pointer"} for a job
 * that OpenPAI takes,
 * {"accepted": true} for one that it refuses.  Notes the use.  New reference. */
json_t *deviations_of(struct deviations *d, const char *file, const char *here);
/* Is this name an entry of docs/DEVIATIONS.md?  Notes the use. */
void deviations_name(struct deviations *d, struct tally *t, const char *name);
/* Every name must be a heading, every entry must have been used. */
void deviations_end(struct deviations *d, struct tally *t);
void deviations_free(struct deviations *d);

/* v2: settings base, ext, hived, edge-base, edge-hived. */
void golden_v2(struct tally *t, struct deviations *d);
/* v1: accepted and refused, and the first rest-lit. */
void golden_v1(struct tally *t, struct deviations *d);
/* MxJobs and manifests of the launcher. */
void golden_dialects(struct tally *t);
/* The job in docs/HIVED.md. */
void golden_hived(struct tally *t);
/* examples/ in both profiles; `update` writes what came out. */
void golden_examples(struct tally *t, bool update);

/* Jobs that are converted to protocol 2, against the same without converting. */
void golden_converted(struct tally *t);

/* Our side of one job against what must hold for every job: "" or what is wrong. Free it. */
char *golden_sent(const struct setting *s, struct span text);
