#pragma once
/*
 * What rest-lit makes of one job, as one JSON value that can be compared:
 *
 *	{"accepted": true, "framework": {..}, "secrets": {"regcred": {..}, ..},
 *	 "configmaps": {"env": {..}}, "priorityClass": {..} or null}
 *	{"accepted": false, "status": 400, "code": "..",
 *	 "notes": [{"at": "/name", "line": 2, "column": 7, "message": ".."}]}
 *
 * Data of secrets is decoded, and what is YAML or JSON in there or in HiveD's annotation of pods
 * parsed: texts may differ that mean the same.
 */
#include <jansson.h>

#include "tests/lib/setting.h"

/* New reference.  `mark` as for job_build. */
json_t *outcome_of(const struct setting *s, enum dialect d, struct span text,
                   const struct mark *mark);

/* Decode and parse that in a recorded result, in place. */
void outcome_decode(json_t *outcome);

/* The objects as they are printed, as a list; NULL if the job is refused.  New reference. */
json_t *outcome_objects(const struct setting *s, struct span text);

/* A tree as JSON; new reference. */
json_t *node_to_json(const struct node *n);
