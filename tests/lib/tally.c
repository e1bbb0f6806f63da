#include "tests/lib/tally.h"

#include <stdarg.h>
#include <stdio.h>

bool tally_check(struct tally *t, bool ok, const char *fmt, ...)
{
	if (ok) {
		t->passed++;
		return true;
	}
	t->failed++;
	va_list ap;
	va_start(ap, fmt);
	(void)fputs("FAIL ", stdout);
	(void)vprintf(fmt, ap);
	(void)fputc('\n', stdout);
	va_end(ap);
	return false;
}

int tally_end(const struct tally *t)
{
	(void)printf("%zu passed, %zu failed\n", t->passed, t->failed);
	return t->failed == 0 && t->passed > 0 ? 0 : 1;
}
