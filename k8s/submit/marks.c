/* Reading our marks; see marks.h. */
#include "k8s/submit/marks.h"

#include "k8s/submit/submission.h"

bool is_hex(const char *text, size_t n)
{
	return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

static const char *meta_text(const json_t *object, const char *map, const char *key)
{
	const json_t *meta = json_object_get(object, "metadata");
	return reply_text(map ? json_object_get(meta, map) : meta, key);
}

int64_t mark_made_s(const json_t *object)
{
	return reply_time(span_of(meta_text(object, NULL, "creationTimestamp")));
}

bool mark_is_going(const json_t *object)
{
	const json_t *when =
	    json_object_get(json_object_get(object, "metadata"), "deletionTimestamp");
	return when != NULL && !json_is_null(when);
}

const char *mark_label(const json_t *object, const char *key)
{
	return meta_text(object, "labels", key);
}

const char *mark_annotation(const json_t *object, const char *key)
{
	return meta_text(object, "annotations", key);
}

bool mark_is_creating(const json_t *object)
{
	const json_t *meta = json_object_get(object, "metadata");
	return json_object_get(json_object_get(meta, "labels"), "rest-lit/creating") != NULL;
}

bool mark_is_unstarted(const json_t *framework)
{
	const char *type = reply_text(json_object_get(framework, "spec"), "executionType");
	return mark_is_creating(framework) || strcmp(type, "Create") == 0;
}

bool mark_is_started(const json_t *framework)
{
	const char *type = reply_text(json_object_get(framework, "spec"), "executionType");
	return !mark_is_creating(framework) &&
	       (strcmp(type, "Start") == 0 || strcmp(type, "Stop") == 0);
}

bool mark_same_home(const json_t *a, const json_t *b)
{
	static const char *const HOME[] = { "rest-lit/instance", "rest-lit/namespace" };
	for (size_t i = 0; i < sizeof(HOME) / sizeof(*HOME); i++) {
		if (strcmp(mark_label(a, HOME[i]), mark_label(b, HOME[i])) != 0)
			return false;
	}
	return mark_label(a, HOME[0])[0] != '\0';
}

enum repeat mark_repeat(const json_t *framework, int64_t now_s, const char *key_body)
{
	const char *has = mark_annotation(framework, "rest-lit/idempotency");
	const char *dash = key_body ? strchr(key_body, '-') : NULL;
	int64_t made_s = mark_made_s(framework);
	if (dash == NULL || made_s == 0 || now_s == 0 || now_s - made_s >= SUBMISSION_KEY_S ||
	    mark_is_going(framework))
		return REPEAT_NONE;
	if (strncmp(has, key_body, (size_t)(dash - key_body) + 1) != 0)
		return REPEAT_NONE;
	if (strcmp(has, key_body) != 0)
		return REPEAT_OTHER_BODY;
	return mark_is_unstarted(framework) ? REPEAT_UNDER_WAY : REPEAT_DONE;
}
