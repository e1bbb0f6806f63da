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

/*
 * What the janitor has its eye on: objects that look left over, and since when they do.  As many as
 * there is room for; what finds none is met again in a later round.  Private to k8s/.
 */
enum { SUSPECTS_MAX = 1024, SUSPECT_NAME = 64, SUSPECT_WORD = 64 };

struct suspect {
	char name[SUSPECT_NAME], uid[SUSPECT_WORD], version[SUSPECT_WORD];
	int64_t since_ms;
	bool listed; /* it was met in the list that is being read */
	bool old;    /* it need not be watched for longer: the API server's clock says enough */
};

struct suspects {
	struct suspect *v; /* SUSPECTS_MAX of them, made at first use */
	size_t n;
};

/* The one of this name and uid, NULL if there is none.  Borrowed until one is forgotten. */
struct suspect *suspect_find(const struct suspects *s, const char *name, const char *uid);
/* The same, added if it was not there.  NULL if there is no room, or if it cannot be kept: a name
 * or uid that is empty or too long. */
struct suspect *suspect_note(struct suspects *s, const char *name, const char *uid, int64_t now_ms);
void suspect_forget(struct suspects *s, struct suspect *one);
/* Forget all that are not `listed`, and take that mark from the others. */
void suspects_keep_listed(struct suspects *s);
void suspects_done(struct suspects *s);
