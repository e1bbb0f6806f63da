/*
 * The thread that follows a collection, and its connection; see reflector.h.  watch.c chooses the
 * requests and parses the answers.
 */
#include "k8s/watch/reflector.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/posix/clock.h"
#include "jobs/store/paths.h"
#include "k8s/transport/login.h"
#include "k8s/watch/watch_internal.h"

enum {
	POLL_MS = 5000,       /* longest sleep */
	PATIENCE_MS = 20000,  /* for an answer to begin, and between two pieces of a list */
	LIST_MAX_MS = 600000, /* for one page */
	MARGIN_MS = 30000,    /* for a watch, beyond its timeoutSeconds */
	FINE_MS = 5000,       /* a watch that has lasted so long is healthy */
	KEEPALIVE_IDLE_S = 20,
	KEEPALIVE_INTERVAL_S = 10, /* the kernel gives up after nine unanswered probes */
	RECEIVE = 64 << 10,
	URL_ROOM = 16384,
	WHY_ROOM = 512,
};

struct reflector {
	struct reflector_settings settings;
	struct arena texts; /* of the settings */
	pthread_t thread;
	atomic_bool stop;
	struct reflector_counts counts;
	/* Only the thread uses the rest. */
	struct reflect state;
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers;
	struct login_header authorization;
	int64_t next_ms; /* start of the next request, while not asking */
	bool known;      /* a list has been completed */
	bool listing;    /* between begin and end */
	char *why;       /* the last reported trouble; NULL: none */
	/* The exchange under way. */
	bool asking;
	enum reflect_ask ask;
	int64_t watched_ms, heard_ms; /* start of the watch (after its list); last bytes */
	bool heard;                   /* a valid event or page has come */
	enum reflect_fault fault;     /* found in the received data, or FAULT_NONE */
	int64_t event_code;           /* of the ERROR event that ended the watch; 0: none */
	long refused;                 /* status of the previous failure */
	bool paging;                  /* bytes of a page have come */
	struct list_lines page;
	struct watch_lines lines; /* a watch */
};

/* ---- trouble --------------------------------------------------------------------------------- */

static void reflector_report(struct reflector *r, const char *why, bool absent)
{
	if (why ? r->why && strcmp(why, r->why) == 0 : !r->why)
		return;
	free(r->why);
	r->why = why ? xstrdup(why) : NULL;
	r->settings.trouble(r->settings.arg, why, absent);
}

static const char *reflector_hint(long status)
{
	switch (status) {
	case 0:
		return "the connection was lost";
	case 200:
		return "its answer is not valid";
	case 401:
		return "it does not accept this server's token";
	case 403:
		return "the role of this server lacks the verb list or watch";
	case 404:
		return "it has no such resource: the CustomResourceDefinition is not installed";
	case 410:
		return "every version that it names is too old";
	case 413:
		return "one object is too large for a page";
	case 429:
	case 503:
		return "it is overloaded, or starting";
	default:
		return "no reason is known";
	}
}

static void reflector_tell_failure(struct reflector *r, CURLcode result, long status)
{
	STR_AUTO why = STR_INIT(WHY_ROOM);
	/* An API server that has just started answers 403 or 404 until it has loaded its roles and
	 * CustomResourceDefinitions.  The second such answer in a row is taken as final. */
	bool starting = (status == 403 || status == 404) && r->refused != status;
	r->refused = status;
	/* A short outage is not reported. */
	if (starting || (r->known && r->state.failures < 2))
		return;
	str_puts(&why, r->ask == ASK_LIST ? "list " : "watch ");
	resource_name(&why, r->settings.kind);
	if (r->settings.namespace_name)
		str_printf(&why, " in namespace %s: ", r->settings.namespace_name);
	else
		str_puts(&why, " in all namespaces: ");
	if (status)
		str_printf(&why, "HTTP status %ld: %s", status, reflector_hint(status));
	else
		str_puts(&why, result ? curl_easy_strerror(result) : reflector_hint(0));
	reflector_report(r, str_c(&why), status == 404);
}

