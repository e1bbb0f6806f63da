#pragma once
/*
 * The job as its author wrote it (job protocol, v1 or v2; secrets masked), seen from this task's
 * role.  From the Framework's annotation, or, for a bare pod, from RUNTIME_CONFIG.
 */
#include "base/tree.h"
#include "runtime-assets/init/framework.h"

struct job {
	struct doc doc; /* of the config; root is null if there is none */
	const struct node
	    *secrets; /* of the mounted secrets file, typed by the YAML rules; or NULL */
	const struct node *extension; /* of the user extension secret; or NULL */
	const char
	    *role_name; /* PAI_CURRENT_TASK_ROLE_NAME: the key in taskRoles; NULL if not set */
	const struct node *role; /* its entry in taskRoles; NULL if there is none */
};

/*
 * Read the config (at most FRAMEWORK_MAX bytes) into doc, and find `role` by role_name, which the
 * caller has set before; secrets and extension are the caller's, too, and left alone.  *problem
 * says why there is none of use (then root is null), and stays empty otherwise.
 * In version 1 of the protocol taskRoles is a list of maps with `name`: found all the same.
 */
void job_read(struct job *j, struct span config, struct arena *a, struct str *problem);

/* The key of taskRoles whose conversion (lower case, only [a-z0-9]) is this Kubernetes name, with
 * every character outside of [A-Za-z0-9_] as `_`; in the arena.  NULL if there is none. */
const char *job_role_spelling(const struct job *j, const char *kubernetes_name, struct arena *a);

/* The entry of top-level `prerequisites` of this type (NULL: any) and name; NULL if not exactly
 * one. */
const struct node *job_prerequisite(const struct job *j, const char *type, struct span name);

/*
 * Replace every `<% $path %>` in the parameters of a plugin.  The path begins with `parameters` or
 * `secrets`, or with `script`, `output` or `data`: the prerequisite of that type that the role
 * names; then come `.key` (of digits: an index of a list) and `[n]`, which is the same as `.n`.
 * A key is any text without `. [ ] < > %` and control characters.  Scalars are written by the rules
 * of ECMAScript, as the server writes them into commands; null is empty, a date is as written.
 * Inserted text is not scanned again.  The result may hold secrets: use STR_SECRET.
 *
 * -1 and *e, which names the reference and no value: what leads nowhere, is a map or a list, begins
 * with `<% $` but is no path; more text than `out` takes.  Then *out holds a part.
 */
int job_fill(const struct job *j, struct span text, struct str *out, struct err *e);

/*
 * The same for every text in a tree, at most 4 MiB in all; keys are left alone.  The new tree lives
 * in the arena and shares keys with the old one.
 */
int job_fill_tree(const struct job *j, const struct node *in, struct arena *a, struct node *out,
                  struct err *e);

/*
 * For the user's command: only `<% $secrets.path %>` with at least one part is replaced, and what
 * is absent there is empty.  All other text, be it `<% $parameters.x %>` or `<%& $secrets.x %>`,
 * stays as it is.  -1 and *e: a map or a list; too long.
 */
int job_fill_secrets(const struct job *j, struct span text, struct str *out, struct err *e);

/* Append a scalar as job_fill writes it; false, and nothing written, for a map or a list. */
bool job_scalar(const struct node *n, struct str *out);
