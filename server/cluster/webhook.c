/* Selects ended and idle jobs in rounds, posts a report of each, and marks it by an annotation. */
#include "server/cluster/webhook.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/enc.h"
#include "base/hash.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "k8s/http/poster.h"
#include "k8s/lease/lease.h"
#include "server/cluster/cluster.h"
#include "server/cluster/job_fields.h"
#include "server/config/options.h"
#include "server/config/system.h"
#include "server/state/counts.h"
#include "server/state/log.h"

enum {
	SENDS_MAX = 16, /* at the same time */
	POSTPONED = 1024,
	SECRET_BYTES_MAX = 4096,
	BODY_MAX = 16 << 10,
	PATCH_MAX = 1024,
	MARK_MS = 30000,      /* deadline of the PATCH */
	PAUSE_MS = 15000,     /* maximal pause of all jobs */
	PAUSE_JOB_MS = 60000, /* ... of a job that has failed */
	PAUSE_FIRST_MS = 1000,
	HEADER_MAX = 160,
	REASON_MAX = 1024,
};

/* Added to the rank of jobs that have failed, so that they delay no others. */
static const int64_t LATER = INT64_C(1) << 50;

enum send_state { SEND_FREE, SEND_POSTING, SEND_ANSWERED, SEND_MARKING };

/* The end of a job, or that its GPUs are idle, on its way. */
struct webhook_send {
	struct webhook *w;
	enum send_state state;
	const struct job_entry *job;
	int64_t idle_ms; /* that was sent; JOB_ENTRY_NONE: its end */
	struct str patch;
};

/* A job that has failed; another one with the same index replaces it. */
struct postponed_job {
	uint64_t job; /* hash of the uid; 0: none */
	int64_t until_ms;
	unsigned failures;
};

/* The end of a job that is to be sent; the lowest rank first. */
struct webhook_candidate {
	int64_t rank;
	const struct job_entry *job; /* borrowed from the view of the round */
};

struct webhook {
	struct server *server;
	struct store *store;
	struct poster *poster;
	struct webhook_counts *counts;
	struct lease *lease; /* NULL: there is no other server */
	char *lease_trouble; /* the last one, for the log of its thread */
	struct str secret;
	struct hash_key key;
	struct webhook_send sends[SENDS_MAX];
	struct postponed_job postponed[POSTPONED];
	struct webhook_candidate batch[WEBHOOK_BATCH]; /* of this round, in order */
	size_t n, at;
	size_t unsent;     /* jobs, in the last round */
	bool was_held;     /* the Lease, in the last round */
	int64_t pause_ms;  /* no attempt before */
	unsigned failures; /* in a row, of any job */
	char *trouble;     /* the last one that was logged; NULL: none */
	bool ending;
};

/* ---- pure ------------------------------------------------------------------------------------ */

void webhook_body(struct str *out, const struct job_entry *job, struct span stop_reason)
{
	bool ended = job_state_final(job->state);
	json_put_open(out, NULL, '{');
	json_put_word(out, "event", ended ? "job.ended" : "job.idle");
	job_fields_put(out, job, VIEW_WEBHOOK, false);
	if (ended)
		json_put_text(out, "stopReason", stop_reason.n ? stop_reason : (struct span){ 0 });
	str_char(out, '}');
}

void webhook_signature(char out[static WEBHOOK_SIGNATURE], struct span secret, int64_t timestamp_s,
                       struct span body)
{
	unsigned char mac[32];
	char hex[2 * sizeof(mac) + 1];
	char begin[32];
	gnutls_hmac_hd_t h;
	int n = snprintf(begin, sizeof(begin), "%lld.", (long long)timestamp_s);
	/* Fails without memory only. */
	if (gnutls_hmac_init(&h, GNUTLS_MAC_SHA256, secret.p, secret.n) != 0 ||
	    gnutls_hmac(h, begin, (size_t)n) != 0 || gnutls_hmac(h, body.p, body.n) != 0)
		abort();
	gnutls_hmac_deinit(h, mac);
	hex_encode(hex, mac, sizeof(mac));
	(void)snprintf(out, WEBHOOK_SIGNATURE, "sha256=%s", hex); /* it fits */
}

int64_t webhook_pause_ms(unsigned n, int64_t most_ms)
{
	int64_t ms = PAUSE_FIRST_MS;
	while (--n > 0 && ms < most_ms)
		ms *= 2;
	return ms < most_ms ? ms : most_ms;
}

