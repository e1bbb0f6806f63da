/*
 * Frameworks that were begun and never started:
 *
 *	list ──► listed ──► look ──► looked ──► removed ──► look ...
 *
 * A list says what is suspected, the object itself whether it may be removed.
 */
#include "base/clock.h"
#include "k8s/gc/janitor_parts.h"

enum { PAGE = 50 }; /* only if all at once are too much: each may have annotations of 256 KiB */

static store_callback listed, looked, removed;

/* What is left of very much to do comes before PriorityClasses, which do no harm. */
static void leave(struct janitor *j, bool go_on)
{
	if (go_on && j->frameworks.removed < REMOVALS_MAX)
		janitor_sweep_classes(j);
	else
		janitor_end_round(j);
}

static void look(struct janitor *j)
{
	const struct suspect *one = janitor_next(j, &j->frameworks);
	if (one != NULL)
		janitor_get(j, one->name, true, looked);
	else
		leave(j, true);
}

static bool may_go(const struct janitor *j, const struct suspect *one,
                   const struct store_reply *reply)
{
	JSON_AUTO *framework = reply_parse(reply->body);
	return span_is(reply->uid, one->uid) && reply->resource_version.n > 0 &&
	       reply->resource_version.n < SUSPECT_WORD &&
	       leftover_framework(framework, &j->home, reply->date_s, j->age_ms / 1000);
}

static void looked(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	struct part *p = &j->frameworks;
	const struct suspect *one = &p->suspects.v[p->at];
	if (reply->outcome == STORE_NOT_FOUND) {
		janitor_forget(p);
	} else if (reply->outcome != STORE_OK) {
		leave(j, janitor_trouble(j, reply));
		return;
	} else if (may_go(j, one, reply)) {
		janitor_delete(j, KIND_FRAMEWORK, one, reply->resource_version, removed);
		return;
	} else {
		p->at++;
	}
	look(j);
}

static void removed(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	struct part *p = &j->frameworks;
	if (reply->outcome == STORE_OK || reply->outcome == STORE_NOT_FOUND) {
		p->removed += reply->outcome == STORE_OK; /* else somebody was faster */
		janitor_forget(p);
	} else if (reply->outcome == STORE_CONFLICT) {
		p->at++; /* somebody has changed it: the next round looks again */
	} else {
		leave(j, janitor_trouble(j, reply));
		return;
	}
	look(j);
}

static void note(void *arg, const json_t *item)
{
	struct janitor *j = arg;
	const json_t *meta = json_object_get(item, "metadata");
	if (!leftover_listed(item, &j->home))
		return;
	struct suspect *one = suspect_note(&j->frameworks.suspects, reply_text(meta, "name"),
	                                   reply_text(meta, "uid"), clock_ms());
	if (one == NULL)
		return;
	one->listed = true;
	one->old = janitor_is_old(j, item);
}

static void list(struct janitor *j)
{
	janitor_list(j, &j->frameworks,
	             &(struct selection){
			 .kind = KIND_FRAMEWORK,
			 .key = "rest-lit/creating",
			 .limit = j->paged ? PAGE : 0,
		     },
	             listed);
}

/* The answer was larger than what the store takes. */
static bool is_too_much(const struct store_reply *reply)
{
	return reply->outcome == STORE_REFUSED && reply->status < 300;
}

static void listed(void *arg, const struct store_reply *reply)
{
	struct janitor *j = arg;
	struct part *p = &j->frameworks;
	if (is_too_much(reply) && !j->paged) {
		j->paged = true;
		list(j);
		return;
	}
	if (reply->outcome != STORE_OK) {
		leave(j, janitor_trouble(j, reply));
		return;
	}
	if (janitor_read(j, p, reply, note) < 0) {
		leave(j, true);
		return;
	}
	if (p->token.n > 0 && p->pages < PAGES_MAX) {
		j->paged = true;
		list(j);
		return;
	}
	if (p->token.n == 0)
		suspects_keep_listed(&p->suspects);
	p->left = p->suspects.n;
	look(j);
}

void janitor_sweep_frameworks(struct janitor *j)
{
	j->paged = false;
	str_done(&j->frameworks.token);
	list(j);
}
