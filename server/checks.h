#pragma once
/* Options that make no sense together, or are not safe together.  Pure. */
#include "server/options.h"

/* loopback: what --listen is.  -1 and *e (400): the first that is wrong, in words. */
int checks_options(const struct options *o, bool loopback, struct err *e);
