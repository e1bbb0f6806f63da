/*
 * First-generation jobs: which are refused, and for the others what the first rest-lit
 * (a small program in Python) made of them.  It got names, numbers, images, commands
 * and most of the environment right; where it did not, RULES says what must be there
 * instead, and by which entry of docs/DEVIATIONS.md.
 */
#include <ctype.h>
#include <stdlib.h>

#include "tests/golden/golden.h"
#include "tests/lib/at.h"
#include "tests/lib/files.h"
#include "tests/lib/outcome.h"

enum { VALUE_MAX = 1 << 20 };

/* One role on both sides, and the job as submitted. */
struct pair {
	const char *file;
	const json_t *job, *role; /* as submitted */
	const json_t *want, *got; /* roles of the Frameworks */
};

static const char *text_at(const json_t *v, const char *path)
{
	const char *text = json_string_value(at(v, path));
	return text ? text : "";
}

#define POD "task/pod/spec/"

/* An integer field of the job, which may be written as text; `missing` if absent or null. */
static int64_t number(const json_t *o, const char *key, int64_t missing)
{
	const json_t *v = json_object_get(o, key);
	int64_t n = missing;
	if (json_is_string(v))
		(void)parse_i64(span_of(json_string_value(v)), INT32_MIN, INT32_MAX, &n);
	else if (json_is_integer(v))
		n = json_integer_value(v);
	return n;
}

static bool is_number(const char *text, int64_t n)
{
	FREE_AUTO char *want = xasprintf("%lld", (long long)n);
	return text && strcmp(text, want) == 0;
}

/* ---- what must stand in a variable instead ------------------------------------------- */

typedef bool env_rule(const struct pair *p, const char *want, const char *got);

static bool left_to_runtime(const struct pair *p, const char *want, const char *got)
{
	(void)p, (void)want;
	return got == NULL;
}

static bool id_of_job(const struct pair *p, const char *want, const char *got)
{
	(void)want;
	FREE_AUTO char *id = xasprintf(TEST_USER "~%s", text_at(p->job, "jobName"));
	return got && strcmp(got, id) == 0;
}

static bool name_of_role(const struct pair *p, const char *want, const char *got)
{
	(void)want;
	return got && strcmp(got, text_at(p->role, "name")) == 0;
}

static bool names_of_roles(const struct pair *p, const char *want, const char *got)
{
	(void)want;
	STR_AUTO list = STR_INIT(VALUE_MAX);
	size_t i;
	json_t *role;
	json_array_foreach (json_object_get(p->job, "taskRoles"), i, role) {
		str_puts(&list, i ? "," : "");
		str_puts(&list, text_at(role, "name"));
	}
	return got && strcmp(got, str_c(&list)) == 0;
}

static bool shm_mb(const struct pair *p, const char *want, const char *got)
{
	(void)want;
	return is_number(got, number(p->role, "shmMB", 64));
}

static bool gpu_count(const struct pair *p, const char *want, const char *got)
{
	(void)want;
	return is_number(got, number(p->role, "gpuNumber", 0));
}

static bool min_failed(const struct pair *p, const char *want, const char *got)
{
	(void)want;
	const char *policy = "frameworkAttemptCompletionPolicy/minFailedTaskCount";
	return is_number(got, json_integer_value(at(p->got, policy)));
}

static bool min_succeeded(const struct pair *p, const char *want, const char *got)
{
	(void)want;
	const char *policy = "frameworkAttemptCompletionPolicy/minSucceededTaskCount";
	return is_number(got, json_integer_value(at(p->got, policy)));
}

/* None (a field left out) became the default of that field. */
static bool resource_filled(const struct pair *p, const char *want, const char *got)
{
	(void)p;
	while (got && *want) {
		if (strncmp(want, "None", 4) != 0) {
			if (*want++ != *got++)
				return false;
			continue;
		}
		want += 4;
		while (isdigit((unsigned char)*got))
			got++;
	}
	return got && *got == '\0';
}

static bool directory(const struct pair *p, const char *want, const char *got)
{
	(void)p;
	/* Nothing of the three variables is left, and without one nothing changes. */
	static const char *const NAMES[] = { "$PAI_DEFAULT_FS_URI", "$PAI_JOB_NAME",
		                             "$PAI_USER_NAME" };
	bool had = false;
	for (size_t i = 0; i < 3; i++) {
		had = had || strstr(want, NAMES[i]);
		if (!got || strstr(got, NAMES[i]))
			return false;
	}
	return had ? strncmp(got, "hdfs://127.0.0.1:9000/", 22) == 0 : strcmp(want, got) == 0;
}

static bool truth(const struct pair *p, const char *want, const char *got)
{
	(void)p;
	return got && ((strcmp(want, "True") == 0 && strcmp(got, "true") == 0) ||
	               (strcmp(want, "False") == 0 && strcmp(got, "false") == 0));
}