/* ---- jobs that have failed ------------------------------------------------------------------- */

static struct postponed_job *webhook_postponed(struct webhook *w, const struct job_entry *job,
                                               uint64_t *hash)
{
	*hash = hash_bytes(&w->key, span_of(job->uid)) | 1;
	return &w->postponed[(*hash >> 1) % POSTPONED];
}

/* ---- one end of a job ------------------------------------------------------------------------ */

static void webhook_send_ended(struct webhook_send *s)
{
	job_entry_drop(TAKE(s->job));
	str_done(&s->patch);
	s->state = SEND_FREE;
}

static void webhook_log_trouble(struct webhook *w, const char *why)
{
	if (!w->ending)
		cluster_log_trouble(&w->trouble, why,
		                    "ends of jobs cannot be reported to --webhook; trying again",
		                    "ends of jobs are reported to --webhook again");
}

static void webhook_send_marked(void *arg, const struct store_reply *reply)
{
	struct webhook_send *s = arg;
	struct job_entry *now = NULL;
	if (reply->outcome == STORE_OK && scan_valid(reply->body, SCAN_DEPTH_MAX))
		now = job_entry_new_after(reply->body, s->job);
	if (now)
		cache_note(s->w->server->cache, now); /* else the next round sends it again */
	/* Otherwise the next round decides, by the present state of the job. */
	if (reply->outcome == STORE_OK || reply->outcome == STORE_NOT_FOUND || s->w->ending) {
		webhook_send_ended(s);
		return;
	}
	s->state = SEND_ANSWERED;
	str_done(&s->patch);
	if (reply->outcome == STORE_REFUSED && reply->status != 422) { /* 422: another uid */
		FREE_AUTO char *why = xstrndup(reply->message.p, reply->message.n);
		webhook_log_trouble(s->w, why);
	}
}

static void webhook_send_mark(struct webhook_send *s)
{
	s->state = SEND_MARKING;
	s->patch = STR_INIT(PATCH_MAX);
	str_puts(&s->patch, "{\"metadata\":{");
	json_put_word(&s->patch, "uid", s->job->uid);
	json_put_word(&s->patch, "resourceVersion", s->job->resource_version);
	bool ended = s->idle_ms == JOB_ENTRY_NONE;
	str_printf(&s->patch, ",\"annotations\":{\"rest-lit/webhook-%s\":\"%lld\"}}}",
	           ended ? "sent" : "idle",
	           (long long)(ended ? clock_wall_ms() / 1000 : s->idle_ms));
	store_request(s->w->store, &(struct store_request){
				       .verb = STORE_PATCH,
				       .kind = KIND_FRAMEWORK,
				       .name = s->job->name,
				       .whole = true,
				       .body = { str_view(&s->patch) },
				       .deadline_ms = clock_ms() + MARK_MS,
				       .done = webhook_send_marked,
				       .arg = s,
				   });
}

static void webhook_send_failed(struct webhook_send *s, const struct post_answer *a)
{
	struct webhook *w = s->w;
	char text[64];
	(void)snprintf(text, sizeof(text), "it answered %d", a->status); /* fits */
	webhook_log_trouble(w, a->problem ?: text);
	uint64_t hash;
	struct postponed_job *p = webhook_postponed(w, s->job, &hash);
	if (p->job != hash)
		*p = (struct postponed_job){ .job = hash };
	p->failures++;
	p->until_ms = clock_ms() + webhook_pause_ms(p->failures, PAUSE_JOB_MS);
	counter_add(&w->counts->failed, 1);
	w->failures++;
	w->pause_ms = clock_ms() + webhook_pause_ms(w->failures, PAUSE_MS);
	webhook_send_ended(s);
}

static void webhook_send_answered(void *arg, const struct post_answer *a)
{
	struct webhook_send *s = arg;
	if (a->status / 100 != 2 && a->status != 410) { /* 410: the receiver does not want it */
		webhook_send_failed(s, a);
		return;
	}
	counter_add(&s->w->counts->sent, 1);
	s->w->failures = 0;
	s->w->pause_ms = 0;
	webhook_log_trouble(s->w, NULL);
	webhook_send_mark(s);
}

