#pragma once
/* The state of one run of the YAML reader, and its parts; for base/yaml*.c only. */
#include <yaml.h>

#include "base/doc.h"

/* What stands behind `&name`, as far as it is read. */
struct anchor {
	struct span name;
	struct node node;
	size_t nodes, text; /* what it costs; before it ends, what was spent when it began */
	uint32_t height;    /* levels of containers in it */
	bool open;          /* still being read: an alias to it would be a cycle */
};

/* How the bytes of the top-level `secrets` are found while the events go by. */
struct cut {
	bool seen;       /* the key was there, written literally at the top level */
	bool inside;     /* its value is being read */
	bool open;       /* the end of the span is not known yet */
	bool block;      /* the top-level mapping is in block style */
	unsigned column; /* of the key */
	size_t from, to; /* the span, as bytes */
	const char *unsafe;
	struct place at;
};

struct yaml_reader {
	struct build b;
	yaml_parser_t parser;
	yaml_event_t event;  /* here, since what is on the stack gets zeroed each time */
	struct span text;    /* as it came */
	bool ascii;          /* all of it: then characters are bytes */
	bool has_bang;       /* there is a `!` in it: perhaps a tag */
	bool has_question;   /* there is a `?` in it */
	bool has_breaks;     /* there are line breaks of Unicode in it (NEL, LS, PS) */
	bool has_first_tab;  /* some literal block scalar begins with a tab */
	const char *input;   /* what libyaml gets: as long as the text */
	size_t chars, bytes; /* up to here characters were counted */
	void *anchors;       /* tree of struct anchor, by name */
	struct cut cut;
	struct notes *warnings;
};

static inline uint32_t mark_line(const yaml_mark_t *m)
{
	return (uint32_t)m->line + 1;
}

static inline uint32_t mark_column(const yaml_mark_t *m)
{
	return (uint32_t)m->column + 1;
}

/* The byte that a mark of libyaml, which counts characters, stands at. */
size_t yaml_byte(struct yaml_reader *y, const yaml_mark_t *m);

/* The error in libyaml's parser, as a sentence for people. */
int yaml_problem(struct yaml_reader *y);
/* Is there a common mistake on the line of the mark, or (back) on those before it?  Then its place
 * and a sentence. */
bool yaml_suspect(struct yaml_reader *y, const yaml_mark_t *m, bool back, struct place *at,
                  const char **says);

struct place yaml_place(const struct yaml_reader *y, const yaml_event_t *ev);

/* Line, column, type and value of a scalar. */
int yaml_scalar(struct yaml_reader *y, const yaml_event_t *ev, struct node *n);
/* Refuse a list or a map for its tag, if it has one that is not its own. */
int yaml_collection_tag(struct yaml_reader *y, const yaml_event_t *ev);

/* A new meaning for the name, from here on; it is open. */
struct anchor *anchor_begin(struct yaml_reader *y, const yaml_char_t *name);
/* NULL if the value has none. */
static inline struct anchor *anchor_new(struct yaml_reader *y, const yaml_char_t *name)
{
	return name ? anchor_begin(y, name) : NULL;
}
/* Its value is complete, with so many levels of containers.  The anchor may be NULL. */
void anchor_end(struct yaml_reader *y, struct anchor *a, const struct node *n, uint32_t height);
/* What the alias stands for, paid from the budget; NULL and the error if it may not be. */
const struct anchor *alias_find(struct yaml_reader *y, const yaml_event_t *ev);
void anchors_done(struct yaml_reader *y);

/* What the cut learns from the events.  All keys but `<<`, and the ends of mappings: */
void cut_key(struct yaml_reader *y, const yaml_event_t *ev, struct span key);
void cut_end(struct yaml_reader *y, const yaml_event_t *ev);
/* The start of any value (before it is pushed). */
void cut_look(struct yaml_reader *y, const yaml_event_t *ev);
static inline void cut_value(struct yaml_reader *y, const yaml_event_t *ev)
{
	if (y->cut.inside || y->b.depth == 0)
		cut_look(y, ev);
}
/* A `<<` at this place. */
void cut_merge(struct yaml_reader *y, const yaml_event_t *ev);
/* A member that `<<` brings. */
void cut_merged(struct yaml_reader *y, const struct member *m);
/* All is read: fill the fields of *doc. */
void cut_finish(struct yaml_reader *y, struct doc *doc);

/* ---- scalars (yaml_scalar.c) ---- */

/* Each: true, and *n of that type, if the text is one; else *n is untouched. */
bool plain_null(struct node *n, struct span t);
bool plain_bool(struct node *n, struct span t);
/* Most numbers of jobs: up to 15 decimal digits without a leading 0. */
bool plain_small_int(struct node *n, struct span t);
bool plain_int(struct node *n, struct span t);
/* It is text; false also for text that begins like a number. */
bool plain_surely_text(struct span t);
/* Looks like a date, or date and time. */
bool plain_is_date(struct span t);

/* ---- what libyaml is given (yaml_parser.c) ---- */

bool text_is_ascii(struct span text);
/*
 * NEL, LS and PS break lines for libyaml but not for js-yaml, even in comments.
 * So libyaml gets ordinary characters of the same size in their place, and scalars
 * with one of them are refused.  The text itself if there is none.
 */
struct span text_without_breaks(struct span text, struct arena *a);

/*
 * Tabs that libyaml does not take although they mean nothing are blanks in what it gets, and the
 * first character of a literal block scalar is TAB_MARK where it is a tab: *first_tab is set then,
 * and the tab must be put back.  The text itself if there are none.
 */
enum { TAB_MARK = 'T' };
struct span text_without_tabs(struct span text, struct arena *a, bool *first_tab);

/* The text is borrowed until the parser is closed. */
void parser_open(yaml_parser_t *p, struct span text);
void parser_close(yaml_parser_t *p);
/* libyaml frees its buffers and events with what was read still in them: n bytes at most. */
void parser_wipe(yaml_parser_t *p, size_t n);
void event_wipe(const yaml_event_t *ev);
