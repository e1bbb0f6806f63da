#pragma once
/*
 * How the readers (YAML, JSON) build a tree: values go on a stack, and the
 * children of a container are copied into the arena, in one array, when it ends.
 * Budgets and duplicate keys are looked after here.  For base/ only.
 */
#include "base/tree.h"

/* What is not on the way of good documents: its buffers must not cost them anything. */
#define COLD __attribute__((cold, noinline))

enum { NODE_MERGED = 0x80 }; /* a flag of values while their map is open: came by `<<` */

struct anchor;

struct frame {
	struct member key; /* of a map: the key whose value comes next; key.key is NULL before */
	size_t first;      /* of its children on the stack */
	uint32_t line, column;
	uint32_t height; /* levels of containers inside it, so far */
	bool map;
	uint8_t odd;           /* NODE_ODD if some child is */
	bool merge;            /* the coming value is that of `<<` */
	unsigned merges;       /* how often `<<` was there */
	struct anchor *anchor; /* its own, if any */
};

struct build {
	struct arena *arena;
	const struct budget *budget;
	struct err *e;
	struct member *v; /* the stack of values; lists leave the keys unused */
	size_t n, cap;
	struct frame *frame; /* open containers, frame[depth - 1] is the innermost */
	size_t depth;
	size_t nodes, text; /* spent, after aliases are followed */
	bool refused;       /* for a duplicate key: all else can be read */
	bool secret_twice;  /* one of them was secret: then the tree lacks some of the secrets */
	struct node root;
};

void build_init(struct build *b, const struct budget *budget, struct arena *a, struct err *e);

static inline struct frame *build_top(const struct build *b)
{
	return b->depth ? &b->frame[b->depth - 1] : NULL;
}

/* Spend on the budget; -1 and the error at (line, column) if there is not enough. */
int build_spend(struct build *b, size_t nodes, size_t text, struct place where);
/* Add a complete value to the innermost container (or make it the root). */
void build_push(struct build *b, const struct node *n);
/* Begin a list or a map; spends one node. */
int build_open(struct build *b, enum node_type type, uint32_t line, uint32_t column);
/* The key of the next value.  The bytes must live in the arena and end in NUL. */
int build_key(struct build *b, struct span key, uint32_t line, uint32_t column);
/* End the innermost container; *n becomes it, and is not yet pushed.  Keys that it has twice are in
 * the error then, and b->refused is set. */
void build_close(struct build *b, struct node *n);

/* The place of the value that comes next, or stands open, with its JSON pointer, which
 * ends at what is sensitive. */
struct place build_place(const struct build *b, uint32_t line, uint32_t column);
/* The value that comes next belongs to `secrets`, `auth`, a password or token: do not quote it. */
bool build_sensitive(const struct build *b);

/* Line and column (from 1, in characters) of a byte of the text. */
struct place text_place(struct span text, size_t offset);

/* Scalar rules of js-yaml 3.13 that both readers use (yaml_scalar.c). */
/* true, and the value, if the text is a float; else *n is untouched. */
bool plain_float(struct node *n, struct span t);
/* Set an unquoted scalar's enum spelling by the text from which it was read. */
void spelling_mark(struct node *n, struct span text);
