/* The way from struct job and facts to the objects: permissions, limits, the Framework and the
 * objects beside it. */
#include "translate/objects/build.h"
#include "translate/hived/hived_plan.h"
#include "translate/job/names.h"
#include "translate/objects/objects.h"
#include "translate/render/bindings.h"
#include "translate/render/translator.h"

enum {
	ANNOTATIONS_OWN = 512,          /* annotations of the Framework besides job file and name */
	SECRET_MAX = 4 * (1 << 20) / 3, /* Kubernetes: 1 MiB, before base64 */
	CONFIGMAP_MAX = 1 << 20,
	HEAVY_ROLES = 3 /* named in the message for an object that is too large */
};

static const struct place DOCUMENT = { "", 0, 0 };

struct side_object {
	enum object_kind kind;
	enum template_id unit;
	const char *suffix;
	enum overlay_condition needed;
	bool owned; /* by the Framework; a PriorityClass has no namespace and cannot be owned */
	size_t max;
	const char *smaller; /* advice how to reduce the size */
};

/* clang-format off */
static const struct side_object SIDES[] = {
	{ KIND_SECRET,        TEMPLATE_SECRET_REGISTRY, "-regcred",    WHEN_REGISTRY,       true,  SECRET_MAX,
	  "fewer images with `auth`" },
	{ KIND_SECRET,        TEMPLATE_SECRET_JOB,      "-configcred", WHEN_JOB_SECRETS,    true,  SECRET_MAX,
	  "fewer or shorter `secrets`" },
	{ KIND_SECRET,        TEMPLATE_SECRET_USER,     "-usercred",   WHEN_USER_EXTENSION, true,  SECRET_MAX,
	  "fewer keys" },
	{ KIND_CONFIGMAP,     TEMPLATE_CONFIGMAP_ENV,   "-env",        WHEN_ENV_CONFIGMAP,  true,  CONFIGMAP_MAX,
	  "fewer task roles or shorter names of them" },
	{ KIND_PRIORITYCLASS, TEMPLATE_PRIORITYCLASS,   "-priority",   WHEN_PRIORITY_CLASS, false, CONFIGMAP_MAX,
	  "shorter templates" },
};
/* clang-format on */
enum { N_SIDES = ARRAY_SIZE(SIDES) };

bool template_write_within(const struct scope *s, enum template_id u, size_t guess, size_t max,
                           struct span *text)
{
	for (size_t room = guess;; room = 4 * room) {
		if (room > max)
			room = max;
		struct str out = { .p = arena_alloc(s->a, room + 1), .cap = room + 1, .max = room };
		template_write(s, u, &out);
		*text = str_view(&out);
		if (!out.full)
			return true;
		if (room == max)
			return false;
	}
}

static size_t build_guess_env_size(const struct scope *s)
{
	return 2048 + 512 * s->job->n_roles;
}

static int build_too_large(const char *what, size_t max, const char *smaller, struct err *e)
{
	return err_at(e, TOO_LARGE, DOCUMENT,
	              "%s would be larger than %zu bytes; %s make it smaller", what, max, smaller);
}

static int write_side(const struct scope *s, const struct side_object *side, struct object *o,
                      struct err *e)
{
	struct scope in = *s;
	size_t max = side->max < s->set->max_object ? side->max : s->set->max_object;
	in.uid_at = &o->uid_at;
	o->kind = side->kind;
	o->name = arena_printf(s->a, "%s%s", s->job->hash, side->suffix);
	size_t guess = 4096 + (side->unit == TEMPLATE_CONFIGMAP_ENV ? build_guess_env_size(s) : 0);
	if (template_write_within(&in, side->unit, guess, max, &o->body))
		return 0;
	return build_too_large(TEMPLATES[side->unit].doc, max, side->smaller, e);
}

struct role_weight {
	size_t bytes;
	const struct role *role;
};

