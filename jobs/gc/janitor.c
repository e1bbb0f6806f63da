/* Lists candidates in pages, confirms each by a GET, and deletes a limited number of them in a
 * round. */
#include "jobs/gc/janitor.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "jobs/gc/gc_internal.h"
#include "jobs/store/paths.h"
#include "jobs/store/reply.h"

static const int64_t JITTER = 10; /* a tenth of the time at most */

enum {
	REQUEST_MS = 30000,  /* deadline of a request */
	SOON = 8,            /* divides the interval after the first trouble */
	BACKOFF_MS = 600000, /* maximal pause while there is trouble */
	QUERY_MAX = 3 * CONTINUE_MAX + 1024,
	TROUBLE_MAX = 1024,
	/* A limit, because one item can have 256 KiB of annotations. */
	FRAMEWORKS_PAGE = 50,
};

/* ---- requests ------------------------------------------------------------------------------ */

/* Ends the work on this kind.  Keeps the first trouble, which usually causes the others. */
static void janitor_stop(struct orphan_kind *p, const struct store_request *r,
                         const struct store_reply *reply)
{
	ERR_AUTO e = { 0 };
	struct janitor *j = p->janitor;
	bool first = j->trouble.n == 0;
	p->stopped = true;
	if (reply->outcome != STORE_REFUSED)
		j->unreachable = true;
	if (first && reply->outcome == STORE_REFUSED) {
		explain_refusal(&e, r, reply);
		str_puts(&j->trouble, err_msg(&e));
	} else if (first) {
		str_puts(&j->trouble, "the API server could not be reached in time: ");
		str_span(&j->trouble, reply->message);
	}
}

static enum store_outcome janitor_ask(struct janitor *j, struct store_request *r, struct arena *a,
                                      struct store_reply *reply)
{
	r->deadline_ms = clock_ms() + REQUEST_MS;
	return store_call(j->caller, r, a, reply);
}

/* Deletes this version of it, and counts that, unless another client was faster. */
static void janitor_delete(struct orphan_kind *p, const struct marks *m, struct arena *a)
{
	struct store_request r = { .verb = STORE_DELETE,
		                   .kind = p->kind,
		                   .name = arena_dup(a, m->name),
		                   .uid = arena_dup(a, m->uid),
		                   .resource_version = arena_dup(a, m->version) };
	struct store_reply reply;
	enum store_outcome outcome = janitor_ask(p->janitor, &r, a, &reply);
	p->removed += outcome == STORE_OK;
	if (outcome != STORE_OK && outcome != STORE_NOT_FOUND && outcome != STORE_CONFLICT)
		janitor_stop(p, &r, &reply);
}

/* By the API server's clock, which is 0 if it is not known. */
static bool janitor_is_old(const struct janitor *j, const struct marks *m, int64_t now_s)
{
	return m->created_s > 0 && now_s - m->created_s >= j->options.age_ms / 1000;
}

/* ---- candidates ---------------------------------------------------------------------------- */

/* Gets the Framework of a candidate, and removes the candidate if that is an orphan, or has gone.
 */
static void janitor_look(struct orphan_kind *p, const struct marks *m, struct arena *a)
{
	struct janitor *j = p->janitor;
	bool classes = p->kind == KIND_PRIORITYCLASS;
	struct store_request r = { .verb = STORE_GET,
		                   .kind = KIND_FRAMEWORK,
		                   .name = arena_dup(a, span_to(m->name, HASH)),
		                   .whole = !classes };
	struct store_reply reply;
	enum store_outcome outcome = janitor_ask(j, &r, a, &reply);
	struct marks now = marks_of(outcome == STORE_OK ? reply.body : SPAN(""), a);
	/* An answer that cannot be parsed says that it exists. */
	if (outcome != STORE_OK && outcome != STORE_NOT_FOUND && (!classes || reply.status != 200))
		janitor_stop(p, &r, &reply);
	else if (classes && outcome == STORE_NOT_FOUND)
		janitor_delete(p, m, a);
	else if (!classes && span_eq(now.uid, m->uid) && orphan_is_listed(&now, &j->options) &&
	         janitor_is_old(j, &now, reply.date_s) && ownership_is_untouched(&now))
		janitor_delete(p, &now, a);
}

static void janitor_note(struct orphan_kind *p, struct span item)
{
	const struct janitor *j = p->janitor;
	bool classes = p->kind == KIND_PRIORITYCLASS;
	ARENA_AUTO a = { 0 };
	struct marks m = marks_of(item, &a);
	/* Names of a kind have one length, so bytes compare as texts. */
	if (!(classes ? orphan_is_class : orphan_is_listed)(&m, &j->options) ||
	    !janitor_is_old(j, &m, j->date_s) || memcmp(m.name.p, p->cursor, m.name.n) <= 0)
		return;
	if (p->looks == (classes ? CLASSES_PAGE : LOOKS_MAX) || p->removed == REMOVALS_MAX) {
		p->stopped = true;
		return;
	}
	p->looks++;
	janitor_look(p, &m, &a);
	if (!p->stopped)
		bytes_copy(p->cursor, m.name.p, m.name.n);
}

/* ---- lists --------------------------------------------------------------------------------- */

