#pragma once
/*
 * What the dialects share while they fill a struct job.  For translate/ only.
 *
 * Violations are collected, never the first one only: reading goes on with a
 * harmless value, and job_read looks at the error once, at the end.  A dialect may
 * meet members of any type, since it also runs on documents that the schema refused.
 */
#include "translate/job.h"

struct reading {
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

/* A violation or warning at a value, or at the key of a member (p leads to its map). */
void reading_refuse(struct reading *r, const struct path *p, const struct node *n, const char *fmt,
                    ...) __attribute__((format(printf, 4, 5)));
void reading_refuse_key(struct reading *r, const struct path *p, const struct member *m,
                        const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The sentences of warnings stand in translate/dialects/warnings.h.  One is not said twice of a
 * place. */
void reading_warn(struct reading *r, const struct path *p, const struct node *n, const char *fmt,
                  ...) __attribute__((format(printf, 4, 5)));
void reading_warn_key(struct reading *r, const struct path *p, const struct member *m,
                      const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* An integer member: its range, and its value if absent or null (or wrong, which is said). */
struct int_field {
	const char *name;
	int64_t min, max, absent;
};
int64_t reading_int(struct reading *r, const struct path *up, const struct node *map,
                    const struct int_field *f);
/* The same for a value whose path is known. */
int64_t reading_number(struct reading *r, const struct path *p, const struct node *n,
                       const struct int_field *f);

/* The same for a number of MiB: of `8Gi` it says what to write. */
int64_t reading_mebibytes(struct reading *r, const struct path *up, const struct node *map,
                          const struct int_field *f);

/* The member's text, or n = 0 if it is absent, null or no text. */
struct span reading_text(const struct node *map, const char *key);

/* "default" for an absent, null or (v1) empty name; checked as a label value. */
void reading_virtual_cluster(struct reading *r, const struct path *p, const struct node *n);

/* Name and object_name of a role; collisions come with reading_roles_done. */
void reading_role_name(struct reading *r, struct role *role, const struct path *p,
                       const struct node *n, struct span name);
/* Collisions of names, sums over all roles. */
void reading_roles_done(struct reading *r);

/* May the job have so many roles?  Says so if not. */
bool reading_roles_fit(struct reading *r, const struct path *p, const struct node *roles);

/* The role's command is complete: how long may it be?  p leads to where it was written. */
void reading_command(struct reading *r, struct role *role, const struct path *p,
                     const struct node *n);

/* Warn of a number of ports for one label that cannot be meant. */
void reading_port_count(struct reading *r, const struct path *p, const struct node *n,
                        int64_t count);
/* Ports: the declared ones are in ports[0..n), with room for two more; adds ssh and http. */
void reading_ports_done(struct reading *r, struct role *role, const struct path *p,
                        const struct node *n, struct port_request *ports);

/* `extras` of both generations: gang, storages, plugins. */
void extras_read(struct reading *r, const struct path *p, const struct node *extras);
/* ... and `extras.hivedScheduler`, once the roles are known. */
void hived_request_read(struct reading *r);

/* v2 only: what a role asks for that must be granted. */
void grants_read(struct reading *r, const struct path *p, const struct node *options,
                 struct role *role);

/* v2 only: prerequisites, and the commands of its roles. */
struct prerequisites;
struct prerequisites *prerequisites_read(struct reading *r);
/* The node of that name and type ("script"), or NULL. */
const struct node *prerequisites_find(const struct prerequisites *all, struct span name,
                                      const char *type);
bool prerequisites_has(const struct prerequisites *all, struct span name);
/* The one that is named at p does not exist; type NULL: of no type. */
void prerequisites_refuse(struct reading *r, struct prerequisites *all, const struct path *p,
                          const struct node *name, const char *type);
/* All roles have asked: those that nobody asked for are warned of. */
void prerequisites_done(struct reading *r, const struct prerequisites *all);

/* The deployment that is on, as its map of roles, or NULL. */
struct deployment {
	const struct node *roles;
	size_t index;
};
struct deployment deployments_read(struct reading *r);

/* Join, render and trim the commands of one role. */
struct command_source {
	const struct node *role; /* the role's map */
	const struct path *path; /* leads to it */
	struct span name;
	struct deployment deployment;
	const struct node *values[3]; /* what $script, $output and $data are, or NULL */
};
struct commands;
struct commands *commands_new(struct reading *r);
void commands_read(struct commands *c, const struct command_source *source, struct role *role);

/* Warn of values that others read differently.  `text` is the document's. */
void scalars_check(struct reading *r, struct span text);
/* Warn of parameters that are called passwords. */
void parameters_check(struct reading *r);

/* The dialects. */
void pai_v2_read(struct reading *r);
void pai_v1_read(struct reading *r);
/* A copy of a v1 document in which numbers that were written as text are numbers. */
const struct node *pai_v1_numbers(struct reading *r);

/* job->config: the text with its secrets masked.  -1 and *e: 400 or 500. */
int mask_config(struct reading *r, const struct doc *doc, struct span text);
/* What the members of `auth` and others become in it. */
#define MASK "******"
