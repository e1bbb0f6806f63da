/* Collects violations and warnings, and reads the members that several dialects have. */
#include "translate/reader/parse_context.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/image/image.h"
#include "base/str.h"
#include "translate/job/names.h"

/* ---- violations and warnings ---- */

void parse_report(struct parse_context *r, enum parse_report kind, struct place where,
                  const char *fmt, ...)
{
	FREE_AUTO char *text = NULL;
	va_list ap;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	va_end(ap);
	/* A schema violation at the same place is less exact: its message is replaced.  r->e has
	 * fewer notes while a context is silenced. */
	for (size_t i = r->doc_notes;
	     kind == PARSE_REFUSE && i < r->schema_notes && i < r->e->notes.n; i++) {
		struct note *n = &r->e->notes.v[i];
		if (n->at && strcmp(n->at, where.at) == 0) {
			free(n->msg);
			n->msg = text;
			text = NULL;
			return;
		}
	}
	/* Several roles may have the same line of a deployment: its warning is added once. */
	for (size_t i = 0; kind == PARSE_WARN && i < r->warnings->n; i++) {
		const struct note *n = &r->warnings->v[i];
		if (n->line == where.line && n->column == where.column && n->at &&
		    strcmp(n->at, where.at) == 0 && strcmp(n->msg, text) == 0)
			return;
	}
	if (kind == PARSE_WARN)
		notes_add(r->warnings, where, "%s", text);
	else
		(void)err_at(r->e, 400, r->code, where, "%s", text); /* -1: for callers that stop */
}

void parse_wrong_type(struct parse_context *r, const struct field *f, const char *want)
{
	parse_refuse(r, f, "must be %s, is %s", want, node_type_name(f->n));
}

/* ---- members ---- */

int64_t parse_number(struct parse_context *r, const struct field *f, const struct int_field *want)
{
	char is[NUMBER_MAX];
	double v = 0;
	if (node_is(f->n, NODE_INT) && f->n->integer >= want->min && f->n->integer <= want->max)
		return f->n->integer;
	if (node_is(f->n, NODE_INT)) {
		v = (double)f->n->integer;
		(void)snprintf(is, sizeof(is), "%" PRId64, f->n->integer);
	} else if (node_is(f->n, NODE_REAL)) {
		v = f->n->real;
		(void)number_text(is, v); /* the length is not needed */
	} else {
		return want->absent;
	}
	if (!isfinite(v))
		parse_refuse(r, f, "is not a finite number");
	else if (v < (double)want->min)
		parse_refuse(r, f, "must be at least %" PRId64 ", is %s", want->min, is);
	else if (v > (double)want->max)
		parse_refuse(r, f, "must be at most %" PRId64 ", is %s", want->max, is);
	return want->absent;
}

int64_t parse_int(struct parse_context *r, const struct field *map, const struct int_field *want)
{
	struct field f = field_get(map, want->name);
	return parse_number(r, &f, want);
}

/* MiB of a text with a unit (8Gi, 512 MB, 1t); 0 if it has another form. */
static long long mebibytes_of(struct span text)
{
	static const struct {
		char letter;
		int shift;
	} UNITS[] = { { 'm', 0 }, { 'g', 10 }, { 't', 20 } };
	enum { DIGITS_MAX = 6 };
	long long v = 0;
	size_t i = 0;
	for (; i < text.n && i < DIGITS_MAX && is_digit(text.p[i]); i++)
		v = 10 * v + (text.p[i] - '0');
	if (i == 0)
		return 0;
	struct span unit = span_trim((struct span){ text.p + i, text.n - i });
	char end[4] = "";
	for (size_t k = 0; k < unit.n && k < 3; k++)
		end[k] = (char)(unit.p[k] | 0x20);
	bool known = unit.n < 4 && (end[1] == '\0' || strcmp(end + 1, "i") == 0 ||
	                            strcmp(end + 1, "b") == 0 || strcmp(end + 1, "ib") == 0);
	for (size_t k = 0; known && k < ARRAY_SIZE(UNITS); k++)
		if (end[0] == UNITS[k].letter)
			return v << UNITS[k].shift;
	return 0;
}

