#pragma once
/*
 * A job document (YAML or JSON) as a tree in an arena.  Values and keys have a line and a column;
 * scalars of YAML record whether they were written without quotes, which the templates need.
 *
 *	struct doc doc;
 *	if (doc_read(text, &BUDGET_DEFAULT, a, &doc, warnings, e) < 0)
 *		return -1;
 *	const struct node *roles = node_get(&doc.root, "taskRoles");
 *	for (uint32_t i = 0; node_is(roles, NODE_MAP) && i < roles->n; i++)
 *		use(member_key(&roles->member[i]), &roles->member[i].value);
 *
 * Trees are immutable.  An alias is a copy of the anchor's node and shares its children.  A budget
 * bounds depth, values and bytes.
 *
 * Thread: any
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum node_type {
	NODE_NULL,
	NODE_BOOL,
	NODE_INT,  /* a number without fraction in -2^53..2^53 */
	NODE_REAL, /* any other number; may be infinite or NaN */
	NODE_TEXT,
	NODE_DATE, /* an unquoted scalar of YAML that looks like a date; its text */
	NODE_LIST,
	NODE_MAP,
	NODE_TYPE_MAX
};

struct member;

struct node {
	uint8_t type;  /* enum node_type */
	bool plain;    /* a YAML scalar without quotes; false in JSON and for containers */
	uint8_t flags; /* NODE_SHARED to NODE_SHARES, and an enum spelling */
	uint32_t n;    /* bytes of text, items of a list, members of a map */
	uint32_t line, column;
	union {
		bool boolean;
		int64_t integer;
		double real;
		const char *text; /* of text and date: NUL-terminated, without other NULs */
		const struct node *item;
		const struct member *member;
	};
};

enum {
	/* The value has an anchor, or was written as `*alias`, or merged from one, or overrides
	 * such a value: other values can be the same. */
	NODE_SHARED = 1,
	NODE_ODD = 0x10, /* the value, or a value in it, is not SPELT_PLAINLY */
	/* The value overrides one of the same key below `<<`: the tree does not have that one, but
	 * the text does. */
	NODE_OVERRIDES = 0x20,
	NODE_SHARES = 0x40 /* the value, or a value or key in it, is NODE_SHARED */
};

/* Scalars that other readers, or people, can interpret differently. */
enum spelling {
	SPELT_PLAINLY,
	SPELT_OCTAL,    /* 017: 15 here and in YAML 1.1, 17 in YAML 1.2 */
	SPELT_SIXTY,    /* 1:30: 90 here and in YAML 1.1, text in YAML 1.2 */
	SPELT_ROUNDED,  /* an integer beyond 2^53, rounded to a double */
	SPELT_DATE,     /* 2001-01-01: text here, a date for others */
	SPELT_BOOLEAN,  /* yes, no, on, off: text here and in YAML 1.2, a boolean in YAML 1.1 */
	SPELT_NUMBER,   /* 08, 0o17: text here and in YAML 1.1, a number in YAML 1.2 */
	SPELT_OTHERWISE /* 1.10, 1_000, True: as text it becomes 1.1, 1000, true */
};
enum { SPELLING_SHIFT = 1, SPELLING_BITS = 7 }; /* in flags, below NODE_ODD */

struct member {
	const char *key; /* NUL-terminated, no NUL inside */
	uint32_t key_n;
	uint32_t key_line, key_column;
	struct node value;
};

/* Limits of one document. */
struct budget {
	size_t depth; /* nesting of lists and maps */
	size_t nodes; /* values, with aliases resolved */
	size_t text;  /* bytes of all scalars, with aliases resolved */
	size_t key;   /* bytes of one key */
};
#define BUDGET_DEFAULT ((struct budget){ 64, 100000, 8u << 20, 1024 })

struct doc {
	struct node root;
	bool json;   /* read by the JSON reader */
	bool whole;  /* read completely; true also if doc_read returns -1 for duplicate keys */
	bool syntax; /* after -1 of json_read or yaml_read: the text is not of that format at all */
};

