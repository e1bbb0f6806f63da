/*
 * Malicious and broken input: tests/hostile/cases with the verdicts of expect.tsv, those of
 * expect-hived.tsv where HiveD schedules, those of expect-pods.tsv for pods of Kubernetes; and, in
 * both profiles and with HiveD, all files there and the refused ones of the corpus.  For each: in
 * time, in little memory, and with a message that points at the right place, can be shown anywhere,
 * and gives nothing away.
 *
 *     hostile [NAME...]   all, or the tests whose names contain a NAME
 *
 * Run in the top folder of the source tree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/enc.h"
#include "tests/hostile/child.h"
#include "tests/lib/at.h"
#include "tests/lib/files.h"
#include "tests/lib/secrets.h"
#include "tests/lib/tally.h"

/* The promise for a job, in CPU seconds and memory; sanitizers need more. */
#if defined(__SANITIZE_ADDRESS__)
enum { CPU_MAX_S = 15, PEAK_MAX_KB = 1024 << 10 };
#else
enum { CPU_MAX_S = 1, PEAK_MAX_KB = 64 << 10 };
#endif

/* One line of expect.tsv. */
struct expectation {
	const char *file, *status, *at, *says;
};

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

/* ---- what holds for every message ------------------------------------------------------ */

static bool printable(struct span text)
{
	for (size_t i = 0; i < text.n; i++)
		if ((unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f)
			return false;
	return utf8_check(text) == text.n;
}

/* Does the message repeat more of the input than may be quoted? */
static bool quotes_much(struct span message, struct span input)
{
	for (size_t i = 0; i + QUOTE_MAX < message.n; i++)
		if (memmem(input.p, input.n, message.p + i, QUOTE_MAX + 1))
			return true;
	return false;
}

static void check_messages(struct tally *t, const char *file, struct span input,
                           const json_t *notes)
{
	size_t i;
	json_t *note;
	json_array_foreach (notes, i, note) {
		struct span message = span_of(text_of(note, "message"));
		(void)tally_check(t, message.n > 0 && printable(message),
		                  "%s: message is not printable: %s", file, message.p);
		(void)tally_check(t, !quotes_much(message, input), "%s: quotes too much: %s", file,
		                  message.p);
		(void)tally_check(
		    t, secret_found(input, message) == 0 && !strstr(message.p, "TOPSECRET123"),
		    "%s: shows a secret: %s", file, message.p);
	}
}

/* Those of a refusal, of which there must be one, and the warnings. */
static void check_all_messages(struct tally *t, const char *file, struct span input,
                               const json_t *outcome)
{
	const json_t *notes = json_object_get(outcome, "notes");
	bool accepted = json_is_true(json_object_get(outcome, "accepted"));
	(void)tally_check(t, accepted || json_array_size(notes) > 0, "%s: refused without a word",
	                  file);
	check_messages(t, file, input, notes);
	check_messages(t, file, input, json_object_get(outcome, "warnings"));
}

static void check_cost(struct tally *t, const char *file, const struct measured *m)
{
	(void)tally_check(t, m->outcome, "%s: died of signal %d", file, m->signal);
	(void)tally_check(t, m->cpu_s < (double)CPU_MAX_S, "%s: took %.2f s", file, m->cpu_s);
	(void)tally_check(t, m->peak_kb < PEAK_MAX_KB, "%s: took %ld KiB", file, m->peak_kb);
}

/* ---- verdicts ------------------------------------------------------------------------------ */

/* "line:12", a pointer (or what is below it), or * */
static bool is_place(const json_t *note, const char *at)
{
	int64_t line;
	if (strcmp(at, "*") == 0)
		return true;
	if (strncmp(at, "line:", 5) == 0)
		return parse_i64(span_of(at + 5), 1, 1 << 24, &line) == 0 &&
		       json_integer_value(json_object_get(note, "line")) == line;
	const char *ours = text_of(note, "at");
	size_t n = strlen(at);
	return strncmp(ours, at, n) == 0 && (ours[n] == '\0' || ours[n] == '/');
}

static bool says(const json_t *note, const char *word)
{
	return strcmp(word, "*") == 0 || strcasestr(text_of(note, "message"), word);
}

static void check_note(struct tally *t, const struct expectation *x, const char *at,
                       const json_t *notes)
{
	size_t i;
	json_t *note;
	bool found = false;
	json_array_foreach (notes, i, note)
		found = found || (is_place(note, at) && says(note, x->says));
	FREE_AUTO char *all = json_dumps(notes, JSON_COMPACT);
	(void)tally_check(t, found, "%s: nothing at %s says \"%s\": %.600s", x->file, at, x->says,
	                  all);
}

static const json_t *variable(const json_t *framework, const char *container, const char *name)
{
	FREE_AUTO char *path = xasprintf("/spec/taskRoles/0/task/pod/spec/%s/0/env", container);
	return at(named(at(framework, path), name), "value");
}

/* What HiveD is told of the first role. */
static const json_t *told(const json_t *framework, const char *pointer)
{
	static const char SPEC[] = "hivedscheduler.microsoft.com/pod-scheduling-spec";
	const json_t *annotations =
	    at(framework, "/spec/taskRoles/0/task/pod/metadata/annotations");
	return at(json_object_get(annotations, SPEC), pointer);
}

static const json_t *find(const json_t *framework, const char *where)
{
	if (strcmp(where, "USER_CMD") == 0)
		return variable(framework, "initContainers", "USER_CMD");
	if (strncmp(where, "env:", 4) == 0)
		return variable(framework, "containers", where + 4);
	if (strncmp(where, "hived:", 6) == 0)
		return told(framework, where + 6);
	return at(framework, where);
}

static void check_acceptance(struct tally *t, const struct expectation *x, const json_t *outcome)
{
	static const char WARN[] = "warn:";
	if (strncmp(x->at, WARN, sizeof(WARN) - 1) == 0) {
		check_note(t, x, x->at + sizeof(WARN) - 1, json_object_get(outcome, "warnings"));
		return;
	}
	if (strcmp(x->at, "*") == 0 || strcmp(x->says, "*") == 0)
		return;
	const json_t *got = find(json_object_get(outcome, "framework"), x->at);
	json_auto_t *want = json_loads(x->says, JSON_DECODE_ANY, NULL);
	FREE_AUTO char *shown = json_dumps(got, JSON_ENCODE_ANY | JSON_COMPACT);
	bool absent = strcmp(x->says, "-") == 0;
	(void)tally_check(t, absent ? !got : want && got && json_equal(want, got), "%s: %s is %s",
	                  x->file, x->at, shown ? shown : "missing");
}

static void check_verdict(struct tally *t, const struct expectation *x, const json_t *outcome)
{
	bool accepted = json_is_true(json_object_get(outcome, "accepted"));
	int status = accepted ? 202 : (int)json_integer_value(json_object_get(outcome, "status"));
	FREE_AUTO char *text = xasprintf("%d", status);
	FREE_AUTO char *notes = json_dumps(json_object_get(outcome, "notes"), JSON_COMPACT);
	if (!tally_check(t, strstr(x->status, text), "%s: %d instead of %s: %.400s", x->file,
	                 status, x->status, notes ? notes : ""))
		return;
	if (accepted)
		check_acceptance(t, x, outcome);
	else
		check_note(t, x, x->at, json_object_get(outcome, "notes"));
}

/* ---- all files --------------------------------------------------------------------------------
 */

/* Cut a line at its tabs, and turn \n in `at` into a line feed.  false: a comment. */
static bool expectation_read(char *line, struct expectation *x)
{
	char *rest = NULL;
	if (*line == '#' || *line == '\n')
		return false;
	line[strcspn(line, "\n")] = '\0';
	x->file = strtok_r(line, "\t", &rest);
	x->status = strtok_r(NULL, "\t", &rest);
	char *at = strtok_r(NULL, "\t", &rest);
	x->at = at;
	x->says = strtok_r(NULL, "\t", &rest);
	char *feed = at ? strstr(at, "\\n") : NULL;
	if (feed) {
		*feed = '\n';
		(void)memmove(feed + 1, feed + 2, strlen(feed + 2) + 1);
	}
	return x->says != NULL;
}

static void run_cases(struct tally *t, const struct setting *s, const char *expectations)
{
	FILE *f = fopen(expectations, "re");
	char *line = NULL;
	size_t cap = 0;
	size_t lines = 0;
	while (f && getline(&line, &cap, f) > 0) {
		struct expectation x;
		if (!expectation_read(line, &x))
			continue;
		lines++;
		FREE_AUTO char *path = xasprintf("tests/hostile/cases/%s", x.file);
		STR_AUTO file_text = file_load(path);
		struct span text = str_view(&file_text);
		struct measured m = child_run(s, text);
		check_cost(t, x.file, &m);
		if (m.outcome) {
			check_verdict(t, &x, m.outcome);
			check_all_messages(t, x.file, text, m.outcome);
		}
		json_decref(m.outcome);
	}
	free(line);
	(void)tally_check(t, lines > 0, "%s is empty or missing", expectations);
	if (f)
		(void)fclose(f);
}

/* What holds for every file, whatever the verdict; those of the corpus are the golden test's. */
static void run_folder(struct tally *t, const struct setting *s, const char *dir)
{
	char **names = folder_list(dir);
	for (char **name = names; *name; name++) {
		FREE_AUTO char *path = xasprintf("%s/%s", dir, *name);
		STR_AUTO file_text = file_load(path);
		struct span text = str_view(&file_text);
		struct measured m = child_run(s, text);
		check_cost(t, path, &m);
		if (m.outcome)
			check_all_messages(t, path, text, m.outcome);
		json_decref(m.outcome);
	}
	folder_free(names);
}

static void run_setting(struct tally *t, enum setting_name name)
{
	static const char *const FOLDERS[] = { "tests/hostile/cases", "tests/corpus/v2-invalid",
		                               "tests/corpus/v2-edge", "tests/corpus/v1-valid" };
	static const char *const NAMES[] = {
		[SETTING_PLAIN] = "plain", [SETTING_BASE] = "openpai", [SETTING_HIVED] = "hived"
	};
	AUTO(setting_done) struct setting s;
	setting_init(&s, name);
	if (name == SETTING_PLAIN && tally_test(t, "plain verdicts"))
		run_cases(t, &s, "tests/hostile/expect.tsv");
	if (name == SETTING_PLAIN && tally_test(t, "plain verdicts of pods"))
		run_cases(t, &s, "tests/hostile/expect-pods.tsv");
	if (name == SETTING_HIVED && tally_test(t, "hived verdicts"))
		run_cases(t, &s, "tests/hostile/expect-hived.tsv");
	for (size_t i = 0; i < sizeof(FOLDERS) / sizeof(*FOLDERS); i++) {
		FREE_AUTO char *test = xasprintf("%s %s", NAMES[name], FOLDERS[i]);
		if (tally_test(t, test))
			run_folder(t, &s, FOLDERS[i]);
	}
	child_end();
}

int main(int argc, char **argv)
{
	(void)argc;
	static const enum setting_name NAMES[] = { SETTING_PLAIN, SETTING_BASE, SETTING_HIVED };
	struct tally t = { .wanted = argv + 1 };
	for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++)
		run_setting(&t, NAMES[i]);
	return tally_end(&t);
}