/* By the beginning of the name; the first that fits.  An equal value needs no rule. */
static const struct {
	const char *prefix;
	env_rule *rule;
	const char *deviation;
} RULES[] = {
	/* clang-format off */
	{ "PAI_CURRENT_CONTAINER_PORT",           left_to_runtime, "v1-ports" },
	{ "PAI_CONTAINER_",                       left_to_runtime, "v1-ports" },
	{ "PAI_PORT_LIST_",                       left_to_runtime, "v1-ports" },
	{ "PAI_JOB_NAME",                         id_of_job,       "v1-names" },
	{ "PAI_CURRENT_TASK_ROLE_NAME",           name_of_role,    "v1-names" },
	{ "PAI_TASK_ROLE_LIST",                   names_of_roles,  "v1-names" },
	{ "PAI_CURRENT_TASK_ROLE_SHM_MB",         shm_mb,          "v1-defaults" },
	{ "PAI_CURRENT_TASK_ROLE_GPU_COUNT",      gpu_count,       "v1-defaults" },
	{ "PAI_RESOURCE_",                        resource_filled, "v1-defaults" },
	{ "PAI_CURRENT_TASK_ROLE_MIN_FAILED_",    min_failed,      "v1-completion" },
	{ "PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_", min_succeeded,   "v1-completion" },
	{ "PAI_DATA_DIR",                         directory,       "v1-directories" },
	{ "PAI_OUTPUT_DIR",                       directory,       "v1-directories" },
	{ "PAI_CODE_DIR",                         directory,       "v1-directories" },
	{ "",                                     truth,           "v1-booleans" },
	/* clang-format on */
};

static void check_variable(struct tally *t, struct deviations *d, const struct pair *p,
                           const json_t *e)
{
	const char *name = text_at(e, "name");
	const char *want = text_at(e, "value");
	const char *got =
	    json_string_value(at(named(at(p->got, POD "containers/0/env"), name), "value"));
	if (got && strcmp(want, got) == 0)
		return;
	size_t i = 0;
	while (strncmp(name, RULES[i].prefix, strlen(RULES[i].prefix)) != 0)
		i++;
	deviations_name(d, t, RULES[i].deviation);
	if (!RULES[i].rule(p, want, got))
		(void)tally_check(
		    t, false, "v1 %s: role %s, %s (%s)\n  first rest-lit: %s\n  here:           %s",
		    p->file, text_at(p->role, "name"), name, RULES[i].deviation, want,
		    got ? got : "nothing");
}

/* ---- the rest of a role ---------------------------------------------------------------- */

/* The command, perhaps below lines that export the host lists of 2017; with `$` doubled where
 * Kubernetes would take it. */
static bool same_command(const char *want, const char *got)
{
	while (strncmp(got, "export PAI_TASK_ROLE_", 21) == 0 && strchr(got, '\n'))
		got = strchr(got, '\n') + 1;
	while (*want && *got) {
		size_t n = strspn(want, "$");
		if (n == 0) {
			if (*want++ != *got++)
				return false;
			continue;
		}
		size_t m = n > 1 || want[n] == '(' ? 2 * n : n;
		if (strspn(got, "$") != m)
			return false;
		want += n;
		got += m;
	}
	return *want == *got;
}

static void check_role(struct tally *t, struct deviations *d, const struct pair *p)
{
	const json_t *want = p->want;
	const json_t *got = p->got;
	const char *role = text_at(p->role, "name");
	const char *file = p->file;
	(void)tally_check(t, strcmp(text_at(want, "name"), text_at(got, "name")) == 0,
	                  "v1 %s: role %s is called %s", file, role, text_at(got, "name"));
	(void)tally_check(t, json_equal(at(want, "taskNumber"), at(got, "taskNumber")),
	                  "v1 %s: role %s: taskNumber", file, role);
	(void)tally_check(t,
	                  strcmp(text_at(want, POD "containers/0/image"),
	                         text_at(got, POD "containers/0/image")) == 0,
	                  "v1 %s: role %s: image", file, role);
	const char *command = text_at(want, POD "initContainers/0/env/0/value");
	struct span trimmed = span_trim(span_of(command));
	FREE_AUTO char *expected = xstrndup(trimmed.p, trimmed.n);
	const char *ours =
	    json_string_value(at(named(at(got, POD "initContainers/0/env"), "USER_CMD"), "value"));
	(void)tally_check(t, ours && same_command(expected, ours),
	                  "v1 %s: role %s: command\n  first rest-lit: %s\n  here:           %s",
	                  file, role, expected, ours);
	static const char *const LIMITS[] = { "cpu", "memory" };
	const json_t *w = at(want, POD "containers/0/resources/limits");
	const json_t *g = at(got, POD "containers/0/resources/limits");
	for (size_t i = 0; i < 2; i++)
		(void)tally_check(
		    t, json_equal(json_object_get(w, LIMITS[i]), json_object_get(g, LIMITS[i])),
		    "v1 %s: role %s: limit of %s", file, role, LIMITS[i]);
	int64_t gpu = number(p->role, "gpuNumber", 0);
	(void)tally_check(t, json_integer_value(json_object_get(g, "nvidia.com/gpu")) == gpu,
	                  "v1 %s: role %s: %lld devices wanted", file, role, (long long)gpu);
	size_t i;
	json_t *e;
	json_array_foreach (at(want, POD "containers/0/env"), i, e)
		check_variable(t, d, p, e);
}

