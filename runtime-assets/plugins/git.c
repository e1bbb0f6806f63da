/* The plugin git, and `pai-runtime git-move`, which clones in the user's container. */
#include "runtime-assets/plugins/plugins_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pod/plugin.h"
#include "base/pod/reference.h"
#include "base/posix/clock.h"
#include "base/posix/rmtree.h"
#include "runtime-assets/common/cmdline.h"

enum { OPTIONS_MAX = 32 };

int git_option(const struct span *words, size_t n, struct str *out, size_t *used)
{
	size_t name_n;
	const struct git_clone_option *option = git_clone_option(words[0], &name_n);
	bool joined = name_n < words[0].n;
	if (!option)
		return -1;
	*used = 1;
	str_puts(out, option->normal);
	if (option->value == GIT_NO_VALUE)
		return joined ? -1 : 0;
	if (!joined && n < 2)
		return -1;
	int64_t number;
	struct span value = joined ? span_from(words[0], name_n + 1) : words[1];
	*used = joined ? 1 : 2;
	str_char(out, '=');
	str_span(out, value);
	if (option->value == GIT_NUMBER)
		return parse_i64(value, 1, INT32_MAX, &number);
	/* Branches and tags; git allows more characters. */
	bool good = value.n > 0 && value.n <= 255 && value.p[0] != '-' &&
	            span_all(value, "^\1- \177~^:?*[\\'\"`$;&|<>(){}!");
	return good ? 0 : -1;
}

/* ---- the parameter `options` ----------------------------------------------------------------- */

struct option_words {
	struct span v[OPTIONS_MAX];
	size_t from[OPTIONS_MAX]; /* index in `options`, for messages */
	size_t n;
};

/* `--depth 1` may come as one text or as two. */
static int git_split_options(struct option_words *w, struct span text, size_t index)
{
	for (;;) {
		text = span_trim(text);
		size_t n = span_skip_class(text, 0, "^ \t\n");
		if (n == 0)
			return 0;
		if (w->n == OPTIONS_MAX)
			return -1;
		w->from[w->n] = index;
		w->v[w->n++] = (struct span){ text.p, n };
		text = span_from(text, n);
	}
}

/* Names an option by its number: its text may hold a token. */
static int git_put_options(struct plugin *p, struct err *e)
{
	const struct node *list = node_get(p->parameters, "options");
	struct option_words w = { .n = 0 };
	if (!list || list->type == NODE_NULL)
		return 0;
	if (list->type != NODE_LIST)
		return err_set(e, FAILED, "`options` must be a list of texts");
	for (uint32_t i = 0; i < list->n; i++) {
		STR_AUTO text = STR_SECRET(GIT_WORD_MAX);
		if (!node_put(&text, &list->item[i]) || text.full)
			return err_set(e, FAILED, "`options[%u]` must be a short text", i);
		if (git_split_options(&w, arena_span(p->all->a, str_view(&text)), i))
			return err_set(e, FAILED, "`options` are too many");
	}
	for (size_t i = 0, used; i < w.n; i += used) {
		STR_AUTO option = STR_SECRET(GIT_WORD_MAX);
		if (git_option(&w.v[i], w.n - i, &option, &used))
			return err_set(
			    e, FAILED,
			    "`options[%zu]` is not allowed, or its value is invalid; allowed: %s",
			    w.from[i], GIT_OPTIONS);
		str_char(&p->pre, ' ');
		shell_word(&p->pre, str_view(&option));
	}
	return 0;
}

/* ---- the plugin ------------------------------------------------------------------------------ */

static int git_check_word(struct span text, const char *key, struct err *e)
{
	if (!span_all(text, "^\1-\37\177"))
		return err_set(e, FAILED, "`%s` must be one line", key);
	if (text.n > GIT_WORD_MAX)
		return err_set(e, FAILED, "`%s` is too long", key);
	return 0;
}

