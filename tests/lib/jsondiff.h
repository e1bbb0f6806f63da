#pragma once
/* In what do two JSON values differ? */
#include <jansson.h>
#include <stddef.h>

/* One difference.  `at` is owned; want and got are borrowed, NULL where there is nothing. */
struct difference {
	char *at; /* JSON pointer */
	const json_t *want, *got;
};

struct differences {
	struct difference *v;
	size_t n, cap;
};

/* All differences; members of maps in any order, elements of lists in theirs. */
void json_differences(json_t *want, json_t *got, struct differences *out);
void differences_done(struct differences *d);
