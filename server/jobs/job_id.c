#include "server/jobs/job_id.h"

#include "base/enc.h"
#include "k8s/transport/paths.h"
#include "translate/translate.h"

/* OpenPAI's own rule for names of Frameworks that it has not made. */
static const char *alias_of(struct span id, struct arena *a)
{
	static const char PREFIX[] = "unknown";
	size_t skip = span_starts(id, PREFIX) ? sizeof(PREFIX) - 1 : 0;
	id = (struct span){ id.p + skip, id.n - skip };
	char *out = arena_alloc(a, id.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < id.n; i++) {
		char c = id.p[i];
		c = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
			out[n++] = c;
	}
	out[n] = '\0';
	return segment_ok(out) ? out : NULL;
}

bool job_id_pair(struct span user, struct span job, struct arena *a, struct job_id *out)
{
	if (!user_name_ok(user) || job.n == 0 || user.n + job.n > JOB_ID_MAX)
		return false;
	char *name = arena_alloc(a, 33);
	md5_hex(name,
	        span_of(arena_printf(a, "%.*s~%.*s", (int)user.n, user.p, (int)job.n, job.p)));
	*out = (struct job_id){ user, job, name, alias_of(job, a) };
	return true;
}

bool job_id_read(struct span id, struct arena *a, struct job_id *out)
{
	if (id.n == 0 || id.n > JOB_ID_MAX)
		return false;
	const char *tilde = memchr(id.p, '~', id.n);
	if (tilde) {
		size_t n = (size_t)(tilde - id.p);
		bool ok = job_id_pair((struct span){ id.p, n },
		                      (struct span){ tilde + 1, id.n - n - 1 }, a, out);
		if (ok)
			out->alias = NULL;
		return ok;
	}
	const char *name = arena_dup(a, id);
	*out = (struct job_id){ .name = segment_ok(name) ? name : NULL, .alias = alias_of(id, a) };
	if (out->name && out->alias && strcmp(out->name, out->alias) == 0)
		out->alias = NULL;
	return out->name || out->alias;
}

bool job_id_fits(const struct job_id *id, const struct cached *found)
{
	if (!id->user.p)
		return found->legacy;
	return span_is(id->user, found->user) && span_is(id->job, found->job);
}

bool job_id_fits_alias(const struct job_id *id, const struct cached *found)
{
	if (!found->legacy)
		return false;
	return !id->user.p || span_is(id->user, cached_shown_user(found));
}
