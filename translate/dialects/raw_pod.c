#include "translate/dialects/raw_pod.h"

#include "base/quantity.h"
#include "schema/check.h"
#include "translate/dialects/raw_internal.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

enum { MIB = 1 << 20 };

#define TEXT_NODE(t)                                                                               \
	{                                                                                          \
		.type = NODE_TEXT, .n = sizeof(t) - 1, .text = (t)                                 \
	}
#define MEMBER(k, ...)                                                                             \
	{                                                                                          \
		.key = (k), .key_n = sizeof(k) - 1, .value = __VA_ARGS__                           \
	}
#define MAP_NODE(members)                                                                          \
	{                                                                                          \
		.type = NODE_MAP, .n = sizeof(members) / sizeof(*(members)), .member = (members)   \
	}

static const char OLD_DEVICE[] = "alpha.kubernetes.io/nvidia-gpu";
static const char SHM[] = "/dev/shm";

struct raw_reader {
	struct parse_context *r;
	struct role *role;
	const struct node *volumes; /* of the copy, or NULL */
	struct raw_use {
		bool shm;            /* mounted at /dev/shm of the main container */
		unsigned n, writing; /* other mounts, and those that are not readOnly */
	} * use;                     /* by volume */
};

static uint32_t raw_items(const struct node *list)
{
	return list ? list->n : 0;
}

static bool raw_is_true(const struct node *map, const char *key)
{
	return node_is(node_get(map, key), NODE_BOOL) && node_get(map, key)->boolean;
}

/* Appends a member, unless its value is empty. */
static void raw_put(struct node *map, struct member *v, const char *key, const struct node *value)
{
	if (raw_items(value) == 0)
		return;
	v[map->n] = (struct member){ .key = key, .key_n = (uint32_t)strlen(key), .value = *value };
	map->type = NODE_MAP;
	map->member = v;
	map->n++;
}

/* Refuses a text that has a problem. */
static void raw_check(struct parse_context *r, const struct path *p, const struct node *map,
                      const char *key, const char *(*problem_of)(struct span text))
{
	struct path at = PATH_KEY(p, span_of(key));
	const struct node *n = node_get(map, key);
	const char *problem = n ? problem_of(node_span(n)) : NULL;
	if (problem)
		parse_refuse(r, &at, n, "%s", problem);
}

/* ---- resources ---- */

/* In thousandths; 0 if it is absent or wrong. */
static int64_t raw_amount(struct raw_reader *d, const struct path *p, const struct node *map,
                          const char *key)
{
	struct path at = PATH_KEY(p, span_of(key));
	const struct node *n = node_get(map, key);
	STR_AUTO text = STR_INIT(64);
	if (!n)
		return 0;
	if (n->type == NODE_TEXT)
		str_span(&text, node_span(n));
	else
		node_json(&text, n);
	int64_t milli = quantity_milli(str_view(&text));
	if (milli < 0)
		parse_refuse(d->r, &at, n, "must be an amount, such as 2, 100m or 8Gi");
	return milli < 0 ? 0 : milli;
}

static int64_t raw_divide_up(struct raw_reader *d, const struct path *p, const struct node *n,
                             int64_t milli, int64_t unit)
{
	int64_t whole = milli / 1000 / unit + (milli % (1000 * unit) > 0);
	if (whole > INT32_MAX)
		parse_refuse(d->r, p, n, "is too large");
	return whole > INT32_MAX ? 0 : whole;
}

/* The number of devices, which are in the role and not in the pod. */
static int64_t raw_devices(struct raw_reader *d, const struct path *p, const struct member *m,
                           const struct node *map)
{
	struct path at = PATH_KEY(p, member_key(m));
	int64_t milli = raw_amount(d, p, map, m->key);
	if (milli % 1000)
		parse_refuse(d->r, &at, &m->value, "must be an integer");
	if (strcmp(m->key, d->r->set->device) != 0)
		parse_warn_key(d->r, p, m, WARN_POD_DEVICE, d->r->set->device);
	return raw_divide_up(d, &at, &m->value, milli, 1);
}

