/* Lists candidates in pages, confirms each by a GET, and deletes a limited number of them in a
 * round. */
#include "jobs/gc/janitor.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/enc.h"
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
	CLASSES_PAGE = 500, /* a GET for each item */
	/* A limit, because one item can have 256 KiB of annotations. */
	FRAMEWORKS_PAGE = 50,
};

/* ---- requests ------------------------------------------------------------------------------ */

/* Keeps the first trouble, which usually causes the others. */
static void janitor_trouble(struct janitor *j, const struct store_request *r,
                            const struct store_reply *reply)
{
	ERR_AUTO e = { 0 };
	bool first = j->trouble.n == 0;
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

/* The Framework of this name, or whose name the PriorityClass begins with.  false: trouble. */
static bool janitor_get(struct janitor *j, const char *name, bool whole, struct arena *a,
                        struct store_reply *reply)
{
	struct store_request r = { .verb = STORE_GET,
		                   .kind = KIND_FRAMEWORK,
		                   .name = arena_printf(a, "%.*s", HASH, name),
		                   .whole = whole };
	enum store_outcome outcome = janitor_ask(j, &r, a, reply);
	/* An answer that cannot be parsed says that it exists. */
	bool known =
	    outcome == STORE_OK || outcome == STORE_NOT_FOUND || (!whole && reply->status == 200);
	if (!known)
		janitor_trouble(j, &r, reply);
	return known;
}

/* Deletes this version of it, and counts that.  STORE_NOT_FOUND or STORE_CONFLICT: another client
 * was faster; others than these and STORE_OK: there is trouble. */
static enum store_outcome janitor_delete(struct janitor *j, struct orphan_kind *p,
                                         const struct orphan *one, const char *version,
                                         struct arena *a)
{
	struct store_request r = { .verb = STORE_DELETE,
		                   .kind = p == &j->classes ? KIND_PRIORITYCLASS : KIND_FRAMEWORK,
		                   .name = one->name,
		                   .uid = one->uid,
		                   .resource_version = version };
	struct store_reply reply;
	enum store_outcome outcome = janitor_ask(j, &r, a, &reply);
	p->removed += outcome == STORE_OK;
	if (outcome != STORE_OK && outcome != STORE_NOT_FOUND && outcome != STORE_CONFLICT)
		janitor_trouble(j, &r, &reply);
	return outcome;
}

/* Asks for the next page of Frameworks that are being created, or of PriorityClasses.  paged false:
 * all Frameworks at once, from the API server's cache. */
static enum store_outcome janitor_list(struct janitor *j, struct orphan_kind *p, bool paged,
                                       struct arena *a, struct store_reply *reply)
{
	bool classes = p == &j->classes;
	STR_AUTO selector = STR_INIT(QUERY_MAX);
	STR_AUTO query = STR_INIT(QUERY_MAX);
	str_printf(&selector, "rest-lit/instance=%s,rest-lit/", j->instance);
	if (classes)
		str_printf(&selector, "namespace=%s", j->namespace_name);
	else
		str_puts(&selector, "creating");
	str_puts(&query, "labelSelector=");
	query_encode(&query, str_view(&selector));
	if (classes || paged)
		str_printf(&query, "&limit=%d", classes ? CLASSES_PAGE : FRAMEWORKS_PAGE);
	else
		str_puts(&query, "&resourceVersion=0");
	if (p->token.n > 0) {
		str_puts(&query, "&continue=");
		query_encode(&query, str_view(&p->token));
	}
	p->pages++;
	struct store_request r = { .verb = STORE_LIST,
		                   .kind = classes ? KIND_PRIORITYCLASS : KIND_FRAMEWORK,
		                   .query = str_c(&query) };
	return janitor_ask(j, &r, a, reply);
}

/* Hands each item to `each`, and keeps the token.  false: trouble. */
static bool janitor_read(struct janitor *j, struct orphan_kind *p, const struct store_reply *reply,
                         item_callback *each)
{
	str_done(&p->token);
	p->token = STR_INIT(CONTINUE_MAX);
	j->date_s = reply->date_s;
	if (items_each(reply->body, each, j, &p->token) == 0)
		return true;
	if (j->trouble.n == 0)
		str_puts(&j->trouble, "the answer of the API server is not a list");
	return false;
}

/* ---- candidates ---------------------------------------------------------------------------- */

/* The next one that is old enough to be looked at, or NULL. */
static struct orphan *janitor_next(const struct janitor *j, struct orphan_kind *p)
{
	int64_t now = clock_ms();
	while (p->left > 0 && p->looks < LOOKS_MAX && p->removed < REMOVALS_MAX) {
		p->left--;
		if (p->at >= p->orphans.n)
			p->at = 0;
		struct orphan *one = &p->orphans.v[p->at];
		if (one->old || now - one->since_ms >= j->age_ms) {
			p->looks++;
			return one;
		}
		p->at++;
	}
	return NULL;
}

static bool janitor_is_old(const struct janitor *j, const struct marks *m)
{
	return m->created_s > 0 &&
	       j->date_s - m->created_s >= 2 * j->age_ms / 1000; /* date_s is 0 if unknown */
}

/* ---- Frameworks that were created and never started ---------------------------------------- */

static void frameworks_note(void *arg, struct span item)
{
	struct janitor *j = arg;
	ARENA_AUTO a = { 0 };
	struct marks m = marks_of(item, &a);
	if (!orphan_is_listed(&m, &j->home))
		return;
	struct orphan *one = orphan_note(&j->frameworks.orphans, m.name, m.uid, clock_ms());
	if (one == NULL)
		return;
	one->listed = true;
	one->old = janitor_is_old(j, &m);
}

/* Notes those that look so in a list.  false: trouble. */
static bool frameworks_list(struct janitor *j)
{
	struct orphan_kind *p = &j->frameworks;
	str_done(&p->token);
	for (bool paged = false;;) {
		ARENA_AUTO a = { 0 };
		const struct store_request r = { .verb = STORE_LIST, .kind = KIND_FRAMEWORK };
		struct store_reply reply;
		enum store_outcome outcome = janitor_list(j, p, paged, &a, &reply);
		if (outcome == STORE_REFUSED && reply.status < 300 && !paged) {
			paged = true; /* it exceeds the limit of the store */
			continue;
		}
		if (outcome != STORE_OK) {
			janitor_trouble(j, &r, &reply);
			return false;
		}
		if (!janitor_read(j, p, &reply, frameworks_note))
			return false;
		paged = true;
		if (p->token.n == 0 || p->pages >= PAGES_MAX)
			break;
	}
	/* The list is complete: forgets the orphans that it lacks. */
	for (size_t i = p->orphans.n; i-- > 0 && p->token.n == 0;) {
		if (!p->orphans.v[i].listed)
			orphan_forget(&p->orphans, &p->orphans.v[i]);
		else
			p->orphans.v[i].listed = false;
	}
	return true;
}

/* The list gave candidates; the whole object decides. */
static void janitor_check_frameworks(struct janitor *j)
{
	struct orphan_kind *p = &j->frameworks;
	if (!frameworks_list(j))
		return;
	p->left = p->orphans.n;
	for (struct orphan *one; (one = janitor_next(j, p)) != NULL;) {
		ARENA_AUTO a = { 0 };
		struct store_reply reply;
		if (!janitor_get(j, one->name, true, &a, &reply))
			return;
		if (reply.outcome == STORE_NOT_FOUND) {
			orphan_forget(&p->orphans, one);
			continue;
		}
		struct marks m = marks_of(reply.body, &a);
		/* The age counts by the API server's clock: 0 if unknown, so that nothing is old
		 * enough. */
		bool old = m.created_s > 0 && reply.date_s - m.created_s >= j->age_ms / 1000;
		if (!span_is(reply.uid, one->uid) || reply.resource_version.n == 0 ||
		    reply.resource_version.n >= ORPHAN_WORD || !old ||
		    !orphan_is_listed(&m, &j->home) || !ownership_is_untouched(&m)) {
			p->at++;
			continue;
		}
		enum store_outcome gone =
		    janitor_delete(j, p, one, arena_dup(&a, reply.resource_version), &a);
		if (gone == STORE_CONFLICT) {
			p->at++; /* changed meanwhile: the next round checks it again */
			continue;
		}
		if (gone != STORE_OK && gone != STORE_NOT_FOUND)
			return;
		orphan_forget(&p->orphans, one);
	}
}

/* ---- PriorityClasses, which no Framework can own, and whose Framework is gone --------------- */

/* The last one by name: lists of the database are unordered. */
static struct orphan *orphans_last_by_name(const struct orphans *s)
{
	struct orphan *last = s->v;
	for (size_t i = 1; i < s->n; i++) {
		if (strcmp(s->v[i].name, last->name) > 0)
			last = &s->v[i];
	}
	return last;
}

static void classes_note(void *arg, struct span item)
{
	struct janitor *j = arg;
	ARENA_AUTO a = { 0 };
	struct marks m = marks_of(item, &a);
	/* Their names have one length, so bytes compare as texts. */
	if (!orphan_is_class(&m, &j->home) || memcmp(m.name.p, j->cursor, m.name.n) <= 0 ||
	    m.version.n == 0 || m.version.n >= ORPHAN_WORD ||
	    orphan_find(&j->classes.orphans, m.name, m.uid) != NULL)
		return;
	if (j->page.n == ORPHANS_MAX) { /* keeps the first ones by name */
		struct orphan *last = orphans_last_by_name(&j->page);
		if (memcmp(m.name.p, last->name, m.name.n) > 0)
			return;
		orphan_forget(&j->page, last);
	}
	struct orphan *one = orphan_note(&j->page, m.name, m.uid, 0);
	if (one == NULL)
		return;
	bytes_copy(one->version, m.version.p, m.version.n);
	one->old = janitor_is_old(j, &m);
}

/* Fills j->page with the next ones by name; empty at the end.  false: trouble. */
static bool classes_list(struct janitor *j)
{
	struct orphan_kind *p = &j->classes;
	bool begun_anew = false;
	j->page.n = 0;
	for (;;) {
		ARENA_AUTO a = { 0 };
		const struct store_request r = { .verb = STORE_LIST, .kind = KIND_PRIORITYCLASS };
		struct store_reply reply;
		enum store_outcome outcome = janitor_list(j, p, true, &a, &reply);
		if (outcome == STORE_REFUSED && reply.status == 410 && p->token.n > 0 &&
		    !begun_anew) {
			begun_anew =
			    true; /* the token has expired; the cursor skips checked ones */
			str_done(&p->token);
			continue;
		}
		if (outcome != STORE_OK) {
			janitor_trouble(j, &r, &reply);
			return false;
		}
		if (!janitor_read(j, p, &reply, classes_note))
			return false;
		if (j->page.n > 0 || p->token.n == 0 || p->pages >= PAGES_MAX)
			return true;
	}
}

/* The Frameworks of known ones are still gone: they go, too.  false: trouble. */
static bool classes_check_known(struct janitor *j)
{
	struct orphan_kind *p = &j->classes;
	for (struct orphan *one; (one = janitor_next(j, p)) != NULL;) {
		ARENA_AUTO a = { 0 };
		struct store_reply reply;
		if (!janitor_get(j, one->name, false, &a, &reply))
			return false;
		if (reply.outcome == STORE_NOT_FOUND) {
			enum store_outcome gone = janitor_delete(j, p, one, one->version, &a);
			if (gone != STORE_OK && gone != STORE_NOT_FOUND && gone != STORE_CONFLICT)
				return false;
		}
		orphan_forget(&p->orphans, one); /* else a later list shows the current one */
	}
	return true;
}

/* Looks at one page: old ones go at once, the others are noted. */
static void classes_check_page(struct janitor *j)
{
	struct orphan_kind *p = &j->classes;
	for (const struct orphan *one = j->page.v; one < j->page.v + j->page.n; one++) {
		ARENA_AUTO a = { 0 };
		struct store_reply reply;
		if (!janitor_get(j, one->name, false, &a, &reply))
			return;
		if (reply.outcome != STORE_NOT_FOUND)
			continue;
		if (one->old && p->removed < REMOVALS_MAX) {
			enum store_outcome gone = janitor_delete(j, p, one, one->version, &a);
			if (gone != STORE_OK && gone != STORE_NOT_FOUND && gone != STORE_CONFLICT)
				return;
			continue;
		}
		struct orphan *noted =
		    orphan_note(&p->orphans, span_of(one->name), span_of(one->uid), clock_ms());
		if (noted != NULL)
			memcpy(noted->version, one->version, sizeof(noted->version));
	}
	if (p->token.n == 0 && j->page.n < ORPHANS_MAX)
		j->cursor[0] = '\0'; /* the next round begins at the start */
	else if (j->page.n > 0)
		memcpy(j->cursor, orphans_last_by_name(&j->page)->name, sizeof(j->cursor));
}

/* ---- rounds -------------------------------------------------------------------------------- */

/* Returns the time until the next round, with jitter. */
static int64_t janitor_pause_ms(const struct janitor *j)
{
	int64_t most = j->interval_ms > BACKOFF_MS ? j->interval_ms : BACKOFF_MS;
	int64_t ms = j->failed ? j->interval_ms / SOON : j->interval_ms;
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
	struct orphan_kind *const parts[] = { &j->frameworks, &j->classes };
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		parts[i]->looks = parts[i]->removed = parts[i]->pages = 0;
		parts[i]->left = parts[i]->orphans.n;
	}
	janitor_check_frameworks(j);
	/* Remaining Frameworks come before PriorityClasses, which do no harm; of these, known ones
	 * come first. */
	if (j->priority_classes && !j->unreachable && j->frameworks.removed < REMOVALS_MAX &&
	    classes_check_known(j) && j->classes.removed < REMOVALS_MAX && classes_list(j))
		classes_check_page(j);
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
	j->instance = xstrdup(o->instance);
	j->namespace_name = xstrdup(o->namespace_name);
	j->home = (struct home){ j->instance, j->namespace_name };
	j->interval_ms = o->interval_ms;
	j->age_ms = o->age_ms;
	j->priority_classes = o->priority_classes;
	return j;
}

void janitor_free(struct janitor *j)
{
	if (j == NULL)
		return;
	orphans_done(&j->frameworks.orphans);
	orphans_done(&j->classes.orphans);
	orphans_done(&j->page);
	str_done(&j->frameworks.token);
	str_done(&j->classes.token);
	str_done(&j->trouble);
	free(j->namespace_name);
	free(j->instance);
	free(j);
}
