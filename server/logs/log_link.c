/*
 * A token is base64url of: HMAC-SHA256, framework, its uid, uid of the pod, user, "tail" or "all",
 * and when it expires; each but the last followed by a NUL.  The MAC covers those and the path.
 */
#include "server/logs/log_link.h"

#include <gnutls/crypto.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/str.h"
#include "server/auth/token.h"

enum { MAC = 32, PATH_PARTS = 6, SAID = 6, TOKEN_MAX_BYTES = 2048 };

/* These fail only where the library is broken: then nothing that is signed can be trusted. */
static void must(int rc)
{
	if (rc < 0)
		abort();
}

static void sign(const unsigned char *key, const struct log_link *l, struct span said,
                 unsigned char out[static MAC])
{
	const struct span path[PATH_PARTS] = { l->job,   l->attempt, l->role,
		                               l->index, l->retry,   l->file };
	gnutls_hmac_hd_t h;
	must(gnutls_hmac_init(&h, GNUTLS_MAC_SHA256, key, LOG_LINK_KEY));
	for (size_t i = 0; i < PATH_PARTS; i++) {
		must(gnutls_hmac(h, path[i].p, path[i].n));
		must(gnutls_hmac(h, "", 1));
	}
	must(gnutls_hmac(h, said.p, said.n));
	gnutls_hmac_deinit(h, out);
}

/* ---- writing ---- */

static void put_segment(struct str *out, const char *before, struct span text)
{
	str_puts(out, before);
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		if (is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~')
			str_char(out, c);
		else
			str_printf(out, "%%%02X", (unsigned)(unsigned char)c);
	}
}

static void put_base64url(struct str *out, struct span bytes)
{
	STR_AUTO text = STR_INIT((size_t)2 * TOKEN_MAX_BYTES);
	str_base64(&text, bytes);
	for (size_t i = 0; i < text.n && text.p[i] != '='; i++)
		str_put(out, text.p[i] == '+' ? "-" : text.p[i] == '/' ? "_" : text.p + i, 1);
}

void log_link_write(struct str *out, const struct log_signing *by, const struct log_link *l)
{
	STR_AUTO said = STR_INIT(TOKEN_MAX_BYTES - MAC);
	STR_AUTO bytes = STR_INIT(TOKEN_MAX_BYTES);
	const char *const texts[] = { l->framework, l->framework_uid, l->pod_uid, l->user,
		                      l->tail ? "tail" : "all" };
	unsigned char mac[MAC];
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		str_put(&said, texts[i], strlen(texts[i]) + 1);
	str_int(&said, l->expires_s);
	sign(by->key, l, str_view(&said), mac);
	str_put(&bytes, (const char *)mac, MAC);
	str_span(&bytes, str_view(&said));
	put_segment(out, "/rest-server/api/v2/jobs/", l->job);
	put_segment(out, "/attempts/", l->attempt);
	put_segment(out, "/taskRoles/", l->role);
	put_segment(out, "/taskIndex/", l->index);
	put_segment(out, "/attempts/", l->retry);
	put_segment(out, "/logs/", l->file);
	str_puts(out, "?token=");
	put_base64url(out, str_view(&bytes));
}

/* ---- reading ---- */

static int refuse(struct err *e)
{
	return err_set(e, FORBIDDEN, "this is no link to this log: ask for its locations again");
}

static bool is_signed(const unsigned char *key, const struct log_link *l, struct span bytes)
{
	unsigned char mac[MAC];
	if (bytes.n < MAC)
		return false;
	sign(key, l, (struct span){ bytes.p + MAC, bytes.n - MAC }, mac);
	return gnutls_memcmp(mac, bytes.p, MAC) == 0;
}

/* What was signed is what we have written. */
static bool take_said(struct log_link *l, struct span said, struct arena *a)
{
	const char *texts[SAID] = { 0 };
	const char *p = arena_dup(a, said);
	const char *end = p + said.n;
	for (size_t i = 0; i < SAID; i++) {
		if (p > end)
			return false;
		texts[i] = p;
		p += strlen(p) + 1;
	}
	l->framework = texts[0];
	l->framework_uid = texts[1];
	l->pod_uid = texts[2];
	l->user = texts[3];
	l->tail = strcmp(texts[4], "tail") == 0;
	return parse_i64(span_of(texts[5]), 0, INT64_MAX, &l->expires_s) == 0;
}

int log_link_read(struct log_link *l, struct span token, const struct log_signing *by,
                  struct arena *a, struct err *e)
{
	struct span bytes;
	if (token.n > (size_t)2 * TOKEN_MAX_BYTES || base64url_decode(a, token, &bytes) < 0 ||
	    !is_signed(by->key, l, bytes) ||
	    !take_said(l, (struct span){ bytes.p + MAC, bytes.n - MAC }, a))
		return refuse(e);
	if (by->now_s >= l->expires_s)
		return err_set(e, FORBIDDEN,
		               "this link to a log has expired: ask for its locations again");
	return 0;
}
