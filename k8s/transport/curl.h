#pragma once
/* libcurl as this program wants it: one place for every handle.  Private to k8s/. */
#include <curl/curl.h>

#include "k8s/transport/login.h"

/* Once per process, at start; -1 and *e (500) if this libcurl lacks TLS or asynchronous
 * name resolution, without which a loop would block. */
int curl_start(struct err *e);

/* One option that every handle has.  A text setting has text, a number the other. */
struct curl_setting {
	CURLoption option;
	const char *name;
	bool is_text;
	long number;
	const char *text;
};
extern const struct curl_setting CURL_SETTINGS[];
extern const size_t CURL_SETTINGS_N;

/* A new handle with all of them; it still needs protocols and a CA.  NULL and *e (500). */
CURL *curl_bare(struct err *e);
/* Whom a handle of curl_bare trusts: the CAs of this file and nobody else; NULL: those of the
 * machine. */
CURLcode curl_set_ca_bundle(CURL *h, const char *ca_file);
/* Is there a certificate in this file?  Else nobody would be trusted, and every request would fail.
 * "" is fine.  -1 and *e (400 or 500). */
int curl_ca_check(const char *path, struct err *e);
/* A new handle with all of them and with the login's address, CA and certificate; the
 * result of every setopt is checked.  NULL and *e (500). */
CURL *curl_handle(const struct login *l, struct err *e);
