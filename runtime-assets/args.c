#include "runtime-assets/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static const struct arg *find(const struct arg *table, const char *name)
{
	while (table->name && strcmp(table->name, name) != 0)
		table++;
	return table->name ? table : NULL;
}

int args_take(const struct arg *table, int i, int argc, char **argv)
{
	for (; i < argc; i++) {
		const struct arg *a = find(table, argv[i]);
		if (!a || (a->value && i + 1 == argc))
			break;
		if (a->value)
			*a->value = argv[++i];
		else
			*a->flag = true;
	}
	return i;
}

int args_misused(const char *command, const char *argument)
{
	char quoted[4 * QUOTE_MAX];
	if (argument)
		fprintf(stderr,
		        "pai-runtime %s: `%s`: no such option, or a value that is missing or not "
		        "allowed\n\n",
		        command, quote(quoted, span_of(argument)));
	else
		fprintf(stderr, "pai-runtime %s: an argument is missing\n\n", command);
	return -1;
}

const char *env_get(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}
