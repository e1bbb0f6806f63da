#pragma once
/*
 * The table of dialects: all that distinguishes one from another.
 *
 * Thread: any
 */
#include "base/err.h"
#include "base/str.h"
#include "schema/schema.h"

struct node;
struct parse_context;

/* Dialects of job files, as bits of a set: the rows of translate/dialects/dialect.c. */
enum {
	DIALECTS_MAX = 8, /* rows */
	DIALECT_V1 = 1,
	DIALECT_V2 = 2,
	DIALECTS_PAI = 3,
	DIALECTS_ALL = (1 << DIALECTS_MAX) - 1
};

struct dialect {
	const char *name; /* of --dialects, metrics and the schema of OpenAPI */
	/* A document with the top-level key `key` is in this dialect; one with `kind` is, if its
	 * kind and apiVersion are among these. NULL if it is recognised by the other. */
	const char *key;
	const char *const *kinds, *const *versions;
	int api; /* the version of OpenPAI's REST API that takes it */
	enum schema_name schema;
	const char *code;    /* error code of the REST contract, for all violations */
	const char *name_in; /* the top-level mapping that has the job's name; NULL: the document */
	const char *name_key; /* of the name */
	/* The document as the schema is to see it; NULL: as it was read. */
	const struct node *(*prepare)(struct parse_context *r);
	void (*read)(struct parse_context *r);
	bool placeholders; /* it has parameters, `secrets` and `auth`, and <% placeholders %> */
	bool old_env;      /* its containers get the variables of the first two generations */
	int64_t shm_mb;    /* /dev/shm of a role that does not say */
};

/* The rows in order; NULL: no more. */
const struct dialect *dialect_nth(size_t i);
/* The row of one bit. */
const struct dialect *dialect_get(unsigned bit);

/* Returns the dialect of a document among those of the set; NULL if it is in none of them. */
const struct dialect *dialect_of(const struct node *root, unsigned set);
/* The job's name, or NULL. */
const struct node *dialect_name_of(const struct dialect *d, const struct node *root);
/* Writes all kinds and their apiVersions, each with "; " behind it. */
void dialects_known(struct str *out);
/* Writes the names of the dialects that a server takes only if they are named. */
void dialects_optional(struct str *out, const char *between);
/* The set of dialects that a server takes only if they are named, with commas between them.  -1 and
 * *e (400).
 */
int dialects_named(const char *list, unsigned *set, struct err *e);
/* ... of a text that may be broken: by the words in it, else the first one of the set. */
const struct dialect *dialect_guess(struct span text, unsigned set);