int64_t parse_mebibytes(struct parse_context *r, const struct field *map,
                        const struct int_field *want)
{
	struct field f = field_get(map, want->name);
	long long meant = mebibytes_of(field_text(&f));
	if (meant)
		parse_refuse(r, &f, "must be an integer, is text \"%s\": it counts MiB, write %lld",
		             arena_quoted(r->a, node_span(f.n)), meant);
	return parse_number(r, &f, want);
}

struct span parse_text(const struct node *map, const char *key)
{
	const struct node *n = node_get(map, key);
	return node_is(n, NODE_TEXT) ? node_span(n) : (struct span){ "", 0 };
}

bool parse_is_true(const struct node *map, const char *key)
{
	const struct node *n = node_get(map, key);
	return node_is(n, NODE_BOOL) && n->boolean;
}

void parse_image(struct parse_context *r, const struct field *image)
{
	const struct node *n = image->n;
	const char *problem = node_is(n, NODE_TEXT) ? image_problem(node_span(n)) : NULL;
	if (problem)
		parse_refuse(r, image, "%s%s%s%s", n->n ? "\"" : "",
		             arena_quoted(r->a, node_span(n)), n->n ? "\" " : "", problem);
}

void parse_virtual_cluster(struct parse_context *r, const struct field *f)
{
	struct job *job = r->job;
	struct span vc = field_text(f);
	job->virtual_cluster = SPAN("default");
	job->virtual_cluster_where = field_place(r->a, f);
	if (vc.n > LABEL_MAX)
		parse_refuse(r, f, "must have at most %d characters, has %zu", LABEL_MAX, vc.n);
	else if (vc.n && !names_label_value_ok(vc))
		parse_refuse(r, f,
		             "\"%s\" is not a Kubernetes label value (letters, digits and "
		             "-_. in between)",
		             arena_quoted(r->a, vc));
	else if (vc.n)
		job->virtual_cluster = vc;
}

/* ---- roles ---- */

struct role *parse_role_find(const struct job *job, struct span name)
{
	for (size_t i = 0; i < job->n_roles; i++) {
		if (span_eq(job->roles[i].name, name))
			return &job->roles[i];
	}
	return NULL;
}

void parse_role_name(struct parse_context *r, struct role *role, const struct field *f,
                     struct span name)
{
	role->name = name;
	role->where = field_place(r->a, f);
	role->object_name = names_role_object(r->a, name);
	role->variable = names_variable(r->a, name);
	size_t len = strlen(role->object_name);
	if (len == 0)
		parse_refuse(r, f,
		             "the name \"%s\" becomes empty: Kubernetes takes only lower case "
		             "letters and digits of it",
		             arena_quoted(r->a, name));
	else if (len > LABEL_MAX)
		parse_refuse(r, f,
		             "the name \"%s\" has %zu letters and digits; at most %d are "
		             "allowed",
		             arena_quoted(r->a, name), len, LABEL_MAX);
}

/* Names that collide in the Framework or in names of variables: neighbours after sorting. */
struct named_role {
	const char *text;
	const struct role *role;
};

static int parse_context_compare(const void *a, const void *b)
{
	const struct named_role *x = a;
	const struct named_role *y = b;
	int c = strcmp(x->text, y->text);
	return c ? c : (x->role->index > y->role->index) - (x->role->index < y->role->index);
}

static void check_spellings(struct parse_context *r, struct named_role *v, size_t n)
{
	qsort(v, n, sizeof(*v), parse_context_compare);
	for (size_t i = 1; i < n; i++) {
		if (*v[i].text == '\0' || strcmp(v[i - 1].text, v[i].text) != 0)
			continue;
		(void)err_at(r->e, 400, r->code, v[i].role->where, "roles %s and %s both become %s",
		             arena_quoted(r->a, v[i - 1].role->name),
		             arena_quoted(r->a, v[i].role->name), v[i].text);
	}
}