int plugin_git(struct plugin *p, struct err *e)
{
	struct span uri;
	struct span folder;
	if (plugin_text(p, "repo_uri", &uri, e) || plugin_text(p, "clone_dir", &folder, e))
		return -1;
	uri = span_trim(uri);
	folder = span_trim(folder);
	if (uri.n == 0)
		return err_set(e, FAILED, "`repo_uri` is missing");
	if (git_check_word(uri, "repo_uri", e) || git_check_word(folder, "clone_dir", e))
		return -1;
	shell_path(&p->pre, p->all->at->program);
	str_puts(&p->pre, " git-move");
	if (git_put_options(p, e))
		return -1;
	str_puts(&p->pre, " -- ");
	shell_word(&p->pre, uri);
	str_char(&p->pre, ' ');
	shell_word(&p->pre, folder.n ? folder : span_of(p->all->at->code));
	str_char(&p->pre, '\n');
	return 0;
}

/* ---- the messages of git --------------------------------------------------------------------- */

/* These take precedence: git also prints "the remote end hung up" then. */
static const char *const PERMANENT[] = {
	"authentication failed", "permission denied",       "not found",
	"does not exist",        "does not appear to be a", "host key verification failed",
	"not allowed",           "could not read username", "could not read password",
	"invalid username",      "already exists",          "no space left",
	"certificate",           "is not a git command",
};
static const char *const TRANSIENT[] = {
	"could not resolve",
	"temporary failure",
	"name or service not known",
	"timed out",
	"connection reset",
	"connection refused",
	"connection closed",
	"failed to connect",
	"couldn't connect",
	"early eof",
	"hung up unexpectedly",
	"transfer closed",
	"too slow",
	"network is unreachable",
	"no route to host",
	"broken pipe",
	"tls connection",
	"ssl_error_syscall",
	"ssl_read",
	"gnutls_handshake",
	"empty reply",
	"rpc failed",
	"unexpected disconnect",
	"too many requests",
	"was not closed cleanly",
};

/* The number behind a text, as in "returned error: 503"; 0 if there is none. */
int git_number_behind(const char *said, const char *text)
{
	for (const char *at = said; (at = strcasestr(at, text));) {
		at += strlen(text);
		const char *digits = at + strspn(at, ": ");
		struct span number = { digits, strspn(digits, "0123456789") };
		int64_t v;
		if (number.n && parse_i64(number, 0, 100000, &v) == 0)
			return (int)v;
	}
	return 0;
}

bool git_transient(const char *said)
{
	int status = git_number_behind(said, "returned error");
	bool transient = false;
	if (status == 0)
		status = git_number_behind(said, "HTTP");
	if (status >= 400)
		return status == 429 || status == 408 || status >= 500;
	for (size_t i = 0; i < ARRAY_SIZE(TRANSIENT); i++)
		transient = transient || strcasestr(said, TRANSIENT[i]);
	for (size_t i = 0; transient && i < ARRAY_SIZE(PERMANENT); i++) {
		for (const char *at = said; (at = strcasestr(at, PERMANENT[i])); at++) {
			/* Warnings do not count: "templates not found". */
			const char *before = memrchr(said, '\n', (size_t)(at - said));
			if (strncasecmp(before ? before + 1 : said, "warning:", 8) != 0)
				return false;
		}
	}
	return transient;
}

/* `https://name:token@host`: everything between // and @. */
void git_redact(char *text)
{
	for (char *at = text; (at = strstr(at, "://"));) {
		at += 3;
		size_t host = strcspn(at, "/ \t\n'\"?#");
		char *end = memrchr(at, '@', host);
		if (end)
			memset(at, '*', (size_t)(end - at));
	}
}

/* ---- `pai-runtime git-move` ------------------------------------------------------------------ */

/*
 * The clone has a temporary name first, so the target is complete or does not exist.  A target that
 * does not exist is made by rename.  An existing one must be empty and gets all entries of the
 * clone: it may be a mount, or the working directory of the command.
 */

enum {
	GIT_FAILED = 1,
	GIT_TRANSIENT = 75, /* EX_TEMPFAIL of <sysexits.h> */
	ARGV_MAX = 64,
	SAID_MAX = 64 * 1024,
	TRIES_MAX = 10,
	INSTALL_TRIES = 3,
	WAIT_MAX_S = 300, /* one pause, also if Retry-After is longer */
	WAIT_MAX_MS = 300000,
	BUDGET_MS = 900000 /* all pauses */
};

