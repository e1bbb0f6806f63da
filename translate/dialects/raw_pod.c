#include "translate/dialects/raw_pod.h"

#include "base/quantity.h"
#include "schema/check.h"
#include "translate/dialects/raw_internal.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

enum { MIB = 1 << 20, RAW_ENV_MAX = 64 << 20 /* of text in JSON; the document is smaller */ };

/* What is ours in init containers of the user: the security context of plain/taskrole.yaml, and no
 * devices, which some images would have otherwise. */
#define INIT_OURS                                                                                  \
	"{\"securityContext\":{\"allowPrivilegeEscalation\":false,\"capabilities\":"               \
	"{\"drop\":[\"NET_RAW\",\"MKNOD\",\"AUDIT_WRITE\",\"SYS_CHROOT\"]}},\"env\":["
#define INIT_ENV "{\"name\":\"NVIDIA_VISIBLE_DEVICES\",\"value\":\"none\"}]}"

static uint32_t raw_items(const struct node *list)
{
	return list ? list->n : 0;
}

static bool raw_is_true(const struct node *map, const char *key)
{
	return node_is(node_get(map, key), NODE_BOOL) && node_get(map, key)->boolean;
}

static struct node raw_constant(struct parse_context *r, const char *json)
{
	struct doc doc = { 0 };
	NOTES_AUTO warnings = { 0 };
	bool syntax = false;
	(void)json_read(span_of(json), &BUDGET_DEFAULT, r->a, &doc, &warnings, &syntax, r->e);
	return doc.root;
}

