/*
 * Programs: a merged template as a sequence of literal JSON and variables. Any member may be
 * absent, so each member or element carries its comma behind it. If the last one of a container is
 * always written, it has no comma and the bracket is literal text. Otherwise all have one, and
 * OP_CLOSE overwrites the last; this is always a separator, because values end in a quote, digit,
 * letter or bracket. OP_MARK stores the position before a member that may be absent; an absent
 * variable truncates to it and jumps behind the comma. One mark suffices: only scalars can be
 * absent, and scalars do not nest.
 */
#include <assert.h>
#include <stdlib.h>

#include "translate/render/template.h"

enum op_kind {
	OP_TEXT, /* literal: n bytes at `at` */
	OP_MARK,
	OP_VALUE,
	OP_PIECE,
	OP_LIST,
	OP_CLOSE, /* the bracket `at` */
	OP_KIND_MAX
};

struct prog_op {
	uint32_t kind;
	uint32_t at, n;
	uint32_t jump; /* next op if the variable is absent */
	const struct variable *variable;
};

struct prog {
	struct prog_op *op;
	size_t n;
	char *text;
	size_t text_n;
};

enum { PROG_TEXT_MAX = 1 << 20 };

struct prog_compiler {
	const struct vocabulary *v;
	struct prog_op *op;
	size_t n, cap;
	struct str text;
	bool barrier; /* jump target: literal text must not be joined across it */
};

static struct prog_op *prog_emit(struct prog_compiler *c, enum op_kind kind)
{
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 64;
		c->op = xrealloc(c->op, c->cap * sizeof(*c->op));
	}
	assert(c->op);
	c->barrier = false;
	struct prog_op *op = &c->op[c->n++];
	*op = (struct prog_op){ .kind = kind };
	return op;
}

/* Emits the text from `at` to the end of c->text. */
static void emit_literal(struct prog_compiler *c, size_t at)
{
	size_t n = c->text.n - at;
	struct prog_op *last = c->n && !c->barrier ? &c->op[c->n - 1] : NULL;
	if (n == 0)
		return;
	if (last && last->kind == OP_TEXT) {
		last->n += (uint32_t)n;
		return;
	}
	struct prog_op *op = prog_emit(c, OP_TEXT);
	op->at = (uint32_t)at;
	op->n = (uint32_t)n;
}

static void emit_text(struct prog_compiler *c, const char *text)
{
	size_t at = c->text.n;
	str_puts(&c->text, text);
	emit_literal(c, at);
}

static void emit_escaped(struct prog_compiler *c, struct span text)
{
	size_t at = c->text.n;
	str_json_text(&c->text, text);
	emit_literal(c, at);
}

static void emit_variable(struct prog_compiler *c, enum op_kind kind, struct span name)
{
	const struct variable *h = variable_find(c->v, name);
	assert(h); /* manifest_read has checked it */
	prog_emit(c, kind)->variable = h;
}

/* ---- scalars ---- */

static void emit_string(struct prog_compiler *c, struct span text)
{
	struct scalar_piece p;
	emit_text(c, "\"");
	while (piece_next(&text, &p) > 0) {
		const struct constant *k = p.variable ? constant_find(c->v, p.text) : NULL;
		if (p.variable && k == NULL)
			emit_variable(c, OP_PIECE, p.text);
		else
			emit_escaped(c, k ? k->value : p.text);
	}
	emit_text(c, "\"");
}

/* Returns true if a plain scalar is one variable. */
static bool lone_variable(const struct prog_compiler *c, const struct node *n,
                          struct scalar_piece *p)
{
	struct span rest = node_span(n);
	return n->plain && piece_next(&rest, p) > 0 && p->variable && rest.n == 0 &&
	       constant_find(c->v, p->text) == NULL;
}

static void emit_scalar(struct prog_compiler *c, const struct node *n)
{
	struct scalar_piece p;
	if (n->type == NODE_BOOL || n->type == NODE_INT) {
		size_t at = c->text.n;
		node_json(&c->text, n);
		emit_literal(c, at);
	} else if (lone_variable(c, n, &p)) {
		emit_variable(c, p.list ? OP_LIST : OP_VALUE, p.text);
	} else {
		emit_string(c, node_span(n));
	}
}

/* ---- containers ---- */

/* Returns true if a scalar has an optional variable. */
static bool prog_may_be_absent(const struct prog_compiler *c, const struct node *n)
{
	if (n->type != NODE_TEXT)
		return false;
	struct span rest = node_span(n);
	struct scalar_piece p;
	while (piece_next(&rest, &p) > 0) {
		const struct variable *h = p.variable ? variable_find(c->v, p.text) : NULL;
		if (h && h->optional)
			return true;
	}
	return false;
}

static bool is_splice(const struct prog_compiler *c, const struct node *n)
{
	struct scalar_piece p;
	return n->type == NODE_TEXT && lone_variable(c, n, &p) && p.list;
}

static void emit_value(struct prog_compiler *c, const struct node *n);

/* A member (key.p is set) or element, and its comma. */
static void emit_item(struct prog_compiler *c, struct span key, const struct node *n, bool comma)
{
	if (is_splice(c, n)) {
		emit_scalar(c, n);
		return;
	}
	bool framed = prog_may_be_absent(c, n);
	size_t first = c->n;
	if (framed)
		prog_emit(c, OP_MARK);
	if (key.p) {
		emit_text(c, "\"");
		emit_escaped(c, key);
		emit_text(c, "\":");
	}
	emit_value(c, n);
	if (comma)
		emit_text(c, ",");
	if (!framed)
		return;
	for (size_t i = first; i < c->n; i++)
		c->op[i].jump = (uint32_t)c->n;
	c->barrier = true;
}

