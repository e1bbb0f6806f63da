/* Variables of distributed training: `extras.distributed` of a v2 job, which the server has
 * checked.  They are written apart from the others, because `run` sets only those that the
 * container does not have. */
#include "runtime-assets/init/init_internal.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

enum { PROCESSES_MAX = 1024 };

enum { TORCH = 1, DEEPSPEED = 2, MPI = 4, TENSORFLOW = 8, JAX = 16 };
enum {
	BY_SSH = DEEPSPEED | MPI,
	BY_TORCH = TORCH | DEEPSPEED,
	BY_MASTER = TORCH | DEEPSPEED | MPI,
	ALL = BY_MASTER | TENSORFLOW | JAX
};

static const struct {
	const char *name;
	unsigned framework;
} DISTRIBUTED[] = {
	{ "torch", TORCH }, { "deepspeed", DEEPSPEED },
	{ "mpi", MPI },     { "tensorflow", TENSORFLOW },
	{ "jax", JAX },
};

struct group_role {
	struct span name; /* in the job */
	const struct init_role *fw;
	int64_t processes;     /* of each task; 0: it only starts those of the others */
	struct portspec ports; /* empty if they are not known */
};

/* Values of variables. */
enum group_value {
	ADDRESS, /* where the processes meet: task 0 of the first role with processes */
	PORT,
	ADDRESS_PORT,
	NODES, /* tasks that have processes */
	NODE,  /* rank of this task */
	PROCESSES,
	PROCESSES_HERE,
	ONLY_RANK, /* of a process that is the only one of its task, without torchrun */
	ONLY_LOCAL_RANK,
	INTERFACE,            /* of the network, with the address of this task */
	INTERFACE_NCCL,       /* without `=`, NCCL takes every interface whose name begins so */
	INTERFACE_OF_SEVERAL, /* not set if there is only one */
	HOSTFILE,
	SSH,
	ONE,
	INTERVAL, /* in seconds */
	CLUSTER,  /* of TensorFlow */
	VALUES
};

static const struct {
	const char *name;
	uint8_t frameworks, value;
} VARIABLES[] = {
	{ "MASTER_ADDR", BY_MASTER, ADDRESS },
	{ "MASTER_PORT", BY_MASTER, PORT },
	{ "NNODES", BY_MASTER, NODES },
	{ "NODE_RANK", BY_MASTER, NODE },
	{ "NPROC_PER_NODE", BY_MASTER, PROCESSES_HERE },
	{ "WORLD_SIZE", BY_TORCH, PROCESSES },
	{ "RANK", BY_TORCH, ONLY_RANK },
	{ "LOCAL_RANK", BY_TORCH, ONLY_LOCAL_RANK },
	{ "PET_MASTER_ADDR", BY_TORCH, ADDRESS },
	{ "PET_MASTER_PORT", BY_TORCH, PORT },
	{ "PET_NNODES", BY_TORCH, NODES },
	{ "PET_NODE_RANK", BY_TORCH, NODE },
	{ "PET_NPROC_PER_NODE", BY_TORCH, PROCESSES_HERE },
	/* torchrun looks at its processes that often; before torch 2.4, every 5 s. */
	{ "PET_MONITOR_INTERVAL", BY_TORCH, INTERVAL },
	/* Variables of Open MPI up to 4; newer ones read PRTE_MCA_ for the start of processes. */
	{ "OMPI_MCA_orte_default_hostfile", BY_SSH, HOSTFILE },
	{ "OMPI_MCA_plm_rsh_agent", BY_SSH, SSH },
	/* Open MPI refuses these together with an exclude list of a command or file. */
	{ "OMPI_MCA_btl_tcp_if_include", BY_SSH, INTERFACE_OF_SEVERAL },
	{ "OMPI_MCA_oob_tcp_if_include", BY_SSH, INTERFACE_OF_SEVERAL },
	{ "PRTE_MCA_prte_default_hostfile", BY_SSH, HOSTFILE },
	{ "PRTE_MCA_plm_ssh_agent", BY_SSH, SSH },
	{ "OMPI_ALLOW_RUN_AS_ROOT", BY_SSH, ONE },
	{ "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", BY_SSH, ONE },
	{ "TF_CONFIG", TENSORFLOW, CLUSTER },
	{ "JAX_COORDINATOR_ADDRESS", JAX, ADDRESS_PORT },
	{ "JAX_NUM_PROCESSES", JAX, NODES },
	{ "JAX_PROCESS_ID", JAX, NODE },
	/* Python writes lines at once also into a pipe. */
	{ "PYTHONUNBUFFERED", ALL, ONE },
	{ "NCCL_SOCKET_IFNAME", ALL, INTERFACE_NCCL },
	{ "GLOO_SOCKET_IFNAME", ALL, INTERFACE },
};

