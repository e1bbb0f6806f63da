#include "jobs/gc/gc_internal.h"

#include <stdlib.h>

enum { SUBMISSION = 32 }; /* hex digits of submission ids */

static bool orphan_is_ours(const struct marks *m, const struct home *home)
{
	return span_is(m->instance, home->instance) && is_hex(m->submission, SUBMISSION) &&
	       !m->deleted.p;
}

bool orphan_is_listed(const struct marks *m, const struct home *home)
{
	return is_hex(m->name, HASH) && orphan_is_ours(m, home) && m->creating.p;
}

/* Classes have no label rest-lit/creating: their names tell them. */
bool orphan_is_class(const struct marks *m, const struct home *home)
{
	return m->name.n > HASH && span_is(span_from(m->name, HASH), "-priority") &&
	       is_hex(span_to(m->name, HASH), HASH) && orphan_is_ours(m, home) &&
	       span_is(m->namespace_name, home->namespace_name);
}

struct orphan *orphan_find(const struct orphans *s, struct span name, struct span uid)
{
	for (size_t i = 0; i < s->n; i++) {
		if (span_is(uid, s->v[i].uid) && span_is(name, s->v[i].name))
			return &s->v[i];
	}
	return NULL;
}

struct orphan *orphan_note(struct orphans *s, struct span name, struct span uid, int64_t now_ms)
{
	struct orphan *one = orphan_find(s, name, uid);
	if (one != NULL || s->n == ORPHANS_MAX || name.n == 0 || name.n >= ORPHAN_NAME ||
	    uid.n == 0 || uid.n >= ORPHAN_WORD)
		return one;
	if (s->v == NULL)
		s->v = xcalloc(ORPHANS_MAX, sizeof(*s->v));
	one = &s->v[s->n++];
	*one = (struct orphan){ .since_ms = now_ms };
	bytes_copy(one->name, name.p, name.n);
	bytes_copy(one->uid, uid.p, uid.n);
	return one;
}

void orphan_forget(struct orphans *s, struct orphan *one)
{
	size_t i = (size_t)(one - s->v);
	memmove(one, one + 1, (--s->n - i) * sizeof(*one));
}

void orphans_done(struct orphans *s)
{
	free(s->v);
	*s = (struct orphans){ 0 };
}