static void emit_value(struct prog_compiler *c, const struct node *n)
{
	if (n->type != NODE_MAP && n->type != NODE_LIST) {
		emit_scalar(c, n);
		return;
	}
	bool map = n->type == NODE_MAP;
	bool open = false; /* the last member or element may be absent */
	if (n->n) {
		const struct node *last = map ? &n->member[n->n - 1].value : &n->item[n->n - 1];
		open = is_splice(c, last) || prog_may_be_absent(c, last);
	}
	emit_text(c, map ? "{" : "[");
	for (size_t i = 0; i < n->n; i++) {
		struct span key = map ? member_key(&n->member[i]) : (struct span){ NULL, 0 };
		emit_item(c, key, map ? &n->member[i].value : &n->item[i], open || i + 1 < n->n);
	}
	if (open)
		prog_emit(c, OP_CLOSE)->at = map ? '}' : ']';
	else
		emit_text(c, map ? "}" : "]");
}

/* Text that is never absent. */
static bool is_string(const struct prog_compiler *c, const struct node *n)
{
	struct scalar_piece p;
	if (!node_is(n, NODE_TEXT) || prog_may_be_absent(c, n))
		return false;
	return !lone_variable(c, n, &p) || variable_find(c->v, p.text)->type < VARIABLE_MAP;
}

/* {name: N, value: V} as "N":"V", */
static int emit_member(struct prog_compiler *c, const struct node *n, struct err *e)
{
	const struct node *name = node_get(n, "name");
	const struct node *value = node_get(n, "value");
	if (is_splice(c, n)) {
		emit_scalar(c, n);
		return 0;
	}
	if (n->type != NODE_MAP || n->n != 2 || !is_string(c, name) || !is_string(c, value))
		return err_set(e, UNKNOWN_ERROR,
		               "line %u: in a list that may become a ConfigMap every element "
		               "is {name, value}",
		               n->line);
	emit_string(c, node_span(name));
	emit_text(c, ":");
	emit_string(c, node_span(value));
	emit_text(c, ",");
	return 0;
}

static int emit_root(struct prog_compiler *c, const struct node *root, enum prog_shape shape,
                     struct err *e)
{
	/* An absent value is removed from its container, so the root is a container. */
	if (shape == PROG_VALUE) {
		if (root->type != NODE_MAP)
			return err_set(e, UNKNOWN_ERROR, "line %u: a mapping is needed here",
			               root->line);
		emit_value(c, root);
		return 0;
	}
	if (root->type != NODE_LIST)
		return err_set(e, UNKNOWN_ERROR, "line %u: a list is needed here", root->line);
	for (size_t i = 0; i < root->n; i++) {
		if (shape == PROG_ITEMS)
			emit_item(c, (struct span){ NULL, 0 }, &root->item[i], true);
		else if (emit_member(c, &root->item[i], e) < 0)
			return -1;
	}
	return 0;
}

struct prog *prog_new(const struct node *root, enum prog_shape shape, const struct vocabulary *v,
                      struct err *e)
{
	struct prog_compiler c = { .v = v, .text = STR_INIT(PROG_TEXT_MAX) };
	int rc = emit_root(&c, root, shape, e);
	if (rc == 0 && c.text.full)
		rc = err_set(e, UNKNOWN_ERROR, "larger than %d bytes", PROG_TEXT_MAX);
	if (rc < 0) {
		free(c.op);
		str_done(&c.text);
		return NULL;
	}
	struct prog *p = xmalloc(sizeof(*p));
	*p = (struct prog){ .n = c.n, .text_n = c.text.n };
	p->op = xrealloc(c.op, c.n * sizeof(*c.op));
	p->text = str_take(&c.text);
	return p;
}

void prog_free(struct prog *p)
{
	if (p == NULL)
		return;
	free(p->op);
	free(p->text);
	free(p);
}

/* ---- running ---- */

/* Runs a variable; returns the next op. */
static size_t run_variable(const struct prog_op *op, size_t next, size_t mark,
                           const struct scope *s, struct variable_output *o)
{
	if (op->variable->write(s, o))
		return next;
	assert(op->variable->optional);
	o->s->n = mark;
	if (o->s->p)
		o->s->p[mark] = '\0';
	return op->jump;
}

void prog_run(const struct prog *p, const struct scope *s, struct str *out)
{
	struct variable_output value = { out, false };
	struct variable_output piece = { out, true };
	size_t mark = out->n;
	for (size_t i = 0; i < p->n;) {
		const struct prog_op *op = &p->op[i++];
		switch ((enum op_kind)op->kind) {
		case OP_TEXT:
			str_put(out, p->text + op->at, op->n);
			break;
		case OP_MARK:
			mark = out->n;
			break;
		case OP_VALUE:
			i = run_variable(op, i, mark, s, &value);
			break;
		case OP_PIECE:
			i = run_variable(op, i, mark, s, &piece);
			break;
		case OP_LIST:
			(void)op->variable->write(s, &value);
			break;
		case OP_CLOSE:
			if (out->n && out->p[out->n - 1] == ',')
				out->p[out->n - 1] = (char)op->at;
			else
				str_char(out, (char)op->at);
			break;
		case OP_KIND_MAX:
			assert(false);
		}
	}
}
