#include "k8s/gc/janitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "k8s/gc/gc_internal.h"
#include "k8s/submit/ownership.h"
#include "k8s/transport/paths.h"
#include "k8s/transport/reply.h"

static const int64_t JITTER = 10; /* a tenth of the time at most */

enum {
	REQUEST_MS = 30000,  /* deadline of a request */
	SOON = 8,            /* divides the interval after the first trouble */
	BACKOFF_MS = 600000, /* maximal pause while there is trouble */
	QUERY_MAX = 3 * CONTINUE_MAX + 1024,
	TROUBLE_MAX = 1024,
};

/* Labels to select in addition to rest-lit/instance.  limit: size of a page; 0: the whole list,
 * from the API server's cache. */
struct selection {
	enum object_kind kind;
	const char *key, *value; /* value NULL: any */
	int limit;
};

static void janitor_check_frameworks(struct janitor *j); /* then janitor_check_classes */
static void janitor_check_classes(struct janitor *j);    /* then janitor_end_round */

/* ---- requests ------------------------------------------------------------------------------ */

static void send_request(struct janitor *j, store_callback *done)
{
	j->request.deadline_ms = clock_ms() + REQUEST_MS;
	j->request.done = done;
	j->request.arg = j;
	store_request(j->store, &j->request);
}

static void janitor_get(struct janitor *j, const char *name, bool whole, store_callback *done)
{
	(void)snprintf(j->name, sizeof(j->name), "%.*s", HASH, name);
	j->request = (struct store_request){
		.verb = STORE_GET,
		.kind = KIND_FRAMEWORK,
		.name = j->name,
		.whole = whole,
	};
	send_request(j, done);
}

static void janitor_delete(struct janitor *j, enum object_kind kind, const struct orphan *one,
                           struct span version, store_callback *done)
{
	(void)snprintf(j->name, sizeof(j->name), "%s", one->name);
	(void)snprintf(j->uid, sizeof(j->uid), "%s", one->uid);
	(void)snprintf(j->version, sizeof(j->version), "%.*s", (int)version.n, version.p);
	j->request = (struct store_request){
		.verb = STORE_DELETE,
		.kind = kind,
		.name = j->name,
		.uid = j->uid,
		.resource_version = j->version,
	};
	send_request(j, done);
}

static void janitor_put_query(struct str *out, const struct janitor *j, const struct part *p,
                              const struct selection *what)
{
	STR_AUTO selector = STR_INIT(QUERY_MAX);
	str_printf(&selector, "rest-lit/instance=%s,%s", j->instance, what->key);
	if (what->value != NULL)
		str_printf(&selector, "=%s", what->value);
	str_puts(out, "labelSelector=");
	query_encode(out, str_view(&selector));
	if (what->limit == 0)
		str_puts(out, "&resourceVersion=0");
	else
		str_printf(out, "&limit=%d", what->limit);
	if (p->token.n > 0) {
		str_puts(out, "&continue=");
		query_encode(out, str_view(&p->token));
	}
}

static void janitor_list(struct janitor *j, struct part *p, const struct selection *what,
                         store_callback *done)
{
	p->pages++;
	str_done(&j->query);
	j->query = STR_INIT(QUERY_MAX);
	janitor_put_query(&j->query, j, p, what);
	j->request = (struct store_request){
		.verb = STORE_LIST,
		.kind = what->kind,
		.query = str_c(&j->query),
	};
	send_request(j, done);
}

/* ---- trouble ------------------------------------------------------------------------------- */

/* Keeps the first trouble, which usually causes the others. */
static void janitor_complain(struct janitor *j, const char *text)
{
	if (j->trouble.n > 0)
		return;
	str_done(&j->trouble);
	j->trouble = STR_INIT(TROUBLE_MAX);
	str_puts(&j->trouble, text);
}

static bool janitor_trouble(struct janitor *j, const struct store_reply *reply)
{
	ERR_AUTO e = { 0 };
	if (reply->outcome == STORE_REFUSED) {
		explain_refusal(&e, &j->request, reply);
		janitor_complain(j, err_msg(&e));
		return true;
	}
	STR_AUTO text = STR_INIT(TROUBLE_MAX);
	str_puts(&text, "the API server could not be reached in time: ");
	str_span(&text, reply->message);
	janitor_complain(j, str_c(&text));
	return false;
}

static int janitor_read(struct janitor *j, struct part *p, const struct store_reply *reply,
                        item_callback *each)
{
	str_done(&p->token);
	p->token = STR_INIT(CONTINUE_MAX);
	j->date_s = reply->date_s;
	if (items_each(reply->body, each, j, &p->token) == 0)
		return 0;
	janitor_complain(j, "the answer of the API server is not a list");
	return -1;
}

/* ---- orphans ------------------------------------------------------------------------------- */