/* limits or requests, without devices, whose number is returned. */
static int64_t raw_amounts(struct raw_reader *d, const struct path *p, bool main, struct node *map)
{
	static const char *const NAMES[] = { "cpu", "memory", "ephemeral-storage", NULL };
	const struct node all = *map;
	struct member *v = ARENA_NEW(d->r->a, struct member, all.n + 1);
	int64_t devices = 0;
	map->n = 0;
	map->member = v;
	for (uint32_t i = 0; i < all.n; i++) {
		const struct member *m = &all.member[i];
		bool device =
		    strcmp(m->key, d->r->set->device) == 0 || strcmp(m->key, OLD_DEVICE) == 0;
		if (names_listed(NAMES, member_key(m)))
			v[map->n++] = *m;
		else if (main && device)
			devices += raw_devices(d, p, m, &all);
		else
			parse_refuse_key(d->r, p, m,
			                 "is refused: tasks have cpu, memory, ephemeral-storage "
			                 "and, in the main container, %s",
			                 d->r->set->device);
	}
	return devices;
}

static struct node raw_resources(struct raw_reader *d, const struct path *p, bool main,
                                 const struct node *n)
{
	static const char *const KEYS[] = { "limits", "requests" };
	struct member *v = ARENA_NEW(d->r->a, struct member, 2);
	struct node out = { .type = NODE_MAP };
	struct role unused = { 0 };
	struct role *role = main ? d->role : &unused;
	role->cpu = role->memory_mb = role->gpu = 0;
	for (size_t i = 0; i < 2; i++) {
		struct path at = PATH_KEY(p, span_of(KEYS[i]));
		if (!node_get(n, KEYS[i]))
			continue;
		struct node map = *node_get(n, KEYS[i]);
		int64_t devices = raw_amounts(d, &at, main, &map);
		if (i && devices != 0 && devices != role->gpu)
			parse_refuse(d->r, &at, &map, "devices must be the same as in limits");
		role->gpu = i ? role->gpu : devices;
		int64_t cpu = raw_amount(d, &at, &map, "cpu");
		int64_t memory = raw_amount(d, &at, &map, "memory");
		if (i == 0 || role->cpu == 0)
			role->cpu = raw_divide_up(d, &at, &map, cpu, 1);
		if (i == 0 || role->memory_mb == 0)
			role->memory_mb = raw_divide_up(d, &at, &map, memory, MIB);
		raw_put(&out, v, KEYS[i], &map);
	}
	return out;
}

/* ---- environment ---- */

static struct node raw_env_copy(struct raw_reader *d, const struct path *p, bool main,
                                const struct node *list)
{
	/* Without the variable, an image can have all devices. */
	static const struct member NONE[] = { MEMBER("name", TEXT_NODE("NVIDIA_VISIBLE_DEVICES")),
		                              MEMBER("value", TEXT_NODE("none")) };
	struct node *v = ARENA_NEW(d->r->a, struct node, raw_items(list) + 1);
	struct node out = { .type = NODE_LIST, .n = raw_items(list), .item = v };
	for (uint32_t i = 0; i < out.n; i++) {
		struct path at = PATH_INDEX(p, i);
		struct path name = PATH_KEY(&at, SPAN("name"));
		v[i] = list->item[i];
		if (parse_env_reserved(d->r->set, node_span(node_get(&v[i], "name"))))
			parse_refuse(d->r, &name, node_get(&v[i], "name"),
			             "is reserved and cannot be set");
		if (node_get(&v[i], "value") && node_get(&v[i], "valueFrom"))
			parse_refuse(d->r, &at, &v[i], "has `value` and `valueFrom`");
	}
	if (!main)
		v[out.n++] = (struct node)MAP_NODE(NONE);
	return out;
}

