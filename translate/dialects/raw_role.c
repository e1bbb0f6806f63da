/* Roles that are pods of Kubernetes: what MxJobs and manifests of the launcher have in common. */
#include "translate/dialects/raw_pod.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

/* What a command may refer to. */
struct raw_names {
	const struct role *role;
	const struct node *env; /* of the container */
};

static bool raw_has_variable(const struct raw_names *names, struct span name)
{
	const struct node *list = names->env;
	for (uint32_t i = 0; list && i < list->n; i++)
		if (span_eq(parse_text(&list->item[i], "name"), name))
			return true;
	for (size_t i = 0; i < names->role->n_env; i++)
		if (span_eq(names->role->env[i].name, name))
			return true;
	return names_identifier_ok(name) && (span_starts(name, "PAI_") || span_starts(name, "FC_"));
}

/* The length of a reference $(NAME) to a variable at the start of the text; 0: there is none. */
static size_t raw_reference(const struct raw_names *names, struct span text)
{
	size_t end = span_starts(text, "$(") ? span_chr(text, ')') : text.n;
	if (end == text.n || !raw_has_variable(names, (struct span){ text.p + 2, end - 2 }))
		return 0;
	return end + 1;
}

/* One word of the shell: literal but for references, as in Kubernetes, where `$$` is `$`. */
static void raw_word(const struct raw_names *names, struct span word, struct str *out)
{
	str_char(out, '\'');
	for (size_t i = 0; i < word.n; i++) {
		struct span rest = span_from(word, i);
		size_t n = raw_reference(names, rest);
		if (n) {
			str_printf(out, "'\"${%.*s}\"'", (int)n - 3, rest.p + 2);
			i += n - 1;
		} else if (rest.p[0] == '\'') {
			str_puts(out, "'\\''");
		} else {
			i += span_starts(rest, "$$");
			str_char(out, rest.p[0]);
		}
	}
	str_char(out, '\'');
}

static void raw_words(const struct raw_names *names, const struct node *list, struct str *out)
{
	for (uint32_t i = 0; list && i < list->n; i++) {
		str_char(out, ' ');
		raw_word(names, node_span(&list->item[i]), out);
	}
}

static void raw_command(struct parse_context *r, const struct raw_found *found, struct span before,
                        struct role *role)
{
	struct path p = PATH_KEY(found->main, SPAN("command"));
	const struct raw_names names = { role, found->env };
	STR_AUTO out = STR_INIT(r->set->max_rendered);
	str_span(&out, before);
	str_puts(&out, "exec");
	raw_words(&names, found->command, &out);
	raw_words(&names, found->args, &out);
	role->command = arena_span(r->a, str_view(&out));
	if (out.full)
		parse_refuse(r, &p, found->command, "the command is longer than %zu bytes",
		             r->set->max_command);
	else
		parse_command(r, role, &p, found->command);
}

/* Variables of the pod that the job sets; the job's stand behind them and win. */
static void raw_env_warn(struct parse_context *r, const struct raw_found *found,
                         const struct role *role)
{
	struct path p = PATH_KEY(found->main, SPAN("env"));
	for (uint32_t i = 0; found->env && i < found->env->n; i++)
		for (size_t k = 0; k < role->n_env; k++)
			if (span_eq(parse_text(&found->env->item[i], "name"), role->env[k].name))
				parse_warn(r, &p, &found->env->item[i], WARN_ENV_SET,
				           quoted(r->a, role->env[k].name),
				           quoted(r->a, role->env[k].value));
}

void raw_role_read(struct parse_context *r, const struct raw_source *source, struct span before,
                   struct role *role, struct raw_found *found)
{
	struct path spec = PATH_KEY(source->path, SPAN("spec"));
	struct path network = PATH_KEY(&spec, SPAN("hostNetwork"));
	const struct node *its_spec = node_get(source->template, "spec");
	raw_pod_copy(r, source, role, found);
	parse_ports_done(r, role, source->path, source->template,
	                 ARENA_NEW(r->a, struct port_request, 2));
	if (found->host_network)
		parse_warn(r, &network, node_get(its_spec, "hostNetwork"), WARN_HOST_NETWORK);
	raw_env_warn(r, found, role);
	if (found->command)
		raw_command(r, found, before, role);
}

void raw_unused_warn(struct parse_context *r, const struct path *p, const struct node *map,
                     const char *const *names)
{
	for (; *names; names++) {
		const struct member *m = map ? node_member(map, span_of(*names)) : NULL;
		if (m && present(&m->value))
			parse_warn_key(r, p, m, WARN_IGNORED);
	}
}

void raw_metadata_read(struct parse_context *r)
{
	static const char *const NAMES[] = { "labels", "annotations", NULL };
	const struct node *metadata = node_get(r->root, "metadata");
	const struct node *space = node_get(metadata, "namespace");
	struct path p = PATH_KEY(NULL, SPAN("metadata"));
	struct path at = PATH_KEY(&p, SPAN("namespace"));
	raw_unused_warn(r, &p, metadata, NAMES);
	if (node_is(space, NODE_TEXT) && !span_is(node_span(space), r->set->namespace_name))
		parse_refuse(r, &at, space,
		             "must be %s, where all jobs are, or be left out; is \"%s\"",
		             r->set->namespace_name, quoted(r->a, node_span(space)));
}
