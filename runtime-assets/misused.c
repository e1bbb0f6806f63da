/* What is wrong with a command line, in one line. */
#include <stdio.h>

#include "base/err.h"
#include "runtime-assets/commands.h"

void misused(const char *command, const char *argument)
{
	char quoted[4 * QUOTE_MAX];
	if (argument)
		fprintf(stderr,
		        "pai-runtime %s: `%s`: no such option, or a value that is missing or not "
		        "allowed\n\n",
		        command, quote(quoted, span_of(argument)));
	else
		fprintf(stderr, "pai-runtime %s: an argument is missing\n\n", command);
}
