#pragma once
/* A world for FrameworkController's machine in which all ConfigMaps and pods are alike. */
#include <stdlib.h>

#include "base/json/scan.h"
#include "jobs/framework/framework.h"

enum toy_mode {
	TOY_NOTHING,
	TOY_LIVE,
	TOY_FAILED,
	TOY_DYING,
	TOY_REFUSES,
	TOY_PENDING,
	TOY_UNKNOWN,
	TOY_MODES
};

struct toy {
	enum toy_mode mode;
	size_t asked;
	const struct framework *f; /* NULL: the bodies of its objects are not made */
};

static enum framework_presence toy_presence(const struct toy *t)
{
	return t->mode == TOY_NOTHING   ? FRAMEWORK_ABSENT
	       : t->mode == TOY_UNKNOWN ? FRAMEWORK_UNKNOWN
	                                : FRAMEWORK_THERE;
}

static enum framework_presence toy_configmap(void *arg, const char *name, const char *uid,
                                             struct framework_configmap *out)
{
	const struct toy *t = arg;
	(void)uid;
	(void)name;
	*out = (struct framework_configmap){ "cm", "u", t->mode == TOY_DYING };
	return toy_presence(t);
}

static enum framework_presence toy_pod(void *arg, const char *name, const char *uid,
                                       struct framework_pod *out)
{
	static const struct framework_container C = { "main", "Error", "it \xff<failed>", true, 7,
		                                      0,      5 };
	const struct toy *t = arg;
	(void)name;
	(void)uid;
	*out = (struct framework_pod){ .uid = "p",
		                       .owner_uid = "cm",
		                       .dying = t->mode == TOY_DYING,
		                       .phase = t->mode == TOY_FAILED ? "Failed" : "Running",
		                       .containers = &C,
		                       .n_containers = 1 };
	return toy_presence(t);
}

static enum framework_answer toy_create(void *arg, const struct framework_object *object,
                                        struct framework_created *out)
{
	static json_t *status; /* members of wrong types; kept to the end */
	struct toy *t = arg;
	t->asked++;
	if (t->f) {
		STR_AUTO body = STR_INIT(FRAMEWORK_OBJECT_MAX);
		framework_object_write(t->f, object, &body);
		if (!body.full && !scan_valid(str_view(&body), SCAN_DEPTH_MAX))
			abort();
	}
	out->uid = object->kind == FRAMEWORK_POD ? "p" : "cm";
	out->http = 422;
	status = status
	             ?: json_pack("{s:{s:[i, {s:s}]}, s:i}", "details", "causes", 1, "reason", "r",
	                          "message", 4);
	out->status = status;
	return t->mode == TOY_REFUSES   ? FRAMEWORK_REFUSED
	       : t->mode == TOY_PENDING ? FRAMEWORK_PENDING
	                                : FRAMEWORK_DONE;
}

static enum framework_answer toy_remove(void *arg, const struct framework_delete *what)
{
	struct toy *t = arg;
	(void)what;
	t->asked++;
	return t->mode == TOY_PENDING ? FRAMEWORK_PENDING : FRAMEWORK_DONE;
}

/* A new machine that has read the object; NULL and *e if it refuses it. */
static struct framework *toy_machine(const struct framework_config *c, struct span object,
                                     struct err *e)
{
	struct framework *f = framework_new(c);
	if (framework_put(f, object, e) == 0)
		return f;
	framework_free(f);
	return NULL;
}

/* Some syncs in each mode, from 2020-09-13 on. */
static inline void toy_run(struct framework *f, int rounds)
{
	struct toy t = { .f = f };
	const struct framework_client w = { .arg = &t,
		                            .configmap = toy_configmap,
		                            .pod = toy_pod,
		                            .create = toy_create,
		                            .remove = toy_remove };
	for (int i = 0; i < rounds * TOY_MODES; i++) {
		struct framework_result r;
		t.mode = (enum toy_mode)(i / rounds);
		framework_sync(f, &w, 1600000000 + i, (uint64_t)i, &r);
		STR_AUTO status = STR_INIT(FRAMEWORK_OBJECT_MAX);
		framework_status_write(f, &status);
	}
}

/* One sync; returns the result. */
static struct framework_result toy_sync(struct framework *f, enum toy_mode mode, int64_t now_s)
{
	struct toy t = { .mode = mode, .f = f };
	const struct framework_client w = { .arg = &t,
		                            .configmap = toy_configmap,
		                            .pod = toy_pod,
		                            .create = toy_create,
		                            .remove = toy_remove };
	struct framework_result r;
	framework_sync(f, &w, now_s, (uint64_t)now_s, &r);
	return r;
}
