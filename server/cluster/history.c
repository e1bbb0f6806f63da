/* Keeps attempts, one after the other, on a thread of its own. */
#include "server/cluster/history.h"

#include <stdlib.h>

#include "base/enc.h"
#include "base/gzip.h"
#include "base/json/put.h"
#include "base/posix/clock.h"
#include "base/posix/mailbox.h"
#include "jobs/cache/job_entry.h"
#include "jobs/framework/view.h"
#include "jobs/store/call.h"
#include "server/cluster/cluster.h"
#include "server/config/options.h"
#include "server/state/log.h"

enum { WAITING_MAX = 1000, TRIES = 3, DEADLINE_MS = 30000, PAUSE_MS = 1000, LOST_MS = 60000 };

/* An attempt that has ended. */
struct ended_attempt {
	struct mail mail;
	const struct job_entry *job;
};

struct history {
	const struct options *options;
	struct mailbox box; /* of struct ended_attempt */
	struct caller caller;
	/* The rest is the thread's. */
	char *trouble;       /* the last one logged; NULL: none */
	size_t n_lost;       /* not kept, and not yet logged */
	int64_t lost_log_ms; /* earliest time of that log line */
};

void history_note_end(struct history *h, const struct job_entry *before,
                      const struct job_entry *now)
{
	if (!h || !before || !now || now->legacy || now->attempt <= before->attempt ||
	    strcmp(before->uid, now->uid) != 0)
		return;
	struct ended_attempt *ended = xcalloc(1, sizeof(*ended));
	ended->job = job_entry_hold(before);
	if (mailbox_put(&h->box, &ended->mail))
		return;
	job_entry_drop(ended->job);
	free(ended);
}

/* ---- the thread ---- */

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

static enum store_outcome history_ask(struct history *h, struct store_request r, struct arena *a,
                                      struct store_reply *reply)
{
	r.kind = KIND_CONFIGMAP;
	r.deadline_ms = clock_ms() + DEADLINE_MS;
	return store_call(&h->caller, &r, a, reply);
}

/* Creates the ConfigMap of this attempt and removes the oldest one. */
static void history_keep(struct history *h, const struct job_entry *job)
{
	const struct options *o = h->options;
	ARENA_AUTO a = { 0 };
	STR_AUTO body = STR_INIT((size_t)o->history_bytes * 2 + 4096); /* base64 and the frame */
	struct span doc;
	if (!job_entry_doc(job, &a, &doc) ||
	    !history_write(&body, job, doc, (size_t)o->history_bytes, &a) || body.full)
		return; /* there is nothing to keep */

	struct store_request create = { .verb = STORE_CREATE,
		                        .name = history_name(&a, job->name, job->attempt),
		                        .body = { str_view(&body) } };
	struct store_reply reply;
	enum store_outcome outcome = history_ask(h, create, &a, &reply);
	for (unsigned i = 1; i < TRIES && (outcome == STORE_BUSY || outcome == STORE_AMBIGUOUS) &&
	                     caller_wait(&h->caller, -1, PAUSE_MS);
	     i++)
		outcome = history_ask(h, create, &a, &reply);
	if (h->caller.stopped)
		return;
	bool kept = outcome == STORE_OK || outcome == STORE_EXISTS;
	cluster_log_trouble(&h->trouble,
	                    kept              ? NULL
	                    : reply.message.n ? arena_dup(&a, reply.message)
	                                      : "the store does not answer",
	                    "an earlier attempt of a job cannot be kept",
	                    "earlier attempts of jobs can be kept again");
	if (!kept || job->attempt < o->history)
		return;

	const char *oldest = history_name(&a, job->name, job->attempt - o->history);
	struct store_request get = { .verb = STORE_GET, .name = oldest };
	if (history_ask(h, get, &a, &reply) != STORE_OK || !scan_valid(reply.body, HISTORY_DEPTH) ||
	    !history_is_owned(reply.body, job->uid, &a))
		return;
	struct store_request drop = { .verb = STORE_DELETE,
		                      .name = oldest,
		                      .uid = arena_dup(&a, reply.uid) };
	(void)history_ask(h, drop, &a, &reply); /* else it goes with the job */
}

