#pragma once
/*
 * What the janitor may remove: the rules, and nothing else.  Objects are read back from a place
 * where others write, too; whatever is not exactly as we make it is not ours to remove.  Pure;
 * private to k8s/.
 */
#include "k8s/transport/reply.h"

/* Whose things: of this installation, for jobs of this namespace. */
struct home {
	const char *instance, *namespace_name;
};

/* By its metadata alone: a Framework of this installation that is being made, or never was. */
bool leftover_listed(const json_t *object, const struct home *home);

/*
 * The whole Framework: it is so indeed.  It carries our marks, is still in Create, its status
 * says no more than AttemptCreationPending, nobody deletes it already, and by the API
 * server's clock (now_s, 0 if that is not known) it is at least as old as age_s.
 */
bool leftover_framework(const json_t *object, const struct home *home, int64_t now_s,
                        int64_t age_s);

/* By its metadata alone: a PriorityClass of a job of this installation.  Left over it is if there
 * is no Framework of its name's first 32 digits. */
bool leftover_class(const json_t *object, const struct home *home);