void parse_roles_done(struct parse_context *r, const struct field *roles)
{
	struct job *job = r->job;
	struct named_role *v = ARENA_NEW(r->a, struct named_role, job->n_roles);
	int before = r->e->http;
	for (size_t i = 0; i < job->n_roles; i++) {
		const struct role *role = &job->roles[i];
		v[i] = (struct named_role){ role->object_name, role };
		job->total_tasks += role->instances;
		job->total_gpu += role->gpu * role->instances; /* below 2^31 * 10000 * 256 */
	}
	check_spellings(r, v, job->n_roles);
	if (r->e->http == before && job->dialect->old_env) {
		for (size_t i = 0; i < job->n_roles; i++)
			v[i].text = v[i].role->variable;
		check_spellings(r, v, job->n_roles);
	}
	if (job->total_tasks > r->set->max_tasks)
		parse_refuse(r, roles, "at most %" PRId64 " tasks in all, here are %" PRId64,
		             r->set->max_tasks, job->total_tasks);
}

bool parse_roles_fit(struct parse_context *r, const struct field *roles)
{
	if (roles->n->n <= r->set->max_roles)
		return true;
	parse_refuse(r, roles, "at most %" PRId64 " task roles, here are %u", r->set->max_roles,
	             roles->n->n);
	return false;
}

bool parse_role_list(struct parse_context *r, const struct field *list, role_reader *read,
                     void *context)
{
	struct job *job = r->job;
	if (!node_is(list->n, NODE_LIST) || !parse_roles_fit(r, list))
		return false;
	job->roles = ARENA_NEW(r->a, struct role, list->n->n);
	job->n_roles = list->n->n;
	for (uint32_t i = 0; i < list->n->n; i++) {
		struct field one = field_item(list, i);
		job->roles[i].index = i;
		read(context, &one, &job->roles[i]);
	}
	parse_roles_done(r, list);
	return true;
}

void parse_command(struct parse_context *r, struct role *role, const struct field *f)
{
	static const char *const OURS[] = { "$parameters", "$secrets", "$script", "$output",
		                            "$data" };
	struct span command = role->command;
	r->rendered += command.n;
	if (kubernetes_escaped_size(command) > r->set->max_command)
		parse_refuse(r, f, "the command is longer than %zu bytes", r->set->max_command);
	else if (r->rendered > r->set->max_rendered)
		parse_refuse(r, f, "all commands together are longer than %zu bytes",
		             r->set->max_rendered);
	/* Placeholders of other systems. */
	for (size_t i = 0; (i = span_find(command, i, "{{")) != SIZE_MAX; i++) {
		struct span in = span_from(command, i + 2);
		if (span_starts(in, "FC_"))
			parse_warn(r, f, WARN_FC);
		in = span_trim(in);
		for (size_t k = 0; r->job->dialect->placeholders && k < ARRAY_SIZE(OURS); k++)
			if (span_starts(in, OURS[k]))
				parse_warn(r, f, "{{ $... }} is not filled in; write <%% $... %%>");
	}
}

/* ---- ports ---- */

int64_t parse_port_count(struct parse_context *r, const struct field *f, struct span label)
{
	enum { MANY = 20 }; /* jobs have 1, 2 or 3 */
	bool needed = span_is(label, "ssh") || span_is(label, "http");
	const struct int_field want = { "", needed, r->set->port_end - r->set->port_start, 1 };
	int64_t count = parse_number(r, f, &want);
	if (count == 0)
		parse_warn(r, f, "is 0: no port is found for this label");
	else if (count >= MANY)
		parse_warn(r, f,
		           "%lld ports of each task are reserved for this label: the number says "
		           "how many, not which; ports are chosen by the system",
		           (long long)count);
	return count;
}

void parse_ports_fit(struct parse_context *r, const struct role *role, int64_t more,
                     struct place where)
{
	int64_t sum = 0;
	int64_t range = r->set->port_end - r->set->port_start;
	for (size_t i = 0; i < role->n_ports; i++)
		sum += role->ports[i].count;
	if (sum > range && (more == 0 || sum - more <= range))
		parse_report(r, PARSE_REFUSE, where,
		             "at most %" PRId64 " ports per task, here are %" PRId64 " with %s",
		             range, sum,
		             more ? "ssh, http and that of extras.distributed" : "ssh and http");
}

