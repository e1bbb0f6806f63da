/* What a task learns about itself. */
#include "runtime-assets/init/env_writer.h"

/* Remember the own ports, for the check whether they are taken. */
static void keep_ports(struct writer *w, const struct role_env *r, const char *uid)
{
	struct init *in = w->in;
	in->port = ARENA_NEW(in->a, uint16_t, (size_t)r->ports.total);
	in->port_label = ARENA_NEW(in->a, const char *, (size_t)r->ports.total);
	in->n_ports = 0;
	for (size_t i = 0; i < r->ports.n; i++) {
		const struct port_label *l = &r->ports.label[i];
		for (int64_t k = 0; k < l->count; k++) {
			in->port[in->n_ports] = portspec_port(&r->ports, l, uid, in->task_index, k);
			in->port_label[in->n_ports++] = l->name;
		}
	}
}

static void put_address(struct writer *w, struct span name, const char *address)
{
	if (address)
		env_put(w, name, span_of(address));
}

static void put_port(struct writer *w, struct span name, int64_t port)
{
	w->value.n = 0;
	str_int(&w->value, port);
	if (port)
		env_put(w, name, str_view(&w->value));
}

static void put_own_lists(struct writer *w, const struct role_env *r, const char *uid)
{
	STR_AUTO all = STR_INIT(ENV_TEXT_MAX);
	for (size_t i = 0; i < r->ports.n; i++) {
		const struct port_label *l = &r->ports.label[i];
		struct span list = env_port_list(w, r, l, uid, w->in->task_index);
		w->name.n = 0;
		str_puts(&w->name, "PAI_CONTAINER_HOST_");
		str_puts(&w->name, l->name);
		str_puts(&w->name, "_PORT_LIST");
		env_put(w, str_view(&w->name), list);
		str_puts(&all, l->name);
		str_char(&all, ':');
		str_span(&all, list);
		str_char(&all, ';');
	}
	env_put(w, SPAN("PAI_CONTAINER_HOST_PORT_LIST"), str_view(&all));
}

void env_put_own(struct writer *w, const struct role_env *r, const char *address, const char *uid)
{
	bool ports = env_has_ports(r, uid);
	int64_t index = w->in->task_index;
	int64_t http = ports ? env_first_port(r, "http", uid, index) : 0;
	w->own_seen = true;
	put_address(w, SPAN("PAI_CURRENT_CONTAINER_IP"), address);
	put_port(w, SPAN("PAI_CURRENT_CONTAINER_PORT"), http);
	put_address(w, SPAN("PAI_CONTAINER_HOST_IP"), address);
	put_port(w, SPAN("PAI_CONTAINER_HOST_PORT"), http);
	if (!address)
		WARN(w, "the own address is not known: PAI_CURRENT_CONTAINER_IP and "
		        "PAI_CONTAINER_HOST_IP are not set");
	if (!ports) {
		WARN(w, "the own ports are not known: PAI_CURRENT_CONTAINER_PORT, "
		        "PAI_CONTAINER_HOST_PORT, PAI_CONTAINER_SSH_PORT, "
		        "PAI_CONTAINER_HOST_PORT_LIST and those of each port are not set");
		return;
	}
	put_port(w, SPAN("PAI_CONTAINER_SSH_PORT"), env_first_port(r, "ssh", uid, index));
	put_own_lists(w, r, uid);
	keep_ports(w, r, uid);
}
