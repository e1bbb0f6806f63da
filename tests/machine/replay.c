/*
 * replay [--config-dir DIR] FILE...
 *
 * Feeds the stimuli of recorded traces to the machine.  For each step it prints a line with the
 * number and what is there then, in the form of the traces, and compares that, the transitions of
 * the Framework and of each task, and the objects that were created and deleted, with the record.
 * Where that depends on chance, the record says so, and the comparison follows its rules:
 *
 * - race: pods that go at once.  The controller may see that such a pod is dying, or only that it
 *   is gone; so a task may pass AttemptDeleting, and the diagnostics of -101 have two texts.
 * - how many updates of the status there are, and the order of requests for different objects, is
 *   not compared.
 * - nondeterministic: a second recording ended otherwise, as a sync may still go by the spec before
 *   a patch.  Which spec the first sync of such a step sees is taken from the record.
 *
 * Exit status: 0 all are equal, 1 there is a difference (printed to stderr), 2 a file cannot be
 * read.
 */
#include "tests/machine/replay.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/jsondiff.h"

enum { EXIT_EQUAL, EXIT_DIFFERENT, EXIT_UNREADABLE };

struct replay {
	const char *file;
	struct stage stage;
	json_t *status;   /* of the record, with all changes applied */
	json_t *repeated; /* requests of the step before that were still being repeated */
	json_t *raced;    /* tasks whose -101 may have either text, as members */
	bool different;
};

/* ---- telling a difference ---- */

static void replay_differ(struct replay *r, const char *what, const char *at, const json_t *want,
                          const json_t *got)
{
	enum { SHOWN = 400 };
	FREE_AUTO char *a =
	    want ? json_dumps(want, JSON_ENCODE_ANY | JSON_SORT_KEYS) : xstrdup("nothing");
	FREE_AUTO char *b =
	    got ? json_dumps(got, JSON_ENCODE_ANY | JSON_SORT_KEYS) : xstrdup("nothing");
	fprintf(stderr, "%s: step %lld: %s%s: recorded %.*s, now %.*s\n", r->file,
	        (long long)json_integer_value(json_object_get(r->stage.step, "step")), what, at,
	        SHOWN, a, SHOWN, b);
	r->different = true;
}

static void replay_compare(struct replay *r, const char *what, json_t *want, json_t *got)
{
	struct differences d = { 0 };
	json_differences(want, got, &d);
	for (size_t i = 0; i < d.n; i++)
		replay_differ(r, what, d.v[i].at, d.v[i].want, d.v[i].got);
	differences_done(&d);
}

/* ---- after ---- */

#define DYING_TEXT "Pod is being deleted by others"
#define GONE_TEXT  "Pod was deleted by others"

static void replay_one_text(json_t *of)
{
	json_t *outcome = json_object_get(json_object_get(of, "attemptStatus"), "completionStatus");
	if (strcmp(reply_text(outcome, "diagnostics"), GONE_TEXT) == 0)
		json_object_set_new(outcome, "diagnostics", json_string(DYING_TEXT));
}

/* Takes the two texts of -101 for one where a race has chosen. */
static void replay_level(const struct replay *r, json_t *after)
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
			if (json_object_get(r->raced, who))
				replay_one_text(each ? each : task);
		}
	}
	const json_t *outcome =
	    json_object_get(json_object_get(status, "attemptStatus"), "completionStatus");
	const json_t *trigger = json_object_get(outcome, "trigger");
	FREE_AUTO char *who =
	    xasprintf("%s/%lld", reply_text(trigger, "taskRoleName"),
	              (long long)json_integer_value(json_object_get(trigger, "taskIndex")));
	if (json_object_get(r->raced, who))
		replay_one_text(status);
}

/* The recorded `after` of this step, with its change applied; NULL: there is none.  New reference.
 */
static json_t *replay_recorded(struct replay *r)
{
	json_t *recorded = json_object_get(r->stage.step, "after");
	if (!recorded)
		return NULL;
	json_t *after = json_deep_copy(recorded);
	json_t *framework = json_object_get(after, "framework");
	const json_t *change = json_object_get(framework, "change");
	if (change) {
		if (!patch_apply(&r->status, change))
			replay_differ(r, "the recorded change does not fit", "", change, NULL);
		json_object_set_new(framework, "status", json_deep_copy(r->status));
		json_object_del(framework, "change");
		return after;
	}
	json_decref(r->status);
	const json_t *status = json_object_get(framework, "status");
	r->status = status ? json_deep_copy(status) : json_null();
	return after;
}

