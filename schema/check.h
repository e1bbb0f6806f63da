#pragma once
/*
 * JSON Schema, draft-07, as far as job documents need it (and all that the
 * conformance cases in tests/ use).  A schema is compiled once and then only
 * read, by any number of threads.
 */
#include "base/tree.h"

struct schema;

/* Compile the text of a schema.  Free it with schema_free.  NULL and *e (500) if it
 * is no schema or uses a keyword that is not supported. */
struct schema *schema_compile(struct span text, struct err *e);
void schema_free(struct schema *s);

/*
 * Check a document and report every violation: place, and a sentence for people
 * without the place in it ("must be at least 1, is 0"; "unknown key `intances`, did
 * you mean `instances`?").  Text from the document is quoted, shortened, and never
 * shown below the members named in `secret` (NULL, or a NULL-terminated list of
 * top-level member names such as "secrets") or below a member called "auth" or "extension".
 * 0 if valid; -1 and *e with `code` otherwise.  The places live in *e.
 */
int schema_check(const struct schema *s, const struct node *doc, const char *code,
                 const char *const *secret, struct err *e);

/* The embedded schemas by name: "v1", "v2", "facts", "issuers", "hived", "config".  Their text (p
 * is NULL if there is no such schema), and compiled: made at the first call, shared and never
 * freed; safe from any thread after schema_init. */
enum schema_name {
	SCHEMA_V1,
	SCHEMA_V2,
	SCHEMA_FACTS,
	SCHEMA_ISSUERS,
	SCHEMA_HIVED,
	SCHEMA_NAME_MAX
};
struct span schema_text(enum schema_name name);
const struct schema *schema_get(enum schema_name name);
/* Compile all embedded schemas; aborts if one does not compile (a unit test shows that they do). */
void schema_init(void);
