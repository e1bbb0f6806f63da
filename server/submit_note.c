/*
 * The API server answers with metadata alone, and of these only what it has added is wanted; so the
 * object is what was sent, with that put in, and started.  Its document is not kept: compressing it
 * takes longer than all else here, and the watch brings it.
 */
#include "server/submit_note.h"

#include "base/scan.h"
#include "k8s/cache.h"

enum { ADDED_MAX = 256 };

static void put_added(struct str *out, const struct submission_made *made)
{
	str_puts(out, "{\"uid\":");
	str_json(out, span_of(made->uid));
	str_puts(out, ",\"resourceVersion\":");
	str_json(out, span_of(made->version));
	str_puts(out, ",\"creationTimestamp\":");
	str_json(out, span_of(made->created));
	str_char(out, ',');
}

static void put_piece(struct str *out, const char *from, const char *to)
{
	str_put(out, from, (size_t)(to - from));
}

void submit_note(const struct server *s, const struct object *framework,
                 const struct submission_made *made)
{
	enum { METADATA, SPEC, N };
	static const char *const KEYS[N] = { "metadata", "spec" };
	struct span body = framework->body;
	struct span v[N];
	scan_members(body, KEYS, v, N);
	struct span metadata = v[METADATA];
	struct span execution = scan_get(v[SPEC], "executionType");
	/* A directory has told of it already.  Templates may stand in another order: then the watch
	 * will tell. */
	if (s->local || !made->uid[0] || metadata.n <= 2 || execution.p < metadata.p)
		return;
	STR_AUTO text = STR_INIT(body.n + ADDED_MAX);
	put_piece(&text, body.p, metadata.p);
	put_added(&text, made);
	put_piece(&text, metadata.p + 1, execution.p);
	str_puts(&text, "\"Start\"");
	put_piece(&text, execution.p + execution.n, body.p + body.n);
	struct cached *c = text.full ? NULL : cached_new_bare(str_view(&text));
	if (c)
		cache_note(s->cache, c);
}
