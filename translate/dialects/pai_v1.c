/* Jobs of the first generation (JSON, all variants of its years): one image for all roles, roles
 * as a list. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/enc.h"
#include "base/str.h"
#include "translate/dialects/parse_context.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

/* Numbers written as text: web forms and the first clients sent them. They become numbers before
 * the schema check. */

enum { DIGITS_MAX = 11 };

static const char *const JOB_NUMBERS[] = { "killAllOnCompletedTaskNumber", "retryCount", NULL };
static const char *const ROLE_NUMBERS[] = {
	"taskNumber",
	"cpuNumber",
	"memoryMB",
	"shmMB",
	"gpuNumber",
	"minFailedTaskCount",
	"minSucceededTaskCount",
	NULL,
};
static const char *const PORT_NUMBERS[] = { "beginAt", "portNumber", NULL };

static struct member *copy_members(struct arena *a, const struct node *map)
{
	struct member *m = arena_alloc(a, (map->n + 1) * sizeof(*m));
	if (map->n)
		memcpy(m, map->member, map->n * sizeof(*m));
	return m;
}

static struct node *copy_items(struct arena *a, const struct node *list)
{
	struct node *v = arena_alloc(a, (list->n + 1) * sizeof(*v));
	if (list->n)
		memcpy(v, list->item, list->n * sizeof(*v));
	return v;
}

static void pai_v1_convert(struct parse_context *r, const struct path *p, struct node *n)
{
	int64_t v;
	if (!node_is(n, NODE_TEXT) || n->n > DIGITS_MAX ||
	    parse_i64(node_span(n), INT64_MIN, INT64_MAX, &v))
		return;
	parse_warn(r, p, n, WARN_TEXT_NUMBER, (long long)v);
	n->type = NODE_INT;
	n->integer = v;
	n->n = 0;
}

static struct member *convert_members(struct parse_context *r, const struct path *up,
                                      struct node *map, const char *const *names)
{
	struct member *m = copy_members(r->a, map);
	map->member = m;
	for (uint32_t i = 0; i < map->n; i++) {
		struct path p = PATH_KEY(up, member_key(&m[i]));
		if (names_listed(names, member_key(&m[i])))
			pai_v1_convert(r, &p, &m[i].value);
	}
	return m;
}

static void convert_ports(struct parse_context *r, const struct path *p, struct node *list)
{
	if (!node_is(list, NODE_LIST))
		return;
	struct node *v = copy_items(r->a, list);
	list->item = v;
	for (uint32_t i = 0; i < list->n; i++) {
		struct path one = PATH_INDEX(p, i);
		if (node_is(&v[i], NODE_MAP))
			(void)convert_members(r, &one, &v[i], PORT_NUMBERS);
	}
}

static void convert_role(struct parse_context *r, const struct path *p, struct node *role)
{
	if (!node_is(role, NODE_MAP))
		return;
	struct member *m = convert_members(r, p, role, ROLE_NUMBERS);
	struct path ports = PATH_KEY(p, SPAN("portList"));
	for (uint32_t i = 0; i < role->n; i++) {
		if (span_is(member_key(&m[i]), "portList"))
			convert_ports(r, &ports, &m[i].value);
	}
}

static void convert_roles(struct parse_context *r, struct node *list)
{
	struct path p = PATH_KEY(NULL, SPAN("taskRoles"));
	if (!node_is(list, NODE_LIST))
		return;
	struct node *v = copy_items(r->a, list);
	list->item = v;
	for (uint32_t i = 0; i < list->n; i++) {
		struct path one = PATH_INDEX(&p, i);
		convert_role(r, &one, &v[i]);
	}
}

const struct node *pai_v1_numbers(struct parse_context *r)
{
	struct node *root = arena_alloc(r->a, sizeof(*root));
	*root = *r->root;
	struct member *m = convert_members(r, NULL, root, JOB_NUMBERS);
	for (uint32_t i = 0; i < root->n; i++) {
		if (span_is(member_key(&m[i]), "taskRoles"))
			convert_roles(r, &m[i].value);
	}
	return root;
}