/* The tasks that train together. */
struct training_group {
	struct init *in;
	struct notes *warnings;
	unsigned framework;
	struct group_role *v; /* in the order of the ranks */
	size_t n;
	const struct group_role *own, *first; /* first: of rank 0 */
	int64_t nodes, processes;             /* of all roles */
	int64_t node;                         /* rank of this task, if it has processes */
	const char *value[VALUES];            /* NULL: not known, or there is none */
};

#define WARN(g, ...) notes_add((g)->warnings, NOWHERE, "distributed: " __VA_ARGS__)

static const char PORT_LABEL[] = "distributed";

/* ---- addresses and ports --------------------------------------------------------------------- */

static const char *group_address(const struct group_role *r, int64_t index)
{
	const struct init_task *t = framework_task(r->fw, index);
	return t ? framework_address(r->fw, t) : NULL;
}

/* 0: not known. */
static int64_t group_port(const struct group_role *r, int64_t index)
{
	const struct init_task *t = framework_task(r->fw, index);
	for (size_t i = 0; t && i < r->ports.n; i++) {
		const struct port_label *l = &r->ports.label[i];
		if (strcmp(l->name, PORT_LABEL) == 0 && l->count > 0 &&
		    portspec_known(&r->ports, t->port))
			return portspec_port(&r->ports, l, t->port, index, 0);
	}
	return 0;
}

/* The address of this family; NULL. */
static const void *interface_address(const struct ifaddrs *i, int family)
{
	const struct sockaddr *at = i->ifa_addr;
	if (!at || at->sa_family != family)
		return NULL;
	return family == AF_INET
	           ? (const void *)&((const struct sockaddr_in *)(const void *)at)->sin_addr
	           : &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr;
}

/* The network interface with this address; init is in the same network as the command.  *only:
 * there is no other besides loopback. */
static const char *group_interface(const char *address, struct arena *a, bool *only)
{
	const char *found = NULL;
	struct ifaddrs *all = NULL;
	struct in6_addr want; /* or, at its beginning, an in_addr */
	int family = strchr(address, ':') ? AF_INET6 : AF_INET;
	size_t size = family == AF_INET ? sizeof(struct in_addr) : sizeof(want);
	*only = false;
	if (inet_pton(family, address, &want) != 1 || getifaddrs(&all) != 0)
		return NULL;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		const void *at = interface_address(i, family);
		if (at && memcmp(at, &want, size) == 0)
			found = arena_dup(a, span_of(i->ifa_name));
	}
	*only = found;
	for (const struct ifaddrs *i = all; i && *only; i = i->ifa_next) {
		bool used = (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK) &&
		            (interface_address(i, AF_INET) || interface_address(i, AF_INET6));
		*only = !used || strcmp(i->ifa_name, found) == 0;
	}
	freeifaddrs(all);
	return found;
}

static const char *group_number(const struct training_group *g, int64_t n)
{
	return arena_printf(g->in->a, "%lld", (long long)n);
}

static const char *group_address_port(const struct training_group *g, const char *address,
                                      int64_t port)
{
	STR_AUTO text = STR_INIT(256);
	env_add_host(&text, address, port);
	return arena_dup(g->in->a, str_view(&text));
}

