/* What this machine has and can do. */
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

#include "base/embed.h"
#include "base/fd.h"
#include "base/tree.h"
#include "base/yaml/yaml.h"
#include "machine/engine/engine_internal.h"
#include "machine/task/sandbox.h"

EMBED(controller_config, "k8s/deploy/frameworkcontroller/config.yaml");

enum { COMMAND_MAX = 128 << 10, TEXT_MAX = 8 * COMMAND_MAX };

static const int64_t KEEP_LOGS = 1 << 30;
static const int64_t IMAGES_BYTES = INT64_C(100) << 30;

/* ---- address --------------------------------------------------------------------------------- */

/* The address from which a packet to the Internet would be sent; nothing is sent. */
static bool address_of_route(struct in_addr *out)
{
	struct sockaddr_in far = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct sockaddr_in own = { 0 };
	socklen_t n = sizeof(own);
	far.sin_addr.s_addr = htonl(0xC0000201); /* 192.0.2.1, of RFC 5737 */
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok = fd >= 0 && connect(fd, (struct sockaddr *)&far, sizeof(far)) == 0 &&
	          getsockname(fd, (struct sockaddr *)&own, &n) == 0;
	if (fd >= 0)
		(void)close(fd); /* nothing was written */
	*out = own.sin_addr;
	return ok && ntohl(own.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
}

static bool address_of_interface(struct in_addr *out)
{
	struct ifaddrs *all = NULL;
	bool found = false;
	if (getifaddrs(&all) < 0)
		return false;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		found = i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		        (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK);
		if (found)
			*out = ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
	}
	freeifaddrs(all);
	return found;
}

static void machine_names(struct engine *e)
{
	char name[256] = "localhost";
	char text[INET_ADDRSTRLEN];
	struct in_addr a = { 0 };
	if (gethostname(name, sizeof(name) - 1) < 0 || !span_only(span_of(name), "-."))
		(void)snprintf(name, sizeof(name), "localhost");
	e->node = arena_dup(&e->arena, span_of(name));
	if (!address_of_route(&a) && !address_of_interface(&a))
		a.s_addr = htonl(INADDR_LOOPBACK);
	e->ip = arena_dup(&e->arena, span_of(inet_ntop(AF_INET, &a, text, sizeof(text)) ?: ""));
	e->pods = (struct pod_settings){ e->node, e->ip, e->set.storages, e->set.n_storages };
}

/* ---- programs -------------------------------------------------------------------------------- */

static int machine_runtime(struct engine *e, struct err *err)
{
	static const char *const PLACES[] = { "pai-runtime", "../lib/rest-lit/pai-runtime" };
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	e->runtime = e->set.runtime;
	if (e->runtime)
		return access(e->runtime, X_OK) == 0
		           ? 0
		           : err_set(err, UNKNOWN_ERROR, "%s is not a program", e->runtime);
	while (n > 0 && self[n - 1] != '/')
		n--;
	for (size_t i = 0; n > 0 && i < ARRAY_SIZE(PLACES); i++) {
		e->runtime = arena_printf(&e->arena, "%.*s%s", (int)n, self, PLACES[i]);
		if (access(e->runtime, X_OK) == 0)
			return 0;
	}
	return err_set(err, UNKNOWN_ERROR,
	               "pai-runtime, which runs the tasks, is neither beside this program nor in "
	               "../lib/rest-lit");
}

static void machine_put_word(struct str *out, struct span word)
{
	str_puts(out, " '");
	for (size_t i = 0; i < word.n; i++) {
		if (word.p[i] == '\'')
			str_puts(out, "'\\'");
		str_char(out, word.p[i]);
	}
	str_char(out, '\'');
}

/* The message for root is only the command that starts this program as another user, who gets the
 * files that only root may read. */
