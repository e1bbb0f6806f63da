/* Jobs of protocol 2 against what OpenPAI's REST server 1.8.1 made of them. */
#include <stdlib.h>

#include "tests/golden/golden.h"
#include "tests/lib/files.h"
#include "tests/lib/jsondiff.h"
#include "tests/lib/outcome.h"

enum { SHOWN_MAX = 600 };

/* One case: what was recorded, what we made, what may differ. */
struct golden_case {
	const char *file, *setting;
	const json_t *want;
	json_t *got;
	json_t *allowed;    /* listed for this file */
	json_t *everywhere; /* for all files */
};

static char *shown(const json_t *v)
{
	if (!v)
		return xstrdup("nothing");
	FREE_AUTO char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
	return xstrndup(text, strnlen(text, SHOWN_MAX));
}

static bool is_listed(const json_t *list, const struct difference *d)
{
	const json_t *listed = json_object_get(list, d->at);
	if (!listed)
		return false;
	if (!d->got)
		return json_is_string(listed) &&
		       strcmp(json_string_value(listed), "(nothing)") == 0;
	return json_equal(listed, d->got);
}

static void check_accepted(struct tally *t, const struct golden_case *c)
{
	static const char *const SCOPE_NAMES[] = { "framework", "secrets", "priorityClass" };
	bool same = true;
	size_t explained = 0;
	struct differences d = { 0 };
	for (size_t i = 0; i < sizeof(SCOPE_NAMES) / sizeof(*SCOPE_NAMES); i++) {
		json_t *want =
		    json_pack("{s:O?}", SCOPE_NAMES[i], json_object_get(c->want, SCOPE_NAMES[i]));
		json_t *got =
		    json_pack("{s:O?}", SCOPE_NAMES[i], json_object_get(c->got, SCOPE_NAMES[i]));
		json_differences(want, got, &d);
		json_decref(want);
		json_decref(got);
	}
	for (size_t i = 0; i < d.n; i++) {
		/* A difference is allowed if exactly our value is listed at exactly this place. */
		if (is_listed(c->allowed, &d.v[i])) {
			explained++;
			continue;
		}
		if (is_listed(c->everywhere, &d.v[i]))
			continue;
		same = false;
		FREE_AUTO char *want = shown(d.v[i].want);
		FREE_AUTO char *got = shown(d.v[i].got);
		(void)tally_check(t, false, "%s %s: %s\n  OpenPAI: %s\n  here:    %s", c->setting,
		                  c->file, d.v[i].at, want, got);
	}
	differences_done(&d);
	if (same)
		(void)tally_check(t, explained == json_object_size(c->allowed),
		                  "%s %s: %zu of %zu listed differences occur", c->setting, c->file,
		                  explained, json_object_size(c->allowed));
}

/* Do we say something at this place, or at the one that holds it? */
static bool said_at(const json_t *notes, const char *at)
{
	size_t i;
	json_t *note;
	json_array_foreach (notes, i, note) {
		const char *ours = json_string_value(json_object_get(note, "at"));
		size_t n = ours ? strlen(ours) : 0;
		if (ours && strncmp(at, ours, n) == 0 && (at[n] == '\0' || at[n] == '/') &&
		    strchr(at[n] ? at + n + 1 : at + n, '/') == NULL)
			return true;
	}
	return false;
}

/* A place that OpenPAI complains of, and that is no alternative among several. */
static bool must_be_said(const json_t *error)
{
	const char *keyword = json_string_value(json_object_get(error, "keyword"));
	const char *at = json_string_value(json_object_get(error, "at"));
	return strcmp(keyword, "oneOf") != 0 && strcmp(keyword, "$merge") != 0 &&
	       strncmp(at, "/prerequisites/", 15) != 0;
}

static void check_refused(struct tally *t, const struct golden_case *c)
{
	const json_t *notes = json_object_get(c->got, "notes");
	int status = (int)json_integer_value(json_object_get(c->got, "status"));
	const char *code = json_string_value(json_object_get(c->got, "code"));
	(void)tally_check(t, status == 400 && code && strcmp(code, "InvalidProtocolError") == 0,
	                  "%s %s: refused with %d %s", c->setting, c->file, status, code);
	size_t i;
	json_t *error;
	json_array_foreach (json_object_get(c->want, "errors"), i, error) {
		const char *at = json_string_value(json_object_get(error, "at"));
		if (must_be_said(error) && json_array_size(notes) < NOTES_MAX)
			(void)tally_check(t, said_at(notes, at), "%s %s: nothing said at %s (%s)",
			                  c->setting, c->file, at,
			                  json_string_value(json_object_get(error, "keyword")));
	}
}

