/* See images_ask.h. */
#include "k8s/images/images_ask.h"

#include <assert.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/enc.h"
#include "k8s/transport/curl.h"
#include "k8s/transport/store.h"

enum { REQUEST_MS = 10000, URL_MAX = 16 << 10, WHY_MAX = 512 };

/* A failing setopt is a mistake of ours or the end of memory. */
#define SET(handle, option, value)                                                                 \
	do {                                                                                       \
		CURLcode bad_ = curl_easy_setopt((handle), (option), (value));                     \
		assert(bad_ == CURLE_OK);                                                          \
	} while (0)

/* ---- what libcurl calls ---------------------------------------------------------------------- */

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct check *c = arg;
	(void)purpose;
	if (!allow_address(c->entry, &address->addr)) {
		c->address_refused = true;
		return CURL_SOCKET_BAD;
	}
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t take(struct str *to, const char *from, size_t n)
{
	str_put(to, from, n);
	return to->full ? 0 : n; /* 0 ends the transfer */
}

static size_t take_header(char *from, size_t size, size_t count, void *arg)
{
	struct check *c = arg;
	/* Of several replies (100 Continue) the last one counts. */
	if (span_starts((struct span){ from, size * count }, "HTTP/"))
		c->reply_headers.n = 0;
	return take(&c->reply_headers, from, size * count);
}

static size_t take_body(char *from, size_t size, size_t count, void *arg)
{
	struct check *c = arg;
	return take(&c->body, from, size * count);
}

/* ---- one request
 * ------------------------------------------------------------------------------------
 */

static void forget_request(struct check *c)
{
	for (struct curl_slist *h = c->headers; h; h = h->next)
		wipe(h->data, strlen(h->data)); /* the login */
	if (c->easy)
		SET(c->easy, CURLOPT_HTTPHEADER, NULL);
	curl_slist_free_all(c->headers);
	c->headers = NULL;
	str_wipe(&c->reply_headers);
	str_wipe(&c->body);
}