/* ---- received data --------------------------------------------------------------------------- */

static void reflector_tell_success(struct reflector *r)
{
	r->heard = true;
	reflector_report(r, NULL, false);
}

static void reflector_end_list(struct reflector *r)
{
	r->listing = false;
	r->known = true;
	counter_add(&r->counts.lists, 1);
	r->watched_ms = clock_ms();
	r->settings.end(r->settings.arg, version_number(r->state.version));
}

static void reflector_take_event(struct reflector *r, const struct watch_event *e)
{
	void *arg = r->settings.arg;
	switch (e->what) {
	case WATCH_PUT:
		r->settings.put(arg, e->object);
		break;
	case WATCH_GONE:
		r->settings.remove(arg, e->object);
		break;
	case WATCH_BOOKMARK:
		if (!r->listing || (e->initial_end && e->version[0]))
			reflect_note_version(&r->state, e->version);
		if (r->listing && e->initial_end && e->version[0])
			reflector_end_list(r);
		else if (!r->listing && r->settings.seen)
			r->settings.seen(arg, version_number(e->version));
		break;
	case WATCH_ERROR:
		r->event_code = e->code;
		r->fault = reflect_status(r->ask, e->code);
		return;
	case WATCH_NONE:
	case WATCH_WHAT_MAX:
		return;
	}
	/* Until the end of a streaming list no version is complete. */
	if (!r->listing && e->what != WATCH_BOOKMARK) {
		reflect_note_version(&r->state, e->version);
		r->state.events = true;
	}
	reflector_tell_success(r);
}

static void reflector_take_line(void *arg, struct span line, bool cut)
{
	struct reflector *r = arg;
	ARENA_AUTO arena = { 0 };
	struct watch_event e;
	if (r->fault != FAULT_NONE || atomic_load(&r->stop))
		return;
	if (cut) {
		e = watch_event_read_cut(line, &arena);
	} else if (scan_valid(line, SCAN_DEPTH_MAX)) {
		e = watch_event_read(line);
	} else {
		r->fault = FAULT_REFUSED; /* not an API server, or a broken proxy */
		return;
	}
	reflector_take_event(r, &e);
}

static void reflector_take_item(void *arg, struct span item, bool cut)
{
	struct reflector *r = arg;
	ARENA_AUTO arena = { 0 };
	if (atomic_load(&r->stop))
		return;
	if (cut)
		item = watch_stub(item, &arena);
	if (item.p)
		r->settings.put(r->settings.arg, item);
}

static size_t reflector_take_bytes(char *from, size_t size, size_t count, void *arg)
{
	struct reflector *r = arg;
	struct span bytes = { from, size * count };
	r->heard_ms = clock_ms();
	if (atomic_load(&r->stop))
		return 0; /* ends the transfer */
	if (curl_status(r->easy) != 200)
		return bytes.n; /* only the status of errors is used */
	if (r->ask != ASK_LIST) {
		watch_lines_take(&r->lines, bytes, reflector_take_line, r);
	} else {
		/* A list that failed is begun again; the items of a page that breaks off stay: they
		 * come again, in the same list or in the next. */
		if (!r->paging && r->state.more.n == 0) {
			r->listing = true;
			r->settings.begin(r->settings.arg);
		}
		r->paging = true;
		if (!list_lines_take(&r->page, bytes))
			r->fault = FAULT_REFUSED;
	}
	return r->fault == FAULT_NONE ? bytes.n : 0;
}

#define ACCEPT_METADATA(type) "Accept: " type ", application/json"

/* ---- asking ---------------------------------------------------------------------------------- */

static void reflector_ended(struct reflector *r, CURLcode result);

