/* Facts about this machine and its abilities. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/doc/yaml.h"
#include "base/embed.h"
#include "base/enc.h"
#include "base/posix/fd.h"
#include "machine/engine/engine_internal.h"

EMBED(controller_config, "k8s/deploy/options/frameworkcontroller/config.yaml");

enum {
	COMMAND_MAX = 128 << 10,
	TEXT_MAX = 8 * COMMAND_MAX,
	ALIKE_MAX = 3, /* attempts; a cluster has other nodes to try */
};

static const uint64_t IMAGES_BYTES = UINT64_C(100) << 30; /* of all unpacked images */

/* Its name, and the address from which a packet to the Internet would be sent (nothing is sent),
 * else that of an interface, else that of this machine for itself. */
static void machine_names(struct engine *e)
{
	char name[256] = "localhost";
	struct sockaddr_in far = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct sockaddr_in own = { 0 };
	socklen_t n = sizeof(own);
	struct ifaddrs *all = NULL;
	if (gethostname(name, sizeof(name) - 1) < 0 || !span_only_alnum_or(span_of(name), "-."))
		(void)snprintf(name, sizeof(name), "localhost");
	far.sin_addr.s_addr = htonl(0xC0000201); /* 192.0.2.1, of RFC 5737 */
	FD_AUTO fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool found = fd >= 0 && connect(fd, (struct sockaddr *)&far, sizeof(far)) == 0 &&
	             getsockname(fd, (struct sockaddr *)&own, &n) == 0 &&
	             ntohl(own.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
	if (!found && getifaddrs(&all) < 0)
		all = NULL;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		found = i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		        (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK);
		if (found)
			own = *(const struct sockaddr_in *)(const void *)i->ifa_addr;
	}
	freeifaddrs(all);
	if (!found)
		own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	char *ip = arena_zero(&e->arena, 1, INET_ADDRSTRLEN);
	(void)inet_ntop(AF_INET, &own.sin_addr, ip, INET_ADDRSTRLEN); /* has room */
	e->pods =
	    (struct pod_settings){ .node_name = arena_dup(&e->arena, span_of(name)),
		                   .ip = ip,
		                   .uid = "",
		                   .storage = e->set.storages,
		                   .n_storages = e->set.n_storages,
		                   .code_dir = arena_printf(&e->arena, "%s/code", e->set.dir) };
}

/* ---- programs -------------------------------------------------------------------------------- */

/* The message for root is only the command that starts this program as another user, who gets the
 * files that only root may read. */
static int machine_other_user(const struct engine *e, struct err *err)
{
	STR_AUTO self = STR_INIT(COMMAND_MAX);
	STR_AUTO text = STR_INIT(TEXT_MAX);
	if (fd_read_str(AT_FDCWD, "/proc/self/cmdline", &self) < 0)
		return err_set(err, UNKNOWN_ERROR, "/proc/self/cmdline: %s",
		               strerrordesc_np(errno));
	str_puts(&text, "id rest-lit || useradd --create-home rest-lit; chown -R rest-lit: ");
	shell_word(&text, span_of(e->set.dir));
	for (size_t i = 0; i < e->set.n_secrets; i++) {
		if (!e->set.secrets[i] || !*e->set.secrets[i])
			continue;
		str_char(&text, ' ');
		shell_word(&text, span_of(e->set.secrets[i]));
	}
	str_puts(&text, " && setpriv --reuid rest-lit --regid rest-lit --init-groups");
	for (struct span rest = str_view(&self); rest.n > 0;) {
		str_char(&text, ' ');
		shell_word(&text, span_next(&rest, '\0'));
	}
	return err_set(err, UNAVAILABLE, "%s", str_c(&text));
}

static int machine_sandbox(struct engine *e, struct err *err)
{
	ERR_AUTO why = { 0 };
	bool root = geteuid() == 0;
	/* Tasks have the user id of the server: those of several users would read files of root. */
	if (root && e->set.needs_sandbox)
		return machine_other_user(e, err);
	e->sandbox = sandbox_probe(e->set.runtime, NULL, &why) == 0;
	if (e->sandbox && root && !e->set.env) /* a command has the rights of its caller anyway */
		engine_notice(e, ENGINE_WARNING,
		              "tasks have the user id of root, and so access to its files as far "
		              "as they see them; use another user");
	if (e->sandbox)
		return 0;
	if (e->set.needs_sandbox || e->set.own_images) {
		err_move(err, &why);
		return root ? machine_other_user(e, err) : -1;
	}
	engine_notice(e, ENGINE_WARNING, "tasks run without a sandbox: %s", err_msg(&why));
	return 0;
}

