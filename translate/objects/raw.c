/* Pods of Kubernetes in a job: the grants of their volumes, and the pod that becomes of theirs and
 * of taskrole.yaml. */
#include "base/json/scan.h"
#include "translate/dialects/raw_pod.h"
#include "translate/job/names.h"
#include "translate/objects/objects.h"
#include "translate/render/bindings.h"

/* ---- volumes ---- */

int raw_volumes_check(const struct scope *s, struct err *e)
{
	static const char *const PROBLEMS[] = {
		[RAW_NOT_GRANTED] = "is not granted",
		[RAW_PRIVATE] = "has a directory per user: write a v2 job with `extras.storages`",
		[RAW_READ_ONLY] = "may only be read: add `readOnly: true`",
	};
	int rc = 0;
	for (size_t i = 0; i < s->job->n_roles; i++) {
		const struct raw_pod *pod = s->job->roles[i].pod;
		for (size_t k = 0; pod && k < pod->n_volumes; k++) {
			const struct raw_volume *v = &pod->volumes[k];
			enum raw_grant grant = raw_volume_grant(v, s->facts);
			if (grant != RAW_GRANTED && !(grant == RAW_READ_ONLY && v->read_only))
				rc = err_at(e, FORBIDDEN, v->where, "%s `%s` %s (user %s)",
				            v->claim ? "storage" : "the directory",
				            arena_quoted(s->a, v->source), PROBLEMS[grant],
				            s->job->user);
		}
	}
	return rc;
}

/* ---- the pod ---- */

/* Copies the metadata without the labels and annotations that are not allowed. */
static struct node raw_metadata_allowed(const struct scope *s, const struct node *map)
{
	struct node out = *map;
	struct member *v = ARENA_NEW(s->a, struct member, map->n + 1);
	out.member = v;
	out.n = 0;
	for (uint32_t i = 0; i < map->n; i++) {
		struct member *m = &v[out.n];
		*m = map->member[i];
		if (m->value.type == NODE_MAP)
			m->value = raw_metadata_allowed(s, &m->value);
		else if (!raw_key_allowed(member_key(m), s->facts))
			continue;
		out.n++;
	}
	return out;
}

enum { RAW_DEPTH = 128, POD_TEMPLATE_MAX = 4 << 20 };

/* The pod of taskrole.yaml, merged over that of the user. */
static int raw_merge(const struct scope *s, struct span pod, struct span *merged, struct err *e)
{
	STR_AUTO out = STR_INIT(POD_TEMPLATE_MAX);
	struct budget budget = { RAW_DEPTH, SIZE_MAX, SIZE_MAX, SIZE_MAX };
	const struct node *tree = s->role->pod->tree; /* metadata, if any, and spec */
	struct member members[2];
	struct node pod_allowed = *tree;
	const struct node *root = &pod_allowed;
	struct doc doc = { 0 };
	if (json_read(pod, &budget, s->a, &doc, NULL, e) < 0)
		return -1;
	memcpy(members, tree->member, tree->n * sizeof(members[0]));
	if (node_get(tree, "metadata"))
		members[0].value = raw_metadata_allowed(s, &members[0].value);
	pod_allowed.member = members;
	struct manifest ours = { .file = "taskrole.yaml", .root = &doc.root };
	if (manifest_merge(&root, &ours, s->a, e) < 0)
		return -1;
	node_json(&out, root);
	*merged = arena_span(s->a, str_view(&out));
	return out.full ? err_at(e, TOO_LARGE, s->role->where, "the pod is too large") : 0;
}

static int raw_role_write(const struct scope *s, struct span *text, struct span *check,
                          struct err *e)
{
	struct span merged;
	if (!template_write_within(s, TEMPLATE_TASKROLE, 8192 + s->env_job.n, POD_TEMPLATE_MAX,
	                           text))
		return err_at(e, TOO_LARGE, s->role->where, "the task role is too large");
	struct span pod = scan_path(*text, "task", "pod");
	if (raw_merge(s, pod, &merged, e) < 0)
		return err_wrap(e, "the pod of task role %s", s->role->object_name);
	struct span before = span_to(*text, (size_t)(pod.p - text->p));
	struct span after = span_from(*text, before.n + pod.n);
	*text = span_of(arena_printf(s->a, "%.*s%s%.*s", (int)before.n, before.p, merged.p,
	                             (int)after.n, after.p));
	*check =
	    span_of(arena_printf(s->a,
	                         "{\"apiVersion\":\"v1\",\"kind\":\"PodTemplate\",\"metadata\":"
	                         "{\"name\":\"%s\"},\"template\":%s}",
	                         s->job->hash, merged.p));
	return 0;
}

int raw_roles_write(struct scope *s, struct objects *out, struct err *e)
{
	struct scope in = *s;
	struct span *text = ARENA_NEW(s->a, struct span, s->job->n_roles);
	struct object *check = ARENA_NEW(s->a, struct object, s->job->n_roles);
	for (size_t i = 0; i < s->job->n_roles; i++) {
		in.role = &s->job->roles[i];
		struct object *o = &check[out->n_checks];
		if (in.role->pod == NULL)
			continue;
		if (raw_role_write(&in, &text[i], &o->body, e) < 0)
			return -1;
		o->kind = KIND_PODTEMPLATE;
		o->name = in.role->object_name;
		out->n_checks++;
	}
	out->check = check;
	s->raw_text = text;
	return 0;
}