static int machine_other_user(const struct engine *e, struct err *err)
{
	STR_AUTO self = STR_INIT(COMMAND_MAX);
	STR_AUTO text = STR_INIT(TEXT_MAX);
	if (fd_read_str(AT_FDCWD, "/proc/self/cmdline", &self) < 0)
		return err_set(err, UNKNOWN_ERROR, "/proc/self/cmdline: %s",
		               strerrordesc_np(errno));
	str_puts(&text, "id rest-lit || useradd --create-home rest-lit; chown -R rest-lit:");
	machine_put_word(&text, span_of(e->set.dir));
	for (size_t i = 0; i < e->set.n_secrets; i++)
		if (e->set.secrets[i] && *e->set.secrets[i])
			machine_put_word(&text, span_of(e->set.secrets[i]));
	str_puts(&text, " && setpriv --reuid rest-lit --regid rest-lit --init-groups");
	struct span rest = str_view(&self);
	while (rest.n > 0)
		machine_put_word(&text, span_next(&rest, '\0'));
	return err_set(err, UNAVAILABLE, "%s", str_c(&text));
}

static int machine_sandbox(struct engine *e, struct err *err)
{
	ERR_AUTO why = { 0 };
	bool root = geteuid() == 0;
	/* Tasks have the user id of the server: those of several users would read files of root. */
	if (root && e->set.sandbox == ENGINE_SANDBOX_REQUIRED)
		return machine_other_user(e, err);
	e->sandbox = sandbox_probe(e->runtime, &why) == 0;
	if (e->sandbox && root)
		engine_notice(e, ENGINE_WARNING,
		              "tasks have the user id of root, and so access to its files as far "
		              "as they see them; use another user");
	if (e->sandbox)
		return 0;
	if (e->set.sandbox == ENGINE_SANDBOX_REQUIRED || e->set.images == ENGINE_IMAGES_OCI) {
		err_move(err, &why);
		return root ? machine_other_user(e, err) : -1;
	}
	engine_notice(e, ENGINE_WARNING, "tasks run without a sandbox: %s", err_msg(&why));
	return 0;
}

static int machine_images(struct engine *e, struct err *err)
{
	FREE_AUTO char *dir = xasprintf("%s/images", e->set.dir);
	if (e->set.images != ENGINE_IMAGES_OCI)
		return 0;
	e->images = images_new(dir, (uint64_t)(e->set.images_bytes ?: IMAGES_BYTES), err);
	return e->images ? sandbox_probe_overlay(e->runtime, dir, err) : -1;
}

/* After the GPUs are known. */
static void machine_hide(struct engine *e)
{
	const struct engine_settings *s = &e->set;
	size_t most = 1 + s->n_storages + s->n_secrets + e->inventory.gpus_n;
	e->hide = ARENA_NEW(&e->arena, const char *, most);
	e->hide[e->n_hide++] = s->dir;
	for (size_t i = 0; i < s->n_storages; i++)
		e->hide[e->n_hide++] = s->storages[i].dir;
	for (size_t i = 0; i < s->n_secrets; i++)
		e->hide[e->n_hide++] = s->secrets[i];
	for (size_t i = 0; i < e->inventory.gpus_n; i++)
		e->hide[e->n_hide++] = e->inventory.gpus[i].node;
}

/* Can each be a mount point?  That of an image is known later. */
static int machine_try_mounts(const struct engine *e, struct err *err)
{
	static const char *const NOTHING[] = { "/", NULL };
	ARENA_AUTO a = { 0 };
	const char *cwd = e->set.cwd;
	struct sandbox_spec spec = { .runtime = e->runtime,
		                     .mounts = e->set.mounts,
		                     .mounts_n = e->set.n_mounts,
		                     .command = NOTHING };
	for (size_t i = 0; i < e->set.n_mounts && !e->sandbox; i++) {
		const struct sandbox_mount *m = &e->set.mounts[i];
		if (strcmp(m->source, m->path) != 0)
			return err_set(err, INVALID_PARAMETERS,
			               "--mount: without a sandbox %s cannot be shown at %s; tasks "
			               "can use it as %s",
			               m->source, m->path, m->source);
	}
	if (!e->sandbox || e->images)
		return 0;
	if (!sandbox_argv(&spec, &a, err))
		return err_wrap(err, "--mount");
	spec.mounts = &(struct sandbox_mount){ cwd, cwd, false, 0 };
	spec.mounts_n = 1;
	return e->shows_cwd && !sandbox_argv(&spec, &a, err) ? -1 : 0;
}

