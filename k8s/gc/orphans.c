#include "k8s/gc/gc_internal.h"

#include <stdlib.h>

#include "k8s/submit/ownership.h"

enum { SUBMISSION = 32 }; /* hex digits of submission ids */

static const char *orphans_name_of(const json_t *object)
{
	return reply_text(json_object_get(object, "metadata"), "name");
}

static bool is_ours(const json_t *object, const struct home *home)
{
	return strcmp(ownership_label(object, "rest-lit/instance"), home->instance) == 0 &&
	       is_hex(ownership_annotation(object, "rest-lit/submission"), SUBMISSION) &&
	       !ownership_is_deleting(object);
}

bool orphan_is_listed(const json_t *object, const struct home *home)
{
	return is_hex(orphans_name_of(object), HASH) && is_ours(object, home) &&
	       ownership_is_creating(object);
}

bool orphan_is_framework(const json_t *object, const struct home *home, int64_t now_s,
                         int64_t age_s)
{
	int64_t made_s = ownership_created_s(object);
	return orphan_is_listed(object, home) && ownership_is_untouched(object) && made_s > 0 &&
	       now_s - made_s >= age_s; /* false if now_s is 0 */
}

bool orphan_is_class(const json_t *object, const struct home *home)
{
	const char *name = orphans_name_of(object);
	char hash[HASH + 1] = "";
	if (strlen(name) != HASH + strlen("-priority") || strcmp(name + HASH, "-priority") != 0)
		return false;
	bytes_copy(hash, name, HASH);
	return is_hex(hash, HASH) && is_ours(object, home) &&
	       strcmp(ownership_label(object, "rest-lit/namespace"), home->namespace_name) == 0;
}

struct orphan *orphan_find(const struct orphans *s, const char *name, const char *uid)
{
	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->v[i].uid, uid) == 0 && strcmp(s->v[i].name, name) == 0)
			return &s->v[i];
	}
	return NULL;
}

static bool orphans_fits(const char *text, size_t room)
{
	size_t n = strnlen(text, room);
	return n > 0 && n < room;
}

struct orphan *orphan_note(struct orphans *s, const char *name, const char *uid, int64_t now_ms)
{
	struct orphan *one = orphan_find(s, name, uid);
	if (one != NULL || s->n == ORPHANS_MAX || !orphans_fits(name, ORPHAN_NAME) ||
	    !orphans_fits(uid, ORPHAN_WORD))
		return one;
	if (s->v == NULL)
		s->v = xcalloc(ORPHANS_MAX, sizeof(*s->v));
	one = &s->v[s->n++];
	*one = (struct orphan){ .since_ms = now_ms };
	bytes_copy(one->name, name, strlen(name));
	bytes_copy(one->uid, uid, strlen(uid));
	return one;
}

void orphan_forget(struct orphans *s, struct orphan *one)
{
	size_t i = (size_t)(one - s->v);
	memmove(one, one + 1, (--s->n - i) * sizeof(*one));
}

void orphans_keep_listed(struct orphans *s)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->n; i++) {
		if (!s->v[i].listed)
			continue;
		s->v[kept] = s->v[i];
		s->v[kept++].listed = false;
	}
	s->n = kept;
}

void orphans_done(struct orphans *s)
{
	free(s->v);
	*s = (struct orphans){ 0 };
}
