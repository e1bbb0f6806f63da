/*
 * One request by libcurl.  libcurl does not tell what was sent from what was not, and
 * repeats a POST by itself when a connection that it keeps turns out to be dead.  So the
 * body goes out through read_body, which notes when its last byte is handed over, and
 * from then on rewind_body refuses to start again.
 */
#include "k8s/transport/transfer.h"

#include <assert.h>
#include <sys/random.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/enc.h"
#include "k8s/transport/curl.h"
#include "k8s/transport/paths.h"

enum { URL_MAX = 4096, PRECONDITION_MAX = 1024 };

/* A failing setopt is a mistake of ours or the end of memory. */
#define SET(handle, option, value)                                                                 \
	do {                                                                                       \
		CURLcode bad_ = curl_easy_setopt((handle), (option), (value));                     \
		assert(bad_ == CURLE_OK);                                                          \
	} while (0)

/* ---- what libcurl calls ------------------------------------------------------------ */

static size_t read_body(char *to, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	size_t room = size * count;
	size_t given = 0;
	while (t->now_piece < 3 && given < room) {
		struct span p = t->piece[t->now_piece];
		size_t n = p.n - t->now_at < room - given ? p.n - t->now_at : room - given;
		if (n > 0)
			memcpy(to + given, p.p + t->now_at, n);
		given += n;
		t->now_at += n;
		if (t->now_at == p.n) {
			t->now_piece++;
			t->now_at = 0;
		}
	}
	while (t->now_piece < 3 && t->piece[t->now_piece].n == 0)
		t->now_piece++;
	if (t->now_piece == 3)
		t->whole = true;
	return given;
}

static int rewind_body(void *arg, curl_off_t offset, int origin)
{
	struct transfer *t = arg;
	/* libcurl 8 also rewinds before a request if it could not do so in the one before. */
	bool untouched = t->now_piece == 0 && t->now_at == 0;
	if ((t->whole && !untouched) || offset != 0 || origin != SEEK_SET)
		return CURL_SEEKFUNC_FAIL;
	t->now_piece = t->now_at = 0;
	return CURL_SEEKFUNC_OK;
}

static size_t write_answer(char *from, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	size_t n = size * count;
	str_put(&t->answer, from, n);
	return t->answer.full ? 0 : n; /* 0 ends the transfer */
}

/* ---- a handle ---------------------------------------------------------------------- */

int transfer_init(struct transfer *t, const struct login *l, struct err *e)
{
	*t = (struct transfer){ .easy = curl_handle(l, e) };
	if (t->easy == NULL)
		return -1;
	SET(t->easy, CURLOPT_READFUNCTION, read_body);
	SET(t->easy, CURLOPT_READDATA, t);
	SET(t->easy, CURLOPT_SEEKFUNCTION, rewind_body);
	SET(t->easy, CURLOPT_SEEKDATA, t);
	SET(t->easy, CURLOPT_WRITEFUNCTION, write_answer);
	SET(t->easy, CURLOPT_WRITEDATA, t);
	SET(t->easy, CURLOPT_PRIVATE, t);
	SET(t->easy, CURLOPT_ERRORBUFFER, t->error);
	SET(t->easy, CURLOPT_USERAGENT, "rest-lit/" REST_LIT_VERSION);
	return 0;
}

void transfer_clear(struct transfer *t)
{
	for (struct curl_slist *h = t->headers; h != NULL; h = h->next)
		wipe(h->data, strlen(h->data)); /* the token */
	SET(t->easy, CURLOPT_HTTPHEADER, NULL);
	curl_slist_free_all(t->headers);
	t->headers = NULL;
	str_wipe(&t->answer);
	str_done(&t->precondition);
}

void transfer_done(struct transfer *t)
{
	if (t->easy == NULL)
		return;
	transfer_clear(t);
	curl_easy_cleanup(t->easy);
	t->easy = NULL;
}

/* ---- a request --------------------------------------------------------------------- */

/* What a caller has encoded: nothing that would end the request line or begin another part. */
static bool query_ok(const char *query)
{
	for (const char *p = query; *p != '\0'; p++) {
		if (*p <= ' ' || *p > '~' || *p == '#')
			return false;
	}
	return true;
}

/* A collection, or one object of it. */
static int put_path(struct str *url, const struct store_request *r, const char *namespace_name)
{
	bool collection = r->verb == STORE_CREATE || r->verb == STORE_LIST;
	if (!collection && r->name == NULL)
		return -1;
	if (r->verb == STORE_CREATE && r->name != NULL && !segment_ok(r->name))
		return -1;
	return path_write(url, r->kind, namespace_name, collection ? NULL : r->name);
}

static int set_url(struct transfer *t, const struct store_request *r,
                   const struct transfer_common *c)
{
	STR_AUTO url = STR_INIT(URL_MAX);
	str_puts(&url, c->url);
	if (put_path(&url, r, r->namespace_name ? r->namespace_name : c->namespace_name) != 0)
		return -1;
	if (r->dry_run)
		str_puts(&url, "?dryRun=All");
	if (r->verb == STORE_LIST && r->query != NULL) {
		if (!query_ok(r->query))
			return -1;
		str_printf(&url, "?%s", r->query);
	}
	if (url.full)
		return -1;
	SET(t->easy, CURLOPT_URL, str_c(&url));
	return 0;
}

static void add_header(struct transfer *t, const char *line)
{
	struct curl_slist *longer = curl_slist_append(t->headers, line);
	assert(longer != NULL);
	t->headers = longer;
}

#define ACCEPT_METADATA "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
#define ACCEPT_METADATA_LIST                                                                       \
	"Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

