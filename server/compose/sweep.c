/* The jobs of --sweep: all combinations of its values, and their names. */
#include <inttypes.h>

#include "server/compose/compose.h"

enum { NAME_BYTES = 100 };

/* The values of one parameter: a list, or the numbers from first to last. */
struct sweep_values {
	struct span name, list;
	bool range;
	int64_t first, last;
	uint64_t n;
};

/* "1..5" or "5..1" */
static bool values_range(struct sweep_values *v)
{
	size_t dots = span_find(v->list, 0, "..");
	v->range = dots != SIZE_MAX &&
	           parse_i64(span_to(v->list, dots), -INT64_MAX, INT64_MAX, &v->first) == 0 &&
	           parse_i64(span_from(v->list, dots + 2), -INT64_MAX, INT64_MAX, &v->last) == 0;
	if (v->range)
		v->n = (v->first < v->last ? (uint64_t)v->last - (uint64_t)v->first
		                           : (uint64_t)v->first - (uint64_t)v->last) +
		       1;
	return v->range;
}

static int values_read(struct sweep_values *v, const char *text, struct err *e)
{
	char shown[4 * QUOTE_MAX];
	struct span rest = span_of(text);
	v->name = span_next(&rest, '=');
	v->list = rest;
	bool good = v->name.n && rest.n && rest.p[rest.n - 1] != ',';
	if (good && values_range(v))
		return 0;
	/* 0.1..0.5 is no range, and hardly a text. */
	good = good && !(span_all(rest, "0-9.e-") && span_find(rest, 0, "..") != SIZE_MAX);
	for (; good && rest.n; v->n++)
		good = span_next(&rest, ',').n > 0;
	if (good)
		return 0;
	return err_set(
	    e, 400, NULL,
	    "--sweep: must be NAME=VALUE,VALUE,... or NAME=1..5 with integers, is \"%s\"",
	    quote(shown, span_of(text)));
}

/* The value of this parameter in a job; the last parameter changes first.  In the arena. */
static struct span sweep_value(const struct sweep *s, size_t parameter, size_t job, struct arena *a)
{
	const struct sweep_values *v = &s->values[parameter];
	for (size_t i = s->n_values; i-- > parameter + 1;)
		job /= (size_t)s->values[i].n;
	job %= (size_t)v->n;
	int64_t step = v->first < v->last ? (int64_t)job : -(int64_t)job;
	if (v->range)
		return span_of(arena_printf(a, "%" PRId64, v->first + step));
	struct span rest = v->list;
	while (job-- > 0)
		(void)span_next(&rest, ',');
	return span_next(&rest, ',');
}

/* NAME-lr0_1-seed1: of the values, other bytes than letters, digits and - become _. */
static int sweep_name(struct sweep *s, const char *base, size_t job, struct arena *a, struct err *e)
{
	STR_AUTO name = STR_INIT(1 << 20);
	str_puts(&name, base);
	for (size_t i = 0; i < s->n_values; i++) {
		struct span value = sweep_value(s, i, job, a);
		bool quoted = value.n > 1 && (value.p[0] == '"' || value.p[0] == '\'');
		value = quoted ? (struct span){ value.p + 1, value.n - 2 } : value;
		str_char(&name, '-');
		size_t from = name.n;
		str_span(&name, s->values[i].name);
		str_span(&name, value);
		for (; from < name.n; from++)
			if (!is_alnum(name.p[from]) && name.p[from] != '-')
				name.p[from] = '_';
	}
	s->name[job] = arena_dup(a, str_view(&name));
	if (name.n > NAME_BYTES)
		return err_set(e, 400, NULL,
		               "--sweep: the name %s has %zu bytes, at most %d are allowed; choose "
		               "a shorter --name",
		               s->name[job], name.n, NAME_BYTES);
	for (size_t i = 0; i < job; i++)
		if (strcmp(s->name[i], s->name[job]) == 0)
			return err_set(e, 400, NULL,
			               "--sweep: two jobs would have the name %s; other bytes of "
			               "values than letters, digits and - are _ in names",
			               s->name[job]);
	return 0;
}

int sweep_read(struct sweep *s, const struct options *o, const char *base, struct arena *a,
               struct err *e)
{
	uint64_t n = 1;
	bool many = false;
	*s = (struct sweep){ .n_values = o->sweep.n };
	s->values = ARENA_NEW(a, struct sweep_values, o->sweep.n);
	for (size_t i = 0; i < o->sweep.n; i++) {
		struct sweep_values *v = &s->values[i];
		if (values_read(v, o->sweep.v[i], e) < 0)
			return -1;
		for (size_t k = 0; k < i; k++)
			if (span_eq(s->values[k].name, v->name))
				return err_set(e, 400, NULL,
				               "--sweep: %.*s is given twice; write its values "
				               "with commas",
				               (int)v->name.n, v->name.p);
		many = __builtin_mul_overflow(n, v->n, &n) || v->n == 0 || many;
	}
	if (many || n > SWEEP_MAX)
		return err_set(e, 400, NULL, "--sweep: these are %s%" PRIu64 " jobs, at most %d",
		               many ? "more than " : "", many ? UINT64_MAX : n, SWEEP_MAX);
	s->n = (size_t)n;
	s->name = ARENA_NEW(a, const char *, s->n);
	for (size_t i = 0; i < s->n; i++)
		if (sweep_name(s, base, i, a, e) < 0)
			return -1;
	return 0;
}

int sweep_apply(const struct sweep *s, size_t job, struct job_text *t, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	for (size_t i = 0; i < s->n_values; i++) {
		struct job_value v = { s->values[i].name, sweep_value(s, i, job, &arena) };
		if (job_text_set(t, "--sweep", &v, e) < 0)
			return -1;
	}
	return s->n_values ? job_text_rename(t, s->name[job], e) : 0;
}
