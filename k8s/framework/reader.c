#include <stdlib.h>

#include "k8s/framework/framework_internal.h"

void fw_bad(struct fw_reader *r, const struct path *p, const char *fmt, ...)
{
	if (r->bad)
		return;
	r->bad = true;
	va_list args;
	va_start(args, fmt);
	FREE_AUTO char *says = NULL;
	if (vasprintf(&says, fmt, args) < 0)
		says = NULL;
	va_end(args);
	struct place at = path_place(&r->arena, p, NULL);
	err_set(r->e, INVALID_PARAMETERS, "%s%s %s", r->what, at.at ? at.at : "",
	        says ? says : "is damaged");
}

const char *fw_kind(const json_t *v)
{
	static const char *const NAMES[] = { "an object", "a list", "text",  "an integer",
		                             "a number",  "true",   "false", "null" };
	return v ? NAMES[json_typeof(v)] : "absent";
}

json_t *fw_get(const json_t *of, const char *key)
{
	json_t *v = json_object_get(of, key);
	return json_is_null(v) ? NULL : v;
}

const json_t *fw_read_object(struct fw_reader *r, const struct path *up, const json_t *of,
                             const char *key)
{
	const json_t *v = fw_get(of, key);
	struct path p = PATH_KEY(up, span_of(key));
	if (!json_is_object(v))
		fw_bad(r, &p, "must be an object, is %s", fw_kind(v));
	return v;
}

const char *fw_read_text(struct fw_reader *r, const struct path *up, const json_t *of,
                         const char *key, bool needed)
{
	const json_t *v = fw_get(of, key);
	struct path p = PATH_KEY(up, span_of(key));
	if (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v))
		return json_string_value(v);
	if (v || needed)
		fw_bad(r, &p, "must be text, is %s", fw_kind(v));
	return NULL;
}

int64_t fw_read_int(struct fw_reader *r, const struct path *up, const json_t *of, const char *key,
                    struct fw_bounds b)
{
	const json_t *v = fw_get(of, key);
	struct path p = PATH_KEY(up, span_of(key));
	/* 1.0 is an integer, too. */
	double real = json_is_real(v) ? json_real_value(v) : 0.5;
	bool whole =
	    json_is_integer(v) || (real > -1e15 && real < 1e15 && real == (double)(int64_t)real);
	int64_t i = json_is_integer(v) ? json_integer_value(v) : whole ? (int64_t)real : b.least;
	if (!whole || i < b.least || i > b.most)
		fw_bad(r, &p, "must be an integer from %lld to %lld, is %s", (long long)b.least,
		       (long long)b.most, whole ? "beyond that" : fw_kind(v));
	return i;
}

int64_t fw_read_time(struct fw_reader *r, const struct path *up, const json_t *of, const char *key,
                     bool needed)
{
	const char *text = fw_read_text(r, up, of, key, needed);
	struct path p = PATH_KEY(up, span_of(key));
	int64_t s = FW_NO_TIME;
	if (text && !fw_time_read(text, &s))
		fw_bad(r, &p, "must be a time as in 2006-01-02T15:04:05Z");
	return s;
}

bool fw_name_ok(const char *name)
{
	size_t n = 0;
	while (is_lower_alnum(name[n]))
		n++;
	return n > 0 && n <= FW_LABEL_MAX && name[n] == '\0';
}
