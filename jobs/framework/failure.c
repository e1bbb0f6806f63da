/* Turns a failed or refused pod into an outcome, by the first pattern of the configuration that
 * matches. */
#include <stdlib.h>

#include "base/regex/regex.h"
#include "jobs/framework/framework_internal.h"

/* Diagnostics: a message has at most 4096 bytes in a cluster; escaped, six times as many. */
enum { DIAGNOSTICS_MAX = 1 << 20, SHOWN_MAX = 64 << 10 };

/* ---- completionStatus.pod ---- */

static void failure_pod(struct str *out, const struct framework_pod *pod)
{
	str_char(out, '{');
	fw_put_member_if_set(out, "reason", pod->reason);
	fw_put_member_if_set(out, "message", pod->message);
	if (pod->n_containers)
		json_put_open(out, "containers", '[');
	for (size_t i = 0; i < pod->n_containers; i++) {
		const struct framework_container *c = &pod->containers[i];
		json_put_open(out, NULL, '{');
		fw_put_member_if_set(out, "name", c->name);
		if (c->terminated) {
			fw_put_member_if_set(out, "reason", c->reason);
			fw_put_member_if_set(out, "message", c->message);
			if (c->signal)
				json_put_int(out, "signal", c->signal);
		}
		json_put_int(out, "code", c->terminated ? c->code : 0);
		str_char(out, '}');
	}
	str_puts(out, pod->n_containers ? "]}" : "}");
}

char *fw_more_pod(const struct framework_pod *pod)
{
	STR_AUTO out = STR_INIT(DIAGNOSTICS_MAX);
	str_puts(&out, "\"pod\":");
	failure_pod(&out, pod);
	return out.full ? xstrdup("\"pod\":{}") : str_take(&out);
}

/* ---- patterns ---- */

/* The part of the text that the pattern hits, appended as a member.  false: it does not match. */
static bool failure_match(struct str *out, const char *key, struct regex *re, const char *text,
                          bool always)
{
	struct text_span t;
	struct match m;
	if (!re)
		return true;
	text = text ? text : "";
	regex_text_of(&t, span_of(text));
	if (regex_search(re, &t.text, INT64_MAX, &m) != REGEX_FOUND)
		return false;
	FREE_AUTO char *hit = xstrndup(text + m.start, m.end - m.start);
	if (hit[0] || always)
		fw_put_text_member(out, key, hit);
	return true;
}

/* The texts of a pod or a container. */
static bool failure_match_texts(struct str *out, const struct fw_pattern *p, const char *name,
                                const char *reason, const char *message)
{
	return failure_match(out, "name", p->name, name, true) &&
	       failure_match(out, "reason", p->reason, reason, false) &&
	       failure_match(out, "message", p->message, message, false);
}

static bool failure_given(struct fw_range r)
{
	return r.min != INT64_MIN || r.max != INT64_MAX;
}

static bool failure_match_container(struct str *out, const struct fw_pattern *p,
                                    const struct framework_container *c)
{
	bool of_end = p->reason || p->message || failure_given(p->signal) || failure_given(p->code);
	str_char(out, '{');
	if ((of_end && !c->terminated) ||
	    !failure_match_texts(out, p, c->name, c->reason, c->message) ||
	    c->signal < p->signal.min || c->signal > p->signal.max || c->code < p->code.min ||
	    c->code > p->code.max)
		return false;
	if (failure_given(p->signal) && c->signal)
		json_put_int(out, "signal", c->signal);
	if (failure_given(p->code))
		json_put_int(out, "code", c->code);
	str_char(out, '}');
	return true;
}

/* Appends the first container that matches; a match that names nothing is left out. */
static bool failure_match_any(struct str *out, const struct fw_pattern *p,
                              const struct framework_pod *pod, bool *first)
{
	for (size_t i = 0; i < pod->n_containers; i++) {
		STR_AUTO one = STR_INIT(SHOWN_MAX);
		if (!failure_match_container(&one, p, &pod->containers[i]))
			continue;
		if (one.n == strlen("{}"))
			return true;
		if (*first)
			json_put_open(out, "containers", '[');
		json_put_raw(out, NULL, str_view(&one));
		out->full |= one.full;
		*first = false;
		return true;
	}
	return false;
}