/* ---- mounts ---- */

static const struct node *raw_volume_find(struct raw_reader *d, const struct node *name, size_t *i)
{
	for (*i = 0; *i < raw_items(d->volumes); ++*i)
		if (node_equal(node_get(&d->volumes->item[*i], "name"), name))
			return &d->volumes->item[*i];
	return NULL;
}

/* At /dev/shm, memory as large as the volume, or else as the memory of the container. */
static void raw_shm(struct raw_reader *d, const struct path *p, const struct node *mount, bool main,
                    size_t volume)
{
	struct path of = PATH_KEY(p, SPAN("mountPath"));
	const struct node *dir = node_get(&d->volumes->item[volume], "emptyDir");
	const struct node *medium = node_get(dir, "medium");
	if (!main || !medium || !span_is(node_span(medium), "Memory")) {
		parse_refuse(d->r, &of, node_get(mount, "mountPath"),
		             "is reserved, but for an emptyDir of medium Memory in the main "
		             "container");
		return;
	}
	int64_t size = raw_amount(d, p, dir, "sizeLimit");
	d->use[volume].shm = true;
	d->role->shm_mb = size ? raw_divide_up(d, p, mount, size, MIB) : d->role->memory_mb;
}

/* false: the mount is not kept. */
static bool raw_mount(struct raw_reader *d, const struct path *p, bool main, const struct node *n)
{
	size_t volume = 0;
	const struct node *path = node_get(n, "mountPath");
	struct path at = PATH_KEY(p, SPAN("name"));
	if (!raw_volume_find(d, node_get(n, "name"), &volume)) {
		parse_refuse(d->r, &at, node_get(n, "name"), "the pod has no volume of this name");
		return false;
	}
	if (span_is(names_mount_path(node_span(path)), SHM)) {
		raw_shm(d, p, n, main, volume);
		return false;
	}
	raw_check(d->r, p, n, "mountPath", names_mount_path_problem);
	d->use[volume].n++;
	d->use[volume].writing += !raw_is_true(n, "readOnly");
	return true;
}

static struct node raw_mounts(struct raw_reader *d, const struct path *p, bool main,
                              const struct node *list)
{
	struct node *v = ARENA_NEW(d->r->a, struct node, list->n + 1);
	struct node out = { .type = NODE_LIST, .item = v };
	for (uint32_t i = 0; i < list->n; i++) {
		struct path at = PATH_INDEX(p, i);
		struct path of = PATH_KEY(&at, SPAN("mountPath"));
		const struct node *path = node_get(&list->item[i], "mountPath");
		if (!raw_mount(d, &at, main, &list->item[i]))
			continue;
		for (uint32_t k = 0; k < out.n; k++)
			if (span_eq(names_mount_path(node_span(path)),
			            names_mount_path(node_span(node_get(&v[k], "mountPath")))))
				parse_refuse(d->r, &of, path, "two volumes are mounted there");
		v[out.n++] = list->item[i];
	}
	return out;
}

/* ---- containers ---- */

/* Of containers other than the main one: as in plain/taskrole.yaml. */
static const struct node DROPPED[] = { TEXT_NODE("NET_RAW"), TEXT_NODE("MKNOD"),
	                               TEXT_NODE("AUDIT_WRITE"), TEXT_NODE("SYS_CHROOT") };
static const struct member CAPABILITIES[] = { MEMBER(
    "drop", { .type = NODE_LIST, .n = 4, .item = DROPPED }) };
static const struct member SECURITY[] = { MEMBER("allowPrivilegeEscalation", { .type = NODE_BOOL }),
	                                  MEMBER("capabilities", MAP_NODE(CAPABILITIES)) };
static const struct node SECURITY_CONTEXT = MAP_NODE(SECURITY);
static const struct node APP = TEXT_NODE("app");
static const struct member INIT[] = { MEMBER("name", TEXT_NODE("init")) };

