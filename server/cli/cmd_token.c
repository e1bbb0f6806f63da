/* rest-lit token: creates a token for scripts, or where there are no passwords.  rest-lit login,
 * logout: gets a token from a server or its issuer, keeps it for later commands, and forgets it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/json/put.h"
#include "base/posix/fd.h"

#include "schema/schema.h"
#include "server/auth/token.h"
#include "server/cli/cli_internal.h"
#include "server/config/setup.h"
#include "server/login/logins.h"

enum { LINE_MAX = 1024, ANSWER_MAX = 1 << 20, INTERRUPT = 3 /* Ctrl-C */ };

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

/* ---- login ----------------------------------------------------------------------------------- */

/* A line without its end; from the terminal, which shows nothing of it if `secret`, or else from
 * standard input.  -1 and *e: there is none. */
static int login_line(const char *question, bool secret, struct str *out, struct err *e)
{
	struct termios was = { 0 };
	FD_AUTO tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	int fd = isatty(STDIN_FILENO) && tty >= 0 ? tty : STDIN_FILENO;
	bool terminal = fd == tty && tcgetattr(fd, &was) == 0;
	struct termios silent = was;
	silent.c_lflag &= ~(tcflag_t)(ECHO | ISIG); /* else a signal would leave it silent */
	if (terminal)
		(void)dprintf(fd, "%s", question);
	if (terminal && secret)
		(void)tcsetattr(fd, TCSAFLUSH, &silent); /* it is the terminal */
	char c = '\0';
	bool some = false;
	for (; read(fd, &c, 1) == 1 && c != '\n' && c != INTERRUPT; some = true)
		str_char(out, c);
	if (terminal && secret) {
		(void)tcsetattr(fd, TCSAFLUSH, &was);
		(void)dprintf(fd, "\n");
	}
	return (some || c == '\n') && c != INTERRUPT && !out->full
	           ? 0
	           : err_set(e, 400, NULL, "no password was entered");
}

static int login_password(struct remote *r, struct arena *a, struct login_entry *out, struct err *e)
{
	REPLY_AUTO reply = { 0 };
	STR_AUTO password = STR_SECRET(LINE_MAX);
	STR_AUTO body = STR_SECRET((size_t)8 * LINE_MAX);
	const char *user = setup_user(r->o);
	if (login_line(arena_printf(a, "Password of %s at %s: ", user, r->o->server), true,
	               &password, e) < 0)
		return -1;
	json_put_open(&body, NULL, '{');
	json_put_word(&body, "username", user);
	json_put_text(&body, "password", str_view(&password));
	str_char(&body, '}');
	const struct client_call call = { .method = "POST",
		                          .path = "/api/v2/authn/basic/login",
		                          .type = "application/json",
		                          .body = str_view(&body),
		                          .max = ANSWER_MAX };
	if (remote_ask(r, &call, 200, &reply, e) < 0)
		return -1;
	out->token = arena_span(a, scan_text(scan_get(str_view(&reply.body), "token"), a));
	return out->token.n ? 0
	                    : err_set(e, UNKNOWN_ERROR, "%s answers without a token", r->o->server);
}

static void login_show(const char *url, const char *code)
{
	ARENA_AUTO a = { 0 };
	(void)fprintf(stderr, "Open %s in a browser, on any device, and enter the code %s\n",
	              visible_line(&a, span_of(url)), visible_line(&a, span_of(code)));
}

static int login_flow(struct remote *r, const void *arg, struct err *e)
{
	ARENA_SECRET a = { 0 };
	REPLY_AUTO reply = { 0 };
	struct span ways;
	struct span issuer;
	struct login_entry entry = { SPAN(""), 0, SPAN(""), SPAN(""), SPAN("") };
	(void)arg;
	if (span_starts(span_of(r->o->server), "unix:"))
		return err_set(e, 400, NULL,
		               "at %s your account is the user, without a login; name another "
		               "--server",
		               r->o->server);
	if (remote_get(r, "/api/v2/authn/info", &reply, &ways, e) < 0)
		return -1;
	struct scan walk = scan_begin(scan_get(ways, "issuers"));
	bool some = scan_item(&walk, &issuer);
	const struct device_login d = {
		.issuer = some ? arena_dup(&a, scan_text(scan_get(issuer, "issuer"), &a)) : "",
		.client = some ? arena_dup(&a, scan_text(scan_get(issuer, "clientId"), &a)) : "",
		.show = login_show,
	};
	int got = span_is(scan_get(ways, "passwords"), "true") ? login_password(r, &a, &entry, e)
	          : some                                       ? device_run(&d, &a, &entry, e)
	                                                       : err_set(e, 400, NULL,
	                                                                 "%s has neither passwords nor an issuer for logins: its "
	                                                                                                       "administrator gives tokens (rest-lit token), for --token-file",
	                                                                 r->o->server);
	return got < 0 || login_store(r->o->server, &entry, e) < 0 ? -1 : EXIT_OK;
}

/* With the token: does the server know it? */
static int login_check(struct remote *r, const void *arg, struct err *e)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO kept = { 0 };
	(void)arg;
	const char *user = remote_user(r, &a, e);
	if (!user) {
		if (e->http == 401)
			(void)login_store(r->o->server, NULL, &kept); /* it would be of no use */
		return -1;
	}
	(void)fprintf(stderr, "rest-lit: logged in at %s as %s\n", r->o->server, user);
	return EXIT_OK;
}

int cmd_login(const struct command *c, struct options *o)
{
	if (o->token_file[0])
		return command_usage(c, "--token-file excludes a login: it is a token already");
	int code = remote_run_login(o, login_flow);
	return code == EXIT_OK ? remote_run(o, NULL, login_check, NULL) : code;
}

/* ---- logout ---------------------------------------------------------------------------------- */

static int logout_flow(struct remote *r, const void *arg, struct err *e)
{
	ARENA_SECRET a = { 0 };
	REPLY_AUTO reply = { 0 };
	struct span token;
	(void)arg;
	const struct client_call call = { .method = "DELETE",
		                          .path = "/api/v2/authn/basic/logout",
		                          .max = ANSWER_MAX };
	if (login_token(r->o->server, &a, &token, e) < 0)
		return -1;
	if (!token.n)
		return err_set(e, 400, NULL, "nobody has logged in at %s here", r->o->server);
	/* Tokens of issuers cannot be revoked by the server: they expire. */
	bool revoked = remote_ask(r, &call, 200, &reply, e) == 0;
	if (!revoked && e->http >= 500)
		return -1;
	err_done(e);
	if (login_store(r->o->server, NULL, e) < 0)
		return -1;
	(void)fprintf(stderr, "rest-lit: logged out from %s%s\n", r->o->server,
	              revoked ? "" : "; the token was not revoked, and lasts until it expires");
	return EXIT_OK;
}

int cmd_logout(const struct command *c, struct options *o)
{
	if (o->token_file[0])
		return command_usage(c, "--token-file has no login");
	return remote_run(o, NULL, logout_flow, NULL);
}
