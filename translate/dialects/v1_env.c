/*
 * v1: what goes into the container besides the command.  Environment of the job and
 * the role, directories, and the lines before the command.
 */
#include <inttypes.h>
#include <math.h>

#include "base/chars.h"
#include "base/enc.h"
#include "translate/dialects/dollar.h"
#include "translate/dialects/v1.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

enum { ENV_MAX = 256, VALUE_MAX = 131071, SOURCES = 3 };

/* Names that the job must not set: the server and the runtime do, or they decide about the pod. */
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

/* The one of them that jobs have always set: the runtime of 2019 took a key from it. */
static const char SSH_KEY[] = "PAI_SSH_PUB_KEY";

/* Is the name in the list, where a final `*` stands for anything? */
static bool matches(const char *const *list, struct span name)
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

/* ---- environment -------------------------------------------------------------------------- */

struct env_reader {
	struct reading *r;
	struct env_var *v;
	size_t n;
};

/* A value as text: numbers and booleans as JSON has them.  p is NULL for other types. */
static struct span value_text(struct arena *a, const struct node *n)
{
	char buf[NUMBER_MAX];
	switch ((enum node_type)n->type) {
	case NODE_BOOL:
		return n->boolean ? SPAN("true") : SPAN("false");
	case NODE_INT:
		return span_of(arena_printf(a, "%" PRId64, n->integer));
	case NODE_REAL:
		if (!isfinite(n->real))
			break;
		return arena_span(a, (struct span){ buf, number_text(buf, n->real) });
	case NODE_TEXT:
	case NODE_DATE:
		return node_span(n);
	case NODE_NULL:
	case NODE_LIST:
	case NODE_MAP:
	case NODE_TYPE_MAX:
		break;
	}
	return (struct span){ NULL, 0 };
}

/* Is it in a list of names with commas? */
static bool is_listed(const char *list, struct span name)
{
	for (size_t n; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (span_eq((struct span){ list, n }, name))
			return true;
	}
	return false;
}

/* p leads to the map. */
static bool name_allowed(struct reading *r, const struct path *p, const struct member *m)
{
	struct span name = member_key(m);
	if (!names_identifier_ok(name)) {
		reading_refuse_key(r, p, m, "is not a name of an environment variable");
		return false;
	}
	bool reserved = matches(RESERVED, name) || is_listed(r->set->hived_device_env, name);
	if (reserved && !span_is(name, SSH_KEY)) {
		reading_refuse_key(r, p, m, "is reserved and cannot be set");
		return false;
	}
	return true;
}

static void add_variable(struct env_reader *e, const struct path *p, const struct member *m)
{
	struct reading *r = e->r;
	struct span value = value_text(r->a, &m->value);
	if (!name_allowed(r, p->up, m))
		return;
	if (value.p == NULL) {
		reading_refuse(r, p, &m->value, "must be text, a number or a boolean");
		return;
	}
	if (dollar_escaped_size(value) + m->key_n + 1 > VALUE_MAX)
		reading_refuse(r, p, &m->value, "is longer than %d bytes", VALUE_MAX);
	if (span_find(value, 0, "{{FC_") != SIZE_MAX)
		reading_warn(r, p, &m->value, WARN_FC);
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

void v1_env_read(struct reading *r, struct role *role, const struct path *p, const struct node *n)
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
	/* What is wrong with the job's own is said once, with the first role. */
	ERR_AUTO unheard = { 0 };
	NOTES_AUTO unread = { 0 };
	struct reading quiet = *r;
	quiet.e = &unheard;
	quiet.schema_notes = 0;
	quiet.warnings = &unread;
	struct env_reader e = { .v = ARENA_NEW(r->a, struct env_var, (size_t)SOURCES * ENV_MAX) };
	for (size_t i = 0; i < SOURCES; i++) {
		e.r = i < 2 && role->index > 0 ? &quiet : r;
		if (node_is(maps[i], NODE_MAP) && maps[i]->n > ENV_MAX)
			reading_refuse(e.r, &paths[i], maps[i], "at most %d variables, here are %u",
			               ENV_MAX, maps[i]->n);
		else if (node_is(maps[i], NODE_MAP))
			add_map(&e, &paths[i], maps[i]);
	}
	role->env = e.v;
	role->n_env = e.n;
}

/* ---- directories ------------------------------------------------------------------------------
 */

static bool is_word(char c)
{
	return is_alnum(c) || c == '_';
}

/* A name of $PAI_..., and what it becomes. */
struct substitution {
	const char *name;
	struct span value;
	bool once; /* only the first one in the text */
	bool done;
};

static struct substitution *find_name(struct substitution *s, size_t n, struct span t, size_t at)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(s[i].name);
		struct span rest = { t.p + at, t.n - at };
		if (!s[i].done && span_starts(rest, s[i].name) &&
		    (rest.n == len || !is_word(rest.p[len])))
			return &s[i];
	}
	return NULL;
}

static struct span substitute(struct reading *r, struct span t, struct str *out)
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
		    t.p[i] == '$' ? find_name(names, sizeof(names) / sizeof(names[0]), t, i) : NULL;
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

static struct span read_directory(struct reading *r, const char *key)
{
	const struct node *n = node_get(r->root, key);
	struct path p = PATH_KEY(NULL, span_of(key));
	STR_AUTO out = STR_INIT(VALUE_MAX);
	if (!node_is(n, NODE_TEXT))
		return (struct span){ "", 0 };
	for (uint32_t i = 0; i < n->n; i++) {
		if ((unsigned char)n->text[i] < ' ' || n->text[i] == '\x7f') {
			reading_refuse(r, &p, n, "must be one line, without control characters");
			break;
		}
	}
	if (span_find(node_span(n), 0, "{{FC_") != SIZE_MAX)
		reading_warn(r, &p, n, WARN_FC);
	struct span text = substitute(r, node_span(n), &out);
	if (out.full || dollar_escaped_size(text) > VALUE_MAX)
		reading_refuse(r, &p, n, "is longer than %d bytes", VALUE_MAX);
	return text;
}

void v1_directories_read(struct reading *r)
{
	r->job->data_dir = read_directory(r, "dataDir");
	r->job->output_dir = read_directory(r, "outputDir");
	r->job->code_dir = read_directory(r, "codeDir");
	struct path code = PATH_KEY(NULL, SPAN("codeDir"));
	if (r->job->code_dir.n && !r->set->fetch_code)
		reading_warn(r, &code, node_get(r->root, "codeDir"), WARN_CODE);
}

/* ---- before the command
 * --------------------------------------------------------------------------- */

/* A role whose name is that number: then the runtime sets PAI_TASK_ROLE_<number>_HOST_LIST. */
static bool is_named(const struct job *job, const char *number)
{
	for (size_t i = 0; i < job->n_roles; i++) {
		if (strcmp(job->roles[i].object_name, number) == 0)
			return true;
	}
	return false;
}

struct span v1_command_prefix(struct reading *r)
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
