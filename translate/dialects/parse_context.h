#pragma once
/*
 * State and helpers that the dialects share while they fill a struct job. Violations are
 * collected: a dialect goes on with a harmless value, and job_read looks at the error at the end.
 * Members may have any type, because a dialect also runs on documents that the schema has refused.
 */
#include "translate/dialects/render.h"
#include "translate/job.h"

struct parse_context {
	const struct settings *set;
	struct arena *a;
	struct job *job;
	const struct node *root;
	const char *code; /* error code of violations */
	struct err *e;
	size_t doc_notes;    /* notes of the reader: e->notes[0..doc_notes) */
	size_t schema_notes; /* notes of the schema: up to this index */
	struct notes *warnings;
	size_t rendered;    /* bytes of all commands */
	bool gpu_type_used; /* a template uses job.gpuType */
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

/* An integer member: its range, and the value if it is absent, null or wrong. */
struct int_field {
	const char *name;
	int64_t min, max, absent;
};
int64_t parse_int(struct parse_context *r, const struct path *up, const struct node *map,
                  const struct int_field *f);
int64_t parse_number(struct parse_context *r, const struct path *p, const struct node *n,
                     const struct int_field *f);

/* The same for a number of MiB; the message about `8Gi` has the right number. */
int64_t parse_mebibytes(struct parse_context *r, const struct path *up, const struct node *map,
                        const struct int_field *f);

/* The member's text, or n = 0 if it is absent, null or no text. */
struct span parse_text(const struct node *map, const char *key);

/* "default" for an absent, null or (v1) empty name; checked as a label value. */
void parse_virtual_cluster(struct parse_context *r, const struct path *p, const struct node *n);

/* Name and object_name of a role; collisions come with parse_roles_done. */
void parse_role_name(struct parse_context *r, struct role *role, const struct path *p,
                     const struct node *n, struct span name);
/* After the last role: collisions of names, sums over all roles.  p leads to the roles. */
void parse_roles_done(struct parse_context *r, const struct path *p, const struct node *roles);

/* Refuses too many roles. */
bool parse_roles_fit(struct parse_context *r, const struct path *p, const struct node *roles);

typedef void role_reader(void *context, const struct path *p, const struct node *n,
                         struct role *role);
/* Reads the roles of a list with `read`, then does parse_roles_done.  False if `list` is none (the
 * schema has reported that) or too long. */
bool parse_role_list(struct parse_context *r, const struct path *p, const struct node *list,
                     role_reader *read, void *context);

/* Checks the length of the complete command; p leads to it. */
void parse_command(struct parse_context *r, struct role *role, const struct path *p,
                   const struct node *n);

/* Warns of unlikely numbers of ports. */
void parse_port_count(struct parse_context *r, const struct path *p, const struct node *n,
                      int64_t count);
/* Ends the list of ports: ports[0..n_ports) are declared, with room for two more; adds ssh and
 * http. */
void parse_ports_done(struct parse_context *r, struct role *role, const struct path *p,
                      const struct node *n, struct port_request *ports);
/* Reports a role that has more ports than the range of the server, unless it had too many before
 * the last `more` were added for extras.distributed. */
void parse_ports_fit(struct parse_context *r, const struct role *role, int64_t more,
                     struct place where);

/* Whether a list has the name; a final `*` of an entry stands for any text, NULL ends the list. */
bool parse_listed(const char *const *list, struct span name);

/* Whether jobs must not set this environment variable. */
bool parse_env_reserved(const struct settings *set, struct span name);

/* `extras` of v1 and v2: gang allocation, storages, plugins. */
void extras_read(struct parse_context *r, const struct path *p, const struct node *extras);
/* `extras.distributed` of v2 jobs, after the roles: adds ports to them. */
void distributed_read(struct parse_context *r);
/* `extras.hivedScheduler`, after the roles. */
void hived_request_read(struct parse_context *r);

/* Warns of values that other YAML readers read differently; `text` is the document. */
void ambiguous_scalars_check(struct parse_context *r, struct span text);
/* Warns of parameters that look like passwords. */
void ambiguous_scalars_parameters(struct parse_context *r);

void pai_v2_read(struct parse_context *r);
void pai_v1_read(struct parse_context *r);
void mxjob_read(struct parse_context *r);
void launcher_read(struct parse_context *r);
/* A copy of the v1 document with numbers instead of numeric texts. */
const struct node *pai_v1_numbers(struct parse_context *r);

/* Sets job->config: the text without its secrets. -1 and *e: 400 or 500. */
int redact_config(struct parse_context *r, const struct doc *doc, struct span text);
#define REDACTED "******"

/* ---- suggestions: "did you mean ...?" ---- */

/* The nearest name of a placeholder that has a value; p is NULL if there is none. */
struct span suggest_placeholder(struct render *r, struct arena *a, struct span name);

/* Warns of unknown members of an open mapping that look like known ones; `known` ends with NULL. */
extern const char *const EXTRAS_KNOWN[]; /* members of `extras` that are used */
void suggest_members(struct parse_context *r, const struct path *p, const struct node *map,
                     const char *const *known);

/* The nearest of the keys of a mapping, or of the members `name` of a list (with this type, if
 * not NULL). n is 0 if none is near, or if the list of messages is full. */
struct span suggest_name(const struct parse_context *r, const struct node *all, const char *type,
                         struct span wanted);
/* "; did you mean `NAME`?", or "" without a name. */
const char *did_you_mean(struct arena *a, struct span name);
/* Whether the document lacks the member and has one of nearly that name. */
bool suggest_misspelt(const struct parse_context *r, const char *key);
/* Refuses keys of v1 jobs in a v2 job or, with a path, in its role. */
void suggest_old_keys(struct parse_context *r, const struct path *role, const struct node *map);
/* Warns of names of roles below `p` that the job does not have. */
void suggest_roles(struct parse_context *r, const struct path *p, const struct node *names);
