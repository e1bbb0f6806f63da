#include "tests/machine/replay.h"

#include <stdlib.h>

#include "tests/lib/jsondiff.h"

/* ---- telling a difference ---- */

void compare_differ(struct comparison *c, const char *what, const char *at, const json_t *want,
                    const json_t *got)
{
	enum { SHOWN = 400 };
	FREE_AUTO char *a =
	    want ? json_dumps(want, JSON_ENCODE_ANY | JSON_SORT_KEYS) : xstrdup("nothing");
	FREE_AUTO char *b =
	    got ? json_dumps(got, JSON_ENCODE_ANY | JSON_SORT_KEYS) : xstrdup("nothing");
	fprintf(stderr, "%s: step %lld: %s%s: recorded %.*s, now %.*s\n", c->file,
	        (long long)json_integer_value(json_object_get(c->scene->step, "step")), what, at,
	        SHOWN, a, SHOWN, b);
	c->different = true;
}

static void compare_values(struct comparison *c, const char *what, json_t *want, json_t *got)
{
	AUTO(differences_done) struct differences d = { 0 };
	json_differences(want, got, &d);
	for (size_t i = 0; i < d.n; i++)
		compare_differ(c, what, d.v[i].at, d.v[i].want, d.v[i].got);
}

/* ---- after ---- */

#define DYING_TEXT "Pod is being deleted by others"
#define GONE_TEXT  "Pod was deleted by others"

static void compare_one_text(json_t *of)
{
	json_t *outcome = json_object_get(json_object_get(of, "attemptStatus"), "completionStatus");
	if (strcmp(reply_text(outcome, "diagnostics"), GONE_TEXT) == 0)
		json_object_set_new(outcome, "diagnostics", json_string(DYING_TEXT));
}

/* Takes the two texts of -101 for one where a race has chosen. */
static void compare_level(const struct comparison *c, json_t *after)
{
	json_t *status = json_object_get(json_object_get(after, "framework"), "status");
	size_t i;
	json_t *role;
	json_array_foreach (symbols_roles(status), i, role) {
		size_t k;
		json_t *task;
		json_array_foreach (json_object_get(role, "taskStatuses"), k, task) {
			json_t *each = json_object_get(task, "each");
			json_int_t index =
			    json_integer_value(json_object_get(task, each ? "from" : "index"));
			FREE_AUTO char *who =
			    xasprintf("%s/%lld", reply_text(role, "name"), (long long)index);
			if (json_object_get(c->raced, who))
				compare_one_text(each ? each : task);
		}
	}
	const json_t *outcome =
	    json_object_get(json_object_get(status, "attemptStatus"), "completionStatus");
	const json_t *trigger = json_object_get(outcome, "trigger");
	FREE_AUTO char *who =
	    xasprintf("%s/%lld", reply_text(trigger, "taskRoleName"),
	              (long long)json_integer_value(json_object_get(trigger, "taskIndex")));
	if (json_object_get(c->raced, who))
		compare_one_text(status);
}

json_t *compare_recorded(struct comparison *c)
{
	json_t *recorded = json_object_get(c->scene->step, "after");
	if (!recorded)
		return NULL;
	json_t *after = json_deep_copy(recorded);
	json_t *framework = json_object_get(after, "framework");
	const json_t *change = json_object_get(framework, "change");
	if (change) {
		if (!patch_apply(&c->status, change))
			compare_differ(c, "the recorded change does not fit", "", change, NULL);
		json_object_set_new(framework, "status", json_deep_copy(c->status));
		json_object_del(framework, "change");
		return after;
	}
	json_decref(c->status);
	const json_t *status = json_object_get(framework, "status");
	c->status = status ? json_deep_copy(status) : json_null();
	return after;
}

/* ---- transitions ---- */

