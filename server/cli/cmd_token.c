/* rest-lit token: creates a token for scripts, or where there are no passwords. */
#include <time.h>

#include "schema/check.h"
#include "server/auth/token.h"
#include "server/cli/cli_internal.h"
#include "server/setup.h"

static int token_check_options(const struct options *o, struct err *e)
{
	if (!o->jwt_secret_file[0])
		return err_set(e, 400, NULL,
		               "--jwt-secret-file FILE is needed: the token secret of the server");
	if (!o->user[0])
		return err_set(e, 400, NULL,
		               "--user NAME is needed, with a name such as alice or j.doe-2");
	return 0;
}

/* Standard output has the token only, for a file or a variable. */
static int print_token(const struct options *o, const struct keyring *k, struct err *e)
{
	STR_AUTO text = STR_SECRET(TOKEN_MAX);
	if (token_make(k, o->user, o->application, (int64_t)time(NULL),
	               o->application ? 0 : o->token_lifetime_s, &text, e) < 0)
		return complain(e, NULL, EXIT_REFUSED);
	str_char(&text, '\n');
	return command_print(str_view(&text));
}

static int token_print(const struct options *o)
{
	ERR_AUTO e = { 0 };
	const char *file;
	/* The server decides whether tokens must be stored. */
	const struct keyring_options from = { o->jwt_secret_file, "", true };
	struct keyring *k = NULL;
	schema_init();
	if (token_check_options(o, &e) == 0)
		k = keyring_new(&from, &file, &e);
	if (!k)
		return complain(&e, NULL, EXIT_USAGE);
	int code = print_token(o, k, &e);
	keyring_free(k);
	return code;
}

int cmd_token(const struct command *c, int argc, char **argv)
{
	struct options o;
	int code = command_options(c, &o, argc, argv);
	if (code < 0 && o.n_files)
		code = command_usage(c, "takes no file");
	else if (code < 0)
		code = token_print(&o);
	options_done(&o);
	return code;
}
