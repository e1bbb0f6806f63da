#include "server/cluster/lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/json/scan.h"
#include "base/time.h"
#include "server/cluster/cluster.h"

enum { LEASE_BODY_MAX = 2048, LEASE_DEPTH = 32, RANDOM_BYTES = 8, HOST_MAX = 64 };

static void lease_ask(struct lease *l, enum store_verb verb, store_callback *done)
{
	l->busy = true;
	store_request(l->store, &(struct store_request){
				    .verb = verb,
				    .kind = KIND_LEASE,
				    .name = l->name,
				    .whole = true,
				    .body = { str_view(&l->body) },
				    .deadline_ms = l->asked_ms + l->duration_ms / 4,
				    .done = done,
				    .arg = l,
				});
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Kubernetes' MicroTime has exactly six digits after the second. */
static void lease_put_now(struct str *out, const char *key)
{
	char text[RFC3339_MAX];
	str_printf(out, ",\"%s\":\"%s\"", key, rfc3339_put(text, clock_wall_ms(), 6));
}

static void lease_put_spec(struct lease *l, bool acquire)
{
	str_puts(&l->body, "\"spec\":{\"holderIdentity\":");
	str_json(&l->body, span_of(l->identity));
	str_printf(&l->body, ",\"leaseDurationSeconds\":%d", (int)(l->duration_ms / 1000));
	lease_put_now(&l->body, "renewTime");
	if (acquire)
		lease_put_now(&l->body, "acquireTime");
	str_char(&l->body, '}');
}

static void lease_released(void *arg, const struct store_reply *reply)
{
	struct lease *l = arg;
	(void)reply; /* without success it expires */
	l->busy = false;
}

/* The beginning of a patch that fails if the Lease has changed since it was read. */
static void lease_put_version(struct lease *l)
{
	l->body.n = 0;
	str_puts(&l->body, "{\"metadata\":{\"resourceVersion\":");
	str_json(&l->body, span_of(l->version));
	str_puts(&l->body, "},");
}

static void lease_give_back(struct lease *l)
{
	if (!lease_held(l) || !l->version[0])
		return;
	l->held_until_ms = 0;
	lease_put_version(l);
	str_puts(&l->body, "\"spec\":{\"holderIdentity\":\"\"}}");
	l->asked_ms = clock_ms();
	lease_ask(l, STORE_PATCH, lease_released);
}

static void lease_over(struct lease *l, const struct store_reply *reply)
{
	bool known = reply->outcome == STORE_OK || store_is_outdated(reply->outcome);
	FREE_AUTO char *why = xstrndup(reply->message.p, reply->message.n);
	l->busy = false;
	if (l->ending) {
		lease_give_back(l);
		return;
	}
	cluster_log_trouble(&l->trouble, known ? NULL : why,
	                    "the Lease by which one server of several is chosen cannot be used; "
	                    "trying again",
	                    "the Lease can be used again");
}

/* Has the Lease been renewed since it was read last? */
static void lease_note_version(struct lease *l, struct span version)
{
	version = span_cut(version, sizeof(l->version) - 1);
	if (span_is(version, l->version))
		return;
	(void)snprintf(l->version, sizeof(l->version), "%.*s", (int)version.n, version.p);
	l->seen_ms = clock_ms();
}

static void lease_written(void *arg, const struct store_reply *reply)
{
	struct lease *l = arg;
	if (reply->outcome == STORE_OK) {
		l->held_until_ms = l->asked_ms + l->duration_ms * 2 / 3;
		lease_note_version(l, reply->resource_version);
	}
	lease_over(l, reply);
}

static void lease_create(struct lease *l)
{
	str_puts(&l->body, "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
	                   "\"metadata\":{\"name\":");
	str_json(&l->body, span_of(l->name));
	str_puts(&l->body, "},");
	lease_put_spec(l, true);
	str_char(&l->body, '}');
	lease_ask(l, STORE_CREATE, lease_written);
}

static void lease_patch(struct lease *l, bool acquire)
{
	lease_put_version(l);
	lease_put_spec(l, acquire);
	str_char(&l->body, '}');
	lease_ask(l, STORE_PATCH, lease_written);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void lease_read(void *arg, const struct store_reply *reply)
{
	struct lease *l = arg;
	ARENA_AUTO arena = { 0 };
	l->body.n = 0;
	if (reply->outcome == STORE_NOT_FOUND) {
		lease_create(l);
		return;
	}
	if (reply->outcome != STORE_OK || !scan_valid(reply->body, LEASE_DEPTH)) {
		lease_over(l, reply);
		return;
	}
	lease_note_version(l, reply->resource_version);
	struct span spec = scan_get(reply->body, "spec");
	struct span holder = scan_text(scan_get(spec, "holderIdentity"), &arena);
	bool mine = span_is(holder, l->identity);
	if (!mine)
		l->held_until_ms = 0;
	if (mine || holder.n == 0 || clock_ms() - l->seen_ms >= l->duration_ms)
		lease_patch(l, !mine);
	else
		lease_over(l, reply);
}

/* ---- life ------------------------------------------------------------------------------------ */

void lease_init(struct lease *l, struct store *s, const char *name, int64_t duration_s)
{
	char host[HOST_MAX] = "";
	char random[2 * RANDOM_BYTES + 1];
	*l = (struct lease){ .store = s,
		             .name = name,
		             .duration_ms = duration_s * 1000,
		             .body = STR_INIT(LEASE_BODY_MAX) };
	(void)gethostname(host, sizeof(host) - 1); /* else "" */
	random_hex(random, RANDOM_BYTES);
	(void)snprintf(l->identity, sizeof(l->identity), "%s_%s", host, random);
}

void lease_run_once(struct lease *l)
{
	if (l->busy || clock_ms() < l->next_ms)
		return;
	l->asked_ms = clock_ms();
	l->next_ms = l->asked_ms + l->duration_ms / 4;
	l->body.n = 0;
	lease_ask(l, STORE_GET, lease_read);
}

int lease_timeout_ms(const struct lease *l)
{
	int64_t ms = l->next_ms - clock_ms();
	if (l->busy)
		return -1;
	return ms < 0 ? 0 : (int)ms;
}

bool lease_held(const struct lease *l)
{
	return clock_ms() < l->held_until_ms;
}

void lease_release(struct lease *l)
{
	l->ending = true;
	if (!l->busy)
		lease_give_back(l);
}

void lease_done(struct lease *l)
{
	str_done(&l->body);
	free(l->trouble);
}
