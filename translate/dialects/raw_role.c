/* Roles that are pods of Kubernetes: the common part of MxJobs and manifests of the launcher. */
#include "translate/dialects/raw_pod.h"
#include "translate/job/names.h"

/* The variables to which a command may refer. */
struct raw_names {
	const struct role *role;
	const struct node *env; /* of the container */
};

/* The length of a reference $(NAME) to a variable at the start of the text; 0: there is none. */
static size_t raw_reference(const struct raw_names *names, struct span text)
{
	size_t end = span_starts(text, "$(") ? span_chr(text, ')') : text.n;
	if (end == text.n)
		return 0;
	struct span name = { text.p + 2, end - 2 };
	bool known =
	    names_identifier_ok(name) && (span_starts(name, "PAI_") || span_starts(name, "FC_"));
	for (uint32_t i = 0; names->env && i < names->env->n && !known; i++)
		known = span_eq(parse_text(&names->env->item[i], "name"), name);
	for (size_t i = 0; i < names->role->n_env && !known; i++)
		known = span_eq(names->role->env[i].name, name);
	return known ? end + 1 : 0;
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

void raw_role_read(struct parse_context *r, const struct raw_source *source, struct span before,
                   struct role *role, struct raw_found *found)
{
	struct field spec = field_get(&source->template, "spec");
	struct field network = field_get(&spec, "hostNetwork");
	raw_pod_copy(r, source, role, found);
	parse_ports_done(r, role, &source->template, ARENA_NEW(r->a, struct port_request, 2));
	if (found->host_network)
		parse_warn(r, &network,
		           "is not kept: the installation decides about the network; PAI_HOST_IP_* "
		           "have the addresses of the tasks in any case");
	/* Variables of the pod that the job sets; the job's stand behind them and win. */
	for (uint32_t i = 0; found->env && i < found->env->n; i++) {
		struct field env = field_get(found->main, "env");
		env.n = &found->env->item[i];
		for (size_t k = 0; k < role->n_env; k++)
			if (span_eq(parse_text(env.n, "name"), role->env[k].name))
				parse_warn(r, &env, "%s is set by the job, to %s",
				           arena_quoted(r->a, role->env[k].name),
				           arena_quoted(r->a, role->env[k].value));
	}
	if (!found->command)
		return;
	struct field command = field_get(found->main, "command");
	const struct raw_names names = { role, found->env };
	STR_AUTO out = STR_INIT(r->set->max_rendered);
	str_span(&out, before);
	str_puts(&out, "exec");
	raw_words(&names, found->command, &out);
	raw_words(&names, found->args, &out);
	role->command = arena_span(r->a, str_view(&out));
	if (out.full)
		parse_refuse(r, &command, "the command is longer than %zu bytes",
		             r->set->max_command);
	else
		parse_command(r, role, &command);
}

void raw_unused_warn(struct parse_context *r, const struct field *map, const char *const *names)
{
	for (; *names; names++) {
		const struct member *m = node_member(map->n, span_of(*names));
		if (m && node_is_present(&m->value))
			parse_warn_key(r, map, m, "is not kept: it has no meaning here");
	}
}

void raw_metadata_read(struct parse_context *r)
{
	static const char *const NAMES[] = { "labels", "annotations", NULL };
	struct field metadata = field_get(TOP(r), "metadata");
	struct field space = field_get(&metadata, "namespace");
	raw_unused_warn(r, &metadata, NAMES);
	if (node_is(space.n, NODE_TEXT) && !span_is(node_span(space.n), r->set->namespace_name))
		parse_refuse(r, &space, "must be %s, where all jobs are, or be left out; is \"%s\"",
		             r->set->namespace_name, arena_quoted(r->a, node_span(space.n)));
}