/* A map without some members (a list that ends with NULL), and with those of a constant. */
static struct node raw_changed(struct parse_context *r, const struct node *map,
                               const char *const *without, const char *constant)
{
	struct node ours = raw_constant(r, constant);
	struct member *v = ARENA_NEW(r->a, struct member, map->n + ours.n);
	struct node out = *map;
	out.n = 0;
	out.member = v;
	for (uint32_t i = 0; i < ours.n; i++)
		v[out.n++] = ours.member[i];
	for (uint32_t i = 0; i < map->n; i++)
		if (!names_listed(without, member_key(&map->member[i])))
			v[out.n++] = map->member[i];
	return out;
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

/* ---- containers ---- */

/* The amount of a resource in units, rounded up: of limits, else of requests, else 0. */
static int64_t raw_resource(struct parse_context *r, const struct path *p, const struct node *n,
                            const char *name, int64_t unit)
{
	const struct node *resources = node_get(n, "resources");
	const struct node *limit = node_get(node_get(resources, "limits"), name);
	const struct node *request = node_get(node_get(resources, "requests"), name);
	const struct node *amount = limit ? limit : request;
	struct path in = PATH_KEY(p, SPAN("resources"));
	struct path of = PATH_KEY(&in, limit ? SPAN("limits") : SPAN("requests"));
	struct path at = PATH_KEY(&of, span_of(name));
	STR_AUTO text = STR_INIT(64);
	if (amount && amount->type == NODE_TEXT)
		str_span(&text, node_span(amount));
	else if (amount)
		node_json(&text, amount);
	int64_t milli = amount ? quantity_milli(str_view(&text)) : 0;
	int64_t units = milli / 1000 / unit + (milli % (1000 * unit) > 0);
	bool device = strchr(name, '/') != NULL;
	if (milli >= 0 && units <= INT32_MAX && !(device && milli % 1000))
		return units;
	parse_refuse(r, &at, amount,
	             device ? "must be an integer, at most 2147483647"
	                    : "is too large, or not an amount such as 2, 100m or 8Gi");
	return 0;
}

/* The number of devices, which only the document has. */
static int64_t raw_devices(struct parse_context *r, const struct path *p, const struct node *n)
{
	int64_t devices = raw_resource(r, p, n, r->set->device, 1);
	return devices ? devices : raw_resource(r, p, n, RAW_OLD_DEVICE, 1);
}

static void raw_variables_check(struct parse_context *r, const struct path *p,
                                const struct node *list)
{
	for (uint32_t i = 0; i < raw_items(list); i++) {
		struct path at = PATH_INDEX(p, i);
		struct path of = PATH_KEY(&at, SPAN("name"));
		const struct node *name = node_get(&list->item[i], "name");
		if (parse_env_reserved(r->set, node_span(name)))
			parse_refuse(r, &of, name, "is reserved and cannot be set");
	}
}

static const struct node *raw_volume_find(const struct node *volumes, const struct node *name)
{
	for (uint32_t i = 0; i < raw_items(volumes); i++)
		if (node_equal(node_get(&volumes->item[i], "name"), name))
			return &volumes->item[i];
	return NULL;
}

static void raw_container_check(struct parse_context *r, const struct path *p, const struct node *n,
                                const struct node *volumes)
{
	struct path env = PATH_KEY(p, SPAN("env"));
	struct path list = PATH_KEY(p, SPAN("volumeMounts"));
	const struct node *mounts = node_get(n, "volumeMounts");
	raw_check(r, p, n, "image", names_image_problem);
	raw_check(r, p, n, "workingDir", names_path_problem);
	raw_variables_check(r, &env, node_get(n, "env"));
	for (uint32_t i = 0; i < raw_items(mounts); i++) {
		struct path at = PATH_INDEX(&list, i);
		struct path of = PATH_KEY(&at, SPAN("name"));
		const struct node *name = node_get(&mounts->item[i], "name");
		raw_check(r, &at, &mounts->item[i], "mountPath", names_mount_path_problem);
		if (!raw_volume_find(volumes, name))
			parse_refuse(r, &of, name, "the pod has no volume of this name");
	}
}

/* Behind `init`, the init containers of the user. */
static struct node raw_inits(struct parse_context *r, const struct path *p,
                             const struct node *source, const struct node *spec)
{
	static const char *const REPLACED[] = { "env", NULL };
	const struct node *list = node_get(spec, "initContainers");
	struct node *v = ARENA_NEW(r->a, struct node, raw_items(list) + 1);
	struct node out = { .type = NODE_LIST, .n = raw_items(list) + 1, .item = v };
	v[0] = raw_constant(r, "{\"name\":\"init\"}");
	for (uint32_t i = 0; i < raw_items(list); i++) {
		const struct node *n = &list->item[i];
		const struct node *env = node_get(n, "env");
		struct path at = PATH_INDEX(p, i);
		STR_AUTO ours = STR_INIT(RAW_ENV_MAX);
		raw_container_check(r, &at, n, node_get(spec, "volumes"));
		if (raw_devices(r, &at, &node_get(source, "initContainers")->item[i]))
			parse_refuse(r, &at, n, "only the container of the task has devices");
		str_puts(&ours, INIT_OURS);
		for (uint32_t k = 0; k < raw_items(env); k++) {
			node_json(&ours, &env->item[k]);
			str_char(&ours, ',');
		}
		str_puts(&ours, INIT_ENV);
		v[i + 1] = raw_changed(r, n, REPLACED, str_c(&ours));
	}
	return out;
}

/* ---- volumes ---- */

static bool raw_is_written(const struct node *containers, const struct node *volume)
{
	for (uint32_t i = 0; i < raw_items(containers); i++) {
		const struct node *mounts = node_get(&containers->item[i], "volumeMounts");
		for (uint32_t k = 0; k < raw_items(mounts); k++)
			if (node_equal(node_get(&mounts->item[k], "name"), volume) &&
			    !raw_is_true(&mounts->item[k], "readOnly"))
				return true;
	}
	return false;
}

/* What a volume needs a grant for; false: nothing. */
static bool raw_volume_read(struct parse_context *r, const struct path *p, const struct node *spec,
                            const struct node *volume, struct raw_volume *out)
{
	const struct member *m = &volume->member[0];
	m += span_is(member_key(m), "name");
	struct path at = PATH_KEY(p, member_key(m));
	const struct node *name = node_get(volume, "name");
	const struct node *claim = node_get(&m->value, "claimName");
	const struct node *server = node_get(&m->value, "server");
	const struct node *path = node_get(&m->value, "path");
	struct span dir = path ? node_span(path) : SPAN("");
	raw_check(r, &at, &m->value, "path", names_path_problem);
	while (dir.n && dir.p[dir.n - 1] == '/')
		dir.n--;
	if (server)
		dir = span_of(arena_printf(r->a, "nfs://%s%.*s", server->text, (int)dir.n, dir.p));
	*out = (struct raw_volume){
		.claim = claim,
		.read_only = raw_is_true(&m->value, "readOnly") ||
		             (!raw_is_written(node_get(spec, "containers"), name) &&
		              !raw_is_written(node_get(spec, "initContainers"), name)),
		.source = claim ? node_span(claim) : dir,
		.where = path_place(r->a, &at, &m->value),
	};
	return claim || path;
}

static void raw_volumes_read(struct parse_context *r, const struct path *p, const struct node *spec,
                             struct raw_pod *pod)
{
	const struct node *list = node_get(spec, "volumes");
	struct raw_volume *v = ARENA_NEW(r->a, struct raw_volume, raw_items(list) + 1);
	pod->volumes = v;
	for (uint32_t i = 0; i < raw_items(list); i++) {
		struct path at = PATH_INDEX(p, i);
		if (list->item[i].n == 2)
			pod->n_volumes +=
			    raw_volume_read(r, &at, spec, &list->item[i], &v[pod->n_volumes]);
		else if (r->e->http == 0)
			parse_refuse(r, &at, &list->item[i],
			             "must have one of emptyDir, persistentVolumeClaim, nfs and "
			             "hostPath");
	}
}

enum raw_grant raw_volume_grant(const struct raw_volume *v, const struct facts *f)
{
	enum raw_grant best = RAW_NOT_GRANTED;
	for (size_t i = 0; v->claim && i < f->n_storages; i++)
		if (span_eq(f->storages[i].name, v->source))
			return !f->storages[i].share      ? RAW_PRIVATE
			       : f->storages[i].read_only ? RAW_READ_ONLY
			                                  : RAW_GRANTED;
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

static void raw_put(struct node *map, struct member *v, const char *key, const struct node *value)
{
	if (raw_items(value) == 0)
		return;
	v[map->n] = (struct member){ .key = key, .key_n = (uint32_t)strlen(key), .value = *value };
	map->type = NODE_MAP;
	map->member = v;
	map->n++;
}

bool raw_key_allowed(struct span name, const struct facts *f)
{
	bool allowed = memchr(name.p, '/', name.n) == NULL;
	for (uint32_t i = 0; !allowed && f->pod_names && i < f->pod_names->n; i++) {
		const char *const one[] = { f->pod_names->item[i].text, NULL };
		allowed = parse_listed(one, name);
	}
	return allowed;
}

static void raw_keys_read(struct parse_context *r, const struct path *p,
                          const struct node *metadata, struct raw_pod *pod)
{
	static const char *const MAPS[] = { "labels", "annotations" };
	size_t most =
	    raw_items(node_get(metadata, MAPS[0])) + raw_items(node_get(metadata, MAPS[1]));
	struct raw_key *v = ARENA_NEW(r->a, struct raw_key, most + 1);
	for (size_t i = 0; i < 2; i++) {
		const struct node *map = node_get(metadata, MAPS[i]);
		struct path at = PATH_KEY(p, span_of(MAPS[i]));
		for (uint32_t k = 0; map && k < map->n; k++) {
			struct span name = member_key(&map->member[k]);
			if (!raw_key_allowed(name, &(struct facts){ 0 }))
				v[pod->n_keys++] =
				    (struct raw_key){ name,
					              path_place_key(r->a, &at, &map->member[k]) };
		}
	}
	pod->keys = v;
}

void raw_keys_warn(const struct job *job, const struct facts *f, struct notes *warnings)
{
	for (size_t i = 0; i < job->n_roles; i++)
		for (size_t k = 0; job->roles[i].pod && k < job->roles[i].pod->n_keys; k++) {
			const struct raw_key *key = &job->roles[i].pod->keys[k];
			if (!raw_key_allowed(key->name, f))
				notes_add(warnings, key->where, WARN_POD_NAME);
		}
}

static const struct raw_pod *raw_pod_new(struct parse_context *r, const struct path *p,
                                         const struct node *source, const struct node *copy)
{
	static const char *const IN_ROLE[] = { "name", "image", "command", "args", NULL };
	const struct node *spec = node_get(copy, "spec");
	struct path inits = PATH_KEY(p, SPAN("initContainers"));
	struct path volumes = PATH_KEY(p, SPAN("volumes"));
	struct raw_pod *pod = ARENA_NEW(r->a, struct raw_pod, 1);
	struct node *tree = ARENA_NEW(r->a, struct node, 2);
	struct member *v = ARENA_NEW(r->a, struct member, 2 + 3);
	struct node out = { 0 };
	struct node containers = { .type = NODE_LIST, .n = 1, .item = &tree[1] };
	struct node made = raw_inits(r, &inits, source, spec);
	struct path metadata = PATH_KEY(p->up, SPAN("metadata"));
	raw_volumes_read(r, &volumes, spec, pod);
	raw_keys_read(r, &metadata, node_get(copy, "metadata"), pod);
	tree[1] = raw_changed(r, node_get(spec, "containers")->item, IN_ROLE, "{\"name\":\"app\"}");
	raw_put(&out, v + 2, "containers", &containers);
	if (made.n > 1)
		raw_put(&out, v + 2, "initContainers", &made);
	raw_put(&out, v + 2, "volumes", node_get(spec, "volumes"));
	raw_put(tree, v, "metadata", node_get(copy, "metadata"));
	raw_put(tree, v, "spec", &out);
	pod->tree = tree;
	return pod;
}

/* A task has one container, which has a command. */
static void raw_task_check(struct parse_context *r, const struct path *p, const struct node *list,
                           struct span name)
{
	struct path one = PATH_INDEX(p, 0);
	struct path more = PATH_INDEX(p, 1);
	struct path at = PATH_KEY(&one, SPAN("name"));
	const struct node *n = list->item;
	if (list->n > 1)
		parse_refuse(r, &more, &list->item[1],
		             "is refused: a task is one container, and ends with its command");
	if (name.n && !span_eq(node_span(node_get(n, "name")), name))
		parse_refuse(r, &at, node_get(n, "name"), "must be %.*s", (int)name.n, name.p);
	if (raw_items(node_get(n, "command")) == 0)
		parse_refuse(r, &one, n,
		             "`command` is missing: what the image itself would run is not known "
		             "here, so write it");
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
	const struct node *before = node_get(source->template, "spec");
	const struct node *spec = node_get(&copy, "spec");
	const struct node *app = node_get(spec, "containers")->item;
	p[0] = PATH_KEY(source->path, SPAN("spec"));
	p[1] = PATH_KEY(&p[0], SPAN("containers"));
	p[2] = PATH_INDEX(&p[1], 0);
	raw_task_check(r, &p[1], node_get(spec, "containers"), source->main);
	raw_container_check(r, &p[2], app, node_get(spec, "volumes"));
	role->image = node_span(node_get(app, "image"));
	role->cpu = raw_resource(r, &p[2], app, "cpu", 1);
	role->memory_mb = raw_resource(r, &p[2], app, "memory", MIB);
	role->gpu = raw_devices(r, &p[2], node_get(before, "containers")->item);
	role->pod = raw_pod_new(r, &p[0], before, &copy);
	out->main = &p[2];
	out->command = raw_items(node_get(app, "command")) ? node_get(app, "command") : NULL;
	out->args = node_get(app, "args");
	out->env = node_get(app, "env");
	out->restart_policy = parse_text(spec, "restartPolicy");
	out->host_network = raw_is_true(spec, "hostNetwork");
}
