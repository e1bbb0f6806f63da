/* `extras.distributed` of v2 jobs: its checks, and what the job needs for it. pai-runtime reads it
 * again from the stored job and sets the variables (runtime-assets/init/distributed.c). */
#include <inttypes.h>

#include "base/err.h"
#include "translate/dialects/parse_context.h"
#include "translate/names.h"

enum { PROCESSES_MAX = 1024 };

/* The label of the port that the processes meet at. */
static const char PORT_LABEL[] = "distributed";

static const struct distributed_framework {
	const char *name;
	bool ssh;   /* one task starts processes in the others */
	bool ports; /* every task gets a port, not only those of the first role */
	bool one;   /* one process in a task */
} DISTRIBUTED[] = {
	{ "torch", false, false, false }, { "deepspeed", true, false, false },
	{ "mpi", true, false, false },    { "tensorflow", false, true, true },
	{ "jax", false, false, true },
};
enum { N_DISTRIBUTED = ARRAY_SIZE(DISTRIBUTED) };

/* Roles of TF_CONFIG; `master` is the older name of the chief. */
static const struct tensorflow_role {
	const char *name;
	bool single; /* only one task of the job may have it */
} TENSORFLOW_ROLES[] = {
	{ "chief", true }, { "master", true },     { "worker", false },
	{ "ps", false },   { "evaluator", false },
};
enum { N_TENSORFLOW_ROLES = ARRAY_SIZE(TENSORFLOW_ROLES) };

struct distributed {
	struct parse_context *r;
	const struct node *n;
	const struct distributed_framework *framework;
	const struct role *chief; /* with tensorflow; NULL: none yet */
	bool devices;             /* some role has accelerators */
	size_t listed;            /* roles so far */
	struct {
		struct role *role;
		struct place where;
	} first[2]; /* in the list */
};

static const struct distributed_framework *distributed_framework(struct span name)
{
	for (size_t i = 0; i < N_DISTRIBUTED; i++)
		if (span_is(name, DISTRIBUTED[i].name))
			return &DISTRIBUTED[i];
	return NULL;
}

/* ---- roles ------------------------------------------------------------------------------- */

static struct role *distributed_role(struct job *job, struct span name)
{
	for (size_t i = 0; i < job->n_roles; i++)
		if (span_eq(job->roles[i].name, name))
			return &job->roles[i];
	return NULL;
}

static void distributed_tensorflow(struct distributed *d, struct place where,
                                   const struct role *role)
{
	struct parse_context *r = d->r;
	const char *name = quoted(r->a, role->name);
	size_t i = 0;
	while (i < N_TENSORFLOW_ROLES && !span_is(role->name, TENSORFLOW_ROLES[i].name))
		i++;
	if (i == N_TENSORFLOW_ROLES) {
		parse_report(
		    r, PARSE_REFUSE, where,
		    "role \"%s\" has no part in TF_CONFIG: with framework tensorflow, name "
		    "roles chief, worker, ps or evaluator, and list them in `taskRoles`",
		    name);
		return;
	}
	if (!TENSORFLOW_ROLES[i].single)
		return;
	if (d->chief)
		parse_report(r, PARSE_REFUSE, where, "there is one chief, and role \"%s\" is it",
		             quoted(r->a, d->chief->name));
	else if (role->instances > 1)
		parse_report(r, PARSE_REFUSE, where,
		             "there is one chief: role \"%s\" must have 1 instance, has %" PRId64,
		             name, role->instances);
	d->chief = role;
}

/* The place is that of the number in the job. */
static void distributed_no_port(const struct distributed *d, const struct role *role)
{
	const struct member *m = &node_get(d->r->root, "taskRoles")->member[role->index];
	const struct node *n = node_get(node_get(&m->value, "resourcePerInstance"), "ports");
	struct path roles = PATH_KEY(NULL, SPAN("taskRoles"));
	struct path one = PATH_KEY(&roles, member_key(m));
	struct path resource = PATH_KEY(&one, SPAN("resourcePerInstance"));
	struct path ports = PATH_KEY(&resource, SPAN("ports"));
	struct path port = PATH_KEY(&ports, span_of(PORT_LABEL));
	parse_refuse(d->r, &port, node_get(n, PORT_LABEL),
	             "must be at least 1: extras.distributed needs a port with this label; leave "
	             "it out to get one");
}

/* A port of the job with this label is taken for it. */
static void distributed_port(struct distributed *d, struct place where, struct role *role)
{
	struct arena *a = d->r->a;
	for (size_t i = 0; i < role->n_ports; i++) {
		const struct port_request *p = &role->ports[i];
		if (!span_is(p->label, PORT_LABEL))
			continue;
		if (p->count < 1)
			distributed_no_port(d, role);
		return;
	}
	struct port_request *more = ARENA_NEW(a, struct port_request, role->n_ports + 1);
	memcpy(more, role->ports, role->n_ports * sizeof(*more));
	more[role->n_ports++] = (struct port_request){ span_of(PORT_LABEL), 1 };
	role->ports = more;
	parse_ports_fit(d->r, role, 1, where);
}

static void distributed_add(struct distributed *d, struct place where, struct role *role)
{
	bool tensorflow = span_is(span_of(d->framework->name), "tensorflow");
	if (tensorflow)
		distributed_tensorflow(d, where, role);
	if (d->framework->ports)
		distributed_port(d, where, role);
	d->devices = d->devices || role->gpu > 0;
	if (d->listed < 2) {
		d->first[d->listed].role = role;
		d->first[d->listed++].where = where;
	}
}

