/* Keeps attempts, one after the other, on the main thread. */
#include "server/cluster/history.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/enc.h"
#include "k8s/cache/job_entry.h"
#include "server/cluster/cluster.h"
#include "server/log.h"

enum { WAITING_MAX = 1000, TRIES = 3, DEADLINE_MS = 30000, PAUSE_MS = 1000, LOST_MS = 60000 };

struct history {
	const struct server *server;
	struct store *store;
	int event_fd, epoll_fd;
	pthread_mutex_t lock; /* protects waiting, first, n, lost */
	const struct job_entry *waiting[WAITING_MAX];
	size_t first, n;
	size_t lost; /* dropped, and not yet reported */
	/* The attempt that is being kept; main thread only. */
	const struct job_entry *job; /* NULL: nothing */
	struct arena arena;
	struct str body;
	const char *name, *oldest; /* to create; to delete, or NULL */
	char uid[40];              /* of oldest */
	unsigned tries;
	char *trouble;       /* the last one logged; NULL: none */
	size_t n_lost;       /* dropped, and not yet logged */
	int64_t lost_log_ms; /* earliest time of that log line */
	bool stopping;
};

/* ---- queue; any thread ----------------------------------------------------------------------- */

static bool has_ended(const struct job_entry *before, const struct job_entry *now)
{
	return before && now && !now->legacy && now->attempt > before->attempt &&
	       strcmp(before->uid, now->uid) == 0;
}

void history_saw(struct history *h, const struct job_entry *before, const struct job_entry *now)
{
	if (!h || !has_ended(before, now))
		return;
	(void)pthread_mutex_lock(&h->lock); /* cannot fail */
	if (h->n < WAITING_MAX)
		h->waiting[(h->first + h->n++) % WAITING_MAX] = job_entry_hold(before);
	else
		h->lost++;
	(void)pthread_mutex_unlock(&h->lock);
	(void)eventfd_write(h->event_fd, 1); /* cannot overflow */
}

static const struct job_entry *history_take_first(struct history *h, size_t *lost)
{
	const struct job_entry *job = NULL;
	(void)pthread_mutex_lock(&h->lock);
	if (h->n) {
		job = h->waiting[h->first];
		h->first = (h->first + 1) % WAITING_MAX;
		h->n--;
	}
	*lost = h->lost;
	h->lost = 0;
	(void)pthread_mutex_unlock(&h->lock);
	return job;
}

static void history_log_trouble(struct history *h, const char *why)
{
	cluster_log_trouble(&h->trouble, why, "an earlier attempt of a job cannot be kept",
	                    "earlier attempts of jobs can be kept again");
}

static void history_log_lost(struct history *h, size_t lost)
{
	int64_t now = clock_ms();
	h->n_lost += lost;
	if (!h->n_lost || now < h->lost_log_ms)
		return;
	h->lost_log_ms = now + LOST_MS;
	struct line line = log_begin(LOG_WARN, "too many attempts ended at once; not kept");
	log_int(&line, "attempts", (int64_t)h->n_lost);
	log_end(&line);
	h->n_lost = 0;
}

static void history_next(struct history *h);

static void history_job_drop(struct history *h)
{
	job_entry_drop(TAKE(h->job));
	str_done(&h->body);
	arena_done(&h->arena);
	h->arena = (struct arena){ 0 };
}

static void history_finish(struct history *h)
{
	history_job_drop(h);
	history_next(h);
}

static void history_ask(struct history *h, enum store_verb verb, const char *name, const char *uid,
                        store_callback *done)
{
	store_request(h->store, &(struct store_request){
				    .verb = verb,
				    .kind = KIND_CONFIGMAP,
				    .name = name,
				    .uid = uid,
				    .body = { verb == STORE_CREATE ? str_view(&h->body)
	                                                           : (struct span){ 0 } },
				    .not_before_ms = h->tries ? clock_ms() + PAUSE_MS : 0,
				    .deadline_ms = clock_ms() + DEADLINE_MS,
				    .done = done,
				    .arg = h,
				});
}

/* A failure is ignored. */
static void history_removed(void *arg, const struct store_reply *reply)
{
	(void)reply;
	history_finish(arg);
}

