#pragma once
/*
 * What the dialects share while they fill a struct job.  For translate/ only.
 *
 * Violations are collected, never the first one only: reading goes on with a
 * harmless value, and job_read looks at the error once, at the end.  A dialect may
 * meet members of any type, since it also runs on documents that the schema refused.
 */
#include "translate/dialects/render.h"
#include "translate/job.h"

struct parse_context {
	const struct settings *set;
	struct arena *a;
	struct job *job;
	const struct node *root;
	const char *code; /* of violations */
	struct err *e;
	size_t doc_notes;    /* so many of e's notes are the reader's */
	size_t schema_notes; /* up to here they are the schema's; their places are done with */
	struct notes *warnings;
	size_t rendered;    /* bytes of all commands so far */
	bool gpu_type_used; /* by some template */
};

/* A violation or warning at a value (p leads to it), or at the key of a member (p leads to its
 * map).  A warning is added once for a place.  Formats of warnings: translate/dialects/warnings.h.
 */
enum parse_report { PARSE_REFUSE, PARSE_WARN };
void parse_report(struct parse_context *r, enum parse_report kind, struct place where,
                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));
#define parse_refuse(r, p, n, ...)                                                                 \
	parse_report(r, PARSE_REFUSE, path_place((r)->a, p, n), __VA_ARGS__)
#define parse_refuse_key(r, p, m, ...)                                                             \
	parse_report(r, PARSE_REFUSE, path_place_key((r)->a, p, m), __VA_ARGS__)
#define parse_warn(r, p, n, ...) parse_report(r, PARSE_WARN, path_place((r)->a, p, n), __VA_ARGS__)
#define parse_warn_key(r, p, m, ...)                                                               \
	parse_report(r, PARSE_WARN, path_place_key((r)->a, p, m), __VA_ARGS__)

/* "must be WANT, is ..." */
void parse_wrong_type(struct parse_context *r, const struct path *p, const struct node *n,
                      const char *want);

/* Not null either. */
static inline bool present(const struct node *n)
{
	return n && n->type != NODE_NULL;
}

/* An integer member: its range, and its value if absent or null (or wrong, which is said). */
struct int_field {
	const char *name;
	int64_t min, max, absent;
};
int64_t parse_int(struct parse_context *r, const struct path *up, const struct node *map,
                  const struct int_field *f);
/* The same for a value whose path is known. */
int64_t parse_number(struct parse_context *r, const struct path *p, const struct node *n,
                     const struct int_field *f);

/* The same for a number of MiB: of `8Gi` it says what to write. */
int64_t parse_mebibytes(struct parse_context *r, const struct path *up, const struct node *map,
                        const struct int_field *f);

/* The member's text, or n = 0 if it is absent, null or no text. */
struct span parse_text(const struct node *map, const char *key);

/* "default" for an absent, null or (v1) empty name; checked as a label value. */
void parse_virtual_cluster(struct parse_context *r, const struct path *p, const struct node *n);

/* Name and object_name of a role; collisions come with parse_roles_done. */
void parse_role_name(struct parse_context *r, struct role *role, const struct path *p,
                     const struct node *n, struct span name);
/* Collisions of names, sums over all roles. */
void parse_roles_done(struct parse_context *r);

/* May the job have so many roles?  Says so if not. */
bool parse_roles_fit(struct parse_context *r, const struct path *p, const struct node *roles);

/* The role's command is complete: how long may it be?  p leads to where it was written. */
void parse_command(struct parse_context *r, struct role *role, const struct path *p,
                   const struct node *n);

/* Warn of a number of ports for one label that cannot be meant. */
void parse_port_count(struct parse_context *r, const struct path *p, const struct node *n,
                      int64_t count);
/* Ports: the declared ones are in ports[0..n), with room for two more; adds ssh and http. */
void parse_ports_done(struct parse_context *r, struct role *role, const struct path *p,
                      const struct node *n, struct port_request *ports);

/* `extras` of both generations: gang, storages, plugins. */
void extras_read(struct parse_context *r, const struct path *p, const struct node *extras);
/* ... and `extras.hivedScheduler`, once the roles are known. */
void hived_request_read(struct parse_context *r);

/* Warn of values that others read differently.  `text` is the document's. */
void ambiguous_scalars_check(struct parse_context *r, struct span text);
/* Warn of parameters that are called passwords. */
void ambiguous_scalars_parameters(struct parse_context *r);

/* The dialects. */
void pai_v2_read(struct parse_context *r);
void pai_v1_read(struct parse_context *r);
/* A copy of a v1 document in which numbers that were written as text are numbers. */
const struct node *pai_v1_numbers(struct parse_context *r);

/* job->config: the text with its secrets masked.  -1 and *e: 400 or 500. */
int redact_config(struct parse_context *r, const struct doc *doc, struct span text);
/* What the members of `auth` and others become in it. */
#define REDACTED "******"

/* ---- suggestions: "did you mean ...?" ---------------------------------------------------- */

/* A placeholder's name that leads somewhere and is nearly the same; p is NULL if there is none.
 * Lives in the arena. */
struct span suggest_placeholder(struct render *r, struct arena *a, struct span name);

/* Warn of members of an open mapping (anything may stand there) that look like one of those
 * that are known.  p leads to the mapping; `known` ends with NULL. */
extern const char *const EXTRAS_KNOWN[]; /* members of `extras` that something is made of */
void suggest_members(struct parse_context *r, const struct path *p, const struct node *map,
                     const char *const *known);

/* The nearest name among the keys of a mapping, or the members `name` of a list (of those of that
 * type, if it is not NULL); n is 0 if none is near, or nobody would hear of it any more. */
struct span suggest_name(const struct parse_context *r, const struct node *all, const char *type,
                         struct span wanted);
/* "; did you mean `NAME`?", or "" without a name. */
const char *did_you_mean(struct arena *a, struct span name);
/* Is there no such member in the document, but one that is called nearly so? */
bool suggest_misspelt(const struct parse_context *r, const char *key);
/* Keys of v1 jobs in a v2 job (or, with a path, in its role): what they are called there. */
void suggest_old_keys(struct parse_context *r, const struct path *role, const struct node *map);
/* Names of roles below `p`, a list or a mapping, that the job does not have. */
void suggest_roles(struct parse_context *r, const struct path *p, const struct node *names);
