/* Events of pods: selection, limits and contents. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/kit.h"

#include "jobs/cache/events.h"

#define EVENTS_AUTO __attribute__((cleanup(events_cleanup))) struct events
static void events_cleanup(struct events *const *e)
{
	events_free(*e);
}

static const char MD5[] = "0123456789abcdef0123456789abcdef";

/* One of the kubelet's, of this pod, last seen so many seconds into a day. */
static void put(struct events *e, const char *uid, const char *pod, unsigned second)
{
	FREE_AUTO char *text = xasprintf(
	    "{\"metadata\":{\"uid\":\"%s\"},\"involvedObject\":{\"kind\":\"Pod\",\"name\":\"%s\","
	    "\"uid\":\"p1\"},\"type\":\"Warning\",\"reason\":\"Failed\",\"message\":\"m %s\","
	    "\"count\":3,\"firstTimestamp\":\"2026-11-22T00:00:00Z\","
	    "\"lastTimestamp\":\"2026-11-22T%02u:%02u:%02uZ\",\"source\":{\"component\":"
	    "\"kubelet\","
	    "\"host\":\"n1\"}}",
	    uid, pod, uid, second / 3600, second / 60 % 60, second % 60);
	assert_true(scan_valid(span_of(text), 16));
	events_change(e, span_of(text), true);
}

/* The uids, the last one first. */
static void assert_events(struct events *e, const char *framework, const char *wanted)
{
	STR_AUTO seen = STR_INIT(4096);
	struct event *v;
	size_t n = events_of(e, span_of(framework), &unit.a, &v);
	for (size_t i = 0; i < n; i++) {
		str_puts(&seen, i ? " " : "");
		str_span(&seen, v[i].uid);
	}
	assert_string_equal(str_c(&seen), wanted);
}

static bool read_of_pod(const char *pod, struct arena *a, struct event *e)
{
	STR_AUTO json = STR_INIT(4096);
	str_puts(&json,
	         "{\"metadata\":{\"uid\":\"u\"},\"involvedObject\":{\"kind\":\"Pod\",\"name\":");
	str_json(&json, span_of(pod));
	str_puts(&json, "}}");
	return event_read(arena_span(a, str_view(&json)), a, e);
}

TEST(test_pod_names_give_framework_and_role)
{
	static const char LONG[] =
	    "a123456789b123456789c123456789d123456789e123456789f123456789abc";
	static const struct {
		const char *pod;
		bool ok;
	} T[] = {
		{ "f-worker-0", true },    { "f-worker-9999", true }, { "f-worker-10000", false },
		{ "f-worker-01", false },  { "f-worker-", false },    { "f-worker--1", false },
		{ "f-worker-+1", false },  { "f--1", false },         { "-worker-1", false },
		{ "f-1", false },          { "f-a-b-1", false },      { "F-worker-1", false },
		{ "f.x-worker-1", false }, { "f-work_er-1", false },  { "", false },
		{ "f-worker-1 ", false },  { "f-worker-1\n", false },
	};
	struct event e;
	for (size_t i = 0; i < ARRAY_SIZE(T); i++)
		assert_int_equal(read_of_pod(T[i].pod, &unit.a, &e), T[i].ok);
	for (int more = 0; more < 2; more++) {
		FREE_AUTO char *pod = xasprintf("%s-%s%s-12", LONG, LONG, more ? "x" : "");
		assert_int_equal(read_of_pod(pod, &unit.a, &e), !more);
		assert_true(more || (span_is(e.role, LONG) && e.index == 12));
	}
}

TEST(test_members_of_an_event_are_kept)
{
	EVENTS_AUTO *e = events_new(1 << 20);
	struct event *v;
	FREE_AUTO char *pod = xasprintf("%s-worker-12", MD5);
	put(e, "u1", pod, 61);
	assert_int_equal(events_of(e, span_of(MD5), &unit.a, &v), 1);
	assert_true(span_is(v->uid, "u1") && span_is(v->framework, MD5) &&
	            span_is(v->role, "worker") && span_is(v->pod, pod) &&
	            span_is(v->pod_uid, "p1") && span_is(v->type, "Warning") &&
	            span_is(v->reason, "Failed") && span_is(v->message, "m u1") &&
	            span_is(v->component, "kubelet") && span_is(v->host, "n1"));
	assert_int_equal(v->index, 12);
	assert_int_equal(v->count, 3);
	assert_int_equal(v->last_ms - v->first_ms, 61000);
	assert_true(span_is(v->message, "m u1")); /* it is the arena's */
}

