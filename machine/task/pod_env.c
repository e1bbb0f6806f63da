/* Environment of containers, contents of Secrets and ConfigMaps. */
#include "machine/task/pod.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/enc.h"
#include "jobs/store/reply.h"

/* ---- Secrets and ConfigMaps ------------------------------------------------------------------ */

/* The members of one map, decoded if they are base64. */
static int pod_data_take(json_t *map, bool base64, struct arena *a, struct pod_data *out)
{
	const char *key;
	json_t *value;
	json_object_foreach (map, key, value) {
		struct span text = { json_string_value(value), json_string_length(value) };
		struct pod_pair *d = &out->v[out->n];
		if (!text.p)
			return -1;
		d->key = arena_span(a, span_of(key));
		if (!base64)
			d->value = arena_span(a, text);
		else if (base64_decode(a, text, &d->value))
			return -1;
		out->n++;
	}
	return 0;
}

int pod_data_read(struct span object, bool secret, struct arena *a, struct pod_data *out,
                  struct err *e)
{
	JSON_AUTO *root = reply_parse(object);
	json_t *plain = json_object_get(root, secret ? "stringData" : "data");
	json_t *coded = json_object_get(root, secret ? "data" : "binaryData");
	out->v =
	    ARENA_NEW(a, struct pod_pair, json_object_size(plain) + json_object_size(coded) + 1);
	out->n = 0;
	if (!root || pod_data_take(coded, true, a, out) || pod_data_take(plain, false, a, out))
		return err_set(e, UNKNOWN_ERROR, "a %s in the store is damaged",
		               secret ? "Secret" : "ConfigMap");
	return 0;
}

int pod_source_get(const struct pod_source *s, const struct pod_objects *o, struct arena *a,
                   struct pod_data *out, struct err *e)
{
	*out = (struct pod_data){ 0 };
	int got = o->get(o->arg, s, a, out, e);
	if (got <= 0 || s->optional)
		return got < 0 ? -1 : 0;
	return err_set(e, UNAVAILABLE, "%s %s, which the pod needs, does not exist",
	               s->secret ? "Secret" : "ConfigMap", s->name);
}

/* ---- the environment ------------------------------------------------------------------------- */

int pod_env_resolve(const struct pod_container *c, const struct pod_objects *o, struct words *out,
                    struct err *e)
{
	struct arena *a = out->a;
	for (size_t i = 0; i < c->n_env; i++) {
		const struct pod_env *v = &c->env[i];
		struct pod_data data = { 0 };
		if (v->value) {
			const char *value = v->expand ? words_expand(out, v->value) : v->value;
			words_set(out, arena_printf(a, "%s=%s", v->name, value));
		} else if (pod_source_get(&v->from, o, a, &data, e)) {
			return -1;
		}
		/* More are an error below, but take no time. */
		for (size_t k = 0; k < data.n && out->n <= POD_ENV_MAX; k++) {
			const struct pod_pair *d = &data.v[k];
			/* A name that a process can be given. */
			if (d->key.n > 0 && !is_digit(d->key.p[0]) &&
			    span_only_alnum_or(d->key, "._-"))
				words_set(out, arena_printf(a, "%s%s=%s", v->name, d->key.p,
				                            arena_dup(a, d->value)));
		}
	}
	if (out->n > POD_ENV_MAX)
		return err_set(e, INVALID_PARAMETERS, "container %s has more than %d variables",
		               c->name, POD_ENV_MAX);
	return 0;
}
