/* Removal of archives that no job names. */
#include "jobs/code/keep_internal.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "jobs/store/reply.h"

enum { REMOVALS = 100 }; /* per round; the next one finds the others */

struct code_old {
	int64_t before_ms; /* last use */
	struct arena arena;
	size_t n;
	struct code_archive v[REMOVALS]; /* name, uid and version */
};

static void code_note(void *arg, const struct code_archive *one)
{
	struct code_old *old = arg;
	if (one->used_ms >= old->before_ms || old->n == REMOVALS)
		return;
	struct code_archive *copy = &old->v[old->n++];
	copy->name = arena_dup(&old->arena, span_of(one->name));
	copy->uid = arena_dup(&old->arena, span_of(one->uid));
	copy->version = arena_dup(&old->arena, span_of(one->version));
}

/* 1: a Framework names it; 0: none; -1 and *e.  The API server's cache, which may be old, is not
 * asked. */
static int code_is_named(struct code_store *s, const char *name, struct err *e)
{
	ARENA_AUTO a = { 0 };
	STR_AUTO more = STR_INIT(CONTINUE_MAX);
	struct store_reply reply;
	if (s->named)
		return s->named(s->arg, name);
	struct store_request r = {
		.verb = STORE_LIST,
		.kind = KIND_FRAMEWORK,
		.query = arena_printf(&a, "labelSelector=rest-lit%%2Fcode%%3D%s&limit=1",
		                      name + strlen("code-")),
		.deadline_ms = s->deadline_ms,
	};
	enum store_outcome outcome = store_call(s->caller, &r, &a, &reply);
	struct span items =
	    outcome == STORE_OK ? reply_items(reply.body, &more) : (struct span){ 0 };
	return items.p ? scan_count(items) > 0 || more.n : code_fail(r, &reply, e);
}

/* Removes one, and its file, which goes first, under a name that each start removes: so a killed
 * server leaves no file without a ConfigMap.  1, 0: it is used, -1 and *e. */
static int code_remove(struct code_store *s, const struct code_archive *one, struct err *e)
{
	ARENA_AUTO a = { 0 };
	const char *file = arena_printf(&a, "%s/%s", s->directory ?: "", one->name);
	const char *old = arena_printf(&a, "%s/" CODE_UPLOAD "%s", s->directory ?: "", one->name);
	LOCK_AUTO(&CODE_FILES);
	int named = code_is_named(s, one->name, e);
	if (named)
		return named < 0 ? -1 : 0;
	bool moved = s->directory && rename(file, old) == 0;
	int gone = code_delete(s, one->name, one->uid, one->version, e);
	if (moved && gone <= 0)
		(void)rename(old, file); /* else it counts as not uploaded */
	else if (moved)
		(void)tree_remove(AT_FDCWD, old, SIZE_MAX); /* else the next start does */
	return gone;
}

/* One machine: directories of archives that have no ConfigMap, and that no Framework names. */
static int code_find_orphans(struct code_store *s, struct err *e)
{
	DIR_AUTO *all = dir_list(AT_FDCWD, s->directory);
	for (const char *name; (name = dir_next(all)) != NULL;) {
		ARENA_AUTO a = { 0 };
		struct code_archive there;
		LOCK_AUTO(&CODE_FILES);
		int known = strlen(name) == CODE_OBJECT ? code_look(s, name, &a, &there, e) : 1;
		if (known < 0)
			return -1;
		if (known == 0 && !s->named(s->arg, name))
			s->orphan(s->arg, name);
	}
	return 0;
}

int64_t code_round(struct code_store *s, struct err *e)
{
	struct code_old old = { .before_ms = clock_wall_ms() - s->age_ms };
	int64_t removed = code_list(s, code_note, &old, e);
	int gone = 0;
	for (size_t i = 0; removed >= 0 && gone >= 0 && i < old.n; i++) {
		gone = code_remove(s, &old.v[i], e);
		removed += gone;
	}
	arena_done(&old.arena);
	if (removed < 0 || gone < 0 || (s->directory && code_find_orphans(s, e) < 0))
		return -1;
	return removed;
}