static void group_find_addresses(struct training_group *g)
{
	const char *own = group_address(g->own, g->in->task_index);
	const char *first = g->first->fw->name;
	const char *address = group_address(g->first, 0);
	bool only = false;
	const char *interface = own ? group_interface(own, g->in->a, &only) : NULL;
	int64_t port = group_port(g->first, 0);
	g->value[ADDRESS] = address;
	g->value[PORT] = port ? group_number(g, port) : NULL;
	g->value[INTERFACE] = interface;
	g->value[INTERFACE_OF_SEVERAL] = only ? NULL : interface;
	if (address && port)
		g->value[ADDRESS_PORT] = group_address_port(g, address, port);
	else
		WARN(g, "%s of task 0 of role %s is not known: variables with it are not set",
		     address ? "the port" : "the address", first);
	if (interface)
		g->value[INTERFACE_NCCL] = arena_printf(g->in->a, "=%s", interface);
	else
		WARN(g,
		     "no network interface has the address of this task, %s: variables with an "
		     "interface are not set",
		     own ? own : "which is not known");
}

/* ---- TF_CONFIG ------------------------------------------------------------------------------- */

static struct span tf_type(const struct group_role *r)
{
	return span_is(r->name, "master") ? SPAN("chief") : r->name;
}

/* ["10.0.0.1:20000","10.0.0.2:20001"] */
static bool tf_put_tasks(const struct training_group *g, const struct group_role *r,
                         struct str *out)
{
	str_char(out, '[');
	for (int64_t i = 0; i < r->fw->task_number; i++) {
		const char *address = group_address(r, i);
		int64_t port = group_port(r, i);
		if (!address || !port) {
			WARN(g,
			     "address or port of task %lld of role %s is not known: TF_CONFIG is "
			     "not "
			     "set",
			     (long long)i, r->fw->name);
			return false;
		}
		str_puts(out, i ? "," : "");
		str_json(out, span_of(group_address_port(g, address, port)));
	}
	str_char(out, ']');
	return true;
}

/* The evaluator is no member of the cluster that TensorFlow trains with. */
static bool tf_put(const struct training_group *g, struct str *out)
{
	const char *comma = "";
	str_puts(out, "{\"cluster\":{");
	for (size_t i = 0; i < g->n; i++) {
		const struct group_role *r = &g->v[i];
		if (span_is(r->name, "evaluator"))
			continue;
		str_puts(out, comma);
		str_json(out, tf_type(r));
		str_char(out, ':');
		if (!tf_put_tasks(g, r, out))
			return false;
		comma = ",";
	}
	str_puts(out, "},\"task\":{\"type\":");
	str_json(out, tf_type(g->own));
	str_printf(out, ",\"index\":%lld}}", (long long)g->in->task_index);
	return true;
}

/* ---- the roles ------------------------------------------------------------------------------- */

static void group_add(struct training_group *g, struct span name, const struct node *distributed,
                      const struct node *roles)
{
	ERR_AUTO why = { 0 };
	const struct init_framework *f = g->in->framework;
	const struct member *m = node_member(roles, name);
	const struct init_role *fw = NULL;
	for (size_t i = 0; !fw && i < f->n; i++) {
		if (f->role[i].in_spec && span_equals_lower_alnum(name, span_of(f->role[i].name)))
			fw = &f->role[i];
	}
	if (!m || !fw)
		return;
	/* A number in `procPerNode`, else the accelerators of the role; 0: it has none. */
	const struct node *n = node_get(distributed, "procPerNode");
	if (!node_is(n, NODE_INT))
		n = node_get(node_get(&m->value, "resourcePerInstance"), "gpu");
	bool number = node_is(n, NODE_INT) && n->integer >= 1 && n->integer <= PROCESSES_MAX;
	struct group_role *r = &g->v[g->n++];
	*r = (struct group_role){ .name = name, .fw = fw, .processes = number ? n->integer : 0 };
	if (fw->ports &&
	    portspec_read(span_of(fw->ports), fw->task_number, g->in->a, &r->ports, &why) < 0)
		r->ports = (struct portspec){ 0 };
	if (g->in->role_name && strcmp(fw->name, g->in->role_name) == 0 &&
	    g->in->task_index < fw->task_number)
		g->own = r;
}

/* A role without accelerators has one process in each task; the first one has none if ssh starts
 * the processes and other roles have accelerators.  The server gives the port by the same rule. */
