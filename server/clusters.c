/* Virtual clusters, and what HiveD has in them: what clients ask before they submit. */
#include <inttypes.h>

#include "server/account.h"
#include "server/answer.h"
#include "server/handlers.h"
#include "server/loop.h"
#include "server/people.h"
#include "server/query.h"
#include "server/scheduler.h"

/* ---- virtual clusters ---- */

/* Of them HiveD knows, unless the file of --facts says which there are. */
static size_t all_clusters(struct request *r, struct span **out)
{
	struct accounts *all = r->loop->accounts;
	VIEW_AUTO view = scheduler_hold(r->loop->server->scheduler);
	if (!view.hived || account_clusters_listed(all))
		return account_virtual_clusters(all, NULL, &r->arena, out);
	size_t n = hived_virtual_clusters(view.hived, view.status, &r->arena, out);
	for (size_t i = 0; i < n; i++)
		(*out)[i] = arena_span(&r->arena, (*out)[i]);
	return n;
}

size_t clusters_of(struct request *r, const struct account *a, struct span **out)
{
	if (!a || a->facts.any_virtual_cluster)
		return all_clusters(r, out);
	return account_virtual_clusters(r->loop->accounts, a, &r->arena, out);
}

/* Whether it is there; else that is the answer. */
static bool is_cluster(struct request *r, struct span name)
{
	struct span *names;
	size_t n = all_clusters(r, &names);
	for (size_t i = 0; i < n; i++)
		if (span_eq(names[i], name))
			return true;
	answer_refuse(r, 404, "NoVirtualClusterError", "there is no such virtual cluster");
	return false;
}

/* The first parameter of this name in the query; *value is empty if it has none. */
static bool query_get(struct request *r, const char *key, struct span *value)
{
	struct span rest = span_of(r->query);
	struct span name;
	while (query_next(&rest, &r->arena, &name, value))
		if (span_is(name, key))
			return true;
	*value = SPAN("");
	return false;
}

/* Clients divide and add up; of none is it known what it has. */
#define RESOURCES "{\"cpu\":0,\"memory\":0,\"gpu\":0,\"vCores\":0,\"GPUs\":0}"
static const char CLUSTER[] =
    "{\"capacity\":0,\"usedCapacity\":0,\"dedicated\":false,\"resourcesUsed\":" RESOURCES
    ",\"resourcesGuaranteed\":" RESOURCES ",\"resourcesTotal\":" RESOURCES "}";

void clusters_get(struct request *r)
{
	struct str *out = &r->reply.body;
	struct span *names;
	struct span value;
	if (!people_ready(r))
		return;
	size_t n = all_clusters(r, &names);
	if (query_get(r, "nodes", &value))
		n = 0; /* by nodes, of which nothing is known */
	str_char(out, '{');
	for (size_t i = 0; i < n; i++) {
		str_puts(out, i ? "," : "");
		str_json(out, names[i]);
		str_char(out, ':');
		str_puts(out, CLUSTER);
	}
	str_char(out, '}');
	people_send(r);
}

void cluster_get(struct request *r)
{
	if (!people_ready(r) || !is_cluster(r, r->args[0]))
		return;
	str_puts(&r->reply.body, CLUSTER);
	people_send(r);
}

/* ---- SKU types ---- */

static void put_sku(struct str *out, const struct sku *s)
{
	str_json(out, s->name);
	str_printf(out, ":{\"cpu\":%" PRId64 ",\"gpu\":%" PRId64 ",\"memory\":%" PRId64 "}", s->cpu,
	           s->gpu, s->memory_mb);
}

void skus_get(struct request *r)
{
	struct sku *skus = NULL;
	struct span vc;
	size_t n = 0;
	VIEW_AUTO view = scheduler_hold(r->loop->server->scheduler);
	(void)query_get(r, "vc", &vc); /* none: of all */
	if (!people_ready(r) || (view.hived && vc.n && !is_cluster(r, vc)))
		return;
	if (view.hived)
		n = hived_skus(view.hived, view.status, vc, &r->arena, &skus);
	str_char(&r->reply.body, '{');
	for (size_t i = 0; i < n; i++) {
		str_puts(&r->reply.body, i ? "," : "");
		put_sku(&r->reply.body, &skus[i]);
	}
	str_char(&r->reply.body, '}');
	people_send(r);
}