static struct node raw_container(struct raw_reader *d, const struct path *p, bool main,
                                 const struct node *n)
{
	enum { MEMBERS = 9 };
	struct member *v = ARENA_NEW(d->r->a, struct member, MEMBERS);
	struct node out = { .type = NODE_MAP };
	struct path env = PATH_KEY(p, SPAN("env"));
	struct path resources = PATH_KEY(p, SPAN("resources"));
	struct path mounts = PATH_KEY(p, SPAN("volumeMounts"));
	struct node made;
	raw_check(d->r, p, n, "image", names_image_problem);
	raw_check(d->r, p, n, "workingDir", names_path_problem);
	raw_put(&out, v, "name", main ? &APP : node_get(n, "name"));
	if (!main) {
		raw_put(&out, v, "image", node_get(n, "image"));
		raw_put(&out, v, "command", node_get(n, "command"));
		raw_put(&out, v, "args", node_get(n, "args"));
		raw_put(&out, v, "securityContext", &SECURITY_CONTEXT);
	}
	raw_put(&out, v, "workingDir", node_get(n, "workingDir"));
	raw_put(&out, v, "ports", node_get(n, "ports"));
	made = raw_resources(d, &resources, main, node_get(n, "resources"));
	raw_put(&out, v, "resources", &made);
	made = raw_env_copy(d, &env, main, node_get(n, "env"));
	raw_put(&out, v, "env", &made);
	if (node_get(n, "volumeMounts")) {
		made = raw_mounts(d, &mounts, main, node_get(n, "volumeMounts"));
		raw_put(&out, v, "volumeMounts", &made);
	}
	return out;
}

/* The containers of a list behind the main one or, if main is SIZE_MAX, behind `init`. */
static struct node raw_containers(struct raw_reader *d, const struct path *p,
                                  const struct node *list, size_t main)
{
	struct node *v = ARENA_NEW(d->r->a, struct node, raw_items(list) + 1);
	struct node out = { .type = NODE_LIST, .item = v };
	v[0] = (struct node)MAP_NODE(INIT);
	for (uint32_t i = 0; i < raw_items(list); i++) {
		struct path at = PATH_INDEX(p, i);
		size_t to = i == main ? 0 : out.n + 1;
		v[to] = raw_container(d, &at, i == main, &list->item[i]);
		out.n += i != main;
	}
	out.n += raw_items(list) > 0;
	return out;
}

/* The names `init` and `app` are those of this program; all names of a pod are different. */
static void raw_names(struct parse_context *r, const struct path *spec, const struct node *all[2],
                      size_t main)
{
	static const char *const LISTS[] = { "containers", "initContainers" };
	static const char *const TAKEN[] = { "init", "app", NULL };
	for (size_t i = 0; i < raw_items(all[0]) + raw_items(all[1]); i++) {
		size_t init = i >= all[0]->n;
		size_t index = i - (init ? all[0]->n : 0);
		struct path list = PATH_KEY(spec, span_of(LISTS[init]));
		struct path one = PATH_INDEX(&list, index);
		struct path at = PATH_KEY(&one, SPAN("name"));
		const struct node *name = node_get(&all[init]->item[index], "name");
		if (i != main && names_listed(TAKEN, node_span(name)))
			parse_refuse(r, &at, name, "is taken: choose another name");
		for (size_t k = 0; k < i; k++) {
			size_t other = k >= all[0]->n;
			const struct node *before = &all[other]->item[k - (other ? all[0]->n : 0)];
			if (node_equal(node_get(before, "name"), name))
				parse_refuse(r, &at, name, "two containers have this name");
		}
	}
}

/* ---- volumes ---- */

static const struct member *raw_kind(const struct node *volume)
{
	for (uint32_t i = 0; i < volume->n; i++)
		if (!span_is(member_key(&volume->member[i]), "name"))
			return &volume->member[i];
	return NULL;
}

