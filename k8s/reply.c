/* Reading what an API server answers; see reply.h. */
#include "k8s/reply.h"

enum { DEPTH_MAX = 64 };

static const char SUBMISSION[] = "rest-lit/submission";

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

bool reply_is_ours(struct span body, const char *submission_id)
{
	JSON_AUTO *object = reply_parse(body);
	const json_t *meta = json_object_get(object, "metadata");
	const json_t *annotations = json_object_get(meta, "annotations");
	const json_t *labels = json_object_get(meta, "labels");
	return strcmp(reply_text(annotations, SUBMISSION), submission_id) == 0 ||
	       strcmp(reply_text(labels, SUBMISSION), submission_id) == 0;
}