static void set_headers(struct transfer *t, const struct store_request *r,
                        const struct transfer_common *c)
{
	bool whole = r->whole || c->whole_objects || r->verb == STORE_DELETE;
	add_header(t, whole                   ? "Accept: application/json"
	              : r->verb == STORE_LIST ? ACCEPT_METADATA_LIST
	                                      : ACCEPT_METADATA);
	add_header(t, r->verb != STORE_PATCH ? "Content-Type: application/json"
	              : r->json_patch        ? "Content-Type: application/json-patch+json"
	                                     : "Content-Type: application/merge-patch+json");
	add_header(t, "Expect:");
	if (c->authorization.n > 0)
		add_header(t, c->authorization.p); /* of a str: it ends in NUL */
	SET(t->easy, CURLOPT_HTTPHEADER, t->headers);
}

static void put_condition(struct str *out, const char *key, const char *value)
{
	if (value == NULL)
		return;
	str_puts(out, out->p[out->n - 1] == '{' ? "\"" : ",\"");
	str_printf(out, "%s\":", key);
	str_json(out, span_of(value));
}

static void set_precondition(struct transfer *t, const struct store_request *r)
{
	struct str *out = &t->precondition;
	*out = STR_INIT(PRECONDITION_MAX);
	str_puts(out, "{\"preconditions\":{");
	put_condition(out, "uid", r->uid);
	put_condition(out, "resourceVersion", r->resource_version);
	/* An API server that finds options in the body does not look for them in the query. */
	str_puts(out, r->dry_run ? "},\"dryRun\":[\"All\"]}" : "}}");
	assert(!out->full); /* both come from objects that were read with a bound */
	t->piece[0] = str_view(out);
}

static void set_method(struct transfer *t, const struct store_request *r)
{
	static const char *const METHODS[] = {
		[STORE_CREATE] = NULL, /* as CURLOPT_POST has it */
		[STORE_GET] = NULL,        [STORE_LIST] = NULL,  [STORE_PATCH] = "PATCH",
		[STORE_DELETE] = "DELETE", [STORE_READY] = NULL,
	};
	memset(t->piece, 0, sizeof(t->piece));
	t->now_piece = t->now_at = 0;
	t->whole = false;
	if (r->verb == STORE_CREATE || r->verb == STORE_PATCH)
		memcpy(t->piece, r->body, sizeof(t->piece));
	else if (r->verb == STORE_DELETE)
		set_precondition(t, r);
	size_t n = t->piece[0].n + t->piece[1].n + t->piece[2].n;
	if (n > 0) {
		SET(t->easy, CURLOPT_POST, 1L);
		SET(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
	} else {
		SET(t->easy, CURLOPT_HTTPGET, 1L);
		t->whole = true;
	}
	SET(t->easy, CURLOPT_CUSTOMREQUEST, METHODS[r->verb]);
}

int transfer_prepare(struct transfer *t, const struct store_request *r,
                     const struct transfer_common *c)
{
	if (set_url(t, r, c) != 0)
		return -1;
	set_method(t, r);
	set_headers(t, r, c);
	int64_t left = r->deadline_ms - clock_ms();
	SET(t->easy, CURLOPT_TIMEOUT_MS, (long)(left > 0 ? left : 1));
	SET(t->easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)c->answer_max); /* a hint only */
	t->answer = STR_SECRET(c->answer_max);
	t->error[0] = '\0';
	return 0;
}

bool transfer_handed_over(const struct transfer *t)
{
	return t->whole;
}

enum { BACKOFF_MS = 100, BACKOFF_MAX_MS = 1000, SETTLING_MS = 1000, LOADING_MS = 3000 };

int64_t backoff_ms(unsigned tries)
{
	int64_t ms = tries < 4 ? (int64_t)BACKOFF_MS << tries : BACKOFF_MAX_MS;
	uint16_t noise = 0;
	ssize_t n = getrandom(&noise, sizeof(noise), GRND_NONBLOCK);
	(void)n; /* without noise it is a back-off all the same */
	return ms - ms / 4 + noise % (ms / 2);
}

void backoff_init(struct backoff *r, size_t most)
{
	*r = (struct backoff){
		.at_once = most,
		.most = most,
		.connected_ms = INT64_MIN / 2,
		.back_ms = INT64_MIN / 2,
	};
}

static size_t within_bounds(const struct backoff *r, size_t n)
{
	size_t enough = n > PROBES ? n : PROBES;
	return enough < r->most ? enough : r->most;
}

/* Many fail at once: that counts once. */
static void back_off(struct backoff *r, size_t at_once, int64_t now_ms)
{
	if (now_ms < r->until_ms)
		return;
	r->at_once = within_bounds(r, at_once);
	r->until_ms = now_ms + backoff_ms(r->pauses++);
}

void backoff_note(struct backoff *r, enum api_health health, bool connected, int64_t now_ms)
{
	if (connected)
		r->connected_ms = now_ms;
	switch (health) {
	case API_ANSWERS:
		if (r->away)
			r->back_ms = now_ms;
		r->away = false;
		r->pauses = 0;
		r->at_once = r->at_once < r->most / 2 ? r->at_once * 2 : r->most;
		break;
	case API_BUSY:
		back_off(r, r->at_once / 2, now_ms);
		break;
	case API_AWAY:
		r->away = true;
		back_off(r, PROBES, now_ms);
		break;
	case API_UNKNOWN:
		break;
	}
}

bool backoff_is_settling(const struct backoff *r, int64_t now_ms)
{
	return now_ms - r->connected_ms < SETTLING_MS || now_ms - r->back_ms < LOADING_MS;
}
