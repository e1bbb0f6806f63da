/*
 * Every job of examples/ and of the corpus, converted to protocol 2 and then translated: the same
 * objects as without converting, but for the annotation `config` and what v2 cannot say.  That is
 * the environment of other jobs, of which commands export what they mention, and what EXPECTED
 * lists.
 */
#include <stdlib.h>

#include "tests/golden/golden.h"
#include "tests/lib/files.h"
#include "tests/lib/jsondiff.h"
#include "tests/lib/outcome.h"
#include "translate/job/job.h"
#include "translate/translate.h"

enum { TEXT_MAX = 64 << 20 };

/* Differences by folder or file, and part of their place, with the comment that names each. */
#define V1       "tests/corpus/v1-valid/"
#define MXJOB    "tests/corpus/mxjob/"
#define LAUNCHER "tests/corpus/launcher/"
#define JOB      "retryPolicy becomes {fancyRetryPolicy: true"
#define TASK     "task.retryPolicy becomes {fancyRetryPolicy: false"
#define LIMITS   "numbers where the pod has no limit"
static const struct expected {
	const char *file, *at, *comment;
} EXPECTED[] = {
	/* retryCount -2: also after success */
	{ V1 "pai-doc-ocr-serving-readme-b3.json", "/framework/spec/retryPolicy/", JOB },
	{ V1 "pai-doc-serving-readme-b0.json", "/framework/spec/retryPolicy/", JOB },
	{ V1 "pai-doc-serving-readme-b3.json", "/framework/spec/retryPolicy/", JOB },
	/* members of pods; workingDir is a command */
	{ MXJOB, "/containers/0/workingDir", "" },
	{ MXJOB, "/containers/0/resources/limits/", LIMITS },
	{ MXJOB "07", "/task/retryPolicy/maxRetryCount", TASK }, /* tasks but for the chief */
	{ LAUNCHER, "/framework/spec/retryPolicy/", JOB },
	{ LAUNCHER, "/task/retryPolicy/maxRetryCount", TASK },
	{ LAUNCHER, "/containers/0/workingDir", "" },
	{ LAUNCHER, "/containers/0/resources/limits/", LIMITS },
	{ LAUNCHER, "/containers/0/ports", "`ports` of the pod" },
	{ LAUNCHER, "/containers/0/volumeMounts/", "`volumeMounts` of the pod" },
	{ LAUNCHER, "/spec/initContainers/1", "`initContainers` of the pod" },
	{ LAUNCHER, "/spec/volumes/", "`volumes` of the pod" },
};
enum { N_EXPECTED = sizeof(EXPECTED) / sizeof(EXPECTED[0]) };

/* Variables of v1 jobs that v2 jobs lack, or have with another value, by their beginnings.  They
 * must be equal if the command mentions them. */
static const char *const OLD[] = {
	"PAI_CURRENT_TASK_ROLE_", /* ..._NAME of a role that v2 calls otherwise, and generation 2 */
	"PAI_TASK_ROLE_",
	"PAI_JOB_TASK_ROLE_LIST", /* of such roles */
	"PAI_TASK_CPU_NUM",
	"PAI_TASK_MEM_MB",
	"PAI_TASK_GPU_NUM",
	"PAI_RESOURCE_", /* of other form */
	"PAI_MIN_FAILED_",
	"PAI_MIN_SUCCEEDED_",
	"PAI_DEFAULT_FS_URI",
	"PAI_KILL_ALL_ON_COMPLETED_TASK_NUM",
	"PAI_DATA_DIR", /* these three if they are empty */
	"PAI_OUTPUT_DIR",
	"PAI_CODE_DIR",
	NULL,
};

struct conversion {
	struct tally *t;
	const char *file;
	struct str yaml;
};

static void convert_file_text(struct conversion *c, const struct setting *s, struct span text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	NOTES_AUTO lost = { 0 };
	const struct job *job =
	    job_read(s->translator, DIALECTS_ALL, text, TEST_USER, &a, &warnings, &e);
	c->yaml = STR_INIT(TEXT_MAX);
	if (job)
		(void)job_convert(s->translator, job, &warnings, &lost, &c->yaml, &e);
	(void)tally_check(c->t, e.http == 0, "%s is not converted: %s", c->file, err_msg(&e));
}

/* ---- the environment ---- */

/* A list of {name, value or valueFrom} as an object; the last one of a name counts. */
static json_t *env_object(const json_t *list)
{
	json_t *out = json_object();
	size_t i;
	json_t *e;
	json_array_foreach (list, i, e) {
		json_t *value = json_object_get(e, "value");
		(void)json_object_set(out, json_string_value(json_object_get(e, "name")),
		                      value ? value : json_object_get(e, "valueFrom"));
	}
	return out;
}

