#pragma once
/*
 * schema/ checks documents against JSON Schema: compile.c compiles a schema to rules, schema.c
 * checks a document against them, report.c writes the messages, pattern.c has the regular
 * expressions.  The schemas of this project are the *.schema.json files.
 *
 *	schema_init();
 *	const struct schema *v2 = schema_get(SCHEMA_V2);
 *	if (schema_check(v2, &doc.root, "InvalidProtocolError", NULL, e) < 0)
 *		return -1;
 *
 * JSON Schema draft-07, as far as these files need it: a keyword that compile.c does not have ends
 * the program.  The message for text that does not match a pattern is `patternErrorMessage` beside
 * it.  `oneOf` is for mappings that differ in the values of their member `type`.  A compiled schema
 * is immutable.
 *
 * Thread: any
 */
#include "base/doc/tree.h"

struct schema;

/* Compiles the text of a schema in the arena; aborts if it is not one. */
const struct schema *schema_compile(struct span text, struct arena *a);

/*
 * Checks a document and reports every violation with its place: "must be at least 1, is 0";
 * "unknown key `intances`, did you mean `instances`?".  Text of the document is quoted and
 * shortened.  Values below the top-level members in `secret` (NULL, or NULL-terminated) and below
 * members named "auth" or "extension" are never shown.  0 if valid; else -1 and *e with `code`.
 */
int schema_check(const struct schema *s, const struct node *doc, const char *code,
                 const char *const *secret, struct err *e);

/* The same for a part of a document, to which `at` leads. */
int schema_check_at(const struct schema *s, const struct node *part, const struct path *at,
                    const char *code, struct err *e);

/* The embedded schemas: identifier, the name of `rest-lit schema NAME`, file.  Those of the
 * dialects come first. */
#define SCHEMAS(ROW)                                                                               \
	ROW(V1, "v1", "schema/pai-v1.schema.json")                                                 \
	ROW(V2, "v2", "schema/pai-v2.schema.json")                                                 \
	ROW(MXJOB, "mxjob", "schema/mxjob.schema.json")                                            \
	ROW(LAUNCHER, "launcher", "schema/launcher.schema.json")                                   \
	ROW(POD, "pod", "schema/pod.schema.json")                                                  \
	ROW(FACTS, "facts", "schema/facts.schema.json")                                            \
	ROW(ISSUERS, "issuers", "schema/issuers.schema.json")                                      \
	ROW(HIVED, "hived", "schema/hived.schema.json")

#define SCHEMA_ENUM(id, name, file) SCHEMA_##id,
enum schema_name { SCHEMAS(SCHEMA_ENUM) SCHEMA_NAME_MAX };

extern const char *const SCHEMA_NAMES[SCHEMA_NAME_MAX];
/* Their text, and compiled at the first call, shared and never freed; after schema_init.
 */
struct span schema_text(enum schema_name name);
const struct schema *schema_get(enum schema_name name);
/* Compiles all embedded schemas; aborts if one is invalid, which a unit test excludes.
 * Thread: main. */
void schema_init(void);
