/* Renews a Lease on a thread of its own, by writes that fail if another process was faster. */
#include "k8s/lease/lease.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/time.h"
#include "jobs/store/call.h"

enum { LEASE_BODY_MAX = 2048, LEASE_DEPTH = 32, RANDOM_BYTES = 8, HOST_MAX = 64 };

struct lease {
	/* Any thread, by clock_boot_ms: it is held until then, but not while `ending`; or others
	 * hold it until then. */
	_Atomic int64_t held_until_ms, others_until_ms;
	atomic_bool ending;
	atomic_uint terms;
	char identity[96];
	/* All below: its thread. */
	struct caller caller;
	struct lease_settings settings;
	char *name;
	int64_t duration_ms;
	/* The Lease as it was read or written last, and since when it has this resourceVersion. */
	char version[64];
	int64_t seen_ms;
	bool lost; /* it was not this one's when it was read, and was not written since */
};

/* Kubernetes' MicroTime has exactly six digits after the second. */
static void lease_put_now(struct str *out, const char *key)
{
	char text[RFC3339_MAX];
	json_put_word(out, key, rfc3339_put(text, clock_wall_ms(), 6));
}

static void lease_put_spec(const struct lease *l, struct str *out, bool acquire)
{
	json_put_open(out, "spec", '{');
	json_put_word(out, "holderIdentity", l->identity);
	json_put_int(out, "leaseDurationSeconds", l->duration_ms / 1000);
	lease_put_now(out, "renewTime");
	if (acquire)
		lease_put_now(out, "acquireTime");
	str_puts(out, "}}");
}

/* The beginning of a patch that fails if the Lease has changed since it was read. */
static void lease_put_version(const struct lease *l, struct str *out)
{
	str_puts(out, "{\"metadata\":{");
	json_put_word(out, "resourceVersion", l->version);
	str_char(out, '}');
}

/* Notes if the Lease has been renewed since it was read last. */
static void lease_note_version(struct lease *l, struct span version)
{
	version = span_cut(version, sizeof(l->version) - 1);
	if (span_is(version, l->version))
		return;
	(void)snprintf(l->version, sizeof(l->version), "%.*s", (int)version.n, version.p);
	l->seen_ms = clock_boot_ms();
}

/* Decides what to write after the Lease was read: false, or the verb and the body. */
static bool lease_decide(struct lease *l, const struct store_reply *reply, struct arena *a,
                         enum store_verb *verb, struct str *body)
{
	if (reply->outcome == STORE_NOT_FOUND) {
		*verb = STORE_CREATE;
		str_puts(body, "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
		               "\"metadata\":{");
		json_put_word(body, "name", l->name);
		str_char(body, '}');
		lease_put_spec(l, body, true);
		l->lost = true;
		return true;
	}
	if (reply->outcome != STORE_OK || !scan_valid(reply->body, LEASE_DEPTH))
		return false;
	lease_note_version(l, reply->resource_version);
	struct span spec = scan_get(reply->body, "spec");
	struct span holder = scan_text(scan_get(spec, "holderIdentity"), a);
	bool mine = span_is(holder, l->identity);
	bool free = holder.n == 0 || clock_boot_ms() - l->seen_ms >= l->duration_ms;
	l->lost |= !mine;
	if (!mine)
		atomic_store(&l->held_until_ms, 0);
	atomic_store(&l->others_until_ms, mine || free ? 0 : l->seen_ms + l->duration_ms);
	*verb = STORE_PATCH;
	lease_put_version(l, body);
	lease_put_spec(l, body, !mine);
	return mine || free;
}

static void lease_run_round(struct lease *l)
{
	int64_t now_ms = clock_boot_ms();
	ARENA_AUTO a = { 0 };
	STR_AUTO body = STR_INIT(LEASE_BODY_MAX);
	struct store_reply reply;
	struct store_request r = { .verb = STORE_GET,
		                   .kind = KIND_LEASE,
		                   .name = l->name,
		                   .whole = true,
		                   .deadline_ms = clock_ms() + l->duration_ms / 4 };
	(void)store_call(&l->caller, &r, &a, &reply);
	if (lease_decide(l, &reply, &a, &r.verb, &body)) {
		r.body[0] = str_view(&body);
		if (store_call(&l->caller, &r, &a, &reply) == STORE_OK) {
			atomic_fetch_add(&l->terms, l->lost);
			l->lost = false;
			atomic_store(&l->held_until_ms, now_ms + l->duration_ms * 2 / 3);
			lease_note_version(l, reply.resource_version);
		}
	}
	if (l->caller.stopped)
		return;
	bool known = reply.outcome == STORE_OK || store_is_outdated(reply.outcome);
	FREE_AUTO char *why = xstrndup(reply.message.p, reply.message.n);
	l->settings.trouble(l->settings.arg, known ? NULL : why);
}

static void *lease_thread(void *arg)
{
	struct lease *l = arg;
	ARENA_AUTO a = { 0 };
	STR_AUTO body = STR_INIT(LEASE_BODY_MAX);
	struct store_reply reply;
	int64_t left_ms;
	do {
		int64_t now_ms = clock_ms();
		lease_run_round(l);
		left_ms = now_ms + l->duration_ms / 4 - clock_ms();
	} while (caller_wait(&l->caller, -1, left_ms > 0 ? left_ms : 0));
	if (clock_boot_ms() >= atomic_load(&l->held_until_ms) || !l->version[0])
		return NULL;
	lease_put_version(l, &body);
	str_puts(&body, ",\"spec\":{\"holderIdentity\":\"\"}}");
	const struct store_request r = { .verb = STORE_PATCH,
		                         .kind = KIND_LEASE,
		                         .name = l->name,
		                         .whole = true,
		                         .body = { str_view(&body) },
		                         .deadline_ms = clock_ms() + CALL_END_MS };
	(void)store_call(&l->caller, &r, &a, &reply); /* without success it expires */
	return NULL;
}

struct lease *lease_new(const struct lease_settings *s)
{
	char host[HOST_MAX] = "";
	char random[2 * RANDOM_BYTES + 1];
	struct lease *l = xcalloc(1, sizeof(*l));
	l->settings = *s;
	l->name = xstrdup(s->name);
	l->duration_ms = s->duration_s * 1000;
	(void)gethostname(host, sizeof(host) - 1); /* else "" */
	random_hex(random, RANDOM_BYTES);
	(void)snprintf(l->identity, sizeof(l->identity), "%s_%s", host, random);
	return l;
}

const char *lease_identity(const struct lease *l)
{
	return l->identity;
}

int lease_start(struct lease *l, struct store *s, struct err *e)
{
	return caller_start(&l->caller, s, lease_thread, l, e);
}

bool lease_is_held(const struct lease *l, int64_t *left_ms)
{
	int64_t left = atomic_load(&l->held_until_ms) - clock_boot_ms();
	bool held = left > 0 && !atomic_load(&l->ending);
	if (left_ms)
		*left_ms = held ? left : 0;
	return held;
}

unsigned lease_terms(const struct lease *l)
{
	return atomic_load(&l->terms);
}

bool lease_is_others(const struct lease *l)
{
	return clock_boot_ms() < atomic_load(&l->others_until_ms);
}

void lease_stop(struct lease *l)
{
	atomic_store(&l->ending, true);
	caller_stop(&l->caller);
}

void lease_free(struct lease *l)
{
	if (!l)
		return;
	lease_stop(l);
	caller_end(&l->caller);
	free(l->name);
	free(l);
}
