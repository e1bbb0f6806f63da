#pragma once
/*
 * Manifests with variables.  A template is a Kubernetes manifest in YAML whose scalars
 * may hold `${name}`; an overlay is a smaller manifest of the same shape that is
 * merged over it.  Templates know nothing of jobs: what a variable means stands in a
 * table of functions.
 *
 * The language, all of it:
 *
 *	key: ${x}            the value as the variable types it; if it is absent, the key goes too
 *	key: "a-${x}"        always text; absent if any variable in it is
 *	- ${*x}              any number of list elements
 *	${config.x}: 1       a key; only constants, known when the template is read
 *	$${                  the two characters ${
 *
 * An overlay: maps merge, lists append, scalars replace scalars, `null` deletes a
 * key; `containers` and `initContainers` merge by the literal `name` of their
 * elements.  No conditions, loops or expressions: those are C.
 *
 * A merged template is flattened once into a program of literal JSON and variables.
 * Writing it is one pass of copies: no tree of the result is ever built, values
 * enter as escaped JSON, and what they contain is never looked at again.
 */
#include "base/tree.h"

/* What the functions of the variables read.  Passed through, never looked into. */
struct scope;

/* Where a variable writes.  Inside a text no quotes are put around the value. */
struct out {
	struct str *s;
	bool text;
};

static inline void out_text(struct out *o, struct span v)
{
	if (o->text)
		str_json_text(o->s, v);
	else
		str_json(o->s, v);
}

static inline void out_puts(struct out *o, const char *v)
{
	out_text(o, span_of(v));
}

/* Before and behind what holds nothing that JSON escapes, written into o->s itself. */
static inline void out_quote(struct out *o)
{
	if (!o->text)
		str_char(o->s, '"');
}

static inline void out_int(struct out *o, int64_t v)
{
	str_int(o->s, v);
}

static inline void out_bool(struct out *o, bool v)
{
	str_puts(o->s, v ? "true" : "false");
}

enum variable_type {
	VARIABLE_TEXT,
	VARIABLE_NUMBER,
	VARIABLE_BOOL,
	VARIABLE_MAP,  /* writes one JSON object itself; only as a whole value */
	VARIABLE_LIST, /* ${*x}: writes elements, each followed by a comma */
	VARIABLE_TYPE_MAX
};

struct variable {
	const char *name;
	enum variable_type type;
	bool optional;  /* may be absent */
	unsigned needs; /* bits: of what must be at hand where it stands, see struct manifest */
	/* Write the value; false and nothing written if it is absent.  Through out_text and its
	 * like for text, numbers and booleans. */
	bool (*write)(const struct scope *s, struct out *o);
	const char *source; /* where the rule comes from: "OpenPAI", "v1", "ours" */
	const char *doc;    /* the rule in a sentence */
};

/* Variables that belong together, such as all those of a task role. */
struct variable_group {
	const char *title;
	const struct variable *v;
	size_t n;
};

#define VARIABLE_GROUP(title, rows)                                                                \
	{                                                                                          \
		title, rows, sizeof(rows) / sizeof(*(rows))                                        \
	}

/* Text that is known before any job is. */
struct constant {
	const char *name;
	struct span value;
	const char *doc;
};

struct vocabulary {
	const struct variable_group *groups;
	size_t n_groups;
	const struct constant *constants;
	size_t n_constants;
	const char *const *parts; /* by bit of variable.needs: "a task role"; for error messages */
};

/* NULL if there is none of that name. */
const struct variable *variable_find(const struct vocabulary *v, struct span name);
const struct constant *constant_find(const struct vocabulary *v, struct span name);

/* One stretch of a scalar: literal text, or the name of a variable. */
struct piece {
	struct span text;
	bool variable, list;
};

/* Take the next piece off `rest`.  1 and *p, 0 at the end, -1 if a `${` is never closed
 * or what stands in it is no name. */
int piece_next(struct span *rest, struct piece *p);
/* There is no variable in it. */
bool piece_literal(struct span text);

enum manifest_role { MANIFEST_BASE, MANIFEST_OVERLAY };

/* A template.  `root` is NULL until it is read and checked; its constant keys are filled in then.
 */
struct manifest {
	const char *file;
	struct span text;
	enum manifest_role role;
	unsigned has; /* bits: what is at hand when it is written; variables that need more are
	                 refused */
	const struct node *root;
};

/*
 * Read and check m->text; the tree lives in the arena, `file` and `text` are borrowed.  -1 and *e
 * (500) naming file, line and variable: unknown variables, or such as have no meaning here, `${`
 * without end, a number where Kubernetes wants text, null in a base, containers without a literal
 * name.  An overlay may be blank; its root is then an empty map.
 */
int manifest_read(struct manifest *m, const struct vocabulary *v, struct arena *a, struct err *e);

/*
 * Put an overlay over *root (of a base, or of an earlier merge), which becomes the new tree.
 * Trees are never changed; the new one shares their leaves.  -1 and *e (500) naming
 * file and line if the overlay has no place there or two overlays set one scalar.
 */
int manifest_merge(const struct node **root, const struct manifest *overlay, struct arena *a,
                   struct err *e);

/* What a program writes for the root of its tree. */
enum prog_shape {
	PROG_VALUE,   /* one JSON object */
	PROG_ITEMS,   /* a list without its brackets, a comma after every element */
	PROG_MEMBERS, /* a list of {name, value} as members "name":"value", with a comma after each
	               */
	PROG_SHAPE_MAX
};

struct prog; /* read-only: may be shared by threads */

/* Compile a checked tree.  NULL and *e (500) if its root is not what the shape needs, or an
 * element of PROG_MEMBERS is no {name, value}.  Free with prog_free. */
struct prog *prog_new(const struct node *root, enum prog_shape shape, const struct vocabulary *v,
                      struct err *e);
void prog_free(struct prog *p);
void prog_run(const struct prog *p, const struct scope *s, struct str *out);
