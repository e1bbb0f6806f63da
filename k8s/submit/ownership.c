#include "k8s/submit/ownership.h"

#include "base/time.h"
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

int64_t ownership_created_s(const json_t *object)
{
	int64_t ms = 0;
	(void)rfc3339_read(span_of(meta_text(object, NULL, "creationTimestamp")), &ms);
	return ms / 1000;
}

bool ownership_is_deleting(const json_t *object)
{
	const json_t *when =
	    json_object_get(json_object_get(object, "metadata"), "deletionTimestamp");
	return when != NULL && !json_is_null(when);
}

const char *ownership_label(const json_t *object, const char *key)
{
	return meta_text(object, "labels", key);
}

const char *ownership_annotation(const json_t *object, const char *key)
{
	return meta_text(object, "annotations", key);
}

bool ownership_is_creating(const json_t *object)
{
	const json_t *meta = json_object_get(object, "metadata");
	return json_object_get(json_object_get(meta, "labels"), "rest-lit/creating") != NULL;
}

bool ownership_is_unstarted(const json_t *framework)
{
	const char *type = reply_text(json_object_get(framework, "spec"), "executionType");
	return ownership_is_creating(framework) || strcmp(type, "Create") == 0;
}

bool ownership_is_started(const json_t *framework)
{
	const char *type = reply_text(json_object_get(framework, "spec"), "executionType");
	return !ownership_is_creating(framework) &&
	       (strcmp(type, "Start") == 0 || strcmp(type, "Stop") == 0);
}

static bool ownership_is_null(const json_t *j)
{
	return j == NULL || json_is_null(j);
}

/* A count that is absent, null or 0. */
static bool is_nothing(const json_t *number)
{
	return ownership_is_null(number) ||
	       (json_is_integer(number) && json_integer_value(number) == 0);
}

bool ownership_is_untouched(const json_t *framework)
{
	const char *type = reply_text(json_object_get(framework, "spec"), "executionType");
	const json_t *status = json_object_get(framework, "status");
	if (strcmp(type, "Create") != 0 || ownership_is_null(status))
		return strcmp(type, "Create") == 0;
	const json_t *attempt = json_object_get(status, "attemptStatus");
	const json_t *retries = json_object_get(status, "retryPolicyStatus");
	return strcmp(reply_text(status, "state"), "AttemptCreationPending") == 0 &&
	       (ownership_is_null(attempt) || json_is_object(attempt)) &&
	       (ownership_is_null(retries) || json_is_object(retries)) &&
	       is_nothing(json_object_get(attempt, "id")) &&
	       ownership_is_null(json_object_get(attempt, "configMapUID")) &&
	       is_nothing(json_object_get(retries, "totalRetriedCount")) &&
	       ownership_is_null(json_object_get(status, "completionTime"));
}

bool ownership_same_home(const json_t *a, const json_t *b)
{
	static const char *const HOME[] = { "rest-lit/instance", "rest-lit/namespace" };
	for (size_t i = 0; i < ARRAY_SIZE(HOME); i++) {
		if (strcmp(ownership_label(a, HOME[i]), ownership_label(b, HOME[i])) != 0)
			return false;
	}
	return ownership_label(a, HOME[0])[0] != '\0';
}

enum repeat ownership_repeat(const json_t *framework, int64_t now_s, const char *key_body)
{
	const char *has = ownership_annotation(framework, "rest-lit/idempotency");
	const char *dash = key_body ? strchr(key_body, '-') : NULL;
	int64_t made_s = ownership_created_s(framework);
	if (dash == NULL || made_s == 0 || now_s == 0 || now_s - made_s >= SUBMISSION_KEY_S ||
	    ownership_is_deleting(framework))
		return REPEAT_NONE;
	if (strncmp(has, key_body, (size_t)(dash - key_body) + 1) != 0)
		return REPEAT_NONE;
	if (strcmp(has, key_body) != 0)
		return REPEAT_OTHER_BODY;
	return ownership_is_unstarted(framework) ? REPEAT_UNDER_WAY : REPEAT_DONE;
}
