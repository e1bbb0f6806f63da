/* Virtual clusters, their resources, and the SKU types of HiveD. */
#include "base/json/put.h"
#include "jobs/cache/cache.h"
#include "server/accounts/account.h"
#include "server/cluster/nodes.h"
#include "server/cluster/scheduler.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/state/server.h"
#include "server/users/users.h"
#include "server/users/users_internal.h"

/* All are those of HiveD, unless the file of --facts lists them. */
struct name_set clusters_of(struct request *r, const struct account *a)
{
	bool listed;
	VIEW_AUTO view = scheduler_hold(r->loop->server->scheduler);
	struct name_set set =
	    account_virtual_clusters(r->loop->has->accounts, a, &r->arena, &listed);
	if (!view.hived || listed)
		return set;
	set.n = hived_virtual_clusters(view.hived, view.status, &r->arena, &set.v);
	for (size_t i = 0; i < set.n; i++)
		set.v[i] = arena_span(&r->arena, set.v[i]);
	return set;
}

/* false: the request has been answered 404. */
static bool clusters_have(struct request *r, struct span name)
{
	struct name_set all = clusters_of(r, NULL);
	if (name_set_has(&all, name))
		return true;
	answer_refuse(r, 404, "NoVirtualClusterError", "there is no such virtual cluster");
	return false;
}

struct resources {
	int64_t milli_cpus, memory_mb, gpus;
};

/* Sums the limits of the running and stopping jobs of each virtual cluster. */
static void count_used(struct request *r, const struct span *names, size_t n,
                       struct resources *used)
{
	CACHE_VIEW_AUTO *view = cache_view(r->loop->server->cache);
	struct view_walk walk = { .view = view };
	for (const struct job_entry *job; (job = view_next(&walk)) != NULL;) {
		size_t i = 0;
		if (job->state != JOB_RUNNING && job->state != JOB_STOPPING)
			continue;
		while (i < n && !span_is(names[i], job->cluster))
			i++;
		if (i == n)
			continue;
		used[i].milli_cpus += job->milli_cpus;
		used[i].memory_mb += job->memory_mb;
		used[i].gpus += job->gpus;
	}
}

/* HiveD's leaf cells times the first SKU's size; else the capacity in the file.  The result is at
 * least `used`, because clients divide by the total and subtract from it. */
static struct resources clusters_total_of(struct request *r, struct span name,
                                          const struct resources *used)
{
	VIEW_AUTO view = scheduler_hold(r->loop->server->scheduler);
	struct facts_capacity c = facts_file_capacity(account_file(r->loop->has->accounts), name);
	struct resources t = { c.cpu * 1000, c.memory_mb, c.gpu };
	struct sku *skus = NULL;
	int64_t cells = view.hived ? hived_cells(view.hived, view.status, name) : 0;
	if (cells > 0 && hived_skus(view.hived, view.status, name, &r->arena, &skus) > 0)
		t = (struct resources){ cells * skus[0].cpu * 1000, cells * skus[0].memory_mb,
			                cells * skus[0].gpu };
	t.milli_cpus = t.milli_cpus < used->milli_cpus ? used->milli_cpus : t.milli_cpus;
	t.memory_mb = t.memory_mb < used->memory_mb ? used->memory_mb : t.memory_mb;
	t.gpus = t.gpus < used->gpus ? used->gpus : t.gpus;
	return t;
}

/* Clients use either cpu and gpu, or vCores and GPUs. */
static void put_resources(struct str *out, const char *key, const struct resources *r)
{
	int64_t cpus = (r->milli_cpus + 999) / 1000;
	json_put_open(out, key, '{');
	json_put_int(out, "cpu", cpus);
	json_put_int(out, "memory", r->memory_mb);
	json_put_int(out, "gpu", r->gpus);
	json_put_int(out, "vCores", cpus);
	json_put_int(out, "GPUs", r->gpus);
	str_char(out, '}');
}

