/*
 * The first generation: JSON, of all its years at once.  One image, roles as a list.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/chars.h"
#include "translate/dialects/v1.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

static const struct int_field RETRIES = { "retryCount", -2, INT32_MAX, 0 };
static const struct int_field CPU = { "cpuNumber", 1, INT32_MAX, 1 };
static const struct int_field MEMORY = { "memoryMB", 100, INT32_MAX, 100 };
static const struct int_field GPU = { "gpuNumber", 0, INT32_MAX, 0 };
static const struct int_field SHM = { "shmMB", 0, INT32_MAX, 0 };
static const struct int_field MIN_FAILED = { "minFailedTaskCount", -1, INT32_MAX, V1_NOT_GIVEN };
static const struct int_field MIN_SUCCEEDED = { "minSucceededTaskCount", -1, INT32_MAX,
	                                        V1_NOT_GIVEN };
static const struct int_field BEGIN_AT = { "beginAt", 0, 65535, 0 };

/* ---- ports ------------------------------------------------------------------------------------
 */

enum { LABELS_MAX = 256 }; /* of a role; each is compared with all before it */

/* A label becomes part of variable names: `.` and `~` cannot stay, nor a digit in front. */
static struct span port_label(struct reading *r, const struct path *p, const struct node *n)
{
	struct span label = node_span(n);
	if (names_identifier_ok(label) || label.n == 0)
		return label;
	const char *name = names_variable(r->a, label);
	if (name[0] >= '0' && name[0] <= '9')
		name = arena_printf(r->a, "_%s", name);
	reading_warn(r, p, n, WARN_LABEL, name);
	return span_of(name);
}

static bool label_used(const struct port_request *v, size_t n, struct span label)
{
	for (size_t i = 0; i < n; i++) {
		if (span_eq(v[i].label, label))
			return true;
	}
	return false;
}

static int64_t port_count(struct reading *r, const struct path *p, const struct node *n,
                          struct span label)
{
	bool needed = span_is(label, "ssh") || span_is(label, "http");
	const struct int_field count = { "portNumber", needed ? 1 : 0,
		                         r->set->port_end - r->set->port_start, 1 };
	int64_t number = reading_int(r, p, n, &count);
	int64_t begin = reading_int(r, p, n, &BEGIN_AT);
	struct path at = PATH_KEY(p, span_of(BEGIN_AT.name));
	if (begin + number > 65536)
		reading_refuse(r, p, n, "beginAt + portNumber is beyond 65535");
	else if (begin)
		reading_warn(r, &at, node_get(n, BEGIN_AT.name), WARN_BEGIN_AT);
	struct path zero = PATH_KEY(p, span_of(count.name));
	if (node_get(n, count.name))
		reading_port_count(r, &zero, node_get(n, count.name), number);
	return number;
}

static void read_ports(struct reading *r, const struct path *role, const struct node *n,
                       struct role *out)
{
	struct path p = PATH_KEY(role, SPAN("portList"));
	const struct node *list = node_get(n, "portList");
	uint32_t count = node_is(list, NODE_LIST) ? list->n : 0;
	if (count > LABELS_MAX) {
		reading_refuse(r, &p, list, "at most %d labels, here are %u", LABELS_MAX, count);
		count = 0;
	}
	struct port_request *v = ARENA_NEW(r->a, struct port_request, count + 2);
	for (uint32_t i = 0; i < count; i++) {
		const struct node *port = list->item + i;
		const struct node *label = node_get(port, "label");
		struct path one = PATH_INDEX(&p, i);
		struct path at = PATH_KEY(&one, SPAN("label"));
		if (!node_is(label, NODE_TEXT))
			continue;
		struct span name = port_label(r, &at, label);
		if (label_used(v, out->n_ports, name)) {
			char buf[4 * QUOTE_MAX];
			reading_refuse(r, &at, label, "%s is already used", quote(buf, name));
			continue;
		}
		v[out->n_ports++] = (struct port_request){ name, port_count(r, &one, port, name) };
	}
	reading_ports_done(r, out, &p, list, v);
}

