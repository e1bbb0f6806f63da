#pragma once
/*
 * /openapi.json: OpenAPI 3.0.3 out of the table of routes, of openapi.json (what stands in the
 * answers) and of the schemas of jobs.
 */
#include <jansson.h>

#include "base/str.h"

/* The whole document, with a final newline.  Appends. */
void openapi_page(struct str *out);

/*
 * A JSON Schema (draft-07) as OpenAPI 3.0 has them: what that does not know (conditions, patterns
 * of names) is left out, so that it takes more than the original, never less.  `prefix` goes before
 * the names of its definitions, which are added to `schemas` with it, as the schema itself is,
 * under the prefix alone.
 */
void openapi_schema(json_t *schemas, const char *prefix, json_t *schema);
