#pragma once
/*
 * State and helpers that the dialects share while they fill a struct job. Violations are
 * collected: a dialect goes on with a harmless value, and job_read looks at the error at the end.
 * Members may have any type, because a dialect also runs on documents that the schema has refused.
 *
 * Thread: own
 */
#include "translate/job/job.h"
#include "translate/reader/placeholders.h"
#include "translate/reader/redact.h"

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

/* A value in the document that may be absent, and the path to it: a member by name, an item. */
struct field {
	const struct node *n; /* NULL: absent */
	struct path path;
	bool top; /* the document itself */
};
#define TOP(r) (&(struct field){ .n = (r)->root, .top = true })

static inline const struct path *field_path(const struct field *f)
{
	return f->top ? NULL : &f->path;
}
/* These refer to the path of `in`. */
static inline struct field field_get(const struct field *in, const char *key)
{
	return (struct field){ node_get(in->n, key), PATH_KEY(field_path(in), span_of(key)),
		               false };
}
static inline struct field field_item(const struct field *list, size_t i)
{
	return (struct field){ &list->n->item[i], PATH_INDEX(field_path(list), i), false };
}
static inline struct field field_member(const struct field *map, size_t i)
{
	const struct member *m = &map->n->member[i];
	return (struct field){ &m->value, PATH_KEY(field_path(map), member_key(m)), false };
}
/* Returns the number of items of a list or of members of a map; 0 for other types.  node_is would
 * be one call more than the analyzer follows. */
static inline uint32_t field_items(const struct field *f)
{
	return f->n && f->n->type == NODE_LIST ? f->n->n : 0;
}
static inline uint32_t field_members(const struct field *f)
{
	return f->n && f->n->type == NODE_MAP ? f->n->n : 0;
}
/* The text, or n = 0 if it is absent or none. */
static inline struct span field_text(const struct field *f)
{
	return f->n && f->n->type == NODE_TEXT ? node_span(f->n) : SPAN("");
}
static inline struct place field_place(struct arena *a, const struct field *f)
{
	return path_place(a, field_path(f), f->n);
}

/* A violation or warning at a field, or at the key of the i-th member of a map.  A warning is added
 * once for a place.
 *
 * A job with warnings is accepted.  A warning must nearly always be right, name the effect, and say
 * what to write instead.  docs/WARNINGS.md has a row with the reason for each, also for those of
 * the readers in base/doc, which the unit tests compare. */
enum parse_report { PARSE_REFUSE, PARSE_WARN };
void parse_report(struct parse_context *r, enum parse_report kind, struct place where,
                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));
#define parse_refuse(r, f, ...) parse_report(r, PARSE_REFUSE, field_place((r)->a, f), __VA_ARGS__)
#define parse_warn(r, f, ...)   parse_report(r, PARSE_WARN, field_place((r)->a, f), __VA_ARGS__)
#define parse_refuse_key(r, map, m, ...)                                                           \
	parse_report(r, PARSE_REFUSE, path_place_key((r)->a, field_path(map), m), __VA_ARGS__)
#define parse_warn_key(r, map, m, ...)                                                             \
	parse_report(r, PARSE_WARN, path_place_key((r)->a, field_path(map), m), __VA_ARGS__)

/* "must be WANT, is ..." */
void parse_wrong_type(struct parse_context *r, const struct field *f, const char *want);

/* Not null either. */
static inline bool node_is_present(const struct node *n)
{
	return n && n->type != NODE_NULL;
}

/* An integer member: its range, and the value if it is absent, null or wrong. */
struct int_field {
	const char *name;
	int64_t min, max, absent;
};
int64_t parse_int(struct parse_context *r, const struct field *map, const struct int_field *want);
int64_t parse_number(struct parse_context *r, const struct field *f, const struct int_field *want);

/* The same for a number of MiB; the message about `8Gi` has the right number. */
int64_t parse_mebibytes(struct parse_context *r, const struct field *map,
                        const struct int_field *want);

/* The member's text, or n = 0 if it is absent, null or no text. */
struct span parse_text(const struct node *map, const char *key);

/* The member is the boolean true. */
bool parse_is_true(const struct node *map, const char *key);

/* Of JSON that this program has made, for doc_quiet. */
#define BUDGET_OWN ((struct budget){ 1000, SIZE_MAX, SIZE_MAX, SIZE_MAX })

/* Refuses what is no image. */
void parse_image(struct parse_context *r, const struct field *image);

/* "default" for an absent, null or (v1) empty name; checked as a label value. */
void parse_virtual_cluster(struct parse_context *r, const struct field *f);