static bool failure_match_pod(struct str *out, const struct fw_pattern *p, const char *name,
                              const struct framework_pod *pod)
{
	bool first = true;
	str_char(out, '{');
	if (!failure_match_texts(out, p, name, pod->reason, pod->message))
		return false;
	for (size_t i = 0; i < p->n; i++)
		if (!failure_match_any(out, &p->containers[i], pod, &first))
			return false;
	str_puts(out, first ? "}" : "]}");
	return true;
}

static struct fw_outcome *failure_unmatched(const struct framework_pod *pod)
{
	/* The failed container that ended last; of several, the first. */
	const struct framework_container *last = NULL;
	for (size_t i = 0; i < pod->n_containers; i++) {
		const struct framework_container *c = &pod->containers[i];
		if (c->terminated && c->code && (!last || last->finished_s < c->finished_s))
			last = c;
	}
	STR_AUTO says = STR_INIT(DIAGNOSTICS_MAX);
	str_puts(&says, "Pod failed: PodPattern unmatched: ");
	failure_pod(&says, pod);
	return last ? fw_outcome_make(last->code, false, "ContainerUnrecognizedFailed", "[]",
	                              str_c(&says))
	            : fw_outcome_new(FW_NO_FAILED_CONTAINER, str_c(&says));
}

struct fw_outcome *fw_pod_failed(const struct framework_config *c, const char *name,
                                 const struct framework_pod *pod)
{
	struct fw_outcome *o = NULL;
	for (size_t i = 0; i < c->n_failures && !o; i++) {
		const struct fw_failure *f = &c->failures[i];
		for (size_t k = 0; k < f->n && !o; k++) {
			STR_AUTO says = STR_INIT(DIAGNOSTICS_MAX);
			str_puts(&says, "Pod failed: PodPattern matched: ");
			if (failure_match_pod(&says, &f->patterns[k], name, pod))
				o = fw_outcome_make(f->code, false, f->phrase, f->attributes,
				                    str_c(&says));
		}
	}
	if (!o)
		o = failure_unmatched(pod);
	o->more = fw_more_pod(pod);
	return o;
}

/* ---- refused pods ---- */

/* The object with these texts; it stays open. */
static void failure_texts(struct str *out, const char *key, const json_t *from,
                          const char *const *keys)
{
	json_put_open(out, key, '{');
	for (; *keys; keys++)
		fw_put_member_if_set(out, *keys, reply_text(from, *keys));
}

/* metav1.Status as Go writes it. */
static void failure_status(struct str *out, const json_t *status, int http)
{
	static const char *const DETAILS[] = { "name", "group", "kind", "uid", NULL };
	static const char *const CAUSE[] = { "reason", "message", "field", NULL };
	str_puts(out, "{\"metadata\":{}");
	fw_put_member_if_set(out, "status", reply_text(status, "status"));
	fw_put_member_if_set(out, "message", reply_text(status, "message"));
	fw_put_member_if_set(out, "reason", reply_text(status, "reason"));
	const json_t *details = json_object_get(status, "details");
	if (json_is_object(details)) {
		const json_t *causes = json_object_get(details, "causes");
		size_t n = json_array_size(causes);
		failure_texts(out, "details", details, DETAILS);
		if (n)
			json_put_open(out, "causes", '[');
		for (size_t i = 0; i < n; i++) {
			failure_texts(out, NULL, json_array_get(causes, i), CAUSE);
			str_char(out, '}');
		}
		str_puts(out, n ? "]}" : "}");
	}
	json_put_int(out, "code", http);
	str_char(out, '}');
}

struct fw_outcome *fw_pod_refused(int http, const json_t *status)
{
	enum { BAD_REQUEST = 400, FORBIDDEN_STATUS = 403, TOO_LARGE_STATUS = 413, INVALID = 422 };
	const char *message = reply_text(status, "message");
	if (strstr(message, "exceeded quota") || strstr(message, "object provided is unrecognized"))
		return NULL;
	int32_t code;
	if (http == INVALID || http == TOO_LARGE_STATUS)
		code = FW_POD_REFUSED;
	else if (http == BAD_REQUEST || http == FORBIDDEN_STATUS)
		code = FW_POD_REFUSED_UNKNOWN;
	else
		return NULL;
	STR_AUTO says = STR_INIT(DIAGNOSTICS_MAX);
	str_puts(&says, "Failed to create Pod: {\"ErrStatus\":");
	failure_status(&says, status, http);
	str_char(&says, '}');
	return fw_outcome_new(code, str_c(&says));
}
