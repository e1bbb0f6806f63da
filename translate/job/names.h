#pragma once
/*
 * Checks of names and references for Kubernetes objects, URLs, paths and variable names.  The API
 * server accepts most invalid ones, and the pod then fails hours later.
 *
 *	const char *problem = names_mount_path_problem(path);
 *	if (problem)
 *		return err_set(e, INVALID_PROTOCOL, "\"%s\" %s", arena_quoted(a, path), problem);
 *
 * Problems are static text; new texts live in the arena.  Pure.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/doc/tree.h"

enum {
	LABEL_MAX = 63, /* of a label value, and of role names in a Framework */
	STORAGE_NAME_MAX = 253,
	MOUNT_PATH_MAX = 512,
	REGISTRY_MAX = 512,
	CELL_NAME_MAX = 255
};

/* A role's name in the Framework: lower case, only [a-z0-9].  May be empty or too long. */
const char *names_role_object(struct arena *a, struct span role);

/* A name as a part of variable names: all but letters and digits become `_`. */
const char *names_variable(struct arena *a, struct span name);

/* [A-Za-z_][A-Za-z0-9_]* */
bool names_identifier_ok(struct span name);

/* A label value of Kubernetes that is not empty. */
bool names_label_value_ok(struct span v);

/* A label of DNS of any length: [a-z0-9-], no `-` at the ends. */
bool names_dns_label_ok(struct span name);

/* DNS-1123 subdomain: the name of a volume claim. */
bool names_storage_ok(struct span name);

/* NULL, or the problem, to follow the name.  References of images are checked by
 * base/image/image.h. */
const char *names_registry_problem(struct span registry);
/* Accepts any absolute path, `/` too. */
const char *names_path_problem(struct span path);
/* Accepts a path where a volume can be mounted: not in directories of the system. */
const char *names_mount_path_problem(struct span path);

/* A directory that pods mount, /DIR of the node or, with a server, nfs://SERVER/DIR; without
 * slashes at the end.  n is 0 without either. */
struct span names_directory(struct arena *a, const struct node *server, const struct node *path);

/* The path without a final slash: two mounts are the same if these are equal. */
struct span names_mount_path(struct span path);
/* Returns true if the path is the directory, or below it.  Compares texts only. */
bool names_path_within(struct span path, struct span dir);

/*
 * Kubernetes rewrites the value of an environment variable: `$$` becomes `$`, and `$(NAME)` the
 * value of NAME.  To keep the original text, a run of n dollars becomes 2n if n > 1 or `(` follows.
 */
/* The escaped text for an env value; the same span if nothing changes. */
struct span kubernetes_escape(struct arena *a, struct span t);
/* Its length. */
size_t kubernetes_escaped_size(struct span t);

/* Returns true if the list, which ends with NULL, has the name. */
bool names_listed(const char *const *list, struct span name);

/* quote() into the arena: text of a job for a message. */
const char *arena_quoted(struct arena *a, struct span text);

/* User names: [A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])? */
bool user_name_ok(struct span name);
