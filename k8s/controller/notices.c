/* Counts notices in a table of fixed size, and writes those that are due as Events: by POST, else
 * by PATCH. */
#include "k8s/controller/notices.h"

#include <stdlib.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/posix/clock.h"
#include "base/time.h"

enum {
	NAME_MOST = 180, /* of a Framework's name; an Event's has at most 253 */
	UID_PART = 8,
	KEY_MAX = 1024,
	MESSAGE_MOST = 1024,
	EVENT_MAX = 8192,
	EVENT_DEADLINE_MS = 5000,
};

/* An Event under way: first a POST, and a PATCH if there is one of this name. */
struct notice_sent {
	struct notices *notices;
	bool patched;
	char *namespace_name, *name;
	struct str body, change;
};

void notice_name(struct str *out, const struct rules_notice *about)
{
	struct span name = span_cut(span_of(about->name), NAME_MOST);
	while (name.n && !is_alnum(name.p[name.n - 1])) /* a label of a name ends so */
		name.n--;
	str_span(out, name);
	str_char(out, '.');
	for (const char *p = about->reason; *p; p++)
		str_char(out, to_lower(*p));
	if (about->uid[0])
		str_printf(out, ".%.*s", UID_PART, about->uid);
}

/* ---- how often ---- */

/* The row of this notice, with its count; NULL: nothing is to be sent.  A row that may be sent
 * again is free for others. */
static struct notice_row *notice_due(struct notices *n, const struct rules_notice *about,
                                     int64_t now_ms)
{
	unsigned char key[16];
	STR_AUTO text = STR_INIT(KEY_MAX);
	str_printf(&text, "%s %s", about->uid, about->reason);
	md5_bytes(key, str_view(&text));
	struct notice_row *set = n->rows[key[0] % NOTICE_SETS];
	struct notice_row *oldest = set;
	for (struct notice_row *r = set; r < set + NOTICE_SET; r++) {
		bool known = r->count && memcmp(r->key, key, sizeof(key)) == 0;
		if (known)
			r->count++;
		if (known)
			return now_ms - r->sent_ms >= NOTICE_PAUSE_MS ? r : NULL;
		if (oldest->count && (!r->count || r->sent_ms < oldest->sent_ms))
			oldest = r;
	}
	if (oldest->count && now_ms - oldest->sent_ms < NOTICE_PAUSE_MS)
		return NULL;
	memcpy(oldest->key, key, sizeof(key));
	oldest->count = 1;
	return oldest;
}

/* ---- the Event ---- */

static void notice_put_change(struct str *out, const struct rules_notice *about, int64_t count,
                              const char *time)
{
	json_put_int(out, "count", count);
	json_put_word(out, "lastTimestamp", time);
	json_put_text(out, "message", span_cut(span_of(about->message), MESSAGE_MOST));
}

static void notice_put_event(struct notice_sent *s, const struct rules_notice *about, int64_t count,
                             int64_t wall_ms)
{
	char time[RFC3339_MAX];
	struct str *out = &s->body;
	(void)rfc3339_put(time, wall_ms, 0);
	str_puts(out,
	         "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"type\":\"Warning\",\"metadata\":{");
	json_put_word(out, "name", s->name);
	json_put_word(out, "namespace", s->namespace_name);
	str_puts(out, "},\"involvedObject\":{"
	              "\"apiVersion\":\"frameworkcontroller.microsoft.com/v1\","
	              "\"kind\":\"Framework\"");
	json_put_word(out, "namespace", s->namespace_name);
	json_put_word(out, "name", about->name);
	json_put_word(out, "uid", about->uid);
	str_puts(out, "},\"source\":{\"component\":\"" CONTROLLER_NAME "\"}");
	json_put_word(out, "reason", about->reason);
	json_put_word(out, "firstTimestamp", time);
	notice_put_change(out, about, count, time);
	str_char(out, '}');
	str_char(&s->change, '{');
	notice_put_change(&s->change, about, count, time);
	str_char(&s->change, '}');
}

static void notice_answered(void *arg, const struct store_reply *reply);

static void notice_send(struct notice_sent *s, enum store_verb verb, const struct str *body)
{
	store_request(s->notices->store, &(struct store_request){
					     .verb = verb,
					     .kind = KIND_EVENT,
					     .name = s->name,
					     .namespace_name = s->namespace_name,
					     .query = CONTROLLER_QUERY,
					     .body = { str_view(body) },
					     .look = true,
					     .deadline_ms = clock_ms() + EVENT_DEADLINE_MS,
					     .done = notice_answered,
					     .arg = s,
					 });
}

static void notice_answered(void *arg, const struct store_reply *reply)
{
	struct notice_sent *s = arg;
	struct notice_counts *c = s->notices->counts;
	if (reply->outcome == STORE_EXISTS && !s->patched) {
		s->patched = true;
		notice_send(s, STORE_PATCH, &s->change);
		return;
	}
	counter_add(reply->outcome == STORE_OK ? &c->sent : &c->failed, 1);
	free(s->namespace_name);
	free(s->name);
	str_done(&s->body);
	str_done(&s->change);
	free(s);
}

bool notices_take(struct notices *n, const struct rules_notice *about, const struct rules_time *now)
{
	struct notice_row *row = notice_due(n, about, now->ms);
	if (!row || !store_has_room(n->store, NULL)) {
		counter_add(&n->counts->omitted, 1);
		return false;
	}
	row->sent_ms = now->ms;
	STR_AUTO name = STR_INIT(KEY_MAX);
	struct notice_sent *s = xcalloc(1, sizeof(*s));
	notice_name(&name, about);
	*s = (struct notice_sent){ .notices = n,
		                   .namespace_name = xstrdup(about->namespace_name),
		                   .name = str_take(&name),
		                   .body = STR_INIT(EVENT_MAX),
		                   .change = STR_INIT(EVENT_MAX) };
	notice_put_event(s, about, row->count, now->wall_ms);
	notice_send(s, STORE_CREATE, &s->body);
	return true;
}