static int machine_check_mounts(const struct engine *e, struct err *err)
{
	static const char *const NOTHING[] = { "/", NULL };
	ARENA_AUTO a = { 0 };
	const char *own = e->set.dir;
	struct sandbox_mount cwd = { .source = e->set.cwd, .path = e->set.cwd };
	struct sandbox_spec spec = { .runtime = e->set.runtime,
		                     .mounts = e->set.mounts,
		                     .mounts_n = e->set.n_mounts,
		                     .command = NOTHING };
	for (size_t i = 0; i < e->set.n_mounts; i++) {
		const struct sandbox_mount *m = &e->set.mounts[i];
		if (sandbox_hidden(m->source, e->hide.v, e->hide.n))
			return err_set(err, INVALID_PARAMETERS,
			               "--mount: %s has GPUs or files of other jobs; choose "
			               "another directory",
			               m->source);
		if (!e->sandbox && !path_leads_to(m->path, m->source))
			return err_set(err, INVALID_PARAMETERS,
			               "--mount: without a sandbox %s cannot be shown at %s; tasks "
			               "can use it as %s",
			               m->source, m->path, m->source);
	}
	/* A task could rename a directory that contains it. */
	for (size_t i = 0; i < e->set.n_storages; i++) {
		const char *dir = e->set.storages[i].dir;
		if (sandbox_hidden(dir, &own, 1) || sandbox_hidden(own, &dir, 1))
			return err_set(err, INVALID_PARAMETERS,
			               "storage %s: %s and %s, which has the files of all jobs, "
			               "are in each other; choose another directory",
			               e->set.storages[i].name, dir, own);
	}
	/* Each must be a mount point; that of an image is known later. */
	if (!e->sandbox || e->images)
		return 0;
	if (!sandbox_argv(&spec, &a, err))
		return err_wrap(err, "--mount");
	spec.mounts = &cwd;
	spec.mounts_n = 1;
	return e->shows_cwd && !sandbox_argv(&spec, &a, err) ? -1 : 0;
}

/* A home directory is not shown only because the program was started there. */
static void machine_cwd(struct engine *e)
{
	ARENA_AUTO a = { 0 };
	const char *cwd = e->set.cwd;
	e->shows_cwd = cwd != NULL;
	if (!cwd || !e->sandbox)
		return;
	for (const char **hidden = sandbox_hide(NULL, 0, &a); *hidden; hidden++)
		e->shows_cwd = e->shows_cwd && !sandbox_hidden(*hidden, &cwd, 1);
	for (size_t i = 0; i < e->set.n_mounts; i++)
		if (strcmp(e->set.mounts[i].path, cwd) == 0)
			return;
	if (e->shows_cwd)
		engine_notice(e, ENGINE_NOTE,
		              "tasks start in %s and cannot write there; --mount .:rw lets them",
		              cwd);
	else
		engine_notice(e, ENGINE_WARNING,
		              "tasks do not see the files in %s, which contains more than the "
		              "files of a job: start in a directory of the job, or use --mount",
		              cwd);
}

/* ---- resources ------------------------------------------------------------------------------- */

static int machine_inventory(struct engine *e, struct err *err)
{
	if (inventory_read(&e->set.machine, &e->inventory, err) < 0)
		return -1;
	e->inventory.total.ports = e->set.ports.end - e->set.ports.start;
	for (size_t i = 0; i < e->inventory.notes.n; i++)
		engine_notice(e, ENGINE_NOTE, "%s", e->inventory.notes.v[i].msg);
	STR_AUTO why = STR_INIT(1024);
	e->cgroup = cgroup_open("", &why);
	if (!e->cgroup)
		engine_notice(e, ENGINE_NOTE, "%s", str_c(&why));
	e->queue = queue_new();
	e->queue->total = e->inventory.total;
	for (size_t i = 0; i < e->set.n_quotas; i++)
		queue_quota(e->queue, span_of(e->set.quotas[i].virtual_cluster),
		            &e->set.quotas[i].most);
	return 0;
}

const struct amounts *engine_limit_of(const struct engine *e, struct span user)
{
	static const struct amounts NONE = { .of = { INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX } };
	for (size_t i = 0; i < e->limits.n; i++)
		if (span_is(user, e->limits.v[i].user))
			return &e->limits.v[i].most;
	return e->limits.v ? &e->limits.others : &NONE;
}

struct framework_config *machine_config(struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct doc doc;
	if (yaml_read(EMBEDDED(controller_config), &BUDGET_DEFAULT, &a, &doc, NULL, e) < 0)
		return NULL;
	const struct node *text = node_get(node_get(&doc.root, "data"), "frameworkcontroller.yaml");
	return framework_config_read(text ? node_span(text) : SPAN(""), e);
}

int engine_find_machine(struct engine *e, struct err *err)
{
	machine_names(e);
	e->config = machine_config(err);
	if (e->config && e->set.once)
		framework_config_set_once(e->config);
	if (e->config)
		framework_config_keep_last(e->config, ALIKE_MAX);
	if (!e->config || engine_make_directories(e, err) < 0 || machine_inventory(e, err) < 0 ||
	    machine_sandbox(e, err) < 0)
		return -1;
	if (e->set.own_images) {
		FREE_AUTO char *dir = xasprintf("%s/images", e->set.dir);
		e->images = images_new(dir, IMAGES_BYTES, e->epoll, pod_changes, err);
		if (!e->images || sandbox_probe(e->set.runtime, dir, err) < 0)
			return -1;
	}
	e->hide.a = &e->arena;
	words_add(&e->hide, e->set.dir);
	for (size_t i = 0; i < e->set.n_storages; i++)
		words_add(&e->hide, e->set.storages[i].dir);
	for (size_t i = 0; i < e->set.n_secrets; i++)
		words_add(&e->hide, e->set.secrets[i]);
	for (size_t i = 0; i < e->inventory.gpus_n; i++)
		words_add(&e->hide, e->inventory.gpus[i].node);
	machine_cwd(e);
	return machine_check_mounts(e, err);
}