static int framework_too_large(const struct scope *s, struct err *e)
{
	struct role_weight top[HEAVY_ROLES] = { 0 };
	struct scope in = *s;
	size_t max = s->set->max_object;
	char *room = arena_alloc(s->a, max + 1);
	for (size_t i = 0; i < s->job->n_roles; i++) {
		struct str out = { .p = room, .cap = max + 1, .max = max };
		in.role = &s->job->roles[i];
		template_write(&in, TEMPLATE_TASKROLE, &out);
		/* The heaviest roles stay, in order. */
		struct role_weight w = { out.n, in.role };
		for (size_t k = 0; k < HEAVY_ROLES; k++) {
			struct role_weight lighter = top[k];
			if (w.bytes <= lighter.bytes)
				continue;
			top[k] = w;
			w = lighter;
		}
	}
	(void)build_too_large(
	    "the Framework of this job", max,
	    "fewer task roles, shorter commands or fewer variables (`extras.env`, v1: "
	    "`jobEnvs`)",
	    e);
	for (size_t i = 0; i < HEAVY_ROLES && top[i].role; i++) {
		(void)err_at(e, TOO_LARGE, top[i].role->where,
		             "task role `%s` takes %zu bytes of it",
		             arena_quoted(s->a, top[i].role->name), top[i].bytes);
	}
	return -1;
}

static int write_framework(const struct scope *s, struct object *o, struct err *e)
{
	const struct job *j = s->job;
	size_t guess = 2048 + j->config.n + j->config.n / 8;
	for (size_t i = 0; i < j->n_roles; i++)
		guess += 5120 + 2 * s->env_job.n + j->roles[i].command.n +
		         j->roles[i].command.n / 8 + 64 * j->roles[i].n_env + 192 * s->n_mounts;
	o->kind = KIND_FRAMEWORK;
	o->name = arena_dup(s->a, span_of(j->hash));
	if (template_write_within(s, TEMPLATE_FRAMEWORK, guess, s->set->max_object, &o->body))
		return 0;
	return framework_too_large(s, e);
}

/* The virtual cluster of the job has the queue that it asks for. */
static bool queue_is_allowed(const struct scope *s)
{
	const struct member *own = node_member(s->facts->queues, s->job->virtual_cluster);
	const struct node *usual = node_get(own ? &own->value : NULL, "queue");
	const struct node *more = node_get(own ? &own->value : NULL, "queues");
	struct span queue = s->job->queue;
	if (usual && span_eq(node_span(usual), queue))
		return true;
	for (size_t i = 0; i < node_items(more); i++)
		if (span_eq(node_span(&more->item[i]), queue))
			return true;
	return false;
}

/* 403 if the user may not use the virtual cluster of the job, or if a role asks for something that
 * the user is not granted.  Profile openpai grants all. */
static int allocations_check(const struct scope *s, struct err *e)
{
	const struct facts *f = s->facts;
	unsigned refused = 0;
	size_t vc = 0;
	while (vc < f->n_virtual_clusters &&
	       !span_eq(f->virtual_clusters[vc], s->job->virtual_cluster))
		vc++;
	if (!f->any_virtual_cluster && vc == f->n_virtual_clusters)
		return err_at(e, FORBIDDEN, s->job->virtual_cluster_where,
		              "virtual cluster `%s` is not granted to %s",
		              arena_quoted(s->a, s->job->virtual_cluster), s->job->user);
	if (s->job->queue.n && !queue_is_allowed(s))
		return err_at(
		    e, FORBIDDEN, s->job->queue_where,
		    "the queue `%s` is not one of the virtual cluster `%s`; an "
		    "administrator can name it in `virtualClusters: {%s: {queues: [%s]}}` "
		    "of the file of --facts",
		    arena_quoted(s->a, s->job->queue), arena_quoted(s->a, s->job->virtual_cluster),
		    arena_quoted(s->a, s->job->virtual_cluster), arena_quoted(s->a, s->job->queue));
	for (size_t i = 0; s->set->profile != PROFILE_OPENPAI && i < s->job->n_roles; i++) {
		const struct role *role = &s->job->roles[i];
		unsigned missing = role->wants & ~f->grants;
		refused |= missing;
		for (size_t bit = 0; bit < GRANT_BITS; bit++)
			if (missing >> bit & 1)
				(void)err_at(e, FORBIDDEN, role->wants_where[bit],
				             "`%s` is not granted to %s; an administrator can "
				             "grant it to a user or a group, by `overlays: [%s]`",
				             GRANT_NAMES[bit], s->job->user, GRANT_NAMES[bit]);
	}
	return refused ? -1 : 0;
}

static bool restricted_refuse(struct err *e, struct place where, const char *what, const char *way)
{
	(void)err_at(e, FORBIDDEN, where,
	             "the profile restricted has no %s, which Pod Security `restricted` forbids: "
	             "%s, or ask the administrator for the profile plain",
	             what, way);
	return true;
}