/* The role of this name as it is written, or NULL. */
struct role *parse_role_find(const struct job *job, struct span name);

/* Sets name and object_name of a role; parse_roles_done checks for collisions. */
void parse_role_name(struct parse_context *r, struct role *role, const struct field *f,
                     struct span name);
/* Called after the last role: checks names for collisions, and computes sums over all roles. */
void parse_roles_done(struct parse_context *r, const struct field *roles);

/* Refuses too many roles. */
bool parse_roles_fit(struct parse_context *r, const struct field *roles);

typedef void role_reader(void *context, const struct field *f, struct role *role);
/* Reads the roles of a list with `read`, then does parse_roles_done.  False if `list` is none (the
 * schema has reported that) or too long. */
bool parse_role_list(struct parse_context *r, const struct field *list, role_reader *read,
                     void *context);

/* Checks the length of the complete command. */
void parse_command(struct parse_context *r, struct role *role, const struct field *f);

/* The number of ports with a label, or 1.  Warns of unlikely ones. */
int64_t parse_port_count(struct parse_context *r, const struct field *f, struct span label);
/* Ends the list of ports: ports[0..n_ports) are declared, with room for two more; adds ssh and
 * http. */
void parse_ports_done(struct parse_context *r, struct role *role, const struct field *f,
                      struct port_request *ports);
/* Reports a role that has more ports than the range of the server, unless it had too many before
 * the last `more` were added for extras.distributed. */
void parse_ports_fit(struct parse_context *r, const struct role *role, int64_t more,
                     struct place where);

/* Returns true if a list has the name; a final `*` of an entry matches any text, NULL ends the
 * list. */
bool parse_listed(const char *const *list, struct span name);

/* Returns true if jobs must not set this environment variable. */
bool parse_env_reserved(const struct settings *set, struct span name);
/* The same of a secret, which pai-runtime sets: nor one that chooses programs or libraries. */
bool parse_secret_env_reserved(const struct settings *set, struct span name);

/* The warning about {{FC_. */
#define WARN_FC "{{FC_...}} is replaced by the FrameworkController; this cannot be escaped"

enum { ENV_MAX = 256, ENV_VALUE_MAX = 131071 }; /* variables of a mapping; bytes of NAME=VALUE */
/* Adds the variables of a mapping to v[0..n), which has room for ENV_MAX more; one of the same name
 * is replaced.  Returns their number. */
size_t parse_env(struct parse_context *r, const struct field *map, struct env_var *v, size_t n);

/* Warns of values that other YAML readers read differently; `text` is the document. */
void ambiguous_scalars_check(struct parse_context *r, struct span text);
/* Warns of parameters that look like passwords. */
void ambiguous_scalars_parameters(struct parse_context *r);

/* The job without its secrets, as redact_tree.  If a secret shares nodes with other parts of the
 * job, any message could show it: NULL and *e, which is then the only message. */
const struct node *redact_secrets(struct parse_context *r);
/* Sets job->config: `text`, or `shown` (redact.h) as YAML or JSON, if that is another tree.  Warns
 * of passwords that stay in it.  -1 and *e: it is too large. */
int redact_config(struct parse_context *r, const struct node *shown, bool json, struct span text);

/* ---- suggestions: "did you mean ...?" ---- */

/* The nearest name of a placeholder that has a value, in the arena; NULL if there is none. */
const char *suggest_placeholder(struct render *r, struct arena *a, struct span name);

/* Warns of unknown members of an open mapping that look like known ones; `known` ends with NULL. */
extern const char *const EXTRAS_KNOWN[]; /* members of `extras` that are used */
void suggest_members(struct parse_context *r, const struct field *map, const char *const *known);

/* The nearest of the keys of a mapping, or of the members `name` of a list (with this type, if
 * not NULL).  NULL if none is near, or if the list of messages is full. */
const char *suggest_name(const struct parse_context *r, const struct node *all, const char *type,
                         struct span wanted);
/* "; did you mean `NAME`?", or "" for NULL. */
const char *suggest_sentence(struct arena *a, const char *name);
/* Returns true if the document lacks the member and has one with a similar name. */
bool suggest_misspelt(const struct parse_context *r, const char *key);
/* Refuses keys of v1 jobs in a v2 job, or in its role. */
void suggest_old_keys(struct parse_context *r, const struct field *map);
/* Warns of names of roles, keys or items, that the job does not have. */
void suggest_roles(struct parse_context *r, const struct field *names);
