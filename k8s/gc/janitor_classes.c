/*
 * PriorityClasses, which no Framework can own, and whose Framework is gone:
 *
 *	look ──► absent_again ──► removed ──► look ...      those that were met without one before
 *	  └─► list ──► listed ──► seek ──► sought ──► seek ...                 those of one page
 *	                                     └─► removed_at_once ──► seek ...    and are old
 */
#include <stdio.h>

#include "base/clock.h"
#include "k8s/gc/janitor_parts.h"

enum { PAGE = 500 }; /* and as many GETs */

static store_callback absent_again, removed, removed_at_once, listed, sought;

/* By name; a directory's list is in no order. */
static struct suspect *last_of(const struct suspects *s)
{
	struct suspect *last = s->v;
	for (size_t i = 1; i < s->n; i++) {
		if (strcmp(s->v[i].name, last->name) > 0)
			last = &s->v[i];
	}
	return last;
}

/* ---- has it a Framework? ------------------------------------------------------------------- */

/* Even if what was answered cannot be read. */
static bool is_there(const struct store_reply *framework)
{
	return framework->outcome == STORE_OK || framework->status == 200;
}

/* Whose Framework has not been looked for yet: those of the page at hand. */
static void seek(struct janitor *j)
{
	if (j->page_at < j->page.n) {
		janitor_get(j, j->page.v[j->page_at].name, false, sought);
		return;
	}
	if (j->classes.token.n == 0 && j->page.n < SUSPECTS_MAX)
		j->cursor[0] = '\0'; /* from the start again, in the next round */
	else if (j->page.n > 0)
		memcpy(j->cursor, last_of(&j->page)->name, sizeof(j->cursor));
	janitor_end_round(j);
}

static void sought(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	const struct suspect *class = &j->page.v[j->page_at];
	if (reply->outcome == STORE_NOT_FOUND && class->old && j->classes.removed < REMOVALS_MAX) {
		janitor_delete(j, KIND_PRIORITYCLASS, class, span_of(class->version),
		               removed_at_once);
		return;
	}
	if (reply->outcome == STORE_NOT_FOUND) {
		struct suspect *one =
		    suspect_note(&j->classes.suspects, class->name, class->uid, clock_ms());
		if (one != NULL)
			memcpy(one->version, class->version, sizeof(one->version));
	} else if (!is_there(reply)) {
		(void)janitor_trouble(j, reply); /* it is the last thing in a round */
		janitor_end_round(j);
		return;
	}
	j->page_at++;
	seek(j);
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
	seek(j);
}

/* ---- the next page ------------------------------------------------------------------------- */

static void note(void *arg, const json_t *item)
{
	struct janitor *j = arg;
	const json_t *meta = json_object_get(item, "metadata");
	const char *name = reply_text(meta, "name");
	const char *uid = reply_text(meta, "uid");
	const char *version = reply_text(meta, "resourceVersion");
	if (!leftover_class(item, &j->home) || strcmp(name, j->cursor) <= 0 || version[0] == '\0' ||
	    strlen(version) >= SUSPECT_WORD ||
	    suspect_find(&j->classes.suspects, name, uid) != NULL)
		return;
	if (j->page.n == SUSPECTS_MAX) { /* the first ones by name; then those behind them */
		struct suspect *last = last_of(&j->page);
		if (strcmp(name, last->name) > 0)
			return;
		suspect_forget(&j->page, last);
	}
	struct suspect *one = suspect_note(&j->page, name, uid, 0);
	if (one == NULL)
		return;
	(void)snprintf(one->version, sizeof(one->version), "%s", version);
	one->old = janitor_is_old(j, item);
}

static void list(struct janitor *j)
{
	j->page.n = j->page_at = 0;
	janitor_list(j, &j->classes,
	             &(struct selection){
			 .kind = KIND_PRIORITYCLASS,
			 .key = "rest-lit/namespace",
			 .value = j->namespace_name,
			 .limit = PAGE,
		     },
	             listed);
}

static void listed(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	struct part *p = &j->classes;
	bool may_list = p->pages < PAGES_MAX;
	if (reply->outcome == STORE_REFUSED && reply->status == 410 && p->token.n > 0 &&
	    !j->begun_anew) {
		j->begun_anew = true; /* the token is too old; the cursor says what is behind us */
		str_done(&p->token);
		list(j);
		return;
	}
	if (reply->outcome != STORE_OK) {
		(void)janitor_trouble(j, reply);
		janitor_end_round(j);
		return;
	}
	if (janitor_read(j, p, reply, note) < 0)
		janitor_end_round(j);
	else if (j->page.n == 0 && p->token.n > 0 && may_list)
		list(j);
	else
		seek(j);
}

/* ---- those that had none before ------------------------------------------------------------ */

static void look(struct janitor *j)
{
	const struct suspect *one = janitor_next(j, &j->classes);
	if (one != NULL)
		janitor_get(j, one->name, false, absent_again);
	else if (j->classes.removed < REMOVALS_MAX)
		list(j);
	else
		janitor_end_round(j); /* those that are known first */
}

static void absent_again(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	const struct suspect *one = &j->classes.suspects.v[j->classes.at];
	if (reply->outcome == STORE_NOT_FOUND) {
		janitor_delete(j, KIND_PRIORITYCLASS, one, span_of(one->version), removed);
	} else if (is_there(reply)) {
		janitor_forget(&j->classes);
		look(j);
	} else {
		(void)janitor_trouble(j, reply);
		janitor_end_round(j);
	}
}

static void removed(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	bool ok = reply->outcome == STORE_OK;
	/* Somebody was faster, or has changed it; then a list will show it as it is now. */
	if (ok || reply->outcome == STORE_NOT_FOUND || reply->outcome == STORE_CONFLICT) {
		j->classes.removed += ok;
		janitor_forget(&j->classes);
		look(j);
	} else {
		(void)janitor_trouble(j, reply);
		janitor_end_round(j);
	}
}

void janitor_sweep_classes(struct janitor *j)
{
	j->begun_anew = false;
	if (j->priority_classes)
		look(j);
	else
		janitor_end_round(j);
}
