/* LIST of a shelf; see shelf_work.h. */
#include "k8s/dirstore/shelf_work.h"

#include <stdio.h>

#include "k8s/transport/paths.h"

enum { LIST_MAX = 64 << 20 };

struct listing {
	struct work *w;
	json_t *items;
	struct span namespace_name; /* as in a key */
	int bad;
};

static void list_one(void *arg, const char *key)
{
	struct listing *l = arg;
	const struct work *w = l->w;
	JSON_OWN *object = NULL;
	if (l->bad || !span_eq(key_namespace(key), l->namespace_name))
		return;
	l->bad = shelf_load(w->shelf, w->r->kind, key, &object);
	if (l->bad == 0)
		(void)json_array_append_new(l->items, w->r->whole ? json_incref(object)
		                                                  : metadata_of(object));
}

/* "frameworkcontroller.microsoft.com/v1", "v1". */
static const char *api_version(const struct resource *r)
{
	return r->api + (r->group[0] ? strlen("/apis/") : strlen("/api/"));
}

static enum fault answer_list(struct work *w, json_t *items)
{
	const struct resource *res = resource_of(w->r->kind);
	struct answer *out = w->out;
	(void)snprintf(out->resource_version, sizeof(out->resource_version), "%lld",
	               (long long)w->shelf->resource_version);
	JSON_OWN *list = json_pack(
	    "{s:s+, s:s, s:{s:s}, s:O}", "kind", w->r->whole ? res->kind : "PartialObjectMetadata",
	    "List", "apiVersion", w->r->whole ? api_version(res) : "meta.k8s.io/v1", "metadata",
	    "resourceVersion", out->resource_version, "items", items);
	out->body.max = LIST_MAX;
	put_json(&out->body, list, JSON_COMPACT);
	if (out->body.full)
		return refuse(w, OVERSIZE, "the list is larger than 64 MiB");
	out->status = 200;
	out->outcome = STORE_OK;
	return FINE;
}

enum fault shelf_list(struct work *w)
{
	struct selector wanted;
	JSON_OWN *items = json_array();
	struct listing l = { w, items, key_namespace(w->key), 0 };
	if (selector_read(&wanted, w->r->query) != 0)
		return refuse(w, BAD_REQUEST, "a directory does not know this query");
	if (w->r->kind < KIND_MADE)
		index_each(w->shelf->index, w->r->kind, &wanted, list_one, &l);
	if (l.bad)
		return refuse_errno(w, l.bad);
	return answer_list(w, items);
}
