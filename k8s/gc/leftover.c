/* The rules; see leftover.h. */
#include "k8s/gc/leftover.h"

#include <stdlib.h>

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

struct suspect *suspect_find(const struct suspects *s, const char *name, const char *uid)
{
	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->v[i].uid, uid) == 0 && strcmp(s->v[i].name, name) == 0)
			return &s->v[i];
	}
	return NULL;
}

static bool fits(const char *text, size_t room)
{
	size_t n = strnlen(text, room);
	return n > 0 && n < room;
}

struct suspect *suspect_note(struct suspects *s, const char *name, const char *uid, int64_t now_ms)
{
	struct suspect *one = suspect_find(s, name, uid);
	if (one != NULL || s->n == SUSPECTS_MAX || !fits(name, SUSPECT_NAME) ||
	    !fits(uid, SUSPECT_WORD))
		return one;
	if (s->v == NULL)
		s->v = xcalloc(SUSPECTS_MAX, sizeof(*s->v));
	one = &s->v[s->n++];
	*one = (struct suspect){ .since_ms = now_ms };
	bytes_copy(one->name, name, strlen(name));
	bytes_copy(one->uid, uid, strlen(uid));
	return one;
}

void suspect_forget(struct suspects *s, struct suspect *one)
{
	size_t i = (size_t)(one - s->v);
	memmove(one, one + 1, (--s->n - i) * sizeof(*one));
}

void suspects_keep_listed(struct suspects *s)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->n; i++) {
		if (!s->v[i].listed)
			continue;
		s->v[kept] = s->v[i];
		s->v[kept++].listed = false;
	}
	s->n = kept;
}

void suspects_done(struct suspects *s)
{
	free(s->v);
	*s = (struct suspects){ 0 };
}