static int make_handle(struct check *c, struct err *e)
{
	c->easy = curl_bare(e);
	if (!c->easy)
		return -1;
	SET(c->easy, CURLOPT_PROTOCOLS_STR, "https");
	CURLcode bad = curl_trust(c->easy, c->common->ca_file[0] ? c->common->ca_file : NULL);
	if (bad)
		return err_set(e, UNKNOWN_ERROR, "libcurl: CAs: %s", curl_easy_strerror(bad));
	SET(c->easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(c->easy, CURLOPT_OPENSOCKETDATA, c);
	SET(c->easy, CURLOPT_HEADERFUNCTION, take_header);
	SET(c->easy, CURLOPT_HEADERDATA, c);
	SET(c->easy, CURLOPT_WRITEFUNCTION, take_body);
	SET(c->easy, CURLOPT_WRITEDATA, c);
	SET(c->easy, CURLOPT_ERRORBUFFER, c->error);
	SET(c->easy, CURLOPT_PRIVATE, c);
	SET(c->easy, CURLOPT_USERAGENT, "rest-lit/" REST_LIT_VERSION);
	return 0;
}

/* The next request, or the end. */
void check_next(struct check *c)
{
	while (registry_next(&c->dialogue, &c->ask)) {
		const struct registry_place *to = &c->ask.to;
		c->entry = allow_find(&c->common->allow, to->host, to->port);
		if (c->entry) {
			c->start_ms = clock_ms() + c->ask.wait_ms;
			c->state = CHECK_WAITING;
			return;
		}
		char why[WHY_MAX];
		(void)snprintf(why, sizeof(why),
		               "%s is not in the list of hosts that this server asks",
		               to->authority); /* cut if longer */
		registry_trouble(&c->dialogue, why);
	}
	c->state = CHECK_DONE;
}

void check_send(struct check *c)
{
	STR_AUTO url = STR_INIT(URL_MAX);
	ERR_AUTO e = { 0 };
	str_printf(&url, "https://%s%s", c->ask.to.authority, c->ask.to.target);
	if (url.full || (!c->easy && make_handle(c, &e) < 0)) {
		registry_trouble(&c->dialogue, url.full ? "its address is too long" : err_msg(&e));
		check_next(c);
		return;
	}
	for (const char *const *h = c->ask.headers; *h; h++) {
		struct curl_slist *longer = curl_slist_append(c->headers, *h);
		assert(longer);
		c->headers = longer;
	}
	int64_t left = c->deadline_ms - clock_ms();
	c->reply_headers = (struct str)STR_SECRET(REGISTRY_HEADERS_MAX);
	c->body = (struct str)STR_SECRET(REGISTRY_BODY_MAX);
	c->error[0] = '\0';
	c->address_refused = false;
	SET(c->easy, CURLOPT_URL, str_c(&url));
	SET(c->easy, CURLOPT_HTTPHEADER, c->headers);
	SET(c->easy, CURLOPT_HTTPGET, 1L);
	SET(c->easy, CURLOPT_NOBODY, strcmp(c->ask.method, "HEAD") == 0 ? 1L : 0L);
	SET(c->easy, CURLOPT_TIMEOUT_MS,
	    (long)(left < 1            ? 1
	           : left < REQUEST_MS ? left
	                               : REQUEST_MS));
	CURLMcode bad = curl_multi_add_handle(c->common->multi, c->easy);
	assert(bad == CURLM_OK);
	c->state = CHECK_ASKING;
	c->common->active++;
}

static void check_stop_asking(struct check *c)
{
	if (c->state != CHECK_ASKING)
		return;
	(void)curl_multi_remove_handle(c->common->multi, c->easy); /* it was added */
	c->common->active--;
}

void check_answered(struct check *c, CURLcode result)
{
	long status = 0;
	(void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status); /* stays 0 */
	check_stop_asking(c);
	if (c->address_refused && result != CURLE_OK) {
		registry_trouble(&c->dialogue,
		                 "it has an address that this server does not ask (see "
		                 "--check-images-registries, HOST=private)");
	} else if (result == CURLE_OPERATION_TIMEDOUT) {
		registry_trouble(&c->dialogue, "its registry takes too long to answer");
	} else if (result == CURLE_WRITE_ERROR) { /* take() had no more room */
		registry_trouble(&c->dialogue, "its registry answers with more than makes sense");
	} else if (result != CURLE_OK) {
		registry_trouble(&c->dialogue, c->error[0] ? c->error : curl_easy_strerror(result));
	} else {
		struct registry_reply r = { (int)status, str_view(&c->reply_headers),
			                    str_view(&c->body) };
		registry_reply(&c->dialogue, &r, c->deadline_ms - clock_ms());
	}
	forget_request(c);
	check_next(c);
}

void check_give_up(struct check *c, const char *why)
{
	check_stop_asking(c);
	registry_trouble(&c->dialogue, why);
	forget_request(c);
	c->state = CHECK_DONE;
}

/* ---- life ---------------------------------------------------------------------------------------
 */

static uint32_t some_random(void)
{
	uint32_t n = 1;
	ssize_t got = getrandom(&n, sizeof(n), GRND_NONBLOCK);
	(void)got; /* without it the jitter is always the same */
	return n;
}

void check_init(struct check *c, struct check_common *common, const struct images_subject *s,
                struct arena *a)
{
	*c = (struct check){ .common = common, .finding = c->finding, .batch = c->batch };
	c->state = CHECK_DONE;
	*c->finding = (struct images_finding){ .verdict = REGISTRY_UNSURE, .sentence = "" };
	if (image_parse(s->name, a, &c->image))
		return; /* the job would have been refused */
	registry_begin(&c->dialogue, &c->image, s->has_login ? &s->login : NULL, some_random(), a);
	c->strangers = c->dialogue.basic == NULL;
	const struct registry_place *to = &c->dialogue.to;
	c->finding->asked = allow_find(&common->allow, to->host, to->port) != NULL;
	if (c->finding->asked)
		c->state = CHECK_WAITING;
}

void check_free(struct check *c)
{
	curl_easy_cleanup(c->easy);
	c->easy = NULL;
}
