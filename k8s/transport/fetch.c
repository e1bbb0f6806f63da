#include "k8s/transport/fetch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "k8s/transport/curl.h"
#include "k8s/transport/store.h"

enum { POLL_MS = 60000, RECEIVE = 64 << 10, DOUBLINGS_MAX = 16 };

struct fetch {
	struct fetch_settings settings;
	struct arena arena; /* their texts */
	pthread_t thread;
	atomic_bool stop;
	/* The rest is the thread's own once it runs. */
	CURLM *multi;
	CURL *easy;
	bool asking;
	int64_t next_ms; /* when to ask, while not asking */
	int64_t begun_ms;
	unsigned failures; /* in a row */
	struct str body;
	char error[CURL_ERROR_SIZE];
};

int64_t fetch_pause_ms(int64_t interval_ms, unsigned failures)
{
	int64_t most = interval_ms > FETCH_PAUSE_MS ? interval_ms : FETCH_PAUSE_MS;
	unsigned doublings = failures > FETCH_PATIENCE ? failures - FETCH_PATIENCE : 0;
	if (doublings > DOUBLINGS_MAX)
		doublings = DOUBLINGS_MAX;
	int64_t ms = interval_ms << doublings;
	return ms < most ? ms : most;
}

static size_t take_body(char *from, size_t size, size_t count, void *arg)
{
	struct str *body = arg;
	str_put(body, from, size * count);
	return body->full ? 0 : size * count; /* 0 ends the transfer */
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void begin(struct fetch *f)
{
	f->begun_ms = clock_ms();
	f->error[0] = '\0';
	f->asking = curl_multi_add_handle(f->multi, f->easy) == CURLM_OK;
	if (!f->asking) /* never seen; then a while later */
		f->next_ms = f->begun_ms + fetch_pause_ms(f->settings.interval_ms, f->failures);
}

/* What has come, judged. */
static int judge(const struct fetch *f, CURLcode result, struct err *e)
{
	long status = 0;
	(void)curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status); /* stays 0 */
	if (f->body.full)
		return err_set(e, UNKNOWN_ERROR, "it answers with more than %zu bytes",
		               f->settings.max);
	if (result == CURLE_OPERATION_TIMEDOUT)
		return err_set(e, UNKNOWN_ERROR, "it takes too long to answer");
	if (result != CURLE_OK)
		return err_set(e, UNKNOWN_ERROR, "%s",
		               f->error[0] ? f->error : curl_easy_strerror(result));
	if (status != 200)
		return err_set(e, UNKNOWN_ERROR, "it answers %ld", status);
	return f->settings.take(f->settings.arg, str_view(&f->body), e);
}

static void answered(struct fetch *f, CURLcode result)
{
	ERR_AUTO e = { 0 };
	f->failures = judge(f, result, &e) < 0 ? f->failures + 1 : 0;
	if (f->failures)
		f->settings.failed(f->settings.arg, f->failures, &e);
	str_done(&f->body);
	f->body = (struct str)STR_INIT(f->settings.max);
	(void)curl_multi_remove_handle(f->multi, f->easy); /* it was added */
	f->asking = false;
	f->next_ms = f->begun_ms + fetch_pause_ms(f->settings.interval_ms, f->failures);
}

static void read_answer(struct fetch *f)
{
	int left;
	const CURLMsg *m = curl_multi_info_read(f->multi, &left);
	if (m)
		answered(f, m->data.result);
}

static int time_to_wait(const struct fetch *f)
{
	int64_t ms = f->asking ? POLL_MS : f->next_ms - clock_ms();
	return ms < 0 ? 0 : ms < POLL_MS ? (int)ms : POLL_MS;
}

static void *fetch_main(void *arg)
{
	struct fetch *f = arg;
	int running;
	while (!atomic_load(&f->stop)) {
		if (!f->asking && clock_ms() >= f->next_ms)
			begin(f);
		(void)curl_multi_perform(f->multi, &running); /* errors show in the transfer */
		read_answer(f);
		/* Less if libcurl has something to do earlier, and until woken up. */
		(void)curl_multi_poll(f->multi, NULL, 0, time_to_wait(f), NULL);
	}
	return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int set_up_handle(struct fetch *f, const char *url, struct err *e)
{
	const struct fetch_settings *s = &f->settings;
	bool plain = span_starts(span_of(url), "http://");
	FREE_AUTO char *target = xasprintf("%s%s", url, s->path);
	long timeout = s->interval_ms < FETCH_TIMEOUT_MS ? (long)s->interval_ms : FETCH_TIMEOUT_MS;
	f->easy = curl_bare(e);
	if (!f->easy)
		return -1;
	CURL *h = f->easy;
	CURLcode bad = curl_set_ca_bundle(h, s->ca_file[0] ? s->ca_file : NULL);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, plain ? "http" : "https");
	bad = bad ?: curl_easy_setopt(h, CURLOPT_URL, target);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_USERAGENT, "rest-lit/" REST_LIT_VERSION);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, timeout);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_BUFFERSIZE, (long)RECEIVE);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_WRITEDATA, &f->body);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_ERRORBUFFER, f->error);
	return bad ? err_set(e, UNKNOWN_ERROR, "libcurl: %s", curl_easy_strerror(bad)) : 0;
}

static int set_up(struct fetch *f, struct err *e)
{
	const struct fetch_settings *s = &f->settings;
	const char *fault;
	FREE_AUTO char *url = address_read(s->url, false, &fault);
	if (!url)
		return err_set(e, 400, NULL, "%s", fault); /* there may be a password in it */
	if (curl_ca_check(s->ca_file, e) < 0 || curl_start(e) < 0)
		return -1;
	f->multi = curl_multi_init();
	if (!f->multi)
		return err_set(e, UNKNOWN_ERROR, "libcurl: a multi handle cannot be set up");
	if (set_up_handle(f, url, e) < 0)
		return -1;
	return pthread_create(&f->thread, NULL, fetch_main, f)
	           ? err_set(e, UNKNOWN_ERROR, "pthread_create failed")
	           : 0;
}

static void done(struct fetch *f)
{
	if (f->asking)
		(void)curl_multi_remove_handle(f->multi, f->easy); /* it was added */
	curl_easy_cleanup(f->easy);
	if (f->multi)
		(void)curl_multi_cleanup(f->multi); /* no handle is left in it */
	str_done(&f->body);
	arena_done(&f->arena);
	free(f);
}

struct fetch *fetch_new(const struct fetch_settings *s, struct err *e)
{
	struct fetch *f = xcalloc(1, sizeof(*f));
	f->settings = *s;
	f->settings.url = arena_dup(&f->arena, span_of(s->url));
	f->settings.path = arena_dup(&f->arena, span_of(s->path));
	f->settings.ca_file = arena_dup(&f->arena, span_of(s->ca_file));
	f->body = (struct str)STR_INIT(s->max);
	if (set_up(f, e) == 0)
		return f;
	done(f);
	return NULL;
}

void fetch_free(struct fetch *f)
{
	if (!f)
		return;
	atomic_store(&f->stop, true);
	(void)curl_multi_wakeup(f->multi);
	(void)pthread_join(f->thread, NULL); /* our own thread, joined once */
	done(f);
}