/* Events as schedulers write them since 1.19, and malformed ones. */
TEST(test_events_of_all_api_versions_are_read)
{
	static const char HEAD[] =
	    "{\"metadata\":{\"uid\":\"u\",\"creationTimestamp\":\"2026-11-22T00:00:01Z\"},"
	    "\"involvedObject\":{\"kind\":\"Pod\",\"name\":\"f-w-0\"}";
	static const struct {
		const char *rest;
		int64_t count, first_s, last_s; /* of that day */
		const char *component;
	} T[] = {
		{ ",\"eventTime\":\"2026-11-22T00:00:05.000000Z\",\"reportingComponent\":"
		  "\"hivedscheduler\","
		  "\"series\":{\"count\":7,\"lastObservedTime\":\"2026-11-22T00:00:09.000000Z\"},"
		  "\"firstTimestamp\":null,\"lastTimestamp\":null,\"source\":{},\"count\":null",
		  7, 5, 9, "hivedscheduler" },
		{ "", 1, 1, 1, "" },
		{ ",\"count\":\"3\",\"lastTimestamp\":7,\"source\":[],\"series\":1,\"message\":{}",
		  1, 1, 1, "" },
		{ ",\"count\":0,\"firstTimestamp\":\"2026-11-22T00:00:02Z\"", 1, 2, 2, "" },
	};
	int64_t day;
	assert_true(scan_time_ms(SPAN("\"2026-11-22T00:00:00Z\""), &day));
	for (size_t i = 0; i < sizeof(T) / sizeof(T[0]); i++) {
		struct event v;
		FREE_AUTO char *text = xasprintf("%s%s}", HEAD, T[i].rest);
		assert_true(scan_valid(span_of(text), 16));
		assert_true(event_read(span_of(text), &unit.a, &v));
		assert_int_equal(v.count, T[i].count);
		assert_int_equal(v.first_ms, day + T[i].first_s * 1000);
		assert_int_equal(v.last_ms, day + T[i].last_s * 1000);
		assert_true(span_is(v.component, T[i].component));
	}
}

TEST(test_events_of_other_objects_are_ignored)
{
	static const char *const T[] = {
		"{}",
		"[]",
		"{\"metadata\":{\"uid\":\"u\"},\"involvedObject\":{\"kind\":\"Node\",\"name\":\"f-"
		"w-0\"}}",
		"{\"metadata\":{},\"involvedObject\":{\"kind\":\"Pod\",\"name\":\"f-w-0\"}}",
		"{\"metadata\":{\"uid\":\"u\"},\"involvedObject\":{\"kind\":\"Pod\",\"name\":\"web-"
		"0\"}}",
		"{\"metadata\":{\"uid\":\"u\"},\"involvedObject\":\"Pod\"}",
	};
	struct event v;
	for (size_t i = 0; i < sizeof(T) / sizeof(T[0]); i++)
		assert_false(event_read(span_of(T[i]), &unit.a, &v));
}

TEST(test_long_texts_are_cut)
{
	enum { N = 6000 };
	char message[2 * N + 1];
	struct event v;
	for (size_t i = 0; i < N; i++) /* two bytes each, at odd offsets */
		memcpy(&message[2 * i], i ? "\xc3\xa4" : "x\xc3", 2);
	message[1] = 'y';
	message[(size_t)2 * N] = '\0';
	memmove(&message[1], message, (size_t)2 * N - 1);
	message[(size_t)2 * N] = '\0';
	message[(size_t)2 * N - 1] = 'z';
	message[(size_t)2 * N - 2] = 'z';
	FREE_AUTO char *text =
	    xasprintf("{\"metadata\":{\"uid\":\"u\"},\"involvedObject\":{\"kind\":\"Pod\",\"name\":"
	              "\"f-w-0\"},\"message\":\"%s\"}",
	              message);
	assert_true(event_read(span_of(text), &unit.a, &v));
	assert_in_range(v.message.n, EVENT_MESSAGE_MAX - 1, EVENT_MESSAGE_MAX);
	STR_AUTO whole = STR_INIT(EVENT_MESSAGE_MAX + 2);
	str_char(&whole, '"');
	str_span(&whole, v.message);
	str_char(&whole, '"');
	assert_true(scan_valid(str_view(&whole), 1)); /* it ends with a character */
}

TEST(test_events_are_sorted_and_updated)
{
	EVENTS_AUTO *e = events_new(1 << 20);
	put(e, "b", "f-w-0", 20);
	put(e, "a", "f-w-1", 30);
	put(e, "c", "f-w-0", 10);
	put(e, "x", "g-w-0", 5);
	assert_events(e, "f", "a b c");
	put(e, "c", "f-w-0", 40); /* again */
	assert_events(e, "f", "c a b");
	events_change(e,
	              SPAN("{\"metadata\":{\"uid\":\"a\"},\"involvedObject\":{\"kind\":\"Pod\","
	                   "\"name\":\"f-w-1\"}}"),
	              false);
	assert_events(e, "f", "c b");
	assert_events(e, "g", "x");
	assert_events(e, "h", "");
}

static void put_said(struct events *e, const char *uid, const char *pod, const char *reason,
                     const char *message)
{
	FREE_AUTO char *text = xasprintf(
	    "{\"metadata\":{\"uid\":\"%s\"},\"involvedObject\":{\"kind\":\"Pod\",\"name\":\"%s\","
	    "\"uid\":\"p1\"},\"type\":\"Warning\",\"reason\":\"%s\",\"message\":\"%s\"}",
	    uid, pod, reason, message);
	events_change(e, span_of(text), true);
}