/* Environment, directories, and the lines before the command. */

enum { ENV_MAX = 256, VALUE_MAX = 131071, SOURCES = 3 };

/* ---- environment ---- */

struct env_reader {
	struct parse_context *r;
	struct env_var *v;
	size_t n;
};

/* p leads to the map. */
static bool name_allowed(struct parse_context *r, const struct path *p, const struct member *m)
{
	struct span name = member_key(m);
	if (!names_identifier_ok(name)) {
		parse_refuse_key(r, p, m, "is not a name of an environment variable");
		return false;
	}
	if (parse_env_reserved(r->set, name)) {
		parse_refuse_key(r, p, m, "is reserved and cannot be set");
		return false;
	}
	return true;
}

static void add_variable(struct env_reader *e, const struct path *p, const struct member *m)
{
	struct parse_context *r = e->r;
	struct span value = node_scalar(r->a, &m->value);
	if (!name_allowed(r, p->up, m))
		return;
	if (value.p == NULL) {
		parse_refuse(r, p, &m->value, "must be text, a number or a boolean");
		return;
	}
	if (kubernetes_escaped_size(value) + m->key_n + 1 > VALUE_MAX)
		parse_refuse(r, p, &m->value, "is longer than %d bytes", VALUE_MAX);
	if (span_find(value, 0, "{{FC_") != SIZE_MAX)
		parse_warn(r, p, &m->value, WARN_FC);
	size_t i = 0;
	while (i < e->n && !span_eq(e->v[i].name, member_key(m)))
		i++;
	e->v[i] = (struct env_var){ member_key(m), value };
	e->n += i == e->n;
}

static void add_map(struct env_reader *e, const struct path *p, const struct node *map)
{
	for (uint32_t i = 0; i < map->n; i++) {
		struct path one = PATH_KEY(p, member_key(&map->member[i]));
		add_variable(e, &one, &map->member[i]);
	}
}

static void v1_env_read(struct parse_context *r, struct role *role, const struct path *p,
                        const struct node *n)
{
	struct path paths[SOURCES] = {
		PATH_KEY(NULL, SPAN("jobEnvs")),
		PATH_KEY(NULL, SPAN("env")),
		PATH_KEY(p, SPAN("env")),
	};
	const struct node *maps[SOURCES] = {
		node_get(r->root, "jobEnvs"),
		node_get(r->root, "env"),
		node_get(n, "env"),
	};
	/* Mistakes in variables of the job are reported once, with the first role. */
	ERR_AUTO unheard = { 0 };
	NOTES_AUTO unread = { 0 };
	struct parse_context quiet = *r;
	quiet.e = &unheard;
	quiet.schema_notes = 0;
	quiet.warnings = &unread;
	struct env_reader e = { .v = ARENA_NEW(r->a, struct env_var, (size_t)SOURCES * ENV_MAX) };
	for (size_t i = 0; i < SOURCES; i++) {
		e.r = i < 2 && role->index > 0 ? &quiet : r;
		if (node_is(maps[i], NODE_MAP) && maps[i]->n > ENV_MAX)
			parse_refuse(e.r, &paths[i], maps[i], "at most %d variables, here are %u",
			             ENV_MAX, maps[i]->n);
		else if (node_is(maps[i], NODE_MAP))
			add_map(&e, &paths[i], maps[i]);
	}
	role->env = e.v;
	role->n_env = e.n;
}

/* ---- directories ---- */

static bool pai_v1_is_word(char c)
{
	return is_alnum(c) || c == '_';
}

struct substitution {
	const char *name;
	struct span value;
	bool once; /* only the first occurrence */
	bool done;
};

static struct substitution *find_name(struct substitution *s, size_t n, struct span t, size_t at)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(s[i].name);
		struct span rest = { t.p + at, t.n - at };
		if (!s[i].done && span_starts(rest, s[i].name) &&
		    (rest.n == len || !pai_v1_is_word(rest.p[len])))
			return &s[i];
	}
	return NULL;
}

