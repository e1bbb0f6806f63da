/* The step `environment`: runtime_env and runtime_env.sh. */
#include "runtime-assets/init/init_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/enc.h"
#include "runtime-assets/common/cmdline.h"

enum {
	UID_MAX = 128,
	NAME_MAX_BYTES = 4096, /* keys of the job have 1024 bytes, labels 256 */
	/* Limits of execve with a stack of 8 MiB: one variable; all with a pointer for each. */
	VARIABLE_LIMIT = 128 * 1024,
	TOTAL_LIMIT = 2 * 1024 * 1024
};

struct role_env {
	const struct init_role *r;
	const char *name[2]; /* in Kubernetes; in the job, if that differs */
	size_t names;
	struct portspec ports;
	bool has_ports; /* known, perhaps none */
	bool own;
};

struct env_writer {
	struct init *in;
	struct env_text *out;
	struct notes *warnings;
	size_t count;   /* variables written */
	size_t longest; /* of them, in bytes */
	bool own_seen;
	struct str name, rest, value; /* of the current variable */
	struct str hosts;             /* of the role: ip:port,ip:port */
	struct str instances;         /* role:0,role:1 */
};

#define WARN(w, ...) notes_add((w)->warnings, NOWHERE, __VA_ARGS__)

/* ---- variables and ports --------------------------------------------------------------------- */

void env_put_texts(struct env_text *out, struct span name, struct span value)
{
	str_puts(&out->shell, "export ");
	str_span(&out->shell, name);
	str_char(&out->shell, '=');
	shell_word(&out->shell, value);
	str_char(&out->shell, '\n');
	str_span(&out->nul, name);
	str_char(&out->nul, '=');
	str_span(&out->nul, value);
	str_char(&out->nul, '\0');
}

/* Its name consists of checked parts only. */
static void env_put(struct env_writer *w, struct span name, struct span value)
{
	env_put_texts(w->out, name, value);
	w->count++;
	if (name.n + value.n > w->longest)
		w->longest = name.n + value.n;
}

/* A name from three parts; valid until the next one. */
static struct span env_name(struct env_writer *w, const char *first, const char *second,
                            const char *third)
{
	w->name.n = 0;
	str_puts(&w->name, first);
	str_puts(&w->name, second);
	str_puts(&w->name, third);
	return str_view(&w->name);
}

static void env_put_role(struct env_writer *w, const struct role_env *r, const char *prefix,
                         struct span value)
{
	for (size_t i = 0; i < r->names; i++)
		env_put(w, env_name(w, prefix, r->name[i], str_c(&w->rest)), value);
}

static bool env_has_ports(const struct role_env *r, struct port_source from)
{
	return r->has_ports && portspec_known(&r->ports, from);
}

static struct span env_port_list(struct env_writer *w, const struct role_env *r,
                                 const struct port_label *l, struct port_source from, int64_t index)
{
	w->value.n = 0;
	for (int64_t i = 0; i < l->count; i++) {
		str_puts(&w->value, i ? "," : "");
		str_int(&w->value, portspec_port(&r->ports, l, from, index, i));
	}
	return str_view(&w->value);
}

static int64_t env_first_port(const struct role_env *r, const char *label, struct port_source from,
                              int64_t index)
{
	for (size_t i = 0; i < r->ports.n; i++) {
		const struct port_label *l = &r->ports.label[i];
		if (strcmp(l->name, label) == 0)
			return l->count ? portspec_port(&r->ports, l, from, index, 0) : 0;
	}
	return 0;
}

/* ---- the own task ---------------------------------------------------------------------------- */

/* Keeps the ports for the step `ports`. */
static void env_keep_ports(struct env_writer *w, const struct role_env *r, struct port_source from)
{
	struct init *in = w->in;
	in->port = ARENA_NEW(in->a, uint16_t, (size_t)r->ports.total);
	in->port_label = ARENA_NEW(in->a, const char *, (size_t)r->ports.total);
	in->n_ports = 0;
	for (size_t i = 0; i < r->ports.n; i++) {
		const struct port_label *l = &r->ports.label[i];
		for (int64_t k = 0; k < l->count; k++) {
			in->port[in->n_ports] =
			    portspec_port(&r->ports, l, from, in->task_index, k);
			in->port_label[in->n_ports++] = l->name;
		}
	}
}

static void env_put_address(struct env_writer *w, struct span name, const char *address)
{
	if (address)
		env_put(w, name, span_of(address));
}

static void env_put_port(struct env_writer *w, struct span name, int64_t port)
{
	w->value.n = 0;
	str_int(&w->value, port);
	if (port)
		env_put(w, name, str_view(&w->value));
}

