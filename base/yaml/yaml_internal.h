#pragma once
/* The state of the YAML reader, and its parts. */
#include <yaml.h>

#include "base/doc.h"

/* The value of `&name`, as far as it is read. */
struct anchor {
	struct span name;
	struct node node;
	size_t nodes, text; /* its cost; while it is open, the budget spent before it */
	uint32_t height;    /* levels of containers in it */
	bool open;          /* being read: an alias to it is a cycle */
};

/* The search for the bytes of the top-level `secrets`. */
struct cut {
	bool seen;       /* the key was written literally at the top level */
	bool inside;     /* its value is being read */
	bool open;       /* the end of the span is unknown */
	bool block;      /* the top-level mapping is in block style */
	unsigned column; /* of the key */
	size_t from, to; /* the span, as bytes */
	const char *unsafe;
	struct place at;
};

struct yaml_reader {
	struct build b;
	yaml_parser_t parser;
	yaml_event_t event;  /* not on the stack, which would be cleared for each event */
	struct span text;    /* as received */
	bool ascii;          /* the text is ASCII: characters are bytes */
	bool has_bang;       /* the text has a `!`: perhaps a tag */
	bool has_question;   /* the text has a `?` */
	bool has_breaks;     /* the text has line breaks of Unicode (NEL, LS, PS) */
	bool has_tab_marks;  /* a tab of `text` is one of the marks in `input` */
	const char *input;   /* the text for libyaml, of the same length */
	size_t chars, bytes; /* the last position that was converted */
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

/* The byte offset of a mark of libyaml, which counts characters. */
size_t yaml_byte(struct yaml_reader *y, const yaml_mark_t *m);

/* Sets the error of libyaml's parser, as a sentence for users.  Returns -1. */
int yaml_problem(struct yaml_reader *y);
/* Searches a common mistake on the line of the mark, or (back) on the lines before it; sets its
 * place and a sentence. */
bool yaml_suspect(struct yaml_reader *y, const yaml_mark_t *m, bool back, struct place *at,
                  const char **says);

struct place yaml_place(const struct yaml_reader *y, const yaml_event_t *ev);

/* Line, column, type and value of a scalar. */
int yaml_scalar(struct yaml_reader *y, const yaml_event_t *ev, struct node *n);
/* Refuses a list or a map with a foreign tag. */
int yaml_collection_tag(struct yaml_reader *y, const yaml_event_t *ev);

/* A new, open anchor of this name, which replaces an older one. */
struct anchor *anchor_begin(struct yaml_reader *y, const yaml_char_t *name);
/* NULL if the value has no anchor. */
static inline struct anchor *anchor_new(struct yaml_reader *y, const yaml_char_t *name)
{
	return name ? anchor_begin(y, name) : NULL;
}
/* The value is complete, with `height` levels of containers.  The anchor can be NULL. */
void anchor_end(struct yaml_reader *y, struct anchor *a, const struct node *n, uint32_t height);
/* The anchor of an alias, charged to the budget; NULL and the error if it is refused. */
const struct anchor *alias_find(struct yaml_reader *y, const yaml_event_t *ev);
void anchors_done(struct yaml_reader *y);

/* Events of the search for the secrets.  All keys except `<<`, and the ends of mappings: */
void cut_key(struct yaml_reader *y, const yaml_event_t *ev, struct span key);
void cut_end(struct yaml_reader *y, const yaml_event_t *ev);
/* The start of a value, before it is pushed. */
void cut_look(struct yaml_reader *y, const yaml_event_t *ev);
static inline void cut_value(struct yaml_reader *y, const yaml_event_t *ev)
{
	if (y->cut.inside || y->b.depth == 0)
		cut_look(y, ev);
}
/* A `<<`. */
void cut_merge(struct yaml_reader *y, const yaml_event_t *ev);
/* A member that `<<` adds. */
void cut_merged(struct yaml_reader *y, const struct member *m);
/* At the end: fills the fields of *doc. */
void cut_finish(struct yaml_reader *y, struct doc *doc);

/* ---- scalars (yaml_scalar.c) ---- */

/* true, and the value, if the text has the type; else *n is unchanged. */
bool plain_null(struct node *n, struct span t);
bool plain_bool(struct node *n, struct span t);
/* Most numbers of jobs: up to 15 decimal digits without a leading 0. */
bool plain_small_int(struct node *n, struct span t);
bool plain_int(struct node *n, struct span t);
/* The scalar is text; false also for text that begins like a number. */
bool plain_surely_text(struct span t);
/* Looks like a date, or date and time. */
bool plain_is_date(struct span t);

/* ---- input of libyaml (yaml_parser.c) ---- */

bool text_is_ascii(struct span text);
/*
 * NEL, LS and PS break lines for libyaml but not for js-yaml, even in comments.  They are replaced
 * by other characters of the same size; scalars that contain them are refused.  Returns the text
 * itself if it has none.
 */
struct span text_without_breaks(struct span text, struct arena *a);

/*
 * Replaces insignificant tabs that libyaml refuses by blanks, the first one behind a block scalar
 * by COMMENT_MARK, and a tab at the start of a literal block scalar by TAB_MARK.  *marked is set if
 * there are marks: the reader restores the tab.  Returns the text itself if it has no such tabs.
 */
enum { TAB_MARK = 'T', COMMENT_MARK = '#' };
struct span text_without_tabs(struct span text, struct arena *a, bool *marked);

/* The text is borrowed until the parser is closed. */
void parser_open(yaml_parser_t *p, struct span text);
void parser_close(yaml_parser_t *p);
/* libyaml does not wipe its buffers and events before it frees them: wipe at most n bytes. */
void parser_wipe(yaml_parser_t *p, size_t n);
void event_wipe(const yaml_event_t *ev);
