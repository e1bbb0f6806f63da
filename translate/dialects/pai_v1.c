/* Jobs of the first generation (JSON, all variants of its years): one image for all roles, roles
 * as a list. */
#include <inttypes.h>

#include "base/enc.h"
#include "base/str.h"
#include "translate/dialects/dialects.h"
#include "translate/job/names.h"
#include "translate/reader/parse_context.h"

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

/* The mappings of a job, from the outside in. */
static const struct {
	const char *const *numbers;
	const char *list; /* of mappings of the next level; NULL: none */
} LEVELS[] = { { JOB_NUMBERS, "taskRoles" }, { ROLE_NUMBERS, "portList" }, { PORT_NUMBERS, NULL } };

/* Copies the mapping with numbers in the place of numeric texts, and the lists on the way to them.
 * There are three levels.  NOLINTNEXTLINE(misc-no-recursion) */
static struct node v1_numbers_of(struct parse_context *r, const struct field *map, size_t level)
{
	struct node out = *map->n;
	struct member *m = ARENA_NEW(r->a, struct member, out.n + 1);
	out.member = m;
	for (uint32_t i = 0; i < out.n; i++) {
		struct field f = field_member(map, i);
		struct span key = member_key(&map->n->member[i]);
		int64_t v;
		m[i] = map->n->member[i];
		if (names_listed(LEVELS[level].numbers, key) && node_is(f.n, NODE_TEXT) &&
		    f.n->n <= DIGITS_MAX &&
		    parse_i64(node_span(f.n), INT64_MIN, INT64_MAX, &v) == 0) {
			parse_warn(r, &f, "is text; it is taken as the number %lld", (long long)v);
			m[i].value.type = NODE_INT;
			m[i].value.integer = v;
			m[i].value.n = 0;
		}
		if (!LEVELS[level].list || !span_is(key, LEVELS[level].list) || !field_items(&f))
			continue;
		struct node *item = ARENA_NEW(r->a, struct node, f.n->n);
		m[i].value.item = item;
		for (uint32_t k = 0; k < f.n->n; k++) {
			struct field one = field_item(&f, k);
			item[k] =
			    node_is(one.n, NODE_MAP) ? v1_numbers_of(r, &one, level + 1) : *one.n;
		}
	}
	return out;
}

const struct node *pai_v1_numbers(struct parse_context *r)
{
	struct node *root = ARENA_NEW(r->a, struct node, 1);
	*root = v1_numbers_of(r, TOP(r), 0);
	return root;
}

/* Environment, directories, and the lines before the command. */

enum { SOURCES = 3 };

/* ---- environment ---- */

static void v1_env_read(struct parse_context *r, struct role *role, const struct field *its)
{
	/* The variables of the role replace those of the job. */
	const struct field maps[SOURCES] = {
		field_get(TOP(r), "jobEnvs"),
		field_get(TOP(r), "env"),
		field_get(its, "env"),
	};
	/* Mistakes in variables of the job are reported once, with the first role. */
	ERR_AUTO unheard = { 0 };
	NOTES_AUTO unread = { 0 };
	struct parse_context quiet = *r;
	quiet.e = &unheard;
	quiet.schema_notes = 0;
	quiet.warnings = &unread;
	struct env_var *v = ARENA_NEW(r->a, struct env_var, (size_t)SOURCES * ENV_MAX);
	role->env = v;
	for (size_t i = 0; i < SOURCES; i++)
		role->n_env =
		    parse_env(i < 2 && role->index > 0 ? &quiet : r, &maps[i], v, role->n_env);
}

/* ---- directories ---- */