static void history_found_oldest(void *arg, const struct store_reply *reply)
{
	struct history *h = arg;
	bool ours = reply->outcome == STORE_OK && scan_valid(reply->body, HISTORY_DEPTH) &&
	            history_is_owned(reply->body, h->job->uid, &h->arena);
	if (!ours || reply->uid.n >= sizeof(h->uid) || h->stopping) {
		history_finish(h);
		return;
	}
	memcpy(h->uid, reply->uid.p, reply->uid.n);
	h->uid[reply->uid.n] = '\0';
	history_ask(h, STORE_DELETE, h->oldest, h->uid, history_removed);
}

static void history_made(void *arg, const struct store_reply *reply)
{
	struct history *h = arg;
	bool again = reply->outcome == STORE_BUSY || reply->outcome == STORE_AMBIGUOUS;
	if (h->stopping) {
		history_finish(h);
	} else if (again && ++h->tries < TRIES) {
		history_ask(h, STORE_CREATE, h->name, NULL, history_made);
	} else if (reply->outcome == STORE_OK || reply->outcome == STORE_EXISTS) {
		history_log_trouble(h, NULL);
		h->tries = 0;
		if (h->oldest)
			history_ask(h, STORE_GET, h->oldest, NULL, history_found_oldest);
		else
			history_finish(h);
	} else {
		history_log_trouble(h, reply->message.n ? arena_dup(&h->arena, reply->message)
		                                        : "the store does not answer");
		history_finish(h);
	}
}

/* -1: there is nothing to keep. */
static int history_prepare(struct history *h)
{
	const struct options *o = h->server->options;
	int64_t oldest = h->job->attempt - o->history;
	struct span doc;
	h->body = STR_INIT((size_t)o->history_bytes * 2 + 4096); /* base64 and the frame */
	h->tries = 0;
	h->name = history_name(&h->arena, h->job->name, h->job->attempt);
	h->oldest = oldest >= 0 ? history_name(&h->arena, h->job->name, oldest) : NULL;
	if (!job_entry_doc(h->job, &h->arena, &doc) ||
	    !history_write(&h->body, h->job, doc, (size_t)o->history_bytes, &h->arena) ||
	    h->body.full)
		return -1;
	return 0;
}

static void history_next(struct history *h)
{
	size_t lost = 0;
	while (!h->stopping && !h->job && (h->job = history_take_first(h, &lost)) != NULL) {
		history_log_lost(h, lost);
		if (history_prepare(h) == 0) {
			history_ask(h, STORE_CREATE, h->name, NULL, history_made);
		} else {
			history_job_drop(h);
		}
	}
}

void history_run_once(struct history *h)
{
	eventfd_t count;
	if (!h)
		return;
	(void)eventfd_read(h->event_fd, &count); /* resets it */
	store_reap(h->store);
	if (!h->job)
		history_next(h);
	store_start(h->store);
}

int history_fd(const struct history *h)
{
	return h ? h->epoll_fd : -1;
}

int history_timeout_ms(const struct history *h)
{
	return h ? store_timeout_ms(h->store) : -1;
}

/* ---- life ---------------------------------------------------------------------------------- */

