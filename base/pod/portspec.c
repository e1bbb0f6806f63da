#include "base/pod/portspec.h"

#include "base/json/scan.h"

#define WRONG 500, NULL

enum { SPEC_MAX = 256 * 1024, SPEC_DEPTH = 8, LABELS_MAX = 1024 };

static int portspec_int(struct span value, int64_t min, const char *what, int64_t *out,
                        struct err *e)
{
	if (scan_int(value, min, PORTS_MAX, out))
		return 0;
	return err_set(e, WRONG, "%s is no number from %d to %d", what, (int)min, PORTS_MAX);
}

/* Adds a label unless it is wrong. */
static int portspec_label(struct span name, struct span value, int64_t last, struct portspec *p,
                          struct err *e)
{
	struct port_label l = { .name = name.p, .first = p->total };
	int64_t end;
	if (!name.p || name.n > PORT_LABEL_MAX)
		return err_set(e, WRONG, "no name of up to %d bytes", PORT_LABEL_MAX);
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->label[i].name, l.name) == 0)
			return err_set(e, WRONG, "it is there twice");
	if (portspec_int(scan_get(value, "count"), 0, "count", &l.count, e) < 0 ||
	    (p->sequential && portspec_int(scan_get(value, "start"), 1, "start", &l.start, e) < 0))
		return -1;
	if (p->sequential && /* the last port of the last task */
	    (__builtin_mul_overflow(l.count, last + 1, &end) ||
	     __builtin_add_overflow(end, l.start, &end) || (l.count > 0 && end > PORTS_MAX)))
		return err_set(e, WRONG, "ports above %d", PORTS_MAX - 1);
	p->total += l.count;
	p->label[p->n++] = l;
	return 0;
}

int portspec_read(struct span json, int64_t last, struct arena *a, struct portspec *p,
                  struct err *e)
{
	enum { START, END, PORTS, N };
	static const char *const KEYS[N] = { "schedulePortStart", "schedulePortEnd", "ports" };
	struct span v[N];
	int rc = 0;
	*p = (struct portspec){ 0 };
	if (json.n > SPEC_MAX || !scan_valid(json, SPEC_DEPTH))
		return err_set(e, WRONG, "not valid JSON of up to %d bytes and %d levels", SPEC_MAX,
		               SPEC_DEPTH);
	scan_members(json, KEYS, v, N);
	p->sequential = !v[START].p || !v[END].p || !v[PORTS].p;
	if (!p->sequential && (portspec_int(v[START], 1, KEYS[START], &p->range.start, e) < 0 ||
	                       portspec_int(v[END], 1, KEYS[END], &p->range.end, e) < 0))
		return -1;
	if (!p->sequential && p->range.end <= p->range.start)
		return err_set(e, WRONG, "schedulePortEnd is not above schedulePortStart");
	struct span labels = p->sequential ? json : v[PORTS];
	size_t n = scan_count(labels);
	if (scan_type(labels) != SCAN_OBJECT || n > LABELS_MAX)
		return err_set(e, WRONG, "no mapping of up to %d labels", LABELS_MAX);
	p->label = ARENA_NEW(a, struct port_label, n);
	struct scan s = scan_begin(labels);
	for (struct span key, value; scan_member(&s, &key, &value);) {
		ERR_AUTO why = { 0 };
		char quoted[4 * QUOTE_MAX];
		struct span name = { NULL, 0 };
		if (scan_string((struct span){ key.p - 1, key.n + 2 }, a, &name))
			name = arena_span(a, name); /* with a NUL */
		if (portspec_label(name, value, last, p, &why) == 0 || rc < 0)
			continue; /* the first mistake is told */
		rc = err_set(e, WRONG, "\"%s\": %s", quote(quoted, key), err_msg(&why));
	}
	if (rc == 0 && p->total > PORTS_MAX)
		rc = err_set(e, WRONG, "more than %d ports for one task", PORTS_MAX);
	return rc;
}
