/* How pai-runtime gets into pods: by an image of its own, or out of a ConfigMap. */
#include <assert.h>

#include "translate/render/bindings.h"

enum { OBJECT_MAX = 64 << 20 }; /* far above what any cluster takes */

bool runtime_by_configmap(const struct settings *s)
{
	return s->program.configmap[0] != '\0';
}

bool runtime_in_own_image(const struct scope *s)
{
	return runtime_by_configmap(s->set) && s->set->runtime_init_image[0] == '\0';
}

static struct span init_image_of(const struct scope *s)
{
	if (runtime_in_own_image(s))
		return s->role->image;
	return span_of(runtime_by_configmap(s->set) ? s->set->runtime_init_image
	                                            : s->set->runtime_image);
}

static bool init_image(const struct scope *s, struct out *o)
{
	out_text(o, init_image_of(s));
	return true;
}

/* What Kubernetes itself would choose; said, so that it is seen. */
const char *image_pull_policy(struct span image)
{
	size_t name = 0;
	for (size_t i = 0; i < image.n; i++) {
		if (image.p[i] == '/')
			name = i + 1;
		else if (image.p[i] == '@')
			return "IfNotPresent";
	}
	size_t tag = name;
	while (tag < image.n && image.p[tag] != ':')
		tag++;
	struct span text = { image.p + tag, image.n - tag };
	return text.n == 0 || span_is(text, ":latest") ? "Always" : "IfNotPresent";
}

/* The job's own image is asked for as the user's container does, so that it is pulled once
 * and with the same logins. */
static bool init_pull_policy(const struct scope *s, struct out *o)
{
	out_puts(o, runtime_in_own_image(s) ? "Always" : image_pull_policy(init_image_of(s)));
	return true;
}

static bool program(const struct scope *s, struct out *o)
{
	out_text(o, s->set->program.base64);
	return true;
}

/* clang-format off */
static const struct hole HOLES[] = {
	{ "runtime.initImage",      HOLE_TEXT, false, OF_ROLE,    init_image,       "ours", "Image of the init container: `--runtime-image`; with `--runtime=configmap` the one of `--runtime-init-image`, or else the role's own." },
	{ "runtime.initPullPolicy", HOLE_TEXT, false, OF_ROLE,    init_pull_policy, "ours", "`IfNotPresent` if that image has a tag other than `latest`, or a digest; else, and for the role's own, `Always`." },
	{ "runtime.program",        HOLE_TEXT, false, OF_CLUSTER, program,          "ours", "With `--runtime=configmap`: the program, in base64." },
};
/* clang-format on */

const struct hole_group RUNTIME_HOLES = { "pai-runtime", HOLES, sizeof(HOLES) / sizeof(*HOLES) };

bool runtime_object(const struct translator *t, struct arena *a, struct object *out)
{
	const struct settings *set = translator_settings(t);
	struct scope s = { .t = t, .set = set, .a = a };
	if (!runtime_by_configmap(set))
		return false;
	struct object o = { .kind = KIND_CONFIGMAP,
		            .name = arena_dup(a, span_of(set->program.configmap)) };
	/* The program, which is bounded, and what little is around it. */
	bool fits = unit_write_within(&s, UNIT_CONFIGMAP_RUNTIME, set->program.base64.n + 4096,
	                              OBJECT_MAX, &o.body);
	assert(fits);
	*out = o;
	return true;
}
