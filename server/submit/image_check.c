#include "server/submit/image_check.h"

#include "k8s/images/images.h"
#include "server/features.h"
#include "server/http/loop.h"
#include "translate/translate.h"

struct pending {
	struct submit *s;
	struct job_image *images;
	void (*then)(void *arg, const struct err *e);
	void *arg;
};

/* Pods have logins that are not the job's: the kubelet may know better than we do. */
static bool may_be_wrong(const struct options *o, const struct job_image *image)
{
	return o->runtime_pull_secret[0] && !image->has_login;
}

static void missing(const struct pending *p, const struct job_image *image, const char *sentence,
                    struct err *e)
{
	const struct options *o = p->s->r->loop->server->options;
	bool v1 = job_dialect(p->s->job) == DIALECT_V1;
	if (strcmp(o->check_images, "refuse") != 0)
		notes_add(&p->s->warnings, image->where, "%s", sentence);
	else if (may_be_wrong(o, image))
		notes_add(&p->s->warnings, image->where,
		          "%s; the pods have a login of their own, so it is tried all the same",
		          sentence);
	else if (v1)
		(void)err_at(e, INVALID_PARAMETERS, image->where, "%s", sentence);
	else
		(void)err_at(e, INVALID_PROTOCOL, image->where, "%s", sentence);
}

static void checked(void *arg, const struct images_finding *v, size_t n)
{
	struct pending *p = arg;
	ERR_AUTO e = { 0 };
	for (size_t i = 0; i < n; i++) {
		const struct job_image *image = &p->images[i];
		if (!v[i].asked || v[i].verdict == REGISTRY_FOUND)
			continue;
		if (v[i].verdict == REGISTRY_MISSING)
			missing(p, image, v[i].sentence, &e);
		else
			notes_add(&p->s->warnings, image->where, "%s", v[i].sentence);
	}
	p->then(p->arg, &e);
}

bool image_check(struct submit *s, void (*then)(void *arg, const struct err *e), void *arg)
{
	struct request *r = s->r;
	struct loop *l = r->loop;
	if (!l->has->images)
		return false;
	struct pending *p = ARENA_NEW(&r->arena, struct pending, 1);
	*p = (struct pending){ .s = s, .then = then, .arg = arg };
	size_t n = job_images(s->job, &r->arena, &p->images);
	struct images_subject *v = ARENA_NEW(&r->arena, struct images_subject, n + 1);
	for (size_t i = 0; i < n; i++)
		v[i] = (struct images_subject){ p->images[i].name, p->images[i].has_login,
			                        p->images[i].login };
	return images_check(l->has->images, v, n, checked, p);
}
