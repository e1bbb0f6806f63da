#pragma once
/* What libyaml's parser is given, and that nothing of it is left in memory; for base/yaml*.c only.
 */
#include <yaml.h>

#include "base/arena.h"

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