static void env_put_own_lists(struct env_writer *w, const struct role_env *r,
                              struct port_source from)
{
	STR_AUTO all = STR_INIT(ENV_TEXT_MAX);
	for (size_t i = 0; i < r->ports.n; i++) {
		const struct port_label *l = &r->ports.label[i];
		struct span list = env_port_list(w, r, l, from, w->in->task_index);
		env_put(w, env_name(w, "PAI_CONTAINER_HOST_", l->name, "_PORT_LIST"), list);
		str_puts(&all, l->name);
		str_char(&all, ':');
		str_span(&all, list);
		str_char(&all, ';');
	}
	env_put(w, SPAN("PAI_CONTAINER_HOST_PORT_LIST"), str_view(&all));
}

static void env_put_own(struct env_writer *w, const struct role_env *r, const char *address,
                        struct port_source from)
{
	bool ports = env_has_ports(r, from);
	int64_t index = w->in->task_index;
	int64_t http = ports ? env_first_port(r, "http", from, index) : 0;
	w->own_seen = true;
	env_put_address(w, SPAN("PAI_CURRENT_CONTAINER_IP"), address);
	env_put_port(w, SPAN("PAI_CURRENT_CONTAINER_PORT"), http);
	env_put_address(w, SPAN("PAI_CONTAINER_HOST_IP"), address);
	env_put_port(w, SPAN("PAI_CONTAINER_HOST_PORT"), http);
	if (!address)
		WARN(w, "the own address is not known: PAI_CURRENT_CONTAINER_IP and "
		        "PAI_CONTAINER_HOST_IP are not set");
	if (!ports) {
		WARN(w, "the own ports are not known: PAI_CURRENT_CONTAINER_PORT, "
		        "PAI_CONTAINER_HOST_PORT, PAI_CONTAINER_SSH_PORT, "
		        "PAI_CONTAINER_HOST_PORT_LIST and those of each port are not set");
		return;
	}
	env_put_port(w, SPAN("PAI_CONTAINER_SSH_PORT"), env_first_port(r, "ssh", from, index));
	env_put_own_lists(w, r, from);
	env_keep_ports(w, r, from);
}

/* ---- tasks and roles ------------------------------------------------------------------------- */

static void env_put_ports(struct env_writer *w, const struct role_env *r, struct port_source from,
                          int64_t index)
{
	for (size_t i = 0; i < r->ports.n; i++) {
		const struct port_label *l = &r->ports.label[i];
		struct span list = env_port_list(w, r, l, from, index);
		w->rest.n = 0;
		str_char(&w->rest, '_');
		str_int(&w->rest, index);
		str_char(&w->rest, '_');
		str_puts(&w->rest, l->name);
		env_put_role(w, r, "PAI_PORT_LIST_", list);
		str_puts(&w->rest, "_PORT");
		env_put_role(w, r, "PAI_", list);
	}
}

void env_add_host(struct str *hosts, const char *address, int64_t port)
{
	bool v6 = strchr(address, ':') != NULL;
	str_puts(hosts, hosts->n ? "," : "");
	str_puts(hosts, v6 ? "[" : "");
	str_puts(hosts, address);
	str_puts(hosts, v6 ? "]:" : ":");
	str_int(hosts, port);
}

/* False if it has no pod yet, so its ports are not known. */
static bool env_put_task(struct env_writer *w, const struct role_env *r, const struct init_task *t)
{
	const char *address = framework_address(r->r, t);
	const char *uid = w->in->pod_uid;
	struct port_source from = t->port;
	bool own = r->own && t->index == w->in->task_index;
	if (own && !from.uid && !from.given && uid && strlen(uid) <= UID_MAX)
		from.uid = uid;
	bool ports = env_has_ports(r, from);
	int64_t http = ports ? env_first_port(r, "http", from, t->index) : 0;
	if (ports)
		env_put_ports(w, r, from, t->index);
	if (address) {
		w->rest.n = 0;
		str_char(&w->rest, '_');
		str_int(&w->rest, t->index);
		env_put_role(w, r, "PAI_HOST_IP_", span_of(address));
	}
	if (address && http)
		env_add_host(&w->hosts, address, http);
	if (own)
		env_put_own(w, r, address, from);
	if (w->instances.n)
		str_char(&w->instances, ',');
	str_puts(&w->instances, r->r->name);
	str_char(&w->instances, ':');
	str_int(&w->instances, t->index);
	return ports || !r->has_ports;
}

