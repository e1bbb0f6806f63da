/* `extras.distributed` of v2 jobs: its checks, and what the job needs for it. pai-runtime reads it
 * again from the stored job and sets the variables (runtime-assets/init/distributed.c). */
#include <assert.h>
#include <inttypes.h>

#include "base/err.h"
#include "translate/dialects/dialects.h"
#include "translate/job/names.h"
#include "translate/reader/parse_context.h"

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
	struct field at; /* extras.distributed */
	const struct distributed_framework *framework;
	const struct role *chief; /* with tensorflow; NULL: none yet */
	bool devices;             /* some role has accelerators */
	size_t listed;            /* roles so far */
	struct {
		struct role *role;
		struct place where;
	} first[2]; /* in the list */
};

static void distributed_tensorflow(struct distributed *d, struct place where,
                                   const struct role *role)
{
	struct parse_context *r = d->r;
	const char *name = arena_quoted(r->a, role->name);
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
		             arena_quoted(r->a, d->chief->name));
	else if (role->instances > 1)
		parse_report(r, PARSE_REFUSE, where,
		             "there is one chief: role \"%s\" must have 1 instance, has %" PRId64,
		             name, role->instances);
	d->chief = role;
}

/* A port of the job with this label is taken for it. */
static void distributed_port(struct distributed *d, struct place where, struct role *role)
{
	struct parse_context *r = d->r;
	for (size_t i = 0; i < role->n_ports; i++) {
		if (!span_is(role->ports[i].label, PORT_LABEL))
			continue;
		struct field roles = field_get(TOP(r), "taskRoles");
		assert(roles.n); /* the role comes from it */
		struct field one = field_member(&roles, role->index);
		struct field resource = field_get(&one, "resourcePerInstance");
		struct field ports = field_get(&resource, "ports");
		struct field number = field_get(&ports, PORT_LABEL);
		if (role->ports[i].count < 1)
			parse_refuse(
			    r, &number,
			    "must be at least 1: extras.distributed needs a port with this "
			    "label; leave it out to get one");
		return;
	}
	struct port_request *more = ARENA_NEW(r->a, struct port_request, role->n_ports + 1);
	memcpy(more, role->ports, role->n_ports * sizeof(*more));
	more[role->n_ports++] = (struct port_request){ span_of(PORT_LABEL), 1 };
	role->ports = more;
	parse_ports_fit(r, role, 1, where);
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

static void distributed_listed(struct distributed *d, const struct field *list)
{
	struct parse_context *r = d->r;
	for (uint32_t i = 0; i < list->n->n && i < r->set->max_roles; i++) {
		struct field one = field_item(list, i);
		struct span name = field_text(&one);
		if (!node_is(one.n, NODE_TEXT)) {
			parse_wrong_type(r, &one, "the name of a task role");
			continue;
		}
		struct role *role = parse_role_find(r->job, name);
		if (!role) {
			const char *hint =
			    suggest_name(r, node_get(r->root, "taskRoles"), NULL, name);
			parse_refuse(r, &one, "there is no task role \"%s\"%s",
			             arena_quoted(r->a, name), suggest_sentence(r->a, hint));
			continue;
		}
		uint32_t k = 0; /* the first item with this name */
		while (!node_equal(&list->n->item[k], one.n))
			k++;
		if (k < i)
			parse_refuse(r, &one, "role \"%s\" is named twice",
			             arena_quoted(r->a, name));
		else
			distributed_add(d, field_place(r->a, &one), role);
	}
}

static void distributed_roles(struct distributed *d)
{
	struct parse_context *r = d->r;
	struct field list = field_get(&d->at, "taskRoles");
	if (!list.n) {
		for (size_t i = 0; i < r->job->n_roles; i++)
			distributed_add(d, r->job->roles[i].where, &r->job->roles[i]);
	} else if (node_is(list.n, NODE_TEXT)) {
		const char *text = arena_quoted(r->a, node_span(list.n));
		bool name = parse_role_find(r->job, node_span(list.n)) != NULL;
		parse_refuse(r, &list, "must be a list of task roles, is \"%s\"%s", text,
		             name ? arena_printf(r->a, ": write [%s]", text) : "");
	} else if (!node_is(list.n, NODE_LIST)) {
		parse_wrong_type(r, &list, "a list of task roles");
	} else if (list.n->n == 0) {
		parse_refuse(r, &list, "names no task role; leave it out for all roles of the job");
	} else {
		distributed_listed(d, &list);
	}
	/* The processes meet in the first role that has some.  The first one only starts those of
	 * the others by ssh, if it has no accelerators and others have: pai-runtime has the same
	 * rule. */
	bool number = node_is(node_get(d->at.n, "procPerNode"), NODE_INT);
	bool starts = d->framework->ssh && !number && d->devices && !d->first[0].role->gpu;
	if (d->listed > 0 && !d->framework->ports)
		distributed_port(d, d->first[starts].where, d->first[starts].role);
}

/* ---- the rest ---------------------------------------------------------------------------- */

static void distributed_processes(struct distributed *d)
{
	struct parse_context *r = d->r;
	const struct int_field want = { "", 1, PROCESSES_MAX, 1 };
	struct field f = field_get(&d->at, "procPerNode");
	int64_t number;
	if (!f.n || span_is(field_text(&f), "auto"))
		return;
	if (node_is(f.n, NODE_TEXT)) {
		bool in_quotes = parse_i64(node_span(f.n), 1, PROCESSES_MAX, &number) == 0;
		parse_refuse(r, &f, "must be `auto` or a number of processes, is \"%s\"%s",
		             arena_quoted(r->a, node_span(f.n)),
		             in_quotes ? "; leave out the quotes" : "");
	} else if (!node_is(f.n, NODE_INT) && !node_is(f.n, NODE_REAL)) {
		parse_wrong_type(r, &f, "`auto` or a number of processes");
	} else if (parse_number(r, &f, &want) > 1 && d->framework->one) {
		parse_refuse(
		    r, &f, "must be 1, is %" PRId64 ": with framework %s, each task is one process",
		    f.n->integer, d->framework->name);
	}
}

void distributed_read(struct parse_context *r)
{
	struct field extras = field_get(TOP(r), "extras");
	struct distributed d = { .r = r, .at = field_get(&extras, "distributed") };
	struct field name = field_get(&d.at, "framework");
	if (!name.n) /* the schema has reported it */
		return;
	if (!node_is(name.n, NODE_TEXT)) {
		parse_wrong_type(r, &name, "torch, deepspeed, mpi, tensorflow or jax");
		return;
	}
	for (size_t i = 0; i < N_DISTRIBUTED && !d.framework; i++)
		if (span_is(node_span(name.n), DISTRIBUTED[i].name))
			d.framework = &DISTRIBUTED[i];
	if (!d.framework) {
		parse_refuse(r, &name,
		             "must be torch, deepspeed, mpi, tensorflow or jax, is \"%s\"",
		             arena_quoted(r->a, node_span(name.n)));
		return;
	}
	if (!r->job->gang)
		parse_refuse(r, &d.at,
		             "needs gang allocation, so that all tasks know each other: leave out "
		             "`gangAllocation: false`");
	distributed_roles(&d);
	distributed_processes(&d);
	r->job->needs_key = d.framework->ssh;
	if (d.framework->ssh)
		r->job->sshd_where = field_place(r->a, &name);
}
