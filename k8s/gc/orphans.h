#pragma once
/*
 * What the janitor may remove: the rules, and nothing else.  Objects are read back from a place
 * where others write, too; whatever is not exactly as we make it is not ours to remove.  Pure;
 * private to k8s/.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "k8s/transport/reply.h"

/* Whose things: of this installation, for jobs of this namespace. */
struct home {
	const char *instance, *namespace_name;
};

/* By its metadata alone: a Framework of this installation that is being made, or never was. */
bool orphan_is_listed(const json_t *object, const struct home *home);

/*
 * The whole Framework: it is so indeed.  It carries our marks, is still in Create, its status
 * says no more than AttemptCreationPending, nobody deletes it already, and by the API
 * server's clock (now_s, 0 if that is not known) it is at least as old as age_s.
 */
bool orphan_is_framework(const json_t *object, const struct home *home, int64_t now_s,
                         int64_t age_s);

/* By its metadata alone: a PriorityClass of a job of this installation.  Left over it is if there
 * is no Framework of its name's first 32 digits. */
bool orphan_is_class(const json_t *object, const struct home *home);

/*
 * What the janitor has its eye on: objects that look left over, and since when they do.  As many as
 * there is room for; what finds none is met again in a later round.  Private to k8s/.
 */
enum { ORPHANS_MAX = 1024, ORPHAN_NAME = 64, ORPHAN_WORD = 64 };

struct orphan {
	char name[ORPHAN_NAME], uid[ORPHAN_WORD], version[ORPHAN_WORD];
	int64_t since_ms;
	bool listed; /* it was met in the list that is being read */
	bool old;    /* it need not be watched for longer: the API server's clock says enough */
};

struct orphans {
	struct orphan *v; /* ORPHANS_MAX of them, made at first use */
	size_t n;
};

/* The one of this name and uid, NULL if there is none.  Borrowed until one is forgotten. */
struct orphan *orphan_find(const struct orphans *s, const char *name, const char *uid);
/* The same, added if it was not there.  NULL if there is no room, or if it cannot be kept: a name
 * or uid that is empty or too long. */
struct orphan *orphan_note(struct orphans *s, const char *name, const char *uid, int64_t now_ms);
void orphan_forget(struct orphans *s, struct orphan *one);
/* Forget all that are not `listed`, and take that mark from the others. */
void orphans_keep_listed(struct orphans *s);
void orphans_done(struct orphans *s);
