#pragma once
/*
 * What comes of a WATCH, cut into its lines.  Pure; private to k8s/.
 */
#include "base/str.h"

struct watch_lines {
	struct str carry; /* of a line that has not ended; its maximum is that of a line */
	bool cut;         /* the carry is full: what is left of the line is passed over */
};
#define WATCH_LINES_INIT(max) ((struct watch_lines){ .carry = STR_INIT(max) })

/* One line, without its newline; borrowed until it returns.  cut: it is longer than the maximum,
 * and this is how it begins. */
typedef void watch_line(void *arg, struct span line, bool cut);

/* Call for each line that ends in these bytes.  Empty lines are none. */
void watch_lines_take(struct watch_lines *l, struct span bytes, watch_line *each, void *arg);
/* The connection is gone, and with it the line that has not ended. */
void watch_lines_clear(struct watch_lines *l);
