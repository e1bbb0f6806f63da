/* MxJobs of the operators for MXNet: a scheduler, servers and workers that find each other by the
 * variables DMLC_*.  docs/DIALECTS.md says what is kept. */
#include <inttypes.h>

#include "translate/dialects/dialects.h"
#include "translate/dialects/raw_pod.h"
#include "translate/job/names.h"

enum replica_type { MX_SCHEDULER, MX_SERVER, MX_WORKER, MX_TYPES };

static const struct {
	const char *type, *role;
} TYPES[MX_TYPES] = {
	[MX_SCHEDULER] = { "SCHEDULER", "scheduler" },
	[MX_SERVER] = { "SERVER", "server" },
	[MX_WORKER] = { "WORKER", "worker" },
};

enum {
	MX_ENV = 5,
	MX_ROOT_PORT = 9091,
	MX_RETRIES = 6 /* the back-off limit of the batch Jobs that the operator made */
};

struct mxjob {
	struct parse_context *r;
	struct field spec, list;
	bool kubeflow; /* of kubeflow.org, whose operator counts only a chief */
	bool dist;
	int64_t replicas[MX_TYPES]; /* 0: there is no such entry */
	int64_t port;
	enum replica_type chief; /* its success is that of the job */
	bool retry;              /* some pod is to be restarted */
};

static const struct int_field ROOT_PORT = { "PsRootPort", 1, 65535, MX_ROOT_PORT };

/* WORKER for an absent type; MX_TYPES for others, which the schema refuses. */
static enum replica_type mxjob_type(const struct node *n)
{
	size_t i = 0;
	if (!node_is_present(n))
		return MX_WORKER;
	while (i < MX_TYPES && !(node_is(n, NODE_TEXT) && span_is(node_span(n), TYPES[i].type)))
		i++;
	return (enum replica_type)i;
}

/* The numbers of all entries, which each role gets in its environment. */
static bool mxjob_count(struct mxjob *m)
{
	struct parse_context *r = m->r;
	m->port = MX_ROOT_PORT;
	for (uint32_t i = 0; i < field_items(&m->list); i++) {
		struct field one = field_item(&m->list, i);
		enum replica_type type = mxjob_type(node_get(one.n, "mxReplicaType"));
		const struct int_field replicas = {
			"replicas", 1, type == MX_SCHEDULER ? 1 : r->set->max_instances, 1
		};
		int64_t count = parse_int(r, &one, &replicas);
		if (type == MX_TYPES)
			continue;
		if (m->replicas[type]) {
			parse_refuse(r, &one, "there is another entry of type %s above",
			             TYPES[type].type);
			return false;
		}
		m->replicas[type] = count;
		if (type == MX_SCHEDULER)
			m->port = parse_int(r, &one, &ROOT_PORT);
	}
	return true;
}

static void mxjob_mode(struct mxjob *m)
{
	struct span mode = parse_text(m->spec.n, "jobMode");
	m->dist = mode.n ? span_is(mode, "dist") : m->replicas[MX_SCHEDULER] > 0;
	for (size_t i = 0; m->dist && i < MX_TYPES; i++)
		if (m->replicas[i] == 0 && (i == MX_SCHEDULER || !m->kubeflow))
			parse_refuse(m->r, &m->list, "a distributed job needs an entry of type %s",
			             TYPES[i].type);
	if (mode.n == 0 && !m->kubeflow)
		parse_refuse(m->r, &m->spec, "misses the key `jobMode`: local or dist");
	else if (!m->dist && !m->kubeflow && (m->list.n->n > 1 || m->replicas[MX_WORKER] != 1))
		parse_refuse(m->r, &m->list,
		             "a local job has one entry, of type WORKER with 1 replica");
}