/* Asks for the next page.  paged false: all Frameworks at once, from the API server's cache. */
static enum store_outcome janitor_list(struct orphan_kind *p, bool paged, struct arena *a,
                                       struct store_reply *reply)
{
	const struct janitor_options *o = &p->janitor->options;
	bool classes = p->kind == KIND_PRIORITYCLASS;
	STR_AUTO selector = STR_INIT(QUERY_MAX);
	STR_AUTO query = STR_INIT(QUERY_MAX);
	str_printf(&selector, "rest-lit/instance=%s,rest-lit/", o->instance);
	if (classes)
		str_printf(&selector, "namespace=%s", o->namespace_name);
	else
		str_puts(&selector, "creating");
	str_puts(&query, "labelSelector=");
	query_encode(&query, str_view(&selector));
	if (paged)
		str_printf(&query, "&limit=%d", classes ? CLASSES_PAGE : FRAMEWORKS_PAGE);
	else
		str_puts(&query, "&resourceVersion=0");
	if (p->token.n > 0) {
		str_puts(&query, "&continue=");
		query_encode(&query, str_view(&p->token));
	}
	p->pages++;
	struct store_request r = { .verb = STORE_LIST, .kind = p->kind, .query = str_c(&query) };
	return janitor_ask(p->janitor, &r, a, reply);
}

/* Looks at the items of a page.  One that is not finished is read again in the next round. */
static void janitor_read(struct orphan_kind *p, const struct store_reply *reply)
{
	struct janitor *j = p->janitor;
	struct str more = STR_INIT(CONTINUE_MAX);
	j->date_s = reply->date_s;
	struct span items = reply_items(reply->body, &more);
	if (!items.p && j->trouble.n == 0)
		str_puts(&j->trouble, "the answer of the API server is not a list");
	p->stopped = !items.p;
	struct span item;
	for (struct scan walk = scan_begin(items); !p->stopped && scan_item(&walk, &item);)
		janitor_note(p, item);
	if (p->stopped) {
		str_done(&more);
		return;
	}
	str_done(&p->token);
	p->token = more;
	if (more.n == 0) {
		p->cursor[0] = '\0'; /* the next round begins at the start */
		p->stopped = true;
	}
}

static void janitor_work(struct orphan_kind *p)
{
	bool classes = p->kind == KIND_PRIORITYCLASS;
	bool paged = classes || p->token.n;
	bool begun_anew = false;
	p->looks = p->removed = p->pages = 0;
	p->stopped = false;
	while (!p->stopped && p->pages < PAGES_MAX && !(classes && p->looks == CLASSES_PAGE)) {
		ARENA_AUTO a = { 0 };
		const struct store_request r = { .verb = STORE_LIST, .kind = p->kind };
		struct store_reply reply;
		enum store_outcome outcome = janitor_list(p, paged, &a, &reply);
		bool refused = outcome == STORE_REFUSED;
		if (refused && reply.status < 300 && !paged) {
			paged = true; /* it exceeds the limit of the store */
		} else if (refused && reply.status == 410 && p->token.n && !begun_anew) {
			begun_anew = true; /* the token has expired; the cursor skips the first */
			str_done(&p->token);
		} else if (outcome == STORE_OK) {
			janitor_read(p, &reply);
			paged = true;
		} else {
			janitor_stop(p, &r, &reply);
		}
	}
}

/* ---- rounds -------------------------------------------------------------------------------- */

/* Returns the time until the next round, with jitter. */
static int64_t janitor_pause_ms(const struct janitor *j)
{
	int64_t most = j->options.interval_ms > BACKOFF_MS ? j->options.interval_ms : BACKOFF_MS;
	int64_t ms = j->failed ? j->options.interval_ms / SOON : j->options.interval_ms;
	uint8_t noise;
	random_bytes(&noise, sizeof(noise));
	for (unsigned i = 1; i < j->failed && ms < most; i++)
		ms *= 2;
	if (j->failed == 0 &&
	    (j->frameworks.removed == REMOVALS_MAX || j->classes.removed == REMOVALS_MAX))
		ms /= 4;
	if (ms > most)
		ms = most;
	return ms + ms * noise / (JITTER * UINT8_MAX);
}

int64_t janitor_round(struct janitor *j, struct janitor_report *report)
{
	str_done(&j->trouble);
	j->trouble = STR_INIT(TROUBLE_MAX);
	j->unreachable = false;
	janitor_work(&j->frameworks);
	/* Remaining Frameworks come before PriorityClasses, which do no harm. */
	j->classes.removed = 0;
	if (j->options.priority_classes && !j->unreachable && j->frameworks.removed < REMOVALS_MAX)
		janitor_work(&j->classes);
	*report = (struct janitor_report){ .frameworks = j->frameworks.removed,
		                           .classes = j->classes.removed,
		                           .trouble = j->trouble.n ? str_c(&j->trouble) : NULL };
	j->failed = report->trouble ? j->failed + 1 : 0;
	return janitor_pause_ms(j);
}

struct janitor *janitor_new(struct caller *c, const struct janitor_options *o)
{
	struct janitor *j = xcalloc(1, sizeof(*j));
	j->caller = c;
	j->options = *o;
	j->frameworks = (struct orphan_kind){ .janitor = j, .kind = KIND_FRAMEWORK };
	j->classes = (struct orphan_kind){ .janitor = j, .kind = KIND_PRIORITYCLASS };
	return j;
}

void janitor_free(struct janitor *j)
{
	if (j == NULL)
		return;
	str_done(&j->frameworks.token);
	str_done(&j->classes.token);
	str_done(&j->trouble);
	free(j);
}
