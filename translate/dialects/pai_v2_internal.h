#pragma once
/*
 * Jobs of protocol 2, in three files: v2_prerequisites.c reads prerequisites and logins,
 * v2_commands.c deployments and commands, pai_v2.c the roles and the job.  All texts and structs
 * live in the arena of the parse_context, which also collects the errors.  Pure; one thread per
 * parse_context.
 */
#include "translate/reader/parse_context.h"

/* ---- v2_prerequisites.c ---- */

/* An item with a name and a type: a prerequisite, or a deployment, whose type is "deployment". */
struct prerequisite {
	struct span name, type;
	const struct node *node;
	size_t index; /* in the document */
	bool used;    /* a role or another prerequisite names it */
};

/* Sorted by name, type and index. */
struct prerequisites {
	struct prerequisite *v;
	size_t n;
	struct field list;
	bool unsure; /* some have no valid name or type, which is reported elsewhere */
	bool missed; /* a role names one that does not exist */
};

/* Reads `prerequisites` of the job, and its logins to registries into r->job. */
struct prerequisites *prerequisites_read(struct parse_context *r);
/* Sorts the items, because there may be thousands, and refuses those that are there twice. */
void prerequisites_sort(struct parse_context *r, const struct prerequisites *all);
/* Returns the prerequisite that a role names, of this type (NULL: any), and marks it as used. NULL:
 * there is none; this is reported. */
const struct node *prerequisites_named(struct parse_context *r, struct prerequisites *all,
                                       const struct field *name, const char *type);
/* Warns of prerequisites that nothing names.  Call after all roles are read. */
void prerequisites_done(struct parse_context *r, const struct prerequisites *all);

/* ---- v2_commands.c ---- */

struct commands;

/* The role whose command is read. */
struct command_source {
	const struct field *role;
	struct span name;
	const struct node *values[3]; /* of $script, $output and $data, or NULL */
};

struct commands *commands_new(struct parse_context *r);
/* Finds the active deployment, whose commands commands_read adds. */
void deployments_read(struct commands *c, const struct field *all);
/* Sets role->command: preCommands of the deployment, commands of the role, postCommands; each line
 * trimmed, joined by newlines, then rendered as one text. */
void commands_read(struct commands *c, const struct command_source *source, struct role *role);