static int history_watch(struct history *h, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	return fd < 0 ? -1 : epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int history_start(struct server *s, struct err *e)
{
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	if (!s->options->history)
		return 0;
	struct history *h = xcalloc(1, sizeof(*h));
	h->server = s;
	(void)pthread_mutex_init(&h->lock, NULL); /* cannot fail with default attributes */
	h->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->history = h;
	h->store = cluster_store(s, &limits, e);
	if (!h->store)
		return -1;
	if (history_watch(h, h->event_fd) < 0 || history_watch(h, store_fd(h->store)) < 0)
		return err_set(e, UNKNOWN_ERROR, "epoll failed");
	return 0;
}

void history_free(struct history *h)
{
	size_t lost;
	if (!h)
		return;
	h->stopping = true;
	if (h->store)
		store_free(h->store);
	for (const struct job_entry *job; (job = history_take_first(h, &lost)) != NULL;)
		job_entry_drop(job);
	job_entry_drop(h->job);
	str_done(&h->body);
	arena_done(&h->arena);
	(void)pthread_mutex_destroy(&h->lock); /* not locked */
	if (h->event_fd >= 0)
		(void)close(h->event_fd);
	if (h->epoll_fd >= 0)
		(void)close(h->epoll_fd);
	free(h->trouble);
	free(h);
}

enum { RATIO = 200 };

#define DATA_KEY "attempt.json.gz"
static const char *const TASKS[] = { "taskRoleStatuses", "taskRoleStatusesCompressed" };

char *history_name(struct arena *a, const char *framework, int64_t attempt)
{
	return arena_printf(a, "%s-attempt-%lld", framework, (long long)attempt);
}

static bool history_is_tasks(struct span key)
{
	return span_is(key, TASKS[0]) || span_is(key, TASKS[1]);
}

static struct span history_without_tasks(struct span status, struct arena *a)
{
	struct str out = STR_INIT(status.n + 1);
	struct scan members = scan_begin(status);
	struct span key;
	struct span value;
	str_char(&out, '{');
	while (scan_member(&members, &key, &value)) {
		if (history_is_tasks(key))
			continue;
		if (out.n > 1)
			str_char(&out, ',');
		str_char(&out, '"');
		str_span(&out, key);
		str_puts(&out, "\":");
		str_span(&out, value);
	}
	str_char(&out, '}');
	struct span kept = arena_span(a, str_view(&out));
	str_done(&out);
	return kept;
}

void history_owner(struct str *out, const char *framework, const char *uid)
{
	str_puts(out, "\"ownerReferences\":[{"
	              "\"apiVersion\":\"frameworkcontroller.microsoft.com/v1\","
	              "\"kind\":\"Framework\",\"name\":");
	str_json(out, span_of(framework));
	str_puts(out, ",\"uid\":");
	str_json(out, span_of(uid));
	str_puts(out, "}]");
}

bool history_is_owned(struct span configmap, const char *uid, struct arena *a)
{
	struct scan owners = scan_begin(scan_path(configmap, "metadata", "ownerReferences"));
	struct span owner;
	while (scan_item(&owners, &owner))
		if (span_is(scan_text(scan_get(owner, "uid"), a), uid))
			return true;
	return false;
}

static void history_put_configmap(struct str *out, const struct job_entry *job, struct span packed,
                                  struct arena *a)
{
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":");
	str_json(out, span_of(history_name(a, job->name, job->attempt)));
	str_puts(out, ",\"labels\":{\"rest-lit/history\":\"attempt\"},");
	history_owner(out, job->name, job->uid);
	str_puts(out, "},\"immutable\":true,\"binaryData\":{\"" DATA_KEY "\":\"");
	str_base64(out, packed);
	str_puts(out, "\"}}");
}

bool history_write(struct str *out, const struct job_entry *job, struct span doc, size_t max,
                   struct arena *a)
{
	struct span status = scan_path(doc, "status", "attemptStatus");
	struct span packed;
	if (scan_type(status) != SCAN_OBJECT)
		return false;
	if (!job_entry_gzip(status, max, a, &packed) &&
	    !job_entry_gzip(history_without_tasks(status, a), max, a, &packed))
		return false;
	history_put_configmap(out, job, packed, a);
	return true;
}

bool history_read(struct span configmap, const char *uid, int64_t attempt, struct arena *a,
                  struct span *status)
{
	struct span bytes;
	struct span text;
	int64_t id;
	if (!scan_valid(configmap, HISTORY_DEPTH) || !history_is_owned(configmap, uid, a))
		return false;
	struct span packed = scan_text(scan_path(configmap, "binaryData", DATA_KEY), a);
	if (base64_decode(a, packed, &bytes) < 0 ||
	    !job_entry_gunzip(bytes, JOB_ENTRY_INFLATED_MAX, RATIO, a, &text) ||
	    !scan_valid(text, HISTORY_DEPTH) ||
	    !scan_int(scan_get(text, "id"), 0, INT32_MAX, &id) || id != attempt)
		return false;
	*status = text;
	return true;
}
