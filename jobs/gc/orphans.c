#include "jobs/gc/gc_internal.h"

enum { SUBMISSION = 32 /* hex digits of submission ids */, ORPHAN_WORD = 64 };

static bool orphan_is_ours(const struct marks *m, const struct janitor_options *o)
{
	return span_is(m->instance, o->instance) && is_hex(m->submission, SUBMISSION) &&
	       !m->deleted.p && m->uid.n > 0 && m->uid.n < ORPHAN_WORD && m->version.n > 0 &&
	       m->version.n < ORPHAN_WORD;
}

bool orphan_is_listed(const struct marks *m, const struct janitor_options *o)
{
	return is_hex(m->name, HASH) && orphan_is_ours(m, o) && m->creating.p;
}

/* Classes have no label rest-lit/creating: their names tell them. */
bool orphan_is_class(const struct marks *m, const struct janitor_options *o)
{
	return m->name.n > HASH && span_is(span_from(m->name, HASH), "-priority") &&
	       is_hex(span_to(m->name, HASH), HASH) && orphan_is_ours(m, o) &&
	       span_is(m->namespace_name, o->namespace_name);
}