/* Author's own variables, which the first program did not know: role over job. */
static void check_own_env(struct tally *t, const struct pair *p)
{
	const char *key;
	json_t *value;
	json_object_foreach (json_object_get(p->role, "env"), key, value) {
		const char *got =
		    json_string_value(at(named(at(p->got, POD "containers/0/env"), key), "value"));
		(void)tally_check(t, got && strcmp(got, json_string_value(value)) == 0,
		                  "v1 %s: env %s of role %s", p->file, key,
		                  text_at(p->role, "name"));
	}
}

static void check_policy(struct tally *t, const struct pair *p, const json_t *got)
{
	int64_t retries = number(p->job, "retryCount", 0);
	const json_t *policy = at(got, "spec/retryPolicy");
	(void)tally_check(t, json_integer_value(at(policy, "maxRetryCount")) == retries,
	                  "v1 %s: maxRetryCount", p->file);
	(void)tally_check(t, json_is_true(at(policy, "fancyRetryPolicy")) == (retries != -2),
	                  "v1 %s: fancyRetryPolicy", p->file);
}

static void check_accepted(struct tally *t, struct deviations *d, struct pair *p,
                           const json_t *want, const json_t *got)
{
	const json_t *w = at(want, "spec/taskRoles");
	const json_t *g = at(got, "spec/taskRoles");
	check_policy(t, p, got);
	if (!tally_check(t, json_array_size(w) == json_array_size(g), "v1 %s: roles", p->file))
		return;
	for (size_t i = 0; i < json_array_size(w); i++) {
		p->role = json_array_get(json_object_get(p->job, "taskRoles"), i);
		p->want = json_array_get(w, i);
		p->got = json_array_get(g, i);
		check_role(t, d, p);
		check_own_env(t, p);
	}
}

static void check_refused(struct tally *t, const char *file, const json_t *got,
                          const json_t *listed)
{
	const json_t *first = json_array_get(json_object_get(got, "notes"), 0);
	FREE_AUTO char *note = json_dumps(first, JSON_ENCODE_ANY);
	const char *place = text_at(first, "at");
	const char *where = json_string_value(listed);
	if (tally_check(t, where, "v1 %s: refused here, not listed: %s", file, note))
		(void)tally_check(t, strcmp(place, where) == 0,
		                  "v1 %s: should be refused at %s: %s", file, where, note);
	(void)tally_check(t,
	                  json_integer_value(json_object_get(got, "status")) == 400 &&
	                      strcmp(text_at(got, "code"), "InvalidParametersError") == 0,
	                  "v1 %s: code %s", file, text_at(got, "code"));
}

static void check_file(struct tally *t, struct deviations *d, const struct setting *s,
                       const json_t *row, const json_t *refused)
{
	const char *file = text_at(row, "file");
	FREE_AUTO char *path = xasprintf("tests/corpus/%s", file);
	STR_AUTO file_text = file_load(path);
	struct span text = str_view(&file_text);
	json_auto_t *got = outcome_of(s, DIALECT_V1, text, NULL);
	json_auto_t *job = json_load_path(path);
	const json_t *listed = json_object_get(refused, file);
	if (!json_is_true(json_object_get(got, "accepted"))) {
		check_refused(t, file, got, listed);
	} else if (tally_check(t, !listed, "v1 %s: accepted", file)) {
		struct pair p = { .file = file, .job = job };
		check_accepted(t, d, &p, json_object_get(row, "framework"),
		               json_object_get(got, "framework"));
		FREE_AUTO char *wrong = golden_sent(s, text);
		(void)tally_check(t, !*wrong, "v1 %s: %s", file, wrong);
	}
}

void golden_v1(struct tally *t, struct deviations *d)
{
	AUTO(setting_done) struct setting s;
	if (!tally_test(t, "v1"))
		return;
	setting_init(&s, SETTING_BASE);
	json_auto_t *rows = jsonl_load("tests/golden/v1-restlit.jsonl");
	json_auto_t *refused = json_load_path("tests/golden/v1-refused.json");
	size_t i;
	json_t *row;
	json_array_foreach (rows, i, row)
		check_file(t, d, &s, row, refused);
}