/* ---- transitions ---- */

/* The transitions by who, in order.  A task of `race` goes to AttemptDeleting and on in one. */
static json_t *replay_transitions(const json_t *list, const json_t *race)
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

static bool replay_is_raced(const struct replay *r, const char *pod)
{
	size_t i;
	json_t *name;
	json_array_foreach (json_object_get(r->stage.step, "race"), i, name) {
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
static json_t *replay_requests(const struct replay *r, const json_t *list, bool recorded)
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
		    (deletion && replay_is_raced(r, name)))
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
static void replay_without_defaults(json_t *want, json_t *got)
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
				replay_without_defaults(v, json_object_get(got, key));
		}
	}
	json_array_foreach (want, i, v)
		replay_without_defaults(v, json_array_get(got, i));
}

/* FrameworkController leaves out members that are null. */
static void replay_without_nulls(json_t *ours)
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
			replay_without_nulls(v);
	}
	json_array_foreach (ours, i, v)
		replay_without_nulls(v);
}

/* Takes from our object what the record leaves out: nulls, the kind, and in random traces the spec.
 */
static void replay_without_rest(json_t *ours, json_t *theirs)
{
	json_t *metadata = json_object_get(ours, "metadata");
	const json_t *shown = json_object_get(theirs, "metadata");
	const char *key;
	json_t *v;
	void *next;
	replay_without_nulls(ours);
	json_object_del(ours, "apiVersion");
	json_object_del(ours, "kind");
	if (json_object_get(theirs, "spec"))
		replay_without_defaults(json_object_get(theirs, "spec"),
		                        json_object_get(ours, "spec"));
	else
		json_object_del(ours, "spec");
	if (shown && !json_object_get(shown, "namespace"))
		json_object_foreach_safe(metadata, next, key, v) if (!json_object_get(shown, key))
		    json_object_del(metadata, key);
}

/* A deletion that failed in the step before may have been tried once more before the stimulus. */
static void replay_without_repeated(const struct replay *r, json_t *want, const json_t *got)
{
	const char *who;
	json_t *list;
	json_object_foreach (want, who, list) {
		json_t *first = json_array_get(list, 0);
		size_t i;
		json_t *before;
		json_array_foreach (json_object_get(r->repeated, who), i, before) {
			bool same =
			    json_equal(first, before) &&
			    strcmp(json_string_value(json_array_get(first, 0)), "delete") == 0;
			if (same &&
			    !json_equal(first, json_array_get(json_object_get(got, who), 0))) {
				json_array_remove(list, 0);
				break;
			}
		}
	}
}

static void replay_compare_requests(struct replay *r)
{
	const struct stage *st = &r->stage;
	size_t i;
	json_t *item;
	json_array_foreach (json_object_get(st->step, "requests"), i, item)
		if (json_object_get(item, "times"))
			return; /* a trace of many tasks, in short */
	JSON_AUTO *want = replay_requests(r, json_object_get(st->step, "requests"), true);
	JSON_AUTO *got = replay_requests(r, st->requests, false);
	JSON_AUTO *all = json_deep_copy(want);
	replay_without_repeated(r, want, got);
	json_decref(r->repeated);
	r->repeated = json_is_true(json_object_get(st->step, "retrying")) ? TAKE(all) : NULL;
	const char *who;
	json_t *list;
	json_object_foreach (got, who, list)
		json_array_foreach (list, i, item)
			replay_without_rest(
			    json_array_get(item, 1),
			    json_array_get(json_array_get(json_object_get(want, who), i), 1));
	replay_compare(r, "requests", want, got);
}

/* ---- files ---- */

