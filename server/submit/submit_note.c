#include "server/submit/submit_note.h"

#include "k8s/cache/cache.h"

void submit_note(const struct server *s, const struct object *framework,
                 const struct submission_made *made)
{
	const struct cached_made added = { made->uid, made->version, made->created };
	/* A directory has told of it already; and what nobody has named, the watch will tell of. */
	if (s->local || !made->uid[0])
		return;
	struct cached *c = cached_new_made(framework->body, &added);
	if (c)
		cache_note(s->cache, c);
}