/* What OpenPAI answered with 500, or took: the entry says where we complain. */
static void check_listed_refusal(struct tally *t, const struct golden_case *c)
{
	FREE_AUTO char *notes = shown(json_object_get(c->got, "notes"));
	const json_t *listed = json_object_get(c->allowed, "refused");
	if (!tally_check(t, json_is_string(listed), "%s %s: refused here, not listed: %s",
	                 c->setting, c->file, notes))
		return;
	const json_t *first = json_array_get(json_object_get(c->got, "notes"), 0);
	const char *at = json_string_value(json_object_get(first, "at"));
	FREE_AUTO char *line =
	    xasprintf("line %d", (int)json_integer_value(json_object_get(first, "line")));
	const char *where = json_string_value(listed);
	(void)tally_check(t, (at && strcmp(at, where) == 0) || strcmp(line, where) == 0,
	                  "%s %s: refused at %s, should be at %s: %s", c->setting, c->file,
	                  at && *at ? at : line, where, notes);
	(void)tally_check(t, json_integer_value(json_object_get(c->got, "status")) == 400,
	                  "%s %s: %s", c->setting, c->file, notes);
}

static void check_case(struct tally *t, const struct golden_case *c)
{
	bool want = json_is_true(json_object_get(c->want, "accepted"));
	bool got = json_is_true(json_object_get(c->got, "accepted"));
	bool crashed = json_integer_value(json_object_get(c->want, "status")) == 500;
	if (got && !want)
		(void)tally_check(t, json_is_true(json_object_get(c->allowed, "accepted")),
		                  "%s %s: accepted, OpenPAI refuses", c->setting, c->file);
	else if (got)
		check_accepted(t, c);
	else if (want || crashed)
		check_listed_refusal(t, c);
	else
		check_refused(t, c);
}

/* What HiveD is told of the first role; 0 without HiveD. */
static json_int_t first_priority(json_t *want)
{
	json_t *annotations = NULL;
	json_t *roles = json_object_get(json_object_get(json_object_get(want, "framework"), "spec"),
	                                "taskRoles");
	(void)json_unpack(json_array_get(roles, 0), "{s:{s:{s:{s:o}}}}", "task", "pod", "metadata",
	                  "annotations", &annotations);
	return json_integer_value(json_object_get(
	    json_object_get(annotations, "hivedscheduler.microsoft.com/pod-scheduling-spec"),
	    "priority"));
}

/* The value of a priority class depends on the time: OpenPAI's own formula for ours. */
static void fix_priority(json_t *want)
{
	json_t *class = json_object_get(want, "priorityClass");
	json_int_t value = TEST_PRIORITY + first_priority(want) * (1 << 24);
	if (json_is_object(class))
		(void)json_object_set_new(class, "value", json_integer(value));
}

static void run(struct tally *t, struct deviations *d, const struct setting *s, const char *name)
{
	if (!tally_test(t, name))
		return;
	FREE_AUTO char *path = xasprintf("tests/golden/%s.jsonl", name);
	json_auto_t *rows = jsonl_load(path);
	size_t i;
	json_t *row;
	json_array_foreach (rows, i, row) {
		const char *file = json_string_value(json_object_get(row, "file"));
		FREE_AUTO char *job = xasprintf("tests/corpus/%s", file);
		STR_AUTO file_text = file_load(job);
		struct span text = str_view(&file_text);
		outcome_decode(row);
		fix_priority(row);
		struct golden_case c = { .file = file, .setting = name, .want = row };
		c.got = outcome_of(s, DIALECT_V2, text, NULL);
		FREE_AUTO char *here = xasprintf("%s %s", name, file);
		c.allowed = deviations_of(d, file, here);
		c.everywhere = deviations_of(d, "*", NULL);
		check_case(t, &c);
		if (json_is_true(json_object_get(c.got, "accepted"))) {
			FREE_AUTO char *wrong = golden_sent(s, text);
			(void)tally_check(t, !*wrong, "%s %s: %s", name, file, wrong);
		}
		json_decref(c.got);
		json_decref(c.allowed);
		json_decref(c.everywhere);
	}
}

void golden_v2(struct tally *t, struct deviations *d)
{
	struct setting s;
	setting_init(&s, SETTING_BASE);
	run(t, d, &s, "base");
	run(t, d, &s, "edge-base");
	setting_done(&s);
	setting_init(&s, SETTING_EXT);
	run(t, d, &s, "ext");
	setting_done(&s);
	setting_init(&s, SETTING_HIVED);
	run(t, d, &s, "hived");
	run(t, d, &s, "edge-hived");
	setting_done(&s);
}
