#pragma once
/*
 * For the dialects with pods of Kubernetes: any text as a job of one of them. Whatever is accepted
 * is a Framework whose pods have nothing of the node, of other users or of the cluster, and no
 * account but that of this installation.
 */
#include <jansson.h>
#include <stdlib.h>

#include "base/object.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/lines.h"
#include "tests/lib/setting.h"
#include "translate/job/dialect.h"
#include "translate/job/job.h"
#include "translate/translate.h"

static const char *pods_text(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

static bool pods_listed(const char *const *list, const char *name)
{
	while (*list && strcmp(*list, name) != 0)
		list++;
	return *list != NULL;
}

static void pods_check_container(const json_t *c)
{
	static const char *const NEVER[] = { "envFrom", "lifecycle", "livenessProbe", NULL };
	const json_t *context = json_object_get(c, "securityContext");
	const char *key;
	json_t *v;
	size_t i;
	assert(json_is_false(json_object_get(context, "allowPrivilegeEscalation")));
	assert(!json_object_get(json_object_get(context, "capabilities"), "add"));
	assert(!json_object_get(context, "privileged"));
	json_object_foreach ((json_t *)(uintptr_t)c, key, v)
		assert(!pods_listed(NEVER, key));
	json_array_foreach (json_object_get(c, "env"), i, v) {
		const json_t *from = json_object_get(v, "valueFrom");
		assert(pods_text(v, "name")[0]);
		assert(!from || json_object_get(from, "fieldRef") ||
		       json_object_get(from, "resourceFieldRef"));
	}
	json_array_foreach (json_object_get(c, "volumeMounts"), i, v)
		assert(pods_text(v, "mountPath")[0] == '/');
}

static void pods_check_volume(const json_t *v)
{
	static const char *const KINDS[] = {
		"name", "emptyDir", "projected", "configMap", "persistentVolumeClaim",
		"nfs",  "hostPath", NULL
	};
	static const char *const MAPS[] = { "runtime-exit-spec-configuration", NULL };
	const json_t *map = json_object_get(v, "configMap");
	const char *key;
	json_t *member;
	const json_t *host = json_object_get(v, "hostPath");
	const json_t *nfs = json_object_get(v, "nfs");
	assert(json_object_size(v) == 2);
	/* the grants of tests/lib/setting.c */
	assert(!host || strncmp(pods_text(host, "path"), "/data/share", 11) == 0 ||
	       strncmp(pods_text(host, "path"), "/data/readonly", 14) == 0);
	assert(!nfs || strncmp(pods_text(nfs, "path"), "/export", 7) == 0);
	assert(!host || !strstr(pods_text(host, "path"), ".."));
	assert(!map || pods_listed(MAPS, pods_text(map, "name")));
	assert(!json_object_get(v, "projected") || strcmp(pods_text(v, "name"), "api-access") == 0);
	json_object_foreach ((json_t *)(uintptr_t)v, key, member)
		assert(pods_listed(KINDS, key));
}

static void pods_check_pod(const struct setting *s, const json_t *pod)
{
	static const char *const NEVER[] = { "hostNetwork",      "hostPID",
		                             "hostIPC",          "nodeName",
		                             "tolerations",      "affinity",
		                             "hostAliases",      "ephemeralContainers",
		                             "hostUsers",        "schedulerName",
		                             "nodeSelector",     "shareProcessNamespace",
		                             "runtimeClassName", NULL };
	const struct settings *set = translator_settings(s->translator);
	const json_t *spec = json_object_get(pod, "spec");
	const json_t *metadata = json_object_get(pod, "metadata");
	const char *key;
	json_t *v;
	size_t i;
	assert(strcmp(pods_text(spec, "serviceAccountName"), set->service_account) == 0);
	assert(json_is_false(json_object_get(spec, "automountServiceAccountToken")));
	assert(strcmp(pods_text(spec, "restartPolicy"), "Never") == 0);
	assert(strcmp(pods_text(json_object_get(metadata, "labels"), "userName"), TEST_USER) == 0);
	json_object_foreach ((json_t *)(uintptr_t)spec, key, v)
		assert(!pods_listed(NEVER, key));
	json_object_foreach ((json_t *)(uintptr_t)metadata, key, v)
		assert(strcmp(key, "labels") == 0 || strcmp(key, "annotations") == 0);
	json_array_foreach (json_object_get(spec, "containers"), i, v)
		pods_check_container(v);
	json_array_foreach (json_object_get(spec, "initContainers"), i, v)
		pods_check_container(v);
	json_array_foreach (json_object_get(spec, "volumes"), i, v)
		pods_check_volume(v);
	v = json_array_get(json_object_get(spec, "initContainers"), 0);
	assert(strcmp(pods_text(v, "name"), "init") == 0);
	v = json_array_get(json_object_get(spec, "containers"), 0);
	assert(strcmp(pods_text(v, "name"), "app") == 0);
}

static void pods_check_framework(const struct setting *s, struct span body)
{
	json_auto_t *v = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
	json_t *role;
	size_t i;
	assert(v);
	json_array_foreach (json_object_get(json_object_get(v, "spec"), "taskRoles"), i, role)
		pods_check_pod(s, json_object_get(json_object_get(role, "task"), "pod"));
}

static inline void pods_run(const char *dialect, struct span text)
{
	static struct setting s;
	static unsigned set;
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct objects objects = { 0 };
	if (!s.translator) {
		setting_init(&s, SETTING_PLAIN);
		assert(dialects_named(dialect, &set, &e) == 0);
	}
	struct job *job = job_read(s.translator, set, text, TEST_USER, &a, &warnings, &e);
	if (!job || job_build(s.translator, job, &s.facts, NULL, &a, &objects, &e)) {
		assert(e.http >= 400 && e.http < 500 && e.notes.n > 0);
		return;
	}
	assert(objects.n_checks == job->n_roles);
	pods_check_framework(&s, objects_framework(&objects)->body);
}
