/*
 * An Event says how often and when in one of two ways: count, firstTimestamp and lastTimestamp (the
 * kubelet, and whoever else writes v1), or eventTime and series (schedulers since 1.19).
 */
#include "k8s/cache/event_read.h"

#include "base/chars.h"

enum { PART_MAX = 63, INDEX_MAX = 9999 };

/* Up to the next '-', which is passed over. */
static bool take_part(struct span *rest, struct span *part)
{
	size_t n = 0;
	while (n < rest->n && is_lower_alnum(rest->p[n]))
		n++;
	if (n == 0 || n > PART_MAX || n == rest->n || rest->p[n] != '-')
		return false;
	*part = (struct span){ rest->p, n };
	*rest = (struct span){ rest->p + n + 1, rest->n - n - 1 };
	return true;
}

bool event_pod_name(struct span pod, struct span *framework, struct span *role, int64_t *index)
{
	if (!take_part(&pod, framework) || !take_part(&pod, role))
		return false;
	bool canonical = pod.n > 0 && is_digit(pod.p[0]) && (pod.n == 1 || pod.p[0] != '0');
	return canonical && parse_i64(pod, 0, INDEX_MAX, index) == 0;
}

static struct span text_of(struct span object, const char *key, struct arena *a)
{
	return span_cut(scan_text(scan_get(object, key), a), EVENT_TEXT_MAX);
}

static void read_source(struct span object, struct arena *a, struct event *out)
{
	struct span source = scan_get(object, "source");
	out->component = text_of(source, "component", a);
	out->host = text_of(source, "host", a);
	if (out->component.n == 0)
		out->component = text_of(object, "reportingComponent", a);
}

static void read_times(struct span object, struct event *out)
{
	struct span series = scan_get(object, "series");
	int64_t made = 0;
	int64_t at = 0;
	(void)scan_time_ms(scan_path(object, "metadata", "creationTimestamp"), &made);
	if (!scan_time_ms(scan_get(object, "eventTime"), &at))
		at = made;
	out->first_ms = at;
	(void)scan_time_ms(scan_get(object, "firstTimestamp"), &out->first_ms);
	out->last_ms = out->first_ms;
	(void)(scan_time_ms(scan_get(object, "lastTimestamp"), &out->last_ms) ||
	       scan_time_ms(scan_get(series, "lastObservedTime"), &out->last_ms));
	out->count = 1;
	(void)(scan_int(scan_get(object, "count"), 1, INT32_MAX, &out->count) ||
	       scan_int(scan_get(series, "count"), 1, INT32_MAX, &out->count));
}

bool event_read(struct span object, struct arena *a, struct event *out)
{
	*out = (struct event){ 0 };
	struct span involved = scan_get(object, "involvedObject");
	out->uid = text_of(scan_get(object, "metadata"), "uid", a);
	out->pod = text_of(involved, "name", a);
	if (out->uid.n == 0 || !span_is(text_of(involved, "kind", a), "Pod") ||
	    !event_pod_name(out->pod, &out->framework, &out->role, &out->index))
		return false;
	out->pod_uid = text_of(involved, "uid", a);
	out->type = text_of(object, "type", a);
	out->reason = text_of(object, "reason", a);
	out->message = span_cut(scan_text(scan_get(object, "message"), a), EVENT_MESSAGE_MAX);
	read_source(object, a, out);
	read_times(object, out);
	return true;
}