/* Undoes kubernetes_escape, as Kubernetes does. */
static void unescape(struct str *out, const char *text)
{
	while (*text) {
		size_t n = strspn(text, "$");
		for (size_t i = 0; i < (n % 2 ? n : n / 2); i++)
			str_char(out, '$');
		text += n;
		if (*text)
			str_char(out, *text++);
	}
}

/* Takes one line `export NAME='VALUE'` or `export NAME="$OTHER"` off the command and sets the
 * variable.  false at the first other line. */
static bool take_export(const char **command, json_t *env)
{
	STR_AUTO value = STR_INIT(TEXT_MAX);
	const char *name = *command + 7;
	const char *p = strchr(*command, '=');
	if (strncmp(*command, "export ", 7) != 0 || !p || strstr(name, "_HOST_LIST=\"$PAI") == name)
		return false;
	FREE_AUTO char *key = xstrndup(name, (size_t)(p - name));
	if (strncmp(p, "=\"$", 3) == 0 && p[3] != '{' && !strstr(key, "_HOST_LIST")) {
		p += 3;
		FREE_AUTO char *other = xstrndup(p, strcspn(p, "\""));
		(void)json_object_set(env, key, json_object_get(env, other));
		*command = p + strlen(other) + 2;
		return true;
	}
	if (strncmp(p, "='", 2) != 0)
		return false;
	for (p += 2; *p != '\'' || strncmp(p, "'\\''", 4) == 0; p++) {
		bool quote = *p == '\'';
		str_char(&value, *p);
		p += quote ? 3 : 0;
	}
	(void)json_object_set_new(env, key, json_string(str_c(&value)));
	*command = p + 2;
	return true;
}

static bool mentions(const char *command, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = command; (p = strstr(p, name)); p++)
		if (!((p > command && (is_alnum(p[-1]) || p[-1] == '_')) || is_alnum(p[n]) ||
		      p[n] == '_'))
			return true;
	return false;
}

static bool is_old(const char *name)
{
	for (const char *const *p = OLD; *p; p++)
		if (strncmp(name, *p, strlen(*p)) == 0)
			return true;
	return false;
}

/* `command` is NULL for init. */
static void check_env(const struct conversion *c, json_t *want, json_t *got, const char *command)
{
	const char *key;
	json_t *value;
	json_object_foreach (want, key, value) {
		size_t n = strlen(key);
		bool directory = n > 4 && strcmp(key + n - 4, "_DIR") == 0;
		bool needed =
		    command && (directory ? json_string_length(value) > 0 : mentions(command, key));
		bool same = json_equal(value, json_object_get(got, key)) != 0;
		(void)tally_check(c->t, same || (is_old(key) && !needed), "%s: variable %s",
		                  c->file, key);
	}
	json_object_foreach (got, key, value)
		(void)tally_check(c->t, json_object_get(want, key) != NULL,
		                  "%s: variable %s is new", c->file, key);
}

static json_t *container(json_t *role, const char *list)
{
	json_t *out = NULL;
	(void)json_unpack(role, "{s:{s:{s:{s:[o]}}}}", "task", "pod", "spec", list, &out);
	return out;
}

static json_t *env_of(json_t *role, const char *list)
{
	return env_object(json_object_get(container(role, list), "env"));
}

/* Compares the commands, and what programs find in their environment; then removes both.  Only the
 * command exports, so init lacks the variables of v1 jobs, which it does not read. */
static void check_role(const struct conversion *c, json_t *want, json_t *got)
{
	STR_AUTO was = STR_INIT(TEXT_MAX);
	STR_AUTO now = STR_INIT(TEXT_MAX);
	json_t *init = env_of(want, "initContainers");
	json_t *init_now = env_of(got, "initContainers");
	json_t *app = env_of(want, "containers");
	json_t *app_now = env_of(got, "containers");
	unescape(&was, json_string_value(json_object_get(init, "USER_CMD")));
	unescape(&now, json_string_value(json_object_get(init_now, "USER_CMD")));
	const char *command = str_c(&now);
	json_t *directory = json_object_get(container(want, "containers"), "workingDir");
	if (directory) {
		FREE_AUTO char *cd = xasprintf("cd '%s'\n", json_string_value(directory));
		bool first = strncmp(command, cd, strlen(cd)) == 0;
		(void)tally_check(c->t, first, "%s: %s", c->file, cd);
		command += first ? strlen(cd) : 0;
	}
	while (take_export(&command, app_now))
		;
	(void)tally_check(c->t, span_is(span_trim(str_view(&was)), command), "%s: command\n%s\n%s",
	                  c->file, str_c(&was), command);
	check_env(c, app, app_now, command);
	(void)json_object_del(init, "USER_CMD");
	(void)json_object_del(init_now, "USER_CMD");
	check_env(c, init, init_now, NULL);
	json_t *all[] = { init, init_now, app, app_now };
	for (size_t i = 0; i < 4; i++)
		json_decref(all[i]);
	json_t *of[] = { want, got };
	for (size_t i = 0; i < 2; i++) {
		(void)json_object_del(container(of[i], "initContainers"), "env");
		(void)json_object_del(container(of[i], "containers"), "env");
	}
}

