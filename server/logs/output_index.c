#include "server/logs/output_index.h"

#include "base/json/scan.h"
#include "server/cluster/history_text.h"

#define LINES_KEY "outputs"
enum { WORDS = 6, ENTRIES_READ_MAX = 4 * OUTPUTS_MAX };

/* ---- reading and writing ---- */

static struct span line_word(struct span *line)
{
	const char *blank = memchr(line->p, ' ', line->n);
	size_t n = blank ? (size_t)(blank - line->p) : line->n;
	struct span word = { line->p, n };
	n += blank != NULL;
	*line = (struct span){ line->p + n, line->n - n };
	return word;
}

static bool entry_read(struct span line, struct output_entry *e)
{
	*e = (struct output_entry){ .role = line_word(&line) };
	if (!e->role.n || parse_i64(line_word(&line), 0, INT32_MAX, &e->index) < 0 ||
	    parse_i64(line_word(&line), 0, INT32_MAX, &e->attempt) < 0 ||
	    parse_i64(line_word(&line), 0, INT32_MAX, &e->retry) < 0 ||
	    parse_i64(line_word(&line), 0, INT32_MAX, &e->bytes) < 0)
		return false;
	e->failed = span_is(line, "failed");
	return e->failed || span_is(line, "succeeded");
}

bool output_index_read(struct span configmap, const char *framework_uid, struct arena *a,
                       struct output_index *out)
{
	*out = (struct output_index){ ARENA_NEW(a, struct output_entry, ENTRIES_READ_MAX + 1), 0 };
	if (!configmap.n)
		return true;
	if (!scan_valid(configmap, HISTORY_DEPTH) || !history_is_owned(configmap, framework_uid, a))
		return false;
	struct span rest = scan_text(scan_path(configmap, "data", LINES_KEY), a);
	while (rest.n && out->n < ENTRIES_READ_MAX) {
		const char *end = memchr(rest.p, '\n', rest.n);
		size_t n = end ? (size_t)(end - rest.p) : rest.n;
		if (entry_read((struct span){ rest.p, n }, &out->v[out->n]))
			out->n++;
		n += end != NULL;
		rest = (struct span){ rest.p + n, rest.n - n };
	}
	return true;
}

void output_index_lines(struct str *out, const struct output_index *x)
{
	for (size_t i = 0; i < x->n; i++) {
		const struct output_entry *e = &x->v[i];
		if (!e->displaced)
			str_printf(out, "%.*s %lld %lld %lld %lld %s\n", (int)e->role.n, e->role.p,
			           (long long)e->index, (long long)e->attempt, (long long)e->retry,
			           (long long)e->bytes, e->failed ? "failed" : "succeeded");
	}
}

void output_index_write(struct str *out, const struct output_id *id, struct span lines,
                        struct arena *a)
{
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":");
	str_json(out, span_of(output_index_name(a, id->framework)));
	str_puts(out, ",\"labels\":{\"rest-lit/history\":\"outputs\",\"FC_FRAMEWORK_NAME\":");
	str_json(out, span_of(id->framework));
	str_puts(out, "},");
	history_owner(out, id->framework, id->framework_uid);
	str_puts(out, "},\"data\":{\"" LINES_KEY "\":");
	str_json(out, lines);
	str_puts(out, "}}");
}

void output_index_patch(struct str *out, struct span version, struct span lines)
{
	str_puts(out, "{\"metadata\":{\"resourceVersion\":");
	str_json(out, version);
	str_puts(out, "},\"data\":{\"" LINES_KEY "\":");
	str_json(out, lines);
	str_puts(out, "}}");
}

/* ---- the rule ---- */

static bool entry_is_task(const struct output_entry *a, const struct output_entry *b)
{
	return a->index == b->index && a->attempt == b->attempt && span_eq(a->role, b->role);
}

const struct output_entry *output_index_find(const struct output_index *x,
                                             const struct output_entry *e)
{
	for (size_t i = 0; i < x->n; i++)
		if (entry_is_task(&x->v[i], e) && x->v[i].retry == e->retry)
			return &x->v[i];
	return NULL;
}

static bool entry_is_superseded(const struct output_entry *old, const struct output_entry *e)
{
	return old->attempt < e->attempt || (entry_is_task(old, e) && old->retry < e->retry);
}

static bool entry_is_less(const struct output_entry *old, const struct output_entry *e)
{
	return e->failed && !old->failed;
}

struct index_use {
	int64_t bytes;
	size_t n, displaced;
};

static bool use_has_room(const struct index_use *u, int64_t bytes, int64_t budget)
{
	return u->n < OUTPUTS_MAX && u->bytes + bytes <= budget;
}

/* Displace, the oldest first, those that may go, until there is room. */
static void displace(const struct output_index *x, const struct output_entry *e, int64_t budget,
                     bool (*may_go)(const struct output_entry *, const struct output_entry *),
                     struct index_use *u)
{
	for (size_t i = 0; i < x->n && u->displaced < OUTPUTS_DISPLACED_MAX; i++) {
		struct output_entry *old = &x->v[i];
		if (use_has_room(u, e->bytes, budget))
			return;
		if (old->displaced || !may_go(old, e))
			continue;
		old->displaced = true;
		u->bytes -= old->bytes;
		u->n--;
		u->displaced++;
	}
}

int64_t output_index_room(const struct output_index *x, const struct output_entry *e,
                          int64_t budget)
{
	struct index_use u = { 0, x->n, 0 };
	for (size_t i = 0; i < x->n; i++)
		u.bytes += x->v[i].bytes;
	displace(x, e, budget, entry_is_superseded, &u);
	displace(x, e, budget, entry_is_less, &u);
	int64_t left = u.n < OUTPUTS_MAX ? budget - u.bytes : 0;
	if (left >= e->bytes)
		return e->bytes;
	if (left >= OUTPUT_LEAST)
		return left;
	for (size_t i = 0; i < x->n; i++)
		x->v[i].displaced = false;
	return 0;
}

void output_index_add(struct output_index *x, const struct output_entry *e)
{
	x->v[x->n++] = *e;
}

size_t output_share(bool failed, int64_t tasks, int64_t budget)
{
	int64_t sharers = tasks < 1 ? 1 : tasks > OUTPUTS_MAX ? OUTPUTS_MAX : tasks;
	int64_t share = failed ? OUTPUT_CONTENT_MAX : budget / sharers;
	return (size_t)(share < OUTPUT_CONTENT_MAX ? share : OUTPUT_CONTENT_MAX);
}