/* Fills in the names that the first servers knew. */
static struct span v1_substitute_names(struct parse_context *r, struct span t, struct str *out)
{
	struct {
		const char *name;
		struct span value;
		bool once; /* only the first occurrence */
	} names[] = {
		{ "$PAI_DEFAULT_FS_URI", span_of(r->set->fs_uri), true },
		{ "$PAI_JOB_NAME", r->job->name, false },
		{ "$PAI_USER_NAME", span_of(r->job->user), false },
		{ "$PAI_USERNAME", span_of(r->job->user), false },
	};
	bool uri_done = false;
	for (size_t i = 0; i < t.n;) {
		struct span rest = span_from(t, i);
		size_t k = t.p[i] == '$' ? 0 : ARRAY_SIZE(names);
		size_t len = 0;
		for (; k < ARRAY_SIZE(names); k++) {
			len = strlen(names[k].name);
			if (!span_starts(rest, names[k].name) || (names[k].once && uri_done))
				continue;
			if (rest.n == len || !(is_alnum(rest.p[len]) || rest.p[len] == '_'))
				break;
		}
		if (k == ARRAY_SIZE(names)) {
			str_char(out, t.p[i++]);
			continue;
		}
		str_span(out, names[k].value);
		uri_done = uri_done || names[k].once;
		i += len;
	}
	return arena_span(r->a, str_view(out));
}

static struct span read_directory(struct parse_context *r, const char *key)
{
	struct field f = field_get(TOP(r), key);
	struct span text = field_text(&f);
	STR_AUTO out = STR_INIT(ENV_VALUE_MAX);
	for (size_t i = 0; i < text.n; i++) {
		if ((unsigned char)text.p[i] < ' ' || text.p[i] == '\x7f') {
			parse_refuse(r, &f, "must be one line, without control characters");
			break;
		}
	}
	if (span_find(text, 0, "{{FC_") != SIZE_MAX)
		parse_warn(r, &f, WARN_FC);
	text = v1_substitute_names(r, text, &out);
	if (out.full || kubernetes_escaped_size(text) > ENV_VALUE_MAX)
		parse_refuse(r, &f, "is longer than %d bytes", ENV_VALUE_MAX);
	return text;
}

/* ---- before the command ---- */