#define TEMPORARY ".pai-git-clone"

struct git_move {
	struct arena a;
	const char *git_argv[ARGV_MAX];
	size_t n;
	const char *uri, *target, *temporary;
	bool exists;   /* the target is there, and empty */
	int64_t first; /* seconds before the second try */
};

/* ---- one try --------------------------------------------------------------------------------- */

/* Shows standard error of git by complete lines, or all of it, without logins. */
static void clone_show_errors(struct str *said, size_t *shown, bool all)
{
	char *text = said->p;
	size_t end = said->n;
	while (!all && end > *shown && text[end - 1] != '\n')
		end--;
	if (end <= *shown)
		return;
	char last = text[end];
	text[end] = '\0';
	git_redact(text + *shown);
	(void)fd_write_all(STDERR_FILENO, (struct span){ text + *shown, end - *shown });
	text[end] = last;
	*shown = end;
}

static void clone_read(int fd, struct str *said)
{
	char buffer[4096];
	size_t shown = 0;
	for (;;) {
		ssize_t n = read(fd, buffer, sizeof(buffer));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n; i++) {
			if (buffer[i] == '\0' || buffer[i] == '\r')
				buffer[i] = '\n';
		}
		if (said->n + (size_t)n > SAID_MAX) { /* keeps the end */
			clone_show_errors(said, &shown, true);
			said->n = shown = 0;
		}
		str_put(said, buffer, (size_t)n);
		clone_show_errors(said, &shown, false);
	}
	if (said->n)
		clone_show_errors(said, &shown, true);
}

/* The exit status of git; -1 and errno if it cannot be started. */
static int clone_once(struct git_move *m, struct str *said)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	FD_AUTO from = ends[0];
	const struct child_command git = { .argv = m->git_argv, .err = ends[1] };
	pid_t pid = child_spawn(&git);
	fd_cleanup(&ends[1]);
	if (pid < 0)
		return -1;
	clone_read(from, said);
	return child_wait(pid);
}

/* ---- directories ----------------------------------------------------------------------------- */

/* Moves into a target that exists, entry by entry, which rename cannot do. */
static int clone_move(struct git_move *m)
{
	if (!m->exists)
		return rename(m->temporary, m->target);
	DIR_AUTO *dir = dir_list(AT_FDCWD, m->temporary);
	int rc = dir ? 0 : -1;
	for (const char *name; rc == 0 && (name = dir_next(dir));)
		rc = renameat(dirfd(dir), name, AT_FDCWD, path_join(&m->a, m->target, name));
	return rc ? rc : rmdir(m->temporary);
}

static int clone_fail_with_errno(const char *what, const char *path)
{
	say_line(SAY_ERROR, "git plugin: %s %s: %s", what, path, strerror(errno));
	return GIT_FAILED;
}

/* Checks the target and names the temporary clone. */
static int clone_prepare(struct git_move *m)
{
	ERR_AUTO e = { 0 };
	struct stat st;
	m->exists = lstat(m->target, &st) == 0;
	if (!m->exists && errno != ENOENT)
		return clone_fail_with_errno("cannot look at", m->target);
	if (m->exists && stat(m->target, &st) == 0 && !S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return clone_fail_with_errno("cannot clone to", m->target);
	}
	DIR_AUTO *dir = m->exists ? opendir(m->target) : NULL;
	bool empty = !m->exists || dir;
	for (const char *name; dir && empty && (name = dir_next(dir));)
		empty = strcmp(name, TEMPORARY) == 0;
	if (!empty) {
		errno = dir ? ENOTEMPTY : errno;
		return clone_fail_with_errno("cannot clone to", m->target);
	}
	if (m->exists) {
		m->temporary = arena_printf(&m->a, "%s/%s", m->target, TEMPORARY);
		return 0;
	}
	char *parent = arena_dup(&m->a, span_of(m->target));
	char *slash = strrchr(parent, '/');
	*slash = '\0';
	m->temporary = arena_printf(&m->a, "%s/%s.%s", parent, TEMPORARY, slash + 1);
	if (*parent && stat(parent, &st) != 0 && dir_make(parent, 0755, &e)) {
		say_line(SAY_ERROR, "git plugin: %s", err_msg(&e));
		return GIT_FAILED;
	}
	return 0;
}

