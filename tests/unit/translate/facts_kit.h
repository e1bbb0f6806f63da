#pragma once
/* The facts for one user from a file of --facts. */
#include "tests/unit/base/cmocka.h"

#include "translate/facts.h"

static inline int facts_read(struct span text, const char *user, struct arena *a, struct facts *f,
                             struct err *e)
{
	struct facts_user own;
	const struct facts_file *file = facts_file_read(text, a, e);
	if (!file)
		return -1;
	facts_file_user(file, span_of(user), false, a, &own);
	*f = own.facts;
	return 0;
}
