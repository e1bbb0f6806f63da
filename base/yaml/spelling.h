#pragma once
/* How a scalar was written; see enum spelling.  For the readers of documents. */
#include "base/tree.h"

/* Mark a scalar without quotes by the text that it was read from. */
void spelling_mark(struct node *n, struct span text);
