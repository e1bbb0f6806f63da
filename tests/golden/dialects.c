/* The examples of the MXNet operators against what was worked out by hand for them: task roles and
 * their order, numbers, policies, DMLC_* variables and commands; names and images are ours.  Then
 * the manifests of the launcher. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/golden.h"
#include "tests/lib/files.h"
#include "tests/lib/outcome.h"

static const char *text_at(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

static const json_t *pod_of(const json_t *role)
{
	const json_t *pod = json_object_get(json_object_get(role, "task"), "pod");
	return json_object_get(pod, "spec");
}

static json_t *variables(const json_t *pod, const char *list, const char *prefix)
{
	json_t *out = json_object();
	size_t i;
	json_t *v;
	const json_t *container = json_array_get(json_object_get(pod, list), 0);
	json_array_foreach (json_object_get(container, "env"), i, v)
		if (strncmp(text_at(v, "name"), prefix, strlen(prefix)) == 0)
			(void)json_object_set(out, text_at(v, "name"), json_object_get(v, "value"));
	return out;
}

/* Kubernetes makes one dollar of two; where it would not take one for its own, ours has one. */
static void undouble(json_t *variables)
{
	FREE_AUTO char *text = xstrdup(text_at(variables, "USER_CMD"));
	char *to = text;
	for (const char *p = text; *p; p++)
		if (p[0] != '$' || p[1] != '$')
			*to++ = *p;
	*to = '\0';
	(void)json_object_set_new(variables, "USER_CMD", json_string(text));
}

static void compare_json(struct tally *t, const char *where, json_t *want, json_t *got)
{
	FREE_AUTO char *a = json_dumps(want, JSON_ENCODE_ANY | JSON_SORT_KEYS);
	FREE_AUTO char *b = json_dumps(got, JSON_ENCODE_ANY | JSON_SORT_KEYS);
	(void)tally_check(t, json_equal(want, got), "%s: %s instead of %s", where, b, a);
}

static void compare_role(struct tally *t, const char *file, const json_t *want, const json_t *got)
{
	static const char *const MEMBERS[] = { "name", "taskNumber",
		                               "frameworkAttemptCompletionPolicy", NULL };
	FREE_AUTO char *where = xasprintf("%s: role %s", file, text_at(want, "name"));
	for (const char *const *m = MEMBERS; *m; m++)
		compare_json(t, where, json_object_get(want, *m), json_object_get(got, *m));
	compare_json(t, where, json_object_get(json_object_get(want, "task"), "retryPolicy"),
	             json_object_get(json_object_get(got, "task"), "retryPolicy"));
	json_t *a = variables(pod_of(want), "containers", "DMLC_");
	json_t *b = variables(pod_of(got), "containers", "DMLC_");
	compare_json(t, where, a, b);
	json_decref(a);
	json_decref(b);
	a = variables(pod_of(want), "initContainers", "USER_CMD");
	b = variables(pod_of(got), "initContainers", "USER_CMD");
	undouble(a);
	compare_json(t, where, a, b);
	json_decref(a);
	json_decref(b);
}

static void taken(struct tally *t, const struct setting *s, const char *file)
{
	FREE_AUTO char *job = xasprintf("tests/corpus/mxjob/%s.yaml", file);
	FREE_AUTO char *expected = xasprintf("tests/golden/mxjob/%s.framework.json", file);
	STR_AUTO text = file_load(job);
	json_auto_t *want = json_load_path(expected);
	json_auto_t *got = outcome_of(s, DIALECTS_ALL, str_view(&text), NULL);
	const json_t *ours = json_object_get(json_object_get(got, "framework"), "spec");
	const json_t *theirs = json_object_get(want, "spec");
	if (tally_check(t, ours, "%s is refused", file)) {
		const json_t *roles = json_object_get(ours, "taskRoles");
		size_t i;
		json_t *role;
		compare_json(t, file, json_object_get(theirs, "retryPolicy"),
		             json_object_get(ours, "retryPolicy"));
		(void)tally_check(t,
		                  json_array_size(roles) ==
		                      json_array_size(json_object_get(theirs, "taskRoles")),
		                  "%s: another number of roles", file);
		json_array_foreach (json_object_get(theirs, "taskRoles"), i, role)
			compare_role(t, file, role, json_array_get(roles, i));
	}
	FREE_AUTO char *wrong = golden_sent(s, str_view(&text));
	(void)tally_check(t, !*wrong, "%s: %s", file, wrong);
}

static void refused(struct tally *t, const struct setting *s, const char *file, const char *at)
{
	FREE_AUTO char *job = xasprintf("tests/corpus/mxjob/%s.yaml", file);
	STR_AUTO text = file_load(job);
	json_auto_t *got = outcome_of(s, DIALECTS_ALL, str_view(&text), NULL);
	json_t *note = json_array_get(json_object_get(got, "notes"), 0);
	(void)tally_check(t, strcmp(text_at(note, "at"), at) == 0, "%s: \"%s\" instead of \"%s\"",
	                  file, text_at(note, "at"), at);
}

static void launcher(struct tally *t, const struct setting *s, const char *file)
{
	FREE_AUTO char *job = xasprintf("tests/corpus/launcher/%s", file);
	STR_AUTO text = file_load(job);
	json_auto_t *got = outcome_of(s, DIALECTS_ALL, str_view(&text), NULL);
	json_t *spec = json_object_get(json_object_get(got, "framework"), "spec");
	const char *first = NULL;
	const char *second = NULL;
	int retries = 0;
	int each = 0;
	int rc = json_unpack(spec, "{s:{s:i}, s:[{s:s, s:{s:{s:i}}}, {s:s}]}", "retryPolicy",
	                     "maxRetryCount", &retries, "taskRoles", "name", &first, "task",
	                     "retryPolicy", "maxRetryCount", &each, "name", &second);
	(void)tally_check(t,
	                  rc == 0 && retries == 3 && each == 3 && strcmp(first, "worker") == 0 &&
	                      strcmp(second, "ps") == 0,
	                  "%s: other roles or policies", file);
	FREE_AUTO char *wrong = golden_sent(s, str_view(&text));
	(void)tally_check(t, !*wrong, "%s: %s", file, wrong);
}

void golden_dialects(struct tally *t)
{
	AUTO(setting_done) struct setting s;
	setting_init(&s, SETTING_PLAIN);
	if (tally_test(t, "dialects")) {
		static const char COMMAND[] = "/spec/replicaSpecs/0/template/spec/containers/0";
		taken(t, &s, "03-mxnet.mlkube-dist");
		taken(t, &s, "04-mxnet.mlkube-local");
		taken(t, &s, "05-helm-dist-rendered");
		taken(t, &s, "07-kubeflow-full-with-status");
		refused(t, &s, "01-mlkube-dist-a5126ca", COMMAND);
		refused(t, &s, "02-mlkube-local-a5126ca", COMMAND);
		refused(t, &s, "06-kubeflow-dist", COMMAND);
		refused(t, &s, "08-snake-case-master", "/spec/replica_specs");
		launcher(t, &s, "launcher-framework-1.yaml");
		launcher(t, &s, "launcher-framework-2.yaml");
	}
}