/* ---- tries ----------------------------------------------------------------------------------- */

/* 0: try again, after the pause; else the exit status. */
static int clone_after_failure(struct git_move *m, int status, const struct str *said, int tries,
                               int64_t *spent)
{
	if (status > 128 && said->n == 0) {
		say_line(SAY_ERROR, "git plugin: git was ended by signal %d", status - 128);
		return GIT_FAILED;
	}
	if (!git_transient(str_c(said))) {
		say_line(SAY_ERROR, "git plugin: git clone failed with %d; it would fail again",
		         status);
		return GIT_FAILED;
	}
	/* Doubles each time, plus up to half of it as jitter. */
	uint32_t random;
	int64_t asked_ms = (int64_t)git_number_behind(str_c(said), "retry-after") * 1000;
	int64_t ms = m->first * 1000 << (tries < 7 ? tries : 7);
	random_bytes(&random, sizeof(random));
	ms += ms / 2 * (random % 1000) / 1000;
	if (ms < asked_ms)
		ms = asked_ms;
	if (ms > WAIT_MAX_MS)
		ms = WAIT_MAX_MS;
	*spent += ms;
	if (tries + 1 == TRIES_MAX || *spent > BUDGET_MS) {
		say_line(SAY_ERROR,
		         "git plugin: git clone failed %d times; the reason may go by, so another "
		         "try of the task may help",
		         tries + 1);
		return GIT_TRANSIENT;
	}
	say_line(SAY_WARNING, "git plugin: git clone failed with %d, again in %lld s", status,
	         (long long)(ms + 999) / 1000);
	clock_sleep(ms);
	return 0;
}

static int clone_until(struct git_move *m)
{
	int64_t spent = 0;
	for (int tries = 0;; tries++) {
		STR_AUTO said = STR_SECRET(SAID_MAX + 1);
		if (tree_remove(AT_FDCWD, m->temporary, SIZE_MAX))
			return clone_fail_with_errno("cannot remove", m->temporary);
		int status = clone_once(m, &said);
		if (status < 0)
			return clone_fail_with_errno("cannot start", "git");
		int error;
		if (status > 0) {
			error = clone_after_failure(m, status, &said, tries, &spent);
			if (error == 0)
				continue;
		} else if (clone_move(m) == 0) {
			say_line(SAY_INFO, "git plugin: cloned to %s", m->target);
			return 0;
		} else {
			error = clone_fail_with_errno("cannot move the clone to", m->target);
		}
		(void)tree_remove(AT_FDCWD, m->temporary, SIZE_MAX);
		return error;
	}
}

/* https needs certificate authorities, other URIs ssh. */
static int clone_install_git(struct git_move *m)
{
	static const char *const UPDATE[] = { "apt-get", "update", NULL };
	bool https = span_starts(span_of(m->uri), "https:");
	const char *const packages[] = { "apt-get", "install",
		                         "-y",      "--no-install-recommends",
		                         "git",     https ? "ca-certificates" : "openssh-client",
		                         NULL };
	const struct child_command update = { .argv = UPDATE };
	const struct child_command install = { .argv = packages };
	bool can = program_find("apt-get", &m->a);
	if (program_find("git", &m->a))
		return 0;
	for (int try = 1; can && try <= INSTALL_TRIES; try++) {
		say_line(SAY_INFO, "git plugin: git is not in the image; apt-get, try %d of %d",
		         try, INSTALL_TRIES);
		if (child_call(&update) == 0 && child_call(&install) == 0 &&
		    program_find("git", &m->a))
			return 0;
		if (try < INSTALL_TRIES)
			clock_sleep(m->first * 1000 * try);
	}
	say_line(SAY_ERROR, "git plugin: %s",
	         can ? "git is not in the image, and apt-get cannot install it"
	             : "git is not in the image, and there is no apt-get to install it");
	return GIT_FAILED;
}