static int machine_check_mounts(const struct engine *e, struct err *err)
{
	const char *own = e->set.dir;
	for (size_t i = 0; i < e->set.n_mounts; i++) {
		const char *dir = e->set.mounts[i].source;
		if (sandbox_hidden(dir, e->hide, e->n_hide))
			return err_set(err, INVALID_PARAMETERS,
			               "--mount: %s has GPUs or files of other jobs; choose "
			               "another directory",
			               dir);
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
	return machine_try_mounts(e, err);
}

/* A home directory is not shown only because the program was started there. */
static void machine_cwd(struct engine *e)
{
	ARENA_AUTO a = { 0 };
	const char **hidden = sandbox_hide(NULL, 0, &a);
	const char *cwd = e->set.cwd;
	while (*hidden && !(cwd && sandbox_hidden(*hidden, &cwd, 1)))
		hidden++;
	e->shows_cwd = cwd && !(*hidden && e->sandbox);
	for (size_t i = 0; cwd && i < e->set.n_mounts; i++)
		if (strcmp(e->set.mounts[i].path, cwd) == 0)
			return;
	if (!cwd || !e->sandbox)
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
	const struct inventory_settings s = { .cpus = e->set.cpu_milli,
		                              .memory = e->set.memory,
		                              .gpus = e->set.gpus,
		                              .gpu_devices = e->set.gpu_devices };
	if (inventory_read(&s, &e->inventory, err) < 0)
		return -1;
	e->inventory.total.ports = e->set.port_end - e->set.port_start;
	for (size_t i = 0; i < e->inventory.notes.n; i++)
		engine_notice(e, ENGINE_NOTE, "%s", e->inventory.notes.v[i].msg);
	e->gpu = xcalloc(e->inventory.gpus_n + 1, sizeof(*e->gpu));
	for (size_t i = 0; i < e->inventory.gpus_n; i++)
		e->gpu[i] = (struct engine_gpu){ .gpu = &e->inventory.gpus[i], .fd = -1 };
	STR_AUTO why = STR_INIT(1024);
	e->cgroup = cgroup_open(NULL, NULL, &why);
	if (!e->cgroup)
		engine_notice(e, ENGINE_NOTE, "%s", str_c(&why));
	return 0;
}

static int64_t machine_quota(int64_t n)
{
	return n < 0 ? INT64_MAX : n;
}

struct amounts engine_quota(const struct engine_quota *q)
{
	return (struct amounts){ machine_quota(q->gpus), machine_quota(q->cpu_milli),
		                 machine_quota(q->memory), INT64_MAX };
}

static void machine_queue(struct engine *e)
{
	e->queue = queue_new();
	for (size_t i = 0; i < e->set.n_quotas; i++) {
		const struct engine_quota *q = &e->set.quotas[i];
		const struct amounts most = engine_quota(q);
		queue_quota(e->queue, span_of(q->virtual_cluster), &most);
	}
}

/* The configuration that this project gives to a FrameworkController in a cluster. */
static int machine_config(struct engine *e, struct err *err)
{
	ARENA_AUTO a = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct doc doc;
	if (yaml_read(EMBEDDED(controller_config), &BUDGET_DEFAULT, &a, &doc, &warnings, err) < 0)
		return -1;
	const struct node *text = node_get(node_get(&doc.root, "data"), "frameworkcontroller.yaml");
	e->config = framework_config_read(text ? node_span(text) : SPAN(""), err);
	return e->config ? 0 : -1;
}

int engine_find_machine(struct engine *e, struct err *err)
{
	e->set.keep_logs = e->set.keep_logs ?: KEEP_LOGS;
	machine_names(e);
	machine_queue(e);
	if (machine_config(e, err) < 0 || machine_runtime(e, err) < 0 ||
	    engine_make_directories(e, err) < 0 || machine_inventory(e, err) < 0 ||
	    machine_sandbox(e, err) < 0 || machine_images(e, err) < 0)
		return -1;
	machine_hide(e);
	machine_cwd(e);
	return machine_check_mounts(e, err);
}

void engine_forget_machine(struct engine *e)
{
	images_free(e->images);
	if (e->cgroup)
		cgroup_close(e->cgroup);
	queue_free(e->queue);
	framework_config_free(e->config);
	inventory_done(&e->inventory);
	free(e->gpu);
}