/*
 * Reads a document.  Text that begins with `{`, after a byte-order mark, white space and comments
 * of JSON, is read as JSON with comments, and as YAML only if it is not JSON; other text is read as
 * YAML with the scalar rules of js-yaml 3.  The tree lives in the arena and does not refer to the
 * text.  Warnings (comments in JSON, two `<<` in a mapping) are added to `warnings`, which can be
 * NULL; values that other readers interpret differently are only marked (enum spelling).  -1
 * and *e: 400 InvalidProtocolError with line and column; a tree exists if doc->whole is set.  Pure.
 */
int doc_read(struct span text, const struct budget *b, struct arena *a, struct doc *doc,
             struct notes *warnings, struct err *e);
/* The root of such a document; NULL if it has mistakes, which are not reported. */
const struct node *doc_quiet(struct span text, const struct budget *b, struct arena *a);

/*
 * Reads strict JSON (RFC 8259), except that comments between tokens are accepted and reported as a
 * warning.  The text must be UTF-8.  -1 and *e as doc_read; doc->syntax is set if the text is not
 * JSON at all, and left false for JSON that is refused: duplicate keys, NUL, lone surrogates,
 * budgets.
 */
int json_read(struct span text, const struct budget *b, struct arena *a, struct doc *doc,
              struct notes *warnings, struct err *e);

/* The member with that key, or NULL; also if `map` is not a map. */
const struct member *node_member(const struct node *map, struct span key);
/* Its value. */
static inline const struct node *node_get(const struct node *map, const char *key)
{
	const struct member *m = node_member(map, (struct span){ key, strlen(key) });
	return m ? &m->value : NULL;
}

static inline bool node_is(const struct node *n, enum node_type t)
{
	return n && n->type == t;
}

/* The text of a member; "" if it is absent, or no text. */
static inline const char *node_text(const struct node *map, const char *key)
{
	const struct node *n = node_get(map, key);
	return node_is(n, NODE_TEXT) ? n->text : "";
}

static inline bool node_is_number(const struct node *n)
{
	return n->type == NODE_INT || n->type == NODE_REAL;
}

static inline double node_number(const struct node *n)
{
	return n->type == NODE_INT ? (double)n->integer : n->real;
}

/* Returns the number of items of a list, or of members of a map; 0 for other values and for
 * NULL. */
static inline uint32_t node_items(const struct node *n)
{
	return n && (n->type == NODE_LIST || n->type == NODE_MAP) ? n->n : 0;
}

static inline struct span node_span(const struct node *n)
{
	return (struct span){ n->text, n->n };
}

static inline struct span member_key(const struct member *m)
{
	return (struct span){ m->key, m->key_n };
}

/* "null", "a boolean", "an integer", "a number", "text", "a date", "a list", "a mapping". */
const char *node_type_name(const struct node *n);

/* Equal types and values; 2 equals 2.0; the order of members is ignored. */
bool node_equal(const struct node *a, const struct node *b);

/* A scalar as text, numbers and booleans as in JSON; NUL-terminated, the node's own or in the
 * arena. { NULL, 0 }: null, a number that is not finite, a list or a map. */
struct span node_scalar(struct arena *a, const struct node *n);

/* Appends a scalar as ECMAScript writes it, nothing for null; false for a map or a list. */
bool node_put(struct str *out, const struct node *n);

/* Writes a tree as JSON, members in order; dates as text, NaN and infinity as null. */
void node_json(struct str *out, const struct node *n);

/*
 * A path from the root, kept on the C stack while a tree is walked:
 *
 *	struct path roles = PATH_KEY(NULL, SPAN("taskRoles"));
 *	struct path role = PATH_KEY(&roles, member_key(m));
 *	err_at(e, INVALID_PROTOCOL, path_place(a, &role, node), "...");
 */
struct path {
	const struct path *up;
	struct span key; /* key.p is NULL for an index */
	size_t index;
};
#define PATH_KEY(parent, k)   ((struct path){ (parent), (k), 0 })
#define PATH_INDEX(parent, i) ((struct path){ (parent), { NULL, 0 }, (i) })

/* The place of `n`; `at` lives in the arena.  p is NULL for the root; without n there is no line.
 */
struct place path_place(struct arena *a, const struct path *p, const struct node *n);
/* The place of the key of a member. */
struct place path_place_key(struct arena *a, const struct path *p, const struct member *m);

/* Appends an escaped reference token to a JSON pointer. */
void pointer_key(struct str *out, struct span key);
void pointer_index(struct str *out, size_t index);