static void group_count(struct training_group *g)
{
	bool devices = false;
	for (size_t i = 0; i < g->n; i++)
		devices = devices || g->v[i].processes > 0;
	for (size_t i = 0; i < g->n; i++) {
		struct group_role *r = &g->v[i];
		if (r->processes == 0 && (i > 0 || !devices || !(g->framework & BY_SSH)))
			r->processes = 1;
		if (r == g->own)
			g->node = g->nodes + g->in->task_index;
		if (r->processes == 0)
			continue;
		g->first = g->first ? g->first : r;
		g->nodes += r->fw->task_number;
		g->processes += r->fw->task_number * r->processes;
	}
}

static bool group_read(struct training_group *g)
{
	const struct node *root = &g->in->job.doc.root;
	const struct node *roles = node_get(root, "taskRoles");
	const struct node *n = node_get(node_get(root, "extras"), "distributed");
	const struct node *list = node_get(n, "taskRoles");
	if (!node_is(n, NODE_MAP) || !node_is(roles, NODE_MAP)) /* v1: a list of roles */
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(DISTRIBUTED); i++) {
		if (strcmp(node_text(n, "framework"), DISTRIBUTED[i].name) == 0)
			g->framework = DISTRIBUTED[i].framework;
	}
	uint32_t count = node_is(list, NODE_LIST) ? list->n : roles->n;
	g->v = ARENA_NEW(g->in->a, struct group_role, count);
	for (uint32_t i = 0; i < count; i++) {
		if (!node_is(list, NODE_LIST))
			group_add(g, member_key(&roles->member[i]), n, roles);
		else if (node_is(&list->item[i], NODE_TEXT))
			group_add(g, node_span(&list->item[i]), n, roles);
	}
	group_count(g);
	return g->framework && g->own;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void group_values(struct training_group *g)
{
	STR_AUTO cluster = STR_INIT(ENV_TEXT_MAX);
	bool starts = g->own->processes == 0;
	bool only = g->processes == g->nodes && !starts;
	group_find_addresses(g);
	g->value[NODES] = group_number(g, g->nodes);
	g->value[NODE] = starts ? NULL : group_number(g, g->node);
	g->value[PROCESSES] = group_number(g, g->processes);
	g->value[PROCESSES_HERE] = starts ? NULL : group_number(g, g->own->processes);
	g->value[ONLY_RANK] = only ? g->value[NODE] : NULL;
	g->value[ONLY_LOCAL_RANK] = only ? "0" : NULL;
	g->value[HOSTFILE] = path_join(g->in->a, g->in->at.runtime_d, "hostfile");
	g->value[SSH] = "ssh";
	g->value[ONE] = "1";
	g->value[INTERVAL] = "0.1";
	if ((g->framework & TENSORFLOW) && tf_put(g, &cluster))
		g->value[CLUSTER] = arena_dup(g->in->a, str_view(&cluster));
}

/* The names are those of ssh. */
static void distributed_ssh(const struct training_group *g, struct env_text *out)
{
	STR_AUTO roles = STR_INIT(ENV_TEXT_MAX);
	for (size_t i = 0; i < g->n; i++) {
		const struct group_role *r = &g->v[i];
		str_printf(&roles, "%s%s", i ? "," : "", r->fw->name);
		for (int64_t k = 0; r->processes && k < r->fw->task_number; k++)
			str_printf(&out->hosts, "%s-%lld slots=%lld\n", r->fw->name, (long long)k,
			           (long long)r->processes);
	}
	g->in->ssh_roles = arena_dup(g->in->a, str_view(&roles));
	g->in->ssh_first = g->own == g->v && g->in->task_index == 0;
}

void distributed_write(struct init *in, struct env_text *out, struct notes *warnings)
{
	struct training_group g = { .in = in, .warnings = warnings };
	if (!in->framework || !group_read(&g))
		return;
	group_values(&g);
	for (size_t i = 0; i < ARRAY_SIZE(VARIABLES); i++) {
		const char *name = VARIABLES[i].name;
		const char *value = g.value[VARIABLES[i].value];
		if (!(VARIABLES[i].frameworks & g.framework) || !value)
			continue;
		str_printf(&out->shell, "[ -n \"${%s+x}\" ] || ", name);
		env_put_texts(out, span_of(name), span_of(value));
	}
	if (g.framework & BY_SSH)
		distributed_ssh(&g, out);
}
