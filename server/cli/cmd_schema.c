/* rest-lit schema NAME */
#include "schema/check.h"
#include "server/cli/commands.h"

enum { PAGE_MAX = 1 << 20 };

static const struct {
	const char *name;
	enum schema_name schema;
} SCHEMAS[] = {
	{ "v1", SCHEMA_V1 },           { "v2", SCHEMA_V2 },       { "facts", SCHEMA_FACTS },
	{ "issuers", SCHEMA_ISSUERS }, { "hived", SCHEMA_HIVED },
};

int cmd_schema(const struct command *c, int argc, char **argv)
{
	int done = command_plain(c, argc, argv);
	if (done >= 0)
		return done;
	if (argc != 2)
		return command_usage(c, "which one?");
	for (size_t i = 0; i < sizeof(SCHEMAS) / sizeof(SCHEMAS[0]); i++)
		if (strcmp(argv[1], SCHEMAS[i].name) == 0)
			return command_print(schema_text(SCHEMAS[i].schema));
	if (strcmp(argv[1], "config") != 0)
		return command_usage(c, "there is no such schema");
	STR_AUTO out = STR_INIT(PAGE_MAX);
	options_schema(&out);
	return command_print(str_view(&out));
}