static void raw_volumes_valid(struct raw_reader *d, const struct path *p)
{
	static const char *const TAKEN[] = { "dshm",
		                             "pai-vol",
		                             "host-log",
		                             "logs",
		                             "job-exit-spec",
		                             "job-secrets",
		                             "token-secrets",
		                             "pai-runtime",
		                             "api-access",
		                             "output-access",
		                             "user-extension-secrets",
		                             NULL };
	for (uint32_t i = 0; i < raw_items(d->volumes); i++) {
		const struct node *volume = &d->volumes->item[i];
		struct path one = PATH_INDEX(p, i);
		struct path at = PATH_KEY(&one, SPAN("name"));
		const struct node *name = node_get(volume, "name");
		size_t first;
		if (names_listed(TAKEN, node_span(name)))
			parse_refuse(d->r, &at, name, "is taken: choose another name");
		if (raw_volume_find(d, name, &first) && first != i)
			parse_refuse(d->r, &at, name, "two volumes have this name");
		if (volume->n != 2 && d->r->e->http == 0)
			parse_refuse(d->r, &one, volume,
			             "must have one of emptyDir, persistentVolumeClaim, nfs and "
			             "hostPath");
	}
}

/* The directory without slashes at its end. */
static struct span raw_directory(const struct node *n)
{
	struct span path = node_span(n);
	while (path.n && path.p[path.n - 1] == '/')
		path.n--;
	return path;
}

static void raw_volume(struct raw_reader *d, const struct path *p, size_t i, struct raw_volume *out)
{
	const struct member *m = raw_kind(&d->volumes->item[i]);
	struct path at = PATH_KEY(p, member_key(m));
	const struct node *path = node_get(&m->value, "path");
	const struct node *claim = node_get(&m->value, "claimName");
	const struct node *server = node_get(&m->value, "server");
	struct span dir = path ? raw_directory(path) : (struct span){ NULL, 0 };
	raw_check(d->r, &at, &m->value, "path", names_path_problem);
	*out = (struct raw_volume){
		.claim = claim,
		.read_only = raw_is_true(&m->value, "readOnly") || d->use[i].writing == 0,
		.source = claim ? node_span(claim) : dir,
		.where = path_place(d->r->a, &at, &m->value),
	};
	if (server)
		out->source = span_of(arena_printf(d->r->a, "nfs://%.*s%.*s", (int)server->n,
		                                   server->text, (int)dir.n, dir.n ? dir.p : ""));
}

/* The volumes but for those of /dev/shm. */
static struct node raw_volumes(struct raw_reader *d, const struct path *p, struct raw_pod *pod)
{
	struct node *v = ARENA_NEW(d->r->a, struct node, raw_items(d->volumes) + 1);
	struct raw_volume *needs = ARENA_NEW(d->r->a, struct raw_volume, raw_items(d->volumes) + 1);
	struct node out = { .type = NODE_LIST, .item = v };
	for (uint32_t i = 0; i < raw_items(d->volumes); i++) {
		const struct node *volume = &d->volumes->item[i];
		struct path at = PATH_INDEX(p, i);
		if (d->use[i].shm && d->use[i].n == 0)
			continue;
		v[out.n++] = *volume;
		if (raw_kind(volume) && !node_get(volume, "emptyDir"))
			raw_volume(d, &at, i, &needs[pod->n_volumes++]);
	}
	pod->volumes = needs;
	return out;
}

enum raw_grant raw_volume_grant(const struct raw_volume *v, const struct facts *f)
{
	enum raw_grant best = RAW_NOT_GRANTED;
	for (size_t i = 0; v->claim && i < f->n_storages; i++)
		if (span_eq(f->storages[i].name, v->source))
			return f->storages[i].read_only ? RAW_READ_ONLY : RAW_GRANTED;
	for (size_t i = 0; !v->claim && i < f->n_directories && best != RAW_GRANTED; i++) {
		struct span dir = f->directories[i].source;
		bool below = v->source.n >= dir.n && span_eq(span_to(v->source, dir.n), dir) &&
		             (v->source.n == dir.n || v->source.p[dir.n] == '/');
		if (below)
			best = f->directories[i].read_only ? RAW_READ_ONLY : RAW_GRANTED;
	}
	return best;
}

