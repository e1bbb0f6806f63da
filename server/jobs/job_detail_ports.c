/*
 * Which ports a task has: nobody hands them out or writes them down; the task itself and whoever
 * looks work them out of the annotation rest-server/port-scheduling-spec of its pods, and the uid
 * of its pod.  The arithmetic is that of OpenPAI, and of runtime-assets/init/portspec.c.
 */
#include "base/enc.h"
#include "server/jobs/job_detail.h"

enum { PORTS = 65536, SPEC_DEPTH = 8, SPEC_MAX = 256 << 10, LABEL_TEXT_MAX = 256 };

static bool is_known(const struct ports *p, struct span json)
{
	for (size_t i = 0; i < p->n; i++) {
		if (span_eq(p->v[i].json, json))
			return true;
	}
	return false;
}

/* Of the key as it lies, which has no quotes. */
static bool read_label(struct span key, struct span value, struct ports *p, struct arena *a)
{
	struct label *l = &p->v[p->n];
	*l = (struct label){ .json = { key.p - 1, key.n + 2 } };
	if (!scan_int(scan_get(value, "count"), 0, PORTS, &l->count) ||
	    (!p->hashed && !scan_int(scan_get(value, "start"), 1, PORTS - 1, &l->start)) ||
	    !scan_string(l->json, a, &l->text) || l->text.n > LABEL_TEXT_MAX ||
	    is_known(p, l->json))
		return false;
	if (memchr(l->json.p, '\\', l->json.n)) {
		STR_AUTO json = STR_INIT(6 * LABEL_TEXT_MAX + 2);
		str_json(&json, l->text);
		l->json = arena_span(a, str_view(&json));
	}
	if (is_known(p, l->json))
		return false;
	p->n++;
	return true;
}

struct ports ports_read(struct span annotation, struct arena *a)
{
	enum { START, END, LABELS, N };
	static const char *const KEYS[N] = { "schedulePortStart", "schedulePortEnd", "ports" };
	struct ports p = { .hashed = false };
	struct span v[N];
	struct span spec = scan_text(annotation, a);
	if (spec.n > SPEC_MAX || !scan_valid(spec, SPEC_DEPTH))
		return p;
	scan_members(spec, KEYS, v, N);
	p.hashed = scan_int(v[START], 1, PORTS - 1, &p.start) &&
	           scan_int(v[END], p.start + 1, PORTS, &p.end) &&
	           scan_type(v[LABELS]) == SCAN_OBJECT;
	p.v = ARENA_NEW(a, struct label, SHOWN_LABELS);
	struct scan s = scan_begin(p.hashed ? v[LABELS] : spec);
	struct span key;
	struct span value;
	while (p.n < SHOWN_LABELS && scan_member(&s, &key, &value))
		(void)read_label(key, value, &p, a); /* what is no label is passed over */
	return p;
}

/* Of a digest, whose digits are chance: no branch of a processor is right about them. */
static uint64_t hex_number(const char *p, size_t n)
{
	uint64_t v = 0;
	for (size_t i = 0; i < n; i++)
		v = v << 4 | (uint64_t)((p[i] & 15) + 9 * (p[i] > '9'));
	return v;
}

static int64_t hashed_port(const struct ports *p, const struct label *l, struct span pod, int64_t i)
{
	NOT_ZEROED char space[1024];
	struct str text = { .p = space, .cap = sizeof(space), .max = sizeof(space) - 1 };
	char hash[33];
	str_char(&text, '[');
	str_span(&text, pod);
	str_puts(&text, "][");
	str_span(&text, l->text);
	str_puts(&text, "][");
	str_int(&text, i);
	str_char(&text, ']');
	md5_hex(hash, str_view(&text));
	uint64_t sum = hex_number(hash, 12) + hex_number(hash + 12, 12) + hex_number(hash + 24, 8);
	return p->start + (int64_t)(sum % (uint64_t)(p->end - p->start));
}

static void put_list(struct shower *w, const struct ports *p, const struct label *l,
                     struct span pod, int64_t index)
{
	str_char(w->out, '"');
	for (int64_t i = 0; i < l->count; i++) {
		int64_t port =
		    p->hashed ? hashed_port(p, l, pod, i) : l->start + l->count * index + i;
		if (port >= PORTS)
			break;
		if (i)
			str_char(w->out, ',');
		str_int(w->out, port);
	}
	str_char(w->out, '"');
}

void show_ports(struct shower *w, const struct ports *p, struct span pod, int64_t index)
{
	enum { UID_MAX = 256 };
	size_t total = 0;
	for (size_t i = 0; i < p->n; i++)
		total += (size_t)p->v[i].count;
	bool known = pod.n && pod.n <= UID_MAX && index >= 0 && total <= w->ports;
	str_char(w->out, '{');
	for (size_t i = 0; known && i < p->n; i++) {
		if (i)
			str_char(w->out, ',');
		str_span(w->out, p->v[i].json);
		str_char(w->out, ':');
		put_list(w, p, &p->v[i], pod, index);
	}
	str_char(w->out, '}');
	if (known)
		w->ports -= total;
}
