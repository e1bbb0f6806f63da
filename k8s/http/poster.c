/* Sends POSTs by libcurl, and opens no socket to an address that is not public. */
#include "k8s/http/poster.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <unistd.h>

#include "k8s/http/curl.h"
#include "k8s/http/endpoint.h"

enum { ANSWER_MAX = 64 << 10 /* bytes of headers, and of the body, that are read */ };

struct posting {
	struct poster *poster;
	LIST_ENTRY(posting) link;
	CURL *easy;
	struct curl_slist *headers;
	char *body;
	size_t header_bytes, body_bytes;
	bool refused; /* an address is not public */
	char error[CURL_ERROR_SIZE];
	void (*ended)(void *arg, const struct post_answer *a);
	void *arg;
};

struct poster {
	struct curl_loop curl;
	char *url;
	bool inside;
	LIST_HEAD(poster_postings, posting) postings;
};

/* ---- addresses ------------------------------------------------------------------------------- */

struct ip_network {
	unsigned char base[16];
	unsigned bits;
};

/* IPv4 that is not public, by RFC 6890 and its successors (IANA's registry of special addresses).
 */
static const struct ip_network NOT_PUBLIC_V4[] = {
	{ { 0 }, 8 },
	{ { 10 }, 8 },
	{ { 100, 64 }, 10 },
	{ { 127 }, 8 },
	{ { 169, 254 }, 16 },
	{ { 172, 16 }, 12 },
	{ { 192, 0, 0 }, 24 },
	{ { 192, 0, 2 }, 24 },
	{ { 192, 88, 99 }, 24 },
	{ { 192, 168 }, 16 },
	{ { 198, 18 }, 15 },
	{ { 198, 51, 100 }, 24 },
	{ { 203, 0, 113 }, 24 },
	{ { 224 }, 3 }, /* multicast and reserved */
};

/* The public part of IPv6 is 2000::/3, except for these: Teredo and others, documentation, and
 * 6to4, which contains an IPv4 address. */
static const struct ip_network PUBLIC_V6 = { { 0x20 }, 3 };
static const struct ip_network NOT_PUBLIC_V6[] = {
	{ { 0x20, 0x01, 0x00 }, 23 },
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32 },
	{ { 0x20, 0x02 }, 16 },
	{ { 0x3f, 0xff, 0x00 }, 20 },
};

static bool poster_within(const struct ip_network *n, const unsigned char *address)
{
	unsigned whole = n->bits / 8;
	unsigned rest = n->bits % 8;
	return memcmp(n->base, address, whole) == 0 &&
	       (rest == 0 || ((n->base[whole] ^ address[whole]) >> (8 - rest)) == 0);
}

static bool poster_is_public_v4(const void *address)
{
	for (size_t i = 0; i < ARRAY_SIZE(NOT_PUBLIC_V4); i++)
		if (poster_within(&NOT_PUBLIC_V4[i], address))
			return false;
	return true;
}

bool poster_is_public(const struct sockaddr *address)
{
	enum { MAPPED_AT = 12 };
	if (address->sa_family == AF_INET)
		return poster_is_public_v4(
		    &((const struct sockaddr_in *)(const void *)address)->sin_addr);
	if (address->sa_family != AF_INET6)
		return false;
	const struct in6_addr *v6 =
	    &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
	if (IN6_IS_ADDR_V4MAPPED(v6))
		return poster_is_public_v4(v6->s6_addr + MAPPED_AT);
	for (size_t i = 0; i < ARRAY_SIZE(NOT_PUBLIC_V6); i++)
		if (poster_within(&NOT_PUBLIC_V6[i], v6->s6_addr))
			return false;
	return poster_within(&PUBLIC_V6, v6->s6_addr);
}

/* ---- callbacks of libcurl -------------------------------------------------------------------- */

static curl_socket_t poster_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct posting *x = arg;
	if (purpose != CURLSOCKTYPE_IPCXN)
		return CURL_SOCKET_BAD;
	if (!x->poster->inside && !poster_is_public(&to->addr)) {
		x->refused = true;
		return CURL_SOCKET_BAD;
	}
	return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Bytes of the body, or of the headers, which libcurl keeps. */
static size_t poster_count(char *from, size_t size, size_t count, void *arg)
{
	size_t *bytes = arg;
	(void)from;
	*bytes += size * count;
	return *bytes > ANSWER_MAX ? 0 : size * count; /* 0 ends the transfer */
}

/* ---- a request ------------------------------------------------------------------------------- */

