#pragma once
/* The state of the YAML reader, and its parts. */
#include <yaml.h>

#include "base/doc/doc.h"

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

static inline struct place mark_place(const yaml_mark_t *m)
{
	return (struct place){ NULL, mark_line(m), mark_column(m) };
}

/* The byte offset of a mark of libyaml, which counts characters. */
size_t yaml_byte(struct yaml_reader *y, const yaml_mark_t *m);

#define YAML_MARK_INSIDE "a byte-order mark (U+FEFF) may only be at the start"

/* Sets the error of libyaml's parser, as a sentence for users.  Returns -1. */
int yaml_problem(struct yaml_reader *y);
struct place yaml_place(const struct yaml_reader *y, const yaml_event_t *ev);

/* Line, column, type and value of a scalar. */
int yaml_scalar(struct yaml_reader *y, const yaml_event_t *ev, struct node *n);
/* Refuses a list or a map with a foreign tag. */
int yaml_collection_tag(struct yaml_reader *y, const yaml_event_t *ev);

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
