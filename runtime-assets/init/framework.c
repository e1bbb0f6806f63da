/* Reads the Framework object, in the format of FrameworkController. */
#include "runtime-assets/init/init.h"

#include "base/enc.h"
#include "base/gzip.h"

enum {
	PORT_LIST_MAX = 512 << 10,
	ROLES_MAX = 4096, /* an object of 1.5 MiB, the limit of etcd, has fewer */
	TASK_NUMBER_MAX = 1 << 24,
	NODES_MAX = 1000000, /* 40 000 tasks at 25 values each */
	ROLE_NAME_MAX = 63,
	ADDRESS_MAX = 63,
	UID_MAX = 128
};

/* The list of the macro below. */
static const struct node *framework_node_at(const struct node *n, const char *const *path)
{
	for (; n && *path; path++)
		n = node_get(n, *path);
	return n;
}
#define NODE_AT(n, ...) framework_node_at((n), (const char *const[]){ __VA_ARGS__, NULL })

static const char *framework_text_of(const struct node *n)
{
	return node_is(n, NODE_TEXT) && n->n ? n->text : NULL;
}

static int64_t framework_int_of(const struct node *n, int64_t min, int64_t max, int64_t otherwise)
{
	bool fits = node_is(n, NODE_INT) && n->integer >= min && n->integer <= max;
	return fits ? n->integer : otherwise;
}

static bool framework_is_true(const struct node *n)
{
	return node_is(n, NODE_BOOL) && n->boolean;
}

/* The text, if it has at most `max` bytes and only these characters; NULL. */
static const char *framework_text_only_of(const struct node *n, const char *characters, size_t max)
{
	const char *text = framework_text_of(n);
	return text && n->n <= max && strspn(text, characters) == n->n ? text : NULL;
}

#define DIGITS "0123456789"
#define LOWER  "abcdefghijklmnopqrstuvwxyz"

static const char *framework_address_text(const struct node *n)
{
	return framework_text_only_of(n, DIGITS "abcdefABCDEF.:", ADDRESS_MAX);
}

static const char *framework_uid(const struct node *n)
{
	return framework_text_only_of(n, LOWER DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZ._-", UID_MAX);
}

/* 0 if it is not a list. */
static uint32_t framework_list_size(const struct node *list)
{
	return node_is(list, NODE_LIST) ? list->n : 0;
}

/* ---- gzip ------------------------------------------------------------------------------------ */

enum { RATIO_MAX = 1032 /* of deflate */ };

int gunzip_base64(struct span text, size_t max, struct arena *a, struct span *out, struct err *e)
{
	ARENA_AUTO packed = { 0 };
	struct span gzip;
	if (text.n > FRAMEWORK_MAX)
		return err_set(e, FAILED, "is longer than %d bytes", FRAMEWORK_MAX);
	if (base64_decode(&packed, text, &gzip) < 0)
		return err_set(e, FAILED, "is no base64");
	if (gzip_unpack(gzip, max, RATIO_MAX, a, out))
		return 0;
	return err_set(e, FAILED,
	               "is damaged (no whole gzip of one part), or has more than %zu bytes when "
	               "inflated",
	               max);
}

/* ---- JSON ------------------------------------------------------------------------- */

static int framework_json(struct span text, size_t max, struct arena *a, struct node *root,
                          struct err *e)
{
	const struct budget budget = { .depth = 64, .nodes = NODES_MAX, .text = max, .key = max };
	ERR_AUTO why = { 0 };
	struct doc doc;
	if (text.n > max)
		return err_set(e, FAILED, "is longer than %zu bytes", max);
	size_t good = utf8_check(text);
	if (good < text.n)
		return err_set(e, FAILED, "is no UTF-8 at byte %zu", good);
	if (json_read(text, &budget, a, &doc, NULL, &why) < 0)
		return err_set(e, FAILED, "%s", err_msg(&why));
	*root = doc.root;
	return 0;
}

/* Sets a member in a copy of the members, which are read-only. */
static void framework_set(struct arena *a, struct node *map, const char *key,
                          const struct node *value)
{
	struct member *copy = arena_alloc(a, (map->n + 1) * sizeof(*copy));
	uint32_t at = 0;
	memcpy(copy, map->member, map->n * sizeof(*copy));
	while (at < map->n && !span_is(member_key(&copy[at]), key))
		at++;
	if (at == map->n)
		copy[map->n++] = (struct member){ .key = key, .key_n = (uint32_t)strlen(key) };
	copy[at].value = *value;
	map->member = copy;
}

/* The status of large jobs is compressed: replace it by its contents. */
static int framework_decompress(struct arena *a, struct node *root, struct err *e)
{
	static const struct node NONE = { .type = NODE_NULL };
	const struct node *attempt = NODE_AT(root, "status", "attemptStatus");
	const struct node *packed = node_get(attempt, "taskRoleStatusesCompressed");
	const struct node *plain = node_get(attempt, "taskRoleStatuses");
	if (!framework_text_of(packed) || framework_list_size(plain))
		return 0;
	ARENA_AUTO inflated = { 0 };
	struct span text = SPAN("");
	struct node roles;
	if (gunzip_base64(node_span(packed), STATUS_MAX, &inflated, &text, e) < 0 ||
	    framework_json(text, STATUS_MAX, a, &roles, e) < 0)
		return err_wrap(e, "taskRoleStatusesCompressed");
	struct node within = *attempt;
	struct node status = *node_get(root, "status");
	framework_set(a, &within, "taskRoleStatusesCompressed", &NONE);
	framework_set(a, &within, "taskRoleStatuses", &roles);
	framework_set(a, &status, "attemptStatus", &within);
	framework_set(a, root, "status", &status);
	return 0;
}

/* ---- roles and tasks ---------------------------------------------------------------- */

/* Finds or adds the role of an entry; NULL if its name is not valid. */
static struct init_role *framework_add_role(struct init_framework *f, const struct node *entry)
{
	const char *name =
	    framework_text_only_of(node_get(entry, "name"), LOWER DIGITS, ROLE_NAME_MAX);
	if (name == NULL)
		return NULL;
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->role[i].name, name) == 0)
			return &f->role[i];
	f->role[f->n] = (struct init_role){ .name = name, .number = -1 };
	return &f->role[f->n++];
}