static struct span substitute(struct parse_context *r, struct span t, struct str *out)
{
	struct substitution names[] = {
		{ "$PAI_DEFAULT_FS_URI", span_of(r->set->fs_uri ? r->set->fs_uri : ""), true,
		  false },
		{ "$PAI_JOB_NAME", r->job->name, false, false },
		{ "$PAI_USER_NAME", span_of(r->job->user), false, false },
		{ "$PAI_USERNAME", span_of(r->job->user), false, false },
	};
	for (size_t i = 0; i < t.n;) {
		struct substitution *s =
		    t.p[i] == '$' ? find_name(names, ARRAY_SIZE(names), t, i) : NULL;
		if (s == NULL) {
			str_char(out, t.p[i++]);
			continue;
		}
		str_span(out, s->value);
		s->done = s->once;
		i += strlen(s->name);
	}
	return arena_span(r->a, str_view(out));
}

static struct span read_directory(struct parse_context *r, const char *key)
{
	const struct node *n = node_get(r->root, key);
	struct path p = PATH_KEY(NULL, span_of(key));
	STR_AUTO out = STR_INIT(VALUE_MAX);
	if (!node_is(n, NODE_TEXT))
		return (struct span){ "", 0 };
	for (uint32_t i = 0; i < n->n; i++) {
		if ((unsigned char)n->text[i] < ' ' || n->text[i] == '\x7f') {
			parse_refuse(r, &p, n, "must be one line, without control characters");
			break;
		}
	}
	if (span_find(node_span(n), 0, "{{FC_") != SIZE_MAX)
		parse_warn(r, &p, n, WARN_FC);
	struct span text = substitute(r, node_span(n), &out);
	if (out.full || kubernetes_escaped_size(text) > VALUE_MAX)
		parse_refuse(r, &p, n, "is longer than %d bytes", VALUE_MAX);
	return text;
}

static void v1_directories_read(struct parse_context *r)
{
	r->job->data_dir = read_directory(r, "dataDir");
	r->job->output_dir = read_directory(r, "outputDir");
	r->job->code_dir = read_directory(r, "codeDir");
	struct path code = PATH_KEY(NULL, SPAN("codeDir"));
	if (r->job->code_dir.n && !r->set->fetch_code)
		parse_warn(r, &code, node_get(r->root, "codeDir"), WARN_CODE);
}

/* ---- before the command ---- */

/* pai-runtime sets PAI_TASK_ROLE_<number>_HOST_LIST for a role of that name. */
static bool is_named(const struct job *job, const char *number)
{
	for (size_t i = 0; i < job->n_roles; i++) {
		if (strcmp(job->roles[i].object_name, number) == 0)
			return true;
	}
	return false;
}

static struct span v1_command_prefix(struct parse_context *r)
{
	const struct job *job = r->job;
	STR_AUTO out = STR_INIT(r->set->max_command);
	for (size_t i = 0; i < job->n_roles; i++) {
		const char *number = arena_printf(r->a, "%zu", i);
		if (!is_named(job, number))
			str_printf(&out,
			           "export PAI_TASK_ROLE_%s_HOST_LIST=\"$PAI_TASK_ROLE_%s_HOST_LIST"
			           "\"\n",
			           number, job->roles[i].object_name);
	}
	if (r->set->fetch_code && job->code_dir.n)
		str_puts(&out, "if [ -n \"$PAI_CODE_DIR\" ]; then "
		               "hdfs dfs -copyToLocal \"$PAI_CODE_DIR\" code && cd code; fi\n");
	return arena_span(r->a, str_view(&out));
}

enum { V1_NOT_GIVEN = INT32_MIN };

/*
 * When the job ends. killAllOnCompletedTaskNumber K meant: succeed when K tasks of any roles have
 * succeeded, fail when one fails. A Framework counts per role, so the rules below never end a job
 * earlier than K did. They are exact if one role does the work and the others are servers.
 */

static bool any_given(const struct job *job)
{
	for (size_t i = 0; i < job->n_roles; i++) {
		if (job->roles[i].min_failed_given || job->roles[i].min_succeeded_given)
			return true;
	}
	return false;
}