/* ---- the pod ---- */

/* The index of the main container; 0 if there is none, which is refused. */
static size_t raw_main(struct parse_context *r, const struct path *p, struct span name,
                       const struct node *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (name.n == 0 || span_eq(node_span(node_get(&list->item[i], "name")), name))
			return i;
	parse_refuse(r, p, list, "there must be a container `%.*s`", (int)name.n, name.p);
	return 0;
}

static const struct raw_pod *raw_pod_new(struct raw_reader *d, const struct path *p,
                                         const struct node *metadata, const struct node *spec,
                                         size_t main)
{
	struct arena *a = d->r->a;
	struct path inits = PATH_KEY(p, SPAN("initContainers"));
	struct path volumes = PATH_KEY(p, SPAN("volumes"));
	struct path containers = PATH_KEY(p, SPAN("containers"));
	struct raw_pod *pod = ARENA_NEW(a, struct raw_pod, 1);
	struct node *tree = ARENA_NEW(a, struct node, 1);
	struct node copy = { .type = NODE_MAP };
	struct member *v = ARENA_NEW(a, struct member, 2 + 3);
	d->use = ARENA_NEW(a, struct raw_use, raw_items(d->volumes) + 1);
	raw_volumes_valid(d, &volumes);
	struct node made = raw_containers(d, &containers, node_get(spec, "containers"), main);
	raw_put(&copy, v + 2, "containers", &made);
	made = raw_containers(d, &inits, node_get(spec, "initContainers"), SIZE_MAX);
	raw_put(&copy, v + 2, "initContainers", &made);
	made = raw_volumes(d, &volumes, pod);
	raw_put(&copy, v + 2, "volumes", &made);
	raw_put(tree, v, "metadata", metadata);
	raw_put(tree, v, "spec", &copy);
	pod->tree = tree;
	return pod;
}

void raw_pod_copy(struct parse_context *r, const struct raw_source *source, struct role *role,
                  struct raw_found *out)
{
	struct path *p = ARENA_NEW(r->a, struct path, 3);
	*out = (struct raw_found){ 0 };
	if (!source->template)
		return;
	struct node copy = raw_template_copy(r, source->path, source->template);
	if (schema_check_at(schema_get(SCHEMA_POD), &copy, source->path, r->code, r->e))
		return;
	const struct node *spec = node_get(&copy, "spec");
	const struct node *all[2] = { node_get(spec, "containers"),
		                      node_get(spec, "initContainers") };
	p[0] = PATH_KEY(source->path, SPAN("spec"));
	p[1] = PATH_KEY(&p[0], SPAN("containers"));
	size_t main = raw_main(r, &p[1], source->main, all[0]);
	const struct node *app = &all[0]->item[main];
	struct raw_reader d = { r, role, node_get(spec, "volumes"), NULL };
	p[2] = PATH_INDEX(&p[1], main);
	raw_names(r, &p[0], all, main);
	if (raw_items(node_get(app, "command")) == 0)
		parse_refuse(r, &p[2], app,
		             "`command` is missing: what the image itself would run is not known "
		             "here, so write it");
	role->image = node_span(node_get(app, "image"));
	role->pod = raw_pod_new(&d, &p[0], node_get(&copy, "metadata"), spec, main);
	out->main = &p[2];
	out->command = raw_items(node_get(app, "command")) ? node_get(app, "command") : NULL;
	out->args = node_get(app, "args");
	out->restart_policy = parse_text(spec, "restartPolicy");
	out->scheduler = parse_text(node_get(source->template, "spec"), "schedulerName");
	out->host_network = raw_is_true(spec, "hostNetwork");
}