/* 403 for each thing that the profile restricted cannot do, also if it is granted. */
static int restricted_check(const struct scope *s, struct err *e)
{
	static const char *const WAYS[GRANT_BITS][2] = {
		{ "FUSE: it needs CAP_SYS_ADMIN", "use `extras.storages` or copy the files" },
		{ "network of the node", "use the addresses of pods, PAI_HOST_IP_*" },
		{ "InfiniBand: it needs CAP_IPC_LOCK", "use TCP, as NCCL does by itself" },
	};
	bool refused = false;
	if (s->set->profile != PROFILE_RESTRICTED)
		return 0;
	if (s->job->sshd_where.line)
		refused = restricted_refuse(
		    e, s->job->sshd_where, "sshd: it needs root",
		    "start tasks without it (extras.distributed with torch, tensorflow or jax), "
		    "look into them by `rest-lit logs`");
	for (size_t i = 0; i < s->job->n_roles; i++) {
		const struct role *role = &s->job->roles[i];
		for (size_t bit = 0; bit < GRANT_BITS; bit++)
			if (role->wants >> bit & 1)
				refused = restricted_refuse(e, role->wants_where[bit], WAYS[bit][0],
				                            WAYS[bit][1]);
		for (size_t k = 0; role->pod && k < role->pod->n_volumes; k++)
			if (!role->pod->volumes[k].claim)
				refused = restricted_refuse(e, role->pod->volumes[k].where,
				                            "hostPath and nfs volumes",
				                            "use a persistentVolumeClaim");
	}
	return refused ? -1 : 0;
}

static int check_annotations(const struct scope *s, struct err *e)
{
	size_t max = s->set->max_annotations;
	size_t own = s->job->name.n + ANNOTATIONS_OWN;
	if (s->job->hived && s->job->hived->priority_class.n)
		own += sizeof("rest-lit/job-priority-class") - 1 + s->job->hived->priority_class.n;
	if (own > max || s->job->config.n > max - own)
		return err_at(e, INVALID_PROTOCOL, DOCUMENT,
		              "job file is larger than %zu bytes and cannot be stored",
		              own > max ? 0 : max - own);
	for (size_t i = 0; i < s->job->n_roles; i++) {
		const struct role *r = &s->job->roles[i];
		size_t n = ANNOTATIONS_OWN;
		for (size_t k = 0; k < r->n_ports; k++)
			n += r->ports[k].label.n + sizeof("\"\":{\"count\":65536},");
		if (n > max)
			return err_at(e, INVALID_PROTOCOL, r->where,
			              "too many ports: their list is larger than %zu bytes", max);
	}
	return 0;
}

static int build_objects(struct scope *s, struct objects *out, struct err *e)
{
	s->set = translator_settings(s->t);
	if (restricted_check(s, e) < 0 || allocations_check(s, e) < 0 ||
	    hived_plan_make(s, e) < 0 || storages_resolve(s, e) < 0 || code_check(s, e) < 0 ||
	    raw_volumes_check(s, e) < 0 || check_annotations(s, e) < 0)
		return -1;
	/* The common environment is copied into both containers of every role, unless it is too
	 * large. */
	size_t max = s->set->max_env_inline / (2 * s->job->n_roles);
	s->env_moved =
	    !template_write_within(s, TEMPLATE_ENV_JOB, build_guess_env_size(s), max, &s->env_job);
	if (s->env_moved)
		s->env_job = (struct span){ NULL, 0 };
	struct object *v = ARENA_NEW(s->a, struct object, N_SIDES + 1);
	size_t n = 0;
	for (size_t i = 0; i < N_SIDES; i++) {
		if (!condition_holds(SIDES[i].needed, s))
			continue;
		if (write_side(s, &SIDES[i], &v[n], e) < 0)
			return -1;
		n++;
	}
	s->owned = n > 0;
	*out = (struct objects){ 0 };
	if (raw_roles_write(s, out, e) < 0 || write_framework(s, &v[n], e) < 0)
		return -1;
	out->v = v;
	out->n = n + 1;
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int job_build(const struct translator *t, const struct job *job, const struct facts *f,
              const struct submission_mark *m, struct arena *a, struct objects *out, struct err *e)
{
	struct scope s = { .t = t, .job = job, .facts = f, .mark = m, .a = a };
	return build_objects(&s, out, e);
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int job_preview(const struct translator *t, const struct job *job, const struct facts *f,
                struct arena *a, struct objects *out, struct err *e)
{
	struct scope s = { .t = t, .job = job, .facts = f, .hide = true, .a = a };
	return build_objects(&s, out, e);
}