static void webhook_send_begin(struct webhook_send *s, const struct job_entry *job)
{
	ARENA_AUTO arena = { 0 };
	ERR_AUTO e = { 0 };
	STR_AUTO body = STR_INIT(BODY_MAX);
	char signature[WEBHOOK_SIGNATURE];
	char stamp[HEADER_MAX];
	char signed_by[HEADER_MAX];
	const char *const headers[] = { stamp, signed_by, NULL };
	struct span doc;
	struct span reason = SPAN("");
	int64_t now_s = clock_wall_ms() / 1000;
	s->state = SEND_POSTING;
	s->job = job_entry_hold(job);
	s->idle_ms = job->gpu_idle_ms;
	if (job_entry_doc(job, &arena, &doc))
		reason = scan_text(
		    scan_path(doc, "metadata", "annotations", "rest-lit/stop-reason"), &arena);
	webhook_body(&body, job, span_cut(reason, REASON_MAX));
	webhook_signature(signature, str_view(&s->w->secret), now_s, str_view(&body));
	(void)snprintf(stamp, sizeof(stamp), "X-Rest-Lit-Timestamp: %lld", (long long)now_s);
	(void)snprintf(signed_by, sizeof(signed_by), "X-Rest-Lit-Signature: %s", signature);
	const struct post post = { str_view(&body), headers, webhook_send_answered, s };
	if (poster_send(s->w->poster, &post, &e) < 0)
		webhook_send_failed(s, &(struct post_answer){ 0, err_msg(&e) });
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static bool webhook_may_send(const struct webhook *w)
{
	/* Not after lease_stop, although the Lease is given back a moment later. */
	return w->server->local || lease_is_held(w->lease, NULL);
}

/* There are ends to send, or whether this server sends them has changed. */
bool webhook_wants_round(const struct webhook *w)
{
	return w && webhook_may_send(w) ? w->unsent || !w->was_held : w && w->was_held;
}

void webhook_round_begin(struct webhook *w)
{
	bool may = webhook_may_send(w);
	if (may && !w->was_held)
		log_event(LOG_INFO, "this server reports ends of jobs", NULL, NULL);
	else if (!may && w->was_held)
		log_event(LOG_WARN,
		          "this server does not hold the Lease any more: another one "
		          "reports ends of jobs",
		          NULL, NULL);
	w->n = w->at = w->unsent = 0;
	w->was_held = may;
}

/* Its end, or that its GPUs are idle, has not been marked as sent. */
static bool webhook_wants_job(const struct job_entry *job)
{
	bool idle = job->gpu_idle_ms != JOB_ENTRY_NONE && job->gpu_idle_ms != job->gpu_idle_told_ms;
	return job->webhook[0] && (job_state_final(job->state) || idle);
}

void webhook_add_job(struct webhook *w, const struct job_entry *job)
{
	uint64_t hash;
	if (!webhook_wants_job(job) || strcmp(job->webhook, w->server->options->instance) != 0)
		return;
	w->unsent++;
	bool may = w->was_held;
	for (size_t i = 0; may && i < SENDS_MAX; i++) {
		const struct webhook_send *s = &w->sends[i];
		may = s->state == SEND_FREE || strcmp(s->job->name, job->name) != 0;
	}
	const struct postponed_job *p = webhook_postponed(w, job, &hash);
	bool failed = p->job == hash && p->failures > 0;
	if (!may || (failed && clock_ms() < p->until_ms))
		return;
	/* The batch stays sorted; of too many the last one is dropped. */
	int64_t at_ms = job_state_final(job->state) ? job->completed_ms : job->gpu_warned_ms;
	const struct webhook_candidate c = { at_ms + (failed ? LATER : 0), job };
	if (w->n == WEBHOOK_BATCH && c.rank >= w->batch[w->n - 1].rank)
		return;
	size_t i = w->n < WEBHOOK_BATCH ? w->n++ : w->n - 1;
	for (; i > 0 && c.rank < w->batch[i - 1].rank; i--)
		w->batch[i] = w->batch[i - 1];
	w->batch[i] = c;
}

/* Sends the reports; after a failure one at a time. */
static void webhook_pump(struct webhook *w)
{
	size_t busy = 0;
	for (size_t i = 0; i < SENDS_MAX; i++)
		busy += w->sends[i].state != SEND_FREE;
	for (size_t i = 0; i < SENDS_MAX && w->at < w->n; i++) {
		bool may = w->failures == 0 || (busy == 0 && clock_ms() >= w->pause_ms);
		if (!may || !webhook_may_send(w))
			return;
		if (w->sends[i].state != SEND_FREE)
			continue;
		busy++;
		w->sends[i].w = w;
		webhook_send_begin(&w->sends[i], w->batch[w->at++].job);
	}
}

void webhook_round_end(struct webhook *w, const struct cache_view *view)
{
	counter_set(&w->counts->pending, w->unsent);
	/* Answered ends whose PATCH has failed: by the present state of their jobs. */
	for (size_t i = 0; i < SENDS_MAX; i++) {
		struct webhook_send *s = &w->sends[i];
		if (s->state != SEND_ANSWERED)
			continue;
		const struct job_entry *now = view_find(view, span_of(s->job->name));
		if (!now || strcmp(now->uid, s->job->uid) != 0 || !webhook_wants_job(now) ||
		    now->gpu_idle_ms != s->idle_ms) {
			webhook_send_ended(s);
			continue;
		}
		job_entry_drop(s->job);
		s->job = job_entry_hold(now);
		webhook_send_mark(s);
	}
	webhook_pump(w);
}

void webhook_run_once(struct webhook *w)
{
	if (!w)
		return;
	poster_run_once(w->poster);
	webhook_pump(w);
}

struct poster *webhook_poster(const struct webhook *w)
{
	return w ? w->poster : NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

int webhook_reload(struct webhook *w, struct err *e)
{
	const char *file = w->server->options->webhook_secret_file;
	struct stat st;
	struct str secret = STR_SECRET(SECRET_BYTES_MAX);
	int rc = file_read_regular(file, &secret, &st, e);
	while (secret.n && (secret.p[secret.n - 1] == '\n' || secret.p[secret.n - 1] == '\r'))
		secret.n--;
	if (rc == 0 && secret.n < WEBHOOK_SECRET_MIN)
		rc = err_set(e, 400, NULL,
		             "%s: the secret has less than %d bytes; make one with `head -c 32 "
		             "/dev/urandom | base64`",
		             file, WEBHOOK_SECRET_MIN);
	const char *warning = rc == 0 ? file_warning(&st, true) : NULL;
	if (warning)
		log_event(LOG_WARN, "the file of --webhook-secret-file is not safe", "why",
		          warning);
	if (rc == 0) {
		str_wipe(&w->secret);
		w->secret = secret;
	} else {
		str_wipe(&secret);
	}
	return rc;
}

static void webhook_lease_trouble(void *arg, const char *why)
{
	struct webhook *w = arg;
	cluster_log_trouble(&w->lease_trouble, why,
	                    "the Lease by which one server of several is chosen cannot be used; "
	                    "trying again",
	                    "the Lease can be used again");
}

int webhook_start(struct webhook **out, struct server *s, struct store *store, struct err *e)
{
	const struct options *o = s->options;
	const struct poster_settings settings = { .url = o->webhook,
		                                  .inside = o->webhook_allow_private,
		                                  .connections = SENDS_MAX };
	*out = NULL;
	if (!o->webhook[0])
		return 0;
	struct webhook *w = xcalloc(1, sizeof(*w));
	w->server = s;
	w->store = store;
	w->counts = &s->counts->webhook;
	w->key = hash_key_new();
	w->secret = (struct str)STR_SECRET(SECRET_BYTES_MAX);
	*out = w;
	if (webhook_reload(w, e) < 0)
		return err_wrap(e, "--webhook-secret-file");
	w->poster = poster_new(&settings, e);
	if (!w->poster)
		return err_wrap(e, "--webhook");
	if (s->local) /* no other server */
		return 0;
	FREE_AUTO char *name = xasprintf("rest-lit-webhook-%s", o->instance);
	w->lease = lease_new(
	    &(struct lease_settings){ name, o->webhook_lease_s, webhook_lease_trouble, w });
	struct store *own = cluster_store(s, &STORE_LIMITS_DEFAULT, e);
	return own ? lease_start(w->lease, own, e) : -1;
}

void webhook_stop(struct webhook *w)
{
	if (!w)
		return;
	w->ending = true;
	if (w->lease)
		lease_stop(w->lease);
	poster_free(TAKE(w->poster));
}

void webhook_free(struct webhook *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < SENDS_MAX; i++)
		webhook_send_ended(&w->sends[i]);
	lease_free(w->lease);
	free(w->lease_trouble);
	str_wipe(&w->secret);
	free(w->trouble);
	free(w);
}