void parse_ports_done(struct parse_context *r, struct role *role, const struct field *f,
                      struct port_request *ports)
{
	static const char *const ALWAYS[] = { "ssh", "http" };
	size_t count = role->n_ports;
	for (size_t k = 0; k < 2; k++) {
		bool found = false;
		for (size_t i = 0; i < role->n_ports && !found; i++)
			found = span_is(ports[i].label, ALWAYS[k]);
		if (!found)
			ports[count++] = (struct port_request){ span_of(ALWAYS[k]), 1 };
	}
	role->ports = ports;
	role->n_ports = count;
	parse_ports_fit(r, role, 0, field_place(r->a, f));
}

/* ---- environment ---- */

/* Names that the job must not set: the server, pai-runtime or the device plugins own them. */
static const char *const RESERVED[] = {
	"PAI_*",
	"FC_*",
	"KUBERNETES_*",
	"NVIDIA_VISIBLE_DEVICES",
	"NVIDIA_DRIVER_CAPABILITIES",
	"NVIDIA_IMEX_CHANNELS",
	"NVIDIA_MIG_*",
	"HIVED_VISIBLE_DEVICES",
	"ASCEND_VISIBLE_DEVICES",
	"HABANA_VISIBLE_DEVICES",
	"ROCR_VISIBLE_DEVICES",
	"HIP_VISIBLE_DEVICES",
	"AMD_VISIBLE_DEVICES",
	NULL,
};

/* The exception: the runtime of 2019 read a key from it. */
static const char SSH_KEY[] = "PAI_SSH_PUB_KEY";

bool parse_listed(const char *const *list, struct span name)
{
	for (; *list; list++) {
		size_t n = strlen(*list);
		bool prefix = (*list)[n - 1] == '*';
		n -= prefix;
		if (name.n >= n && memcmp(name.p, *list, n) == 0 && (prefix || name.n == n))
			return true;
	}
	return false;
}

bool parse_env_reserved(const struct settings *set, struct span name)
{
	bool reserved = parse_listed(RESERVED, name);
	for (struct span rest = span_of(set->hived_device_env); !reserved && rest.n;)
		reserved = span_eq(span_next(&rest, ','), name);
	return reserved && !span_is(name, SSH_KEY);
}

bool parse_secret_env_reserved(const struct settings *set, struct span name)
{
	static const char *const PROGRAMS[] = { "PATH", "LD_*", NULL };
	return parse_listed(PROGRAMS, name) || parse_env_reserved(set, name);
}

size_t parse_env(struct parse_context *r, const struct field *map, struct env_var *v, size_t n)
{
	uint32_t members = field_members(map);
	if (members > ENV_MAX)
		parse_refuse(r, map, "at most %d variables, here are %u", ENV_MAX, members);
	for (uint32_t i = 0; members <= ENV_MAX && i < members; i++) {
		const struct member *m = &map->n->member[i];
		struct field f = field_member(map, i);
		struct span name = member_key(m);
		struct span value = node_scalar(r->a, f.n);
		if (!names_identifier_ok(name)) {
			parse_refuse_key(r, map, m, "is not a name of an environment variable");
			continue;
		}
		if (parse_env_reserved(r->set, name)) {
			parse_refuse_key(r, map, m, "is reserved and cannot be set");
			continue;
		}
		if (value.p == NULL) {
			parse_refuse(r, &f, "must be text, a number or a boolean");
			continue;
		}
		if (kubernetes_escaped_size(value) + name.n + 1 > ENV_VALUE_MAX)
			parse_refuse(r, &f, "is longer than %d bytes", ENV_VALUE_MAX);
		if (span_find(value, 0, "{{FC_") != SIZE_MAX)
			parse_warn(r, &f, WARN_FC);
		size_t at = 0;
		while (at < n && !span_eq(v[at].name, name))
			at++;
		v[at] = (struct env_var){ name, value };
		n += at == n;
	}
	return n;
}
