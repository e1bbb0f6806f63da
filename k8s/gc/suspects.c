#include "k8s/gc/suspects.h"

#include <stdlib.h>

struct suspect *suspect_find(const struct suspects *s, const char *name, const char *uid)
{
	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->v[i].uid, uid) == 0 && strcmp(s->v[i].name, name) == 0)
			return &s->v[i];
	}
	return NULL;
}

static bool fits(const char *text, size_t room)
{
	size_t n = strnlen(text, room);
	return n > 0 && n < room;
}

struct suspect *suspect_note(struct suspects *s, const char *name, const char *uid, int64_t now_ms)
{
	struct suspect *one = suspect_find(s, name, uid);
	if (one != NULL || s->n == SUSPECTS_MAX || !fits(name, SUSPECT_NAME) ||
	    !fits(uid, SUSPECT_WORD))
		return one;
	if (s->v == NULL)
		s->v = xcalloc(SUSPECTS_MAX, sizeof(*s->v));
	one = &s->v[s->n++];
	*one = (struct suspect){ .since_ms = now_ms };
	bytes_copy(one->name, name, strlen(name));
	bytes_copy(one->uid, uid, strlen(uid));
	return one;
}

void suspect_forget(struct suspects *s, struct suspect *one)
{
	size_t i = (size_t)(one - s->v);
	memmove(one, one + 1, (--s->n - i) * sizeof(*one));
}

void suspects_keep_listed(struct suspects *s)
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

void suspects_done(struct suspects *s)
{
	free(s->v);
	*s = (struct suspects){ 0 };
}
