#pragma once
/*
 * Common parts of the readers of YAML and JSON, for base/ only: the builder of trees, budgets,
 * duplicate keys, places.  Values are pushed on a stack; when a container ends, its children are
 * copied into the arena as one array.
 *
 * Thread: own
 */
#include "base/doc/tree.h"

/* Marks functions of error paths with large local buffers: keeps them out of the stack frames of
 * other code. */
#define COLD __attribute__((cold, noinline))

enum { NODE_MERGED = 0x80 }; /* flag of values of an open map that `<<` added */

struct anchor;

struct build_frame {
	struct member key; /* of a map: the key of the next value; key.key is NULL before it */
	size_t first;      /* of its children on the stack */
	uint32_t line, column;
	uint32_t height; /* levels of containers in it so far */
	bool map;
	uint8_t flags;         /* NODE_ODD and NODE_SHARES of its children and keys */
	bool merge;            /* the next value is that of `<<` */
	unsigned merges;       /* number of `<<` keys */
	struct anchor *anchor; /* its own, if any */
};

struct build {
	struct arena *arena;
	const struct budget *budget;
	struct err *e;
	struct member *v; /* the stack of values; lists leave the keys unused */
	size_t n, cap;
	struct build_frame *frame; /* open containers, frame[depth - 1] is the innermost */
	size_t depth;
	size_t nodes, text; /* spent, with aliases resolved */
	bool refused;       /* a key was duplicate; reading goes on */
	bool secret_twice;  /* a duplicate was secret: the tree lacks a secret */
	struct node root;
};

void build_init(struct build *b, const struct budget *budget, struct arena *a, struct err *e);

static inline struct build_frame *build_top(const struct build *b)
{
	return b->depth ? &b->frame[b->depth - 1] : NULL;
}

/* Spends from the budget; -1 and *e at that place if it is exceeded. */
int build_spend(struct build *b, size_t nodes, size_t text, struct place where);
/* Adds a complete value to the innermost container, or makes it the root. */
void build_push(struct build *b, const struct node *n);
/* Opens a list or a map; spends one node. */
int build_open(struct build *b, enum node_type type, uint32_t line, uint32_t column);
/* The key of the next value: NUL-terminated, in the arena. */
int build_key(struct build *b, struct span key, uint32_t line, uint32_t column);
/* Closes the innermost container, which becomes *n and is not pushed.  Duplicate keys are added to
 * the error and set b->refused. */
void build_close(struct build *b, struct node *n);

/* The place of the next or open value.  Its JSON pointer ends before sensitive keys. */
struct place build_place(const struct build *b, uint32_t line, uint32_t column);
/* The next value is part of `secrets`, `auth`, a password or a token: messages must not quote it.
 */
bool build_sensitive(const struct build *b);

/* Moves a place from one byte of the text to a later one. */
void place_advance(struct place *at, struct span text, size_t from, size_t to);
/* Line and column (from 1, in characters) of a byte of the text. */
struct place text_place(struct span text, size_t offset);

/* ---- rules of js-yaml 3.13 that both readers use (yaml_scalar.c) ---- */

/* true, and the value, if the text is a float; else *n is unchanged. */
bool plain_float(struct node *n, struct span t);
/* Sets the enum spelling of an unquoted scalar by the text from which it was read. */
void spelling_mark(struct node *n, struct span text);