static struct orphan *janitor_next(const struct janitor *j, struct part *p)
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

static bool janitor_is_old(const struct janitor *j, const json_t *object)
{
	int64_t made_s = ownership_created_s(object);
	return made_s > 0 &&
	       j->date_s - made_s >= 2 * j->age_ms / 1000; /* date_s is 0 if unknown */
}

static void janitor_forget(struct part *p)
{
	orphan_forget(&p->orphans, &p->orphans.v[p->at]);
}

/* ---- rounds -------------------------------------------------------------------------------- */

static int64_t with_jitter(int64_t ms)
{
	uint8_t noise = 0;
	ssize_t n = getrandom(&noise, sizeof(noise), GRND_NONBLOCK);
	(void)n; /* jitter is optional */
	return ms + ms * noise / (JITTER * UINT8_MAX);
}

static int64_t pause_ms(const struct janitor *j)
{
	int64_t most = j->interval_ms > BACKOFF_MS ? j->interval_ms : BACKOFF_MS;
	int64_t ms = j->failed ? j->interval_ms / SOON : j->interval_ms;
	for (unsigned i = 1; i < j->failed && ms < most; i++)
		ms *= 2;
	if (j->failed == 0 &&
	    (j->frameworks.removed == REMOVALS_MAX || j->classes.removed == REMOVALS_MAX))
		ms /= 4;
	return with_jitter(ms < most ? ms : most);
}

static void janitor_end_round(struct janitor *j)
{
	struct janitor_report report = {
		.frameworks = j->frameworks.removed,
		.classes = j->classes.removed,
		.trouble = j->trouble.n > 0 ? str_c(&j->trouble) : NULL,
	};
	j->failed = report.trouble ? j->failed + 1 : 0;
	j->next_ms = clock_ms() + pause_ms(j);
	j->busy = false;
	j->report(j->arg, &report);
}

static void begin_part(struct part *p)
{
	p->looks = p->removed = p->pages = 0;
	p->left = p->orphans.n;
}

void janitor_run_once(struct janitor *j)
{
	if (j->busy || clock_ms() < j->next_ms)
		return;
	j->busy = true;
	str_done(&j->trouble);
	begin_part(&j->frameworks);
	begin_part(&j->classes);
	janitor_check_frameworks(j);
}