static void reflector_begin(struct reflector *r)
{
	const struct reflector_settings *s = &r->settings;
	r->ask = reflect_ask(&r->state);
	r->watched_ms = r->heard_ms = clock_ms();
	r->heard = false;
	r->fault = FAULT_NONE;
	r->event_code = 0;
	r->asking = true;
	r->paging = false;
	list_lines_init(&r->page, s->max_object, reflector_take_item, r);
	if (r->ask != ASK_LIST)
		counter_add(&r->counts.watches, 1);
	if (r->ask == ASK_STREAM) {
		r->listing = true;
		s->begin(s->arg);
	}

	STR_AUTO url = STR_INIT(URL_ROOM);
	unsigned spread = REFLECT_WATCH_MAX_S - REFLECT_WATCH_MIN_S;
	unsigned seconds = REFLECT_WATCH_MIN_S + (unsigned)(reflect_pause_ms(1, 0) % spread);
	str_puts(&url, s->login->url);
	(void)path_write(&url, s->kind, s->namespace_name, NULL); /* reflector_set_up has checked */
	str_char(&url, '?');
	reflect_query(&r->state, s->selector, seconds, &url);
	CURL_SET(r->easy, CURLOPT_URL, str_c(&url));
	CURL_SET(r->easy, CURLOPT_TIMEOUT_MS,
	         r->ask == ASK_LIST ? LIST_MAX_MS : (long)seconds * 1000 + MARGIN_MS);
	curl_free_headers(&r->headers);
	curl_add_header(&r->headers, !s->metadata         ? "Accept: application/json"
	                             : r->ask == ASK_LIST ? ACCEPT_METADATA(METADATA_LIST_TYPE)
	                                                  : ACCEPT_METADATA(METADATA_TYPE));
	login_set_headers(r->easy, &r->headers, s->login, &r->authorization);
	if (url.full || curl_multi_add_handle(r->multi, r->easy) != CURLM_OK)
		reflector_ended(r, url.full ? CURLE_URL_MALFORMAT : CURLE_FAILED_INIT);
}

/* The fault of a finished exchange. */
static enum reflect_fault reflector_judge(struct reflector *r, CURLcode result, long status)
{
	if (r->fault != FAULT_NONE)
		return r->fault;
	if (status && status != 200)
		return reflect_status(r->ask, status);
	if (!status && !r->heard)
		return FAULT_AWAY;
	if (r->ask == ASK_STREAM && status && r->listing)
		return FAULT_NO_STREAM;
	if (r->ask != ASK_LIST || result != CURLE_OK || !status)
		return r->heard ? FAULT_NONE : FAULT_LATER;
	const struct list_page *page = list_lines_end(&r->page);
	if (!page)
		return FAULT_REFUSED;
	if (atomic_load(&r->stop))
		return FAULT_NONE;
	if (reflect_page(&r->state, page))
		reflector_end_list(r);
	reflector_tell_success(r);
	return FAULT_NONE;
}

