#pragma once
/*
 * The items of a list that an API server answers with, one by one.  The list is cut with a scanner
 * of its own and only its items are parsed, each for itself: a tree of the whole would take many
 * times the memory, and one item that cannot be parsed must not hide the others.  Pure; private to
 * k8s/.
 */
#include "k8s/transport/reply.h"

enum { CONTINUE_MAX = 4096 }; /* bytes of the token by which a list goes on */

/* `item` is borrowed until it returns. */
typedef void item_callback(void *arg, const json_t *item);

/*
 * Call `each` with every item that is an object; those that cannot be parsed are left out.
 * What stands in metadata.continue is appended to `more`, nothing at the end of the list.
 * -1 if this is no list, or if it is cut off; `each` may have been called by then.
 */
int items_each(struct span list, item_callback *each, void *arg, struct str *more);