/* Defaults: one failure ends the job; success of all is awaited. */
static void fill_defaults(struct job *job)
{
	for (size_t i = 0; i < job->n_roles; i++) {
		struct role *role = &job->roles[i];
		role->min_failed_given = role->min_failed != V1_NOT_GIVEN;
		role->min_succeeded_given = role->min_succeeded != V1_NOT_GIVEN;
		if (role->min_failed == V1_NOT_GIVEN)
			role->min_failed = 1;
		if (role->min_succeeded == V1_NOT_GIVEN)
			role->min_succeeded = -1;
	}
}

/* Every role with at least K instances ends the job after K successes. */
static void count_per_role(struct job *job)
{
	for (size_t i = 0; i < job->n_roles; i++) {
		if (job->roles[i].instances >= job->kill_all)
			job->roles[i].min_succeeded = job->kill_all;
	}
}

static void v1_completion_done(struct parse_context *r)
{
	static const struct int_field K = { "killAllOnCompletedTaskNumber", 0, INT32_MAX, 0 };
	struct job *job = r->job;
	const struct node *n = node_get(r->root, K.name);
	struct path p = PATH_KEY(NULL, span_of(K.name));
	bool given = any_given(job);
	job->kill_all = parse_int(r, NULL, r->root, &K);
	fill_defaults(job);
	if (job->kill_all == 0)
		return;
	if (given) {
		parse_warn(r, &p, n, WARN_KILL_GIVEN);
		return;
	}
	if (job->kill_all > job->total_tasks) {
		parse_refuse(r, &p, n, "must be at most %" PRId64 " (all tasks), is %" PRId64,
		             job->total_tasks, job->kill_all);
		return;
	}
	if (job->kill_all == job->total_tasks)
		return;
	count_per_role(job);
	if (job->n_roles > 1)
		parse_warn(r, &p, n, WARN_KILL_ROLES);
}

static const struct int_field RETRIES = { "retryCount", -2, INT32_MAX, 0 };
static const struct int_field CPU = { "cpuNumber", 1, INT32_MAX, 1 };
static const struct int_field MEMORY = { "memoryMB", 100, INT32_MAX, 100 };
static const struct int_field GPU = { "gpuNumber", 0, INT32_MAX, 0 };
static const struct int_field SHM = { "shmMB", 0, INT32_MAX, 0 };
static const struct int_field MIN_FAILED = { "minFailedTaskCount", -1, INT32_MAX, V1_NOT_GIVEN };
static const struct int_field MIN_SUCCEEDED = { "minSucceededTaskCount", -1, INT32_MAX,
	                                        V1_NOT_GIVEN };
static const struct int_field BEGIN_AT = { "beginAt", 0, 65535, 0 };

/* ---- ports ---- */

enum { LABELS_MAX = 256 }; /* per role; the check is quadratic */

/* Labels become part of variable names, which have no `.` or `~` and no leading digit. */
static struct span port_label(struct parse_context *r, const struct path *p, const struct node *n)
{
	struct span label = node_span(n);
	if (names_identifier_ok(label) || label.n == 0)
		return label;
	const char *name = names_variable(r->a, label);
	if (name[0] >= '0' && name[0] <= '9')
		name = arena_printf(r->a, "_%s", name);
	parse_warn(r, p, n, WARN_LABEL, name);
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

static int64_t port_count(struct parse_context *r, const struct path *p, const struct node *n,
                          struct span label)
{
	bool needed = span_is(label, "ssh") || span_is(label, "http");
	const struct int_field count = { "portNumber", needed ? 1 : 0,
		                         r->set->port_end - r->set->port_start, 1 };
	int64_t number = parse_int(r, p, n, &count);
	int64_t begin = parse_int(r, p, n, &BEGIN_AT);
	struct path at = PATH_KEY(p, span_of(BEGIN_AT.name));
	if (begin + number > 65536)
		parse_refuse(r, p, n, "beginAt + portNumber is beyond 65535");
	else if (begin)
		parse_warn(r, &at, node_get(n, BEGIN_AT.name), WARN_BEGIN_AT);
	struct path zero = PATH_KEY(p, span_of(count.name));
	if (node_get(n, count.name))
		parse_port_count(r, &zero, node_get(n, count.name), number);
	return number;
}

static void pai_v1_read_ports(struct parse_context *r, const struct path *role,
                              const struct node *n, struct role *out)
{
	struct path p = PATH_KEY(role, SPAN("portList"));
	const struct node *list = node_get(n, "portList");
	uint32_t count = node_is(list, NODE_LIST) ? list->n : 0;
	if (count > LABELS_MAX) {
		parse_refuse(r, &p, list, "at most %d labels, here are %u", LABELS_MAX, count);
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
			parse_refuse(r, &at, label, "%s is already used", quoted(r->a, name));
			continue;
		}
		v[out->n_ports++] = (struct port_request){ name, port_count(r, &one, port, name) };
	}
	parse_ports_done(r, out, &p, list, v);
}

