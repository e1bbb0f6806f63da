#pragma once
/* Options that make no sense together, or are not safe together.  Pure. */
#include "server/options.h"

/* loopback, output_loopback: --listen is, and --output-listen, if it is given.  -1 and *e (400):
 * the first that is wrong, in words. */
int checks_options(const struct options *o, bool loopback, bool output_loopback, struct err *e);