static struct span v1_command_prefix(struct parse_context *r)
{
	const struct job *job = r->job;
	STR_AUTO out = STR_INIT(r->set->max_command);
	for (size_t i = 0; i < job->n_roles; i++) {
		const char *number = arena_printf(r->a, "%zu", i);
		/* pai-runtime sets PAI_TASK_ROLE_<number>_HOST_LIST for a role of that name. */
		bool named = false;
		for (size_t k = 0; k < job->n_roles && !named; k++)
			named = strcmp(job->roles[k].object_name, number) == 0;
		if (!named)
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
 * Sets the completion policy. killAllOnCompletedTaskNumber K meant: succeed when K tasks of any
 * roles have succeeded, fail when one fails. A Framework counts per role, so the rules below never
 * end a job earlier than K did. They are exact if one role does the work and the others are
 * servers.
 */
static void v1_completion_done(struct parse_context *r)
{
	static const struct int_field K = { "killAllOnCompletedTaskNumber", 0, INT32_MAX, 0 };
	struct job *job = r->job;
	struct field k = field_get(TOP(r), K.name);
	bool given = false;
	job->kill_all = parse_number(r, &k, &K);
	/* Defaults: one failure ends the job; success of all is awaited. */
	for (size_t i = 0; i < job->n_roles; i++) {
		struct role *role = &job->roles[i];
		given = given || role->min_failed_given || role->min_succeeded_given;
		role->min_failed = role->min_failed_given ? role->min_failed : 1;
		role->min_succeeded = role->min_succeeded_given ? role->min_succeeded : -1;
	}
	if (job->kill_all == 0)
		return;
	if (given) {
		parse_warn(r, &k,
		           "is ignored: task roles have their own minFailedTaskCount or "
		           "minSucceededTaskCount");
		return;
	}
	if (job->kill_all > job->total_tasks) {
		parse_refuse(r, &k, "must be at most %" PRId64 " (all tasks), is %" PRId64,
		             job->total_tasks, job->kill_all);
		return;
	}
	if (job->kill_all == job->total_tasks)
		return;
	/* Every role with at least K instances ends the job after K successes. */
	for (size_t i = 0; i < job->n_roles; i++) {
		if (job->roles[i].instances >= job->kill_all)
			job->roles[i].min_succeeded = job->kill_all;
	}
	if (job->n_roles > 1)
		parse_warn(r, &k, "counts per task role here");
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
static struct span port_label(struct parse_context *r, const struct field *f)
{
	struct span label = node_span(f->n);
	if (names_identifier_ok(label) || label.n == 0)
		return label;
	const char *name = names_variable(r->a, label);
	if (is_digit(name[0]))
		name = arena_printf(r->a, "_%s", name);
	parse_warn(r, f, "becomes %s in names of variables", name);
	return span_of(name);
}

static int64_t port_count(struct parse_context *r, const struct field *port, struct span label)
{
	struct field f = field_get(port, "portNumber");
	struct field first = field_get(port, BEGIN_AT.name);
	int64_t number = parse_port_count(r, &f, label);
	int64_t begin = parse_number(r, &first, &BEGIN_AT);
	if (begin + number > 65536)
		parse_refuse(r, port, "beginAt + portNumber is beyond 65535");
	else if (begin)
		parse_warn(r, &first, "is ignored: ports are chosen by the system");
	return number;
}

static void pai_v1_read_ports(struct parse_context *r, const struct field *role, struct role *out)
{
	struct field list = field_get(role, "portList");
	uint32_t count = field_items(&list);
	if (count > LABELS_MAX) {
		parse_refuse(r, &list, "at most %d labels, here are %u", LABELS_MAX, count);
		count = 0;
	}
	struct port_request *v = ARENA_NEW(r->a, struct port_request, count + 2);
	for (uint32_t i = 0; i < count; i++) {
		struct field port = field_item(&list, i);
		struct field label = field_get(&port, "label");
		if (!node_is(label.n, NODE_TEXT))
			continue;
		struct span name = port_label(r, &label);
		size_t used = 0;
		while (used < out->n_ports && !span_eq(v[used].label, name))
			used++;
		if (used < out->n_ports)
			parse_refuse(r, &label, "%s is already used", arena_quoted(r->a, name));
		else
			v[out->n_ports++] =
			    (struct port_request){ name, port_count(r, &port, name) };
	}
	parse_ports_done(r, out, &list, v);
}

/* ---- one role ---- */

static int64_t read_minimum(struct parse_context *r, const struct field *role,
                            const struct int_field *want, int64_t instances)
{
	struct field f = field_get(role, want->name);
	int64_t v = parse_number(r, &f, want);
	if (v == 0)
		parse_refuse(r, &f, "must not be 0");
	if (v > instances)
		parse_refuse(r, &f, "must be at most taskNumber (%" PRId64 "), is %" PRId64,
		             instances, v);
	return v;
}

static void pai_v1_read_role(void *context, const struct field *its, struct role *role)
{
	struct parse_context *r = context;
	const struct int_field tasks = { "taskNumber", 1, r->set->max_instances, 1 };
	struct field name = field_get(its, "name");
	struct field shm = field_get(its, SHM.name);
	if (node_is(name.n, NODE_TEXT))
		parse_role_name(r, role, &name, node_span(name.n));
	else
		role->object_name = role->variable = "";
	role->instances = parse_int(r, its, &tasks);
	role->min_failed = read_minimum(r, its, &MIN_FAILED, role->instances);
	role->min_succeeded = read_minimum(r, its, &MIN_SUCCEEDED, role->instances);
	role->min_failed_given = role->min_failed != V1_NOT_GIVEN;
	role->min_succeeded_given = role->min_succeeded != V1_NOT_GIVEN;
	role->task_fancy_retry = !r->job->gang;
	role->image = parse_text(r->root, "image");
	role->cpu = parse_int(r, its, &CPU);
	role->memory_mb = parse_mebibytes(r, its, &MEMORY);
	role->gpu = parse_int(r, its, &GPU);
	role->shm_mb = parse_mebibytes(r, its, &SHM);
	if (role->shm_mb > role->memory_mb)
		parse_refuse(r, &shm, "must be at most memoryMB (%" PRId64 "), is %" PRId64,
		             role->memory_mb, role->shm_mb);
	pai_v1_read_ports(r, its, role);
	v1_env_read(r, role, its);
}

static void pai_v1_read_roles(struct parse_context *r)
{
	struct job *job = r->job;
	struct field list = field_get(TOP(r), "taskRoles");
	if (!parse_role_list(r, &list, pai_v1_read_role, r))
		return;
	/* Warns of roles whose names are the positions of others. */
	for (uint32_t i = 0; i < list.n->n; i++) {
		struct field one = field_item(&list, i);
		struct field name = field_get(&one, "name");
		struct span text = job->roles[i].name;
		for (size_t k = 0; text.n && is_digit(text.p[0]) && k < job->n_roles; k++) {
			const char *position = arena_printf(r->a, "%zu", k);
			if (k != i && span_is(text, position))
				parse_warn(r, &name,
				           "PAI_TASK_ROLE_%s_HOST_LIST has the tasks of this role, "
				           "not of that at position %s; give the role another name",
				           position, position);
		}
	}
	struct span prefix = v1_command_prefix(r);
	for (uint32_t i = 0; i < list.n->n && r->rendered <= r->set->max_rendered; i++) {
		struct field one = field_item(&list, i);
		struct field command = field_get(&one, "command");
		struct span own = field_text(&command);
		job->roles[i].command = span_of(
		    arena_printf(r->a, "%.*s%.*s", (int)prefix.n, prefix.p, (int)own.n, own.p));
		parse_command(r, &job->roles[i], &command);
	}
}

/* ---- the job ---- */

/* gpuType is for templates that select nodes by it; members that have no effect or cannot be
 * supported. */
static void pai_v1_read_others(struct parse_context *r)
{
	struct job *job = r->job;
	struct field image = field_get(TOP(r), "image");
	struct field gpu = field_get(TOP(r), "gpuType");
	struct field auth = field_get(TOP(r), "authFile");
	struct field code = field_get(TOP(r), "codeDir");
	parse_image(r, &image);
	if (node_is(gpu.n, NODE_TEXT))
		job->gpu_type = node_span(gpu.n);
	if (job->gpu_type.n && !names_label_value_ok(job->gpu_type))
		parse_refuse(r, &gpu,
		             "\"%s\" is no value of a label: at most 63 letters, digits, `-`, `_` "
		             "and `.`, a letter or digit at both ends",
		             arena_quoted(r->a, job->gpu_type));
	if (field_text(&auth).n)
		parse_refuse(r, &auth,
		             "must be empty: files in HDFS cannot be read here; write a v2 job "
		             "with `auth` and `secrets`");
	if (job->gpu_type.n && !r->gpu_type_used)
		parse_warn(r, &gpu, "is ignored: nodes are not chosen by it");
	job->data_dir = read_directory(r, "dataDir");
	job->output_dir = read_directory(r, "outputDir");
	job->code_dir = read_directory(r, "codeDir");
	if (job->code_dir.n && !r->set->fetch_code)
		parse_warn(
		    r, &code,
		    "is not copied into the container; the variable PAI_CODE_DIR has its name");
}

void pai_v1_read(struct parse_context *r)
{
	struct job *job = r->job;
	struct field retries = field_get(TOP(r), RETRIES.name);
	struct field extras = field_get(TOP(r), "extras");
	struct field distributed = field_get(&extras, "distributed");
	struct field env = field_get(&extras, "env");
	struct field code = field_get(&extras, "code");
	struct field vc = field_get(TOP(r), "virtualCluster");
	job->retry_max = parse_number(r, &retries, &RETRIES);
	job->retry_where = field_place(r->a, &retries);
	job->fancy_retry = job->retry_max != -2;
	extras_read(r);
	if (distributed.n)
		parse_warn(
		    r, &distributed,
		    "has no effect in v1 jobs; `rest-lit convert` writes the job as a v2 job");
	if (env.n)
		parse_warn(r, &env, "has no effect in v1 jobs; write `jobEnvs` beside `extras`");
	if (code.n)
		parse_refuse(r, &code,
		             "v1 jobs cannot have code: write the job as a v2 job, as "
		             "`rest-lit convert` does");
	parse_virtual_cluster(r, &vc);
	pai_v1_read_others(r);
	pai_v1_read_roles(r);
	v1_completion_done(r);
}
