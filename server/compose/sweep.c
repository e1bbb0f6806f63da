/* The jobs of --sweep: all combinations of its values, and their names. */
#include <inttypes.h>

#include "server/compose/compose.h"

enum { NAME_BYTES = 100 };

/* The values of one parameter; of more than SWEEP_MAX only the number, 0 for 2^64. */
struct sweep_values {
	struct span name;
	struct span *v;
	uint64_t n;
};

/* A list, or the numbers from first to last, also downwards. */
static int values_read(struct sweep_values *out, const char *text, struct arena *a, struct err *e)
{
	char shown[4 * QUOTE_MAX];
	struct span rest = span_of(text);
	int64_t first;
	int64_t last;
	out->name = span_next(&rest, '=');
	size_t dots = span_find(rest, 0, "..");
	bool range = dots != SIZE_MAX &&
	             parse_i64(span_to(rest, dots), -INT64_MAX, INT64_MAX, &first) == 0 &&
	             parse_i64(span_from(rest, dots + 2), -INT64_MAX, INT64_MAX, &last) == 0;
	/* 0.1..0.5 is no range, and hardly a text. */
	bool good = out->name.n && rest.n && rest.p[rest.n - 1] != ',' &&
	            (range || dots == SIZE_MAX || !span_all(rest, "0-9.e-"));
	if (range)
		out->n = 1 + (first < last ? (uint64_t)last - (uint64_t)first
		                           : (uint64_t)first - (uint64_t)last);
	for (struct span list = rest; good && !range && list.n; out->n++)
		good = span_next(&list, ',').n > 0;
	if (!good)
		return err_set(e, 400, NULL,
		               "--sweep: must be NAME=VALUE,VALUE,... or NAME=1..5 with integers, "
		               "is \"%s\"",
		               quote(shown, span_of(text)));
	size_t kept = out->n <= SWEEP_MAX ? (size_t)out->n : 0;
	out->v = ARENA_NEW(a, struct span, kept);
	for (size_t i = 0; i < kept; i++) {
		int64_t number = range ? first + (first < last ? (int64_t)i : -(int64_t)i) : 0;
		out->v[i] =
		    range ? span_of(arena_printf(a, "%" PRId64, number)) : span_next(&rest, ',');
	}
	return 0;
}

/* The value of this parameter in a job; the last parameter changes first. */
static struct span sweep_value(const struct sweep *s, size_t parameter, size_t job)
{
	const struct sweep_values *v = &s->values[parameter];
	for (size_t i = s->n_values; i-- > parameter + 1;)
		job /= (size_t)s->values[i].n;
	return v->v[job % (size_t)v->n];
}

/* NAME-lr0_1-seed1: of the values, other bytes than letters, digits and - become _. */
static int sweep_name(struct sweep *s, const char *base, size_t job, struct arena *a, struct err *e)
{
	STR_AUTO name = STR_INIT(1 << 20);
	str_puts(&name, base);
	for (size_t i = 0; i < s->n_values; i++) {
		struct span value = sweep_value(s, i, job);
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
		if (values_read(v, o->sweep.v[i], a, e) < 0)
			return -1;
		for (size_t k = 0; k < i; k++)
			if (span_eq(s->values[k].name, v->name))
				return err_set(e, 400, NULL,
				               "--sweep: %.*s is given twice; write its values "
				               "with commas",
				               (int)v->name.n, v->name.p);
		for (size_t k = 0; k < o->set.n; k++) {
			struct span set = span_of(o->set.v[k]);
			if (span_eq(span_to(set, span_chr(set, '=')), v->name))
				return err_set(e, 400, NULL, "--sweep: %.*s is set by --set, too",
				               (int)v->name.n, v->name.p);
		}
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

int sweep_apply(const struct sweep *s, size_t job, const struct job_text *t, struct job_text *out,
                struct err *e)
{
	*out = *t;
	out->text = xstrndup(t->text, t->n);
	for (size_t i = 0; i < s->n_values; i++)
		if (job_text_set(out, "--sweep", s->values[i].name, sweep_value(s, i, job), e) < 0)
			return -1;
	return job_text_rename(out, s->name[job], e);
}