/* ---- one role ----------------------------------------------------------------------------------
 */

static int64_t read_minimum(struct reading *r, const struct path *role, const struct node *n,
                            const struct int_field *f, int64_t instances)
{
	int64_t v = reading_int(r, role, n, f);
	struct path p = PATH_KEY(role, span_of(f->name));
	if (v == 0) /* the schema has refused it, but for odd spellings */
		reading_refuse(r, &p, node_get(n, f->name), "must not be 0");
	if (v > instances)
		reading_refuse(r, &p, node_get(n, f->name),
		               "must be at most taskNumber (%" PRId64 "), is %" PRId64, instances,
		               v);
	return v;
}

static void read_resources(struct reading *r, const struct path *role, const struct node *n,
                           struct role *out)
{
	out->cpu = reading_int(r, role, n, &CPU);
	out->memory_mb = reading_mebibytes(r, role, n, &MEMORY);
	out->gpu = reading_int(r, role, n, &GPU);
	out->shm_mb = reading_mebibytes(r, role, n, &SHM);
	struct path p = PATH_KEY(role, span_of(SHM.name));
	if (out->shm_mb > out->memory_mb)
		reading_refuse(r, &p, node_get(n, SHM.name),
		               "must be at most memoryMB (%" PRId64 "), is %" PRId64,
		               out->memory_mb, out->shm_mb);
}

static void read_role(struct reading *r, const struct path *p, const struct node *n,
                      struct role *role)
{
	const struct int_field tasks = { "taskNumber", 1, r->set->max_instances, 1 };
	struct path name = PATH_KEY(p, SPAN("name"));
	if (node_is(node_get(n, "name"), NODE_TEXT))
		reading_role_name(r, role, &name, node_get(n, "name"), reading_text(n, "name"));
	else
		role->object_name = role->variable = "";
	role->instances = reading_int(r, p, n, &tasks);
	role->min_failed = read_minimum(r, p, n, &MIN_FAILED, role->instances);
	role->min_succeeded = read_minimum(r, p, n, &MIN_SUCCEEDED, role->instances);
	role->min_failed_given = role->min_failed != V1_NOT_GIVEN;
	role->min_succeeded_given = role->min_succeeded != V1_NOT_GIVEN;
	role->task_fancy_retry = !r->job->gang;
	role->image = reading_text(r->root, "image");
	read_resources(r, p, n, role);
	read_ports(r, p, n, role);
	v1_env_read(r, role, p, n);
}

/* A role whose name is the position of another one. */
static void check_position(struct reading *r, const struct path *up, const struct node *n,
                           const struct role *role)
{
	char position[24];
	struct path p = PATH_KEY(up, SPAN("name"));
	for (size_t i = 0; role->name.n && i < r->job->n_roles; i++) {
		(void)snprintf(position, sizeof(position), "%zu", i);
		if (i != role->index && span_is(role->name, position))
			reading_warn(r, &p, node_get(n, "name"), WARN_POSITION, position, position);
	}
}

static void read_command(struct reading *r, const struct path *role, const struct node *n,
                         struct span prefix, struct role *out)
{
	struct path p = PATH_KEY(role, SPAN("command"));
	struct span own = reading_text(n, "command");
	char *text = arena_alloc(r->a, prefix.n + own.n + 1);
	memcpy(text, prefix.p, prefix.n);
	memcpy(text + prefix.n, own.p, own.n);
	text[prefix.n + own.n] = '\0';
	out->command = (struct span){ text, prefix.n + own.n };
	reading_command(r, out, &p, node_get(n, "command"));
}

