#include "tests/lib/tally.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool tally_wants(const struct tally *t, const char *name)
{
	if (!t->wanted || !*t->wanted)
		return true;
	for (char **word = t->wanted; *word; word++)
		if (strstr(name, *word))
			return true;
	return false;
}

static void tally_close(struct tally *t)
{
	if (t->running && t->wrong)
		t->failed++;
	else if (t->running)
		t->passed++;
	t->running = false;
	t->wrong = 0;
}

bool tally_test(struct tally *t, const char *name)
{
	tally_close(t);
	t->running = tally_wants(t, name);
	return t->running;
}

bool tally_check(struct tally *t, bool ok, const char *fmt, ...)
{
	t->checks++;
	if (ok)
		return true;
	t->wrong++;
	va_list ap;
	va_start(ap, fmt);
	(void)fputs("FAIL ", stdout);
	(void)vprintf(fmt, ap);
	(void)fputc('\n', stdout);
	va_end(ap);
	return false;
}

int tally_end(struct tally *t)
{
	tally_close(t);
	(void)printf("%zu checks\n%zu passed, %zu failed\n", t->checks, t->passed, t->failed);
	return t->failed == 0 && t->passed > 0 ? 0 : 1;
}
