/* Pods of Kubernetes in a job: the grants of their volumes, and the pod that becomes of theirs and
 * of taskrole.yaml. */
#include "translate/dialects/raw_pod.h"
#include "translate/names.h"
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
				            quoted(s->a, v->source), PROBLEMS[grant], s->job->user);
		}
	}
	return rc;
}

/* ---- the pod ---- */

enum { RAW_DEPTH = 128, POD_TEMPLATE_MAX = 4 << 20 };

static struct member raw_member(const char *key, const struct node *value)
{
	return (struct member){ .key = key, .key_n = (uint32_t)strlen(key), .value = *value };
}

/* The role with the pod of the user below `task`; taskrole.yaml is merged over it. */
static struct node raw_base(struct arena *a, const struct node *role, const struct raw_pod *pod)
{
	struct node base = *role;
	struct member *pods = ARENA_NEW(a, struct member, 1);
	struct member *v = ARENA_NEW(a, struct member, role->n);
	struct node task = { .type = NODE_MAP, .n = 1, .member = pods };
	pods[0] = raw_member("pod", pod->tree);
	for (uint32_t i = 0; i < role->n; i++) {
		v[i] = role->member[i];
		if (span_is(member_key(&v[i]), "task"))
			v[i].value = task;
	}
	base.member = v;
	return base;
}

static int raw_merge(const struct scope *s, struct span text, const struct node **out,
                     struct err *e)
{
	NOTES_AUTO warnings = { 0 };
	struct budget budget = { RAW_DEPTH, SIZE_MAX, SIZE_MAX, SIZE_MAX };
	struct doc doc = { 0 };
	bool syntax = false;
	if (json_read(text, &budget, s->a, &doc, &warnings, &syntax, e) < 0)
		return -1;
	struct node *base = ARENA_NEW(s->a, struct node, 1);
	*base = raw_base(s->a, &doc.root, s->role->pod);
	struct manifest ours = { .file = "taskrole.yaml", .root = &doc.root };
	*out = base;
	return manifest_merge(out, &ours, s->a, e);
}

static int raw_role_write(const struct scope *s, struct span *text, struct span *check,
                          struct err *e)
{
	const struct node *role = NULL;
	STR_AUTO out = STR_INIT(POD_TEMPLATE_MAX);
	if (!template_write_within(s, TEMPLATE_TASKROLE, 8192 + s->env_job.n, POD_TEMPLATE_MAX,
	                           text))
		return err_at(e, TOO_LARGE, s->role->where, "the task role is too large");
	if (raw_merge(s, *text, &role, e) < 0)
		return err_wrap(e, "the pod of task role %s", s->role->object_name);
	node_json(&out, role);
	*text = arena_span(s->a, str_view(&out));
	out.n = 0;
	str_printf(&out,
	           "{\"apiVersion\":\"v1\",\"kind\":\"PodTemplate\",\"metadata\":{\"name\":"
	           "\"%s\"},\"template\":",
	           s->job->hash);
	node_json(&out, node_get(node_get(role, "task"), "pod"));
	str_char(&out, '}');
	*check = arena_span(s->a, str_view(&out));
	return out.full ? err_at(e, TOO_LARGE, s->role->where, "the task role is too large") : 0;
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
