/* Checks the addresses and files that users name, and says what is wrong with them. */
#include "k8s/http/endpoint.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/posix/fd.h"

enum { TEXT_MAX = 1 << 20, URL_MAX = 512 };

char *config_file_text(const char *path, struct err *e)
{
	struct stat st;
	STR_AUTO text = STR_SECRET(TEXT_MAX);
	if (file_read_regular(path, &text, &st, e) < 0)
		return NULL;
	if (text.n > 0 && memchr(text.p, '\0', text.n) == NULL)
		return str_take(&text);
	err_set(e, UNKNOWN_ERROR, "%s: is empty, or is not text", path);
	return NULL;
}

/* Returns the reason why `rest` (after the scheme) is not HOST[:PORT][/PATH], or NULL. */
static const char *address_fault(struct span rest, bool only_here)
{
	struct span authority = span_to(rest, span_chr(rest, '/'));
	size_t bracket = span_chr(authority, ']'); /* the end of an IPv6 address */
	size_t n = bracket < authority.n ? bracket + 1 : span_chr(authority, ':');
	struct span host = span_to(authority, n);
	struct span port = span_from(authority, n);
	int64_t number;
	if (n == 0 || !span_only_alnum_or(authority, "-.:[]") ||
	    !span_only_alnum_or(rest, "-.:[]/_"))
		return "must be https://HOST[:PORT][/PATH]";
	if (port.n > 0 &&
	    (port.p[0] != ':' || parse_i64(span_from(port, 1), 1, UINT16_MAX, &number) < 0))
		return "the port must be a number from 1 to 65535";
	if (only_here && !span_is(host, "localhost") && !span_is(host, "127.0.0.1") &&
	    !span_is(host, "[::1]"))
		return "http is accepted for this machine only, use https";
	return NULL;
}

char *address_read(const char *text, bool secrets, const char **fault)
{
	struct span url = span_trim(span_of(text));
	bool plain = span_starts(url, "http://");
	size_t scheme = plain ? strlen("http://") : strlen("https://");
	*fault = secrets ? "must start with https://" : "must start with https:// or http://";
	if ((plain || span_starts(url, "https://")) && url.n <= URL_MAX) {
		while (url.n > scheme && url.p[url.n - 1] == '/')
			url.n--;
		*fault = address_fault((struct span){ url.p + scheme, url.n - scheme },
		                       plain && secrets);
	}
	return *fault ? NULL : xstrndup(url.p, url.n);
}

bool login_is_visible(struct span text)
{
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] <= ' ' || text.p[i] > '~')
			return false;
	return true;
}