/* ---- one role ---- */

static int64_t read_minimum(struct parse_context *r, const struct path *role, const struct node *n,
                            const struct int_field *f, int64_t instances)
{
	int64_t v = parse_int(r, role, n, f);
	struct path p = PATH_KEY(role, span_of(f->name));
	if (v == 0)
		parse_refuse(r, &p, node_get(n, f->name), "must not be 0");
	if (v > instances)
		parse_refuse(r, &p, node_get(n, f->name),
		             "must be at most taskNumber (%" PRId64 "), is %" PRId64, instances, v);
	return v;
}

static void pai_v1_read_resources(struct parse_context *r, const struct path *role,
                                  const struct node *n, struct role *out)
{
	out->cpu = parse_int(r, role, n, &CPU);
	out->memory_mb = parse_mebibytes(r, role, n, &MEMORY);
	out->gpu = parse_int(r, role, n, &GPU);
	out->shm_mb = parse_mebibytes(r, role, n, &SHM);
	struct path p = PATH_KEY(role, span_of(SHM.name));
	if (out->shm_mb > out->memory_mb)
		parse_refuse(r, &p, node_get(n, SHM.name),
		             "must be at most memoryMB (%" PRId64 "), is %" PRId64, out->memory_mb,
		             out->shm_mb);
}

static void pai_v1_read_role(void *context, const struct path *p, const struct node *n,
                             struct role *role)
{
	struct parse_context *r = context;
	const struct int_field tasks = { "taskNumber", 1, r->set->max_instances, 1 };
	struct path name = PATH_KEY(p, SPAN("name"));
	if (node_is(node_get(n, "name"), NODE_TEXT))
		parse_role_name(r, role, &name, node_get(n, "name"), parse_text(n, "name"));
	else
		role->object_name = role->variable = "";
	role->instances = parse_int(r, p, n, &tasks);
	role->min_failed = read_minimum(r, p, n, &MIN_FAILED, role->instances);
	role->min_succeeded = read_minimum(r, p, n, &MIN_SUCCEEDED, role->instances);
	role->min_failed_given = role->min_failed != V1_NOT_GIVEN;
	role->min_succeeded_given = role->min_succeeded != V1_NOT_GIVEN;
	role->task_fancy_retry = !r->job->gang;
	role->image = parse_text(r->root, "image");
	pai_v1_read_resources(r, p, n, role);
	pai_v1_read_ports(r, p, n, role);
	v1_env_read(r, role, p, n);
}

/* Warns of a role whose name is the position of another role. */
static void check_position(struct parse_context *r, const struct path *up, const struct node *n,
                           const struct role *role)
{
	char position[24];
	struct path p = PATH_KEY(up, SPAN("name"));
	for (size_t i = 0; role->name.n && i < r->job->n_roles; i++) {
		(void)snprintf(position, sizeof(position), "%zu", i);
		if (i != role->index && span_is(role->name, position))
			parse_warn(r, &p, node_get(n, "name"), WARN_POSITION, position, position);
	}
}