static void replay_step(struct replay *r, const json_t *step)
{
	struct stage *st = &r->stage;
	ERR_AUTO e = { 0 };
	size_t i;
	json_t *name;
	const json_t *race = json_object_get(step, "race");
	json_array_foreach (race, i, name)
		json_object_set_new(r->raced, json_string_value(name), json_true());
	if (stage_play(st, step, &e) < 0) {
		JSON_AUTO *says = json_string(err_msg(&e));
		replay_differ(r, "cannot be played", "", NULL, says);
		return;
	}
	JSON_AUTO *want = replay_recorded(r);
	JSON_AUTO *got = stage_after(st);
	symbols_shorten(got, want);
	FREE_AUTO char *text = json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS);
	printf("{\"step\":%lld,\"after\":%s}\n",
	       (long long)json_integer_value(json_object_get(step, "step")), text);
	replay_level(r, got);
	replay_level(r, want);
	if (want)
		replay_compare(r, "after", want, got);
	JSON_AUTO *went = replay_transitions(json_object_get(step, "transitions"), race);
	JSON_AUTO *goes = replay_transitions(st->transitions, race);
	replay_compare(r, "transitions", went, goes);
	replay_compare_requests(r);
}

static int replay_trace(const char *file, const json_t *trace, const struct framework_config *c)
{
	struct replay r = { .file = file, .status = json_null(), .raced = json_object() };
	size_t i;
	json_t *step;
	stage_begin(&r.stage, c, trace);
	json_array_foreach (json_object_get(trace, "steps"), i, step)
		if (!r.different)
			replay_step(&r, step);
	stage_end(&r.stage);
	json_decref(r.status);
	json_decref(r.raced);
	json_decref(r.repeated);
	return r.different ? EXIT_DIFFERENT : EXIT_EQUAL;
}

static int replay_unreadable(const char *file, const char *why)
{
	fprintf(stderr, "%s: %s\n", file, why);
	return EXIT_UNREADABLE;
}

/* The whole file, at most 64 MiB; false: it cannot be read. */
static bool replay_load(const char *path, struct str *out)
{
	char part[1 << 16];
	size_t n;
	FILE *f = fopen(path, "re");
	while (f && (n = fread(part, 1, sizeof(part), f)) > 0)
		str_put(out, part, n);
	bool whole = f && !ferror(f) && !out->full;
	if (f)
		(void)fclose(f); /* it was only read */
	return whole;
}

/* config/ is beside the folder of the file. */
static char *replay_config_path(const char *file, const char *dir, const char *name)
{
	if (dir)
		return xasprintf("%s/%s.yaml", dir, name);
	const char *slash = strrchr(file, '/');
	return slash ? xasprintf("%.*s/../config/%s.yaml", (int)(slash - file), file, name)
	             : xasprintf("../config/%s.yaml", name);
}

static int replay_file(const char *file, const char *config_dir)
{
	STR_AUTO text = STR_INIT(64 << 20);
	STR_AUTO yaml = STR_INIT(1 << 20);
	ERR_AUTO e = { 0 };
	if (!replay_load(file, &text))
		return replay_unreadable(file, "cannot be read");
	JSON_AUTO *trace = json_loadb(text.p, text.n, 0, NULL);
	const char *config = reply_text(trace, "config");
	if (strcmp(reply_text(trace, "format"), "framework-trace/1") != 0 || !config[0] ||
	    strchr(config, '/') || !json_is_object(json_object_get(trace, "framework")) ||
	    !json_is_array(json_object_get(trace, "steps")))
		return replay_unreadable(file, "is no framework-trace/1");
	FREE_AUTO char *path = replay_config_path(file, config_dir, config);
	if (!replay_load(path, &yaml))
		return replay_unreadable(path, "cannot be read");
	struct framework_config *c = framework_config_read(str_view(&yaml), &e);
	if (!c)
		return replay_unreadable(path, err_msg(&e));
	int status = replay_trace(file, trace, c);
	framework_config_free(c);
	return status;
}

int main(int argc, char **argv)
{
	int worst = EXIT_EQUAL;
	const char *config_dir = NULL;
	int first = 1;
	if (argc > 2 && strcmp(argv[1], "--config-dir") == 0) {
		config_dir = argv[2];
		first = 3;
	}
	if (first >= argc || argv[first][0] == '-') {
		fprintf(stderr, "usage: replay [--config-dir DIR] FILE...\n");
		return EXIT_UNREADABLE;
	}
	for (int i = first; i < argc; i++) {
		int status = replay_file(argv[i], config_dir);
		if (status > worst)
			worst = status;
	}
	return worst;
}