static void framework_read_task(struct init_task *t, const struct node *entry)
{
	const struct node *attempt = node_get(entry, "attemptStatus");
	*t = (struct init_task){
		.index = framework_int_of(node_get(entry, "index"), 0, TASK_NUMBER_MAX, -1),
		.pod_ip = framework_address_text(node_get(attempt, "podIP")),
		.host_ip = framework_address_text(node_get(attempt, "podHostIP")),
		.pod_uid = framework_uid(node_get(attempt, "podUID")),
		.deletion_pending = framework_is_true(node_get(entry, "deletionPending")),
	};
	t->port =
	    (struct port_source){ t->pod_uid, framework_text_only_of(node_get(attempt, "podPorts"),
		                                                     DIGITS ",", PORT_LIST_MAX) };
}

static void framework_read_status(struct init_framework *f, const struct node *roles,
                                  struct arena *a)
{
	bool given = false;
	for (uint32_t i = 0; i < framework_list_size(roles); i++) {
		struct init_role *r = framework_add_role(f, &roles->item[i]);
		const struct node *tasks = node_get(&roles->item[i], "taskStatuses");
		if (r == NULL || r->task)
			continue;
		r->n = framework_list_size(tasks);
		r->task = ARENA_NEW(a, struct init_task, r->n);
		for (size_t k = 0; k < r->n; k++) {
			framework_read_task(&r->task[k], &tasks->item[k]);
			given = given || r->task[k].port.given;
		}
	}
	/* If some tasks have ports, the others get theirs later. */
	for (size_t i = 0; given && i < f->n; i++)
		for (size_t k = 0; k < f->role[i].n; k++)
			f->role[i].task[k].port.uid = NULL;
}

static void framework_read_spec(struct init_framework *f, const struct node *roles)
{
	for (uint32_t i = 0; i < framework_list_size(roles); i++) {
		const struct node *entry = &roles->item[i];
		const struct node *pod = NODE_AT(entry, "task", "pod");
		struct init_role *r = framework_add_role(f, entry);
		if (r == NULL || r->in_spec)
			continue;
		r->in_spec = true;
		r->number = i;
		r->task_number =
		    framework_int_of(node_get(entry, "taskNumber"), 0, TASK_NUMBER_MAX, 0);
		r->host_network = framework_is_true(NODE_AT(pod, "spec", "hostNetwork"));
		r->ports = framework_text_of(
		    NODE_AT(pod, "metadata", "annotations", "rest-server/port-scheduling-spec"));
		f->total += r->task_number;
	}
}

static int framework_read_object(struct init_framework *f, struct arena *a, struct err *e)
{
	const struct node *spec = NODE_AT(f->root, "spec", "taskRoles");
	const struct node *status = NODE_AT(f->root, "status", "attemptStatus", "taskRoleStatuses");
	if (strcmp(node_text(f->root, "kind"), "Framework") != 0)
		return err_set(e, FAILED, "is no object of kind Framework");
	if (framework_list_size(spec) > ROLES_MAX || framework_list_size(status) > ROLES_MAX)
		return err_set(e, FAILED, "has more than %d task roles", ROLES_MAX);
	f->config = framework_text_of(NODE_AT(f->root, "metadata", "annotations", "config"));
	f->role = ARENA_NEW(a, struct init_role,
	                    (size_t)framework_list_size(spec) + framework_list_size(status));
	framework_read_status(f, status, a);
	framework_read_spec(f, spec);
	return 0;
}

struct init_framework *framework_read(struct span json, struct arena *a, struct err *e)
{
	struct init_framework *f = ARENA_NEW(a, struct init_framework, 1);
	struct node *root = ARENA_NEW(a, struct node, 1);
	f->root = root;
	if (framework_json(json, FRAMEWORK_MAX, a, root, e) < 0 ||
	    framework_decompress(a, root, e) < 0 || framework_read_object(f, a, e) < 0) {
		(void)err_wrap(e, "the Framework"); /* -1, but this returns a pointer */
		return NULL;
	}
	return f;
}

/* ---- queries --------------------------------------------------------------------------------- */

int64_t framework_ready(const struct init_framework *f)
{
	int64_t ready = 0;
	for (size_t i = 0; i < f->n; i++) {
		const struct init_role *r = &f->role[i];
		size_t wanted = (size_t)r->task_number < r->n ? (size_t)r->task_number : r->n;
		for (size_t k = 0; k < wanted; k++)
			ready += r->task[k].pod_ip && !r->task[k].deletion_pending;
	}
	return ready;
}

const char *framework_address(const struct init_role *r, const struct init_task *t)
{
	if (r->host_network)
		return t->host_ip ? t->host_ip : t->pod_ip;
	return t->pod_ip;
}

const struct init_role *framework_role(const struct init_framework *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++) {
		if (strcmp(f->role[i].name, name) == 0)
			return &f->role[i];
	}
	return NULL;
}

const struct init_task *framework_task(const struct init_role *r, int64_t index)
{
	/* Usually they are in order. */
	if (index >= 0 && (size_t)index < r->n && r->task[index].index == index)
		return &r->task[index];
	for (size_t i = 0; i < r->n; i++) {
		if (index >= 0 && r->task[i].index == index)
			return &r->task[i];
	}
	return NULL;
}