static void env_put_role_tasks(struct env_writer *w, const struct role_env *r)
{
	size_t nameless = 0;
	size_t without = 0;
	w->hosts.n = 0;
	for (size_t i = 0; i < r->r->n && !w->out->shell.full; i++) {
		if (r->r->task[i].index < 0)
			nameless++;
		else
			without += !env_put_task(w, r, &r->r->task[i]);
	}
	w->rest.n = 0;
	str_puts(&w->rest, "_HOST_LIST");
	env_put_role(w, r, "PAI_TASK_ROLE_", str_view(&w->hosts));
	/* Jobs of version 1 get it also by number, unless a role has that number as its name. */
	char number[24];
	bool v1 = node_is(node_get(&w->in->job.doc.root, "taskRoles"), NODE_LIST);
	(void)snprintf(number, sizeof(number), "%lld", (long long)r->r->number);
	if (v1 && r->r->number >= 0 && !framework_role(w->in->framework, number))
		env_put(w, env_name(w, "PAI_TASK_ROLE_", number, "_HOST_LIST"),
		        str_view(&w->hosts));
	if (without)
		WARN(w, "%zu tasks of role %s have no pod yet: no variables with their ports",
		     without, r->r->name);
	if (nameless)
		WARN(w, "%zu tasks of role %s have no index: left out", nameless, r->r->name);
}

/* ---- ports of a role ------------------------------------------------------------------------- */

static void env_drop_labels(struct env_writer *w, struct role_env *r)
{
	struct portspec *p = &r->ports;
	size_t kept = 0;
	for (size_t i = 0; i < p->n; i++) {
		char text[4 * QUOTE_MAX];
		if (portspec_name_ok(p->label[i].name)) {
			p->label[kept++] = p->label[i];
			continue;
		}
		p->total -= p->label[i].count;
		WARN(w, "role %s: a port named \"%s\" cannot be in a variable's name: left out",
		     r->r->name, quote(text, span_of(p->label[i].name)));
	}
	p->n = kept;
}

static int env_read_ports(struct env_writer *w, struct role_env *r, struct err *e)
{
	ERR_AUTO why = { 0 };
	int64_t last = 0;
	if (!r->r->in_spec)
		return 0;
	for (size_t i = 0; i < r->r->n; i++) {
		if (r->r->task[i].index > last)
			last = r->r->task[i].index;
	}
	if (!r->r->ports ||
	    portspec_read(span_of(r->r->ports), last, w->in->a, &r->ports, &why) == 0) {
		r->has_ports = true;
		env_drop_labels(w, r);
		return 0;
	}
	if (r->own)
		return err_set(e, FAILED, "ports of the own role %s: %s", r->r->name,
		               err_msg(&why));
	WARN(w, "ports of role %s: %s; no variables with them", r->r->name, err_msg(&why));
	r->ports = (struct portspec){ 0 };
	return 0;
}

/* The pod has only one of PAI_MIN_FAILED_INSTANCE_role and PAI_MIN_FAILED_TASK_COUNT_role; that of
 * the other spelling has the same value. */
static void env_put_minimums(struct env_writer *w, const struct role_env *r)
{
	static const char *const PAIRS[][2] = {
		{ "PAI_MIN_FAILED_TASK_COUNT_", "PAI_MIN_FAILED_INSTANCE_" },
		{ "PAI_MIN_FAILED_INSTANCE_", "PAI_MIN_FAILED_TASK_COUNT_" },
		{ "PAI_MIN_SUCCEEDED_TASK_COUNT_", "PAI_MIN_SUCCEEDED_INSTANCE_" },
		{ "PAI_MIN_SUCCEEDED_INSTANCE_", "PAI_MIN_SUCCEEDED_TASK_COUNT_" },
	};
	for (size_t i = 0; i < r->names * ARRAY_SIZE(PAIRS); i++) {
		const char *const *pair = PAIRS[i % ARRAY_SIZE(PAIRS)];
		const char *role = r->name[i / ARRAY_SIZE(PAIRS)];
		const char *value = getenv(env_name(w, pair[0], role, "").p);
		struct span other = env_name(w, pair[1], role, "");
		if (value && !getenv(other.p))
			env_put(w, other, span_of(value));
	}
}

/* ---- all roles ------------------------------------------------------------------------------- */

static int env_put_roles(struct env_writer *w, struct err *e)
{
	const struct init_framework *f = w->in->framework;
	for (size_t i = 0; i < f->n; i++) {
		const struct init *in = w->in;
		const struct init_role *fw = &f->role[i];
		const char *spelling = job_role_spelling(&in->job, fw->name, in->a);
		struct role_env r = { .r = fw, .name = { fw->name, spelling }, .names = 1 };
		if (spelling && strcmp(spelling, fw->name) != 0)
			r.names = 2;
		r.own = in->role_name && strcmp(in->role_name, fw->name) == 0;
		if (env_read_ports(w, &r, e) < 0)
			return -1;
		env_put_role_tasks(w, &r);
		env_put_minimums(w, &r);
	}
	env_put(w, SPAN("PAI_TASK_ROLE_INSTANCES"), str_view(&w->instances));
	return 0;
}