static void assert_refusals(struct events *e, size_t wanted)
{
	struct span *v;
	assert_int_equal(events_refusals(e, &unit.a, &v), wanted);
	for (size_t i = 0; i < wanted; i++)
		assert_true(v[i].n == 1 && strchr("fg", v[i].p[0]));
}

TEST(test_refusals_of_images_are_told_from_other_failures)
{
	static const char GONE[] = "Failed to pull image 'x': reg.io/x: not found";
	static const char *const OTHERS[][2] = {
		{ "Failed", "Failed to pull image 'x': i/o timeout" },
		{ "Failed", "Error: ErrImagePull" },
		{ "Failed", "Error: exec: 'x': not found" }, /* of the command */
		{ "BackOff", "Back-off pulling image 'x': ErrImagePull: reg.io/x: not found" },
		{ "FailedMount", "MountVolume.SetUp failed: secret 'x' not found" },
		{ "InspectFailed", "Failed to inspect image 'x': i/o timeout" },
	};
	EVENTS_AUTO *e = events_new(1 << 20);
	for (size_t i = 0; i < ARRAY_SIZE(OTHERS); i++)
		put_said(e, "o", i % 2 ? "f-w-0" : "g-w-0", OTHERS[i][0], OTHERS[i][1]);
	assert_refusals(e, 0);
	put_said(e, "a", "f-w-0", "Failed", GONE);
	put_said(e, "b", "f-w-1", "Failed", GONE);
	put_said(e, "a", "f-w-0", "Failed", GONE); /* again */
	assert_refusals(e, 1);
	put_said(e, "c", "g-w-0", "InspectFailed",
	         "Failed to apply default image tag 'x': invalid reference format");
	assert_refusals(e, 2);
	events_begin(e);
	put_said(e, "c", "g-w-0", "InspectFailed", "x");
	events_end(e); /* f has none any more */
	assert_refusals(e, 1);
	events_begin(e);
	events_end(e);
	assert_refusals(e, 0);
}

/* The end of a list removes the events that were not in it. */
TEST(test_lists_remove_events_that_they_lack)
{
	EVENTS_AUTO *e = events_new(1 << 20);
	for (unsigned i = 0; i < 200; i++) {
		FREE_AUTO char *uid = xasprintf("u%u", i);
		FREE_AUTO char *pod = xasprintf("f%u-w-0", i % 20);
		put(e, uid, pod, i * 7919 % 1000);
	}
	events_begin(e);
	put(e, "u5", "f5-w-0", 1);
	put(e, "new", "f5-w-0", 2);
	assert_events(e, "f6", "u186 u26 u126 u66 u166 u6 u106 u46 u146 u86"); /* not yet */
	events_end(e);
	assert_events(e, "f5", "new u5");
	assert_events(e, "f6", "");
}

TEST(test_events_stay_within_their_limits)
{
	EVENTS_AUTO *e = events_new(64 << 10);
	for (unsigned i = 0; i < 200; i++) { /* of one Framework: the last 64 */
		FREE_AUTO char *uid = xasprintf("u%u", i);
		put(e, uid, "f-w-0", i);
	}
	struct event *v;
	assert_int_equal(events_of(e, SPAN("f"), &unit.a, &v), EVENTS_PER_FRAMEWORK);
	assert_true(span_is(v[0].uid, "u199") && span_is(v[63].uid, "u136"));
	put(e, "old", "f-w-0", 0); /* older than all */
	assert_int_equal(events_of(e, SPAN("f"), &unit.a, &v), EVENTS_PER_FRAMEWORK);
	/* of all: what fits, whichever order they come in */
	for (unsigned i = 0; i < 1000; i++) {
		FREE_AUTO char *uid = xasprintf("v%u", i);
		FREE_AUTO char *pod = xasprintf("g%u-w-0", i);
		put(e, uid, pod, 1000 + i * 7919 % 1000);
	}
	assert_events(e, "f", "");
	size_t kept = 0;
	unsigned oldest = 2000;
	unsigned newest_gone = 0;
	for (unsigned i = 0; i < 1000; i++) {
		FREE_AUTO char *name = xasprintf("g%u", i);
		unsigned at = 1000 + i * 7919 % 1000;
		if (events_of(e, span_of(name), &unit.a, &v)) {
			kept++;
			oldest = at < oldest ? at : oldest;
		} else {
			newest_gone = at > newest_gone ? at : newest_gone;
		}
	}
	assert_in_range(kept, 20, 200);
	assert_true(newest_gone < oldest);
}

TEST(test_trouble_is_reported_until_it_ends)
{
	EVENTS_AUTO *e = events_new(1 << 20);
	assert_non_null(events_problem(e, &unit.a)); /* nothing is known yet */
	events_note_trouble(e, NULL);
	assert_null(events_problem(e, &unit.a));
	events_note_trouble(e, "why");
	assert_string_equal(events_problem(e, &unit.a), "why");
	events_free(NULL);
}
