#include "server/auth/finding.h"

#include <gnutls/gnutls.h>
#include <jansson.h>

#include "base/enc.h"
#include "k8s/transport/reply.h"

static struct span text_of(const json_t *v)
{
	const char *p = json_string_value(v);
	return (struct span){ p ? p : "", p ? json_string_length(v) : 0 };
}

static bool is_kind(const json_t *object, const char *kind)
{
	return span_is(text_of(json_object_get(object, "kind")), kind);
}

/* The data of a Secret: *out is NULL for one that is empty.  -1: this is no Secret. */
static int secret_data(const json_t *secret, json_t **out)
{
	json_t *data = json_object_get(secret, "data");
	*out = json_is_null(data) ? NULL : data;
	return !is_kind(secret, "Secret") || (*out && !json_is_object(data)) ? -1 : 0;
}

static bool same(struct span a, struct span b)
{
	return a.n == b.n && gnutls_memcmp(a.p, b.p, a.n) == 0;
}

enum finding finding_stored(struct span secret, struct span token)
{
	json_auto_t *object = reply_parse(secret);
	json_t *data;
	json_t *value;
	const char *key;
	if (secret_data(object, &data) < 0)
		return FINDING_NONE;
	/* Compared as they are stored: a text has but one base64. */
	STR_AUTO wanted = STR_SECRET(token.n * 2 + 8);
	str_base64(&wanted, token);
	bool found = false;
	json_object_foreach (data, key, value)
		found |= same(text_of(value), str_view(&wanted));
	return found ? FINDING_GOOD : FINDING_BAD;
}

enum finding finding_denied(struct span secret, const char *id)
{
	json_auto_t *object = reply_parse(secret);
	json_t *data;
	if (secret_data(object, &data) < 0)
		return FINDING_NONE;
	return json_object_get(data, id) ? FINDING_BAD : FINDING_GOOD;
}

static bool has_text(const json_t *list, const char *text)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (span_is(text_of(json_array_get(list, i)), text))
			return true;
	return false;
}

static void copy_text(char *out, size_t max, struct span text)
{
	size_t n = text.n <= max ? text.n : 0;
	memcpy(out, text.p, n);
	out[n] = '\0';
}

/* The one value of an extra attribute of the user, or "". */
static struct span extra_of(const json_t *user, const char *key)
{
	const json_t *list = json_object_get(json_object_get(user, "extra"), key);
	return text_of(json_array_size(list) == 1 ? json_array_get(list, 0) : NULL);
}

enum finding finding_review(struct span review, const char *audience, struct reviewed *out)
{
	json_auto_t *object = reply_parse(review);
	const json_t *status = json_object_get(object, "status");
	if (!is_kind(object, "TokenReview") || !json_is_object(status))
		return FINDING_NONE;
	const json_t *user = json_object_get(status, "user");
	struct span name = text_of(json_object_get(user, "username"));
	/* An API server that does not know audiences answers without them. */
	if (!json_is_true(json_object_get(status, "authenticated")) ||
	    !has_text(json_object_get(status, "audiences"), audience) || name.n == 0 ||
	    name.n > SUBJECT_MAX)
		return FINDING_BAD;
	copy_text(out->subject, SUBJECT_MAX, name);
	copy_text(out->pod_name, POD_NAME_MAX,
	          extra_of(user, "authentication.kubernetes.io/pod-name"));
	copy_text(out->pod_uid, POD_UID_MAX,
	          extra_of(user, "authentication.kubernetes.io/pod-uid"));
	return FINDING_GOOD;
}
