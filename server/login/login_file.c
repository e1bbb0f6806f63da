/* The file of tokens: read as a whole, and replaced as a whole, under a lock. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/fd.h"
#include "server/login/logins.h"

enum { LOGIN_FILE_MAX = 1 << 20, DEPTH = 4, RENEW_S = 60, OWNER = 0700 };

/* The directory, which is made, and its lock, held until `fd` is closed. */
struct login_file {
	int dir, fd;
	struct str text; /* of the file; "{}" if it is not there */
};

static void login_file_done(struct login_file *f)
{
	fd_cleanup(&f->fd);
	fd_cleanup(&f->dir);
	str_wipe(&f->text);
}

static int login_failed(const char *what, struct err *e)
{
	return err_set(e, 400, NULL, "%s: %m", what);
}

/* The path of the directory, in the arena; made if `make`. */
static const char *login_directory(struct arena *a, bool make)
{
	/* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
	const char *config = getenv("XDG_CONFIG_HOME") ?: "";
	const char *home = getenv("HOME") ?: "";
	/* NOLINTEND(concurrency-mt-unsafe) */
	const char *above = config[0] == '/' ? config : arena_printf(a, "%s/.config", home);
	const char *dir = arena_printf(a, "%s/rest-lit", above);
	if (make) { /* a failure shows when it is opened */
		(void)mkdir(above, OWNER);
		(void)mkdir(dir, OWNER);
	}
	return dir;
}

/* 0: opened; 1: there is no file, and none is to be made; -1 and *e. */
static int login_file_open(struct login_file *f, bool make, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct stat st;
	const char *dir = login_directory(&a, make);
	*f = (struct login_file){ -1, -1, STR_SECRET(LOGIN_FILE_MAX) };
	f->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dir < 0 && !make && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 1;
	if (f->dir < 0)
		return login_failed(dir, e);
	FD_AUTO file = openat(f->dir, "tokens", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (file < 0 && errno == ENOENT && !make)
		return 1;
	if (file < 0 && errno != ENOENT)
		return login_failed(arena_printf(&a, "%s/tokens", dir), e);
	f->fd = openat(f->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->fd < 0 || flock(f->fd, LOCK_EX) < 0)
		return login_failed(arena_printf(&a, "%s/lock", dir), e);
	if (file >= 0) { /* again: another command may have replaced it */
		fd_cleanup(&file);
		file = openat(f->dir, "tokens", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	}
	if (file < 0) {
		str_puts(&f->text, "{}");
		return 0;
	}
	if (fstat(file, &st) < 0 || st.st_uid != geteuid() || st.st_mode & 077)
		return err_set(
		    e, 400, NULL,
		    "%s/tokens has tokens, and others than its owner may access it, or it "
		    "is not yours: chmod 600 %s/tokens, or remove it",
		    dir, dir);
	char piece[4096];
	for (ssize_t n; (n = read(file, piece, sizeof(piece))) > 0;)
		str_span(&f->text, (struct span){ piece, (size_t)n });
	memory_wipe(piece, sizeof(piece));
	if (f->text.full || !scan_valid(str_view(&f->text), DEPTH) ||
	    scan_type(str_view(&f->text)) != SCAN_OBJECT)
		return err_set(e, 400, NULL, "%s/tokens is damaged: remove it, and log in again",
		               dir);
	return 0;
}

static void login_put(struct str *out, const struct login_entry *entry)
{
	json_put_text(out, "token", entry->token);
	json_put_int(out, "end", entry->end_s);
	if (!entry->refresh.n)
		return;
	json_put_text(out, "refresh", entry->refresh);
	json_put_text(out, "endpoint", entry->endpoint);
	json_put_text(out, "client", entry->client);
}

/* Replaces the file: with this entry of the server, or without one. */
static int login_file_write(struct login_file *f, const char *server,
                            const struct login_entry *entry, struct err *e)
{
	STR_AUTO out = STR_SECRET(LOGIN_FILE_MAX);
	struct scan walk = scan_begin(str_view(&f->text));
	struct span key;
	struct span value;
	str_char(&out, '{');
	while (scan_key(&walk, &key) && scan_value(&walk, &value)) {
		if (span_is(key, server))
			continue;
		str_printf(&out, "%s\"%.*s\":", out.n > 1 ? ",\n" : "\n", (int)key.n, key.p);
		str_span(&out, value);
	}
	if (entry) {
		str_puts(&out, out.n > 1 ? ",\n" : "\n");
		str_json(&out, span_of(server));
		str_puts(&out, ":{");
		login_put(&out, entry);
		str_char(&out, '}');
	}
	str_puts(&out, "\n}\n");
	FD_AUTO file = openat(f->dir, "tokens.new",
	                      O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (out.full)
		return err_set(e, 400, NULL, "there are too many logins: rest-lit logout");
	if (file < 0 || fchmod(file, 0600) < 0 || fd_write_all(file, str_view(&out)) < 0 ||
	    fsync(file) < 0 || renameat(f->dir, "tokens.new", f->dir, "tokens") < 0)
		return login_failed("the file of tokens cannot be written", e);
	return 0;
}

static struct login_entry login_get(const struct login_file *f, const char *server, struct arena *a)
{
	struct span all = str_view(&f->text);
	struct span entry = { NULL, 0 };
	struct scan walk = scan_begin(all);
	struct span key;
	struct span value;
	while (scan_key(&walk, &key) && scan_value(&walk, &value))
		if (span_is(key, server))
			entry = value;
	struct login_entry out = { SPAN(""), 0, SPAN(""), SPAN(""), SPAN("") };
	if (!entry.p)
		return out;
	(void)scan_int(scan_get(entry, "end"), 0, INT64_MAX, &out.end_s); /* else 0 */
	out.token = arena_span(a, scan_text(scan_get(entry, "token"), a));
	out.refresh = arena_span(a, scan_text(scan_get(entry, "refresh"), a));
	out.endpoint = arena_span(a, scan_text(scan_get(entry, "endpoint"), a));
	out.client = arena_span(a, scan_text(scan_get(entry, "client"), a));
	return out;
}

int login_token(const char *server, struct arena *a, struct span *token, struct err *e)
{
	struct login_file f;
	*token = SPAN("");
	int opened = login_file_open(&f, false, e);
	struct login_entry entry =
	    opened ? (struct login_entry){ SPAN(""), 0, SPAN(""), SPAN(""), SPAN("") }
		   : login_get(&f, server, a);
	int code = opened < 0 ? -1 : 0;
	if (entry.refresh.n && entry.end_s && entry.end_s - RENEW_S <= (int64_t)time(NULL)) {
		code = device_renew(&entry, a, e);
		if (code == 0)
			code = login_file_write(&f, server, &entry, e);
		bool lasts = code < 0 && e->http == 503 && entry.end_s > (int64_t)time(NULL);
		if (lasts) { /* the issuer does not answer: the old one is still valid */
			err_done(e);
			code = 0;
		}
		if (code < 0)
			(void)err_wrap(e, "the login at %s cannot be renewed", server);
	}
	login_file_done(&f);
	*token = entry.token;
	return code;
}

int login_store(const char *server, const struct login_entry *entry, struct err *e)
{
	struct login_file f;
	int opened = login_file_open(&f, entry != NULL, e);
	int code = opened ? (opened < 0 ? -1 : 0) : login_file_write(&f, server, entry, e);
	login_file_done(&f);
	return code;
}
