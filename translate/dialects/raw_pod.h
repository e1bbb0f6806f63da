#pragma once
/*
 * The pod template of a role that is a Kubernetes PodTemplateSpec, copied by an allow-list: a
 * member is kept if a table names it, dropped with a warning at its key if not, and refused if it
 * is known to be harmful or cannot mean the same here.  Values may have any type, because a dialect
 * also runs on documents that the schema has refused.  Pure.
 *
 * Thread: any
 */
#include "translate/reader/parse_context.h"

struct raw_source {
	struct field template; /* the PodTemplateSpec; absent: reported by the schema */
	struct span main;      /* name of the container; n == 0: any */
};

/* Data of the pod that the dialect needs besides the copy. */
struct raw_found {
	const struct field *main;   /* the main container, in the arena; NULL: there is none */
	const struct node *command; /* a list of text that is not empty; NULL: absent or refused */
	const struct node *args;    /* a list of text; NULL: absent */
	const struct node *env;     /* of the container, as kept: a list, or NULL */
	struct span restart_policy; /* Always, OnFailure, Never; n == 0: absent */
	bool host_network;          /* true in the pod.  Not kept; the dialect warns. */
};

/*
 * Fills of `role`: image, cpu and memory_mb (of the limits, else the requests; rounded up; 0 if
 * absent), gpu (likewise of settings.device, or of alpha.kubernetes.io/nvidia-gpu), and role->pod.
 */
void raw_pod_copy(struct parse_context *r, const struct raw_source *source, struct role *role,
                  struct raw_found *out);

/* RAW_PRIVATE: the storage has a directory per user, to which the pod of a user cannot be kept. */
enum raw_grant { RAW_NOT_GRANTED, RAW_PRIVATE, RAW_READ_ONLY, RAW_GRANTED };

/* Returns the grant of the user for the volume: a claim by its name, a directory if it or one above
 * it is granted. */
enum raw_grant raw_volume_grant(const struct raw_volume *v, const struct facts *f);

/* Returns true if pods may have a label or annotation of this name. */
bool raw_key_allowed(struct span name, const struct facts *f);
/* Warns of labels and annotations that job_build will leave out. */
void raw_keys_warn(const struct job *job, const struct facts *f, struct notes *warnings);

/* ---- raw_role.c ---- */

/*
 * A role whose container, command and resources come from a pod template: raw_pod_copy, ports, and
 * the command, which is `before`, then `exec` with command and args of the container.  The shell
 * replaces $(NAME), which Kubernetes would replace in the pod.  role->env is set before, and wins
 * over the variables of the pod, with a warning.
 */
void raw_role_read(struct parse_context *r, const struct raw_source *source, struct span before,
                   struct role *role, struct raw_found *found);

/* `metadata` of a job that is an object of Kubernetes: namespace, labels, annotations. */
void raw_metadata_read(struct parse_context *r);

/* Warns of members that are present and have no meaning here; `names` ends with NULL. */
void raw_unused_warn(struct parse_context *r, const struct field *map, const char *const *names);