static void read_command(struct parse_context *r, const struct path *role, const struct node *n,
                         struct span prefix, struct role *out)
{
	struct path p = PATH_KEY(role, SPAN("command"));
	struct span own = parse_text(n, "command");
	char *text = arena_alloc(r->a, prefix.n + own.n + 1);
	memcpy(text, prefix.p, prefix.n);
	memcpy(text + prefix.n, own.p, own.n);
	text[prefix.n + own.n] = '\0';
	out->command = (struct span){ text, prefix.n + own.n };
	parse_command(r, out, &p, node_get(n, "command"));
}

static void pai_v1_read_roles(struct parse_context *r)
{
	struct job *job = r->job;
	const struct node *list = node_get(r->root, "taskRoles");
	struct path p = PATH_KEY(NULL, SPAN("taskRoles"));
	if (!parse_role_list(r, &p, list, pai_v1_read_role, r))
		return;
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

/* ---- the job ---- */

static void pai_v1_read_image(struct parse_context *r)
{
	struct path p = PATH_KEY(NULL, SPAN("image"));
	const struct node *n = node_get(r->root, "image");
	const char *problem = node_is(n, NODE_TEXT) ? names_image_problem(node_span(n)) : NULL;
	if (problem)
		parse_refuse(r, &p, n, "%s%s%s%s", n->n ? "\"" : "", quoted(r->a, node_span(n)),
		             n->n ? "\" " : "", problem);
}

/* gpuType, for templates that select nodes by it. */
static void read_gpu_type(struct parse_context *r)
{
	const struct node *n = node_get(r->root, "gpuType");
	struct path p = PATH_KEY(NULL, SPAN("gpuType"));
	if (!node_is(n, NODE_TEXT))
		return;
	r->job->gpu_type = node_span(n);
	if (n->n && !names_label_value_ok(node_span(n)))
		parse_refuse(r, &p, n,
		             "\"%s\" is no value of a label: at most 63 letters, digits, `-`, `_` "
		             "and `.`, a letter or digit at both ends",
		             quoted(r->a, node_span(n)));
}

/* Members of the job that have no effect or cannot be supported. */
static void check_unsupported(struct parse_context *r)
{
	const struct node *auth = node_get(r->root, "authFile");
	const struct node *gpu = r->gpu_type_used ? NULL : node_get(r->root, "gpuType");
	struct path auth_path = PATH_KEY(NULL, SPAN("authFile"));
	struct path gpu_path = PATH_KEY(NULL, SPAN("gpuType"));
	if (node_is(auth, NODE_TEXT) && auth->n)
		parse_refuse(r, &auth_path, auth,
		             "must be empty: files in HDFS cannot be read here; write a v2 job "
		             "with `auth` and `secrets`");
	if (node_is(gpu, NODE_TEXT) && gpu->n)
		parse_warn(r, &gpu_path, gpu, WARN_GPU_TYPE);
}

void pai_v1_read(struct parse_context *r)
{
	struct job *job = r->job;
	struct path retries = PATH_KEY(NULL, span_of(RETRIES.name));
	job->retry_max = parse_int(r, NULL, r->root, &RETRIES);
	job->retry_where = path_place(r->a, &retries, node_get(r->root, RETRIES.name));
	job->fancy_retry = job->retry_max != -2;
	struct path extras = PATH_KEY(NULL, SPAN("extras"));
	extras_read(r, &extras, node_get(r->root, "extras"));
	struct path distributed = PATH_KEY(&extras, SPAN("distributed"));
	if (node_get(r->job->extras, "distributed"))
		parse_warn(r, &distributed, node_get(r->job->extras, "distributed"),
		           WARN_DISTRIBUTED_V1);
	struct path vc = PATH_KEY(NULL, SPAN("virtualCluster"));
	parse_virtual_cluster(r, &vc, node_get(r->root, "virtualCluster"));
	pai_v1_read_image(r);
	read_gpu_type(r);
	check_unsupported(r);
	v1_directories_read(r);
	pai_v1_read_roles(r);
	v1_completion_done(r);
}