/* The processes meet in the first role that has some.  The first one only starts those of the
 * others by ssh, if it has no accelerators and others have: pai-runtime has the same rule. */
static void distributed_meet(struct distributed *d)
{
	bool number = node_is(node_get(d->n, "procPerNode"), NODE_INT);
	bool starts = d->framework->ssh && !number && d->devices && !d->first[0].role->gpu;
	if (d->listed > 0 && !d->framework->ports)
		distributed_port(d, d->first[starts].where, d->first[starts].role);
}

static bool distributed_repeats(const struct node *list, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++)
		if (node_is(&list->item[k], NODE_TEXT) &&
		    span_eq(node_span(&list->item[k]), node_span(&list->item[i])))
			return true;
	return false;
}

static void distributed_listed(struct distributed *d, const struct path *p, const struct node *list)
{
	struct parse_context *r = d->r;
	for (uint32_t i = 0; i < list->n && i < r->set->max_roles; i++) {
		const struct node *n = &list->item[i];
		struct path one = PATH_INDEX(p, i);
		struct role *role =
		    node_is(n, NODE_TEXT) ? distributed_role(r->job, node_span(n)) : NULL;
		if (!node_is(n, NODE_TEXT))
			parse_wrong_type(r, &one, n, "the name of a task role");
		else if (!role)
			parse_refuse(
			    r, &one, n, "there is no task role \"%s\"%s",
			    quoted(r->a, node_span(n)),
			    did_you_mean(r->a, suggest_name(r, node_get(r->root, "taskRoles"), NULL,
			                                    node_span(n))));
		else if (distributed_repeats(list, i))
			parse_refuse(r, &one, n, "role \"%s\" is named twice",
			             quoted(r->a, node_span(n)));
		else
			distributed_add(d, path_place(r->a, &one, n), role);
	}
}

static void distributed_roles(struct distributed *d, const struct path *up)
{
	struct parse_context *r = d->r;
	struct path p = PATH_KEY(up, SPAN("taskRoles"));
	const struct node *list = node_get(d->n, "taskRoles");
	if (!list) {
		for (size_t i = 0; i < r->job->n_roles; i++)
			distributed_add(d, r->job->roles[i].where, &r->job->roles[i]);
	} else if (node_is(list, NODE_TEXT)) {
		const char *text = quoted(r->a, node_span(list));
		bool name = distributed_role(r->job, node_span(list)) != NULL;
		parse_refuse(r, &p, list, "must be a list of task roles, is \"%s\"%s", text,
		             name ? arena_printf(r->a, ": write [%s]", text) : "");
	} else if (!node_is(list, NODE_LIST)) {
		parse_wrong_type(r, &p, list, "a list of task roles");
	} else if (list->n == 0) {
		parse_refuse(r, &p, list,
		             "names no task role; leave it out for all roles of the job");
	} else {
		distributed_listed(d, &p, list);
	}
}

/* ---- the rest ---------------------------------------------------------------------------- */

static void distributed_processes(struct distributed *d, const struct path *up)
{
	struct parse_context *r = d->r;
	const struct int_field field = { "", 1, PROCESSES_MAX, 1 };
	struct path p = PATH_KEY(up, SPAN("procPerNode"));
	const struct node *n = node_get(d->n, "procPerNode");
	if (!n || (node_is(n, NODE_TEXT) && span_is(node_span(n), "auto")))
		return;
	int64_t number;
	bool in_quotes =
	    node_is(n, NODE_TEXT) && parse_i64(node_span(n), 1, PROCESSES_MAX, &number) == 0;
	if (node_is(n, NODE_TEXT))
		parse_refuse(r, &p, n, "must be `auto` or a number of processes, is \"%s\"%s",
		             quoted(r->a, node_span(n)), in_quotes ? "; leave out the quotes" : "");
	else if (!node_is(n, NODE_INT) && !node_is(n, NODE_REAL))
		parse_wrong_type(r, &p, n, "`auto` or a number of processes");
	else if (parse_number(r, &p, n, &field) > 1 && d->framework->one)
		parse_refuse(r, &p, n,
		             "must be 1, is %" PRId64
		             ": with framework %s, each task is one process",
		             n->integer, d->framework->name);
}

void distributed_read(struct parse_context *r)
{
	struct path extras = PATH_KEY(NULL, SPAN("extras"));
	struct path p = PATH_KEY(&extras, SPAN("distributed"));
	struct path framework = PATH_KEY(&p, SPAN("framework"));
	const struct node *n = node_get(r->job->extras, "distributed");
	const struct node *name = node_get(n, "framework");
	if (!node_is(n, NODE_MAP) || !name) /* the schema has reported it */
		return;
	struct distributed d = { .r = r, .n = n };
	if (!node_is(name, NODE_TEXT)) {
		parse_wrong_type(r, &framework, name, "torch, deepspeed, mpi, tensorflow or jax");
		return;
	}
	d.framework = distributed_framework(node_span(name));
	if (!d.framework) {
		parse_refuse(r, &framework, name,
		             "must be torch, deepspeed, mpi, tensorflow or jax, is \"%s\"",
		             quoted(r->a, node_span(name)));
		return;
	}
	if (!r->job->gang)
		parse_refuse(r, &p, n,
		             "needs gang allocation, so that all tasks know each other: leave out "
		             "`gangAllocation: false`");
	distributed_roles(&d, &p);
	distributed_meet(&d);
	distributed_processes(&d, &p);
	r->job->needs_key = d.framework->ssh;
}