static void mxjob_chief(struct mxjob *m)
{
	struct field policy = field_get(&m->spec, "terminationPolicy");
	struct field chief = field_get(&policy, "chief");
	struct field name = field_get(&chief, "replicaName");
	const struct field *where = name.n ? &name : &m->spec;
	m->chief = m->dist && !m->kubeflow ? MX_SCHEDULER : MX_WORKER;
	if (!m->kubeflow)
		return;
	m->chief = mxjob_type(name.n);
	if (m->chief == MX_TYPES)
		return; /* the schema has refused it */
	if (m->replicas[m->chief] == 0)
		parse_refuse(m->r, where, "the chief is a %s, but no entry has this type",
		             TYPES[m->chief].type);
	if (m->replicas[m->chief] > 1)
		parse_warn(m->r, where,
		           "%lld replicas must all succeed: a Framework cannot wait for a single "
		           "one of them",
		           (long long)m->replicas[m->chief]);
}

static void mxjob_env(const struct mxjob *m, struct role *role)
{
	struct arena *a = m->r->a;
	struct env_var *v = ARENA_NEW(a, struct env_var, MX_ENV);
	const struct env_var all[MX_ENV] = {
		{ SPAN("DMLC_PS_ROOT_PORT"), span_of(arena_printf(a, "%" PRId64, m->port)) },
		{ SPAN("DMLC_NUM_SERVER"),
		  span_of(arena_printf(a, "%" PRId64, m->replicas[MX_SERVER])) },
		{ SPAN("DMLC_NUM_WORKER"),
		  span_of(arena_printf(a, "%" PRId64, m->replicas[MX_WORKER])) },
		{ SPAN("DMLC_ROLE"), role->name },
		{ SPAN("DMLC_USE_KUBERNETES"), SPAN("1") },
	};
	memcpy(v, all, sizeof(all));
	role->env = v;
	role->n_env = m->kubeflow ? MX_ENV : MX_ENV - 1;
}

static void mxjob_role(void *context, const struct field *its, struct role *role)
{
	struct mxjob *m = context;
	static const char ROOT[] = "export DMLC_PS_ROOT_URI=\"${PAI_HOST_IP_scheduler_0}\"\n";
	enum replica_type type = mxjob_type(node_get(its->n, "mxReplicaType"));
	struct raw_source source = { field_get(its, "template"), SPAN("mxnet") };
	struct raw_found found = { 0 };
	if (type == MX_TYPES)
		type = MX_WORKER; /* the schema has refused it */
	bool chief = type == m->chief;
	bool alone = m->kubeflow && !chief; /* its failures do not count, it is started again */
	parse_role_name(m->r, role, its, span_of(TYPES[type].role));
	role->instances = m->replicas[type];
	role->min_failed = alone ? -1 : 1;
	role->min_succeeded = chief ? role->instances : -1;
	role->task_retry_max = alone ? -1 : 0;
	if (m->dist)
		mxjob_env(m, role);
	raw_role_read(m->r, &source, m->dist ? SPAN(ROOT) : SPAN(""), role, &found);
	m->retry |= !span_is(found.restart_policy, "Never");
}

void mxjob_read(struct parse_context *r)
{
	struct mxjob m = { .r = r, .spec = field_get(TOP(r), "spec") };
	struct span clean = parse_text(m.spec.n, "cleanupPodPolicy");
	bool kept = clean.n && !span_is(clean, "All");
	const char *const unused[] = { "RuntimeId", "mxImage", "schedulerName",
		                       kept ? "cleanupPodPolicy" : NULL, NULL };
	m.list = field_get(&m.spec, "replicaSpecs");
	m.kubeflow = span_starts(parse_text(r->root, "apiVersion"), "kubeflow.org/");
	r->job->gang = true;
	parse_virtual_cluster(r, &(struct field){ .top = true });
	raw_metadata_read(r);
	raw_unused_warn(r, &m.spec, unused);
	if (!node_is(m.list.n, NODE_LIST) || !mxjob_count(&m))
		return;
	mxjob_mode(&m);
	mxjob_chief(&m);
	parse_role_list(r, &m.list, mxjob_role, &m);
	r->job->fancy_retry = m.retry;
	r->job->retry_max = m.retry ? MX_RETRIES : 0;
}
