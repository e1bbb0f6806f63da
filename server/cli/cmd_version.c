/* rest-lit version */
#include <jansson.h>
#include <yaml.h>

#include "server/cli/commands.h"
#include "server/http/http.h"

int cmd_version(const struct command *c, int argc, char **argv)
{
	int done = command_plain(c, argc, argv);
	if (done >= 0)
		return done;
	STR_AUTO out = STR_INIT(1024);
	str_printf(&out, "rest-lit %s\nlibmicrohttpd %s, jansson %s, libyaml %s\n",
	           REST_LIT_VERSION, http_version(), jansson_version_str(),
	           yaml_get_version_string());
	return command_print(str_view(&out));
}