static void *history_thread(void *arg)
{
	struct history *h = arg;
	while (caller_wait(&h->caller, h->box.fd, -1)) {
		size_t lost;
		struct mail *m = mailbox_take(&h->box, &lost);
		history_log_lost(h, lost);
		while (m) {
			struct ended_attempt *ended = (struct ended_attempt *)m;
			m = m->next;
			if (!h->caller.stopped)
				history_keep(h, ended->job);
			job_entry_drop(ended->job);
			free(ended);
		}
	}
	return NULL;
}

/* ---- life ---- */

int history_start(struct server *s, struct err *e)
{
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	if (!s->options->history)
		return 0;
	struct history *h = xcalloc(1, sizeof(*h));
	h->options = s->options;
	s->history = h;
	if (mailbox_init(&h->box, WAITING_MAX, e) < 0)
		return -1;
	struct store *store = cluster_store(s, &limits, e);
	if (!store || caller_start(&h->caller, store, history_thread, h, e) < 0)
		return -1;
	s->threads[s->n_threads++] = &h->caller;
	return 0;
}

void history_free(struct history *h)
{
	size_t lost;
	if (!h)
		return;
	caller_end(&h->caller);
	for (struct mail *m = mailbox_take(&h->box, &lost), *next; m; m = next) {
		next = m->next;
		job_entry_drop(((struct ended_attempt *)m)->job);
		free(m);
	}
	mailbox_done(&h->box);
	free(h->trouble);
	free(h);
}

enum { RATIO = 200 };

#define DATA_KEY "attempt.json.gz"

char *history_name(struct arena *a, const char *framework, int64_t attempt)
{
	return arena_printf(a, "%s-attempt-%lld", framework, (long long)attempt);
}

void history_owner(struct str *out, const char *framework, const char *uid)
{
	str_puts(out, "\"ownerReferences\":[{"
	              "\"apiVersion\":\"frameworkcontroller.microsoft.com/v1\","
	              "\"kind\":\"Framework\"");
	json_put_word(out, "name", framework);
	json_put_word(out, "uid", uid);
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

bool history_write(struct str *out, const struct job_entry *job, struct span doc, size_t max,
                   struct arena *a)
{
	struct span status = fw_view_attempt_json(doc, true, a);
	struct span packed;
	if (scan_type(status) != SCAN_OBJECT)
		return false;
	if (!gzip_pack(status, max, a, &packed) &&
	    !gzip_pack(fw_view_attempt_json(doc, false, a), max, a, &packed))
		return false;
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{");
	json_put_word(out, "name", history_name(a, job->name, job->attempt));
	str_puts(out, ",\"labels\":{\"rest-lit/history\":\"attempt\"},");
	history_owner(out, job->name, job->uid);
	str_puts(out, "},\"immutable\":true,\"binaryData\":{\"" DATA_KEY "\":\"");
	str_base64(out, packed);
	str_puts(out, "\"}}");
	return true;
}

bool history_read(struct span configmap, const char *uid, int64_t attempt, struct arena *a,
                  struct span *status)
{
	struct span bytes;
	struct span text;
	struct fw_view f;
	if (!scan_valid(configmap, HISTORY_DEPTH) || !history_is_owned(configmap, uid, a))
		return false;
	struct span packed = scan_text(scan_path(configmap, "binaryData", DATA_KEY), a);
	if (base64_decode(a, packed, &bytes) < 0 ||
	    !gzip_unpack(bytes, FW_INFLATED_MAX, RATIO, a, &text) ||
	    !scan_valid(text, HISTORY_DEPTH))
		return false;
	fw_view_attempt(text, a, &f);
	if (f.attempt != attempt)
		return false;
	*status = text;
	return true;
}
