/* Variables, twice: for shells and for programs; and ports as they stand in them. */
#include "runtime-assets/init/env_writer.h"

#include "runtime-assets/shell.h"

enum { UID_MAX = 128 };

void env_put(struct writer *w, struct span name, struct span value)
{
	struct str *shell = &w->out->shell;
	struct str *nul = &w->out->nul;
	str_puts(shell, "export ");
	str_span(shell, name);
	str_char(shell, '=');
	shell_word(shell, value);
	str_char(shell, '\n');
	str_span(nul, name);
	str_char(nul, '=');
	str_span(nul, value);
	str_char(nul, '\0');
	w->count++;
	if (name.n + value.n > w->longest)
		w->longest = name.n + value.n;
}

void env_put_role(struct writer *w, const struct role_env *r, const char *prefix, struct span value)
{
	for (size_t i = 0; i < r->names; i++) {
		w->name.n = 0;
		str_puts(&w->name, prefix);
		str_puts(&w->name, r->name[i]);
		str_span(&w->name, str_view(&w->rest));
		env_put(w, str_view(&w->name), value);
	}
}

static void list_int(struct str *list, int64_t v)
{
	if (list->n)
		str_char(list, ',');
	str_int(list, v);
}

const char *env_uid(const struct writer *w, const struct role_env *r, const struct fw_task *t)
{
	bool own = r->own && t->index == w->in->task_index;
	if (t->pod_uid || !own)
		return t->pod_uid;
	const char *uid = w->in->pod_uid;
	return uid && strlen(uid) <= UID_MAX ? uid : NULL;
}

bool env_has_ports(const struct role_env *r, const char *uid)
{
	return r->has_ports && (uid || r->ports.sequential || r->ports.n == 0);
}

struct span env_port_list(struct writer *w, const struct role_env *r, const struct port_label *l,
                          const char *uid, int64_t index)
{
	w->value.n = 0;
	for (int64_t i = 0; i < l->count; i++)
		list_int(&w->value, portspec_port(&r->ports, l, uid, index, i));
	return str_view(&w->value);
}

int64_t env_first_port(const struct role_env *r, const char *label, const char *uid, int64_t index)
{
	for (size_t i = 0; i < r->ports.n; i++) {
		const struct port_label *l = &r->ports.label[i];
		if (strcmp(l->name, label) == 0)
			return l->count ? portspec_port(&r->ports, l, uid, index, 0) : 0;
	}
	return 0;
}
