/* The rules; see leftover.h. */
#include "k8s/gc/leftover.h"

#include "k8s/submit/marks.h"

enum { HASH = 32, SUBMISSION = 32 }; /* hex digits of names and of submission ids */

static bool is_null(const json_t *j)
{
	return j == NULL || json_is_null(j);
}

static const char *name_of(const json_t *object)
{
	return reply_text(json_object_get(object, "metadata"), "name");
}

static bool is_ours(const json_t *object, const struct home *home)
{
	return strcmp(mark_label(object, "rest-lit/instance"), home->instance) == 0 &&
	       is_hex(mark_annotation(object, "rest-lit/submission"), SUBMISSION) &&
	       !mark_is_going(object);
}

bool leftover_listed(const json_t *object, const struct home *home)
{
	return is_hex(name_of(object), HASH) && is_ours(object, home) && mark_is_creating(object);
}

/* Absent, null or 0: what counts attempts counts none. */
static bool is_nothing(const json_t *number)
{
	return is_null(number) || (json_is_integer(number) && json_integer_value(number) == 0);
}

/* FrameworkController has seen it at most, and done nothing. */
static bool is_untouched(const json_t *status)
{
	if (is_null(status))
		return true;
	const json_t *attempt = json_object_get(status, "attemptStatus");
	const json_t *retries = json_object_get(status, "retryPolicyStatus");
	return strcmp(reply_text(status, "state"), "AttemptCreationPending") == 0 &&
	       (is_null(attempt) || json_is_object(attempt)) &&
	       (is_null(retries) || json_is_object(retries)) &&
	       is_nothing(json_object_get(attempt, "id")) &&
	       is_null(json_object_get(attempt, "configMapUID")) &&
	       is_nothing(json_object_get(retries, "totalRetriedCount")) &&
	       is_null(json_object_get(status, "completionTime"));
}

bool leftover_framework(const json_t *object, const struct home *home, int64_t now_s, int64_t age_s)
{
	const char *type = reply_text(json_object_get(object, "spec"), "executionType");
	int64_t made_s = mark_made_s(object);
	return leftover_listed(object, home) && strcmp(type, "Create") == 0 &&
	       is_untouched(json_object_get(object, "status")) && made_s > 0 &&
	       now_s - made_s >= age_s; /* also not if now_s is 0 */
}

bool leftover_class(const json_t *object, const struct home *home)
{
	const char *name = name_of(object);
	char hash[HASH + 1] = "";
	if (strlen(name) != HASH + strlen("-priority") || strcmp(name + HASH, "-priority") != 0)
		return false;
	bytes_copy(hash, name, HASH);
	return is_hex(hash, HASH) && is_ours(object, home) &&
	       strcmp(mark_label(object, "rest-lit/namespace"), home->namespace_name) == 0;
}