static json_t *roles_of(const json_t *outcome)
{
	const json_t *framework = json_object_get(outcome, "framework");
	return json_object_get(json_object_get(framework, "spec"), "taskRoles");
}

/* ---- all files ---- */

static void check_difference(const struct conversion *c, const struct difference *d)
{
	for (size_t i = 0; i < N_EXPECTED; i++) {
		const struct expected *e = &EXPECTED[i];
		if (strncmp(e->file, c->file, strlen(e->file)) != 0 || !strstr(d->at, e->at))
			continue;
		(void)tally_check(c->t, strstr(str_c(&c->yaml), e->comment) != NULL,
		                  "%s: no comment with: %s", c->file, e->comment);
		return;
	}
	(void)tally_check(c->t, false, "%s: %s differs", c->file, d->at);
}

static void compare_outcomes(const struct conversion *c, json_t *want, json_t *got, bool v1)
{
	static const char AT[] = "annotations";
	json_t *both[] = { want, got };
	size_t i;
	json_t *role;
	AUTO(differences_done) struct differences d = { 0 };
	if (!tally_check(c->t, json_is_true(json_object_get(got, "accepted")), "%s is refused",
	                 c->file))
		return;
	for (i = 0; i < 2; i++) {
		json_t *meta = json_object_get(json_object_get(both[i], "framework"), "metadata");
		(void)json_object_del(json_object_get(meta, AT), "config");
	}
	if (v1 && json_array_size(roles_of(want)) == json_array_size(roles_of(got)))
		json_array_foreach (roles_of(want), i, role)
			check_role(c, role, json_array_get(roles_of(got), i));
	json_differences(want, got, &d);
	for (i = 0; i < d.n; i++)
		check_difference(c, &d.v[i]);
}

/* Converting what was converted changes nothing more. */
static void check_again(const struct conversion *c, const struct setting *s)
{
	struct conversion again = { .t = c->t, .file = c->file };
	convert_file_text(&again, s, str_view(&c->yaml));
	size_t comments = 0;
	while (str_c(&c->yaml)[comments] == '#')
		comments += strcspn(str_c(&c->yaml) + comments, "\n") + 1;
	(void)tally_check(c->t, strcmp(str_c(&c->yaml) + comments, str_c(&again.yaml)) == 0,
	                  "%s: converted again, it is another text", c->file);
	str_done(&again.yaml);
}

static void check_file(struct tally *t, const struct setting *s, const char *file)
{
	struct conversion c = { .t = t, .file = file };
	STR_AUTO text = file_load(file);
	json_auto_t *want = outcome_of(s, DIALECTS_ALL, str_view(&text), NULL);
	if (json_is_true(json_object_get(want, "accepted"))) {
		convert_file_text(&c, s, str_view(&text));
		json_auto_t *got = outcome_of(s, DIALECT_V2, str_view(&c.yaml), NULL);
		compare_outcomes(&c, want, got, str_c(&c.yaml)[0] == '#');
		check_again(&c, s);
		str_done(&c.yaml);
	}
}

static void check_folders(struct tally *t, enum setting_name name)
{
	static const char *const FOLDERS[] = { "examples",
		                               "tests/corpus/v1-valid",
		                               "tests/corpus/v2-valid",
		                               "tests/corpus/v2-edge",
		                               "tests/corpus/mxjob",
		                               "tests/corpus/launcher" };
	AUTO(setting_done) struct setting s;
	setting_init(&s, name);
	for (size_t i = 0; i < sizeof(FOLDERS) / sizeof(FOLDERS[0]); i++) {
		char **names = folder_list(FOLDERS[i]);
		for (char **file = names; *file; file++) {
			FREE_AUTO char *path = xasprintf("%s/%s", FOLDERS[i], *file);
			check_file(t, &s, path);
		}
		folder_free(names);
	}
}

void golden_converted(struct tally *t)
{
	if (tally_test(t, "converted-openpai"))
		check_folders(t, SETTING_BASE);
	if (tally_test(t, "converted-plain"))
		check_folders(t, SETTING_PLAIN);
}
