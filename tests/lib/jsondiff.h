#pragma once
/* Differences between two JSON values. */
#include <jansson.h>
#include <stddef.h>

#include "tests/lib/auto.h"

/* One difference.  `at` is owned; want and got are borrowed, NULL for a missing value. */
struct difference {
	char *at; /* JSON pointer */
	const json_t *want, *got;
};

struct differences {
	struct difference *v;
	size_t n, cap;
};

/* All differences.  The order matters in arrays, but not in objects. */
void json_differences(json_t *want, json_t *got, struct differences *out);
void differences_done(struct differences *d);
