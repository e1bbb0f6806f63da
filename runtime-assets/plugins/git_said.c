/* What git says when it fails: does it mean that another try helps?  See git.h. */
#include "runtime-assets/plugins/git.h"

/* A permanent reason wins: git adds "the remote end hung up" to those as well. */
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
static int number_behind(const char *said, const char *text)
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

static bool has_one(const char *said, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcasestr(said, list[i]))
			return true;
	}
	return false;
}

/* A reason that stands in no warning: "templates not found" is none. */
static bool git_said_permanent(const char *said)
{
	for (size_t i = 0; i < sizeof(PERMANENT) / sizeof(*PERMANENT); i++) {
		for (const char *at = said; (at = strcasestr(at, PERMANENT[i])); at++) {
			const char *before = memrchr(said, '\n', (size_t)(at - said));
			if (strncasecmp(before ? before + 1 : said, "warning:", 8) != 0)
				return true;
		}
	}
	return false;
}

bool git_transient(const char *said)
{
	int status = number_behind(said, "returned error");
	if (status == 0)
		status = number_behind(said, "HTTP");
	if (status >= 400)
		return status == 429 || status == 408 || status >= 500;
	return !git_said_permanent(said) &&
	       has_one(said, TRANSIENT, sizeof(TRANSIENT) / sizeof(*TRANSIENT));
}

int64_t git_retry_after(const char *said)
{
	return number_behind(said, "retry-after");
}

/* `https://name:token@host`: all between // and @ goes. */
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
