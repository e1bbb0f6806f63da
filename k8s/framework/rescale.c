#include <stdlib.h>

#include "k8s/framework/framework_internal.h"

/* A whole new task in this place. */
static void rescale_task(struct fw_sync *s, struct fw_task *t)
{
	fw_task_clear(t);
	t->life = FW_LIFE_NEW;
	t->uid = fw_uuid(s);
	t->life.start_s = t->life.transition_s = s->now_s;
	fw_task_begin(s, t);
}

/* Tasks up to the number of the spec.  true: some were added. */
static bool rescale_fill(struct fw_sync *s, struct fw_role *r, int32_t number)
{
	bool added = false;
	while (r->n < (size_t)number) {
		rescale_task(s, fw_task_add(r));
		added = true;
	}
	return added;
}

static struct fw_role *rescale_role(struct fw_sync *s, const struct fw_role_spec *spec)
{
	struct fw_role *r = fw_role_add(s->f);
	r->spec = spec;
	r->name = xstrdup(spec->name);
	r->uid = fw_uuid(s);
	return r;
}

void fw_attempt_begin(struct fw_sync *s)
{
	struct framework *f = s->f;
	for (size_t i = 0; i < f->n_roles; i++)
		fw_role_clear(&f->roles[i]);
	f->n_roles = 0;
	fw_attempt_clear(&f->life);
	f->life.id = f->life.retried;
	f->life.attempt_start_s = s->now_s;
	for (size_t i = 0; i < f->n_role_specs; i++)
		(void)rescale_fill(s, rescale_role(s, &f->role_specs[i]), f->role_specs[i].number);
}

/* Tasks from this place on are to be scaled away.  true: some were marked. */
static bool rescale_mark(struct fw_sync *s, struct fw_role *r, size_t from)
{
	bool marked = false;
	for (size_t i = from; i < r->n; i++) {
		struct fw_task *t = &r->tasks[i];
		if (t->removing)
			continue;
		t->removing = marked = true;
		fw_end(s, &t->life, fw_scaled_down());
	}
	return marked;
}

static bool rescale_gone(const struct fw_task *t)
{
	return t->removing && t->life.state == FW_COMPLETED;
}

/* Tasks that were scaled away, and are wanted again.  true: some were replaced. */
static bool rescale_replace(struct fw_sync *s, struct fw_role *r, size_t number)
{
	bool replaced = false;
	for (size_t i = 0; i < r->n && i < number; i++) {
		if (rescale_gone(&r->tasks[i])) {
			rescale_task(s, &r->tasks[i]);
			replaced = true;
		}
	}
	return replaced;
}

/* Removes what is scaled away, from the end of each role; an empty role that is not in the spec
 * gives its place to the last one. */
static void rescale_trim(struct fw_sync *s)
{
	struct framework *f = s->f;
	size_t i = 0;
	while (i < f->n_roles) {
		struct fw_role *r = &f->roles[i];
		while (r->n > 0 && rescale_gone(&r->tasks[r->n - 1])) {
			fw_task_clear(&r->tasks[--r->n]);
			s->r->status_changed = true;
		}
		if (r->n > 0 || r->spec) {
			i++;
			continue;
		}
		fw_role_clear(r);
		*r = f->roles[--f->n_roles];
		s->r->status_changed = true;
	}
}

bool fw_rescale(struct fw_sync *s)
{
	struct framework *f = s->f;
	bool changed = false;
	size_t n = f->n_roles;
	for (size_t i = 0; i < f->n_role_specs; i++) {
		const struct fw_role_spec *spec = &f->role_specs[i];
		if (spec->status)
			continue;
		changed |= rescale_fill(s, rescale_role(s, spec), spec->number);
		s->r->status_changed = true;
	}
	for (size_t i = 0; i < n; i++) {
		struct fw_role *r = &f->roles[i];
		size_t number = r->spec ? (size_t)r->spec->number : 0;
		changed |= rescale_replace(s, r, number);
		changed |= rescale_fill(s, r, (int32_t)number);
		changed |= rescale_mark(s, r, number);
	}
	if (!changed)
		rescale_trim(s);
	if (s->r->status_changed)
		fw_link(f);
	return changed;
}
