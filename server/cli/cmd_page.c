/* rest-lit page NAME: documentation out of the tables. */
#include "server/cli/commands.h"
#include "server/http/openapi.h"
#include "server/http/routes.h"
#include "translate/translate.h"

enum { PAGE_MAX = 1 << 20 };

static const struct {
	const char *name;
	void (*write)(struct str *out);
} PAGES[] = {
	{ "options", options_page },         { "routes", routes_page },
	{ "openapi", openapi_page },         { "translation", translation_page },
	{ "config-schema", options_schema }, { "warnings", warnings_page },
	{ "templates", templates_page },
};

int cmd_page(const struct command *c, int argc, char **argv)
{
	int done = command_plain(c, argc, argv);
	if (done >= 0)
		return done;
	for (size_t i = 0; argc == 2 && i < sizeof(PAGES) / sizeof(PAGES[0]); i++) {
		if (strcmp(argv[1], PAGES[i].name) != 0)
			continue;
		STR_AUTO out = STR_INIT(PAGE_MAX);
		PAGES[i].write(&out);
		return command_print(str_view(&out));
	}
	return command_usage(c, "there is no such page");
}
