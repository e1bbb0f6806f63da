#pragma once
/* The tags of a job: a JSON list of texts in its annotation rest-lit/tags.  Pure. */
#include "base/arena.h"
#include "base/str.h"

/* As it is kept (job_entry_tag_ok), and without a comma, by which queries are split. */
bool tag_ok(struct span tag);

enum tags_changed { TAGS_CHANGED, TAGS_AS_BEFORE, TAGS_FULL };
/* The list with a tag (without it) in *out; only if that changes it.  `list` is struct job_entry's.
 */
enum tags_changed tags_with(struct str *out, struct span list, struct span tag, struct arena *a);
enum tags_changed tags_without(struct str *out, struct span list, struct span tag, struct arena *a);