static void put_cluster(struct request *r, struct span name, const struct resources *used)
{
	struct str *out = &r->reply.body;
	struct resources total = clusters_total_of(r, name, used);
	int64_t percent = total.gpus         ? 100 * used->gpus / total.gpus
	                  : total.milli_cpus ? 100 * used->milli_cpus / total.milli_cpus
	                                     : 0;
	str_puts(out, "{\"capacity\":0");
	json_put_int(out, "usedCapacity", percent);
	json_put_bool(out, "dedicated", false);
	put_resources(out, "resourcesUsed", used);
	put_resources(out, "resourcesGuaranteed", &total);
	put_resources(out, "resourcesTotal", &total);
	str_char(out, '}');
}

/* Clients without an account see no names of nodes. */
static void clusters_put_nodes(struct request *r)
{
	struct str *out = &r->reply.body;
	struct node_gpus *nodes = NULL;
	size_t n = r->user ? nodes_copy(r->loop->server->nodes, &r->arena, &nodes) : 0;
	str_char(out, '{');
	for (size_t i = 0; i < n; i++) {
		json_put_word(out, NULL, nodes[i].name);
		str_puts(out, ":{");
		json_put_int(out, "gpuUsed", nodes[i].used);
		json_put_int(out, "gpuAvailable", nodes[i].available);
		json_put_int(out, "gpuTotal", nodes[i].total);
		str_char(out, '}');
	}
	str_char(out, '}');
	users_send(r);
}

const struct parameter CLUSTERS[] = {
	{ .name = "nodes",
	  .doc = "With any value, also an empty one: GPUs by node instead; `{}` where the server "
	         "may not list nodes." },
	{ .name = NULL },
};

void clusters_get(struct request *r)
{
	struct str *out = &r->reply.body;
	struct span value;
	if (parameter_find(r, CLUSTERS, &value)) {
		clusters_put_nodes(r);
		return;
	}
	struct name_set all = clusters_of(r, NULL);
	struct resources *used = ARENA_NEW(&r->arena, struct resources, all.n + 1);
	count_used(r, all.v, all.n, used);
	str_char(out, '{');
	for (size_t i = 0; i < all.n; i++) {
		json_put_text(out, NULL, all.v[i]);
		str_char(out, ':');
		put_cluster(r, all.v[i], &used[i]);
	}
	str_char(out, '}');
	users_send(r);
}

void cluster_get(struct request *r)
{
	struct resources used = { 0 };
	if (!clusters_have(r, r->args[0]))
		return;
	count_used(r, &r->args[0], 1, &used);
	put_cluster(r, r->args[0], &used);
	users_send(r);
}

/* ---- SKU types ---- */

const struct parameter SKUS[] = {
	{ .name = "vc",
	  .doc = "Those of this virtual cluster; 404 `NoVirtualClusterError` if there is none." },
	{ .name = NULL },
};

void skus_get(struct request *r)
{
	struct str *out = &r->reply.body;
	struct sku *skus = NULL;
	struct span vc;
	size_t n = 0;
	VIEW_AUTO view = scheduler_hold(r->loop->server->scheduler);
	if (!parameter_find(r, SKUS, &vc) || !vc.p)
		vc = SPAN(""); /* all */
	if (view.hived && vc.n && !clusters_have(r, vc))
		return;
	if (view.hived)
		n = hived_skus(view.hived, view.status, vc, &r->arena, &skus);
	str_char(out, '{');
	for (size_t i = 0; i < n; i++) {
		json_put_text(out, NULL, skus[i].name);
		str_puts(out, ":{");
		json_put_int(out, "cpu", skus[i].cpu);
		json_put_int(out, "gpu", skus[i].gpu);
		json_put_int(out, "memory", skus[i].memory_mb);
		str_char(out, '}');
	}
	str_char(out, '}');
	users_send(r);
}