/* The transitions by who, in order.  A task of `race` goes to AttemptDeleting and on in one. */
static json_t *compare_transitions(const json_t *list, const json_t *race)
{
	json_t *all = json_object();
	size_t i;
	json_t *t;
	json_array_foreach (list, i, t) {
		const char *who = json_string_value(json_array_get(t, 0));
		const char *from = json_string_value(json_array_get(t, 1));
		json_t *to = json_array_get(t, 2);
		bool raced = false;
		size_t k;
		json_t *name;
		if (!who || !from)
			continue;
		json_array_foreach (race, k, name)
			raced |= strcmp(json_string_value(name), who) == 0;
		json_t *own = json_object_get(all, who);
		if (!own) {
			own = json_array();
			json_object_set_new(all, who, own);
		}
		json_t *last = json_array_get(own, json_array_size(own) - 1);
		if (raced && last && strcmp(from, "AttemptDeleting") == 0)
			json_array_set(last, 1, to);
		else
			json_array_append_new(own, json_pack("[s, O]", from, to));
	}
	return all;
}

/* ---- requests ---- */

static bool compare_is_raced(const struct comparison *c, const char *pod)
{
	size_t i;
	json_t *name;
	json_array_foreach (json_object_get(c->scene->step, "race"), i, name) {
		/* FRAMEWORK-ROLE-INDEX against ROLE/INDEX */
		FREE_AUTO char *tail = xstrdup(json_string_value(name));
		*strchrnul(tail, '/') = '-';
		size_t n = strlen(tail);
		if (strlen(pod) > n && strcmp(pod + strlen(pod) - n, tail) == 0)
			return true;
	}
	return false;
}

/* The successful requests about ConfigMaps and pods, by object, repeated ones once. */
static json_t *compare_requests(const struct comparison *c, const json_t *list, bool recorded)
{
	enum { ERRORS_FROM = 300 };
	json_t *all = json_object();
	size_t i;
	json_t *q;
	json_array_foreach (list, i, q) {
		const char *verb = reply_text(q, "verb");
		const json_t *object = json_object_get(q, "object");
		const char *name = object ? reply_text(json_object_get(object, "metadata"), "name")
		                          : reply_text(q, "name");
		const json_t *options = json_object_get(q, "options");
		bool deletion = strcmp(verb, "delete") == 0;
		if (strcmp(reply_text(q, "kind"), "Framework") == 0 || !name[0] ||
		    (recorded && json_integer_value(json_object_get(q, "code")) >= ERRORS_FROM) ||
		    (deletion && compare_is_raced(c, name)))
			continue;
		FREE_AUTO char *who = xasprintf("%s %s", reply_text(q, "kind"), name);
		JSON_AUTO *details = NULL;
		if (!recorded)
			details = json_incref(json_object_get(q, "details"));
		else if (deletion)
			details = json_pack(
			    "{s:O, s:b}", "uid",
			    json_object_get(json_object_get(options, "preconditions"), "uid"),
			    "force", json_object_get(options, "gracePeriodSeconds") != NULL);
		else
			details = json_incref(json_object_get(q, "object"));
		json_t *own = json_object_get(all, who);
		if (!own) {
			own = json_array();
			json_object_set_new(all, who, own);
		}
		JSON_AUTO *item = json_pack("[s, O]", verb, details);
		if (!json_equal(item, json_array_get(own, json_array_size(own) - 1)))
			json_array_append(own, item);
	}
	return all;
}

/* Takes from a recorded object what the API server has added to ours: members of maps. */
static void compare_without_defaults(json_t *want, json_t *got)
{
	const char *key;
	json_t *v;
	void *next;
	size_t i;
	if (json_is_object(want) && json_is_object(got)) {
		json_object_foreach_safe(want, next, key, v)
		{
			if (!json_object_get(got, key))
				json_object_del(want, key);
			else
				compare_without_defaults(v, json_object_get(got, key));
		}
	}
	json_array_foreach (want, i, v)
		compare_without_defaults(v, json_array_get(got, i));
}

/* FrameworkController leaves out members that are null. */
static void compare_without_nulls(json_t *ours)
{
	const char *key;
	json_t *v;
	void *next;
	size_t i;
	json_object_foreach_safe(ours, next, key, v)
	{
		if (json_is_null(v))
			json_object_del(ours, key);
		else
			compare_without_nulls(v);
	}
	json_array_foreach (ours, i, v)
		compare_without_nulls(v);
}

/* Takes from our object what the record leaves out: nulls, the kind, and in random traces the spec.
 */
