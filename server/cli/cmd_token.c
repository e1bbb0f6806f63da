/* rest-lit token: creates a token for scripts, or where there are no passwords. */
#include <time.h>

#include "schema/schema.h"
#include "server/auth/token.h"
#include "server/cli/cli_internal.h"
#include "server/config/setup.h"

int cmd_token(const struct command *c, struct options *o)
{
	ERR_AUTO e = { 0 };
	STR_AUTO text = STR_SECRET(TOKEN_MAX);
	const char *file;
	/* The server decides whether tokens must be stored. */
	const struct keyring_options from = { o->jwt_secret_file, "", true };
	struct keyring *k = NULL;
	(void)c;
	schema_init();
	if (!o->jwt_secret_file[0])
		(void)err_set(&e, 400, NULL,
		              "--jwt-secret-file FILE is needed: the token secret of the server");
	else if (!o->user[0])
		(void)err_set(&e, 400, NULL,
		              "--user NAME is needed, with a name such as alice or j.doe-2");
	else
		k = keyring_new(&from, &file, &e);
	if (!k)
		return print_error_notes(&e, NULL, EXIT_USAGE);
	int rc = token_make(k, o->user, o->application, (int64_t)time(NULL),
	                    o->application ? 0 : o->token_lifetime_s, &text, &e);
	keyring_free(k);
	if (rc < 0)
		return print_error_notes(&e, NULL, EXIT_REFUSED);
	/* Standard output has the token only, for a file or a variable. */
	str_char(&text, '\n');
	return command_print(str_view(&text));
}
