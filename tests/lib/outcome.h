#pragma once
/*
 * The translation of one job as a JSON value, for comparisons:
 *
 *	{"accepted": true, "framework": {..}, "secrets": {"regcred": {..}, ..},
 *	 "configmaps": {"env": {..}}, "priorityClass": {..} or null}
 *	{"accepted": false, "status": 400, "code": "..",
 *	 "notes": [{"at": "/name", "line": 2, "column": 7, "message": ".."}]}
 *
 * Secrets are decoded, and YAML and JSON in them and in HiveD's annotation are parsed, so that
 * different texts with the same meaning are equal.
 */
#include <jansson.h>

#include "tests/lib/setting.h"

/* New reference.  `mark` as for job_build. */
json_t *outcome_of(const struct setting *s, unsigned d, struct span text,
                   const struct submission_mark *mark);

/* The same of any dialect, with the list `warnings`, each like a note. */
json_t *outcome_warned(const struct setting *s, struct span text);

/* Decode and parse the same parts of a recorded result, in place. */
void outcome_decode(json_t *outcome);

/* The objects as a list, as printed; NULL if the job is refused.  New reference. */
json_t *outcome_objects(const struct setting *s, struct span text);

/* A tree as JSON; new reference. */
json_t *node_to_json(const struct node *n);