int janitor_timeout_ms(const struct janitor *j)
{
	int64_t ms = j->next_ms - clock_ms();
	if (j->busy)
		return -1;
	return ms < 0 ? 0 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

struct janitor *janitor_new(struct store *s, const struct janitor_options *o,
                            janitor_callback *report, void *arg)
{
	struct janitor *j = xcalloc(1, sizeof(*j));
	j->store = s;
	j->instance = xstrdup(o->instance);
	j->namespace_name = xstrdup(o->namespace_name);
	j->home = (struct home){ j->instance, j->namespace_name };
	j->interval_ms = o->interval_ms;
	j->age_ms = o->age_ms;
	j->priority_classes = o->priority_classes;
	j->report = report;
	j->arg = arg;
	return j;
}

static void part_done(struct part *p)
{
	orphans_done(&p->orphans);
	str_done(&p->token);
}

void janitor_free(struct janitor *j)
{
	if (j == NULL)
		return;
	part_done(&j->frameworks);
	part_done(&j->classes);
	orphans_done(&j->page);
	str_done(&j->trouble);
	str_done(&j->query);
	free(j->namespace_name);
	free(j->instance);
	free(j);
}

/*
 * PriorityClasses, which no Framework can own, and whose Framework is gone (functions without the
 * prefix janitor_):
 *
 *	look ──► absent_again ──► removed ──► look ...           known orphans, again
 *	  └─► list_classes ──► listed ──► seek ──► sought ──► seek ...      one page
 *	                                             └─► removed_at_once ──► seek ...  old ones
 */

enum { PAGE = 500 }; /* a GET for each item */

static store_callback absent_again, janitor_removed, removed_at_once, janitor_listed, sought;

/* The last one by name: lists of a directory are unordered. */
static struct orphan *last_of(const struct orphans *s)
{
	struct orphan *last = s->v;
	for (size_t i = 1; i < s->n; i++) {
		if (strcmp(s->v[i].name, last->name) > 0)
			last = &s->v[i];
	}
	return last;
}

/* ---- the Framework exists -------------------------------------------------------------------- */

/* The Framework exists; also if the answer cannot be parsed. */
static bool janitor_is_there(const struct store_reply *framework)
{
	return framework->outcome == STORE_OK || framework->status == 200;
}

/* Asks for the Framework of the next PriorityClass of the page. */
static void janitor_seek(struct janitor *j)
{
	if (j->page_at < j->page.n) {
		janitor_get(j, j->page.v[j->page_at].name, false, sought);
		return;
	}
	if (j->classes.token.n == 0 && j->page.n < ORPHANS_MAX)
		j->cursor[0] = '\0'; /* the next round begins at the start */
	else if (j->page.n > 0)
		memcpy(j->cursor, last_of(&j->page)->name, sizeof(j->cursor));
	janitor_end_round(j);
}

static void sought(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	const struct orphan *class = &j->page.v[j->page_at];
	if (reply->outcome == STORE_NOT_FOUND && class->old && j->classes.removed < REMOVALS_MAX) {
		janitor_delete(j, KIND_PRIORITYCLASS, class, span_of(class->version),
		               removed_at_once);
		return;
	}
	if (reply->outcome == STORE_NOT_FOUND) {
		struct orphan *one =
		    orphan_note(&j->classes.orphans, class->name, class->uid, clock_ms());
		if (one != NULL)
			memcpy(one->version, class->version, sizeof(one->version));
	} else if (!janitor_is_there(reply)) {
		(void)janitor_trouble(j, reply);
		janitor_end_round(j);
		return;
	}
	j->page_at++;
	janitor_seek(j);
}

static void removed_at_once(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	bool ok = reply->outcome == STORE_OK;
	if (!ok && reply->outcome != STORE_NOT_FOUND && reply->outcome != STORE_CONFLICT) {
		(void)janitor_trouble(j, reply);
		janitor_end_round(j);
		return;
	}
	j->classes.removed += ok;
	j->page_at++;
	janitor_seek(j);
}

/* ---- the next page ------------------------------------------------------------------------- */

static void janitor_note(void *arg, const json_t *item)
{
	struct janitor *j = arg;
	const json_t *meta = json_object_get(item, "metadata");
	const char *name = reply_text(meta, "name");
	const char *uid = reply_text(meta, "uid");
	const char *version = reply_text(meta, "resourceVersion");
	if (!orphan_is_class(item, &j->home) || strcmp(name, j->cursor) <= 0 ||
	    version[0] == '\0' || strlen(version) >= ORPHAN_WORD ||
	    orphan_find(&j->classes.orphans, name, uid) != NULL)
		return;
	if (j->page.n == ORPHANS_MAX) { /* keeps the first ones by name */
		struct orphan *last = last_of(&j->page);
		if (strcmp(name, last->name) > 0)
			return;
		orphan_forget(&j->page, last);
	}
	struct orphan *one = orphan_note(&j->page, name, uid, 0);
	if (one == NULL)
		return;
	(void)snprintf(one->version, sizeof(one->version), "%s", version);
	one->old = janitor_is_old(j, item);
}

static void janitor_list_classes(struct janitor *j)
{
	j->page.n = j->page_at = 0;
	janitor_list(j, &j->classes,
	             &(struct selection){
			 .kind = KIND_PRIORITYCLASS,
			 .key = "rest-lit/namespace",
			 .value = j->namespace_name,
			 .limit = PAGE,
		     },
	             janitor_listed);
}

static void janitor_listed(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	struct part *p = &j->classes;
	bool may_list = p->pages < PAGES_MAX;
	if (reply->outcome == STORE_REFUSED && reply->status == 410 && p->token.n > 0 &&
	    !j->begun_anew) {
		j->begun_anew = true; /* the token has expired; the cursor skips checked ones */
		str_done(&p->token);
		janitor_list_classes(j);
		return;
	}
	if (reply->outcome != STORE_OK) {
		(void)janitor_trouble(j, reply);
		janitor_end_round(j);
		return;
	}
	if (janitor_read(j, p, reply, janitor_note) < 0)
		janitor_end_round(j);
	else if (j->page.n == 0 && p->token.n > 0 && may_list)
		janitor_list_classes(j);
	else
		janitor_seek(j);
}

/* ---- known orphans ----------------------------------------------------------------------- */

static void janitor_look(struct janitor *j)
{
	const struct orphan *one = janitor_next(j, &j->classes);
	if (one != NULL)
		janitor_get(j, one->name, false, absent_again);
	else if (j->classes.removed < REMOVALS_MAX)
		janitor_list_classes(j);
	else
		janitor_end_round(j); /* known orphans come first */
}

static void absent_again(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	const struct orphan *one = &j->classes.orphans.v[j->classes.at];
	if (reply->outcome == STORE_NOT_FOUND) {
		janitor_delete(j, KIND_PRIORITYCLASS, one, span_of(one->version), janitor_removed);
	} else if (janitor_is_there(reply)) {
		janitor_forget(&j->classes);
		janitor_look(j);
	} else {
		(void)janitor_trouble(j, reply);
		janitor_end_round(j);
	}
}

static void janitor_removed(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	bool ok = reply->outcome == STORE_OK;
	/* Another client removed or changed it; a later list shows the current one. */
	if (ok || reply->outcome == STORE_NOT_FOUND || reply->outcome == STORE_CONFLICT) {
		j->classes.removed += ok;
		janitor_forget(&j->classes);
		janitor_look(j);
	} else {
		(void)janitor_trouble(j, reply);
		janitor_end_round(j);
	}
}

static void janitor_check_classes(struct janitor *j)
{
	j->begun_anew = false;
	if (j->priority_classes)
		janitor_look(j);
	else
		janitor_end_round(j);
}

/*
 * Frameworks that were created and never started:
 *
 *	unstarted_list ──► unstarted_listed ──► unstarted_look ──► janitor_looked ──►
 *	unstarted_removed ──► unstarted_look ...
 *
 * The list gives candidates; the whole object decides.
 */

/* For lists that are too large in one piece: an item can have 256 KiB of annotations. */
enum { UNSTARTED_PAGE = 50 };

static store_callback unstarted_listed, janitor_looked, unstarted_removed;

/* Remaining Frameworks come before PriorityClasses, which do no harm. */
static void leave(struct janitor *j, bool go_on)
{
	if (go_on && j->frameworks.removed < REMOVALS_MAX)
		janitor_check_classes(j);
	else
		janitor_end_round(j);
}

static void unstarted_look(struct janitor *j)
{
	const struct orphan *one = janitor_next(j, &j->frameworks);
	if (one != NULL)
		janitor_get(j, one->name, true, janitor_looked);
	else
		leave(j, true);
}

static bool may_go(const struct janitor *j, const struct orphan *one,
                   const struct store_reply *reply)
{
	JSON_AUTO *framework = reply_parse(reply->body);
	return span_is(reply->uid, one->uid) && reply->resource_version.n > 0 &&
	       reply->resource_version.n < ORPHAN_WORD &&
	       orphan_is_framework(framework, &j->home, reply->date_s, j->age_ms / 1000);
}

static void janitor_looked(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	struct part *p = &j->frameworks;
	const struct orphan *one = &p->orphans.v[p->at];
	if (reply->outcome == STORE_NOT_FOUND) {
		janitor_forget(p);
	} else if (reply->outcome != STORE_OK) {
		leave(j, janitor_trouble(j, reply));
		return;
	} else if (may_go(j, one, reply)) {
		janitor_delete(j, KIND_FRAMEWORK, one, reply->resource_version, unstarted_removed);
		return;
	} else {
		p->at++;
	}
	unstarted_look(j);
}

static void unstarted_removed(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	struct part *p = &j->frameworks;
	if (reply->outcome == STORE_OK || reply->outcome == STORE_NOT_FOUND) {
		p->removed += reply->outcome == STORE_OK; /* else another client removed it */
		janitor_forget(p);
	} else if (reply->outcome == STORE_CONFLICT) {
		p->at++; /* changed meanwhile: the next round checks it again */
	} else {
		leave(j, janitor_trouble(j, reply));
		return;
	}
	unstarted_look(j);
}

static void unstarted_note(void *arg, const json_t *item)
{
	struct janitor *j = arg;
	const json_t *meta = json_object_get(item, "metadata");
	if (!orphan_is_listed(item, &j->home))
		return;
	struct orphan *one = orphan_note(&j->frameworks.orphans, reply_text(meta, "name"),
	                                 reply_text(meta, "uid"), clock_ms());
	if (one == NULL)
		return;
	one->listed = true;
	one->old = janitor_is_old(j, item);
}

static void unstarted_list(struct janitor *j)
{
	janitor_list(j, &j->frameworks,
	             &(struct selection){
			 .kind = KIND_FRAMEWORK,
			 .key = "rest-lit/creating",
			 .limit = j->paged ? UNSTARTED_PAGE : 0,
		     },
	             unstarted_listed);
}

/* The answer exceeds the limit of the store. */
static bool is_too_much(const struct store_reply *reply)
{
	return reply->outcome == STORE_REFUSED && reply->status < 300;
}

static void unstarted_listed(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	struct part *p = &j->frameworks;
	if (is_too_much(reply) && !j->paged) {
		j->paged = true;
		unstarted_list(j);
		return;
	}
	if (reply->outcome != STORE_OK) {
		leave(j, janitor_trouble(j, reply));
		return;
	}
	if (janitor_read(j, p, reply, unstarted_note) < 0) {
		leave(j, true);
		return;
	}
	if (p->token.n > 0 && p->pages < PAGES_MAX) {
		j->paged = true;
		unstarted_list(j);
		return;
	}
	if (p->token.n == 0)
		orphans_keep_listed(&p->orphans);
	p->left = p->orphans.n;
	unstarted_look(j);
}

static void janitor_check_frameworks(struct janitor *j)
{
	j->paged = false;
	str_done(&j->frameworks.token);
	unstarted_list(j);
}