static void poster_drop(struct posting *x)
{
	LIST_REMOVE(x, link);
	(void)curl_multi_remove_handle(x->poster->curl.multi, x->easy); /* or not added */
	curl_easy_cleanup(x->easy);
	curl_free_headers(&x->headers);
	free(x->body);
	free(x);
}

static const char *poster_problem(const struct posting *x, CURLcode result)
{
	if (x->refused)
		return "its address is not public (loopback, private, link-local); "
		       "--webhook-allow-private allows it";
	if (result == CURLE_COULDNT_CONNECT) /* libcurl's text has times, so none equals another */
		return "cannot connect: is the receiver running, and does the network policy admit "
		       "it?";
	if (result == CURLE_OPERATION_TIMEDOUT)
		return "it takes too long to answer";
	return x->error[0] ? x->error : curl_easy_strerror(result);
}

int poster_send(struct poster *p, const struct post *post, struct err *e)
{
	CURL *easy = curl_new(p->url, &(struct curl_pem){ .ca = NULL }, e);
	if (!easy)
		return -1;
	struct posting *x = xcalloc(1, sizeof(*x));
	*x = (struct posting){ .poster = p,
		               .easy = easy,
		               .body = xstrndup(post->body.p, post->body.n),
		               .ended = post->ended,
		               .arg = post->arg };
	LIST_INSERT_HEAD(&p->postings, x, link);
	curl_add_header(&x->headers, "Content-Type: application/json");
	curl_add_header(&x->headers, "Expect:");
	for (const char *const *line = post->headers; *line; line++)
		curl_add_header(&x->headers, *line);
	curl_receive(easy, poster_count, &x->body_bytes, x->error);
	CURL_SET(easy, CURLOPT_PRIVATE, x);
	CURL_SET(easy, CURLOPT_OPENSOCKETFUNCTION, poster_open_socket);
	CURL_SET(easy, CURLOPT_OPENSOCKETDATA, x);
	CURL_SET(easy, CURLOPT_HEADERFUNCTION, poster_count);
	CURL_SET(easy, CURLOPT_HEADERDATA, &x->header_bytes);
	CURL_SET(easy, CURLOPT_TIMEOUT_MS, (long)POSTER_TIMEOUT_MS);
	CURL_SET(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->body.n);
	CURL_SET(easy, CURLOPT_POSTFIELDS, x->body);
	CURL_SET(easy, CURLOPT_HTTPHEADER, x->headers);
	CURLMcode bad = curl_multi_add_handle(p->curl.multi, easy);
	if (!bad)
		return 0;
	poster_drop(x);
	return err_set(e, UNKNOWN_ERROR, "libcurl: %s", curl_multi_strerror(bad));
}

void poster_run_once(struct poster *p)
{
	CURLcode result;
	curl_loop_run_once(&p->curl);
	for (struct posting *x; (x = curl_loop_finished(&p->curl, &result)) != NULL;) {
		int status = curl_status(x->easy);
		struct post_answer a = { .status = status >= 200 ? status : 0 };
		if (!a.status) /* a status is an answer even if the rest is malformed */
			a.problem = poster_problem(x, result);
		x->ended(x->arg, &a);
		poster_drop(x);
	}
}

/* The epoll descriptor of the transfers. */
int poster_fd(const struct poster *p)
{
	return p->curl.epoll;
}

/* Returns the time until libcurl's next timer. */
int poster_timeout_ms(const struct poster *p)
{
	return curl_timeout_ms(p->curl.wake_ms);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct poster *poster_new(const struct poster_settings *s, struct err *e)
{
	const char *fault = NULL;
	struct span url = span_trim(span_of(s->url));
	FREE_AUTO char *valid = address_read(s->url, false, &fault);
	if (valid && !s->inside && span_starts(url, "http://"))
		fault = "must start with https://; http:// needs --webhook-allow-private";
	if (fault) {
		(void)err_set(e, 400, NULL, "%s", fault); /* the URL can have a password */
		return NULL;
	}
	struct poster *p = xcalloc(1, sizeof(*p));
	p->inside = s->inside;
	p->curl.epoll = -1;
	p->url = xstrndup(url.p, url.n); /* as it is: a slash at its end can matter */
	if (curl_start(e) == 0 && curl_loop_init(&p->curl, s->connections, e) == 0)
		return p;
	poster_free(p);
	return NULL;
}

void poster_free(struct poster *p)
{
	if (!p)
		return;
	struct posting *g;
	while ((g = LIST_FIRST(&p->postings)) != NULL)
		poster_drop(g); /* NOLINT(clang-analyzer-unix.Malloc): it takes it off the list */
	curl_loop_done(&p->curl);
	free(p->url);
	free(p);
}