/* No prompts, and no protocols that run programs. */
static void clone_environment(void)
{
	static const char *const VARIABLES[][2] = {
		{ "DEBIAN_FRONTEND", "noninteractive" }, { "LC_ALL", "C" },
		{ "GIT_ALLOW_PROTOCOL", "https:ssh" },   { "GIT_TERMINAL_PROMPT", "0" },
		{ "GIT_HTTP_LOW_SPEED_LIMIT", "1000" },  { "GIT_HTTP_LOW_SPEED_TIME", "60" },
	};
	/* setenv fails only without memory. */
	for (size_t i = 0; i < ARRAY_SIZE(VARIABLES); i++)
		(void)setenv(VARIABLES[i][0], VARIABLES[i][1], 1);
	/* The settings of the image win; GIT_SSH_COMMAND would override GIT_SSH. */
	if (!getenv("GIT_SSH"))
		(void)setenv("GIT_SSH_COMMAND", "ssh -o BatchMode=yes -o ConnectTimeout=30", 0);
}

/* ---- the command line ------------------------------------------------------------------------ */

const char CLONE_USAGE[] =
    "usage: pai-runtime git-move [--first-wait SECONDS] [OPTION...] -- URI DIRECTORY\n\n"
    "Clone a repository (https or ssh) into a directory that is empty or not there.\n"
    "Options of git clone: " GIT_OPTIONS ".\n\n"
    "Exit status: 0 done; 75 a transient failure; 1 other failures.\n";

/* Checks the options again: the author's code can change the script. */
static int clone_options(struct git_move *m, char **v, size_t n)
{
	struct span words[ARGV_MAX];
	if (n >= ARGV_MAX / 2)
		return -1;
	for (size_t i = 0; i < n; i++)
		words[i] = span_of(v[i]);
	for (size_t i = 0, used; i < n; i += used) {
		STR_AUTO option = STR_INIT(GIT_WORD_MAX);
		if (git_option(&words[i], n - i, &option, &used) || option.full)
			return -1;
		m->git_argv[m->n++] = arena_dup(&m->a, str_view(&option));
	}
	return 0;
}

static int clone_parse(struct git_move *m, int argc, char **argv)
{
	int i = 1;
	m->first = 5;
	if (argc > 2 && strcmp(argv[1], "--first-wait") == 0) {
		if (parse_i64(span_of(argv[2]), 0, WAIT_MAX_S, &m->first))
			return -1;
		i = 3;
	}
	int options = i;
	while (i < argc && strcmp(argv[i], "--") != 0)
		i++;
	if (argc - i != 3 || !*argv[i + 1] || !*argv[i + 2])
		return -1;
	m->git_argv[m->n++] = "git";
	m->git_argv[m->n++] = "clone";
	if (clone_options(m, argv + options, (size_t)(i - options)))
		return -1;
	m->uri = argv[i + 1];
	/* Absolute, without `/` at its end. */
	struct span path = span_of(argv[i + 2]);
	while (path.n > 1 && path.p[path.n - 1] == '/')
		path.n--;
	FREE_AUTO char *here = path.p[0] == '/' ? NULL : getcwd(NULL, 0);
	m->target = here ? arena_printf(&m->a, "%s/%.*s", here, (int)path.n, path.p)
	                 : arena_dup(&m->a, path);
	return m->target[0] == '/' && m->target[1] ? 0 : -1;
}

int cmd_git_move(int argc, char **argv)
{
	struct git_move m = { .n = 0 };
	int rc = clone_parse(&m, argc, argv) ? MISUSED : clone_prepare(&m);
	clone_environment();
	if (rc == 0)
		rc = clone_install_git(&m);
	if (rc == 0) {
		m.git_argv[m.n++] = "--";
		m.git_argv[m.n++] = m.uri;
		m.git_argv[m.n++] = m.temporary;
		m.git_argv[m.n] = NULL;
		rc = clone_until(&m);
	}
	arena_done(&m.a);
	return rc;
}
