/*
 * What is set on every handle, and why: libcurl's defaults are made for a person at a
 * terminal.  They read proxies from the environment, trust every CA of the machine beside the
 * one that is given, speak two dozen protocols and negotiate HTTP/2.
 */
#include "k8s/transport/curl.h"

#include "base/enc.h"

#define NUMBER(option, value)                                                                      \
	{                                                                                          \
		option, #option, false, value, NULL                                                \
	}
#define TEXT(option, value)                                                                        \
	{                                                                                          \
		option, #option, true, 0, value                                                    \
	}

/* clang-format off */
const struct curl_setting CURL_SETTINGS[] = {
	/* where it may go */
	TEXT(CURLOPT_REDIR_PROTOCOLS_STR, "https"),
	TEXT(CURLOPT_DEFAULT_PROTOCOL, "https"),
	NUMBER(CURLOPT_FOLLOWLOCATION, 0), /* a redirect is an error */
	TEXT(CURLOPT_PROXY, ""),           /* none, whatever the environment says */
	TEXT(CURLOPT_NOPROXY, "*"),
	NUMBER(CURLOPT_PATH_AS_IS, 1),     /* never rewrite ../ */

	/* whom it trusts */
	NUMBER(CURLOPT_SSL_VERIFYPEER, 1),
	NUMBER(CURLOPT_SSL_VERIFYHOST, 2),
	NUMBER(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2), /* or later */
	TEXT(CURLOPT_CAPATH, NULL),        /* else the machine's CAs count, too; see curl_set_ca_bundle */

	/* what it tells */
	NUMBER(CURLOPT_NETRC, CURL_NETRC_IGNORED),
	NUMBER(CURLOPT_HTTPAUTH, CURLAUTH_NONE), /* the header is ours */
	NUMBER(CURLOPT_UNRESTRICTED_AUTH, 0),
	NUMBER(CURLOPT_VERBOSE, 0),        /* would print the token */

	/* what it understands */
	NUMBER(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1),
	NUMBER(CURLOPT_HTTP09_ALLOWED, 0),
	NUMBER(CURLOPT_TRANSFER_ENCODING, 0),
	TEXT(CURLOPT_ACCEPT_ENCODING, NULL), /* nothing is inflated */
	NUMBER(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1),

	/* how much it holds, per handle */
	NUMBER(CURLOPT_BUFFERSIZE, 4096),  /* answers are metadata */
	NUMBER(CURLOPT_UPLOAD_BUFFERSIZE, 16384), /* its minimum; default 64 KiB */

	/* how long it waits */
	NUMBER(CURLOPT_CA_CACHE_TIMEOUT, 60), /* OpenSSL's; else a day: CAs are replaced */
	NUMBER(CURLOPT_CONNECTTIMEOUT_MS, 5000),
	NUMBER(CURLOPT_DNS_CACHE_TIMEOUT, 60),
	NUMBER(CURLOPT_QUICK_EXIT, 1),     /* else giving up waits for the resolver's thread */
	NUMBER(CURLOPT_MAXAGE_CONN, 90),
	NUMBER(CURLOPT_TCP_KEEPALIVE, 1),
	NUMBER(CURLOPT_TCP_NODELAY, 1),
	NUMBER(CURLOPT_NOSIGNAL, 1),       /* there are threads */
};
/* clang-format on */
const size_t CURL_SETTINGS_N = sizeof(CURL_SETTINGS) / sizeof(CURL_SETTINGS[0]);

int curl_start(struct err *e)
{
	/* Counts its calls.  Its buffers hold tokens, and bodies of Secrets. */
	CURLcode bad = curl_global_init_mem(CURL_GLOBAL_DEFAULT, xmalloc, free_wiped, realloc_wiped,
	                                    xstrdup, xcalloc);
	if (bad)
		return err_set(e, UNKNOWN_ERROR, "libcurl: %s", curl_easy_strerror(bad));
	const curl_version_info_data *v = curl_version_info(CURLVERSION_NOW);
	if (v->ssl_version == NULL)
		return err_set(e, UNKNOWN_ERROR, "this libcurl has no TLS");
	if (!(v->features & CURL_VERSION_ASYNCHDNS))
		return err_set(e, UNKNOWN_ERROR, "this libcurl has no asynchronous resolver");
	return 0;
}

static CURLcode set(CURL *h, const struct curl_setting *s)
{
	if (s->is_text)
		return curl_easy_setopt(h, s->option, s->text);
	return curl_easy_setopt(h, s->option, s->number);
}

static int set_all(CURL *h, const struct curl_setting *s, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		CURLcode bad = set(h, &s[i]);
		if (bad)
			return err_set(e, UNKNOWN_ERROR, "libcurl: %s: %s", s[i].name,
			               curl_easy_strerror(bad));
	}
	return 0;
}

CURL *curl_bare(struct err *e)
{
	CURL *h = curl_easy_init();
	if (h == NULL) {
		err_set(e, UNKNOWN_ERROR, "libcurl: no memory for a handle");
		return NULL;
	}
	if (set_all(h, CURL_SETTINGS, CURL_SETTINGS_N, e) == 0)
		return h;
	curl_easy_cleanup(h);
	return NULL;
}

CURLcode curl_set_ca_bundle(CURL *h, const char *ca_file)
{
	const char *machine = NULL;
	if (ca_file != NULL) {
		/* The file may be replaced, and libcurl 8 believes what it has read for a day.
		 * libcurl 7 with GnuTLS does not, and does not know the option. */
		(void)curl_easy_setopt(h, CURLOPT_CA_CACHE_TIMEOUT, 0L);
		return curl_easy_setopt(h, CURLOPT_CAINFO, ca_file);
	}
	/* As this libcurl was built: a directory of them, or a file, which is still set. */
	(void)curl_easy_getinfo(h, CURLINFO_CAPATH, &machine);
	return curl_easy_setopt(h, CURLOPT_CAPATH, machine);
}

int curl_ca_check(const char *path, struct err *e)
{
	if (path[0] == '\0')
		return 0;
	FREE_AUTO char *text = file_text(path, e);
	if (!text)
		return -1;
	if (!strstr(text, "-----BEGIN CERTIFICATE-----"))
		return err_set(e, 400, NULL, "%s: there is no certificate in it (PEM)", path);
	return 0;
}

CURL *curl_handle(const struct login *l, struct err *e)
{
	/* login_new has made sure that http is for loopback only. */
	bool plain = span_starts(span_of(l->url), "http://");
	const struct curl_setting ours[] = {
		TEXT(CURLOPT_PROTOCOLS_STR, plain ? "http" : "https"),
		TEXT(CURLOPT_SSLCERT, l->cert.path),
		TEXT(CURLOPT_SSLKEY, l->key.path),
	};
	CURL *h = curl_bare(e);
	if (h == NULL)
		return NULL;
	if (set_all(h, ours, sizeof(ours) / sizeof(ours[0]), e) == 0) {
		CURLcode bad = curl_set_ca_bundle(h, l->ca.path);
		if (!bad)
			return h;
		err_set(e, UNKNOWN_ERROR, "libcurl: CURLOPT_CAINFO: %s", curl_easy_strerror(bad));
	}
	curl_easy_cleanup(h);
	return NULL;
}
