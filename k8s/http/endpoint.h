#pragma once
/*
 * The settings of a connection, as users write them: the URL of a server, and small text files with
 * a token or certificates.  Private to k8s/.
 *
 *	const char *fault;
 *	FREE_AUTO char *url = address_read("https://hived:9096/", true, &fault);
 *	if (!url)
 *		return err_set(e, 400, "the address %s", fault);
 *
 * Thread: worker
 */
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

/* Reads a small regular file, at most 1 MiB.  malloc'ed text without NUL inside, or NULL and *e. */
char *config_file_text(const char *path, struct err *e);

/* Visible characters of ASCII only, as in a header line or a URL; true if empty.  Thread: any. */
bool login_is_visible(struct span text);

/* "https://host[:port][/path]" without surrounding white space and trailing slashes.  Plain http is
 * accepted for loopback, and for any host unless `secrets` are sent.  malloc'ed, or NULL and *fault
 * (static text).  Thread: any. */
char *address_read(const char *text, bool secrets, const char **fault);