static void reflector_ended(struct reflector *r, CURLcode result)
{
	curl_off_t retry_after_s = 0;
	long status = curl_status(r->easy);
	enum reflect_fault fault = reflector_judge(r, result, status);
	(void)curl_easy_getinfo(r->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
	if (retry_after_s < 0 || retry_after_s > REFLECT_PAUSE_MAX_MS / 1000)
		retry_after_s = REFLECT_PAUSE_MAX_MS / 1000;
	r->next_ms = clock_ms() + reflect_end(&r->state, fault, (int)retry_after_s);
	if (r->event_code)
		status = (long)r->event_code;
	else if (status == 200 && fault == FAULT_LATER)
		status = 0; /* the answer was cut off */
	if (r->state.failures)
		counter_add(&r->counts.failures, 1);
	if (r->state.failures)
		reflector_tell_failure(r, result, status);
	else
		r->refused = 0;
	(void)curl_multi_remove_handle(r->multi, r->easy); /* no effect if it was not added */
	watch_lines_clear(&r->lines);
	list_lines_done(&r->page);
	r->asking = false;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *reflector_main(void *arg)
{
	struct reflector *r = arg;
	while (!atomic_load(&r->stop)) {
		int n;
		if (!r->asking && clock_ms() >= r->next_ms)
			reflector_begin(r);
		(void)curl_multi_perform(r->multi, &n); /* errors show in the transfer */
		const CURLMsg *m = curl_multi_info_read(r->multi, &n);
		if (m)
			reflector_ended(r, m->data.result);
		/* A watch can be silent, an answer that has not begun and a list cannot. */
		int64_t now = clock_ms();
		bool patient = curl_status(r->easy) == 200 && r->ask != ASK_LIST && !r->listing;
		if (r->asking && !patient && now - r->heard_ms > PATIENCE_MS) {
			reflector_ended(r, CURLE_OPERATION_TIMEDOUT);
		} else if (r->asking && patient && now - r->watched_ms > FINE_MS) {
			r->state.lists = 0;
			reflector_tell_success(r);
		}
		int64_t rest_ms = reflect_rest_ms(&r->state, clock_ms());
		int64_t ms = r->asking ? POLL_MS : r->next_ms - clock_ms();
		clock_sleep(rest_ms);
		/* Returns earlier if libcurl has work, or on curl_multi_wakeup. */
		if (rest_ms == 0 && !atomic_load(&r->stop))
			(void)curl_multi_poll(r->multi, NULL, 0,
			                      ms < 0         ? 0
			                      : ms < POLL_MS ? (int)ms
			                                     : POLL_MS,
			                      NULL);
	}
	return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int reflector_set_up(struct reflector *r, struct err *e)
{
	const char *namespace_name = r->settings.namespace_name;
	if (namespace_name && !segment_ok(namespace_name))
		return err_set(e, UNKNOWN_ERROR, "\"%s\" is not a valid name of a namespace",
		               namespace_name);
	if (curl_start(e) < 0)
		return -1;
	r->multi = curl_multi_init();
	if (!r->multi)
		return err_set(e, UNKNOWN_ERROR, "libcurl: a multi handle cannot be set up");
	r->easy = login_curl(r->settings.login, e);
	if (!r->easy)
		return -1;
	curl_receive(r->easy, reflector_take_bytes, r, NULL);
	CURL_SET(r->easy, CURLOPT_BUFFERSIZE, (long)RECEIVE);
	CURL_SET(r->easy, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_S);
	CURL_SET(r->easy, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_INTERVAL_S);
	return pthread_create(&r->thread, NULL, reflector_main, r)
	           ? err_set(e, UNKNOWN_ERROR, "pthread_create failed")
	           : 0;
}

static void reflector_done(struct reflector *r)
{
	if (r->asking)
		(void)curl_multi_remove_handle(r->multi, r->easy); /* it was added */
	curl_easy_cleanup(r->easy);
	if (r->multi)
		(void)curl_multi_cleanup(r->multi); /* no handle is left in it */
	curl_free_headers(&r->headers);
	str_wipe(&r->authorization.line);
	list_lines_done(&r->page);
	watch_lines_clear(&r->lines);
	str_done(&r->state.more);
	free(r->why);
	arena_done(&r->texts);
	free(r);
}

struct reflector *reflector_new(const struct reflector_settings *s, struct err *e)
{
	struct reflector *r = xcalloc(1, sizeof(*r));
	r->settings = *s;
	if (s->namespace_name)
		r->settings.namespace_name = arena_dup(&r->texts, span_of(s->namespace_name));
	r->settings.selector = s->selector ? arena_dup(&r->texts, span_of(s->selector)) : NULL;
	r->lines = WATCH_LINES_INIT(s->max_object);
	list_lines_init(&r->page, s->max_object, reflector_take_item, r);
	r->state = REFLECT_INIT(s->page);
	if (reflector_set_up(r, e) == 0)
		return r;
	reflector_done(r);
	return NULL;
}

const struct reflector_counts *reflector_counts(const struct reflector *r)
{
	return &r->counts;
}

void reflector_free(struct reflector *r)
{
	if (!r)
		return;
	atomic_store(&r->stop, true);
	(void)curl_multi_wakeup(r->multi);
	(void)pthread_join(r->thread, NULL); /* our own thread, joined once */
	reflector_done(r);
}
