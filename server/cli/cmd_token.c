/* rest-lit token: make a token, for scripts, or where nobody logs in with a password. */
#include <time.h>

#include "schema/check.h"
#include "server/auth/token.h"
#include "server/cli/cli_internal.h"
#include "server/setup.h"

static int check(const struct options *o, struct err *e)
{
	if (!o->jwt_secret_file[0])
		return err_set(e, 400, NULL,
		               "--jwt-secret-file FILE is needed: the secret of the server that "
		               "shall take the token");
	if (!o->user[0])
		return err_set(e, 400, NULL,
		               "--user NAME is needed, with a name such as alice or j.doe-2");
	return 0;
}

/* The token alone goes to standard output: it is meant for a file or a variable. */
static int print_token(const struct options *o, const struct keyring *k, struct err *e)
{
	STR_AUTO text = STR_SECRET(TOKEN_MAX);
	if (token_make(k, o->user, o->application, (int64_t)time(NULL),
	               o->application ? 0 : o->token_lifetime_s, &text, e) < 0)
		return complain(e, NULL, EXIT_REFUSED);
	str_char(&text, '\n');
	return command_print(str_view(&text));
}

static int make_token(const struct options *o)
{
	ERR_AUTO e = { 0 };
	const char *file;
	/* Whether tokens must be stored is for the server to say. */
	const struct keyring_options from = { o->jwt_secret_file, "", true };
	struct keyring *k = NULL;
	schema_init();
	if (check(o, &e) == 0)
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
		code = make_token(&o);
	options_done(&o);
	return code;
}
