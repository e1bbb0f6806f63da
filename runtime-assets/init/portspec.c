/* Ports of tasks; see portspec.h.  The arithmetic is that of OpenPAI's runtime, so that tasks of
 * one job agree whichever of the two they run. */
#include "runtime-assets/init/portspec.h"

#include <string.h>

#include "base/enc.h"
#include "base/tree.h"
#include "runtime-assets/files.h"

enum { PORTS = 65536, SPEC_MAX = 256 * 1024, LABEL_MAX = 256, LABELS_MAX = 1024, NODES_MAX = 4096 };

bool portspec_name_ok(const char *name)
{
	static const char REST[] =
	    "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	bool digit = *name >= '0' && *name <= '9';
	return *name && !digit && name[strspn(name, REST)] == '\0';
}

static int read_int(const struct node *n, int64_t min, const char *what, int64_t *out,
                    struct err *e)
{
	if (!node_is(n, NODE_INT) || n->integer < min || n->integer > PORTS)
		return err_set(e, FAILED, "%s is no number from %d to %d", what, (int)min, PORTS);
	*out = n->integer;
	return 0;
}

/* The last of them is a port, for every task. */
static int check_sequence(const struct port_label *l, int64_t last, struct err *e)
{
	int64_t end;
	if (__builtin_mul_overflow(l->count, last + 1, &end) ||
	    __builtin_add_overflow(end, l->start, &end) || (l->count > 0 && end > PORTS))
		return err_set(e, FAILED, "ports above %d", PORTS - 1);
	return 0;
}

static int read_label(const struct member *m, int64_t last, struct portspec *p, struct err *e)
{
	struct port_label *l = &p->label[p->n];
	*l = (struct port_label){ .name = m->key };
	if (read_int(node_get(&m->value, "count"), 0, "count", &l->count, e) < 0)
		return -1;
	if (p->sequential &&
	    (read_int(node_get(&m->value, "start"), 1, "start", &l->start, e) < 0 ||
	     check_sequence(l, last, e) < 0))
		return -1;
	p->total += l->count;
	p->n++;
	return 0;
}

static int read_labels(const struct node *labels, int64_t last, struct arena *a, struct portspec *p,
                       struct err *e)
{
	if (!node_is(labels, NODE_MAP) || labels->n > LABELS_MAX)
		return err_set(e, FAILED, "no mapping of up to %d labels", LABELS_MAX);
	p->label = ARENA_NEW(a, struct port_label, labels->n);
	for (uint32_t i = 0; i < labels->n; i++) {
		char name[4 * QUOTE_MAX];
		if (read_label(&labels->member[i], last, p, e) < 0)
			return err_wrap(e, "\"%s\"", quote(name, member_key(&labels->member[i])));
	}
	if (p->total > PORTS)
		return err_set(e, FAILED, "more than %d ports for one task", PORTS);
	return 0;
}

static int read_tree(const struct node *root, int64_t last, struct arena *a, struct portspec *p,
                     struct err *e)
{
	const struct node *start = node_get(root, "schedulePortStart");
	const struct node *end = node_get(root, "schedulePortEnd");
	const struct node *labels = node_get(root, "ports");
	p->sequential = !start || !end || !labels;
	if (p->sequential)
		return read_labels(root, last, a, p, e);
	if (read_int(start, 1, "schedulePortStart", &p->start, e) < 0 ||
	    read_int(end, 1, "schedulePortEnd", &p->end, e) < 0)
		return -1;
	if (p->end <= p->start)
		return err_set(e, FAILED, "schedulePortEnd is not above schedulePortStart");
	return read_labels(labels, last, a, p, e);
}

int portspec_read(const char *json, int64_t last, struct arena *a, struct portspec *p,
                  struct err *e)
{
	const struct budget budget = { 8, NODES_MAX, SPEC_MAX, LABEL_MAX };
	struct portspec got = { 0 };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO why = { 0 };
	struct doc doc;
	bool syntax = false;
	if (json && json_read(span_of(json), &budget, a, &doc, &warnings, &syntax, &why) < 0)
		return err_set(e, FAILED, "%s", err_msg(&why));
	if (json && read_tree(&doc.root, last, a, &got, e) < 0)
		return -1;
	*p = got;
	return 0;
}

static uint64_t hex_number(const char *p, size_t n)
{
	uint64_t v = 0;
	for (size_t i = 0; i < n; i++)
		v = v << 4 | (uint64_t)(p[i] <= '9' ? p[i] - '0' : p[i] - 'a' + 10);
	return v;
}

uint16_t portspec_port(const struct portspec *p, const struct port_label *l, const char *pod_uid,
                       int64_t index, int64_t i)
{
	char space[512];
	struct str text = { .p = space, .cap = sizeof(space), .max = sizeof(space) - 1 };
	char hash[33];
	if (p->sequential)
		return (uint16_t)(l->start + l->count * index + i);
	str_char(&text, '[');
	str_puts(&text, pod_uid);
	str_puts(&text, "][");
	str_puts(&text, l->name);
	str_puts(&text, "][");
	str_int(&text, i);
	str_char(&text, ']');
	md5_hex(hash, str_view(&text));
	uint64_t sum = hex_number(hash, 12) + hex_number(hash + 12, 12) + hex_number(hash + 24, 8);
	return (uint16_t)((uint64_t)p->start + sum % (uint64_t)(p->end - p->start));
}
