/* Reading what an API server answers; see reply.h. */
#include "k8s/reply.h"

#include <stdio.h>

enum { DEPTH_MAX = 64, WORD_MAX = 200, FIELDS_MAX = 5 };

/* jansson allows 2048 levels; nothing that Kubernetes has needs more than 64. */
static bool too_deep(struct span text)
{
	size_t depth = 0;
	bool in_text = false;
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		if (in_text) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_text = false;
		} else if (c == '"') {
			in_text = true;
		} else if (c == '{' || c == '[') {
			if (++depth > DEPTH_MAX)
				return true;
		} else if ((c == '}' || c == ']') && depth > 0) {
			depth--;
		}
	}
	return false;
}

json_t *reply_parse(struct span body)
{
	if (too_deep(body))
		return NULL;
	json_t *j = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(j))
		return j;
	json_decref(j);
	return NULL;
}

const char *reply_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

/* A word or a field path, as far as it has nothing else in it. */
static bool is_harmless(const char *text)
{
	size_t n = strlen(text);
	return n > 0 && n <= WORD_MAX &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	                    "._-/[]") == n;
}

void reply_digest(struct str *out, const json_t *status)
{
	if (strcmp(reply_text(status, "kind"), "Status") != 0)
		return;
	const char *reason = reply_text(status, "reason");
	str_puts(out, is_harmless(reason) ? reason : "no reason given");
	json_t *causes = json_object_get(json_object_get(status, "details"), "causes");
	size_t named = 0;
	size_t i;
	json_t *cause;
	json_array_foreach (causes, i, cause) {
		const char *field = reply_text(cause, "field");
		if (named == FIELDS_MAX || !is_harmless(field))
			continue;
		str_printf(out, "%s%s", named++ ? ", " : ": ", field);
	}
}

bool reply_is_not_found(const json_t *status, const char *name)
{
	const json_t *details = json_object_get(status, "details");
	return strcmp(reply_text(status, "kind"), "Status") == 0 &&
	       strcmp(reply_text(status, "reason"), "NotFound") == 0 &&
	       strcmp(reply_text(details, "name"), name) == 0;
}

const char *reply_mark(const json_t *object, const char *mark)
{
	const json_t *meta = json_object_get(object, "metadata");
	char key[64];
	(void)snprintf(key, sizeof(key), "rest-lit/%s", mark);
	const char *text = reply_text(json_object_get(meta, "annotations"), key);
	return text[0] != '\0' ? text : reply_text(json_object_get(meta, "labels"), key);
}

bool reply_is_ours(struct span body, const char *submission_id)
{
	JSON_AUTO *object = reply_parse(body);
	return strcmp(reply_mark(object, "submission"), submission_id) == 0;
}

bool reply_same_instance(struct span body, struct span other)
{
	JSON_AUTO *a = reply_parse(body);
	JSON_AUTO *b = reply_parse(other);
	const char *instance = reply_mark(a, "instance");
	return instance[0] != '\0' && strcmp(instance, reply_mark(b, "instance")) == 0;
}