static void compare_without_rest(json_t *ours, json_t *theirs)
{
	json_t *metadata = json_object_get(ours, "metadata");
	const json_t *shown = json_object_get(theirs, "metadata");
	const char *key;
	json_t *v;
	void *next;
	compare_without_nulls(ours);
	json_object_del(ours, "apiVersion");
	json_object_del(ours, "kind");
	if (json_object_get(theirs, "spec"))
		compare_without_defaults(json_object_get(theirs, "spec"),
		                         json_object_get(ours, "spec"));
	else
		json_object_del(ours, "spec");
	if (shown && !json_object_get(shown, "namespace"))
		json_object_foreach_safe(metadata, next, key, v) if (!json_object_get(shown, key))
		    json_object_del(metadata, key);
}

/* A deletion that failed in the step before may have been tried once more before the stimulus. */
static void compare_without_repeated(const struct comparison *c, json_t *want, const json_t *got)
{
	const char *who;
	json_t *list;
	void *next;
	json_object_foreach_safe(want, next, who, list)
	{
		json_t *first = json_array_get(list, 0);
		size_t i;
		json_t *before;
		json_array_foreach (json_object_get(c->repeated, who), i, before) {
			bool same =
			    json_equal(first, before) &&
			    strcmp(json_string_value(json_array_get(first, 0)), "delete") == 0;
			if (same &&
			    !json_equal(first, json_array_get(json_object_get(got, who), 0))) {
				json_array_remove(list, 0);
				break;
			}
		}
		if (json_array_size(list) == 0)
			json_object_del(want, who);
	}
}

static void compare_requests_of(struct comparison *c)
{
	size_t i;
	json_t *item;
	json_array_foreach (json_object_get(c->scene->step, "requests"), i, item)
		if (json_object_get(item, "times"))
			return; /* a trace of many tasks, in short */
	JSON_AUTO *want = compare_requests(c, json_object_get(c->scene->step, "requests"), true);
	JSON_AUTO *got = compare_requests(c, c->scene->requests, false);
	JSON_AUTO *all = json_deep_copy(want);
	compare_without_repeated(c, want, got);
	json_decref(c->repeated);
	c->repeated = json_is_true(json_object_get(c->scene->step, "retrying")) ? TAKE(all) : NULL;
	const char *who;
	json_t *list;
	json_object_foreach (got, who, list)
		json_array_foreach (list, i, item)
			compare_without_rest(
			    json_array_get(item, 1),
			    json_array_get(json_array_get(json_object_get(want, who), i), 1));
	compare_values(c, "requests", want, got);
}

/* ---- steps ---- */

void compare_begin(struct comparison *c, const char *file, const struct scene *scene)
{
	*c = (struct comparison){
		.file = file, .scene = scene, .status = json_null(), .raced = json_object()
	};
}

void compare_end(struct comparison *c)
{
	json_decref(c->status);
	json_decref(c->raced);
	json_decref(c->repeated);
}

static void compare_show(const struct scene *sc, const json_t *after)
{
	FREE_AUTO char *text = json_dumps(after, JSON_COMPACT | JSON_SORT_KEYS);
	printf("{\"step\":%lld,\"after\":%s}\n",
	       (long long)json_integer_value(json_object_get(sc->step, "step")), text);
}

void compare_step(struct comparison *c, bool transitions)
{
	const struct scene *sc = c->scene;
	const json_t *race = json_object_get(sc->step, "race");
	size_t i;
	json_t *name;
	json_array_foreach (race, i, name)
		json_object_set_new(c->raced, json_string_value(name), json_true());
	JSON_AUTO *want = compare_recorded(c);
	JSON_AUTO *got = scene_after(sc);
	symbols_shorten(got, want);
	if (c->shows)
		compare_show(sc, got);
	compare_level(c, got);
	compare_level(c, want);
	if (want)
		compare_values(c, "after", want, got);
	JSON_AUTO *went = compare_transitions(json_object_get(sc->step, "transitions"), race);
	JSON_AUTO *goes = compare_transitions(sc->transitions, race);
	if (transitions)
		compare_values(c, "transitions", went, goes);
	compare_requests_of(c);
}
