/* Environment of containers, contents of Secrets and ConfigMaps, quantities. */
#include "k8s/local/pod.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/enc.h"
#include "k8s/transport/reply.h"

/* ---- Secrets and ConfigMaps ------------------------------------------------------------------ */

/* The members of one map, decoded if they are base64. */
static int pod_data_take(json_t *map, bool base64, struct arena *a, struct pod_data *data,
                         size_t *n)
{
	const char *key;
	json_t *value;
	json_object_foreach (map, key, value) {
		struct span text = { json_string_value(value), json_string_length(value) };
		struct pod_data *d = &data[*n];
		if (!text.p)
			return -1;
		d->key = arena_span(a, span_of(key));
		if (!base64)
			d->value = arena_span(a, text);
		else if (base64_decode(a, text, &d->value))
			return -1;
		(*n)++;
	}
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int pod_data_read(struct span object, bool secret, struct arena *a, struct pod_data **data,
                  size_t *n, struct err *e)
{
	JSON_AUTO *root = reply_parse(object);
	json_t *plain = json_object_get(root, secret ? "stringData" : "data");
	json_t *coded = json_object_get(root, secret ? "data" : "binaryData");
	*data =
	    ARENA_NEW(a, struct pod_data, json_object_size(plain) + json_object_size(coded) + 1);
	*n = 0;
	if (!root || pod_data_take(coded, true, a, *data, n) ||
	    pod_data_take(plain, false, a, *data, n))
		return err_set(e, UNKNOWN_ERROR, "a %s in the store is damaged",
		               secret ? "Secret" : "ConfigMap");
	return 0;
}

/* ---- the environment ------------------------------------------------------------------------- */

struct variables {
	char **v; /* NAME=VALUE */
	size_t n, room;
};

/* NULL if there is none. */
static char **variable_find(const struct variables *all, struct span name)
{
	for (size_t i = all->n; i-- > 0;) {
		if (strncmp(all->v[i], name.p, name.n) == 0 && all->v[i][name.n] == '=')
			return &all->v[i];
	}
	return NULL;
}

static void variable_set(struct variables *all, const char *name, struct span value,
                         struct arena *a)
{
	STR_AUTO text = STR_SECRET(strlen(name) + value.n + 1);
	str_puts(&text, name);
	str_char(&text, '=');
	str_span(&text, value);
	char **old = variable_find(all, span_of(name));
	if (!old && all->n == all->room) {
		size_t room = all->room ? 2 * all->room : 64;
		char **more = ARENA_NEW(a, char *, room + 1);
		if (all->n)
			memcpy(more, all->v, all->n * sizeof(*more));
		all->v = more;
		all->room = room;
	}
	*(old ? old : &all->v[all->n++]) = arena_dup(a, str_view(&text));
}

/* The rules of Kubernetes: $(NAME) is replaced if it is known, $$ is $, and anything else stays. */
static char *variables_expand(const char *text, const struct variables *all, struct arena *a)
{
	STR_AUTO out = STR_SECRET(POD_OBJECT_MAX);
	struct span rest = span_of(text);
	while (rest.n > 0) {
		size_t n = span_chr(rest, '$');
		str_span(&out, span_to(rest, n));
		rest = span_from(rest, n);
		if (rest.n == 0)
			break;
		size_t end = rest.n > 1 && rest.p[1] == '(' ? span_chr(rest, ')') : rest.n;
		struct span name = end < rest.n ? (struct span){ rest.p + 2, end - 2 } : SPAN("");
		char **found = end < rest.n && name.n ? variable_find(all, name) : NULL;
		size_t used = end < rest.n ? end + 1 : rest.n < 2 ? 1 : 2;
		if (found)
			str_puts(&out, *found + name.n + 1);
		else if (end == rest.n && rest.n > 1 && rest.p[1] == '$')
			str_char(&out, '$');
		else
			str_span(&out, span_to(rest, used));
		rest = span_from(rest, used);
	}
	return arena_dup(a, str_view(&out));
}

char *pod_expand(const char *text, char *const *env, struct arena *a)
{
	size_t n = 0;
	while (env[n])
		n++;
	struct variables all = { NULL, n, n };
	memcpy(&all.v, &env, sizeof(env));
	return variables_expand(text, &all, a);
}

/* A name that a process can be given. */
static bool variable_name_ok(struct span name)
{
	return name.n > 0 && !is_digit(name.p[0]) && span_only(name, "._-");
}

static int variables_from_object(struct variables *all, const struct pod_env *v,
                                 const struct pod_objects *o, struct arena *a, struct err *e)
{
	struct pod_data *data = NULL;
	size_t n = 0;
	int got = o->get(o->arg, v->secret, v->object, a, &data, &n, e);
	if (got < 0)
		return -1;
	bool found = got == 0 && v->all;
	/* More are an error later, but take no time. */
	for (size_t i = 0; got == 0 && i < n && all->n <= POD_ENV_MAX; i++) {
		if (v->all && variable_name_ok(data[i].key))
			variable_set(all, arena_printf(a, "%s%s", v->name, data[i].key.p),
			             data[i].value, a);
		if (v->all || !span_is(data[i].key, v->key))
			continue;
		variable_set(all, v->name, data[i].value, a);
		found = true;
	}
	if (found || v->optional)
		return 0;
	return err_set(e, INVALID_PARAMETERS, "%s %s%s%s, which variables of the pod come from, %s",
	               v->secret ? "Secret" : "ConfigMap", v->object, v->all ? "" : ", key ",
	               v->all ? "" : v->key, "does not exist");
}

char **pod_env_resolve(const struct pod_container *c, const struct pod_objects *o, struct arena *a,
                       struct err *e)
{
	struct variables all = { 0 };
	for (size_t i = 0; i < c->n_env; i++) {
		const struct pod_env *v = &c->env[i];
		if (!v->value && variables_from_object(&all, v, o, a, e))
			return NULL;
		if (!v->value)
			continue;
		const char *value = v->expand ? variables_expand(v->value, &all, a) : v->value;
		variable_set(&all, v->name, span_of(value), a);
	}
	if (all.n > POD_ENV_MAX) {
		(void)err_set(e, INVALID_PARAMETERS, "container %s has more than %d variables",
		              c->name, POD_ENV_MAX);
		return NULL;
	}
	if (!all.v)
		all.v = ARENA_NEW(a, char *, 1);
	all.v[all.n] = NULL;
	return all.v;
}

/* ---- quantities ------------------------------------------------------------------------------ */

/* The factor of a suffix in thousandths, or 0. */
static __int128 quantity_factor(struct span suffix)
{
	static const struct {
		const char *suffix;
		int64_t base;
		int power;
	} SUFFIXES[] = {
		{ "", 1000, 0 },   { "m", 1000, -1 }, { "k", 1000, 1 },  { "M", 1000, 2 },
		{ "G", 1000, 3 },  { "T", 1000, 4 },  { "P", 1000, 5 },  { "E", 1000, 6 },
		{ "Ki", 1024, 1 }, { "Mi", 1024, 2 }, { "Gi", 1024, 3 }, { "Ti", 1024, 4 },
		{ "Pi", 1024, 5 }, { "Ei", 1024, 6 }, { "e1", 10, 1 },   { "e2", 10, 2 },
		{ "e3", 10, 3 },   { "e6", 10, 6 },   { "e9", 10, 9 },   { "e12", 10, 12 },
	};
	for (size_t i = 0; i < sizeof(SUFFIXES) / sizeof(*SUFFIXES); i++) {
		__int128 factor = SUFFIXES[i].power < 0 ? 1 : 1000;
		if (!span_same(suffix, span_of(SUFFIXES[i].suffix)) ||
		    (suffix.n == 1 && suffix.p[0] != SUFFIXES[i].suffix[0]))
			continue;
		for (int k = 0; k < SUFFIXES[i].power; k++)
			factor *= SUFFIXES[i].base;
		return factor;
	}
	return 0;
}

int64_t pod_quantity_milli(struct span text)
{
	enum { DIGITS_MAX = 18 };
	__int128 value = 0;
	__int128 divisor = 1;
	size_t i = 0;
	size_t digits = 0;
	bool fraction = false;
	for (; i < text.n && (is_digit(text.p[i]) || (text.p[i] == '.' && !fraction)); i++) {
		if (text.p[i] == '.') {
			fraction = true;
			continue;
		}
		if (++digits > DIGITS_MAX)
			return -1;
		value = value * 10 + (text.p[i] - '0');
		divisor *= fraction ? 10 : 1;
	}
	__int128 factor = quantity_factor(span_from(text, i));
	if (digits == 0 || factor == 0)
		return -1;
	value = (value * factor + divisor - 1) / divisor;
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}
