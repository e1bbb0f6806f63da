#pragma once
/*
 * render/: templates, which are Kubernetes manifests in YAML with `${variables}`, and overlays,
 * smaller manifests that are merged over them.  This header is the language and its compiler;
 * bindings.h has the templates, their variables and conditions.
 *
 *	key: ${x}            the typed value; an absent value removes the key
 *	key: "a-${x}"        always text; absent if a variable in it is
 *	- ${*x}              any number of list elements
 *	${config.x}: 1       a key; constants only, known when the template is read
 *	$${                  the two characters ${
 *
 * Overlay: maps merge, lists append, scalars replace scalars, `null` deletes a key;
 * `containers` and `initContainers` merge by the literal `name` of their elements.
 *
 * prog.c compiles a merged template to literal JSON and variables.  Running it is one pass of
 * copies: values enter as escaped JSON and are never parsed again.
 *
 * Thread: any
 */
#include "base/doc/tree.h"

/* The values that variables read; opaque here. */
struct scope;

/* Output of a variable. Inside a text the value has no quotes of its own. */
struct variable_output {
	struct str *s;
	bool text;
};

static inline void out_text(struct variable_output *o, struct span v)
{
	if (o->text)
		str_json_text(o->s, v);
	else
		str_json(o->s, v);
}

/* Quotes around a value that needs no escaping and goes to o->s directly. */
static inline void out_quote(struct variable_output *o)
{
	if (!o->text)
		str_char(o->s, '"');
}

enum variable_type {
	VARIABLE_TEXT,
	VARIABLE_NUMBER,
	VARIABLE_BOOL,
	VARIABLE_MAP,   /* one JSON object; only as a whole value */
	VARIABLE_LIST,  /* ${*x}: elements, each followed by a comma */
	VARIABLE_TEXTS, /* the same, and all are texts */
	VARIABLE_TYPE_MAX
};

struct variable {
	const char *name;
	enum variable_type type;
	bool optional;
	unsigned needs; /* enum scope_flag: required of the template */
	/* Writes the value; false and nothing if it is absent. */
	bool (*write)(const struct scope *s, struct variable_output *o);
	const char *source; /* source of the rule: "OpenPAI", "v1", "ours" */
	const char *doc;    /* the rule in a sentence */
};

/* Written as ${*x}. */
static inline bool variable_is_list(const struct variable *v)
{
	return v->type == VARIABLE_LIST || v->type == VARIABLE_TEXTS;
}

/* Variables of one subject. */
struct variable_group {
	const char *title;
	const struct variable *v;
	size_t n;
};

#define VARIABLE_GROUP(title, rows)                                                                \
	{                                                                                          \
		title, rows, ARRAY_SIZE(rows)                                                      \
	}

/* Text known at start. */
struct constant {
	const char *name;
	struct span value;
	const char *doc;
};

struct vocabulary {
	const struct variable_group *const *groups;
	size_t n_groups;
	const struct constant *constants;
	size_t n_constants;
	const char *const *parts; /* names of the bits of variable.needs, for messages */
};

const struct variable *variable_find(const struct vocabulary *v, struct span name);
const struct constant *constant_find(const struct vocabulary *v, struct span name);

/* Part of a scalar: literal text, or the name of a variable. */
struct scalar_piece {
	struct span text;
	bool variable, list;
};

/* Takes the next piece off `rest`: 1 and *p, 0 at the end, -1 for a `${` without end or name. */
int piece_next(struct span *rest, struct scalar_piece *p);

enum manifest_role { MANIFEST_BASE, MANIFEST_OVERLAY };

/* A template; manifest_read sets `root`, with constants filled into keys. */
struct manifest {
	const char *file;
	struct span text;
	enum manifest_role role;
	unsigned has; /* enum scope_flag: available values; variables that need more are refused */
	const struct node *root;
};

/*
 * Reads and checks m->text. The tree lives in the arena; `file` and `text` are borrowed. -1 and *e
 * (500) with file, line and variable: unknown or misplaced variables, `${` without end, a number
 * where Kubernetes needs text, null in a base, containers without a literal name. The root of a
 * blank overlay is an empty map.
 */
int manifest_read(struct manifest *m, const struct vocabulary *v, struct arena *a, struct err *e);

/*
 * Merges an overlay, or another base, over *root, which becomes the new tree; trees never change,
 * the new one shares leaves. -1 and *e (500) with file and line: the overlay has no place, or two
 * overlays set one scalar.
 */
int manifest_merge(const struct node **root, const struct manifest *overlay, struct arena *a,
                   struct err *e);

/* The form in which a program writes its root. */
enum prog_shape {
	PROG_VALUE,   /* one JSON object */
	PROG_ITEMS,   /* a list without its brackets, a comma after every element */
	PROG_MEMBERS, /* a list of {name, value} as members "name":"value", with a comma after each
	               */
	PROG_SHAPE_MAX
};

struct prog; /* immutable, shared by threads */

/* Compiles a checked tree. NULL and *e (500) if the root does not fit the shape. The caller frees
 * it with prog_free. */
struct prog *prog_new(const struct node *root, enum prog_shape shape, const struct vocabulary *v,
                      struct err *e);
void prog_free(struct prog *p);
void prog_run(const struct prog *p, const struct scope *s, struct str *out);