static void read_roles(struct reading *r)
{
	struct job *job = r->job;
	const struct node *list = node_get(r->root, "taskRoles");
	struct path p = PATH_KEY(NULL, SPAN("taskRoles"));
	if (!node_is(list, NODE_LIST) || !reading_roles_fit(r, &p, list))
		return;
	job->roles = ARENA_NEW(r->a, struct role, list->n);
	job->n_roles = list->n;
	for (uint32_t i = 0; i < list->n; i++) {
		struct path one = PATH_INDEX(&p, i);
		job->roles[i].index = i;
		read_role(r, &one, list->item + i, &job->roles[i]);
	}
	reading_roles_done(r);
	for (uint32_t i = 0; i < list->n; i++) {
		struct path one = PATH_INDEX(&p, i);
		if (job->roles[i].name.n && is_digit(job->roles[i].name.p[0]))
			check_position(r, &one, list->item + i, &job->roles[i]);
	}
	struct span prefix = v1_command_prefix(r);
	for (uint32_t i = 0; i < list->n && r->rendered <= r->set->max_rendered; i++) {
		struct path one = PATH_INDEX(&p, i);
		read_command(r, &one, list->item + i, prefix, &job->roles[i]);
	}
}

/* ---- the job ------------------------------------------------------------------------------------
 */

static void read_image(struct reading *r)
{
	struct path p = PATH_KEY(NULL, SPAN("image"));
	const struct node *n = node_get(r->root, "image");
	char buf[4 * QUOTE_MAX];
	const char *problem = node_is(n, NODE_TEXT) ? names_image_problem(node_span(n)) : NULL;
	if (problem)
		reading_refuse(r, &p, n, "%s%s%s%s", n->n ? "\"" : "", quote(buf, node_span(n)),
		               n->n ? "\" " : "", problem);
}

/* The kind of accelerator, for templates that choose nodes by it. */
static void read_gpu_type(struct reading *r)
{
	const struct node *n = node_get(r->root, "gpuType");
	struct path p = PATH_KEY(NULL, SPAN("gpuType"));
	char buf[4 * QUOTE_MAX];
	if (!node_is(n, NODE_TEXT))
		return;
	r->job->gpu_type = node_span(n);
	if (n->n && !names_label_value_ok(node_span(n)))
		reading_refuse(
		    r, &p, n,
		    "\"%s\" is no value of a label: at most 63 letters, digits, `-`, `_` "
		    "and `.`, a letter or digit at both ends",
		    quote(buf, node_span(n)));
}

/* Members of the whole job that cannot be honoured. */
static void check_unsupported(struct reading *r)
{
	const struct node *auth = node_get(r->root, "authFile");
	const struct node *gpu = r->gpu_type_used ? NULL : node_get(r->root, "gpuType");
	struct path auth_path = PATH_KEY(NULL, SPAN("authFile"));
	struct path gpu_path = PATH_KEY(NULL, SPAN("gpuType"));
	if (node_is(auth, NODE_TEXT) && auth->n)
		reading_refuse(r, &auth_path, auth,
		               "must be empty: files in HDFS cannot be read here; write a v2 job "
		               "with `auth` and `secrets`");
	if (node_is(gpu, NODE_TEXT) && gpu->n)
		reading_warn(r, &gpu_path, gpu, WARN_GPU_TYPE);
}

void pai_v1_read(struct reading *r)
{
	struct job *job = r->job;
	job->retry_max = reading_int(r, NULL, r->root, &RETRIES);
	job->fancy_retry = job->retry_max != -2;
	struct path extras = PATH_KEY(NULL, SPAN("extras"));
	extras_read(r, &extras, node_get(r->root, "extras"));
	struct path vc = PATH_KEY(NULL, SPAN("virtualCluster"));
	reading_virtual_cluster(r, &vc, node_get(r->root, "virtualCluster"));
	read_image(r);
	read_gpu_type(r);
	check_unsupported(r);
	v1_directories_read(r);
	read_roles(r);
	v1_completion_done(r);
}