/* `extras.secretEnv` names secrets that are variables, too. */
static int env_put_secrets(struct env_writer *w, struct err *e)
{
	const struct init_job *job = &w->in->job;
	const struct node *names = node_get(node_get(&job->doc.root, "extras"), "secretEnv");
	for (uint32_t i = 0; node_is(names, NODE_LIST) && i < names->n; i++) {
		STR_AUTO value = STR_SECRET(ENV_TEXT_MAX);
		struct span name = node_span(&names->item[i]);
		const struct member *secret = node_member(job->secrets, name);
		const struct node *code = secret ? node_get(&secret->value, "base64") : NULL;
		struct span bytes;
		const char *text =
		    arena_printf(w->in->a, "<%% $secrets.%.*s %%>", (int)name.n, name.p);
		if (node_is(code, NODE_TEXT) &&
		    base64_decode(w->in->a, node_span(code), &bytes) == 0)
			str_span(&value, bytes);
		else if (job_fill_secrets(job, span_of(text), &value, e) < 0)
			return -1;
		env_put(w, name, str_view(&value));
	}
	return 0;
}

static void env_warn_of_limits(struct env_writer *w)
{
	size_t total = w->out->nul.n + w->count * sizeof(char *);
	if (w->longest >= VARIABLE_LIMIT)
		WARN(w,
		     "a variable has %zu bytes: Linux starts no program with one of more than "
		     "%d",
		     w->longest, VARIABLE_LIMIT);
	if (total >= TOTAL_LIMIT)
		WARN(w,
		     "the environment has %zu bytes: Linux usually starts no program with more "
		     "than %d",
		     total, TOTAL_LIMIT);
	if (w->in->role_name && !w->own_seen)
		WARN(w,
		     "the status of the Framework does not have this task (%s:%lld): no "
		     "PAI_CURRENT_CONTAINER_ "
		     "and PAI_CONTAINER_ variables",
		     w->in->role_name, (long long)w->in->task_index);
	if (w->in->job.doc.root.type == NODE_NULL)
		WARN(w, "without the job configuration, variables of roles have only the names "
		        "that Kubernetes has");
}

static void env_writer_done(struct env_writer *w)
{
	str_done(&w->name);
	str_done(&w->rest);
	str_done(&w->value);
	str_done(&w->hosts);
	str_done(&w->instances);
}

int env_write(struct init *in, struct env_text *out, struct notes *warnings, struct err *e)
{
	__attribute__((cleanup(env_writer_done))) struct env_writer w = {
		.in = in,
		.out = out,
		.warnings = warnings,
		.name = STR_INIT(NAME_MAX_BYTES),
		.rest = STR_INIT(NAME_MAX_BYTES),
		.value = STR_INIT(ENV_TEXT_MAX),
		.hosts = STR_INIT(ENV_TEXT_MAX),
		.instances = STR_INIT(ENV_TEXT_MAX),
	};
	if (in->framework == NULL)
		return 0;
	if (env_put_roles(&w, e) < 0 || env_put_secrets(&w, e) < 0)
		return -1;
	assert(!w.name.full && !w.rest.full);
	if (out->shell.full || out->nul.full || w.value.full || w.hosts.full || w.instances.full)
		return err_set(e, FAILED, "the environment has more than %d bytes", ENV_TEXT_MAX);
	env_warn_of_limits(&w);
	return 0;
}

static int env_write_more(struct init *in, const char *name, const struct str *text, struct err *e)
{
	if (text->n == 0)
		return 0;
	return file_write(path_join(in->a, in->at.runtime_d, name), str_view(text), 0644, e);
}

int step_environment(struct init *in, struct err *e)
{
	struct env_text out = { STR_SECRET(ENV_TEXT_MAX), STR_SECRET(ENV_TEXT_MAX), { 0 } };
	struct env_text more = { STR_INIT(ENV_TEXT_MAX), STR_INIT(ENV_TEXT_MAX),
		                 STR_INIT(ENV_TEXT_MAX) };
	NOTES_AUTO warnings = { 0 };
	int failed = env_write(in, &out, &warnings, e);
	distributed_write(in, &more, &warnings);
	str_span(&out.shell, str_view(&more.shell));
	say_notes(&warnings);
	/* runtime_env.sh comes last: then both exist. */
	const char *nul = path_join(in->a, in->at.runtime_d, "runtime_env");
	const char *shell = path_join(in->a, in->at.runtime_d, "runtime_env.sh");
	failed = failed || dir_make(in->at.runtime_d, 0755, e) ||
	         env_write_more(in, "distributed_env", &more.nul, e) ||
	         env_write_more(in, "hostfile", &more.hosts, e) ||
	         file_write(nul, str_view(&out.nul), 0644, e) ||
	         file_write(shell, str_view(&out.shell), 0644, e);
	str_wipe(&out.shell);
	str_wipe(&out.nul);
	str_done(&more.shell);
	str_done(&more.nul);
	str_done(&more.hosts);
	return failed ? INIT_FAILED : 0;
}
